"""From plugins to a leaderboard, with real LightEval processes and from the command line alone."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commandline import evalkit
from lighteval_parts import MODEL, make_parts
from servers import judge_server
from warm_process import WarmProcess

pytest.importorskip("lighteval")
pytest.importorskip("sqlalchemy")


GOOD = '{"explanation": "says only what the text says", "score": 2}'
PACK = """
pack: support-suite
version: 1
description: four ways to be scored
tasks:
  - {task: tool_use, overrides: {judge_plugin_name: evalkit-tasks}}
  - {task: gsm8k}
  - task: grounded_qa
    overrides: {judge_plugin_name: evalkit-tasks, judge_plugin_version: "1", judge_profile: conservative}
  - task: TASK
    weight: 2
    overrides: {judge_plugin_name: tone, judge_profile: strict}
"""


def own_gsm8k(place: Path) -> None:
    """Rows of our own in the form of LightEval's task gsm8k, where `datasets` looks without a network."""
    source = place / "source" / "gsm8k"
    source.mkdir(parents=True)
    rows = [
        {"question": f"Ann has {i} pens and buys {i + 1} more. How many now?", "answer": f"She has\n#### {2 * i + 1}"}
        for i in range(4)
    ]
    for split in ("train", "test"):
        (source / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (source / "README.md").write_text(
        "---\nconfigs:\n- config_name: main\n  data_files:\n"
        "  - {split: train, path: train.jsonl}\n  - {split: test, path: test.jsonl}\n---\n"
    )
    from datasets import load_dataset

    load_dataset(str(source), "main", cache_dir=place / "hf" / "datasets")
    made = place / "hf" / "datasets" / "gsm8k"
    made.rename(made.with_name("openai___gsm8k"))


class Shell:
    """`evalkit …` as a person types it, in a folder of its own; its runs start LightEval warm, unless it is cold."""

    def __init__(self, place: Path, lighteval: WarmProcess) -> None:
        self.place, self._lighteval = place, lighteval
        self._environ = {
            "EVALKIT_CACHE": str(place / "cache"), "HF_HUB_OFFLINE": "1", "HF_HOME": str(place / "hf"),
            "HF_DATASETS_CACHE": str(place / "hf" / "datasets"), "HOME": str(place),
            "MODEL_CALLS": str(place / "calls.txt"), "JUDGE_KEY": "sk-of-the-judge",
        }  # fmt: skip

    def __call__(self, *words: str, code: int = 0) -> str:
        return self.ended(*words, code=code).stdout

    def ended(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = self._lighteval.command("lighteval")
        done = evalkit(*words, folder=self.place, lighteval=command, **self._environ)
        assert done.returncode == code, f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done


@pytest.fixture
def shell(tmp_path: Path, warm_lighteval: WarmProcess, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "200")
    return Shell(tmp_path, warm_lighteval)


def new_plugin(shell: Shell) -> str:
    """A plugin made by `plugin new`, and registered; the name of its first task."""
    shell("plugin", "new", "tone")
    shell("plugin", "register", "tone", "0.1.0", str(shell.place / "tone"), "--type", "task")
    return "tone"


def figures(shell: Shell, run: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Task and metric -> figure of a run."""
    return {(one["task"], one["metric"]): one for one in json.loads(shell("run", "show", run, "--json"))["scores"]}


def check_figures(shell: Shell, ids: list[str]) -> None:
    """The same of the first two tasks in every mode; judged ones only where a judge was asked."""
    found = [figures(shell, one) for one in ids]
    for scores in found:
        # one of four answers is right: (1, 0, 0, 0) has sd 0.5, over √4
        gsm8k = scores["gsm8k|0", "extractive_match"]
        assert (gsm8k["value"], gsm8k["stderr"], gsm8k["coverage"]) == (0.25, 0.25, 1.0)
        assert scores["tool_use|0", "tool_use"]["value"] == 0.0, "the parrot calls no tool"
    assert ("grounded_qa|0", "faithfulness") not in found[0]
    for scores in (found[1], found[3]):
        for task, metric in (("grounded_qa|0", "faithfulness"), ("tone|0", "tone")):
            # the server gives every answer 2 of 2
            one = scores[task, metric]
            assert (one["value"], one["stderr"], one["coverage"]) == (1.0, 0.0, 1.0)
            assert scores[task, f"{metric}_pass_rate"]["value"] == 1.0
    assert found[1] == found[3]
    # the profile takes the lower of two votes; the fake judge does not pass "I cannot help you."
    assert found[2]["tone|0", "tone"]["value"] < 1.0
    assert ("tone|0", "tone_alpha") in found[2]


def check_comparisons(shell: Shell, ids: list[str]) -> None:
    again = {(row["task"], row["metric"]): row for row in json.loads(shell("run", "compare", ids[1], ids[3], "--json"))}
    assert {row["difference"] for row in again.values()} == {0.0}
    assert not any(row["differs"] for row in again.values())
    for key in (("gsm8k|0", "extractive_match"), ("grounded_qa|0", "faithfulness"), ("tone|0", "tone_pass_rate")):
        row = again[key]
        # four pairs, none changed (Agresti and Min): t₃ = 3.18245 times √(1 / (4 + 2)²)
        assert (row["n_pairs"], row["coverage_before"], row["coverage_after"]) == (4, 1.0, 1.0)
        assert (row["low"], row["high"]) == pytest.approx((-3.18245 / 6, 3.18245 / 6), abs=1e-4)
    assert not [metric for _, metric in again if metric.endswith(("_n", "_n_empty", "_n_unscored"))], "counts"
    other = shell("run", "compare", ids[1], ids[2])
    assert "differs: options: scoring mode judge -> jury" in other
    line = "differs: rules: report_disagreement False -> True, judges openai:judge-1 -> openai:judge-1, fake:strict"
    assert line in " ".join(other.split())
    assert "not known: judge openai:judge-1: fingerprint (grounded_qa|0 faithfulness, tone|0 tone)" in " ".join(
        other.split()
    )
    assert "not known: metric" not in other


def check_leaderboard(shell: Shell, ids: list[str]) -> None:
    board = {row["run"]: row for row in json.loads(shell("run", "leaderboard", "support-suite", "--json"))}
    assert set(board) == {ids[0], ids[2], ids[3]}, "of two runs that are scored in one way the newest counts"
    assert len({row["group"] for row in board.values()}) == 3, "ways are never mixed"
    assert [board[one]["differs"] == "" for one in (ids[3], ids[2], ids[0])] == [True, False, False]
    assert (board[ids[0]]["score"], board[ids[0]]["rank"]) == (None, None), "one task has no figure without a judge"
    assert board[ids[0]]["notes"].startswith("no score: tone|0 has no first metric")
    judged, jury = board[ids[3]], board[ids[2]]
    # weights 1, 1, 1 and 2: (0 + 0.25 + 1 + 2 · 1) / 5, and 0.25 / 5
    assert (judged["score"], judged["stderr"], judged["coverage"]) == pytest.approx((0.65, 0.05, 1.0))
    scores = figures(shell, ids[2])
    faithfulness, tone = scores["grounded_qa|0", "faithfulness"], scores["tone|0", "tone"]
    assert jury["score"] == pytest.approx((0.25 + faithfulness["value"] + 2 * tone["value"]) / 5)
    spread = math.hypot(0.25, faithfulness["stderr"], 2 * tone["stderr"]) / 5
    assert (jury["stderr"], jury["coverage"]) == pytest.approx((spread, 1.0))
    assert (judged["rank"], jury["rank"]) == (1, 1)
    assert judged["judged_by"].startswith("openai:judge-1 by ")
    assert jury["judged_by"].startswith("openai:judge-1, fake:strict by ")
    assert judged["model"] == "parrot=model.py"


def test_from_plugins_to_a_leaderboard(shell, tmp_path):
    own_gsm8k(tmp_path)
    shell("plugin", "register", "evalkit-tasks", "1", "evalkit.lighteval.tasks", "--type", "bundle")
    task = new_plugin(shell)
    (tmp_path / "pack.yaml").write_text(PACK.replace("TASK", task))
    shell("pack", "apply", "pack.yaml")
    (tmp_path / "model.py").write_text(
        MODEL.replace("\\\\n", "\\n").replace(
            'return "" if "4 plus 4" in doc.query else doc.specific["reference_answer"]',
            'if "by invoice" in doc.query:\n            return "I cannot help you."\n        '
            'return str((doc.specific or {}).get("reference_answer") or "She has 1 pen, thank you.")',
        )
    )
    with judge_server(always={"content": GOOD}) as server:
        judge = {
            "judge_model_name": "judge-1", "judge_backend": "openai", "base_url": server.url,
            "api_key_env": "JUDGE_KEY",
        }  # fmt: skip
        fake = {"judge_model_name": "strict", "judge_backend": "fake"}
        (tmp_path / "judge.json").write_text(json.dumps({"judges": [judge]}))
        (tmp_path / "jury.json").write_text(json.dumps({"judges": [judge, fake], "report_disagreement": True}))
        start = ["run", "start", "support-suite", "--model", "parrot=model.py", "--backend", "custom"]
        start += ["--max-samples", "4"]
        shell(*start)
        assert not server.seen, "deterministic: nobody was asked"
        judged = ["--scoring-mode", "judge", "--scoring-config", "judge.json"]
        shell(*start, *judged)
        assert server.seen
        shell(*start, "--scoring-mode", "jury", "--scoring-config", "jury.json")
        n_asked = len(server.seen)
        shell(*start, *judged)
        assert len(server.seen) == n_asked, "the same run again asks nobody"
    runs = json.loads(shell("run", "list", "--json"))
    rows = runs["runs"] if isinstance(runs, dict) else runs
    assert [row["status"] for row in rows] == ["succeeded"] * 4
    ids = [row["id"] for row in rows]
    shown = shell("run", "show", ids[2])
    for said in ("conservative", "strict", "judge-1", "grounded_qa", "gsm8k", "own_config", "consumed", "of 4 ("):
        assert said in shown, said
    assert "left no receipt" not in shown
    assert "sk-of-the-judge" not in shown
    check_figures(shell, ids)
    check_comparisons(shell, ids)
    check_leaderboard(shell, ids)
    log = shell("run", "logs", ids[2])
    assert "gsm8k" in log
    assert "sk-of-the-judge" not in log


REFUSED = {
    "an unknown task": ([{"task": "grounded_qb"}], [], "unknown task grounded_qb; did you mean 'grounded_qa'?"),
    "a task that the plugin does not have": (
        [{"task": "tune", "overrides": {"judge_plugin_name": "tone"}}], [], "unknown task tune; did you mean 'tone'?",
    ),
    "a task of evalkit beside a plugin": (
        [{"task": "tone", "overrides": {"judge_plugin_name": "tone"}}, {"task": "tool_use"}], [],
        "unknown task tool_use; a run that binds tasks to plugins loads only these plugins and LightEval's own tasks",
    ),
    "a mode that the metric does not support": (
        [{"task": "tone_jury", "overrides": {"judge_plugin_name": "tone"}}], ["judge"],
        "the metric does not support the scoring mode 'judge'; allowed: deterministic, jury",
    ),
    "a mode that the plugin does not support": (
        [{"task": "tone", "overrides": {"judge_plugin_name": "tone"}}], ["judge"],
        "does not support mode 'judge' for the task 'tone', only 'deterministic', 'jury'",
    ),
    "a profile of another rubric": (
        [{"task": "grounded_qa", "overrides": {"judge_profile": "mine.yaml"}}], ["judge"],
        "profile 'mine' is for rubric safety@v1, but the metric uses rubric faithfulness@",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_only_the_code_of_a_task_tells_is_refused_before_the_model_is_loaded(shell, tmp_path, case):
    tasks, mode, said = REFUSED[case]
    shell("plugin", "new", "tone")
    if "plugin does not support" in case:
        with (tmp_path / "tone/src/tone/__init__.py").open("a") as module:
            module.write("\nEVALKIT_PLUGIN = {'scoring_modes': {'tone': ['deterministic', 'jury']}}\n")
    shell("plugin", "register", "tone", "0.1.0", "tone", "--type", "bundle")
    (tmp_path / "mine.yaml").write_text("profile: mine\nrubric: safety@v1\njudges: ['fake:strict']\n")
    (tmp_path / "pack.yaml").write_text(json.dumps({"pack": "p", "version": 1, "tasks": tasks}))
    shell("pack", "apply", "pack.yaml")
    (tmp_path / "model.py").write_text("raise SystemExit('the model is loaded')\n")
    words = ["run", "start", "p", "--model", "model.py", "--backend", "custom"]
    config = json.dumps({"judges": [{"judge_model_name": "strict", "judge_backend": "fake"}]})
    shell(*words, *(["--scoring-mode", *mode, "--scoring-config", config] if mode else []), code=2)
    run = json.loads(shell("run", "show", "last", "--json"))
    assert run["status"] == "failed"
    assert said in run["error"], run["error"]
    assert "the model is loaded" not in shell("run", "logs", "last")


PLUGIN = """
import os
from pathlib import Path

import numpy as np
from lighteval.metrics.metrics import Metrics
from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.utils.metric_utils import SampleLevelMetric
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc, SamplingMethod

from evalkit.lighteval import PolluxLLMJudgeMetric, judge_metric, pollux_corpus


def prompt(line, task_name=None):
    return Doc(task_name=task_name, query=line["question"], choices=[line["reference"]], gold_index=0,
               specific={"reference_answer": line["reference"]})


class Own(SampleLevelComputation):
    def compute(self, doc, model_response, **_):
        return float("judge" in os.environ.get("EVALUATOR_SCORING_CONFIG", ""))


def metric(name, function, corpus, batched=False):
    return SampleLevelMetric(name, True, SamplingMethod.GENERATIVE, function, corpus, batched)


def task(name, *metrics):
    return LightevalTaskConfig(name=name, prompt_function=prompt, hf_repo=str(Path(__file__).with_name("sums")),
                               hf_subset="default", hf_avail_splits=["test"], evaluation_splits=["test"],
                               metrics=list(metrics), generation_size=8)


POLLUX = PolluxLLMJudgeMetric("Correct?", {0: "no", 1: "yes"}, "pollux", url=os.environ["JUDGE_URL"])
TASKS_TABLE = [
    task("by_own_judge", metric("own", Own(), np.mean)),
    task("exactly", Metrics.exact_match),
    task("by_rubric", judge_metric("correctness")),
    task("by_pollux", metric("clarity", POLLUX, pollux_corpus, True)),
]
"""


def test_a_run_of_four_scorers_tells_the_truth_about_each(shell, tmp_path, monkeypatch):
    make_parts(tmp_path, 5)
    (tmp_path / "four_scorers.py").write_text(PLUGIN)
    names = ("by_own_judge", "exactly", "by_rubric", "by_pollux")
    tasks = [{"task_spec": name, "overrides": {"judge_plugin_name": "four"}} for name in names]
    (tmp_path / "pack.yaml").write_text(json.dumps({"pack": "four", "version": 1, "tasks": tasks}))
    with judge_server(always={"content": "I would rather not say."}) as server:
        monkeypatch.setenv("JUDGE_URL", server.url)
        judge = {"judge_model_name": "judge-1", "judge_backend": "openai", "base_url": server.url}
        (tmp_path / "judge.json").write_text(json.dumps({"judges": [judge | {"api_key_env": "JUDGE_KEY"}]}))
        shell("plugin", "register", "four", "1", "four_scorers.py", "--type", "task")
        shell("pack", "apply", "pack.yaml")
        words = ["run", "start", "four", "--model", "parrot=model.py", "--backend", "custom", "--quiet"]
        words += ["--scoring-mode", "judge", "--scoring-config", "judge.json"]
        done = shell.ended(*words)
    run = json.loads(shell("run", "show", "last", "--json"))
    states = {task["task"]: task["receipt_state"] for task in run["tasks"]}
    assert states == {
        "by_own_judge|0": "not_consumed", "exactly|0": "deterministic", "by_rubric|0": "consumed",
        "by_pollux|0": "consumed",
    }  # fmt: skip
    assert "metric: scorer (by_own_judge|0 own)" in run["not_known"]
    facts = {(one["what"], one["task"], one["metric"]): one["values"] for one in run["facts"]}
    assert facts["metric", "by_pollux|0", "clarity"] == {"direction": "higher is better", "scorer": "judge"}
    assert facts["documents", "exactly|0", ""]["n"] == 5
    # five answers, of which one is empty: three samples of the rubric's judge, one of the POLLUX metric's
    lost = {receipt["metric"]: receipt["judges"][0] for receipt in run["receipts"]}
    assert {name: (one["n_judgments"], one["n_scored"]) for name, one in lost.items()} == {
        "correctness": (12, 0), "clarity": (4, 0),
    }  # fmt: skip
    assert lost["clarity"]["base_url"] == lost["correctness"]["base_url"] == server.url
    said = (
        "by_rubric|0, correctness: none of 4 answers has a score",
        "by_rubric|0, correctness: openai:judge-1: 0 of 12 scored: unreadable 12",
        "by_pollux|0, clarity: openai:pollux: 0 of 4 scored: unreadable 4",
        "by_own_judge|0: its judge plugin left no receipt",
    )
    assert run["notes"][0] == said[0]
    shown, log = shell("run", "show", "last"), shell("run", "logs", "last")
    assert "but nothing was scored in by_rubric|0 (correctness), by_pollux|0 (clarity)" in shown.splitlines()[0]
    for line in said:
        assert line in shown
        assert f"warning: {line}" in done.stderr, "also with --quiet"
    for line in said[:3]:
        assert line in " ".join(log.split())
    [board] = json.loads(shell("run", "leaderboard", "four", "--json"))
    assert "rules: receipt (by_own_judge|0)" in board["not_known"]
    assert "metric: scorer (by_own_judge|0 own)" in board["not_known"]


TWICE = """
pack: two-profiles
version: 1
overrides: {judge_profile: strict}
tasks:
  - {task: grounded_qa}
  - {task: grounded_qa, weight: 3, overrides: {judge_profile: conservative}}
  - {task: tool_use, overrides: {judge_profile: null}}
"""


def test_one_task_under_two_profiles_is_answered_once_and_a_replaced_rule_is_said(shell, tmp_path):
    """`strict` takes the lower of two votes, `conservative` their median; the model is asked once per document."""
    (tmp_path / "pack.yaml").write_text(TWICE)
    shell("pack", "apply", "pack.yaml")
    (tmp_path / "model.py").write_text(
        MODEL.replace("\\\\n", "\\n").replace(
            'doc.specific["reference_answer"]',
            'str((doc.specific or {}).get("context"))[2:42] + " and a dragon flew over it"',
        )
    )
    judges = [{"judge_model_name": name, "judge_backend": "fake"} for name in ("strict", "lenient")]
    config = {"judges": judges, "aggregation": "max", "report_disagreement": True}
    (tmp_path / "jury.json").write_text(json.dumps(config))
    (tmp_path / "forced.json").write_text(json.dumps(config | {"force_aggregation": True}))
    start = ["run", "start", "two-profiles", "--model", "parrot=model.py", "--backend", "custom", "--scoring-mode"]
    start += ["jury", "--max-samples", "4", "--scoring-config"]
    kept = "aggregation 'max' of the scoring config is not used, because profile strict@1, which the pack binds, sets"
    plan = shell(*start, "jury.json", "--plan")
    assert f"note: grounded_qa: {kept} 'min'; to use it, set force_aggregation: true there" in plan
    assert "grounded_qa+conservative: 4 items × 2 judges × 5 samples" in plan, "its own number of samples"
    shell(*start, "jury.json")
    shown = " ".join(shell("run", "show", "last").split())
    assert f"note: grounded_qa: {kept}" in shown
    assert "aggregation min" in shown
    assert "aggregation median" in shown
    calls = (tmp_path / "calls.txt").read_text(encoding="utf-8").splitlines()
    assert len([line for line in calls if line.strip()]) == len(set(filter(str.strip, calls))), "no document twice"
    scores = figures(shell, json.loads(shell("run", "list", "--json"))[0]["id"])
    by_min, by_median = (scores[f"grounded_qa{name}|0", "faithfulness"] for name in ("", "+conservative"))
    assert by_min["value"] < by_median["value"]
    for task in ("grounded_qa|0", "grounded_qa+conservative|0"):
        apart = scores[task, "faithfulness_disagreement"]
        assert 0 < apart["value"] <= 1
        n = scores[task, "faithfulness_disagreement_n"]["value"]
        assert n == round(4 * apart["coverage"]) >= 3, "an item that one judge leaves unscored has none"
        assert apart["stderr"] is not None
        assert (task, "faithfulness_alpha") in scores
    shell(*start, "forced.json", "--reuse-answers")
    shown = " ".join(shell("run", "show", "last").split())
    assert "replaces 'min' of profile strict@1, which the pack binds" in shown
    assert "aggregation max" in shown
    assert "aggregation min" not in shown
    assert len((tmp_path / "calls.txt").read_text(encoding="utf-8").splitlines()) == len(calls), "answers are stored"
