"""Checks of a judge before any call: library, key and parameters."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from evalkit.core.judges import Judge
from evalkit.engine.providers.api_keys import key_in
from evalkit.errors import ConfigError, JudgeError, MissingExtraError, advise_extra, listed

_SET_BY_EVALKIT = ("messages", "model", "n", "stream")


def check_extra(extra: str, *modules: str) -> None:
    """Raise MissingExtraError if a module that an extra brings is not installed; imports nothing."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError(f"judges of the provider '{extra}' need {module}: {advise_extra(extra)}")


def check_key(judge: Judge) -> None:
    """Raise JudgeError if the judge names a variable for its key and that is not set."""
    name = judge.api_key_env
    if name and not key_in(name):
        raise JudgeError(
            f"judge '{judge.name}' needs an API key, but the environment variable {name} is not set; set it, name "
            "another variable as api_key_env of the judge, or work without a key (judge 'fake:strict', or offline)"
        )


def check_params(judge: Judge, taken: Sequence[str] = ()) -> None:
    """Raise ConfigError if `judge.params` names something that evalkit sets itself, or a name in `taken`."""
    found = [name for name in (*_SET_BY_EVALKIT, *taken) if name in judge.params]
    if found:
        raise ConfigError(
            f"params of judge '{judge.name}' must not contain {listed(found)}, which evalkit sets "
            "itself; to get several replies, set samples="
        )
