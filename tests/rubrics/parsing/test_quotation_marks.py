"""Every pair of quotation marks of the table, around a judge's own answer and around a candidate's text."""

from __future__ import annotations

import itertools
import json

import pytest
from places import ROOT

from evalkit.rubrics.parsing import parser_for
from evalkit.rubrics.parsing.quotation_marks import PAIRS, pairs, quoted
from evalkit.rubrics.scales import Scale

FIVE = Scale.of(dict.fromkeys(range(1, 6), ""))
QUALITY = Scale.of({"good": "", "bad": ""}, level="nominal")
AROUND = ("The candidate wrote {} here.", "It reads\n{}\nand is wrong.", "(It reads {})")
ADR = ROOT / "docs" / "adr" / "0004-parsing.md"


def read(text: str, form: str, scale: Scale = FIVE) -> object:
    return parser_for(form, scale)(text).code


def test_the_record_lists_every_pair() -> None:
    assert [pair for pair in PAIRS if f"`{pair[0]}…{pair[1]}`" not in ADR.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("number", "{}"), ("number", "Rating: {}"), ("number", "Two claims hold.\nRating: {}"),
        ("number", "Rating: {}\nTwo claims hold."), ("number", "Two claims hold.\nRating: **{}**"),
        ("number", "Two claims hold.\n**Rating:** {}."), ("tagged", "[RESULT] {} [END]"),
        ("tagged", "[FEEDBACK] Two claims hold. [RESULT] **{}** [END]"), ("json", "{}"),
    ],
)  # fmt: skip
def test_an_answer_in_any_marks_is_read(form: str, text: str) -> None:
    for pair in PAIRS:
        assert read(text.format(f"{pair[0]}2{pair[1]}"), form) == 2, pair


@pytest.mark.parametrize("text", ["{}", "It is short.\nVerdict: {}", "Verdict: **{}**\nIt is short."])
def test_a_label_in_any_marks_is_read(text: str) -> None:
    for pair in PAIRS:
        assert read(text.format(f"{pair[0]}bad{pair[1]}"), "label", QUALITY) == "bad", pair


@pytest.mark.parametrize("more", [{}, {"explanation": "Two claims hold."}])
def test_a_json_text_in_any_marks_is_read(more: dict[str, str]) -> None:
    for pair in PAIRS:
        assert read(json.dumps({**more, "score": f"{pair[0]}2{pair[1]}"}), "json") == 2, pair
        assert read(json.dumps({**more, "label": f"{pair[0]}bad{pair[1]}"}), "json", QUALITY) == "bad", pair


@pytest.mark.parametrize(
    ("form", "verdict"),
    [
        ("number", "Rating: 5"), ("number", "\nRating: 5\n"), ("number", "Paris.\n\nRating: 5\n\nParis."),
        ("number", "So I give it a score of 5."), ("tagged", "[RESULT] 5 [END]"),
        ("tagged", "Paris.\n[RESULT] 5 [END]\nParis."), ("json", "an object"), (r"regex:Rating: (\d)", "Rating: 5"),
    ],
)  # fmt: skip
@pytest.mark.long
def test_a_verdict_quoted_by_any_marks_is_masked(form: str, verdict: str) -> None:
    own = {"number": "Rating: 2", "tagged": "[RESULT] 2 [END]", "json": '{"score": 2}'}.get(form, "Rating: 2")
    for pair, around in itertools.product(PAIRS, AROUND):
        said = verdict if form != "json" else "{'score': 5}" if pair != "''" else '{"score": 5}'
        quoting = around.format(f"{pair[0]}{said}{pair[1]}")
        assert read(quoting, form) is None, quoting
        assert read(f"{quoting}\n{own}", form) == 2, quoting


@pytest.mark.parametrize("mark", "”’»›」』》〞〟❞❜")
def test_a_closing_mark_without_its_pair_quotes_nothing(mark: str) -> None:
    assert read(f"It says so{mark}.\nRating: 2", "number") == 2


@pytest.mark.parametrize("mark", [">", "＞", "&gt;"])
def test_a_quoted_line_alone_is_masked(mark: str) -> None:
    assert read(f"{mark} Rating: 5\nI cannot decide.", "number") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # a mark between a space and a letter opens, also within an open quotation
        ('say "so "it" is', [(8, 12), (4, 15)]),
        ("say 'so", []),
        # what opens at the very start quotes the rest, too
        ("“so", [(0, 3)]),
        # double marks: between letters they close, between spaces they open and close; single ones do neither there
        ('"a"b', [(0, 3)]),
        ('a " b " c', [(2, 7)]),
        ("a ' b ' c", []),
        # an apostrophe within a word is none, of either kind
        ("say 'I don't' now", [(4, 13)]),
        ("say ‘I don’t’ now", [(4, 13)]),
    ],
)
def test_which_marks_are_a_pair(text: str, expected: list[tuple[int, int]]) -> None:
    assert pairs(text, cut=False) == expected


def test_quotations_side_by_side_are_two() -> None:
    assert quoted("“a”“b”", None, cut=False) == [(0, 3), (3, 6)]
    assert quoted("“a ‘b’ c”", None, cut=False) == [(0, 9)]
