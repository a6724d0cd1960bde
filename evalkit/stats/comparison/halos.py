"""Halo: whether criteria that one reply judges influence each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.formatting import Bill
from evalkit.errors import InputError, listed
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.stats.comparison.compare_evaluations import kinds_of, labels_of_sides, people_of
from evalkit.stats.comparison.sides import ROW, JudgmentsLike, Part, judges_several_criteria, pairs, side_of
from evalkit.stats.intervals import (
    change_interval,
    jackknife_groups,
    moments,
    ratio,
    unit_codes,
    unit_sums,
    without_each,
)
from evalkit.stats.result_tables import Notes, figure_row, jackknife_row, note_few_clusters, result_table, with_id_notes
from evalkit.tables.grouping import ClustersLike, Floats, Ints
from evalkit.tables.items import ItemsLike, as_items

ALL = "all criteria"
_COLUMNS = (
    "text: rubric judge criterion; number: correlation_single± correlation_together± correlation_change±",
    "number: correlation_labels± agreement_single agreement_together agreement_change±",
    "number: usd_per_item_single usd_per_item_together calls_per_item_single calls_per_item_together",
    "number: coverage_single coverage_together; count: n_common n_clusters n_labelled; text: notes",
)


@with_id_notes
def halo(
    single: JudgmentsLike,
    together: JudgmentsLike,
    labels: LabelsLike | None = None,
    *,
    items: ItemsLike | None = None,
    clusters: ClustersLike | None = None,
) -> pd.DataFrame:
    """What judging several criteria with one reply (`criteria_per_call`) does to their scores.

    A judge that sees several criteria at once may let its impression of one colour the others (a halo, Thorndike 1920):
    then their scores correlate more than those of single calls, and more than people's.

    Parameters
    ----------
    single, together
        Evaluations or judgments tables of the same items, rubric and judges: with one criterion per call, and with
        several. Noise lowers correlations, so use the same number of samples.
    labels
        Human labels, as for `compare`; by default those of the evaluations.
    items
        Of criteria that belong to items: the rows of `explode_criteria`. Then the correlations are between verdicts on
        criteria of one item, and other rows are left out.
    clusters
        item_id -> cluster, for the intervals; by default those of the evaluation, else `group_id` of `items`, else the
        item.

    Returns
    -------
    DataFrame
        For each `rubric` and `judge` (and the ``jury``) one row for ``all criteria`` and one for each `criterion`:

        - `correlation_single`, `correlation_together` (−1 to 1): mean over pairs of criteria (of a criterion: with each
          other one) of Pearson's r between the scores of items that have both scores on both sides;
          `correlation_change`: together − single. With `correlation_labels`, the same among people's majority labels.
          With `items`: the intraclass correlation (Fisher 1925) over all pairs of criteria of one item, of scores that
          count for the answer (of criteria with negative points: 1 − score), and there is one row, of all criteria;
        - `agreement_single`, `agreement_together`: share 0-1 of the verdicts that are people's, on items with a verdict
          on both sides and a label; `agreement_change`: together − single;
        - `_low`, `_high`: 95 % intervals by clusters, the jackknife for correlations; the judges are fixed;
        - `usd_per_item_…` (NA if a price is unknown; with `items`, of whole items) and `calls_per_item_…`, for all
          criteria together; each reply counts once;
        - `coverage_…`: share 0-1 of the judgments that are scored;
        - `n_common` items in `n_clusters` clusters, `n_labelled` verdicts that `agreement_change` is of, `notes`.

    Raises
    ------
    InputError
        When the sides share fewer than two criteria of a judge, or were not judged in these two ways.

    Examples
    --------
    >>> import evalkit as ek
    >>> rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": n, "scale": {0: "", 1: ""}} for n in "ab"])
    >>> items = [{"answer": text} for text in ("one", "two", "three", "four")]
    >>> ways = [ek.judge(items, rubric, "fake:strict", samples=1, criteria_per_call=k) for k in (1, 2)]
    >>> halo(*ways)[["criterion", "calls_per_item_single", "calls_per_item_together"]].values.tolist()[0]
    ['all criteria', 2.0, 1.0]
    """
    sides = side_of(single, "single"), side_of(together, "together")
    rows_of = None if items is None else _rows_of_items(items, sides[0].votes["item_id"].astype("str"))
    if judges_several_criteria(sides[0].judgments, rows_of):
        raise InputError("the table single= has replies on several criteria; make it again with criteria_per_call=1")
    if not judges_several_criteria(sides[1].judgments, rows_of):
        advice = "" if rows_of is not None else " (for criteria of the items' own, pass the rows as items=)"
        raise InputError(
            f"the table together= has no replies on several criteria; make it with criteria_per_call='all'{advice}"
        )
    clusters = sides[0].clusters if clusters is None else clusters
    if clusters is None and rows_of is not None:
        clusters = rows_of["group_id"]
    labels_of_both = labels_of_sides(single, together, labels, sides)
    by_judge: dict[tuple[str, str], list[tuple[Part, Part]]] = {}
    for pair in pairs(*sides):
        by_judge.setdefault((pair[0].head[0], pair[0].head[2]), []).append(pair)
    by_judge = {head: parts for head, parts in by_judge.items() if len(parts) > 1 or rows_of is not None}
    if not by_judge:
        raise InputError(
            "single= and together= have no judge with the same two criteria; judge one rubric in both (criteria of "
            "the items' own: pass the rows of explode_criteria as items=)"
        )
    rows = [
        row | {"notes": [labels_of_both.note, *row["notes"]]}
        for parts in by_judge.values()
        for row in _rows(parts, labels_of_both.people, clusters, rows_of)
    ]
    return result_table(rows, *_COLUMNS)


def _rows_of_items(items: ItemsLike, judged: pd.Series) -> pd.DataFrame:
    frame = as_items(items).set_index("item_id")
    if lacking := [name for name in ("of_item", "requirement", "points", "group_id") if name not in frame]:
        raise InputError(f"halo: items= has no column {listed(lacking)}; pass the rows of explode_criteria")
    if not judged.isin(frame.index).any():
        raise InputError(f"halo: items= has none of the judged rows, such as {listed(judged.unique(), most=3)}")
    return frame


def _rows(
    parts: Sequence[tuple[Part, Part]],
    labels: pd.DataFrame | None,
    clusters: ClustersLike | None,
    rows_of: pd.DataFrame | None,
) -> Iterator[dict[str, Any]]:
    items = {item for pair in parts for item in set(pair[0].rows.index) & set(pair[1].rows.index)}
    common = pd.Index(sorted(items if rows_of is None else items & {*rows_of.index}), dtype=object)
    units = unit_codes(common, clusters)
    names, head = [first.head[1] for first, _ in parts], dict(zip(ROW, parts[0][0].head, strict=True))
    scores = [[part.norms(common) for part in pair] for pair in parts]
    people = [_people(first, labels, common) for first, _ in parts]
    n_items = len(common) if rows_of is None else rows_of["of_item"].reindex(common).nunique()
    if rows_of is None:
        correlations = {
            (a, b): _correlations(scores[a], scores[b], people[a], people[b], units)
            for a, b in combinations(range(len(parts)), 2)
        }
    else:
        correlations = {(0, 0): _within_items(scores[0], people[0], parts[0][0], rows_of.loc[common], units)}
    steps = [_steps(*pair, labels, common) for pair in parts]
    for number, name in enumerate([ALL, *names] if rows_of is None else [ALL], -1):
        notes: Notes = []
        chosen = [values for pair, values in correlations.items() if number < 0 or number in pair]
        row: dict[str, Any] = (
            head
            | _of_correlations(chosen, units, notes, labelled=labels is not None)
            | _of_agreement([steps[number]] if number >= 0 else steps, units, notes)
            | {"criterion": name, "n_common": len(common), "n_clusters": len(np.unique(units)), "notes": notes}
        )
        for way, side in zip(("single", "together"), zip(*parts, strict=True), strict=True):
            row |= _of_way(way, side if number < 0 else [side[number]], common, n_items if number < 0 else 0)
        note_few_clusters(units, notes)
        yield row


def _people(part: Part, labels: pd.DataFrame | None, common: pd.Index) -> Floats:
    if labels is None:
        return np.full(len(common), np.nan)
    return people_of(part, labels, common).score * (-1 if part.scale.better == "low" else 1)


def _correlations(one: list[Floats], other: list[Floats], mine: Floats, theirs: Floats, units: Ints) -> list[Floats]:
    """Pearson's r of two criteria, single, together and of people: on all items, then without each group of units."""
    scored = ~np.isnan(np.array([*one, *other])).any(axis=0)
    groups, n_groups = jackknife_groups(units)
    labelled = ~np.isnan(mine) & ~np.isnan(theirs)
    sides = [(one[0], other[0], scored), (one[1], other[1], scored), (mine, theirs, labelled)]
    return [moments(x[rows], y[rows], groups[rows], n_groups + 1)["pearson"] for x, y, rows in sides]


def _within_items(scores: list[Floats], people: Floats, part: Part, rows: pd.DataFrame, units: Ints) -> list[Floats]:
    """The intraclass correlation of criteria of one item, single, together and of people: on all, then without each."""
    groups, n_groups = jackknife_groups(units)
    codes, negative = pd.factorize(rows["of_item"])[0], rows["points"].to_numpy(dtype=np.float64) < 0
    ends = np.sort(np.multiply([part.scale.lowest, part.scale.highest], 1 if part.scale.better == "high" else -1))
    values = np.array([*scores, (people - ends[0]) / (ends[1] - ends[0])])
    values = np.where(negative, 1 - values, values)
    scored = ~np.isnan(values[:2]).any(axis=0)
    correlations = []
    for x, used in zip(values, (scored, scored, ~np.isnan(values[2])), strict=True):
        merit, has_merit = np.where(used, x, 0.0), used.astype(np.float64)
        n, s, squares = (np.bincount(codes, weights=column) for column in (has_merit, merit, merit**2))
        # over ordered pairs of an item: how many, the sum of one of the two, of its square, and of their products
        sums = np.column_stack([n * (n - 1), (n - 1) * s, (n - 1) * squares, s**2 - squares])
        first = pd.Series(groups).groupby(codes).first().to_numpy()
        count, total, square, product = without_each(unit_sums(np.where(n[:, None] > 1, sums, 0.0), first, n_groups)).T
        mean = ratio(total, count)
        correlations.append(ratio(ratio(product, count) - mean**2, ratio(square, count) - mean**2))
    return correlations


def _of_correlations(pairs_of: list[list[Floats]], units: Ints, notes: Notes, *, labelled: bool) -> dict[str, Any]:
    values = np.array(pairs_of)  # pairs × ways × groups
    defined = ~np.isnan(values[:, :2, 0]).any(axis=1)
    why = "a criterion has fewer than three scores, or the same score everywhere"
    if n := int((~defined).sum()):
        notes.append(f"{n} of {len(defined)} pairs of criteria have no correlation: {why}")
    row: dict[str, Any] = {}
    if defined.any():
        alone, together, human = values[defined].mean(axis=0)
        row |= (
            jackknife_row("correlation_single", alone, "atanh", notes, why, units)
            | jackknife_row("correlation_together", together, "atanh", notes, why, units)
            | jackknife_row("correlation_change", together - alone, "none", notes, why, units)
        )
        if labelled:
            row |= jackknife_row("correlation_labels", human, "atanh", notes, "the labels of a pair have none", units)
    return row


def _steps(single: Part, together: Part, labels: pd.DataFrame | None, common: pd.Index) -> Ints:
    """Of each item whether the verdict is people's, by way; −1 where a verdict or the label is missing."""
    right = np.full((2, len(common)), -1, dtype=np.int64)
    if labels is not None and single.scale.has_rule and together.scale.has_rule:
        kinds, truth = kinds_of(single, together, common), people_of(single, labels, common).kind
        has_kinds = (kinds[0] >= 0) & (kinds[1] >= 0) & (truth >= 0)
        right[:, has_kinds] = [(kind == truth)[has_kinds] for kind in kinds]
    return right


def _of_agreement(steps: list[Ints], units: Ints, notes: Notes) -> dict[str, Any]:
    right, unit = np.concatenate(steps, axis=1), np.tile(units, len(steps))
    labelled = right[0] >= 0
    if not labelled.any():
        return {"n_labelled": 0}
    alone, together = right[:, labelled].astype(np.float64)
    ends = change_interval(together - alone, unit[labelled])
    return {
        "n_labelled": int(labelled.sum()),
        "agreement_single": float(alone.mean()),
        "agreement_together": float(together.mean()),
    } | figure_row("agreement_change", float((together - alone).mean()), ends, notes)


def _of_way(way: str, parts: Sequence[Part], common: pd.Index, n_items: int) -> dict[str, float]:
    rows = pd.concat([part.judgments for part in parts])
    rows = rows.loc[rows["item_id"].isin(common).to_numpy()]
    row = {f"coverage_{way}": float(rows["error"].isna().mean())}
    if n_items:
        bill = Bill.of(rows)
        row |= {f"usd_per_item_{way}": bill.usd / n_items, f"calls_per_item_{way}": bill.n_replies / n_items}
    return row
