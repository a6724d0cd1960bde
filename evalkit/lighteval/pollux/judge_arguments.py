"""Converts the arguments of LightEval's judges to a judge of evalkit and options of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalkit.core.judge_field_checks import host_of, without_nulls
from evalkit.core.judges import Judge
from evalkit.core.providers import BACKENDS, PROVIDERS
from evalkit.core.settings import Options
from evalkit.engine.providers.api_keys import NO_KEY, hold_key
from evalkit.errors import ConfigError, listed
from evalkit.errors.secrets import Secret

_OWN_URL = "https://api.openai.com/v1"
_OWN_HOSTS = ("api.openai.com", "router.huggingface.co")
_IN_PROCESS = [name for name, provider in PROVIDERS.items() if provider.host == "local"]

_OF_JUDGE = ("temperature", "timeout_s", "price", "params")
_OF_RUN = ("retries", "requests_per_minute", "tokens_per_minute", "budget_usd", "max_calls", "offline", "refresh")
_OF_LIGHTEVAL = ("concurrent_requests", "caching", "increase_max_tokens_for_reasoning")
BACKEND_OPTIONS = (*_OF_JUDGE, "max_concurrency", *_OF_RUN, *_OF_LIGHTEVAL)
"""The keys of `backend_options`; the last three are those of LightEval's LiteLLM back end."""


def judge_and_options(
    model: str, backend: str = "openai", url: str | None = None, api_key: Secret | None = None,
    max_tokens: int | None = 512, options: Mapping[str, Any] | None = None, hf_provider: str | None = None,
    response_format: Any = None,
) -> tuple[Judge, Options]:  # fmt: skip
    """The judge and the engine's options, from the arguments of `PolluxLLMJudgeMetric`.

    Raises
    ------
    ConfigError
        When an argument is unknown, contradictory or out of range. It never shows the key.
    """
    options = without_nulls(options or {})
    provider = "openai" if backend == "tgi" or (backend == "vllm" and url) else backend
    is_local = provider in _IN_PROCESS
    if provider in PROVIDERS and PROVIDERS[provider].decides:
        raise ConfigError(f"judge_backend {backend!r}: POLLUX asks for a text, and decision models write none")
    if backend not in BACKENDS:
        allowed = [name for name in BACKENDS if name not in PROVIDERS or not PROVIDERS[name].decides]
        raise ConfigError(f"unknown judge_backend {backend!r}; allowed: {', '.join(allowed)}")
    if backend == "tgi" and not url:
        raise ConfigError("judge_backend 'tgi' needs url, the root of its OpenAI-compatible server")
    if is_local and (url or response_format is not None):
        name = "url" if url else "response_format"
        raise ConfigError(f"judge_backend {backend!r} loads the model itself and takes no {name}")
    if hf_provider is not None and backend != "inference-providers":
        raise ConfigError(f"hf_provider is for judge_backend 'inference-providers', not {backend!r}")
    if unknown := [name for name in options if name not in BACKEND_OPTIONS]:
        raise ConfigError(f"unknown backend_options {listed(unknown)}; allowed: {', '.join(BACKEND_OPTIONS)}")
    if options.get("increase_max_tokens_for_reasoning"):
        raise ConfigError(
            "backend_options: increase_max_tokens_for_reasoning is not supported, because it guesses from the model's "
            "name; set max_tokens to what the judge needs"
        )
    own = {name: options[name] for name in _OF_JUDGE if name in options}
    params = dict(own.pop("params", None) or {})
    params |= {} if hf_provider is None else {"hf_provider": hf_provider}
    params |= {} if response_format is None else {"response_format": _as_format(response_format)}
    key_name = None
    if not is_local and api_key is not None:
        key_name = hold_key(api_key)
    elif not is_local and (not url or host_of(url) in _OWN_HOSTS):
        # with None, Judge would name the variable that usually holds the key of such a service
        key_name = NO_KEY
    own = {"temperature": 0.0, **own, "params": params}  # one reply per answer: the most likely score is best
    base_url = url or (_OWN_URL if provider == "openai" else None)
    judge = Judge(provider, model, base_url=base_url, api_key_env=key_name, max_tokens=max_tokens, **own)
    _check_now(judge)
    return judge, _run_options(options)


def _run_options(options: Mapping[str, Any]) -> Options:
    both = [name for name in ("max_concurrency", "concurrent_requests") if name in options]
    if len(both) > 1:
        raise ConfigError(f"backend_options: {' and '.join(both)} set the same thing; pass only one of them")
    values = {name: options[name] for name in _OF_RUN if name in options}
    if both:
        values["concurrency"] = options[both[0]]
    if not options.get("caching", True):
        values.setdefault("refresh", True)
    try:
        return Options(**values)
    except ConfigError as problem:
        raise ConfigError(f"backend_options: {problem}") from None


def _check_now(judge: Judge) -> None:
    """Check what can be checked without a model, a library or a key, which may be on another machine."""
    if judge.provider == "fake":
        from evalkit.engine.providers import connect

        connect(judge)
    elif judge.params and judge.provider not in _IN_PROCESS:
        from evalkit.engine.providers.judge_checks import check_params

        check_params(judge)


def _as_format(given: Any) -> Any:
    """A response format in the server's form, from a pydantic model or unchanged."""
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, type) and hasattr(given, "model_json_schema"):
        return {"type": "json_schema", "json_schema": {"name": given.__name__, "schema": given.model_json_schema()}}
    raise ConfigError(
        f"response_format must be a pydantic model (its class) or a mapping in the server's form, not {given!r}"
    )
