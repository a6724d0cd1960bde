"""Human labels, read as codes, scores and verdicts of the criterion's scale."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit.core.lists_of_choices import Reference
from evalkit.errors import InputError, listed
from evalkit.rubrics import Rubric
from evalkit.rubrics.criteria import OF_STEPS
from evalkit.rubrics.human_labels import TEXT_HASH, LabelsLike, allowed_labels, as_labels, boolean_text, of_judged
from evalkit.rubrics.scales import Scale, code_text, has_thousands, number
from evalkit.stats.alignment.agreement_measures import Answers
from evalkit.stats.plain_tables import refuse_twice, with_index
from evalkit.stats.result_tables import own_clusters
from evalkit.tables.grouping import ID_NOTES, ClustersLike, Flags, Ints, match_ids, refuse_doubles, tally
from evalkit.tables.schemas import LABEL_KEY, check
from evalkit.tables.steps import NO_STEP

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
    judged: object, labels: LabelsLike, criteria: Sequence[str] | None = None, versions: Collection[str] = ()
) -> pd.DataFrame:
    """The long labels table; a mapping is read from the items of an evaluation.

    Raises
    ------
    InputError
        For a mapping if `judged` is a table, and as `as_labels`, which takes the `criteria` and `versions`.
    """
    if isinstance(judged, (pd.DataFrame, pd.Series)):  # whose `items` are others
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
        notes |= dict.fromkeys(labels.attrs.get(LOST_IDS, ()))
        notes |= dict.fromkeys([_UNCHECKED] if TEXT_HASH in labels else ())
        notes |= dict.fromkeys(_doubtful_names(labels, [*map(str, criteria)]))
    has_label = labels["label"].notna()
    is_judged = labels["criterion"].isin(criteria) & has_label
    if has_label.any() and len(judged) and not is_judged.any():
        fact = f"the labels are for criterion {listed(labels.loc[has_label, 'criterion'].unique())}"
        advice = "in the labels, use the criterion's name in the rubric"
        raise InputError(f"{fact}, but criterion {listed(criteria)} was judged; {advice}")
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


def clusters_for(judged: object, clusters: ClustersLike | None) -> ClustersLike | None:
    """The clusters passed, else those of an evaluation or of a table's own column `group_id`."""
    if isinstance(judged, pd.DataFrame):
        table = with_index(judged)
        refuse_twice(table, "judgments" if "sample" in table else "votes")
        return own_clusters(table, clusters)
    return getattr(judged, "clusters", None) if clusters is None else clusters


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
    text = ", ".join(scale.labels)
    if scale == OF_STEPS:
        text = f"{NO_STEP!r} and numbers of messages"
    elif scale.is_open:
        text = "any number (for words, or true and false, pass scale=)"
    elif scale.level == "ordinal":
        text += ", a number between them (a mean)"
    elif scale.level == "interval":
        text = f"any number from {code_text(scale.codes[0])} to {code_text(scale.codes[-1])}"
    return text


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
        fact = f"labels of criterion {criterion!r} are not on its scale: {listed(unknown)}"
        raise InputError(f"{fact}; {allowed_labels(_allowed(scale), scale, unknown[0])}")


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
