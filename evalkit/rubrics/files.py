"""The files of rubrics, templates and profiles: their folders and versions; YAML and JSON, read and written.

Text is read safely, and written in the order given; a file is never overwritten.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from evalkit.core.strict_json import DuplicateKeyError, without_duplicates
from evalkit.errors import ConfigError, EvalkitError, RubricError

_PACKAGE = Path(__file__).resolve().parents[1]
_MOST_VALUES = 100_000
RESERVED_NAMES = ("templates", "profiles")
"""Folders among the rubrics that hold something else."""

ID = re.compile(r"[a-z0-9][a-z0-9_-]*")
"""What the id of a rubric or the name of a template looks like."""


def rubric_folders() -> list[Path]:
    """The folders where rubrics, templates and profiles are looked up, in order.

    The folders named by ``EVALKIT_RUBRICS``, ``rubrics/`` beside the nearest ``pyproject.toml`` (in the working folder
    if there is none), and those that ship with evalkit.
    """
    named = [Path(part).expanduser() for part in os.environ.get("EVALKIT_RUBRICS", "").split(os.pathsep) if part]
    here = Path.cwd()
    projects = (folder for folder in (here, *here.parents) if (folder / "pyproject.toml").is_file())
    folders = *named, next(projects, here) / "rubrics", shipped_folder("rubrics")
    return list(dict.fromkeys(folder.resolve() for folder in folders))


def save_folder(folder: str | Path | None = None) -> Path:
    """The folder where rubrics are saved: `folder`, else the default that `Rubric.save` describes."""
    return Path(folder).expanduser() if folder else rubric_folders()[0]


def file_versions(name: str, suffix: str = ".yaml", further: Iterable[Path] = ()) -> dict[int, Path]:
    """Number -> file ``NAME/vNUMBER.yaml`` (or ``.yml``) in all folders, rising.

    If two folders have a version, the first one of `further` and then of `rubric_folders` counts.
    """
    versions: dict[int, Path] = {}
    for folder in reversed([*further, *rubric_folders()]):
        files = [*(folder / name).glob("v*.yml")] if suffix == ".yaml" else []
        for path in [*files, *(folder / name).glob(f"v*{suffix}")]:
            number = path.stem.removeprefix("v")
            if number.isascii() and number.isdigit() and not number.startswith("0"):
                versions[int(number)] = path
    return dict(sorted(versions.items()))


def rubric_ids() -> list[str]:
    """The ids of all rubrics that can be loaded by name, sorted."""
    names = {path.name for folder in rubric_folders() for path in folder.glob("*")}
    return sorted(name for name in names if name not in RESERVED_NAMES and ID.fullmatch(name) and file_versions(name))


@cache
def shipped_folder(name: Literal["rubrics", "examples"]) -> Path:
    """A folder of files that ship with evalkit.

    ``rubrics`` holds ``<id>/<version>.yaml``, and templates under ``templates/``; ``examples`` the labelled
    examples. In an installed wheel all are inside the package. In a checkout (an editable
    install) the rubrics are beside the package, so that an edit there counts at once.

    Raises
    ------
    ConfigError
        If the folder is missing: the installation is incomplete.

    Examples
    --------
    >>> shipped_folder("rubrics").name
    'rubrics'
    """
    places = _PACKAGE / "_data" / name, _PACKAGE.parent / name
    for place in places:
        if place.is_dir():
            return place
    raise ConfigError(
        f"folder {' or '.join(map(str, places))}, which ships with evalkit, is missing; install evalkit again"
    )


def read_yaml(path: Path) -> Any:
    """The content of a YAML file, loaded safely; RubricError with file and line if it is invalid."""
    return parse_yaml(path, read_text(path))


def read_text(path: Path) -> str:
    """The text of a file; RubricError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise RubricError(f"{path} cannot be read: {problem.strerror or problem}") from None
    except UnicodeDecodeError as problem:
        raise RubricError(f"{path} is not UTF-8 text (byte {problem.start}); save it as UTF-8") from None


def parse_yaml(path: Path, text: str) -> Any:
    """The content of YAML text; RubricError with file and line if it is invalid."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    text = text.removeprefix("\ufeff")
    try:
        if "&" in text and "*" in text:
            _check_aliases(YAML(typ="safe", pure=True).compose(text))
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError) as problem:
        mark = getattr(problem, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise RubricError(f"{path}{line}: invalid YAML ({getattr(problem, 'problem', problem)})") from None


def _check_aliases(root: Any) -> None:
    """ValueError for aliases (``*name``) that would write a file out to very many values, or without end.

    Half a kilobyte of aliases of aliases, or of merges (``<<``) of merges, would be computed for hours.
    """
    sizes: dict[int, int] = {}  # of the nodes that were written out; 0 while a node is
    waiting = [] if root is None else [(root, False)]
    while waiting:
        node, is_done = waiting.pop()
        value = node.value if isinstance(node.value, list) else []
        inner = [part for one in value for part in (one if isinstance(one, tuple) else (one,))]
        if is_done:
            sizes[id(node)] = 1 + sum(sizes[id(part)] for part in inner)
            if sizes[id(node)] > _MOST_VALUES:
                raise ValueError(f"its aliases (*name) stand for more than {_MOST_VALUES:,} values; write them out")
        elif id(node) not in sizes:
            sizes[id(node)] = 0
            waiting.append((node, True))
            waiting += [(part, False) for part in inner]
        elif sizes[id(node)] == 0 and inner:
            raise ValueError("an alias (*name) stands for a value that contains it")


def parse_json(text: str, where: object, error: type[EvalkitError]) -> Any:
    """The value of JSON text; `error` with `where` if it is invalid, or an object has a key twice."""
    try:
        return json.loads(text.removeprefix("\ufeff"), object_pairs_hook=without_duplicates)
    except DuplicateKeyError as problem:
        raise error(f"{where}: {problem} in one object; remove one") from None
    except json.JSONDecodeError as problem:
        text = f"{where}: invalid JSON at line {problem.lineno}, column {problem.colno} ({problem.msg.lower()})"
        raise error(text) from None


def dump_yaml(values: Mapping[str, Any]) -> str:
    """A mapping as YAML text, in its order, long strings on one line."""
    from ruamel.yaml import YAML

    writer = YAML()
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
