"""Effects: flips from one side to the other, compared with those of a second set of samples of the same prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from evalkit.errors import counted
from evalkit.probes.verdicts_before_and_after import KEYS, verdict_texts
from evalkit.stats.comparison.measured_floors import NOT_ASKED, NOT_MEASURED, changed_halves
from evalkit.stats.intervals import Interval, cluster_codes, effective_clusters, mean_interval, wilson
from evalkit.stats.notes import Note, Notes, joined, note_few_clusters
from evalkit.stats.result_tables import columns, figure_row, result_table
from evalkit.stats.voting import vote
from evalkit.tables.files import records
from evalkit.tables.grouping import Floats, Ints, clusters_of, group

ALL = "all"
_COLUMNS = columns(
    [*KEYS, "variant"],
    "count: n_items n flips toward against; number: flip_rate expected_by_chance excess± shift±; text: notes",
)
_WORST = ["criterion", "judge", "variant", "item_id", "before", "after", "expected"]
_TOLERANCE = 1e-12
_WORTH = {"pass": 1.0, "fail": 0.0, "A": 1.0, "B": 0.0, "tie": 0.5}


def halves_of(repeats: pd.DataFrame, samples: int) -> pd.Series:
    """Per criterion, judge and item: how often two sets of `samples` samples of the same prompt differ in verdict.

    `repeats` has twice the samples. Pairs: of both orders, the mean. Items with fewer samples are left out.
    """
    pairwise = bool(repeats["order"].notna().any())
    groups = group(repeats, [*KEYS, "order"] if pairwise else KEYS)
    parts = []
    for number, first in enumerate(groups.first):
        rows, head = repeats.loc[groups.codes == number], repeats[KEYS].iloc[first].astype(str)
        changed = changed_halves(rows, samples, (head["judge"],), vote, rule=not pairwise)
        parts.append(changed.rename(index=str).to_frame("expected").assign(**head))
    if not parts:
        return pd.Series(dtype=np.float64)
    table = pd.concat(parts).rename_axis("item_id").reset_index()
    by = table.groupby([*KEYS, "item_id"])["expected"].agg(["mean", "count"])
    return by.loc[by["count"].eq(2 if pairwise else 1), "mean"]


def passes_again(repeats: pd.DataFrame, samples: int) -> pd.Series:
    """Per criterion, judge and item: whether a second set of `samples` samples passes; missing if it was not judged."""
    number = repeats["sample"]
    second = repeats.loc[(number.between(samples, 2 * samples - 1) & ~repeats["error"].isin(NOT_ASKED)).to_numpy()]
    votes = vote(second)
    votes = votes.loc[votes["n_samples"].eq(samples).to_numpy()]
    passed = votes["passed"].fillna(value=False).to_numpy(dtype=np.float64)
    return pd.Series(passed, index=pd.MultiIndex.from_frame(votes[[*KEYS, "item_id"]].astype(str)))


def pair_sides(
    verdicts: pd.DataFrame, before: str, after: str, *, variant: str, expected: pd.Series, only_failed: bool = False
) -> pd.DataFrame:
    """One row per criterion, judge and item that is on both sides of a `verdict_table`.

    Columns: `KEYS`, `variant`, `item_id`, `before_side`, `after_side`, the verdicts `before` and `after`, `flipped` (1
    or 0; NaN without a verdict on both sides), `expected` (the flips of a second set of samples, by `KEYS` and
    item; NaN where there is none), `toward` (the sign of the change), `shift` (of the score), `rule`.
    """
    keys = [*KEYS, "item_id"]
    first, second = (verdicts.loc[verdicts["side"].eq(side)] for side in (before, after))
    if only_failed:
        first = first.loc[first["verdict"].eq("fail")]
    pairs = first.merge(second, on=keys, suffixes=("_before", "_after"))
    known = pairs["verdict_before"].notna() & pairs["verdict_after"].notna()
    change = pairs["verdict_after"].map(_WORTH) - pairs["verdict_before"].map(_WORTH)
    chance = expected.reindex(pd.MultiIndex.from_frame(pairs[keys])).to_numpy() if len(expected) else np.nan
    return pairs[keys].assign(
        variant=variant, before_side=before, after_side=after, before=pairs["verdict_before"],
        after=pairs["verdict_after"], flipped=change.ne(0).astype("float64").where(known),
        expected=pd.Series(chance, index=pairs.index, dtype="float64").where(known),
        toward=np.sign(change.astype("float64").fillna(0.0)), shift=pairs["score_after"] - pairs["score_before"],
        rule=pairs["rule_before"],
    )  # fmt: skip


def effects_table(
    pairs: pd.DataFrame, heads: pd.DataFrame, variants: Sequence[str], clusters: Mapping[str, Any] | pd.Series
) -> pd.DataFrame:
    """The table of a probe: one row per head (rubric, criterion, judge) and variant, ``all`` first of several."""
    units = cluster_codes(clusters_of(pairs["item_id"], clusters)) if len(pairs) else np.zeros(0, dtype=np.int64)
    rows = []
    for head in records(heads[KEYS]):
        of_head = np.ones(len(pairs), dtype=bool)
        for key, value in head.items():
            of_head &= pairs[key].astype(object).eq(value).to_numpy(dtype=bool)
        for variant in [ALL, *variants] if len(variants) > 1 else variants:
            own = of_head if variant == ALL else of_head & pairs["variant"].eq(variant).to_numpy(dtype=bool)
            rows.append(head | {"variant": variant} | _effect(pairs.loc[own], units[own]))
    return result_table(rows, _COLUMNS)


def _effect(own: pd.DataFrame, units: Ints) -> dict[str, Any]:
    flipped, expected = (own[name].to_numpy(dtype=np.float64) for name in ("flipped", "expected"))
    shift, toward = (own[name].to_numpy(dtype=np.float64) for name in ("shift", "toward"))
    known, moved = ~np.isnan(flipped), ~np.isnan(shift)
    n = int(known.sum())
    row: dict[str, Any] = {"n_items": len(own), "n": n, "flips": int(flipped[known].sum())}
    row |= {"toward": int((toward > 0).sum()), "against": int((toward < 0).sum())}
    row["flip_rate"] = row["flips"] / n if n else np.nan
    notes = _notes(own, n, units, int(np.isnan(expected[known]).sum()))
    if n and not np.isnan(expected[known]).any():
        row["expected_by_chance"] = float(expected[known].sum())
        interval = excess_interval(flipped[known], expected[known], units[known])
        row |= figure_row("excess", float((flipped - expected)[known].mean()), interval)
        notes += [Note(interval.reason, ("excess",))] if interval.reason else []
    if moved.any():
        row |= figure_row("shift", float(shift[moved].mean()), mean_interval(shift[moved], units[moved]))
    return row | {"notes": joined(notes)}


def _notes(own: pd.DataFrame, n: int, units: Ints, n_silent: int) -> Notes:
    if not len(own):
        return ["no items"]
    if not own["rule"].all():
        return ["no pass rule: no verdicts"]
    if not n:
        return ["no item has a verdict on both sides"]
    silent = f"{NOT_MEASURED}: {n_silent} of {counted(n, 'item')} without a second set of samples"
    notes: Notes = [silent] if n_silent else []
    note_few_clusters(units, notes)
    return notes


def excess_interval(flipped: Floats, expected: Floats, units: Ints) -> Interval:
    """The paired interval by clusters of the flips beyond those expected.

    Where no item flips, or all do, their variance is 0: then by the Wilson intervals of both shares, one count per
    cluster; squares of the distances to their ends add (Zou and Donner 2008).
    """
    if len(np.unique(units)) < 2:
        return Interval.none("fewer than two clusters")
    excess = flipped - expected
    middle = float(excess.mean())
    if np.ptp(flipped) <= _TOLERANCE:
        rate, floor = float(flipped[0]), float(expected.mean())
        flips, chance = wilson(rate, effective_clusters(units)), mean_interval(expected, units, bounds=(0.0, 1.0))
        low = middle - math.hypot(rate - flips.low, chance.high - floor)
        high = middle + math.hypot(flips.high - rate, floor - chance.low)
        return Interval(max(-1.0, low), min(1.0, high))
    plain = mean_interval(excess, units)
    return plain if plain.reason is not None else Interval(max(-1.0, plain.low), min(1.0, plain.high))


def worst_items(pairs: pd.DataFrame, judgments: pd.DataFrame) -> pd.DataFrame:
    """All flips in the probe's direction, then those against it, those that flip least by chance first."""
    flips = pairs.loc[pairs["flipped"].eq(1.0)]
    flips = flips.assign(_against=flips["toward"].to_numpy() <= 0)
    flips = flips.sort_values(["_against", "expected"], kind="stable", na_position="last").reset_index(drop=True)
    keys = ["criterion", "judge", "side", "item_id", "verdict"]
    explained = judgments.assign(verdict=verdict_texts(judgments)).dropna(subset=["explanation", "verdict"])
    explained = explained[[*keys, "explanation"]].astype(object).drop_duplicates(keys)
    texts = dict(zip(explained[keys].itertuples(index=False, name=None), explained["explanation"], strict=True))
    table = flips[_WORST].astype({"expected": "float64"})
    for when in ("before", "after"):
        names = ["criterion", "judge", f"{when}_side", "item_id", when]
        rows = flips[names].astype(object).itertuples(index=False, name=None)
        table[f"explanation_{when}"] = pd.Series([texts.get(row) for row in rows], dtype="str")
    return table
