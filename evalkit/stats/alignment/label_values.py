"""Human labels, read as codes, scores and verdicts of the scale; judges and people on the same items (`taken`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit.core.lists_of_choices import Reference
from evalkit.errors import InputError, listed
from evalkit.rubrics import Rubric
from evalkit.rubrics.criteria import OF_STEPS
from evalkit.rubrics.given_scales import ScaleLike
from evalkit.rubrics.human_labels import TEXT_HASH, LabelsLike, allowed_labels, as_labels, boolean_text, of_judged
from evalkit.rubrics.scales import Scale, code_text, folded, has_thousands, number
from evalkit.stats.alignment.agreement_measures import Answers
from evalkit.stats.alignment.label_splits import HELD_OUT, count_look, take_part
from evalkit.stats.intervals import cluster_codes
from evalkit.stats.order_flips import ONE_ORDER
from evalkit.stats.plain_tables import Keys, names_in, take_votes
from evalkit.stats.result_tables import (
    CRITERION_KEY,
    clusters_for,
    first_that_holds,
    split_rows,
    verdict_codes,
    with_numbers_as_labels,
)
from evalkit.tables import schemas
from evalkit.tables.grouping import (
    ID_NOTES,
    ClustersLike,
    Flags,
    Ints,
    match_ids,
    refuse_doubles,
    tally,
    used_categories,
)
from evalkit.tables.schemas import LABEL_KEY, check
from evalkit.tables.steps import NO_STEP
from evalkit.tables.ties import labels_among

LOST_IDS = "labels of no item"
"""In the `attrs` of an evaluation's labels: notes on those that were left out."""

_UNCHECKED = "not checked whether the texts are those that people labelled: pass the evaluation, not its tables"


class HasVotes(Protocol):
    """An evaluation: votes, and the items and the rubric that label columns are read by."""

    @property
    def votes(self) -> pd.DataFrame:
        """One row per item, criterion and judge."""


class HasJudgments(Protocol):
    """An evaluation, or any object with a judgments table (and perhaps `votes`, `scores` and `rules`)."""

    @property
    def judgments(self) -> pd.DataFrame:
        """One row per item, criterion, judge and sample."""


JudgedLike = pd.DataFrame | HasVotes
"""Votes or scores; an evaluation: then its votes, with its items and clusters."""


def labels_for(
    judged: object, labels: LabelsLike | None, criteria: Sequence[str] | None = None, versions: Collection[str] = ()
) -> pd.DataFrame:
    """The long labels table, by default that of the evaluation, from whose items a mapping is read.

    Raises
    ------
    InputError
        Where there are no labels, for a mapping if `judged` is a table, and as `as_labels`, which takes the `criteria`
        and `versions`.
    """
    is_table = isinstance(judged, (pd.DataFrame, pd.Series))  # whose `items` and `labels` are others
    labels = getattr(judged, "labels", None) if labels is None and not is_table else labels
    if labels is None:
        raise InputError(
            "human labels are missing; pass labels=, a table with the columns item_id, criterion, annotator and label, "
            "or an evaluation that has them: ek.evaluate(items, rubric, judges, labels=labels)"
        )
    if is_table:
        return as_labels(labels, criteria=criteria)
    items, rubric, inputs = (getattr(judged, name, None) for name in ("items", "rubric", "inputs"))
    return as_labels(labels, items, rubric, criteria, inputs, versions)


def of_items(labels: pd.DataFrame, judged: pd.DataFrame, after: pd.DataFrame | None = None) -> pd.DataFrame:
    """Labels with ids spelled as those of the table `judged`; those of no item are noted (`match_ids`) and stay.

    Those of other rubrics, versions and systems are left out (`of_judged`); the rubrics may be those of `after`, too.
    Noted are those of items that were judged on other criteria only, criteria that were not judged, if one that was has
    no labels or nearly their name, and annotators of nearly one name.

    Raises
    ------
    InputError
        When under half of the labels and of the items match, two labels of one annotator are of one item and criterion,
        as with ids 1 and 1.0, no label is of a criterion that was judged, or the labels are of another rubric.
    """
    criteria = judged["criterion"].unique()
    heads = pd.concat([table.drop(columns="item_id") for table in (judged, after) if table is not None])
    labels = of_judged(labels, heads, two_sides=after is not None)
    if (notes := ID_NOTES.get()) is not None:
        unchecked = [_UNCHECKED] if TEXT_HASH in labels else []
        doubtful = _doubtful_names(labels, [*map(str, criteria)])
        notes |= dict.fromkeys([*labels.attrs.get(LOST_IDS, ()), *unchecked, *doubtful])
    has_label = labels["label"].notna()
    is_judged = labels["criterion"].isin(criteria) & has_label
    if has_label.any() and len(judged) and not is_judged.any():
        raise InputError(
            f"the labels are for criterion {listed(labels.loc[has_label, 'criterion'].unique())}, but criterion "
            f"{listed(criteria)} was judged; in the labels, use the criterion's name in the rubric"
        )
    item_ids = pd.Index(judged["item_id"].unique(), dtype="str")
    ids = labels["item_id"].astype(object)
    ids[is_judged] = match_ids(pd.Index(ids[is_judged]), item_ids, "labels", "item")
    labels = of_judged(labels.assign(item_id=ids.astype("str")), judged)
    is_judged = labels["criterion"].isin(criteria) & labels["label"].notna()
    if notes is not None and len(criteria) > 1:
        notes |= dict.fromkeys(_on_other_criteria(labels[is_judged & labels["item_id"].isin(item_ids)], judged))
    refuse_doubles(labels[labels["label"].notna()], LABEL_KEY, "labels")
    return labels


def _on_other_criteria(labels: pd.DataFrame, judged: pd.DataFrame) -> Iterator[str]:
    for name, rows in labels.groupby("criterion", observed=True):
        if n := int((~rows["item_id"].isin(judged.loc[judged["criterion"] == name, "item_id"])).sum()):
            yield f"{n} of {len(rows)} labels of {name!r} left out: their items were judged on other criteria only"


def _doubtful_names(labels: pd.DataFrame, judged: list[str]) -> Iterator[str]:
    names, of_criterion = [str(name) for name in labels["criterion"].unique()], labels["criterion"].astype("str")
    is_whole, plain = {*judged} <= {*names}, {_plain_name(name) for name in judged}
    for name in [name for name in names if name not in judged and (not is_whole or _plain_name(name) in plain)]:
        n = int((of_criterion == name).sum())
        yield f"{n} of {len(labels)} labels are of criterion {name!r}, which was not judged, and left out"
    annotators: dict[str, list[str]] = {}
    for name in map(str, labels["annotator"].unique()):
        annotators.setdefault(_plain_name(name), []).append(name)
    for alike in annotators.values():
        if len(alike) > 1:
            yield f"annotators {listed(alike)} count as {len(alike)} people"


def _plain_name(name: str) -> str:
    return " ".join(name.casefold().split())


@dataclass(frozen=True, slots=True)
class Reading:
    """One label: code text, score, verdict; None or NaN if missing."""

    label: str | None
    score: float
    passed: bool | None


def read_label(text: str, scale: Scale) -> Reading | None:
    """What a label means on a scale, or None if it means nothing there.

    Codes are codes. ``true`` and ``false`` are verdicts, if the criterion has a pass rule. On ordinal scales a number
    between the codes is a mean of people's codes: a score without label and verdict.
    """
    if scale.level != "nominal" and has_thousands(text):
        return None
    if scale == OF_STEPS and text != NO_STEP and not text.isdecimal():
        return None
    code = scale.by_value(text)
    code = scale.named(text) if code is None else code
    if code is not None:
        return Reading(code_text(code), scale.score(code), scale.passed(code))
    verdict = boolean_text(text)
    if verdict is not None and scale.has_rule:
        # of 0 and 1, True is 1 and False is 0, as in a column of booleans
        is_code = scale.codes == (0, 1) and scale.passed(1) and not scale.passed(0)
        return Reading(None, float(verdict == "true") if is_code else np.nan, verdict == "true")
    if verdict is not None and scale.codes == (0, 1):
        return read_label(str(int(verdict == "true")), scale)
    value = number(text) if scale.level == "ordinal" else None
    return None if value is None or not scale.lowest <= value <= scale.highest else Reading(None, float(value), None)


def _allowed(scale: Scale) -> str:
    labels, ends = ", ".join(scale.labels), " to ".join(map(code_text, (*scale.codes[:1], *scale.codes[-1:])))
    texts = {
        f"{NO_STEP!r} and numbers of messages": scale == OF_STEPS,
        "any number (for words, or true and false, pass scale=)": scale.is_open,
        f"{labels}, a number between them (a mean)": scale.level == "ordinal",
        f"any number from {ends}": scale.level == "interval",
    }
    return first_that_holds(texts) or labels


@dataclass(frozen=True, slots=True)
class Annotators:
    """All annotators of one criterion: items × annotators.

    Attributes
    ----------
    names
        The annotators.
    kind
        Verdicts (0, 1) if the criterion has a pass rule, else codes of labels; −1 for none.
    score
        In rubric units; NaN for none.
    """

    names: tuple[str, ...]
    kind: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]

    @property
    def labelled(self) -> Flags:
        """Per item: did anybody label it?"""
        return np.asarray(((self.kind >= 0) | ~np.isnan(self.score)).any(axis=1))

    def answers(self, annotator: int) -> Answers:
        """The answers of one annotator."""
        kind = self.kind[:, annotator]
        return Answers(kind, self.score[:, annotator], np.zeros(len(kind), dtype=bool))

    def without(self, annotator: int) -> Annotators:
        """All annotators but this one."""
        keep = np.arange(len(self.names)) != annotator
        names = tuple(name for number, name in enumerate(self.names) if number != annotator)
        return Annotators(names, self.kind[:, keep], self.score[:, keep])

    def references(self, how: Reference) -> list[Answers]:
        """What a judge is compared with: each annotator, or all of them together."""
        if how == "each":
            return [self.answers(number) for number in range(len(self.names))]
        return [self.together(how)]

    def together(self, how: Reference) -> Answers:
        """One reference: majority of kinds (a tie has none), and mean or modal score."""
        n_items = len(self.kind)
        item, _ = np.nonzero(self.kind >= 0)
        kind, tied = tally(item.astype(np.int64), self.kind[self.kind >= 0], n_items).single()
        has_score = ~np.isnan(self.score)
        n = has_score.sum(axis=1)
        score = np.full(n_items, np.nan)
        if how == "mean":
            score[n > 0] = np.nansum(self.score, axis=1)[n > 0] / n[n > 0]
        else:
            rows, _ = np.nonzero(has_score)
            values, ranks = np.unique(np.round(self.score[has_score], 12), return_inverse=True)
            top, _ = tally(rows.astype(np.int64), ranks.astype(np.int64), n_items).single()
            score[top >= 0] = values[top[top >= 0]]
        return Answers(kind, score, tied)


def annotators_of(
    labels: pd.DataFrame, items: pd.Index, scale: Scale, kinds: dict[str, int], what: str, *,
    verdicts: bool | None = None,
) -> Annotators:  # fmt: skip
    """The labels of criterion `what`, spread over `items`; `verdicts`: are kinds verdicts (default: by the pass rule)?

    Raises
    ------
    InputError
        For a label that means nothing on the scale; the message lists what is allowed.
    """
    index = items.get_indexer(pd.Index(labels["item_id"]))
    labels, index = labels.loc[index >= 0], index[index >= 0]
    annotator, annotators = pd.factorize(labels["annotator"].astype("str"), sort=True)
    text, texts = pd.factorize(labels["label"].astype("str"))
    readings = [read_label(str(value), scale) for value in texts]
    _refuse_unknown(texts, readings, scale, what)
    scores = np.array([reading.score for reading in readings if reading is not None] or [np.nan])
    verdicts = scale.has_rule if verdicts is None else verdicts
    codes = np.array([_kind(reading, kinds, verdicts=verdicts) for reading in readings if reading is not None] or [-1])
    kind = np.full((len(items), len(annotators)), -1, dtype=np.int64)
    score = np.full((len(items), len(annotators)), np.nan)
    kind[index, annotator], score[index, annotator] = codes[text], scores[text]
    return Annotators(tuple(str(name) for name in annotators), kind, score)


def _refuse_unknown(texts: Iterable[object], readings: Iterable[object], scale: Scale, criterion: str) -> None:
    if unknown := [text for text, reading in zip(texts, readings, strict=True) if reading is None]:
        raise InputError(
            f"labels of criterion {criterion!r} are not on its scale: {listed(unknown)}; "
            f"{allowed_labels(_allowed(scale), scale, unknown[0])}"
        )


def with_codes(labels: pd.DataFrame, rubric: Rubric) -> pd.DataFrame:
    """A labels table of the rubric's criteria, with codes in place of names of levels.

    Missing labels have no row.

    Raises
    ------
    InputError
        For a label that means nothing on its scale, or two labels of one annotator for one thing.
    """
    people = labels[labels["label"].notna()]
    refuse_doubles(people, LABEL_KEY, "labels")
    codes = people["label"].astype(object)
    for criterion in rubric.criteria:
        scale, rows = criterion.scale, (people["criterion"] == criterion.name).to_numpy()
        texts = list(dict.fromkeys(codes[rows]))
        code_of = {text: _one_notation(text, scale) for text in texts}
        _refuse_unknown(texts, code_of.values(), scale, criterion.name)
        codes[rows] = [code_text(code) for code in codes[rows].map(code_of)]
    return check(people.assign(label=codes), "labels")


def _one_notation(text: str, scale: Scale) -> Any:
    """A label as a code, ``true`` or ``false``; None if it is not on the scale."""
    code = scale.named(text) if scale.by_value(text) is None else None
    reading = None if code is not None else read_label(text, scale)
    if reading is None:
        return code
    return boolean_text(text) if reading.label is None and reading.passed is not None else text


def are_verdicts(labels: pd.DataFrame, scale: Scale) -> bool:
    """Whether people gave only ``true`` and ``false``."""
    readings = [read_label(str(text), scale) for text in labels["label"].unique()]
    only = [reading.passed is not None for reading in readings if reading is not None and reading.label is None]
    return bool(only) and all(only) and len(only) == len(readings)


def _kind(read: Reading, kinds: dict[str, int], *, verdicts: bool) -> int:
    if verdicts:
        return -1 if read.passed is None else int(read.passed)
    return -1 if read.label is None else kinds.setdefault(read.label, len(kinds))


def kinds_of(labels: pd.Series, kinds: dict[str, int]) -> Ints:
    """Codes of judges' labels, by the same numbers as the people's."""
    names = [kinds.setdefault(str(name), len(kinds)) for name in labels.cat.categories]
    return np.array([*names, -1], dtype=np.int64)[labels.cat.codes.to_numpy()]


Kinds = Literal["score", "label", "passed"]
_VERDICTS = {"false": 0, "true": 1}


@dataclass(frozen=True, slots=True)
class Panel:
    """One criterion (and group of `by`): the answers of judges and annotators on each item.

    Attributes
    ----------
    head
        The key of the panel: rubric, rubric_version, criterion (and the value of `by`).
    scale
        The criterion's scale.
    items
        The item ids, sorted.
    unit
        The cluster of each item, as numbers in the order of their names.
    annotators
        The annotators.
    judges
        Judge -> its answers, and whether it was asked about each item.
    verdicts
        Are kinds verdicts (0 fail, 1 pass)? Else they are numbers of `kinds`.
    kinds
        Label -> its number.
    one_order
        Judge -> per item, whether its vote is unscored because one of two orders was not read.
    repaired
        Judge -> per item, whether its vote rests on a repaired reply; empty where the table does not say.
    """

    head: dict[str, Any]
    scale: Scale
    items: pd.Index
    unit: Ints
    annotators: Annotators
    judges: dict[str, tuple[Answers, Flags]]
    verdicts: bool
    kinds: dict[str, int]
    one_order: dict[str, Flags]
    repaired: dict[str, Flags]

    def bounds(self, figure: str) -> tuple[float, float]:
        """The ends of the ``score`` or, of ``passed`` and nominal scores, 0 and 1."""
        plain = figure == "passed" or self.scale.level == "nominal"
        return (0.0, 1.0) if plain else (self.scale.lowest, self.scale.highest)

    def classes(self) -> dict[str, int]:
        """The labels of the scale (interval scales: those that occur) and their numbers, in order."""
        if self.verdicts or (self.scale.is_open and self.scale.level == "nominal"):
            return self.kinds
        names = self.scale.labels if self.scale.level != "interval" else sorted(self.kinds, key=float)
        return {name: self.kinds.setdefault(name, len(self.kinds)) for name in names}


@dataclass(frozen=True, slots=True)
class Taken:
    """What every figure against people starts from: the two tables and the clusters, checked.

    Attributes
    ----------
    frame
        Votes, or scores as those of the judge ``jury``.
    people
        The labels, with ids spelled as in `frame`; missing ones have no row.
    clusters
        item_id -> cluster; None: the item.
    keys
        The keys as the user has them, for the result.
    part, note
        Which part of the labels these are, and a note on them.
    """

    frame: pd.DataFrame
    people: pd.DataFrame
    clusters: ClustersLike | None
    keys: Keys
    part: str | None = None
    note: str | None = None

    def of_part(self, part: str | None, *, weighted: bool = False) -> Taken:
        """With the labels of a part, that may stand for other items (`take_part`)."""
        people, note = take_part(self.people, part, weighted=weighted)
        return replace(self, people=people, part=part, note=note)

    def panels(self, kinds: Kinds = "score", keys: list[str] | None = None) -> Iterator[Panel]:
        """As the function `panels`."""
        return panels(self.frame, self.people, keys=keys, clusters=self.clusters, kinds=kinds)

    def finished(self, table: pd.DataFrame, cache: str | Path | None = None) -> pd.DataFrame:
        """The figures with the user's keys; a look at held-out labels is counted."""
        return self.keys.restore(count_look(table, self.people, cache) if self.part == HELD_OUT else table)


def taken(
    judged: JudgedLike, labels: LabelsLike | None, function: str, clusters: ClustersLike | None = None, *,
    scale: ScaleLike | None = None, of: Literal["votes", "scores"] = "votes",
) -> Taken:  # fmt: skip
    """Votes or scores, of an evaluation those named in `of`, and all labels (by default those of the evaluation).

    Raises
    ------
    InputError
        When columns are missing, a row is double, or there are no labels, or none of a criterion that was judged.
    """
    table: Any = judged if isinstance(judged, pd.DataFrame) else getattr(judged, of, judged)
    answers = ["score", "label", "passed", "tied", "level", "scale"]
    frame, keys = take_votes(table, need=answers, function=function, scale=scale)
    people = labels_for(judged, labels, list(map(str, frame["criterion"].unique())))
    is_of_one = isinstance(judged, pd.DataFrame) and "criterion" not in names_in(judged)
    if is_of_one and people["criterion"].nunique() == 1 and len(frame):
        people = people.assign(criterion=frame["criterion"].iloc[:1].repeat(len(people)).array)  # both are of one
    people = people.loc[people["label"].notna().to_numpy()]
    return Taken(frame, of_items(people, frame), clusters_for(frame, clusters, judged), keys)


def panels(
    frame: pd.DataFrame, said: pd.DataFrame, *, keys: list[str] | None = None, clusters: ClustersLike | None = None,
    kinds: Kinds = "score",
) -> Iterator[Panel]:  # fmt: skip
    """The panels of two checked tables, in order of first appearance.

    Parameters
    ----------
    keys
        Columns that separate panels; `CRITERION_KEY` by default, further ones may be NA.
    clusters
        item_id -> cluster; the item by default.
    kinds
        ``score``: verdicts if the criterion has a pass rule, else labels. ``label``: labels, but verdicts
        where people gave nothing else. ``passed``: verdicts.

    Raises
    ------
    InputError
        For a label that is not on its scale.
    """
    keys = keys or CRITERION_KEY
    units, pieces = split_rows(frame, keys, clusters)
    has_groups = len(keys) > len(CRITERION_KEY)  # maybe hundreds: each reads the labels of its own items alone
    rows_of = said.groupby("item_id", observed=True).indices if has_groups else {}
    while pieces:
        index = pieces.pop(0)
        piece, names = frame.iloc[index], units.iloc[index]
        if not pieces:
            del frame, units  # the figures need much memory, too
        head = {key: piece[key].iloc[0] for key in keys}
        label_rows = [rows_of[item] for item in piece["item_id"].unique() if item in rows_of]
        near = said.iloc[np.sort(np.concatenate([[], *label_rows])).astype(np.int64)] if has_groups else said
        of_criterion = near.loc[(near["criterion"] == head["criterion"]).to_numpy()]
        yield _panel(head, piece, of_criterion, names, kinds)


def _panel(head: dict[str, Any], piece: pd.DataFrame, said: pd.DataFrame, clusters: pd.Series, want: Kinds) -> Panel:
    scale = Scale.from_json(str(piece["level"].iloc[0]), str(piece["scale"].iloc[0]))
    # without the labels of other criteria
    piece = piece.assign(**{name: used_categories(piece[name]) for name in ("label", "tied_labels") if name in piece})
    first = np.flatnonzero(~piece["item_id"].duplicated().to_numpy())  # texts of the items, not of every row
    items = pd.Index(piece["item_id"].iloc[first], dtype=object)
    order = items.argsort()
    items, unit = items[order], cluster_codes(clusters.iloc[first])[order]
    verdicts = scale.has_rule if want == "score" else want == "passed" or are_verdicts(said, scale)
    kinds: dict[str, int] = dict(_VERDICTS) if verdicts else {}
    if scale.is_open and scale.level == "nominal":  # texts are compared as on a scale: case does not matter
        spelled = {folded(text): text for text in piece["label"].cat.categories}
        texts = said["label"].astype(object).map(lambda text: spelled.setdefault(folded(text), text))
        said = said.assign(label=schemas.categorical(texts.to_numpy(dtype=object)))
    criterion = str(piece["criterion"].iloc[0])
    annotators = annotators_of(said, items, scale, kinds, criterion, verdicts=verdicts)
    judges, lost, repaired = {}, {}, {}
    for judge in piece["judge"].unique():
        rows = piece.loc[(piece["judge"] == judge).to_numpy()]
        rows = rows if verdicts else with_numbers_as_labels(rows, ends=True)
        judges[str(judge)] = _answers(rows, items, kinds, verdicts=verdicts)
        if "reason" in rows and ONE_ORDER in rows["reason"].cat.categories:
            lost[str(judge)] = np.asarray(items.isin(rows["item_id"][rows["reason"].eq(ONE_ORDER).fillna(value=False)]))
        if "repaired" in rows:
            repaired[str(judge)] = np.asarray(items.isin(rows["item_id"][schemas.repaired_rows(rows)]))
    return Panel(head, scale, items, unit, annotators, judges, verdicts, kinds, lost, repaired)


def _answers(own: pd.DataFrame, items: pd.Index, kinds: dict[str, int], *, verdicts: bool) -> tuple[Answers, Flags]:
    index = items.get_indexer(pd.Index(own["item_id"]))
    kind = np.full(len(items), -1, dtype=np.int64)
    score, tied, was_asked = np.full(len(items), np.nan), np.zeros(len(items), bool), np.zeros(len(items), bool)
    kind[index] = verdict_codes(own["passed"]) if verdicts else kinds_of(own["label"], kinds)
    score[index] = own["score"].to_numpy(dtype=np.float64)
    tied[index] = own["tied"].to_numpy() & (kind[index] < 0)
    was_asked[index] = True
    if verdicts and "reason" in own:  # a tie of labels whose verdict unscored samples left open is no tie of verdicts
        tied[index] &= own["reason"].eq("tied").fillna(value=False).to_numpy(dtype=bool)
    if verdicts or "tied_labels" not in own:
        return Answers(kind, score, tied), was_asked
    cells = own["tied_labels"]
    among = np.full(len(items), -1, dtype=np.int64)
    among[index] = np.where(tied[index], cells.cat.codes.to_numpy(), -1)
    sets = (labels_among(cell) for cell in cells.cat.categories)
    return Answers(
        kind, score, tied, among, tuple(tuple(kinds.setdefault(name, len(kinds)) for name in names) for names in sets)
    ), was_asked
