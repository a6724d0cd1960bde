"""The scoring config of a run as it was given, and the check that a run can be repeated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evalkit.errors import ConfigError
from evalkit.errors.secrets import without_keys
from evalkit.runs.contract import ScoringConfig
from evalkit.runs.contract.scoring_config import read_config
from evalkit.runs.run_record import Run


def as_given(config: Any) -> Mapping[str, Any] | None:
    """A scoring config as it was given, with nothing filled in and no keys; in deterministic mode it is not checked."""
    if isinstance(config, ScoringConfig):
        return config.to_dict()
    try:
        _, values = read_config(config, "scoring config")
    except ConfigError:  # in the other modes it was read before
        return None
    if not isinstance(values, Mapping):
        return None
    plain: Mapping[str, Any] = without_keys(json.loads(json.dumps(values, default=str)))
    return plain


def check_same(old: Run, now: Mapping[str, Any], model: Mapping[str, Any]) -> None:
    """ConfigError if a resolution or the model's files differ from those of an earlier run."""
    then = {**old.resolution, "model": old.artifacts.get("model", {})}
    here = {**now, "model": model}
    differs = [name for name in ("plugins", "profiles", "templates", "model") if then.get(name) != here.get(name)]
    if differs:
        raise ConfigError(
            f"run {old.id} cannot be repeated: {', '.join(differs)} changed since that run; start a new run of "
            f"{old.pack} instead"
        )
