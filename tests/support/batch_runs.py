"""What the tests of batches share: judges at their server, items, and waits that pass at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from batch_server import BatchServer

import evalkit as ek
from evalkit.engine import tickets
from evalkit.engine.providers import batch_http

MODELS = ("gpt-4o-mini", "gpt-4o")


SAMPLES = 3


def jury(server: BatchServer, *models: str, **fields: Any) -> list[ek.Judge]:
    """Judges that cost as at OpenAI's own service, but are asked at the server of the tests."""
    own = {"service": "api.openai.com", "price": (0.15, 0.6), "api_key_env": "OPENAI_API_KEY"} | fields
    return [ek.Judge("openai", model, base_url=server.url, **own) for model in models or MODELS]


def some_items(n: int, start: int = 0, text: str = "") -> pd.DataFrame:
    rows = [
        {"item_id": str(at), "question": f"What is {at}?", "answer": f"{text} number {at}", "reference": "a number"}
        for at in range(start, start + n)
    ]
    return pd.DataFrame(rows)


def judged(items: pd.DataFrame, judges: Any, cache: str, **options: Any) -> pd.DataFrame:
    return ek.judge(items, "correctness", judges, samples=SAMPLES, cache=cache, progress=False, **options)


def sent(items: pd.DataFrame, judges: Any, cache: str, **options: Any) -> ek.engine.Ticket:
    return ek.submit(items, "correctness", judges, samples=SAMPLES, cache=cache, **options)


def answers_to(requests: Path | str, server: BatchServer) -> list[dict[str, Any]]:
    """What the server answers to a file of requests, as the lines of an output file."""
    lines = [json.loads(text) for text in Path(requests).read_text(encoding="utf-8").splitlines()]
    return [
        {"custom_id": line["custom_id"], "error": None,
         "response": {"status_code": 200, "body": server.answer(line["body"])[1]}}
        for line in lines
    ]  # fmt: skip


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A file with a line per row."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def assert_paid_once(server: BatchServer, n_prompts: int) -> None:
    """Each prompt was answered as often as it was needed."""
    assert len(server.billed) == n_prompts
    assert set(server.billed.values()) == {SAMPLES}


@contextlib.contextmanager
def waits_watched(monkeypatch: pytest.MonkeyPatch, cache: str) -> Iterator[list[float]]:
    """The waits between attempts: they pass at once, move the clock, and end with a look at all open tickets."""
    clock, waits = time.time, list[float]()

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.to_thread(look)

    def look() -> None:
        for ticket in tickets(cache, only_open=True):
            ek.collect(ticket.id, cache=cache, wait=False)

    with monkeypatch.context() as patch:
        patch.setattr(batch_http, "asyncio", SimpleNamespace(sleep=wait))
        patch.setattr(time, "time", lambda: clock() + sum(waits))
        yield waits
