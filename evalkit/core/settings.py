"""Settings with their values and sources, and the checks of some: the number of samples, the rules.

If several places set a value, the first one wins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES, VOTE_RULES, VOTE_TIES
from evalkit.errors import ConfigError, guess, listed

Place = tuple[str, Mapping[str, Any]]
"""A source of values (``argument``, ``flag``, ``variable``, ``profile strict``, ``default``) and its values."""


class Settings(dict[str, Any]):
    """Values of settings, with their sources; `print` shows both. Methods return copies.

    Examples
    --------
    >>> made = Settings.of(("flag", {"samples": None, "vote": "median"}), ("profile p", {"samples": 5, "vote": "mean"}))
    >>> made["samples"], made.source("samples"), made["vote"], made.source("vote")
    (5, 'profile p', 'median', 'flag')
    >>> print(made)
    vote     median  flag
    samples  5       profile p
    """

    def __init__(self, values: Mapping[str, Any] | None = None, sources: Mapping[str, str] | None = None) -> None:
        super().__init__(values or {})
        self.sources = dict(sources or {})

    @classmethod
    def of(cls, *places: Place, start: Settings | None = None) -> Settings:
        """The settings from these places; the first place that sets a value wins, None sets nothing.

        With `start`, a copy of these settings, and values from the places for those that it lacks.
        """
        settings = cls() if start is None else cls(start, start.sources)
        for source, named in places:
            for name, value in named.items():
                if value is not None and name not in settings:
                    settings[name], settings.sources[name] = value, source
        return settings

    def source(self, name: str) -> str:
        """The source of a value; ``default`` if no place sets it."""
        return self.sources.get(name, "default")

    def changed(self, name: str, value: Any, source: str | None = None) -> Settings:
        """A copy with one value changed, and its source if one is given."""
        return Settings(self | {name: value}, self.sources | {name: source or self.source(name)})

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Setting -> its value and source."""
        return {name: {"value": _shown(value), "source": self.source(name)} for name, value in self.items()}

    def __str__(self) -> str:
        rows = [(name, _text(value), self.source(name)) for name, value in self.items()]
        first, second = (max((len(row[at]) for row in rows), default=0) for at in (0, 1))
        return "\n".join(f"{name:<{first}}  {value:<{second}}  {source}" for name, value, source in rows)


def _shown(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_shown(one) for one in value]
    return value if isinstance(value, (int, float, str)) else getattr(value, "name", None) or str(value)


def _text(value: Any) -> str:
    shown = _shown(value)
    return ", ".join(map(str, shown)) if isinstance(shown, list) else str(shown)


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
