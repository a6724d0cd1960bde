"""The parts of a reply on several criteria."""

from __future__ import annotations

import pytest

from evalkit.rubrics.parsing.several_criteria import parser_of_group
from evalkit.rubrics.scales import Scale

SCALE = Scale.of({0: "no", 1: "partly", 2: "yes"})
NAMES = ("clear", "true", "kind")


@pytest.mark.parametrize(
    ("text", "ends", "expected"),
    [
        ('{"clear":{"score":2},"true":1,"kind":0}', (), [2, 1, 0]),
        ('{\n "clear" : {"score": 2} ,\n "true" : 1 ,\n "kind" : 0\n}', (), [2, 1, 0]),
        # one object per criterion, back to back or in prose
        ('{"clear": 2}{"true": 1}{"kind": 0}', (), [2, 1, 0]),
        ('{} {"clear": 2} and {"true": 1}, {x} {"kind": 0}', (), [2, 1, 0]),
        ('Neither {} nor { }: {"clear": 2, "true": 1, "kind": 0}', (), [2, 1, 0]),
        ('{"scores": {"clear": 2, "true": 1, "kind": 0}}', (), [2, 1, 0]),
        ('{"Clear": 2, "TRUE": 1, " kind": 0}', (), [2, 1, 0]),
        # at most 64 objects are looked at
        ("{}" * 63 + '{"clear": 2}', (), [2, "unreadable", "unreadable"]),
        ("{}" * 64 + '{"clear": 2}', (), ["unreadable"] * 3),
        # a criterion's name within the part of another one is no part of its own
        ('{"clear": {"score": 2, "true": 0}, "true": {"score": 1}}', (), [2, 1, "unreadable"]),
        ('{"clear": 2, "true": 0, "kind": 0} {"true": 1}', (), [2, "ambiguous", 0]),
        # what a quotation says is not the judge's own
        ('It says “{"clear": {"score": 0}}”. {"clear": {"score": 2}}', (), [2, "unreadable", "unreadable"]),
        ('> {"clear": 0}\n\n{"clear": 2, "kind": 1}', (), [2, "unreadable", 1]),
        # what is not complete does not count, nor what follows it
        ('{"clear": 2, "true": 1 x "kind": 0}', (), ["unreadable"] * 3),
        ('{"clear": 2, "true": 1', ("length",), [2, "truncated", "truncated"]),
        ('{"clear": {"score": 2}', ("length",), [2, "truncated", "truncated"]),
        ('{"clear": 2, "true": 1}', ("length",), [2, 1, "truncated"]),
        # the ends of a reply that say more than its text
        ('{"clear": 2}', ("content_filter",), ["refused"] * 3),
        ('{"clear": 2}', ("stop", "I cannot judge this."), ["refused"] * 3),
        ('{"clear": 2}', ("stop", " "), [2, "unreadable", "unreadable"]),
        ("", ("stop",), ["empty"] * 3),
        (None, (), ["empty"] * 3),
        ("I'm sorry, I can't help with that.", (), ["refused"] * 3),
    ],
)
def test_each_criterion_gets_its_own_part(text: str | None, ends: tuple[str, ...], expected: list[object]) -> None:
    parsed = [parser_of_group(SCALE, name, NAMES)(text, *ends) for name in NAMES]
    assert [one.code if one.error is None else one.error for one in parsed] == expected


def test_names_that_differ_in_case_alone_are_told_apart() -> None:
    names = ("Tone", "tone")
    parsed = [parser_of_group(SCALE, name, names)('{"Tone": 2, "tone": 0}') for name in names]
    assert [one.code for one in parsed] == [2, 0]
