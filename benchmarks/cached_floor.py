"""The least that a cached re-run takes on this machine: the same replies by the same keys into a table, by hand.

Nothing is checked, no text is brought into one form, and a reply that is not exactly as asked for would be an error.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from evalkit.core.reply_keys import KeyMaker


def floor(items: Sequence[dict[str, Any]], folder: str) -> float:
    """Seconds from items to a table; the store in the folder holds one recorded reply for each of the items."""
    started, sha = time.perf_counter(), hashlib.sha256
    with sqlite3.connect(Path(folder, "replies.sqlite")) as connection:
        ((parts,),) = connection.execute("SELECT parts FROM calls")
        stored = dict(connection.execute("SELECT key, value FROM replies"))
    ((head, tail),) = KeyMaker(orjson.loads(parts)).around(None, [0])
    inputs = [sha(orjson.dumps(item, option=orjson.OPT_SORT_KEYS)).hexdigest() for item in items]
    keys, live = [], []
    for number, text in enumerate(inputs):
        own = sha(orjson.dumps({"input_hash": text, "item_id": str(number)})).hexdigest()
        for found, hashed in ((keys, own), (live, text)):
            whole = head.copy()
            whole.update(hashed.encode() + tail)
            found.append(whole.digest())
    assert not any(key in stored for key in live)
    replies = [orjson.loads(stored[key]) for key in keys]
    answers = [orjson.loads(reply["text"]) for reply in replies]
    table = pd.DataFrame(
        {
            "item_id": pd.array([str(number) for number in range(len(items))], dtype="str"),
            "score": [float(answer["score"]) for answer in answers],
            "explanation": pd.array([answer["explanation"].strip() for answer in answers], dtype="str"),
            "key": pd.array([key.hex() for key in keys], dtype="str"),
        }
    )
    assert len(table) == len(items)
    return time.perf_counter() - started
