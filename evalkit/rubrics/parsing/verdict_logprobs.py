"""From the log-probabilities of a reply's tokens to the probability of each code at the verdict."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from evalkit.rubrics.parsing.values_on_scale import Parsed
from evalkit.rubrics.parsing.verdict_patterns import WORDS
from evalkit.rubrics.scales import Code, Scale, code_text

_LEAD = " \t\r\n*_`'\"([{<:=“”«„’‘"
_SET_OFF = re.compile(r"(?![\w%]|[.,]\d)")
_PLACES = 32
_SCAFFOLD = 2  # words: "Rating", or the keys "explanation" and "score"
_UNCOUNTED = 8


class Distribution(NamedTuple):
    """The probability of each code at the verdict.

    Attributes
    ----------
    codes
        Code -> probability, 0-1. They sum to the mass on codes; all are 0 if the verdict's tokens were not found.
    is_first
        Whether nothing but labels and punctuation was written before the verdict: no explanation and no reasoning.
    """

    codes: dict[Code, float]
    is_first: bool = False


def read_distribution(
    reply: Mapping[str, Any], parsed: Parsed, parse: Callable[..., Parsed], scale: Scale
) -> Distribution | None:
    """The distribution over the codes of a scale at the token where the verdict begins.

    The verdict is the place in the text where another code makes `parse` read that other code. A candidate there counts
    for a code if it is the code, in any case and after any white space or quotation mark, or the beginning of this code
    alone. If it begins several codes (``1`` of 1 and 10), it is split by the next token where it was the one written,
    and counts for no code elsewhere.

    Parameters
    ----------
    reply
        A stored reply with `text`, `finish_reason`, `refusal` and `logprobs`.
    parsed
        What `parse` read in it: a code.
    parse
        The parser of its form and scale.
    scale
        Nominal or ordinal.

    Returns
    -------
    Distribution or None
        None without log-probabilities, if they are malformed, and for interval scales, which have no list of codes.
    """
    if scale.level == "interval":
        return None
    try:
        positions = _positions(reply["logprobs"]["tokens"])
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None
    text = reply.get("text") or ""
    nothing = dict.fromkeys(scale.codes, 0.0)
    read = lambda other: parse(other, reply.get("finish_reason"), reply.get("refusal"))  # noqa: E731
    start = _start(positions, text)
    found = _place(text, parsed.code, read, scale)
    if start is None or found is None:
        return Distribution(nothing)
    place, spellings = found
    begin = start + len(text[:place].encode())
    at, offset = 0, 0
    while offset + len(positions[at][0][0]) <= begin:
        offset += len(positions[at][0][0])
        at += 1
    if _folded(positions[at][0][0][: begin - offset]):
        return Distribution(nothing)  # the token has other words before the code
    for code, share in _shares(positions, at, b"", 1.0, spellings):
        nothing[code] += share
    n_counted = reply.get("completion_tokens") or 0
    before = b"".join(row[0][0] for row in positions[:at]) + positions[at][0][0][: begin - offset]
    is_bare = len(re.findall(r"\w+", before.decode("utf-8", "replace"))) <= _SCAFFOLD
    return Distribution(nothing, is_bare and not parsed.explanation and n_counted <= len(positions) + _UNCOUNTED)


Candidates = list[tuple[bytes, float]]


def _positions(tokens: Sequence[Sequence[Any]]) -> list[Candidates]:
    """Per token its candidates with their probabilities, what was written first."""
    positions = []
    for row in tokens:
        names = [bytes(name) if isinstance(name, list) else name.encode("utf-8", "replace") for name in row[::2]]
        shares = [math.exp(min(value, 0.0)) for value in row[1::2]]
        if not names or any(math.isnan(share) for share in shares):
            raise ValueError
        positions.append(list(zip(names, shares, strict=True)))
    return positions


def _start(positions: list[Candidates], text: str) -> int | None:
    """The byte at which the text begins in the tokens, which may have reasoning before it and an end mark after it."""
    whole, part = b"".join(row[0][0] for row in positions), text.encode("utf-8", "replace")
    at = whole.rfind(part)
    return at if at >= 0 and (at == whole.find(part) or at + len(part) == len(whole)) else None


def _place(
    text: str, code: Code | None, read: Callable[[str], Parsed], scale: Scale
) -> tuple[int, Mapping[str, Code]] | None:
    """The character at which the verdict begins, and the spellings of its kind; None if none or several places do."""
    for spellings, folded in _kinds(scale):
        own = [re.escape(name) for name, other in spellings.items() if other == code]
        rival = next((item for item in spellings.items() if item[1] != code), None)
        if not own or rival is None:
            continue
        pattern = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(own, key=len, reverse=True))})(?!\w)", re.IGNORECASE)
        places = [match.span() for match in pattern.finditer(text)]
        for begin, end in dict.fromkeys((*places[: -_PLACES - 1 : -1], *islice(places, _PLACES))):
            if read(text[:begin] + rival[0] + text[end:]).code == rival[1]:
                return begin, folded
    return None


@lru_cache(maxsize=256)
def _kinds(scale: Scale) -> list[tuple[dict[str, Code], dict[str, Code]]]:
    """Spellings of codes, as they are and folded: the codes, their descriptions, and numbers as words.

    A verdict uses those of one kind.
    """
    codes: dict[str, Code] = {code_text(code): code for code in scale.codes}
    if scale.level != "nominal":
        codes |= {str(float(code)): code for code in scale.codes}
    texts: dict[str, Code] = {text: code for text, code in zip(scale.texts, scale.codes, strict=False) if text}
    words: dict[str, Code] = {WORDS[code]: code for code in scale.codes if type(code) is int and 0 <= code <= 10}
    kinds = codes, texts, words
    return [(kind, {_folded(name.encode()).rstrip(): code for name, code in kind.items()}) for kind in kinds]


def _folded(token: bytes) -> str:
    """A token as spellings are compared: without marks before it, case, and part of a character at its end."""
    text = unicodedata.normalize("NFKC", token.decode("utf-8", "ignore")).casefold().replace("−", "-").lstrip(_LEAD)
    return re.sub(r"\s+", " ", text)


def _shares(
    positions: list[Candidates], at: int, before: bytes, share: float, spellings: Mapping[str, Code]
) -> Iterator[tuple[Code, float]]:
    """The codes that the candidates at a position lead to, each with its probability."""
    for number, (token, own) in enumerate(positions[at]):
        text = _folded(before + token)
        done = max((name for name in spellings if _begins(text, name)), key=len, default=None)
        # an empty token is an end mark: nothing follows
        longer = {code for name, code in spellings.items() if token and name != text and name.startswith(text)}
        codes = longer | ({spellings[done]} if done is not None else set())
        if len(codes) == 1 and text:
            yield codes.pop(), share * own
        elif len(codes) > 1 and number == 0 and at + 1 < len(positions):
            yield from _shares(positions, at + 1, before + token, share * own, spellings)


def _begins(text: str, name: str) -> bool:
    return text == name or (text.startswith(name) and _SET_OFF.match(text, len(name)) is not None)
