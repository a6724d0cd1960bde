"""Requests for the tests of calling and providers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Message, Prompt, Reply
from evalkit.core.reply_keys import KeyParts
from evalkit.core.settings import Options
from evalkit.engine.cache.store import ReplyStore
from evalkit.engine.calls.event_loop import LoopThread
from evalkit.engine.calls.pending_call import Outcome
from evalkit.engine.calls.scheduler import Scheduler
from evalkit.engine.providers import connect
from evalkit.engine.request import Request

SCHEMA = {
    "type": "object",
    "properties": {"explanation": {"type": "string"}, "score": {"type": "integer"}},
    "required": ["explanation", "score"],
    "additionalProperties": False,
}


def request_of(
    judge: Judge, item: int, samples: tuple[int, ...] = (0,), *, form: str = "number", text: str = ""
) -> Request:
    """A request about one item: the prompt holds ``ITEM-<number>``."""
    schema: dict[str, Any] | None = SCHEMA if form == "json" else None
    prompt = Prompt(
        (Message("user", f"ITEM-{item} {text}"),), form, schema, "r", "v1", "c", "t@v1", "ordinal", (0, 1, 2),
        {"answer": str(item)},
    )  # fmt: skip
    parts = KeyParts(
        judge.provider, judge.service, judge.model, "r", "v1", "rubric", "template", judge.temperature,
        judge.max_tokens, dict(judge.params), input_hash=f"{item:064d}",
    )  # fmt: skip
    keys = tuple(replace(parts, sample=sample).key for sample in samples)
    return Request(judge, prompt, parts, samples, keys)


def submit(requests: Sequence[Request], store: ReplyStore, options: Options | None = None) -> Future[list[Outcome]]:
    """Start a run of calls without waiting for it."""
    scheduler = Scheduler(requests, store, options or Options())
    return LoopThread.get().submit(scheduler.run(), on_cancel=scheduler.stop)


def ask(request: Request, n: int = 1) -> list[Reply]:
    """Ask its provider on the loop thread, as the engine does."""

    async def work() -> list[Reply]:
        return await connect(request.judge).ask(request, n)

    return LoopThread.get().submit(work()).result(300)


def ask_all(*requests: Request, n: int = 1) -> list[Any]:
    """Ask for all of them at one time: the replies to each, or its problem."""

    async def work() -> list[Any]:
        return await asyncio.gather(*(connect(r.judge).ask(r, n) for r in requests), return_exceptions=True)

    return LoopThread.get().submit(work()).result(300)
