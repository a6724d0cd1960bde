"""The tuner's screen at all widths: nothing overlaps, nothing is cut, everything can be hit; and what reading needs.

``python tests/support/tuner_screen.py 96`` tries all scales and juries.
"""

from __future__ import annotations

import pytest
from axe import findings
from tuner_page import choose
from tuner_screen import LONG, WIDTHS, Screen, sample, tuner_of

import evalkit as ek

CASES = {
    "three codes, three judges": {"codes": 3, "judges": 3, "versions": 2, "n_items": 12},
    "nine words, six judges, ten versions, dark": {
        "codes": 9, "judges": 6, "versions": 10, "words": True, "people": 5, "criteria": 2, "n_items": 12,
    },
}  # fmt: skip


@pytest.fixture
def page(browser, request):
    context = browser.new_context(color_scheme="dark" if "dark" in request.node.name else "light")
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.console_errors = []
    page.on("pageerror", lambda error: page.console_errors.append(str(error)))
    yield page
    context.close()


@pytest.mark.parametrize("case", CASES)
def test_nothing_overlaps_at_any_width(page, tmp_path, case):
    """Each page is resized through every other width, with and without an open item; axe-core looks at both ends."""
    screen = Screen(page, tuner_of(tmp_path, **CASES[case]), LONG if "ten" in case else None)
    widths = WIDTHS["ten" in case :: 2]
    for state in ("table", "item"):
        if state == "item":
            page.locator("tr[data-id]").first.click()
            screen.settle()
            assert page.locator(".ekw-item").is_visible()
        wrong, n_points = {}, 0
        for width, found in screen.sweep(widths):
            n_points += found["points"]
            if found["findings"]:
                wrong[width] = found["findings"][:3]
        assert wrong == {}, state
        assert n_points > 1_000  # the page was not empty
        for width in (700, 1900):
            screen.resize(width)
            assert findings(page) == [], (state, width)
    assert page.console_errors == []


def test_nothing_overlaps_in_a_sample_of_scales_and_juries(browser):
    """Four of the 96 combinations, each light and dark, without and with an open item, at two widths."""
    states = list(sample(browser, 4))
    assert {about: wrong[:3] for about, wrong, _ in states if wrong} == {}
    assert len(states) == 4 * 8
    assert min(points for _, _, points in states) > 50  # the pages were not empty


def test_a_fault_of_layout_is_found(page, tmp_path):
    screen = Screen(page, tuner_of(tmp_path, codes=2, judges=1, versions=1, n_items=12))
    screen.resize(1260)
    assert screen.findings()["findings"] == []
    for style, fault in [
        (".ekw-rows { position: relative; top: -150px; background: white }", "covered"),
        (".ekw-matrix { max-width: 60px; overflow: hidden }", "overflows"),
        (".ekw-top { padding-bottom: 120px }", "the strip is"),
        (".ekw-matrix tbody th { writing-mode: vertical-rl }", "not upright"),
        (".ekw button { min-height: 0; line-height: 1; padding: 0; height: 15px !important }", "small"),
        (".ekw .ekw-list .ekw-t { width: 40px }", "the text is not the widest"),
    ]:
        page.evaluate("(text) => document.head.insertAdjacentHTML('beforeend', `<style id=x>${text}</style>`)", style)
        assert any(one.startswith(fault) for one in screen.findings()["findings"]), fault
        page.evaluate("() => document.getElementById('x').remove()")


def test_twenty_criteria_leave_room_for_the_items_and_a_phone_has_the_matrix(page, tmp_path):
    names = [f"criterion_{at}_with_a_rather_long_name" for at in range(20)]
    tuner = tuner_of(tmp_path, judges=1, n_items=12)
    screen = Screen(page, tuner, {"figures": {"criteria": names, "criterion": names[-1]}})
    for width in (1000, 1280, 1900):
        screen.resize(width)
        assert screen.findings()["findings"] == []
        assert page.locator("[data-criterion]").input_value() == names[-1]
    screen.resize(344)
    assert not any("sideways" in one or "overflows" in one for one in screen.findings()["findings"])


def test_colours_that_the_system_forces_hide_nothing(page, tmp_path):
    """A label that fails and the filter that is on differ from their surroundings."""
    screen = Screen(page, tuner_of(tmp_path, judges=2, n_items=12))
    screen.resize(1264)
    page.emulate_media(forced_colors="active")

    def background(chosen):
        return page.locator(chosen).first.evaluate("(one) => getComputedStyle(one).backgroundColor")

    for marked, plain in {
        ".ekw-list .ekw-fail": ".ekw-list .ekw-chip:not(.ekw-fail)",
        ".ekw-filters [aria-pressed=true]": ".ekw-filters [aria-pressed=false]",
    }.items():
        assert background(marked) not in {background(plain), background(".ekw-top"), "rgba(0, 0, 0, 0)"}, marked


def test_reading(page, tmp_path):
    """Texts first; J and K over the pages of a filter; folds; a criterion moves the editor; few keys to the table."""
    tuner = tuner_of(tmp_path, n_items=60)
    screen = Screen(page, tuner)
    screen.resize(1264, 720)
    rows, item = page.locator("tr[data-id]"), page.locator(".ekw-item")
    assert page.locator("thead .ekw-t").inner_text() == "comment"
    assert "@@" not in rows.nth(1).inner_text()

    # the first Tab and Enter are at the table; a level's key labels the row, Enter opens it
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.dataset.id") == rows.first.get_attribute("data-id")
    choose(page, "Order of the rows", "as in the file")
    screen.settle()
    rows.first.focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    screen.settle()
    assert item.locator("h3").inner_text() == "CR-1025 correct"
    assert "25 of 60" in item.inner_text()
    for key, name in (("j", "CR-1026"), ("j", "CR-1027"), ("k", "CR-1026"), ("k", "CR-1025")):
        page.keyboard.press(key)
        screen.settle()
        screen.settle()  # the page has turned: its item is asked for
        assert item.locator("h3").inner_text() == f"{name} correct", key
        assert page.evaluate("() => !!document.activeElement.closest('.ekw-item')")

    # the longest diff is folded, the next item's folds are closed again; code and prose in their fonts
    fold = item.locator("[data-do=fold]:visible")
    assert fold.inner_text() == "Show all 20 lines"
    fold.click()
    assert fold.inner_text() == "Fold"
    high = item.locator(".ekw-fold.ekw-all")
    assert high.evaluate("(one) => one.scrollHeight === one.clientHeight")
    page.keyboard.press("k")
    screen.settle()
    page.keyboard.press("j")
    screen.settle()
    assert fold.inner_text() == "Show all 20 lines"
    assert item.locator(".ekw-plus").inner_text().startswith("+ALTER")
    # E goes to the level that the jury chose, Escape back to the item; a column of the item is a filter
    page.keyboard.press("e")
    assert page.evaluate("() => !!document.activeElement.closest('.ekw-picked')")
    assert page.locator(".ekw-picked .ekw-tags").inner_text().split("\n")[0] == tuner.state["item"]["jury"]
    page.keyboard.press("Escape")
    assert page.evaluate("() => document.activeElement.matches('.ekw-item')")
    item.locator(".ekw-mine", has_text="team").click()
    screen.settle()
    assert page.locator(".ekw-foot [role=status]").inner_text() == "20 of 60 items"
    page.locator("[data-do=uncolumn]").click()
    screen.settle()
    item.focus()
    page.keyboard.press("Escape")
    screen.settle()
    assert not item.is_visible()
    assert page.evaluate("() => document.activeElement.dataset.id") == "CR-1025"

    # another criterion is the one that the editor shows
    page.locator("[data-do=criterion][data-name=tone]").click()
    screen.settle()
    opened = page.locator(".ekw-criterion[open] > summary")
    assert [one.text_content().split()[0] for one in opened.all()] == ["tone"]
    choose(page, "Text of the rows", "one line of each")
    assert rows.first.locator(".ekw-one").count() == 2
    assert page.console_errors == []


MARKED = """# Head

- one **two**
- `<b>code</b>`

| a | b |
|---|---|
| 1 | <img src=x onerror=window.harmed=1> |

[link](javascript:alert(1)) ![picture](y.png)
```
<script>window.harmed=1</script>
```"""


def test_markdown_on_demand_runs_nothing_and_long_turns_are_folded(page, tmp_path):
    talk = [
        {"role": ("user", "assistant")[at % 2], "content": f"turn {at} " * (90 if at in (1, 4) else 1)}
        for at in range(5)
    ]
    rubric = ek.Rubric(id="r", inputs=["conversation", "answer"], template="number@v1",
                       criteria=[{"name": "so", "scale": {0: "no", 1: "yes"}, "pass_at": 1}])  # fmt: skip
    judge = ek.Judge.function(lambda prompt: "1", name="f", version="1")
    items = [{"item_id": "a", "conversation": talk, "answer": MARKED}]
    tuner = ek.RubricTuner(items, rubric, judge, samples=1, folder=tmp_path, cache=tmp_path / "c")
    tuner.run()
    screen = Screen(page, tuner)
    screen.resize(1264)
    page.locator("tr[data-id]").click()
    screen.settle()
    judged = page.locator(".ekw-judged")
    assert "# Head" in judged.inner_text()  # as the judge reads it
    page.keyboard.press("m")
    marked = judged.locator(".ekw-md")
    assert marked.locator("b").all_inner_texts() == ["Head", "two"]
    assert marked.locator("li").all_inner_texts() == ["one two", "<b>code</b>"]
    assert marked.locator("td").count() == 4
    assert marked.locator("pre").inner_text() == "<script>window.harmed=1</script>"
    assert marked.locator("img, a, script").count() == 0
    assert page.evaluate("() => window.harmed") is None
    turns = page.locator(".ekw-turn")
    assert [turn.locator("details").count() for turn in turns.all()] == [0, 1, 0, 0, 0]  # the last one is open
    assert page.get_by_role("button", name="to the last of 5").count() == 1
    assert page.console_errors == []


def test_where_labels_decide_nothing_the_next_step_is_to_read_what_changed(page, tmp_path):
    decision = {
        "kind": "open",
        "verdict": "Cannot tell, and labels will not decide it.",
        "then": "+0.01.",
        "action": "",
    }
    paid = {"paid": "paid: session US$ 0.20, project US$ 0.20"}
    more = {"figures": {"decision": decision | {"reason": "", "brief": ""}, "to_label": 2}, "status": paid}
    Screen(page, tuner_of(tmp_path, n_items=12), more)
    n_changed = page.locator("[data-do=filter][data-name=changed] i").inner_text()
    step = page.get_by_role("button", name=f"Read {n_changed} changed")
    assert "ekw-primary" in step.get_attribute("class")
    assert page.locator(".ekw-paid").inner_text() == "paid: US$ 0.20"  # of one session, one amount
    page.get_by_role("button", name="Why").click()
    assert page.get_by_text(paid["paid"], exact=True).is_visible()
