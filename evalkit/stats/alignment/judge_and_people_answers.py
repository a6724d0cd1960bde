"""Panels: the judges and the people of one criterion, spread over the same items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from evalkit.rubrics.given_scales import ScaleLike
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.scales import Scale, folded
from evalkit.stats.alignment import label_values
from evalkit.stats.alignment.agreement_measures import Answers
from evalkit.stats.alignment.label_splits import HELD_OUT, count_look, take_part
from evalkit.stats.alignment.label_values import Annotators, JudgedLike
from evalkit.stats.intervals import cluster_codes
from evalkit.stats.order_flips import ONE_ORDER
from evalkit.stats.plain_tables import Keys, names_in
from evalkit.stats.result_tables import CRITERION_KEY, clusters_for, split_rows, verdict_codes, with_numbers_as_labels
from evalkit.stats.touched_tables import take_votes
from evalkit.tables import schemas
from evalkit.tables.grouping import ClustersLike, Flags, Ints, used_categories
from evalkit.tables.ties import labels_among

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
    judged: JudgedLike, labels: LabelsLike, function: str, clusters: ClustersLike | None = None, *,
    scale: ScaleLike | None = None, of: Literal["votes", "scores"] = "votes",
) -> Taken:  # fmt: skip
    """Votes or scores, of an evaluation those named in `of`, and all labels.

    Raises
    ------
    InputError
        When columns are missing, a row is double, or no label is of a criterion that was judged.
    """
    table: Any = judged if isinstance(judged, pd.DataFrame) else getattr(judged, of, judged)
    answers = ["score", "label", "passed", "tied", "level", "scale"]
    frame, keys = take_votes(table, need=answers, function=function, scale=scale)
    people = label_values.labels_for(judged, labels, list(map(str, frame["criterion"].unique())))
    is_of_one = isinstance(judged, pd.DataFrame) and "criterion" not in names_in(judged)
    if is_of_one and people["criterion"].nunique() == 1 and len(frame):
        people = people.assign(criterion=frame["criterion"].iloc[:1].repeat(len(people)).array)  # both are of one
    people = people.loc[people["label"].notna().to_numpy()]
    return Taken(frame, label_values.of_items(people, frame), clusters_for(frame, clusters, judged), keys)


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
    verdicts = scale.has_rule if want == "score" else want == "passed" or label_values.are_verdicts(said, scale)
    kinds: dict[str, int] = dict(_VERDICTS) if verdicts else {}
    if scale.is_open and scale.level == "nominal":  # texts are compared as on a scale: case does not matter
        spelled = {folded(text): text for text in piece["label"].cat.categories}
        texts = said["label"].astype(object).map(lambda text: spelled.setdefault(folded(text), text))
        said = said.assign(label=schemas.categorical(texts.to_numpy(dtype=object)))
    criterion = str(piece["criterion"].iloc[0])
    annotators = label_values.annotators_of(said, items, scale, kinds, criterion, verdicts=verdicts)
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
    kind[index] = verdict_codes(own["passed"]) if verdicts else label_values.kinds_of(own["label"], kinds)
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
