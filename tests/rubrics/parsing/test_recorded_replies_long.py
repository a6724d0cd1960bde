"""Recorded replies of real judges, against the reading of those who collected them (needs the data folder)."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from evalkit.rubrics.parsing import parser_for
from evalkit.rubrics.scales import Scale

DATA = Path(os.environ.get("EVALKIT_DATA") or ROOT.parent / "shared" / "data")
pytestmark = pytest.mark.skipif(
    not (DATA / "topicalchat_ref_parsed.json.gz").exists(),
    reason="no recorded replies: set EVALKIT_DATA to the folder that holds them",
)
TEXTS = {
    "naturalness": {1: "bad", 2: "ok", 3: "good"},
    "engagingness": {1: "dull", 2: "somewhat interesting", 3: "interesting"},
}
# theirs is the first whole number in the text, whatever it counts
KINDS = {"same", "both unread", "a decimal cut to its whole part", "the number of a list item", "a level's name"}
KINDS |= {"left unread", "two answers", "label with an empty one after it"}


def rows(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def reference(name: str) -> Any:
    with gzip.open(DATA / f"{name}.json.gz", "rt", encoding="utf-8") as text:
        return json.load(text)


def test_topical_chat_is_read_as_by_its_authors_or_better() -> None:
    authors, kinds = reference("topicalchat_ref_parsed"), Counter[str]()
    for criterion, texts in TEXTS.items():
        parse = cache(parser_for("number", Scale.of(texts)))  # every other text was sampled before
        for row in rows(f"topicalchat_gpt35_{criterion}"):
            for text, theirs in zip(row["samples"], authors[row["prompt_id"]][row["item_id"]], strict=True):
                found = parse(text)
                kinds[kind(text, found.code, found.error, theirs)] += 1
    assert kinds.total() == 100_060
    assert set(kinds) <= KINDS
    assert kinds["same"] > 99_400
    assert kinds["left unread"] <= 40


def kind(text: str | None, code: object, error: str | None, theirs: float | None) -> str:
    if code is None and theirs is None:
        return "both unread"
    if code == theirs:
        return "same"
    assert text is not None
    if error == "off_scale" and re.search(r"[12]\.\d", text):
        return "a decimal cut to its whole part"
    if error == "ambiguous":
        return "two answers"
    if error is not None:
        return "left unread"
    if text.startswith("1. "):
        return "the number of a list item"
    if text.strip(".\n ").casefold() in {name for texts in TEXTS.values() for name in texts.values()}:
        return "a level's name"
    return (
        "label with an empty one after it"
        if text.endswith("\nRating:")
        else f"ours {code}, theirs {theirs}: {text[:80]}"
    )


def test_summaries_are_never_read_as_something_else() -> None:
    """Letters and stars come out as the authors', prose scores likewise or unread."""
    authors, seen = reference("summeval_damo_ref_parsed"), Counter[tuple[str, str]]()
    number = cache(parser_for("number", Scale.of(dict.fromkeys(range(1, 6), ""), level="interval")))
    letter = cache(parser_for("label", Scale.of(dict.fromkeys("ABCDE", ""), level="nominal")))
    for criterion in ("coherence", "consistency"):
        for row in rows(f"summeval_damo_raw_{criterion}"):
            prompt = row["prompt_id"]
            code = (letter if "mcq" in prompt else number)(row["samples"][0]).code
            if "mcq" in prompt and code is not None:
                code = "ABCDE".index(str(code)) + 1
            theirs = authors[f"{criterion}/{row['judge']}/{prompt}"][row["item_id"]]
            seen[prompt, "same" if code == theirs else "unread" if code is None else "other"] += 1
    for prompt in ("mcq", "altmcq", "stareval"):
        assert {what for name, what in seen if name == prompt} == {"same"}
    # the five "other": a verdict at the end ("I score it a 2 out of 5") where the authors took an earlier number
    assert seen["rts", "other"] + seen["altrts", "other"] <= 5
