"""The rules that turn samples into votes, and votes into scores: name, meaning and arithmetic.

To add a rule that averages, add its name, meaning and function here. Functions, profiles, the scoring config, the
command line, widgets and pages read these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from numpy.typing import NDArray

VoteRule = Literal["mean", "median", "majority"]
VOTE_RULES: Mapping[VoteRule, str] = {
    "mean": "mean of the scored samples",
    "median": "median of the scored samples",
    "majority": "most frequent code",
}
"""From the samples of a judge to its vote."""

VoteTies = Literal["na", "low", "mean"]
VOTE_TIES: Mapping[VoteTies, str] = {
    "na": "a tie has no label",
    "low": "the lowest of the tied codes",
    "mean": "the mean of the tied codes",
}
"""The vote if samples tie."""

AggregateRule = Literal["mean", "median", "majority", "min", "max", "dawid_skene"]
AGGREGATE_RULES: Mapping[AggregateRule, str] = {
    "mean": "weighted mean of the votes",
    "median": "weighted median of the votes",
    "majority": "label with the most weight",
    "min": "the least good vote; all judges must pass",
    "max": "the best vote; one judge must pass",
    "dawid_skene": "labels and each judge's error rates estimated together (Dawid and Skene 1979)",
}
"""From the votes of a jury to one score."""


def weighted_mean(group: NDArray[Any], value: NDArray[Any], weight: NDArray[Any], n_groups: int) -> NDArray[Any]:
    """The weighted mean of the values of each group; NaN for a group without weight."""
    import numpy as np

    total = np.bincount(group, weights=weight, minlength=n_groups)
    some = total > 0
    mean = np.full(n_groups, np.nan)
    mean[some] = np.bincount(group, weights=weight * value, minlength=n_groups)[some] / total[some]
    return mean


def weighted_median(group: NDArray[Any], value: NDArray[Any], weight: NDArray[Any], n_groups: int) -> NDArray[Any]:
    """The value where half of a group's weight is reached; the mean of two where it is reached exactly between them."""
    import numpy as np

    order = np.lexsort((value, group))
    group, value, weight = group[order], value[order], weight[order]
    total = np.bincount(group, weights=weight, minlength=n_groups)
    before = np.concatenate([[0.0], np.cumsum(total)[:-1]]) if n_groups else np.zeros(0)
    reached = np.cumsum(weight) - before[group]
    half, slack = total[group] / 2, 1e-9 * total[group]
    middle = np.full((2, n_groups), np.nan)
    # written backwards, so that the first value of each group that reaches half of the weight stays
    for side, enough in enumerate((reached >= half - slack, reached > half + slack)):
        at = np.flatnonzero(enough)[::-1]
        middle[side, group[at]] = value[at]
    return np.asarray(middle.mean(axis=0))


Average = Callable[["NDArray[Any]", "NDArray[Any]", "NDArray[Any]", int], "NDArray[Any]"]
"""A function of groups, values and weights that returns one value per group."""

AVERAGES: Mapping[str, Average] = {"mean": weighted_mean, "median": weighted_median}
"""Rules that average scores; all other rules work on labels or verdicts."""
