"""Labels in the words of the levels: the level's own word is that level, also where it is a verdict elsewhere."""

import json
import random

import pandas as pd
import pytest

import evalkit as ek
from evalkit.errors import InputError

WORDS = ["yes", "no", "pass", "fail", "ok", "true", "unsure", "great", "poor", "so so"]
CASES = [random.Random(seed).sample(sorted(WORDS), 3) for seed in range(3)] + [["no", "ok", "great"]]


def judged(words, seed=0):
    draw = random.Random(seed)
    given = [draw.randrange(len(words)) for _ in range(40)]
    labels = pd.DataFrame({"item_id": range(40), "annotator": "a", "label": [words[code] for code in given]})
    votes = pd.DataFrame({"item_id": range(40), "judge": "j", "score": given})
    return votes, labels, given


@pytest.mark.long
@pytest.mark.parametrize(("words", "pass_at"), [*zip(CASES, [1, 2, 1, 2], strict=True)])
def test_a_word_of_the_scale_is_its_level_at_every_door(words, pass_at):
    votes, labels, given = judged(words)
    levels = dict(enumerate(words))
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": "score", "scale": levels, "pass_at": pass_at}])
    judge = ek.Judge.function(
        lambda prompt: json.dumps({"score": given[int(prompt.inputs["answer"])]}), name="j", version="1"
    )
    evaluation = ek.evaluate([{"item_id": i, "answer": str(i)} for i in range(40)], rubric, judge, samples=1)
    of_levels = ek.Scale.of(levels, pass_at=pass_at)
    for said, scale in [
        *((votes, scale) for scale in (levels, words, of_levels, ek.Scale.of(words, pass_at=pass_at))),
        *(
            (table, scale)
            for table in (votes, evaluation.votes, evaluation.scores)
            for scale in (rubric, rubric.criteria[0])
        ),
        (evaluation, None),
        (ek.vote(votes.assign(sample=0), scale=of_levels), None),
    ]:
        figures = ek.align(said, labels, scale=scale)
        assert figures[["accuracy", "mae", "n_labelled"]].values.tolist() == [[1.0, 0.0, 40]], (said, scale)
    share = sum(code >= pass_at for code in given) / 40
    assert ek.corpus_estimate(votes, labels, scale=of_levels, figure="passed")["human"].item() == pytest.approx(share)


def test_words_that_are_no_level_are_refused_with_the_line_that_works():
    votes, labels, _ = judged(["no", "ok"])
    for scale in ([0, 1, 2], {0: "poor", 1: "so so", 2: "great"}):
        with pytest.raises(InputError, match=r"true, false; .* say which: column.replace\({'(no|ok)': …}\)"):
            ek.align(votes, labels, scale=ek.Scale.of(scale, pass_at=1))
    labels = labels.replace({"label": {"no": "false", "ok": "true"}})
    assert ek.align(votes, labels, scale=ek.Scale.of([0, 1, 2], pass_at=1))["accuracy"].item() == 1
