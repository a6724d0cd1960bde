"""What providers are asked and offer: requests for samples of one prompt, clients, and calls without a reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Prompt, Reply
from evalkit.core.reply_keys import KeyParts, has_seed

BYTES_PER_TOKEN = 4
TOKENS_PER_CRITERION = 120
"""Expected length of a reply on one criterion, with an explanation."""
ReadReply = Callable[[bytes, Reply], str | None]


@dataclass(slots=True, eq=False)
class Request:
    """Samples of one prompt to request from one judge.

    Attributes
    ----------
    judge
        The judge.
    source
        The prompt, or a function that renders it. It is called shortly before the request is sent, so that the first
        calls need not wait for the last prompt.
    parts
        The key parts of the prompt.
    samples
        Numbers of the samples that are missing.
    keys
        Their reply keys.
    read
        A function from a key and its reply to the reason why the reply has no score, or None; for the first replies of
        a judge.
    """

    judge: Judge
    source: Prompt | Callable[[], Prompt]
    parts: KeyParts
    samples: tuple[int, ...]
    keys: tuple[bytes, ...]
    read: ReadReply | None = None

    @property
    def prompt(self) -> Prompt:
        """The prompt, rendered on first use."""
        if not isinstance(self.source, Prompt):
            self.source = self.source()
        return self.source


def shares_bill(judge: Judge, facts: Mapping[str, Any]) -> bool:
    """Whether all samples of a prompt are one request, billed for the prompt once; `facts` are those of the service."""
    return not asks_singly(judge) and facts.get("n_supported") is True


def asks_singly(judge: Judge) -> bool:
    """Whether each sample needs a request of its own: each has its own seed, or the judge sets ``n`` to 1."""
    return judge.params.get("n") == 1 or has_seed(judge.provider, judge.params)


def parameters_of_user(judge: Judge) -> list[str]:
    """Parameters that the user set in `params`: they are never left out. Those of `score` are evalkit's."""
    return [name for name in judge.params if not (judge.score and name in ("logprobs", "top_logprobs"))]


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
