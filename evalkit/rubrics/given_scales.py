"""Scales as people write them: the argument `scale=`, and cells of a column such as ``0-2`` or ``bad, ok, good``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import orjson

from evalkit.core.lists_of_choices import LEVELS, Level
from evalkit.errors import ConfigError, guess, listed
from evalkit.rubrics.criteria import Criterion
from evalkit.rubrics.rubric import Rubric
from evalkit.rubrics.scales import Scale, number

ScaleLike = Rubric | Criterion | Scale | Mapping[Any, Any] | Iterable[Any] | str
"""A Scale, a Criterion or a Rubric; ``(low, high)``; a list of codes, or of words from bad to good; a mapping from code
to description; their text as in ``0-2`` or ``bad, ok, good``; or a mapping from criterion to one of these."""

Known = tuple[Scale, str]
"""A scale and its cell in the column `scale`."""

_NUMBER = r"([+-]?\d+(?:[.,]\d+)?)"
_RANGE = re.compile(rf"[(\[]?\s*{_NUMBER}\s*(?:-|–|—|−|\.\.\.?|…|:|\bto\b)\s*{_NUMBER}\s*[)\]]?")
_ENDS = re.compile(rf"\(\s*{_NUMBER}\s*,\s*{_NUMBER}\s*\)")
_BETWEEN = (";", "|", "<", ",", "/", "\n")
_FORMS = (
    "a Scale, a Criterion, a Rubric, (low, high), a list of codes such as [0, 1, 2], a list of words from bad to good, "
    "or a mapping from criterion to one of these"
)
_OPEN = {level: Scale((), level=level) for level in ("interval", "nominal")}


def open_scale(level: Level) -> Scale:
    """The scale of numbers (``interval``) or texts (``nominal``) of which nothing else is known."""
    return _OPEN[level]


def scale_of(given: Any, level: Any = None) -> Scale:
    """One scale, as people write it.

    Parameters
    ----------
    given
        What `ScaleLike` lists, for one criterion.
    level
        The cell of the column `level` beside it, if there is one.

    Raises
    ------
    ConfigError
        When it cannot be read as a scale.
    RubricError
        When a scale breaks its rules.

    Examples
    --------
    >>> [(scale.level, *scale.codes) for scale in map(scale_of, ["0-2", (1, 5), [0, 1], "bad, ok, good"])]
    [('interval', 0, 2), ('interval', 1, 5), ('ordinal', 0, 1), ('ordinal', 0, 1, 2)]
    """
    if isinstance(given, Scale):
        return given
    if isinstance(given, Criterion):
        return given.scale
    if isinstance(given, Rubric):
        if len(given.criteria) == 1:
            return given.criteria[0].scale
        raise ConfigError(f"rubric {given.id!r} has several criteria; pass one of them: rubric.criterion(name)")
    if isinstance(given, str):
        return _of_text(given.strip(), level)
    if isinstance(given, Mapping):
        return _of_levels(given, level)
    if isinstance(given, (set, frozenset)):  # has no order
        return Scale.of(dict.fromkeys(sorted(map(str, given))), level="nominal")
    if not isinstance(given, Iterable):
        raise ConfigError(f"scale={given!r} is not a scale; pass {_FORMS}")
    codes = list(given)
    if isinstance(given, tuple) and len(codes) == 2 and all(_is_number(code) for code in codes):
        return _range(codes[0], codes[1], level)
    return _of_codes(codes, level)


def scales_of(given: Any, criteria: Iterable[str], *, sole: bool = False) -> dict[str, Known]:
    """The scale of each criterion and its cell, as far as `given` says them; `sole`: the table names no criterion.

    Raises
    ------
    ConfigError
        When it is none of what `ScaleLike` lists, or names other criteria.
    """
    names = list(criteria)
    if given is None:
        return {}
    is_rubric = isinstance(given, Rubric) and (not sole or len(given.criteria) > 1)
    by_criterion = {criterion.name: criterion for criterion in given.criteria} if is_rubric else given
    if (
        isinstance(by_criterion, Mapping)
        and not isinstance(given, Scale)
        and (is_rubric or not _is_levels(given, names))
    ):
        by_name = {str(name): scale for name, scale in by_criterion.items() if scale is not None}
        unknown, lacking = [name for name in by_name if name not in names], {*names} - {*by_name}
        if lacking and (unknown or is_rubric):
            has = "no column `criterion`" if sole else listed(names)
            raise ConfigError(
                f"scale= names the criteria {listed(unknown or by_name)}, and the table has {has}; "
                f"{guess(next(iter(unknown), ''), names)}pass the scale of these rows, or name their criterion"
            )
        return {name: known(by_name[name]) for name in names if name in by_name}
    return dict.fromkeys(names, known(given))


def known(given: Any) -> Known:
    """A scale and its cell, as people write it."""
    scale = scale_of(given)
    return scale, cell_of(scale)


def _is_number(code: Any) -> bool:
    return not isinstance(code, str) and number(code) is not None


def _is_levels(given: Mapping[Any, Any], names: list[str]) -> bool:
    """Is it a mapping from code to description, rather than one by criterion?"""
    texts = all(text is None or isinstance(text, str) for text in given.values())
    return texts and not {*map(str, given)} & {*names} and all(number(code) is not None for code in given)


def _range(low: Any, high: Any, level: Any = None) -> Scale:
    ends = number(low), number(high)
    if ends[0] is None or ends[1] is None or ends[0] >= ends[1]:
        raise ConfigError(f"scale=({low}, {high}) is not a range; pass (low, high), with low below high")
    if level in ("ordinal", "nominal") and isinstance(ends[0], int) and isinstance(ends[1], int):
        return Scale.of(dict.fromkeys(range(ends[0], ends[1] + 1)), level=level)
    return Scale(codes=(ends[0], ends[1]), level="interval")


def _of_codes(codes: list[Any], level: Any = None) -> Scale:
    if level == "nominal":
        return Scale.of(dict.fromkeys(map(str, codes)), level="nominal")
    if codes and all(isinstance(code, bool) or type(code).__name__ == "bool" for code in codes):
        return Scale((0, 1), level="ordinal", pass_at=1)
    is_number = [number(code) is not None for code in codes]
    if all(is_number):
        steps = np.diff([number(code) for code in codes])
        if len(steps) and (steps < 0).all():
            rising = ", ".join(map(str, codes[::-1]))
            raise ConfigError(
                f"scale={codes!r} is in descending order, and numbers are read as rising, the highest as best; pass "
                f"[{rising}] or, if low is better, ek.Scale.of([{rising}], better='low')"
            )
        return Scale.of(dict.fromkeys(codes), level=level or "ordinal")
    if any(is_number) or not all(isinstance(code, str) for code in codes):
        raise ConfigError(f"scale={codes!r} has numbers and words; pass one kind, or {{code: word, …}}")
    words = Scale.of(dict.fromkeys(codes), level="nominal").codes  # checks that they differ
    return Scale(tuple(range(len(words))), tuple(map(str, words)))


def _of_levels(given: Mapping[Any, Any], level: Any = None) -> Scale:
    if "codes" in given:  # the JSON of a table
        values = dict(given)
        codes, of_json = values.pop("codes"), values.pop("level", None)
        of_codes = "interval" if not codes else "ordinal" if all(map(_is_number, codes)) else "nominal"
        chosen: Any = level if level in LEVELS else of_json or of_codes
        texts = values.pop("texts", None) or [None] * len(codes)
        try:
            if not codes:
                return Scale((), level=chosen, **values)
            return Scale.of(dict(zip(codes, texts, strict=True)), level=chosen, **values)
        except (TypeError, ValueError) as problem:
            raise ConfigError(f"scale {dict(given)!r} is not a scale ({problem}); pass {_FORMS}") from None
    return Scale.of(given, level=level or ("ordinal" if all(number(code) is not None for code in given) else "nominal"))


def _of_text(text: str, level: Any) -> Scale:
    if text[:1] in ("{", "["):
        try:
            return scale_of(orjson.loads(text), level)
        except orjson.JSONDecodeError:
            pass
    if match := _RANGE.fullmatch(text) or _ENDS.fullmatch(text):
        return _range(match[1], match[2], level)
    between = next((mark for mark in _BETWEEN if mark in text), None)
    words = [word.strip().strip("'\"") for word in text.strip("()[]").split(between)] if between else []
    if len(words) < 2 or not all(words):
        raise ConfigError(f"scale {text!r} is not a scale; write '0-2', '0, 1, 2' or 'bad, ok, good', or pass {_FORMS}")
    return _of_codes(words, level)


def cell_of(scale: Scale) -> str:
    """The cell of the column `scale`, with the words that stand for the codes: people's labels may be these.

    Examples
    --------
    >>> cell_of(scale_of(["bad", "good"]))
    '{"codes":[0,1],"better":"high","texts":["bad","good"]}'
    """
    text = scale.to_json()
    return orjson.dumps(orjson.loads(text) | {"texts": list(scale.texts)}).decode() if any(scale.texts) else text


def same_scale(one: Scale, other: Scale) -> bool:
    """Whether answers mean the same on both: descriptions do not count."""
    return replace(one, texts=()) == replace(other, texts=())
