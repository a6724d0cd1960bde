"""Settings of judging with their values and sources, checked: number of samples, rules, options, cache folder.

If several places set a value, the first one wins.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self, TypedDict, cast
from urllib.parse import urlsplit

from evalkit.core.lists_of_choices import ON_MISS, RECORDED, OnMiss, Recorded
from evalkit.core.own_rules import OwnRule, aggregate_rule, rule_of
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES, VOTE_RULES, VOTE_TIES, Rule
from evalkit.errors import CacheError, ConfigError, guess, listed

Place = tuple[str | Callable[[str], str], Mapping[str, Any]]
"""A source of values (``argument``, ``profile strict@1``, ``default``), or one per setting, and the values."""

_NO_TIME = 1e-9

Refresh = bool | float | datetime | date | str

CONCURRENCY = 64
"""Maximum calls in flight if none is given."""

_LIMITS = {
    "concurrency": ("a whole number", "≥", 1),
    **dict.fromkeys(("retries", "max_calls"), ("a whole number", "≥", 0)),
    "budget_usd": ("a number", "≥", 0),
    **dict.fromkeys(("requests_per_minute", "tokens_per_minute", "max_seconds"), ("a number", ">", 0)),
}


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
                    settings[name] = value
                    settings.sources[name] = source if isinstance(source, str) else source(name)
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
    pass_prob_at
        The cut on P(pass) of `evalkit.vote`; None: a sample's own verdict counts.

    A rule may also be a function, or its import path (see `OwnRule`, which the field then holds).

    Raises
    ------
    ConfigError
        For an unknown rule, a share outside 0-1, or a cut that is no half hundredth.

    Examples
    --------
    >>> Rules(vote="median").vote_options
    {'method': 'median', 'ties': 'na', 'min_self_agreement': None, 'pass_prob_at': None}
    """

    vote: str = "mean"
    ties: str = "na"
    min_self_agreement: float | None = None
    aggregate: str = "mean"
    quorum: float = 0.5
    pass_prob_at: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "vote", checked_rule("vote", self.vote, VOTE_RULES))
        check_choice("ties", self.ties, VOTE_TIES)
        object.__setattr__(self, "aggregate", checked_rule("aggregate", self.aggregate, AGGREGATE_RULES))
        check_share("quorum", self.quorum)
        if self.min_self_agreement is not None:
            check_share("min_self_agreement", self.min_self_agreement)
        check_cut(self.pass_prob_at)

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> Rules:
        """Rules from a mapping; a rule that is None or missing takes its default."""
        unknown = [name for name in named if name not in cls.__slots__]
        if unknown:
            raise ConfigError(f"unknown rule {listed(unknown)}; allowed: {', '.join(cls.__slots__)}")
        return cls(**{name: value for name, value in named.items() if value is not None})

    @property
    def rule(self) -> Rule:
        """What is known of the rule from votes to scores."""
        return aggregate_rule(self.aggregate)

    @property
    def has_own(self) -> bool:
        """Whether one of the rules is a function of the user."""
        return isinstance(self.vote, OwnRule) or isinstance(self.aggregate, OwnRule)

    @property
    def vote_options(self) -> dict[str, Any]:
        """The options of `evalkit.vote`."""
        names = ("ties", "min_self_agreement", "pass_prob_at")
        return {"method": self.vote} | {name: getattr(self, name) for name in names}

    @property
    def aggregate_options(self) -> dict[str, Any]:
        """The options of `evalkit.aggregate`."""
        return {"method": self.aggregate, "quorum": self.quorum}

    def to_dict(self) -> dict[str, Any]:
        """The rules by name; without a cut no word of it, so that hashes of such rules are the same as ever."""
        names = [name for name in RULE_NAMES if name != "pass_prob_at" or self.pass_prob_at is not None]
        return {name: getattr(self, name) for name in names}


RULE_NAMES: tuple[str, ...] = tuple(Rules.__slots__)


def check_choice(name: str, value: object, allowed: Collection[Any], besides: str = "") -> None:
    """Raise ConfigError unless the value is an allowed one; `besides` is what else is allowed."""
    if value not in [*allowed]:
        raise ConfigError(f"{name}={value!r} is unknown; {guess(value, allowed)}allowed: {listed(allowed)}{besides}")


def checked_rule(name: str, value: Any, rules: Collection[Any]) -> str:
    """The name of a rule, or an `OwnRule` for a function and for the text of one; ConfigError for anything else."""
    rule = rule_of(value)
    if not isinstance(rule, OwnRule):
        check_choice(name, rule, rules, ", or a function")
    return cast(str, rule)


def check_criteria_per_call(value: Any) -> int | str:
    """The number of criteria in one call, or ``all``; ConfigError for anything else."""
    if value == "all" or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value  # type: ignore[no-any-return]
    raise ConfigError(f"criteria_per_call must be a whole number from 1, or 'all', got {value!r}")


def is_number(value: Any) -> bool:
    """Whether a value is a finite number that a float can hold, and no boolean.

    Examples
    --------
    >>> [is_number(value) for value in (1, 0.5, True, "1", float("nan"), float("inf"), 10**400)]
    [True, True, False, False, False, False, False]
    """
    number: Any = value
    return isinstance(value, Real) and not isinstance(value, bool) and bool(abs(number) <= sys.float_info.max)


LEAST_WEIGHT, MOST_WEIGHT = 1e-9, 1e9
WEIGHT = "0, or a number from 1e-9 to 1e9"
"""The weights that can be added and multiplied without loss."""


def is_weight(value: Any) -> bool:
    """Whether a value is a weight: see `WEIGHT`."""
    return is_number(value) and (value == 0 or LEAST_WEIGHT <= value <= MOST_WEIGHT)


def weight_of(value: Any) -> float:
    """A weight for pydantic, checked; ValueError for anything else.

    Examples
    --------
    >>> weight_of(1e308)
    Traceback (most recent call last):
    ValueError: must be 0, or a number from 1e-9 to 1e9, got 1e+308
    """
    if is_weight(value):
        return float(value)
    raise ValueError(f"must be {WEIGHT}, got {value!r:.60}")


def check_switch(name: str, value: Any) -> Any:
    """The value, if it is true or false; ConfigError for anything else."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be true or false, got {value!r:.60}")
    return value


def check_share(name: str, value: Any) -> None:
    """Raise ConfigError unless the value is a number from 0 to 1."""
    if not is_number(value) or not 0 <= value <= 1:
        raise ConfigError(f"{name} must be a number from 0 to 1, got {value!r}")


PASS_CUTS = tuple(sorted([0.5, *((number + 0.5) / 100 for number in range(100))]))
"""The cuts on P(pass): half hundredths, on which no P of two decimals lies, and .5."""


def check_cut(value: Any) -> None:
    """Raise ConfigError unless the value is a cut on P(pass), or None."""
    if isinstance(value, Mapping):
        fact = f"pass_prob_at is one cut for all criteria and judges, got one for each of {listed(value)}"
        raise ConfigError(f"{fact}; judge what needs another cut in an evaluation of its own")
    if value is not None and not (is_number(value) and value in PASS_CUTS):
        raise ConfigError(
            f"pass_prob_at must be 0.5 or a half hundredth from 0.005 to 0.995, as 0.655, got {value!r}; a probability "
            "of two decimals could lie on any other cut"
        )


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


def check_limit(name: str, value: Any, where: str | None = None) -> Any:
    """A limit of `Options`, checked; `where` is its name in the error message."""
    kind, sign, limit = _LIMITS[name]
    is_kind = is_number(value) and isinstance(value, int if kind == "a whole number" else (int, float))
    if is_kind and (value >= limit if sign == "≥" else value > limit):
        return value
    raise ConfigError(f"{where or name} must be {kind} {sign} {limit}, not {value!r}")


class JudgeOptions(TypedDict, total=False):
    """Options of `judge` that other functions take as ``**options``, so that editors can list and check them."""

    offline: bool
    on_miss: OnMiss
    recorded: Recorded
    refresh: Refresh
    adopt: bool
    cache: str | Path | None
    concurrency: int | None
    retries: int
    budget_usd: float | None
    max_calls: int | None
    progress: bool | None
    replies: bool
    requests_per_minute: float | None
    tokens_per_minute: float | None
    on_progress: Callable[[Any], object] | None
    max_seconds: float | None
    repair: bool | None


@dataclass(frozen=True, slots=True)
class Options:
    """Where `judge` looks up replies, and the limits of its calls. Can be pickled, except for `on_progress`.

    Attributes
    ----------
    offline, on_miss, recorded, refresh, adopt, progress, replies, repair
        As in `judge`; `refresh` is a bool, ``"unscored"`` or Unix seconds; `repair` None means True, unless a place
        that counts less says otherwise.
    cache
        The cache folder or address of a server; None: the default one.
    concurrency
        Maximum calls in flight per service, model and key variable, shared by all judges and runs. None: 64; at an
        address of this machine or a private network 8 at first, and one more per answer.
    retries
        How often a failed call is sent again.
    budget_usd
        Maximum cost in US$, or None. Each call reserves its upper bound before it is sent.
    max_calls
        Maximum number of requests sent, failed ones and retries included, or None.
    requests_per_minute, tokens_per_minute
        Rate limits per service, model and key variable, or None.
    on_progress
        Called with the engine's `Progress` at most ten times per second, in the caller's thread. An exception that it
        raises stops the run; calls in flight are awaited and stored.
    max_seconds
        Maximum seconds of calls, or None. Samples without a reply by then have ``error = "stopped"``; a reply to a call
        in flight is stored if it comes while the process lives.

    Raises
    ------
    ConfigError
        For a value that is unknown, out of range or contradictory.
    """

    offline: bool = False
    on_miss: OnMiss = "row"
    recorded: Recorded = "miss"
    refresh: Refresh = False
    adopt: bool = False
    cache: str | Path | None = None
    concurrency: int | None = None
    retries: int = 5
    budget_usd: float | None = None
    max_calls: int | None = None
    progress: bool | None = None
    replies: bool = False
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    on_progress: Callable[[Any], object] | None = None
    max_seconds: float | None = None
    repair: bool | None = None

    @classmethod
    def of(cls, function: str, options: Mapping[str, Any]) -> Options:
        """Options that a function takes as ``**options``; TypeError for others."""
        unknown = [name for name in options if name not in Options.__slots__]
        if unknown:
            raise TypeError(
                f"{function}() got unexpected arguments: {listed(unknown)}; allowed: {', '.join(Options.__slots__)}"
            )
        return cls(**options)

    def since(self, began: float) -> Self:
        """The same options with the seconds that are left, if they hold from this Unix time on."""
        if self.max_seconds is None:
            return self
        return replace(self, max_seconds=max(_NO_TIME, self.max_seconds - (time.time() - began)))

    def from_now(self) -> Self:
        """The same options for a run of several calls: what is requested again in one of them counts in the others."""
        return replace(self, refresh=time.time()) if self.refresh is True else self

    def __post_init__(self) -> None:
        for name, allowed in (("on_miss", ON_MISS), ("recorded", RECORDED)):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"unknown {name}={getattr(self, name)!r}; allowed: {', '.join(allowed)}")
        for name in _LIMITS:
            if getattr(self, name) is not None or name == "retries":
                check_limit(name, getattr(self, name))
        if self.repair is not None:
            check_switch("repair", self.repair)
        if not isinstance(self.refresh, bool) and self.refresh != "unscored":
            object.__setattr__(self, "refresh", _unix_time(self.refresh))
        if self.offline and self.refresh:
            raise ConfigError(
                "refresh (call the judges again) and offline (make no calls) contradict each other; pass only one of "
                "them"
            )


def _unix_time(stamp: Any) -> float:
    """Unix seconds of a time stamp: a number, a datetime or date, an ISO string."""
    try:
        if isinstance(stamp, str):
            stamp = datetime.fromisoformat(stamp)
        if isinstance(stamp, date) and not isinstance(stamp, datetime):
            stamp = datetime(stamp.year, stamp.month, stamp.day)  # noqa: DTZ001  # a day begins by the local clock
        seconds = stamp.timestamp() if isinstance(stamp, datetime) else float(stamp)
        if not math.isfinite(seconds):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(
            f"unknown refresh={stamp!r}; allowed: False, True, 'unscored' or a time stamp: Unix seconds, a datetime, "
            "or a string such as 2026-01-31 or 2026-01-31T12:30"
        ) from None
    return seconds


def is_address(cache: object) -> bool:
    """Whether `cache` is the address of a server, and no folder."""
    return isinstance(cache, str) and "://" in cache


def shown_address(address: str) -> str:
    """The address as messages show it: without password and options."""
    with contextlib.suppress(ValueError):  # brackets or a port that no address has
        parts = urlsplit(address)
        if parts.scheme not in ("postgresql", "postgres"):
            raise CacheError(
                f"a reply store cannot be on {parts.scheme!r}; expected a folder or postgresql://user@host/database"
            )
        where = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
        return f"postgresql://{f'{parts.username}@' if parts.username else ''}{where}{parts.path}"
    raise CacheError("the address of the reply store cannot be read; expected postgresql://user@host:port/database")


def as_cache(cache: Path | str | None) -> Path | str | None:
    """A folder as a path; an address or None as it is."""
    return cache if cache is None or is_address(cache) else Path(cache)


def shown_cache(cache: Path | str | None) -> str | None:
    """A folder, or an address without its password, as text."""
    return None if cache is None else shown_address(str(cache)) if is_address(cache) else str(cache)


def folder_of(cache: Path | str | None) -> Path:
    """The folder for files beside a reply store: its own, or `default_folder()` if the store is on a server."""
    return default_folder() if cache is None or is_address(cache) else Path(cache).expanduser().absolute()


def default_folder(start: Path | None = None) -> Path:
    """The default folder for what is always local: as `default_cache`, without regard to an address."""
    return Path(default_cache(start, local=True))


def default_cache(start: Path | None = None, *, local: bool = False) -> Path | str:
    """Where the reply store is if nothing else is given.

    `EVALKIT_CACHE` if it is set (an address does not count if `local`); else ``cache/`` beside the nearest
    ``pyproject.toml`` upwards from `start` (the working folder), so that all notebooks of a project share one; else the
    user's cache folder. Nothing is created.

    Parameters
    ----------
    start
        Where the search begins; the working folder if None.
    local
        Return a folder in any case.

    Returns
    -------
    Path or str
        The absolute path of a folder, or the address of a PostgreSQL database.

    Examples
    --------
    >>> import os, tempfile
    >>> from unittest import mock
    >>> with mock.patch.dict(os.environ, EVALKIT_CACHE="~/replies"):
    ...     default_cache().name
    'replies'
    """
    named = os.environ.get("EVALKIT_CACHE", "").strip()
    if "://" in named:
        if not local:
            return named
    elif named:
        return Path(named).expanduser().absolute()
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if (folder / "pyproject.toml").is_file():
            return folder / "cache"
    return _user_folder()


def _user_folder() -> Path:
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "evalkit" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "evalkit"
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "evalkit"
