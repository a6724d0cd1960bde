"""The tuner on the bundled examples, and what a person does in it."""

from __future__ import annotations

SUPPORT = """\
import evalkit as ek
items, labels = ek.load_example("support")
jury = ["fake:strict", "fake:lenient", "fake:verbose"]
tuner = ek.RubricTuner(items, "faithfulness", jury, labels)
tuner"""


FORGIVING = "Supported in the main. What matters is stated in the context; minor or small additions are acceptable."


def tile(tuner, title):
    return tuner.locator(".ekw-tile").filter(has=tuner.page.get_by_text(title, exact=True))


def run(tuner):
    tuner.get_by_role("button", name="Run").click()


def notes(tuner):
    """Open what stands behind *Why*."""
    tuner.get_by_role("button", name="Why").click()


def all_fields(tuner):
    """Show names, codes, scales and rules in the rubric."""
    tuner.get_by_role("button", name="More: names").click()


def choose(tuner, label, option):
    """Choose in a list of *Columns*, which is closed again: it lies over the rows."""
    tuner.locator(".ekw-columns-shown > summary").click()
    tuner.get_by_label(label).select_option(option)
    tuner.locator(".ekw-columns-shown > summary").click()


def press(button):
    """By keyboard, once the button is on: Playwright waits for that before a click, but not before a key."""
    from playwright.sync_api import expect

    expect(button).to_be_enabled()
    button.press("Enter")
