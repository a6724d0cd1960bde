"""YAML and JSON files: read safely, written in the order given, never overwritten."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

from evalkit.core.strict_json import DuplicateKeyError, without_duplicates
from evalkit.errors import EvalkitError, RubricError


def read_yaml(path: Path) -> Any:
    """The content of a YAML file, loaded safely; RubricError with file and line if it is invalid."""
    return parse_yaml(path, read_text(path))


def read_text(path: Path) -> str:
    """The text of a file; RubricError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as problem:
        raise RubricError(f"{path} cannot be read: {problem.strerror or problem}") from None
    except UnicodeDecodeError as problem:
        raise RubricError(f"{path} is not UTF-8 text (byte {problem.start}); save it as UTF-8") from None


def parse_yaml(path: Path, text: str) -> Any:
    """The content of YAML text; RubricError with file and line if it is invalid."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError) as problem:
        mark = getattr(problem, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise RubricError(f"{path}{line}: invalid YAML ({getattr(problem, 'problem', problem)})") from None


def parse_json(text: str, where: object, error: type[EvalkitError]) -> Any:
    """The value of JSON text; `error` with `where` if it is invalid, or an object has a key twice."""
    try:
        return json.loads(text.removeprefix("\ufeff"), object_pairs_hook=without_duplicates)
    except DuplicateKeyError as problem:
        raise error(f"{where}: {problem} in one object; remove one") from None
    except json.JSONDecodeError as problem:
        raise error(
            f"{where}: invalid JSON at line {problem.lineno}, column {problem.colno} ({problem.msg.lower()})"
        ) from None


def dump_yaml(values: Mapping[str, Any]) -> str:
    """A mapping as YAML text, in its order, long strings on one line."""
    from ruamel.yaml import YAML

    writer = YAML()
    writer.default_flow_style = False
    writer.allow_unicode = True
    writer.width = 4096
    writer.indent(mapping=2, sequence=4, offset=2)
    out = StringIO()
    writer.dump(_quoted(dict(values)), out)
    return out.getvalue()


def _quoted(value: Any) -> Any:
    """The value, with double quotes around texts whose characters YAML would fold as line breaks."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(value, Mapping):
        return {_quoted(key): _quoted(field) for key, field in value.items()}
    if isinstance(value, list):
        return [_quoted(element) for element in value]
    if isinstance(value, str) and any(mark in value for mark in "\x85\u2028\u2029"):
        return DoubleQuotedScalarString(value)
    return value


def write_new(path: Path, text: str) -> None:
    """Write a new file atomically; FileExistsError if it exists."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(text, encoding="utf-8", newline="\n")
        os.link(scratch, path)
    except OSError as problem:
        if isinstance(problem, FileExistsError) and path.exists():
            raise
        raise RubricError(f"{path} cannot be written: {problem.strerror or problem}") from None
    finally:
        with suppress(OSError):  # the error above is the one to report
            scratch.unlink(missing_ok=True)
