"""Levels: the figures of one judge on the whole corpus, inside groups, and between systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit.errors import InputError, listed
from evalkit.stats.alignment import agreement_measures as agreement
from evalkit.stats.alignment.agreement_measures import Answers, Pair
from evalkit.stats.intervals import Interval, jackknife, jackknife_groups, percentiles, resamples
from evalkit.tables.grouping import Floats, Ints, by_id
from evalkit.tables.ties import LEFT_OUT, Counting

Found = dict[str, tuple[float, Interval | None]]
IntervalOption = Literal["jackknife", "bootstrap"]


@dataclass(frozen=True, slots=True)
class Level:
    """What the figures of `align` are taken over.

    Attributes
    ----------
    name
        ``corpus``, ``group`` or ``system``.
    unit
        The cluster of each item.
    system
        The system of each item, −1 for none; empty at other levels.
    options
        How verdicts or labels are compared.
    """

    name: str
    unit: Ints
    system: Ints
    options: agreement.KindOptions

    @property
    def figures(self) -> list[str]:
        """The figures that are computed."""
        return [*agreement.FIGURES, *self.options.extra]

    def take(self, rows: Any, counting: Counting = LEFT_OUT) -> Level:
        """The level on some items, with units numbered again, and the judge's ties and unscored answers as chosen."""
        unit = np.unique(self.unit[rows], return_inverse=True)[1].astype(np.int64)
        system = self.system[rows] if self.name == "system" else self.system
        return replace(self, unit=unit, system=system, options=replace(self.options, counting=counting))


def system_names(frame: pd.DataFrame, systems: Mapping[str, Any] | pd.Series | pd.DataFrame | str) -> dict[str, str]:
    """item_id -> system, from items with a `system_id`, a mapping or Series, or a column of `frame`.

    Raises
    ------
    InputError
        When the column, or `item_id` or `system_id` of the items, is missing, or an item is in two systems.
    """
    if isinstance(systems, str):
        if systems not in frame.columns:
            fact = f"systems={systems!r} is not a column of the table"
            raise InputError(f"{fact}; add the column, or pass items or a mapping from item_id to system")
        systems = frame[["item_id", systems]].set_axis(["item_id", "system_id"], axis=1)
    if not isinstance(systems, pd.DataFrame):
        return dict(by_id(systems, frame["item_id"], "systems").dropna().astype(str))
    if missing := [name for name in ("item_id", "system_id") if name not in systems.columns]:
        raise InputError(f"the table systems= has no column {listed(missing)}; it has {listed(systems.columns)}")
    pairs = systems[["item_id", "system_id"]].dropna().drop_duplicates()
    twice = pairs.loc[pairs["item_id"].duplicated(), "item_id"]
    if len(twice):
        raise InputError(f"item {listed(twice.iloc[:1])} belongs to two systems; give each item_id one system")
    return system_names(frame, pairs.set_index("item_id")["system_id"])


def figures(pairs: list[Pair], level: Level, *, interval: IntervalOption | None) -> Found:
    """Every figure of the pairs, averaged over them, on the corpus or between systems."""
    unit, n_units = jackknife_groups(level.unit)
    n_units = n_units if interval == "jackknife" else 0
    if level.name == "system":
        per_pair = [_system_figures(judge, people, level, unit, n_units) for judge, people in pairs]
        values = agreement.average(per_pair, level.figures, n_units)
    else:
        values = agreement.compare_pairs(pairs, unit, n_units, level.options)
    by_name = {name: _figure(name, column[0], column[1:], unit if n_units else None) for name, column in values.items()}
    return _bootstrapped(by_name, pairs, level) if interval == "bootstrap" else by_name


def _bootstrapped(found: Found, pairs: list[Pair], level: Level) -> Found:
    """The figures of the corpus with percentile intervals over resampled clusters."""
    rounds: dict[str, list[float]] = {name: [] for name in found}
    for rows in resamples(level.unit):
        sample = [(judge.take(rows), people.take(rows)) for judge, people in pairs]
        for name, values in agreement.compare_pairs(sample, level.unit[rows], 0, level.options).items():
            rounds[name].append(float(values[0]))
    return {name: (value, percentiles(value, np.array(rounds[name]))) for name, (value, _) in found.items()}


def _figure(name: str, value: float, leave_out: Floats, unit: Ints | None) -> tuple[float, Interval | None]:
    """The figure with its interval; without one if there are no units."""
    if unit is None:
        return float(value), None
    return float(value), jackknife(value, leave_out, transform=agreement.figure_of(name).transform, unit=unit)


def figures_once(pairs: list[Pair], level: Level) -> dict[str, float]:
    """The figures of the pairs, averaged over them at this level, without intervals."""
    if level.name == "group":
        by_name = group_means(inside_groups(pairs, level), level, intervals=False)
    else:
        by_name = figures(pairs, level, interval=None)
    return {name: value for name, (value, _) in by_name.items()}


def inside_groups(pairs: list[Pair], level: Level) -> npt.NDArray[np.float64]:
    """Figures inside each group, averaged over the pairs there: groups × figures."""
    order = np.argsort(level.unit, kind="stable")
    rows = []
    for piece in np.split(order, np.cumsum(np.bincount(level.unit))[:-1]):
        inside = [(judge.take(piece), people.take(piece)) for judge, people in pairs]
        values = agreement.compare_pairs(inside, np.zeros(len(piece), dtype=np.int64), 0, level.options)
        rows.append([float(values[name][0]) for name in level.figures])
    return np.array(rows)


def group_means(inside: npt.NDArray[np.float64], level: Level, *, intervals: bool) -> Found:
    """The unweighted mean of each figure over the groups in which it is defined."""
    by_name: Found = {}
    for name, column in zip(level.figures, inside.T, strict=True):
        used = column[~np.isnan(column)]
        value = float(used.mean()) if len(used) else np.nan
        left_out = (used.sum() - used) / max(len(used) - 1, 1)
        by_name[name] = _figure(name, value, left_out, np.arange(len(used)) if intervals else None)
    return by_name


def _system_figures(
    one: Answers, other: Answers, level: Level, unit: Ints, n_units: int
) -> dict[str, tuple[Floats, Floats]]:
    """The figures of the systems' mean scores on all items, then without each unit; those of verdicts are NaN."""
    scored = ~np.isnan(one.score) & ~np.isnan(other.score) & (level.system >= 0)
    n_systems = int(level.system.max(initial=-1)) + 1
    system = level.system[scored]
    cell = unit[scored] * n_systems + system
    sums = []
    for values in (np.ones(int(scored.sum())), one.score[scored], other.score[scored]):
        total = np.bincount(system, weights=values, minlength=n_systems)[None, :]
        if n_units:
            of_unit = np.bincount(cell, weights=values, minlength=n_units * n_systems).reshape(n_units, n_systems)
            total = np.concatenate([total, total - of_unit])
        sums.append(total)
    table = np.array([_on_means(n, x, y) for n, x, y in zip(*sums, strict=True)])
    n_items, nothing = sums[0].sum(axis=1), np.full(n_units + 1, np.nan)
    by_name = dict(zip(agreement.FIGURES, table.T, strict=True)) | dict.fromkeys(level.options.extra, nothing)
    return {name: (values, n_items) for name, values in by_name.items()}


def _on_means(n: Floats, x: Floats, y: Floats) -> list[float]:
    has_items = n > 0.5
    none, tied = np.full(int(has_items.sum()), -1), np.zeros(int(has_items.sum()), dtype=bool)
    judge, people = (Answers(none, side[has_items] / n[has_items], tied) for side in (x, y))
    options = agreement.KindOptions(verdicts=False)
    values = agreement.compare_each(judge, [people], np.zeros(len(none), dtype=np.int64), 0, options)
    return [float(values[name][0]) for name in agreement.FIGURES]
