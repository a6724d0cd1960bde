"""Criteria of items' own, alone and eight per call: 3 % of the replies unreadable, and a process that is killed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commandline import python
from requirement_replies import replies
from servers import JudgeServer, judge_server

import evalkit as ek

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kill -9")

RUN = """
import json, sys
import evalkit as ek
items = json.load(open(sys.argv[2]))
judge = ek.Judge("openai", "m", base_url=sys.argv[1], max_tokens=1200)
print("ready", flush=True)
ek.judge(items, "requirement", judge, samples=1, criteria_per_call=int(sys.argv[4]), cache=sys.argv[3], concurrency=8)
"""
KILLS, AT_ONCE = 2, 8


def met(text: str) -> bool:
    return len(text) % 2 == 0


def lost(text: str) -> bool:
    """About 3 % of the criteria, in every reply about them."""
    return random.Random(text).random() < 0.03


def items_of(n: int) -> list[dict[str, Any]]:
    draw = random.Random(7)
    return [
        {"item_id": f"i{at}", "question": f"What is {at}?", "answer": f"It is {at}.",
         "criteria": [{"text": f"says {'z' * draw.randint(1, 9)} {at}.{k}", "points": draw.choice([5, 2, -3])}
                      for k in range(draw.randint(4, 20))] + [{"text": f"is {at}", "points": 1}]}
        for at in range(n)
    ]  # fmt: skip


def prompts_of(server: JudgeServer) -> Counter[str]:
    return Counter(one.body["messages"][-1]["content"] for one in server.seen)


@pytest.mark.parametrize("per_call", [1, 8])
def test_coverage_is_stated_and_nothing_is_paid_twice(tmp_path: Path, per_call: int) -> None:
    items = items_of(60)
    rows = ek.explode_criteria(items)
    unread = rows["requirement"].map(lost).to_numpy()
    assert 0.015 < unread.mean() < 0.045
    file = tmp_path / "items.json"
    file.write_text(json.dumps(items), encoding="utf-8")
    with judge_server(always={"delay": 0.03}, faults=replies(met, lost)) as server:
        for _ in range(KILLS):
            n_before = len(server.seen)
            words = python(RUN, server.url, file, tmp_path / "cache", per_call)
            with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
                deadline = time.monotonic() + 120
                while len(server.seen) < n_before + 24:
                    assert time.monotonic() < deadline
                    assert child.poll() is None
                    time.sleep(0.01)
                child.kill()
            while server.in_flight:  # what was sent is answered, and billed, all the same
                time.sleep(0.01)
        server.always = {}
        judge = ek.Judge("openai", "m", base_url=server.url, max_tokens=1200)
        ask: dict[str, Any] = {"samples": 1, "criteria_per_call": per_call, "cache": tmp_path / "cache"}
        n_before, planned = len(server.seen), ek.plan(items, "requirement", judge, **ask).n_to_call
        assert planned < len(rows) / per_call + 60 - 16, "what was stored before the kill is there"
        ek.judge(items, "requirement", judge, **ask)
        assert len(server.seen) - n_before == planned
        table = ek.judge(items, "requirement", judge, **ask)  # asks alone what replies on several left out
        n_asked = len(server.seen)
        last = ek.judge(items, "requirement", judge, **ask)
        assert len(server.seen) == n_asked, "an unreadable reply is stored, too"
        pd.testing.assert_series_equal(last["error"], table["error"])
        repeated = sum(prompts_of(server).values()) - len(prompts_of(server))
        assert repeated <= 2 * AT_ONCE * KILLS, "only what was in flight, or on its way to the disk"
    assert table["error"].eq("unreadable").tolist() == unread.tolist()
    assert table["score"].dropna().astype(int).tolist() == [int(met(text)) for text in rows["requirement"][~unread]]
    found = ek.points(ek.aggregate(ek.vote(table)), rows)
    truth = ek.points(pd.DataFrame({"item_id": rows["item_id"], "score": rows["requirement"].map(met)}), rows)
    assert int(found["n_open"].sum()) == unread.sum()
    assert found["score"].isna().tolist() == found["n_open"].gt(0).tolist()
    assert (found["low"] <= truth["score"] + 1e-9).all()
    assert (truth["score"] <= found["high"] + 1e-9).all()
    summary = ek.summarize(found).iloc[0]
    assert summary["worst"] <= truth["score"].mean() <= summary["best"]
