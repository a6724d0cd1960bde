"""Runs on SQLite and PostgreSQL: resolution, one run from start to end, comparison, leaderboard."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from evalkit.errors import ConfigError, InputError, RegistryError

pytest.importorskip("sqlalchemy")

from run_setup import JUDGE, JURY, TEMPLATE, bound, made, make_plugin, pack, processes_of, runner_of

from evalkit.runs import Run, Runner, compare_runs, leaderboard
from evalkit.runs.contract.lighteval_output import LightevalArtifacts
from evalkit.runs.processes.lighteval_command import check_flags, lighteval_words
from evalkit.runs.registry import Registry
from evalkit.runs.run.binding_tasks import resolve
from evalkit.runs.run.run_display import run_tables
from evalkit.runs.run.run_store import Ending


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Registry]:
    opened = Registry.open(tmp_path / "registry.sqlite")
    yield opened
    opened.close()


def with_plugin(registry: Registry, folder: Path, *tasks: dict[str, Any], code: str = "TASKS_TABLE = []\n") -> None:
    registry.register_plugin("tone", "1", str(make_plugin(folder, code)))
    registry.apply_pack(pack(*(tasks or (bound("tone", judge_profile="tone-strict", judge_template_id="plain@v1"),))))


def said(registry: Registry, mode: str = "jury", config: Any = JURY) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(registry, registry.pack("support"), mode, config)
    return str(caught.value)


def rows(run: Run) -> list[dict[str, Any]]:
    return run.table.astype(object).where(run.table.notna(), None).to_dict("records")


# resolution


def test_names_become_paths_hashes_and_texts(local: Registry, tmp_path: Path) -> None:
    local.add_template("fresh", "v1", TEMPLATE)
    local.add_template("fresh", "v2", TEMPLATE + "!")
    with_plugin(
        local, tmp_path, {"task": "own"}, bound("tone", judge_profile="tone-strict", judge_template_id="fresh"),
        bound("plain", judge_template_id="plain"), bound("mixed"),
    )  # fmt: skip
    judges = [{**JURY["judges"][0], "judge_template_id": "default@v1"}, JURY["judges"][1]]
    found = resolve(local, local.pack("support"), "jury", {"judges": judges})
    assert list(found.bindings) == ["tone", "plain", "mixed"], "what is not overridden is not bound"
    tone = found.bindings.of_task("tone|0")
    assert (tone.plugin_path, tone.plugin_version) == (str(tmp_path / "tone_plugin"), "1")
    assert [text.version for text in tone.templates] == ["v2"], "a name alone is the registry's newest"
    assert found.bindings.of_task("plain").templates == [], "the plugin has it, so its text need not travel"
    assert {task: profile.profile for task, profile in found.profiles.items()} == {"tone": "tone-strict"}
    assert found.to_dict()["plugins"].keys() == {"tone@1"}
    deterministic = resolve(local, local.pack("support"), "deterministic", {"nonsense": 1})
    [said] = deterministic.warnings
    assert "nothing will be judged" in said
    assert "EVALUATOR_SCORING_MODE" in said
    assert resolve(local, local.pack("support")).warnings == ()
    assert deterministic.scoring.config is None
    assert deterministic.bindings.of_task("tone").templates == []
    assert deterministic.bindings.of_task("tone").plugin_path == str(tmp_path / "tone_plugin")


def test_a_template_that_the_scoring_config_names_is_looked_up_for_tasks_without_overrides(local: Registry) -> None:
    local.add_template("fresh", "v1", TEMPLATE)
    local.apply_pack(pack({"task": "own"}))
    judges = [JURY["judges"][0], {**JURY["judges"][1], "judge_template_id": "fresh"}]
    found = resolve(local, local.pack("support"), "jury", {"judges": judges})
    (text,) = found.bindings.of_task("own").templates
    assert (text.name, text.version, text.text) == ("fresh", "v1", TEMPLATE)
    assert found.bindings.of_task("own").judge_template_id is None, "the other judge keeps the metric's template"
    judges[1] = {**JURY["judges"][1], "judge_template_id": "flesh"}
    assert "template 'flesh' not found; searched registry:" in said(local, "jury", {"judges": judges})


def test_every_problem_of_a_pack_is_in_one_message(local: Registry, tmp_path: Path) -> None:
    with_plugin(
        local, tmp_path,
        bound("a", judge_profile="missing-profile", judge_template_id="nowhere@v3"),
        bound("b", plugin="absent"),
        bound("c", judge_plugin_version="9"),
        {"task": "d", "overrides": {"judge_template_id": "default"}},
    )  # fmt: skip
    message = said(local, "jury", {"judges": JURY["judges"][:1]})
    for number, wanted in enumerate(
        [
            "takes two judges or more, and the scoring config has one",
            "'missing-profile' not found; available: 'conservative', 'strict' and paths of .yaml files (nor in its",
            "template 'nowhere@v3' not found; searched registry: judge template 'nowhere' not found",
            "task 'b': plugin 'absent' not found; available: 'tone'",
            "task 'c': plugin tone@9 not found; available versions: 1",
        ],
        1,
    ):
        assert wanted in message, message
        assert f"({number})" in message
    assert "(6)" not in message, "and nothing of judges, which the scoring config names"


def test_a_plugin_that_changed_names_what_to_do(local: Registry, tmp_path: Path) -> None:
    with_plugin(local, tmp_path)
    (tmp_path / "tone_plugin" / "profiles" / "tone-strict.yaml").write_text("profile: tone-strict\nsamples: 9\n")
    message = said(local)
    assert "plugin tone@1 changed since it was registered" in message
    assert "as a new version" in message
    (tmp_path / "tone_plugin" / "__init__.py").unlink()
    assert "tone@1 cannot be used here" in said(local)


def test_two_versions_of_one_plugin_are_refused(local: Registry, tmp_path: Path) -> None:
    with_plugin(
        local, tmp_path,
        bound("a", judge_plugin_version="1", judge_profile="tone-strict"),
        bound("b", judge_plugin_version="2", judge_profile="tone-strict"),
    )  # fmt: skip
    local.register_plugin("tone", "2", str(make_plugin(tmp_path / "two", "TASKS_TABLE = [2]\n")))
    assert "plugin 'tone' is needed in the versions '1', '2' (tasks 'a', 'b')" in said(local)


def test_a_group_of_tasks_and_a_task_of_it_are_refused(local: Registry, tmp_path: Path) -> None:
    with_plugin(local, tmp_path, bound("tone"), {"task": "tone:part"})
    assert "task 'tone': it contains 'tone:part', which the pack lists too" in said(local)


@pytest.mark.parametrize("config", [None, {"samples": 5}, JURY], ids=["no-config", "no-judges", "config"])
def test_judges_that_nobody_names(local: Registry, tmp_path: Path, config: Any) -> None:
    with_plugin(local, tmp_path)
    assert resolve(local, local.pack("support"), "jury", config).bindings, "the plugin's own code may name them"
    local.apply_pack(pack({"task": "own", "overrides": {"judge_profile": "strict"}}, version="2"))
    if config is JURY:
        assert resolve(local, local.pack("support"), "jury", config).bindings
    else:
        assert "task 'own': no judges in mode 'jury'" in said(local, "jury", config)


def test_the_number_of_a_profiles_judges_must_fit_the_mode(local: Registry, tmp_path: Path) -> None:
    package = make_plugin(tmp_path)
    (package / "profiles" / "alone.yaml").write_text(
        "profile: alone\nrubric: faithfulness@v1\njudges: [{provider: fake, model: strict}]\n"
    )
    (package / "profiles" / "lost.yaml").write_text("profile: lost\nrubric: nowhere@v1\njudges: ['fake:strict']\n")
    local.register_plugin("tone", "1", str(package))
    local.apply_pack(
        pack(bound("a", judge_profile="alone", judge_template_id="plain"), bound("b", judge_profile="lost"))
    )
    message = said(local, "jury", None)
    assert "scoring mode 'jury' takes two judges or more, and profile 'alone' has one" in message
    assert "template plain@v1 does not show the input" in message, "the profile's rubric has inputs that it leaves out"
    assert "profile 'lost' needs rubric nowhere@v1" in message


def test_a_key_that_is_not_set_is_a_warning(local: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_plugin(local, tmp_path)
    config = {"judges": [{"judge_model_name": "m", "judge_backend": "openai", "api_key_env": "SOME_KEY"}]}
    found = resolve(local, local.pack("support"), "judge", config)
    assert found.warnings == ("judge 'm': the variable SOME_KEY is not set here; only cached replies can be used",)
    monkeypatch.setenv("SOME_KEY", "secret")
    assert resolve(local, local.pack("support"), "judge", config).warnings == ()


# one run


def test_a_run_from_start_to_end(registry: Registry, tmp_path: Path) -> None:
    with_plugin(registry, tmp_path, {"task": "plain"}, bound("tone", judge_profile="tone-strict"))
    runner, lines, begun = runner_of(registry, tmp_path), [], []
    run = runner.start(
        "support", "model_name=good,details=1", scoring_mode="jury", scoring_config=JURY, max_samples=4,
        flags={"num_fewshot_seeds": 1}, on_line=lines.append, on_start=begun.append,
    )  # fmt: skip
    assert (run.status, run.error, run.exit_code) == ("succeeded", None, 0)
    assert begun[0].status == "running"
    assert lines == ["fake: begun"]
    assert run.log.read_text() == "fake: begun\n"
    seen = json.loads((run.output / "seen.json").read_text())
    assert seen["words"][:3] == ["accelerate", "model_name=good,details=1", "plain|0,tone|0"]
    assert seen["words"][3:5] == ["--custom-tasks", "evalkit.lighteval.plugin"]
    assert seen["words"][-4:] == ["--max-samples", "4", "--num-fewshot-seeds", "1"]
    assert json.loads(seen["environment"]["EVALUATOR_SCORING_CONFIG"]) == JURY == run.scoring_config
    binding = json.loads(seen["environment"]["EVALKIT_TASK_BINDINGS"])["tone"]
    assert (binding["judge_profile"], Path(binding["plugin_path"]).name) == ("tone-strict", "tone_plugin")
    assert [one.receipt_state for one in run.tasks] == ["own_config", "consumed"]
    assert [one.n_samples for one in run.tasks] == [4, 4]
    # samples 0, 1/8, unscored, 3/8: mean 1/6 of three in four
    first = rows(run)[0]
    assert first["metric"] == "quality"
    assert first["value"] == pytest.approx(1 / 6)
    assert (first["stderr"], first["coverage"], first["n_samples"]) == (0.1, 0.75, 4)
    assert not any(row["metric"].endswith(("_stderr", "_coverage")) for row in rows(run))
    assert run.not_known == ()
    facts = {(f"{about.what} {about.judge}".rstrip(), about.task): values for about, values in run.facts.items()}
    assert facts["documents", "tone|0"]["golds"] == "g"
    assert facts["judge fake:lenient", "tone|0"]["weight"] == 2
    assert run.artifacts["environment"]["packages"]["pandas"]
    assert registry.runs()[["id", "pack", "status"]].to_numpy().tolist() == [[run.id, "support@1", "succeeded"]]
    assert not runner.store.close(run.id, Ending("failed", "again")), "nothing is closed or doubled twice"
    assert runner.run(run.id) == run
    with pytest.raises(RegistryError, match="is already succeeded; there is nothing to cancel"):
        runner.cancel(run.id)


def test_deterministic_runs_ask_no_judge(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_plugin(registry, tmp_path)
    monkeypatch.setenv("EVALUATOR_SCORING_CONFIG", "inherited")
    monkeypatch.setenv("EVALKIT_TASK_BINDINGS", "inherited")
    runner = runner_of(registry, tmp_path)
    run = runner.start("support@1", "model_name=good", scoring_config={"any": "thing"})
    environment = json.loads((run.output / "seen.json").read_text())["environment"]
    assert environment["EVALUATOR_SCORING_MODE"] == "deterministic"
    assert "EVALUATOR_SCORING_CONFIG" not in environment
    assert json.loads(environment["EVALKIT_TASK_BINDINGS"])["tone"]["plugin"] == "tone"
    assert run.scoring_config == {"any": "thing"}, "kept as given, and neither checked nor handed on"
    assert [one.receipt_state for one in run.tasks] == ["deterministic"]


ENDS = [
    ("fail=3", "LightEval ended with exit code 3: RuntimeError: the model is not there"),
    ("fail=137", "LightEval was killed by signal 9"),
    ("cut=results", "is truncated or not JSON"),
    ("cut=details,details=1", "is truncated or not a parquet file"),
    ("cut=receipts", "not a receipts file of a run: invalid JSON"),
    ("lose=tone", r"has no results for 'tone\|0'; it has results for 'plain\|0'"),
]


@pytest.mark.parametrize(("model", "message"), ENDS, ids=[model.replace(",", "-") for model, _ in ENDS])
def test_a_run_that_goes_wrong_is_closed_with_the_reason(
    local: Registry, tmp_path: Path, model: str, message: str
) -> None:
    with_plugin(local, tmp_path, {"task": "plain"}, bound("tone"))
    run = runner_of(local, tmp_path).start("support", f"model_name=m,{model}", scoring_mode="jury", scoring_config=JURY)
    assert run.status == "failed"
    assert run.error is not None
    assert re.search(message, run.error), run.error
    assert run.scores == (), "figures of a run that failed are not shown"
    assert run.finished_at is not None


def test_a_command_that_cannot_be_started_closes_the_run(local: Registry, tmp_path: Path) -> None:
    local.apply_pack(pack())
    run = Runner(local, folder=tmp_path, command=[str(tmp_path / "none")], patience_s=1).start("support", "m")
    assert run.status == "failed"
    assert run.error is not None
    assert "ended with exit code 1: FileNotFoundError" in run.error


def test_no_receipt_marks_the_run_and_empty_answers_are_told(local: Registry, tmp_path: Path) -> None:
    with_plugin(local, tmp_path, {"task": "plain"}, bound("tone"))
    model = "model_name=m,details=1,empty=1,receipts=no"
    run = runner_of(local, tmp_path).start("support", model, scoring_mode="jury", scoring_config=JURY)
    assert [one.receipt_state for one in run.tasks] == ["own_config", "not_consumed"]
    assert run.not_known == ("rules: receipt (tone|0, tone|0 quality)",)
    assert "plain|0: 8 of 8 answers are empty; did the model's calls fail?" in run.notes
    assert "left no receipt" in str(run)


def test_a_bound_task_that_is_never_judged_needs_no_receipt(local: Registry, tmp_path: Path) -> None:
    with_plugin(local, tmp_path, {"task": "plain"}, bound("tone"))
    run = runner_of(local, tmp_path).start(
        "support", "model_name=m,details=1,unjudged=tone", scoring_mode="jury", scoring_config=JURY
    )
    assert [one.receipt_state for one in run.tasks] == ["own_config", "deterministic"]
    assert run.not_known == ()


def test_a_bound_profile_that_no_receipt_names_is_said(local: Registry, tmp_path: Path) -> None:
    """A metric that follows its own arguments, as `PolluxLLMJudgeMetric` does, takes no profile."""
    with_plugin(local, tmp_path, bound("tone", judge_profile="tone-strict"), bound("tone2"))
    run = runner_of(local, tmp_path).start("support", "model_name=m", scoring_mode="jury", scoring_config=JURY)
    said = [note for note in run.notes if "judge_profile" in note]
    assert said == ["tone|0: quality did not use the bound judge_profile 'tone-strict'"]
    asked = runner_of(local, tmp_path).start("support", "model_name=m")
    assert not any("judge_profile" in note for note in asked.notes), "deterministic mode takes none"


def test_what_nobody_knows_is_not_deterministic_and_is_listed(local: Registry, tmp_path: Path) -> None:
    with_plugin(local, tmp_path, {"task": "plain"}, bound("tone"))
    runner = runner_of(local, tmp_path)

    def started(model: str, mode: str) -> Run:
        config = JURY if mode == "jury" else None
        return runner.start("support", f"model_name=m,{model}", scoring_mode=mode, scoring_config=config)

    bound_one = started("unknown=tone", "jury")
    assert [one.receipt_state for one in bound_one.tasks] == ["own_config", "not_consumed"]
    assert bound_one.not_known == ("rules: receipt (tone|0)", "metric: scorer (tone|0 quality)")
    assert "tone|0: its judge plugin left no receipt" in bound_one.notes
    own = started("unknown=plain", "jury")
    assert [one.receipt_state for one in own.tasks] == ["own_config", "consumed"], "a task without override: no fault"
    assert own.not_known == ("metric: scorer (plain|0 quality)",)
    assert "not known: metric: scorer (plain|0 quality)" in str(own)
    unasked = started("unknown=tone", "deterministic")
    assert [one.receipt_state for one in unasked.tasks] == ["deterministic", "not_consumed"]
    assert any("its metrics may call a judge" in note for note in unasked.notes)
    unnoted = started("facts=no", "deterministic")
    assert [one.receipt_state for one in unnoted.tasks] == ["own_config", "not_consumed"]
    assert "documents: content (plain|0, tone|0)" in unnoted.not_known
    assert started("details=1", "deterministic").not_known == ()


def test_what_nobody_knows_is_said_where_runs_are_compared_and_ranked(local: Registry, tmp_path: Path) -> None:
    local.apply_pack(pack(name="own"))
    runner = runner_of(local, tmp_path)
    a = runner.start("own", "model_name=a,details=1,unknown=plain")
    b = runner.start("own", "model_name=b,details=1,unknown=plain")
    found = compare_runs(a, b)
    open_facts = found.table.set_index("metric")["not_known"]
    assert (open_facts["quality"], open_facts["length"]) == ("metric: scorer", "")
    assert found.not_known == ("metric: scorer (plain|0 quality)",)
    assert [line.partition(":")[0] for line in found.differences] == ["model"], "more is not known"
    board = leaderboard(local, "own")
    assert board["not_known"].tolist() == ["metric: scorer (plain|0 quality)"] * 2
    assert board["judged_by"].tolist() == ["unknown", "unknown"]
    assert board["group"].tolist() == [1, 1]
    known = runner.start("own", "model_name=c")
    assert compare_runs(a, known).not_known == (f"metric: scorer (plain|0 quality), of {a.id}",)
    board = leaderboard(local, "own").set_index("run")
    assert (board.loc[known.id, "group"], board.loc[known.id, "not_known"]) == (2, "")
    judged = [
        runner.start("own", f"model_name=m{at},unknown=plain", scoring_mode="jury", scoring_config=config)
        for at, config in enumerate((JURY, {**JURY, "aggregation": "mean"}))
    ]
    config = compare_runs(*judged).differences[1]
    assert config == "metric: scoring config (plain|0 quality)", "what is not known may read the config"


def test_replies_that_nobody_could_read_are_said_first(local: Registry, tmp_path: Path) -> None:
    with_plugin(local, tmp_path, {"task": "plain"}, bound("tone"), bound("tone2"))
    run = runner_of(local, tmp_path).start(
        "support", "model_name=m,details=1,empty=1,unread=1", scoring_mode="jury", scoring_config=JURY
    )
    assert run.status == "succeeded"
    assert run.notes[:3] == (
        "tone|0, quality: none of 8 answers has a score",
        "tone|0, quality: fake:strict: 0 of 24 scored: unreadable 23, timeout 1",
        "tone|0, quality: fake:lenient: 0 of 24 scored: unreadable 23, timeout 1",
    )
    title, first, *_ = str(run).splitlines()
    assert title.endswith("but nothing was scored in tone|0 (quality), tone2|0 (quality)")
    assert first == f"note: {run.notes[0]}"
    assert f"note: {run.notes[1]}" in run._repr_html_()
    assert run.to_dict()["scored_nothing"] == ("tone|0 (quality)", "tone2|0 (quality)")
    assert not any("judge_profile" in note for note in run.notes), "none is bound"
    [row] = leaderboard(local, "support").to_dict("records")
    assert row["judged_by"] == "fake:strict (scored nothing), fake:lenient (scored nothing) by quality@v1"
    other = runner_of(local, tmp_path).start(
        "support", "model_name=m,details=1", scoring_mode="jury", scoring_config=JURY
    )
    notes = compare_runs(run, other).table.set_index(["task", "metric"])["notes"]
    assert notes["tone|0", "quality"].startswith(f"fake:strict, fake:lenient scored nothing in {run.id}")
    assert "scored nothing" not in notes["plain|0", "quality"]


def test_a_run_shows_which_judge_was_asked_in_which_task_by_what_on_which_server(
    local: Registry, tmp_path: Path
) -> None:
    with_plugin(local, tmp_path, bound("tone"), bound("tone2"))
    run = runner_of(local, tmp_path).start("support", "model_name=m", scoring_mode="jury", scoring_config=JURY)
    rows = dict(run_tables(run))["judges"]
    assert [(row["task"], row["judge"]) for row in rows] == [
        ("tone|0", "fake:strict"), ("tone|0", "fake:lenient"), ("tone2|0", "fake:strict"), ("tone2|0", "fake:lenient"),
    ]  # fmt: skip
    assert {(row["server"], row["template"], row["scored"], row["unscored"]) for row in rows} == {
        ("local", "default@v1 (aaaaaaaa)", "18 of 24", "timeout 6")
    }
    judge = run.receipts[0].judges[0].model_copy(update={"base_url": "http://127.0.0.1:1/v1", "served": {"x-2026": 3}})
    told = dataclasses.replace(run, receipts=(run.receipts[0].model_copy(update={"judges": [judge]}),))
    [row] = dict(run_tables(told))["judges"]
    assert (row["server"], row["model"]) == ("http://127.0.0.1:1/v1", "fake:strict (served: x-2026)")


def test_wrong_orders_start_nothing(local: Registry, tmp_path: Path) -> None:
    local.apply_pack(pack())
    runner = runner_of(local, tmp_path)
    for message, options in [
        ("unknown back end 'tpu'; allowed: accelerate", {"backend": "tpu"}),
        ("max_samples must be a whole number", {"max_samples": 0}),
        ("evalkit sets LightEval's flag --output-dir for each run", {"flags": {"output_dir": "x"}}),
        (r"takes --model FILE\.py or NAME=FILE\.py", {"backend": "custom"}),
        ("unknown scoring mode 'jurry'", {"scoring_mode": "jurry"}),
        ("cannot be read", {"backend": "custom", "model": str(tmp_path / "none.py")}),
        ("no model; set one", {"model": " "}),
    ]:
        with pytest.raises(ConfigError, match=message):
            runner.start("support", **({"model": "m"} | options))
    with pytest.raises(RegistryError, match="pack 'other' not found"):
        runner.start("other", "m")
    assert local.runs().empty


def test_words_of_every_back_end(tmp_path: Path) -> None:
    model = tmp_path / "mine.py"
    assert lighteval_words("custom", f"tiny={model}", ["a|0"], Path("o"), {})[:4] == [
        "custom",
        "tiny",
        str(model),
        "a|0",
    ]
    assert lighteval_words("custom", str(model), ["a|0"], Path("o"), {})[1] == "mine"
    words = lighteval_words("endpoint-litellm", "gpt-4o-mini", ["a|0", "b|5"], Path("o"), {"flags": {"wandb": None}})
    assert words[:4] == ["endpoint", "litellm", "model_name=gpt-4o-mini", "a|0,b|5"]
    assert words[-1] == "--wandb"
    assert lighteval_words("vllm", "m.yaml", ["a|0"], Path("o"), {})[1] == str(Path("m.yaml").absolute())
    assert check_flags({"--job_id": 3}) == {"job-id": 3}


def test_ids_may_be_cut(local: Registry, tmp_path: Path) -> None:
    local.apply_pack(pack())
    runner = runner_of(local, tmp_path)
    with pytest.raises(RegistryError, match="there are no runs yet"):
        runner.store.run("last")
    first, second = (runner.start("support", "model_name=m,fail=1") for _ in range(2))
    assert runner.store.run("last").id == second.id
    assert runner.store.run(first.id).id == first.id
    with pytest.raises(RegistryError, match="the ids of 2 runs start with '2"):
        runner.store.run(first.id[:2])
    with pytest.raises(RegistryError, match="run '%' not found"):
        runner.store.run("%")


def test_cancelling_a_running_run_ends_its_processes(registry: Registry, tmp_path: Path) -> None:
    registry.apply_pack(pack())
    runner = runner_of(registry, tmp_path)

    def cancel(line: str) -> None:
        if "step 2" in line:
            runner_of(registry, tmp_path).cancel("last")

    run = runner.start("support", "model_name=m,sleep=60,child=1", on_line=cancel)
    assert (run.status, run.error) == ("cancelled", "cancelled while it ran")
    assert run.finished_at is not None
    assert processes_of(run.id) == []


def test_ctrl_c_while_the_registry_is_asked_closes_the_run(local: Registry, tmp_path: Path) -> None:
    """SQLAlchemy keeps its connection, and SQLite the lock, where an interrupt comes between two of its steps."""
    from sqlalchemy import event

    local.apply_pack(pack())
    begun: list[str] = []
    looks: list[threading.Thread] = []

    def interrupt(_: Any) -> None:
        if begun:
            begun.clear()
            looks.append(threading.current_thread())
            os.kill(os.getpid(), signal.SIGINT)

    event.listen(local.database._opened(), "begin", interrupt)
    with pytest.raises(KeyboardInterrupt):
        runner_of(local, tmp_path).start("support", "model_name=m,sleep=60", on_start=lambda run: begun.append(run.id))
    run = runner_of(local, tmp_path).run("last")
    assert (run.status, run.error) == ("cancelled", "stopped by Ctrl-C")
    assert looks, "the row was looked at while LightEval ran"
    assert looks[0] is not threading.main_thread(), "which Python interrupts"


def test_a_view_escapes_what_others_wrote(local: Registry, tmp_path: Path) -> None:
    local.apply_pack(pack(name="support"))
    run = runner_of(local, tmp_path).start("support", "model_name=m<script>alert(1)</script>,fail=2")
    assert "<script>" not in run._repr_html_()
    assert "&lt;script&gt;" in run._repr_html_()
    assert "\x1b" not in str(dataclasses.replace(run, error="\x1b[31mred"))


def test_a_run_prints_scores_with_coverage_and_the_judges_that_were_used(local: Registry, tmp_path: Path) -> None:
    with_plugin(local, tmp_path)
    run = runner_of(local, tmp_path).start(
        "support", "model_name=m,details=1", scoring_mode="jury", scoring_config=JURY
    )
    text = str(run)
    # samples 0, 1/8, 3/8, 4/8, 5/8, 7/8 of eight: mean 2.5/6
    for part in ("tone|0  quality            0.417   0.100   6   6 of 8 (75%)", "fake:lenient", "default@v1 (aaaaaaaa)",
                 "samples 3, vote mean, aggregation mean, quorum 0.5", "documents of tone|0: 8 ("):  # fmt: skip
        assert part in text, text
    assert "6 of 8 (75%)" in run._repr_html_()


def test_differences_are_paired_by_document(local: Registry, tmp_path: Path) -> None:
    with_plugin(local, tmp_path)
    runner = runner_of(local, tmp_path)
    common = {"scoring_mode": "jury", "scoring_config": JURY}
    a = runner.start("support", "model_name=a,details=1", **common)
    b = runner.start("support", "model_name=b,details=1,shift=0.125,shuffled=1", **common)
    found = compare_runs(a, b)
    assert not found.table["differs"].any()
    row = found.table[found.table["metric"] == "quality"].iloc[0]
    # shift 1/8 on odd documents: of the six scored (0,1,3,4,5,7) four move by 1/8, the last to min(1, 1): mean 4/6 / 8
    assert row["difference"] == pytest.approx(1 / 12)
    assert row["n_pairs"] == 6
    assert row["low"] < 1 / 12 < row["high"]
    # of the six that are scored on both sides: 2.5/6 and 3/6
    assert (row["paired_before"], row["paired_after"]) == pytest.approx((2.5 / 6, 3 / 6))
    assert row["notes"] == "paired; 2 scored by neither run"
    same = compare_runs(a, a).table
    assert (same["difference"].dropna() == 0).all()
    rate = found.table[found.table["metric"] == "quality_pass_rate"].iloc[0]
    assert math.isnan(rate["low"]), "no samples of that name and no standard error: no interval"
    assert rate["notes"] == "no details and no standard errors"
    assert "0.083 [" in str(found)
    with pytest.raises(InputError, match="only runs that succeeded"):
        compare_runs(a, dataclasses.replace(b, status="failed"))


EQUAL = ", no sample differs; the interval says what further samples may show"


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("is_verdict", [True, False])
def test_what_is_left_out_of_pairs_is_counted_by_who_did_not_score_it(seed: int, is_verdict: bool) -> None:
    import numpy as np
    import pandas as pd

    from evalkit.runs.run.run_comparison import _paired

    draw = np.random.default_rng(seed)
    kinds = ["both"] * 3 + list(draw.choice(["both", "before", "after", "neither", "without"], 12))
    places = pd.Index(draw.permutation(len(kinds)))
    for of_both in (None, 1.0, 2.0):  # values drawn, or all equal
        sides = []
        for side in ("before", "after"):
            values = draw.integers(0, 2 if is_verdict else 5, len(kinds)).astype(float) if of_both is None else of_both
            values = pd.Series(values, index=places).where([kind in ("both", side) for kind in kinds])
            values.attrs["without"] = {at for at, kind in zip(places, kinds, strict=True) if kind == "without"}
            sides.append(values.sample(frac=1, random_state=seed))
        pairs = _paired(sides, [float(side.mean()) for side in sides])
        assert pairs is not None
        n_one, n_neither = kinds.count("before") + kinds.count("after"), kinds.count("neither")
        assert pairs.n == kinds.count("both")
        parts = pairs.note.split("; ")
        counted = [part for part in parts if "left out" in part or "neither" in part]
        expected = [f"{n_one} left out because one run did not score them"] * bool(n_one)
        assert counted == expected + [f"{n_neither} scored by neither run"] * bool(n_neither)
        if of_both is not None:
            assert (EQUAL in pairs.note) == (pairs.interval.reason is None)


def test_verdicts_are_paired_too() -> None:
    import pandas as pd

    from evalkit.runs.run.run_comparison import _paired

    a = pd.Series([0.0, 0, 0, 1, 1, 1, 1, 0, 0, 0], index=list("abcdefghij"))
    b = pd.Series([1.0, 1, 1, 0, 1, 1, 1, 0, 0, 0], index=list("abcdefghij")).sample(frac=1, random_state=1)
    found = _paired([a, b], [0.4, 0.6])
    assert found is not None
    # three fixed, one broke: mean 0.2, cluster variance 10/9 · 3.6 / 100 = 0.04; shrunk by 10/12 and with half an item
    # more in each cell: 0.04 · (10/12)² + (1 + (1/6)²) / 12² = 0.034915; t₉ = 2.26216
    half = 2.26216 * math.sqrt(0.034915)
    assert (found.interval.low, found.interval.high) == pytest.approx((1 / 6 - half, 1 / 6 + half), abs=1e-4)
    assert (found.n, found.note, found.difference) == (10, "paired", pytest.approx(0.2))
    assert _paired([a, b.iloc[:9]], [0.4, 0.6]) is None, "other documents"
    assert _paired([a, b], [0.4, 0.5]) is None, "a figure that is not the mean of its samples"
    some = pd.Series([1.0, math.nan, 0.0, 1.0])
    some.attrs["without"] = {1}
    applied = _paired([some, some], [2 / 3, 2 / 3])
    assert applied is not None
    assert (applied.n, applied.note) == (3, f"paired{EQUAL}"), "what applies to no side is not left out"
    half_of_each = [a.where(a.index < "f"), b.where(b.index >= "f")]
    nobody = _paired(half_of_each, [0.4, 0.4])
    assert nobody is not None
    assert (nobody.interval.reason, nobody.n) == ("no sample is scored on both sides", 0)
    assert math.isnan(nobody.difference), "there is no pair to differ"


def test_difference_interval_and_means_are_of_the_same_samples() -> None:
    import pandas as pd

    from evalkit.runs.run.run_comparison import _paired

    draw = random.Random(38)
    for _ in range(300):
        n = draw.randint(3, 12)
        sides = [
            pd.Series([draw.choice([math.nan, *(number / 8 for number in range(9))]) for _ in range(n)]) for _ in "ab"
        ]
        means = [float(side.mean()) for side in sides]
        common = [(x, y) for x, y in zip(*sides, strict=True) if not math.isnan(x) and not math.isnan(y)]
        found = _paired(sides, means)
        if any(map(math.isnan, means)):
            assert found is None
            continue
        assert found is not None
        assert found.n == len(common)
        if not common:
            continue
        before, after = (sum(side) / len(common) for side in zip(*common, strict=True))
        assert found.means == pytest.approx((before, after))
        assert found.difference == pytest.approx(after - before)
        if found.interval.reason is None:
            assert found.interval.low <= found.difference <= found.interval.high
        assert (found.note.count("left out") + found.note.count("neither") > 0) == (len(common) < n)


def test_without_details_the_interval_is_not_paired(local: Registry, tmp_path: Path) -> None:
    local.apply_pack(pack())
    runner = runner_of(local, tmp_path)
    found = compare_runs(runner.start("support", "model_name=a"), runner.start("support", "model_name=b,shift=0.125"))
    row = found.table[found.table["metric"] == "quality"].iloc[0]
    # both standard errors are 0.1: half = 1.96 · √0.02 = 0.277
    assert (row["high"] - row["low"]) / 2 == pytest.approx(0.27718, abs=1e-4)
    assert row["notes"] == "not paired, so the interval is wider than a paired one"


def test_what_is_scored_in_another_way_is_marked_and_ranked_apart(local: Registry, tmp_path: Path) -> None:
    with_plugin(local, tmp_path, {"task": "plain"}, bound("tone"))
    runner = runner_of(local, tmp_path)
    a = runner.start("support", "model_name=m", scoring_mode="jury", scoring_config=JURY)
    b = runner.start("support", "model_name=m,template=c", scoring_mode="jury", scoring_config=JURY)
    c = runner.start("support", "model_name=m", scoring_mode="judge", scoring_config=JUDGE)
    d = runner.start("support", "model_name=m", scoring_mode="jury", scoring_config=JURY, max_samples=4)
    other = compare_runs(a, b)
    line = "judge fake:strict, fake:lenient: template default@v1 (aaaaaaaa) -> default@v1 (cccccccc)"
    assert other.differences[1:] == (f"{line} (tone|0 quality)",)
    marks = other.table.set_index(["task", "metric"])["differs"].to_dict()
    assert (marks["plain|0", "quality"], marks["tone|0", "quality"]) == ("", line)
    assert f"differs: {line} (tone|0 " in str(other).replace("\n  ", " ")
    found = compare_runs(a, c)
    assert found.differences == (
        "options: scoring mode jury -> judge",
        "rules: judges fake:strict, fake:lenient -> fake:strict (tone|0 quality)",
    )  # fmt: skip
    rules = {key for key, text in found.table.set_index(["task", "metric"])["differs"].items() if "rules" in text}
    assert rules == {("tone|0", "quality"), ("tone|0", "quality_pass_rate")}, "no judge touches the other figures"
    assert compare_runs(a, d).differences == ("options: max_samples - -> 4",)
    assert set(compare_runs(a, d).table["differs"]) == {"options: max_samples - -> 4"}
    table = leaderboard(local, "support")
    assert len(set(table["group"])) == 4, "nothing of these is ranked against another"
    assert table["rank"].tolist() == [1, 1, 1, 1]
    assert (table["differs"] == "").tolist() == [True, False, False, False], "marked, but for the first group"


def test_versions_of_lighteval_are_marked_and_no_spread_is_no_interval(local: Registry, tmp_path: Path) -> None:
    with_plugin(local, tmp_path, {"task": "plain"})
    a = runner_of(local, tmp_path).start("support", "model_name=m")
    environment = dict(a.artifacts["environment"])
    environment["packages"] = {**environment["packages"], "lighteval": "0.12.0"}
    old = dataclasses.replace(a, artifacts={**a.artifacts, "environment": environment})
    found = compare_runs(old, a)
    assert found.differences == (f"LightEval: version 0.12.0 -> {a.lighteval}",)
    assert set(found.table["differs"]) == {f"LightEval: version 0.12.0 -> {a.lighteval}"}
    flat = dataclasses.replace(a, scores=tuple(dataclasses.replace(one, stderr=0.0) for one in a.scores))
    row = compare_runs(flat, flat).table.set_index("metric").loc["quality"]
    assert (row["difference"], row["notes"]) == (0, "not paired, and both standard errors are 0: no interval")
    assert math.isnan(row["low"])
    assert math.isnan(row["high"])
    # √(0.1² + 0.1²) · 1.96 on each side: as if the samples were others
    row = compare_runs(a, a).table.set_index("metric").loc["quality"]
    assert (row["notes"], round(row["high"], 3)) == ("not paired, so the interval is wider than a paired one", 0.277)


def test_a_leaderboard_ranks_by_the_packs_rule(local: Registry, tmp_path: Path) -> None:
    local.apply_pack(pack({"task": "a", "weight": 3}, {"task": "b"}, primary_metric="quality"))
    runner = runner_of(local, tmp_path)
    for model in ("model_name=low", "model_name=high,shift=0.125", "model_name=low"):
        runner.start("support", model)
    runner.start("support", "model_name=x,fail=1")
    table = leaderboard(local, "support")
    assert table["model"].tolist() == ["model_name=high,shift=0.125", "model_name=low"], (
        "the newest of each that ended well"
    )
    assert len(leaderboard(local, "support@1", newest=False)) == 3
    low = table.iloc[1]
    # task a: 2.5/6; task b has 1/16 more on all six: (3 · 2.5/6 + 2.5/6 + 1/16) / 4
    assert low["score"] == pytest.approx(2.5 / 6 + 1 / 64)
    # √((3·0.1)² + 0.1²) / 4
    assert low["stderr"] == pytest.approx(math.sqrt(0.1) / 4)
    assert low["coverage"] == 0.75
    assert table["rank"].tolist() == [1, 2]
    with pytest.raises(RegistryError, match="pack 'nobody' not found; available: 'support'"):
        leaderboard(local, "nobody")
    with pytest.raises(RegistryError, match="pack support@2 not found; available versions: 1"):
        leaderboard(local, "support@2")
    local.apply_pack(pack(name="fresh"))
    assert leaderboard(local, "fresh").empty


# artifacts


def test_artifacts_are_the_newest_or_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no LightEval results in"):
        LightevalArtifacts.at(tmp_path)
    place = tmp_path / "results" / "m"
    place.mkdir(parents=True)
    (place / "results_2026-01-01T00-00-00.json").write_text('{"results": {"a:b:0": {"x": NaN, "name": "text"}}}')
    found = LightevalArtifacts.at(tmp_path)
    assert list(found.results) == ["a:b|0"]
    assert math.isnan(found.results["a:b|0"]["x"])
    assert "name" not in found.results["a:b|0"]
    with pytest.raises(InputError, match=r"no details of task 'a:b\|0'"):
        found.details("a:b|0")
    (place / "results_2026-01-02T00-00-00.json").write_text('{"results": {"a:0"')
    with pytest.raises(InputError, match=r"results_2026-01-02T00-00-00\.json is truncated"):
        LightevalArtifacts.at(tmp_path)
    (place / "results_2026-01-03T00-00-00.json").write_text("[]")
    with pytest.raises(InputError, match="is not a results file of LightEval"):
        LightevalArtifacts.at(tmp_path)


def test_groups_of_tasks_count_by_their_mean(local: Registry, tmp_path: Path) -> None:
    from evalkit.runs.run.run_results import read_findings

    run = made("a", [0.0], artifacts={"folder": str(tmp_path), "attempts": [{}]})
    place = run.output / "results" / "m"
    place.mkdir(parents=True)
    results = {"t0:x:0": {"m": 0.25}, "t0:y:0": {"m": 0.75}, "t0:_average:0": {"m": 0.5}, "all": {"m": 0.5}}
    (place / "results_2026-01-01T00-00-00.json").write_text(json.dumps({"results": results}))
    ending = read_findings(run)
    assert [(one.task, one.value) for one in ending.scores] == [
        ("t0:_average|0", 0.5), ("t0:x|0", 0.25), ("t0:y|0", 0.75),
    ]  # fmt: skip
    assert ending.tasks[0].n_samples is None


def test_nothing_of_judging_is_loaded_to_launch() -> None:
    code = (
        "import sys, evalkit.runs\n"
        "print([name for name in sys.modules if name.startswith(('lighteval', 'torch', 'openai', 'evalkit.engine', "
        "'evalkit.engine.calls', 'evalkit.engine.providers', 'evalkit.lighteval'))])"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout == "[]\n", done.stderr
