"""The rules that turn samples into votes, and votes into scores: name, meaning and arithmetic.

To add a rule that averages, add its name and its `Rule` here. Functions, profiles, the scoring config, the command
line, widgets and pages read these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from numpy.typing import NDArray

Average = Callable[["NDArray[Any]", "NDArray[Any]", "NDArray[Any]", int], "NDArray[Any]"]
"""A function of groups, values and weights that returns one value per group."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What is known of a rule.

    Attributes
    ----------
    meaning
        In a few words; also its text.
    average
        Its function, if it averages scores; all other rules work on labels or verdicts.
    by_label
        Does it count labels, so that a vote without one has no answer?
    all_items
        Does it need all items at once, because it fits a model, whose score and label need not agree?
    fewest_judges, most_levels
        How many judges it needs, and to how many levels a scale may have (None: any scale, also without levels).
    """

    meaning: str
    average: Average | None = None
    by_label: bool = False
    all_items: bool = False
    fewest_judges: int = 1
    most_levels: int | None = None

    def __str__(self) -> str:
        return self.meaning


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


VoteRule = Literal["mean", "median", "majority"]
VOTE_RULES: Mapping[VoteRule, Rule] = {
    "mean": Rule("mean of the scored samples", weighted_mean),
    "median": Rule("median of the scored samples", weighted_median),
    "majority": Rule("most frequent code", by_label=True),
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
_DAWID_SKENE = "labels and each judge's error rates estimated together (Dawid and Skene 1979)"
AGGREGATE_RULES: Mapping[AggregateRule, Rule] = {
    "mean": Rule("weighted mean of the votes", weighted_mean),
    "median": Rule("weighted median of the votes", weighted_median),
    "majority": Rule("label with the most weight", by_label=True),
    "min": Rule("the least good vote; all judges must pass"),
    "max": Rule("the best vote; one judge must pass"),
    "dawid_skene": Rule(_DAWID_SKENE, by_label=True, all_items=True, fewest_judges=3, most_levels=5),
}
"""From the votes of a jury to one score."""

AVERAGES: Mapping[str, Average] = {
    name: rule.average for name, rule in [*VOTE_RULES.items(), *AGGREGATE_RULES.items()] if rule.average is not None
}
"""The functions of the rules that average scores."""
