"""Where a verdict is looked for in the tokens of a reply, and numbers as words."""

from __future__ import annotations

import math
from typing import Any

import pytest

from evalkit.rubrics.parsing import parser_for
from evalkit.rubrics.parsing.values_on_scale import Parsed
from evalkit.rubrics.parsing.verdict_logprobs import read_distribution
from evalkit.rubrics.scales import Scale

TWO = Scale.of({1: "", 2: ""})


def reply_of(*tokens: dict[str, float]) -> dict[str, Any]:
    rows = [[part for name, share in token.items() for part in (name, math.log(share))] for token in tokens]
    return {"text": "".join(next(iter(token)) for token in tokens), "logprobs": {"tokens": rows}}


def test_zero_and_ten_are_words_of_their_codes() -> None:
    scale = Scale.of(dict.fromkeys(range(11), ""))
    for token in ({"Zero": 0.7, "one": 0.3}, {"ten": 0.6, "zero": 0.4}):
        reply = reply_of(token)
        parse = parser_for("number", scale)
        found = read_distribution(reply, parse(reply["text"]), parse, scale)
        assert found is not None
        codes = {"zero": 0, "one": 1, "ten": 10}
        assert {code: share for code, share in found.codes.items() if share} == pytest.approx(
            {codes[name.lower()]: share for name, share in token.items()}
        )


@pytest.mark.parametrize(("at", "is_found"), [(0, True), (31, True), (32, False), (33, False), (34, True), (65, True)])
def test_the_first_and_last_32_places_are_tried(at: int, is_found: bool) -> None:
    """Of 66 equal words, the one is found that decides what a parser reads; no limit is promised."""
    reply = reply_of(*({" 2": 0.75, " 1": 0.25} for _ in range(66)))
    found = read_distribution(reply, Parsed(2), lambda text, *_: Parsed(int(text.split()[at])), TWO)
    assert found is not None
    assert found.codes == pytest.approx({1: 0.25, 2: 0.75} if is_found else {1: 0, 2: 0})
