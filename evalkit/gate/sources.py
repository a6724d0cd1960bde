"""The text of a configuration: YAML or JSON to plain values, and the line in which a key stands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from evalkit.errors import ConfigError, RubricError
from evalkit.gate.traces import find_double
from evalkit.rubrics.files import read_yaml

__all__ = ["line_of", "read_source"]

_DOUBLED = re.compile(r'\(found duplicate key "(.*?)".*\)', re.DOTALL)


def read_source(path: Path) -> Any:
    """The values of a configuration file; a key that stands twice in one mapping is refused.

    Raises
    ------
    ConfigError
        Naming file and line.
    """
    try:
        if path.suffix != ".json":
            return read_yaml(path)
        text = path.read_bytes()
        values = orjson.loads(text)
        return values if find_double(text) is None else read_yaml(path)  # JSON is YAML, and that names the line
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    except orjson.JSONDecodeError as problem:
        raise ConfigError(f"{path}, line {problem.lineno}: this is no valid JSON ({problem.msg})") from None
    except RecursionError:
        raise ConfigError(f"{path}: this JSON is nested too deeply") from None
    except RubricError as problem:
        said = _DOUBLED.sub(r"(the key '\1' stands twice in one mapping; keep one)", str(problem))
        raise ConfigError(said) from None


def line_of(path: Path, where: Sequence[Any]) -> int:
    """The line of a key, found again in the file; that of what holds it where the key is not there."""
    from ruamel.yaml import YAML

    node: Any = YAML(pure=True).compose(path.read_text(encoding="utf-8"))
    line = 1
    for part in where:
        if node is None or node.id not in ("mapping", "sequence"):
            break
        if node.id == "mapping":
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
    return line
