"""Who answers: one client per provider, each importing its library on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from evalkit.core.judges import Judge
from evalkit.core.records import Reply, Request
from evalkit.engine.providers.api_keys import key_in
from evalkit.errors import JudgeError

__all__ = ["Client", "ProblemKind", "ProviderError", "check_ready", "connect"]

ProblemKind = Literal[
    "timeout",
    "connection",
    "rate_limited",
    "server_error",
    "malformed",
    "refused_parameter",
    "auth",
    "unknown_model",
    "client_error",
]
"""What went wrong with a call. All but the last four may pass: they are tried again."""


class ProviderError(Exception):
    """A call that brought no reply.

    Attributes
    ----------
    kind
        One of `ProblemKind`.
    detail
        What happened, in words; never holds a key.
    status
        HTTP status, if the server answered.
    retry_after
        Seconds that the server asks to wait.
    parameter
        The parameter that the server refuses (``refused_parameter``).
    maybe_paid
        Whether the server may have done the work, and bill it, all the same.
    """

    def __init__(
        self,
        kind: ProblemKind,
        detail: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        parameter: str | None = None,
        maybe_paid: bool = False,
    ) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.status = kind, detail, status
        self.retry_after, self.parameter, self.maybe_paid = retry_after, parameter, maybe_paid


class Client(Protocol):
    """Asks one judge's model; made by `connect`, used on the loop thread alone."""

    supports_n: bool | None
    """Whether one request may ask for several replies; None: not known."""

    max_concurrency: int | None
    """Most calls at a time that make sense; None: no limit of its own."""

    async def ask(self, request: Request, n: int, *, adapt: Mapping[str, Any] | None = None) -> list[Reply]:
        """Ask for the request's first `n` samples: 1 to n replies, or a `ProviderError`.

        `adapt` names parameters that the model refuses: parameter -> its other name, or None to drop it.
        """
        ...


def connect(judge: Judge) -> Client:
    """The client of a judge's provider.

    Raises
    ------
    ConfigError
        For an unknown persona of ``fake``, or parameters that a model in this process does not take.
    MissingExtraError
        When the library that it takes is not installed.
    """
    if judge.provider == "fake":
        from evalkit.engine.providers.fake import FakeClient

        return FakeClient(judge)
    if judge.provider == "openai":
        from evalkit.engine.providers.openai import connect_openai

        return connect_openai(judge)
    if judge.provider == "transformers":
        from evalkit.engine.providers.transformers import connect_transformers

        return connect_transformers(judge)
    if judge.provider == "vllm":
        from evalkit.engine.providers.vllm import connect_vllm

        return connect_vllm(judge)
    if judge.provider == "litellm":
        from evalkit.engine.providers.litellm import connect_litellm

        return connect_litellm(judge)
    from evalkit.engine.providers.inference_providers import connect_inference_providers

    return connect_inference_providers(judge)


def check_ready(judge: Judge) -> None:
    """Check, before anything is sent, that a judge can be asked: its provider is there and its key is set.

    Raises
    ------
    JudgeError
        When the variable that holds the key is not set.
    ConfigError
        As `connect`.
    """
    if judge.provider == "litellm":
        from evalkit.engine.providers.litellm import check_litellm

        check_litellm(judge)
        return
    if judge.provider == "inference-providers":
        from evalkit.engine.providers.inference_providers import check_inference_providers

        check_inference_providers(judge)
        return
    if judge.provider != "openai":
        connect(judge)
        return
    name = judge.api_key_env
    if name and not key_in(name):
        raise JudgeError(
            f"judge '{judge.name}' needs a key and the environment variable {name} is not set; set it, name "
            "another with Judge(api_key_env=…), or work without one: the judge 'fake:strict', or offline=True"
        )
    from evalkit.engine.providers.openai import check_params  # loaded here, in the caller's thread: it takes a second

    check_params(judge)
