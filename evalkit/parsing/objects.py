"""The form ``json``: an object that holds the score, whole, inside other text, or nearly JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from evalkit.parsing.readings import Parsed, Reader, Reading
from evalkit.parsing.replies import EXPLAINS

__all__ = ["quick_object", "read_object"]

SCORES = (
    *("score", "label", "rating", "grade", "verdict", "result", "answer", "value", "final_score", "final_verdict"),
    *(
        "overall_score",
        "judgment",
        "judgement",
        "choice",
        "decision",
        "оценка",
        "балл",
        "вердикт",
        "результат",
        "ответ",
    ),
)
"""Keys that hold the answer, the likeliest first; case, spaces and dashes do not matter."""

_KEYED = re.compile(
    rf"(?<![\w\\])[\"'“]?(?:{'|'.join(SCORES)})[\"'”]?\s{{0,4}}:\s{{0,4}}[\"'“]?([^\"'”,}}\n]{{0,80}})", re.IGNORECASE
)
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|[{}]', re.DOTALL)
_BETWEEN = re.compile(
    r"[\s,;|`\[\]]{0,40}(?:json)?[\s`]{0,8}(?:(?:or|and|или|и)\b)?[\s,;`]{0,8}(?:json)?[\s`]{0,8}\Z", re.IGNORECASE
)
_AFTER = re.compile(r"[\s`\].;]{0,40}\Z")
_WINDOW, _ATTEMPTS, _KEPT = 65_536, 12, 8
_REPAIRABLE, _NESTED = 16_384, 64


class _Answer(NamedTuple):
    """An object's answer with its explanation and where it stands in the text."""

    reading: Reading
    explanation: str
    repaired: bool = False
    start: int = 0
    end: int = 0


def quick_object(reader: Reader, name: str) -> Callable[[str], Parsed | None]:
    """A reader of replies that are exactly ``{"explanation": …, name: code}``; None for all others."""
    codes, loads, quoted = reader.codes, orjson.loads, f'"{name}"'
    interval = reader.scale.level == "interval"
    low, high = (reader.scale.lowest, reader.scale.highest) if interval else (0.0, 0.0)

    def quick(text: str) -> Parsed | None:
        try:
            values = loads(text)
        except orjson.JSONDecodeError:
            return None
        if type(values) is not dict or len(values) != 2:
            return None
        explanation: Any = values.get("explanation")
        value: Any = values.get(name)
        if type(explanation) is not str or type(value) not in (int, float, str):
            return None
        code = codes.get(value)
        if code is None and interval and type(value) is not str and low <= value <= high:
            code = int(value) if value == int(value) else value
        # a doubled key would have lost its first value: left to the careful way
        if code is None or text.count(quoted) != 1:
            return None
        return Parsed(code, explanation.strip())

    return quick


def read_object(text: str, reader: Reader, cut: bool) -> Parsed:
    """The answer of a reply in the form ``json``; `cut` if the server cut it off."""
    found = _loaded(text, reader)
    if found is None and not cut:
        whole = reader.whole(text)
        found = _Answer(whole, "") if whole is not None else None
    if found is None:
        found = _embedded(text, reader, cut)
    if found is None:
        return Parsed(None, "", "truncated" if cut else "unreadable")
    code, error = found.reading[:2]
    return Parsed(code, _storable(found.explanation), error, found.repaired and code is not None)


def _storable(text: str) -> str:
    # "\ud800" is JSON, but no text that can be written as UTF-8
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _merged(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose doubled keys keep all their values, as a list."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        values[key] = [values[key], value] if key in values and values[key] != value else value
    return values


def _loaded(piece: str, reader: Reader) -> _Answer | None:
    """The answer of a piece that is JSON from end to end, or None."""
    try:
        value = json.loads(piece, object_pairs_hook=_merged)
    except (ValueError, RecursionError):
        return None
    return _answer(value, reader)


def _answer(value: Any, reader: Reader, depth: int = 0) -> _Answer | None:
    """The answer in a JSON value: under a score key, else in the objects one or two levels below."""
    if isinstance(value, (str, int, float)):
        return None if depth else _Answer(reader.value(value), "")
    if not isinstance(value, (dict, list)) or depth > 3:
        return None
    if isinstance(value, list):
        return _same([_answer(item, reader, depth + 1) for item in value[:_KEPT] if isinstance(item, (dict, list))])
    fields = {re.sub(r"[\s-]+", "_", str(key).strip().casefold()): item for key, item in value.items()}
    explanation = next((_text(fields[name]) for name in EXPLAINS if fields.get(name)), "")
    for name in SCORES:
        if name in fields and not isinstance(fields[name], dict):
            readings = [reader.value(item) for item in _items(fields[name])]
            if any(item.code is not None or item.error != "unreadable" for item in readings) or name in SCORES[:2]:
                same = all(not readings[0].differs(item) for item in readings)
                return _Answer(readings[0] if same else Reading(None, "ambiguous"), explanation)
    inner = _same(
        [_answer(item, reader, depth + 1) for item in list(value.values())[:32] if isinstance(item, (dict, list))]
    )
    return inner and inner._replace(explanation=inner.explanation or explanation)


def _items(value: Any) -> list[Any]:
    return value[:_KEPT] if isinstance(value, list) and value else [value]


def _text(value: Any) -> str:
    try:
        if isinstance(value, list):
            return "\n".join(_text(item) for item in value)
        return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""  # hundreds of brackets within each other are no explanation


def _same(answers: list[_Answer | None]) -> _Answer | None:
    found = [answer for answer in answers if answer is not None]
    if not found:
        return None
    if any(found[0].reading.differs(answer.reading) for answer in found):
        return found[0]._replace(reading=Reading(None, "ambiguous"))
    return found[0]


def _embedded(text: str, reader: Reader, cut: bool) -> _Answer | None:
    """The last object with an answer; ambiguous if its neighbour or the reply's head says otherwise."""
    offset = max(0, len(text) - _WINDOW)
    text = text[offset:]
    spans, unclosed = _spans(text)
    found = [answer for span in spans if (answer := _at(text, span, reader, cut)) is not None]
    last_brace = text.rfind("}")
    if unclosed is not None and not cut and (not found or last_brace >= found[-1].end):
        mended = (
            _mended(text[unclosed:], reader)
            if last_brace < unclosed
            else _mended(text[unclosed : last_brace + 1], reader)
        )
        if mended is not None:
            found.append(mended._replace(start=unclosed, end=len(text)))
    if not found:
        return None
    last = found[-1]
    # inside an object that was cut off, an inner one is a quoted one
    if cut and (not _AFTER.match(text, last.end) or (unclosed is not None and unclosed < last.start)):
        return None
    for other in found[:-1]:
        neighbour = other is found[-2] and _BETWEEN.match(text[other.end : last.start])
        head = offset == 0 and _AFTER.match(text[: other.start].replace("json", ""))
        if (neighbour or head) and last.reading.differs(other.reading):
            return last._replace(reading=Reading(None, "ambiguous"))
    return last


def _spans(text: str) -> tuple[list[tuple[int, int]], int | None]:
    """First and last few outermost ``{…}``, and where one begins that is not closed."""
    spans: list[tuple[int, int]] = []
    unclosed, at = None, 0
    for _ in range(_ATTEMPTS):
        while (start := text.find("{", at)) >= 0:
            end = _closing(text, start)
            if end is None:
                break
            spans.append((start, end))
            at = end
        if start < 0:
            break
        unclosed = start if unclosed is None else unclosed
        at = start + 1
    return (spans if len(spans) <= 2 * _KEPT else spans[:1] + spans[-2 * _KEPT :]), unclosed


def _closing(text: str, start: int) -> int | None:
    depth = 0
    for token in _STRUCTURE.finditer(text, start):
        mark = token[0]
        if mark == "{":
            depth += 1
        elif mark == "}":
            depth -= 1
            if not depth:
                return token.end()
    return None


def _at(text: str, span: tuple[int, int], reader: Reader, cut: bool) -> _Answer | None:
    piece = text[span[0] : span[1]]
    found = _loaded(piece, reader)
    if found is None and not cut:
        found = _mended(piece, reader)
    return found and found._replace(start=span[0], end=span[1])


def _mended(piece: str, reader: Reader) -> _Answer | None:
    """The answer of a piece that is nearly JSON; None where mending would have to guess it."""
    # the size and nesting limits keep json_repair, which is not linear, within milliseconds
    if len(piece) > _REPAIRABLE or piece.count("{") + piece.count("[") > _NESTED or not _KEYED.search(piece):
        return None
    values = {match[1].strip(" \t`*") for match in _KEYED.finditer(piece)}
    readings = [reading for value in values if (reading := reader.whole(value)) is not None]
    if any(readings[0].differs(reading) for reading in readings):
        return _Answer(Reading(None, "ambiguous"), "")
    # without its closing brace the text may end inside the score: 1 of 10
    if not piece.rstrip().endswith("}") and piece.rstrip()[-1].isalnum():
        return None
    import json_repair

    try:
        value = json_repair.repair_json(piece, return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None
    found = _answer(value, reader, depth=1)
    return found and found._replace(repaired=True)
