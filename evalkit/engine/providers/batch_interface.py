"""What a provider with batches offers: requests in a file, answered within a day, at a lower price."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.providers import PROVIDERS
from evalkit.engine.providers.prices import price_of
from evalkit.engine.request import ProviderError, Request
from evalkit.errors import ConfigError, listed

BatchState = Literal["running", "ended"]

_SHARES = {provider.host: provider.batch_share for provider in PROVIDERS.values() if provider.batches}


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch at a provider.

    Attributes
    ----------
    id
        Its id there.
    state
        ``running`` as long as replies may come (also while it is checked or cancelled), then ``ended``.
    word
        The provider's word for its state.
    n_done
        Requests that were answered, as far as the provider says.
    files
        What its results are read from.
    problem
        Why it failed; contains neither keys nor prompts.
    n_failed
        Requests that failed, as far as the provider says.
    """

    id: str
    state: BatchState
    word: str
    n_done: int = 0
    files: tuple[str, ...] = ()
    problem: str = ""
    n_failed: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """One request of a batch: its JSON line, the number of replies that it asks for, and `Reply.sent` of these."""

    content: bytes
    n: int
    sent: Mapping[str, Any] | None


class BatchService(Protocol):
    """Sends batches to one judge's service. Made and used on the loop thread; a `ProviderError` says what went wrong.

    No request lasts longer than `until` (Unix time), with all its attempts.

    Attributes
    ----------
    max_requests, max_bytes
        Limits of one batch.
    """

    max_requests: int
    max_bytes: int

    def __init__(self, judge: Judge, until: float = ...) -> None: ...

    @staticmethod
    def line(custom_id: str, request: Request, facts: Mapping[str, Any]) -> Line:
        """The line of a request, given what was learnt about the service and model.

        It asks for all samples of the request only if the service is known to return several replies; else for one.
        """

    async def upload(self, name: str, file: Path) -> str:
        """Send the file of requests, under this name; what `create` needs to find it."""

    async def create(self, name: str, custom_id: str, since: float, uploaded: str) -> Batch:
        """Create a batch that carries the name, or find it, as `find` does, after an answer that refuses it.

        After an error with `maybe_paid`, it may exist.
        """

    async def find(self, name: str, custom_id: str, since: float, uploaded: str | None) -> Batch | str | None:
        """The batch that carries the name, among those created since this Unix time; None if the list has none.

        `custom_id` is that of its last request, `uploaded` what `upload` returned, if it did. A text says why it cannot
        be known yet.
        """

    async def get(self, batch: str) -> Batch:
        """The batch with this id."""

    async def cancel(self, batch: str) -> Batch:
        """Cancel it: it will end soon; what is answered by then is billed, and can be read."""

    def results(self, batch: Batch) -> AsyncIterator[tuple[str, list[Reply] | ProviderError]]:
        """The replies to each request, by its custom id and in any order, or why it has none.

        Requests that were not processed are left out. ProviderError at the end if some that were are missing.
        """

    async def remove(self, name: str) -> None:
        """Remove the files that were uploaded under this name."""


def service_of(judge: Judge) -> type[BatchService]:
    """The batch service of a judge's provider; ConfigError if it has none."""
    module = PROVIDERS[judge.provider].batches
    if getattr(judge.given, "calls", False):
        raise ConfigError(
            f"judge '{judge.name}' is asked by its own client {judge.given!r}, which sends no batches: evalkit's own "
            "transport does, for a client without an HTTP client of its own (set HTTPS_PROXY or SSL_CERT_FILE for "
            "proxy or certificates); judge it live"
        )
    if module is None:
        names = [name for name, provider in PROVIDERS.items() if provider.batches]
        raise ConfigError(
            f"judge '{judge.name}': evalkit sends no batches to the provider {judge.provider!r}, only to "
            f"{listed(names)}; judge it live, or write the requests to a file (to=…) for a program such as "
            "`vllm run-batch`"
        )
    return import_module(f"evalkit.engine.providers.{module}").Service  # type: ignore[no-any-return]


def has_batches(judge: Judge) -> bool:
    """Whether evalkit sends batches to the judge's provider."""
    return PROVIDERS[judge.provider].batches is not None and not getattr(judge.given, "calls", False)


def batch_share(judge: Judge) -> float:
    """The price in a batch as a share of that of a live call; 1 where it is not known."""
    return _SHARES.get(judge.service, 1.0)


def batch_price_of(judge: Judge) -> tuple[float, float] | None:
    """As `price_of`, in a batch.

    Examples
    --------
    >>> batch_price_of(Judge("openai", "gpt-4o-mini", price=(0.15, 0.6)))
    (0.075, 0.3)
    """
    price, share = price_of(judge), batch_share(judge)
    return None if price is None else (price[0] * share, price[1] * share)
