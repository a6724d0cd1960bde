"""LightEval's command line and environment variables, built in the same way for every scoring mode."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalkit.errors import ConfigError
from evalkit.errors.secrets import is_key, without_keys
from evalkit.runs.contract.receipts import RECEIPT_VARIABLE, RECEIPTS_FILE
from evalkit.runs.contract.scoring_config import BINDINGS_VARIABLE, CONFIG_VARIABLE, MODE_VARIABLE, TaskBindings

_ENDPOINTS = ("litellm", "tgi", "inference-endpoint", "inference-providers")
BACKENDS = ("accelerate", "vllm", "sglang", "custom", *(f"endpoint-{name}" for name in _ENDPOINTS))
"""The names of LightEval's back ends in runs."""

# -P: a module in the working directory must not hide a library
LIGHTEVAL = (sys.executable, "-P", "-m", "evalkit", "lighteval")
"""The command; LightEval's arguments follow it."""

TASKS_MODULE = "evalkit.lighteval.plugin"
"""The module in which LightEval finds the tasks of evalkit, of installed bundles, or of the bound plugins."""

_BINDINGS_FILE = "bindings.json"
_OURS = {"custom-tasks", "output-dir", "save-details", "no-save-details", "max-samples", "results-path-template"}


def lighteval_words(
    backend: str, model: str, tasks: Sequence[str], output: Path, options: Mapping[str, Any],
    custom_tasks: str | Path | None = None,
) -> list[str]:  # fmt: skip
    """The arguments that follow `LIGHTEVAL` on the command line.

    `model` is a name, ``key=value,…`` or a YAML file; for the back end ``custom`` a Python file, or ``NAME=FILE.py``.
    `options` has `max_samples` (an int or None) and `flags` (name -> value; None for a flag without one).

    Raises
    ------
    ConfigError
        For an unknown back end.

    Examples
    --------
    >>> lighteval_words("accelerate", "gpt2", ["qa|0"], Path("out"), {"max_samples": 5})[:3]
    ['accelerate', 'model_name=gpt2', 'qa|0']
    """
    words = [*_backend(backend), *_model_words(backend, model), ",".join(tasks)]
    words += ["--custom-tasks", str(custom_tasks or TASKS_MODULE), "--output-dir", str(output), "--save-details"]
    if options.get("max_samples") is not None:
        words += ["--max-samples", str(options["max_samples"])]
    for name, value in (options.get("flags") or {}).items():
        words += [f"--{name}"] if value is None else [f"--{name}", str(value)]
    return words


def run_variables(
    mode: str, config: Mapping[str, Any] | None, bindings: TaskBindings | None, output: Path, **own: str
) -> dict[str, str]:
    """The variables of this process, with those of the scoring contract set or removed, and `own` ones added."""
    config = None if mode == "deterministic" else config
    given = {
        MODE_VARIABLE: mode,
        CONFIG_VARIABLE: None if config is None else json.dumps(config, ensure_ascii=False),
        BINDINGS_VARIABLE: bindings.to_environ(output / _BINDINGS_FILE) if bindings else None,
        RECEIPT_VARIABLE: str(output / RECEIPTS_FILE),
        "PYTHONUNBUFFERED": "1",
        **own,
    }
    kept = {name: value for name, value in os.environ.items() if name not in given}
    return kept | {name: value for name, value in given.items() if value is not None}


def _backend(backend: str) -> list[str]:
    if backend not in BACKENDS:
        raise ConfigError(f"unknown back end {backend!r}; allowed: {', '.join(BACKENDS)}")
    return backend.split("-", 1)


def _model_words(backend: str, model: str) -> list[str]:
    if backend == "custom":
        name, file = _custom(model)
        return [name, str(file)]
    if model.endswith((".yaml", ".yml")):
        return [str(Path(model).absolute())]
    return [model if "=" in model else f"model_name={model}"]


def _custom(model: str) -> tuple[str, Path]:
    name, _, file = model.rpartition("=")
    path = Path(file).expanduser().absolute()
    if path.suffix != ".py":
        raise ConfigError(f"back end 'custom' takes --model FILE.py or NAME=FILE.py, got {model!r}")
    return name or path.stem, path


def model_facts(backend: str, model: str) -> dict[str, Any]:
    """The files that define a model, each with the sha256 of its content.

    Raises
    ------
    ConfigError
        When the back end or file does not exist, or the model is blank, contains a key, or is not printable.
    """
    _backend(backend)
    _check_model(model)
    files = [_custom(model)[1]] if backend == "custom" else []
    if model.endswith((".yaml", ".yml")):
        files = [Path(model).absolute()]
    try:
        return {"files": {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}}
    except OSError as problem:
        raise ConfigError(f"model file {problem.filename} cannot be read: {problem.strerror}") from None


def _check_model(model: str) -> None:
    if not model.strip():
        raise ConfigError("no model; set one with --model")
    if not model.isprintable():
        raise ConfigError(f"the model name {model!r} contains non-printable characters; remove them")
    keys = [name for name, is_given, _ in (part.partition("=") for part in model.split(",")) if is_given]
    secret = next((name.strip() for name in keys if is_key(name.strip())), None)
    if secret is not None or without_keys(model) != model:
        raise ConfigError(
            f"--model contains {secret or 'an address with a name or password'}, which the registry would store and "
            "show: set the service's key variable, or use a YAML file, of which only a hash is stored"
        )


def check_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """LightEval's flags without leading dashes; ConfigError for keys and for flags that the run sets itself."""
    plain = {name.lstrip("-").replace("_", "-"): value for name, value in flags.items()}
    if ours := sorted(_OURS & plain.keys()):
        raise ConfigError(
            f"evalkit sets LightEval's flag --{ours[0]} for each run; remove it (for fewer samples, set max_samples of "
            "the run)"
        )
    if secret := next((name for name in plain if is_key(name)), None):
        raise ConfigError(
            f"--{secret} holds a key, which the registry would store and show; set it in an environment variable"
        )
    return plain
