"""Answers that patterns of a user name."""

from __future__ import annotations

import pytest

from evalkit.rubrics.parsing import parser_for
from evalkit.rubrics.scales import Scale

SCALE = Scale.of({0: "no", 1: "partly", 2: "yes"})
NAMED = {"(?i)yes": 2, r"(?i)\bno\b": 0, "=?1": 1, "0 points": 0, "cannot tell": "abstained", "x*": 1}


@pytest.mark.parametrize(
    ("text", "finish", "expected"),
    [
        ("Yes.", None, 2),
        ("I cannot tell.", None, "abstained"),
        ("yes and no", None, "ambiguous"),
        ("Hm.", None, "unreadable"),  # `x*` matches nothing there, which is no match
        # a match does not begin or end within a number
        ("1", None, 1),
        ("It is =1.", None, 1),
        ("It is =10.", None, "unreadable"),
        ("It is =1,5.", None, "unreadable"),
        ("I say 10 of them.", None, "unreadable"),
        ("21", None, "unreadable"),
        ("0 points", None, 0),
        ("10 points", None, "unreadable"),
        ("1.0 points", None, "unreadable"),
        # in quotations, nothing counts
        ("yes, it says “no”", None, 2),
        # at the end of a reply that was cut off, the match may go on
        ("It is 1", "length", "truncated"),
        ("It is 1 of 2", "length", 1),
        ("Hm", "length", "truncated"),
    ],
)
def test_named_patterns(text: str, finish: str | None, expected: object) -> None:
    found = parser_for(NAMED, SCALE)(text, finish)
    assert (found.code if found.error is None else found.error) == expected


def test_the_explanation_is_what_stands_beside_the_match_or_in_its_group() -> None:
    assert parser_for(NAMED, SCALE)("Two claims hold: yes").explanation == "Two claims hold:"
    assert parser_for(NAMED, SCALE)("yes, two claims hold").explanation == "two claims hold"
