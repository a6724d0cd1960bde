"""Labels in the words of the levels: the level's own word is that level, also where it is a verdict elsewhere."""

import json
import random

import pandas as pd
import pytest

import evalkit as ek
from evalkit.rubrics.human_labels import VERDICT_WORDS

WORDS = [*VERDICT_WORDS, "great", "poor", "so so"]
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


def test_words_of_verdicts_are_noted_where_the_levels_have_no_words():
    votes, labels, _ = judged(["no", "ok", "great"])
    labels = labels[labels["label"] != "great"]
    for scale, noted in (([0, 1, 2], True), ([0, 1], False), ({0: "no", 1: "ok", 2: "great"}, False)):
        on = votes[votes["score"] < len(scale)]
        found = ek.align(on, labels, scale=ek.Scale.of(scale, pass_at=1))
        assert found["notes"].str.contains("'no', 'ok' in the labels: read as verdicts").fillna(False).item() == noted
