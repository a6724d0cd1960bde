"""Checks of a judge before any call: library, key and parameters."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from evalkit.core.judge_settings import set_by
from evalkit.core.judges import Judge
from evalkit.core.providers import PROVIDERS
from evalkit.engine.providers.api_keys import headers_of, key_of
from evalkit.errors import ConfigError, JudgeError, MissingExtraError, advise_extra, listed

_SET_BY_EVALKIT = ("messages", "model", "n", "stream")
_OF_LIBRARIES = ("extra_headers", "extra_query", "extra_body")


def check_packages(provider: str) -> None:
    """Raise MissingExtraError if a package of a provider's extra is not installed; imports nothing."""
    for package in PROVIDERS[provider].packages:
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(f"judges of the provider '{provider}' need {package}: {advise_extra(provider)}")


def check_key(judge: Judge) -> None:
    """Raise JudgeError if the judge names a variable for its key or headers and that is not set."""
    check_headers(judge)
    name = judge.api_key_env
    if judge.given is not None and (judge.given.calls or judge.given.fetch_key is not None):
        return
    if name and not key_of(judge):
        source = set_by("api_key_env", name)
        raise JudgeError(
            f"judge '{judge.name}' needs an API key, but the environment variable {name}{source} is not set",
            judge=judge.name,
            variable=name,
            advice="set it, name another variable as api_key_env of the judge, or work without a key "
            "(judge 'fake:strict', or offline)",
        )


def check_headers(judge: Judge) -> None:
    """Raise JudgeError if the judge names a variable for its headers and that contains none."""
    headers = headers_of(judge)
    if judge.headers_env and not (headers and all(value.is_sendable for value in headers.values())):
        raise JudgeError(
            f"judge '{judge.name}' takes headers from the environment variable {judge.headers_env}, which is not set "
            "or contains none",
            judge=judge.name,
            advice="expected one header per line, as in 'X-Team: judges', in printable ASCII",
        )


def check_params(judge: Judge, taken: Sequence[str] = ()) -> None:
    """Raise ConfigError if `judge.params` names something that evalkit sets itself, or a name in `taken`.

    ``n`` may be 1: then evalkit requests one sample at a time.
    """
    libraries = [name for name in _OF_LIBRARIES if name in judge.params]
    if libraries:
        raise ConfigError(
            f"params of judge '{judge.name}' must not contain {listed(libraries)}, an option of client libraries; put "
            "parameters of the body into params themselves, a query into base_url, and headers, one per line, into an "
            "environment variable, whose name you pass as headers_env"
        )
    forbidden = [name for name in (*_SET_BY_EVALKIT, *taken) if name in judge.params]
    if judge.params.get("n") == 1:
        forbidden.remove("n")
    if forbidden:
        raise ConfigError(
            f"params of judge '{judge.name}' must not contain {listed(forbidden)}, which evalkit sets "
            "itself; to get several replies, set samples="
        )
