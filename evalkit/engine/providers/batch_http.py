"""What batch services share: requests that are tried again, lists page by page, files of results."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, BinaryIO

from evalkit.core.judges import Judge
from evalkit.engine.calls.retries_and_breaker import wait_of
from evalkit.engine.providers.api_keys import key_in
from evalkit.engine.providers.openai_replies import json_of, problem_of
from evalkit.engine.providers.provider_interface import ProviderError

FILE_TIMEOUT_S = 900.0
"""The longest time of one request, with all attempts and the waits between them."""
CLOCKS_DIFFER_S = 3600.0
"""A batch may seem to be created so long before its ticket."""
READS = 3
"""How often a file of results is read that is not whole."""
_RETRIES = 5
_PERMANENT = ("auth", "quota", "forbidden", "unknown_model")
_PAGE = 100


class BatchRequests:
    """Asks a judge's service through a client with `send`; no request lasts longer than `until`, in Unix time."""

    after = "after"

    def __init__(self, judge: Judge, client: Any, until: float = math.inf) -> None:
        self._judge, self._client, self._until = judge, client, until

    async def listed(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """All entries of a list, page by page."""
        after = ""
        while True:
            mark = "&" if "?" in path else "?"
            page = await self.ask(f"{path}{mark}limit={_PAGE}{after}", None, method="GET")
            entries = [entry for entry in page.get("data") or [] if isinstance(entry, dict)]
            for entry in entries:
                yield entry
            if not page.get("has_more") or not entries or after == (after := f"&{self.after}={entries[-1].get('id')}"):
                return

    async def download(self, path: str, to: BinaryIO) -> None:
        """Write the content at a path into a file, in place of what is there."""
        await self.ask(path, None, method="GET", timeout_s=FILE_TIMEOUT_S, to=to)

    async def ask(
        self,
        path: str,
        body: Any,
        *,
        method: str = "POST",
        timeout_s: float | None = None,
        to: BinaryIO | None = None,
        once: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        """Send a request and read its JSON; tried again if that can help and there is time left for it.

        With `once`, not after an error that may mean that it was carried out.
        """
        until = min(self._until, time.time() + FILE_TIMEOUT_S)
        for tried in range(_RETRIES + 1):
            left = until - time.time()
            if to is not None:
                to.seek(0)
                to.truncate()
            try:
                if left <= 0:
                    raise ProviderError("timeout", f"no time was left to send the request to {path}")
                answer = await self._client.send(
                    path,
                    body() if callable(body) else body,
                    timeout_s=min(timeout_s or self._judge.timeout_s, left),
                    method=method,
                    to=to,
                    **options,
                )
                if answer.status == 404:
                    why = (
                        f"{path} not found (HTTP 404)"
                        if path.count("/") > 1
                        else f"HTTP 404 for {path}: the server has no batches"
                    )
                    raise ProviderError("unknown_model", f"{answer.origin}: {why}", status=404)
                if not 200 <= answer.status < 300:
                    raise problem_of(answer, self._judge, {}, key_in(self._judge.api_key_env))
                content = {} if to is not None else json_of(answer.content)
                if isinstance(content, dict):
                    return content
                raise ProviderError("malformed", f"{answer.origin} answered without a JSON object", maybe_paid=True)
            except ProviderError as problem:
                wait, left = wait_of(problem, tried), until - time.time()
                unclear = problem.maybe_paid or (problem.status or 0) >= 500
                if once and unclear:
                    problem.maybe_paid = True
                    raise
                if wait is None or wait.call_s >= left or tried == _RETRIES or problem.kind in _PERMANENT:
                    raise
            await asyncio.sleep(wait.call_s)
        raise AssertionError  # the last attempt returns or raises


def lines_of(file: BinaryIO) -> Iterator[Any]:
    """The JSON values of a file's lines; None for a line that is not JSON."""
    file.seek(0)
    return (json_of(line) for line in file if line.strip())


def id_of(raw: Mapping[str, Any], what: str) -> str:
    """The id in an answer; a `ProviderError` if there is none that fits into a path."""
    if not isinstance(raw.get("id"), str) or not re.fullmatch(r"[\w.:-]{1,200}", raw["id"]):
        raise ProviderError("malformed", f"the answer has no id of a {what}", maybe_paid=True)
    return str(raw["id"])
