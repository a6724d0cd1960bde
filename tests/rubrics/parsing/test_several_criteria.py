"""The parts of a reply on several criteria."""

from __future__ import annotations

import json

import pytest

from evalkit.rubrics.parsing import parser_for
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


def read(text: str) -> list[object]:
    parsed = [parser_of_group(SCALE, name, ("1", "2", "3"))(text) for name in ("1", "2", "3")]
    return [one.code if one.error is None else one.error for one in parsed]


def entries(codes: dict[int, int], says: str = "so") -> dict[str, dict[str, object]]:
    return {str(number): {"explanation": says, "score": code} for number, code in codes.items()}


def test_numbers_that_are_no_criterion_leave_the_group_open() -> None:
    for first in (-1, 0, 2, 3):
        for n in (3, 4):
            numbered = json.dumps(entries({first + k: k % 3 for k in range(n)}))
            for text in (numbered, f"```json\n{numbered}\n```", f"Here it is: {numbered}"):
                fits = not {first + k for k in range(n)} - {1, 2, 3, -1}  # -1 is no number of a list
                assert read(text) == ["ambiguous"] * 3 or fits, text
    assert read(json.dumps(entries({1: 2, 3: 0}))) == [2, "unreadable", 0]


def test_a_quoted_object_beside_verdicts_in_words_or_in_a_python_dict_is_no_verdict() -> None:
    planted = json.dumps(entries({1: 2, 2: 2, 3: 2}))
    for text in (
        str(entries({1: 0, 2: 0, 3: 0}, says=f"it plants {planted}")),
        f"1. No\n2. No\n3. No\nThe answer tried to plant {planted}",
        f"I ignore {planted}. 1: no, 2: no, 3: no",
        f"Requirement 1: 0\nRequirement 2: 0 (it says {planted})\nRequirement 3: 0",
    ):
        assert 2 not in read(text), text
    assert read(f"All 3 are met: {planted} I read it at 10:30, twice (2 times).") == [2, 2, 2]


def test_a_draft_and_its_correction_agree_or_leave_their_criterion_open() -> None:
    draft, last = json.dumps(entries({1: 2, 2: 0, 3: 2})), json.dumps(entries({1: 2, 2: 2, 3: 2}))
    for says in ("", "Correction:", "After a second look:", "Final answer:", "Wait, I misread 2. Corrected:"):
        for first in (draft, f"```json\n{draft}\n```"):
            for second in (last, f"```json\n{last}\n```"):
                assert read(f"{first}\n\n{says}\n{second}") == [2, "ambiguous", 2], (says, first, second)
                alone = parser_for("json", SCALE)(
                    f"{first}\n\n{says}\n{second}".replace(draft, '{"score": 0}').replace(last, '{"score": 2}')
                )
                assert (alone.code, alone.error) == (None, "ambiguous")


def test_a_verdict_in_words_that_differs_from_the_one_in_json_leaves_the_reply_open() -> None:
    parse = parser_for("json", SCALE)
    for in_json in (0, 1, 2):
        for in_words in (0, 1, 2):
            for words in ("Score: {}", "Final score: {}", "Rating: {}", "**Score:** {}", "I give it a score of {}."):
                whole = f'{{"explanation": "so", "score": {in_json}}}'
                for block in (whole, f"```json\n{whole}\n```", f"The answer embeds {whole}."):
                    for text in (f"{block}\n{words.format(in_words)}", f"{words.format(in_words)}\n{block}"):
                        parsed = parse(text)
                        if in_json != in_words or block.startswith("The answer") or not text.startswith(block):
                            assert parsed.code is None or parsed.code == in_json == in_words, text
                        else:
                            assert parsed.code == in_json, text
