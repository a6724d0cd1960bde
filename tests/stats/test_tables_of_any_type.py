"""Every table function on tables of other types and orders: the same figures as before, or a clear error."""

import contextlib
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from every_nth import every_nth
from judgment_tables import ORDINAL, PAIR, judgments

import evalkit as ek
from evalkit.errors import ConfigError, EvalkitError, InputError
from evalkit.stats import alt_test, confusion, halo, jury_value, noise_floor, pass_threshold
from evalkit.tables import schemas

N = 24
DRAW = np.random.default_rng(1)
JUDGED = judgments(
    {
        (at, judge): ["!unreadable" if DRAW.random() < 0.1 else int(DRAW.integers(0, 3)) for _ in range(4)]
        for at in range(N)
        for judge in ("x", "y", "z")
    },
    ORDINAL,
)
PAIRED = judgments(
    {(at, "x"): {order: [str(DRAW.choice(["A", "B", "tie"]))] for order in ("AB", "BA")} for at in range(N)}, PAIR
)
ITEMS = pd.DataFrame({"item_id": [str(at) for at in range(N)], "system_a": "new", "system_b": "old", "answer": "x"})
PEOPLE = pd.DataFrame(
    [(str(at), "c", name, str((at + number) % 3)) for at in range(N) for number, name in enumerate("pqr")],
    columns=["item_id", "criterion", "annotator", "label"],
)
VOTES, PAIR_VOTES = ek.vote(JUDGED), ek.vote(PAIRED)
SCORES = ek.aggregate(VOTES)
RUBRIC = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": "c", "scale": {0: "a", 1: "b", 2: "c"}, "pass_at": 2}])
RUBRIC_SCORES = SCORES.assign(rubric_version=RUBRIC.label)
LATER = judgments(
    {(at, judge): [int(DRAW.integers(0, 3)) for _ in range(4)] for at in range(N) for judge in ("x", "y", "z")}, ORDINAL
)
LATER, EARLIER = (table.assign(key=[f"key {at}" for at in range(len(table))]) for table in (LATER, JUDGED))
EXPECTED = JUDGED.assign(score_sd=np.where(JUDGED["error"].isna(), 0.25, np.nan))
# two criteria, judged one by one and together
SINGLE, TOGETHER = (
    pd.concat([EARLIER, EARLIER.assign(criterion="d", key=EARLIER["key"] + last)], ignore_index=True)
    for last in (" d", "")
)
CALIBRATED = judgments({(at, "x"): [int(DRAW.integers(0, 3))] for at in range(260)}, ORDINAL)
MARKS = pd.DataFrame({"item_id": [str(at) for at in range(260)], "criterion": "c", "annotator": "p"}).assign(
    label=[str(min(2, int(score) + at % 2)) for at, score in enumerate(CALIBRATED["score"])]
)
OLD, NEW = MARKS.iloc[:130], MARKS.iloc[130:]
MAP = ek.calibrate(ek.vote(CALIBRATED), OLD)
CLUSTERS = pd.Series([f"g{at // 3}" for at in range(N)], index=[str(at) for at in range(N)], name="cluster")
GROUPS = pd.DataFrame({"item_id": CLUSTERS.index, "cluster": CLUSTERS.to_numpy()})


def of_groups(table):
    """The clusters of a table of them."""
    return table.set_index("item_id")["cluster"]


FUNCTIONS = {
    "vote": (JUDGED, ek.vote),
    "vote of pairs": (PAIRED, ek.vote),
    "aggregate": (VOTES, ek.aggregate),
    "aggregate majority": (VOTES, lambda t: ek.aggregate(t, method="majority")),
    "aggregate dawid_skene": (VOTES, lambda t: ek.aggregate(t, method="dawid_skene")),
    "disagreement": (VOTES, ek.disagreement),
    "summarize": (SCORES, ek.summarize),
    "combine": (RUBRIC_SCORES, lambda t: ek.combine(t, RUBRIC)),
    "combine without a rubric": (SCORES.drop(columns=["rubric", "rubric_version"]), ek.combine),
    "reliability": (JUDGED, ek.reliability),
    "align": (VOTES, lambda t: ek.align(t, PEOPLE)),
    "align by labels": (PEOPLE, lambda t: ek.align(VOTES, t)),
    "align halves": (VOTES, lambda t: ek.align(t, PEOPLE, ties="half", unscored="wrong", reference="mean")),
    "align scores": (SCORES, lambda t: ek.align(t, PEOPLE, figures=["accuracy", "macro_f1", "f1_true"])),
    "alt_test": (VOTES, lambda t: alt_test(t, PEOPLE, epsilon=0.1).summary),
    "alt_test each": (VOTES, lambda t: alt_test(t, PEOPLE, epsilon=0.1).annotators),
    "alt_test by labels": (PEOPLE, lambda t: alt_test(VOTES, t, epsilon=0.1).summary),
    "calibrate": (ek.vote(CALIBRATED), lambda t: ek.calibrate(t, OLD).points),
    "calibrate by labels": (OLD, lambda t: ek.calibrate(ek.vote(CALIBRATED), t).table),
    "apply": (ek.vote(CALIBRATED), lambda t: MAP.apply(t)[["item_id", "calibrated"]]),
    "sets": (ek.vote(CALIBRATED), MAP.sets),
    "check": (ek.vote(CALIBRATED), lambda t: MAP.check(t, NEW)),
    "check by labels": (NEW, lambda t: MAP.check(ek.vote(CALIBRATED), t)),
    "confusion": (VOTES, lambda t: confusion(t, PEOPLE)),
    "jury_value": (VOTES, lambda t: jury_value(t, PEOPLE)),
    "pass_threshold": (SCORES, lambda t: pass_threshold(t, PEOPLE)),
    "corpus_estimate": (ek.vote(CALIBRATED), lambda t: ek.corpus_estimate(t, OLD)),
    "corpus_estimate by labels": (OLD, lambda t: ek.corpus_estimate(ek.vote(CALIBRATED), t, figure="passed")),
    "summarize by clusters": (GROUPS, lambda t: ek.summarize(SCORES, clusters=of_groups(t))),
    "align by clusters": (GROUPS, lambda t: ek.align(VOTES, PEOPLE, clusters=of_groups(t))),
    "reliability by samples": (JUDGED, lambda t: ek.reliability(t, ks=[1, 4, 8])),
    "noise_floor": (JUDGED, noise_floor),
    "compare": (JUDGED, lambda t: ek.compare(t, JUDGED).table),
    "compare with labels": (EARLIER, lambda t: ek.compare(t, LATER, labels=PEOPLE).table),
    "compare by labels": (PEOPLE, lambda t: ek.compare(EARLIER, LATER, labels=t).table),
    "compare one judge": (EARLIER, lambda t: ek.compare(t, LATER, labels=PEOPLE, same_prompts=True).table),
    "halo": (SINGLE, lambda t: halo(t, TOGETHER, PEOPLE)),
    "examples": (PEOPLE[PEOPLE["annotator"] == "p"], lambda t: ek.next_labels(ITEMS, 5, labels=t, strategy="examples")),
    "vote of expected": (EXPECTED, ek.vote),
    "reliability of expected": (EXPECTED, ek.reliability),
    "reliability of votes": (ek.vote(JUDGED, method="majority"), lambda t: ek.reliability(t, full=True)),
    "split_labels": (PEOPLE, ek.split_labels),
    "next_labels": (VOTES, lambda t: ek.next_labels(t, 5)),
    "rank by items": (ITEMS, lambda t: ek.rank(PAIR_VOTES, t)),
    "rank": (PAIR_VOTES, lambda t: ek.rank(t, ITEMS)),
}


def as_type(table, kind, columns):
    return table.astype({name: kind for name in columns if name in table})


NUMBERS = ("score", "score_sd", "score_norm", "agreement", "self_agreement", "disagreement", "weight")
NUMBERS = (*NUMBERS, "score_ab", "score_ba")
COUNTS = ("sample", "n_samples", "n_scored", "n_judges")
TEXTS = ("item_id", "rubric", "rubric_version", "criterion", "judge", "annotator", "label", "level", "scale", "error")


def objects(table):
    return pd.DataFrame({name: table[name].astype(object).where(table[name].notna(), None) for name in table})


MUTATIONS = {
    "shuffled": lambda t: t.sample(frac=1, random_state=3),
    "doubled index": lambda t: t.set_axis([0] * len(t)),
    "MultiIndex": lambda t: t.set_index([t["item_id"], t["item_id"].rename("other")], drop=False),
    "index of texts": lambda t: t.set_axis([f"row {at}" for at in range(len(t))]),
    "Int64": lambda t: as_type(t, "Int64", COUNTS),
    "float counts": lambda t: as_type(t, "float64", COUNTS),
    "Float64": lambda t: as_type(t, "Float64", NUMBERS),
    "float32": lambda t: as_type(t, "float32", NUMBERS),
    "object": objects,
    "pd.NA": lambda t: t.astype(object).where(t.notna(), pd.NA),
    "categorical": lambda t: as_type(t, "category", TEXTS),
    "texts": lambda t: as_type(t, "string", TEXTS),
    "pyarrow": lambda t: t.convert_dtypes(dtype_backend="pyarrow"),
    "numpy_nullable": lambda t: t.convert_dtypes(dtype_backend="numpy_nullable"),
    "Decimal": lambda t: t.assign(
        **{name: t[name].map(lambda cell: Decimal(repr(float(cell))), na_action="ignore").astype(object)
           for name in ("score", "score_norm") if name in t}
    ),
    "numpy texts": lambda t: t.assign(item_id=np.array(t["item_id"].tolist(), dtype=np.str_).astype(object)),
    "whole ids": lambda t: t.assign(item_id=t["item_id"].astype("int64")),
    "unused categories": lambda t: t.assign(
        **{name: t[name].cat.add_categories(["never"]) for name in t
           if isinstance(t[name].dtype, pd.CategoricalDtype) and name not in ("tied_labels", "scale")}
    ),
    "verdicts in words": lambda t: t.assign(
        **{name: t[name].astype(object).map({True: "True", False: "false"}) for name in ("passed",) if name in t}
    ),
}  # fmt: skip


def plain(table):
    """The rows of a table as Python values, in an order of their own."""
    rows = table.astype(object).itertuples(index=False, name=None)
    return sorted(tuple(map(_text, row)) for row in rows)


def _text(cell):
    if pd.isna(cell):
        return "NA"
    return f"{cell + 3e-7:.4f}" if isinstance(cell, float) else str(cell)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.long
def test_the_same_figures_or_a_clear_error(name):
    table, function = FUNCTIONS[name]
    expected = function(table)
    assert len(expected)
    wrong = {}
    for kind, mutate in every_nth(MUTATIONS.items(), 3, [*FUNCTIONS].index(name)):
        try:
            made = function(mutate(table))
        except Exception as problem:  # noqa: BLE001 -- all kinds of one function are shown
            wrong[kind] = repr(problem)[:200]
            continue
        if list(made) != list(expected) or plain(made) != plain(expected):
            wrong[kind] = next(
                (pair for pair in zip(plain(made), plain(expected), strict=False) if pair[0] != pair[1]), 0
            )
    assert not wrong
    if table is GROUPS:
        return  # the index of a Series
    twice = pd.concat([table, table[["item_id"]]], axis="columns")
    with pytest.raises(InputError, match=r"'item_id' twice|duplicate columns: 'item_id'"):
        function(twice)


@pytest.mark.long
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_row_one_row_and_nothing_scored(name):
    table, function = FUNCTIONS[name]
    empty = table.iloc[:0]
    silent = table.assign(**{key: None for key in ("score", "score_norm", "label", "passed") if key in table})
    silent = silent.assign(**{"error": "unreadable"} if "error" in table else {})
    silent = silent.assign(**{"n_scored": 0, "tied": False} if "n_scored" in table else {})
    for part in (empty, table.iloc[:1], silent, *([schemas.empty("judgments")] if "error" in table else [])):
        try:
            made = function(part)
        except (InputError, ConfigError):
            continue
        numbers = made.select_dtypes("number").to_numpy(dtype=float)
        assert not np.isinf(numbers).any()


@pytest.mark.parametrize("codes", [[3, 2, 1], ["3", "2", "1"], [2.5, 1.5, 0.5]])
def test_an_ordered_categorical_of_falling_numbers_has_its_order(codes):
    for scores in (codes, codes[1:]):
        cells = pd.Categorical(scores, codes, ordered=True)
        table = pd.DataFrame({"item_id": range(len(scores)), "judge": "j", "score": cells})
        made = ek.vote(table)
        assert made["score"].tolist() == [float(code) for code in scores]
        assert made["score_norm"].tolist() == [codes.index(code) / 2 for code in scores]
    rising = ek.vote(table.assign(score=pd.Categorical(scores, codes[::-1], ordered=True)))
    assert rising["score_norm"].tolist() == [1 - codes.index(code) / 2 for code in scores]


def test_by_takes_any_list_of_columns():
    table = pd.DataFrame({"item_id": range(4), "score": [0, 1, 1, 1], "g": list("xxyy"), "h": list("uvuv")})
    expected = ek.summarize(table, by=["g", "h"])
    for by in (("g", "h"), pd.Index(["g", "h"]), np.array(["g", "h"], dtype=object), pd.Series(["g", "h"])):
        pd.testing.assert_frame_equal(ek.summarize(table, by=by), expected)
    assert len(ek.summarize(table, by=pd.Index([]))) == 1


@pytest.mark.parametrize("values", [[1, "1"], ["True", True], ["1.5", 1.5]])
def test_groups_that_look_alike_are_an_error(values):
    scores = ek.aggregate(ek.vote(JUDGED))
    table = scores.assign(g=pd.Series(values * (len(scores) // 2), dtype=object))
    labels = table[["item_id"]].assign(label="1")
    for run in (lambda: ek.summarize(table, by="g"), lambda: ek.align(table, labels, by="g")):
        with pytest.raises(InputError, match=f"column 'g' has two kinds of '{values[0]}'"):
            run()


OF_TABLES = [name for name in FUNCTIONS if not name.endswith((" by items", " by clusters"))]
OF_OTHERS = {
    "rows": (lambda t: t.to_dict("records"), "list; pass pd.DataFrame(table)"),
    "a generator": (lambda t: (row for row in t.to_dict("records")), "pass pd.DataFrame(table)"),
    "arrow": (pa.Table.from_pandas, "pyarrow.Table; pass table.to_pandas()"),
    "a number": (lambda _: 3, "int"),
}


@pytest.mark.parametrize("kind", OF_OTHERS)
@pytest.mark.parametrize("name", OF_TABLES)
def test_tables_of_others_are_told_how_they_become_one(name, kind):
    (table, function), (make, advice) = FUNCTIONS[name], OF_OTHERS[kind]
    with pytest.raises(InputError, match=re.escape(advice)):
        function(make(table))


@pytest.mark.long
@pytest.mark.parametrize("name", OF_TABLES)
@pytest.mark.filterwarnings("ignore::evalkit.errors.EvalkitWarning")
def test_a_column_that_is_not_there_is_no_fault_of_pandas(name):
    table, function = FUNCTIONS[name]
    for column in every_nth(table.columns, 5, OF_TABLES.index(name)):
        with contextlib.suppress(EvalkitError):
            function(table.drop(columns=column))
