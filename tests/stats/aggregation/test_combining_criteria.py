"""Criteria into one score: weights and critical criteria are the rubric's, or a warning says that they do not count."""

import random
import warnings

import pandas as pd
import pytest

import evalkit as ek
from evalkit.errors import EvalkitWarning, InputError


@pytest.mark.parametrize("seed", range(3))
def test_weights_and_critical_criteria_count_or_a_warning_says_that_they_do_not(seed):
    draw = random.Random(seed)
    criteria = [
        {"name": name, "scale": {0: "n", 1: "y"}, "pass_at": 1, "weight": weight, "critical": draw.random() < 0.5}
        for name, weight in zip("abc", draw.choices([1, 2, 3, 5], k=3), strict=True)
    ]
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=criteria)
    given = [(item, one, draw.randrange(2)) for item in "wxyz" for one in rubric.criteria]
    plain = pd.DataFrame(
        [(item, one.name, score) for item, one, score in given], columns=["item_id", "criterion", "score"]
    )
    scores = ek.aggregate(ek.vote(plain.assign(judge="j"), scale=rubric))
    total, wanted = sum(one.weight for one in rubric.criteria), []
    for item in "wxyz":
        mine = [(one, score) for own, one, score in given if own == item]
        failed = any(one.critical and not score for one, score in mine)
        wanted.append(0 if failed else sum(one.weight * score for one, score in mine) / total)
    for made in (ek.combine(scores, rubric), ek.combine(scores, scale=rubric), ek.combine(plain, scale=rubric)):
        assert made["score_norm"].tolist() == pytest.approx(wanted)
    with pytest.warns(EvalkitWarning, match=r"of rubric 'r@v1' are not in the table.*combine\(scores, rubric\)"):
        equal = ek.combine(scores)["score_norm"]
    with warnings.catch_warnings(action="error"):
        ek.combine(scores.drop(columns=["rubric", "rubric_version"]))
        ek.combine(scores.assign(weight=1.0))
        assert ek.combine(plain, scale=(0, 1))["score_norm"].tolist() == pytest.approx(equal.tolist())


def test_an_evaluation_has_its_own():
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": "a", "scale": {0: "n", 1: "y"}}])
    judge = ek.Judge.function(lambda prompt: '{"score": 1}', name="j", version="1")
    with pytest.raises(InputError, match=r"evaluation\.rubric_scores"):
        ek.combine(ek.evaluate([{"answer": "x"}], rubric, judge, samples=1))
