"""The check ``criteria``: floors on points against every way in which open criteria could end, and its errors."""

from __future__ import annotations

import json
import math
import random
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from requirement_replies import asked_in, replies
from servers import judge_server

import evalkit as ek
from evalkit.errors import ConfigError, InputError
from evalkit.gate import GateConfig, GateOptions, Trace, criteria_of_traces, from_traces, run_gate, to_traces
from evalkit.gate.pytest_plugin import _TALLY, Verdict, _report
from evalkit.gate.reports import as_json, as_junit, as_markdown, as_text
from evalkit.gate.runner import GateResult

AXES = ("facts", "tone", None)


def line(name: str, criteria: Any, judged: dict[str, Any] | None = None, where: str = "field") -> dict[str, Any]:
    trace: dict[str, Any] = {"schema_version": 1, "type": "verdict.trace", "request_id": name, "prompt": "Why?"}
    trace |= {"response": "So.", "meta": {"verdict": {"judge": judged}} if judged else {}}
    if where == "field":
        trace["criteria"] = criteria
    else:
        trace["meta"][where] = {"criteria": criteria}
    return trace


def verdict(passed: bool | None) -> dict[str, Any]:
    """What another tool records of one criterion."""
    plain = {"rubric_version": "v1", "samples": [passed], "passed": passed}
    return plain | ({"score": float(passed)} if passed is not None else {"score": None, "reasons": {"unreadable": 1}})


def gate(
    folder: Path, tests: list[Any], traces: list[Any], options: GateOptions | None = None, **config: Any
) -> GateResult:
    path = folder / "traces.jsonl"
    path.write_text("".join(json.dumps(trace) + "\n" for trace in traces), encoding="utf-8")
    return run_gate(GateConfig(tests=tests, **config), path, options or GateOptions(cache=folder / "cache"))


def by_strict(folder: Path, per_call: int, judge: str = "profile") -> GateOptions:
    """Options with a profile of the fake judge `strict`."""
    model = {"provider": "fake", "model": "strict", "max_tokens": 2000}
    profile = {"profile": "jury", "rubric": "requirement@v1", "judges": [model], "samples": 1,
               "criteria_per_call": per_call}  # fmt: skip
    (folder / "jury.yaml").write_text(json.dumps(profile), encoding="utf-8")
    return GateOptions(judge=judge, profile=str(folder / "jury.yaml"), cache=folder / judge)


def scores_that_can_be(criteria: list[dict[str, Any]], known: list[bool | None]) -> list[float]:
    """The shares of points over all ways in which the open criteria can end."""
    possible = sum(max(one["points"], 0) for one in criteria)
    ways = product(*([value] if value is not None else [False, True] for value in known))
    return [
        sum(one["points"] * met for one, met in zip(criteria, way, strict=True)) / possible if possible else math.nan
        for way in ways
    ]


def expected(floor: float, scores: list[float], *, is_open: bool) -> str:
    if any(math.isnan(score) for score in scores):
        return "error"
    reached = [score >= floor - 1e-9 for score in scores]
    return "error" if len({*reached}) > 1 else "fail" if not reached[0] else "warn" if is_open else "pass"


@pytest.mark.long
def test_a_status_is_what_no_open_criterion_can_change(tmp_path: Path) -> None:
    """80 traces; truth from all 2^n ends of the open criteria, per axis and for the whole."""
    draw, seen = random.Random(4), set[tuple[str, bool]]()
    tests, traces, truths = [], [], []
    for number in range(80):
        n = draw.randint(1, 7)
        criteria = [{"id": f"c{k}", "text": f"says {k}", "points": draw.choice([5, 3, 1, -2, -4]),
                     "axis": draw.choice(AXES)} for k in range(n)]  # fmt: skip
        known = [draw.choice([True, True, False, None]) for _ in criteria]
        judged = {f"requirement#c{k}": verdict(one) for k, one in enumerate(known) if one is not None or k % 2}
        axes = sorted({one["axis"] for one in criteria if one["axis"]})
        floors = {"all": draw.choice([-0.5, 0.2, 0.6, 1.0])} | {axis: draw.choice([0.0, 0.5, 1.0]) for axis in axes}
        if draw.random() < 0.5:
            floors = {"all": floors["all"]}
        statuses = []
        for name, floor in floors.items():
            mine = [(one, value) for one, value in zip(criteria, known, strict=True) if name in ("all", one["axis"])]
            scores = scores_that_can_be([one for one, _ in mine], [value for _, value in mine])
            statuses.append(expected(floor, scores, is_open=None in [value for _, value in mine]))
        given = floors if len(floors) > 1 else floors["all"]
        tests.append({"id": f"t{number}", "expected": {"type": "criteria", "min_points": given, "samples": 1}})
        traces.append(line(f"t{number}", criteria, judged, draw.choice(["field", "inputs", "item"])))
        truths.append(next(one for one in ("error", "fail", "warn", "pass") if one in statuses))
    result = gate(tmp_path, tests, traces)
    for test, truth, trace in zip(result.tests, truths, traces, strict=True):
        assert test.status == truth, (test.message, trace)
        seen.add((truth, "to" in test.message))
    assert {one for one, _ in seen} == {"error", "fail", "warn", "pass"}
    assert result.exit_code == 2
    good = [test for test, truth in zip(tests, truths, strict=True) if truth in ("pass", "warn")]
    assert gate(tmp_path, good, traces).exit_code == 0
    assert gate(tmp_path, good, traces, GateOptions(strict=True)).exit_code == 1
    bad = [test for test, truth in zip(tests, truths, strict=True) if truth != "error"]
    assert gate(tmp_path, bad, traces).exit_code == 1


def test_an_axis_named_all_is_an_error_where_min_points_names_the_whole(tmp_path: Path) -> None:
    criteria = [{"text": "Names a time", "points": 5, "axis": "all"}, {"text": "Is kind", "points": 3}]
    judged = {f"requirement#{k}": verdict(k == 2) for k in (1, 2)}
    for floors, status in (({"all": 0.1}, "error"), (0.1, "pass")):
        test = {"id": "t", "expected": {"type": "criteria", "min_points": floors, "samples": 1}}
        [checked] = gate(tmp_path, [test], [line("t", criteria, judged)]).tests
        assert checked.status == status, checked.message
        assert ("axis named 'all'" in checked.message) == (status == "error")


def test_the_reports_name_the_criteria_that_cost_points_with_the_judges_words(tmp_path: Path) -> None:
    criteria = [{"text": "Names a time", "points": 5, "axis": "facts"}, {"text": "Names a brand", "points": -2},
                {"text": "Is kind", "points": 3}, {"text": "Is short", "points": 2}]  # fmt: skip
    judged = {f"requirement#{k}": verdict(met) for k, met in enumerate([True, True, None, False], start=1)}
    for k, words in ((2, "It names Eggo."), (4, "It is long.")):
        passed = judged[f"requirement#{k}"]["passed"]
        text = {"judge": "people", "score": float(passed), "passed": passed, "text": words}
        judged[f"requirement#{k}"]["criteria"] = {
            "requirement": {"score": float(passed), "passed": passed, "rationales": [text]}
        }
    test = {"id": "t", "expected": {"type": "criteria", "min_points": 0.9, "samples": 1}}
    result = gate(tmp_path, [test], [line("t", criteria, judged)])
    text = as_text(result)
    assert text.splitlines()[0] == (
        "fail   t: criteria: 3 to 6 of 10 points (0.3 to 0.6) < 0.9, 3 of 4 criteria scored; "
        "1 unscored (samples: unreadable 1)"
    )
    assert [one.strip() for one in text.splitlines()[1:-1]] == [
        "2 (-2 points), met: Names a brand", "2, people (1): It names Eggo.", "3 (3 points), unscored: Is kind",
        "4 (2 points), not met: Is short", "4, people (0): It is long.",
    ]  # fmt: skip
    assert "It names Eggo." in as_markdown(result)
    assert b"It names Eggo." in as_junit(result)
    (judgment,) = json.loads(as_json(result))["tests"][0]["metrics"][0]["judgments"]
    assert judgment["points"]["all"] == {
        "points": None, "possible": 10.0, "score": None, "low": 0.3, "high": 0.6, "coverage": 9 / 12,
        "n_criteria": 4, "n_scored": 3,
    }  # fmt: skip
    assert judgment["points"]["facts"]["score"] == 1.0
    hidden = gate(tmp_path, [test], [line("t", criteria, judged)], GateOptions(redact=True))
    criteria[1]["axis"], criteria[3]["axis"] = "patient John", "manner"
    test["expected"]["min_points"] = {"all": 0.9, "manner": 0.9}  # type: ignore[index]
    by_axis = gate(tmp_path, [test], [line("t", criteria, judged)], GateOptions(redact=True))
    assert "2 ([REDACTED], -2 points), met: [REDACTED]" in as_text(by_axis)
    assert "4 (manner, 2 points), not met: [REDACTED]" in as_text(by_axis)
    (judgment,) = json.loads(as_json(by_axis))["tests"][0]["metrics"][0]["judgments"]
    assert [*judgment["points"]] == ["all", "manner"]
    for report in (write(one) for write in (as_text, as_markdown, as_json, as_junit) for one in (hidden, by_axis)):
        assert not any(word in str(report) for word in ("Eggo", "brand", "kind", "It is long", "facts", "John"))


def test_a_tie_is_undecided_and_no_verdict(tmp_path: Path) -> None:
    tie: dict[str, Any] = {"rubric_version": "v1", "samples": [True, False], "passed": None, "score": 0.5}
    texts = [{"judge": "people", "score": float(one), "passed": one, "text": f"Said {one}."} for one in (False, True)]
    tie["criteria"] = {"requirement": {"score": 0.5, "passed": None, "rationales": texts}}
    criteria = [{"text": "Invents", "points": -2}, {"text": "Good", "points": 2}, {"text": "Kind", "points": 1}]
    judged = {f"requirement#{k}": tie for k in (1, 2)}
    judged["requirement#3"] = verdict(True) | {"samples": [True, True]}
    test = {"id": "t", "expected": {"type": "criteria", "min_points": 0.9, "samples": 2}}
    result = gate(tmp_path, [test], [line("t", criteria, judged)])
    assert [one.strip() for one in as_text(result).splitlines()[:-1]] == [
        "fail   t: criteria: 1 of 3 points (0.3333) < 0.9, 3 of 3 criteria scored",
        "1 (-2 points), undecided (score 0.5): Invents", "1, people (0): Said False.", "1, people (1): Said True.",
        "2 (2 points), undecided (score 0.5): Good", "2, people (0): Said False.", "2, people (1): Said True.",
    ]  # fmt: skip
    (judgment,) = json.loads(as_json(result))["tests"][0]["metrics"][0]["judgments"]
    assert judgment["samples"] == [None, None, True]
    assert "criteria: 3 of 3 scored, 1 passed" in _report(result.tests[0].metrics[0])


def test_prerequisites_trees_and_samples_count_as_points_counts_them(tmp_path: Path) -> None:
    chain = [{"id": "a", "text": "a"}, {"id": "b", "text": "b", "requires": ["a"]}]
    tree = [{"id": "root", "text": "r"}, {"id": "x", "text": "x", "points": 3, "parent": "root"},
            {"id": "y", "text": "y", "points": 1, "parent": "root"}]  # fmt: skip
    split = {"rubric_version": "v1", "samples": [True, True, False], "passed": True, "score": 2 / 3}
    whole = split | {"samples": [True] * 3, "score": 1.0}
    traces = [
        line("chain", chain, {"requirement#a": verdict(False), "requirement#b": verdict(True)}),
        line("tree", tree, {"requirement#x": verdict(True), "requirement#y": verdict(False)}),
        line("split", ["a", "b"], {"requirement#1": split, "requirement#2": whole}),
    ]
    floors = {"chain": (0.1, 1), "tree": (0.75, 1), "split": (0.8, 3)}
    tests = [{"id": name, "expected": {"type": "criteria", "min_points": floor, "samples": k}}
             for name, (floor, k) in floors.items()]  # fmt: skip
    result = gate(tmp_path, tests, traces)
    messages = {test.id: (test.status, test.message) for test in result.tests}
    assert messages["chain"] == ("fail", "criteria: 0 of 2 points (0) < 0.1, 2 of 2 criteria scored")
    assert messages["tree"] == ("pass", "criteria: 0.75 of 1 points (0.75) ≥ 0.75, 2 of 2 criteria scored")
    assert messages["split"][0] == "warn"
    assert "1.667 of 2 points (0.8333) ≥ 0.8" in messages["split"][1]
    assert messages["split"][1].endswith("; the samples of 1 criterion differ")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "criteria needs min_points"),
        ({"min_points": 0.5, "min_score": 0.5}, "has no min_score"),
        ({"min_points": 1.5}, "less than or equal to 1|at most 1"),
        ({"min_points": float("nan")}, "finite"),
        ({"min_points": {}}, "min_points"),
        ({"min_points": True}, "min_points"),
        ({"min_points": 0.5, "value": "x"}, "unknown key for 'criteria': 'value'"),
        ({"type": "faithfulness", "min_points": 0.5}, "unknown key for 'faithfulness': 'min_points'"),
        ({"type": "regex", "pattern": "a", "rubric": "x"}, "omit 'rubric'"),
    ],
)
def test_an_expectation_that_cannot_be_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        GateConfig(tests=[{"id": "t", "expected": {"type": "criteria"} | given}])


def test_the_same_check_twice_says_how_to_have_both() -> None:
    both = [{"type": "criteria", "min_points": 0.5}, {"type": "criteria", "min_points": {"facts": 0.5}}]
    with pytest.raises(ValueError, match="twice; keep one; min_points takes the whole as 'all' beside axes"):
        GateConfig(tests=[{"id": "t", "expected": both}])


def test_a_floor_of_an_axis_looks_at_the_criteria_of_this_axis_alone(tmp_path: Path) -> None:
    criteria = [{"text": name, "axis": axis} for name, axis in (("Alpha", "a"), ("Zed", "b"), ("Why", "c"))]
    split = {"rubric_version": "v1", "samples": [True, False, True], "passed": True, "score": 2 / 3}
    lost = {"rubric_version": "v1", "samples": [None] * 3, "passed": None, "score": None, "reasons": {"refused": 3}}
    judged = {"requirement#1": split | {"samples": [True] * 3, "score": 1.0}, "requirement#2": split,
              "requirement#3": lost}  # fmt: skip
    floors = {"a": 1.0, "b": 0.5, "c": 0.5, "all": 0.5}
    tests = [{"id": name, "expected": {"type": "criteria", "min_points": {name: floor}, "samples": 3}}
             for name, floor in floors.items()]  # fmt: skip
    of_a, of_b, of_c, of_all = gate(tmp_path, tests, [line(name, criteria, judged) for name in floors]).tests
    assert [of_a.status, of_b.status, of_c.status, of_all.status] == ["pass", "warn", "error", "warn"]
    assert "differ" not in of_a.message
    assert "refused" not in of_b.message
    assert "samples of 1 criterion differ" in of_b.message
    assert "refused 3" in of_c.message


@pytest.mark.parametrize(
    ("criteria", "floor", "text"),
    [
        ([], 0.5, "it has no criteria"),
        ([{"text": "a", "points": 0}], 0.5, "points"),
        ([{"text": "a"}, {"text": " "}], 0.5, "text"),
        ([{"text": "a", "scale": [0, 0.5, 1]}], 0.5, "criterion '1' has the scale [0, 0.5, 1], but the rubric"),
        (["a"], {"fact": 0.5}, "names the axis 'fact'; the criteria of the trace have no axis"),
        ([{"text": "a", "axis": "facts"}], {"fact": 0.5}, "the criteria of the trace have 'facts'"),
        ([{"text": "a", "points": -1}], 0.5, "no share of points: no criterion has positive points"),
    ],
)  # fmt: skip
def test_criteria_that_cannot_be_judged_are_an_error_of_their_test_alone(
    tmp_path: Path, criteria: Any, floor: Any, text: str
) -> None:
    tests = [{"id": name, "expected": {"type": "criteria", "min_points": floor if name == "bad" else 1, "samples": 1}}
             for name in ("bad", "good")]  # fmt: skip
    traces = [line("bad", criteria, {"requirement#1": verdict(True)}),
              line("good", ["a"], {"requirement#1": verdict(True)})]  # fmt: skip
    result = gate(tmp_path, tests, traces)
    assert [test.status for test in result.tests] == ["error", "pass"]
    assert text in result.tests[0].message


def test_one_invalid_trace_does_not_make_all_be_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    read, explode = list[int](), criteria_of_traces.exploded
    monkeypatch.setattr(
        criteria_of_traces, "exploded", lambda items, *more: read.append(len(items)) or explode(items, *more)
    )
    traces = {str(k): Trace(k, str(k), "Why?", None, "So.", inputs={"criteria": ["a"] if k != 70 else []})
              for k in range(256)}  # fmt: skip
    rows = criteria_of_traces.criteria_of({key: (trace, None) for key, trace in traces.items()})
    assert [key for key, one in rows.items() if isinstance(one, str)] == ["70"]
    assert len(read) <= 1 + 2 * 8


def test_a_test_names_the_field_of_its_criteria(tmp_path: Path) -> None:
    own = {"rubric": ["says A", {"text": "xylophone", "points": 3}]}
    for place in ("inputs", "extra"):
        test: dict[str, Any] = {"id": "t", "expected": {"type": "criteria", "min_points": 0.2, "criteria": "rubric"}}
        options = GateOptions(judge="fake:strict", cache=tmp_path)
        traces = [Trace(1, "t", "Why?", None, "It says A.", **{place: own})]
        (result,) = run_gate(GateConfig(tests=[test]), traces, options).tests
        assert (result.status, result.metrics[0].message.partition(",")[0]) == ("pass", "1 of 4 points (0.25) ≥ 0.2")
        test["expected"]["criteria"] = "rubrik"
        (result,) = run_gate(GateConfig(tests=[test]), traces, options).tests
        assert (result.status, "the trace has no rubrik" in str(result.message)) == ("error", True)
    wrong_ones = [{"type": "safety", "criteria": "rubric"}, {"type": "regex", "pattern": "x", "criteria": "y"}]
    for wrong in (*wrong_ones, *({"type": "criteria", "min_points": bad} for bad in ("0.5", 80, math.nan, True))):
        with pytest.raises(ConfigError, match=r"the configuration: tests\[0\]"):
            GateConfig(tests=[{"id": "t", "expected": wrong}])


def test_criteria_of_another_form_are_read_as_the_test_says_and_what_nothing_reads_is_an_error(tmp_path: Path) -> None:
    entries = [{"title": "says A", "why": "x"}, {"title": "xylophone", "weight": 3, "why": "y"}]
    form = {"column": "rubric", "fields": {"text": "title", "points": "weight"}, "ignore": ["why"]}
    options = GateOptions(judge="fake:strict", cache=tmp_path)
    for criteria, more, status, text in (
        (form, {}, "pass", "1 of 4 points"),
        ("rubric", {}, "error", "criterion 1 has fields that nothing reads: 'title'"),
        (form, {"worth": [5, -2]}, "error", "the column 'worth' holds a number for each criterion"),
        ({**form, "ignore": ["why", "worth"]}, {"worth": [5, -2]}, "pass", "1 of 4 points"),
    ):
        test = {"id": "t", "expected": {"type": "criteria", "min_points": 0.2, "criteria": criteria}}
        traces = [Trace(1, "t", "Why?", None, "It says A.", inputs={"rubric": entries, **more})]
        (result,) = run_gate(GateConfig(tests=[test]), traces, options).tests
        assert result.status == status
        assert text in str(result.message or result.metrics[0].message)
    for criteria, text in (
        ({"fields": "health"}, "unknown reader 'health'"),
        ({"field": "x"}, "did you mean 'fields'"),
    ):
        with pytest.raises(ConfigError, match=text):
            GateConfig(tests=[{"id": "t", "expected": {"type": "criteria", "min_points": 0.2, "criteria": criteria}}])


def test_two_places_that_differ_and_a_rubric_without_requirement_are_refused(tmp_path: Path) -> None:
    trace = line("t", ["a"])
    trace["meta"]["inputs"] = {"criteria": ["b"]}
    test = {"id": "t", "expected": {"type": "criteria", "min_points": 0.5}}
    with pytest.raises(InputError, match=r"meta.inputs.criteria differs from the trace's criteria"):
        gate(tmp_path, [test], [trace])
    test["expected"] |= {"rubric": "safety"}  # type: ignore[operator]
    with pytest.raises(ConfigError, match="'safety' does not judge whether a requirement is true of the answer"):
        gate(tmp_path, [test], [line("t", ["a"])])


@pytest.mark.long
@pytest.mark.parametrize("per_call", [1, 8])
def test_judgments_are_recorded_replayed_and_completed(
    tmp_path: Path, per_call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Live, from the trace without a cache, after a criterion was lost, and after an edit of one criterion."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests-only")
    lost, asked = {"says 3.1"}, list[str]()
    met = lambda text: int(text[-1]) % 2 == 0  # noqa: E731
    answer = replies(met, lambda text: text in lost)

    def answered(body: dict[str, Any]) -> Any:
        asked.extend(asked_in(body["messages"][-1]["content"]).values())
        return answer(body)

    criteria = {f"t{k}": [f"says {k}.{n}" for n in range(10)] for k in range(5)}
    tests = [{"id": name, "expected": {"type": "criteria", "min_points": 0.5}} for name in criteria]
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(json.dumps(line(name, one)) + "\n" for name, one in criteria.items()), encoding="utf-8")
    with judge_server(faults=answered) as server:
        judge = {"provider": "openai", "model": "m", "base_url": server.url, "price": [0, 0], "max_tokens": 2000}
        profile = {"profile": "jury", "rubric": "requirement@v1", "judges": [judge], "samples": 1,
                   "criteria_per_call": per_call}  # fmt: skip
        (tmp_path / "jury.yaml").write_text(json.dumps(profile), encoding="utf-8")

        def run(cache: str, judge: str = "none", source: Path = path) -> GateResult:
            asked.clear()
            options = GateOptions(judge=judge, profile=str(tmp_path / "jury.yaml"), cache=tmp_path / cache)
            result = run_gate(GateConfig(tests=tests), source, options)
            ek.gate.enrich(source, path, result.judgments)
            return result

        first = run("cache", "profile")
        assert len(asked) == 50
        statuses = {test.id: test.status for test in first.tests}
        assert statuses == {"t0": "pass", "t1": "pass", "t2": "pass", "t3": "warn", "t4": "pass"}
        assert (
            "5 to 6 of 10 points (0.5 to 0.6) ≥ 0.5, 9 of 10 criteria scored; 1 unscored (samples: unreadable 1)"
            in str(first.tests[3].message)
        )
        replayed = run("none")  # no cache, no judge: what the traces hold
        assert asked == []
        assert {test.id: test.status for test in replayed.tests} == statuses
        assert {one.judgment.source for test in replayed.tests for one in test.metrics[0].measured if one.judgment} == {
            "trace"
        }
        lost.clear()
        run("cache", "profile")
        assert asked == []  # an unreadable reply is a reply: the trace has it
        text = path.read_text(encoding="utf-8").replace('says 2.9"', 'says 2.90"')
        path.write_text(text, encoding="utf-8")
        edited = run("cache", "profile")
        assert {one[:7] for one in asked} == {"says 2."}
        assert len(asked) == (1 if per_call == 1 else 2)  # the last group of its item has two
        assert edited.tests[2].message.startswith("criteria: 6 of 10 points (0.6) ≥ 0.5")
        again = run("none")
        assert [test.message for test in again.tests] == [test.message for test in edited.tests]


def test_to_traces_and_back_keeps_criteria(tmp_path: Path) -> None:
    criteria = [{"text": "a", "points": 2, "axis": "x"}, "b"]
    to_traces([{"item_id": "t", "question": "q", "answer": "a", "criteria": criteria}], None, tmp_path / "t.jsonl")
    items, _ = from_traces(tmp_path / "t.jsonl")
    assert items["criteria"].tolist() == [criteria]
    test = {"id": "t", "expected": {"type": "criteria", "min_points": 0.0}}
    options = GateOptions(judge="fake:strict", cache=tmp_path / "cache")
    assert run_gate(GateConfig(tests=[test]), tmp_path / "t.jsonl", options).tests[0].status != "error"


@pytest.mark.parametrize("per_call", [1, 2])
def test_a_notebooks_evaluation_of_items_is_replayed(tmp_path: Path, per_call: int) -> None:
    items = [
        {
            "item_id": k,
            "question": "q",
            "answer": f"says x, {k}",
            "criteria": [{"id": 7, "text": "says x"}, {"id": "a#b", "text": "says y"}, "is kind"],
        }
        for k in range(3)
    ]
    jury = ek.Judge("fake", "strict", max_tokens=600)
    ev = ek.evaluate(items, "requirement", jury, samples=1, criteria_per_call=per_call, cache=tmp_path / "cache")
    ek.freeze(ev, tmp_path / "jury.yaml")
    to_traces(items, ev, tmp_path / "t.jsonl")
    _, recorded = from_traces(tmp_path / "t.jsonl")
    assert recorded["rubric"].tolist() == ["requirement#7", "requirement#a#b", "requirement#3"] * 3
    tests = [{"id": str(k), "expected": {"type": "criteria", "min_points": -1}} for k in range(3)]
    options = GateOptions(judge="none", profile=str(tmp_path / "jury.yaml"), cache=tmp_path / "empty")
    result = run_gate(GateConfig(tests=tests), tmp_path / "t.jsonl", options)
    judged = [test.metrics[0].measured[0].judgment for test in result.tests]
    assert ev.points is not None
    assert [one and one.score for one in judged] == ev.points["score"].tolist()
    assert {one and one.source for one in judged} == {"trace"}


def test_in_pytest_an_item_brings_its_criteria(tmp_path: Path) -> None:
    options = {"judge": "fake:strict", "cache": tmp_path, "strict": False, "refresh": False}
    config = SimpleNamespace(
        getoption=lambda name: options.get(name.removeprefix("--verdict-").replace("-", "_")),
        stash={_TALLY: dict.fromkeys(("checks", "judgments", "live", "cost_usd", "n_unpriced"), 0.0)},
    )
    check = Verdict(config, "test_it").check  # type: ignore[arg-type]
    item = {
        "question": "How long?",
        "answer": "Boil the egg for eight minutes.",
        "criteria": [{"text": "Boil the egg", "points": 2, "axis": "facts"}, {"text": "xylophone", "points": 3}],
    }
    assert check(item, "criteria", min_points={"facts": 1}, samples=1).score == pytest.approx(0.4)
    with pytest.raises(pytest.fail.Exception) as failed:
        check(item, "criteria", min_points=0.8, samples=1)
    text = str(failed.value)
    assert "fail: criteria: 2 of 5 points (0.4) < 0.8, 2 of 2 criteria scored" in text
    assert "criteria: 2 of 2 scored, 1 passed" in text
    assert "2 (3 points), not met: xylophone" in text
    with pytest.raises(pytest.fail.Exception, match="the trace has no criteria"):
        check({"question": "q", "answer": "a"}, "criteria", min_points=0.8)


@pytest.mark.parametrize("per_call", [1, 8])
def test_other_tests_of_the_same_rubric_keep_their_own_judgments(tmp_path: Path, per_call: int) -> None:
    """One group of a profile has criteria of traces and plain requirements; each is judged, kept and refused."""
    tests = [{"id": "own", "expected": {"type": "criteria", "min_points": -1}},
             {"id": "plain", "expected": {"type": "requirement", "min_score": 0}}]  # fmt: skip
    plain = line("plain", None) | {"meta": {"inputs": {"requirement": "So."}}}
    traces, path = [line("own", ["says so", "says no"]), plain], tmp_path / "traces.jsonl"

    def run(judge: str, source: list[dict[str, Any]], ids: tuple[str, ...] = ("own", "plain")) -> dict[str, Any]:
        chosen = [test for test in tests if test["id"] in ids]
        result = gate(tmp_path, chosen, source, by_strict(tmp_path, per_call, judge))
        ek.gate.enrich(path, path, result.judgments)
        return {test.id: test for test in result.tests}

    assert {test.status for test in run("profile", traces).values()} == {"pass"}
    recorded = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    assert {test.status for test in run("none", recorded).values()} == {"pass"}
    assert run("none", recorded, ("plain",))["plain"].status == "pass"
    edited = [recorded[0], recorded[1] | {"response": "I refuse."}]
    both, alone = run("none", edited), run("none", edited, ("plain",))
    assert (both["own"].status, both["plain"].status, alone["plain"].status) == ("pass", "error", "error")
    assert "input_hash" in both["plain"].message


@pytest.mark.parametrize("per_call", [1, 8])
def test_what_people_recorded_stays_when_its_siblings_are_judged(tmp_path: Path, per_call: int) -> None:
    criteria = ["xylophone", {"text": "zeppelin", "points": -1}]  # the judge finds neither
    test = {"id": "t", "expected": {"type": "criteria", "min_points": 1}}
    trace = line("t", criteria, {"requirement#1": verdict(True)})
    result = gate(tmp_path, [test], [trace], by_strict(tmp_path, per_call))
    assert result.tests[0].status == "pass"
    assert result.judgments[1].keys() == {"requirement#2"}


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("scale", ["celsius", 3, [0, 5, 9], {"a": 1}])
def test_a_field_scale_of_a_trace_is_not_that_of_its_criteria(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale: Any, shown: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    traces = [line(name, ["says so"]) for name in ("item", "inputs", "plain")]
    traces[0]["meta"]["item"] = traces[1]["meta"]["inputs"] = {"scale": scale}
    traces[2]["meta"]["inputs"] = {"requirement": "Says so", "scale": scale}
    own: dict[str, Any] = {"type": "criteria", "min_points": -1, "samples": 1}
    plain: dict[str, Any] = {"type": "requirement", "min_score": 0, "samples": 1}
    if shown:  # an input of the rubric
        inputs = ["question", "answer", "requirement", "scale"]
        ek.load_rubric("requirement").model_copy(update={"id": "mine", "inputs": inputs}).save(tmp_path / "rubrics")
        own, plain = own | {"rubric": "mine"}, plain | {"type": "mine"}
    tests = [{"id": "item", "expected": own}, {"id": "inputs", "expected": own}, {"id": "plain", "expected": plain}]
    options = GateOptions(judge="fake:strict", cache=tmp_path / "cache")
    assert {test.status for test in gate(tmp_path, tests, traces, options).tests} == {"pass"}
