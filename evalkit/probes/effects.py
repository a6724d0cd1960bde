"""Effects: flips from one side to another, beside those that chance explains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from evalkit import tables
from evalkit.changes.floors import NO_REPEATS, NO_RULE
from evalkit.errors import counted
from evalkit.intervals import FEW_CLUSTERS, Interval, cluster_codes, mean_interval, wilson
from evalkit.probes.sides import KEYS, Sides, verdicts
from evalkit.tables.grouping import Floats, Ints, clusters_of, group

__all__ = ["ALL", "effects_table", "pair_sides", "worst_items"]

ALL = "all"
_COUNTS = ["n_items", "n", "flips", "toward", "against"]
_FLOATS = ["flip_rate", "expected_by_chance", "excess", "excess_low", "excess_high"]
_FLOATS += ["shift", "shift_low", "shift_high"]
_COLUMNS = [*KEYS, "variant", *_COUNTS, *_FLOATS, "notes"]
_WORST = ["criterion", "judge", "variant", "item_id", "before", "after", "expected"]
_TOLERANCE = 1e-12
_GROUPS = 10


def pair_sides(
    sides: Sides, before: str, after: str, *, variant: str, only_failed: bool = False, clusters: Any = None
) -> pd.DataFrame:
    """One row per criterion, judge and item that is on both sides.

    Columns: `KEYS`, `variant`, `item_id`, `before_side`, `after_side`, the verdicts `before` and `after`, `flipped` (1
    or 0; NaN without a verdict on both sides), `expected` (the chance of a flip by sampling alone), `toward` (the sign
    of the change), `shift` (of the score), `repeated`, `rule`. With `only_failed` the chance is that of the side
    before alone, since the items were chosen by their verdict there; `expected_0` … are what it would be had some
    of the clusters not been seen.
    """
    parts = []
    groups = group(sides.frame, KEYS)
    for number in range(len(groups)):
        own = sides.take(groups.codes == number)
        side = own.frame["side"].astype(object).to_numpy()
        first, second = own.take(side == before), own.take(side == after)
        fitted = first if only_failed else own.take((side == before) | (side == after))
        place = pd.Index(second.frame["item_id"]).get_indexer(pd.Index(first.frame["item_id"]))
        both = place >= 0
        chance = first.chances(fitted)[both]
        others = _without_some(first, clusters)[:, both] if only_failed else np.zeros((0, int(both.sum())))
        first, second = first.take(both), second.take(place[both])
        if not only_failed:
            chance = (chance + second.chances(fitted)) / 2
        made = _paired(first, second, chance, variant)
        parts.append(made.assign(**{f"expected_{at}": other for at, other in enumerate(others)}))
    made = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=_PAIRED)
    return made.loc[made["before"].eq("fail")].reset_index(drop=True) if only_failed else made


_PAIRED = [*KEYS, "variant", "item_id", "before_side", "after_side", "before", "after"]
_PAIRED += ["flipped", "expected", "toward", "shift", "repeated", "rule"]


def _without_some(first: Sides, clusters: Any) -> Floats:
    """The chances by fits that leave out a group of clusters in turn, one row per group, 10 at most."""
    units = cluster_codes(clusters_of(first.frame["item_id"], clusters))
    groups = units % _GROUPS
    left = [groups != at for at in range(min(_GROUPS, int(units.max(initial=-1)) + 1))]
    made = [first.chances(first.take(rows)) for rows in left if first.n[rows].max(initial=0) > 1]
    return np.array(made).reshape(len(made), len(first.n))


def _paired(first: Sides, second: Sides, chance: Floats, variant: str) -> pd.DataFrame:
    made = first.frame[[*KEYS, "item_id"]].assign(variant=variant)
    old, new = first.verdict, second.verdict
    known = (old >= 0) & (new >= 0)
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
        repeated=np.minimum(first.k, second.k) > 1,
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
    interval, notes = Interval.none(""), _notes(own, n, units)
    if n and not np.isnan(expected[known]).any():
        row["expected_by_chance"] = float(expected[known].sum())
        row["excess"] = float((flipped - expected)[known].mean())
        interval = excess_interval(flipped[known], expected[known], units[known], _fit_variance(own.loc[known]))
        notes += [f"excess: {interval.reason}"] if interval.reason else []
    row |= {"excess_low": interval.low, "excess_high": interval.high}
    spread = mean_interval(shift[moved], units[moved]) if moved.any() else Interval.none("")
    row["shift"] = float(shift[moved].mean()) if moved.any() else np.nan
    row |= {"shift_low": spread.low, "shift_high": spread.high}
    return row | {"notes": "; ".join(notes) or None}


def _fit_variance(own: pd.DataFrame) -> float:
    """The variance that the fit adds to the mean of what is expected: a jackknife over groups of clusters."""
    others = own[[name for name in own.columns if name.startswith("expected_")]].mean(axis=0).dropna().to_numpy()
    return float((len(others) - 1) * np.var(others)) if len(others) > 1 else 0.0


def _notes(own: pd.DataFrame, n: int, units: Ints) -> list[str]:
    if not len(own):
        return ["no items"]
    if not own["rule"].all():
        return [NO_RULE]
    notes = [] if own["repeated"].any() else [NO_REPEATS]
    if not n:
        return [*notes, "no item has a verdict on both sides"]
    n_units = len(np.unique(units))
    return notes + ([f"only {counted(n_units, 'cluster')}"] if n_units < FEW_CLUSTERS else [])


def excess_interval(flipped: Floats, expected: Floats, units: Ints, variance: float = 0.0) -> Interval:
    """The paired interval by clusters of the flips beyond those expected; `variance` is what the fit adds.

    Where no item flips, or all do, their variance says nothing: Wilson's interval of the rate, one count per
    cluster, less the mean of what is expected.
    """
    n_units = len(np.unique(units))
    if n_units < 2:
        return Interval.none("fewer than two clusters")
    if np.ptp(flipped) <= _TOLERANCE:
        rate, floor = wilson(float(flipped[0]), n_units), float(expected.mean())
        return Interval(rate.low - floor, rate.high - floor)
    from scipy.special import stdtrit

    excess = flipped - expected
    middle, plain = float(excess.mean()), mean_interval(excess, units)
    if plain.reason is not None:
        return plain
    half = math.hypot((plain.high - plain.low) / 2, float(stdtrit(n_units - 1, 0.975)) * math.sqrt(variance))
    return Interval(max(-1.0, middle - half), min(1.0, middle + half))


def worst_items(pairs: pd.DataFrame, judgments: pd.DataFrame) -> pd.DataFrame:
    """All flips in the probe's direction, then those against it, the least explained by chance first."""
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
