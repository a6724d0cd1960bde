"""Six models judging the pairs of LLMBar (Zeng et al. 2023), as recorded by its authors: votes, gold and figures."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from judged import judgments

from evalkit.rubrics import Scale
from evalkit.voting import vote

BASE = Scale.of({"1": "the first is better", "2": "the second is better"}, level="nominal")


def juries(folder: Path) -> Iterator[tuple[str, pd.DataFrame, pd.Series, dict[str, Any]]]:
    """Name (prompt/subset/orders), votes, gold by item, and the published figures of each jury."""
    published = json.loads((folder / "reference.json").read_text())["llmbar"]["juries"]
    with gzip.open(folder / "llmbar_judgements.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for name, figures in published.items():
        prompt, subset, orders = name.split("/")
        own = [row for row in rows if row["prompt_id"] == prompt and row["subset"] == subset]
        samples = {}
        for row in own:
            for order in ("AB", "BA"):
                judge = row["judge"] if orders == "AB_only" else f"{row['judge']}|{order}"
                if judge in figures["judges"] and (orders != "AB_only" or order == "AB"):
                    said = row["parsed"][order]
                    samples[row["item_id"], judge] = ["!unreadable" if said is None else said]
        gold = pd.Series({row["item_id"]: str(row["gold"]) for row in own})
        yield name, vote(judgments(samples, BASE)), gold, figures
