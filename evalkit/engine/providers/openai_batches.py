"""Batches of OpenAI's form: a JSONL file of requests, sent to ``/files`` and named in ``/batches``."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from aiohttp import FormData

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply, Request
from evalkit.engine.calls.retry_waits import wait_of
from evalkit.engine.providers.api_keys import key_in
from evalkit.engine.providers.batch_interface import Batch, Line, batch_price_of
from evalkit.engine.providers.chat_client import request_body
from evalkit.engine.providers.openai import connect
from evalkit.engine.providers.openai_replies import json_of, problem_of, replies_of
from evalkit.engine.providers.provider_interface import ProviderError
from evalkit.engine.providers.transport import Answer
from evalkit.errors.secrets import without_keys

_ENDPOINT = "/v1/chat/completions"
_NAME = "evalkit_ticket"
_ENDED = ("completed", "failed", "expired", "cancelled")
_FILE_TIMEOUT_S = 900.0
_RETRIES = 5
_PAGE = 100
_READS = 3
_MOST_REPLIES = 1000
_CLOCKS_DIFFER_S = 3600.0
_PARAMETERS = dict.fromkeys(("temperature", "max_tokens", "response_format", "n"))


class Service:
    """See `BatchService`."""

    max_requests = 50_000
    max_bytes = 200_000_000

    def __init__(self, judge: Judge) -> None:
        self._judge, self._client = judge, connect(judge)

    @staticmethod
    def line(custom_id: str, request: Request, facts: Mapping[str, Any]) -> Line:
        """See `BatchService`."""
        adapt = {name.removeprefix("adapt."): other for name, other in facts.items() if name.startswith("adapt.")}
        own = request.judge.service == "api.openai.com"
        n = len(request.samples) if "n" not in adapt and facts.get("n_supported", own) else 1
        body, sent = request_body(request, n, adapt)
        line = {"custom_id": custom_id, "method": "POST", "url": _ENDPOINT, "body": body}
        return Line(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE), n, sent)

    async def upload(self, name: str, file: Path) -> str:
        """See `BatchService`."""

        def form() -> FormData:
            fields = FormData({"purpose": "batch"})
            fields.add_field("file", file.open("rb"), filename=f"{name}.jsonl", content_type="application/jsonl")
            return fields

        return _id_of(await self._ask("/files", form, timeout_s=_FILE_TIMEOUT_S), "file")

    async def create(self, name: str, uploaded: str) -> Batch:
        """See `BatchService`."""
        asked = {
            "input_file_id": uploaded, "endpoint": _ENDPOINT, "completion_window": "24h", "metadata": {_NAME: name},
        }  # fmt: skip
        return _batch(await self._ask("/batches", orjson.dumps(asked), once=True))

    async def find(self, name: str, custom_id: str, since: float) -> Batch | None:
        """See `BatchService`."""
        del custom_id
        async for raw in self._listed("/batches"):
            if isinstance(raw.get("metadata"), dict) and raw["metadata"].get(_NAME) == name:
                return _batch(raw)
            if (raw.get("created_at") or since) < since - _CLOCKS_DIFFER_S:  # the newest come first
                return None
        return None

    async def get(self, batch: str) -> Batch:
        """See `BatchService`."""
        return _batch(await self._ask(f"/batches/{batch}", None, method="GET"))

    async def cancel(self, batch: str) -> Batch:
        """See `BatchService`."""
        return _batch(await self._ask(f"/batches/{batch}/cancel", b"{}"))

    async def results(self, batch: Batch) -> AsyncIterator[tuple[str, list[Reply] | ProviderError]]:
        """See `BatchService`. A file that lacks lines, or has one that was cut, is read again."""
        lacks: list[str] = []
        for at, name in enumerate(batch.files):
            with tempfile.TemporaryFile() as file:
                for _ in range(_READS):
                    await self._download(name, file)
                    whole = [isinstance(line, dict) for line in _lines(file)]
                    if is_whole := all(whole) and (at > 0 or len(whole) >= batch.n_done):
                        break
                lacks += [] if is_whole else [name]
                for line in _lines(file):
                    if isinstance(line, dict) and isinstance(line.get("custom_id"), str):
                        answer = answer_of(line, self._judge)
                        if answer is not None:
                            yield line["custom_id"], answer
        if lacks:
            raise ProviderError("malformed", f"the file {lacks[0]} of batch {batch.id} lacks lines, or has cut ones")

    async def remove(self, name: str) -> None:
        """See `BatchService`."""
        listed = self._listed("/files?purpose=batch")
        for file in [_id_of(raw, "file") async for raw in listed if raw.get("filename") == f"{name}.jsonl"]:
            await self._ask(f"/files/{file}", None, method="DELETE")

    async def _listed(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """All entries of a list, page by page."""
        after = ""
        while True:
            mark = "&" if "?" in path else "?"
            page = await self._ask(f"{path}{mark}limit={_PAGE}{after}", None, method="GET")
            entries = [entry for entry in page.get("data") or [] if isinstance(entry, dict)]
            for entry in entries:
                yield entry
            if not page.get("has_more") or not entries or after == (after := f"&after={entries[-1].get('id')}"):
                return

    async def _download(self, file: str, to: BinaryIO) -> None:
        to.seek(0)
        to.truncate()
        await self._ask(f"/files/{file}/content", None, method="GET", timeout_s=_FILE_TIMEOUT_S, to=to)

    async def _ask(
        self,
        path: str,
        body: Any,
        *,
        method: str = "POST",
        timeout_s: float | None = None,
        to: BinaryIO | None = None,
        once: bool = False,
    ) -> dict[str, Any]:
        """Send a request and read its JSON; tried again if that can help.

        With `once`, not after an error that may mean that it was carried out.
        """
        for tried in range(_RETRIES + 1):
            try:
                answer = await self._client.send(
                    path,
                    body() if callable(body) else body,
                    timeout_s=timeout_s or self._judge.timeout_s,
                    method=method,
                    to=to,
                )
                if answer.status == 404:
                    why = (
                        f"no {path} there (HTTP 404)"
                        if path.count("/") > 1
                        else f"HTTP 404 for {path}: no batches there"
                    )
                    raise ProviderError("unknown_model", f"{answer.origin}: {why}", status=404)
                if not 200 <= answer.status < 300:
                    raise problem_of(answer, self._judge, {}, key_in(self._judge.api_key_env))
                content = {} if to is not None else json_of(answer.content)
                if isinstance(content, dict):
                    return content
                raise ProviderError("malformed", f"{answer.origin} answered without a JSON object", maybe_paid=True)
            except ProviderError as problem:
                wait = wait_of(problem, tried)
                unclear = problem.maybe_paid or (problem.status or 0) >= 500
                if once and unclear:
                    problem.maybe_paid = True
                    raise
                if wait is None or tried == _RETRIES or problem.kind in ("auth", "unknown_model"):
                    raise
                if to is not None:
                    to.seek(0)
                    to.truncate()
            await asyncio.sleep(wait.call_s)
        raise AssertionError  # the last attempt returns or raises


def answer_of(line: Mapping[str, Any], judge: Judge) -> list[Reply] | ProviderError | None:
    """The replies in a line of results, or why there are none; None if the request was not processed."""
    response, error, secret = line.get("response"), line.get("error"), key_in(judge.api_key_env)
    if not isinstance(response, dict) or not isinstance(status := response.get("status_code"), int):
        code = str(error.get("code") or "") if isinstance(error, dict) else ""
        if re.search(r"expired|cancel", code):
            return None
        return ProviderError("server_error", f"no answer in the batch ({code or 'why is not said'})")
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


def _lines(file: BinaryIO) -> Any:
    file.seek(0)
    return (json_of(line) for line in file if line.strip())


def _id_of(raw: Mapping[str, Any], what: str) -> str:
    if not isinstance(raw.get("id"), str) or not re.fullmatch(r"[\w.:-]{1,200}", raw["id"]):
        raise ProviderError("malformed", f"the answer has no id of a {what}", maybe_paid=True)
    return str(raw["id"])


def _batch(raw: Mapping[str, Any]) -> Batch:
    word, counts = str(raw.get("status")), raw.get("request_counts") or {}
    done = counts.get("completed") if isinstance(counts, dict) else 0
    files = [raw.get(name) for name in ("output_file_id", "error_file_id")]
    errors = raw.get("errors")
    said = [
        f"{error.get('code') or 'error'}: {without_keys(str(error.get('message'))[:200])}"
        for error in (errors.get("data") or [] if isinstance(errors, dict) else [])[:3]
        if isinstance(error, dict)
    ]
    return Batch(
        _id_of(raw, "batch"),
        "ended" if word in _ENDED else "running",
        word,
        done if isinstance(done, int) else 0,
        tuple(file for file in files if isinstance(file, str) and file),
        "; ".join(said),
    )
