"""The tuner as a person meets it: in JupyterLab, by mouse and keyboard."""

from __future__ import annotations

import json

import pytest
from servers import judge_server

pytestmark = [pytest.mark.browser, pytest.mark.network]

SUPPORT = """\
import evalkit as ek
items, labels = ek.load_example("support")
jury = ["fake:strict", "fake:lenient", "fake:verbose"]
tuner = ek.RubricTuner(items, "faithfulness", jury, labels)
tuner"""
FORGIVING = "Supported in the main. What matters is stated in the context; minor or small additions are acceptable."

OWN = """\
import evalkit as ek, pandas as pd
names, answers = [f"i{{at:02d}}" for at in range(24)], [f"ITEM-{{at % 3}} number {{at}}" for at in range(24)]
items = pd.DataFrame({{"item_id": names, "answer": answers}})
rubric = ek.Rubric(id="own", description="Is it so?", inputs=["answer"], template="number@v1",
    criteria=[{{"name": "so", "scale": {{0: "no", 1: "nearly", 2: "yes"}}, "pass_at": 2}}])
judge = ek.Judge("openai", "m", name="{name}", base_url="{url}")
ek.RubricTuner(items, rubric, {jury}, samples=1, retries=0, concurrency=2)"""


def tile(tuner, title):
    return tuner.locator(".ekw-tile").filter(has=tuner.page.get_by_text(title, exact=True))


def run(tuner):
    tuner.get_by_role("button", name="Run").click()


def test_a_person_tunes_a_rubric_and_finds_everything_after_a_restart(notebook):
    from playwright.sync_api import expect

    tuner = notebook.open(SUPPORT).tuner
    expect(tuner.get_by_text("216 judgments")).to_be_visible()  # the plan, before anything is asked
    run(tuner)
    agreement = tile(tuner, "Agreement with people").locator("b")
    expect(agreement).to_contain_text("[")
    before = agreement.inner_text()

    # edit a level, run: what changed, and how much of it chance would have
    tuner.get_by_label("What level 2 means").fill(FORGIVING)
    expect(tuner.get_by_text("edited")).to_be_visible()
    run(tuner)
    expect(tile(tuner, "Changed")).to_contain_text("by chance, against v1")
    expect(tile(tuner, "Changed")).to_contain_text("fixed")
    expect(agreement).not_to_have_text(before)

    # a cell of the matrix is a filter
    wrong = tuner.locator(".ekw-cell.ekw-false-fail:enabled, .ekw-cell.ekw-false-pass:enabled").first
    wrong.click()
    expect(wrong).to_have_attribute("aria-pressed", "true")
    rows = tuner.locator("tr[data-id]")
    expect(tuner.get_by_text("of 24 items")).not_to_have_text("24 of 24 items")
    assert 0 < rows.count() < 24

    # open an item, label it
    item_id = rows.first.get_attribute("data-id")
    rows.first.click()
    item = tuner.get_by_role("region", name="Item", exact=True)
    expect(item.get_by_role("heading", name=item_id)).to_be_visible()
    expect(item.locator("article")).to_have_count(3)
    item.get_by_label("Annotator").fill("eva")
    item.get_by_label("Annotator").press("Tab")
    item.get_by_role("button", name="1", exact=True).click()
    expect(item.get_by_text("eva: 1")).to_be_visible()
    line = (notebook.folder / "faithfulness.labels.jsonl").read_text().strip().splitlines()[-1]
    assert {name: json.loads(line)[name] for name in ("item_id", "annotator", "label")} == {
        "item_id": item_id,
        "annotator": "eva",
        "label": "1",
    }

    # save: a file that was not there
    tuner.get_by_role("button", name="Save version").click()
    expect(tuner.get_by_text("saved as faithfulness@v2")).to_be_visible()
    assert FORGIVING in (notebook.folder / "rubrics" / "faithfulness" / "v2.yaml").read_text()

    # restart: all of it again, without a call
    shown = tile(tuner, "Agreement with people").inner_text()
    changed = tile(tuner, "Changed").inner_text()
    tuner = notebook.restart().tuner
    expect(tile(tuner, "Changed")).to_have_text(changed, use_inner_text=True)
    expect(tile(tuner, "Agreement with people")).to_have_text(shown, use_inner_text=True)
    expect(tuner.get_by_label("What level 2 means")).to_have_value(FORGIVING)
    tuner.locator(f"tr[data-id='{item_id}']").click()
    expect(tuner.get_by_text("eva: 1")).to_be_visible()
    tuner.get_by_text("Versions: 2").click()
    tuner.get_by_label("Compared with").select_option(label="nothing")
    expect(tile(tuner, "Changed")).to_contain_text("nothing to compare with")
    assert notebook.errors() == []
    assert notebook.page.console_errors == []


def test_stop_in_the_middle_and_run_on(notebook):
    from playwright.sync_api import expect

    with judge_server(always={"delay": 0.25}) as server:
        tuner = notebook.open(OWN.format(url=server.url, name="slow", jury="judge")).tuner
        run(tuner)
        expect(tuner.get_by_role("progressbar")).to_be_visible()
        expect(tuner.locator(".ekw-count")).to_contain_text("of 24 replies")
        notebook.page.wait_for_function(
            "() => parseInt(document.querySelector('.ekw-count')?.textContent.match(/\\d+ of/)?.[0] || 0) >= 2"
        )
        tuner.get_by_role("button", name="Stop").click()
        expect(tuner.locator(".ekw-said")).to_contain_text("stopped:")
        scored = tile(tuner, "Scored").locator("b")
        first = int(scored.inner_text().split(" of ")[0])
        assert 2 <= first < 24
        assert first == len(server.seen)
        expect(tuner.get_by_role("alert").first).to_contain_text("judge again, only the rest is paid")
        run(tuner)
        expect(scored).to_have_text("24 of 24")
        expect(tuner.get_by_role("alert").first).to_be_empty()
        assert len(server.seen) == 24
    assert notebook.page.console_errors == []


def test_faults_are_told_and_texts_of_others_do_nothing(notebook):
    from playwright.sync_api import expect

    cell = OWN.format(url="http://127.0.0.1:9/v1", name="<i>gone</i>", jury='[judge, "fake:strict"]')
    cell = cell.replace('f"ITEM-{at % 3} number {at}"', "f\"<img src=x onerror='window.harmed=1'> number {at}\"")
    tuner = notebook.open(cell).tuner
    run(tuner)
    alert = tuner.get_by_role("alert").first
    expect(alert).to_contain_text("<i>gone</i>")
    expect(alert).to_contain_text("of this judge are wrong, or it is down")
    expect(tile(tuner, "Scored")).to_contain_text("judgments unscored")
    alert.get_by_role("button", name="Dismiss the message").click()
    expect(alert).to_be_empty()
    tuner.locator("tr[data-id]").first.click()
    expect(tuner.get_by_role("region", name="Item", exact=True).locator("article")).to_have_count(2)
    expect(tuner.locator("dd", has_text="<img src=x")).to_be_visible()
    assert notebook.page.evaluate("() => [window.harmed, document.querySelectorAll('.ekw img, .ekw i i').length]") == [
        None,
        0,
    ]

    # a fault in the rubric, as it is typed
    code = tuner.get_by_label("Code of level 2")
    code.fill("0")
    expect(tuner.get_by_text("the code '0' stands twice")).to_be_visible()
    expect(tuner.get_by_role("button", name="Run")).to_be_disabled()
    code.fill("1")
    expect(tuner.get_by_text("stands twice")).to_have_count(0)
    expect(tuner.get_by_role("button", name="Run")).to_be_enabled()

    # the same as YAML
    tuner.get_by_role("button", name="YAML").click()
    yaml = tuner.get_by_label("Rubric as YAML")
    text = yaml.input_value()
    yaml.fill(text.replace("pass_at: 2", "pass_at: 9"))
    expect(tuner.locator(".ekw-problem")).to_contain_text("9")
    yaml.fill(text.replace("nearly", "almost"))
    expect(tuner.locator(".ekw-problem")).to_be_empty()
    tuner.get_by_role("button", name="YAML").click()
    expect(tuner.get_by_label("What level 1 means")).to_have_value("almost")
    assert notebook.page.console_errors == []


NAMELESS = """() => [...document.querySelectorAll('.ekw :is(button, input, select, textarea)')].filter((one) =>
    !(one.getAttribute('aria-label') || one.textContent.trim() || one.closest('label'))).map((one) => one.outerHTML)"""


def test_everything_can_be_done_by_keyboard_and_has_a_name(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    tuner = notebook.open(SUPPORT).tuner
    tuner.get_by_role("button", name="Run").focus()
    page.keyboard.press("Enter")
    rows = tuner.get_by_role("grid", name="Judged items").locator("tr[data-id]")
    expect(rows).to_have_count(24)
    assert rows.evaluate_all("(rows) => rows.filter((row) => row.tabIndex === 0).length") == 1
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    expect(rows.nth(1)).to_be_focused()
    expect(rows.nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("d")
    page.keyboard.press("d")  # would delete the cell, were the notebook to see it
    page.keyboard.press("End")
    expect(rows.last).to_be_focused()
    page.keyboard.press("Enter")
    item = tuner.get_by_role("region", name="Item", exact=True)
    expect(item).to_be_focused()
    expect(item.get_by_role("heading", name=rows.last.get_attribute("data-id"))).to_be_visible()
    page.keyboard.press("Escape")
    expect(rows.last).to_be_focused()
    split = tuner.get_by_role("button", name="Judges split")
    split.focus()
    page.keyboard.press("Space")
    expect(split).to_have_attribute("aria-pressed", "true")
    expect(split).to_be_focused()  # though the region was drawn anew
    expect(page.locator(".jp-CodeCell")).to_have_count(1)
    tuner.get_by_text("Jury: 3 judges").click()
    tuner.get_by_text("Versions: 1").click()
    assert page.evaluate(NAMELESS) == []
    assert page.console_errors == []


def test_nothing_is_wider_than_the_page_and_dark_is_dark(notebook):
    page = notebook.page
    tuner = notebook.open(SUPPORT).tuner
    run(tuner)
    tuner.locator("tr[data-id]").first.click()
    tuner.locator(".ekw-judges").wait_for()
    for width in (900, 1400, 1800):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"() => window.innerWidth === {width}")
        over = tuner.evaluate(
            "(el) => [el.scrollWidth - el.clientWidth, el.getBoundingClientRect().right - window.innerWidth]"
        )
        assert over[0] <= 1, width
        assert over[1] <= 0, width
    page.evaluate("() => window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'")
    ink, paper = tuner.evaluate("(el) => [getComputedStyle(el).color, getComputedStyle(el).backgroundColor]")
    light = [sum(map(float, colour[colour.index("(") + 1 : -1].split(",")[:3])) for colour in (ink, paper)]
    assert light[0] > 600 > 200 > light[1]


def test_judgments_are_browsed(notebook):
    from playwright.sync_api import expect

    cell = """\
import evalkit as ek
items, _ = ek.load_example("support")
ek.JudgmentBrowser(ek.judge(items, "faithfulness", ["fake:strict", "fake:lenient"], samples=1), items)"""
    browser = notebook.open(cell).tuner
    expect(tile(browser, "Scored")).to_contain_text("24 of 24")
    expect(browser.get_by_role("button", name="Run")).to_have_count(0)
    browser.get_by_label("Search items").fill("gym")
    expect(browser.locator(".ekw-foot")).to_contain_text("3 of 24 items")
    browser.locator("tr[data-id='gym-cora']").click()
    item = browser.get_by_role("region", name="Item", exact=True)
    expect(item.locator("article")).to_have_count(2)
    expect(item.get_by_label("Annotator")).to_have_count(0)
    assert notebook.errors() == []
    assert notebook.page.console_errors == []
