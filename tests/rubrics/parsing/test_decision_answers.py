"""The probabilities in answers of decision models."""

import json
from typing import Any

import pytest

from evalkit.rubrics.parsing import check_form, parser_for
from evalkit.rubrics.parsing.decision_answers import DecisionParser
from evalkit.rubrics.scales import Scale

THREE = Scale.of({-2: "bad", 0: "fair", 2: "good"})
YES_NO = Scale.of({0: "no", 1: "yes"})
WORDS = Scale.of(["1", "true", "2"], level="nominal")


def levels(*shares: float, labels: tuple[str, ...] = ("-2", "0", "2"), **more: Any) -> dict[str, Any]:
    rows = [
        {"value": n, "label": label, "probability": p} for n, (label, p) in enumerate(zip(labels, shares, strict=False))
    ]
    return {"type": "score", "name": "c1", "score": 0.1, "confidence": 0.9, "probabilities": rows} | more


def words(*pairs: tuple[Any, Any]) -> dict[str, Any]:
    return {"type": "choice", "name": "c1", "probabilities": [{"value": v, "probability": p} for v, p in pairs]}


def whole(*answers: Any) -> str:
    return json.dumps({"model": "m", "answers": list(answers), "usage": None})


def test_the_mass_of_each_code_whatever_score_and_confidence_say():
    # the server's `score` counts levels from 0; ours are the codes
    assert DecisionParser(THREE, "a").shares(whole(levels(0.1, 0.2, 0.7))) == pytest.approx({-2: 0.1, 0: 0.2, 2: 0.7})
    yes = {"type": "predicate", "name": "c1", "probability": 1}
    assert DecisionParser(YES_NO, "a").shares(whole(yes)) == {0: 0.0, 1: 1.0}
    shares = DecisionParser(WORDS, "a").shares(whole(words(("2", 0.5), ("1", 0.0), ("true", 0.5))))
    assert shares == {"1": 0.0, "true": 0.5, "2": 0.5}


def test_a_whole_response_is_read_by_the_names_of_criteria_alone():
    one, two = ({"type": "predicate", "name": name, "probability": share} for name, share in (("c1", 0.9), ("c2", 0.2)))
    assert DecisionParser(YES_NO, "c2", ("c1", "c2")).shares(whole(one, two))[1] == 0.2
    assert DecisionParser(YES_NO, "polite")(whole(one, two)).error == "unreadable"  # which of them it is nobody said
    assert DecisionParser(YES_NO, "polite").shares(whole(one | {"name": "kind"}, two | {"name": "polite"}))[1] == 0.2


@pytest.mark.parametrize("total", [0.97, 1.03, 1.05])
def test_rounded_probabilities_are_made_to_sum_to_one(total: float):
    ten = Scale.of(dict.fromkeys(range(10), ""))
    labels = tuple(map(str, range(10)))
    shares = DecisionParser(ten, "a").shares(whole(levels(*([total / 10] * 10), labels=labels)))
    assert shares == pytest.approx(dict.fromkeys(range(10), 0.1))  # ten numbers may be off by .05 in all


@pytest.mark.parametrize(
    ("answers", "scale", "part"),
    [
        ([levels(0.2, 0.2, 0.1)], THREE, "sum to 0.5"),
        ([levels(0.1, 0.2, float("nan"))], THREE, "NaN is no probability"),
        ([levels(0.1, -0.1, 1.0)], THREE, "-0.1 is no probability"),
        ([levels(0.1, True, 0.9)], THREE, "true is no probability"),
        ([levels(0.5, 0.5)], THREE, "one probability for each of -2, 0, 2"),
        ([levels(0.1, 0.2, 0.7, labels=("-2", "?", "2"))], THREE, "one probability for each"),
        ([levels(0.1, 0.2, 0.7, probabilities="1.0")], THREE, "no list of probabilities"),
        ([levels(0.1, 0.2, 0.7, type="choice")], THREE, "expected an answer of the type 'score'"),
        ([levels(0.1, 0.2, 0.7, name="c2")], THREE, "no answer to the question c1 (a)"),
        ([], THREE, "no answer to the question c1 (a)"),
        ([levels(0.1, 0.2, 0.7), levels(0.7, 0.2, 0.1)], THREE, "2 answers to the question c1 (a)"),
        ([levels(0.1, 0.2, 0.7, name=None)] * 2, THREE, "no answer to the question c1 (a)"),
        ([words(("1", 0.5), ("1", 0.1), ("2", 0.4))], WORDS, "one probability for each of 1, true, 2"),
        ([words(("1", 0.5), (True, 0.1), ("2", 0.4))], WORDS, "one probability for each"),
        ([words(("1", 0.5), ("true", 0.1), ("2", 0.2), ("3", 0.2))], WORDS, "one probability for each"),
        ([{"type": "predicate", "name": "c1"}], YES_NO, "null is no probability"),
        (["yes"], YES_NO, "expected a list of answers"),
    ],
)  # fmt: skip
def test_what_is_no_distribution_is_unreadable_and_shown(answers: list[Any], scale: Scale, part: str):
    parsed = DecisionParser(scale, "a")(whole(*answers))
    assert parsed.code is None
    assert parsed.error == "unreadable"
    assert part in parsed.explanation


def test_other_texts_are_no_answers():
    parse = DecisionParser(YES_NO, "a")
    assert parse("Yes, surely.").error == "unreadable"
    assert (
        parse('{"answers": [], "answers": []}').explanation == "the answer is not valid JSON: duplicate key 'answers'"
    )
    assert parse("").error == parse(None).error == "empty"


def test_a_refusal_is_that_of_one_question():
    text = whole({"type": "refusal", "name": "c2"}, levels(0.0, 0.0, 1.0))
    assert DecisionParser(THREE, "a", ("a", "b"))(text).code == 2
    assert DecisionParser(THREE, "b", ("a", "b"))(text).error == "refused"


def test_answers_are_found_by_name_and_never_by_place():
    one, two = levels(1.0, 0.0, 0.0), levels(0.0, 0.0, 1.0, name="c2")
    group = ("c2", "c1")  # criteria that are called as others' questions are
    for text in (whole(one, two), whole(two, one)):
        assert [DecisionParser(THREE, name, group)(text).code for name in group] == [-2, 2]
    assert [DecisionParser(THREE, name, group)(whole(two)).error for name in group] == ["unreadable", None]


def test_an_answer_that_was_recorded_elsewhere():
    alone = json.dumps(levels(0.0, 0.0, 1.0, name=None))
    assert parser_for("decision", THREE, "tone")(alone).code == 2
    named = whole(levels(1.0, 0.0, 0.0, name="truth"), levels(0.0, 0.0, 1.0, name="tone"))
    assert parser_for("decision", THREE, "tone")(named).code == 2
    check_form("decision")


def by_name(**answers: Any) -> str:
    """A response of ``POST /v1/systemone``."""
    return json.dumps({"model": "m", "answers": answers, "usage": None})


def of_levels(*shares: Any, **more: Any) -> dict[str, Any]:
    probabilities = {str(n): share for n, share in enumerate(shares)}
    return {"type": "score", "score": 0.1, "confidence": 0.9, "probabilities": probabilities} | more


def test_the_same_probabilities_by_name():
    legend = {"0": "bad", "1": "fair", "2": "good"}
    for answer in (of_levels(0.1, 0.2, 0.7), of_levels(0.1, 0.2, 0.7, legend=legend)):
        assert DecisionParser(THREE, "a").shares(by_name(c1=answer)) == pytest.approx({-2: 0.1, 0: 0.2, 2: 0.7})
    assert DecisionParser(YES_NO, "a").shares(by_name(c1={"type": "noul", "noul": 1})) == {0: 0.0, 1: 1.0}
    options = {"option_2": 0.5, "option_1": 0.0, "option_true": 0.5}  # a server may sort keys that look like numbers
    shares = DecisionParser(WORDS, "a").shares(by_name(c1={"type": "choice", "probabilities": options}))
    assert shares == {"1": 0.0, "true": 0.5, "2": 0.5}
    plain = Scale.of(["A", "tie"], level="nominal")
    assert (
        DecisionParser(plain, "a").shares(by_name(c1={"type": "choice", "probabilities": {"tie": 1, "A": 0}}))["A"] == 0
    )
    group = ("a", "b")
    text = by_name(c2=of_levels(1.0, 0.0, 0.0), c1=of_levels(0.0, 0.0, 1.0))
    assert [DecisionParser(THREE, name, group)(text).code for name in group] == [2, -2]
    assert DecisionParser(YES_NO, "a")(json.dumps({"type": "noul", "noul": 0.9})).code == 1  # one recorded answer


@pytest.mark.parametrize(
    ("answer", "scale", "part"),
    [
        ({"type": "noul"}, YES_NO, "null is no probability"),
        ({"type": "noul", "noul": "0.9"}, YES_NO, '"0.9" is no probability'),
        ({"type": "noul", "noul": 0.9}, THREE, "expected an answer of the type 'score'"),
        (of_levels(0.5, 0.5), THREE, "one probability for each of -2, 0, 2"),
        (of_levels(0.1, 0.2, 0.7, legend={"0": "good", "1": "fair", "2": "bad"}), THREE, "expected the levels"),
        (of_levels(0.1, 0.2, 0.7, probabilities={"-2": 0.1, "0": 0.2, "2": 0.7}), THREE, "one probability for each"),
        ({"type": "choice", "probabilities": {"1": 0.5, "true": 0.1, "2": 0.4}}, WORDS, "one probability for each"),
        (of_levels(0.2, 0.2, 0.1), THREE, "sum to 0.5"),
        (of_levels(0.1, 0.2, float("nan")), THREE, "NaN is no probability"),
        ("yes", YES_NO, "expected a list of answers"),
    ],
)  # fmt: skip
def test_what_is_no_distribution_by_name_is_unreadable(answer: Any, scale: Scale, part: str):
    parsed = DecisionParser(scale, "a")(by_name(c1=answer))
    assert (parsed.code, parsed.error) == (None, "unreadable")
    assert part in parsed.explanation


def test_a_question_that_was_not_answered_is_missing_and_no_other_takes_its_place():
    text = by_name(c2=of_levels(0.0, 0.0, 1.0))
    errors = [DecisionParser(THREE, name, ("a", "b"))(text).error for name in ("a", "b")]
    assert errors == ["unreadable", None]
    doubled = '{"answers": {"c1": {"type": "noul", "noul": 1}, "c1": {"type": "noul", "noul": 0}}}'
    assert "duplicate key 'c1'" in DecisionParser(YES_NO, "a")(doubled).explanation
