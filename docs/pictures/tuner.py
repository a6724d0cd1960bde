"""Take the pictures of docs/tuner.md and docs/item-criteria.md: ``python docs/pictures/tuner.py [FOLDER]``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1] / "tests" / "support"))

from labs import Notebook, missing, running_browser, running_lab  # noqa: E402  # lies in the folder named above

TALL = 3_600  # the whole tuner is visible: what is below the fold would be left out
WIDTHS = {"": 1400, "-narrow": 900}
THEMES = {"": "JupyterLab Light", "-dark": "JupyterLab Dark"}
START = """\
import evalkit as ek, pandas as pd
items, labels = ek.load_example("support")
jury = ["fake:strict", "fake:lenient", "fake:verbose"]
"""
EDITED = """\
tuner = ek.RubricTuner(items, "faithfulness", jury, labels, name="edited")
tuner.run()
tuner.edit("faithfulness", scale={2: "Supported in the main; minor additions are acceptable."})
tuner.run()
tuner"""
# four copies of the items, so that there are labels to hold out
COPIES = """\
def copied(table, at):
    marks = {name: table[name] + f"-{at}" for name in ("item_id", "group_id") if name in table}
    return table.assign(**marks, **({"answer": table["answer"] + " " * at} if "answer" in table else {}))
items, labels = (pd.concat([copied(table, at) for at in range(4)], ignore_index=True) for table in (items, labels))
"""
SUGGESTED = """\
tuner = ek.RubricTuner(items, "faithfulness", jury, labels, name="suggested")
tuner.run()
tuner.suggest("fake:strict")
tuner.try_edit(0)
tuner"""

CRITERIA = f"""\
import sys; sys.path.insert(0, {str(FOLDER.parents[1] / "tests" / "support")!r})
from pathlib import Path
import evalkit as ek
from own_criteria import evaluated, items
ek.notebook.JudgmentBrowser(evaluated(items(6), Path("replies")))"""


def photograph(page: Any, shown: Any, path: Path, theme: str | None = None) -> None:
    """Write a picture of what is shown, in a theme of JupyterLab (by default the present one), in few colours."""
    from PIL import Image

    if theme is not None:
        page.evaluate(f"() => window.jupyterapp.commands.execute('apputils:change-theme', {{theme: '{theme}'}})")
        page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{str('Light' in theme).lower()}'")
    page.wait_for_timeout(700)
    shown.screenshot(path=path)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(96, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def take(page: Any, shown: Any, folder: Path, name: str, *, wide: bool = False, light: bool = False) -> None:
    """One state in both widths and themes, or in fewer."""
    widths, themes = {"": WIDTHS[""]} if wide else WIDTHS, {"": THEMES[""]} if light else THEMES
    for width, pixels in widths.items():
        page.set_viewport_size({"width": pixels, "height": TALL})
        for theme, chosen in themes.items():
            photograph(page, shown, folder / f"{name}{width}{theme}.png", chosen)


def take_criteria(notebook: Notebook, folder: Path) -> None:
    """A criterion of an item in the browser of judgments; its judges are invented."""
    browser = notebook.open(CRITERIA).tuner
    browser.locator("tr[data-id='task-1#9']").click()
    browser.locator(".ekw-siblings").first.wait_for()
    notebook.page.set_viewport_size({"width": 1400, "height": TALL})
    photograph(notebook.page, browser, folder / "item-criteria.png", THEMES[""])


def main(folder: Path) -> None:
    """Write every picture into `folder`."""
    if why := missing():
        sys.exit(why)
    with tempfile.TemporaryDirectory() as root, running_lab(Path(root)) as lab, running_browser() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": TALL})
        page.set_default_timeout(60_000)
        tuner = Notebook(page, lab).open(START + EDITED).tuner
        tuner.locator("tr[data-id]").first.wait_for()
        take(page, tuner, folder, "tuner")
        tuner.locator("tr[data-id]").first.click()
        tuner.locator(".ekw-judges").wait_for()
        take(page, tuner, folder, "tuner-item")
        tuner = Notebook(page, lab).open(START + COPIES + SUGGESTED).tuner
        tuner.locator("tr[data-id]").first.wait_for()
        tuner.get_by_text("Suggestions: 3").click()
        page.set_viewport_size({"width": 1400, "height": TALL})
        photograph(page, tuner, folder / "tuner-suggestions.png")
        take_criteria(Notebook(page, lab), folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
