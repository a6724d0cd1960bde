"""How many samples, and the rules that turn them into votes and votes into scores: name, meaning and arithmetic.

To add a rule that averages, add its name, meaning and function here. Functions, profiles, the scoring config, the
command line, widgets and pages read these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

from evalkit.errors import ConfigError, guess, listed

if TYPE_CHECKING:
    import numpy as np
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


MOST_SAMPLES = 1000
"""Maximum number of samples per item and judge; a larger number is probably a typing error, and would be paid for."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How samples become votes, and votes scores.

    Attributes
    ----------
    vote, ties, min_self_agreement
        Method, ties and least self-agreement of `evalkit.vote`.
    aggregate, quorum
        Method and quorum of `evalkit.aggregate`.

    Raises
    ------
    ConfigError
        For an unknown rule or a share outside 0-1.

    Examples
    --------
    >>> Rules(vote="median").vote_options
    {'method': 'median', 'ties': 'na', 'min_self_agreement': None}
    """

    vote: str = "mean"
    ties: str = "na"
    min_self_agreement: float | None = None
    aggregate: str = "mean"
    quorum: float = 0.5

    def __post_init__(self) -> None:
        check_choice("vote", self.vote, VOTE_RULES)
        check_choice("ties", self.ties, VOTE_TIES)
        check_choice("aggregate", self.aggregate, AGGREGATE_RULES)
        check_share("quorum", self.quorum)
        if self.min_self_agreement is not None:
            check_share("min_self_agreement", self.min_self_agreement)

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> Rules:
        """Rules from a mapping; a rule that is None or missing takes its default."""
        unknown = [name for name in named if name not in cls.__slots__]
        if unknown:
            raise ConfigError(f"unknown rule {listed(unknown)}; allowed: {', '.join(cls.__slots__)}")
        return cls(**{name: value for name, value in named.items() if value is not None})

    @property
    def vote_options(self) -> dict[str, Any]:
        """The options of `evalkit.vote`."""
        return {"method": self.vote, "ties": self.ties, "min_self_agreement": self.min_self_agreement}

    @property
    def aggregate_options(self) -> dict[str, Any]:
        """The options of `evalkit.aggregate`."""
        return {"method": self.aggregate, "quorum": self.quorum}


RULE_NAMES: tuple[str, ...] = tuple(Rules.__slots__)


def check_choice(name: str, value: object, allowed: Collection[Any]) -> None:
    """Raise ConfigError unless the value is an allowed one."""
    if value not in allowed:
        raise ConfigError(f"{name}={value!r} is unknown; {guess(value, allowed)}allowed: {listed(allowed)}")


def check_share(name: str, value: object) -> None:
    """Raise ConfigError unless the value is a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ConfigError(f"{name} must be a number from 0 to 1, got {value!r}")


def check_samples(samples: Any, name: str = "samples") -> int:
    """The number of samples, checked; `name` is its name in the error message.

    Raises
    ------
    ConfigError
        For anything but a whole number from 1 to `MOST_SAMPLES`.

    Examples
    --------
    >>> check_samples(3)
    3
    >>> check_samples(10**9)
    Traceback (most recent call last):
    evalkit.errors.ConfigError: samples must be a whole number from 1 to 1000, not 1000000000
    """
    number = int(samples) if isinstance(samples, Integral) and not isinstance(samples, bool) else 0
    if not 1 <= number <= MOST_SAMPLES:
        # Python refuses to write a number of thousands of digits
        shown = "a number with more digits" if abs(number) > 10**18 else repr(samples)[:40]
        raise ConfigError(f"{name} must be a whole number from 1 to {MOST_SAMPLES}, not {shown}")
    return number


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
    median: NDArray[np.float64] = middle.mean(axis=0)
    return median


Average = Callable[["NDArray[Any]", "NDArray[Any]", "NDArray[Any]", int], "NDArray[Any]"]
"""A function of groups, values and weights that returns one value per group."""

AVERAGES: Mapping[str, Average] = {"mean": weighted_mean, "median": weighted_median}
"""Rules that average scores; all other rules work on labels or verdicts."""
