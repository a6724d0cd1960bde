"""The exception tree: every error is an ``EvalkitError`` and also the built-in that fits it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import SupportsInt

from evalkit.errors.secrets import without_keys

__all__ = [
    "CacheError", "CacheMiss", "ConfigError", "EvalkitError", "EvalkitWarning", "InputError", "JudgeError",
    "LightevalError", "MissingExtraError", "RegistryError", "RubricError", "advise_extra", "counted",
    "error_at", "guess", "listed",
]  # fmt: skip


class EvalkitError(Exception):
    """Base class of evalkit's own errors; keys are removed from their messages."""

    def __init__(self, *args: object) -> None:
        super().__init__(*map(without_keys, args))


class InputError(EvalkitError, ValueError):
    """Items, labels or a table that cannot be used as they are."""


class ConfigError(EvalkitError, ValueError):
    """A judge, an option, a variable or a profile with an unknown or invalid value."""


class RubricError(EvalkitError, ValueError):
    """A rubric, criterion, scale or template that breaks its rules."""


class JudgeError(EvalkitError, RuntimeError):
    """No judge could be called: nothing was scored.

    Attributes
    ----------
    judge
        The name of the judge; None: several, or unknown.
    reason
        Why there is no reply, as in the column `error` of judgments; None: no call was made.
    variable
        The environment variable of the key that is not set; None: no key is missing.
    advice
        What to do next; the end of the message.

    Examples
    --------
    >>> problem = JudgeError("judge 'gpt' needs a key", judge="gpt", advice="set it")
    >>> str(problem), problem.fact, problem.advice
    ("judge 'gpt' needs a key; set it", "judge 'gpt' needs a key", 'set it')
    """

    def __init__(
        self, *args: object, judge: str | None = None, reason: str | None = None, variable: str | None = None,
        advice: str = "",
    ) -> None:  # fmt: skip
        super().__init__(*(f"{text}; {advice}" if advice else text for text in args))
        self.judge, self.reason, self.variable, self.advice = judge, reason, variable, without_keys(advice)

    @property
    def fact(self) -> str:
        """The message without the advice."""
        return str(self).removesuffix(f"; {self.advice}") if self.advice else str(self)


class CacheError(EvalkitError, RuntimeError):
    """The reply store cannot be read or written; the file is unchanged."""


class CacheMiss(CacheError, LookupError):
    """Offline (``on_miss="raise"``), a reply is not stored."""


class RegistryError(EvalkitError, RuntimeError):
    """The registry cannot be read or written, or has no such entry."""


class LightevalError(EvalkitError, RuntimeError):
    """A LightEval run that failed; its output is in the log that the message names."""


class MissingExtraError(EvalkitError, ImportError):
    """An optional package is needed; the message names the extra to install."""


class EvalkitWarning(UserWarning):
    """A problem that does not stop the work."""


def advise_extra(extra: str) -> str:
    """What to do about a missing package; evalkit is installed from its checkout until its distribution is published.

    Examples
    --------
    >>> advise_extra("parquet")
    "install evalkit's extra 'parquet' (from its checkout: pip install '.[parquet]')"
    """
    return f"install evalkit's extra '{extra}' (from its checkout: pip install '.[{extra}]')"


def counted(number: SupportsInt, one: str, more: str | None = None) -> str:
    """A number with its noun; pass `more` if the plural is not `one` with an s.

    Examples
    --------
    >>> counted(1, "item"), counted(0, "item"), counted(2, "reply", "replies")
    ('1 item', '0 items', '2 replies')
    """
    return f"{int(number)} {one if int(number) == 1 else more or f'{one}s'}"


@contextmanager
def error_at(place: str, error: type[EvalkitError], of: type[Exception] | None = None) -> Iterator[None]:
    """Put the place before the message of an `error` inside; with `of`, errors of that kind become one.

    >>> with error_at("item 'a'", InputError, ValueError):
    ...     float("one")
    Traceback (most recent call last):
    evalkit.errors.InputError: item 'a': could not convert string to float: 'one'
    """
    try:
        yield
    except of or error as problem:  # noqa: B030  # a class
        raise error(f"{place}: {problem}") from None


def guess(given: object, names: Iterable[object]) -> str:
    """``did you mean 'x'?`` and a space for a name that is almost one of `names`, else nothing.

    Examples
    --------
    >>> guess("faithfulnes", ["faithfulness", "safety"]), guess("tone", ["faithfulness", "safety"])
    ("did you mean 'faithfulness'? ", '')
    """
    from difflib import get_close_matches

    found = get_close_matches(str(given), [str(name) for name in names], n=1, cutoff=0.7)
    return f"did you mean {found[0]!r}? " if found and found[0] != str(given) else ""


def listed(names: Iterable[object], *, most: int = 8) -> str:
    """Names as one readable list, cut after `most` of them.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    shown = [repr(str(name)) for name in names]
    extra = len(shown) - most
    if extra > 0:
        return f"{', '.join(shown[:most])} and {extra} more"
    return ", ".join(shown) if shown else "none"
