"""What a run is asked to be: its config as it was given, and whether it is still what it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalkit.errors import ConfigError, RubricError
from evalkit.errors.secrets import without_keys
from evalkit.rubrics.yaml_files import read_yaml
from evalkit.runs.contract import ScoringConfig
from evalkit.runs.run_record import Run

__all__ = ["as_given", "check_same"]


def as_given(config: Any) -> Mapping[str, Any] | None:
    """A scoring config as it was given, with nothing filled in; of deterministic mode too, where it is not checked."""
    if config is None or isinstance(config, ScoringConfig):
        return None if config is None else config.to_dict()
    if isinstance(config, Mapping):
        return _plain(config)
    try:
        text = str(config)
        if text.lstrip().startswith(("{", "[")):
            content = json.loads(text)
        else:
            path = Path(config)
            content = read_yaml(path) if path.suffix in (".yaml", ".yml") else json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RubricError):  # in the other modes it was read before
        return None
    return _plain(content) if isinstance(content, Mapping) else None


def _plain(config: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = without_keys(json.loads(json.dumps(config, default=str)))
    return found


def check_same(old: Run, now: Mapping[str, Any], model: Mapping[str, Any]) -> None:
    """ConfigError unless a resolution and the model's files are what they were for a run."""
    then = {**old.resolution, "model": old.artifacts.get("model", {})}
    here = {**now, "model": model}
    differs = [
        name for name in ("plugins", "profiles", "templates", "model") if _unlike(then.get(name), here.get(name))
    ]
    if differs:
        raise ConfigError(
            f"run {old.id} cannot be repeated: {', '.join(differs)} changed since that run; start a new run of "
            f"{old.pack} instead"
        )


def _unlike(then: Any, now: Any) -> bool:
    return json.dumps(then, sort_keys=True) != json.dumps(now, sort_keys=True)
