"""The widget of wizard and run view: an anywidget whose script and style are files of this package."""

from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets

__all__ = ["RunScreen"]

_STATIC = Path(__file__).parent / "static"
_SCRIPTS = ("texts", "wizard", "runview")
_STYLES = ("tuner", "runs")


def _joined(names: tuple[str, ...], kind: str) -> str:
    """The files one after the other: an anywidget is one module, and may import nothing that lies beside it."""
    return "\n".join((_STATIC / f"{name}.{kind}").read_text(encoding="utf-8") for name in names)


class RunScreen(anywidget.AnyWidget):
    """What is on screen; it draws what the traits hold and sends back what a person does."""

    _esm = _joined(_SCRIPTS, "js")
    _css = _joined(_STYLES, "css")
    form = traitlets.Dict().tag(sync=True)
    choices = traitlets.Dict().tag(sync=True)
    check = traitlets.Dict().tag(sync=True)
    runs = traitlets.Dict().tag(sync=True)
    progress = traitlets.Dict().tag(sync=True)
    run = traitlets.Dict().tag(sync=True)
    page = traitlets.Dict().tag(sync=True)
    sample = traitlets.Dict().tag(sync=True)
    alert = traitlets.Unicode().tag(sync=True)
