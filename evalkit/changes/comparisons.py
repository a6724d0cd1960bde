"""Compare: two evaluations of the same items, criterion by criterion and judge by judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd

from evalkit import tables
from evalkit.changes.floors import NO_RULE, Passes, chances, fit, flip_chance
from evalkit.changes.results import JURY, Comparison
from evalkit.changes.sides import ROW, Part, pairs, side_of
from evalkit.changes.trials import holm, mcnemar_midp, sign_flip
from evalkit.errors import ConfigError, InputError, counted
from evalkit.intervals import FEW_CLUSTERS, Interval, change_interval, cluster_codes, mean_interval
from evalkit.tables.grouping import Floats, Ints, clusters_of, refuse_doubles
from evalkit.validity.people import people

__all__ = ["Comparison", "compare"]

_COUNTS = ["n_common", "n_verdicts", "changed", "fixed", "broke"]
_FLOATS = ["expected_by_chance", "effect", "effect_low", "effect_high", "mcnemar_p", "mcnemar_p_holm"]
_FLOATS += ["mean_difference", "difference_low", "difference_high", "sign_flip_p", "sign_flip_p_holm"]
_TEXTS = ["version_a", "version_b", "against", "notes"]
_COLUMNS = [*ROW, "version_a", "version_b", "n_common", "n_verdicts", "changed", "expected_by_chance"]
_COLUMNS += ["fixed", "broke", "against", *_FLOATS[1:], "notes"]


def compare(
    a: Any,
    b: Any,
    *,
    labels: pd.DataFrame | None = None,
    across_modes: bool = False,
    clusters: Mapping[str, Any] | pd.Series | None = None,
    rows: Literal["all", "jury"] = "all",
) -> Comparison:
    """What changed between two evaluations of the same items, beside what chance alone would change.

    Parameters
    ----------
    a, b
        What `evaluate` returned, or any objects with `.judgments` (and `.votes`, `.scores`), or judgments tables:
        these say nothing of how a jury is aggregated, so they have no row for it. Rubric versions may
        differ; items that only one side has are left out.
    labels
        Human labels: then `fixed` and `broke` count items that became right and wrong against the
        majority of people; without, items that went from fail to pass and from pass to fail.
    across_modes
        Allow one judge on one side and a jury on the other.
    clusters
        item_id -> cluster; the item by default (or `a.clusters`).
    rows
        ``jury``: of each criterion that has one the row of the jury alone, a third of the time; p is adjusted over
        the rows that there are.

    Returns
    -------
    Comparison
        Its `table` has one row per `rubric, criterion, judge` (judges of both sides; ``jury`` for the scores, where
        a side has several judges or they differ):

        - `n_common` items on both sides, `n_verdicts` of them with a verdict (without pass rule: a label) on both;
        - `changed` of these; `expected_by_chance`: how many a fresh sampling of the same prompt would change, the
          mean of both sides' noise floors (see `noise_floor`); NA without repeated samples or a pass rule;
        - `fixed`, `broke`, `against` (``labels`` or ``verdicts``), `effect` = (fixed − broke)/n with a cluster
          interval (Agresti and Min 2005), `mcnemar_p` (mid-p);
        - `mean_difference` of `score_norm` (b − a) with a cluster interval, `sign_flip_p` by clusters;
        - `…_holm`: p adjusted over all rows; intervals are not adjusted; `notes`.

    Raises
    ------
    InputError
        When a side is no judgments table, holds several versions of one rubric, or the sides share no criterion; when
        a label is there twice or not on its scale.
    ConfigError
        For a judge against a jury without `across_modes=True`, and unknown `rows`.
    """
    if rows not in ("all", "jury"):
        raise ConfigError(f"rows={rows!r} is unknown; allowed are all, jury")
    sides = side_of(a, "a"), side_of(b, "b")
    if sides[0].mode != sides[1].mode and not across_modes:
        raise ConfigError(
            f"a was scored by a {sides[0].mode}, b by a {sides[1].mode}; pass across_modes=True to compare them"
        )
    matched = pairs(*sides)
    if not matched and len(sides[0].votes) and len(sides[1].votes):
        raise InputError(
            f"the sides share no rubric, criterion and judge: a is {sides[0].name}, b is {sides[1].name}; "
            "to compare different judges, pass evaluations (they hold the scores)"
        )
    if clusters is None:
        clusters = getattr(a, "clusters", None)
    if rows == "jury":
        juries = {first.head[:2] for first, _ in matched if first.head[2] == JURY}
        matched = [pair for pair in matched if pair[0].head[2] == JURY or pair[0].head[:2] not in juries]
    made = [_row(first, second, labels, clusters) for first, second in matched]
    table = pd.DataFrame(made, columns=_COLUMNS)
    for name in ("mcnemar_p", "sign_flip_p"):
        table[name] = table[name].astype("float64")
        table[f"{name}_holm"] = holm(table[name].to_numpy())
    for name in (*ROW, *_TEXTS):
        table[name] = tables.categorical(table[name])
    table = table.astype(dict.fromkeys(_FLOATS, "float64") | dict.fromkeys(_COUNTS, "int64"))
    items = [set(side.votes["item_id"].unique()) for side in sides]
    return Comparison(
        sides[0].name,
        sides[1].name,
        table,
        sides[0].bill,
        sides[1].bill,
        len(items[0] - items[1]),
        len(items[1] - items[0]),
    )


def _row(a: Part, b: Part, labels: pd.DataFrame | None, clusters: Any) -> dict[str, Any]:
    common = pd.Index(sorted(set(a.rows.index) & set(b.rows.index)), dtype=object)
    units = cluster_codes(clusters_of(pd.Series(common, dtype="str"), clusters))
    kind_a, kind_b = _kinds(a, b, common)
    known = (kind_a >= 0) & (kind_b >= 0)
    row: dict[str, Any] = dict(zip(ROW, a.head, strict=True))
    row |= {"version_a": a.version, "version_b": b.version, "n_common": len(common), "n_verdicts": int(known.sum())}
    row["changed"] = int((known & (kind_a != kind_b)).sum())
    notes = []
    if a.scale.to_json() != b.scale.to_json():
        notes.append("the scales or pass rules differ")
    row["expected_by_chance"], why = _expected(a, b, common[known])
    notes += [why] if why else []
    row |= _fixed(a, b, kind_a, kind_b, common, units, labels, notes)
    row |= _difference(a, b, common, units, notes)
    if len(np.unique(units)) < FEW_CLUSTERS:
        notes.append(f"only {counted(len(np.unique(units)), 'cluster')}")
    return row | {"notes": "; ".join(notes) or None}


def _kinds(a: Part, b: Part, common: pd.Index) -> tuple[Ints, Ints]:
    """Verdicts (0, 1) where both sides have a pass rule, else labels; −1 for none."""
    if a.scale.has_rule and b.scale.has_rule:
        return _verdicts(a, common), _verdicts(b, common)
    texts = [part.rows["label"].reindex(common).astype(object) for part in (a, b)]
    codes, _ = pd.factorize(pd.concat(texts))
    return codes[: len(common)].astype(np.int64), codes[len(common) :].astype(np.int64)


def _verdicts(part: Part, common: pd.Index) -> Ints:
    passed = part.rows["passed"].reindex(common)
    return np.where(passed.isna(), -1, passed.fillna(value=False).to_numpy(dtype=np.int64))


def _expected(a: Part, b: Part, items: pd.Index) -> tuple[float, str | None]:
    if not (a.scale.has_rule and b.scale.has_rule):
        return np.nan, NO_RULE
    fits: dict[str, tuple[float, float]] = {}
    for judge in dict.fromkeys(_judge(own) for own in (*a.passes, *b.passes)):
        own = [one for one in (*a.passes, *b.passes) if _judge(one) == judge]
        why = next((one.missing for one in own if one.missing is not None), None)
        if why is not None:
            return np.nan, why
        fits[judge] = fit(np.concatenate([one.x for one in own]), np.concatenate([one.n for one in own]))
    if a.head[2] != JURY:
        return float(np.mean([_judge_floor(part, fits, items) for part in (a, b)])), None
    if {part.method.split()[0] for part in (a, b)} & {"min", "max", "dawid_skene"}:
        return np.nan, "no noise floor for a jury by min, max or dawid_skene"
    return float(np.mean([_jury_floor(part, fits, items) for part in (a, b)])), None


def _judge(own: Passes) -> str:
    return str(own.frame["judge"].iloc[0])


def _judge_floor(part: Part, fits: dict[str, tuple[float, float]], items: pd.Index) -> float:
    own = part.passes[0]
    own = own.take(items.get_indexer(pd.Index(own.frame["item_id"])) >= 0)
    return float(np.nansum(flip_chance(own, *fits[_judge(own)]))) if len(own.x) else 0.0


def _jury_floor(part: Part, fits: dict[str, tuple[float, float]], items: pd.Index, draws: int = 400) -> float:
    """Fresh votes of every judge, drawn independently, against the jury's verdict."""
    draw = np.random.default_rng(0)
    yes, no, total = np.zeros((draws, len(items))), np.zeros((draws, len(items))), np.zeros(len(items))
    for own in part.passes:
        weight = part.weights.get(_judge(own), 1.0)
        at = items.get_indexer(pd.Index(own.frame["item_id"]))
        inside = own.take(at >= 0)
        passing, failing = chances(inside, *fits[_judge(own)])
        luck = draw.random((draws, len(passing)))
        yes[:, at[at >= 0]] += weight * (luck < passing)
        no[:, at[at >= 0]] += weight * ((luck >= passing) & (luck < passing + failing))
        total[at[at >= 0]] += weight
    slack = 1e-9 * total
    passed, failed = 2 * yes > total + slack, 2 * no > total + slack
    decided = (passed | failed).sum(axis=0)
    other = np.where(_verdicts(part, items) == 1, failed.sum(axis=0), passed.sum(axis=0))
    return float(np.sum(other[decided > 0] / decided[decided > 0]))


def _fixed(
    a: Part, b: Part, kind_a: Ints, kind_b: Ints, common: pd.Index, units: Ints, labels: Any, notes: list[str]
) -> dict[str, Any]:
    rule = a.scale.has_rule and b.scale.has_rule
    known = (kind_a >= 0) & (kind_b >= 0)
    truth = _truth(a, labels, common) if labels is not None and rule else None
    row: dict[str, Any] = {"fixed": 0, "broke": 0, "against": "labels" if truth is not None else "verdicts"}
    if not rule:
        return row | {"against": None}
    if truth is not None:
        silent = int((known & (truth < 0)).sum())
        known = known & (truth >= 0)
        if silent and known.any():
            notes.append(f"{counted(silent, 'item')} without a label or with tied labels: neither fixed nor broken")
        kind_a, kind_b = (kind_a == truth).astype(np.int64), (kind_b == truth).astype(np.int64)
    steps = (kind_b - kind_a)[known].astype(np.float64)
    fixed, broke = int((steps > 0).sum()), int((steps < 0).sum())
    row |= {"fixed": fixed, "broke": broke}
    if not len(steps):
        notes.append("effect: no item has a verdict on both sides" + (" and a label" if truth is not None else ""))
        return row
    ends = change_interval(steps, units[known])
    _note(ends, "effect", notes)
    row |= {"effect": float(steps.mean()), "effect_low": ends.low, "effect_high": ends.high}
    return row | {"mcnemar_p": mcnemar_midp(fixed, broke)}


def _truth(part: Part, labels: pd.DataFrame, common: pd.Index) -> Ints:
    said = tables.check(labels, "labels", need=["item_id", "criterion", "annotator", "label"])
    refuse_doubles(said, tables.LABEL_KEY, "labels")
    said = said.loc[(said["criterion"] == part.head[1]).to_numpy() & said["label"].notna().to_numpy()]
    return people(said, common, part.scale, {}, part.head[1]).together("majority").kind


def _difference(a: Part, b: Part, common: pd.Index, units: Ints, notes: list[str]) -> dict[str, float]:
    norms: list[Floats] = [part.rows["score_norm"].reindex(common).to_numpy(dtype=np.float64) for part in (a, b)]
    gap = norms[1] - norms[0]
    both = ~np.isnan(gap)
    if not both.any():
        notes.append("mean_difference: no item has a score on both sides")
        return {}
    ends = mean_interval(gap[both], units[both])
    _note(ends, "mean_difference", notes)
    row = {"mean_difference": float(gap[both].mean()), "difference_low": ends.low, "difference_high": ends.high}
    return row | {"sign_flip_p": sign_flip(gap[both], units[both])}


def _note(ends: Interval, name: str, notes: list[str]) -> None:
    if ends.reason is not None:
        notes.append(f"no interval of {name}: {ends.reason}")
