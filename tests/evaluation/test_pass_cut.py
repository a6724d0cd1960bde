"""A cut on P(pass) in a profile: evaluation, gate and a profile's file decide by it, others are as they were."""

import json

import pytest

import evalkit as ek
from evalkit.core.settings import Rules
from evalkit.engine.judging.specification import Spec
from evalkit.errors import ConfigError
from evalkit.gate.judgment import judgments_of, rules_hash
from evalkit.gate.recorded_judgments import read_recorded
from evalkit.rubrics import Profile

RUBRIC = ek.Rubric(
    id="kind", version="v1", inputs=["answer"],
    criteria=[{"name": "kind", "scale": {0: "It is rude.", 1: "It is kind."}, "pass_at": 1}],
)  # fmt: skip
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
