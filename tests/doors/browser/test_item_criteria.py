"""Items with criteria of their own in the browser of judgments and in the tuner, at three widths, light and dark."""

from __future__ import annotations

import pandas as pd
import pytest
from axe import findings
from own_criteria import ROLLBACK, evaluated, items, judges
from tuner_screen import Screen

import evalkit as ek

WIDTHS = (684, 1264, 1904)  # windows of 700, 1280, 1920
HTML = "<img src=x onerror=\"document.title='run'\"></details></table><b>{{ jinja }} ```\nfence\n``` [[ score ]] 1"
HOSTILE = [
    {"item_id": 7, "question": "RTL", "answer": "שלום עולם " * 60, "criteria": [
        {"id": 1, "text": "אומר שלום לכל העולם", "points": 5, "axis": "דיוק"},
        {"id": 2.5, "text": HTML, "points": -0.001, "axis": HTML},
        {"id": "x" * 200, "text": "w" * 40_000, "points": 1e9, "axis": "a" * 300, "requires": [1, 2.5]}]},
    {"item_id": "many", "question": "q", "answer": "a", "criteria": [
        {"text": f"Says {at} {'long ' * (at % 40)}", "points": (-1) ** at * (at % 9 + 1), "axis": f"axis {at % 90}"}
        for at in range(330)]},
    {"item_id": "negative", "question": "q", "answer": "b", "criteria": [{"text": "Invents it", "points": -2}]},
    {"item_id": "tree", "question": "q", "answer": "c", "criteria": [
        {"id": "root", "text": "root"}, {"id": "l", "text": "left", "points": 2, "parent": "root"},
        {"id": "r", "text": "right", "points": 3, "parent": "root"}]},
]  # fmt: skip


@pytest.fixture(params=["light", "dark"])
def page(browser, request):
    context = browser.new_context(color_scheme=request.param)
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.console_errors = []
    page.on("pageerror", lambda error: page.console_errors.append(str(error)))
    yield page
    context.close()


def look(page, screen, state):
    for width in WIDTHS:
        screen.resize(width)
        assert screen.findings()["findings"] == [], (state, width)
        assert findings(page) == [], (state, width)


def test_an_item_with_its_criteria(page, tmp_path):
    screen = Screen(page, ek.notebook.JudgmentBrowser(evaluated(items(8), tmp_path)))
    look(page, screen, "table")
    assert page.locator(".ekw-say").inner_text().startswith("Item score 0.59 [")
    heads = page.locator("tr.ekw-of")
    assert "task-1 12.5 to 15.5 of 25.5 points, score 0.49 to 0.61" in [one.strip() for one in heads.all_inner_texts()]
    page.locator("tr[data-id='task-1#9']").click()
    screen.settle()
    item = page.locator(".ekw-item")
    assert item.locator(".ekw-req").inner_text().replace("\n\n", "\n").split("\n") == [
        "a fault, costs 2 points",
        ROLLBACK[8][0],
    ]
    assert "fault found" in item.locator(".ekw-item-head").inner_text()
    assert item.locator(".ekw-judges article").count() == 3
    own = item.get_by_role("region", name="Criteria of the item")
    assert own.locator("h4").all_inner_texts() == [
        "all criteria of this item: 12.5 to 15.5 of 25.5 points, score 0.49 to 0.61",
        "accuracy 9 of 9 points",
        "completeness 5 of 8 points",
        "safety −2 of 8 points, 1 open",
        "style 0.5 of 0.5 points",
    ]
    rows = own.locator("li")
    assert rows.count() == len(ROLLBACK)
    assert [row.locator(".ekw-n").inner_text() for row in rows.all()][:4] == ["+5", "+4", "−3", "+3"]
    assert own.locator(".ekw-n.ekw-worse").all_inner_texts() == ["−3", "−2", "−0.5"]  # in orange
    assert [row.inner_text().split("\n")[-1] for row in rows.all()][8:10] == ["✗ fault found", "no verdict"]
    assert "needs 2" in rows.nth(9).inner_text()
    look(page, screen, "item")

    # pressing another criterion opens it; its axis is a filter
    rows.nth(9).get_by_role("button").click()
    screen.settle()
    assert item.locator(".ekw-req p").inner_text() == ROLLBACK[9][0]
    assert item.locator(".ekw-judges .ekw-worse").count() > 0  # the reply that cannot be read
    own.get_by_role("button", name="safety", exact=True).click()
    screen.settle()
    assert page.get_by_role("button", name="× axis = safety").is_visible()
    page.locator(".ekw-item").focus()
    page.keyboard.press("Escape")
    screen.settle()
    assert not page.locator(".ekw-item").is_visible()
    assert page.console_errors == []


def test_hostile_criteria(page, tmp_path):
    screen = Screen(page, ek.notebook.JudgmentBrowser(evaluated(HOSTILE, tmp_path)))
    for row in ("7#2.5", f"7#{'x' * 200}", "many#51", "negative#1", "tree#l"):
        page.get_by_label("Search items").fill(row[:40])
        page.get_by_label("Search items").press("Tab")
        page.wait_for_timeout(250)  # the search is sent when typing pauses
        screen.settle()
        page.locator(f"tr[data-id='{row}']").click()
        screen.settle()
        own = page.get_by_role("region", name="Criteria of the item")
        if row == "7#2.5":
            assert HTML.split("\n", 1)[0] in page.locator(".ekw-req").inner_text()
        if row == "many#51":
            assert own.locator("li").count() == 330
        if row == "negative#1":
            assert "of 0 points, score NA" in own.locator("h4").first.inner_text()
        look(page, screen, row[:8])
    assert page.title() == "Tuner"
    assert page.console_errors == []


def test_the_tuner_keeps_the_rows_of_an_item_together(page, tmp_path):
    rows = ek.explode_criteria(items(6))
    labels = pd.DataFrame({"item_id": rows["item_id"], "criterion": "requirement", "annotator": "Anna",
                           "label": [at % 3 > 0 for at in range(len(rows))]})  # fmt: skip
    tuner = ek.RubricTuner(rows, "requirement", judges(), labels, samples=1, folder=tmp_path, cache=tmp_path / "c")
    tuner.run()
    tuner.wait_idle(60)
    screen = Screen(page, tuner)
    heads = page.locator("tr.ekw-of")
    assert heads.first.inner_text().strip() == "task-1 14.17 of 25.5 points, score 0.56"
    assert [one.split()[0] for one in heads.all_inner_texts()] == ["task-1", "task-2", "task-3"]
    assert page.locator("thead .ekw-t").inner_text() == "requirement"
    page.locator("tr[data-id='task-1#9']").focus()
    page.keyboard.press("0")  # a label belongs to the row
    screen.settle()
    assert tuner.labels.set_index(["item_id", "annotator"]).loc[("task-1#9", "me"), "label"] in ("0", 0)
    look(page, screen, "table")
    page.locator("tr[data-id='task-1#9']").click()
    screen.settle()
    look(page, screen, "item")
    assert page.console_errors == []


def test_the_label_queue_asks_all_criteria_of_an_item_on_one_form(page, tmp_path):
    rows = ek.explode_criteria(items(3))
    tuner = ek.RubricTuner(rows, "requirement", judges(), samples=1, folder=tmp_path, cache=tmp_path / "c")
    screen = Screen(page, tuner)
    page.get_by_role("button", name="Label next").click()
    screen.settle()
    queue = page.locator(".ekw-queue")
    name = queue.locator("h3").inner_text().split()[0]
    mine = rows[rows["of_item"] == name]
    assert queue.locator("legend").all_inner_texts() == mine["requirement"].tolist()
    assert queue.locator(".ekw-ins h4").all_inner_texts() == ["question", "answer (judged)"]  # once, above all criteria
    look(page, screen, "queue")
    queue.locator("fieldset").nth(3).get_by_role("button", name="1").click()  # any of them
    screen.settle()
    for key in "101":  # and by keys the next one that has no label
        page.keyboard.press(key)
        screen.settle()
    pressed = queue.locator("fieldset").evaluate_all(
        "(all) => all.map((one) => one.querySelector('[aria-pressed=true]')?.dataset.label ?? '')"
    )
    assert pressed == ["1", "0", "1", "1", *[""] * (len(mine) - 4)]
    assert queue.locator("fieldset[aria-current] legend").inner_text() == mine["requirement"].iloc[4]
    page.keyboard.press("u")
    screen.settle()
    assert queue.locator("fieldset[aria-current] legend").inner_text() == mine["requirement"].iloc[2]
    for _ in range(len(mine) - 3):
        page.keyboard.press("1")
        screen.settle()
    assert queue.locator("h3").inner_text().split()[0] != name
    labels = tuner.labels.set_index("item_id")["label"].astype(str)
    assert labels[mine["item_id"]].tolist() == ["1", "0", *["1"] * (len(mine) - 2)]
    assert page.console_errors == []
