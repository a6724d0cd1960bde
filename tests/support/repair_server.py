"""A judge that is asked what its own unread reply meant: a server's answers, the rubric and the call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from servers import JudgeServer, judge_server

import evalkit as ek

FIVE = ek.Rubric(
    id="five", inputs=["answer"], template="number@v1",
    criteria=[{"name": "quality", "scale": {code: f"degree {code}" for code in range(1, 6)}}],
)  # fmt: skip
UNREAD = "The prose is worth 2 to me, while all of it together amounts to 4, I suppose."


def some_items(n: int = 3) -> list[dict[str, str]]:
    return [{"item_id": str(number), "answer": f"ITEM-{number}"} for number in range(n)]


class Speaker:
    """Says `says` of each item, and `means` where it is asked what a reply means; counts both."""

    def __init__(self, says: str = UNREAD, means: str = '{"verdict": "4"}', fault: Any = None) -> None:
        self.says, self.means, self.fault = says, means, fault
        self.judged, self.asked = list[dict[str, Any]](), list[dict[str, Any]]()

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        is_repair = "Which of these verdicts" in body["messages"][-1]["content"]
        (self.asked if is_repair else self.judged).append(body)
        if self.fault is not None and (step := self.fault(is_repair)):
            return step  # type: ignore[no-any-return]
        number = body["messages"][-1]["content"].rpartition("ITEM-")[2][:1]
        return {"content": self.means if is_repair else self.says.replace("#", number)}


def on(server: JudgeServer, **fields: Any) -> ek.Judge:
    return ek.Judge("openai", "m", base_url=server.url, price=(1.0, 4.0), **fields)


def judged(server: JudgeServer, cache: Path, n: int = 3, **options: Any) -> pd.DataFrame:
    ask: dict[str, Any] = {"samples": 1, "progress": False, "cache": cache, "retries": 0} | options
    return ek.judge(some_items(n), ask.pop("rubric", FIVE), ask.pop("judge", on(server)), **ask)


def judged_by(speaker: Speaker, cache: Path, n: int = 3, **options: Any) -> pd.DataFrame:
    """As `judged`, at a server that answers so."""
    with judge_server(faults=speaker) as server:
        return judged(server, cache, n, **options)
