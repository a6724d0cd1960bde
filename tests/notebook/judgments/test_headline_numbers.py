"""Counts in the tiles: no part is larger than its whole."""

from __future__ import annotations

import pandas as pd
import pytest

import evalkit as ek
from evalkit.notebook.judgments.headline_numbers import make_tiles
from evalkit.notebook.judgments.item_details import links_of


def test_of_the_items_without_a_verdict_only_these_are_counted_as_tied() -> None:
    """Of 1 and 2, both judges pass w: its label is tied, its verdict is not. Of 1 and 0, x has neither."""
    rubric = ek.Rubric(
        id="q", inputs=["answer"], template="number@v1",
        criteria=[{"name": "q", "scale": {0: "a", 1: "b", 2: "c"}, "pass_at": 1}],
    )  # fmt: skip
    replies = {"w": "12", "x": "10", "y": "22", "z": "00"}

    def judge(at: int) -> ek.Judge:
        return ek.Judge.function(lambda prompt: replies[prompt.inputs["answer"]][at], name=f"j{at}", version="1")

    labels = pd.DataFrame(columns=["item_id", "criterion", "annotator", "label", "part"])
    items = pd.DataFrame({"item_id": [*replies], "answer": [*replies]})
    for aggregate in ("majority", "mean"):
        evaluation = ek.evaluate(items, rubric, [judge(0), judge(1)], samples=1, aggregate=aggregate)
        scored = next(tile for tile in make_tiles(evaluation, labels, "q") if tile.title == "Scored")
        assert scored.note == "items; all judgments scored; 1 without a verdict, 1 of them tied"


@pytest.mark.parametrize(
    ("text", "links"),
    [
        (one := "https://res.example.org/upload/w_300,h_200/x.jpg", [one]),
        ("HTTPS://example.org/A.PNG", ["HTTPS://example.org/A.PNG"]),
        (f"{one}, https://example.org/b.png", [one, "https://example.org/b.png"]),
        (f"{one},http://example.org/b.png", [one, "http://example.org/b.png"]),
        (f"image/png, {one}, 3 kB", [one]),
        ("not shown", []),
    ],
)
def test_an_address_of_a_picture_may_hold_commas(text: str, links: list[str]) -> None:
    assert links_of([{"type": "image", "unseen": text}]) == links
    assert links_of([{"type": "file", "unseen": text}]) == []
