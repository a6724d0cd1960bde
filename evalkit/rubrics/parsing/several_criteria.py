"""Replies on several criteria: one JSON object that holds an object for each criterion, under its name."""

from __future__ import annotations

import re
from functools import lru_cache
from json import JSONDecoder
from typing import TYPE_CHECKING

from evalkit.rubrics.parsing import Parser, parser_for
from evalkit.rubrics.parsing.json_answers import folded
from evalkit.rubrics.parsing.mask_quotations import masked, unfenced
from evalkit.rubrics.parsing.reply_cleanup import is_cut, is_refusal, is_withheld, plain, take_apart
from evalkit.rubrics.parsing.values_on_scale import Parsed
from evalkit.rubrics.parsing.verdict_words import WRAPPER_KEYS

if TYPE_CHECKING:
    from evalkit.core.lists_of_choices import Reason
    from evalkit.rubrics.scales import Scale

_LONGEST, _MOST_OBJECTS = 200_000, 64
_BEGINS = re.compile(r'\{\s*["}]')
_SPACE = re.compile(r"\s*")
_decode = JSONDecoder().raw_decode


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
        entries, lost = _parts(text, group, is_cut(finish_reason))
        parts = list(dict.fromkeys(part for key, part in entries if key == name))
        if not parts:
            return Parsed(None, "", lost)
        wrapped = [part if part.startswith("{") else f'{{"{answer}": {part}}}' for part in parts]
        found = [parse(part, None, None) for part in wrapped]
        if any((one.code, one.error) != (found[0].code, found[0].error) for one in found):
            return Parsed(None, found[0].explanation, "ambiguous")
        return found[0]

    return read


@lru_cache(maxsize=64)
def _parts(text: str, group: tuple[str, ...], cut: bool) -> tuple[tuple[tuple[str, str], ...], Reason]:
    """The parts of a reply with their criteria, and the reason for those that are missing."""
    lost: Reason = "truncated" if cut else "unreadable"
    apart = take_apart(plain(text).lstrip("\ufeff \t\r\n"), cut=cut)
    body = unfenced(apart.body.strip())
    if apart.is_open or len(body) > _LONGEST:
        return (), lost
    if not body:
        return (), "truncated" if cut else "empty"
    spelled = folded if len({*map(folded, group)}) == len(group) else str
    names = {spelled(name): name for name in group}
    shown, found, at = body, list[tuple[str, str]](), 0
    if not body.startswith("{"):  # a quotation in the prose is not the judge's own reply
        shown = masked(body, cut=cut, own=lambda block: any(spelled(key) in names for key, _ in _entries(block, 0)[0]))
    for _ in range(_MOST_OBJECTS):
        at = shown.find("{", at)
        if at < 0:
            break
        entries, end = _entries(body, at)
        own = [(names[spelled(key)], part) for key, part in entries if spelled(key) in names]
        if not own and end is not None and len(entries) == 1 and folded(entries[0][0]) in WRAPPER_KEYS:
            at = body.index(entries[0][1], at + 1)  # {"scores": {…}}
            continue
        found += own
        if end is None and _BEGINS.match(body, at):  # what follows may be a quotation in its broken rest
            if not cut:
                return (), lost
            break
        at = end or at + 1
    if not found and is_refusal(body):
        return (), "refused"
    return tuple(found), lost


def _entries(text: str, start: int) -> tuple[list[tuple[str, str]], int | None]:
    """The complete entries of an object, as key and JSON, and where it ends; None if it does not."""
    entries: list[tuple[str, str]] = []
    at = start + 1
    try:
        while True:
            at = _skip(text, at)
            if text[at] == "}" and not entries:
                return entries, at + 1
            key, at = _decode(text, at)
            at = _skip(text, at)
            if not isinstance(key, str) or text[at] != ":":
                return entries, None
            first = _skip(text, at + 1)
            _, end = _decode(text, first)
            at = _skip(text, end)
            if at == len(text) and text[first] == "{":  # cut off just behind a whole entry
                return [*entries, (key.strip(), text[first:end])], None
            if text[at] not in ",}":  # a number may go on behind the cut
                return entries, None
            entries.append((key.strip(), text[first:end]))
            if text[at] == "}":
                return entries, at + 1
            at += 1
    except (ValueError, IndexError, RecursionError):
        return entries, None


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
