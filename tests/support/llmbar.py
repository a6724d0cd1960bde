"""Six models judging the pairs of LLMBar (Zeng et al. 2023), as recorded by its authors: votes, gold and figures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from judgment_tables import imported, published_rows

from evalkit.rubrics import Scale
from evalkit.stats.voting import vote

BASE = Scale.of({"1": "the first is better", "2": "the second is better"}, level="nominal")


def juries(folder: Path) -> Iterator[tuple[str, pd.DataFrame, pd.Series, dict[str, Any]]]:
    """Name (prompt/subset/orders), votes, gold by item, and the published figures of each jury."""
    rows = published_rows(folder, "llmbar_judgements")
    shown = pd.concat([rows.assign(order=order, said=rows["parsed"].str[order]) for order in ("AB", "BA")])
    for name, figures in json.loads((folder / "reference.json").read_text())["llmbar"]["juries"].items():
        prompt, subset, orders = name.split("/")
        own = shown[(shown["prompt_id"] == prompt) & (shown["subset"] == subset)]
        both = orders != "AB_only"
        own = own.assign(judge=own["judge"] + "|" + own["order"]) if both else own[own["order"] == "AB"]
        gold = own.drop_duplicates("item_id").set_index("item_id")["gold"].astype(str)
        own = own[own["judge"].isin(figures["judges"])]
        yield name, vote(imported(own, BASE, score="said", codes={None: "unreadable"})), gold, figures
