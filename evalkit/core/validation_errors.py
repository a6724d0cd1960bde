"""Errors of pydantic models in one line: the key, the received value, the allowed values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args

from evalkit.errors import EvalkitError, guess
from evalkit.errors.secrets import is_key

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

M = TypeVar("M", bound="BaseModel")
_MOST_PROBLEMS = 3
_MOST_CHARACTERS = 60
_EXPECTED = dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "a mapping")
_EXPECTED |= dict.fromkeys(("list_type", "tuple_type"), "a list")


class Problem(NamedTuple):
    """One problem of a value.

    Attributes
    ----------
    place
        Keys and list positions that lead to the value.
    kind
        pydantic's name of the problem, such as ``missing`` or ``extra_forbidden``.
    text
        The problem in words, with its key if the words need one.
    """

    place: tuple[int | str, ...]
    kind: str
    text: str

    @property
    def key(self) -> str:
        """The place as text, such as ``judges[0].weight``."""
        return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.place).removeprefix(".")

    def __str__(self) -> str:
        has_key = not self.key or self.kind in ("missing", "extra_forbidden") or self.text.startswith(self.key)
        return self.text if has_key else f"{self.key}: {self.text}"


def problems(error: ValidationError, model: type[BaseModel], *, redact: bool = False) -> list[Problem]:
    """All problems of a value, unknown keys first: other problems may follow from a misspelt key.

    Parameters
    ----------
    error
        The exception of pydantic.
    model
        The model of the value; its fields are the allowed keys.
    redact
        Quote no received value.
    """
    details = error.errors(include_url=False, include_context=False)
    listed = [_problem(detail, model, redact=redact) for detail in details]
    return sorted(listed, key=lambda problem: problem.kind != "extra_forbidden")


def explain(error: ValidationError, model: type[BaseModel], *, redact: bool = False) -> str:
    """The problems of a value in one line: the first three, and how many there are besides.

    Problems that differ only in list positions are shown once.

    Examples
    --------
    >>> from pydantic import BaseModel, ConfigDict, ValidationError
    >>> class Range(BaseModel, extra="forbid"):
    ...     low: int
    ...     high: int = 9
    >>> try:
    ...     Range(low="one", hihg=3)
    ... except ValidationError as error:
    ...     print(explain(error, Range))
    unknown key 'hihg'; did you mean 'high'? (allowed: low, high); low: must be a valid integer, got 'one'
    """
    every = problems(error, model, redact=redact)
    alike: dict[Any, Problem] = {}
    for problem in every:
        alike.setdefault((problem.kind, *(part for part in problem.place if isinstance(part, str))), problem)
    shown = list(alike.values())[:_MOST_PROBLEMS]
    more = len(every) - len(shown)
    return "; ".join(map(str, shown)) + (f" (and {more} more)" if more else "")


def validated(
    model: type[M], value: Any, where: str, error: type[EvalkitError], *, advice: str = "", redact: bool = False
) -> M:
    """The model of an untrusted value; an `error` that begins with the place and ends with the advice if it is none.

    Examples
    --------
    >>> from pydantic import BaseModel
    >>> from evalkit.errors import ConfigError
    >>> class Range(BaseModel):
    ...     low: int
    >>> validated(Range, {"low": "one"}, "r.yaml", ConfigError, advice="; write a number")
    Traceback (most recent call last):
    evalkit.errors.ConfigError: r.yaml: low: must be a valid integer, got 'one'; write a number
    """
    from pydantic import ValidationError

    try:
        return model.model_validate(value)
    except ValidationError as problem:
        raise error(f"{where}: {explain(problem, model, redact=redact)}{advice}") from None


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    """The words for an unknown key.

    Examples
    --------
    >>> unknown_key("min_scor", ["type", "min_score"])
    "unknown key 'min_scor'; did you mean 'min_score'? (allowed: type, min_score)"
    """
    names = list(allowed)
    meant = guess(key.rpartition(".")[2], names).strip()
    return f"unknown key {key!r}{f'; {meant}' if meant else ''} (allowed: {', '.join(names)})"


def _problem(detail: Any, model: type[BaseModel], *, redact: bool) -> Problem:
    # what stands in angle brackets is no key but the tag of a union
    place, kind = tuple(key for key in detail["loc"] if str(key)[:1] != "<"), detail["type"]
    problem = Problem(place, kind, "")
    if kind == "extra_forbidden":
        return problem._replace(text=unknown_key(problem.key, _allowed_keys(model, place[:-1])))
    if kind == "missing":
        return problem._replace(text=f"the key {problem.key!r} is missing")
    message = detail["msg"]
    if kind in _EXPECTED:
        message = f"expected {_EXPECTED[kind]}"
    message = message.replace("Input should be", "must be").replace("List should have", "must have")
    message = message.removeprefix("Value error, ").partition(", unable")[0].partition(" after validation")[0]
    text = f"{message[:1].lower()}{message[1:]}"
    if kind != "value_error" and not redact and not (place and is_key(str(place[-1]))):
        text += f", got {_shown(detail['input'])}"
    return problem._replace(text=text)


def _shown(value: Any) -> str:
    """A short value as it is, another one by its type."""
    if value is None or isinstance(value, (bool, int, float, str)):
        text = repr(value)
        return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"
    return {"dict": "a mapping", "list": "a list", "tuple": "a list"}.get(type(value).__name__, type(value).__name__)


def _allowed_keys(model: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    """The keys of the model that the place leads to."""
    for part in place:
        field = model.model_fields.get(str(part))
        if field is not None:
            model = next(_models_in(field.annotation), model)
    return [field.alias or name for name, field in model.model_fields.items() if not field.exclude]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if hasattr(annotation, "model_fields"):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)
