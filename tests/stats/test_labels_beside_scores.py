"""Columns that pandas merged into a table of scores: people's labels are never read as the judge's answers."""

import math
import random
import warnings

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import evalkit as ek
from evalkit.errors import EvalkitWarning, InputError

CODES = [1, 2, 3, 4, 5]
SCALES = {
    "none": None,
    "codes": CODES,
    "rule": ek.Scale.of(CODES, pass_at=4),
    "range": (1, 5),
    "low": ek.Scale.of(CODES, better="low", pass_at=2),
}


def doors(people: pd.DataFrame, other: pd.DataFrame):
    """Every function that takes a plain table of judges' scores: name -> its result."""
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": "c", "scale": dict.fromkeys(CODES, "")}])

    def alone(table):
        return table[table["judge"] == "a"].drop(columns="judge")

    return {
        "vote": lambda table, scale: ek.vote(table, scale=scale),
        "aggregate": lambda table, scale: ek.aggregate(table, scale=scale),
        "majority": lambda table, scale: ek.aggregate(table, scale=scale, method="majority"),
        "disagreement": lambda table, scale: ek.disagreement(table, scale=scale),
        "reliability": lambda table, scale: ek.reliability(table, scale=scale),
        "align": lambda table, scale: ek.align(table, people, scale=scale),
        "align scores": lambda table, scale: ek.align(alone(table), people, scale=scale),
        "compare": lambda table, scale: ek.compare(alone(table), alone(other), scale=scale).table,
        "compare back": lambda table, scale: ek.compare(other, table, scale=scale).table,
        "summarize": lambda table, scale: ek.summarize(alone(table), scale=scale),
        "by judge": lambda table, scale: ek.summarize(table, by="judge", scale=scale),
        "combine": lambda table, _: ek.combine(alone(table).assign(criterion="c"), rubric),
        "rank": lambda table, scale: ek.rank(
            table.assign(system_id=table["item_id"] % 2, item_id=table["item_id"] // 2), scale=scale
        ),
    }


def merged(seed: int):
    """A judge's scores with gaps, the same with people's labels merged in, and whether a label contradicts a score."""
    draw = random.Random(seed)
    n = draw.randint(4, 12)
    cells = [(item, judge) for item in range(n) for judge in "ab"]
    table = pd.DataFrame(cells, columns=["item_id", "judge"])
    table["score"] = [math.nan if draw.random() < 0.25 else draw.choice(CODES) for _ in cells]
    table["score"] = table["score"].astype(draw.choice(["float64", "float32", "Float64", "Int64", "object"]))
    people = pd.DataFrame({"item_id": range(n), "label": [draw.choice(CODES) for _ in range(n)]})
    people["label"] = people["label"].astype(draw.choice(["int64", "float64", "str", "category"]))
    return table, people, table.merge(people, on="item_id")


@pytest.mark.long
@pytest.mark.parametrize("kind", SCALES)
def test_peoples_labels_that_were_merged_in_change_no_figure_in_silence(kind):
    scale, refused, n_same = SCALES[kind], list[str](), 0
    table, people, both = merged([*SCALES].index(kind))
    other = table.assign(score=6 - table["score"])
    for name, function in doors(people, other).items():
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", EvalkitWarning)
                result = function(both, scale)
        except InputError as problem:
            refused.append(str(problem))
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvalkitWarning)
            assert_frame_equal(
                result[[*(expected := function(table, scale)).columns]], expected, check_categorical=False
            )
        assert any("`label`" in str(warning.message) for warning in caught) or kind == "range", name
        n_same += 1
    assert all("label" in text and "rename" in text for text in refused)
    assert refused if kind != "none" else n_same


@pytest.mark.long
@pytest.mark.parametrize("kind", ["codes", "rule", "range", "low"])
def test_labels_of_the_scores_themselves_are_no_error(kind):
    table, people, _ = merged([*SCALES].index(kind))
    both = table.assign(label=table["score"].astype("float64").map({code: f"{code}.0" for code in CODES}))
    for name, function in doors(people, table.assign(score=6 - table["score"])).items():
        plain = function(table, SCALES[kind])
        assert_frame_equal(function(both, SCALES[kind])[[*plain.columns]], plain, check_categorical=False, obj=name)


def test_a_label_beside_a_score_is_its_nearest_code():
    half = pd.DataFrame({"item_id": [1, 2, 3], "judge": "a", "score": [1.5, 1.5, 1.4], "label": ["1", "2", "1"]})
    assert ek.aggregate(half, scale=CODES)["score"].tolist() == [1.5, 1.5, 1.4]
    with pytest.raises(InputError, match=r"row 2 \(item 3, judge a\) has the score 1.4 and the label '2' \(1 such row"):
        ek.aggregate(half.assign(label=["1", "2", "2"]), scale=CODES)


def test_a_missing_score_is_not_filled_from_the_label():
    table = pd.DataFrame({"item_id": [1, 2, 3], "judge": "a", "score": [2, None, 1], "label": [2, 5, 1]})
    for scale in (None, CODES, (1, 5)):
        with pytest.warns(EvalkitWarning, match="`label`"):
            votes = ek.vote(table, scale=scale)
        assert votes["score"].fillna(-1).tolist() == [2, -1, 1]
        assert votes["reason"].tolist()[1] == "missing"
    for blank in (None, np.nan, pd.NA, ""):  # a column without any score is none
        assert ek.vote(table.assign(score=blank), scale=CODES)["score"].tolist() == [2, 5, 1]


def test_words_and_pairs_are_compared_too():
    words = pd.DataFrame({"item_id": [1, 2], "judge": "a", "score": ["good", "bad"], "label": ["Good ", "bad"]})
    assert ek.vote(words, scale={"good", "bad"})["label"].tolist() == ["good", "bad"]
    with pytest.raises(InputError, match="has the score 'bad' and the label 'good'"):
        ek.vote(words.assign(label="good"), scale={"good", "bad"})
    pairs = pd.DataFrame({"item_id": [1, 2, 3], "label": ["A", "B", "tie"], "system_a": "x", "system_b": "y"})
    pairs["judge"] = "j"
    expected = ek.rank(pairs)
    assert_frame_equal(ek.rank(pairs.assign(score=[1.0, 0.0, 0.5])), expected)
    with pytest.raises(InputError, match=r"has the score 1\.0 and the label 'B'"):
        ek.rank(pairs.assign(score=[1.0, 1.0, 0.5]))


@pytest.mark.parametrize("lost", [["method"], ["method", "options", "score_norm"], ["status", "method"]])
def test_labels_merged_into_evalkits_own_tables_are_refused(lost):
    items, labels = ek.load_example("support")
    votes = ek.vote(ek.judge(items, "faithfulness", ["fake:strict", "fake:broken"], samples=3, progress=False))
    people = labels.drop_duplicates("item_id")[["item_id", "label"]]
    for table, function in ((votes, ek.aggregate), (ek.aggregate(votes), ek.summarize)):
        cut = table.drop(columns=[*lost, "label"], errors="ignore")
        with pytest.raises(InputError, match="rename"):
            function(cut.merge(people, on="item_id"))
        assert len(function(cut)) > 0


def test_labels_without_their_mean_scores_are_no_scores():
    items, _ = ek.load_example("support")
    votes = ek.vote(ek.judge(items, "faithfulness", ["fake:strict", "fake:broken"], samples=3, progress=False))
    scores = ek.aggregate(votes)
    for table, function in ((votes, ek.aggregate), (scores, ek.summarize)):
        for lost in (["score"], ["score", "score_norm"]):
            with pytest.raises(InputError, match="but no `score`, of which `label` is only the nearest code"):
                function(table.drop(columns=lost))
    figures = ["n_scored", "n_partial", "n_tied", "mean"]
    for seed in range(2):
        some = scores.sample(frac=0.7, random_state=seed)
        cut = ek.summarize(some.drop(columns="status"))  # follows from the other columns
        assert cut[figures].values.tolist() == ek.summarize(some)[figures].values.tolist()
        lost = some["item_id"].isin(some["item_id"].head(5)) & some["score"].notna()
        with pytest.raises(InputError, match="a label or a verdict, and no score"):
            ek.summarize(some.assign(score=some["score"].mask(lost), score_norm=some["score_norm"].mask(lost)))
