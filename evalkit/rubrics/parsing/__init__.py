"""Reply text -> code, explanation, error.

Pure functions of the text: parsing comes after the cache, so a better parser can read paid replies
again. `docs/adr/0004-parsing.md` describes which answer wins, and when a reply stays unscored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, partial
from typing import Any, Protocol, cast

import orjson

from evalkit.core.lists_of_choices import REASONS
from evalkit.core.prompts_and_replies import Reply
from evalkit.errors import RubricError
from evalkit.rubrics.decision_questions import FORM
from evalkit.rubrics.parsing.answer_lines import read_lines
from evalkit.rubrics.parsing.decision_answers import DecisionParser
from evalkit.rubrics.parsing.json_answers import folded, read_object, read_whole
from evalkit.rubrics.parsing.mask_quotations import unfenced
from evalkit.rubrics.parsing.reply_cleanup import is_cut, is_refusal, is_withheld, plain, take_apart
from evalkit.rubrics.parsing.tagged_answers import Named, read_named, read_pattern, read_tagged
from evalkit.rubrics.parsing.values_on_scale import Parsed, Reader
from evalkit.rubrics.scales import Code, Scale

__all__ = ["FORMS", "Form", "Parsed", "Parser", "check_form", "parse_reply", "parser_for"]

FORMS = ("json", "tagged", "number", "label", FORM, "regex:PATTERN")
"""The forms of a reply that a template may require."""

Form = str | re.Pattern[str] | Mapping[str | re.Pattern[str], Any]
"""One of `FORMS`, a compiled pattern with a group, or patterns with the code that each stands for."""

_LONGEST = 200_000
"""Characters, without thinking, of the longest reply that is searched for an answer."""
_BLANK = "\ufeff \t\r\n"
_WRAPPED = re.compile(r"""r?(["'`/])(?:(?!\1).)*\1[a-z]*""")
_COMMENT = re.compile(r"\s#\s(?!.*\()")
_ANSWER = re.compile(
    r"\A<(answer|response|output|result|final|conclusion|solution)>([^<>]{1,200})</\1>\Z", re.IGNORECASE
)


class Parser(Protocol):
    """A prepared parser, called with the text, finish reason and refusal of one reply."""

    def __call__(self, text: str | None, finish_reason: str | None = None, refusal: str | None = None, /) -> Parsed:
        """Read one reply; never raises for any text."""


def check_form(form: str) -> None:
    r"""Raise unless `form` is one of `FORMS`.

    A pattern must compile and have a group named ``score`` or exactly one group. Spaces around it are not part of it;
    quotation marks around it and a comment behind it would be, and are refused.

    Raises
    ------
    RubricError
        Naming the form and what is allowed.

    Examples
    --------
    >>> check_form(r"regex:Verdict: (\d)")
    >>> check_form("xml")
    Traceback (most recent call last):
    evalkit.errors.RubricError: unknown reply form 'xml'; allowed: json, tagged, number, label, decision, regex:PATTERN
    """
    if isinstance(form, str) and form.startswith("regex:"):
        _pattern(form)
    elif form not in FORMS[:-1]:
        raise RubricError(f"unknown reply form {form!r}; allowed: {', '.join(FORMS)}")


def _pattern(form: str) -> re.Pattern[str]:
    source = form.removeprefix("regex:").strip()
    if _WRAPPED.fullmatch(source) or _COMMENT.search(source):
        fact = f"the reply form {form!r} has a pattern in quotation marks or slashes, or with a comment"
        advice = 'write the pattern alone, and a mark that the judge writes in brackets, as in ["] or [#]'
        raise RubricError(f"{fact}, which would be part of it; {advice}")
    try:
        pattern = re.compile(source)
    except re.error as problem:
        raise RubricError(
            f"the reply form {form!r} is not a valid regular expression for Python's re module: {problem}"
        ) from None
    if "score" not in pattern.groupindex and pattern.groups != 1:
        fact = f"the reply form {form!r} must have exactly one group"
        raise RubricError(f"{fact}, or a group named score as in (?P<score>…), got {pattern.groups} groups")
    return pattern


def parse_reply(reply: Reply | str, form: str, scale: Scale, criterion: str = "") -> Parsed:
    r"""Read one reply.

    Parameters
    ----------
    reply
        The raw reply, or its text.
    form
        The form that the prompt requires, one of `FORMS`.
    scale
        The answers that the criterion allows.
    criterion
        The criterion's name, which is a label and a key like ``score``: ``Coherence: 3. It flows.``

    Returns
    -------
    Parsed
        With a code of the scale, or None and the reason: a quoted answer is not a verdict, and two
        different verdicts are ambiguous.

    Raises
    ------
    RubricError
        For an unknown form; never because of the text.

    Examples
    --------
    >>> scale = Scale.of({0: "wrong", 1: "partly right", 2: "right"})
    >>> parse_reply('{"explanation": "All facts hold.", "score": 2}', "json", scale)
    Parsed(code=2, explanation='All facts hold.', error=None, repaired=False)
    >>> parse_reply("Rating: 3", "number", scale).error
    'off_scale'
    >>> parse_reply("The answer ends with “Rating: 2”.\nRating: 0", "number", scale).code
    0
    """
    parser = parser_for(form, scale, criterion)
    return parser(reply) if isinstance(reply, str) else parser(reply.text, reply.finish_reason, reply.refusal)


def parser_for(form: Form, scale: Scale, criterion: str = "", inputs: Collection[str] = ()) -> Parser:
    r"""A parser prepared once for many replies of one form and scale.

    Call it as ``parser(text, finish_reason, refusal)``; clean replies take a few microseconds. A compiled
    pattern is a form of its own: the answer is its group named ``score``, else its first group. A mapping from
    patterns to codes reads the one code whose patterns match; instead of a code, a pattern may map to a reason, as in
    ``{"cannot tell": "abstained"}``. A key or label that is one of the rubric's `inputs`, as ``answer``, is no verdict
    (unless it is ``score``, ``label`` or the criterion's name).

    Raises
    ------
    RubricError
        For an unknown form, a pattern without a group, or a code that is not on the scale.

    Examples
    --------
    >>> parse = parser_for("number", Scale.of({1: "bad", 2: "good"}))
    >>> parse("**2**").code, parse("1 or 2").error, parse("2", "length").error, parse(None).error
    (2, 'ambiguous', 'truncated', 'empty')
    >>> parser_for(re.compile(r"(\d) (points?)"), Scale.of({1: "bad", 2: "good"}))("I give it 2 points").code
    2
    >>> parse = parser_for({r"(?i)\byes\b": 2, r"(?i)\bno\b": 1, "unsure": "abstained"}, Scale.of({1: "", 2: ""}))
    >>> parse("Yes, it is.").code, parse("yes and no").error, parse("I am unsure.").error, parse("Hm.").error
    (2, 'ambiguous', 'abstained', 'unreadable')
    """
    if form == FORM:
        return DecisionParser(scale, criterion)
    names = frozenset(map(folded, inputs)) - {"score", "label", folded(criterion)}
    if isinstance(form, Mapping):
        return _prepared(_named(form, scale), scale, criterion, names)
    if isinstance(form, re.Pattern) and not form.groups:
        raise RubricError(
            f"the pattern {form.pattern!r} has no group; put the part that matches the score or label in "
            r"parentheses, as in 'Score: (\d)'"
        )
    return _prepared(form, scale, criterion, names)


def _named(form: Mapping[Any, Any], scale: Scale) -> Named:
    named = []
    for pattern, meaning in form.items():
        try:
            compiled = re.compile(pattern)
        except (re.error, TypeError) as problem:
            raise RubricError(f"read= has an invalid regular expression {pattern!r}: {problem}") from None
        code = scale.code(meaning)
        if code is None and meaning not in REASONS:
            raise RubricError(
                f"read= maps {pattern!r} to {meaning!r}, which is neither on the scale ({', '.join(scale.labels)}) nor "
                f"a reason such as 'abstained'"
            )
        named.append((compiled, code, None if code is not None else cast(Any, meaning)))
    if not named:
        raise RubricError("read= is empty; pass a mapping from regular expressions to codes")
    return tuple(named)


@lru_cache(maxsize=256)
def _prepared(form: str | re.Pattern[str] | Named, scale: Scale, name: str, inputs: frozenset[str]) -> Parser:
    if isinstance(form, str):
        check_form(form)
    quick: Callable[[str], Parsed | None] = _nothing
    if form == "json":
        key = "label" if scale.level == "nominal" else "score"
        quick = partial(_exact_json, scale, {code: code for code in scale.codes}, key, f'"{key}"')
    elif form in FORMS:
        quick = reader_of(scale).exact.get

    def parse(text: str | None, finish_reason: str | None = None, refusal: str | None = None, /) -> Parsed:
        if text is not None and refusal is None and (finish_reason is None or finish_reason == "stop"):
            found = quick(text)
            if found is not None:
                return found
        readers = _careful_readers(form, scale, name, inputs)
        if form not in FORMS[:-1]:  # a pattern may name the marks that are left out otherwise
            parsed = _careful(text or "", finish_reason, refusal, *readers, marked=True)
            if parsed.error not in ("empty", "unreadable"):
                return parsed
        return _careful(text or "", finish_reason, refusal, *readers)

    return parse


def _exact_json(scale: Scale, codes: Mapping[object, Code], key: str, quoted: str, text: str) -> Parsed | None:
    """The answer of a reply that is exactly ``{"explanation": …, key: code}``; None for all others."""
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if type(values) is not dict or len(values) != 2:
        return None
    explanation, value = values.get("explanation"), values.get(key)
    if type(explanation) is not str or type(value) not in (int, float, str):
        return None
    code = codes.get(value)
    if code is None and scale.level == "interval" and isinstance(value, (int, float)):
        inside = scale.lowest <= value <= scale.highest
        code = None if not inside else int(value) if value == int(value) else value
    # a doubled key would have lost its first value: left to the careful way
    if code is None or text.count(quoted) != 1:
        return None
    return Parsed(code, explanation.strip())


@lru_cache(maxsize=256)
def reader_of(scale: Scale, inputs: frozenset[str] = frozenset()) -> Reader:
    """The reader of a scale, made once."""
    return Reader(scale, inputs)


@lru_cache(maxsize=256)
def _careful_readers(
    form: str | re.Pattern[str] | Named, scale: Scale, name: str, inputs: frozenset[str]
) -> tuple[Callable[[str], Parsed | None], Callable[..., Parsed]]:
    """The readers of a whole reply and of its parts, for replies that are not exactly as requested."""
    reader = reader_of(scale, inputs)
    if form == "json":
        return partial(read_whole, reader=reader, name=name), partial(read_object, reader=reader, name=name)
    if form == "tagged":
        return _nothing, partial(read_tagged, reader=reader)
    if isinstance(form, tuple):
        return _nothing, partial(read_named, patterns=form)
    if isinstance(form, re.Pattern) or form.startswith("regex:"):
        pattern = _pattern(form) if isinstance(form, str) else form
        return _nothing, partial(read_pattern, pattern=pattern, reader=reader)
    return partial(_whole_object, reader=reader, name=name), partial(read_lines, reader=reader, name=name)


def _whole_object(text: str, reader: Reader, name: str) -> Parsed | None:
    """The answer of a judge that wrote a JSON object where a number or label alone was asked for."""
    parsed = read_whole(text, reader, name) if unfenced(text).lstrip()[:1] == "{" else None
    return parsed if parsed is not None and parsed.code is not None else None


def _nothing(_: str) -> None:
    return None


def _careful(
    text: str,
    finish_reason: str | None,
    refusal: str | None,
    whole: Callable[[str], Parsed | None],
    read: Callable[..., Parsed],
    *,
    marked: bool = False,
) -> Parsed:
    """Check for a refusal, then parse the whole reply, then apply the form to the reply without its thinking."""
    if (refusal and refusal.strip()) or is_withheld(finish_reason):
        return Parsed(None, (refusal or "").strip(), "refused")
    cut = is_cut(finish_reason)
    text = plain(text, marked=marked).lstrip(_BLANK)
    found = whole(text)
    if found is not None:
        return found
    apart = take_apart(text, cut=cut)
    body = _ANSWER.sub(r"\2", apart.body.strip().lstrip(_BLANK))
    if apart.is_open and not body:
        return Parsed(None, "", "truncated" if cut else "unreadable")
    # under a cut the body keeps its end: a line break after the answer shows that it is complete
    found = _read(body + "\n" if cut and text.endswith("\n") else body, cut, read)
    if apart.is_open and not _is_verdict(found):
        return Parsed(None, "", "truncated" if cut else "unreadable")
    before, inside = ([_read(part, False, read) for part in parts] for parts in (apart.before, apart.inside))
    return _agreed(found, before, inside)


def _read(body: str, cut: bool, read: Callable[..., Parsed]) -> Parsed:
    if not body.strip():
        return Parsed(None, "", "truncated" if cut else "empty")
    if len(body) > _LONGEST:
        return Parsed(None, "", "truncated" if cut else "unreadable")
    found = read(body if cut else unfenced(body), cut=cut)
    if found.error == "unreadable" and is_refusal(body):
        return Parsed(None, body, "refused")
    return found


def _is_verdict(found: Parsed) -> bool:
    return found.error in (None, "off_scale", "ambiguous", "abstained")


def _agreed(found: Parsed, before: list[Parsed], inside: list[Parsed]) -> Parsed:
    """The result if there are also verdicts before a closing tag, or in a later block of thinking."""
    if not any(map(_is_verdict, (found, *before))):
        return found
    verdicts = [part for part in (found, *before, *inside) if _is_verdict(part)]
    if any((part.code, part.error) != (verdicts[0].code, verdicts[0].error) for part in verdicts):
        return Parsed(None, found.explanation, "ambiguous")
    return verdicts[0]
