"""Replies on several criteria: one JSON object that holds an object for each criterion, under its name."""

from __future__ import annotations

import ast
import json
import re
from functools import lru_cache
from json import JSONDecoder
from typing import TYPE_CHECKING, NamedTuple

from evalkit.rubrics.parsing import Parser, parser_for, reader_of
from evalkit.rubrics.parsing import verdict_patterns as like
from evalkit.rubrics.parsing.beside_json import BETWEEN, around, blocks, contradicts, declines, is_own
from evalkit.rubrics.parsing.json_answers import MAXIMUM, closing, folded
from evalkit.rubrics.parsing.mask_quotations import FILL, masked, unfenced
from evalkit.rubrics.parsing.reply_cleanup import is_cut, is_refusal, is_withheld, plain, take_apart
from evalkit.rubrics.parsing.values_on_scale import Parsed
from evalkit.rubrics.parsing.verdict_words import CORRECTIONS, CORRECTS, EXPLAINS, WRAPPER_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from evalkit.core.lists_of_choices import Reason
    from evalkit.rubrics.scales import Code, Scale

_LONGEST, _MOST_OBJECTS, _LONGEST_LITERAL, _REST = 200_000, 64, 16_384, 8_000
_SPACE = re.compile(r"\s*")
_NUMBER = r"(?:requirement|criterion|criteria|statement|item|number|no|req|[rqc])?[\W_]*+0*(\d{1,4})"
_NUMBERED = re.compile(rf"\W*+{_NUMBER}\W*", re.IGNORECASE)
_VERDICT_LINE = re.compile(
    rf"(?i)[\s*_`|#([-]*+{_NUMBER}(?:[*_`]*+(?:\s?[:=]|\s[–—|-](?=\s))|[.)\]*_`]++(?=\s))[\s*_`]*+([^\W_].*|-\d.*)"
)
_CORRECTS = re.compile(
    r"(?i)\b(?:correct(?:ion|ed)|wait|actually|revis|updat|chang|reconsider|reflect|mistake|misread"
    rf"|{'|'.join(CORRECTIONS)}|{CORRECTS})"
)
_TOTAL = re.compile(r"(?:.*_)?(?:total|sum)(?:_|\Z)")
_ESCAPED = re.compile(r"\\([\\'\"abfnrtuUxN\n])|\\")
_IDS = ("criterion", "requirement", "number", "name", "id", "index", "key")
_decode = JSONDecoder().raw_decode


Entries = list[tuple[str, str]]


class _Parts(NamedTuple):
    """A reply's parts with their criteria: the judge's own, and `others`, which count only against those.

    `lost` is the reason for what is missing, `rest` the lines outside of all objects, each with the criteria in it, and
    `maxima` what states the scale for all of them.
    """

    own: Sequence[tuple[str, str]]
    lost: Reason
    others: Sequence[tuple[str, str]] = ()
    rest: Sequence[tuple[str, frozenset[str]]] = ()
    maxima: Sequence[str] = ()


def parser_of_group(scale: Scale, name: str, group: tuple[str, ...], inputs: Collection[str] = ()) -> Parser:
    """A parser of one criterion's part of a reply that judges all criteria of `group`.

    A part is read as a reply in the form ``json`` of its own. A missing part is ``unreadable`` (``truncated`` if the
    reply was cut off), two parts that differ are ``ambiguous``; both leave the other criteria as they are.
    """
    parse = parser_for("json", scale, name, inputs)
    answer = "label" if scale.level == "nominal" else "score"

    def read(text: str | None, finish_reason: str | None = None, refusal: str | None = None, /) -> Parsed:
        if (refusal and refusal.strip()) or is_withheld(finish_reason) or not (text and text.strip()):
            return parse(text, finish_reason, refusal)
        parts = _parts(text, group, is_cut(finish_reason))
        if not any(key == name for key, _ in parts.own):
            return Parsed(None, "", parts.lost)
        texts = dict.fromkeys(value for key, value in (*parts.own, *parts.others) if key == name)
        objects = [value if value.startswith("{") else f'{{"{answer}": {value}}}' for value in texts]
        # the maximum of all criteria together says nothing of one
        total = "" if scale.level == "nominal" else f"{scale.highest * len(group):g}"
        stated = "".join(f', "max_score": {value}' for value in parts.maxima if value.strip('"') != total)
        readings = [parse(f"{value[:-1]}{stated}}}" if stated else value, None, None) for value in objects]
        if any((reading.code, reading.error) != (readings[0].code, readings[0].error) for reading in readings):
            return Parsed(None, readings[0].explanation, "ambiguous")
        if readings[0].code is not None and _is_corrected(parts.rest, scale, name, readings[0].code):
            return Parsed(None, readings[0].explanation, "ambiguous")
        return readings[0]

    return read


def _is_corrected(rest: Sequence[tuple[str, frozenset[str]]], scale: Scale, name: str, code: Code) -> bool:
    """Whether the text outside of a reply's objects gives a criterion another verdict, or takes back what it has."""
    reader, before = reader_of(scale), r"(?i)(?:^|[,;]\s)\W{0,8}(?:requirement\s|criterion\s|#)?"
    labelled = re.compile(rf"{before}{re.escape(name)}\W{{0,4}}[.:)=–-]\W{{0,4}}(\w[^,;]*)")
    for line, mentioned in rest:
        texts = labelled.findall(line) if (is_named := name.casefold() in mentioned) else []
        is_corrected = (is_named or not mentioned) and (declines(line) or reader.is_retracted(line, code))
        if is_corrected or any(contradicts(f"Score: {text}", reader, "", code) for text in texts):
            return True
    return False


def _lines(passages: Sequence[str], group: tuple[str, ...]) -> list[tuple[str, frozenset[str]]]:
    """The lines that mention criteria, or correct or refuse one without its name ("Overall: 3" does not)."""
    if not passages:
        return []
    keys = "|".join(map(re.escape, sorted(map(str.casefold, group), key=len, reverse=True)))
    mentions = re.compile(rf"(?<![\w.])(?:{keys})(?![\w%]|\.\d)")
    lines = re.sub(r'[{}"]', " ", "\n".join(passages)[-_REST:]).split("\n")
    corrects = {line: declines(line) or _CORRECTS.search(line) is not None for line in lines}
    # a correction may quote the name of its criterion
    named = {
        line: frozenset(() if FILL in line and corrects[line] else mentions.findall(line.casefold())) for line in lines
    }
    return [(line, names) for line, names in named.items() if names or corrects[line]]


@lru_cache(maxsize=64)
def _parts(text: str, group: tuple[str, ...], cut: bool) -> _Parts:
    lost: Reason = "truncated" if cut else "unreadable"
    apart = take_apart(plain(text).lstrip("\ufeff \t\r\n"), cut=cut)
    body = unfenced(apart.body.strip())
    if apart.is_open or len(body) > _LONGEST:
        return _Parts((), lost)
    if not body:
        return _Parts((), "truncated" if cut else "empty")
    parts = _found(body, group, cut)
    if not (parts.own or cut) and (as_json := _as_json(body)) != body:
        parts = _found(as_json, group, cut)
    if not parts.own and (verdicts := _numbered_lines(body, group, cut)):
        parts = _Parts(verdicts, parts.lost)
    if not parts.own and parts.lost == "unreadable" and is_refusal(body):
        return _Parts((), "refused")
    numbers = {name for name, _ in parts.own}
    if "0" in numbers - {*group} or (numbers - {*group} and not numbers >= {*group}):
        return _Parts((), "ambiguous")  # numbered from another number than the prompt
    return parts


def _found(body: str, group: tuple[str, ...], cut: bool) -> _Parts:
    name_of = _namer(group)

    def hide(value: str) -> str:  # a quotation in the prose is not the judge's own reply
        return masked(value, cut=cut, own=lambda block: bool(_named(block, _entries(block, 0)[0], name_of)))

    shown, at, last, is_given = body if body.startswith("{") else hide(body), 0, -1, True
    own_parts, rivals, objects, maxima = Entries(), Entries(), list[tuple[int, int]](), list[str]()
    for _ in range(_MOST_OBJECTS):
        at = shown.find("{", at)
        if at < 0:
            break
        entries, end = _entries(body, at)
        is_broken = end is None and like.OBJECT_BEGINS.match(body, at) is not None
        if is_broken and not cut:  # what follows may be a quotation in its broken rest
            return _Parts((), "unreadable")
        if last < 0 or not BETWEEN.fullmatch(body, last, at):
            is_given = (at, end) == (0, len(body)) or is_own(body, at, end or len(body))
        last = end or (len(body) if is_broken else at + 1)
        entries_named = _named(body[at:last], entries, name_of)
        others_of = entries if end and len(entries_named) < len(entries) else ()
        inner = [entry for entry in others_of if _wraps(*entry) and name_of(entry[0]) is None]
        wrappers = inner if inner == entries[:1] else [entry for entry in inner if folded(entry[0]) in WRAPPER_KEYS]
        if entries_named or len(wrappers) == 1 or not entries:
            objects.append((at, last))
            beside_all = {folded(key): text for key, text in others_of if name_of(key) is None}
            if not any(map(_TOTAL.match, beside_all)):
                maxima += [text for key, text in beside_all.items() if MAXIMUM.match(key)]
        beside = [value for key, value in inner if entries_named or [(key, value)] != wrappers]
        if entries_named or len(wrappers) == 1:
            rivals += [rival for value in beside for rival in _named("", _entries(value, 0)[0], name_of)]
        if not entries_named and len(wrappers) == 1:  # {"reasoning": "…", "scores": {…}}
            start = body.index(wrappers[0][1], at + 1)
            within = (at, start, start + len(wrappers[0][1]), last)
            is_same, body = shown is body, _only(body, *within)
            shown = body if is_same else _only(shown, *within)
            last = at = start
            continue
        (own_parts if is_given else rivals).extend(entries_named)
        if shown is body and objects and end:
            shown = body[:end] + hide(body[end:])
        at = last
    for start, end in blocks(body, shown):
        rivals += _named(body[start:end], _entries(body, start)[0], name_of)
        objects.append((start, end))
    lost: Reason = "truncated" if cut else "unreadable"
    return _Parts(own_parts, lost, rivals, _lines(around(shown, objects), group), maxima)


def _namer(group: tuple[str, ...]) -> Callable[[str], str | None]:
    """The criterion that a key names; of numbered criteria, also the number of another one."""
    is_numbered, spelled = all(map(str.isdecimal, group)), folded if len({*map(folded, group)}) == len(group) else str
    names = {f"{spelled(name)}{end}": name for end in ("_score", "_rating", "_label", "") for name in group}

    def name_of(key: str) -> str | None:
        number = _NUMBERED.fullmatch(key) if is_numbered and key not in names else None
        return str(int(number[1])) if number else names.get(spelled(key))

    return name_of


def _numbered_lines(body: str, group: tuple[str, ...], cut: bool) -> Entries:
    """The verdicts of a reply that is nothing but lines with numbers, such as ``1. Yes``."""
    if "{" in body or not all(map(str.isdecimal, group)):
        return []
    lines = [_VERDICT_LINE.fullmatch(line.strip()) for line in body.split("\n") if line.strip()]
    verdicts = [(line[1], json.dumps(line[2].rstrip(" |"))) for line in lines if line] if all(lines) else []
    return verdicts[:-1] if cut else verdicts


def _named(whole: str, entries: Entries, name_of: Callable[[str], str | None]) -> Entries:
    """The entries of an object under the names of criteria, or the object if a field of it names one."""
    under_names = [(name, value) for key, value in entries if (name := name_of(key))]
    fields = {} if under_names else {folded(key): value.strip('"') for key, value in entries}
    return under_names or [(name, whole) for key in _IDS if (name := name_of(fields.get(key, "")))][:1]


def _only(text: str, first: int, start: int, end: int, last: int) -> str:
    """A text of which a passage holds one part alone, with spaces for the rest of it."""
    return text[:first] + " " * (start - first) + text[start:end] + " " * (last - end) + text[last:]


def _wraps(key: str, part: str) -> bool:
    """Whether an entry may hold the judge's verdicts a level below."""
    return part[:1] in ("{", "[") and folded(key) not in EXPLAINS and not like.QUOTED_KEY.search(folded(key))


def _as_json(body: str) -> str:
    """A reply with its Python dict as JSON; all others as they are."""
    begins, end = like.OBJECT_BEGINS.search(body), body.rfind("}") + 1
    if begins is None or end > _LONGEST_LITERAL or body.count("{") > _MOST_OBJECTS or _entries(body, begins.start())[1]:
        return body
    # Python warns of "\d" and of "1or 2"
    literal_text = _ESCAPED.sub(lambda mark: mark[0] if mark[1] else r"\\", body[begins.start() : end])
    if re.search(r"\d(?:and|else|for|if|in|is|not|or)\b", literal_text):
        return body
    try:
        tree = ast.parse(literal_text, mode="eval")
        keys = [[*map(ast.unparse, filter(None, node.keys))] for node in ast.walk(tree) if isinstance(node, ast.Dict)]
        literal = None if any(len({*names}) < len(names) for names in keys) else ast.literal_eval(tree)
        return body[: begins.start()] + json.dumps(literal, ensure_ascii=False) + body[end:]
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return body


def _entries(text: str, start: int) -> tuple[Entries, int | None]:
    """The complete entries of an object, as key and JSON, and where it ends; None if it does not."""
    entries, at = Entries(), start + 1
    try:
        while True:
            at = _skip(text, at)
            if text[at : at + 1] == "}":  # empty, or a comma too many
                return entries, at + 1
            key, at = _decode(text, at)
            at = _skip(text, at)
            if not isinstance(key, str) or text[at] != ":":
                return entries, None
            first = _skip(text, at + 1)
            end = _end(text, first)
            at = _skip(text, end)
            is_whole = text[first] == "{"
            if at < len(text) and text[at] not in (',}"' if is_whole else ",}"):  # a number may go on behind the cut
                return entries, None
            if at < len(text) or is_whole:
                entries.append((key.strip(), text[first:end]))
            if at == len(text) or text[at] == "}":  # the last brace may be missing
                return entries, at + 1 if at < len(text) else at if is_whole else None
            at += text[at] == ","
    except (ValueError, IndexError, RecursionError):
        return entries, None


def _end(text: str, first: int) -> int:
    """Where a value ends: JSON, or an object without others in it that is nearly JSON."""
    try:
        return _decode(text, first)[1]
    except ValueError:
        end = closing(text, first) if text[first] == "{" else None
        if end is None or text.count("{", first, end) > 1:
            raise
        return end


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
