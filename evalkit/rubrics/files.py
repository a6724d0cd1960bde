"""Rubrics on disk: one YAML file a version, never changed once it is there."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.core.resources import rubrics_folder
from evalkit.errors import RubricError, guess, listed
from evalkit.rubrics.rubrics import NO_RUBRICS, Rubric

__all__ = [
    "dump_yaml",
    "list_rubrics",
    "load_rubric",
    "read_yaml",
    "rubric_folders",
    "save",
    "save_folder",
    "versions_of",
    "write_new",
]

_FILE = re.compile(r"v([1-9][0-9]*)\.yaml")
_NAME = re.compile(r"([a-z0-9][a-z0-9_-]*)(?:@(v[1-9][0-9]*))?")


def rubric_folders() -> list[Path]:
    """Where rubrics, templates and profiles are looked up, in order.

    The folders named by ``EVALKIT_RUBRICS``, ``rubrics/`` beside the nearest ``pyproject.toml`` (in the
    working folder where there is none), and those that ship with evalkit.
    """
    folders = [Path(part).expanduser() for part in os.environ.get("EVALKIT_RUBRICS", "").split(os.pathsep) if part]
    own = _own_folder()
    if own.is_dir():
        folders.append(own)
    folders.append(rubrics_folder())
    return list(dict.fromkeys(folder.resolve() for folder in folders))


def _own_folder() -> Path:
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "pyproject.toml").is_file():
            return folder / "rubrics"
    return here / "rubrics"


def read_yaml(path: Path) -> Any:
    """The content of a YAML file, loaded safely; RubricError names the file and line of a fault."""
    return _parsed(path, _text_of(path))


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as problem:
        raise RubricError(f"{path} cannot be read: {problem.strerror or problem}") from None
    except UnicodeDecodeError as problem:
        raise RubricError(f"{path}: this is no valid YAML ({problem})") from None


def _parsed(path: Path, text: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as problem:
        at = f", line {problem.problem_mark.line + 1}" if problem.problem_mark else ""
        raise RubricError(f"{path}{at}: this is no valid YAML ({problem.problem})") from None
    except (YAMLError, ValueError) as problem:
        raise RubricError(f"{path}: this is no valid YAML ({problem})") from None
    except RecursionError:
        raise RubricError(f"{path}: this YAML is nested too deeply") from None


def dump_yaml(values: Mapping[str, Any]) -> str:
    """A mapping as YAML text, in its order, long texts unbroken."""
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
    """The value, texts with characters that YAML folds as line breaks in double quotes, so that they come back."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(value, Mapping):
        return {_quoted(key): _quoted(field) for key, field in value.items()}
    if isinstance(value, list):
        return [_quoted(element) for element in value]
    if isinstance(value, str) and any(mark in value for mark in "\x85\u2028\u2029"):
        return DoubleQuotedScalarString(value)
    return value


def write_new(path: Path, text: str) -> None:
    """Write a file that must not be there yet (else FileExistsError); it appears whole or not at all."""
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
        with suppress(OSError):  # what is said above is the fault; a scratch file that cannot be removed is none
            scratch.unlink(missing_ok=True)


def _versions(name: str) -> dict[int, Path]:
    """Number -> file of one rubric over all folders; the first folder wins where two have a version."""
    found: dict[int, Path] = {}
    for folder in reversed(rubric_folders()):
        for path in (folder / name).glob("v*.yaml"):
            match = _FILE.fullmatch(path.name)
            if match:
                found[int(match[1])] = path
    return dict(sorted(found.items()))


def _ids() -> Iterator[str]:
    found = {path.name for folder in rubric_folders() if folder.is_dir() for path in folder.iterdir() if path.is_dir()}
    yield from sorted(name for name in found if name not in NO_RUBRICS and _NAME.fullmatch(name) and _versions(name))


def load_rubric(name: str | Path) -> Rubric:
    """A rubric by id (the newest version), by ``id@version``, or from a file.

    Raises
    ------
    RubricError
        When there is none (the message lists those that are there), or the file breaks the rules: the
        message names file, key and what is allowed.

    Examples
    --------
    >>> load_rubric("faithfulness@v1").names
    ('faithfulness',)
    """
    if isinstance(name, Path) or str(name).endswith((".yaml", ".yml")):
        return _load_file(Path(name))
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if not match:
        raise RubricError(
            f"{name!r} is no rubric name: give id, id@version (as in support@v3) or a path to a .yaml file"
        )
    versions = _versions(match[1])
    if not versions:
        there = list(_ids())
        raise RubricError(
            f"there is no rubric {match[1]!r}; {guess(match[1], there)}there are {listed(there, most=20)} "
            f"(looked in {', '.join(map(str, rubric_folders()))}; more folders by EVALKIT_RUBRICS)"
        )
    number = int(match[2][1:]) if match[2] else max(versions)
    if number not in versions:
        shown = ", ".join(f"v{number}" for number in versions)
        raise RubricError(f"rubric {match[1]!r} has no version {match[2]}; there are {shown}")
    rubric = _load_file(versions[number])
    if (rubric.id, rubric.version) != (match[1], f"v{number}"):
        raise RubricError(
            f"{versions[number]} says it is {rubric.id}@{rubric.version}; by its place it must be {match[1]}@v{number}"
        )
    return rubric


def _load_file(path: Path) -> Rubric:
    try:
        path.stat()
    except OSError:
        raise RubricError(f"there is no rubric file {path}") from None
    # by its text: time and size stay as they were where a file is written twice within a tick of the clock
    return _load_text(path, _text_of(path))


@lru_cache(maxsize=256)
def _load_text(path: Path, text: str) -> Rubric:
    values = _parsed(path, text)
    if not isinstance(values, Mapping):
        raise RubricError(f"{path}: a rubric file is a mapping with id, version, inputs and criteria")
    try:
        return Rubric(**{str(key): value for key, value in values.items()})
    except RubricError as problem:
        raise RubricError(f"{path}: {problem}") from None


def save(rubric: Rubric, folder: str | Path | None = None) -> Rubric:
    """Write a rubric as the next version of its id; what is there is never changed.

    Parameters
    ----------
    rubric
        What to save. If its content equals the newest version's, nothing is written. A rubric that was
        not edited keeps its own number, if that is free and none is newer.
    folder
        Where: by default the first of ``EVALKIT_RUBRICS``, else ``rubrics/`` beside the nearest
        ``pyproject.toml``, else ``rubrics/`` in the working folder.

    Returns
    -------
    Rubric
        The rubric with its version.

    Raises
    ------
    RubricError
        When the folder cannot be written.
    """
    target = save_folder(folder)
    own = int(rubric.version[1:])
    while True:
        versions = versions_of(rubric.id, target)
        newest = max(versions, default=0)
        if newest:
            last = _load_file(versions[newest])
            if last.content_hash == rubric.content_hash:
                return last
        number = own if not rubric.edited and own > newest else max(own if rubric.edited else 0, newest) + 1
        made = Rubric(**(rubric.to_dict() | {"version": f"v{number}"}))
        try:
            write_new(target / rubric.id / f"v{number}.yaml", dump_yaml(made.to_dict()))
        except FileExistsError:
            continue  # another process saved this number first
        return made


def save_folder(folder: str | Path | None = None) -> Path:
    """Where rubrics are saved: `folder`, else as `save` says."""
    given = [part for part in os.environ.get("EVALKIT_RUBRICS", "").split(os.pathsep) if part]
    return Path(folder or (given[0] if given else None) or _own_folder()).expanduser()


def versions_of(name: str, folder: Path) -> dict[int, Path]:
    """Number -> file of one rubric, in `folder` and wherever rubrics are looked up."""
    found = _versions(name)
    for path in (folder / name).glob("v*.yaml"):
        if match := _FILE.fullmatch(path.name):
            found[int(match[1])] = path
    return found


def list_rubrics() -> pd.DataFrame:
    """All versions of all rubrics that can be loaded by name.

    Returns
    -------
    pandas.DataFrame
        One row a version: `id`, `version`, `mode`, `criteria` (names, comma-separated), `inputs`,
        `template`, `description`, `path`; sorted by id and version. A file that breaks the rules has
        its fault as description.
    """
    rows = []
    for name in _ids():
        for number, path in _versions(name).items():
            row: dict[str, Any] = {"id": name, "version": f"v{number}"}
            try:
                rubric = _load_file(path)
            except RubricError as problem:
                row |= {"description": f"broken: {problem}"}
            else:
                row |= {
                    "mode": rubric.mode,
                    "criteria": ", ".join(rubric.names),
                    "inputs": ", ".join(rubric.inputs),
                    "template": rubric.template,
                    "description": rubric.description.strip(),
                }
            rows.append(row | {"path": str(path)})
    names = ["id", "version", "mode", "criteria", "inputs", "template", "description", "path"]
    return pd.DataFrame(rows, columns=names)
