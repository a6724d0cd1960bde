"""Dawid and Skene's model of observers: each judge's error rates and each item's label, estimated together.

Dawid and Skene (1979), "Maximum likelihood estimation of observer error-rates using the EM algorithm", Applied
Statistics 28. With T_ic the chance that item i is truly c, n_il(j) = 1 where judge j gave label l:

- error rates π_cl(j) = Σ_i T_ic n_il(j) / Σ_l Σ_i T_ic n_il(j) (their eq. 2.3) and shares p_c = Σ_i T_ic / n (eq. 2.4),
  0.01 being added to every count before dividing, so that nothing is impossible because it was not seen;
- T_ic ∝ p_c Π_j Π_l π_cl(j)^n_il(j) (eq. 2.5).

The start is each item's shares of labels. It is a local maximum of the likelihood that is found.
"""

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
from evalkit.stats.result_tables import first_that_holds
from evalkit.tables.grouping import Flags, Floats, Ints, Objects, group
from evalkit.tables.ties import tied_cells

_SMOOTHING = 0.01
_MOST_ROUNDS, _GAIN = 100, 1e-6


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the EM algorithm came to.

    Attributes
    ----------
    posterior
        items × levels, the chance of each label; rows sum to 1.
    log_likelihood
        Of all labels, at the last round.
    n_rounds
        Rounds taken, at most 100.
    """

    posterior: Floats
    log_likelihood: float
    n_rounds: int


def too_few_items(n_items: int, n_judges: int, n_levels: int) -> bool:
    """Are there too few items for a table of error rates per judge? Then each judge has one rate."""
    return n_items < 10 * n_judges * (n_levels - 1)


def estimate(item: Ints, judge: Ints, label: Ints, n_levels: int, *, one_coin: bool) -> Estimate:
    """Fit the model to one label per judge and item.

    Parameters
    ----------
    item, judge, label
        Numbers from 0, one entry per label; every item and judge has one or more.
    one_coin
        One rate per judge: right with a chance of its own, else any other label alike.

    Examples
    --------
    >>> made = estimate(np.repeat([0, 1, 2], 3), np.tile([0, 1, 2], 3), np.array([0, 0, 0, 1, 1, 1, 1, 1, 0]), 2,
    ...     one_coin=True)
    >>> made.posterior.argmax(axis=1).tolist()
    [0, 1, 1]
    """
    shape = (int(item.max()) + 1, int(judge.max()) + 1, n_levels)
    votes = np.zeros(shape)
    votes[item, judge, label] = 1.0
    flat = votes.reshape(shape[0], -1)
    posterior = votes.sum(axis=1)
    posterior /= posterior.sum(axis=1, keepdims=True)
    last, n_rounds = -np.inf, 0
    for n_rounds in range(1, _MOST_ROUNDS + 1):  # noqa: B007 - it is returned
        share = posterior.sum(axis=0) + _SMOOTHING
        counts = (posterior.T @ flat).reshape(n_levels, shape[1], n_levels)
        smoothed = counts + _SMOOTHING
        rates = _one_rate(counts) if one_coin else smoothed / smoothed.sum(axis=2, keepdims=True)
        logs = np.log(share / share.sum()) + flat @ np.log(rates).reshape(n_levels, -1).T
        top = logs.max(axis=1, keepdims=True)
        weight = np.exp(logs - top)
        total = weight.sum(axis=1, keepdims=True)
        posterior = weight / total
        log_likelihood = float((top + np.log(total)).sum())
        if abs(log_likelihood - last) < _GAIN:
            break
        last = log_likelihood
    return Estimate(posterior, log_likelihood, n_rounds)


def _one_rate(counts: Floats) -> Floats:
    n_levels = counts.shape[0]
    right = np.einsum("cjc->j", counts)
    share = (right + _SMOOTHING) / (counts.sum(axis=(0, 2)) + 2 * _SMOOTHING)
    apart = (1 - share) / (n_levels - 1)
    return np.asarray(np.where(np.eye(n_levels, dtype=bool)[:, None, :], share[:, None], apart[:, None]))


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
    rule = aggregate_rule(method)
    by_level = rule.most_levels is not None
    problems = {
        "counts labels, and an interval scale has none; use 'mean' or 'median'": by_level and scale.level == "interval",
        "counts levels, and those of the scale are not known: pass scale=": by_level and scale.is_open,
        f"takes scales of 2 to {rule.most_levels} levels, got {len(scale)}; use 'mean'": (
            rule.most_levels is not None and len(scale) > rule.most_levels
        ),
        f"needs {rule.fewest_judges} judges or more, got {n_judges}; use 'mean'": n_judges < rule.fewest_judges,
    }
    if problem := first_that_holds(problems):
        raise ConfigError(f"criterion {criterion!r}: {word} {method!r} {problem}")


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
