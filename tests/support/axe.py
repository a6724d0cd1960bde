"""axe-core in a page, and what it finds in evalkit's widgets."""

from __future__ import annotations

import importlib.util
from pathlib import Path

# each widget by itself: two on a page have landmarks of the same names
RULES = """async () => {
    const found = [];
    for (const widget of document.querySelectorAll('.ekw')) {
        if (widget.parentElement.closest('.ekw')) continue;
        found.push(...(await axe.run(widget, {resultTypes: ['violations']})).violations);
    }
    return found.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html).join(' | ')}`);
}"""


# colours change by a transition
AT_REST = "() => !document.getAnimations().some((one) => one.effect?.target?.closest('.ekw'))"


def _axe() -> str:
    found = importlib.util.find_spec("axe_playwright_python")
    assert found is not None, "axe-playwright-python brings axe-core; it is in the extra dev"
    assert found.origin is not None
    return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")


def findings(page) -> list[str]:
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(_axe())
    page.wait_for_function(AT_REST)
    return page.evaluate(RULES)


def dark(page) -> None:
    page.evaluate("() => window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'")


# controls without a name
NAMELESS = """() => [...document.querySelectorAll('.ekw :is(button, input, select, textarea)')].filter((one) =>
    !(one.getAttribute('aria-label') || one.textContent.trim() || one.closest('label'))).map((one) => one.outerHTML)"""
