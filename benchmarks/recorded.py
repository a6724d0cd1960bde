"""Where the recorded replies and published figures lie that benchmarks and tests compare with.

They are no part of the project: `EVALKIT_DATA` names the folder, else `../shared/data` beside the
project is looked at. Where neither is there, what needs them says so and is skipped.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pandas as pd


def data_folder() -> Path | None:
    """The folder of recorded data, or None."""
    given = os.environ.get("EVALKIT_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[1].parent / "shared" / "data"
    return folder if (folder / "reference.json").is_file() else None


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a gzipped JSONL file."""
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def loaded(folder: Path, name: str) -> Any:
    """The content of a JSON file, gzipped or not."""
    path = folder / name
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(text)


def read_otherwise(own: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """The rows of two readings of the same replies whose labels differ, or of which one has none.

    Columns `item_id`, `reading` and `other` (the label, else why there is none), `reply`.
    """
    key = ["item_id", "criterion", "judge", "order", "sample"]
    tables = [table.assign(said=table["label"].astype(object).where(table["error"].isna(), table["error"]),
                           scored=table["error"].isna()) for table in (own, other)]  # fmt: skip
    both = tables[0].astype({"order": object}).merge(tables[1].astype({"order": object}), on=key, suffixes=("", "_2"))
    same = (both["said"] == both["said_2"]) | ~(both["scored"] | both["scored_2"])
    shown = both.loc[~same.to_numpy(dtype=bool)]
    return shown.rename(columns={"said": "reading", "said_2": "other"})[["item_id", "reading", "other", "reply"]]
