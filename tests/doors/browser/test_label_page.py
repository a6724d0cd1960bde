"""The label page and the lead's view in Chromium: by keyboard, at the widths of hosts, by touch; nothing is cut."""

from __future__ import annotations

import pytest
from axe import findings
from label_screen import CRITERIA, form_labels, labelled, page_of
from tuner_screen import Screen

WIDTHS = (700, 900, 1280, 1920)
BODY_FOCUS = "() => { document.activeElement.blur(); }"


@pytest.fixture
def new_page(browser):
    """Makes pages, each in a context of its own."""
    made = []

    def new(**options):
        context = browser.new_context(**options)
        made.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.console_errors = []
        page.on("pageerror", lambda error: page.console_errors.append(str(error)))
        return page

    yield new
    for context in made:
        assert [page.console_errors for page in context.pages] == [[]] * len(context.pages)
        context.close()


def press(screen, *keys):
    for key in keys:
        screen.page.keyboard.press(key)
    screen.settle()


def form(screen):
    return screen.tuner.state["form"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["label", "lead"])
def test_nothing_is_cut_at_any_width(new_page, tmp_path, view, scheme):
    log = tmp_path / "r.labels.jsonl"
    labelled(log)
    screen = Screen(new_page(color_scheme=scheme), page_of(log, "Eva", view=view))
    for width in (*WIDTHS, 640, 960, 1000, 2560):
        screen.resize(width)
        assert screen.findings()["findings"] == [], width
        assert findings(screen.page) == [], width
    if view == "label":
        screen.page.get_by_role("button", name="Skip").click()
        for width in WIDTHS:
            screen.resize(width)
            assert screen.findings()["findings"] == []
            assert findings(screen.page) == []
        screen.resize(1280)
        item, answers = (screen.page.locator(one).bounding_box() for one in (".ekw-read", ".ekw-answers"))
        assert item["x"] + item["width"] <= answers["x"]
        screen.resize(960)
        item, answers = (screen.page.locator(one).bounding_box() for one in (".ekw-read", ".ekw-answers"))
        assert item["y"] + item["height"] <= answers["y"]
    else:
        for width in (1280, 700):
            screen.resize(width)
            heads = screen.page.locator(".ekw-diffs thead th").evaluate_all("all => all.map((one) => one.offsetWidth)")
            assert heads[0] == max(heads)


@pytest.mark.parametrize("n_people", [2, 4, 8])
def test_what_many_people_said_stands_beside_their_names_at_any_width(new_page, tmp_path, n_people):
    log = tmp_path / "r.labels.jsonl"
    people = [f"Anna-Maria Freifrau von Hohenstein {at}" if at % 3 == 0 else f"Ben {at}" for at in range(n_people)]
    for who in people:
        page = page_of(log, who, 6)
        while page.state["form"]["form"]:
            page.receive({"do": "save", **form_labels(page, who)})
    screen = Screen(new_page(), page_of(log, "Eva", view="lead"))
    rows = form(screen)["rows"]
    assert len(rows) > 3
    for width in (344, 700, 900, 1280):
        screen.resize(width)
        assert [one for one in screen.findings()["findings"] if not one.startswith("cut")] == [], width
        widths = screen.page.locator(".ekw-diffs thead th").evaluate_all("all => all.map((one) => one.offsetWidth)")
        assert widths[0] >= 60, width
    for line, row in zip(screen.page.locator(".ekw-diffs tbody tr").all(), rows, strict=True):
        words = " ".join(line.locator("td").all_inner_texts())
        for who, label in zip(form(screen)["names"], row["labels"], strict=True):
            assert n_people <= 4 or f"{who} {label}" in " ".join(words.split())


def test_three_questions_fit_a_laptop_and_fingers_get_larger_levels(new_page, tmp_path):
    log = tmp_path / "r.labels.jsonl"
    mouse = Screen(new_page(), page_of(log, "Anna"))
    mouse.page.set_viewport_size({"width": 1280, "height": 720})
    assert {box["height"] for box in boxes(mouse.page, ".ekw-opt")} == {36}
    assert max(box["y"] + box["height"] for box in boxes(mouse.page, ".ekw-answers textarea")) < 720
    texts = mouse.page.locator(".ekw-opt span").all_inner_texts()
    assert texts == [text for one in CRITERIA for text in one["scale"].values()]
    tablet = new_page(has_touch=True, is_mobile=True, viewport={"width": 820, "height": 1180})
    touch = Screen(tablet, page_of(log, "Anna"))
    assert min(box["height"] for box in boxes(tablet, ".ekw-opt, .ekw button")) >= 44
    assert touch.findings()["findings"] == findings(tablet) == []
    for k in range(3):
        tablet.locator(f'[data-k="{k}"] .ekw-opt').nth(1).tap()
    tablet.get_by_role("button", name="Save and next").tap()
    touch.settle()
    assert form(touch)["n_done"] == 1


def boxes(page, selector):
    return [one.bounding_box() for one in page.locator(selector).all() if one.is_visible()]


def test_two_people_label_by_keyboard_and_see_nothing_of_each_other(new_page, tmp_path):
    """One after the other presses keys, in two browsers on one log; what was pressed is what is stored."""
    log, n = tmp_path / "r.labels.jsonl", 12
    screens = {who: Screen(new_page(), page_of(log, who, n)) for who in ("Anna", "Ben")}
    truth = {}
    for number in range(n):
        for who, screen in screens.items():
            if number == 0:
                screen.page.evaluate(BODY_FOCUS)  # keys count wherever the focus is
            keys = [(number + ord(who[0])) % 3, number % 3, number % 2]
            for k, key in enumerate(keys):
                assert screen.page.locator("fieldset.ekw-here").get_attribute("data-k") == str(k)
                screen.page.keyboard.press("Enter")  # saves nothing while a question is open
                screen.page.keyboard.press(str(key))
            truth[who, form(screen)["form"]] = [*map(str, keys)]
            if number % 5 == 0:
                screen.page.keyboard.press("c")
                screen.page.keyboard.type("12su because")  # no key counts while one types
                press(screen, "Escape")
            press(screen, "Enter")
            assert form(screen)["n_done"] == number + 1
            other = "Ben" if who == "Anna" else "Anna"
            assert other not in screen.page.locator(".ekw").inner_text()
    labels = screens["Anna"].tuner.labels.astype(str)
    saved = {key: rows["label"].tolist() for key, rows in labels.groupby(["annotator", "item_id"])}
    assert saved == truth
    assert "All 12 items are done. Thank you, Anna." in screens["Anna"].page.locator(".ekw").inner_text()
    press(screens["Ben"], "u")
    assert form(screens["Ben"])["n_done"] == n - 1
    checked = screens["Ben"].page.locator(".ekw-opt input:checked").evaluate_all("all => all.map((one) => one.value)")
    assert checked == truth["Ben", form(screens["Ben"])["form"]]


def test_each_form_begins_at_its_first_question(new_page, tmp_path):
    """However the last question was answered: its place must not take the keys of the next form."""
    screen = Screen(new_page(), page_of(tmp_path / "r.labels.jsonl", "Anna", 5))
    page, here = screen.page, screen.page.locator("fieldset.ekw-here")
    for leave in ("Enter", "Save and next", "Skip"):
        for k in range(3):
            page.locator(f'[data-k="{k}"] .ekw-opt').nth(1).click()
        assert here.get_attribute("data-k") == "2"
        if leave == "Skip":
            page.locator('[data-k="2"] input').nth(1).focus()
            press(screen, "s", "1")
        elif leave == "Enter":
            press(screen, "Enter")
        else:
            page.get_by_role("button", name=leave).click()
            screen.settle()
        assert here.get_attribute("data-k") == "0"
        assert page.locator(".ekw-opt input:checked").count() == 0
    press(screen, "1")
    page.locator(".ekw-read").click()
    page.locator('[data-k="0"] input').nth(1).focus()
    press(screen, "Enter")  # leads to the question that is open
    assert here.get_attribute("data-k") == "1"
    page.get_by_role("button", name="Comment").click()
    page.keyboard.type("half of it")
    press(screen, "Escape", "s", "2")
    press(screen, "u")
    assert page.locator("[data-comment]").input_value() == "half of it"


def test_skip_undo_and_a_click_twice(new_page, tmp_path):
    log = tmp_path / "r.labels.jsonl"
    screen = Screen(new_page(), page_of(log, "Anna", 5))
    page, first = screen.page, form(screen)["form"]
    page.evaluate(BODY_FOCUS)
    page.keyboard.press("c")
    page.keyboard.type("half of it")
    page.keyboard.press("Escape")
    page.keyboard.press("s")
    assert page.get_by_role("group", name="Why do you skip it?").is_visible()
    page.locator("[data-comment]").fill("")
    press(screen, "Escape", "4")
    assert "“Other” needs a comment" in page.locator(".ekw-saving").inner_text()
    page.keyboard.type("half of it")
    page.keyboard.press("Escape")
    press(screen, "2")
    assert form(screen)["n_skipped"] == 1
    assert "The text is broken or missing: half of it" in log.read_text()
    assert page.get_by_role("button", name=f"Take back {first}").is_visible()
    press(screen, "u")
    assert form(screen)["form"] == first
    assert form(screen)["n_skipped"] == 0
    for k in range(3):
        page.locator(f'[data-k="{k}"] .ekw-opt').first.click()
    save = page.get_by_role("button", name="Save and next")
    save.dblclick()
    screen.settle()
    press(screen, "Enter", "0", "Enter")
    assert form(screen)["n_done"] == 1  # nothing was answered about a form that was not yet read
    assert len(screen.tuner.labels) == 3


LONG_TIMERS_WAIT = """() => {
  const own = window.setTimeout.bind(window);
  window.later = [];
  window.setTimeout = (act, ms, ...more) => (ms >= 700 ? later.push(act) : own(act, ms, ...more));
}"""


def test_what_is_pressed_during_a_save_is_refused_in_words(new_page, tmp_path):
    screen = Screen(new_page(), page_of(tmp_path / "r.labels.jsonl", "Anna", 6))
    page, first = screen.page, form(screen)["form"]
    page.evaluate(BODY_FOCUS)
    page.evaluate(LONG_TIMERS_WAIT)
    for key in ("0", "1", "0", "Enter"):  # the answer of Python is on its way until `settle`
        page.keyboard.press(key)
    checked = page.locator(".ekw-opt input:checked")
    values = checked.evaluate_all("all => all.map((one) => one.value)")
    for act in (
        lambda: page.keyboard.press("2"),
        lambda: page.keyboard.press("Enter"),
        lambda: page.keyboard.press("u"),
        lambda: page.locator('[data-k="0"] .ekw-opt').nth(2).click(),
        lambda: page.get_by_role("button", name="Save and next").click(),
    ):
        page.locator(".ekw-saving").evaluate("(one) => { one.textContent = ''; }")
        act()
        page.evaluate("later[0]()")  # the words for a slow save take no others away
        assert "was not taken" in page.locator(".ekw-saving").inner_text()
        assert checked.evaluate_all("all => all.map((one) => one.value)") == values
    page.locator("textarea").focus()
    page.keyboard.type("late")
    assert page.locator("textarea").input_value() == ""
    screen.settle()
    assert form(screen)["form"] != first
    assert page.locator(".ekw-saving").inner_text() == "3 of 3 questions open"
    assert screen.tuner.labels["label"].tolist() == ["0", "1", "0"]
    page.locator("textarea").fill("in time")
    assert page.locator("textarea").input_value() == "in time"


def test_an_answer_that_comes_late_loses_no_change(new_page, tmp_path):
    screen = Screen(new_page(), page_of(tmp_path / "r.labels.jsonl", "Anna", 6))
    page, first = screen.page, form(screen)["form"]
    page.evaluate(BODY_FOCUS)
    for key in ("0", "0", "0", "Enter"):
        page.keyboard.press(key)
    page.get_by_text("Not saved: the program behind this page").wait_for()
    page.locator('[data-k="0"] .ekw-opt').nth(2).click()  # the person changes one answer, and does not press again
    screen.settle()
    assert "saved as it was when you first pressed Save" in page.locator(".ekw-alert").inner_text()
    page.get_by_label("Earlier").select_option(first)
    screen.settle()
    press(screen, "1", "Enter")
    assert screen.tuner.labels["label"].tolist() == ["1", "0", "0"]
    page.evaluate(BODY_FOCUS)
    second = form(screen)["form"]
    for key in ("0", "0", "0", "Enter"):
        page.keyboard.press(key)
    page.get_by_text("Not saved: the program behind this page").wait_for()
    page.locator('[data-k="0"] .ekw-opt').nth(2).click()
    press(screen, "Enter")  # presses again: both messages arrive
    labels = screen.tuner.labels.set_index("item_id").loc[second, "label"]
    assert labels.tolist() == ["2", "0", "0"]
    assert form(screen)["n_done"] == 2


def test_an_earlier_item_is_corrected_and_a_half_filled_form_waits(new_page, tmp_path):
    screen = Screen(new_page(viewport={"width": 900, "height": 800}), page_of(tmp_path / "r.labels.jsonl", "Anna", 6))
    page, first = screen.page, form(screen)["form"]
    assert page.get_by_label("Earlier").count() == 0
    page.evaluate(BODY_FOCUS)
    press(screen, "0", "1", "0", "Enter")
    press(screen, "2", "2", "1", "Enter")
    half = form(screen)["form"]
    press(screen, "1", "c")
    page.keyboard.type("a thought")
    page.keyboard.press("Escape")
    press(screen, "e")
    assert page.get_by_label("Earlier").evaluate("(one) => one === one.getRootNode().activeElement")
    options = page.get_by_label("Earlier").locator("option").all_inner_texts()
    assert options[1:] == [f"{form(screen)['undo']}: 2, 2, 1", f"{first}: 0, 1, 0"]
    page.get_by_label("Earlier").select_option(first)
    screen.settle()
    checked = page.locator(".ekw-opt input:checked")
    assert checked.evaluate_all("all => all.map((one) => one.value)") == ["0", "1", "0"]
    assert page.get_by_text("You answered this one before").is_visible()
    assert page.get_by_role("button", name="Skip").count() == 0
    assert findings(page) == []
    page.evaluate(BODY_FOCUS)
    press(screen, "Escape")
    assert form(screen)["form"] == half
    assert checked.evaluate_all("all => all.map((one) => one.value)") == ["1"]  # what was chosen waits
    assert page.locator("textarea").input_value() == "a thought"
    page.get_by_label("Earlier").select_option(first)
    screen.settle()
    page.evaluate(BODY_FOCUS)
    press(screen, "2", "1")  # nothing is open, so the frame stays, and the last key counts
    page.locator('[data-k="2"] .ekw-opt').nth(1).click()
    page.get_by_role("button", name="Save the change").click()
    screen.settle()
    assert form(screen)["form"] == half
    assert form(screen)["n_done"] == 2
    labels = screen.tuner.labels.set_index(["item_id", "criterion"])["label"]
    assert labels[first].tolist() == ["1", "1", "1"]


def test_signs_that_turn_text_around_are_seen_and_ids_with_them_work(new_page, tmp_path):
    import evalkit as ek

    turned = "\u202eevil\u202c \u2066x\u2069 <b>"
    scale = {0: f"no {turned}", 1: "yes"}
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": "tone", "description": turned, "scale": scale}])
    items = [{"item_id": f"{at} {turned}", "answer": f"It is {turned}"} for at in range(3)]
    log = tmp_path / "r.labels.jsonl"
    shown = "\u27e8U+202E\u27e9evil\u27e8U+202C\u27e9 \u27e8U+2066\u27e9x\u27e8U+2069\u27e9 <b>"
    tags = "".join(chr(0xE0000 + ord(sign)) for sign in "gbsct\x7f")
    hidden = "a\u200bb c\u200dd \ufeff \U000e0041 \ufe01\ufe02 \u0434\u200d\u0430"
    hidden += " \u00ad\u061c\u1160\u206a\ufff9 \U0001f3f4\U000e0079 "
    kept = f"\U0001f469\u200d\U0001f4bb \u0645\u06cc\u200c\u062e \U0001f3f4{tags} \u2764\ufe0f"
    page = Screen(
        new_page(), ek.notebook.LabelPage([{"answer": hidden + kept}], rubric, annotator="A", labels=f"{log}l")
    )
    seen = page.page.locator(".ekw-read").inner_text()
    signs = ["200B", "200D", "FEFF", "E0041", "FE01", "FE02", "AD", "61C", "1160", "206A", "FFF9", "E0079"]
    assert seen.count("\u27e8U+") == len(signs) + 1  # U+200D twice
    assert all(f"\u27e8U+{sign}\u27e9" in seen for sign in signs)
    assert kept in seen
    for who, key in (("A", "0"), ("B", "1")):
        screen = Screen(new_page(), ek.notebook.LabelPage(items, rubric, annotator=who, labels=log))
        text = screen.page.locator(".ekw").inner_text()
        assert text.count(shown) == 4  # id, answer, question, level
        assert not [sign for sign in turned if not sign.isprintable() and sign in text]
        screen.page.evaluate(BODY_FOCUS)
        press(screen, key, "Enter")
        option = screen.page.get_by_label("Earlier").locator("option").nth(1)
        assert shown in option.inner_text()
        screen.page.get_by_label("Earlier").select_option(index=1)
        screen.settle()
        assert form(screen)["answered"]
    screen = Screen(new_page(), ek.notebook.LabelPage(items, rubric, annotator="C", labels=log, view="lead"))
    screen.page.get_by_role("button", name="Decide 0").or_(screen.page.get_by_role("button", name="Decide 1")).or_(
        screen.page.get_by_role("button", name="Decide 2")
    ).first.click()
    screen.settle()
    screen.page.evaluate(BODY_FOCUS)
    press(screen, "0", "Enter")
    assert form(screen)["rows"][0]["decision"] == "0"


def test_numbers_are_what_was_typed(new_page, tmp_path):
    import evalkit as ek

    scale = {0: "Useless.", 50: "Middling.", 100: "Perfect."}
    criteria = [{"name": name, "level": "interval", "scale": scale} for name in ("quality", "style")]
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=criteria)
    items = [{"item_id": at, "answer": f"Answer {at}"} for at in range(6)]
    log = tmp_path / "r.labels.jsonl"
    screen = Screen(new_page(), ek.notebook.LabelPage(items, rubric, annotator="A", labels=log))
    page = screen.page
    assert page.get_by_text("0: Useless. · 50: Middling. · 100: Perfect.").count() == 2
    typed = [("85", "7"), ("0", "100"), ("8.5", "05")]
    stored = [("85", "7"), ("0", "100"), ("8.5", "5")]
    page.evaluate(BODY_FOCUS)
    for (first, second), labels in zip(typed, stored, strict=True):  # by keys alone
        item = form(screen)["form"]
        for key in (*first, "Enter", *second):
            page.keyboard.press(key)
        press(screen, "Enter")
        assert form(screen)["form"] != item
        rows = screen.tuner.labels.set_index(["item_id", "criterion"])["label"]
        assert tuple(rows[item].tolist()) == labels
    item = form(screen)["form"]
    field = page.locator('[data-key="q0 0"]')
    for text in ("8,5", "1,000", "101", "-1", "1e1", "x", "5 0", "٣", "0x1F", "Infinity", ".", "8."):
        field.fill(text)
        wrong = page.locator(".ekw-wrong").first.inner_text()
        assert ("no number from 0 to 100" in wrong) == (text != "8."), text
        assert field.get_attribute("aria-invalid") == ("false" if text == "8." else "true")
        page.keyboard.press("Enter")
    page.locator('[data-key="q1 0"]').fill("50")
    field.fill("8,5")
    assert page.get_by_role("button", name="Save and next").get_attribute("aria-disabled") == "true"
    press(screen, "Enter")
    assert form(screen)["form"] == item
    field.fill("50")
    field.hover()
    page.mouse.wheel(0, 300)
    assert field.input_value() == "50"
    assert findings(page) == []
    press(screen, "Enter")
    assert form(screen)["n_done"] == 4
    other = ek.notebook.LabelPage(items, rubric, annotator="B", labels=log)
    other.receive({"do": "save", "form": other.state["form"]["form"], "answers": ["1", "1"]})
    lead = Screen(new_page(), ek.notebook.LabelPage(items, rubric, annotator="C", labels=log, view="lead"))
    lead.page.evaluate(BODY_FOCUS)
    press(lead, "4", "2", "Enter")
    decided = [row for row in form(lead)["rows"] if row["decision"]]
    assert [row["decision"] for row in decided] == ["42"]


def test_texts_are_shown_and_never_run(new_page, tmp_path):
    import evalkit as ek

    evil = "<img src=x onerror=window.hit=1><script>window.hit=1</script>"
    rubric = ek.Rubric(
        id="r",
        description=evil,
        inputs=["answer"],
        criteria=[{"name": f"c {evil}", "description": evil, "scale": {0: evil, 1: f"{evil}2"}}],
    )
    items = [{"item_id": f'{evil}" {at}', "answer": evil} for at in range(3)]
    log = tmp_path / "r.labels.jsonl"
    for who, answer in ((f"A {evil}", "0"), ("B", "1")):
        page = ek.notebook.LabelPage(items, rubric, annotator=who, labels=log)
        screen = Screen(new_page(), page)
        assert evil in screen.page.locator(".ekw").inner_text()
        while name := page.state["form"]["form"]:
            page.receive({"do": "save", "form": name, "answers": [answer], "comment": evil})
        screen.settle()
        assert screen.page.evaluate("() => window.hit") is None
    screen = Screen(new_page(), ek.notebook.LabelPage(items, rubric, annotator=f"C {evil}", labels=log, view="lead"))
    assert screen.page.locator("img, script").count() == 0
    assert screen.page.evaluate("() => window.hit") is None


def test_the_lead_decides_by_keyboard(new_page, tmp_path):
    log = tmp_path / "r.labels.jsonl"
    labelled(log)
    screen = Screen(new_page(), page_of(log, "Chris", view="lead"))
    page = screen.page
    page.evaluate(BODY_FOCUS)
    first = form(screen)["panel"]["item"], form(screen)["panel"]["criterion"]
    page.keyboard.press("1")
    page.keyboard.press("c")
    page.keyboard.type("so it is")
    labelled(log, ["Cleo"], n_done=1)  # who labels the open item does not take away what is typed
    screen.tuner.receive({"do": "look"})
    screen.settle()
    assert "Cleo" in page.locator(".ekw-decide").inner_text()
    press(screen, "Escape", "Enter")
    labels = screen.tuner.labels
    decision = labels[labels["source"] == "adjudicated"].iloc[0]
    assert (decision["item_id"], decision["criterion"], decision["label"]) == (*first, "1")
    assert "not decided 14" in page.locator(".ekw-filters").inner_text()
    second = form(screen)["panel"]["item"], form(screen)["panel"]["criterion"]
    press(screen, "k")
    assert (form(screen)["panel"]["item"], form(screen)["panel"]["criterion"]) == first
    assert page.locator(".ekw-decide input:checked").get_attribute("value") == "1"
    assert page.locator(".ekw-decide textarea").input_value() == "so it is"
    press(screen, "j")
    assert (form(screen)["panel"]["item"], form(screen)["panel"]["criterion"]) == second
    page.get_by_role("button", name="not decided 14").click()
    assert page.locator(".ekw-diffs tbody tr").count() == 14
    page.get_by_role("button", name="actionable 12").click()
    assert 11 <= page.locator(".ekw-diffs tbody tr").count() <= 12
    page.locator(".ekw-diffs tbody button").last.click()
    screen.settle()
    assert page.locator('.ekw-diffs tr[aria-current="true"] button').count() == 1
    press(screen, "u")
    assert (form(screen)["panel"]["item"], form(screen)["panel"]["criterion"]) == first
    assert (screen.tuner.labels["source"] == "adjudicated").sum() == 0
