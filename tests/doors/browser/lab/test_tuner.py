"""The tuner as a person meets it: in JupyterLab, by mouse and keyboard."""

from __future__ import annotations

import json
import os
import re
import signal
import threading

import pytest
from axe import NAMELESS
from servers import judge_server
from tuner_page import FORGIVING, SUPPORT, all_fields, choose, notes, press, run, tile

OWN = """\
import evalkit as ek, pandas as pd
names, answers = [f"i{{at:02d}}" for at in range(24)], [f"ITEM-{{at % 3}} number {{at}}" for at in range(24)]
items = pd.DataFrame({{"item_id": names, "answer": answers}})
rubric = ek.Rubric(id="own", description="Is it so?", inputs=["answer"], template="number@v1",
    criteria=[{{"name": "so", "scale": {{0: "no", 1: "nearly", 2: "yes"}}, "pass_at": 2}}])
judge = ek.Judge("openai", "m", name="{name}", base_url="{url}")
tuner = ek.RubricTuner(items, rubric, {jury}, samples=1, retries=0, concurrency=2, cache="cache")
tuner"""


CHANCE = re.compile(
    r"from v1(\.\d)?( · [^·]* a verdict)? · Asking the same prompt again changes 0 to \d+ "
    r"\(measured: 0\.\d\d \[.*\] of \d+ items(; \d+ different texts or groups)?\)\. "
    r"The replies changed (no )?more than by chance, p [<\d.]+"
)


@pytest.mark.usefixtures("each_kernel")
def test_a_person_tunes_a_rubric_and_finds_everything_after_a_restart(notebook):
    from playwright.sync_api import expect

    tuner = notebook.open(SUPPORT).tuner
    expect(tuner.get_by_text("216 judgments")).to_be_visible()  # the plan, before anything is asked
    run(tuner)
    agreement = tile(tuner, "Agreement with people").locator("b")
    expect(agreement).to_contain_text("[")
    before = agreement.text_content()

    # edit a level, run: what changed, and how much of it chance would have
    tuner.get_by_label("What level 2 means").fill(FORGIVING)
    expect(tuner.get_by_text("v1.1, not run yet")).to_be_visible()
    run(tuner)
    expect(tile(tuner, "Changed")).to_contain_text(CHANCE)
    expect(tile(tuner, "Changed")).to_contain_text("fixed")
    expect(agreement).not_to_have_text(before)

    # a cell of the matrix is a filter
    wrong = tuner.locator(".ekw-cell.ekw-false-fail:enabled, .ekw-cell.ekw-false-pass:enabled").first
    wrong.click()
    expect(wrong).to_have_attribute("aria-pressed", "true")
    rows = tuner.locator("tr[data-id]")
    expect(tuner.get_by_text(re.compile("^(1?[0-9]|2[0-3]) of 24 items$"))).to_be_visible()
    assert 0 < rows.count() < 24

    # open an item, label it
    item_id = rows.first.get_attribute("data-id")
    rows.first.click()
    item = tuner.get_by_role("region", name="Item", exact=True)
    expect(item.get_by_role("heading", name=item_id)).to_be_visible()
    expect(item.locator("article")).to_have_count(3)
    expect(item.locator("article").first).to_be_in_viewport()  # the page followed
    expect(item).to_be_focused()
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
    shown = tile(tuner, "Agreement with people").text_content()
    changed = tile(tuner, "Changed").text_content()
    tuner = notebook.restart().tuner
    expect(tile(tuner, "Changed")).to_have_text(changed)
    expect(tile(tuner, "Agreement with people")).to_have_text(shown)
    expect(tuner.get_by_label("What level 2 means")).to_have_value(FORGIVING)
    tuner.locator(f"tr[data-id='{item_id}']").click()
    expect(tuner.get_by_role("region", name="Item", exact=True).get_by_text("eva: 1")).to_be_visible()
    tuner.get_by_text("Versions: 2").click()
    changes = tuner.get_by_label("Changes in the version shown")
    expect(changes).to_contain_text("faithfulness: level 2")
    for kind, words in (("ins", "in the main"), ("del", "Every claim")):
        expect(changes.locator(kind, has_text=words)).to_be_visible()
    tuner.get_by_label("Compared with").select_option("nothing")
    expect(tile(tuner, "Changed")).to_contain_text("nothing to compare with")
    assert notebook.errors() == []
    assert notebook.page.console_errors == []


def test_versions_are_shown_compared_and_undone_in_the_strip(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    tuner = notebook.open(SUPPORT).tuner
    level, versions = tuner.get_by_label("What level 2 means"), tuner.locator(".ekw-list-of-versions > li")
    run(tuner)
    tuner.get_by_text("Versions: 1").click()
    first = level.input_value()
    for n, text in enumerate([FORGIVING, "Every claim is supported."], start=2):
        expect(versions).to_have_count(n - 1)
        level.fill(text)
        run(tuner)
    expect(versions).to_have_count(3)
    shown, compared = tuner.get_by_label("Shown", exact=True), tuner.get_by_label("Compared with")
    expect(shown.locator("option:checked")).to_contain_text("v1.2")
    expect(compared.locator("option:checked")).to_contain_text("v1.1")
    expect(versions.first).to_contain_text(
        re.compile(r"v1\.2.*agreement 0\.\d\d \[.*\], 24 of 24 labelled items", re.DOTALL)
    )

    def choose_version(box, name):
        box.select_option(value=box.locator("option", has_text=re.compile(rf"^{name}(:|$)")).get_attribute("value"))

    # the lists: show, compare with another one, with nothing; by keyboard too
    choose_version(shown, "v1")
    pair = tuner.locator(".ekw-versions h4")
    choose_version(compared, "v1.2")  # at once, before the first choice is answered
    expect(pair).to_have_text("v1 against v1.2")
    expect(tile(tuner, "Changed")).to_contain_text("from v1.2")
    choose_version(compared, "nothing")
    expect(tile(tuner, "Changed")).to_contain_text("nothing to compare with")
    choose_version(shown, "v1.1")
    expect(tuner.locator(".ekw-decision")).to_contain_text("v1.1 agrees with people on")
    compared.focus()
    page.keyboard.press("End")
    expect(pair).to_have_text("v1.1 against v1")
    expect(tile(tuner, "Changed")).to_contain_text(CHANCE)
    expect(compared).to_be_focused()

    # a note
    note = tuner.get_by_label("Note on v1.1")
    note.fill("asks <b>less</b>")
    note.press("Tab")
    expect(note).to_have_value("asks <b>less</b>")
    assert notebook.value("tuner.versions['note'].tolist()") == "['', 'asks <b>less</b>', '']"

    # one item in both versions: the labels of the other one in a line, its reasons folded
    tuner.get_by_role("button", name=re.compile("^Changed")).click()
    tuner.locator("tr[data-id]").first.click()
    judge, fold = tuner.locator(".ekw-judges article").first, tuner.locator(".ekw-prompt")
    expect(judge.locator("h4 .ekw-chip")).to_have_count(6)
    expect(judge.locator("h4")).to_contain_text(re.compile("v1 .*→ v1.1", re.DOTALL))
    expect(fold.locator("ol").first).to_be_hidden()
    fold.locator("summary").click()
    expect(fold.locator("ol").first).to_be_visible()

    # undo by key, outside of a text field; in one the browser undoes what is typed
    expect(level).to_have_value("Every claim is supported.")
    tuner.locator("tr[data-id]").first.focus()
    page.keyboard.press("Control+z")
    expect(level).to_have_value(FORGIVING)
    page.keyboard.press("Control+z")
    expect(level).to_have_value(first)
    expect(tuner.get_by_role("button", name="Undo the last edit")).to_be_disabled()
    page.keyboard.press("Control+Shift+Z")
    expect(level).to_have_value(FORGIVING)
    tuner.get_by_role("button", name="Redo the edit").click()
    expect(level).to_have_value("Every claim is supported.")
    level.press("End")
    page.keyboard.type(" Really.")
    tuner.get_by_role("button", name="Undo the last edit").click()
    expect(level).to_have_value("Every claim is supported.")

    # the strip stays on screen while one reads on
    tuner.locator(".ekw-prompt").scroll_into_view_if_needed()
    expect(tuner.locator(".ekw-decision")).to_be_in_viewport()
    about = [version.inner_text() for version in versions.all()]
    assert len(about) == 3
    tuner = notebook.restart().tuner
    tuner.get_by_text("Versions: 3").click()
    expect(tuner.locator(".ekw-list-of-versions > li")).to_have_text(about, use_inner_text=True)
    expect(tuner.get_by_label("Note on v1.1")).to_have_value("asks <b>less</b>")
    assert notebook.errors() == []
    assert page.console_errors == []


@pytest.mark.usefixtures("each_kernel")
def test_stop_in_the_middle_and_run_on(notebook):
    from playwright.sync_api import expect

    go = threading.Event()

    def held(_body):
        """Some replies come at once, the next ones when Stop was heard, and all others are slower than it is heeded."""
        return {"delay": 1} if go.is_set() else {"until": go} if len(server.seen) > 4 else None

    with judge_server(faults=held) as server:
        tuner = notebook.open(OWN.format(url=server.url, name="slow", jury="judge")).tuner
        run(tuner)
        expect(tuner.get_by_role("progressbar")).to_be_visible()
        expect(tuner.locator(".ekw-count")).to_contain_text("of 24 replies")
        notebook.page.wait_for_function(
            "() => parseInt(document.querySelector('.ekw-count')?.textContent.match(/\\d+ of/)?.[0] || 0) >= 2"
        )
        tuner.get_by_role("button", name="Stop").click()
        notebook.wait_for("tuner.session.runs._stop.is_set()")
        go.set()
        expect(tuner.locator(".ekw-done")).to_contain_text("stopped:")
        scored = tile(tuner, "Scored").locator("b")
        first = int(scored.text_content().split(" of ")[0])
        assert 2 <= first < 24
        assert first == len(server.seen)
        expect(tuner.locator(".ekw-notice")).to_have_text(
            f"{24 - first} of 24 judgments ({1 - first / 24:.1%}) have no score: {24 - first} without a reply. "
            f"Press Run to request the remaining {24 - first}."
        )
        expect(tuner.get_by_role("alert").first).to_be_empty()
        server.faults = None
        run(tuner)
        expect(scored).to_have_text("24 of 24")
        expect(tuner.locator(".ekw-notice")).to_have_count(0)
        assert len(server.seen) == 24
    assert notebook.page.console_errors == []


@pytest.mark.usefixtures("each_kernel")
def test_faults_are_told_and_texts_of_others_do_nothing(notebook):
    from playwright.sync_api import expect

    cell = OWN.format(url="http://127.0.0.1:9/v1", name="<i>gone</i>", jury='[judge, "fake:strict"]')
    cell = cell.replace('f"ITEM-{at % 3} number {at}"', "f\"<img src=x onerror='window.harmed=1'> number {at}\"")
    tuner = notebook.open(cell).tuner
    run(tuner)
    expect(tuner.locator(".ekw-decision")).to_contain_text("judges gave no answer")
    notes(tuner)
    why = tuner.locator(".ekw-why")
    expect(why).to_contain_text("<i>gone</i>")
    expect(why).to_contain_text("of this judge is wrong, or its service is down")
    expect(tuner.locator(".ekw-notice").first).to_contain_text("have no score: ")
    expect(tuner.get_by_role("alert").first).to_be_empty()  # what the server said stands once
    tuner.locator("tr[data-id]").first.click()
    expect(tuner.get_by_role("region", name="Item", exact=True).locator("article")).to_have_count(2)
    expect(tuner.locator(".ekw-prose", has_text="<img src=x")).to_be_visible()
    assert notebook.page.evaluate("() => [window.harmed, document.querySelectorAll('.ekw img, .ekw i i').length]") == [
        None,
        0,
    ]

    # a fault in the rubric, as it is typed
    all_fields(tuner)
    code = tuner.get_by_label("Code of level 2")
    code.fill("0")
    expect(tuner.get_by_text("duplicate code '0'")).to_be_visible()
    expect(tuner.get_by_role("button", name="Run")).to_be_disabled()
    code.fill("1")
    expect(tuner.get_by_text("duplicate code")).to_have_count(0)
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


def test_everything_can_be_done_by_keyboard_and_has_a_name(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    tuner = notebook.open(SUPPORT).tuner
    tuner.get_by_role("button", name="Run").focus()
    page.keyboard.press("Enter")
    rows = tuner.get_by_role("grid", name="Judged items").locator("tr[data-id]")
    expect(rows).to_have_count(24)
    expect(tuner.get_by_role("button", name="Run")).to_be_enabled()
    expect(tuner.get_by_role("button", name="Run")).to_be_focused()  # though it was off meanwhile
    assert rows.evaluate_all("(rows) => rows.filter((row) => row.tabIndex === 0).length") == 1
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    expect(rows.nth(1)).to_be_focused()
    item = tuner.get_by_role("region", name="Item", exact=True)
    page.keyboard.press("9")  # no level: nothing happens
    page.keyboard.press("1")
    expect(rows.nth(1).locator(".ekw-human", has_text="me: 1")).to_have_count(1)
    expect(rows.nth(1)).to_be_focused()
    expect(item).to_be_hidden()  # the arrows open nothing
    page.keyboard.press("d")
    page.keyboard.press("d")  # would delete the cell, were the notebook to see it
    page.keyboard.press("End")
    expect(rows.last).to_be_focused()
    page.keyboard.press("Enter")
    expect(item).to_be_focused()
    expect(item.get_by_role("heading", name=rows.last.get_attribute("data-id"))).to_be_visible()
    page.keyboard.press("2")  # labels the open item
    expect(item.get_by_text("me: 2")).to_be_visible()
    page.keyboard.press("k")
    expect(item.get_by_role("heading", name=rows.nth(22).get_attribute("data-id"))).to_be_visible()
    expect(item.get_by_text("23 of 24")).to_be_visible()
    page.keyboard.press("j")
    expect(item.get_by_role("heading", name=rows.last.get_attribute("data-id"))).to_be_visible()
    expect(item.get_by_role("button", name="Next")).to_be_disabled()
    page.keyboard.press("j")
    page.keyboard.press("Escape")
    expect(item).to_be_hidden()
    expect(rows.last).to_be_focused()
    split = tuner.get_by_role("button", name="Judges disagree")
    split.focus()
    page.keyboard.press("Space")
    expect(split).to_have_attribute("aria-pressed", "true")
    expect(split).to_be_focused()  # though the region was drawn anew
    expect(page.locator(".jp-CodeCell")).to_have_count(1)
    tuner.get_by_text("Jury: 3 judges").click()
    tuner.get_by_text("Versions: 1").click()
    assert page.evaluate(NAMELESS) == []
    assert page.console_errors == []


TWICE = """\
import random
import evalkit as ek
items, labels = ek.load_example("support")
drawn = random.Random(0)
judge = ek.Judge.function(lambda prompt: '{"score": %d}' % drawn.choice([0, 2]), name="coin", version="1")
tuner = ek.RubricTuner(items, "faithfulness", judge, labels, samples=2, cache="cache")
tuner.run()
tuner.edit("faithfulness", scale={2: "Supported in the main."})
tuner.run()
tuner"""


def test_measuring_chance_moves_nothing_and_buttons_stand_in_one_line(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    page.set_viewport_size({"width": 1400, "height": 900})
    tuner = notebook.open(TWICE).tuner
    notes(tuner)
    strip, measure = tuner.locator(".ekw-top"), tuner.get_by_role("button", name="Measure chance")
    expect(measure).to_contain_text("on 24 items, ")
    high = strip.bounding_box()["height"]
    buttons = [tuner.get_by_role("button", name=name) for name in ("Run", "Save version")]
    places = [button.bounding_box() for button in (*buttons, tuner.locator("[data-key=queue]"))]
    assert len({place["y"] for place in places}) == 1
    assert not any(strip.locator(".ekw-tile button").all())
    press(measure)
    expect(measure).to_have_count(0)
    expect(tile(tuner, "Changed")).to_contain_text("(measured: ")
    expect(tile(tuner, "Changed")).to_contain_text("; 8 different texts or groups)")
    assert abs(strip.bounding_box()["height"] - high) < 2  # a line of text in the place of the button
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
import evalkit as ek, ipykernel
print("ipykernel", ipykernel.version_info[0])
items, _ = ek.load_example("support")
judgments = ek.judge(items, "faithfulness", ["fake:strict", "fake:lenient"], samples=1, progress=False)
ek.notebook.JudgmentBrowser(judgments, items)"""
    browser = notebook.open(cell).tuner
    old = notebook.kernel == "ipykernel6"
    expect(notebook.page.locator(".jp-OutputArea-output", has_text="ipykernel ")).to_have_text(
        "ipykernel 6" if old else re.compile(r"ipykernel ([7-9]|\d\d)")
    )
    expect(tile(browser, "Scored")).to_contain_text("24 of 24")
    expect(browser.get_by_role("button", name="Run")).to_have_count(0)
    browser.get_by_label("Search items").fill("gym")
    expect(browser.locator(".ekw-foot")).to_contain_text("3 of 24 items")
    browser.locator("tr[data-id='gym-cora']").click()
    item = browser.get_by_role("region", name="Item", exact=True)
    expect(item.locator("article")).to_have_count(2)
    expect(item.get_by_label("Annotator")).to_have_count(0)
    # no column and no filter that can only be empty; a column of the items
    browser.get_by_label("Search items").fill("")
    expect(browser.locator(".ekw-rows thead th")).to_have_text(
        ["Marks", "answer", "Jury", re.compile("fake:strict"), re.compile("fake:lenient")]
    )
    expect(browser.locator("[data-do=filter]")).to_have_text(["All 24", "◐ Judges disagree 2", "○ Tied 2"])
    browser.locator(".ekw-columns-shown > summary").click()
    browser.get_by_label("Column of the items").select_option("system_id: cora")
    expect(browser.locator(".ekw-foot")).to_contain_text("8 of 24 items")
    browser.get_by_role("button", name="system_id = cora").click()
    browser.get_by_label("system_id", exact=True).check()
    order, text = browser.get_by_label("Order of the rows"), browser.get_by_label("Text of the rows")
    order.select_option("system_id, falling")
    expect(browser.locator("tr[data-id]").first).to_contain_text("cora")
    order.select_option("system_id")
    expect(browser.locator("tr[data-id]").first).to_contain_text("alba")
    text.select_option("question")
    expect(browser.locator("thead .ekw-t")).to_have_text("question")
    text.select_option("one line of each")
    expect(browser.locator("tr[data-id]").first.locator(".ekw-one")).to_have_count(3)
    assert notebook.errors() == []
    assert notebook.page.console_errors == []


@pytest.mark.usefixtures("each_kernel")
def test_labels_survive_a_kernel_that_is_killed(notebook):
    from playwright.sync_api import expect

    tuner = notebook.open('import os\nprint("kernel", os.getpid())', SUPPORT).tuner
    said = notebook.page.locator(".jp-OutputArea-output", has_text="kernel ")
    expect(said).to_have_text(re.compile(r"kernel \d+\s"))
    number = int(said.inner_text().split()[1])
    run(tuner)
    tuner.locator("tr[data-id='gym-cora']").click()
    item = tuner.get_by_role("region", name="Item", exact=True)
    item.get_by_role("button", name="0", exact=True).click()
    expect(item.get_by_text("me: 0")).to_be_visible()
    os.kill(number, signal.SIGKILL)
    # JupyterLab starts another kernel by itself, and says so
    notebook.page.locator(".jp-Dialog .jp-mod-accept").click()
    expect(notebook.page.locator(".jp-Dialog")).to_have_count(0)
    tuner = notebook.after_restart().tuner
    expect(said).not_to_have_text(f"kernel {number}")
    tuner.locator("tr[data-id='gym-cora']").click()
    expect(tuner.get_by_role("region", name="Item", exact=True).get_by_text("me: 0")).to_be_visible()


def test_criteria_and_levels_by_keyboard(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    tuner = notebook.open(SUPPORT).tuner
    plan = tuner.locator(".ekw-decision")
    expect(plan).to_contain_text("216 judgments")
    all_fields(tuner)
    press(tuner.get_by_role("button", name="Add a criterion"))
    name = tuner.locator("[data-part=name]").last
    expect(name).to_be_focused()
    page.keyboard.type("tone")
    expect(plan).to_contain_text("432 judgments")  # two criteria now
    added = tuner.locator(".ekw-criterion").last
    expect(added.locator("summary")).to_contain_text("tone")
    press(added.get_by_role("button", name="Add a level"))
    expect(added.get_by_label("Code of level 3")).to_have_value("2")
    page.keyboard.type("warm")
    press(tuner.get_by_role("button", name="YAML"))
    yaml = tuner.get_by_label("Rubric as YAML")
    expect(yaml).to_have_value(re.compile("name: tone.*2: warm.*pass_at: 1", re.DOTALL))
    press(tuner.get_by_role("button", name="YAML"))
    expect(tuner.get_by_role("button", name="YAML")).to_be_focused()
    run(tuner)
    expect(tuner.get_by_role("group", name="Criterion").get_by_role("button")).to_contain_text(["faithfulness", "tone"])
    press(tuner.locator("[data-do=criterion][data-name=tone]"))
    tuner.locator("tr[data-id='gym-cora']").click()
    item = tuner.get_by_role("region", name="Item", exact=True)
    expect(item.get_by_role("heading", name="gym-cora tone")).to_be_visible()
    item.get_by_role("button", name="2", exact=True).click()
    expect(item.get_by_text("me: 2")).to_be_visible()  # a criterion that the cell does not know is labelled too

    # away again; the focus goes to what is next to it
    added = tuner.locator(".ekw-criterion").last
    press(added.get_by_role("button", name="Remove level 2"))
    expect(added.get_by_role("button", name="Remove level 1")).to_be_focused()
    press(added.get_by_role("button", name="Remove criterion tone"))
    expect(tuner.locator(".ekw-criterion summary")).to_be_focused()
    expect(tuner.locator(".ekw-plan")).to_contain_text("216 judgments")
    press(tuner.get_by_role("button", name="Remove criterion faithfulness"))
    expect(tuner.locator(".ekw-problem")).to_contain_text("criteria")
    expect(tuner.get_by_role("button", name="Run")).to_be_disabled()
    assert page.console_errors == []


def test_a_press_is_not_lost_when_what_is_pressed_is_drawn_anew(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    tuner = notebook.open(SUPPORT).tuner
    plan, button = tuner.locator(".ekw-decision"), tuner.get_by_role("button", name="Run")
    expect(plan).to_contain_text("216 judgments")
    button.hover()  # once it stands still
    page.mouse.down()
    notebook.run_code("tuner.edit('faithfulness', scale={2: 'other'}); tuner.wait_idle(20)")
    expect(tuner.get_by_label("What level 2 means")).not_to_have_value("other")  # waits for the end of the press
    page.mouse.up()
    expect(tuner.get_by_label("What level 2 means")).to_have_value("other")
    expect(tile(tuner, "Agreement with people").locator("b")).to_contain_text("[")

    # so by the keyboard: a button is pressed when Space is let go
    notebook.run_code("tuner.edit('faithfulness', scale={2: 'another'}); tuner.wait_idle(20)")
    expect(tuner.get_by_label("What level 2 means")).to_have_value("another")
    expect(button).to_be_enabled()
    button.focus()
    page.keyboard.down(" ")
    notebook.run_code("tuner.edit('faithfulness', scale={2: 'third'}); tuner.wait_idle(20)")
    page.keyboard.up(" ")
    expect(tile(tuner, "Changed")).to_contain_text(CHANCE)
    assert page.console_errors == []


SLOW_SAVE = """\
import time
save = tuner.session.save
tuner.session.save = lambda *given: (time.sleep(1), save(*given))[1]"""


def test_what_is_typed_stays_whatever_the_kernel_says_meanwhile(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    tuner = notebook.open(SUPPORT).tuner
    text, said = tuner.get_by_label("What level 2 means"), tuner.locator(".ekw-done")
    run(tuner)
    expect(tile(tuner, "Scored")).to_contain_text("24 of 24")
    notebook.run_code(SLOW_SAVE)
    text.fill("first")
    tuner.get_by_role("button", name="Save version").click()
    text.press("End")  # on while it is saved
    page.keyboard.insert_text(" and second")  # at once: half of it may be saved otherwise
    expect(said).to_contain_text("saved as faithfulness@v2")
    expect(text).to_be_focused()
    page.keyboard.type(" and third")
    expect(text).to_have_value("first and second and third")
    expect(tuner.locator(".ekw-label")).to_have_text(re.compile("v2.*not run yet"))
    saved = (notebook.folder / "rubrics" / "faithfulness" / "v2.yaml").read_text()
    assert re.search("first( and second)?\n", saved)

    # what was typed before an action counts before it: the version that is taken over is the one that is there then
    tuner.get_by_text("Versions: 1").click()
    text.fill("lost")
    tuner.get_by_role("button", name="Edit the version shown").click()
    expect(text).not_to_have_value("lost")
    page.wait_for_timeout(600)  # longer than typing is waited for
    expect(text).not_to_have_value("lost")
    assert page.console_errors == []


SLOW_JURY = """\
import time
set_jury = tuner.session.drafts.set_jury
tuner.session.drafts.set_jury = lambda *given: (time.sleep(1), set_jury(*given))[1]"""


def test_what_is_filled_in_stays_until_it_is_answered_and_what_is_open_stays_open(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    tuner = notebook.open(SUPPORT).tuner
    head = tuner.get_by_text(re.compile("Jury: 3 judges × . samples?"))
    head.click()
    notebook.run_code(SLOW_JURY)
    samples, budget = tuner.get_by_label("Samples"), tuner.get_by_label("Spend at most US$")
    another = tuner.get_by_label("Another judge, provider:model")
    another.fill("fake:noisy")
    samples.fill("2")
    budget.click()
    page.keyboard.type("0.")  # the answer about the samples comes now
    expect(head).to_have_text(re.compile("3 judges × 2 samples"))
    page.keyboard.type("25")
    expect(budget).to_have_value("0.25")
    samples.focus()
    expect(tuner.locator(".ekw-decision")).to_contain_text("144 judgments")
    expect(another).to_have_value("fake:noisy")
    tuner.get_by_role("button", name="Add judge").dblclick()
    expect(tuner.get_by_label("fake:noisy", exact=True)).to_be_checked()
    expect(another).to_have_value("")  # it was taken in
    expect(budget).to_have_value("0.25")
    assert notebook.value("tuner.session.drafts.budget_usd, tuner.session.drafts.samples") == "(0.25, 2)"
    expect(tuner.get_by_role("alert").first).to_be_empty()  # though it was pressed twice

    run(tuner)
    tuner.locator("tr[data-id='gym-cora']").click()
    item = tuner.get_by_role("region", name="Item", exact=True)
    expect(item.get_by_role("heading", name="gym-cora")).to_be_visible()
    reply = item.locator(".ekw-prompt > summary", has_text="Raw replies, prompt")
    reply.click()
    item.get_by_role("button", name="1", exact=True).click()
    expect(item.get_by_text("me: 1")).to_be_visible()
    assert reply.evaluate("(one) => one.parentElement.open")
    tuner.locator("tr[data-id]:not([data-id='gym-cora'])").first.click()
    expect(item.get_by_role("heading", name="gym-cora")).to_be_hidden()
    assert not reply.evaluate("(one) => one.parentElement.open")
    assert page.console_errors == []


def test_what_is_refused_leaves_its_field_and_names_follow_what_is_typed(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    tuner = notebook.open(SUPPORT).tuner
    alert, samples = tuner.get_by_role("alert").first, tuner.get_by_label("Samples")
    tuner.get_by_text("Jury: 3 judges").click()
    samples.fill("0")
    samples.press("Tab")
    expect(alert).to_contain_text("samples must be a whole number from 1 to 25, got 0")
    expect(samples).to_have_value("3")  # by which Run goes
    samples.fill("2.7")  # whole numbers only
    samples.press("Enter")
    expect(samples).to_have_value("2")
    expect(alert).to_be_empty()
    weight = tuner.get_by_label("Weight of fake:strict")
    weight.fill("-1")
    run(tuner)
    expect(weight).to_have_value("1")
    expect(tile(tuner, "Scored")).to_contain_text("24 of 24")

    all_fields(tuner)
    tuner.get_by_label("Name", exact=True).fill("truth")
    for name in ("Remove criterion truth", "Level of measurement of truth", "Scale of truth"):
        expect(tuner.get_by_label(name)).to_be_visible()
    tuner.get_by_label("Code of level 3").fill("7")
    expect(tuner.get_by_label("What level 7 means")).to_be_visible()
    expect(tuner.get_by_role("button", name="Remove level 7")).to_be_visible()
    expect(tuner.locator(".ekw-problem")).not_to_be_empty()  # Run is off, and on again once this is mended
    tuner.get_by_label("Passes at").fill("7")
    expect(tuner.locator(".ekw-problem")).to_be_empty()
    run(tuner)
    notes(tuner)
    expect(tuner.get_by_text("Not counted: 48 labels of “faithfulness”")).to_be_visible()
    assert page.console_errors == []


ODD = """\
import evalkit as ek
items = [{"item_id": "x" * 200, "answer": "W" * 3000}, {"item_id": "right", "answer": "שלום (עולם)."}]
items += [{"item_id": f"i{at}", "answer": f"number {at}"} for at in range(4)]
rubric = ek.Rubric(id="own", description="Is it so?", inputs=["answer"], template="number@v1",
    criteria=[{"name": "so", "scale": {0: "no", 1: "yes"}, "pass_at": 1}])
tuner = ek.RubricTuner(items, rubric, "fake:strict", samples=1)
tuner"""


def test_a_quick_person_loses_no_label_and_long_and_foreign_texts_fit(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    tuner = notebook.open(ODD).tuner
    run(tuner)
    rows, item = tuner.locator("tr[data-id]"), tuner.get_by_role("region", name="Item", exact=True)
    choose(tuner, "Order of the rows", "by id")  # this order stays while one labels
    expect(rows.first).to_have_attribute("data-id", "i0")
    rows.first.focus()
    for code in "0101x":  # quicker than the items come; x is no level
        page.keyboard.press("ArrowDown")
        page.keyboard.press(code)
    for at, code in enumerate("0101"):
        expect(rows.nth(at + 1).locator(".ekw-human", has_text=f"me: {code}")).to_have_count(1)
    assert notebook.value("len(tuner.labels)") == "4"

    # who labels has a name: the field does not say otherwise
    rows.first.click()
    name = item.get_by_label("Annotator")
    name.fill(" ")
    name.press("Tab")
    expect(name).to_have_value("me")
    tuner.locator("tr[data-id='right']").click()
    answer = item.locator(".ekw-prose")
    expect(answer).to_have_text("שלום (עולם).")
    assert answer.evaluate("(one) => getComputedStyle(one).unicodeBidi") == "plaintext"
    tuner.locator("tr[data-id^='xxx']").click()
    expect(item.locator("h3")).to_contain_text("xxx")
    for width in (600, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"() => window.innerWidth === {width}")
        assert tuner.evaluate("(one) => one.scrollWidth - one.clientWidth") <= 1, width
    assert page.console_errors == []


SLOW_PARTS = """\
import time
from evalkit.notebook.tuner.tuner_controller import PAYLOADS
def late(payload):
    return lambda *given: (time.sleep(0.7), payload(*given))[1]
PAYLOADS |= {name: late(PAYLOADS[name]) for name in ("page", "figures")}"""


def test_what_a_person_does_goes_by_what_is_on_screen_and_by_what_was_done_before(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    tuner = notebook.open(ODD).tuner
    run(tuner)
    rows, item = tuner.locator("tr[data-id]"), tuner.get_by_role("region", name="Item", exact=True)
    expect(rows).to_have_count(6)
    expect(tuner.get_by_role("button", name="Stop")).to_have_count(0)  # the run is over
    notebook.run_code(SLOW_PARTS)

    # the order is chosen before the filter is answered
    unlabelled = tuner.get_by_role("button", name="No label")
    unlabelled.click()
    choose(tuner, "Order of the rows", "by id")
    expect(rows.first).to_have_attribute("data-id", "i0")
    expect(unlabelled).to_have_attribute("aria-pressed", "true")
    tuner.get_by_role("button", name="All").click()
    expect(unlabelled).to_have_attribute("aria-pressed", "false")

    # the next item is chosen before the rows with a label of this one come
    rows.first.click()
    expect(item.get_by_role("heading", name="i0")).to_be_visible()
    page.keyboard.press("1")
    page.keyboard.press("j")
    expect(item.get_by_role("heading", name="i1")).to_be_visible()
    expect(rows.nth(1)).to_have_attribute("tabindex", "0")
    expect(rows.first).to_have_attribute("tabindex", "-1")

    # another item comes while a label is pressed
    item.get_by_role("button", name="0", exact=True).hover()
    page.mouse.down()
    notebook.run_code("tuner.receive({'do': 'select', 'item_id': 'i2'})")
    page.mouse.up()
    expect(item.get_by_role("heading", name="i2")).to_be_visible()
    expect(rows.nth(1).locator(".ekw-human", has_text="me: 0")).to_have_count(1)
    expect(rows.nth(2).locator(".ekw-human", has_text="me")).to_have_count(0)

    # the figures come while a name is typed
    name = item.get_by_label("Annotator")
    figures = "tuner.wait_idle(20); tuner.receive({'do': 'annotator', 'name': tuner.session.labels.annotator})"
    item.get_by_role("button", name="1", exact=True).click()
    name.fill(" ")
    expect(rows.nth(2).locator(".ekw-human", has_text="me: 1")).to_have_count(1)
    notebook.run_code(figures)
    name.press("Tab")
    expect(name).to_have_value("me")
    name.fill("eva")
    name.press("Tab")
    item.get_by_role("button", name="0", exact=True).click()
    expect(item.get_by_text("eva: 0")).to_be_visible()
    expect(name).to_have_value("eva")
    assert page.console_errors == []


REOPENED = """async () => { const { commands, shell } = window.jupyterapp, { context } = shell.currentWidget;
    const { path } = context;
    await context.save();
    const closed = new Promise((done) => shell.currentWidget.disposed.connect(done));
    shell.currentWidget.close();
    await closed;
    await commands.execute('docmanager:open', { path, factory: 'Notebook' }); }"""


def test_a_fault_is_found_where_it_was_typed_and_without_a_kernel_it_is_said(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    tuner = notebook.open(SUPPORT, "tuner").tuner.first
    all_fields(tuner)
    tuner.get_by_label("Code of level 2").fill("0")
    expect(tuner.get_by_text("duplicate code '0'")).to_be_visible()
    page.evaluate(REOPENED)
    tuner = notebook.tuner.first
    all_fields(tuner)
    code = tuner.get_by_label("Code of level 2")
    expect(code).to_have_value("0")
    expect(tuner.get_by_text("duplicate code '0'")).to_be_visible()
    code.fill("1")
    expect(tuner.locator(".ekw-problem")).to_be_empty()
    expect(tuner.get_by_role("button", name="Run")).to_be_enabled()

    notebook.idle()
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    notebook.idle()
    run(tuner)
    expect(tuner.get_by_role("alert").first).to_contain_text("The kernel has stopped")
    expect(tuner.get_by_role("alert").first).to_contain_text("Run the cell again")
    assert page.console_errors == []


def test_two_views_of_one_tuner_say_the_same(notebook):
    from playwright.sync_api import expect

    both = notebook.open(SUPPORT, "tuner").tuner
    one, other = both.first, both.last
    expect(both).to_have_count(2)
    texts = [view.get_by_label("What level 2 means") for view in (one, other)]
    texts[0].fill("typed in the first")
    expect(texts[1]).to_have_value("typed in the first")
    texts[1].fill("typed in the second")
    expect(texts[0]).to_have_value("typed in the second")
    all_fields(one)
    one.get_by_role("button", name="YAML").click()
    expect(one.get_by_label("Rubric as YAML")).to_have_value(re.compile("typed in the second"))
    assert notebook.page.console_errors == []


MANY = """\
import evalkit as ek, pandas as pd
items, labels = ek.load_example("support")
def copied(table, at):
    marks = {name: table[name] + f"-{at}" for name in ("item_id", "group_id", "answer") if name in table}
    return table.assign(**marks)
items, labels = (pd.concat([copied(table, at) for at in range(4)], ignore_index=True) for table in (items, labels))
tuner = ek.RubricTuner(items, "faithfulness", ["fake:strict", "fake:lenient"], labels, samples=2)
tuner"""


def test_edits_are_suggested_and_tried(notebook):
    from playwright.sync_api import expect

    tuner = notebook.open(MANY).tuner
    tuner.get_by_text("Suggestions", exact=True).click()
    expect(tuner.get_by_text("After a run, a judge can suggest edits")).to_be_visible()
    run(tuner)
    expect(tuner.get_by_text("counts as a look at the held-out labels")).to_be_visible()
    press(tuner.get_by_role("button", name="Suggest edits"))
    first = tuner.get_by_role("article", name="Suggestion 1", exact=True)
    expect(first).to_contain_text("faithfulness: level 2")
    expect(tuner.locator(".ekw-suggestions [role=status]")).to_contain_text("jury and people differ on")
    text = first.locator(".ekw-new ins").last.inner_text().strip()
    press(first.get_by_role("button", name="Try suggestion 1"))
    expect(tile(first, "Effect, dev labels")).to_contain_text("fixed")
    expect(tile(first, "Effect, held-out labels")).to_contain_text("broke")
    expect(first).to_contain_text(
        re.compile(
            r"verdicts? changed, unlabelled items included · Asking the same prompt again changes 0 to \d+ \(mea"
        )
    )
    expect(tile(first, "Agreement, held-out labels")).to_contain_text(
        re.compile("look [12] at these labels")  # the other kernel looked at them first
    )
    expect(tile(first, "Agreement, held-out labels").locator("b")).to_contain_text("→")
    expect(tile(tuner, "Changed")).to_contain_text(CHANCE)
    level = tuner.get_by_label("What level 2 means")
    assert level.input_value() != text  # what a person was editing stays
    press(first.get_by_role("button", name="in the rubric"))
    # a suggestion shows what it adds; the field holds the whole text
    expect(level).to_have_value(re.compile(re.escape(text)))
    # what was tried is shown again without another look
    looks = tile(first, "Agreement, held-out labels").text_content()
    run(tuner)
    expect(tuner.locator(".ekw-done")).to_have_text("done: all replies came from the cache")
    expect(first.get_by_role("button", name="Show suggestion 1")).to_be_disabled()
    expect(tile(first, "Agreement, held-out labels")).to_have_text(looks)
    shown = tile(first, "Effect, held-out labels").text_content()
    tuner = notebook.restart().tuner  # nothing is asked or looked at again
    tuner.get_by_text("Suggestions: 3, of v1").click()
    expect(tile(tuner, "Effect, held-out labels")).to_have_text(shown)
    assert notebook.page.console_errors == []


QUEUE = """\
import evalkit as ek, pandas as pd
names = [f"q{at:02d}" for at in range(60)]
items = pd.DataFrame({"item_id": names, "answer": [f"answer number {at}" for at in range(60)]})
rubric = ek.Rubric(id="own", description="Is it so?", inputs=["answer"], template="number@v1",
    criteria=[{"name": "c", "scale": {0: "no", 1: "nearly", 2: "yes"}, "pass_at": 2}])
jury = [ek.Judge("openai", name, name=name, base_url="http://127.0.0.1:9/v1") for name in ("x", "y")]
# x passes every second item; y says the contrary on each third
ek.record(items, rubric, jury[0], [["2" if at % 2 else "0"] for at in range(60)], overwrite=True)
ek.record(items, rubric, jury[1], [["2" if at % 2 != (at % 3 == 0) else "0"] for at in range(60)], overwrite=True)
tuner = ek.RubricTuner(items, rubric, jury, samples=1, recorded="use", annotator="Ana")
tuner.run()
tuner"""
HAS_FOCUS = "(one) => one.contains(document.activeElement)"


def test_thirty_items_are_labelled_by_keyboard_alone(notebook):
    """30 random and 4 disputed labels; before, between and after: a filter, undo, a restart. Focus is never lost."""
    from playwright.sync_api import expect

    page = notebook.page
    tuner = notebook.open(QUEUE).tuner
    rows, queue = tuner.locator("tr[data-id]"), tuner.get_by_role("region", name="Label queue")
    expect(rows).to_have_count(25)  # a page of 60

    def label(n, n_done, n_items, first=0):
        """Label n items by their levels' keys, and return them with their labels."""
        given = []
        for at in range(first, first + n):
            expect(queue.get_by_role("status")).to_contain_text(so_far(n_done + at - first, n_items))
            assert queue.evaluate(HAS_FOCUS)
            given.append((queue.locator("h3").inner_text().split()[0], "012"[at % 3]))
            page.keyboard.press("012"[at % 3])
        expect(queue.get_by_role("status")).to_contain_text(so_far(n_done + n, n_items))
        return given

    def so_far(n_done, n_items):
        return re.compile(rf"\b{n_done} of {n_items} (drawn items )?labelled")

    rows.first.focus()
    page.keyboard.press("l")
    expect(queue).to_be_focused()
    expect(rows.first).to_be_hidden()  # the jury is hidden, and so are the figures
    expect(tuner.locator(".ekw-decision")).to_be_hidden()
    expect(queue.locator("article")).to_have_count(0)
    queue.get_by_label("Annotator").focus()
    page.keyboard.press("Enter")  # the name is typed: keys are levels again
    expect(queue).to_be_focused()
    page.keyboard.press("9")  # no level: nothing happens
    random = label(20, 0, 60)
    for at in (19, 18):  # undo twice, and label these two again
        page.keyboard.press("u")
        expect(queue.get_by_role("status")).to_contain_text(f"{at} of 60 labelled")
        assert queue.evaluate(HAS_FOCUS)
        assert queue.locator("h3").inner_text().split()[0] == random[at][0]
    assert label(2, 18, 60, first=18) == random[18:]
    page.keyboard.press("Escape")
    expect(tuner.get_by_role("button", name="Label next")).to_be_focused()
    note = tile(tuner, "Agreement with people")
    expect(note).to_contain_text("20 random labels, Ana, blind")

    # in a filter: a labelled row leaves it, and the focus goes to the next one
    unlabelled = tuner.get_by_role("button", name="No label")
    press(unlabelled)
    expect(unlabelled).to_have_attribute("aria-pressed", "true")
    expect(unlabelled).to_contain_text("40")
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    picked = rows.nth(1).get_attribute("data-id")
    follows = rows.nth(2).get_attribute("data-id")
    page.keyboard.press("1")
    expect(unlabelled).to_contain_text("39")
    expect(rows.nth(1)).to_have_attribute("data-id", follows)
    expect(rows.nth(1)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(rows.nth(2)).to_be_focused()
    expect(note).to_contain_text("20 random labels, Ana, blind · 1 picked not counted")

    # after a restart: the next random item is the one that it was
    before = note.locator("b").text_content()
    tuner = notebook.restart().tuner
    rows, queue = tuner.locator("tr[data-id]"), tuner.get_by_role("region", name="Label queue")
    note = tile(tuner, "Agreement with people")
    expect(note.locator("b")).to_have_text(before)
    tuner.get_by_role("button", name="Label next").focus()
    page.keyboard.press("Enter")
    random += label(10, 20, 60, first=20)
    assert len({item for item, _ in random}) == 30
    page.keyboard.press("Escape")
    expect(note).to_contain_text("30 random labels, Ana, blind")
    before = note.locator("b").text_content()

    # disputed items move no figure; the source is chosen by keyboard too
    page.keyboard.press("Enter")
    source = queue.get_by_role("button", name="Disputed")
    press(source)
    expect(source).to_have_attribute("aria-pressed", "true")
    expect(queue.get_by_role("status")).to_contain_text("c ·")
    n_done, n_drawn = map(
        int, re.search(r"(\d+) of (\d+) drawn items labelled", queue.get_by_role("status").inner_text()).groups()
    )
    n = min(4, n_drawn - n_done - 1)
    disputed = label(n, n_done, n_drawn)
    page.keyboard.press("Escape")
    expect(note).to_contain_text(f"30 random labels, Ana, blind · {n} disputed,")
    expect(note.locator("b")).to_have_text(before)

    lines = [json.loads(line) for line in (notebook.folder / "own.labels.jsonl").read_text().split("\n") if line]
    kept = {}
    lines = [line for line in lines if "drawn" not in line]  # a draw of disputed items
    for line in lines:
        kept.setdefault(line.get("source", "undo"), []).append((line["item_id"], line["label"]))
    assert kept["random"] == [*random[:20], *random[18:]]
    assert kept["disputed"] == disputed
    assert (kept["picked"], len(kept["undo"])) == ([(picked, "1")], 2)
    assert all(line["blind"] for line in lines if line.get("source") in ("random", "disputed"))
    # without ties x and y agree with a label of 2 on an odd item, or of 0 or 1 on an even one
    compared = [(int(item[1:]) % 2 == 1) == (label == "2") for item, label in random if int(item[1:]) % 3]
    assert before.startswith(f"{sum(compared) / len(compared):.2f}")
    assert notebook.errors() == []
    assert page.console_errors == []


def test_a_quiet_line_shows_its_items_and_a_judge_joins_on_the_server_of_the_jury(notebook):
    from playwright.sync_api import expect

    with judge_server(faults=lambda body: {"content": "hm"} if "number 7" in str(body["messages"]) else None) as server:
        tuner = notebook.open(OWN.format(url=server.url, name="x", jury='[judge, "fake:strict"]')).tuner
        run(tuner)
        notes(tuner)
        show = tuner.get_by_role("button", name=re.compile("^Show (this|1) item"))
        press(show)
        expect(show).to_have_attribute("aria-pressed", "true")
        expect(tuner.locator("tr[data-id]")).to_have_count(1)
        expect(tuner.locator("thead .ekw-k").first).to_have_attribute("title", "x")
        press(show)
        expect(tuner.locator("tr[data-id]")).to_have_count(24)
        tuner.get_by_text("Jury: 2 judges").click()
        name = tuner.get_by_label("Another judge, provider:model")
        name.fill("nobody:y")
        name.press("Enter")
        alert = tuner.get_by_role("alert").first
        expect(alert).to_contain_text("unknown judge provider")
        name.fill("openai:y")
        expect(alert).to_be_empty()  # the error is about another name
        name.press("Enter")
        expect(tuner.locator(".ekw-done")).to_contain_text(f"added openai:y: its calls go to {server.url}")
        expect(tuner.locator(".ekw-jury")).to_contain_text(re.compile(f"openai:y.*{re.escape(server.url)}"))
        press(tuner.get_by_role("button", name="Label next"))
        head = tuner.get_by_role("region", name="Label queue").get_by_role("status")
        expect(head).to_contain_text("0 of 24 labelled")
        first = head.inner_text().split()[0]
        notebook.page.keyboard.press("s")
        expect(head).to_contain_text("0 of 24 labelled by me, 1 skipped: asked again at the end")
        assert head.inner_text().split()[0] != first
        notebook.page.keyboard.press("1")
        expect(head).to_contain_text("1 of 24 labelled")
        press(tuner.get_by_role("button", name="Leave them out"))
        press(tuner.get_by_role("button", name="Count them"))
        expect(tuner.get_by_role("button", name="Leave them out")).to_be_visible()
    assert notebook.page.console_errors == []


LAYOUTS = """\
import tempfile
import evalkit as ek, ipywidgets
items, labels = ek.load_example("facts")
tuner = ek.RubricTuner(items, "correctness", ["fake:strict", "fake:lenient"], labels, folder=tempfile.mkdtemp())
browser = ek.notebook.JudgmentBrowser(ek.evaluate(items, "correctness", "fake:strict", samples=1, progress=False))
display(ipywidgets.VBox([ipywidgets.Tab([tuner, browser], titles=["tune", "look"])]))
shown = {"tuner": tuner, "card": ek.start(items), "-": None}
ipywidgets.interactive(lambda choice: display(shown[choice]), choice=["-", "card", "tuner"])"""


def test_the_widgets_work_inside_the_layouts_of_ipywidgets(notebook):
    from playwright.sync_api import expect

    page = notebook.open(LAYOUTS).page
    tab = page.locator(".widget-tab")
    expect(tab.locator(".ekw")).to_have_count(2)
    tab.get_by_role("button", name="Run").first.click()
    expect(tab.locator(".ekw").first).to_contain_text("Agreement with people")
    page.get_by_role("tab", name="look").click()
    expect(tab.locator(".ekw").last.locator("tr", has_text="ice-brio")).to_be_visible()
    interactive = page.locator(".widget-interact")
    interactive.locator("select").first.select_option("card")
    expect(interactive.get_by_label("Role of answer")).to_be_visible()
    interactive.locator("select").first.select_option("tuner")
    expect(interactive.locator(".ekw")).to_contain_text("Agreement with people")  # a second view of the same tuner
    assert notebook.errors() == []
