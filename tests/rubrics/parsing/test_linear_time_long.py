"""Texts that are made to be read slowly: no expression takes more than linear time on them."""

from __future__ import annotations

import pytest
from linear_growth import grows_linearly

from evalkit.rubrics.parsing import parser_for
from evalkit.rubrics.parsing.several_criteria import parser_of_group
from evalkit.rubrics.scales import Scale

THREE = Scale.of({0: "invents", 1: "mostly supported", 2: "fully supported"})
AB = Scale.of({"A": "the first is better", "B": "the second is better"}, level="nominal")

ADVERSARIAL = [
    "{", '{"a":', '"', '\\"', '{"', "{'", "}", "{}", '{"score": 1}', '{"score": ', "[", "[[[[{", "ab'", "\u0662",
    "[RESULT]", "[RESULT] 1", "<think>", "</think>", "<think ", "final final ", "2/", "-", "- ", "*", "\n", " ",
    "Score: 1\n", "Score:\n", "score: x\n", "score ", "score: ", "1", "1.", "1)\n", "1 or ", "(", "a", "a: ", "A or ",
    "«", "»", "“", '"a" ', "'a' ", "`", "``", "```\n", "> Score: 1\n", "<q>", "[quote]", ' "', '{"a":1}', "{a:",
    "<think>x</think>", "<think>\n", "x</think>", '"</think>', ":\n\n    x\n", '[RESULT] "1" ', "Answer: 1\n", "~~~\n",
]  # fmt: skip


LONGER_THAN_IS_READ = 200_001


def repeated(piece: str, size: int) -> str:
    return (piece * (size // len(piece) + 1))[:size]


@pytest.mark.parametrize("form", ["json", "tagged", "number", "label", r"regex:Score: (\d)"])
def test_a_hostile_text_is_read_in_linear_time(form: str) -> None:
    parse = parser_for(form, AB if form == "label" else THREE)

    def check(size: int) -> None:
        found = parse(f"x{repeated(piece, size)}y")
        assert found.code in (None, 1), piece

    for piece in ADVERSARIAL:
        assert grows_linearly(check, 32_000), piece
        if form.startswith(("json", "regex")):
            check(LONGER_THAN_IS_READ)
    if form == "json":
        assert parse(f'{{"score": 1}} {" " * 190_000}y').code == 1


@pytest.mark.parametrize("before", ["", "Here.\n", "1. Yes\n", '{"1": {"score": 1}} ', '{"clear": 1}\n'])
def test_a_hostile_reply_on_several_criteria_is_read_in_linear_time(before: str) -> None:
    def check(size: int) -> None:
        text = before + repeated(piece, size)
        for group in (("1", "2"), ("clear", "short")):
            for reply in (text, f"{text}\nNothing."):
                found = parser_of_group(THREE, group[0], group)(reply)
                assert found.code in (None, 1), (piece, group)

    for piece in (*ADVERSARIAL, "|---|", "_", "1*", "1_", "1**", "0", "#", "\t", "| 1 | ", "1) Yes\n", '{"1": 1}'):
        assert grows_linearly(check, 24_000), piece
