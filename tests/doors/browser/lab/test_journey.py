"""One way through the tuner: run, edit, open an item, restart; and every control can be hit where it is drawn."""

from __future__ import annotations

from tuner_page import FORGIVING, SUPPORT, run, tile

# the controls that lie under something else where they are drawn; each is brought to the middle first
COVERED = """() => {
    const controls = [...document.querySelectorAll('.ekw :is(button, input, select, textarea, summary)')];
    return controls.filter((control) => {
        if (!control.checkVisibility({visibilityProperty: true}) || control.closest('.ekw-skips')) return false;
        control.scrollIntoView({block: 'center', inline: 'nearest', behavior: 'instant'});
        const box = control.getBoundingClientRect();
        const hit = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
        return !(control === hit || control.contains(hit) || control.closest('label')?.contains(hit));
    }).map((control) => control.outerHTML.slice(0, 200));
}"""


def test_run_edit_and_restart_and_nothing_covers_a_control(notebook):
    from playwright.sync_api import expect

    tuner = notebook.open(SUPPORT).tuner
    run(tuner)
    agreement = tile(tuner, "Agreement with people").locator("b")
    expect(agreement).to_contain_text("[")
    tuner.get_by_label("What level 2 means").fill(FORGIVING)
    run(tuner)
    expect(tile(tuner, "Changed")).to_contain_text("fixed")
    tuner.locator("tr[data-id]").first.click()
    expect(tuner.get_by_role("region", name="Item", exact=True).locator("article")).to_have_count(3)
    for width in (900, 1200, 2200):
        notebook.page.set_viewport_size({"width": width, "height": 1000})
        notebook.page.wait_for_function(f"() => window.innerWidth === {width}")
        assert notebook.page.evaluate(COVERED) == [], width
    shown = agreement.text_content()
    tuner.get_by_role("button", name="Save version").click()
    expect(tuner.get_by_text("saved as faithfulness@v2")).to_be_visible()
    tuner = notebook.restart().tuner
    expect(tile(tuner, "Agreement with people").locator("b")).to_have_text(shown)
    assert notebook.errors() == []
    assert notebook.page.console_errors == []
