"""Tables that a pandas user has: what they need, what they get, and what is an error."""

import ast
import itertools
import math
import random
import re
import statistics
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import evalkit as ek
from evalkit.errors import ConfigError, EvalkitWarning, InputError

J = pd.DataFrame({"item_id": [1, 1, 1, 2, 2, 2], "judge": list("abc") * 2, "score": [2, 2, 1, 0, 1, 1]})
BINARY = ek.Scale.of([0, 1], pass_at=1)
NO_ENDS = "the scale is not known: pass scale="
WORDS = ["bad", "ok", "good"]


def cells(table, *names):
    """The cells of some columns, missing ones as None."""
    plain = table[list(names)].astype(object)
    return plain.where(plain.notna(), None).values.tolist()


class TestSnippets:
    def test_scores_alone_are_numbers_without_ends(self):
        votes, scores = ek.vote(J), ek.aggregate(J)
        assert votes["score"].tolist() == J["score"].tolist()
        assert votes["item_id"].dtype == scores["item_id"].dtype == "int64"
        assert votes[["score_norm", "passed", "label"]].isna().all(axis=None)
        assert votes["reason"].unique().tolist() == scores["reason"].unique().tolist() == [NO_ENDS]
        assert cells(scores, "item_id", "score", "score_norm", "passed", "status") == [
            [1, 5 / 3, None, None, "ok"],
            [2, 2 / 3, None, None, "ok"],
        ]
        assert_frame_equal(ek.aggregate(votes), scores)
        assert votes.attrs == scores.attrs == {}
        assert len(J.merge(scores, on="item_id")) == 6

    def test_disagreement_in_units_and_as_shares(self):
        units = ek.disagreement(J)
        shares = ["disagreement", "range", "sd", "entropy", "dissent_rate", "split"]
        assert units[shares].isna().all(axis=None)
        assert units["notes"].tolist() == [NO_ENDS] * 2
        assert units["score_range"].tolist() == [1, 1]
        assert units["score_sd"].tolist() == pytest.approx([statistics.stdev([2, 2, 1]), statistics.stdev([0, 1, 1])])
        filled = ek.disagreement(J, scale=[0, 1, 2])
        assert filled["disagreement"].tolist() == pytest.approx(
            [1 / 3, 1 / 3]
        )  # two of three pairs, half a scale apart
        assert filled["range"].tolist() == [0.5, 0.5]
        assert filled[shares].notna().all(axis=None)
        assert filled["notes"].isna().all()

    def test_a_table_without_judges_names_summarize(self):
        with pytest.raises(InputError, match=r"no column `judge`.*judge='column'.*`summarize`"):
            ek.aggregate(J.drop(columns="judge"))

    def test_words_have_no_order_unless_it_is_said(self):
        table = J.drop(columns="score").assign(label=["good", "good", "bad", "ok", "bad", "bad"])
        nominal = ek.aggregate(ek.vote(table))
        assert cells(nominal, "level", "label", "score", "method") == [
            ["nominal", "good", None, "majority"],
            ["nominal", "bad", None, "majority"],
        ]
        ordinal = ek.vote(table, scale=WORDS)
        assert ordinal["score"].tolist() == [2, 2, 0, 1, 0, 0]
        assert ordinal["score_norm"].tolist() == [1, 1, 0, 0.5, 0, 0]
        ordered = table.assign(label=pd.Categorical(table["label"], WORDS, ordered=True))
        assert_frame_equal(ek.vote(ordered), ordinal)
        assert_frame_equal(ek.vote(table.assign(scale="bad, ok, good")), ordinal)
        assert_frame_equal(ek.aggregate(ordinal, scale=WORDS), ek.aggregate(ordinal))
        assert ek.aggregate(table, scale={"score": WORDS})["score"].tolist() == pytest.approx([4 / 3, 1 / 3])

    @pytest.mark.parametrize("dtype", ["bool", "object", "boolean", "text"])
    def test_verdicts_pass(self, dtype):
        verdicts = [True, True, False, False, False, True if dtype == "bool" else None]
        texts = [None if value is None else str(value) for value in verdicts]
        table = J.assign(
            score=pd.Series(texts if dtype == "text" else verdicts, dtype="str" if dtype == "text" else dtype)
        )
        scores = ek.aggregate(table)
        assert cells(scores, "score", "passed") == [[2 / 3, True], [1 / 3 if dtype == "bool" else 0, False]]
        assert '"pass_at":1' in scores["scale"].iloc[0]

    def test_numbers_as_texts(self):
        texts = J.assign(score=["2", "1.0", " 2", "0", "1e0", ""])
        read = [[1, NO_ENDS], [2, NO_ENDS], [0, NO_ENDS], [1, NO_ENDS], [None, "missing"]]
        assert cells(ek.vote(texts), "score", "reason")[1:] == read
        with pytest.raises(InputError, match=r"'n/a' in row 3 \(item 2, judge a\)"):
            ek.vote(J.assign(score=["2", "1", "2", "n/a", "1", "1"]))
        labels = J.drop(columns="score").assign(label=["2", "1.0", " 2", "0", "1", "1"])
        assert ek.vote(labels, scale=[0, 1, 2])["label"].tolist() == ["2", "1", "2", "0", "1", "1"]
        assert ek.vote(labels)["level"].unique().tolist() == ["nominal"]
        with pytest.raises(InputError, match=r"column 'label', row 0 .*'2' is not on the scale .*which is 0, 1 \("):
            ek.vote(labels, scale=[0, 1])

    def test_each_criterion_has_its_scale(self):
        table = pd.concat(
            [J.assign(criterion="x", score=[0, 1, 1, 0, 0, 1]), J.assign(criterion="y", score=[1, 5, 3, 2, 4, 3])]
        )
        scales = {"x": (0, 1), "y": (1, 5)}
        scores = ek.aggregate(table, scale=scales)
        assert scores["score_norm"].tolist() == pytest.approx([2 / 3, 1 / 3, 0.5, 0.5])
        assert ek.combine(scores)["score"].tolist() == pytest.approx([(2 / 3 + 0.5) / 2, (1 / 3 + 0.5) / 2])
        assert_frame_equal(ek.combine(ek.aggregate(table), scale=scales), ek.combine(scores))
        with pytest.raises(InputError, match="scale of criterion 'x', 'y' is not known"):
            ek.combine(ek.aggregate(table))
        with pytest.raises(InputError, match="5 is not on the scale of criterion 'y', which is 0 to 1"):
            ek.vote(table, scale=(0, 1))
        with pytest.raises(ConfigError, match="names the criteria 'yy'"):
            ek.vote(table, scale={"x": (0, 1), "yy": (1, 5)})
        rubric = ek.Rubric(
            id="r",
            inputs=["answer"],
            criteria=[
                {"name": "x", "scale": {0: "", 1: ""}, "pass_at": 1, "weight": 3},
                {"name": "y", "scale": dict.fromkeys(range(1, 6), "")},
            ],
        )
        means = table.groupby(["item_id", "criterion"]).agg(score=("score", "mean"))
        weighted = ek.combine(means, rubric)
        assert weighted["score"].tolist() == pytest.approx([(3 * 2 / 3 + 0.5) / 4, (3 / 3 + 0.5) / 4])
        assert weighted["passed"].isna().all()  # a mean has no verdict
        assert weighted["item_id"].tolist() == [1, 2]
        assert ek.aggregate(table, scale=rubric)["rubric"].unique().tolist() == ["r"]

    def test_doubled_rows_name_sample(self):
        doubled = pd.concat([J, J])
        for function in (ek.vote, ek.aggregate, ek.disagreement, ek.reliability):
            with pytest.raises(InputError, match=r"2 rows of item 1, judge a: a column `sample` .*drop_duplicates"):
                function(doubled)
        with pytest.raises(InputError, match="`vote`"):
            ek.aggregate(doubled)
        sampled = doubled.assign(sample=doubled.groupby(["item_id", "judge"]).cumcount())
        assert ek.vote(sampled)["n_samples"].tolist() == [2] * 6
        with pytest.raises(InputError, match="judge a, sample 0"):
            ek.vote(doubled.assign(sample=0))


class TestScales:
    def test_the_ways_to_say_it_are_one(self):
        scale = ek.Scale.of(dict.fromkeys([0, 1, 2]), pass_at=1)
        criterion = ek.Criterion(name="score", scale=dict(scale), pass_at=1)
        votes = ek.vote(J, scale=scale)
        assert votes["passed"].tolist() == [True, True, True, False, True, True]
        for other in (criterion, {"score": criterion}, {"score": scale}):
            assert_frame_equal(ek.vote(J, scale=other), votes)
        for other in ([0, 1, 2], (0, 1, 2), range(3), np.array([0, 1, 2]), "0, 1, 2", {0: "bad", 1: "ok", 2: "good"}):
            assert ek.vote(J, scale=other)["score_norm"].tolist() == [1, 1, 0.5, 0, 0.5, 0.5]
        for other in ("0-2", "0 – 2", "0..2", "(0, 2)"):
            assert_frame_equal(ek.vote(J.assign(scale=other)), ek.vote(J, scale=(0, 2)))
        with pytest.raises(InputError, match="has the scale 0 to 2 in the table and 0 to 3 in scale="):
            ek.vote(J.assign(scale="0-2"), scale=(0, 3))
        with pytest.raises(InputError, match="two scales in the column 'scale': 0 to 2 and 0 to 3"):
            ek.vote(J.assign(scale=["0-2"] * 3 + ["0-3"] * 3))
        for wrong in (5, (2, 0), "x", [1, "a"], (0, None), []):
            with pytest.raises((ConfigError, ek.errors.RubricError)):
                ek.vote(J, scale=wrong)

    def test_a_scale_may_come_later(self):
        votes = ek.vote(J)
        assert_frame_equal(ek.aggregate(votes, scale=(0, 2)), ek.aggregate(ek.vote(J, scale=(0, 2))))
        averaged = votes.groupby(["item_id", "judge"]).agg(score=("score", "mean"))
        again = ek.aggregate(averaged, scale=(0, 2))
        assert again["score_norm"].tolist() == pytest.approx([5 / 6, 1 / 3])
        assert_frame_equal(ek.aggregate(averaged["score"], scale=(0, 2)), again)
        passing = ek.Scale.of(dict.fromkeys([0, 1, 2]), pass_at=1)
        sampled = pd.concat([J, J.assign(score=0)]).assign(sample=[0] * 6 + [1] * 6)
        assert ek.aggregate(ek.vote(sampled), scale=passing)["passed"].isna().all()  # votes of two samples are means

    @pytest.mark.parametrize(
        ("scale", "ends"), [((0, 2), (0, 2)), ("0-2", (0, 2)), ((-1, 4), (-1, 4)), ("0-0.5", (0, 0.5))]
    )
    def test_half_way_between_two_ends_is_no_tie(self, scale, ends):
        low, high = ends
        half = (low + high) / 2
        table = pd.DataFrame({"item_id": list("aabbcc"), "judge": list("xy") * 3})
        table["score"] = [low, high, half, half, high, half]
        column = table.assign(scale="0-2") if scale == "0-2" else table
        for jury in (ek.aggregate(table, scale=scale), ek.aggregate(column, scale=scale)):
            assert cells(jury, "score", "label", "tied", "reason", "tied_labels", "status") == [
                [half, None, False, None, None, "ok"],
                [half, None, False, None, None, "ok"],
                [(high + half) / 2, f"{high:g}", False, None, None, "ok"],
            ]
            assert ek.summarize(jury)[["n_tied", "n_scored"]].values.tolist() == [[0, 3]]
        samples = table.assign(judge="j", sample=[0, 1] * 3)
        for ties in ("na", "low"):
            votes = ek.vote(samples, scale=scale, ties=ties)
            assert cells(votes, "label", "tied", "reason") == [[None, False, None]] * 2 + [[f"{high:g}", False, None]]
        most = ek.aggregate(table, scale=scale, method="majority")  # each number is a label
        assert cells(most, "score", "tied")[1] == [half, False]
        own = ek.aggregate(table, method=lambda scores: scores.mean(), scale=scale)
        assert cells(own, "label", "tied", "reason")[0] == [None, False, None]
        middle = f"{low}, {half}, {high}"  # a code in the middle is a label, and two codes around a quarter are a tie
        quarter = pd.DataFrame({"item_id": 1, "judge": ["x", "y"], "score": [low, half]})
        assert ek.aggregate(quarter, scale=middle)["tied"].tolist() == [True]

    def test_without_ends_the_rules_are_in_units(self):
        by_rule = {
            rule: ek.aggregate(J, method=rule)["score"].tolist() for rule in ("min", "max", "median", "majority")
        }
        assert by_rule == {"min": [1, 0], "max": [2, 1], "median": [2, 1], "majority": [2, 1]}
        with pytest.raises(ConfigError, match="dawid_skene"):
            ek.aggregate(J, method="dawid_skene")
        units, shares = ek.reliability(J).iloc[0], ek.reliability(J, scale=(0, 2)).iloc[0]
        assert units["alpha_vote"] == pytest.approx(shares["alpha_vote"])
        assert np.isnan(units["spread_item"])
        assert shares["spread_item"] > 0
        assert NO_ENDS in units["notes"]


class TestKeys:
    @pytest.mark.parametrize(
        "ids",
        [
            [1, 2],
            [1.0, 2.0],
            ["1", "2"],
            ["01", "1 "],
            pd.array([1, 2], dtype="Int64"),
            pd.Categorical([1, 2], [3, 2, 1]),
            pd.Categorical(["b", "a"], ["c", "b", "a"], ordered=True),
            pd.Series(["x", "y"], dtype="string"),
            pd.Series([10**17 + 1, 10**17 + 3]),
            pd.Series([1, 2], dtype=object),
            pd.date_range("2020", periods=2),
            pd.Series([Decimal("1.5"), Decimal(2)], dtype=object),
        ],
        ids=lambda ids: str(pd.Series(ids).dtype),
    )
    def test_ids_come_back_as_they_were(self, ids):
        item_ids = pd.Series(ids)
        table = pd.DataFrame({"item_id": item_ids.repeat(3).array, "judge": list("abc") * 2, "score": J["score"]})
        votes = ek.vote(table, scale=(0, 2))
        for result in (votes, ek.aggregate(votes), ek.disagreement(votes), ek.combine(ek.aggregate(votes))):
            assert result["item_id"].dtype == item_ids.dtype
            assert len(result.merge(item_ids.to_frame("item_id"))) == len(result)
        judges = table.rename(columns={"item_id": "judge", "judge": "item_id"})
        assert ek.vote(judges)["judge"].dtype == item_ids.dtype

    def test_one_value_is_one_id(self):
        mixed = J.assign(item_id=pd.Series([1, 1, 1, "x", "x", "x"], dtype=object))
        assert ek.vote(mixed)["item_id"].dtype == "str"
        with pytest.raises(InputError, match="column 'item_id' has both 1 and '1'"):
            ek.vote(J.assign(item_id=pd.Series([1, 1, 1, "1", "1", "1"], dtype=object)))
        with pytest.raises(InputError, match="'item_id' has missing values in 1 of 6 rows"):
            ek.vote(J.assign(item_id=[1, 1, 1, 2, 2, None]))
        assert ek.aggregate(J.assign(judge=[1, 2, 3] * 2), weights={1: 0.0})["n_judges"].tolist() == [2, 2]

    def test_systems_stay_with_their_items(self):
        table = J.assign(system_id=["s"] * 3 + ["t"] * 3)
        assert ek.aggregate(ek.vote(table))["system_id"].tolist() == ["s", "t"]
        with pytest.raises(InputError, match="item '1' has answers of several systems"):
            ek.vote(table.assign(item_id=1))


class TestOtherTables:
    def test_steps_are_named(self):
        votes, scores = ek.vote(J, scale=(0, 2)), ek.aggregate(J, scale=(0, 2))
        for function, table, step in (
            (ek.vote, votes, "table of votes.*aggregate"),
            (ek.vote, scores, "table of scores.*summarize"),
            (ek.aggregate, scores, "table of scores.*summarize"),
            (ek.aggregate, J.assign(sample=0), r"call vote\(judgments\) first"),
            (ek.combine, votes, "aggregate"),
            (ek.combine, J, "aggregate"),
            (ek.vote, J.rename(columns={"item_id": "id"}), r"no column `item_id`.*import_judgments"),
            (ek.vote, J.drop(columns="score"), "no column `score` or `label`.*import_judgments"),
            (ek.vote, pd.concat([J, J["score"]], axis=1), "column 'score' twice"),
            (ek.vote, J.groupby(["item_id", "judge"]).agg({"score": ["mean"]}), "columns have 2 levels"),
            (ek.vote, J.assign(error=["late", *[None] * 5]), "both an answer and the error 'late'"),
            (ek.vote, J.assign(score=[math.inf, *range(5)]), "inf is not on the scale .* any finite number"),
            (
                ek.vote,
                J.assign(score=pd.Series([True, 2, 1, 1, 1, 1], dtype=object)),
                "True in row 0 .* and 2 in row 1",
            ),
            (ek.vote, J.assign(passed=True), "no pass rule"),
        ):
            with pytest.raises(InputError, match=step):
                function(table)

    def test_empty_single_and_unscored_tables(self):
        for function in (ek.vote, ek.aggregate, ek.disagreement, ek.reliability):
            assert len(function(J[:0])) == 0
        assert ek.aggregate(J[:1])["score"].tolist() == [2]
        for nothing in (np.nan, None, pd.NA):
            silent = ek.aggregate(J.assign(score=nothing))
            assert cells(silent, "score", "reason", "status", "n_scored") == [[None, "missing", "unscored", 0]] * 2


# -- random tables against plain Python


def item_values(draw, n):
    kind = draw.choice(["int", "float", "str", "Int64", "category", "object", "arrow"])
    numbers = draw.sample(range(1, 1000), n)
    values = [f"i{number}" for number in numbers] if kind in ("str", "category") else numbers
    dtype = {"int": "int64", "float": "float64", "arrow": "int64[pyarrow]"}.get(kind, kind)
    return pd.Series(values, dtype=dtype)


def answers_of(draw, kind, n):
    """The answers of a column, what they are worth in units, and `scale=`."""
    values = [draw.choice([0, 1, 2, 3]) for _ in range(n)]
    holes = [draw.random() < 0.15 for _ in range(n)]
    units = [math.nan if hole else float(value) for value, hole in zip(values, holes, strict=True)]
    missing = draw.choice([None, math.nan, pd.NA])

    def column(spell, dtype=None):
        return pd.Series(
            [missing if hole else spell(value) for value, hole in zip(values, holes, strict=True)], dtype=dtype
        )

    if kind == "texts":
        return column(lambda value: draw.choice([str(value), f"{value}.0", f" {value}"]), object), units
    if kind == "words":
        return column(
            lambda value: ["none", "some", "more", "full"][value], draw.choice([object, "str", "category"])
        ), units
    if kind == "decimals":
        return column(Decimal, object), units
    dtype = draw.choice(["float64", "Float64", object, "double[pyarrow]"])
    missing = None if dtype == "double[pyarrow]" else math.nan if dtype == "float64" else missing
    return column(float, dtype), units


def shares(units, ends, better):
    return [
        ((x - ends[0]) / (ends[1] - ends[0]) if better == "high" else (ends[1] - x) / (ends[1] - ends[0]))
        for x in units
    ]


@pytest.mark.long
def test_random_tables_against_plain_python():
    for seed in range(40):
        draw = random.Random(seed)
        n_items, judges, k = draw.randint(1, 5), list("abcd")[: draw.randint(1, 4)], draw.choice([1, 1, 2, 3])
        items = item_values(draw, n_items)
        keys = list(itertools.product(range(n_items), judges, range(k)))
        keys = [key for key in keys if draw.random() > 0.1] or keys[:1]
        kind = draw.choice(["numbers", "texts", "words", "decimals"])
        answers, units = answers_of(draw, kind, len(keys))
        better = draw.choice(["high", "low"])
        known = kind == "words" or draw.random() < 0.5
        words = ["none", "some", "more", "full"]
        levels = ek.Scale.of(dict(enumerate(words)), better=better, pass_at=2 if better == "high" else 1)
        table = pd.DataFrame({"item_id": items.iloc[[key[0] for key in keys]].array, "judge": [key[1] for key in keys]})
        table["label" if kind == "words" else draw.choice(["score", "score", "label"]) if known else "score"] = answers
        if k > 1:
            table["sample"] = [key[2] for key in keys]
        if draw.random() < 0.3:
            table["note"] = "of my own"
        order = draw.sample(range(len(table)), len(table))
        table, keys, units = table.iloc[order], [keys[at] for at in order], [units[at] for at in order]
        table = table[draw.sample(list(table.columns), len(table.columns))]
        if draw.random() < 0.2:
            table = table.set_index(["item_id", "judge"])
        before, id_type = table.copy(deep=True), table.reset_index()["item_id"].dtype  # an index makes int64 of objects
        scale = draw.choice([levels, {"score": levels}]) if known else None
        votes = ek.vote(table, scale=scale)
        assert_frame_equal(table, before)

        cell_units = {}
        for (item, judge, _), value in zip(keys, units, strict=True):
            cell_units.setdefault((items.iloc[item], judge), []).append(value)
        assert [*zip(votes["item_id"], votes["judge"], strict=True)] == list(cell_units), seed
        assert votes["item_id"].dtype == id_type, seed
        means, verdicts = {}, {}
        for (_, row), (cell, values) in zip(votes.iterrows(), cell_units.items(), strict=True):
            scored = [value for value in values if not math.isnan(value)]
            means[cell] = statistics.fmean(scored) if scored else math.nan
            assert row["score"] == pytest.approx(means[cell], nan_ok=True), (seed, cell)
            assert (row["n_samples"], row["n_scored"]) == (len(values), len(scored)), (seed, cell)
            passes = sum((value >= 2) if better == "high" else (value <= 1) for value in scored)
            fails = len(scored) - passes
            verdicts[cell] = True if 2 * passes > len(values) else False if 2 * fails > len(values) else None
            if known:
                expected = shares([means[cell]], (0, 3), better)[0]
                assert row["score_norm"] == pytest.approx(expected, nan_ok=True), (seed, cell)
                assert (None if pd.isna(row["passed"]) else row["passed"]) == verdicts[cell], (seed, cell)
            else:
                assert row[["score_norm", "passed"]].isna().all(), (seed, cell)
                assert row["reason"] == (NO_ENDS if scored else "missing"), (seed, cell)

        scores, apart = ek.aggregate(votes), ek.disagreement(votes)
        assert scores["item_id"].dtype == apart["item_id"].dtype == id_type, seed
        for at, item in enumerate(dict.fromkeys(item for item, _ in cell_units)):
            row, spread = scores.iloc[at], apart.iloc[at]
            everyone = [means[cell] for cell in cell_units if cell[0] == item]
            scored = [value for value in everyone if not math.isnan(value)]
            enough = 2 * len(scored) > len(everyone)
            assert row["item_id"] == spread["item_id"] == item, seed
            assert row["score"] == pytest.approx(statistics.fmean(scored) if enough else math.nan, nan_ok=True), (
                seed,
                item,
            )
            assert (row["n_judges"], row["n_scored"]) == (len(everyone), len(scored)), (seed, item)
            several = len(scored) > 1
            deviation = statistics.stdev(scored) if several else math.nan
            assert spread["score_sd"] == pytest.approx(deviation, nan_ok=True), (seed, item)
            width = max(scored) - min(scored) if several else math.nan
            assert spread["score_range"] == pytest.approx(width, nan_ok=True), (seed, item)
            pairs = [abs(a - b) / 3 for a, b in itertools.combinations(scored, 2)]
            mean_gap = statistics.fmean(pairs) if several and known else math.nan
            assert spread["disagreement"] == pytest.approx(mean_gap, nan_ok=True), (seed, item)
            assert row["disagreement"] == pytest.approx(mean_gap, nan_ok=True), (seed, item)
            voted = [verdicts[cell] for cell in cell_units if cell[0] == item]
            passed = (
                True if 2 * voted.count(True) > len(voted) else False if 2 * voted.count(False) > len(voted) else None
            )
            assert (None if pd.isna(row["passed"]) else row["passed"]) == (passed if known and enough else None), (
                seed,
                item,
            )


class TestDoubtfulCells:
    def test_a_comma_before_three_digits_is_no_number(self):
        for text in ("1,000", " -12,345", "1,234,567.5"):
            for scale in (None, (-100000, 10000000)):
                for row in range(3):
                    cells_of_column = ["5", "0,5", "1.5"]
                    cells_of_column[row] = text
                    table = pd.DataFrame({"item_id": [1, 2, 3], "judge": "a", "score": cells_of_column})
                    with pytest.raises(InputError, match=rf"row {row} \(item {row + 1}, judge a\): the comma"):
                        ek.vote(table, scale=scale)
        table = pd.DataFrame({"item_id": [1, 2, 3], "judge": "a", "score": ["500", "0,5", "2,25"]})
        assert ek.vote(table)["score"].tolist() == [500, 0.5, 2.25]
        words = pd.DataFrame({"item_id": [1, 2], "judge": "a", "label": ["1,000", "1"]})
        assert ek.vote(words)["label"].tolist() == ["1,000", "1"]
        with pytest.raises(InputError, match="'1,000'"):
            ek.align(table, pd.DataFrame({"item_id": [1, 2, 3], "label": "1,000"}), scale=(0, 9999))

    def test_an_ordered_categorical_in_another_order_than_the_scale_is_an_error(self):
        for order in itertools.permutations(WORDS):
            for column in ("score", "label"):
                answers = pd.Categorical(["ok", "bad", "good"], order, ordered=True)
                table = pd.DataFrame({"item_id": [1, 2, 3], "judge": "a", column: answers})
                if list(order) == WORDS:
                    assert ek.vote(table, scale=WORDS)["score"].tolist() == [1, 0, 2]
                    continue
                with pytest.raises(InputError, match="ordered Categorical"):
                    ek.vote(table, scale=WORDS)
                plain = table.assign(**{column: answers.as_unordered()})
                assert ek.vote(plain, scale=WORDS)["score"].tolist() == [1, 0, 2]

    def test_texts_of_one_number_are_not_two_items(self):
        for ids in (["1", "1.0"], pd.Series(["7", "1.00", "1"], dtype="category"), ["x", "-3", "-3.0"]):
            table = pd.DataFrame({"item_id": ids, "judge": "a", "score": 1})
            with pytest.raises(InputError, match="which are one value"):
                ek.vote(table)
        other = pd.DataFrame({"item_id": ["1.0", "v1.0", "1.1", "v1"], "judge": "a", "score": 1})
        assert ek.vote(other)["item_id"].tolist() == other["item_id"].tolist()

    def test_a_missing_weight_is_an_error_and_no_column_is_1(self):
        with pytest.raises(InputError, match=r"column 'weight' is missing in 2 of 6 votes.*item 1, judge b"):
            ek.aggregate(J.assign(weight=[1, None, 2, 1, None, 2]))
        for weight in (1, None, np.nan):
            assert_frame_equal(ek.aggregate(J.assign(weight=weight)), ek.aggregate(J))

    def test_labels_beside_scores_without_a_scale_are_said_to_be_unused(self):
        with pytest.warns(EvalkitWarning, match="`score` is used, and `label` is not"):
            votes = ek.vote(J.assign(label="good"))
        assert votes["score"].tolist() == J["score"].tolist()


def test_combine_takes_the_weights_of_a_plain_table():
    scores = pd.DataFrame(
        {"item_id": [1, 1, 2, 2], "criterion": list("abab"), "score": [1.0, 0.0, 0.0, 1.0], "weight": [3, 1, 3, 1]}
    )
    assert ek.combine(scores, scale=(0, 1))["score"].tolist() == [0.75, 0.25]
    assert ek.combine(scores.drop(columns="weight"), scale=(0, 1))["score"].tolist() == [0.5, 0.5]
    for weight in ([3, 1, 2, 1], [3, -1, 3, -1], [np.nan, 1, np.nan, 1]):
        with pytest.raises(InputError, match="no single weight"):
            ek.combine(scores.assign(weight=weight), scale=(0, 1))


@pytest.mark.parametrize("cell", [np.array([2]), np.array([[1, 2]]), pd.Series([1]), [2], {2}, 1e308, -1e200])
def test_cells_that_are_no_number_to_count_with_are_named(cell: object) -> None:
    table = pd.DataFrame(
        {"item_id": ["a", "a", "b"], "judge": ["x", "y", "x"], "score": pd.Series([1, 2, 3], dtype=object)}
    )
    table.at[0, "score"] = cell
    for function in (ek.vote, ek.aggregate, ek.disagreement):
        with pytest.raises(InputError, match=r"cells with several values|numbers above 1e150"):
            function(table)


def test_groups_stay_with_their_items():
    rng = np.random.default_rng(7)
    table = pd.DataFrame({"item_id": np.repeat(np.arange(60), 3), "judge": ["a", "b", "c"] * 60})
    table = table.assign(group_id=table["item_id"] // 3, score=rng.integers(0, 3, len(table)))
    scores = ek.aggregate(ek.vote(table, scale=[0, 1, 2]))
    assert scores["group_id"].tolist() == [item // 3 for item in scores["item_id"]]
    items = pd.DataFrame({"item_id": np.arange(60), "question": "q", "answer": "a", "group_id": np.arange(60) // 3})
    by_items = ek.summarize(scores.drop(columns="group_id"), items=items)
    figures = ["mean", "low", "high", "n_clusters"]
    for made in (scores, ek.aggregate(table, scale=[0, 1, 2])):
        assert ek.summarize(made)[figures].values.tolist() == by_items[figures].values.tolist()
    assert by_items["n_clusters"].tolist() == [20]
    with pytest.raises(InputError, match=r"item '0' has several values in the column 'group_id' \('9', '0'\)"):
        ek.vote(table.assign(group_id=[9, *table["group_id"][1:]]), scale=[0, 1, 2])
    gaps = ek.vote(table.assign(group_id=table["group_id"].where(table.index % 3 > 0)), scale=[0, 1, 2])
    assert gaps.drop_duplicates("item_id")["group_id"].tolist() == [item // 3 for item in range(60)]
    with pytest.raises(InputError, match="column 'group_id' has a list in a cell"):
        ek.vote(table.assign(group_id=[["g"]] * len(table)), scale=[0, 1, 2])


def test_groups_of_rows_by_a_column_whose_name_evalkit_uses():
    table = pd.DataFrame({"item_id": range(6), "score": [1, 2, 0, 1, 1, 2], "own": ["easy", "hard"] * 3})
    labels = pd.DataFrame({"item_id": range(6), "label": [1, 2, 0, 1, 1, 1]})
    for name in ("own", "reason", "difficulty", "source", "weight", "status", "options"):
        found = ek.summarize(table.rename(columns={"own": name}), by=name, scale=(0, 2))
        assert dict(zip(found[name], found["mean"], strict=True)) == pytest.approx({"easy": 2 / 3, "hard": 5 / 3}), name
    for name in ("level", "scale", "passed", "label", "error", "score_norm"):
        named = table.rename(columns={"own": name})
        with pytest.raises(InputError, match=f"by= names the column '{name}'"):
            ek.summarize(named, by=name, scale=(0, 2))
        with pytest.raises(InputError, match=f"by= names the column '{name}'"):
            ek.align(named, labels, by=name, scale=(0, 2))
    for name in ("mean", "notes", "n_items"):
        with pytest.raises(InputError, match=f"by= names the column '{name}', and the result has"):
            ek.summarize(table.rename(columns={"own": name}), by=name, scale=(0, 2))
    single = ek.summarize(table, by="item_id", scale=(0, 2))
    assert table.merge(single, on="item_id")["mean"].tolist() == table["score"].tolist()


def test_a_table_without_its_samples_says_how_to_number_them():
    judged = ek.judge([{"question": "q", "answer": "a"}] * 3, "helpfulness", "fake:strict", samples=2, progress=False)
    cut = judged.drop(columns="sample")
    with pytest.raises(InputError, match="2 rows of item 0, judge fake:strict: a column `sample`") as caught:
        ek.vote(cut)
    keys = re.search(r"groupby\((.*)\)\.cumcount", str(caught.value))
    numbered = cut.assign(sample=cut.groupby(ast.literal_eval(keys[1])).cumcount())
    assert ek.vote(numbered)["score"].tolist() == ek.vote(judged)["score"].tolist()


def test_samples_in_the_index_are_samples():
    table = pd.DataFrame({"item_id": [1, 2, 3] * 4, "judge": ["a"] * 6 + ["b"] * 6, "score": [0, 1, 2, 0, 1, 1] * 2})
    table["sample"] = table.groupby(["item_id", "judge"]).cumcount()
    in_index = table.set_index(["item_id", "judge", "sample"])
    assert_frame_equal(ek.reliability(in_index, scale=(0, 2)), ek.reliability(table, scale=(0, 2)))


@pytest.mark.parametrize("codes", [[3, 2, 1], ["3", "2", "1"], "3, 2, 1", [1, 0], [2.5, 1.5], range(5, 0, -1)])
def test_numbers_in_descending_order_are_not_turned_in_silence(codes):
    with pytest.raises(ConfigError, match=r"descending order.*better='low'"):
        ek.vote(J, scale=codes)
    with pytest.raises(ConfigError, match="descending order"):
        ek.vote(J, scale={"score": codes})
    assert ek.vote(J, scale=[2, 0, 1])["score_norm"].tolist() == [1, 1, 0.5, 0, 0.5, 0.5]  # as `unique` gives them
    assert ek.vote(J, scale={2: "", 1: "", 0: ""})["score_norm"].tolist() == [1, 1, 0.5, 0, 0.5, 0.5]


@pytest.mark.long
def test_verdicts_are_no_codes_of_a_longer_scale():
    for spell in (bool, str, lambda value: str(value).upper(), np.bool_):
        for column in ("score", "label"):
            table = pd.DataFrame({"item_id": [1, 2], "judge": "a", column: [spell(True), spell(False)]})
            for scale in ([0, 1], (0, 1), {0: "no", 1: "yes"}, [True, False][::-1], BINARY):
                assert ek.vote(table, scale=scale)["score"].tolist() == [1, 0]
            for scale in ([0, 1, 2], (0, 100), [1, 2], ek.Scale.of([0, 1, 2], pass_at=1)):
                with pytest.raises(InputError, match="is not on the scale"):
                    ek.vote(table, scale=scale)
    named = pd.DataFrame({"item_id": [1, 2], "judge": "a", "label": ["true", "false"]})
    assert ek.vote(named, scale={0: "false", 1: "half", 2: "true"})["score"].tolist() == [2, 0]


@pytest.mark.long
def test_numbers_of_32_bits_are_equal_to_those_of_64():
    draw = np.random.default_rng(2)
    table = pd.DataFrame({"item_id": range(40), "judge": "a", "score": np.round(draw.random(40), 3)})
    for kind in ("float32", "Float32", "float[pyarrow]"):
        short = table.assign(score=table["score"].astype(kind))
        joined = pd.concat([table, short.assign(judge="b")])
        for other in (joined, joined.astype({"score": "float64"}), joined.astype({"score": object})):
            assert ek.reliability(other, scale=(0, 1))["percent_agreement"].tolist() == [1]
            assert not ek.disagreement(other, scale=(0, 1))["split"].any()
        for scale in (None, (0, 1)):
            assert ek.compare(table.drop(columns="judge"), short.drop(columns="judge"), scale=scale).table[
                "changed"
            ].tolist() == [0]
        people = table[["item_id"]].assign(label=table["score"])
        assert ek.align(short, people, scale=(0, 1))["accuracy"].tolist() == [1]
        assert ek.align(table, people.assign(label=short["score"]), scale=(0, 1))["accuracy"].tolist() == [1]
    thirds = table.assign(score=np.float32(1) / np.float32(3))
    with pytest.warns(EvalkitWarning, match=r"numbers of 32 bits, such as 0.33333334.*round\(6\)"):
        ek.vote(thirds, scale=(0, 1))


def test_a_side_whose_scale_is_not_known_has_scores():
    numbers = pd.DataFrame({"item_id": range(6), "score": [0, 1, 1, 0, 1, 1]})
    row = ek.compare(numbers.astype({"score": bool}), numbers).table.iloc[0]
    assert row["n_scored"] == 6
    assert f"mean_difference: {NO_ENDS}" in row["notes"]
    nothing = ek.compare(numbers.assign(score=np.nan), numbers).table.iloc[0]
    assert nothing["n_scored"] == 0
    assert "no item has a score on both sides" in nothing["notes"]
