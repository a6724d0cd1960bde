"""Batches of Anthropic's form: all requests in one body, and no names; the custom ids tell whose a batch is.

Results can be read only when a batch has ended. They are read below the judge's own address: the address that comes
with a batch could lead the key elsewhere.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply
from evalkit.engine.providers.anthropic import PATH, as_completion, connect, native_body, problem_in, version_for
from evalkit.engine.providers.api_keys import key_of
from evalkit.engine.providers.batch_http import (
    CLOCKS_DIFFER_S,
    FILE_TIMEOUT_S,
    READS,
    UNREADABLE,
    BatchRequests,
    created_at,
    id_of,
    lines_of,
    plain,
    read_alone,
)
from evalkit.engine.providers.batch_interface import Batch, Line, batch_share
from evalkit.engine.providers.chat_client import request_body
from evalkit.engine.providers.error_answers import ErrorText, learnt, status_named
from evalkit.engine.providers.openai_replies import json_bytes, replies_of
from evalkit.engine.providers.transport import Answer
from evalkit.engine.request import ProviderError, Request

_PATH = f"{PATH}/batches"
_START, _END = b'{"requests":[', b"]}"
_PIECE = 1 << 20
_ANSWERED = ("succeeded", "errored")
_PARAMETERS = dict.fromkeys(("temperature", "response_format"))


class Service(BatchRequests):
    """See `BatchService`."""

    max_requests = 100_000
    max_bytes = 250_000_000
    after = "after_id"

    def __init__(self, judge: Judge, until: float = math.inf) -> None:
        super().__init__(judge, connect(judge), until)

    @staticmethod
    def line(custom_id: str, request: Request, facts: Mapping[str, Any]) -> Line:
        """See `BatchService`."""
        body, sent = request_body(request, 1, learnt(facts, request.judge))
        line = {"custom_id": custom_id, "params": native_body(request, body)}
        return Line(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE), 1, sent)

    async def upload(self, name: str, file: Path) -> str:
        """See `BatchService`. Nothing is sent before `create`."""
        del name
        return str(file)

    async def create(self, name: str, custom_id: str, since: float, uploaded: str) -> Batch:
        """See `BatchService`. The custom ids carry the name."""
        with await asyncio.to_thread(Path(uploaded).open, "rb") as file:
            params = orjson.loads(file.readline())["params"]
            size = file.seek(0, 2)
            headers = version_for(params) | {"content-length": str(len(_START) + size - 1 + len(_END))}

            async def create() -> Batch:
                body = lambda: _body(file, size)  # noqa: E731  # a new stream for each attempt
                return _batch(await self.ask(_PATH, body, timeout_s=FILE_TIMEOUT_S, once=True, headers=headers))

            return await self.created(create, lambda: self.find(name, custom_id, since, uploaded))

    async def find(self, name: str, custom_id: str, since: float, uploaded: str | None) -> Batch | str | None:
        """See `BatchService`. A batch that runs, and has as many requests, may be the one until it has ended."""
        del name, uploaded
        ticket, _, last = custom_id.rpartition("_")
        perhaps: Batch | None = None
        async for raw in self.listed(_PATH, since):
            n_requests, created = sum(_counts(raw).values()), created_at(raw)
            is_old = created is not None and created < since - CLOCKS_DIFFER_S
            if is_old or (n_requests and n_requests != int(last) + 1):
                continue
            batch = _batch(raw)
            if batch.files and batch.state == "ended":
                if str(await self._any_custom_id(batch)).startswith(f"{ticket}_"):
                    return batch
            elif not batch.problem:
                perhaps = batch
        if perhaps is None:
            return None
        return f"batch {perhaps.id} may belong to this ticket; this is known after the batch has ended"

    async def _any_custom_id(self, batch: Batch) -> Any:
        with tempfile.TemporaryFile() as file:
            await self.download(batch.files[0], file)
            line = next(lines_of(file, key_of(self._judge)), None)
        if not isinstance(line, dict):
            raise ProviderError("malformed", f"the results of batch {batch.id} cannot be read")
        return line.get("custom_id")

    async def get(self, batch: str) -> Batch:
        """See `BatchService`."""
        return _batch(await self.ask(f"{_PATH}/{batch}", None, method="GET"))

    async def cancel(self, batch: str) -> Batch:
        """See `BatchService`."""
        return _batch(await self.ask(f"{_PATH}/{batch}/cancel", None))

    async def results(self, batch: Batch) -> AsyncIterator[tuple[str, list[Reply] | ProviderError]]:
        """See `BatchService`. What lacks lines, or ends within one, is read again."""
        secret = key_of(self._judge)
        with tempfile.TemporaryFile() as file:
            for path in batch.files:
                for _ in range(READS):
                    await self.download(path, file)
                    ids, is_cut = set[str](), False
                    for line in lines_of(file, secret):
                        is_cut |= not isinstance(line, dict)
                        ids |= {line["custom_id"]} if _type_of(line) in _ANSWERED else set()
                    if is_whole := len(ids) >= batch.n_done if batch.n_done else not is_cut:
                        break
                for line in lines_of(file, secret):
                    if _type_of(line) in _ANSWERED:
                        yield str(line["custom_id"]), _answer_of(line, self._judge)
                if not is_whole:
                    raise ProviderError("malformed", f"in the results of batch {batch.id}, lines are missing or cut")

    async def remove(self, name: str) -> None:
        """See `BatchService`. There are no files."""


async def _body(file: BinaryIO, size: int) -> AsyncIterator[bytes]:
    """The lines of a file as one JSON object."""
    file.seek(0)
    yield _START
    while piece := await asyncio.to_thread(file.read, _PIECE):
        size -= len(piece)
        yield (piece if size else piece[:-1]).replace(b"\n", b",")
    yield _END


def _counts(raw: Mapping[str, Any]) -> dict[str, int]:
    """How many requests ended in which way, or are processed."""
    counts = raw.get("request_counts")
    entries = counts.items() if isinstance(counts, dict) else ()
    return {name: n for name, n in entries if isinstance(n, int)}


def _batch(raw: Mapping[str, Any]) -> Batch:
    counts, name, word = _counts(raw), id_of(raw, "batch"), plain(raw.get("processing_status"))
    return Batch(
        name,
        "ended" if word == "ended" else "running",
        word,
        sum(counts.get(outcome, 0) for outcome in _ANSWERED),
        (f"{_PATH}/{name}/results",) if raw.get("results_url") else (),
        "the provider no longer keeps the results" if raw.get("archived_at") else "",
    )


def _type_of(line: Any) -> str | None:
    """How a request ended; None for a line of another form.

    A line that is there and cannot be read, of which only the custom id is known, is that of an answer.
    """
    if not isinstance(line, dict) or not isinstance(line.get("custom_id"), str):
        return None
    result = line.get("result")
    if isinstance(result, dict):
        return str(result.get("type"))
    return _ANSWERED[0] if UNREADABLE in line else None


def _answer_of(line: Mapping[str, Any], judge: Judge) -> list[Reply] | ProviderError:
    """The reply in a line, or why there is none."""

    def read() -> list[Reply] | ProviderError:
        secret, result = key_of(judge), line.get("result")
        if not isinstance(result, dict):
            raise ProviderError("malformed", "its line in the results cannot be read")
        if result["type"] == "succeeded":
            answer = Answer(200, {}, json_bytes(result.get("message")), "the batch", PATH)
            answer = as_completion(answer, judge, batch_share(judge))
            return replies_of(answer, 1, price=None, latency_s=None, sent=None, secret=secret)
        error = result.get("error")
        error = error.get("error", error) if isinstance(error, dict) else {}
        status = status_named(ErrorText.of(error)) or 500
        return problem_in(Answer(status, {}, json_bytes({"error": error}), "the batch", PATH), judge, _PARAMETERS)

    return read_alone(read)
