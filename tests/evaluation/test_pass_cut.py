"""A cut on P(pass) in a profile: evaluation, gate and a profile's file decide by it, others are as they were."""

import json
from contextlib import nullcontext

import pandas as pd
import pytest
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.core.settings import Rules
from evalkit.engine.judging.specification import Spec
from evalkit.errors import ConfigError, InputError
from evalkit.gate.judgment import judgments_of, rules_hash
from evalkit.gate.recorded_judgments import read_recorded
from evalkit.rubrics import Profile

RUBRIC = rubric_of("kind", {0: "It is rude.", 1: "It is kind."}, "kind", pass_at=1, version="v1")
ITEMS = [{"item_id": str(prob), "answer": f"P {prob}"} for prob in (0.5, 0.6, 0.7)]


def stated(prompt):
    """The probability that the content names."""
    return json.dumps(
        {"type": "predicate", "probability": float(prompt.messages[-1].content.split("P ")[1].split()[0])}
    )


JUDGE = ek.Judge.function(stated, name="stated", version="1", template="decision")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))


def test_a_frozen_cut_decides_in_evaluation_and_gate():
    evaluation = ek.evaluate(ITEMS, RUBRIC, JUDGE, samples=1, pass_prob_at=0.655)
    assert evaluation.scores["passed"].tolist() == [False, False, True]
    profile = ek.freeze(evaluation, "kind.yaml")
    assert "pass_prob_at: 0.655" in str(profile)
    again = ek.evaluate(ITEMS, ek.load_profile("kind.yaml"))
    assert again.votes["passed"].tolist() == [False, False, True]
    assert again.votes["options"].tolist() == ["pass_prob_at=0.655"] * 3
    gate = judgments_of(again.judgments, RUBRIC, again.rules, {})
    assert [one.passed for one in gate.values()] == [False, False, True]
    assert [one.samples for one in gate.values()] == [(False,), (False,), (True,)]
    for one in gate.values():
        assert read_recorded(json.loads(json.dumps(one.to_dict())), "f", RUBRIC, again.rules).passed is one.passed


def test_the_record_of_a_mean_over_its_cut_is_read_back():
    table = ek.judge(ITEMS[:1], RUBRIC, JUDGE, samples=3)
    # the mean of .6, .6 and .95 is above the cut, two of the three are below
    table = table.assign(pass_prob=[0.6, 0.6, 0.95], score=[0.6, 0.6, 0.95], score_norm=[0.6, 0.6, 0.95], label="1")
    (judgment,) = judgments_of(table, RUBRIC, rules := Rules(pass_prob_at=0.655), {}).values()
    assert (judgment.passed, judgment.samples) == (True, (False, False, True))
    assert read_recorded(json.loads(json.dumps(judgment.to_dict())), "f", RUBRIC, rules).passed


def test_without_a_cut_all_hashes_are_as_they_were():
    plain, cut = Profile(profile="p", rubric="kind@v1"), Profile(profile="p", rubric="kind@v1", pass_prob_at=0.655)
    assert "pass_prob_at" not in str(plain)
    assert plain.settings_key() == cut.settings_key()  # no score depends on it, so a calibration stays valid
    assert [*Rules().to_dict()] == ["vote", "ties", "min_self_agreement", "aggregate", "quorum"]
    assert rules_hash(RUBRIC, Rules(), [1.0]) != rules_hash(RUBRIC, Rules(pass_prob_at=0.655), [1.0])
    with pytest.raises(ConfigError, match=r"half hundredth from 0\.005 to 0\.995, as 0\.655, got 0\.65"):
        Profile(profile="p", pass_prob_at=0.65)


@pytest.mark.parametrize(
    ("judges", "changes", "rules", "message"),
    [
        ([JUDGE, "fake:strict"], {}, {}, "'fake:strict' states no P"),
        (JUDGE, {"pass_at": 0.5}, {}, "rubric 'kind' decides by its own pass_at"),
        (JUDGE, {}, {"aggregate": "dawid_skene"}, "aggregate='dawid_skene' finds its own verdicts"),
        (
            JUDGE,
            {"criteria": [{"name": "kind", "scale": {0: "No", 1: "Yes"}}]},
            {},
            "no criterion of 'kind' has a pass",
        ),
    ],
)
def test_a_cut_that_cannot_decide_is_refused_before_anything_is_paid(judges, changes, rules, message):
    rubric = ek.Rubric(**RUBRIC.to_dict() | changes)
    with pytest.raises(ConfigError, match=message):
        Spec.of(rubric, judges, 1, rules={"pass_prob_at": 0.655} | rules)


def test_a_cut_for_each_criterion_is_refused_with_the_way_out():
    for cut in ({"kind": 0.655}, {"kind": 0.655, "true": 0.305}):
        with pytest.raises(ConfigError, match=r"one cut for all criteria and judges, got one for each of 'kind'.*own"):
            ek.evaluate(ITEMS, RUBRIC, JUDGE, pass_prob_at=cut)


def test_one_cut_holds_for_each_judge_and_criterion_of_a_run():
    two = ek.Rubric(**RUBRIC.to_dict() | {"id": "two", "criteria": [
        {"name": name, "scale": {0: f"It is not {name}.", 1: f"It is {name}."}, "pass_at": 1} for name in "ab"
    ]})  # fmt: skip
    other = ek.Judge.function(stated, name="other", version="1", template="decision")
    votes = ek.evaluate(ITEMS, two, [JUDGE, other], pass_prob_at=0.655).votes
    assert len(votes) == 3 * 2 * 2
    assert votes["passed"].tolist() == (votes["pass_prob"] >= 0.655).tolist()


@pytest.mark.parametrize(
    ("samples", "passed", "may_be"),
    [
        ([True, True, True], True, True),
        ([True, True, True], False, False),
        ([False, False, False], True, False),
        ([False, False, True], True, True),  # the mean of .6, .6 and .95
        ([False, True, True], False, True),
    ],
)
def test_a_recorded_verdict_must_follow_where_all_samples_are_on_one_side_of_the_cut(samples, passed, may_be):
    table = ek.judge(ITEMS[:1], RUBRIC, JUDGE, samples=3).assign(pass_prob=[0.6, 0.6, 0.95])
    (judgment,) = judgments_of(table, RUBRIC, rules := Rules(pass_prob_at=0.655), {}).values()
    row = judgment.to_dict() | {"samples": samples, "passed": passed, "agreement": None, "criteria": {}}
    with nullcontext() if may_be else pytest.raises(InputError, match=f"contradicts itself: passed {passed} although"):
        assert read_recorded(json.loads(json.dumps(row)), "f", RUBRIC, rules).passed is passed


def test_a_stand_in_gives_one_sample_as_the_models_that_it_stands_for():
    assert len(ek.judge(ITEMS, RUBRIC, JUDGE)) == 3
    assert ek.judge(ITEMS, RUBRIC, [JUDGE, "fake:strict"]).groupby("judge", observed=True).size().tolist() == [3, 9]


def labelled(share):
    """A hundred items with P of .6, and labels of which so many in a hundred pass."""
    items = [{"item_id": str(n), "answer": f"P {0.9 if n % 2 else 0.6} {n}"} for n in range(100)]
    labels = [{"item_id": str(n), "criterion": "kind", "annotator": "ann", "label": int(share(n))} for n in range(100)]
    return items, pd.DataFrame(labels)


def test_the_report_says_what_the_probabilities_showed(tmp_path):
    items, labels = labelled(lambda n: n % 2 == 1)  # those of .9 pass and those of .6 fail
    found = ek.evaluate(items, RUBRIC, JUDGE, labels=labels)
    page = ek.report(found, tmp_path / "report.html").read_text()
    for text in (" ".join(str(found).split()), page.replace("&#39;", "'")):
        assert "people pass fewer items than P(pass) says, by 0.25 of the items" in text  # .5 - .75
        assert "a cut at 0.605 agrees with people on 1.00 of the items out of fold, 0.5 on 0.50" in text
        assert "verdicts here pass from" not in text
    kept = ek.evaluate(items, RUBRIC, JUDGE, labels=labels, pass_prob_at=0.605)
    assert "verdicts here pass from a P(pass) of 0.605 on" in str(kept)
    none = ek.evaluate(items, RUBRIC, JUDGE, labels=labelled(lambda n: n % 4 > 0)[1])
    text = " ".join(str(none).split())
    assert "people's pass rate is not shown to differ from the mean P(pass)" in text  # both are .75
    assert "no cut agrees better with people than 0.5 and than one verdict for all items out of fold" in text


def test_a_gap_without_an_interval_names_no_side():
    items, labels = labelled(lambda n: n % 2)
    one_group = [item | {"group_id": "all"} for item in items]
    text = " ".join(str(ek.evaluate(one_group, RUBRIC, JUDGE, labels=labels)).split())
    assert "people's pass rate is not shown to differ from the mean P(pass)" in text
    assert "items than P(pass) says" not in text


def test_too_few_labels_say_nothing_of_probabilities():
    items, labels = labelled(lambda n: n % 2)
    assert "P(pass) against people" not in str(ek.evaluate(items, RUBRIC, JUDGE, labels=labels[:29]))
    text = " ".join(str(ek.evaluate(items, RUBRIC, JUDGE, labels=labels[:30])).split())
    assert "P(pass) against people" in text
    assert "no cut is chosen: under 50 labelled items; slope: under 100 labelled items" in text
    assert "a cut at" not in text
