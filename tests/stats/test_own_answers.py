"""A user's function as a rule of `vote` and `aggregate`: the truth is computed by plain Python."""

import collections
import functools
import math
import random
import statistics

import numpy as np
import pandas as pd
import pytest
from judgment_tables import BINARY, DECIMAL, LOW, NAMES, ORDINAL, PAIR, PLAIN, TOPIC, judgments

import evalkit as ek
from evalkit.errors import ConfigError, EvalkitError

NA = None


def weighted(scores, weights):
    return (scores * weights).sum() / weights.sum()


def agreed(scores):
    return scores.iloc[0] if scores.nunique() == 1 else pd.NA


def spread(scores):
    return (min(scores), min(scores) == max(scores))


def abstains(scores):
    return (scores.mean(), None) if len(scores) < 3 else (np.nan, np.True_)


def most_frequent(labels):
    (top, n), *others = collections.Counter(labels).most_common()
    return NA if others and others[0][1] == n else top


# the function, what it gives for a list of numbers and one of weights in plain Python
OF_SCORES = {
    "max": (max, lambda xs, ws: max(xs)),
    "median": (np.median, lambda xs, ws: statistics.median(xs)),
    "fmean": (statistics.fmean, lambda xs, ws: sum(x * w for x, w in zip(xs, ws, strict=True)) / sum(ws)),
    "weighted": (weighted, lambda xs, ws: sum(x * w for x, w in zip(xs, ws, strict=True)) / sum(ws)),
    "agreed": (agreed, lambda xs, ws: xs[0] if len(set(xs)) == 1 else NA),
    "spread": (spread, lambda xs, ws: (min(xs), min(xs) == max(xs))),
    "abstains": (abstains, lambda xs, ws: (sum(xs) / len(xs), NA) if len(xs) < 3 else (NA, True)),
    "<lambda>": (lambda s: s.quantile(0.25), lambda xs, ws: quartile(xs)),
}
OF_LABELS = {
    "most_frequent": (most_frequent, lambda xs, ws: most_frequent(xs)),
    "max": (max, lambda xs, ws: max(xs)),
    "pair": (lambda s: (s[-1], len(set(s)) == 1), None),
}


def quartile(numbers):
    ordered, at = sorted(numbers), (len(numbers) - 1) / 4
    low, high = math.floor(at), math.ceil(at)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def nearest(score, scale):
    """The codes at the least distance; on interval scales only the ends have texts, so the codes are all there is."""
    gaps = [abs(code - score) for code in scale.codes]
    return [str(code) for code, gap in zip(scale.codes, gaps, strict=True) if gap <= min(gaps) + 1e-9]


def answered(given, passed):
    """Score and verdict of what a function gave; `passed` is the verdict of the voters."""
    return given if isinstance(given, tuple) else (given, passed)


def majority(verdicts, weights):
    yes, no = (sum(w for v, w in zip(verdicts, weights, strict=True) if v is is_yes) for is_yes in (True, False))
    return True if 2 * yes > sum(weights) + 1e-9 else False if 2 * no > sum(weights) + 1e-9 else NA


def plain(value):
    return NA if pd.isna(value) else value.item() if hasattr(value, "item") else value


def same(found, wanted):
    return (
        found == pytest.approx(wanted, abs=1e-9) if isinstance(wanted, float) and found is not None else found == wanted
    )


@pytest.mark.long  # thousands of cells
def test_scores_and_verdicts_are_those_of_plain_python_at_both_steps():
    draw, n_cells = random.Random(7), 0
    for scale in (ORDINAL, PLAIN, BINARY, LOW, DECIMAL):
        for name, (function, truth) in OF_SCORES.items():
            if name in ("spread", "abstains") and not scale.has_rule:
                continue
            codes = [0.0, 0.25, 0.5, 1.0] if scale is DECIMAL else list(scale.codes)
            weights = {judge: draw.choice([1.0, 1.0, 0.5, 2.0, 3.0]) for judge in "xyz"}
            cells = [(item, judge) for item in range(25) for judge in "xyz" if draw.random() > 0.1]
            given = {cell: drawn_samples(draw, codes) for cell in cells}
            table = judgments(given, scale, weights=weights).sample(frac=1, random_state=draw.randrange(99))
            votes = ek.vote(table, method=function)
            assert set(votes["method"]) == {name}
            for row in votes.to_dict("records"):
                check_vote(row, given[int(row["item_id"]), row["judge"]], truth, scale)
            quorum = draw.choice([0, 0.5, 1.0])
            scores = ek.aggregate(votes.sample(frac=1, random_state=1), method=function, quorum=quorum)
            for row in scores.to_dict("records"):
                of_item = votes[votes["item_id"] == row["item_id"]].to_dict("records")
                check_score(row, of_item, [weights[vote["judge"]] for vote in of_item], quorum, truth, scale)
            n_cells += len(votes) + len(scores)
            ek.summarize(scores)
            ek.summarize(ek.aggregate(votes))
            for sparse in (votes.drop(columns="options"), votes.drop(columns=["options", "method"])):
                ek.disagreement(sparse)
                if name not in ("spread", "abstains"):  # without these columns its verdicts contradict its scores
                    ek.aggregate(sparse)
    assert n_cells > 2_000


def drawn_samples(draw, codes):
    return [draw.choice(codes) if draw.random() > 0.2 else "!cut" for _ in range(draw.choice([1, 2, 3, 4]))]


def check_vote(row, samples, truth, scale):
    read = [float(one) for one in samples if one != "!cut"]
    verdict = majority([NA if one == "!cut" else scale.passed(one) for one in samples], [1] * len(samples))
    score, passed = answered(truth(read, [1.0] * len(read)), verdict) if read else (NA, verdict)
    check(row, score, passed if scale.has_rule else NA, scale, read)
    assert (row["n_samples"], row["n_scored"]) == (len(samples), len(read))


def check_score(row, cells, ws, quorum, truth, scale):
    has_score = [not pd.isna(cell["score"]) for cell in cells]
    weight = sum(w for w, cell, has in zip(ws, cells, has_score, strict=True) if has or cell["tied"])
    enough = weight >= sum(ws) - 1e-9 if quorum == 1.0 else weight > quorum * sum(ws) + 1e-9
    read = [(cell["score"], w) for cell, w, has in zip(cells, ws, has_score, strict=True) if has and enough]
    verdict = majority([plain(cell["passed"]) for cell in cells], ws) if enough else NA
    score, passed = answered(truth(*map(list, zip(*read, strict=True))), verdict) if read else (NA, verdict)
    check(row, score, passed if scale.has_rule else NA, scale, read)
    is_silent = row["reason"] == "own_rule" and score is NA and plain(row["passed"]) is NA
    assert (row["status"] == "unscored") == (is_silent or not enough)


def check(row, score, passed, scale, read):
    if isinstance(score, (int, float)) and not isinstance(score, bool):
        score = float(score)
    assert same(plain(row["score"]), score), (row, score)
    assert plain(row["passed"]) == passed, (row, passed)
    around = [] if score is NA else nearest(score, scale)
    assert plain(row["label"]) == (around[0] if len(around) == 1 else NA), row
    if read and score is NA and passed is NA and not row["tied"]:
        assert row["reason"] in ("own_rule", "no_majority"), row


def test_nominal_labels_and_pairs():
    draw = random.Random(3)
    for scale in (TOPIC, NAMES):
        for name, (function, truth) in OF_LABELS.items():
            if truth is None:
                continue
            given = {(item, judge): draw.choices([*scale.codes, "!cut"], k=3) for item in range(40) for judge in "xy"}
            votes = ek.vote(judgments(given, scale), method=function)
            assert set(votes["method"]) == {name}
            for row in votes.to_dict("records"):
                read = [one for one in given[int(row["item_id"]), row["judge"]] if one != "!cut"]
                assert plain(row["label"]) == (truth(read, None) if read else NA)
                assert math.isnan(row["score"])
            scores = ek.aggregate(votes, method=function)
            for item, rows in votes.groupby("item_id"):
                labels, n_scored = rows["label"].dropna().tolist(), (rows["label"].notna() | rows["tied"]).sum()
                label = scores.loc[scores["item_id"] == item, "label"].iloc[0]
                assert plain(label) == (truth(labels, None) if labels and n_scored == 2 else NA)
            ek.summarize(scores)
    votes = ek.vote(judgments({(1, "x"): ["art", "art"], (2, "x"): ["art", "law"]}, TOPIC), method=OF_LABELS["pair"][0])
    assert votes[["label", "passed"]].values.tolist() == [["art", True], ["law", False]]
    # a function gets the labels of pairs, and its label has a score
    pairs = judgments({(1, "x"): {"AB": ["A", "B"], "BA": ["A", "tie"]}, (2, "x"): {"AB": ["B"], "BA": ["tie"]}}, PAIR)
    votes = ek.vote(pairs, method=max)
    assert votes[["label", "score", "method"]].values.tolist() == [["tie", 0.5, "max"]] * 2
    assert ek.aggregate(votes, method=min)[["label", "score"]].values.tolist() == [["tie", 0.5]] * 2


def test_a_function_gets_a_series_by_value_and_the_weights_it_asks_for():
    cell = {("i", "x"): [2, 2, 1], ("i", "y"): [0, "!cut", 0]}
    table = judgments(cell, ORDINAL, weights={"x": 3.0})
    seen = []
    votes = ek.vote(table, method=lambda s: seen.append((list(s), s[-1], s[0], 1 in s, 0 in s)) or s[-1])
    assert seen == [([2, 2, 1], 1, 2, True, False), ([0, 0], 0, 0, False, True)]
    assert votes["score"].tolist() == [1, 0]
    asked = []
    scores = ek.aggregate(votes, method=lambda scores, weights=None: asked.append(weights.tolist()) or scores.mean())
    assert asked == [[3.0, 1.0]]
    assert scores["score"].tolist() == [0.5]
    assert ek.aggregate(votes, method=np.average)["score"].tolist() == [0.75]
    assert ek.aggregate(votes, method=np.average, weights={"x": 1})["score"].tolist() == [0.5]
    # weights that are set already stay; under the quorum, and without a scored row, nothing is called
    fixed = functools.partial(np.average, weights=[1, 7])
    assert ek.aggregate(votes, method=fixed)["score"].tolist() == [0.125]
    lost = ek.vote(judgments({("i", "x"): ["!cut"], ("i", "y"): [2]}), method=lambda s: s.iloc[0])
    assert lost["reason"].tolist()[0] == "cut"
    assert ek.aggregate(lost, method=lambda s: 1 / 0)["status"].tolist() == ["unscored"]
    # `all` and `any` on 0/1, a number that stands for unscored samples, the lower of two codes
    assert ek.vote(judgments({("i", "x"): [1, 0]}, BINARY), method=all)["score"].tolist() == [0]
    counted = judgments({("i", "x"): [3, "!cut"]}, PLAIN)
    assert ek.vote(counted, method=min, unscored=0)["score"].tolist() == [0]
    low = ek.vote(judgments({("i", "x"): [1, 2]}, PLAIN), method=np.mean, ties="low")
    assert low[["label", "tied", "options"]].values.tolist() == [["1", True, "own=numpy:mean ties=low"]]
    # a judge that agrees too little with itself gives no vote, whatever the function says
    assert ek.vote(table, method=max, min_self_agreement=1.0)["score"].isna().tolist() == [True, False]


WRONG = {
    "a number off the scale": (lambda s: sum(s), "returned 4, which is not on the scale"),
    "infinite": (lambda s: math.inf, "returned inf"),
    "a word": (lambda s: "good", "returned 'good'"),
    "several numbers": (lambda s: s, "returned a Series"),
    "a list": (lambda s: [2], "returned a list"),
    "a verdict alone": (lambda s: True, "returned True"),
    "three values": (lambda s: (2, True, 1), "returned 3 values"),
    "a count as a verdict": (lambda s: (2, 1), "returned 1 as the verdict"),
    "an exception": (lambda s: {}[s[0]], "raised KeyError"),
    "two arguments": (lambda s, other: 2, "raised TypeError"),
    "a coded word": (lambda s: "2 points", "returned '2 points'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_anything_else_is_an_error_that_names_the_cell(what):
    function, text = WRONG[what]
    votes = ek.vote(judgments({("item7", "judgeX"): [2, 2]}))
    for run in (
        lambda: ek.vote(judgments({("item7", "judgeX"): [2, 2]}), method=function),
        lambda: ek.aggregate(pd.concat([votes, votes.assign(judge="y")]), method=function),
    ):
        with pytest.raises(ConfigError) as caught:
            run()
        assert text in str(caught.value)
        assert "'item7'" in str(caught.value)
        assert "a number from 0 to 2" in str(caught.value)
    with pytest.raises(ConfigError, match=r"a label \(art, law, sport\)"):
        ek.vote(judgments({("i", "x"): ["art"]}, NAMES), method=lambda s: 1)


@pytest.mark.long
def test_a_verdict_needs_no_pass_rule_in_any_step():
    """The verdicts of 60 items x 3 judges, on scales without a rule, against plain Python."""
    draw = random.Random(7)
    numbers = [(item, judge, draw.choice([0, 1, 2])) for item in range(60) for judge in "abc"]
    table = pd.DataFrame(numbers, columns=["item_id", "judge", "score"])
    by_item = [[score for i, _, score in numbers if i == item] for item in range(60)]
    for scale in (None, (0, 2), [0, 1, 2], ek.Scale.of({0: "", 1: "", 2: ""}, better="low")):
        plain = ek.vote(table, scale=scale)
        scores = ek.aggregate(plain, method=lambda s: (min(s), min(s) > 0))
        passes = [min(score) > 0 for score in by_item]
        assert scores["passed"].tolist() == passes
        assert ek.summarize(scores)["pass_rate"].iloc[0] == pytest.approx(sum(passes) / 60)
        assert ek.summarize(scores.drop(columns=["scale", "level"]), scale=scale)["n_passed"].tolist() == [sum(passes)]
        if scale is not None:
            assert ek.combine(scores)["passed"].tolist() == passes
        votes = ek.vote(table, scale=scale, method=lambda s: (s[0], s[0] > 0))
        assert votes["passed"].tolist() == (table["score"] > 0).tolist()
        n_passing = [sum(x > 0 for x in score) for score in by_item]
        assert ek.disagreement(votes)["split"].tolist() == [0 < n < 3 for n in n_passing]
        jury = ek.aggregate(votes)
        assert jury["passed"].tolist() == [n > 1 for n in n_passing]
        assert ek.summarize(jury)["n_verdicts"].tolist() == [60]
        if scale is None:
            assert ek.aggregate(votes, scale=(0, 2))["passed"].tolist() == jury["passed"].tolist()
        row = ek.compare(scores, scores.assign(passed=~scores["passed"])).table.iloc[0]
        assert row[["n_verdicts", "changed", "fixed", "broke"]].tolist() == [60, 60, 60 - sum(passes), sum(passes)]
        assert row["against"] == "verdicts"
        with pytest.raises(EvalkitError, match="no pass rule"):  # no rule of evalkit gives one
            ek.aggregate(plain.assign(passed=True))


def test_a_verdict_beside_a_score_at_the_other_end_passes_the_next_steps_and_an_edit_is_found():
    table = judgments({(item, judge): [0, 0, 2] for item in range(4) for judge in "xy"})
    votes = ek.vote(table, method=max)
    assert votes[["score", "passed"]].drop_duplicates().values.tolist() == [[2.0, False]]
    scores = ek.aggregate(votes)
    assert scores["options"].unique().tolist() == ["votes=own"]
    assert ek.summarize(scores)[["mean", "pass_rate"]].values.tolist() == [[2.0, 0.0]]
    assert ek.summarize(ek.aggregate(votes.drop(columns=["options"])))["mean"].tolist() == [2.0]
    for edit in ({"score": 1.0}, {"label": "0"}, {"score_norm": 0.1}):
        with pytest.raises(EvalkitError, match="cannot be right"):
            ek.aggregate(votes.assign(**edit))
    with pytest.raises(EvalkitError, match="Restore what was changed") as caught:
        ek.aggregate(votes.assign(score=1.0))
    assert "drop(columns=" not in str(caught.value), "`passed` is the function's"
    assert ek.reliability(votes)["alpha_vote"].notna().tolist() == [False]
