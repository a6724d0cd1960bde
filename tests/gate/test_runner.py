"""The gate from inside: matching, precedence, statuses, suites, enrichment, and what is paid."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pandas as pd
import pytest
from commandline import write_lines
from hypothesis import given
from hypothesis import strategies as st

import evalkit as ek
from evalkit.errors import ConfigError, EvalkitWarning, InputError
from evalkit.evaluation import promote
from evalkit.gate import GateConfig, GateOptions, GateResult, Trace, enrich, measure, run_gate, runner
from evalkit.gate.judgment import Judgment, agreement_of
from evalkit.gate.reports import as_json, as_junit, as_markdown, as_text
from evalkit.gate.results_and_exit_code import SuiteResult, TestResult
from evalkit.gate.traces import read_traces

CONTEXT = ("The shop takes goods back for 30 days.",)


def config(*tests: dict, **more: object) -> GateConfig:
    return GateConfig(tests=list(tests), **more)


def one(**expected: object) -> dict:
    return {"id": "t", "expected": {"type": "faithfulness"} | expected}


def trace(line: int = 1, name: str = "t", answer: str = "30 days.", **more: object) -> Trace:
    return Trace(line, name, "ITEM-2 How long?", CONTEXT, answer, **more)


def test_statuses() -> None:
    def said(samples: list, score: float | None, passed: bool | None, bound: float | None = None) -> str:
        return measure(Judgment("r", "v1", passed=passed, score=score, samples=tuple(samples)), bound)[0]

    assert said([None, None], None, None) == "error"
    assert said([True, True], None, True) == "error"  # under quorum
    assert said([True, True, False], 0.84, True, 0.85) == "fail"
    assert said([True, True, False], 0.85, True, 0.85) == "warn"
    assert said([True, True, None], 1.0, True, 0.9) == "warn"
    assert said([True, None], 1.0, None, 0.9) == "error"  # under quorum: half of the samples are not more than half
    assert said([True, False], 0.5, None) == "fail"  # a tie is no pass
    assert said([False, False], 0.6, False, 0.5) == "pass"  # min_score decides, and changes `passed` no more
    assert said([True], 1.0, True) == "pass"


@given(st.lists(st.sampled_from([True, False, None]), min_size=2, max_size=9))
def test_agreement_does_not_depend_on_order(samples: list) -> None:
    assert agreement_of(samples) == agreement_of(samples[::-1])
    assert 0 <= agreement_of(samples) <= 1


def test_traces_without_attempts_are_an_error_that_names_both_lines() -> None:
    result = run_gate(config(one()), [trace(3), trace(7)])
    assert "lines 3 and 7" in result.tests[0].message
    assert result.exit_code == 2


def test_a_test_finds_its_trace_by_prompt_and_another_context_is_an_error() -> None:
    asked = {"prompt": "ITEM-2 How long?", "context": list(CONTEXT)}
    test = {"id": "x", "input": asked, "expected": {"type": "must_contain", "value": "30"}}
    assert run_gate(config(test), [trace()]).exit_code == 0
    wrong = test | {"input": asked | {"context": ["other"]}}
    message = run_gate(config(wrong), [trace()]).tests[0].message
    assert "other" in message
    assert CONTEXT[0] in message


def test_precedence_names_where_each_value_came_from() -> None:
    def sources(variables: dict, options: GateOptions, **expected: object) -> dict:
        setting = {"samples": 2, "judge": "fake"}
        result = run_gate(config(one(**expected), settings=setting), [trace()], options, environment=variables)
        return dict(result.tests[0].metrics[0].sources)

    assert sources({}, GateOptions())["samples"] == "settings.samples"
    assert sources({}, GateOptions(), samples=4)["samples"] == "expected.samples"
    assert (
        sources({"VERDICT_JUDGE_SAMPLES": "1"}, GateOptions(), samples=4)["samples"] == "variable VERDICT_JUDGE_SAMPLES"
    )
    assert (
        sources({"VERDICT_JUDGE_SAMPLES": "1"}, GateOptions(samples=3), samples=4)["samples"] == "flag --judge-samples"
    )
    assert sources({"VERDICT_JUDGE": "none"}, GateOptions())["judge"] == "variable VERDICT_JUDGE"
    with pytest.raises(
        ConfigError, match="variable VERDICT_JUDGE_TEMPERATURE must be a number ≥ 0, or 'none', got 'warm'"
    ):
        sources({"VERDICT_JUDGE_TEMPERATURE": "warm"}, GateOptions())


def test_the_judges_of_a_profile_by_flag_come_before_those_of_variables_and_files(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text("profile: two\njudges: [{provider: fake, model: strict}, {provider: fake, model: lenient}]\n")

    def judges(variables: dict, options: GateOptions, *, named: bool = False, **expected: object) -> object:
        more = {"profile": str(path)} if named else {}
        given = config(one(**expected), settings={"judge": "fake:noisy"}, **more)
        result = run_gate(given, [trace()], options, environment=variables)
        judgment = result.tests[0].metrics[0].measured[0].judgment
        return judgment.judge if judgment is not None else None

    both = ("fake:strict", "fake:lenient")
    assert judges({}, GateOptions(profile=str(path))) == both
    assert judges({"VERDICT_JUDGE": "fake:first"}, GateOptions(profile=str(path)), judge="fake:broken") == both
    assert judges({}, GateOptions(profile=str(path), judge="fake:first")) == "fake:first"
    assert judges({}, GateOptions(profile=str(path), judge="fake", model="first")) == "fake:first"
    assert judges({}, GateOptions(), named=True) == "fake:noisy", "a profile of the file: settings name another judge"


def test_a_judge_of_a_profile_that_the_named_provider_is_not_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text("profile: two\njudges: [{provider: fake, model: strict}, {provider: openai, model: m}]\n")
    for judge, advice in (
        ("fake", "none of them, pass --judge fake:strict"),
        ("openai", "one judge, pass --judge openai:M"),
    ):
        with pytest.raises(ConfigError, match=f"pass --judge profile; to call {advice}"):
            run_gate(config(one()), [trace()], GateOptions(profile=str(path), judge=judge), environment={})


def test_each_judge_of_a_profile_must_be_callable(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    judges = "[{provider: fake, model: strict}, {provider: openai, model: m, api_key_env: NO_SUCH_KEY}]"
    path.write_text(f"profile: two\njudges: {judges}\n")
    for named, options in (({"profile": str(path)}, {}), ({}, {"profile": str(path)})):
        with pytest.raises(ConfigError, match="NO_SUCH_KEY"):
            run_gate(config(one(), **named), [trace()], GateOptions(judge="profile", **options), environment={})


def test_the_page_lists_repeats_below_their_metric() -> None:
    tests = [one() | {"id": "t", "input": {"prompt": "ITEM-2 How long?"}}]
    said = {"rubric_version": "v1", "passed": False, "score": 0.0, "samples": [False] * 3, "rationale": "No source."}
    traces = [trace(at, attempt=at, recorded={"faithfulness": said}) for at in (1, 2)]
    page = as_markdown(run_gate(config(*tests), traces, environment={}))
    below = page.partition("\n- faithfulness: fail: ")[2].split("\n")[1:5]
    assert [line.partition(",")[0] for line in below[::2]] == ["  - line 1", "  - line 2"]
    assert "attempt 1, from trace: fail: " in below[0]
    assert below[1::2] == ["    - the judge: No source."] * 2
    result = run_gate(config(*tests, one() | {"id": "u"}), [traces[0]], environment={})
    page = as_markdown(result)
    # a single trace has no status of its own; a test without one has no texts
    assert page.partition("\n- faithfulness: fail: ")[2].split("\n")[1] == (
        "  - line 1, attempt 1, from trace: the judge: No source."
    )
    assert "\n- prompt: ITEM-2 How long?\n- answer: 30 days.\n" in page
    assert "## u" not in page
    text = as_text(result).split("\n")
    assert [line.split()[:2] for line in text[:3]] == [["fail", "t:"], ["the", "judge:"], ["error", "u:"]]


def test_enrichment_keeps_every_digit_that_is_not_its_own(tmp_path: Path) -> None:
    odd = '{"n": 1.10, "big": 123456789012345678901234567890, "e": 1e400, "u": "\\u00e9", "verdict": {"mine": [1]}}'
    line = (
        '{"schema_version": 1, "type": "verdict.trace", "request_id": "t", "prompt": "p", "response": "30", "meta": '
    ) + odd
    path = tmp_path / "t.jsonl"
    text = f"{line}}}\n\n{line.replace(chr(34) + 't' + chr(34), chr(34) + 'u' + chr(34))}}}\n"
    path.write_text(text, encoding="utf-8")
    enrich(path, path, {1: {"r": {"score": 1.0}}})
    first, blank, last = path.read_text(encoding="utf-8").splitlines()
    assert '"n":1.10,"big":123456789012345678901234567890,"e":1e400,"u":"é"' in first
    assert '"mine":[1]' in first
    assert json.loads(first)["meta"]["verdict"]["judge"] == {"r": {"score": 1.0}}
    assert (blank, last) == ("", text.splitlines()[2])
    assert [file.name for file in tmp_path.iterdir()] == ["t.jsonl"]


def test_a_recorded_judgment_of_another_answer_does_not_count(tmp_path: Path) -> None:
    row = {"schema_version": 1, "type": "verdict.trace", "request_id": "t", "prompt": "p", "context": list(CONTEXT)}
    path = Path(write_lines(tmp_path / "t.jsonl", [row | {"response": "30 days."}]))
    found = run_gate(config(one()), path, GateOptions(judge="fake")).judgments
    enrich(path, path, {line: {name: one.to_dict() for name, one in by.items()} for line, by in found.items()})
    assert run_gate(config(one()), path).exit_code == 0
    path.write_text(path.read_text(encoding="utf-8").replace("30 days.", "60 days."), encoding="utf-8")
    result = run_gate(config(one()), path)
    assert "input_hash: differs from the needed one" in result.tests[0].message
    assert result.exit_code == 2


def test_suite_bounds_need_twenty_tests_and_intervals_decide() -> None:
    def status(n: int, bound: float) -> str:
        tests = [one(samples=1) | {"id": f"t{at}"} for at in range(n)]
        traces = [trace(at + 1, f"t{at}", f"30 days, {at}.") for at in range(n)]
        bounds = {"min_coverage": bound}
        return run_gate(config(*tests, suite=bounds), traces, GateOptions(judge="fake")).suites[0].status

    assert status(19, 0.5) == "error"
    assert status(20, 1.0) == "pass"


@pytest.mark.parametrize(
    ("n", "n_failed", "low", "status"),
    # Wilson's lower end at 95 %, z² = 3.8415: n/(n + z²) where all pass; else (p + w/2 − √(w p(1 − p) + w²/4))/(1 + w)
    # with w = t²/(n − 1), t₃₉ = 2.0227: w = .1049
    [(20, 0, "0.84", "fail"), (23, 0, "0.86", "pass"), (40, 1, "0.86", "pass"), (40, 2, "0.83", "fail")],
)
def test_min_pass_rate_binds_by_the_lower_end(n: int, n_failed: int, low: str, status: str) -> None:
    said = {"rubric_version": "v1", "agreement": 1.0}
    good = said | {"passed": True, "score": 1.0, "samples": [True] * 3}
    bad = said | {"passed": False, "score": 0.0, "samples": [False] * 3}
    tests = [one(rubric_version="v1") | {"id": f"t{at}"} for at in range(n)]
    traces = [
        trace(at + 1, f"t{at}", f"a{at}", recorded={"faithfulness": bad if at < n_failed else good})
        for at in reversed(range(n))
    ]
    result = run_gate(config(*tests, suite={"min_pass_rate": 0.85}), traces)
    (found,) = result.suites
    assert as_text(result).splitlines()[-1].endswith(f"; suite: 1 {status}")
    assert found.status == status
    assert f"[{low}, " in found.message


def test_a_test_without_a_trace_is_not_covered() -> None:
    tests = [one(rubric_version="v1") | {"id": f"t{at}"} for at in range(25)]
    said = {"rubric_version": "v1", "passed": True, "score": 1.0, "samples": [True] * 3}
    traces = [trace(at + 1, f"t{at}", recorded={"faithfulness": said}) for at in range(20)]
    result = run_gate(config(*tests, suite={"min_coverage": 0.9}), traces)
    assert result.suites[0].status == "fail"
    assert result.suites[0].message.startswith("0.80 over 25 of 25 tests")
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"suite": {"type": "relevancy", "min_coverage": 0.5}},
            "suite sets a bound for 'relevancy', but no test expects this metric; the tests expect",
        ),
        (
            {"suite": {"type": "faithfulness"}},
            "a suite entry without a bound has no effect; set at least one of min_score_lower_bound, min_pass_rate",
        ),
        ({"suite": [{}]}, "a suite entry without a bound has no effect; set at least one of"),
    ],
    ids=["stranger", "no-bound", "empty"],
)
def test_a_suite_that_would_check_nothing_is_refused(more: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        config(one(), **more)
    checks = {"id": "t", "expected": {"type": "must_contain", "value": "x"}}
    for empty in ({"suite": {"min_coverage": 0.5}}, {"baseline": "main.json"}):
        with pytest.raises(ValueError, match="need a test with a judge metric, but no test has one"):
            config(checks, **empty)


def test_a_judge_that_is_none_is_told_even_where_none_is_needed() -> None:
    checks = {"id": "t", "expected": {"type": "must_contain", "value": "30"}}
    message = r"VERDICT_JUDGE: unknown judge 'opanai'; did you mean 'openai'\? allowed: none, profile, openai"
    with pytest.raises(ConfigError, match=message):
        run_gate(config(checks), [trace()], environment={"VERDICT_JUDGE": "opanai"})


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [("pf", "flaky"), ("ff", "fail"), ("pp", "pass"), ("fpp", "flaky"), ("ffp", "fail"), ("ffffffffp", "fail")],
)
def test_repeats(verdicts: str, status: str) -> None:
    """Mixed repeats are flaky; repeats of which most fail have failed."""
    traces = [trace(at + 1, answer="30" if letter == "p" else "40", attempt=at) for at, letter in enumerate(verdicts)]
    test = {"id": "t", "expected": {"type": "must_contain", "value": "30"}}
    for order in (traces, traces[::-1]):
        assert run_gate(config(test), order).tests[0].status == status


def test_a_recorded_judgment_without_a_key_counts_by_version_and_number() -> None:
    said = {"rubric_version": "v1", "passed": True, "score": 1.0, "samples": [True] * 3}
    given_ = [trace(recorded={"faithfulness": said})]
    asked = GateOptions(judge="none", model="any", samples=3)
    assert run_gate(config(one(rubric_version="v1")), given_, asked).exit_code == 0
    other = run_gate(config(one(rubric_version="v1", samples=5)), given_)
    assert "samples: recorded 3, needed 5" in other.tests[0].message
    keyed = [trace(recorded={"faithfulness": said | {"verdict_key": "0" * 64}})]
    assert run_gate(config(one(rubric_version="v1")), keyed, asked).exit_code == 2


def test_a_baseline_that_was_better_fails_the_gate(tmp_path: Path) -> None:
    tests = [one(samples=1) | {"id": f"t{at}"} for at in range(20)]
    good = [trace(at + 1, f"t{at}", f"Goods are taken back for 30 days. {'!' * at}") for at in range(20)]
    bad = [trace(at + 1, f"t{at}", f"Sixty weeks and {at} horses.") for at in range(20)]
    before = run_gate(config(*tests), good, GateOptions(judge="fake"))
    assert before.counts["pass"] == 20
    (tmp_path / "main.json").write_bytes(as_json(before))
    gated = config(*tests, baseline=str(tmp_path / "main.json"))
    assert run_gate(gated, good, GateOptions(judge="fake")).suites[0].status == "pass"
    assert run_gate(gated, bad, GateOptions(judge="fake")).suites[0].status == "fail"


GOOD = "The shop takes goods back for 30 days."
BAD = "Sixty weeks and a horse."


def baselines(answers: list[str], rubrics: tuple[str, ...]) -> tuple[list[ek.Evaluation], GateResult, list[Trace]]:
    """Evaluations by each rubric, and the gate's result, of the same answers by the same judge."""
    items = [
        {"item_id": f"t{at}", "question": "ITEM-2 How long?", "answer": answer, "context": list(CONTEXT)}
        for at, answer in enumerate(answers)
    ]
    found = [ek.evaluate(items, rubric, "fake:noisy", samples=3, progress=False) for rubric in rubrics]
    traces = [trace(at + 1, f"t{at}", answer) for at, answer in enumerate(answers)]
    tests = [{"id": f"t{at}", "expected": [{"type": rubric} for rubric in rubrics]} for at in range(len(answers))]
    return found, run_gate(config(*tests), traces, GateOptions(judge="fake:noisy")), traces


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([f"{GOOD} {at}" for at in range(24)], [f"{BAD} {at}" for at in range(24)]),
        ([f"{BAD} {at}" for at in range(24)], [f"{GOOD} {at}" for at in range(24)]),
        ([f"{GOOD} {at}" for at in range(24)], [f"{GOOD if at % 4 else BAD} {at}" for at in range(24)]),
        ([f"{GOOD} {at // 2}" for at in range(24)], [f"{GOOD if at % 3 else BAD} {at}" for at in range(24)]),
        ([f"{GOOD} {at}" for at in range(3)], [f"{BAD} {at}" for at in range(3)]),
    ],
    ids=["worse", "better", "partly", "clusters", "few"],
)
@pytest.mark.long
def test_the_baseline_is_decided_by_the_test_of_compare(before: list[str], after: list[str], tmp_path: Path) -> None:
    rubrics = ("faithfulness", "relevancy")
    old, result, _ = baselines(before, rubrics)
    new, _, traces = baselines(after, rubrics)
    (tmp_path / "main.json").write_bytes(as_json(result))
    tests = [{"id": f"t{at}", "expected": [{"type": rubric} for rubric in rubrics]} for at in range(len(after))]
    gated = config(*tests, baseline=str(tmp_path / "main.json"))
    found = run_gate(gated, traces, GateOptions(judge="fake:noisy")).suites
    # both rubrics in one comparison, as the gate has them: Holm goes over both
    a, b = (pd.concat([one.judgments for one in side], ignore_index=True) for side in (old, new))
    compared = ek.compare(a, b, clusters=old[0].clusters)
    table = compared.table.set_index("rubric")
    for suite, rubric in zip(found, rubrics, strict=True):
        row = table.loc[rubric]
        ps = [row["mcnemar_p_holm"], row["sign_flip_p_holm"]]
        shown = ["<0.001" if p < 0.001 else f"{p:.3f}" for p in ps]
        assert f"; p {shown[0]} by verdicts, {shown[1]} by scores" in suite.message
        assert f"{row['fixed']} now pass, {row['broke']} now fail" in suite.message
        assert (suite.status == "fail") == (rubric in compared.worse)


# What junit-10.xsd of Jenkins' xunit plugin allows (jenkinsci/xunit-plugin, src/main/resources/org/jenkinsci/plugins/
# xunit/types/model/xsd/junit-10.xsd; pytest's xunit2 follows it): element -> attributes that must be there, that may
# be, children. The Ant schema (windyroad/JUnit-Schema, JUnit.xsd) cannot be met by reports that are the same bytes each
# time: it requires timestamp, hostname and time.
JUNIT: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": (
        {"name"},
        {"time", "classname", "group"},
        {"skipped", "error", "failure", "rerunFailure", "rerunError", "flakyFailure", "flakyError", "system-out"}
        | {"system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


def check_junit(element: ET.Element) -> None:
    must, may, children = JUNIT[element.tag]
    assert must <= set(element.attrib) <= must | may, element.attrib
    assert {child.tag for child in element} <= children, element.tag
    if children:
        assert not (element.text or "").strip(), "text stands in failures, errors and output only"
    for child in element:
        assert not (child.tail or "").strip()
        check_junit(child)


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_junit_is_what_its_readers_take(strict: bool) -> None:
    repeats = {"id": "flaky", "expected": {"type": "must_contain", "value": "30"}}
    tests = [one(), one() | {"id": "x\x00<&>\n\ud7ff"}, one() | {"id": "lost"}, repeats]
    traces = [trace(answer=GOOD), trace(2, "x\x00<&>\n\ud7ff", "Sixty weeks and a horse.\x1b[31m ]]>")]
    traces += [trace(3, "flaky", "30", attempt=1), trace(4, "flaky", "40", attempt=2)]
    options = GateOptions(judge="fake", strict=strict)
    result = run_gate(config(*tests, suite={"min_coverage": 0.1}), traces, options)
    document = ET.fromstring(as_junit(result))
    assert document.tag == "testsuites"
    check_junit(document)
    # one passes, one fails, one has no trace, one is flaky; the suite bound needs 20 tests
    counts = ["5", "2" if strict else "1", "2"]
    suite = document[0]
    for element in (document, suite):
        assert [element.get(name) for name in ("tests", "failures", "errors")] == counts
    assert len(suite.findall("testcase")) == 5
    assert [len(suite.findall(f".//{tag}")) for tag in ("failure", "error")] == [int(counts[1]), int(counts[2])]
    flaky = suite.findall("testcase")[3]
    assert "repeats reach different verdicts" in "".join(flaky.itertext()), "strict or not, it is said"
    names = [case.get("name") for case in suite.findall("testcase")]
    assert names[1] == "x\ufffd<&>\n\ud7ff", "what XML cannot hold is marked"


def test_a_baseline_by_another_version_says_so(tmp_path: Path) -> None:
    said = {"passed": True, "score": 1.0, "samples": [True] * 3}
    before = run_gate(
        config(one(rubric_version="v1")), [trace(recorded={"faithfulness": said | {"rubric_version": "v1"}})]
    )
    old = as_json(before).replace(b'"rubric_version": "v1"', b'"rubric_version": "v0"')
    (tmp_path / "main.json").write_bytes(old)
    gated = config(one(rubric_version="v1"), baseline=str(tmp_path / "main.json"))
    (found,) = run_gate(gated, [trace(recorded={"faithfulness": said | {"rubric_version": "v1"}})]).suites
    assert "faithfulness@v0 in the baseline, @v1 now" in found.message
    assert found.status == "pass"


def test_every_report_names_who_judged(tmp_path: Path) -> None:
    """Also of tests that passed, and of a baseline by another judge."""
    said = {"rubric_version": "v1", "passed": True, "score": 1.0, "samples": [True] * 3}
    tests = [one() | {"id": f"t{at}"} for at in range(6)]

    def run(judges: list[str], **more: object) -> GateResult:
        rows = [{"faithfulness": said | {"judge": judge}} for judge in judges]
        traces = [trace(at + 1, f"t{at}", recorded=row) for at, row in enumerate(rows)]
        return run_gate(config(*tests, **more), traces)

    (tmp_path / "main.json").write_bytes(as_json(run(["a:one"] * 6)))
    result = run(["a:one"] * 2 + ["b:two"] * 4, baseline=str(tmp_path / "main.json"))
    assert result.counts["pass"] == 6
    assert result.judges == {
        ("faithfulness", "a:one"): ["t0", "t1"], ("faithfulness", "b:two"): ["t2", "t3", "t4", "t5"]
    }  # fmt: skip
    assert result.exit_code == 2, "two of six tests were judged as before"
    for page in (as_markdown(result), as_junit(result).decode(), as_json(result).decode(), as_text(result)):
        assert "4 tests judged by a:one in the baseline, by b:two now" in page
    assert "| faithfulness | a:one | 2 |\n| faithfulness | b:two | 4 |\n" in as_markdown(result)
    document = ET.fromstring(as_junit(result))
    check_junit(document)
    values = [one.attrib for one in document.iter("property")]
    assert values == [
        {"name": "judged by (faithfulness)", "value": "a:one: 2 tests"},
        {"name": "judged by (faithfulness)", "value": "b:two: 4 tests"},
    ]
    note = "faithfulness: not all tests were judged by the same judges: a:one (2 tests: 't0', 't1'); b:two (4 tests: "
    assert [text.startswith(note) for text in result.notes] == [True]
    alike = run(["a:one"] * 6, baseline=str(tmp_path / "main.json"))
    assert (alike.exit_code, alike.notes) == (0, ())
    assert "not worse: 6 of 6 tests" in as_junit(alike).decode(), "a comparison that passes says what it compared"


def test_what_only_the_baseline_has_is_told(tmp_path: Path) -> None:
    said = {"rubric_version": "v1", "passed": True, "score": 1.0, "samples": [True] * 3}
    rows = [trace(at + 1, f"t{at}", recorded={"faithfulness": said, "relevancy": said}) for at in range(6)]
    both = [{"id": f"t{at}", "expected": [{"type": "faithfulness"}, {"type": "relevancy"}]} for at in range(6)]
    (tmp_path / "main.json").write_bytes(as_json(run_gate(config(*both), rows)))
    fewer = [one() | {"id": f"t{at}"} for at in range(4)]
    result = run_gate(config(*fewer, baseline=str(tmp_path / "main.json")), rows)
    messages = {suite.type: (suite.status, suite.message) for suite in result.suites}
    assert messages["faithfulness"][0] == "pass"
    assert "4 of 4 tests judged in both runs" in messages["faithfulness"][1]
    assert "2 tests only in the baseline" in messages["faithfulness"][1]
    assert messages["relevancy"][0] == "warn"
    assert messages["relevancy"][1].startswith("only in the baseline: 0 of 0 tests judged")
    assert result.exit_code == 0


def test_junit_of_no_tests_and_of_a_nameless_configuration() -> None:
    document = ET.fromstring(as_junit(GateResult("", ())))
    check_junit(document)
    assert document[0].get("name") == "gate"
    assert document[0].get("tests") == "0"


def test_what_passed_is_folded_and_counted() -> None:
    expected = {"type": "must_contain", "value": "30"}
    tests = [{"id": f"t{at}", "expected": expected} for at in range(3)]
    result = run_gate(config(*tests), [trace(at + 1, f"t{at}", "30" if at else "60") for at in range(3)])
    page = as_markdown(result)
    assert "<details><summary>2 pass</summary>" in page
    assert as_text(result).split("\n")[0].startswith("fail   t0: must_contain: does not contain")
    assert as_text(result).split("\n")[1].startswith("3 tests: 1 fail, 2 pass")
    folded = page.partition("<details>")[2].partition("</details>")[0]
    assert [line[:6] for line in folded.split("\n") if line.startswith("| t")] == ["| test", "| t1 |", "| t2 |"]


def test_cases_are_of_the_class_of_their_configuration() -> None:
    for name, shown in (("", "gate"), ("eval.yaml", "eval.yaml")):
        given = config({"id": "t", "expected": {"type": "must_contain", "value": "30"}}, name=name)
        suite = ET.fromstring(as_junit(run_gate(given, [trace()])))[0]
        assert (suite.get("name"), suite[0].get("classname"), suite[0].get("name")) == (shown, shown, "t")


def test_what_is_free_leaves_the_budget_as_it_is() -> None:
    tests = [{"id": "t", "expected": [{"type": "faithfulness"}, {"type": "relevancy"}]}]
    result = run_gate(config(*tests), [trace()], GateOptions(judge="fake", budget_usd=0.5))
    assert [metric.measured[0].judgment.source for metric in result.tests[0].metrics] == ["live", "live"]


def test_limits_are_of_requests_over_all_metrics(tmp_path: Path) -> None:
    # one request has all three samples of a rubric
    tests = [{"id": "t", "expected": [{"type": "faithfulness"}, {"type": "relevancy"}]}]
    for most, asked in ((1, [3, 0]), (2, [3, 3])):
        options = GateOptions(judge="fake", max_calls=most, cache=tmp_path / str(most))
        result = run_gate(config(*tests), [trace()], options)
        found = [metric.measured[0].judgment for metric in result.tests[0].metrics]
        assert [sum(one is not None for one in judgment.samples) for judgment in found] == asked
        assert any(f"the budget of {most} calls was reached" in note for note in result.notes) == (most < 2)


@pytest.mark.parametrize(
    ("paid", "cost"), [([0.25, 0.5], 0.75), ([None, 0.5], None), ([0.5, None], None), ([None, None], None)]
)
def test_a_cost_is_unknown_if_that_of_one_rubric_is(
    paid: list[float | None], cost: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged, left = runner.judged, iter(paid)
    monkeypatch.setattr(runner, "judged", lambda *given: (judged(*given)[0], next(left)))
    tests = [{"id": "t", "expected": [{"type": "faithfulness"}, {"type": "relevancy"}]}]
    result = run_gate(config(*tests), [trace()], GateOptions(judge="fake"))
    assert result.cost_usd == cost
    assert ("unknown" in as_text(result)) == (cost is None)


def test_the_exit_code_is_that_of_the_worst() -> None:
    def code(*statuses: str, suite: str | None = None, **more: bool) -> int:
        suites = () if suite is None else (SuiteResult("min_coverage", "r", suite, ""),)
        return GateResult("", tuple(TestResult("t", one, "") for one in statuses), suites, **more).exit_code

    assert [code(), code("pass"), code("warn", "flaky"), code("fail"), code("fail", "error")] == [0, 0, 0, 1, 2]
    assert [code("pass", strict=True), code("warn", strict=True), code("flaky", strict=True)] == [0, 1, 1]
    assert [code("pass", suite="fail"), code("pass", suite="error"), code("fail", suite="pass")] == [1, 2, 1]


def test_the_nearest_entries_of_the_first_twenty_misses_are_told() -> None:
    tests = [one(samples=1) | {"id": f"t{at}"} for at in range(21)]
    traces = [trace(at + 1, f"t{at}", f"{at} days.") for at in range(21)]
    assert run_gate(config(*tests), traces, GateOptions(judge="fake")).counts["error"] == 0
    other = run_gate(config(*tests, settings={"temperature": 0.5}), traces, GateOptions(judge="fake", offline=True))
    told = ["temperature: " in test.message for test in other.tests]
    assert told == [True] * 20 + [False]


def test_a_rubric_needs_a_rule_of_its_own_or_of_a_criterion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path))
    plain = {"version": "v1", "inputs": ["answer"], "criteria": [{"name": "c", "scale": {0: "a", 1: "b"}}]}
    for name, pass_at in (("open", None), ("ruled", 0.5)):
        ek.Rubric(id=name, **plain, pass_at=pass_at).save(tmp_path)
    asked = GateOptions(judge="fake")
    assert run_gate(config(one(type="ruled")), [trace()], asked).tests[0].status != "error"
    with pytest.raises(ConfigError, match="rubric 'open' gives no verdict, because it has no pass rule"):
        run_gate(config(one(type="open")), [trace()], asked)


def test_markdown_cannot_be_steered_by_what_a_model_wrote() -> None:
    result = run_gate(
        config({"id": "a|b", "expected": {"type": "must_contain", "value": "x"}}), [trace(1, "a|b", "<img> | # y")]
    )
    page = as_markdown(result)
    assert "a\\|b" in page
    assert "<img>" not in page


@pytest.mark.long
@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "nonsense"}], ids=["good", "bad"])
def test_json_schema(schema: dict) -> None:
    test = {"id": "t", "expected": {"type": "json_schema", "schema": schema}}
    if schema["type"] == "nonsense":
        result = run_gate(config(test), [trace()])
        assert (result.exit_code, result.tests[0].status) == (2, "error")
        assert "invalid JSON Schema" in result.tests[0].message
    else:
        assert run_gate(config(test), [trace(answer="{}")]).exit_code == 0
        assert run_gate(config(test), [trace(answer="no")]).exit_code == 1


def test_promoted_replies_are_counted_and_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path))
    plain = ek.load_rubric("faithfulness@v1").to_dict() | {"id": "own"}
    for version in ("v1", "v2"):
        ek.Rubric(**(plain | {"version": version, "pass_at": 0.5 if version == "v2" else None})).save(tmp_path)
    asked = GateOptions(judge="fake")
    test = {"id": "t", "expected": {"type": "own", "rubric_version": "v1"}}
    assert run_gate(config(test), [trace()], asked).exit_code == 0
    assert promote("own@v2") == 3
    test["expected"]["rubric_version"] = "v2"
    variables = {"VERDICT_JUDGE": "fake"}
    result = run_gate(config(test), [trace()], GateOptions(judge="none"), environment=variables)
    assert (result.exit_code, result.notes[0].split()[:4]) == (0, ["3", "replies", "were", "promoted"])
    refused = run_gate(config(test), [trace()], GateOptions(judge="none", no_promoted=True), environment=variables)
    assert "uses 3 promoted replies" in refused.tests[0].message
    assert refused.exit_code == 2


def test_reading_is_strict(tmp_path: Path) -> None:
    row = {"schema_version": 1, "type": "verdict.trace", "prompt": "p"}
    path = write_lines(tmp_path / "t.jsonl", [row | {"response": "a", "text": "b"}])
    with pytest.raises(InputError, match=r"line 1: the trace has both response and text"):
        list(read_traces(path))


def test_a_warning_names_the_trace_as_its_owner_does() -> None:
    tests = [{"id": name, "expected": {"type": "faithfulness"}} for name in ("full", "refund 7")]
    traces = [trace(1, "full"), trace(2, "refund 7", answer="")]
    with pytest.warns(EvalkitWarning, match=r"an empty 'answer' \(item 'refund 7'\)"):
        run_gate(config(*tests), traces, GateOptions(judge="fake:strict"))
