"""The label page in JupyterLab: its keys label, and do nothing to the notebook."""

from __future__ import annotations

from axe import findings

LAB = """\
import evalkit as ek
items = [{"item_id": f"i{at}", "answer": f"text {at}"} for at in range(4)]
rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": "so", "scale": {0: "no", 1: "yes"}}])
page = ek.notebook.LabelPage(items, rubric, annotator="Anna")
page"""


def test_keys_label_in_jupyterlab_and_leave_the_notebook_alone(notebook):
    from playwright.sync_api import expect

    page = notebook.open(LAB).tuner
    expect(page.get_by_text("0 of 4 done")).to_be_visible()
    n_cells = page.page.locator(".jp-Cell").count()
    page.locator(".ekw-read").click()
    for number in range(1, 4):
        page.page.keyboard.press("c")  # in command mode, these would copy, cut and delete cells
        page.page.keyboard.type(f"xdd{number}")
        page.page.keyboard.press("Escape")
        page.page.keyboard.press("1")
        page.page.keyboard.press("Enter")
        expect(page.get_by_text(f"{number} of 4 done")).to_be_visible()
    log = (notebook.folder / "r.labels.jsonl").read_text()
    assert log.count('"label":"1"') == 3
    assert '"comment":"xdd3"' in log
    assert page.page.locator(".jp-Cell").count() == n_cells
    assert findings(page.page) == []
