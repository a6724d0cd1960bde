"""Rubrics of several criteria and of inputs with any names: what judges wrote, bounds per criterion, traces, pytest."""

from __future__ import annotations

import json
import random
import re
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evalkit as ek
from evalkit.core.settings import Rules
from evalkit.errors import ConfigError, InputError
from evalkit.gate import GateConfig, GateOptions, Trace, enrich, measure, run_gate
from evalkit.gate.judgment import judgments_of
from evalkit.gate.pytest_plugin import _TALLY, Verdict
from evalkit.gate.recorded_judgments import read_recorded
from evalkit.gate.reports import as_json, as_junit, as_markdown, as_text
from evalkit.gate.results_and_exit_code import Measured, explanations

SCALES: list[dict[str, Any]] = [
    {"scale": {0: "no", 1: "so", 2: "yes"}, "pass_at": 2},
    {"scale": {0: "no", 1: "so", 2: "yes"}, "pass_at": 1},
    {"scale": {0: "no", 1: "yes"}, "pass_at": 1},
    {"scale": {0: "no", 1: "so", 2: "yes"}},
]
ITEM = [{"item_id": "a", "question": "q", "answer": "x"}]


@pytest.mark.long
def test_no_explanation_is_opposite_to_the_verdict_it_stands_beside() -> None:
    """Every explanation holds what was given where; the status says on which side of it an explanation must be."""
    rng, n_shown = random.Random(1), dict.fromkeys(("pass", "warn", "fail", "error"), 0)
    for _ in range(6):
        kinds = [rng.choice(SCALES[:3]), *rng.choices(SCALES, k=rng.randint(0, 2))]
        criteria = [{"name": f"c{at}", "weight": rng.choice([1, 3]), **kind} for at, kind in enumerate(kinds)]
        own = ek.Rubric(id="own", inputs=["question", "answer"], criteria=criteria)
        judges = ["fake:strict", "fake:lenient"][: rng.randint(1, 2)]
        base = ek.judge(ITEM, own, judges, samples=rng.randint(1, 3), progress=False)
        for _ in range(5):
            table = _with_scores(base, own, rng)
            (judgment,) = judgments_of(table, own, Rules(), {}).values()
            back = read_recorded(json.loads(json.dumps(judgment.to_dict())), "f", own)
            assert back.criteria == judgment.criteria
            bounds = {name: rng.choice([0.3, 0.6, 1.0]) for name in rng.sample(own.names, rng.randint(1, len(kinds)))}
            for bound in (None, rng.choice([0.3, 0.6, 1.0]), bounds):
                measured = Measured(*measure(back, bound), 1, None, back)
                texts = list(explanations(measured, bound))
                n_shown[measured.status] += len(texts)
                for text in texts:
                    _check_side(text, measured.status, bound, own)
                if measured.status == "fail" and bound is not None and not isinstance(bound, dict):
                    assert texts, "some score is under the bound, and its judge explained it"
    assert min(n_shown.values()) > 1, n_shown


def _with_scores(table: pd.DataFrame, own: ek.Rubric, rng: random.Random) -> pd.DataFrame:
    """The judgments with random scores; each explanation says criterion, judge and score."""
    tops = {one.name: max(map(float, one.scale.codes)) for one in own.criteria}
    norms, passes, texts, errors = [], [], [], []
    for criterion, judge in zip(table["criterion"], table["judge"], strict=True):
        code = rng.choice([None, *range(int(tops[criterion]) + 1), int(tops[criterion])])
        errors.append("unreadable" if code is None else None)
        norms.append(np.nan if code is None else code / tops[criterion])
        passes.append(None if code is None else own.criterion(criterion).scale.passed(code))
        texts.append(f"{criterion}|{judge}|{code}")
    scores = [norm * tops[name] for norm, name in zip(norms, table["criterion"], strict=True)]
    return table.assign(
        score=scores,
        score_norm=norms,
        label=pd.Series([None if np.isnan(one) else f"{one:g}" for one in scores], dtype=object),
        passed=pd.array(passes, dtype="boolean"),
        explanation=pd.Series(texts, dtype=object),
        error=pd.Series(errors, dtype=object),
    )


def _check_side(text: str, status: str, bound: Any, own: ek.Rubric) -> None:
    head, criterion, judge, code = re.fullmatch(r"(.*): (c\d)\|(.*)\|(\d)", text).groups()  # type: ignore[union-attr]
    scale = own.criterion(criterion).scale
    norm = int(code) / max(map(float, scale.codes))
    assert head == f"{criterion}, {judge} ({norm:.4g})"
    lowest = bound.get(criterion) if isinstance(bound, dict) else bound
    assert not isinstance(bound, dict) or lowest is not None, "this criterion has no bound, so it decided nothing"
    if status != "error":
        assert (scale.passed(int(code)) if lowest is None else norm >= lowest - 1e-9) is (status != "fail")


def _rubric(folder: Path, rubric_id: str = "review", inputs: Any = ("diff", "comment")) -> ek.Rubric:
    criteria = [
        {"name": "correct", "description": "Is it?", "scale": {0: "no", 1: "partly", 2: "yes"}, "pass_at": 2},
        {"name": "polite", "description": "Is it?", "scale": {0: "no", 1: "yes"}, "pass_at": 1},
    ]
    rubric = ek.Rubric(id=rubric_id, inputs=list(inputs), criteria=criteria)
    rubric.save(folder / "rubrics")
    return rubric


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_bound_per_criterion(project: Path) -> None:
    """The score of each criterion decides, also from the trace, where it is recorded apart."""
    _rubric(project)
    said = {"correct": (0.5, False, [True, False]), "polite": (1.0, True, [True, True])}
    parts = {
        name: {"score": score, "passed": passed, "samples": samples} for name, (score, passed, samples) in said.items()
    }
    record = {"rubric_version": "v1", "passed": False, "score": 0.75, "samples": [True, False]}
    item: dict[str, Any] = {"diff": "- a", "comment": "Why?"}
    for bounds, status in (
        ({"correct": 0.8}, "fail"),
        ({"correct": 0.5}, "warn"),
        ({"polite": 1.0}, "pass"),
        ({"polite": 1, "correct": 0.51}, "fail"),
    ):
        expected = {"type": "review", "samples": 2, "min_score": bounds}
        config = GateConfig(tests=[{"id": "t", "expected": expected}])
        trace = Trace(1, "t", None, None, None, recorded={"review": record | {"criteria": parts}}, inputs=item)
        result = run_gate(config, [trace], environment={})
        assert (result.tests[0].status, result.exit_code) == (status, int(status == "fail")), bounds
        assert json.loads(as_json(result))["tests"][0]["metrics"][0]["min_score"] == bounds
        for report in (as_junit, as_markdown, as_text):
            report(result)
        # recorded as a whole only: which criterion lost the points is unknown
        whole = run_gate(config, [Trace(1, "t", None, None, None, recorded={"review": record}, inputs=item)])
        assert whole.exit_code == 2
        assert f"criteria: recorded without {next(iter(bounds))!r}" in whole.tests[0].message
    config = GateConfig(tests=[{"id": "t", "expected": {"type": "review", "min_score": {"corect": 0.8}}}])
    with pytest.raises(ConfigError, match="'corect', which the rubric does not have; did you mean 'correct'"):
        run_gate(config, [Trace(1, "t", None, None, None, inputs=item)])


def test_bounds_per_criterion_on_live_judgments_and_their_replay(project: Path) -> None:
    rubric = _rubric(project)
    items = [{"item_id": "t", "diff": "- a", "comment": "Why?"}]
    table = ek.judge(items, rubric, "fake:strict", samples=2, progress=False)
    truth = table.groupby("criterion", observed=True)["score_norm"].mean()
    ek.gate.to_traces(items, table, "t.jsonl")
    for name, live in product(rubric.names, (False, True)):
        for bound, status in ((truth[name], ("pass", "warn")), (min(1.0, truth[name] + 0.01), ("fail", "pass"))):
            expected = {"type": "review", "samples": 2, "min_score": {name: float(bound)}}
            options = GateOptions(judge="fake", refresh=live)
            result = run_gate(GateConfig(tests=[{"id": "t", "expected": expected}]), "t.jsonl", options)
            assert result.tests[0].status in status
            assert result.tests[0].metrics[0].measured[0].judgment.source == ("live" if live else "trace")
    options = GateOptions(judge="fake", redact=True)
    result = run_gate(GateConfig(tests=[{"id": "t", "expected": {"type": "review", "samples": 2}}]), "t.jsonl", options)
    texts = [text for text in table["explanation"].dropna().unique() if len(text) > 3]
    enrich("t.jsonl", "hidden.jsonl", {}, redact=True)
    shown = [as_json(result).decode(), as_text(result), Path("hidden.jsonl").read_text(encoding="utf-8")]
    assert texts
    assert not [text for text in texts for report in shown if text in report]
    ek.gate.from_traces("hidden.jsonl")


NAMES = [
    "diff", "comment", "code", "source", "summary", "text", "prompt", "response", "model", "provider", "attempt",
    "meta", "item", "inputs", "request_id", "reference", "context", "conversation", "question", "answer", "note_2",
]  # fmt: skip
VALUES: dict[str, Any] = {
    "conversation": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
    "context": ["one", "two"],
}


@pytest.mark.long
def test_inputs_of_any_names_go_through_traces_gate_and_pytest(project: Path) -> None:
    """Random sets of inputs: written, read, judged from the cache alone, and checked in pytest, with the same keys."""
    rng, config = random.Random(3), SimpleNamespace(stash={_TALLY: dict.fromkeys(("checks", "judgments", "live"), 0)})
    config.stash[_TALLY] |= {"cost_usd": 0.0, "n_unpriced": 0}
    config.getoption = lambda name: {"--verdict-judge": "none", "--verdict-model": None}.get(name)
    for at in range(5):
        names = rng.sample(NAMES, rng.randint(1, 4))
        rubric = _rubric(project, f"r{at}", [name + "?" * (number > 1) for number, name in enumerate(names)])
        item = {name: VALUES.get(name, rng.choice([f"The {name}.", "- a\n+ b", "ü"])) for name in names}
        others = {"item_id": "t", "system_id": "s", "note": 3}
        table = ek.judge([item | others], rubric, "fake:strict", samples=1, progress=False)
        ek.gate.to_traces([item | others], table, "t.jsonl")
        back, _ = ek.gate.from_traces("t.jsonl")
        assert {name: back.loc[0, name] for name in [*item, "system_id", "note"]} == item | {
            "system_id": "s",
            "note": 3,
        }
        tests = [{"id": "t", "expected": {"type": rubric.id, "samples": 1}}]
        options = GateOptions(judge="none", profile=_profile(project))
        (metric,) = run_gate(GateConfig(tests=tests), "t.jsonl", options).tests[0].metrics
        assert metric.measured[0].judgment.source == "trace", (names, metric.message)
        ek.gate.to_traces([item | others], None, "plain.jsonl")  # what a service writes: no judgments
        (metric,) = run_gate(GateConfig(tests=tests), "plain.jsonl", options).tests[0].metrics
        if {"question", "answer"} <= {*names} or not {*names} & {"model", "provider", "attempt", "meta"}:
            assert metric.measured[0].judgment.source == "cache", (names, metric.message)
        verdict = Verdict(config, "t")  # type: ignore[arg-type]
        options_of_pytest = verdict._options
        verdict._options = lambda made=options_of_pytest: _with_profile(made(), project)  # type: ignore[method-assign]
        try:
            assert verdict.check(item, rubric.id, samples=1, min_score=0).source == "cache"
        except pytest.fail.Exception as problem:
            raise AssertionError((names, str(problem))) from None
    _rubric(project)
    with pytest.raises(pytest.fail.Exception, match=r"the item has no diff, which rubric 'review' needs$"):
        Verdict(config, "t").check({"comment": "c"}, "review")  # type: ignore[arg-type]


def _profile(folder: Path) -> str:
    path = folder / "desk.yaml"
    path.write_text("profile: desk\njudges: [{provider: fake, model: strict}]\n")
    return str(path)


def _with_profile(options: Any, folder: Path) -> Any:
    return type(options)(judge="none", profile=_profile(folder))


def _line(**more: Any) -> str:
    return json.dumps({"schema_version": 1, "type": "verdict.trace", "request_id": "t"} | more)


def test_a_trace_by_hand_with_inputs_by_name(project: Path) -> None:
    _rubric(project)
    config = GateConfig(tests=[{"id": "t", "expected": {"type": "review", "samples": 1}}])
    inputs = {"diff": "- a", "comment": "Why?"}
    for fields in ({}, {"prompt": "Review", "response": "Why?"}, {"prompt": "", "text": ""}, {"context": ["c"]}):
        Path("t.jsonl").write_text(_line(**fields, meta={"inputs": inputs}), encoding="utf-8")
        result = run_gate(config, "t.jsonl", GateOptions(judge="fake"))
        assert result.tests[0].status in ("pass", "warn", "fail"), result.tests[0].message
    for test, status in (
        ({"input": {"inputs": {"diff": "- a"}}}, ("pass", "fail")),
        ({"input": {"inputs": {"diff": "- b"}}}, ("error",)),
        ({"expected": {"type": "must_contain", "value": "Why"}}, ("error",)),
    ):
        tests = [{"id": "t", "expected": {"type": "review", "samples": 1}} | test]
        assert run_gate(GateConfig(tests=tests), "t.jsonl", GateOptions(judge="fake")).tests[0].status in status
    Path("t.jsonl").write_text(_line(meta={"inputs": {"diff": "- a"}}), encoding="utf-8")
    message = run_gate(config, "t.jsonl", GateOptions(judge="fake")).tests[0].message
    assert "has no comment, which rubric 'review' needs; add it under meta.inputs" in message
    for line, problem in (
        (_line(meta={"inputs": ["a"]}), "meta.inputs: expected a mapping from input to value, got list"),
        (_line(meta={"inputs": {}}), "has no prompt; add it, or the inputs of its rubric by name under meta.inputs"),
        (_line(prompt="p"), "has neither response nor text; add it, or"),
        (_line(prompt="p", response="a", meta={"inputs": {"answer": "b"}}), "meta.inputs.answer differs from the"),
    ):
        Path("t.jsonl").write_text(line, encoding="utf-8")
        with pytest.raises(InputError, match=re.escape(problem)):
            run_gate(config, "t.jsonl", GateOptions(judge="fake"))


def test_columns_that_an_evaluation_maps_become_inputs(project: Path) -> None:
    rubric = _rubric(project)
    items = [{"item_id": "t", "patch": "- a", "remark": "Why?"}]
    mapped = {"diff": "patch", "comment": "remark"}
    done = ek.evaluate(items, rubric, "fake:strict", samples=1, inputs=mapped, progress=False)
    ek.gate.to_traces(items, done, "t.jsonl")
    assert ek.gate.from_traces("t.jsonl")[0].loc[0, ["diff", "comment"]].tolist() == ["- a", "Why?"]
    tests = [{"id": "t", "expected": {"type": "review", "samples": 1}}]
    (metric,) = run_gate(GateConfig(tests=tests), "t.jsonl", GateOptions(judge="fake")).tests[0].metrics
    assert metric.measured[0].judgment.source == "trace"
