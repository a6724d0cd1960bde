"""The run wizard and the run view as a person meets them: in JupyterLab, by mouse and keyboard."""

from __future__ import annotations

import re
from contextlib import closing

import pytest
from axe import NAMELESS, dark, findings
from places import SUPPORT
from run_setup import runner_of

from evalkit.runs.registry import Registry

TESTS = str(SUPPORT)
MADE = f"""\
import sys
sys.path.insert(0, {TESTS!r})
from pathlib import Path
from run_setup import *
import evalkit as ek
folder = Path.cwd()
registry = ek.runs.Registry.open(folder / "registry.sqlite")
if not (folder / "tone_plugin").exists():
    make_plugin(folder)
registry.register_plugin("tone", "1", str(folder / "tone_plugin"))
registry.apply_pack(pack(bound("tone"), {{"task": "plain"}}, primary_metric="quality"))
runner = runner_of(registry, folder)
"""
WIZARD = MADE + "ek.notebook.RunWizard(runner=runner)"
DONE = (
    MADE
    + """\
run = runner.start("support", "model_name=good,details=1", scoring_mode="jury", scoring_config=JURY)
ek.notebook.RunView(run)"""
)


@pytest.fixture(autouse=True)
def ended_runs(notebook):
    """A run outlives its notebook: one that a failed test left behind would go on for ever."""
    yield
    with closing(Registry.open(notebook.folder / "registry.sqlite")) as registry:
        runner = runner_of(registry, notebook.folder)
        table = registry.runs()
        for run_id in table.loc[table["status"] == "running", "id"]:
            runner.cancel(run_id)


def field(page, name):
    return page.locator(f"[data-place='{name}']")


def test_an_empty_registry_gets_a_starter_pack_by_one_click(notebook):
    from playwright.sync_api import expect

    cell = 'import evalkit as ek\nek.notebook.RunWizard("registry.sqlite")'
    wizard = notebook.open(cell).tuner
    offer = wizard.get_by_role("group", name="Starter pack")
    expect(offer).to_contain_text("task: grounded_qa")
    assert findings(notebook.page) == []
    wizard.get_by_label("Model", exact=True).first.fill("gpt2")
    offer.get_by_role("button", name="Create the starter pack").click()
    expect(offer).to_have_count(0)
    expect(wizard.get_by_label("Pack")).to_have_value("starter@1")
    expect(wizard.get_by_label("Pack")).to_be_focused()
    expect(wizard.get_by_label("Model", exact=True).first).to_have_value("gpt2")
    expect(wizard.get_by_role("button", name="Start the run")).to_be_enabled()
    assert notebook.errors() == []
    assert notebook.page.console_errors == []


@pytest.mark.parametrize("each_kernel", ["ipykernel6"], indirect=True)
@pytest.mark.usefixtures("each_kernel")
def test_a_person_runs_a_pack_finds_the_next_run_after_a_restart_and_stops_it(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    wizard = notebook.open(WIZARD).tuner
    start = wizard.get_by_role("button", name="Start the run")
    expect(start).to_be_disabled()
    expect(wizard.get_by_text("choose a pack and a model")).to_be_visible()
    wizard.get_by_label("Pack").select_option("support@1")
    model = wizard.get_by_label("Model", exact=True).first
    model.fill("model_name=good,details=1,slow_unless=go")
    expect(start).to_be_enabled()
    expect(wizard.get_by_text("the run makes no judge calls")).to_be_visible()

    # a jury of one is refused, beside the modes; another judge mends it
    wizard.get_by_label("jury").check()
    wizard.get_by_role("button", name="Add a judge").click()
    expect(field(page, "judges.0.judge_model_name")).to_be_focused()
    expect(wizard.locator("[data-error=scoring_mode]")).to_contain_text("takes two judges or more")
    expect(start).to_be_disabled()
    wizard.get_by_role("button", name="Add a judge").click()
    expect(wizard.locator("[data-error=scoring_mode]")).to_be_empty()
    # a weight that is none is told beside the weight
    field(page, "judges.1.weight").fill("much")
    expect(wizard.locator("[data-error='judges.1.weight']")).to_contain_text("must be 0, or a number from 1e-9")
    expect(field(page, "judges.1.weight")).to_have_attribute("aria-invalid", "true")
    expect(field(page, "judges.1.weight")).to_be_focused()
    field(page, "judges.1.weight").fill("2")
    expect(start).to_be_enabled()
    expect(wizard.get_by_text("not known yet: tone")).to_be_visible()

    # config and command
    wizard.get_by_text("Config and command").click()
    expect(wizard.get_by_label("Scoring config, YAML")).to_have_value(
        "judges:\n  - judge_backend: fake\n    judge_model_name: strict\n  - judge_backend: fake\n"
        "    judge_model_name: lenient\n    weight: 2.0\n"
    )
    assert (
        wizard.get_by_label("Command").input_value().startswith("evalkit run start support@1 --model model_name=good")
    )

    # start: state and log as they come, then scores
    start.click()
    expect(wizard.locator(".ekw-log")).to_contain_text("fake: begun")
    expect(wizard.get_by_role("progressbar")).to_be_visible()
    expect(start).to_be_disabled()
    (notebook.folder / "go").touch()
    view = wizard.get_by_role("region", name="Run", exact=True)
    expect(view.get_by_role("heading")).to_contain_text("succeeded")
    row = view.locator("tbody tr").first
    for shown in ("tone|0", "quality", "0.100", "6 of 8"):
        expect(row).to_contain_text(shown)
    for shown in ("tone|0", "quality_pass_rate", "0.500"):
        expect(view.locator("tbody tr").nth(1)).to_contain_text(shown)
    expect(start).to_be_enabled()

    # a sample
    wizard.locator("tr[data-number]").first.click()
    sample = wizard.get_by_role("region", name="Sample", exact=True)
    expect(sample.get_by_text("an answer <b>")).to_be_visible()

    # another one goes on while the kernel is restarted, and is found again with all that was filled in
    model.fill("model_name=slow,slow_unless=never")
    expect(wizard.get_by_label("Command")).to_have_value(re.compile("never"))
    expect(start).to_be_enabled()
    start.click()
    expect(wizard.locator(".ekw-log")).to_contain_text("fake: begun")
    name = wizard.locator(".ekw-progress h3").inner_text()
    wizard = notebook.restart().tuner
    expect(wizard.locator(".ekw-progress h3")).to_have_text(name, use_inner_text=True)
    expect(wizard.locator(".ekw-log")).to_contain_text("fake: begun")
    expect(field(page, "judges.1.weight")).to_have_value("2.0")
    stop = wizard.get_by_role("button", name="Stop")
    expect(stop).to_be_enabled()
    stop.focus()
    page.keyboard.press("Enter")
    expect(wizard.get_by_role("region", name="Run", exact=True)).to_contain_text("cancelled")
    expect(stop).to_be_disabled()
    wizard.get_by_text("Runs of this registry: 2").click()
    expect(wizard.get_by_role("button", name="Show run")).to_have_count(2)
    assert notebook.errors() == []
    assert page.console_errors == []


def test_the_view_by_keyboard_in_all_widths_light_and_dark(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    view = notebook.open(DONE).tuner
    rows = view.get_by_role("grid", name="Samples").locator("tr[data-number]")
    expect(rows).to_have_count(8)
    assert rows.evaluate_all("(rows) => rows.filter((row) => row.tabIndex === 0).length") == 1
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    expect(rows.nth(1)).to_be_focused()
    expect(rows.nth(1)).to_have_attribute("aria-selected", "false")  # the arrows open nothing
    page.keyboard.press("d")
    page.keyboard.press("d")  # would delete the cell, were the notebook to see it
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    sample = view.get_by_role("region", name="Sample", exact=True)
    expect(sample).to_be_focused()
    expect(sample.get_by_role("heading", name=rows.last.locator("th").inner_text())).to_be_visible()
    page.keyboard.press("Escape")
    expect(rows.last).to_be_focused()
    view.get_by_label("Search samples").fill("question 3")
    expect(rows).to_have_count(1)
    view.get_by_role("button", name="plain|0").click()
    expect(rows).to_have_count(8)
    expect(view.locator(".ekw-run-setup")).to_be_hidden()
    for summary in view.locator(".ekw-run-view details:not([open]) > summary").all()[::-1]:
        summary.click()
    assert page.evaluate(NAMELESS) == []
    assert findings(page) == []
    for width in (900, 1800):
        page.set_viewport_size({"width": width, "height": 1000})
        assert page.evaluate(
            "() => { const el = document.querySelector('.ekw'); return el.scrollWidth <= el.clientWidth; }"
        )
    dark(page)
    assert findings(page) == []
    assert page.console_errors == []


def test_two_views_of_one_wizard_say_the_same_and_a_double_click_starts_one_run(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    both = notebook.open(
        WIZARD.replace("ek.notebook.RunWizard(", "wizard = ek.notebook.RunWizard(") + "\nwizard", "wizard"
    ).tuner
    expect(both).to_have_count(2)
    one, other = both.first, both.last
    one.get_by_label("Pack").select_option("support@1")
    model, limit = "model_name=good,slow_unless=go", "Max. samples per task"
    one.get_by_label("Model", exact=True).first.fill(model)
    expect(other.get_by_label("Model", exact=True).first).to_have_value(model)
    other.get_by_label(limit).fill("3")
    expect(one.get_by_label(limit)).to_have_value("3")
    assert "support@1" in notebook.value("wizard.form")  # the second view undid nothing of the first
    one.get_by_label("judge", exact=True).check()
    one.get_by_role("button", name="Add a judge").click()
    page.keyboard.type("noisy")  # instead of what was proposed
    expect(other.locator("[data-place='judges.0.judge_model_name']")).to_have_value("noisy")
    start = one.get_by_role("button", name="Start the run")
    expect(one.get_by_label("Command")).to_have_value(re.compile('"judge_model_name": "noisy"'))
    expect(start).to_be_enabled()  # for what is filled in now, not for what was before
    start.dblclick()
    expect(one.locator(".ekw-log")).to_contain_text("fake: begun")
    (notebook.folder / "go").touch()
    expect(one.get_by_role("region", name="Run", exact=True).get_by_role("heading")).to_contain_text("succeeded")
    assert notebook.value("len(registry.runs())") == "1"
    assert page.console_errors == []


def test_a_run_by_keyboard_alone(notebook):
    from playwright.sync_api import expect

    page, keys = notebook.page, notebook.page.keyboard
    wizard = notebook.open(WIZARD).tuner
    field(page, "pack").focus()

    def tab_to(key: str) -> None:
        for _ in range(40):
            if page.evaluate("() => document.activeElement.dataset?.key") == key:
                return
            keys.press("Tab")
        raise AssertionError(f"the tab key never came to {key}")

    keys.type("support")  # letters choose in a list
    tab_to("model")
    keys.type("model_name=good,details=1")
    tab_to("mode deterministic")
    keys.press("ArrowDown")
    expect(wizard.get_by_label("judge", exact=True)).to_be_checked()
    tab_to("judge add")
    keys.press("Enter")
    tab_to("judges.0.weight")
    keys.type("0")
    expect(wizard.get_by_role("alert").filter(has_text="all weights are 0")).to_have_count(1)
    keys.press("Backspace")
    tab_to("start")
    expect(wizard.get_by_role("button", name="Start the run")).to_be_enabled()
    keys.press("Enter")
    expect(wizard.get_by_role("region", name="Run", exact=True)).to_contain_text("succeeded")
    # the focus was not lost while the run went
    assert page.evaluate("() => document.activeElement.dataset.key") == "start"
    expect(wizard.locator("tr[data-number]")).to_have_count(8)
    tab_to("row 2")
    keys.press("Enter")
    expect(wizard.get_by_role("region", name="Sample", exact=True)).to_be_focused()
    expect(wizard.get_by_role("region", name="Sample", exact=True)).to_contain_text("question 2")
    assert page.console_errors == []


def test_the_wizard_is_accessible_and_fits_with_faults_and_a_failed_run(notebook):
    from playwright.sync_api import expect

    page = notebook.page
    model = "model='model_name=<img src=x onerror=window.harmed=1>,fail=3', scoring_mode='jury', scoring_config=JURY)"
    wizard = notebook.open(WIZARD.replace("runner=runner)", f"runner=runner, pack='support@1', {model}")).tuner
    wizard.get_by_role("button", name="Start the run").click()
    expect(wizard.locator(".ekw-run-view").get_by_role("alert")).to_contain_text("the model is not there")
    expect(wizard.locator(".ekw-log")).to_contain_text("RuntimeError: the model is not there")
    for box in ("Config and command", "Runs of this registry: 1", "Temperature, tokens, name"):
        wizard.locator("summary", has_text=box).first.click()
    field(page, "judges.0.temperature").fill("-1")
    expect(wizard.locator("[data-error='judges.0.temperature']")).to_contain_text("greater than or equal to 0")
    assert page.evaluate(NAMELESS) == []
    assert findings(page) == []
    dark(page)
    assert findings(page) == []
    for width in (900, 1800):
        page.set_viewport_size({"width": width, "height": 1000})
        assert page.evaluate(
            "() => { const el = document.querySelector('.ekw'); return el.scrollWidth <= el.clientWidth; }"
        )
    # keyboard alone: take a judge away, and another one; the focus is never lost
    drop = wizard.get_by_role("button", name="Remove judge 2")
    drop.focus()
    page.keyboard.press("Enter")
    expect(wizard.get_by_role("button", name="Add a judge")).to_be_focused()
    expect(wizard.get_by_role("group", name="Judge 2")).to_have_count(0)
    assert page.evaluate("() => window.harmed") is None
    assert page.console_errors == []
