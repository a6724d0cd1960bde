"""axe-core on the tuner and the browser of judgments: no finding, light and dark, with everything open."""

from __future__ import annotations

from axe import dark, findings
from tuner_page import all_fields, notes

CELL = """\
import evalkit as ek
items, labels = ek.load_example("support")
jury = ["fake:strict", "fake:lenient", "fake:broken"]
tuner = ek.RubricTuner(items, "faithfulness", jury, labels)
tuner.run()
tuner.edit("faithfulness", scale={2: "Supported in the main; minor additions are acceptable."})
tuner.run()
tuner"""
BROWSER = """\
import evalkit as ek
items, _ = ek.load_example("support")
ek.notebook.JudgmentBrowser(ek.judge(items, "faithfulness", ["fake:strict", "fake:lenient"], samples=1), items)"""


def test_the_tuner_in_light_and_dark_before_and_after_drill_down(notebook):
    from playwright.sync_api import expect

    tuner = notebook.open(CELL).tuner
    page = notebook.page
    tuner.locator("tr[data-id]").first.wait_for()
    assert findings(page) == []
    # everything open: an item with its replies, jury, versions, suggestions one of which was tried, a fault
    tuner.locator(".ekw-cell:enabled").first.click()
    expect(tuner.locator(".ekw-cell:enabled").first).to_have_attribute("aria-pressed", "true")
    notes(tuner)
    tuner.locator(".ekw-columns-shown > summary").click()
    assert findings(page) == []
    tuner.locator(".ekw-columns-shown > summary").click()
    tuner.locator("tr[data-id]").first.click()
    tuner.locator(".ekw-prompt summary").click()
    for box in ("Jury: 3 judges", "Suggestions", "Versions: 2"):
        tuner.locator("summary", has_text=box).first.click()
    tuner.get_by_label("Judge that suggests edits").fill("fake:strict")
    tuner.get_by_role("button", name="Suggest edits").click()
    tuner.get_by_role("button", name="Try suggestion 1").click()
    expect(tuner.get_by_role("button", name="in the rubric")).to_be_visible()  # its effect is there too
    expect(tuner.get_by_role("button", name="Stop")).to_have_count(0)
    all_fields(tuner)
    tuner.get_by_label("Code of level 2").fill("0")
    expect(tuner.locator(".ekw-problem")).to_contain_text("duplicate code")
    assert findings(page) == []
    dark(page)
    assert findings(page) == []
    tuner.get_by_label("Code of level 2").fill("1")
    expect(tuner.locator(".ekw-problem")).to_be_empty()
    tuner.get_by_role("button", name="YAML").click()
    tuner.get_by_label("Rubric as YAML").wait_for()
    assert findings(page) == []


def test_the_label_queue(notebook):
    tuner = notebook.open(CELL).tuner
    page = notebook.page
    tuner.get_by_role("button", name="Label next").click()
    queue = tuner.get_by_role("region", name="Label queue")
    queue.locator(".ekw-levels button").first.click()
    queue.get_by_role("button", name="Undo").wait_for()
    assert findings(page) == []
    queue.get_by_label("Blind: hide the jury").uncheck()
    queue.locator(".ekw-judges summary").first.click()
    assert findings(page) == []
    dark(page)
    assert findings(page) == []
    queue.get_by_role("button", name="Close").click()
    notes(tuner)
    tuner.get_by_role("button", name="Count labels of me").wait_for()
    assert findings(page) == []


def test_the_browser_of_judgments_and_a_tuner_that_has_not_run(notebook):
    page = notebook.page
    last = CELL.splitlines()
    browser = notebook.open(
        BROWSER, "\n".join([*last[:3], "ek.RubricTuner(items, 'faithfulness', jury, labels, name='x')"])
    ).tuner
    browser.first.locator("tr[data-id]").first.click()
    browser.first.locator(".ekw-judges").wait_for()
    assert findings(page) == []
    dark(page)
    assert findings(page) == []


def test_a_finding_would_be_found(notebook):
    notebook.open(BROWSER).tuner.evaluate(
        "(el) => el.insertAdjacentHTML('beforeend', '<button></button><img src=\"data:,\">')"
    )
    assert sorted(one.split(":")[0] for one in findings(notebook.page)) == ["button-name", "image-alt"]
