"""What every provider offers: a client that asks one model, and the error of a call without a reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from evalkit.core.prompts_and_replies import Reply
from evalkit.engine.request import Request

ProblemKind = Literal[
    "timeout", "connection", "rate_limited", "server_error", "malformed", "refused_parameter", "auth", "quota",
    "forbidden", "unknown_model", "content_filter", "too_long", "client_error",
]  # fmt: skip
"""Kinds of failed calls. All but the last eight are retried."""


@dataclass(eq=False)
class ProviderError(Exception):
    """A call without a reply.

    Attributes
    ----------
    kind
        One of `ProblemKind`.
    detail
        What happened, in words; never contains a key.
    status
        HTTP status, if the server answered.
    retry_after
        Seconds that the server asks to wait.
    parameter, instead
        The parameter that the server refuses (``refused_parameter``), and the name or number to send in its place
        (None: nothing).
    maybe_paid
        Whether the server may have billed the call.
    """

    kind: ProblemKind
    detail: str
    status: int | None = None
    retry_after: float | None = None
    parameter: str | None = None
    instead: str | int | None = None
    maybe_paid: bool = False

    @property
    def is_sent(self) -> bool:
        """Whether the request may have left this machine: without a connection or a key, none does."""
        return self.maybe_paid or self.status is not None or self.kind not in ("connection", "timeout", "auth")

    def __str__(self) -> str:
        return self.detail


class Client(Protocol):
    """Asks one judge's model; used on the loop thread alone."""

    supports_n: bool | None = None
    """Whether one request can return several replies; None: unknown."""

    max_concurrency: int | None = None
    """Maximum number of useful calls in flight; None: no limit."""

    own_concurrency: int | None = None
    """Calls in flight whatever a run's `concurrency` is: those of a model in this process; None: the run's."""

    def stop(self) -> None:
        """End the calls that have not begun; those that are under way finish."""

    async def ask(self, request: Request, n: int, *, adapt: Mapping[str, Any] | None = None) -> list[Reply]:
        """Ask for the request's first `n` samples: 1 to n replies, or a `ProviderError`.

        `adapt` names parameters that the model refuses: parameter -> its other name, another value (a number), or None
        to leave it out.
        """
        ...
