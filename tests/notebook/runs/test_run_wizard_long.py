"""RunWizard and RunView without a browser: the form, its plan, real processes of runs, and the samples shown."""

from __future__ import annotations

import html
import json
import shlex
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import SUPPORT
from pyarrow import parquet
from run_setup import JUDGE, JURY, bound, left_running, make_plugin, pack, runner_of, wait_for

import evalkit as ek
from evalkit.core.judges import Judge
from evalkit.errors import ConfigError, InputError, MissingExtraError
from evalkit.evaluation.lighteval_rows import sample_rows
from evalkit.lighteval.run_cost_forecast import RunPlan, TaskPlan, plan_run
from evalkit.notebook.runs.run_form import RunForm
from evalkit.notebook.runs.run_progress import Follower
from evalkit.notebook.runs.run_view import SampleQuery, Samples, run_payload
from evalkit.rubrics.files import parse_yaml
from evalkit.runs.contract.receipts import JudgeUsed, Receipt
from evalkit.runs.contract.scoring_config import JudgeConfig, Scoring, ScoringConfig
from evalkit.runs.processes.run_owner import Owner
from evalkit.runs.registry import STARTER_PACK
from evalkit.runs.registry.database import Database
from evalkit.runs.run.run_record import RunScore

TEXTS = st.text(max_size=12)


@pytest.fixture
def registry(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    made = ek.runs.Registry.open(tmp_path / "registry.sqlite")
    made.register_plugin("tone", "1", str(make_plugin(tmp_path / "plugin")))
    made.apply_pack(pack(bound("tone"), {"task": "plain"}, primary_metric="quality"))
    yield made
    made.close()


@pytest.fixture
def make(registry, tmp_path):
    """Wizards with the stand-in for LightEval, closed at the end."""
    made = []

    def wizard(**fields):
        given = {"pack": "support@1", "model": "model_name=good,details=1"} | fields
        made.append(ek.notebook.RunWizard(runner=runner_of(registry, tmp_path), **given))
        return made[-1]

    yield wizard
    for one in made:
        one.close()


def ended(wizard):
    run = wizard.wait(300)
    wizard.close()
    return run


# -- the form


@pytest.mark.parametrize(
    ("judge", "place", "said"),
    [
        ({"judge_backend": "tgi", "judge_model_name": "m"}, "judges.0", "needs base_url"),
        ({"judge_backend": "openai"}, "judges.0.judge_model_name", "missing"),
        ({"judge_backend": "other", "judge_model_name": "m"}, "judges.0.judge_backend", "'openai'"),
        (
            {"judge_backend": "fake", "judge_model_name": "strict", "weight": "-1"},
            "judges.0.weight",
            "must be 0, or a number",
        ),
        ({"judge_backend": "fake", "judge_model_name": "strict", "weight": "much"}, "judges.0.weight", "number"),
        (
            {"judge_backend": "fake", "judge_model_name": "strict", "max_tokens": "1.5"},
            "judges.0.max_tokens",
            "integer",
        ),
        ({"judge_backend": "fake", "judge_model_name": "strict", "weight": "0"}, "judges", "all weights are 0"),
    ],
    ids=["server", "model", "backend", "negative", "text", "decimal", "nobody"],
)
def test_a_fault_stands_beside_its_field_in_the_words_of_the_contract(judge, place, said):
    faults = RunForm(pack="p", model="m", scoring_mode="judge", judges=(judge,)).errors()
    assert list(faults) == [place]
    assert said in faults[place]


def test_mode_samples_and_limit_are_checked():
    one = {"judge_backend": "fake", "judge_model_name": "strict"}
    faults = RunForm(scoring_mode="jury", judges=(one,), max_samples="0").errors()
    assert set(faults) == {"scoring_mode", "max_samples"}
    assert "takes two judges or more" in faults["scoring_mode"]
    assert "integer" in RunForm(scoring_mode="judge", judges=(one,), samples="x").errors()["samples"]
    # nobody reads the config of deterministic mode, so nothing in it can be wrong
    assert RunForm(judges=(one, one), samples="x").errors() == {}
    assert RunForm(judges=(one, one), samples="x").config is None


def test_a_config_comes_out_as_it_went_in_and_the_command_holds_all_of_it():
    config = {**JURY, "samples": 5, "report_disagreement": True, "profile": "strict"}
    form = RunForm(pack="a b@1", model="m").filled(config, scoring_mode="jury", max_samples="7")
    assert form.config == ScoringConfig.of(config).to_dict()
    words = shlex.split(form.command("/some where/r.sqlite"))
    assert words[:6] == ["evalkit", "run", "start", "a b@1", "--model", "m"]
    assert json.loads(words[words.index("--scoring-config") + 1]) == form.config
    assert words[-4:] == ["--max-samples", "7", "--registry", "/some where/r.sqlite"]
    assert ScoringConfig.of(json.loads(form.export("json"))) == ScoringConfig.of(config)
    with pytest.raises(ConfigError, match=r"unknown field modle; allowed: pack, model"):
        form.filled(modle="x")


@settings(max_examples=60, deadline=None)
@given(
    judges=st.lists(
        st.dictionaries(st.sampled_from([*JudgeConfig.model_fields, "more"]), TEXTS | st.none() | st.integers()),
        max_size=3,
    ),
    rest=st.fixed_dictionaries(
        dict.fromkeys(("pack", "model", "aggregation", "samples", "profile", "max_samples"), TEXTS)
    ),
    mode=st.sampled_from(["deterministic", "judge", "jury", "other"]),
)
def test_whatever_a_view_sends_is_a_form_with_faults_or_a_config_that_is_taken(judges, rest, mode):
    form = RunForm(**rest, judges=judges, scoring_mode=mode, report_disagreement=1)
    faults = form.errors()
    assert RunForm(**form.model_dump()) == form
    assert all(isinstance(said, str) and said for said in faults.values())
    if not faults:
        Scoring.of(form.scoring_mode, form.config)  # would raise
    assert shlex.split(form.command())[:3] == ["evalkit", "run", "start"]


def test_the_choices_are_those_of_contract_and_runner(make):
    choices = make().state["choices"]
    assert choices["scoring_mode"] == ["deterministic", "judge", "jury"]
    assert {"custom", "accelerate"} <= set(choices["backend"])
    assert {"openai", "fake"} <= set(choices["judge_backend"])
    assert {"mean", "median", "dawid_skene"} <= set(choices["aggregation"])
    assert choices["packs"] == ["support@1"]
    assert {"default@v1"} <= set(choices["templates"])
    for profile in choices["profiles"]:
        assert ek.load_profile(profile).profile == profile


# -- the plan
def test_an_empty_registry_offers_a_starter_pack_that_is_created_on_request(tmp_path, make):
    with closing(ek.runs.Registry.open(tmp_path / "empty.sqlite")) as empty:
        wizard = ek.notebook.RunWizard(empty, model="gpt2", max_samples=7)
        offered = parse_yaml(tmp_path, wizard.state["choices"]["starter"])
        assert offered == dict(STARTER_PACK)
        assert empty.packs().empty, "nothing is created without the click"
        wizard.receive({"do": "starter"})
        assert wizard.wait_idle()
        state = wizard.state
        assert (state["alert"], state["choices"]["packs"], state["choices"]["starter"]) == ("", ["starter@1"], "")
        assert (state["form"]["pack"], state["form"]["model"], state["form"]["max_samples"]) == (
            "starter@1",
            "gpt2",
            "7",
        )
        assert [one["task"] for one in offered["tasks"]] == [task.task for task in empty.pack("starter").tasks]
        assert state["check"]["ready"]
        assert "the run makes no judge calls" in state["check"]["plan"]
        # 26 rows of its own × 1 judge × 3 samples of the profile × 1 criterion
        wizard.set({"judges": JUDGE["judges"]}, scoring_mode="judge", max_samples="")
        assert wizard.plan().calls == 78
        wizard.close()
    assert make().state["choices"]["starter"] == "", "a registry with packs offers none"


def test_a_starter_pack_that_cannot_be_written_says_why(tmp_path, monkeypatch):
    with closing(ek.runs.Registry.open(tmp_path / "empty.sqlite")) as empty:
        assert empty.packs().empty
    monkeypatch.setattr(Database, "is_read_only", True)  # root may write every file: SQLite opens it with mode=ro
    with closing(ek.runs.Registry.open(tmp_path / "empty.sqlite")) as empty:
        wizard = ek.notebook.RunWizard(empty)
        wizard.receive({"do": "starter"})
        wizard.wait_idle()
        assert "it is read-only here; use another one" in wizard.state["alert"]
        assert wizard.state["choices"]["starter"]
        assert wizard.state["form"]["pack"] == ""
        wizard.close()


def test_calls_are_items_times_judges_times_samples_times_criteria():
    one, two = (tuple(Judge("fake", "strict") for _ in range(n)) for n in (1, 2))
    assert TaskPlan("t", 26, 2, one, 5).calls == 26 * 2 * 1 * 5
    assert str(TaskPlan("t", 26, 1, two, 3)) == "26 items × 2 judges × 3 samples × 1 criterion = 156"
    assert TaskPlan("t", None, 1, two, 3).calls is None
    assert TaskPlan("t", 26, 1, (), 3).calls is None
    assert TaskPlan("t", None, 0, two, 3).calls == 0
    assert RunPlan(()).lines() == ["the run makes no judge calls"]
    assert str(RunPlan(())) == "the run makes no judge calls"


def test_deterministic_runs_ask_nobody(make):
    assert make(max_samples=3).plan().lines() == ["the run makes no judge calls"]


def test_before_the_first_run_it_says_what_is_not_known(make):
    plan = make(scoring_mode="judge", scoring_config=JUDGE).plan()
    lines = plan.lines()
    assert str(plan).splitlines() == lines
    assert [line.split(" (")[0] for line in lines] == [f"not known yet: {task}" for task in ("tone", "plain")]


def test_after_a_run_items_and_criteria_are_those_that_it_had(make):
    first = make(scoring_mode="judge", scoring_config=JUDGE)
    first.start()
    assert ended(first).status == "succeeded"
    # the receipt of tone: 24 judgments of 8 answers, one judge, 3 samples: 1 criterion; plain was scored by nobody
    assert first.plan().lines()[:2] == [
        "at most 24 judge calls",
        "tone: 8 items × 1 judge × 3 samples × 1 criterion = 24",
    ]
    assert "free" in first.plan().lines()
    first.set(max_samples="5", scoring_config={**JUDGE, "samples": 5})
    assert first.plan().calls == 5 * 5


def test_money_is_said_where_a_price_is_known(make):
    wizard = make(scoring_mode="judge", scoring_config=JUDGE)
    wizard.start()
    ended(wizard)
    # US$ 0.60 a million reply tokens, 0.15 a million prompt tokens: 24 replies of at most 512 tokens
    wizard.set({"judges": [{"judge_model_name": "gpt-4o-mini", "judge_backend": "openai"}]})
    made = wizard.plan()
    assert made.usd_replies == pytest.approx(24 * 512 * 0.60 / 1e6)
    assert (
        "replies at most US$ 0.0074; prompts cost extra, per million tokens: openai:gpt-4o-mini US$ 0.15"
        in made.lines()
    )
    wizard.set({"judges": [{"judge_model_name": "m", "judge_backend": "openai", "base_url": "http://127.0.0.1:9/v1"}]})
    assert wizard.plan().usd_replies is None
    assert "cost not known: no price for openai:m" in wizard.plan().lines()


def test_the_rows_of_own_tasks_are_counted_without_importing_them(registry):
    registry.apply_pack(pack({"task": "grounded_qa"}, name="own"))
    [task] = plan_run(registry, "own", scoring_mode="judge", scoring_config=JUDGE).tasks
    file = Path(ek.__file__).parent / "lighteval/tasks/data/grounded_qa/test.jsonl"
    assert task.n_items == len(file.read_text(encoding="utf-8").splitlines())
    assert (task.n_criteria, task.note) == (1, f"{task.n_items} rows of data; criteria of faithfulness")
    registry.apply_pack(pack({"task": "pollux:easy"}, {"task": "gsm8k"}, name="others"))
    plan = plan_run(registry, "others", scoring_mode="judge", scoring_config=JUDGE)
    assert [one.task for one in plan.unknown] == ["pollux:easy", "gsm8k"]


def test_a_plan_without_judges_says_so(registry):
    registry.apply_pack(pack({"task": "safety_guardrail"}, name="own"))
    for config in ({"judges": []}, {}, {"samples": 2}, None):
        with pytest.raises(
            ConfigError, match=r"task 'safety_guardrail': no judge is named; list judges in the scoring"
        ):
            plan_run(registry, "own", scoring_mode="judge", scoring_config=config)
    assert plan_run(registry, "own", scoring_config={"judges": []}).calls == 0  # deterministic
    registry.apply_pack(pack({"task": "tool_use"}, {"task": "gsm8k"}, name="others"))
    [tools, others] = plan_run(registry, "others", scoring_mode="judge", scoring_config={"judges": []}).tasks
    assert tools.calls == 0  # no judge scores it
    assert others.note.endswith("; no judge is named; it needs judges of its own")


def test_the_rubrics_of_own_tasks_are_those_of_their_metrics():
    pytest.importorskip("lighteval")
    from evalkit.lighteval.run_cost_forecast import _OWN_RUBRICS
    from evalkit.lighteval.tasks import TASKS_TABLE

    found = {
        task.name: [getattr(one.sample_level_fn, "declared", None) for one in task.metrics] for task in TASKS_TABLE
    }
    rubrics = {name: [one.rubric.id for one in declared if one is not None] for name, declared in found.items()}
    own = {name: ids for name, ids in rubrics.items() if not name.startswith("pollux")}
    assert own == {name: [rubric] if rubric else [] for name, rubric in _OWN_RUBRICS.items()}


# -- runs, by real processes


def test_a_run_is_started_followed_and_shown(make):
    wizard = make(scoring_mode="jury", scoring_config=JURY)
    run = wizard.start()
    assert run.status in ("running", "succeeded")
    run = ended(wizard)
    assert (run.status, run.scoring_config) == ("succeeded", ScoringConfig.of(JURY).to_dict())
    assert wizard.state["run"]["id"] == run.id == wizard.run.id
    assert wizard.state["page"]["tasks"] == ["tone|0", "plain|0"]
    assert wizard.state["progress"]["log"][0] == "fake: begun"
    assert run.id in repr(wizard)
    assert wizard.state["runs"]["n"] == 1
    # what the run showed of its tasks is in the plan of the next one: 8 items, two judges, three samples, one criterion
    assert wizard.state["check"]["plan"][0] == "at most 48 judge calls"
    assert wizard.state["alert"] == ""


def test_start_pressed_twice_is_one_run(make, tmp_path):
    wizard = make(model=f"model_name=slow,slow_unless={tmp_path / 'go'}")
    wait_for(lambda: wizard.state["check"]["ready"])
    try:
        wizard.receive({"do": "start"})
        wizard.receive({"do": "start"})
        wait_for(lambda: wizard.state["progress"].get("status") == "running")
        wizard.receive({"do": "start"})  # of a view that has not drawn it yet
        assert wizard.wait_idle(300)
        assert len(wizard.registry.runs()) == 1
    finally:
        (tmp_path / "go").touch()  # else it would go on for ever
    assert ended(wizard).status == "succeeded"
    wizard.receive({"do": "start"})  # when it is over, another one
    assert wizard.wait_idle(300)
    assert len(wizard.registry.runs()) == 2
    assert ended(wizard).status == "succeeded"


def typed(wizard, **changes):
    wizard.receive({"do": "form", "form": wizard.form.model_dump() | changes, "id": "v 1"})


def test_start_pressed_again_before_the_run_was_looked_at_is_one_run(make, tmp_path, monkeypatch):
    wizard, look, seen = make(), Follower._progress, threading.Event()
    monkeypatch.setattr(Follower, "_progress", lambda self, run: (seen.wait(300), look(self, run))[1])
    wizard.receive({"do": "start"})
    assert wizard.wait_idle(300)
    wizard.receive({"do": "start"})
    seen.set()
    assert ended(wizard).status == "succeeded"
    assert len(wizard.registry.runs()) == 1


def test_a_run_is_of_the_form_that_was_on_screen(make):
    wizard, began, release = make(), threading.Event(), threading.Event()
    wizard.follow = lambda _: (began.set(), release.wait(300))
    wizard.receive({"do": "watch", "id": "slow"})  # it takes long
    assert began.wait(300)
    del wizard.follow
    wizard.receive({"do": "start"})
    typed(wizard, model="model_name=other,fail=1")  # for the next one
    release.set()
    assert wizard.wait_idle(300)
    assert ended(wizard).model == "model_name=good,details=1"


def test_stop_pressed_twice_is_no_fault(make, tmp_path):
    wizard = make(model=f"model_name=slow,slow_unless={tmp_path / 'go'}")
    said = []
    wizard.start()
    wait_for(lambda: wizard.state["progress"].get("status") == "running")
    wizard.widget.observe(lambda change: said.append(change["new"]), "alert")
    wizard.receive({"do": "stop"})
    assert ended(wizard).status == "cancelled"
    wizard.receive({"do": "stop"})  # of a view that has not drawn it yet
    assert wizard.wait_idle(300)
    assert said == []


def test_who_is_followed_no_more_tells_nothing(make, monkeypatch):
    callbacks = []

    class Kept(Follower):
        def __init__(self, *args, **given):
            callbacks.append(given)
            super().__init__(*args, **given)

    monkeypatch.setattr("evalkit.notebook.runs.run_wizard.Follower", Kept)
    wizard = make()
    first, second = (left_running(wizard.runner, owner=Owner.here(), model=f"model_name={name}") for name in "ab")
    wizard.follow(first.id)
    wait_for(lambda: wizard.state["progress"].get("id") == first.id)
    late = dict(wizard.state["progress"])
    wizard.follow(second.id)
    wait_for(lambda: wizard.state["progress"].get("id") == second.id)
    callbacks[0]["on_change"](late)  # it was looking when it was told to stop
    callbacks[0]["on_end"](first)
    assert wizard.state["progress"]["id"] == second.id
    assert wizard.state["run"] == {}
    for run in (first, second):
        wizard.runner.cancel(run.id)


def test_what_is_told_last_is_about_what_is_filled_in(make, monkeypatch):
    wizard = make()
    command = wizard.command
    checking, done = threading.Event(), threading.Event()

    def slow_command():
        said = command()
        if threading.current_thread() is follower:
            checking.set()
            done.wait(0.5)
        return said

    follower = threading.Thread(target=wizard.set)
    monkeypatch.setattr(wizard, "command", slow_command)
    follower.start()
    assert checking.wait(300)
    typed(wizard, model="model_name=typed")
    done.set()
    follower.join()
    assert "model_name=typed" in wizard.state["check"]["command"]
    wait_for(lambda: wizard.state["check"]["ready"])


def test_a_run_that_cannot_be_starts_nothing_and_says_everything(make, registry):
    wizard = make(model="", scoring_mode="jury", scoring_config=JUDGE)
    assert wizard.errors["model"] == "this is missing"
    assert "takes two judges" in wizard.errors["scoring_mode"]
    wizard.set(pack="nope@1")
    assert wizard.errors["pack"].startswith("pack 'nope' not found")
    wizard.set(pack="")
    assert wizard.errors["pack"] == "this is missing"
    assert "pack" not in wizard.state["check"]["errors"], "on wizard it is being chosen"
    wizard.set(pack="support")
    assert "pack" not in wizard.errors
    with pytest.raises(ConfigError, match="model: this is missing"):
        wizard.start()
    wizard.set(model="m")
    with pytest.raises(ConfigError, match=r"scoring_mode: .*takes two judges"):
        wizard.start()
    wizard.set({"judges": [{**one, "judge_template_id": "gone@v1"} for one in JURY["judges"]]})
    with pytest.raises(ConfigError, match=r"template 'gone@v1' not found"):
        wizard.plan()
    # the process that would carry it out says so too
    with pytest.raises(ConfigError, match=r"template 'gone@v1' not found"):
        wizard.start()
    wizard.set(model="a.py", backend="custom")
    assert "cannot be read" in wizard.errors["model"]
    assert len(registry.runs()) == 0


def test_a_run_that_fails_is_told_with_the_end_of_its_log(make):
    wizard = make(model="model_name=bad,fail=3")
    wizard.start()
    run = ended(wizard)
    assert run.status == "failed"
    assert "the model is not there" in wizard.state["run"]["error"]
    assert wizard.state["progress"]["log"][-1] == "RuntimeError: the model is not there"
    assert wizard.state["page"] == {}


def test_stop_cancels_and_another_wizard_finds_the_run_that_goes_on(make, tmp_path):
    going = tmp_path / "go"
    first = make(model=f"model_name=slow,slow_unless={going}", scoring_mode="jury", scoring_config=JURY)
    run = first.start()
    second = make(pack="", model="")  # as after a restart of the kernel: nothing but the registry
    assert second.form.pack == ""
    third = ek.notebook.RunWizard(runner=first.runner)
    assert third.form == first.form  # filled in as the newest run was
    third.wait_idle(300)
    assert third.followed.run_id == run.id
    third.stop()
    assert third.wait(300).status == "cancelled"
    third.close()
    assert first.wait(300).status == "cancelled"
    with pytest.raises(ek.errors.RegistryError, match="already cancelled"):
        third.stop()
    with pytest.raises(InputError, match="no run is selected"):
        make(pack="").wait(1)


LAUNCHING = """
import sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from run_setup import runner_of
import evalkit as ek
wizard = ek.notebook.RunWizard(runner=runner_of(ek.runs.Registry.open({url!r}), Path({folder!r})), pack="support@1",
                      model="model_name=slow,slow_unless={go}")
print(wizard.start().id, flush=True)
time.sleep(60)
"""


def test_a_run_outlives_the_kernel(registry, tmp_path):
    go = tmp_path / "go"
    code = LAUNCHING.format(tests=str(SUPPORT), url=registry.database.url, folder=str(tmp_path), go=go)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as kernel:
        run_id = kernel.stdout.readline().strip()
        kernel.send_signal(signal.SIGKILL)
        kernel.wait()
    runner = runner_of(registry, tmp_path)
    assert runner.recover() == []
    assert runner.run(run_id).status == "running"
    go.touch()
    end = time.monotonic() + 300
    while runner.run(run_id).status == "running" and time.monotonic() < end:
        time.sleep(0.05)
    assert runner.run(run_id).status == "succeeded"


def test_a_secret_of_the_registry_is_on_no_command_line_and_in_no_view(make, monkeypatch):
    wizard = make()
    database = wizard.runner.registry.database
    monkeypatch.setattr(type(database), "url", "postgresql+psycopg://me:hidden@db/evalkit")
    monkeypatch.setattr(database, "shown", "postgresql+psycopg://me:***@db/evalkit")
    assert "--registry" not in wizard.command()
    assert "hidden" not in repr(wizard) + wizard._repr_html_()


# -- what is shown of a run


def run_of(registry, folder, model="model_name=good,details=1", **options):
    options = {"scoring_mode": "jury", "scoring_config": JURY} | options
    return runner_of(registry, folder).start("support", model, **options)


def test_a_figure_is_shown_with_spread_and_coverage(registry, tmp_path):
    run = run_of(registry, tmp_path)
    shown = run_payload(run)
    tables = {one["title"]: one["rows"] for one in shown["tables"]}
    # samples() of the stand-in: 6 of 8 are scored, stderr 0.1, pass rate 0.5
    first = tables["scores"][0]
    assert (first["task"], first["metric"]) == ("tone|0", "quality")
    assert (first["stderr"], first["scored"]) == ("0.100", "6 of 8 (75%)")
    assert [one["metric"] for one in tables["scores"]] == ["quality", "quality_pass_rate", "length"] * 2
    assert [tables["scores"][1][name] for name in ("value", "n", "scored")] == ["0.500", "NA", "NA"], "n not known"
    scores = (*run.scores, RunScore("tone|0", "quality_n_verdicts", 4.0))
    scores = tuple(replace(one, coverage=0.5) if one.metric == "quality_pass_rate" else one for one in scores)
    known = run_payload(replace(run, scores=scores))["tables"][0]["rows"][1]
    assert [known[name] for name in ("value", "n", "scored")] == ["0.500", "4", "4 of 8 (50%)"]
    receipt = tables["judged by (from the receipts)"][0]
    assert (receipt["scored"], receipt["paid now"]) == ("6 of 8", "US$ 0.0100")
    facts = dict(shown["facts"])
    assert facts["primary metric"] == "quality; leaderboards rank by it"
    assert facts["documents of tone|0"].startswith("8 (ids ")
    assert "not known" not in facts
    assert "median" in run.scoring_config["aggregation"]
    assert [row["weight"] for row in tables["judges"]] == ["1", "2"]
    json.dumps(shown)


def test_samples_are_paged_searched_and_shown_in_full(registry, tmp_path):
    samples = Samples(run_of(registry, tmp_path))
    assert samples.tasks() == ["tone|0", "plain|0"]
    page = samples.page(SampleQuery("tone|0"))
    # of eight the third of each four is unscored: 2 and 6 first, then from the lowest up
    assert [row["number"] for row in page["rows"]] == [2, 6, 0, 1, 3, 4, 5, 7]
    assert [row["figures"][0] for row in page["rows"][:3]] == ["NA", "NA", "0.000"]
    assert page["columns"][0] == "quality"
    assert [row["number"] for row in samples.page(SampleQuery("tone|0", order="file"))["rows"]] == list(range(8))
    found = samples.page(SampleQuery("tone|0", search="QUESTION 3"))
    assert ([row["id"] for row in found["rows"]], found["n"], found["n_all"]) == (["3"], 1, 8)
    none = samples.page(SampleQuery("tone|0", search="(.*", page=9))
    assert (none["rows"], none["n"], none["page"]) == ([], 0, 0)
    one = samples.sample("tone|0", 3)
    assert one["inputs"] == [["question", "question 3"], ["answer", "an answer <b>"]]
    assert ["length", "0.000"] in one["figures"]
    with pytest.raises(InputError, match="no details of task 'other"):
        samples.page(SampleQuery("other|0"))


def test_many_samples_are_shown_a_page_at_a_time(registry, tmp_path):
    samples = Samples(run_of(registry, tmp_path))
    samples.page(SampleQuery("tone|0"))
    table, judgments = samples._tables["tone|0"]
    many = pd.concat([table] * 10, ignore_index=True)
    samples._tables["tone|0"] = (many, judgments)
    pages = [samples.page(SampleQuery("tone|0", order="file", page=at)) for at in range(5)]
    assert [len(page["rows"]) for page in pages] == [25, 25, 25, 5, 5]  # the fifth is none: the last is shown
    assert [row["number"] for page in pages[:4] for row in page["rows"]] == list(range(80))
    samples._tables["tone|0"] = (table.iloc[::-1], judgments)  # shuffled: the same are first
    assert {row["number"] for row in samples.page(SampleQuery("tone|0"))["rows"][:2]} == {2, 6}
    samples._tables["tone|0"] = (table.iloc[:0], judgments)
    assert samples.page(SampleQuery("tone|0"))["n_all"] == 0
    samples._tables["tone|0"] = (table[table["quality_norm"].isna()], judgments)
    assert samples.page(SampleQuery("tone|0"))["n"] == 2


def judged_run(registry, folder):
    """A run that was judged for real: what `judge_metric` keeps of each sample, in LightEval's files."""
    items, _ = ek.load_example("facts")
    items = items.head(4)
    evaluation = ek.evaluate(items, "correctness", ["fake:strict", "fake:broken"], samples=2, aggregate="mean")
    kept = sample_rows("correctness", evaluation, report_disagreement=True)
    rows = [
        {
            "doc": {
                "id": item["item_id"],
                "query": item["question"],
                "specific": {"reference_answer": item["reference"]},
            },
            "metric": {"correctness": kept[item["item_id"]], "overlap": {"overlap": 0.5, "overlap_note": f"note {at}"}},
            "model_response": {"text": [item["answer"]]},
        }
        for at, item in enumerate(items.to_dict("records"))
    ]
    stamp, output = "2026-01-31T12-00-00", folder / "own" / "output"
    (output / "results" / "m").mkdir(parents=True)
    (output / "results" / "m" / f"results_{stamp}.json").write_text('{"results": {"tone:0": {"correctness": 0.5}}}')
    (output / "details").mkdir()
    parquet.write_table(pa.Table.from_pylist(rows), output / "details" / f"details_tone|0_{stamp}.parquet")
    judges = [
        JudgeUsed(
            name=name, provider="fake", service="local", model=name, weight=1, temperature=1, max_tokens=512,
            template="default@v1", template_hash="a",
        )
        for name in ("fake:strict", "fake:broken")
    ]  # fmt: skip
    receipt = Receipt(
        task="tone|0", metric="correctness", scoring_mode="jury", rubric="correctness", rubric_version="v1",
        rubric_hash="b", judges=judges, samples=2, n_items=4, n_scored=4, n_empty=0, n_judgments=16, n_unscored=8,
        n_live=16, n_cached=0, evalkit_version="0",
    )  # fmt: skip
    run = left_running(runner_of(registry, folder))
    scores = (RunScore("tone|0", "correctness", 0.5, 0.1, 1.0), RunScore("tone|0", "overlap", 0.5))
    artifacts = {"folder": str(folder / "own")}
    run = replace(run, status="succeeded", receipts=(receipt,), scores=scores, artifacts=artifacts)
    return run, evaluation


def test_judges_and_their_reasons_are_those_of_the_evaluation(registry, tmp_path):
    run, evaluation = judged_run(registry, tmp_path)
    samples = Samples(run)
    page = samples.page(SampleQuery("tone|0", order="file"))
    assert page["columns"] == ["correctness", "correctness_verdict", "correctness_disagreement", "overlap"]
    one = samples.sample("tone|0", page["rows"][1]["number"])
    item = evaluation.items["item_id"].iloc[1]
    mine = evaluation.judgments[evaluation.judgments["item_id"] == item]
    told = {judge["judge"]: judge for judge in one["judges"]}
    assert set(told) == {"fake:strict", "fake:broken"}
    strict = mine[mine["judge"] == "fake:strict"]
    assert [said["explanation"] for said in told["fake:strict"]["samples"]] == strict["explanation"].tolist()
    assert told["fake:strict"]["scored"] == "2 of 2"
    errors = mine.loc[mine["judge"] == "fake:broken", "error"].astype(object).fillna("").tolist()
    assert [said["error"] for said in told["fake:broken"]["samples"]] == errors
    assert [name for name, _ in one["inputs"]] == ["question", "answer", "reference"]
    assert ["overlap_note", "note 1"] in one["texts"]
    json.dumps([page, one])


def test_without_details_it_is_said_why(registry, tmp_path):
    view = ek.notebook.RunView(run_of(registry, tmp_path, "model_name=good"))
    view.wait_idle()
    assert "no samples are shown" in view.state["page"]["problem"]
    assert "--save-details" in view.state["page"]["problem"]
    assert view.state["run"]["tables"][0]["title"] == "scores"


def test_a_view_answers_what_is_asked_and_survives_nonsense(registry, tmp_path):
    run = run_of(registry, tmp_path)
    view = ek.notebook.RunView(run)
    view.wait_idle()
    view.receive({"do": "select", "task": "tone|0", "number": 2})
    view.wait_idle()
    assert view.state["sample"]["id"] == "2"
    for nonsense in (
        None,
        {"do": "gone"},
        {"do": "select"},
        {"do": "select", "task": "x", "number": "y"},
        {"do": "query"},
    ):
        view.receive(nonsense)
    view.receive({"do": "select", "task": "tone|0", "number": 99})
    view.wait_idle()
    assert "99" in view.state["alert"]
    assert repr(view) == str(run)
    data, _ = view._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert run.id in data["text/html"]
    assert run.id in data["text/plain"]


def test_without_a_kernel_scores_judges_and_samples_with_reasons_are_shown(registry, tmp_path):
    run, evaluation = judged_run(registry, tmp_path)
    page = ek.notebook.RunView(run)._repr_html_()
    for shown in (">0.100<", "4 of 4", "those that need review first", "fake:broken unscored (scored 0 of 2)"):
        assert shown in page
    said = evaluation.judgments.set_index(["item_id", "judge"])["explanation"]
    first = said[(evaluation.items["item_id"].iloc[0], "fake:strict")].iloc[0]
    assert html.escape(first[:240]) in page
    assert sum(page.count(f"<th class='{kind}' scope='col'>explanations</th>") for kind in "tl") == 1


def test_without_a_kernel_it_is_said_why_there_are_no_samples_or_no_scores(registry, tmp_path):
    bare = ek.notebook.RunView(run_of(registry, tmp_path, "model_name=good"))._repr_html_()
    assert "no samples are shown" in bare
    assert ">0.100<" in bare
    failed = ek.notebook.RunView(run_of(registry, tmp_path, "model_name=<b>bad</b>,fail=3"))._repr_html_()
    assert "the model is not there" in failed
    assert "<b>bad" not in failed
    waiting = ek.notebook.RunView(left_running(runner_of(registry, tmp_path)))
    assert "running" in waiting._repr_html_()
    assert "<table" not in waiting._repr_html_()
    assert "as it was when it was read" in waiting.state["run"]["notes"][-1]  # the view does not follow it


def test_texts_of_others_are_escaped_in_the_plain_page(make):
    wizard = make(model="model_name=<script>alert(1)</script>,fail=1")
    assert "<script>" not in wizard._repr_html_()
    wizard.start()
    ended(wizard)
    assert "<script>" not in wizard._repr_html_()


def test_without_the_extra_it_is_said_what_to_install(monkeypatch, registry):
    monkeypatch.setitem(sys.modules, "evalkit.notebook.anywidgets", None)
    with pytest.raises(MissingExtraError, match=r"RunWizard needs ipywidgets and anywidget.*'\.\[notebook\]'"):
        ek.notebook.RunWizard(registry)
