"""`start` as a person meets it: a table is mapped, looked at, and tuned in the same cell."""

from __future__ import annotations

import re

from axe import dark, findings

CELL = """\
import evalkit as ek, pandas as pd
table = pd.DataFrame({
    "nr": range(24),
    "question": ["How long is the warranty of the kettle?"] * 24,
    "answer": [f"It is {at % 5} years for the kettle <b>{at}</b>." if at % 6 else None for at in range(24)],
    "reference": ["The warranty is two years."] * 24,
    "grade": [at % 3 for at in range(24)],
})
card = ek.start(table, samples=1)
card"""


def test_a_table_is_mapped_previewed_and_tuned_in_one_cell(notebook):
    from playwright.sync_api import expect

    card = notebook.open(CELL).tuner
    page = notebook.page
    role, open_tuner = card.get_by_label("Role of answer"), card.get_by_role("button", name="Open the tuner")
    expect(role).to_have_value("input: answer")
    expect(card.get_by_label("Role of grade")).to_have_value("label: correctness")
    expect(card.get_by_text("4 of 24 items lack a required input")).to_be_visible()
    # the plan, before anything is asked
    expect(card.get_by_role("region", name="Your data").get_by_text("4 skipped for a missing input")).to_be_visible()
    assert findings(page) == []

    # a wrong mapping is named, and keeps the tuner closed
    role.focus()
    role.select_option("id")
    problems = card.get_by_role("status", name="Problems")
    expect(problems).to_contain_text("no column is the input 'answer'")
    expect(role).to_be_focused()
    assert open_tuner.get_attribute("aria-disabled") == "true"
    assert findings(page) == []
    dark(page)
    assert findings(page) == []
    role.select_option("input: answer")
    expect(problems).to_be_hidden()

    # prompt and code
    card.get_by_text("Prompt for correctness").click()
    expect(card.locator(".ekw-card pre").first).to_contain_text("<b>1</b>")
    card.get_by_text("Code that does the same").click()
    expect(card.locator(".ekw-codetext")).to_contain_text("on_missing='skip'")
    assert findings(page) == []

    # another rubric, and judges that are refused
    card.get_by_role("combobox", name=re.compile("^Rubric")).select_option("helpfulness")
    expect(card.get_by_label("Role of grade")).to_have_value("")
    card.get_by_role("combobox", name=re.compile("^Rubric")).select_option("correctness")
    expect(card.get_by_label("Role of grade")).to_have_value("label: correctness")
    card.get_by_label("Judges").fill("nobody")
    card.get_by_label("Judges").press("Enter")
    expect(card.get_by_label("Problems")).to_contain_text("nobody")  # below the field
    assert open_tuner.get_attribute("aria-disabled") == "true"
    card.get_by_label("Judges").fill("fake:strict")
    card.get_by_label("Judges").press("Enter")
    expect(card.get_by_label("Problems")).to_be_empty()

    # the tuner in the same cell
    open_tuner.click()
    run = card.get_by_role("button", name="Run")
    expect(run).to_be_focused()
    run.click()
    card.locator("tr[data-id]").first.wait_for()
    assert notebook.tuner.count() == 1
    assert notebook.value("len(card.tuner().scores)") == "24"
    assert notebook.errors() == []
    assert page.console_errors == []
