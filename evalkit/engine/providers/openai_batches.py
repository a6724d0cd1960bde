"""Batches of OpenAI's form: a JSONL file of requests, sent to ``/files`` and named in ``/batches``."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
from aiohttp import FormData

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply
from evalkit.engine.providers.api_keys import key_of
from evalkit.engine.providers.batch_http import (
    FILE_TIMEOUT_S,
    READS,
    UNREADABLE,
    BatchRequests,
    id_of,
    lines_of,
    plain,
    read_alone,
)
from evalkit.engine.providers.batch_interface import Batch, Line, batch_price_of
from evalkit.engine.providers.chat_client import request_body
from evalkit.engine.providers.error_answers import DROPPABLE, learnt
from evalkit.engine.providers.openai import OWN_HOST, connect
from evalkit.engine.providers.openai_replies import json_bytes, problem_of, replies_of
from evalkit.engine.providers.transport import Answer
from evalkit.engine.request import ProviderError, Request, asks_singly
from evalkit.errors.secrets import Secret, without_keys

_ENDPOINT = "/v1/chat/completions"
_NAME = "evalkit_ticket"
_ENDED = ("completed", "failed", "expired", "cancelled", "canceled")
_MOST_REPLIES = 1000
_LONGEST_COUNT = 10
_STATUS_DIGITS = 3


class Service(BatchRequests):
    """See `BatchService`."""

    max_requests = 50_000
    max_bytes = 200_000_000

    def __init__(self, judge: Judge, until: float = math.inf) -> None:
        super().__init__(judge, connect(judge), until)

    @staticmethod
    def line(custom_id: str, request: Request, facts: Mapping[str, Any]) -> Line:
        """See `BatchService`."""
        adapt = learnt(facts, request.judge)
        is_own = request.judge.service == OWN_HOST
        several = "n" not in adapt and not asks_singly(request.judge) and facts.get("n_supported", is_own)
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

    async def create(self, name: str, custom_id: str, since: float, uploaded: str) -> Batch:
        """See `BatchService`."""
        body = orjson.dumps({
            "input_file_id": uploaded, "endpoint": _ENDPOINT, "completion_window": "24h", "metadata": {_NAME: name},
        })  # fmt: skip

        async def create() -> Batch:
            return _batch(await self.ask("/batches", body, once=True))

        return await self.created(create, lambda: self.find(name, custom_id, since, uploaded))

    async def find(self, name: str, custom_id: str, since: float, uploaded: str | None) -> Batch | None:
        """See `BatchService`. Some servers list batches without their metadata, but with the file of requests."""
        del custom_id
        async for raw in self.listed("/batches", since):
            has_name = isinstance(raw.get("metadata"), dict) and raw["metadata"].get(_NAME) == name
            if has_name or (uploaded is not None and raw.get("input_file_id") == uploaded):
                return _batch(raw)
        return None

    async def get(self, batch: str) -> Batch:
        """See `BatchService`."""
        return _batch(await self.ask(f"/batches/{batch}", None, method="GET"))

    async def cancel(self, batch: str) -> Batch:
        """See `BatchService`."""
        return _batch(await self.ask(f"/batches/{batch}/cancel", b"{}"))

    async def results(self, batch: Batch) -> AsyncIterator[tuple[str, list[Reply] | ProviderError]]:
        """See `BatchService`. Files that lack lines, or end within one, are read again."""
        secret = key_of(self._judge)
        with ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in batch.files]
            for _ in range(READS):
                for name, file in zip(batch.files, files, strict=True):
                    await self.download(f"/files/{quote(name, safe='')}/content", file)
                lines = (line for file in files for line in lines_of(file, secret))
                if is_whole := not files or _is_whole(batch, lines):
                    break
            for file in files:
                for line in lines_of(file, secret):
                    if isinstance(line, dict) and isinstance(line.get("custom_id"), str):
                        answer = answer_of(line, self._judge)
                        if answer is not None:
                            yield line["custom_id"], answer
        if not is_whole:
            where = f"in the file {batch.files[0]} of batch" if len(batch.files) == 1 else "in the files of batch"
            raise ProviderError("malformed", f"{where} {batch.id}, lines are missing or cut")

    async def remove(self, name: str) -> None:
        """See `BatchService`."""
        listed = self.listed("/files?purpose=batch")
        file_ids = [id_of(raw, "file") async for raw in listed if raw.get("filename") == f"{name}.jsonl"]
        for file in file_ids:
            await self.ask(f"/files/{file}", None, method="DELETE")


def _is_whole(batch: Batch, lines: Iterable[Any]) -> bool:
    """Whether files of results have a line for each request that the provider counts, by its id.

    Some services count failed requests as completed; others write no lines for them.
    """
    good, ids, is_cut = set[str](), set[str](), False
    for line in lines:
        if not isinstance(line, dict):
            is_cut = True
        elif isinstance(name := line.get("custom_id"), str):
            ids.add(name)
            response = line.get("response")
            if isinstance(response, dict) and 200 <= (_status(response) or 0) < 300:
                good.add(name)
    if not batch.n_done:
        return not is_cut
    return len(good) >= batch.n_done or len(ids) >= batch.n_done + batch.n_failed


def _status(response: Mapping[str, Any]) -> int | None:
    """The status of an answer, which some write as a text."""
    status = response.get("status_code")
    if isinstance(status, str) and status.isdecimal() and len(status) == _STATUS_DIGITS:
        return int(status)
    return status if isinstance(status, int) else None


def answer_of(line: Mapping[str, Any], judge: Judge) -> list[Reply] | ProviderError | None:
    """The replies in a line of results, or why there are none; None if the request was not processed."""
    return read_alone(lambda: _answer_of(line, judge))


def _answer_of(line: Mapping[str, Any], judge: Judge) -> list[Reply] | ProviderError | None:
    response, error, secret = line.get("response"), line.get("error"), key_of(judge)
    if UNREADABLE in line:
        raise ProviderError("malformed", "its line in the results cannot be read")
    if not isinstance(response, dict) or (status := _status(response)) is None:
        code = str(error.get("code") or "") if isinstance(error, dict) else ""
        if re.search(r"expired|cancel", code):
            return None
        return ProviderError("server_error", f"no answer in the batch ({code[:80] or 'no reason given'})")
    error_body = error if isinstance(error, dict) and "error" in error else {"error": error}  # as vLLM writes it
    answer = Answer(status, {}, json_bytes(response.get("body") or error_body), "the batch", _ENDPOINT)
    if 200 <= status < 300:
        price = batch_price_of(judge)
        return replies_of(answer, _MOST_REPLIES, price=price, latency_s=None, sent=None, secret=secret)
    sent = dict.fromkeys(DROPPABLE) | {
        "temperature": judge.temperature, "max_tokens": judge.max_tokens, "response_format": {"type": "json_schema"},
        **judge.params,
    }  # fmt: skip
    return problem_of(answer, judge, sent, secret)


def json_lines(file: Path, *secrets: Secret) -> Iterator[Any]:
    """See `lines_of`."""
    with file.open("rb") as stream:
        yield from lines_of(stream, *secrets)


def _batch(raw: Mapping[str, Any]) -> Batch:
    word, counts = plain(raw.get("status")).strip().casefold(), raw.get("request_counts")
    done, failed = (_number(counts.get(name)) if isinstance(counts, dict) else 0 for name in ("completed", "failed"))
    files = [raw.get(name) for name in ("output_file_id", "error_file_id")]
    errors = raw.get("errors")
    problems = [
        plain(f"{error.get('code') or 'error'}: {without_keys(str(error.get('message'))[:200])}")
        for error in (errors.get("data") or [] if isinstance(errors, dict) else [])[:3]
        if isinstance(error, dict)
    ]
    return Batch(
        id_of(raw, "batch"),
        "ended" if word in _ENDED else "running",
        word,
        done,
        tuple(dict.fromkeys(file for file in files if isinstance(file, str) and file.strip("."))),
        "; ".join(problems),
        failed,
    )


def _number(count: Any) -> int:
    if isinstance(count, str) and count.isdecimal() and len(count) < _LONGEST_COUNT:
        return int(count)
    return count if isinstance(count, int) and count > 0 else 0
