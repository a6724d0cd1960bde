"""Batches of OpenAI's form: a JSONL file of requests, sent to ``/files`` and named in ``/batches``."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
from aiohttp import FormData

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply, Request, token_count
from evalkit.engine.providers.api_keys import key_in
from evalkit.engine.providers.batch_http import (
    CLOCKS_DIFFER_S,
    FILE_TIMEOUT_S,
    READS,
    BatchRequests,
    id_of,
    lines_of,
)
from evalkit.engine.providers.batch_interface import Batch, Line, batch_price_of
from evalkit.engine.providers.chat_client import request_body
from evalkit.engine.providers.error_answers import DROPPABLE
from evalkit.engine.providers.judge_checks import asks_singly
from evalkit.engine.providers.openai import connect
from evalkit.engine.providers.openai_replies import json_of, problem_of, replies_of
from evalkit.engine.providers.provider_interface import ProviderError
from evalkit.engine.providers.transport import Answer
from evalkit.errors.secrets import without_keys

_ENDPOINT = "/v1/chat/completions"
_NAME = "evalkit_ticket"
_ENDED = ("completed", "failed", "expired", "cancelled")
_MOST_REPLIES = 1000
_TOKENS = ("input_tokens", "output_tokens")
_PARAMETERS = dict.fromkeys(DROPPABLE)


class Service(BatchRequests):
    """See `BatchService`."""

    max_requests = 50_000
    max_bytes = 200_000_000

    def __init__(self, judge: Judge, until: float = math.inf) -> None:
        super().__init__(judge, connect(judge), until)

    @staticmethod
    def line(custom_id: str, request: Request, facts: Mapping[str, Any]) -> Line:
        """See `BatchService`."""
        adapt = {name.removeprefix("adapt."): other for name, other in facts.items() if name.startswith("adapt.")}
        own = request.judge.service == "api.openai.com"
        several = "n" not in adapt and not asks_singly(request.judge) and facts.get("n_supported", own)
        n = len(request.samples) if several else 1
        body, sent = request_body(request, n, adapt)
        line = {"custom_id": custom_id, "method": "POST", "url": _ENDPOINT, "body": body}
        return Line(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE), n, sent)

    async def upload(self, name: str, file: Path) -> str:
        """See `BatchService`."""

        def form() -> FormData:
            fields = FormData({"purpose": "batch"})
            fields.add_field("file", file.open("rb"), filename=f"{name}.jsonl", content_type="application/jsonl")
            return fields

        return id_of(await self.ask("/files", form, timeout_s=FILE_TIMEOUT_S), "file")

    async def create(self, name: str, uploaded: str) -> Batch:
        """See `BatchService`."""
        asked = {
            "input_file_id": uploaded, "endpoint": _ENDPOINT, "completion_window": "24h", "metadata": {_NAME: name},
        }  # fmt: skip
        return _batch(await self.ask("/batches", orjson.dumps(asked), once=True))

    async def find(self, name: str, custom_id: str, since: float, uploaded: str | None) -> Batch | None:
        """See `BatchService`. Some servers list batches without their metadata, but with the file of requests."""
        del custom_id
        async for raw in self.listed("/batches"):
            named = isinstance(raw.get("metadata"), dict) and raw["metadata"].get(_NAME) == name
            if named or (uploaded is not None and raw.get("input_file_id") == uploaded):
                return _batch(raw)
            if (raw.get("created_at") or since) < since - CLOCKS_DIFFER_S:  # the newest come first
                return None
        return None

    async def get(self, batch: str) -> Batch:
        """See `BatchService`."""
        return _batch(await self.ask(f"/batches/{batch}", None, method="GET"))

    async def cancel(self, batch: str) -> Batch:
        """See `BatchService`."""
        return _batch(await self.ask(f"/batches/{batch}/cancel", b"{}"))

    async def results(self, batch: Batch) -> AsyncIterator[tuple[str, list[Reply] | ProviderError]]:
        """See `BatchService`. A file that lacks lines, or has one that was cut, is read again."""
        lacks: list[str] = []
        for at, name in enumerate(batch.files):
            with tempfile.TemporaryFile() as file:
                for _ in range(READS):
                    await self.download(f"/files/{name}/content", file)
                    whole = [isinstance(line, dict) for line in lines_of(file)]
                    if is_whole := all(whole) and (at > 0 or len(whole) >= batch.n_done):
                        break
                lacks += [] if is_whole else [name]
                for line in lines_of(file):
                    if isinstance(line, dict) and isinstance(line.get("custom_id"), str):
                        answer = answer_of(line, self._judge)
                        if answer is not None:
                            yield line["custom_id"], answer
        if lacks:
            raise ProviderError("malformed", f"in the file {lacks[0]} of batch {batch.id}, lines are missing or cut")

    async def remove(self, name: str) -> None:
        """See `BatchService`."""
        listed = self.listed("/files?purpose=batch")
        for file in [id_of(raw, "file") async for raw in listed if raw.get("filename") == f"{name}.jsonl"]:
            await self.ask(f"/files/{file}", None, method="DELETE")


def answer_of(line: Mapping[str, Any], judge: Judge) -> list[Reply] | ProviderError | None:
    """The replies in a line of results, or why there are none; None if the request was not processed."""
    response, error, secret = line.get("response"), line.get("error"), key_in(judge.api_key_env)
    if not isinstance(response, dict) or not isinstance(status := response.get("status_code"), int):
        code = str(error.get("code") or "") if isinstance(error, dict) else ""
        if re.search(r"expired|cancel", code):
            return None
        return ProviderError("server_error", f"no answer in the batch ({code or 'no reason given'})")
    said = error if isinstance(error, dict) and "error" in error else {"error": error}  # as vLLM writes it
    answer = Answer(status, {}, orjson.dumps(response.get("body") or said), "the batch", _ENDPOINT)
    try:
        if 200 <= status < 300:
            price = batch_price_of(judge)
            return replies_of(answer, _MOST_REPLIES, price=price, latency_s=None, sent=None, secret=secret)
        return problem_of(answer, judge, _PARAMETERS, secret)
    except ProviderError as problem:
        return problem


def json_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects in a file of results; lines that are none are left out."""
    with file.open("rb") as lines:
        yield from (value for line in lines if isinstance(value := json_of(line), dict))


def _batch(raw: Mapping[str, Any]) -> Batch:
    word, counts = str(raw.get("status")), raw.get("request_counts") or {}
    done = counts.get("completed") if isinstance(counts, dict) else 0
    files = [raw.get(name) for name in ("output_file_id", "error_file_id")]
    errors, usage = raw.get("errors"), raw.get("usage")
    tokens = [token_count(usage.get(name)) if isinstance(usage, dict) else None for name in _TOKENS]
    said = [
        f"{error.get('code') or 'error'}: {without_keys(str(error.get('message'))[:200])}"
        for error in (errors.get("data") or [] if isinstance(errors, dict) else [])[:3]
        if isinstance(error, dict)
    ]
    return Batch(
        id_of(raw, "batch"),
        "ended" if word in _ENDED else "running",
        word,
        done if isinstance(done, int) else 0,
        tuple(file for file in files if isinstance(file, str) and file),
        "; ".join(said),
        (tokens[0], tokens[1]),
    )
