"""Effects: flips from one side to another, beside those of a second set of samples of the same prompt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from evalkit import tables
from evalkit.errors import counted
from evalkit.probes.verdict_pairs import KEYS, Sides, verdicts
from evalkit.stats.comparison.noise_floors import NOT_ASKED, NOT_MEASURED, changed_halves
from evalkit.stats.intervals import FEW_CLUSTERS, Interval, cluster_codes, mean_interval, wilson
from evalkit.stats.voting import vote
from evalkit.tables.grouping import Floats, Ints, clusters_of, group

__all__ = ["ALL", "effects_table", "halves_of", "pair_sides", "passes_again", "worst_items"]

ALL = "all"
_COUNTS = ["n_items", "n", "flips", "toward", "against"]
_FLOATS = ["flip_rate", "expected_by_chance", "excess", "excess_low", "excess_high"]
_FLOATS += ["shift", "shift_low", "shift_high"]
_COLUMNS = [*KEYS, "variant", *_COUNTS, *_FLOATS, "notes"]
_WORST = ["criterion", "judge", "variant", "item_id", "before", "after", "expected"]
_TOLERANCE = 1e-12


def halves_of(repeats: pd.DataFrame, samples: int) -> pd.Series:
    """Per criterion, judge and item: how often two sets of `samples` samples of the same prompt differ in verdict.

    `repeats` has twice the samples. Pairs: of both orders, the mean. Items with fewer samples are left out.
    """
    found = []
    pairwise = bool(repeats["order"].notna().any())
    for head, rows in _by(repeats, [*KEYS, "order"] if pairwise else KEYS):
        judge = str(rows["judge"].iloc[0])
        changed = changed_halves(rows, samples, (judge,), vote, rule=not pairwise)
        found.append(changed.rename(index=str).to_frame("expected").assign(**dict(zip(KEYS, head, strict=False))))
    if not found:
        return pd.Series(dtype=np.float64)
    made = pd.concat(found).rename_axis("item_id").reset_index()
    by = made.groupby([*KEYS, "item_id"])["expected"].agg(["mean", "count"])
    return by.loc[by["count"].eq(2 if pairwise else 1), "mean"]


def passes_again(repeats: pd.DataFrame, samples: int) -> pd.Series:
    """Per criterion, judge and item: whether a second set of `samples` samples passes; NaN where it was not asked."""
    number = repeats["sample"]
    second = repeats.loc[(number.between(samples, 2 * samples - 1) & ~repeats["error"].isin(NOT_ASKED)).to_numpy()]
    votes = vote(second)
    votes = votes.loc[votes["n_samples"].eq(samples).to_numpy()]
    passed = votes["passed"].fillna(value=False).to_numpy(dtype=np.float64)
    return pd.Series(passed, index=pd.MultiIndex.from_frame(votes[[*KEYS, "item_id"]].astype(str)))


def _by(frame: pd.DataFrame, keys: list[str]) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    groups = group(frame, keys)
    for number, first in enumerate(groups.first):
        yield tuple(frame[keys].iloc[first].astype(str)), frame.loc[groups.codes == number]


def pair_sides(
    sides: Sides, before: str, after: str, *, variant: str, expected: pd.Series, only_failed: bool = False
) -> pd.DataFrame:
    """One row per criterion, judge and item that is on both sides.

    Columns: `KEYS`, `variant`, `item_id`, `before_side`, `after_side`, the verdicts `before` and `after`, `flipped` (1
    or 0; NaN without a verdict on both sides), `expected` (the flips of a second set of samples, by `KEYS` and
    item; NaN where there is none), `toward` (the sign of the change), `shift` (of the score), `rule`.
    """
    parts = []
    groups = group(sides.frame, KEYS)
    for number in range(len(groups)):
        own = sides.take(groups.codes == number)
        side = own.frame["side"].astype(object).to_numpy()
        first, second = own.take(side == before), own.take(side == after)
        place = pd.Index(second.frame["item_id"]).get_indexer(pd.Index(first.frame["item_id"]))
        first, second = first.take(place >= 0), second.take(place[place >= 0])
        parts.append(_paired(first, second, expected, variant))
    made = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=_PAIRED)
    return made.loc[made["before"].eq("fail")].reset_index(drop=True) if only_failed else made


_PAIRED = [*KEYS, "variant", "item_id", "before_side", "after_side", "before", "after"]
_PAIRED += ["flipped", "expected", "toward", "shift", "rule"]


def _paired(first: Sides, second: Sides, expected: pd.Series, variant: str) -> pd.DataFrame:
    made = first.frame[[*KEYS, "item_id"]].assign(variant=variant)
    old, new = first.verdict, second.verdict
    known = (old >= 0) & (new >= 0)
    keys = made[[*KEYS, "item_id"]].astype(str)
    chance = expected.reindex(pd.MultiIndex.from_frame(keys)).to_numpy(dtype=np.float64) if len(expected) else np.nan
    names = np.array([*first.names, None], dtype=object)
    worth = np.array([1.0, 0.0, 0.5] if len(first.names) == 3 else [0.0, 1.0])
    change = np.where(known, worth[new] - worth[old], 0.0)
    return made.assign(
        before_side=first.frame["side"].astype(object).to_numpy(),
        after_side=second.frame["side"].astype(object).to_numpy(),
        before=names[old],
        after=names[new],
        flipped=np.where(known, (old != new).astype(np.float64), np.nan),
        expected=np.where(known, chance, np.nan),
        toward=np.sign(change),
        shift=second.frame["score"].to_numpy() - first.frame["score"].to_numpy(),
        rule=first.rule,
    )[_PAIRED]


def effects_table(
    pairs: pd.DataFrame, heads: pd.DataFrame, variants: Sequence[str], clusters: Mapping[str, Any] | pd.Series
) -> pd.DataFrame:
    """The table of a probe: one row per head (rubric, criterion, judge) and variant, ``all`` first of several."""
    units = cluster_codes(clusters_of(pairs["item_id"], clusters)) if len(pairs) else np.zeros(0, dtype=np.int64)
    rows = []
    for head in heads[KEYS].astype(object).to_dict("records"):
        mine = np.ones(len(pairs), dtype=bool)
        for key, value in head.items():
            mine &= pairs[key].astype(object).eq(value).to_numpy(dtype=bool)
        for variant in [ALL, *variants] if len(variants) > 1 else variants:
            own = mine if variant == ALL else mine & pairs["variant"].eq(variant).to_numpy(dtype=bool)
            rows.append(head | {"variant": variant} | _effect(pairs.loc[own], units[own]))
    made = pd.DataFrame(rows, columns=_COLUMNS)
    for name in (*KEYS, "variant", "notes"):
        made[name] = tables.categorical(made[name])
    return made.astype(dict.fromkeys(_FLOATS, "float64") | dict.fromkeys(_COUNTS, "int64"))


def _effect(own: pd.DataFrame, units: Ints) -> dict[str, Any]:
    flipped, expected = (own[name].to_numpy(dtype=np.float64) for name in ("flipped", "expected"))
    shift, toward = (own[name].to_numpy(dtype=np.float64) for name in ("shift", "toward"))
    known, moved = ~np.isnan(flipped), ~np.isnan(shift)
    n = int(known.sum())
    row: dict[str, Any] = {"n_items": len(own), "n": n, "flips": int(flipped[known].sum())}
    row |= {"toward": int((toward > 0).sum()), "against": int((toward < 0).sum())}
    row["flip_rate"] = row["flips"] / n if n else np.nan
    interval, notes = Interval.none(""), _notes(own, n, units, int(np.isnan(expected[known]).sum()))
    if n and not np.isnan(expected[known]).any():
        row["expected_by_chance"] = float(expected[known].sum())
        row["excess"] = float((flipped - expected)[known].mean())
        interval = excess_interval(flipped[known], expected[known], units[known])
        notes += [f"excess: {interval.reason}"] if interval.reason else []
    row |= {"excess_low": interval.low, "excess_high": interval.high}
    spread = mean_interval(shift[moved], units[moved]) if moved.any() else Interval.none("")
    row["shift"] = float(shift[moved].mean()) if moved.any() else np.nan
    row |= {"shift_low": spread.low, "shift_high": spread.high}
    return row | {"notes": "; ".join(notes) or None}


def _notes(own: pd.DataFrame, n: int, units: Ints, n_silent: int) -> list[str]:
    if not len(own):
        return ["no items"]
    if not own["rule"].all():
        return ["no pass rule: no verdicts"]
    if not n:
        return ["no item has a verdict on both sides"]
    notes = [f"{NOT_MEASURED}: {n_silent} of {counted(n, 'item')} without a second set of samples"] if n_silent else []
    n_units = len(np.unique(units))
    return notes + ([f"only {counted(n_units, 'cluster')}"] if n_units < FEW_CLUSTERS else [])


def excess_interval(flipped: Floats, expected: Floats, units: Ints) -> Interval:
    """The paired interval by clusters of the flips beyond those expected.

    Where no item flips, or all do, their variance says nothing: then from the Wilson intervals of both shares, one
    count per cluster, as squares of the distances to them add (Zou and Donner 2008).
    """
    n_units = len(np.unique(units))
    if n_units < 2:
        return Interval.none("fewer than two clusters")
    excess = flipped - expected
    middle = float(excess.mean())
    if np.ptp(flipped) <= _TOLERANCE:
        rate, floor = float(flipped[0]), float(expected.mean())
        flips, chance = wilson(rate, n_units), mean_interval(expected, units, bounds=(0.0, 1.0))
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
    said = judgments.assign(verdict=verdicts(judgments)).dropna(subset=["explanation", "verdict"])
    said = said[[*keys, "explanation"]].astype(object).drop_duplicates(keys)
    texts = dict(zip(said[keys].itertuples(index=False, name=None), said["explanation"], strict=True))
    made = flips[_WORST].astype({"expected": "float64"})
    for when in ("before", "after"):
        names = ["criterion", "judge", f"{when}_side", "item_id", when]
        wanted = list(flips[names].astype(object).itertuples(index=False, name=None))
        made[f"explanation_{when}"] = pd.Series([texts.get(key) for key in wanted], dtype="str")
    return made
