"""What batch services share: requests that are tried again, lists page by page, files of results."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from typing import Any, BinaryIO, TypeVar

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply
from evalkit.engine.providers.api_keys import key_of
from evalkit.engine.providers.batch_interface import Batch
from evalkit.engine.providers.openai_replies import json_of, problem_of
from evalkit.engine.providers.waits import wait_of
from evalkit.engine.request import ProviderError
from evalkit.errors.secrets import Secret

FILE_TIMEOUT_S = 900.0
"""The longest time of one request, with all attempts and the waits between them."""
CLOCKS_DIFFER_S = 3600.0
"""A batch may seem to be created so long before its ticket."""
READS = 3
"""How often a file of results is read that is not whole."""
_RETRIES, _MALFORMED_RETRIES = 5, 2
_REFUSALS = (400, 401, 402, 403, 404, 405, 413, 415, 422, 429)
"""Statuses that say that a batch was not created; after any other answer it may exist."""
_PAGE, _MOST_PAGES = 100, 100
_LONGEST_WORD = 300
_LATEST_S = 1e11  # a larger time is in milliseconds
UNREADABLE = "evalkit_cannot_read_it"
_ID = re.compile(rb'"custom_id"\s*:\s*"([^"\\]{1,200})"')


class BatchRequests:
    """Asks a judge's service through a client with `send`; no request lasts longer than `until`, in Unix time."""

    after = "after"

    def __init__(self, judge: Judge, client: Any, until: float = math.inf) -> None:
        self._judge, self._client, self._until = judge, client, until

    async def listed(self, path: str, since: float = -math.inf) -> AsyncIterator[dict[str, Any]]:
        """All entries of a list, page by page; those that were created before this time may be missing.

        A `ProviderError` for a list that cannot be read to its end: what it has not shown may exist.
        """
        after, ids, newest_first, last = "", set[str](), True, math.inf
        for _ in range(_MOST_PAGES):
            mark = "&" if "?" in path else "?"
            page = await self.ask(f"{path}{mark}limit={_PAGE}{after}", None, method="GET")
            listed, more = page.get("data"), page.get("has_more")
            if not isinstance(listed, list):
                raise ProviderError("malformed", f"the answer of {path} has no list (data)")
            entries = [entry for entry in listed if isinstance(entry, dict)]
            new = [entry for entry in entries if str(entry.get("id")) not in ids]
            for entry in new:
                yield entry
            if not entries or not (len(entries) >= _PAGE if more is None else more):
                return
            if not new:
                raise ProviderError("malformed", f"the list of {path} does not go on after its first {len(ids)}")
            ids |= {str(entry.get("id")) for entry in new}
            times = [last, *(time for entry in new if (time := created_at(entry)) is not None)]
            newest_first, last = newest_first and all(a >= b for a, b in pairwise(times)), times[-1]
            # some lists begin with an old entry, or are not sorted: one old entry does not say that newer ones are over
            if newest_first and len(ids) >= _PAGE and last < since - CLOCKS_DIFFER_S:
                return
            after = f"&{self.after}={entries[-1].get('id')}"
        raise ProviderError("malformed", f"the list of {path} has no end: {len(ids)} entries were read")

    async def created(
        self, create: Callable[[], Awaitable[Batch]], find: Callable[[], Awaitable[Batch | str | None]]
    ) -> Batch:
        """Create a batch with `create`, which sends one request.

        A proxy may refuse what the provider has carried out: so after a refusal, `find` looks for the batch before it
        is sent again, or given up.
        """
        for tried in range(_RETRIES + 1):
            try:
                return await create()
            except ProviderError as problem:
                if problem.maybe_paid or problem.status is None:
                    raise
                wait = wait_of(problem, tried) if problem.kind == "rate_limited" and tried < _RETRIES else None
                again = wait is not None and time.time() + wait.call_s < self._until
                if wait is not None and again:
                    await asyncio.sleep(wait.call_s)
                answer: Batch | str | None = None
                with suppress(ProviderError):
                    answer = await find()
                if isinstance(answer, Batch):
                    return answer
                problem.maybe_paid = answer is not None and problem.kind == "rate_limited"
                if not again or problem.maybe_paid:
                    raise
        raise AssertionError  # the last attempt returns or raises

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

        With `once`, not after an answer; the error says whether it may have been carried out.
        """
        until = min(self._until, time.time() + FILE_TIMEOUT_S)
        for tried in range(_RETRIES + 1):
            remaining_s = until - time.time()
            if to is not None:
                to.seek(0)
                to.truncate()
            try:
                if remaining_s <= 0:
                    raise ProviderError("timeout", f"no time was left to send the request to {path}")
                answer = await self._client.send(
                    path,
                    body() if callable(body) else body,
                    timeout_s=min(timeout_s or self._judge.timeout_s, remaining_s),
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
                    raise problem_of(answer, self._judge, {}, key_of(self._judge))
                content = {} if to is not None else json_of(answer.content)
                if isinstance(content, dict):
                    return content
                raise ProviderError("malformed", f"{answer.origin} answered without a JSON object", maybe_paid=True)
            except ProviderError as problem:
                wait, remaining_s = wait_of(problem, tried), until - time.time()
                if once and (problem.maybe_paid or problem.status is not None):
                    problem.maybe_paid |= problem.status not in _REFUSALS
                    raise
                last = tried >= (_MALFORMED_RETRIES if problem.kind == "malformed" else _RETRIES)
                if wait is None or wait.call_s >= remaining_s or last:
                    raise
            await asyncio.sleep(wait.call_s)
        raise AssertionError  # the last attempt returns or raises


def lines_of(file: BinaryIO, *secrets: Secret) -> Iterator[Any]:
    """The JSON values of a file's lines, without keys; None for a line that was cut, or is not JSON.

    Of a whole line that cannot be read, such as one that is nested too deeply, its custom id and `UNREADABLE`.
    """
    file.seek(0)
    for line in file:
        for secret in secrets:
            line = secret.hide_in_bytes(line)
        if not line.strip():
            continue
        value = json_of(line)
        if value is None and line.endswith((b"}\n", b"}\r\n")) and (match := _ID.search(line)):
            value = {"custom_id": match[1].decode("utf-8", "replace"), UNREADABLE: True}
        if isinstance(value, list):  # the lines as one JSON list
            yield from value
        else:
            yield value


_Read = TypeVar("_Read", bound="list[Reply] | ProviderError | None")


def read_alone(read: Callable[[], _Read]) -> _Read | ProviderError:
    """What `read` makes of one answer: one that cannot be read, in whatever way, costs this request alone."""
    try:
        return read()
    except ProviderError as problem:
        return problem
    except Exception as error:  # noqa: BLE001  # the others were paid for
        return ProviderError("malformed", f"the answer could not be read ({type(error).__name__})")


def plain(value: Any) -> str:
    """A short text that can be stored, of what a server says in place of a word."""
    return str(value)[:_LONGEST_WORD].encode("utf-8", "replace").decode()


def created_at(raw: Mapping[str, Any]) -> float | None:
    """When an entry of a list was created, in Unix time, from a number or a date; None if it does not say.

    Examples
    --------
    >>> created_at({"created_at": 1700000000}), created_at({"created_at": 1700000000000})
    (1700000000.0, 1700000000.0)
    >>> created_at({"created_at": "2023-11-14T22:13:20Z"}), created_at({"created_at": None})
    (1700000000.0, None)
    """
    value = raw.get("created_at")
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        try:
            date = datetime.fromisoformat(str(value))
            return (date if date.tzinfo else date.astimezone()).timestamp()
        except (ValueError, OverflowError, OSError):
            return None
    if not math.isfinite(seconds) or seconds <= 0:
        return None
    return seconds / 1000 if seconds > _LATEST_S else seconds


def id_of(raw: Mapping[str, Any], what: str) -> str:
    """The id in an answer; a `ProviderError` if there is none that fits into a path."""
    if not isinstance(raw.get("id"), str) or not re.fullmatch(r"[\w.:-]{1,200}", raw["id"]):
        raise ProviderError("malformed", f"the answer has no id of a {what}", maybe_paid=True)
    return str(raw["id"])
