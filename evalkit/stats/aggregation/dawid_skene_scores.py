"""Scores, labels and verdicts of items from Dawid and Skene's model, criterion by criterion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from pandas.arrays import BooleanArray

from evalkit.core.own_rules import aggregate_rule
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES, AggregateRule
from evalkit.errors import ConfigError
from evalkit.rubrics.row_scales import PAIR_SCORES
from evalkit.rubrics.scales import Scale
from evalkit.stats.aggregation.dawid_skene import estimate, too_few_items
from evalkit.tables.grouping import Flags, Floats, Ints, Objects, group
from evalkit.tables.ties import tied_cells

_TINY = 1e-9


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


def posteriors(method: AggregateRule, heads: pd.DataFrame, ballots: pd.DataFrame) -> Posteriors:
    """Fit each rubric, version and criterion by itself.

    Parameters
    ----------
    heads
        `rubric, rubric_version, criterion, level, scale` of each item and criterion.
    ballots
        One row per vote: `item` (its row in `heads`), `judge`, `label` (None if missing) and `score`.

    Raises
    ------
    ConfigError
        For fewer than three judges, more than five levels, or an interval scale.
    """
    n_heads = len(heads)
    none, no = np.full(n_heads, None, dtype=object), np.zeros(n_heads, dtype=bool)
    unknown = np.full(n_heads, np.nan)
    result = Posteriors(unknown, none, no, unknown.copy(), ~no, no.copy(), none.copy())
    groups = group(heads, ["rubric", "rubric_version", "criterion", "level", "scale"])
    of_ballot = groups.codes[ballots["item"]]
    for number, first in enumerate(groups.first):
        head, votes = heads.iloc[int(first)], ballots.loc[of_ballot == number]
        scale = Scale.from_json(str(head["level"]), str(head["scale"]))
        check_fit(method, str(head["criterion"]), scale, votes["judge"].nunique())
        labelled = votes.loc[votes["label"].isin(scale.labels)]
        item, items = pd.factorize(labelled["item"].to_numpy(), sort=True)
        judge, judges = pd.factorize(labelled["judge"].to_numpy(), sort=True)
        one_coin = too_few_items(len(items), len(judges), len(scale))
        result.one_coin[groups.codes == number] = one_coin
        if len(judges) >= AGGREGATE_RULES[method].fewest_judges:
            label = pd.Index(scale.labels).get_indexer(pd.Index(labelled["label"])).astype(np.int64)
            fitted = estimate(item.astype(np.int64), judge.astype(np.int64), label, len(scale), one_coin=one_coin)
            _fill(result, items, fitted.posterior, scale, _codes(scale, labelled))
    return result


def check_fit(method: str, criterion: str, scale: Scale, n_judges: int, word: str = "method") -> None:
    """Raise ConfigError unless a rule fits a scale and a number of judges; `word` is what the user calls a rule."""
    rule, subject = aggregate_rule(method), f"criterion {criterion!r}: {word} {method!r}"
    if rule.most_levels is not None and scale.level == "interval":
        raise ConfigError(f"{subject} counts labels, and an interval scale has none; use 'mean' or 'median'")
    if rule.most_levels is not None and scale.is_open:
        raise ConfigError(f"{subject} counts levels, and those of the scale are not known: pass scale=")
    if rule.most_levels is not None and len(scale) > rule.most_levels:
        raise ConfigError(f"{subject} takes scales of 2 to {rule.most_levels} levels, got {len(scale)}; use 'mean'")
    if n_judges < rule.fewest_judges:
        raise ConfigError(f"{subject} needs {rule.fewest_judges} judges or more, got {n_judges}; use 'mean'")


def _codes(scale: Scale, said: pd.DataFrame) -> Floats:
    """The number that each label stands for; NaN on nominal scales, except for pairs."""
    if scale.level != "nominal":
        return np.array([float(code) for code in scale.codes])
    paired = said["score"].notna().any()
    return np.array([PAIR_SCORES.get(name, np.nan) if paired else np.nan for name in scale.labels])


def _fill(made: Posteriors, items: Ints, posterior: Floats, scale: Scale, codes: Floats) -> None:
    equal = posterior >= posterior.max(axis=1)[:, None] - _TINY
    tied = equal.sum(axis=1) > 1
    label = np.array(scale.labels, dtype=object)[posterior.argmax(axis=1)]
    label[tied] = None
    item, level = np.nonzero(equal & tied[:, None])
    made.among[items] = tied_cells(item, np.array(scale.labels, dtype=object)[level], len(items))
    made.label[items], made.tied[items], made.unknown[items] = label, tied, False
    if (has_code := ~np.isnan(codes)).any():
        weight = posterior[:, has_code]
        made.score[items] = weight @ codes[has_code] / weight.sum(axis=1)
    if scale.has_rule:
        made.chance[items] = posterior[:, [scale.passed(code) is True for code in scale.codes]].sum(axis=1)
