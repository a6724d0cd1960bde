"""The files of requests of a ticket, cut at the limits of the provider, and what the ticket keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from evalkit.core.judges import Judge
from evalkit.core.reply_keys import SampleKeys, canonical_json
from evalkit.engine.batches.ticket import BatchRecord, State
from evalkit.engine.cache import ReplyStore
from evalkit.engine.calls.budget import expected_price, upper_bound
from evalkit.engine.providers.batch_interface import BatchService, batch_price_of, batch_share
from evalkit.engine.providers.prices import price_of
from evalkit.engine.request import Request

_JUDGE = (
    "provider", "model", "name", "service", "base_url", "api_key_env", "headers_env", "timeout_s", "price", "score",
    "temperature", "max_tokens",
)  # fmt: skip
FILE_LIMITS = (10_000_000, 1 << 40)
"""Requests and bytes of a file that is not sent to a provider."""


@dataclass(slots=True)
class BatchFile:
    """One file of requests, for one judge.

    Attributes
    ----------
    judge, path
        The judge, and where the file is. It is written as `part`, so that there is never half of it.
    requests
        For each line: number of the shared key parts, input hash, order, samples.
    n_replies, n_bytes
        Replies that it asks for, and size of the file.
    usd, usd_at_most
        Expected and highest price; None if the price is unknown.
    """

    judge: Judge
    path: Path
    requests: list[list[Any]] = field(default_factory=list)
    n_replies: int = 0
    n_bytes: int = 0
    usd: float | None = 0.0
    usd_at_most: float | None = 0.0

    @property
    def part(self) -> Path:
        """The file until it is complete."""
        return self.path.with_name(f".{self.path.name}.part")

    def record(self, state: State) -> BatchRecord:
        """What a ticket keeps of it."""
        judge = {name: getattr(self.judge, name) for name in _JUDGE} | {"params": dict(self.judge.params)}
        return BatchRecord(judge, len(self.requests), self.n_replies, str(self.path), self.usd, self.usd_at_most, state)


class FileWriter:
    """Writes requests into files, of which each is for one judge and within the limits of its service.

    Attributes
    ----------
    files
        The files so far.
    calls
        What their replies need to be stored: shared key parts (JSON) and `Reply.sent`, by number.
    left_out
        Requests that did not fit into the budget.
    keys
        The reply keys that the files ask for.
    usd_at_most
        The highest price of all files, as far as it is known.
    """

    def __init__(self, ticket: str, store: ReplyStore, budget_usd: float | None) -> None:
        self.files: list[BatchFile] = []
        self.calls: list[list[Any]] = []
        self.left_out: list[Request] = []
        self.keys: set[bytes] = set()
        self._ticket, self._store, self._budget_usd = ticket, store, budget_usd
        self._numbers: dict[bytes, int] = {}
        self.usd_at_most = 0.0

    @property
    def manifest(self) -> dict[str, Any]:
        """What the ticket asks for."""
        return {"calls": self.calls, "requests": [file.requests for file in self.files]}

    def write(
        self, requests: Sequence[Request], service: type[BatchService], paths: Iterator[Path],
        limits: tuple[int, int], alive: Callable[[], None],
    ) -> None:  # fmt: skip
        """Write the requests to one judge into one or several files; each takes the next path.

        `alive` is called now and then.
        """
        judge = requests[0].judge
        facts, price, file_number = self._store.facts(judge.service, judge.model), batch_price_of(judge), 0
        live_price = price_of(judge)
        expected_usd = None
        if live_price is not None:
            expected_usd = expected_price(requests, self._store, live_price, one_bill=True)[0]
        file: BatchFile | None = None
        stream: BinaryIO | None = None
        try:
            for number, request in enumerate(_apart(requests, service, facts)):
                if number % 500 == 0:
                    alive()
                usd_at_most = None if price is None else upper_bound(request, len(request.samples), price)
                if self._budget_usd is not None and self.usd_at_most + (usd_at_most or 0.0) > self._budget_usd:
                    self.left_out.append(request)
                    continue
                self.usd_at_most += usd_at_most or 0.0
                if file is not None:
                    line = service.line(f"{self._ticket}-{file_number}_{len(file.requests)}", request, facts)
                if file is None or len(file.requests) >= limits[0] or file.n_bytes + len(line.content) > limits[1]:
                    if stream is not None:
                        stream.close()
                    file_number, file = len(self.files), BatchFile(judge, next(paths))
                    self.files.append(file)
                    stream = file.part.open("wb")
                    line = service.line(f"{self._ticket}-{file_number}_0", request, facts)
                assert stream is not None
                stream.write(line.content)
                file.n_bytes += len(line.content)
                file.n_replies += len(request.samples)
                self.keys.update(request.keys)
                parts = request.parts
                call = self._call(request, line.sent)
                file.requests.append([call, parts.input_hash, parts.order, request.samples])
                if usd_at_most is None or expected_usd is None or file.usd is None:
                    file.usd = file.usd_at_most = None
                else:
                    file.usd += expected_usd(request) * batch_share(judge)
                    file.usd_at_most = None if judge.max_tokens is None else (file.usd_at_most or 0.0) + usd_at_most
        finally:
            if stream is not None:
                stream.close()

    def _call(self, request: Request, sent: Any) -> int:
        shared = request.parts.shared_json()
        if (mark := shared + canonical_json(sent)) not in self._numbers:
            self._numbers[mark] = len(self.calls)
            self.calls.append([shared.decode(), sent])
        return self._numbers[mark]


def keys_in(manifest: Mapping[str, Any], at: int) -> list[bytes]:
    """The reply keys that the file with this number asks for."""
    calls, requests, makers = manifest.get("calls", []), manifest.get("requests", []), dict[int, SampleKeys]()
    keys: list[bytes] = []
    for number, input_hash, order, samples, *_ in requests[at] if at < len(requests) else ():
        if number not in makers:
            makers[number] = SampleKeys(orjson.loads(calls[number][0]))
        keys += makers[number](input_hash, order, samples)
    return keys


def _apart(requests: Sequence[Request], service: type[BatchService], facts: Any) -> Iterator[Request]:
    """The requests, rendered one after the other; where one line brings one reply, one per sample."""
    for request in requests:
        once = replace(request)  # a request keeps its prompt: thousands of them would fill the memory
        if len(once.samples) == 1 or service.line("", once, facts).n > 1:
            yield once
            continue
        for sample, key in zip(once.samples, once.keys, strict=True):
            yield replace(once, samples=(sample,), keys=(key,))
