"""Scores, labels and verdicts of items from Dawid and Skene's model, criterion by criterion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pandas.arrays import BooleanArray

from evalkit.errors import ConfigError
from evalkit.rubrics.scales import Scale
from evalkit.stats.aggregation.dawid_skene import Matrix, estimate, too_few_items
from evalkit.tables.grouping import Flags, Floats, Ints, Objects, group
from evalkit.tables.ties import tied_cells

_FEWEST_JUDGES, _MOST_LEVELS = 3, 5
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Ballots:
    """One entry per vote.

    Attributes
    ----------
    item
        The place of its item (and criterion) among the heads.
    judge, label
        Numbers from 0; −1 for no label.
    score
        In rubric units; NaN for none.
    names
        Texts of the labels.
    """

    item: Ints
    judge: Ints
    label: Ints
    score: Floats
    names: Objects


@dataclass(frozen=True, slots=True)
class Posteriors:
    """One entry per item and criterion.

    Attributes
    ----------
    score, label
        Posterior mean in rubric units, and mode.
    tied
        Are two labels equally probable?
    among
        If so which, as a cell of `tied_labels`.
    chance
        Of passing; NaN without a pass rule.
    unknown
        There is no estimate: no label, or fewer than three judges of the criterion gave any.
    one_coin
        Was one rate per judge fitted?
    """

    score: Floats
    label: Objects
    tied: Flags
    chance: Floats
    unknown: Flags
    one_coin: Flags
    among: Objects

    def verdict(self) -> tuple[BooleanArray, Objects]:
        """`passed` where it is more probable than not, NA at one half (``tied``) and without a pass rule."""
        half = np.abs(self.chance - 0.5) <= _TINY
        verdict = np.full(len(half), None, dtype=object)
        verdict[half] = "tied"
        with np.errstate(invalid="ignore"):
            return BooleanArray(self.chance > 0.5, half | np.isnan(self.chance)), verdict


def posteriors(heads: pd.DataFrame, ballots: Ballots) -> Posteriors:
    """Fit each rubric, version and criterion by itself.

    Parameters
    ----------
    heads
        `rubric, rubric_version, criterion, level, scale` of each item and criterion.

    Raises
    ------
    ConfigError
        For fewer than three judges, more than five levels, or an interval scale.
    """
    n_heads = len(heads)
    made = Posteriors(
        np.full(n_heads, np.nan),
        np.full(n_heads, None, dtype=object),
        np.zeros(n_heads, dtype=bool),
        np.full(n_heads, np.nan),
        np.ones(n_heads, dtype=bool),
        np.zeros(n_heads, dtype=bool),
        np.full(n_heads, None, dtype=object),
    )
    for at, scale, rows in _criteria(heads, ballots):
        places = {name: place for place, name in enumerate(scale.labels)}
        label = np.array([*(places.get(str(name), -1) for name in ballots.names[:-1]), -1])[ballots.label[rows]]
        said = rows[label >= 0]
        item, items = pd.factorize(ballots.item[said], sort=True)
        judge, judges = pd.factorize(ballots.judge[said], sort=True)
        one_coin = too_few_items(len(items), len(judges), len(scale))
        made.one_coin[at] = one_coin
        if len(judges) < _FEWEST_JUDGES:
            continue
        fitted = estimate(
            item.astype(np.int64), judge.astype(np.int64), label[label >= 0], len(scale), one_coin=one_coin
        )
        _fill(made, items, fitted.posterior, scale, _codes(scale, ballots, said))
    return made


def _criteria(heads: pd.DataFrame, ballots: Ballots) -> Iterator[tuple[Ints, Scale, Ints]]:
    """Places of the heads, scale, and places of the ballots of each criterion."""
    groups = group(heads, ["rubric", "rubric_version", "criterion", "level", "scale"])
    of_ballot = groups.codes[ballots.item]
    for number, first in enumerate(groups.first):
        head = heads.iloc[int(first)]
        scale = Scale.from_json(str(head["level"]), str(head["scale"]))
        rows = np.flatnonzero(of_ballot == number)
        _refuse(str(head["criterion"]), scale, len(np.unique(ballots.judge[rows])))
        yield np.flatnonzero(groups.codes == number), scale, rows


def _refuse(criterion: str, scale: Scale, n_judges: int) -> None:
    what = f"criterion {criterion!r}: method 'dawid_skene'"
    if scale.level == "interval":
        raise ConfigError(f"{what} needs labels to count, and an interval scale has none; use 'mean' or 'median'")
    if len(scale) > _MOST_LEVELS:
        raise ConfigError(f"{what} takes scales of 2 to {_MOST_LEVELS} levels, this has {len(scale)}; use 'mean'")
    if n_judges < _FEWEST_JUDGES:
        raise ConfigError(f"{what} needs {_FEWEST_JUDGES} judges or more, here are {n_judges}; use 'mean'")


def _codes(scale: Scale, ballots: Ballots, said: Ints) -> Floats:
    """The number that each label stands for; of pairs the score that votes with that label have; else NaN."""
    if scale.level != "nominal":
        return np.array([float(code) for code in scale.codes])
    paired = said[~np.isnan(ballots.score[said])]
    by_label = dict(zip(ballots.names[ballots.label[paired]], ballots.score[paired], strict=True))
    return np.array([by_label.get(name, np.nan) for name in scale.labels])


def _fill(made: Posteriors, items: Ints, posterior: Matrix, scale: Scale, codes: Floats) -> None:
    top = posterior.max(axis=1)
    equal = posterior >= top[:, None] - _TINY
    tied = equal.sum(axis=1) > 1
    label = np.array(scale.labels, dtype=object)[posterior.argmax(axis=1)]
    label[tied] = None
    at, place = np.nonzero(equal & tied[:, None])
    made.among[items] = tied_cells(at, np.array(scale.labels, dtype=object)[place], len(items))
    made.label[items], made.tied[items], made.unknown[items] = label, tied, False
    known = ~np.isnan(codes)
    if known.any():
        weight = posterior[:, known]
        made.score[items] = weight @ codes[known] / weight.sum(axis=1)
    if scale.has_rule:
        made.chance[items] = posterior[:, [scale.passed(code) is True for code in scale.codes]].sum(axis=1)
