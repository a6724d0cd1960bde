"""What differs between two runs is named, and nothing else: one fact at a time, two at a time, and in groups."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("sqlalchemy")

from evalkit.errors import RegistryError
from evalkit.runs import Run
from evalkit.runs.contract.receipts import Receipt
from evalkit.runs.run.run_facts import differences, grouped, is_lower_better, metrics_of, not_known
from evalkit.runs.run.run_record import RunTask

DOCUMENTS = {name: name[0] * 16 for name in ("ids", "questions", "golds", "context", "examples")}
TASKS = ("qa|0", "sums|0")


def judge(name: str = "openai:a", **changes: Any) -> dict[str, Any]:
    return {
        "name": name, "provider": "openai", "service": "api.example.org", "model": "a", "weight": 1, "temperature": 1.0,
        "max_tokens": 512, "template": "default@v1", "template_hash": "a" * 64, "n_judgments": 9, "n_scored": 9,
        "served": {"a-2026": 9}, "fingerprints": {"fp_1": 9},
    } | changes  # fmt: skip


def content() -> dict[str, Any]:
    """Everything that a registry keeps of one run, as plain data, to be changed in one place."""
    return {
        "model": "tiny", "options": {"max_samples": None, "flags": {}}, "scoring_mode": "jury",
        "config": {"samples": 3},
        "environment": {"evalkit": "1", "python": "3.12", "packages": {
            "evalkit-jury": "1", "lighteval": "0.13.0", "torch": "2"
        }},
        "identity": {"weights.safetensors": "sha256:" + "1" * 64},
        "plugins": {"tone@1": {"uri": "/plugins/tone", "hash": "d" * 64}},
        "binding": {"plugin": "tone", "plugin_version": "1", "plugin_hash": "d" * 64, "plugin_path": "/plugins/tone"},
        "documents": {task: {"n": 9, **DOCUMENTS} for task in TASKS},
        "metrics": {task: {
            "tone": {"scorer": "judge", "higher_is_better": True}, "f1": {"scorer": "own", "higher_is_better": True},
        } for task in TASKS},
        "judges": [judge(), judge("openai:b", model="b", served={"b": 9})],
        "receipt": {"samples": 3, "vote": "mean", "aggregation": "mean", "quorum": 0.5, "rubric_version": "v1"},
    }  # fmt: skip


def run_of(parts: dict[str, Any], run_id: str = "r1") -> Run:
    receipts = tuple(
        Receipt(**{
            "task": task, "metric": "tone", "scoring_mode": "jury", "rubric": "tone", "rubric_hash": "b" * 64,
            "judges": parts["judges"], "n_items": 9, "n_scored": 9, "n_empty": 0, "n_judgments": 27, "n_unscored": 0,
            "n_live": len(run_id), "n_cached": 27, "evalkit_version": "1", **parts["receipt"],
        })
        for task in TASKS
    )  # fmt: skip
    facts = {
        "model": parts["identity"],
        "tasks": {
            task: {"documents": parts["documents"][task], "metrics": parts["metrics"][task]} for task in TASKS
        },
    }  # fmt: skip
    artifacts = {"folder": f"/runs/{run_id}", "environment": parts["environment"], "facts": facts, "notes": [run_id]}
    tasks = (RunTask("qa|0", 1.0, {}, "own_config", 9), RunTask("sums|0", 1.0, parts["binding"], "consumed", 9))
    return Run(
        id=run_id, pack="p@1", model=parts["model"], backend="accelerate", scoring_mode=parts["scoring_mode"],
        scoring_config=parts["config"], options=parts["options"], resolution={"plugins": parts["plugins"]},
        status="succeeded", error=None, exit_code=0, artifacts=artifacts, tasks=tasks, scores=(), receipts=receipts,
        created_at=datetime(2026, 1, 31, tzinfo=UTC), started_at=None,
        finished_at=datetime(2026, 1, 31, 0, 0, len(run_id), tzinfo=UTC), primary_metric=None, task_aggregation="mean",
    )  # fmt: skip


def at(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(parts: dict[str, Any]) -> None:
        for step in path[:-1]:
            parts = parts[step]
        parts[path[-1]] = value

    return change


def git_plugin(parts: dict[str, Any]) -> None:
    parts["plugins"] = {"tone@2": {"uri": "git+file:///plugins/tone@" + "c" * 40, "hash": "d" * 64}}
    parts["binding"] = {**parts["binding"], "plugin_version": "2", "plugin_path": "/cache/plugins/0"}


BOTH = " (qa|0 tone, sums|0 tone)"
ONE_CHANGE: dict[str, tuple[Callable[[dict[str, Any]], None], str, bool]] = {
    # what was changed: how, the line that names it, and whether it may change figures of equal answers
    "model name": (at("model", value="large"), "model: name tiny -> large", False),
    "model file": (
        at("identity", "weights.safetensors", value="sha256:" + "2" * 64),
        "model: weights.safetensors 11111111 -> 22222222", False,
    ),
    "Hub revision": (
        at("identity", value={"revision org/tiny": "3" * 40}),
        "model: weights.safetensors 11111111 -> -, revision org/tiny - -> 33333333", False,
    ),
    "documents": (at("documents", "qa|0", "questions", value="x"), "documents: questions (qa|0)", True),
    "number of documents": (
        at("documents", "qa|0", value={"n": 8, **DOCUMENTS, "ids": "x"}), "documents: n 9 -> 8, ids (qa|0)", True,
    ),
    "golds": (at("documents", "sums|0", "golds", value="x"), "documents: golds (sums|0)", True),
    "context": (at("documents", "sums|0", "context", value="x"), "documents: context (sums|0)", True),
    "judge's weights, by name": (
        at("judges", 0, "served", value={"a-2027": 9}), f"judge openai:a: served a-2026 -> a-2027{BOTH}", True,
    ),
    "judge's weights, by fingerprint": (
        at("judges", 1, "fingerprints", value={"fp_2": 8}), f"judge openai:b: fingerprint fp_1 -> fp_2{BOTH}", True,
    ),
    "host": (
        at("judges", 0, "base_url", value="http://127.0.0.1:1/v1"),
        f"judge openai:a: host api.example.org -> http://127.0.0.1:1/v1{BOTH}", True,
    ),
    "template": (
        at("judges", 0, "template_hash", value="f" * 64),
        f"judge openai:a: template default@v1 (aaaaaaaa) -> default@v1 (ffffffff){BOTH}", True,
    ),
    "temperature": (at("judges", 0, "temperature", value=0.0), f"judge openai:a: temperature 1.0 -> 0.0{BOTH}", True),
    "a judge fewer": (
        at("judges", value=[judge()]), f"rules: judges openai:a, openai:b -> openai:a{BOTH}", True,
    ),
    "rules": (at("receipt", "aggregation", value="median"), f"rules: aggregation mean -> median{BOTH}", True),
    "arguments of the metric": (
        at("receipt", "arguments", value={"on_unparsed": "zero"}), f"rules: on_unparsed - -> zero{BOTH}", True,
    ),
    "samples": (at("receipt", "samples", value=5), f"rules: samples 3 -> 5{BOTH}", True),
    "rubric": (
        at("receipt", "rubric_version", value="v2"), f"rules: rubric tone@v1 (bbbbbbbb) -> tone@v2 (bbbbbbbb){BOTH}",
        True,
    ),
    "evalkit": (at("environment", "evalkit", value="2"), "versions: evalkit 1 -> 2", False),
    "a library": (at("environment", "packages", "torch", value="3"), "versions: torch 2 -> 3", False),
    "LightEval": (
        at("environment", "packages", "lighteval", value="0.14.0"), "LightEval: version 0.13.0 -> 0.14.0", True,
    ),
    "plugin by git": (
        git_plugin, f"plugin: from tone@1 /plugins/tone -> tone@2 git+file:///plugins/tone@{'c' * 8} (sums|0)", False,
    ),
    "plugin's content": (
        at("binding", "plugin_hash", value="e" * 64), "plugin: content dddddddd -> eeeeeeee (sums|0)", True,
    ),
    "direction": (
        at("metrics", "qa|0", "f1", "higher_is_better", value=False),
        "metric: direction higher is better -> lower is better (qa|0 f1)", True,
    ),
    "number of samples": (at("options", "max_samples", value=4), "options: max_samples - -> 4", True),
    "a flag": (at("options", "flags", value={"seed": "2"}), "options: --seed - -> 2", True),
}  # fmt: skip


def changed(name: str) -> dict[str, Any]:
    parts = copy.deepcopy(content())
    ONE_CHANGE[name][0](parts)
    return parts


@pytest.mark.parametrize("name", ONE_CHANGE)
def test_the_one_thing_that_differs_is_named_and_nothing_else(name: str) -> None:
    before, after = run_of(content()), run_of(changed(name), "another-id")
    [remark] = differences(before, after)
    assert (str(remark), remark.is_scoring) == ONE_CHANGE[name][1:]
    assert not_known(before) == not_known(after) == []
    [back] = differences(after, before)
    assert back.what == remark.what
    same_group = len(set(grouped([before, after]))) == 1
    assert same_group != remark.is_scoring, "what may change figures of equal answers is ranked apart"


def test_any_two_changes_are_two_lines() -> None:
    for one, other in itertools.combinations(ONE_CHANGE, 2):
        parts = changed(one)
        ONE_CHANGE[other][0](parts)
        found = set(map(str, differences(run_of(content()), run_of(parts))))
        wanted = {ONE_CHANGE[name][1] for name in (one, other)}
        same_subject = len({line.partition(":")[0] for line in wanted}) < 2 or "a judge fewer" in (one, other)
        assert found == wanted or same_subject, (one, other, found)
        assert found


def test_equal_runs_differ_in_nothing_and_what_always_differs_is_not_listed() -> None:
    assert differences(run_of(content()), run_of(content(), "another")) == []


GAPS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a server that tells no fingerprint": (
        at("judges", 0, "fingerprints", value={}), f"judge openai:a: fingerprint{BOTH}",
    ),
    "replies without a model": (
        at("judges", 0, value=judge(served={}, fingerprints={})), f"judge openai:a: served, fingerprint{BOTH}",
    ),
    "weights behind a server": (at("identity", value=None), "model: weights"),
    "LightEval's own judge": (
        at("metrics", "qa|0", "f1", value={"scorer": "unknown", "higher_is_better": True}), "metric: scorer (qa|0 f1)",
    ),
    "a direction that is not stated": (
        at("metrics", "qa|0", "f1", value={"scorer": "own"}), "metric: direction (qa|0 f1)",
    ),
    "versions": (at("environment", value={}), "versions: evalkit, Python, packages; LightEval: version"),
    "documents": (at("documents", "qa|0", value={}), "documents: content (qa|0)"),
}  # fmt: skip


@pytest.mark.parametrize("name", GAPS)
def test_what_is_not_known_is_no_difference_and_no_equality(name: str) -> None:
    parts = copy.deepcopy(content())
    GAPS[name][0](parts)
    before, after = run_of(content()), run_of(parts)
    assert "; ".join(after.not_known) == GAPS[name][1]
    found = [str(one) for one in differences(before, after)]
    assert found == []
    groups = grouped([before, after])
    assert (groups[0] == groups[1]) == (
        after.not_known[0].partition(":")[0] in ("model", "versions") and name != "versions"
    )
    assert grouped([after, after]) == [1, 1]


def test_in_process_and_built_in_judges_state_their_weights() -> None:
    for one in (judge(provider="fake", served={}, fingerprints={}),
                judge(provider="transformers", served={"org/m@0123": 9}, fingerprints={})):  # fmt: skip
        parts = content() | {"judges": [one]}
        assert not_known(run_of(parts)) == []
    local = judge(provider="transformers", served={"/models/m": 9}, fingerprints={})
    assert [one.text for one in not_known(run_of(content() | {"judges": [local]}))] == ["fingerprint"]


def test_a_missing_receipt_is_a_fact_and_so_is_what_unknown_code_may_read() -> None:
    run = run_of(content())
    lost = replace(
        run, receipts=run.receipts[:1], tasks=(run.tasks[0], replace(run.tasks[1], receipt_state="not_consumed"))
    )
    assert lost.not_known == ("rules: receipt (sums|0, sums|0 tone)",)
    assert differences(run, lost) == []
    parts = content()
    parts["metrics"]["qa|0"]["f1"] = {"scorer": "unknown", "higher_is_better": True}
    other = copy.deepcopy(parts) | {"config": {"samples": 5}}
    assert [str(one) for one in differences(run_of(parts), run_of(other))] == [
        'metric: scoring config {"samples": 3} -> {"samples": 5} (qa|0 f1)'
    ]


def test_services_with_several_fingerprints_split_no_group_unless_none_is_shared() -> None:
    def run(*prints: str) -> Run:
        return run_of(content() | {"judges": [judge(fingerprints=dict.fromkeys(prints, 3))]}, "-".join(prints))

    runs = [run("fp_1"), run("fp_1", "fp_2"), run("fp_2", "fp_3"), run("fp_9"), run("fp_9")]
    assert grouped(runs) == [1, 1, 1, 2, 2]
    [remark] = differences(runs[0], runs[1])
    assert remark.text == "fingerprint fp_1 -> fp_1, fp_2", "it is marked all the same"


def test_groups_do_not_depend_on_the_order_of_receipts_and_the_largest_is_first() -> None:
    names = ["rules", "host", "golds", "direction"]
    runs = [run_of(content(), "a"), *(run_of(changed(name), name) for name in names), run_of(content(), "b")]
    shuffled = [replace(run, receipts=tuple(random.Random(3).sample(run.receipts, 2))) for run in runs]
    assert grouped(runs) == grouped(shuffled)
    assert [run.id for run, group in zip(runs, grouped(runs), strict=True) if group == 1] == ["a", "b"]
    assert len(set(grouped(runs))) == 1 + len(names)


def test_a_difference_concerns_the_figures_of_its_metric_and_task_alone() -> None:
    before = run_of(content())
    metrics = metrics_of(before, "qa|0")
    assert metrics == ["tone", "f1"]
    rows = [("qa|0", "tone"), ("qa|0", "tone_pass_rate"), ("qa|0", "f1"), ("sums|0", "f1"), ("sums|0", "tone")]

    def concerned(name: str) -> list[tuple[str, str]]:
        [remark] = differences(before, run_of(changed(name)))
        return [row for row in rows if remark.concerns(*row, metrics)]

    assert concerned("rules") == [rows[0], rows[1], rows[4]]
    assert concerned("direction") == [("qa|0", "f1")]
    assert concerned("golds") == [("sums|0", "f1"), ("sums|0", "tone")]
    assert concerned("LightEval") == rows
    [remark] = differences(before, run_of(changed("rules")))
    assert remark.concerns("qa|0", "surprise", metrics), "a figure of no known metric may be any metric's"


def test_directions_are_those_of_the_figures_metric() -> None:
    parts = content()
    parts["metrics"]["qa|0"] = {
        "ter": {"scorer": "own", "higher_is_better": False}, "tone": {"scorer": "own", "higher_is_better": True},
        "edit": {"scorer": "own"},
    }  # fmt: skip
    parts["metrics"]["sums|0"] = {"loss": {"scorer": "own", "higher_is_better": False}}
    run = run_of(parts)
    found = {name: is_lower_better(run, "qa|0", name) for name in ("ter", "ter_x", "tone_pass_rate", "edit", "other")}
    assert found == {"ter": True, "ter_x": True, "tone_pass_rate": False, "edit": None, "other": None}
    assert is_lower_better(run, "sums|0", "perplexity") is True, "all metrics of the task have one direction"
    assert is_lower_better(run, "nosuch|0", "ter") is None


def test_facts_of_a_later_evalkit_are_an_error_that_says_so() -> None:
    later = replace(run_of(content()), artifacts={"facts": {"of_tomorrow": 1}})
    with pytest.raises(
        RegistryError, match=r"run r1: invalid facts: .*of_tomorrow.*use the evalkit version that wrote"
    ):
        _ = later.facts
