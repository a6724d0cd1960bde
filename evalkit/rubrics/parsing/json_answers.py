"""The form ``json``: an object that holds the score, whole, inside other text, or nearly JSON.

One module, as whole, embedded and repaired objects are read by the same keys, and checked by the same other fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from evalkit.rubrics.parsing import verdict_patterns as like
from evalkit.rubrics.parsing.beside_json import BETWEEN, around, blocks, contradicts, declines, is_own, opposes
from evalkit.rubrics.parsing.mask_quotations import masked, unfenced
from evalkit.rubrics.parsing.values_on_scale import AMBIGUOUS, OFF_SCALE, UNREADABLE, Parsed, Reader, Reading
from evalkit.rubrics.parsing.values_on_scale import folded as as_label
from evalkit.rubrics.parsing.verdict_words import ECHO_KEYS, EXPLAINS, INPUT_KEYS, VERDICT_KEYS, WRAPPER_KEYS
from evalkit.rubrics.scales import Code

_KEPT = 8
_REPAIRABLE, _NESTED, _DEEPEST, _LONGEST_LIST, _LONG_TEXT, _NEAR = 16_384, 64, 3, 256, 12, 80
MAXIMUM = re.compile(
    r"(?:max(?:imum)?(?:_score|_points|_rating)?|out_of|of|denominator|unit|(?:score_|rating_)?(?:scale|range))\Z"
)
_NOT_A_RANGE = re.compile(r"(?!(?:to|of|from|out|points?|max(?:imum)?|min(?:imum)?)\b)\b[^\W\d_]+")
_MET = re.compile(
    r"(?:is_|was_)?(?:met|pass|passes|passed|satisfied|fulfilled|(?:requirement|criterion|criteria)_met)\Z"
)
_REFUSED = re.compile(
    r"(?:is_|was_)?(?:refus|declin|abstain|error)|(?P<judging>(?:cannot|unable_to|could_not)_(?:evaluat|judg|assess|scor|rat|grad))"
)
_IS, _SAYS_SO = re.compile(r"(?:is|was|has)_"), {"true": True, "yes": True, "false": False, "no": False}
_DEDUCTS = re.compile(r"(?:points?_|total_)?(?:deductions?|deducted|penalt(?:y|ies)|subtracted)(?:_points?)?\Z")
_DEDUCTION = re.compile(r"[+\-−]?\s?(\d+(?:\.\d+)?)(?:\s(?:points?|marks?))?(?:\s?(?:[(:,;–—-]|for\b)|\.?\Z)")
_WEIGHTS = re.compile(
    r"(?:\A|_)(?:scores?|ratings?|points|prob(?:abilit(?:y|ies)|s)?|likelihoods?|confidences?)(?:_|\Z)"
)
_WEIGHS = re.compile(rf"(?:(?:class|label|verdict|overall|total|final|all)_?)?(?:{_WEIGHTS.pattern}){{1,2}}\Z")
_DECISIONS = (*VERDICT_KEYS, "decision", "result", "outcome", "conclusion")
_REVISES = re.compile(
    r"(?:final|revised|corrected|updated|adjusted)(?:_|\Z)|overall\Z|(?:overall|actual|new)_(?:score|rating|verdict)"
)
_NAMES = {"criterion", "requirement", "name", "aspect", "dimension", "metric", "category", "claim", "step", "id"}


_opposes = lru_cache(maxsize=1024)(opposes)


class _Answer(NamedTuple):
    """An object's answer with its explanation; an echo counts only if no other object answers."""

    reading: Reading
    explanation: str
    repaired: bool = False
    echo: bool = False


def read_object(text: str, reader: Reader, cut: bool, name: str = "") -> Parsed:
    """The answer of a reply in the form ``json``; `cut` if the server cut it off, `name` the criterion's."""
    whole = read_whole(text, reader, name)
    if whole is not None:
        return whole
    reading = None if cut else reader.whole(text)
    found = _Answer(reading, "") if reading is not None else _embedded(text, reader, cut, name)
    return Parsed(None, "", "truncated" if cut else "unreadable") if found is None else _parsed(found)


def read_whole(text: str, reader: Reader, name: str = "") -> Parsed | None:
    """The answer of a reply that is JSON from end to end, or within its code block; None for any other."""
    inner = unfenced(text).strip()
    if inner[:1] not in ("{", "["):
        return None
    is_json, found = _loaded(inner, reader, name)
    if not is_json:
        return None
    return Parsed(None, "", "unreadable") if found is None else _parsed(found)


def _parsed(found: _Answer) -> Parsed:
    code, error = found.reading[:2]
    # "\ud800" is JSON, but no text that can be written as UTF-8
    explanation = found.explanation.encode("utf-8", "replace").decode()
    return Parsed(code, explanation, error, found.repaired and code is not None)


def _merged(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """An object in which duplicate keys keep all their values."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values and values[key] != value:
            earlier = values[key]
            value = _Doubled([*(earlier if isinstance(earlier, _Doubled) else [earlier]), value])
        values[key] = value
    return values


class _Doubled(list[Any]):
    """The values of a key that an object has more than once."""


def _loaded(piece: str, reader: Reader, name: str) -> tuple[bool, _Answer | None]:
    """Whether a piece is JSON from end to end, and its answer."""
    try:
        return True, _answer(json.loads(piece, object_pairs_hook=_merged, parse_int=_integer), reader, name)
    except (ValueError, RecursionError):
        return False, None


def _integer(digits: str) -> float:
    """An integer; infinite where Python refuses to read so many digits."""
    return int(digits) if len(digits) < 4_000 else float(digits)


def _answer(value: Any, reader: Reader, name: str, depth: int = 0) -> _Answer | None:
    """The answer in a JSON value: under a verdict's key, else in the objects one or two levels below."""
    if depth > _DEEPEST or not isinstance(value, (dict, list)) or len(value) > _LONGEST_LIST:
        return None
    if isinstance(value, list):
        return _same([_answer(item, reader, name, depth + 1) for item in value if isinstance(item, (dict, list))])
    fields = _merged((folded(key), _decoded(folded(key), item)) for key, item in value.items())
    if name and any(_is_other(fields.get(key), name) for key in ("criterion", "aspect", "dimension", "metric")):
        return None
    explanation = next((_text(fields[key]) for key in EXPLAINS if fields.get(key)), "")
    own = folded(name)
    names = (own, *(f"{own}_{word}" for word in ("score", "rating", "grade", "label")), *VERDICT_KEYS)
    keys = [key for key in dict.fromkeys(names) if key and key not in reader.inputs and _holds(fields.get(key, {}))]
    if not keys:
        own_fields = {key: item for key, item in fields.items() if key not in reader.inputs}
        inner_answer = _same([_answer(item, reader, name, depth + 1) for item in _wrapped(own_fields, name)])
        if inner_answer is not None:
            inner_answer = inner_answer._replace(explanation=inner_answer.explanation or explanation)
            return _checked(inner_answer, fields, reader, name)
        if not fields.keys().isdisjoint(INPUT_KEYS):  # an item, repeated
            return None
    # "Score: 4" is an answer's line
    echoes = [key for key in ECHO_KEYS if key not in reader.inputs and not like.NAMED.match(str(fields.get(key)))]
    readings = {key: _one(fields[key], reader) for key in keys or echoes if _holds(fields.get(key, {}))}
    if not readings:
        return None
    if not keys and any(_may_be_verdict(key, fields[key], reader) for key in fields.keys() - {*ECHO_KEYS, *EXPLAINS}):
        return _Answer(UNREADABLE, explanation)
    # beside a label, a number is no label: {"label": "fail", "score": 0.0}
    coded = [key for key, reading in readings.items() if reading.code is not None]
    if coded and not reader.is_number:
        readings = {key: reading for key, reading in readings.items() if isinstance(fields[key], str) or key in coded}
    if any(readings[key].error == "unreadable" for key in VERDICT_KEYS[:2] if key in readings):
        return _Answer(UNREADABLE, explanation)
    read = [reading for reading in readings.values() if reading.error != "unreadable"] or [UNREADABLE]
    reading = AMBIGUOUS if any(read[0].differs(other) for other in read) else read[0]
    rivals = [_answer(item, reader, name, depth + 1) for item in _wrapped(fields, name, beside=True)] if keys else []
    return _checked(_Answer(reading, explanation, echo=not keys), fields, reader, name, rivals)


def _decoded(key: str, value: Any) -> Any:
    """A field's value; an object or list that stands in a text under a key such as ``arguments`` as itself."""
    if key not in WRAPPER_KEYS or not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value, object_pairs_hook=_merged, parse_int=_integer)
    except (ValueError, RecursionError):
        return value


def _is_other(criterion: Any, name: str) -> bool:
    """Whether a field names another criterion: one that shares no word with this one's name."""
    words, own_words = ({*re.findall(r"\w+", as_label(text))} for text in (str(criterion), name))
    return isinstance(criterion, str) and bool(words) and not criterion.isdecimal() and own_words.isdisjoint(words)


def _checked(
    found: _Answer, fields: dict[str, Any], reader: Reader, name: str, rivals: Iterable[_Answer | None] = ()
) -> _Answer:
    """An answer that the object's other fields do not speak against, else the reason why it is none."""
    code = found.reading.code
    if code is None:
        return found
    if reader.is_number and any(_other_maximum(fields[key], reader) for key in filter(MAXIMUM.match, fields)):
        return found._replace(reading=OFF_SCALE)
    against = any(rival is not None and found.reading.differs(rival.reading) for rival in rivals)
    against = against or _is_outweighed(code, fields, reader)
    if against or any(_denies(key, value, code, reader, name) for key, value in fields.items()):
        return found._replace(reading=AMBIGUOUS)
    return found


def _other_maximum(value: Any, reader: Reader) -> bool:
    """Whether a field such as ``out_of`` names a maximum that the scale does not have."""
    text = _text(value)
    numbers = [] if _NOT_A_RANGE.search(text) else re.findall(r"\d+(?:\.\d+)?", text[:200])
    return bool(numbers) and max(map(float, numbers)) != reader.scale.highest


def _is_outweighed(code: Code, fields: dict[str, Any], reader: Reader) -> bool:
    """Whether the fields give numbers to levels, as in ``scores``, and a higher one to another than the verdict."""
    if reader.is_number:
        return False
    tables = [value for key, value in fields.items() if _WEIGHS.match(key) and isinstance(value, dict)]
    tables.append({_WEIGHTS.sub("_", key).strip("_"): value for key, value in fields.items() if _WEIGHTS.search(key)})
    for table in tables:
        weights = {reader.names.get(as_label(str(key))): value for key, value in table.items()}
        weights = {level: value for level, value in weights.items() if level and type(value) in (int, float)}
        if code in weights and max(weights.values()) > weights[code]:
            return True
    return False


def _denies(key: str, value: Any, code: Code, reader: Reader, name: str) -> bool:
    """Whether a field beside a verdict refuses it, is another one in other words, or is the text of another level."""
    if key in EXPLAINS or like.QUOTED_KEY.search(key) or not isinstance(value, (bool, int, float, str)):
        return False
    plain_value: Any = as_label(value).strip(" .!*") if isinstance(value, str) else value
    refused = _REFUSED.match(key)
    if refused and (refused["judging"] if value is True else isinstance(value, str) and declines(value)):
        return True
    level = reader.names.get(as_label(_IS.sub("", key)))
    if level is not None and plain_value in (True, False, *_SAYS_SO) and type(value) in (bool, str):
        is_said = plain_value is True or _SAYS_SO.get(plain_value, False)
        return (level == code) is not is_said and not (is_said and reader.is_part(level, code))
    if reader.is_number and _DEDUCTS.match(key) and (amount := _DEDUCTION.match(str(value)[:_NEAR])):
        return reader.is_beyond(code, float(amount[1]))
    if isinstance(value, (bool, str)) and (_MET.match(key) or key in (folded(name), *_DECISIONS)):
        words = ("fail", "pass") if "pass" in key else ("no", "yes")
        answer_word = (
            words[plain_value in (True, "true")] if plain_value in (True, False, "true", "false") else plain_value
        )
        if _opposes(answer_word[:_NEAR], reader, code):
            return True
    if isinstance(plain_value, str) and len(plain_value) >= _LONG_TEXT:
        texts = [as_label(text).strip(" .") for text in reader.scale.texts]
        return plain_value in texts and reader.scale.codes[texts.index(plain_value)] != code
    return bool(_REVISES.match(key) and _one(value, reader).code not in (None, code))


def _may_be_verdict(key: str, value: Any, reader: Reader) -> bool:
    """Whether an unknown key beside an echo, such as ``faithfulness_score`` or ``correct``, may hold the verdict."""
    is_named = any(word in key for word in VERDICT_KEYS[:5])
    return _holds(value) and (is_named or isinstance(value, bool) or _one(value, reader).code is not None)


def folded(key: object) -> str:
    """A key without differences of case, spaces and dashes."""
    return re.sub(r"[\s-]+", "_", str(key).strip().casefold())


def _holds(value: Any) -> bool:
    """Whether a key's value may be an answer: no object, no list of objects."""
    return not (
        isinstance(value, dict) or (isinstance(value, list) and any(isinstance(i, (dict, list)) for i in value))
    )


def _one(value: Any, reader: Reader) -> Reading:
    """The reading of a key's value; of a list, the reading that all elements share."""
    if isinstance(value, list) and len(value) > _LONGEST_LIST:
        return UNREADABLE
    readings = [reader.value(item) for item in (value if isinstance(value, list) and value else [value])]
    return AMBIGUOUS if any(readings[0].differs(reading) for reading in readings) else readings[0]


def _wrapped(fields: dict[str, Any], name: str, *, beside: bool = False) -> list[Any]:
    """The objects within an object that may contain a verdict: those under a known key, or the only one.

    Those `beside` its own verdict are no lists, and name no part or other criterion.
    """
    objects = {key: item for key, item in fields.items() if isinstance(item, (dict, list))}
    if beside:
        rival_keys = {key for key in objects if key in WRAPPER_KEYS or key in VERDICT_KEYS or _REVISES.match(key)}
        return [
            objects[key] for key in rival_keys if isinstance(objects[key], dict) and _NAMES.isdisjoint(objects[key])
        ]
    own = objects.get(folded(name))
    if own is not None:
        return [own]
    single = len(fields) == 1
    return [
        item
        for key, item in objects.items()
        if key in WRAPPER_KEYS
        or key in VERDICT_KEYS
        or (single and key not in EXPLAINS and not like.QUOTED_KEY.search(key))
    ]


def _text(value: Any) -> str:
    try:
        if isinstance(value, list):
            return "\n".join(_text(item) for item in value)
        return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""  # hundreds of brackets within each other are no explanation


def _same(answers: Iterable[_Answer | None]) -> _Answer | None:
    """The answer that all share; echoes count only if there is nothing else."""
    found = [answer for answer in answers if answer is not None]
    found = [answer for answer in found if not answer.echo] or found
    if not found:
        return None
    if any(found[-1].reading.differs(answer.reading) for answer in found):
        return found[-1]._replace(reading=AMBIGUOUS)
    return found[-1]


def _embedded(text: str, reader: Reader, cut: bool, name: str) -> _Answer | None:
    """The answer of the unquoted objects in a text; an object without its closing brace hides those after it."""
    shown = masked(text, cut=cut, own=lambda block: _is_answer(block, reader, name))
    spans, unclosed = _spans(text, shown)
    found: list[_Answer] = []
    own_ends, last = list[int](), (0, False)  # where the judge's own objects end
    for at, (start, end) in enumerate(spans):
        is_json, answer = _loaded(text[start:end], reader, name)
        if not is_json and not cut and at >= len(spans) - _KEPT:
            answer = _mended(text[start:end], reader, name)
        if answer is not None:
            is_next = bool(found) and BETWEEN.fullmatch(text, last[0], start)
            last = end, last[1] if is_next else is_own(text, start, end)
            found.append(answer)
            own_ends += [end] if last[1] else []
    if cut:
        # the verdict may have been cut away, and what stands before it be quoted
        return _same(found) if own_ends and unclosed is None and like.AFTER_JSON.match(text, spans[-1][1]) else None
    if unclosed is not None:
        last_brace = text.rfind("}", unclosed)
        end = last_brace + 1 if last_brace > 0 else len(text)
        answer = _mended(text[unclosed:end], reader, name, depth=_DEEPEST)
        if answer is not None or not found:
            found.append(answer or _Answer(UNREADABLE, ""))
            own_ends += [end] if is_own(text, unclosed, end) else []
            spans.append((unclosed, end))
    verdict = _same(found + [_loaded(text[start:end], reader, name)[1] for start, end in blocks(text, shown)])
    if verdict is None or not own_ends or verdict.reading.code is None:
        return verdict if own_ends else None
    code = verdict.reading.code
    keyed = {_unrepaired(match, reader).code for match in _keyed(name).finditer("\n".join(around(shown, spans)))}
    is_corrected = reader.is_retracted(shown[own_ends[0] :], code) or bool(keyed - {None, code})
    if is_corrected or any(contradicts(passage, reader, name, code) for passage in around(text, spans)):
        return verdict._replace(reading=AMBIGUOUS)
    return verdict


def _is_answer(block: str, reader: Reader, name: str) -> bool:
    """Whether a code block is one object with an answer, JSON or nearly so."""
    if block[:1] != "{" or block[-1:] != "}":
        return False
    is_json, found = _loaded(block, reader, name)
    return found is not None or (not is_json and _mended(block, reader, name) is not None)


def _spans(text: str, shown: str) -> tuple[list[tuple[int, int]], int | None]:
    """The outermost ``{…}`` of a text, and the start of one that is not closed."""
    spans: list[tuple[int, int]] = []
    at = 0
    while (at := shown.find("{", at)) >= 0:
        end = closing(text, at) if like.OBJECT_BEGINS.match(text, at) else at + 1
        if end is None:
            return spans, at
        if end > at + 1:
            spans.append((at, end))
        at = end
    return spans, None


def closing(text: str, start: int) -> int | None:
    """Where the object that begins at `start` ends."""
    depth = 0
    for token in like.STRUCTURE.finditer(text, start):
        mark = token[0]
        if mark == "{":
            depth += 1
        elif mark == "}":
            depth -= 1
            if not depth:
                return token.end()
    return None


@lru_cache(maxsize=256)
def _keyed(name: str) -> re.Pattern[str]:
    keys = "|".join([*VERDICT_KEYS, *([re.escape(name.strip())] if name.strip() else [])])
    return re.compile(
        rf"(?<![\w\\])[\"'“]?(?:{keys}|(?P<echo>{'|'.join(ECHO_KEYS)}))[\"'”]?\s{{0,4}}:\s{{0,4}}"
        r"(?P<value>\"[^\"\n]{0,80}|'[^'\n]{0,80}|“[^”\n]{0,80}|[^\"'”,}\n]{0,80})",
        re.IGNORECASE,
    )


def _unrepaired(match: re.Match[str], reader: Reader) -> Reading:
    """The reading of a key's value as it stands: one without quotation marks counts only as a whole."""
    value = match["value"].strip(" \t`*")
    if value[:1] in ('"', "'", "“"):
        return reader.value(value.strip("\"'“"))
    if like.NO_KEY_NEXT.match(match.string, match.end()):
        return AMBIGUOUS
    if not (value[:1].isalnum() or value[:1] in "-.+"):
        return UNREADABLE
    # what a remark says of the value counts: 4 # out of 10
    remarked = reader.read(like.REMARK.sub(r" (\1)", value))
    return (
        remarked if remarked and remarked.error == "off_scale" else reader.whole(like.REMARK.sub("", value))
    ) or UNREADABLE


def _mended(piece: str, reader: Reader, name: str, depth: int = 1) -> _Answer | None:
    """The answer of a piece that is nearly JSON; None if a repair would have to guess it."""
    # the size and nesting limits keep json_repair, which is not linear, within milliseconds
    if len(piece) > _REPAIRABLE or piece.count("{") + piece.count("[") > _NESTED:
        return None
    keyed = [(bool(match["echo"]), _unrepaired(match, reader)) for match in _keyed(name).finditer(piece)]
    readings = [reading for echo, reading in keyed if not echo] or [reading for _, reading in keyed]
    if not readings:
        return None
    if any(readings[0].differs(reading) for reading in readings):
        return _Answer(AMBIGUOUS, "")
    if readings[0].code is None:
        return _Answer(readings[0], "")
    # without its closing brace the text may end inside the score: 1 of 10
    if not piece.rstrip().endswith("}") and piece.rstrip()[-1].isalnum():
        return None
    import json_repair

    try:
        value = json_repair.repair_json(piece, return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None
    found = _answer(value, reader, name, depth)
    if found is not None and found.reading.differs(readings[0]):
        return _Answer(AMBIGUOUS, "")
    return found and found._replace(repaired=True)
