"""Hugging Face's inference providers, by the router's OpenAI-compatible API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalkit.core.judges import Judge
from evalkit.core.providers import PROVIDERS
from evalkit.engine.providers.chat_client import client_of_loop
from evalkit.engine.providers.openai import OpenAIClient, check, with_version
from evalkit.engine.request import Request

__all__ = ["check", "connect"]


def connect(judge: Judge) -> InferenceProvidersClient:
    """The client for the router, or for a server with its API; one of them per event loop."""
    base_url = judge.base_url or PROVIDERS["inference-providers"].address
    return client_of_loop(InferenceProvidersClient, judge, with_version(base_url))


class InferenceProvidersClient(OpenAIClient):
    """The router: it reads the company that is to answer from the model's name."""

    def body(self, request: Request, n: int, adapt: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """The body of a chat completion, with the company behind the model's name."""
        body, sent = super().body(request, n, adapt)
        company = body.pop("hf_provider", None)
        if company and company != "auto" and not request.judge.base_url:
            body["model"] += f":{company}"
        return body, sent
