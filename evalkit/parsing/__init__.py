"""Reply text -> code, explanation, error.

Pure functions of the text: parsing comes after the cache, so a better parser re-reads what was paid
for. `docs/adr/0004-parsing.md` says which answer wins, and when a reply stays unscored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Protocol

from evalkit.errors import RubricError
from evalkit.parsing.lines import read_lines
from evalkit.parsing.marks import read_pattern, read_tagged
from evalkit.parsing.objects import quick_object, read_object
from evalkit.parsing.readings import Parsed, Reader, reader_of
from evalkit.parsing.replies import cut_thinking, is_refusal
from evalkit.records import Reply
from evalkit.rubrics.scales import Scale

__all__ = ["FORMS", "Parsed", "Parser", "check_form", "parse_reply", "parser_for"]

FORMS = ("json", "tagged", "number", "label", "regex:PATTERN")
"""How a reply may look: what a template's form may say."""

_CUT = ("length", "max_tokens")


class Parser(Protocol):
    """A prepared parser: text, finish reason and refusal of one reply in, a `Parsed` out."""

    def __call__(self, text: str | None, finish_reason: str | None = None, refusal: str | None = None, /) -> Parsed:
        """Read one reply; never raises for any text."""


def check_form(form: str) -> None:
    r"""Raise unless `form` is one of `FORMS`.

    A pattern must compile and have a group named ``score`` or exactly one group.

    Raises
    ------
    RubricError
        Naming the form and what is allowed.

    Examples
    --------
    >>> check_form(r"regex:Verdict: (\d)")
    >>> check_form("xml")
    Traceback (most recent call last):
    evalkit.errors.RubricError: unknown reply form 'xml'; allowed are json, tagged, number, label, regex:PATTERN
    """
    if isinstance(form, str) and form.startswith("regex:"):
        _pattern(form)
    elif form not in FORMS[:-1]:
        raise RubricError(f"unknown reply form {form!r}; allowed are {', '.join(FORMS)}")


def _pattern(form: str) -> re.Pattern[str]:
    source = form.removeprefix("regex:")
    try:
        pattern = re.compile(source)
    except re.error as problem:
        raise RubricError(
            f"the reply form {form!r} is no regular expression: {problem}; write it as for Python's re module"
        ) from None
    if "score" not in pattern.groupindex and pattern.groups != 1:
        raise RubricError(
            f"the reply form {form!r} has {pattern.groups} groups; name the one that holds the answer "
            "(?P<score>…), or have exactly one"
        )
    return pattern


def parse_reply(reply: Reply | str, form: str, scale: Scale) -> Parsed:
    """Read one reply.

    Parameters
    ----------
    reply
        The raw reply, or its text.
    form
        How it was asked to look, one of `FORMS`.
    scale
        The answers that the criterion allows.

    Returns
    -------
    Parsed
        With a code of the scale, or None and the reason: a reply is never read by accident.

    Raises
    ------
    RubricError
        For an unknown form. A text never raises.

    Examples
    --------
    >>> scale = Scale.of({0: "wrong", 1: "partly right", 2: "right"})
    >>> parse_reply('{"explanation": "All facts hold.", "score": 2}', "json", scale)
    Parsed(code=2, explanation='All facts hold.', error=None, repaired=False)
    >>> parse_reply("Rating: 3", "number", scale).error
    'off_scale'
    """
    parser = parser_for(form, scale)
    return parser(reply) if isinstance(reply, str) else parser(reply.text, reply.finish_reason, reply.refusal)


def parser_for(form: str | re.Pattern[str], scale: Scale) -> Parser:
    r"""A parser prepared once for many replies of one form and scale.

    Call it as ``parser(text, finish_reason, refusal)``; clean replies take a few microseconds. A compiled
    pattern is a form of its own: the answer is its group named ``score``, else its first group.

    Raises
    ------
    RubricError
        For an unknown form, or a pattern without a group.

    Examples
    --------
    >>> parse = parser_for("number", Scale.of({1: "bad", 2: "good"}))
    >>> parse("**2**").code, parse("1 or 2").error, parse("2", "length").error, parse(None).error
    (2, 'ambiguous', 'truncated', 'empty')
    >>> parser_for(re.compile(r"(\d) (points?)"), Scale.of({1: "bad", 2: "good"}))("1 point, no: 2 points").code
    2
    """
    if isinstance(form, re.Pattern):
        if not form.groups:
            raise RubricError(f"the pattern {form.pattern!r} has no group; put the answer in brackets")
    else:
        check_form(form)
    return _prepared(form, scale.codes, scale.texts, scale.level)


@lru_cache(maxsize=256)
def _prepared(form: str | re.Pattern[str], codes: tuple[object, ...], texts: tuple[str, ...], level: str) -> Parser:
    reader = reader_of(Scale(codes, texts, level))  # type: ignore[arg-type]
    quick: Callable[[str], Parsed | None] = reader.exact.get
    read: Callable[[str, bool], Parsed]
    if form == "json":
        quick = quick_object(reader, "label" if level == "nominal" else "score")
        read = partial(_with, read_object, reader)
    elif form == "tagged":
        read = partial(_with, read_tagged, reader)
    elif isinstance(form, re.Pattern) or form.startswith("regex:"):
        pattern = _pattern(form) if isinstance(form, str) else form
        quick = _nothing
        read = lambda text, cut: read_pattern(text, pattern, reader, cut)  # noqa: E731 - one expression over pattern
    else:
        read = partial(_with, read_lines, reader)

    def parse(text: str | None, finish_reason: str | None = None, refusal: str | None = None, /) -> Parsed:
        if text is not None and refusal is None and (finish_reason is None or finish_reason == "stop"):
            found = quick(text)
            if found is not None:
                return found
        return _careful(text, finish_reason, refusal, read)

    return parse


def _with(form: Callable[[str, Reader, bool], Parsed], reader: Reader, text: str, cut: bool) -> Parsed:
    return form(text, reader, cut)


def _nothing(_: str) -> None:
    return None


def _careful(
    text: str | None, finish_reason: str | None, refusal: str | None, read: Callable[[str, bool], Parsed]
) -> Parsed:
    """Refused, empty and cut-off replies and thinking first; then the form."""
    if (refusal and refusal.strip()) or finish_reason == "content_filter":
        return Parsed(None, (refusal or "").strip(), "refused")
    cut = finish_reason in _CUT
    body, is_open = cut_thinking(text or "")
    if is_open:
        return Parsed(None, "", "truncated" if cut else "unreadable")
    body = body.strip().removeprefix("\ufeff").strip()
    if not body:
        return Parsed(None, "", "truncated" if cut else "empty")
    # under a cut the body keeps its end: a line break after the answer shows that it is complete
    found = read(body + "\n" if cut and (text or "").endswith("\n") else body, cut)
    if found.error == "unreadable" and is_refusal(body):
        return Parsed(None, body, "refused")
    return found
