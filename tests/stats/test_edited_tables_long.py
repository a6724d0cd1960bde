"""Plain tables under edits, at every function that takes one: the same figures, the plain truth, or a refusal.

A harmless edit leaves the figures as they are. One that changes what the table says is refused, or its figures are
those of the table that says the same in so many words.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from every_nth import every_nth

import evalkit as ek
from evalkit.errors import EvalkitError
from evalkit.plots.inputs import labels_of, table_of

N = 36
SCALE = ek.Scale.of([0, 1, 2], pass_at=2)
TRUTH = [n * 7 % 3 for n in range(N)]
OFF = {"a": 5, "b": 4, "c": 7, "ana": 11, "bob": 9, "eva": 8}


def says(who: str, n: int) -> int:
    """The truth, but each has a step of its own at which the next level is said."""
    return (TRUTH[n] + (n % OFF[who] == 0)) % 3


ITEMS = pd.DataFrame({"item_id": [str(n) for n in range(N)], "group_id": [f"g{n // 3}" for n in range(N)]})
JUDGMENTS = pd.concat(
    [ITEMS.assign(judge=judge, sample=sample, score=[says(judge, n + sample * (n % 4 == 0)) if n + sample < N else 0
                                                    for n in range(N)])
     for judge in "abc" for sample in (0, 1)],
    ignore_index=True,
).assign(scale=[SCALE] * 6 * N)  # fmt: skip
VOTES = JUDGMENTS[JUDGMENTS["sample"] == 0].drop(columns="sample").reset_index(drop=True)
SCORES = VOTES[VOTES["judge"] == "a"].drop(columns="judge").reset_index(drop=True)
SYSTEMS = VOTES[VOTES["judge"] != "c"].rename(columns={"judge": "system_id"}).reset_index(drop=True)
LABELS = pd.DataFrame(
    [(str(n), person, says(person, n)) for person in ("ana", "bob", "eva") for n in range(N)],
    columns=["item_id", "annotator", "label"],
)
LABELS["mine"] = [person == "ana" and n < 20 for person in ("ana", "bob", "eva") for n in range(N)]
Tables = tuple[pd.DataFrame, pd.DataFrame]


def plot(votes: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """What a plot draws: the answers and the labels."""
    drawn = table_of(votes, "votes", ["item_id", "criterion", "score", "label", "passed", "level", "scale"])
    people, _ = labels_of(votes, labels, drawn)
    return drawn[["item_id", "judge", "score"]].merge(people[["item_id", "annotator", "label"]], on="item_id")


def turned(table: pd.DataFrame) -> pd.DataFrame:
    """The other side of a comparison: every score of the second group and later is right."""
    if "item_id" not in [*table.columns, *table.index.names] or table.columns.has_duplicates:
        return table
    truth = dict(zip(ITEMS["item_id"], TRUTH, strict=True))
    ids = table.index.get_level_values("item_id") if "item_id" in table.index.names else table["item_id"]
    texts = [
        str(int(cell)) if isinstance(cell, (int, float, np.number)) and cell == cell else str(cell) for cell in ids
    ]
    plain = table.drop(columns=["passed", "label", "score_norm"], errors="ignore")
    return plain.assign(score=[truth.get(text, 0) for text in texts])


def words(text: str) -> pd.DataFrame:
    """The words of a plot or page in an order of their own: that of judges is that of the rows."""
    plain = re.sub(r"<(svg|style).*?</\1>|<[^>]+>", " ", text, flags=re.DOTALL)
    return pd.DataFrame({"word": sorted(re.split(r"[;:.,]*\s+", plain))})


@cache
def evaluation() -> ek.Evaluation:
    """What a report is of: the same items, judged again."""
    criterion = {"name": "score", "scale": {0: "no", 1: "partly", 2: "yes"}, "pass_at": 2}
    rubric = ek.Rubric(id="plain", inputs=["answer"], criteria=[criterion])
    items = ITEMS.assign(answer=[f"answer {n} " * (n % 3 + 1) for n in range(N)])
    return ek.evaluate(items, rubric, ["fake:strict", "fake:noisy"], samples=2, progress=False)


def report(before: pd.DataFrame, _: pd.DataFrame) -> pd.DataFrame:
    """What a report says of an evaluation since a table."""
    with tempfile.TemporaryDirectory() as folder:
        return words(ek.report(evaluation(), Path(folder, "report.html"), baseline=before).read_text("utf-8"))


NAMES = {"a": "fake:strict", "b": "fake:noisy"}
BASELINE = (
    JUDGMENTS[JUDGMENTS["judge"] != "c"]
    .assign(judge=lambda t: t["judge"].map(NAMES), rubric="plain", rubric_version="v1")
    .reset_index(drop=True)
)
DOORS: dict[str, tuple[pd.DataFrame, Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]]] = {
    "vote": (JUDGMENTS, lambda t, _: ek.vote(t)),
    "reliability of samples": (JUDGMENTS, lambda t, _: ek.reliability(t)),
    "noise_floor": (JUDGMENTS, lambda t, _: ek.stats.noise_floor(t, samples=1)),
    "compare": (JUDGMENTS, lambda t, _: ek.compare(t, turned(t)).table),
    "compare with labels": (JUDGMENTS, lambda t, p: ek.compare(t, turned(t), labels=p).table),
    "compare one judge": (JUDGMENTS, lambda t, _: ek.stats.compare(t, turned(t), same_prompts=True).table),
    "aggregate": (VOTES, lambda t, _: ek.aggregate(t)),
    "aggregate by majority": (VOTES, lambda t, _: ek.aggregate(t, method="majority")),
    "disagreement": (VOTES, lambda t, _: ek.disagreement(t)),
    "reliability": (VOTES, lambda t, _: ek.reliability(t)),
    "align": (VOTES, ek.align),
    "align scores": (SCORES, ek.align),
    "confusion": (VOTES, ek.stats.confusion),
    "alt_test": (VOTES, lambda t, p: ek.stats.alt_test(t, p, 0.1).summary),
    "jury_value": (VOTES, ek.stats.jury_value),
    "calibrate": (VOTES, lambda t, p: ek.calibrate(t, p).table),
    "corpus_estimate": (SCORES, ek.corpus_estimate),
    "pass_threshold": (SCORES, ek.stats.pass_threshold),
    "next_labels": (VOTES, lambda t, p: ek.next_labels(t, 5, labels=p[p["mine"]], strategy="disagreement")),
    "summarize": (SCORES, lambda t, _: ek.summarize(t)),
    "combine": (SCORES, lambda t, _: ek.combine(t)),
    "rank": (SYSTEMS, lambda t, _: ek.rank(t)),
    "plots": (VOTES, plot),
    "plot_scores": (SCORES, lambda t, _: words(ek.plots.plot_scores(t).alt)),
    "plot_agreement": (VOTES, lambda t, _: words(ek.plots.plot_agreement(t).alt)),
    "plot_confusion": (VOTES, lambda t, p: words(ek.plots.plot_confusion(t, p).alt)),
    "plot_disagreement": (VOTES, lambda t, p: words(ek.plots.plot_disagreement(t, p).alt)),
    "plot_calibration": (VOTES, lambda t, p: words(ek.plots.plot_calibration(ek.calibrate(t, p)).alt)),
    "plot_versions": (JUDGMENTS, lambda t, _: words(ek.plots.plot_versions(t, turned(t)).alt)),
    "plot_rank": (SYSTEMS, lambda t, _: words(ek.plots.plot_rank(ek.rank(t)).alt)),
    "report": (BASELINE, report),
}
WITH_PEOPLE = [
    "compare with labels", "align", "align scores", "confusion", "alt_test", "jury_value", "calibrate",
    "corpus_estimate", "pass_threshold", "next_labels", "plots", "plot_confusion", "plot_disagreement",
    "plot_calibration",
]  # fmt: skip


UNREAD = {("next_labels", "a label off the scale"), ("plots", "a label off the scale")}
"""What labels say is not read for the first, and later for the second."""
PART = 8
"""Each function takes one edit of so many in a run, others than the next one; `--hypothesis-profile=search` all."""


def index(*names: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda t: t.set_index([name for name in names if name in t])


HARMLESS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "shuffled": lambda t: t.sample(frac=1, random_state=3),
    "reversed": lambda t: t.iloc[::-1],
    "columns reversed": lambda t: t[t.columns[::-1]],
    "another column": lambda t: t.assign(remark="x"),
    "column of lists": lambda t: t.assign(remark=[[1]] * len(t)),
    "one index for all": lambda t: t.set_axis([0] * len(t)),
    "index of texts": lambda t: t.set_axis([f"row {n}" for n in range(len(t))]),
    "item in the index": index("item_id"),
    "group in the index": index("group_id"),
    "judge in the index": lambda t: index("judge")(t) if "judge" in t else t,
    "item and judge in the index": index("item_id", "judge"),
    "group and item in the index": index("group_id", "item_id"),
    "ids of whole numbers": lambda t: t.assign(item_id=t["item_id"].astype("int64")),
    "ids of floats": lambda t: t.assign(item_id=t["item_id"].astype("float64")),
    "ids as categories": lambda t: t.astype({"item_id": "category"}),
    "ids as objects": lambda t: t.astype({"item_id": object}),
    "groups of numbers": lambda t: t.assign(group_id=t["group_id"].str[1:].astype(int)),
    "groups as categories": lambda t: t.astype({"group_id": "category"}),
    "scores of floats": lambda t: t.astype({"score": "float64"}),
    "scores of short floats": lambda t: t.astype({"score": "float32"}),
    "nullable scores": lambda t: t.astype({"score": "Int64"}),
    "scores as texts": lambda t: t.astype({"score": "str"}),
    "scores as decimals in text": lambda t: t.assign(score=t["score"].astype(float).astype("str")),
    "its verdicts beside": lambda t: t.assign(passed=t["score"] == 2),
    "its labels beside": lambda t: t.assign(label=t["score"].astype("str")),
}


def cell(column: str, value: object, row: int = 4) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """One cell is another value."""

    def edit(table: pd.DataFrame) -> pd.DataFrame:
        cells = table[column].astype(object).tolist()
        cells[row] = value
        return table.assign(**{column: pd.Series(cells, index=table.index, dtype=object)})

    return edit


def without(row: int = 4) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda t: t.drop(index=t.index[row])


Edit = Callable[[pd.DataFrame], pd.DataFrame]
CHANGED: dict[str, tuple[Edit, Edit | None]] = {
    # what is refused everywhere
    "all rows twice": (lambda t: pd.concat([t, t]), None),
    "a row twice": (lambda t: pd.concat([t, t.iloc[[4]]], ignore_index=True), None),
    "a row twice, otherwise": (lambda t: pd.concat([t, t.iloc[[4]].assign(score=0)], ignore_index=True), None),
    "a column twice": (lambda t: pd.concat([t, t[["item_id"]]], axis="columns"), None),
    "scores twice": (lambda t: pd.concat([t, t[["score"]]], axis="columns"), None),
    "no scores": (lambda t: t.drop(columns="score"), None),
    "no items": (lambda t: t.drop(columns="item_id"), None),
    "an item without id": (cell("item_id", None), None),
    "an id that is a list": (cell("item_id", ["4"]), None),
    "ids 4 and 4.0 as texts": (cell("item_id", "5.0"), None),
    "two groups of an item": (lambda t: pd.concat([t, t.iloc[[4]].assign(judge="d", group_id="g9")]), None),
    "a score off the scale": (cell("score", 9), None),
    "a negative score": (cell("score", -1), None),
    "an infinite score": (cell("score", float("inf")), None),
    "a score in words": (cell("score", "good"), None),
    "a score with a comma": (cell("score", "1,000"), None),
    "a list as score": (cell("score", [1]), None),
    "scores of percent": (lambda t: t.assign(score=t["score"] * 50), None),
    "verdicts on three levels": (lambda t: t.assign(score=t["score"] > 0), None),
    "a second scale": (cell("scale", ek.Scale.of([0, 1, 2, 3], pass_at=2)), None),
    "another pass rule in a row": (cell("scale", ek.Scale.of([0, 1, 2], pass_at=1)), None),
    "a scale that is none": (lambda t: t.assign(scale="from bad to good"), None),
    "labels of another": (lambda t: t.assign(label=(2 - t["score"]).astype("str")), None),
    "a label of another": (
        lambda t: cell("label", "0" if t["score"].iloc[4] else "1")(t.assign(label=t["score"])),
        None,
    ),
    "a label off the scale": (lambda t: cell("label", "7")(t.assign(label=t["score"])), None),
    "an error beside scores": (lambda t: t.assign(error="unreadable"), None),
    "an error beside a score": (lambda t: cell("error", "unreadable")(t.assign(error=None)), None),
    "verdicts of another": (lambda t: t.assign(passed=t["score"] < 2), None),
    "places of another": (lambda t: t.assign(score_norm=1 - t["score"] / 2), None),
    "places in percent": (lambda t: t.assign(score_norm=t["score"] * 50), None),
    "a place beyond the scale": (lambda t: cell("score_norm", 1.5)(t.assign(score_norm=t["score"] / 2)), None),
    "every score in a list": (lambda t: t.assign(score=[[score] for score in t["score"]]), None),
    "a group that is a list": (cell("group_id", ["g1"]), None),
    # what says the same as another table
    "no score": (cell("score", None), cell("score", np.nan)),
    "a blank score": (cell("score", " "), cell("score", np.nan)),
    "a missing score": (cell("score", pd.NA), cell("score", np.nan)),
    "a score as text": (cell("score", " 1 "), cell("score", 1)),
    "a score with decimals": (cell("score", "1.0"), cell("score", 1)),
    "a verdict missing": (lambda t: cell("passed", None)(t.assign(passed=t["score"] == 2)), lambda t: t),
    "an error without score": (
        lambda t: cell("error", "unreadable")(cell("score", np.nan)(t.assign(error=None))),
        lambda t: cell("score", np.nan)(t),
    ),
    "no row": (without(), lambda t: t.drop(index=4)),
    "half of the rows": (lambda t: t[t["item_id"].astype(int) < 18], lambda t: t[t.index % N < 18]),
    "low is better": (
        lambda t: t.assign(scale=[ek.Scale.of([0, 1, 2], pass_at=2, better="high")] * len(t)),
        lambda t: t,
    ),
    "its places beside": (lambda t: t.assign(score_norm=t["score"] / 2), lambda t: t),
    "other groups": (lambda t: t.assign(group_id="x" + t["group_id"]), lambda t: t),
    "no groups": (lambda t: t.drop(columns="group_id"), lambda t: t.assign(group_id=t["item_id"])),
    # another row of the item has the group; a single row is a group of its own
    "one group missing": (
        cell("group_id", None),
        lambda t: t if t["item_id"].duplicated().any() else cell("group_id", "own")(t),
    ),
}
OF_LABELS: dict[str, tuple[Edit, Edit | None]] = {
    "shuffled": (lambda p: p.sample(frac=1, random_state=3), lambda p: p),
    "item in the index": (lambda p: p.set_index("item_id"), lambda p: p),
    "person in the index": (lambda p: p.set_index("annotator"), lambda p: p),
    "ids of numbers": (lambda p: p.assign(item_id=p["item_id"].astype(int)), lambda p: p),
    "labels of floats": (lambda p: p.assign(label=p["label"].astype(float)), lambda p: p),
    "labels of texts": (lambda p: p.assign(label=p["label"].astype(str)), lambda p: p),
    "another column": (lambda p: p.assign(remark="x"), lambda p: p),
    "a label missing": (cell("label", None), without()),
    "a row twice": (lambda p: pd.concat([p, p.iloc[[5]]]), None),
    "a row twice, otherwise": (lambda p: pd.concat([p, p.iloc[[5]].assign(label=0)]), None),
    "a label off the scale": (cell("label", 9, 5), None),
    "a list as label": (cell("label", [1], 5), None),
    "of another criterion": (lambda p: p.assign(criterion="tone"), lambda p: p),  # of one, as the table is
    "of other items": (lambda p: p.assign(item_id="x" + p["item_id"]), None),
    "of samples": (lambda p: p.assign(sample=1), None),
    "of another judge": (lambda p: p.assign(judge="z"), None),
    "of judgments": (lambda p: p.drop(columns="annotator").assign(score_norm=1.0, level="ordinal", scale="0, 1"), None),
    "no labels": (lambda p: p.drop(columns="label"), None),
}


def figures(table: Any) -> list[str]:
    """The rows of a result as texts, in an order of their own; what is only said of types and keys does not count."""
    frame = pd.DataFrame(table).drop(columns=["notes", "scale", "group_id", "reason"], errors="ignore")
    frame = frame[sorted(frame.columns)]
    return sorted(" ".join(map(text, row)) for row in frame.astype(object).itertuples(index=False, name=None))


def text(value: Any) -> str:
    if value is None or (not isinstance(value, (list, dict)) and pd.isna(value)):
        return "NA"
    return f"{float(value):.8g}" if isinstance(value, (float, int, np.number)) or str(value).isdigit() else str(value)


def outcome(door: str, table: pd.DataFrame, people: pd.DataFrame) -> list[str] | str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return figures(DOORS[door][1](table, people))
        except EvalkitError as problem:
            return f"refused: {problem}"
        except Exception as problem:  # noqa: BLE001 -- shown with the edit
            return [f"crash: {problem!r}"]


@pytest.mark.parametrize("door", DOORS)
def test_a_harmless_edit_changes_no_figure(door: str) -> None:
    table, _ = DOORS[door]
    expected = outcome(door, table, LABELS)
    assert isinstance(expected, list)
    edits = every_nth(HARMLESS.items(), PART, [*DOORS].index(door))
    wrong = {name: got for name, edit in edits if (got := outcome(door, edit(table), LABELS)) != expected}
    assert not {name: difference(got, expected) for name, got in wrong.items()}


@pytest.mark.parametrize("door", DOORS)
def test_an_edit_that_changes_what_a_table_says_is_refused_or_counts_as_it_says(door: str) -> None:
    table, _ = DOORS[door]
    assert not silent(door, CHANGED, lambda edit: (edit(table), LABELS))


@pytest.mark.parametrize("door", WITH_PEOPLE)
def test_edited_labels_are_refused_or_count_as_they_say(door: str) -> None:
    table, _ = DOORS[door]
    assert not silent(door, OF_LABELS, lambda edit: (table, edit(LABELS)))


@pytest.mark.parametrize(
    "table",
    [
        lambda votes: ek.stats.jury_value(votes, LABELS, figure="accuracy"),
        lambda votes: ek.calibrate(votes, LABELS, figure="passed").table,
        lambda votes: ek.corpus_estimate(votes, LABELS, figure="passed"),
        lambda votes: ek.stats.pass_threshold(votes, LABELS),
    ],
)
def test_what_needs_the_scale_says_that_it_is_not_known(table: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    notes = table(VOTES.drop(columns="scale"))["notes"]
    assert notes.str.contains("the scale is not known: pass scale=", regex=False).all()


def silent(door: str, edits: dict[str, tuple[Edit, Edit | None]], tables: Callable[[Edit], Tables]) -> dict[str, Any]:
    wrong = {}
    for name, (edit, equivalent) in every_nth(edits.items(), PART, [*DOORS].index(door)):
        if (door, name) in UNREAD:
            continue
        got = outcome(door, *tables(edit))
        if equivalent is None and isinstance(got, list):
            wrong[name] = f"not refused: {got[:1]}"
        elif equivalent is not None and isinstance(got, list) and got != (truth := outcome(door, *tables(equivalent))):
            wrong[name] = difference(got, truth)
    return wrong


def difference(got: Any, expected: Any) -> Any:
    if isinstance(got, str) or isinstance(expected, str):
        return got, expected[:1]
    return next(((a, b) for a, b in zip(got, expected, strict=False) if a != b), (len(got), len(expected)))
