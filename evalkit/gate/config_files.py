"""Reading a gate configuration, in YAML or JSON; errors give file, line and key."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from evalkit.core.files import BOM
from evalkit.core.strict_json import DuplicateKeyError, without_duplicates
from evalkit.core.validation_errors import explain, problems, unknown_key
from evalkit.errors import ConfigError, RubricError
from evalkit.gate.config import GateConfig
from evalkit.rubrics.files import read_yaml

_DUPLICATE = re.compile(r'\(found duplicate key "(.*?)".*\)', re.DOTALL)
_KEYS = [name for name, field in GateConfig.model_fields.items() if not field.exclude]


def load_gate(path: str | Path, *, redact: bool = False) -> GateConfig:
    """Read a configuration: JSON if the name ends in ``.json``, else YAML.

    Parameters
    ----------
    path
        The file.
    redact
        Quote no value of the file in errors.

    Raises
    ------
    ConfigError
        With file, line, key and what is allowed.
    """
    path = Path(path)
    values = _read(path)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected a mapping with tests (optional: settings, suite, baseline, profile)")
    if reserved := [key for key in ("folder", "name") if key in values]:
        line = _line_of(path, reserved)
        raise ConfigError(f"{path}, line {line}: {unknown_key(reserved[0], _KEYS)}")
    try:
        return GateConfig(**values, folder=path.parent, name=path.name)
    except ConfigError as wrong:
        problem: Any = wrong.__cause__
        line = _line_of(path, problems(problem, GateConfig)[0].place)
        raise ConfigError(f"{path}, line {line}: {explain(problem, GateConfig, redact=redact)}") from None
    except TypeError:
        raise ConfigError(f"{path}: keys must be strings (allowed: {', '.join(_KEYS)})") from None


def place_of(config: GateConfig, test: str) -> str:
    """File and line of a test; only a name if the configuration was made in Python."""
    path = config.folder / config.name
    if not config.name or not path.is_file():
        return config.name or "the configuration"
    number = next(at for at, one in enumerate(config.tests) if one.id == test)
    return f"{config.name}, line {_line_of(path, ['tests', number, 'expected'])}"


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".json":
            text = path.read_bytes().removeprefix(BOM)
            values = orjson.loads(text)
            with suppress(DuplicateKeyError):  # JSON is YAML, and that error names the line
                json.loads(text, object_pairs_hook=without_duplicates)
                return values
        return read_yaml(path)
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    except orjson.JSONDecodeError as problem:
        where = f"line {problem.lineno}, column {problem.colno}"
        raise ConfigError(f"{path}: invalid JSON at {where}: {problem.msg}") from None
    except RubricError as problem:
        raise ConfigError(_DUPLICATE.sub(r"(duplicate key '\1'; keep one)", str(problem))) from None


def _line_of(path: Path, where: Sequence[Any]) -> int:
    """The line of a key in the file; if the key is missing, the line of its parent."""
    from ruamel.yaml import YAML

    node: Any = YAML(pure=True).compose(path.read_text(encoding="utf-8"))
    line = 1
    for part in where:
        if node is None or node.id not in ("mapping", "sequence"):
            break
        if node.id == "mapping":
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if found is None and isinstance(part, int):
                continue  # a single value instead of a list of one
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
    return line
