"""From the arguments that LightEval's judges take to a judge of evalkit and the engine's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evalkit.core.choices import BACKENDS
from evalkit.core.judges import Judge, host_of
from evalkit.engine import Options
from evalkit.engine.providers.api_keys import NO_KEY, hold_key
from evalkit.errors import ConfigError, listed
from evalkit.errors.secrets import Secret

_OWN_URL = "https://api.openai.com/v1"
_OWN_HOSTS = ("api.openai.com", "router.huggingface.co")
_IN_PROCESS = ("transformers", "vllm", "fake")

_OF_JUDGE = ("temperature", "timeout_s", "price", "params")
_OF_RUN = ("retries", "requests_per_minute", "tokens_per_minute", "budget_usd", "max_calls", "offline", "refresh")
_OF_LIGHTEVAL = ("concurrent_requests", "caching", "increase_max_tokens_for_reasoning")
BACKEND_OPTIONS = (*_OF_JUDGE, "max_concurrency", *_OF_RUN, *_OF_LIGHTEVAL)
"""What `backend_options` may hold; the last three are those of LightEval's LiteLLM back end."""


@dataclass(frozen=True, slots=True)
class PolluxJudge:
    """The arguments of a metric that say who judges; see `PolluxLLMJudgeMetric` for what each means."""

    model: str
    backend: str = "openai"
    url: str | None = None
    api_key: Secret | None = field(default=None, repr=False)
    max_tokens: int | None = 512
    options: Mapping[str, Any] = field(default_factory=dict)
    hf_provider: str | None = None
    response_format: Any = None

    @property
    def provider(self) -> str:
        """The provider that the back end is."""
        if self.backend == "tgi" or (self.backend == "vllm" and self.url):
            return "openai"
        return self.backend

    def resolve(self) -> tuple[Judge, Options]:
        """The judge, and how the engine goes about it.

        Raises
        ------
        ConfigError
            When an argument is unknown, contradictory or out of range. It never shows the key.
        """
        self._check()
        given = {name: self.options[name] for name in _OF_JUDGE if name in self.options}
        params = {**(given.pop("params", None) or {}), **self._further()}
        judge = Judge(
            self.provider,
            self.model,
            base_url=self.url or (_OWN_URL if self.provider == "openai" else None),
            api_key_env=self._key_name(),
            max_tokens=self.max_tokens,
            # one reply an answer: nothing is averaged, so the judge's likeliest score is what is wanted
            **{"temperature": 0.0, "params": params, **given},
        )
        _check_now(judge)
        return judge, self._run_options()

    def _check(self) -> None:
        if self.backend not in BACKENDS:
            raise ConfigError(f"unknown judge_backend {self.backend!r}; allowed are {', '.join(BACKENDS)}")
        if self.backend == "tgi" and not self.url:
            raise ConfigError("judge_backend 'tgi' needs url, the root of its OpenAI-compatible server")
        if self.url and self.provider in _IN_PROCESS:
            raise ConfigError(f"judge_backend {self.backend!r} computes in this process and takes no url")
        if self.hf_provider is not None and self.backend != "inference-providers":
            raise ConfigError(f"hf_provider is for judge_backend 'inference-providers', not {self.backend!r}")
        if self.response_format is not None and self.provider in _IN_PROCESS:
            raise ConfigError(f"judge_backend {self.backend!r} computes in this process and takes no response_format")
        unknown = [name for name in self.options if name not in BACKEND_OPTIONS]
        if unknown:
            raise ConfigError(f"unknown backend_options {listed(unknown)}; allowed are {', '.join(BACKEND_OPTIONS)}")
        if self.options.get("increase_max_tokens_for_reasoning"):
            raise ConfigError(
                "backend_options: increase_max_tokens_for_reasoning guesses by the model's name and is not done; "
                "set max_tokens to what the judge needs"
            )

    def _key_name(self) -> str | None:
        """Under which name the engine finds the key; no variable of the environment is ever named."""
        if self.provider in _IN_PROCESS:
            return None
        if self.api_key is not None:
            return hold_key(self.api_key)
        # with None, Judge would name the variable that usually holds the key of such a service
        return None if self.url and host_of(self.url) not in _OWN_HOSTS else NO_KEY

    def _further(self) -> dict[str, Any]:
        further = {} if self.hf_provider is None else {"hf_provider": self.hf_provider}
        if self.response_format is None:
            return further
        return further | {"response_format": _as_format(self.response_format)}

    def _run_options(self) -> Options:
        options = self.options
        both = [name for name in ("max_concurrency", "concurrent_requests") if name in options]
        if len(both) > 1:
            raise ConfigError(f"backend_options: {' and '.join(both)} mean the same; give one of them")
        given = {name: options[name] for name in _OF_RUN if name in options}
        if both:
            given["concurrency"] = options[both[0]]
        for name in ("concurrency", "retries"):
            if name in given and (isinstance(given[name], bool) or not isinstance(given[name], int)):
                raise ConfigError(f"backend_options: {name} must be a whole number, not {given[name]!r}")
        if not options.get("caching", True):
            given.setdefault("refresh", True)
        return Options(**given)


def _check_now(judge: Judge) -> None:
    """Refuse what can be refused without a model, a library or a key: those may be on another machine."""
    if judge.provider == "fake":
        from evalkit.engine.providers import connect

        connect(judge)
    elif judge.params and judge.provider not in _IN_PROCESS:
        from evalkit.engine.providers.judge_checks import check_params

        check_params(judge)


def _as_format(given: Any) -> Any:
    """A response format as servers take it, from a pydantic model or as it is."""
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, type) and hasattr(given, "model_json_schema"):
        schema = {"name": given.__name__, "schema": given.model_json_schema()}
        return {"type": "json_schema", "json_schema": schema}
    raise ConfigError(
        f"response_format must be a pydantic model (its class) or a mapping as the server takes it, not {given!r}"
    )
