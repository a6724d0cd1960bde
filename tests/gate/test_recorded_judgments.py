"""What a trace says of a judgment: read as its recorder meant it, and refused where it contradicts itself."""

import functools
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evalkit as ek
from evalkit.core.settings import Rules
from evalkit.errors import InputError
from evalkit.gate import GateConfig, GateOptions, GateResult, Trace, measure, run_gate
from evalkit.gate.judgment import Judgment, judgments_of
from evalkit.gate.recorded_judgments import read_recorded
from evalkit.gate.reports import as_json

# As the source document of the gate writes it, letter by letter.
SOURCE = {
    "rubric_version": "v1",
    "passed": True,
    "score": 0.92,
    "source": "trace",
    "samples": [True, True, False],
    "agreement": 0.67,
    "rationale": "...",
}
T, F, N = True, False, None


def gate(*records: dict[str, Any], suite: Any = (), answers: Any = None, **expected: Any) -> GateResult:
    """The gate over one trace for each record; each has an answer of its own unless `answers` says otherwise."""
    tests = [
        {"id": f"t{at}", "expected": {"type": "faithfulness", "rubric_version": "v1"} | expected}
        for at in range(len(records))
    ]
    traces = [
        Trace(at + 1, f"t{at}", "q", ("c",), f"a{at if answers is None else answers[at]}", None, {"faithfulness": one})
        for at, one in enumerate(records)
    ]
    return run_gate(GateConfig(tests=tests, **({"suite": suite} if suite else {})), traces, environment={})


def foreign(samples: list[Any], passed: Any = True, score: Any = 0.9, **more: Any) -> dict[str, Any]:
    return {"rubric_version": "v1", "passed": passed, "score": score, "samples": samples} | more


def test_the_record_of_the_source_document_replays() -> None:
    result = gate(SOURCE, min_score=0.85)
    assert result.exit_code == 0
    judgment = result.tests[0].metrics[0].measured[0].judgment
    assert judgment is not None
    assert (judgment.score, judgment.agreement, judgment.passed, judgment.source) == (0.92, 0.67, True, "trace")
    assert gate(SOURCE, min_score=0.93).exit_code == 1


@pytest.mark.parametrize("score", [0, 0.0, 0.123456, 0.95, 1])
def test_a_score_of_another_tool_is_any_number_from_0_to_1(score: float) -> None:
    assert gate(foreign([T, T, T], score=score), min_score=0.0).exit_code == 0


@pytest.mark.parametrize("score", [0.0, 0.123456, 0.95])
def test_evalkits_own_score_follows_from_the_samples(score: float) -> None:
    """On its scale of 0, 1 and 2 three passing samples have the score 1 and nothing else."""
    with pytest.raises(InputError, match=f"score {score} although 3 samples passed and 0 failed"):
        gate(foreign([T, T, T], score=score, verdict_key="0" * 64))


@pytest.mark.parametrize(
    ("samples", "agreement", "fits"),
    [
        # 2/3 = 0.6666…: to one digit 0.7, to two 0.67; 0.6 and 0.66 are cut off, not rounded
        ([T, T, F], 0.7, True),
        ([T, T, F], 0.67, True),
        ([T, T, F], 0.6667, True),
        ([T, T, F], 2 / 3, True),
        ([T, T, F], 0.6, False),
        ([T, T, F], 0.66, False),
        ([T, T, F], 0.68, False),
        ([T, T, F], 1, False),
        ([T, T, F], 1.0, False),
        ([T, T, F], 0.5, False),
        # 5/8 = 0.625 lies between: both 0.62 and 0.63 are roundings of it
        ([T] * 5 + [F] * 3, 0.62, True),
        ([T] * 5 + [F] * 3, 0.63, True),
        ([T] * 5 + [F] * 3, 0.64, False),
        ([T, T, T], 1, True),
        ([T, T, T], 0.9, False),
        ([T], 1.0, True),
        ([T, T, None], 0.67, True),
        ([T, T, None], 1.0, False),  # of all samples, unscored ones too
        ([T, T, F], None, True),
    ],
)
def test_agreement_is_taken_as_precise_as_it_is_written(samples: list[Any], agreement: Any, fits: bool) -> None:
    record = foreign(samples, agreement=agreement)
    if fits:
        assert gate(record, samples=len(samples), min_score=0.5).exit_code == 0
    else:
        with pytest.raises(InputError, match=f"line 1: .* contradicts itself: agreement {float(agreement)} although "):
            gate(record, samples=len(samples), min_score=0.5)


def test_evalkits_own_agreement_has_four_places() -> None:
    own = {"verdict_key": "0" * 64, "score": 0.8333}
    read_recorded(foreign([T, T, F], agreement=0.6667, **own), "f", ek.load_rubric("faithfulness@v1"))
    with pytest.raises(InputError, match=r"agreement 0.67 although 2 of 3 samples passed, 1 failed \(0.6667\)"):
        read_recorded(foreign([T, T, F], agreement=0.67, **own), "f", ek.load_rubric("faithfulness@v1"))


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (foreign([T, F, F]), "contradicts itself: passed True although 1 of 3 samples passed, 2 failed"),
        (foreign([T, T, F], passed=False), "contradicts itself: passed False although 2 of 3 samples passed, 1 failed"),
        (foreign([T, F, F, N, N]), "contradicts itself: passed True although 1 of 5"),
        (foreign([N, N, N]), "contradicts itself: passed True and score 0.9 although no sample is scored"),
        (foreign([N, N, N], passed=None, score=0.5), "contradicts itself: passed None and score 0.5"),
        (foreign([T, T, T], error="timed out"), "passed True and score 0.9 although an error is recorded"),
        (foreign([T], score=1.5), "score: must be less than or equal to 1, got 1.5"),
        (foreign([T], score=-0.1), "score: "),
        (foreign([T], score=True), "score: must be a valid number, got True"),
        (foreign([T], score="0.9"), "score: must be a valid number, got '0.9'"),
        (foreign([T], agreement=True), "agreement: "),
        (foreign([T], agreement=1.01), "agreement: "),
        (foreign([T], passed=1), "passed: "),
        (foreign([T], passed="true"), "passed: "),
        (foreign([1, 1, 1]), "samples[0]: "),
        (foreign([]), "samples: "),
        (foreign([T], verdict_key=""), "verdict_key: "),
        ({"rubric_version": "v1", "passed": True, "score": 1.0}, "the key 'samples' is missing"),
        ({"rubric_version": "v1", "passed": True, "samples": [T]}, "the key 'score' is missing"),
        ([foreign([T])], "expected a mapping, got a list"),
    ],
)
def test_a_malformed_record_stops_the_gate(record: Any, said: str) -> None:
    with pytest.raises(InputError, match=r"line 1: meta\.verdict\.judge\.faithfulness") as caught:
        gate(record, samples=3)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("record", "bound", "code"),
    [
        # by the vote rule of evalkit a verdict "passed" needs more than half of all samples, unscored ones counted
        (foreign([T, F]), None, 1),
        (foreign([T, F, N]), None, 1),
        (foreign([T, T, F, N]), None, 1),
        (foreign([T, T, F, N, N], passed=False), None, 1),
        (foreign([T, T, N]), None, 0),
        (foreign([T, T, F]), None, 0),
        # a score needs more than half of the samples scored, whoever recorded it
        (foreign([T, N, N]), 0.5, 2),
        (foreign([T, N]), 0.5, 2),
        (foreign([T, T, N, N]), 0.5, 2),
        (foreign([T, T, N, N, N], score=1.0), 0.5, 2),
        (foreign([T, T, N]), 0.5, 0),
        (foreign([T, N, N], passed=None, score=1.0, verdict_key="0" * 64), 0.5, 2),
        (foreign([F, F, N, N, N], passed=None, score=0.0), 0.5, 2),
    ],
)
def test_samples_of_which_most_are_unscored_do_not_pass_by_the_few(record: Any, bound: Any, code: int) -> None:
    asked = {"samples": len(record["samples"])} | ({} if bound is None else {"min_score": bound})
    result = gate(record, **asked)
    assert result.exit_code == code, result.tests[0].message


def test_a_suite_counts_a_judgment_by_the_few_as_not_covered() -> None:
    good, few = foreign([T, T, T], score=1.0), foreign([T, N, N], score=1.0)
    result = gate(*[good] * 20, *[few] * 5, suite=[{"min_coverage": 0.9}, {"min_score_lower_bound": 0.1}], samples=3)
    coverage, score = result.suites
    assert (coverage.status, coverage.message[:4]) == ("fail", "0.80")
    assert "over 20 of 25 tests" in score.message


@pytest.mark.parametrize("bound", ["min_pass_rate", "min_score_lower_bound", "min_agreement"])
def test_copies_of_one_trace_are_one_cluster_without_parts(bound: str) -> None:
    """40 equal records say as much as one; 40 different ones reach .85, and 23 of them would (Wilson, 23/(23 + z²))."""

    def suite(answers: Any) -> tuple[str, str]:
        (found,) = gate(*[foreign([T, T, T], score=1.0)] * 40, suite={bound: 0.85}, answers=answers).suites
        return found.status, found.message

    assert suite(range(40)) == ("pass", "1.00 [0.91, 1.00] over 40 of 40 tests; the lower end reaches 0.85")
    assert suite([0] * 40)[0] == "error"
    assert suite([0] * 40)[1].startswith(
        "1 of 40 tests differ in content and have a value; a suite bound needs at least 20"
    )
    # 20 contents twice: n/(n + z²) = 20/23.84 = 0.84, where 40 would have 0.91
    assert suite([at // 2 for at in range(40)]) == (
        "fail",
        "1.00 [0.84, 1.00] over 40 of 40 tests; the lower end is under 0.85",
    )


def test_copies_are_told_by_what_the_rubric_reads_and_so_they_stand_in_the_result_file() -> None:
    """relevancy reads no context: two traces that differ in it alone are one; their hash is that of a keyed record."""
    tests = [{"id": name, "expected": {"type": "relevancy", "samples": 1}} for name in "ab"]
    record = {"relevancy": foreign([T], score=1.0)}
    traces = [Trace(1, "a", "q", ("x",), "y", None, record), Trace(2, "b", "q", ("z",), "y", None, record)]
    result = run_gate(GateConfig(tests=tests), traces, environment={})
    own = run_gate(GateConfig(tests=tests), traces, GateOptions(judge="fake", refresh=True), environment={})
    hashes = [
        judgment["input_hash"]
        for one in (result, own)
        for test in orjson.loads(as_json(one))["tests"]
        for judgment in test["metrics"][0]["judgments"]
    ]
    assert len(set(hashes)) == 1
    judged = own.tests[0].metrics[0].measured[0].judgment
    assert judged is not None
    assert judged.parts is not None
    assert hashes[0] == judged.parts["input_hash"]


def test_of_a_jury_the_quorum_says_which_judges_may_be_missing() -> None:
    def status(*samples: Any, judge: Any = ("a", "b", "c"), key: str | None = "k") -> str:
        return measure(Judgment("r", "v1", T, 1.0, samples=samples, judge=judge, verdict_key=key), 0.5)[0]

    assert status(T, T, T, N, N, N, N, N, N) == "warn", "one judge of three, whom the quorum of its rules let pass"
    assert status(T, N, N, T, N, N, T, N, N) == "error", "all three by a few samples"
    assert status(T, T, T, N, N, N, N, N, N, key=None) == "error", "another tool's: its quorum is not known"
    assert status(T, T, T, N, N, N, judge="a") == "error"


def rubric(m: int, *, pass_at: float | None = None, critical: bool = False, id_: str = "own") -> ek.Rubric:
    criteria = [
        {"name": f"c{at}", "scale": {0: "a", 1: "b", 2: "c"}, "pass_at": 2, "weight": at + 1, "critical": critical}
        for at in range(m)
    ]
    return ek.Rubric(id=id_, version="v1", description="x", inputs=["answer"], criteria=criteria, pass_at=pass_at)


@pytest.mark.parametrize("key", [None, "0" * 64], ids=["foreign", "own"])
@pytest.mark.parametrize(
    ("passed", "samples", "score"),
    [(T, [F, F, F], 1.0), (T, [F, F, F], 0.2), (F, [T, T, T], 1.0), (F, [T, T, F], 0.8), (T, [N, N, N], 1.0)],
)
def test_a_record_of_several_criteria_that_contradicts_itself(
    key: str | None, passed: bool, samples: list[Any], score: float
) -> None:
    """Both criteria pass by 2 of 3 samples each only where one sample at least passes both: 2 + 2 - 3 = 1."""
    record = foreign(samples, passed, score) | ({} if key is None else {"verdict_key": key})
    with pytest.raises(InputError, match="contradicts itself"):
        read_recorded(record, "f", rubric(2))


@pytest.mark.parametrize(
    ("m", "samples", "passed", "score", "fits"),
    [
        (2, [F, T, F], True, 0.8, True),  # TTF and FTT: each passes by two of three
        (3, [F, F, F], True, 0.8, True),  # TTF, TFT and FTT
        (2, [T, T, T], True, 1.0, True),
        (2, [T, T, T], True, 0.9, False),  # both criteria are 2 in every sample
        # a failing sample has 1 of 2 at best in one criterion; weights 1 and 2: at most 1 - 1/3 · 1/2 = 5/6
        (2, [F, F, T], False, (5 / 6 + 5 / 6 + 1) / 3, True),
        (2, [F, F, T], False, 0.95, False),
        (1, [F, F, T], False, 2 / 3, True),  # 1, 1 and 2 of 2
        (1, [F, F, T], False, 0.7, False),
        (1, [T, F], True, 0.75, False),  # a tie is open
        (1, [T, F], None, 0.75, True),
    ],
)
def test_evalkits_own_record_holds_to_evalkits_rules(
    m: int, samples: list[Any], passed: Any, score: float, fits: bool
) -> None:
    record = foreign(samples, passed, round(score, 4), verdict_key="0" * 64)
    if fits:
        assert read_recorded(record, "f", rubric(m)).passed is passed
    else:
        with pytest.raises(InputError, match="contradicts itself"):
            read_recorded(record, "f", rubric(m))


def test_a_rubrics_own_pass_at_decides_by_the_score() -> None:
    own = rubric(2, pass_at=0.6)
    key = {"verdict_key": "0" * 64}
    assert read_recorded(foreign([F, F, F], T, 0.65, **key), "f", own).passed
    for passed, score in ((True, 0.55), (False, 0.65), (None, 0.65)):
        with pytest.raises(
            InputError, match=f"passed {passed} although 0 of 3 samples passed, 3 failed, score {score}"
        ):
            read_recorded(foreign([F, F, F], passed, score, **key), "f", own)


@functools.lru_cache
def judged(m: int, n_judges: int, k: int, pass_at: float | None, critical: bool) -> tuple[ek.Rubric, pd.DataFrame]:
    own = rubric(m, pass_at=pass_at, critical=critical)
    judges = ["fake:strict", "fake:lenient", "fake:noisy"][:n_judges]
    items = [{"item_id": "a", "question": "q", "answer": "x"}]
    return own, ek.judge(items, own, judges, samples=k, progress=False)


RULES = [
    Rules(),
    Rules(vote="median", ties="low"),
    Rules(vote="majority", min_self_agreement=0.5),
    Rules(aggregate="min", quorum=1.0),
    Rules(aggregate="max", quorum=0.0),
]


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_what_evalkit_records_is_never_refused(data: st.DataObject) -> None:
    """Whatever judges say: the record of it is read back as it was, in the form of any rules."""
    m, n_judges, k = (data.draw(st.integers(1, most)) for most in (3, 3, 5))
    own, table = judged(m, n_judges, k, data.draw(st.sampled_from([None, 0.6])), data.draw(st.booleans()))
    scores = data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, None]), min_size=len(table), max_size=len(table)))
    said = np.array([np.nan if one is None else one for one in scores], dtype=float)
    lost = np.isnan(said)
    table = table.assign(
        score=said,
        score_norm=said / 2,
        label=pd.Series(["" if one is None else str(int(one)) for one in scores]).mask(lost),
        passed=pd.array([None if one is None else one == 2 for one in scores], dtype="boolean"),
        error=pd.Series(["unreadable"] * len(table), dtype=object).where(lost, None),
    )
    rules = data.draw(st.sampled_from(RULES))
    (judgment,) = judgments_of(table, own, rules, {}).values()
    back = read_recorded(orjson.loads(orjson.dumps(judgment.to_dict())), "f", own, rules)
    same = ("passed", "score", "samples", "agreement", "is_scored", "is_final")
    assert [getattr(back, name) for name in same] == [getattr(judgment, name) for name in same]


@pytest.mark.parametrize(
    ("scores", "rationale"), [([0, 2, 2], "b"), ([2, 0, 0], "b"), ([2, 2, 0], "a"), ([2, 0, None], "a")]
)
def test_the_rationale_is_that_of_a_sample_on_the_side_of_the_verdict(scores: list[Any], rationale: str) -> None:
    own, table = judged(1, 1, 3, None, False)
    said = np.array([np.nan if one is None else one for one in scores], dtype=float)
    table = table.assign(
        score=said,
        score_norm=said / 2,
        label=pd.Series([None if one is None else str(one) for one in scores], dtype=object),
        passed=pd.array([None if one is None else one == 2 for one in scores], dtype="boolean"),
        error=pd.Series([None if one is not None else "unreadable" for one in scores], dtype=object),
        explanation=pd.Series(["a", "b", "c"], dtype=object),
    )
    (judgment,) = judgments_of(table, own, Rules(vote="majority"), {}).values()
    assert judgment.passed is (None if None in scores else scores.count(2) > 1)  # one against one is a tie
    assert judgment.rationale == rationale


@pytest.mark.parametrize(
    ("samples", "score", "fits"),
    [([T, T, T], 0.3, False), ([T, T, T], 0.7, True), ([F, F, F], 0.7, False), ([F, F, F], 0.3, True)],
)
def test_a_score_on_an_interval_scale_is_on_the_side_of_its_rule(samples: list[Any], score: float, fits: bool) -> None:
    criterion = {"name": "c", "level": "interval", "scale": {0: "worst", 10: "best"}, "pass_at": 5}
    rubric = ek.Rubric(id="r", version="v1", inputs=["answer"], criteria=[criterion])
    record = foreign(samples, samples[0], score, verdict_key="0" * 64)
    if fits:
        assert read_recorded(record, "f", rubric).score == score
    else:
        with pytest.raises(InputError, match=f"score {score} although {samples.count(T)} samples passed"):
            read_recorded(record, "f", rubric)


def test_an_open_verdict_follows_from_no_majority() -> None:
    own = {"verdict_key": "0" * 64}
    rubric = ek.load_rubric("faithfulness@v1")
    assert read_recorded(foreign([T, F], None, 0.5, **own), "f", rubric).passed is None
    with pytest.raises(InputError, match="passed None although 2 of 3 samples passed"):
        read_recorded(foreign([T, T, F], None, 0.8, **own), "f", rubric)


def test_a_criterion_without_a_rule_may_have_any_score_of_its_share() -> None:
    ruled = {"name": "c", "scale": {0: "a", 1: "b", 2: "c"}, "pass_at": 2}
    rubric = ek.Rubric(
        id="r", version="v1", inputs=["answer"], criteria=[ruled, {"name": "d", "scale": {0: "a", 1: "b"}}]
    )
    # one of three samples passes: at most 1/3 · 1 + 2/3 · (1/2 · 1/2 + 1/2) = 5/6, and at least 1/3 · 1/2
    for score, fits in ((0.83, True), (0.85, False), (0.17, True), (0.15, False)):
        record = foreign([T, F, F], F, score, verdict_key="0" * 64)
        if fits:
            assert read_recorded(record, "f", rubric).score == score
        else:
            with pytest.raises(InputError, match=f"score {score} although 1 sample passed"):
                read_recorded(record, "f", rubric)


def test_judges_without_a_weight_count_once() -> None:
    own, table = judged(1, 2, 3, None, False)
    (one,), (other,) = (judgments_of(rows, own, Rules(), {}).values() for rows in (table, table.drop(columns="weight")))
    assert one == other


def test_a_verdict_of_several_criteria_may_fail_without_a_majority() -> None:
    """With two criteria, a sample that passes only one of them is failed; with one criterion, half is a tie."""
    own = {"verdict_key": "0" * 64}
    assert read_recorded(foreign([T, F], F, 0.6, **own), "f", rubric(2)).passed is False
    with pytest.raises(InputError, match="passed False although 1 of 2 samples passed"):
        read_recorded(foreign([T, F], F, 0.6, **own), "f", rubric(1))


def test_a_score_by_other_rules_is_taken_as_it_is() -> None:
    record, own = foreign([T, T, T], T, 0.3, verdict_key="0" * 64), ek.load_rubric("faithfulness@v1")
    assert read_recorded(record, "f", own, Rules(aggregate="min")).score == 0.3
    assert read_recorded(record | {"parts": {"rules_hash": "other"}}, "f", own).score == 0.3
    with pytest.raises(InputError, match=r"score 0\.3 although 3 samples passed"):
        read_recorded(record, "f", own)
