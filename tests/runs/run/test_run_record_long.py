"""Runs of what strangers wrote, from folders of their own: keys, places, escape sequences, files that moved."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evalkit.errors import ConfigError, RegistryError

pytest.importorskip("sqlalchemy")

from run_setup import JUDGE, JURY, TEMPLATE, bound, left_running, make_plugin, pack, runner_of

from evalkit.cli import main
from evalkit.errors.secrets import is_key, without_keys
from evalkit.runs import Run, Runner, compare_runs, leaderboard
from evalkit.runs.contract.receipts import Receipt
from evalkit.runs.contract.scoring_config import TaskBindings
from evalkit.runs.processes.child_process import Tail
from evalkit.runs.processes.lighteval_command import LIGHTEVAL, check_flags, model_facts
from evalkit.runs.processes.run_owner import Owner
from evalkit.runs.registry import Registry
from evalkit.runs.registry.database_tables import ReceiptRow, RunRow
from evalkit.runs.run.run_display import run_tables
from evalkit.runs.run.run_record import RunScore
from evalkit.runs.run.run_results import _scores, read_findings

SECRET = "sk-of-somebody"


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Registry]:
    opened = Registry.open(tmp_path / "registry.sqlite")
    opened.apply_pack(pack())
    yield opened
    opened.close()


def everything(registry: Registry, run: Run, folder: Path) -> str:
    """All that is kept or shown of a run: rows, views, files."""
    registry.close()
    with sqlite3.connect(folder / "registry.sqlite") as connection:
        rows = "\n".join(connection.iterdump())
    files = [path.read_text("utf-8", "replace") for path in run.folder.rglob("*") if path.is_file()]
    return "\n".join([rows, str(run), run._repr_html_(), json.dumps(run.to_dict(), default=str), *files])


@pytest.mark.parametrize("how", ["mapping", "json", "file"])
def test_a_literal_key_is_kept_nowhere_even_where_nobody_reads_the_config(
    local: Registry, tmp_path: Path, how: str
) -> None:
    config: Any = {
        "judges": [{"judge_model_name": "m", "api_key": SECRET, "base_url": f"http://me:{SECRET}@host.example/v1"}],
        "samples": 3,
    }
    if how == "json":
        config = json.dumps(config)
    elif how == "file":
        (tmp_path / "config.yaml").write_text(json.dumps(config))
        config = tmp_path / "config.yaml"
    run = runner_of(local, tmp_path).start("support", "model_name=m", scoring_config=config)
    assert run.status == "succeeded"
    assert run.scoring_config == {
        "judges": [{"judge_model_name": "m", "api_key": "[not kept]", "base_url": "http://host.example/v1"}],
        "samples": 3,
    }
    assert SECRET not in everything(local, run, tmp_path)


def test_a_config_that_nobody_reads_may_be_broken(local: Registry, tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("judges: [")
    run = runner_of(local, tmp_path).start("support", "model_name=m", scoring_config=tmp_path / "broken.yaml")
    assert (run.status, run.scoring_config) == ("succeeded", None)


@pytest.mark.parametrize(
    "model",
    [
        f"model_name=m,api_key={SECRET}", f"model_name=m,API-KEY={SECRET}", f"hf_token={SECRET},model_name=m",
        f"model_name=m,base_url=http://me:{SECRET}@host.example",
    ],
    ids=range(4),
)  # fmt: skip
def test_a_key_in_the_models_name_is_refused(local: Registry, tmp_path: Path, model: str) -> None:
    with pytest.raises(ConfigError, match=r"which the registry would store and show: .* YAML file") as caught:
        runner_of(local, tmp_path).start("support", model)
    assert SECRET not in str(caught.value)
    assert local.runs().empty


def test_keys_are_told_from_what_is_called_like_them() -> None:
    with pytest.raises(ConfigError, match="--api-key holds a key"):
        check_flags({"--api_key": SECRET})
    assert check_flags({"max-new-tokens": "5", "wandb": None}) == {"max-new-tokens": "5", "wandb": None}
    assert model_facts("accelerate", "model_name=m,pad_token=x,max_tokens=5") == {"files": {}}
    assert not any(map(is_key, ("api_key_env", "tokenizer", "eos_token", "keys", "monkey")))
    plain = {"a": ["http://host:80/v1@x", None, 1.5, {"judge_template_id": "terse@v1"}]}
    assert without_keys(plain) == plain


@pytest.mark.parametrize("model", ["", " ", "a\nb", "a\x1b[2J", "a\0b", "a\udcff", "a\u202eb"], ids=range(7))
def test_a_model_that_cannot_be_shown_is_refused(local: Registry, tmp_path: Path, model: str) -> None:
    with pytest.raises(ConfigError, match=r"no model; set one|contains non-printable characters"):
        runner_of(local, tmp_path).start("support", model)
    assert local.runs().empty


def test_lighteval_runs_in_the_folder_of_who_starts_it(
    local: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # relative paths, rubrics/ of the project and the cache beside it mean the same to both
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    say = "import os, sys; print('in', os.getcwd(), flush=True); sys.exit(3)"
    python, *options = LIGHTEVAL[: LIGHTEVAL.index("-m")]
    (tmp_path / "json.py").write_text("raise SystemError('a module of the working folder')")
    runner = Runner(local, folder=tmp_path / "deep" / "runs", command=(python, *options, "-c", f"import json; {say}"))
    run = runner.start("support", "model_name=m")
    assert f"in {tmp_path}\n" in run.log.read_text()
    assert run.error is not None
    assert "exit code 3" in run.error


def test_models_of_one_name_and_other_files_both_stand_on_the_leaderboard(local: Registry, tmp_path: Path) -> None:
    runner = runner_of(local, tmp_path)
    runs = [runner.start("support", "model_name=m") for _ in range(2)]
    with local.database.session() as session:
        for number, run in enumerate(runs):
            row = session.get(RunRow, run.id)
            assert row is not None
            row.artifacts = {**row.artifacts, "model": {"files": {f"/{number}/m.py": str(number)}}}
    assert sorted(leaderboard(local, "support")["run"]) == sorted(run.id for run in runs)


def test_other_flags_are_named_in_rows_and_lines_alike(local: Registry, tmp_path: Path) -> None:
    runner = runner_of(local, tmp_path)
    a = runner.start("support", "model_name=m,details=1")
    b = runner.start("support", "model_name=m,details=1", flags={"num-fewshot-seeds": "2"})
    found = compare_runs(a, b)
    assert found.differences == ("options: --num-fewshot-seeds - -> 2",)
    assert set(found.table["differs"]) == {"options: --num-fewshot-seeds - -> 2"}
    assert not compare_runs(a, runner.start("support", "model_name=n,details=1")).table["differs"].any()


def test_names_of_metrics_do_not_steer_the_terminal(local: Registry, tmp_path: Path) -> None:
    runner = runner_of(local, tmp_path)
    run = runner.start("support", "model_name=m")
    scores = tuple(dataclasses.replace(one, metric=f"{one.metric}\x1b[2J<script>\u202e") for one in run.scores)
    evil = dataclasses.replace(run, scores=scores)
    found = compare_runs(evil, evil)
    for text in (str(evil), str(found)):
        assert all(line.isprintable() for line in text.splitlines())
    for html in (evil._repr_html_(), found._repr_html_()):
        assert "&lt;script&gt;" in html
        assert "<script>" not in html


def test_what_was_paid_now_is_known_where_all_replies_were_stored(local: Registry, tmp_path: Path) -> None:
    run = runner_of(local, tmp_path).start("support", "model_name=m")
    receipt = Receipt(
        task="t", metric="m", scoring_mode="judge", rubric="r", rubric_version="1", rubric_hash="0" * 64,
        n_items=5, n_scored=5, n_empty=0, n_judgments=15, n_unscored=0, n_live=0, n_cached=15, evalkit_version="0",
    )  # fmt: skip
    for changes, paid in (({}, "nothing, 15 from the cache"), ({"n_live": 1}, "NA"), ({"n_cached": 0}, "NA")):
        changed = receipt.model_copy(update=changes)
        (row,) = next(rows for title, rows in run_tables(dataclasses.replace(run, receipts=(changed,)))
                      if title.startswith("judged by"))  # fmt: skip
        assert row["paid now"] == paid


def test_a_log_is_followed_through_signs_and_titles(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    text = "Größe ☃\r\n\x1b]0;a title\x07\x1b[1mbold\x1b[0m\x9b2J \u202e end".encode()
    tail, seen = Tail(log), []
    for number in range(len(text)):  # every byte by itself: looks fall within signs
        with log.open("ab") as file:
            file.write(text[number : number + 1])
        seen += tail.lines()
    assert [*seen, *tail.lines(whole=True)] == ["Größe ☃", "bold 2J   end"]


def test_every_command_that_looks_at_runs_sees_a_dead_runner(
    local: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVALKIT_REGISTRY", str(tmp_path / "registry.sqlite"))
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    for words in (["run", "list", "--json"], ["run", "leaderboard", "support"], ["run", "compare", "last", "last"]):
        run_id = left_running(runner_of(local, tmp_path)).id
        main(words)
        run = runner_of(local, tmp_path).run(run_id)
        assert (run.status, str(run.error).endswith("ended without closing it")) == ("failed", True), words
    capsys.readouterr()
    main(["run", "list", "--pack", "support@1", "--json"])
    assert len(json.loads(capsys.readouterr().out)) == 3
    main(["run", "list", "--pack", "support@2", "--json"])
    assert json.loads(capsys.readouterr().out) == []
    assert main(["worker"]) == 2
    assert main(["run", "leaderboard", "nosuch"]) == 2
    elsewhere = Owner("another-host", "boot", 1, "2")
    run_id = left_running(runner_of(local, tmp_path), owner=elsewhere).id
    capsys.readouterr()
    assert main(["run", "logs", "last"]) == 2
    assert "has no log on this machine (status: running" in capsys.readouterr().err
    assert main(["run", "cancel", run_id]) == 0
    assert runner_of(local, tmp_path).run(run_id).status == "cancelled", "who knows that it is dead can close it"


def test_a_packs_description_does_not_steer_the_terminal(
    local: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVALKIT_REGISTRY", str(tmp_path / "registry.sqlite"))
    (tmp_path / "p.yaml").write_text(
        'pack: evil\nversion: 1\ndescription: "\\e[2J \\e]0;owned\\a"\nprimary_metric: "\\e[31mq"\n'
        "tasks: [{task: plain}]\n"
    )
    assert main(["pack", "apply", str(tmp_path / "p.yaml"), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["pack", "show", "evil"]) == 0
    assert main(["pack", "list"]) == 0
    assert all(line.isprintable() for line in capsys.readouterr().out.splitlines())


def test_a_receipt_says_nothing_of_keys(local: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", SECRET)
    local.register_plugin("tone", "1", str(make_plugin(tmp_path)))
    local.apply_pack(pack(bound("tone"), name="bound"))
    judge = {**JUDGE["judges"][0], "api_key_env": "JUDGE_KEY", "judge_backend": "openai"}
    run = runner_of(local, tmp_path).start(
        "bound", "model_name=m", scoring_mode="judge", scoring_config={"judges": [judge]}
    )
    assert run.status == "succeeded"
    assert SECRET not in everything(local, run, tmp_path)


def test_bindings_that_no_variable_can_hold_travel_in_a_file(local: Registry, tmp_path: Path) -> None:
    local.register_plugin("tone", "1", str(make_plugin(tmp_path)))
    local.add_template("long", "v1", f"{TEMPLATE}\n{'word ' * 500}")
    # Linux takes 128 KiB in one variable, and each task has the 2.5 kB of its template
    local.apply_pack(pack(*(bound(f"task{at}", judge_template_id="long@v1") for at in range(80)), name="many"))
    run = runner_of(local, tmp_path).start("many", "model_name=m", scoring_mode="jury", scoring_config=JURY)
    assert (run.status, run.error) == ("succeeded", None)
    assert {one.receipt_state for one in run.tasks} == {"consumed"}
    seen = json.loads((run.output / "seen.json").read_text())["environment"]["EVALKIT_TASK_BINDINGS"]
    assert seen == str(run.output / "bindings.json")
    found = TaskBindings.from_environ({"EVALKIT_TASK_BINDINGS": seen})
    assert list(found) == [f"task{at}" for at in range(80)]
    assert found.of_task("task79|0").templates[0].text.endswith("word ")
    Path(seen).unlink()
    with pytest.raises(ConfigError, match=r"EVALKIT_TASK_BINDINGS: the file .*bindings\.json cannot be read"):
        TaskBindings.from_environ({"EVALKIT_TASK_BINDINGS": seen})
    few = runner_of(local, tmp_path)
    local.apply_pack(pack(bound("task1"), name="few"))
    run = few.start("few", "model_name=m", scoring_mode="jury", scoring_config=JURY)
    assert not (run.output / "bindings.json").exists(), "what fits is in the variable"


def test_receipts_stand_in_the_order_of_the_pack_and_those_of_another_form_are_said(
    local: Registry, tmp_path: Path
) -> None:
    local.register_plugin("tone", "1", str(make_plugin(tmp_path)))
    names = ["c", "a", "b"]
    local.apply_pack(pack(*map(bound, names), name="several"))
    runner = runner_of(local, tmp_path)
    run = runner.start("several", "model_name=m", scoring_mode="judge", scoring_config=JUDGE)
    place = run.output / "receipts.json"
    content = json.loads(place.read_text())
    place.write_text(json.dumps(content | {"tasks": dict(sorted(content["tasks"].items()))}))
    assert [one.task for one in read_findings(runner.run(run.id)).receipts] == ["c|0", "a|0", "b|0"]
    with local.database.session() as session:
        rows = session.query(ReceiptRow).all()
        rows[0].content = {"receipts": [{"of_tomorrow": 1}]}
    with pytest.raises(RegistryError, match=rf"run {run.id}: invalid receipts, .*of_tomorrow"):
        runner.run(run.id)


def test_counts_are_no_scores(local: Registry, tmp_path: Path) -> None:
    runner = runner_of(local, tmp_path)
    a = runner.start("support", "model_name=m,details=1,metric=length_n")
    b = runner.start("support", "model_name=n,details=1,metric=quality_n_empty")
    metrics = {"quality", "quality_pass_rate", "length"}
    assert set(compare_runs(a, b).table["metric"]) == metrics
    assert set(a.table["metric"]) == {*metrics, "length_n"}, "it is kept"
    counts = {one.metric: one.coverage for one in (*a.scores, *b.scores)}
    assert (counts["length_n"], counts["quality_n_empty"]) == (None, None), "nothing of a count can be unscored"
    shown = {run.id: {row["metric"] for row in dict(run_tables(run))["scores"]} for run in (a, b)}
    assert shown[a.id] == metrics
    assert shown[b.id] == {*metrics, "quality_n_empty"}, "0.5 empty answers are worth a look"
    alone = runner.start("support", "model_name=m,details=1,metric=other_n")
    assert "other_n" in set(compare_runs(alone, alone).table["metric"]), "a name that only looks like a count"


def test_a_pass_rate_is_covered_by_verdicts_and_not_by_scores() -> None:
    # four scores and three verdicts: a tie is scored, and neither passes nor fails
    details = pd.DataFrame(
        {"metric": [{"tone": {"tone": 0.5, "tone_passed": passed}} for passed in (1.0, 0.0, None, 1.0)]}
    )
    figures = {"tone": 0.5, "tone_pass_rate": 2 / 3, "tone_coverage": 1.0, "tone_n_unscored": 0.0}
    found = {one.metric: one.coverage for one in _scores("t|0", figures, details)}
    assert found == {"tone": 1.0, "tone_pass_rate": 0.75, "tone_n_unscored": None}
    assert {one.metric: one.coverage for one in _scores("t|0", figures, None)}["tone_pass_rate"] is None
    figures |= {"tone_n": 4.0, "tone_n_verdicts": 3.0}
    assert {one.metric: one.coverage for one in _scores("t|0", figures, None)}["tone_pass_rate"] == 0.75


def test_a_figure_that_does_not_apply_to_a_sample_is_not_unscored_there() -> None:
    def row(safe: float, unsafe: float, note: str = "") -> dict[str, Any]:
        return {"refusals": {"refused_safe": safe, "refused_unsafe": unsafe, "refusals_note": note}, "own": unsafe}

    nan = float("nan")
    details = pd.DataFrame({"metric": [row(1.0, nan), row(nan, 0.0), row(0.0, nan), row(nan, nan, "empty_answer")]})
    figures = {"refused_safe": 0.5, "refused_safe_n": 2.0, "refused_unsafe": 0.0, "refused_unsafe_n": 1.0, "own": 0.0}
    found = {one.metric: one.coverage for one in _scores("t|0", figures, details) if one.coverage is not None}
    # of the empty answer it is not known whether the figure applies: it counts as unscored; an own metric has no note
    assert found == {"refused_safe": pytest.approx(2 / 3), "refused_unsafe": 0.5, "own": 0.25}
    alone = _scores("t|0", {"refused_unsafe": nan}, details.iloc[[0, 2]])
    assert [(one.value, one.coverage) for one in alone] == [(None, None)], "it applies to none, and is not unscored"


def test_judged_figures_come_first_with_their_number_and_what_has_no_value_is_one_line(
    local: Registry, tmp_path: Path
) -> None:
    run = runner_of(local, tmp_path).start("support", "model_name=m")
    receipt = Receipt(
        task="plain|0", metric="tone", scoring_mode="judge", rubric="tone", rubric_version="v1", rubric_hash="a" * 64,
        n_items=5, n_scored=5, n_empty=0, n_judgments=15, n_unscored=0, n_live=15, n_cached=0, evalkit_version="0",
    )  # fmt: skip
    figures = {
        "token_f1": (0.5, None), "token_f1_n": (5.0, None), "tone": (0.8, 1.0), "tone_n": (5.0, None),
        "tone_pass_rate": (1.0, 0.2), "tone_n_verdicts": (1.0, None), "tone_depth": (0.5, 0.5),
        "tone_depth_n": (1.0, None), "tone_wit": (None, None), "tone_wit_n": (0.0, None), "tone_n_skipped": (8.0, None),
        "tone_n_empty": (0.0, None), "safety": (None, 0.0),
    }  # fmt: skip
    scores = tuple(RunScore("plain|0", name, value, None, share) for name, (value, share) in figures.items())
    tasks = (dataclasses.replace(run.tasks[0], n_samples=5),)
    shown = dataclasses.replace(run, scores=scores, tasks=tasks, receipts=(receipt,))
    rows = {row["metric"]: (row["value"], row["n"], row["scored"]) for row in dict(run_tables(shown))["scores"]}
    assert list(rows.items()) == [
        ("tone", ("0.800", "5", "5 of 5 (100%)")),
        ("tone_pass_rate", ("1.000", "1", "1 of 5 (20%)")),  # four ties have no verdict
        ("tone_depth", ("0.500", "1", "1 of 2 (50%)")),  # applies to two samples, one of them scored
        ("tone_n_skipped", ("8", "", "")),
        ("token_f1", ("0.500", "5", "NA")),
        ("safety", ("NA", "0", "0 of 5 (0%)")),  # wanted, and nothing came: no line below the table
    ]
    figures = {"tone": (1.0, 1.0), "tone_n": (3.0, None), "tone_n_unscored": (0.0, None)}
    scores = tuple(RunScore("plain|0", name, value, None, share) for name, (value, share) in figures.items())
    [tied] = dict(run_tables(dataclasses.replace(shown, scores=scores)))["scores"]
    assert (tied["n"], tied["scored"]) == ("3", "5 of 5 (100%)"), "two ties are scored, and have no number"
    line = "without a value, such as criteria that apply to no sample: plain|0: tone_wit"
    assert line in str(shown).splitlines()
    assert line in shown._repr_html_()
    assert "without a value" not in str(run)
