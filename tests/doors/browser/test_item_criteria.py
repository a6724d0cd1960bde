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
    assert page.locator("tr[data-id='task-4'] .ekw-s").inner_text() == "12 of 22\n0.55"
    page.locator("tr[data-id='task-1']").click()
    screen.settle()
    own = page.locator(".ekw-own")
    assert own.locator(".ekw-say").inner_text() == (
        "12.5 of 25.5 points, 1 of 12 criteria open. With it, 12.5 to 15.5 points (0.49 to 0.61)."
    )
    assert "Most points are lost on safety: 7." in own.inner_text()
    rows = own.locator("tbody tr")
    assert rows.count() == len(ROLLBACK)
    last = [row.locator("td").last.inner_text() for row in rows.all()]
    assert last == ["+5", "+4", "0", "+3", "0", "+2", "0", "0", "−2", "open", "+0.5", "0"]
    assert own.locator(".ekw-n.ekw-worse").all_inner_texts() == ["−3", "−2", "−0.5"]  # in orange
    assert rows.nth(9).locator(".ekw-chip").all_inner_texts()[0].startswith("–")
    assert "needs 2" in rows.nth(9).inner_text()
    rows.nth(9).locator("summary").click()
    assert "refused I cannot say." in rows.nth(9).inner_text()
    look(page, screen, "item")

    # an axis is a filter; its reasons are closed; the focus stays on its button
    safety = own.get_by_role("button", name="safety")
    assert safety.inner_text().split("\n") == ["safety", "−2 of 8 points, 1 open"]
    safety.focus()
    page.keyboard.press("Enter")
    screen.settle()
    assert rows.count() == 4
    assert own.locator("details[open]").count() == 0
    assert page.evaluate("() => document.activeElement.dataset.key") == "axis 3"
    assert own.locator("tfoot").inner_text().split("\t")[0] == "safety: 4 criteria, 1 open"
    page.keyboard.press("j")
    screen.settle()
    assert page.locator(".ekw-item h3").inner_text().startswith("task-2")
    page.keyboard.press("Escape")
    screen.settle()
    assert not page.locator(".ekw-item").is_visible()
    assert page.console_errors == []


def test_hostile_criteria(page, tmp_path):
    screen = Screen(page, ek.notebook.JudgmentBrowser(evaluated(HOSTILE, tmp_path)))
    for item in ("7", "many", "negative", "tree"):
        page.locator(f"tr[data-id='{item}']").click()
        screen.settle()
        own = page.locator(".ekw-own")
        if item == "7":
            for row in (0, 1):
                own.locator("summary").nth(row).click()
            assert HTML.split("\n", 1)[0] in own.inner_text()
        if item == "many":
            assert own.locator("tbody tr").count() == 50
            assert own.locator(".ekw-foot span").inner_text() == "criteria 1–50 of 330"
            own.get_by_role("button", name="Next criteria").click()
            screen.settle()
            assert own.locator("tbody tr .ekw-id").first.inner_text() == "51"
            own.get_by_label("Axis").select_option("3")
            screen.settle()
            assert {one.strip() for one in own.locator("tbody .ekw-a").all_inner_texts()} <= {"axis 2", ""}
        if item == "negative":
            assert "No points are possible" in own.inner_text()
        look(page, screen, item)
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
