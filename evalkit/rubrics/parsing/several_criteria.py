"""Replies on several criteria: one JSON object that holds an object for each criterion, under its name."""

from __future__ import annotations

import ast
import json
import re
from functools import lru_cache
from json import JSONDecoder
from typing import TYPE_CHECKING, Any, NamedTuple

from evalkit.rubrics.parsing import Parser, parser_for, reader_of
from evalkit.rubrics.parsing import verdict_patterns as like
from evalkit.rubrics.parsing.beside_json import BETWEEN, around, blocks, contradicts, is_own
from evalkit.rubrics.parsing.json_answers import closing, folded, merged
from evalkit.rubrics.parsing.mask_quotations import masked, unfenced
from evalkit.rubrics.parsing.reply_cleanup import is_cut, is_refusal, is_withheld, plain, take_apart
from evalkit.rubrics.parsing.values_on_scale import Parsed
from evalkit.rubrics.parsing.verdict_words import EXPLAINS

if TYPE_CHECKING:
    from evalkit.core.lists_of_choices import Reason
    from evalkit.rubrics.scales import Code, Scale

_LONGEST, _MOST_OBJECTS, _LONGEST_LITERAL = 200_000, 64, 16_384
_SPACE = re.compile(r"\s*")
_NUMBERED = re.compile(r"\W*(?:requirement|criterion|criteria|item|number|no)?[\W_]*0*(\d{1,4})\W*", re.IGNORECASE)
_IDS = ("criterion", "requirement", "number", "name", "id", "index", "key")
_decode = JSONDecoder().raw_decode


class _Parts(NamedTuple):
    """The parts of a reply with their criteria, and the reason for those that are missing.

    `own` are the judge's, `others` are parts that may be quoted: they count only against another verdict. `rest` is the
    text outside of all objects.
    """

    own: tuple[tuple[str, str], ...]
    lost: Reason
    others: tuple[tuple[str, str], ...] = ()
    rest: tuple[str, ...] = ()


def parser_of_group(scale: Scale, name: str, group: tuple[str, ...]) -> Parser:
    """A parser of one criterion's part of a reply that judges all criteria of `group`.

    A part is read as a reply in the form ``json`` of its own. A missing part is ``unreadable`` (``truncated`` if the
    reply was cut off), two parts that differ are ``ambiguous``; both leave the other criteria as they are.
    """
    parse = parser_for("json", scale, name)
    answer = "label" if scale.level == "nominal" else "score"

    def read(text: str | None, finish_reason: str | None = None, refusal: str | None = None, /) -> Parsed:
        if (refusal and refusal.strip()) or is_withheld(finish_reason) or not (text and text.strip()):
            return parse(text, finish_reason, refusal)
        parts = _parts(text, group, is_cut(finish_reason))
        if not any(key == name for key, _ in parts.own):
            return Parsed(None, "", parts.lost)
        mine = dict.fromkeys(part for key, part in (*parts.own, *parts.others) if key == name)
        found = [parse(part if part.startswith("{") else f'{{"{answer}": {part}}}', None, None) for part in mine]
        if any((one.code, one.error) != (found[0].code, found[0].error) for one in found):
            return Parsed(None, found[0].explanation, "ambiguous")
        if found[0].code is not None and _is_corrected(parts.rest, scale, name, group, found[0].code):
            return Parsed(None, found[0].explanation, "ambiguous")
        return found[0]

    return read


def _is_corrected(rest: tuple[str, ...], scale: Scale, name: str, group: tuple[str, ...], code: Code) -> bool:
    """Whether the text outside of a reply's objects gives a criterion another verdict, or corrects one it may mean."""
    if not rest:
        return False
    reader, label = reader_of(scale), r"(?:^|[,;]\s)\W{0,8}(?:requirement\s|criterion\s|#)?"
    for line in re.sub(r'[{}"]', " ", "\n".join(rest)).split("\n"):
        named = {one for one in group if re.search(rf"(?<![\w.]){re.escape(one)}(?![\w%]|\.\d)", line, re.IGNORECASE)}
        if (name in named or not named) and reader.is_retracted(line, code):
            return True
        own = rf"(?i){label}{re.escape(name)}\W{{0,4}}[.:)=–-]\W{{0,4}}(?=\w)"
        for at in re.finditer(own, line) if name in named else ():
            verdict = re.split(r"[,;]\s", line[at.end() :])[0]
            if contradicts([f"Score: {verdict}"], reader, "", code):
                return True
    return False


@lru_cache(maxsize=64)
def _parts(text: str, group: tuple[str, ...], cut: bool) -> _Parts:
    lost: Reason = "truncated" if cut else "unreadable"
    apart = take_apart(plain(text).lstrip("\ufeff \t\r\n"), cut=cut)
    body = unfenced(apart.body.strip())
    if apart.is_open or len(body) > _LONGEST:
        return _Parts((), lost)
    if not body:
        return _Parts((), "truncated" if cut else "empty")
    names = _Names(group)

    def hide(part: str) -> str:  # a quotation in the prose is not the judge's own reply
        return masked(part, cut=cut, own=lambda block: bool(names.parts(block, _entries(block, 0)[0])))

    shown, at, last, is_given = body if body.startswith("{") else hide(body), 0, -1, True
    own, others, objects = list[tuple[str, str]](), list[tuple[str, str]](), list[tuple[int, int]]()
    for _ in range(_MOST_OBJECTS):
        at = shown.find("{", at)
        if at < 0:
            break
        entries, end = _entries(body, at)
        is_broken = end is None and like.OBJECT_BEGINS.match(body, at) is not None
        if is_broken and not cut:  # what follows may be a quotation in its broken rest
            upto = body.rfind("}") + 1
            as_json = _literal(body[at:upto])
            if as_json is None:
                return _Parts((), lost)
            body, shown = (part[:at] + as_json + part[upto:] for part in (body, shown))
            continue
        if last < 0 or not BETWEEN.fullmatch(body, last, at):
            is_given = is_own(body, at, end or len(body))
        last = end or at + 1
        found = names.parts(body[at:last], entries)
        is_wrapper = not found and end and len(entries) == 1 and _wraps(*entries[0])
        objects += [(at, last)] if end and (found or is_wrapper) else []
        if is_wrapper:
            last = at = body.index(entries[0][1], at + 1)  # {"scores": {…}}
            continue
        (own if is_given else others).extend(found)
        for key, part in entries if found else ():
            others += names.parts("", _entries(part, 0)[0]) if _wraps(key, part) and not names.name(key) else ()
        if is_broken:
            break
        if len(objects) == 1 and end and body.startswith("{"):
            shown = body[:end] + hide(body[end:])
        at = last
    for start, end in blocks(body, shown):
        others += names.parts(body[start:end], _entries(body, start)[0])
        objects.append((start, end))
    if not own and is_refusal(body):
        return _Parts((), "refused")
    if "0" in names.foreign or (names.foreign and len({name for name, _ in own}) < len(group)):
        return _Parts((), "ambiguous")  # numbered from another number than the prompt
    return _Parts(tuple(own), lost, tuple(others), tuple(around(shown, objects)))


class _Names:
    """The names of a group's criteria as replies write them; `foreign` are the numbers of other criteria."""

    def __init__(self, group: tuple[str, ...]) -> None:
        self._is_numbered = all(name.isdecimal() for name in group)
        self._is_folded = len({*map(folded, group)}) == len(group)
        self.foreign: set[str] = set()
        self._names = {self._spelled(name): name for name in group}

    def _spelled(self, key: str) -> str:
        number = _NUMBERED.fullmatch(key) if self._is_numbered else None
        return str(int(number[1])) if number else folded(key) if self._is_folded else key

    def name(self, key: str) -> str | None:
        """The criterion that a key names."""
        spelled = self._spelled(key)
        self.foreign |= {spelled} - self._names.keys() if self._is_numbered and spelled.isdecimal() else set()
        return self._names.get(spelled)

    def parts(self, whole: str, entries: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The entries of an object under the names of criteria, or the object if a field of it names one."""
        found = [(name, part) for key, part in entries if (name := self.name(key))]
        fields = {} if found else {folded(key): part.strip('"') for key, part in entries}
        named = next((name for key in _IDS if key in fields and (name := self.name(fields[key]))), None)
        return [*found, (named, whole)] if named else found


def _wraps(key: str, part: str) -> bool:
    """Whether an entry may hold the judge's verdicts a level below."""
    return part[:1] in ("{", "[") and folded(key) not in EXPLAINS and not like.QUOTED_KEY.search(folded(key))


def _literal(piece: str) -> str | None:
    """A Python dict as JSON; None for all others."""
    if len(piece) > _LONGEST_LITERAL or piece.count("{") + piece.count("[") > _MOST_OBJECTS:
        return None
    try:
        return json.dumps(_value(ast.parse(piece, mode="eval").body), ensure_ascii=False)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _value(node: ast.AST | None) -> Any:
    if isinstance(node, ast.Dict):
        return merged((str(_value(key)), _value(value)) for key, value in zip(node.keys, node.values, strict=True))
    return [*map(_value, node.elts)] if isinstance(node, ast.List) else ast.literal_eval(node)  # type: ignore[arg-type]


def _entries(text: str, start: int) -> tuple[list[tuple[str, str]], int | None]:
    """The complete entries of an object, as key and JSON, and where it ends; None if it does not."""
    entries: list[tuple[str, str]] = []
    at = start + 1
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
