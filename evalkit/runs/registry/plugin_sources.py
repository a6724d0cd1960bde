"""The place of a plugin's code, the modules that it imports, and its hash, found without importing anything."""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.metadata import distributions
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from evalkit.errors import ConfigError, error_at
from evalkit.runs.contract.plugin_layout import PluginLayout, file_of, read_project

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_IGNORED = frozenset({
    "__pycache__", "build", "dist", "node_modules", "venv", ".DS_Store", ".git", ".hypothesis", ".ipynb_checkpoints",
    ".mypy_cache", ".nox", ".pytest_cache", ".ruff_cache", ".tox", ".venv",
})  # fmt: skip


class Place(NamedTuple):
    """A plugin's code on this machine: the URI as it is stored (`locate`), and the file or folder."""

    uri: str
    path: Path


def locate(uri: str) -> Place:
    """Find a plugin's code: `uri` is a file or folder, or a dotted package path.

    Raises
    ------
    ConfigError
        When there is no plugin.

    Examples
    --------
    >>> locate("evalkit.runs.registry").path.name
    'registry'
    """
    if uri.startswith("file:"):
        uri = url2pathname(urlsplit(uri).path)
    if "://" in uri:
        _check_no_password(uri)
    path = Path(uri).expanduser()
    if path.exists():
        return Place(str(path.resolve()), path.resolve())
    if _DOTTED.fullmatch(uri) and (found := _package(uri)) is not None:
        return Place(uri, found)
    raise ConfigError(
        f"no plugin at {uri!r}: expected a file or folder, or an installed package; install an archive or a repository "
        "with pip or uv (pip install git+https://…@REF), and give its package"
    )


def _check_no_password(uri: str) -> None:
    """ConfigError for a URL with a password or token, which would be stored (``https://TOKEN@host`` is a token)."""
    with error_at(f"{uri!r} is not a URL", ConfigError, ValueError):
        parts = urlsplit(uri)
    is_web = parts.scheme.lower().endswith(("http", "https"))
    if parts.password is not None or (is_web and parts.username is not None):
        raise ConfigError("the registry would store the password or token of this URL; remove it")


def _package(name: str) -> Path | None:
    """The file or folder of a dotted name; unlike `importlib.util.find_spec`, parents are not imported."""
    where: list[str] | None = None
    origin: str | None = None
    for part in name.split("."):
        if (spec := PathFinder.find_spec(part, where)) is None:
            return None
        where, origin = list(spec.submodule_search_locations or []), spec.origin
    place = where[0] if where else origin
    return Path(place).resolve() if place else None


def content_hash(path: Path) -> str:
    """sha256 over names and bytes of a file, or of all files of a folder; caches and builds do not count.

    The hash of a single-file module includes the profiles, templates and rubrics next to it (`PluginLayout`), and that
    of every plugin the modules that it imports from the folder beside it.

    Raises
    ------
    ConfigError
        When a file cannot be read, or there is none.
    """
    found = hashlib.sha256()
    try:
        for name, file in _files(path):
            body = file.read_bytes()
            found.update(f"{len(name)}:{name}:{len(body)}:".encode())
            found.update(body)
    except OSError as problem:
        raise ConfigError(f"plugin {path} cannot be read: {problem.strerror or problem}") from None
    return found.hexdigest()


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    layout = PluginLayout.at(path)
    root, files = layout.folder, [layout.file, *layout.parts()]
    if layout.root.is_dir():
        root, files = layout.root, [file for file in sorted(layout.root.rglob("*")) if file.is_file()]
        files = [file for file in files if not _is_ignored(file.relative_to(root))]
    imported = imported_modules(layout.file, layout.module, [layout.search]).values()
    for file in dict.fromkeys([*files, *sorted(imported)]):
        yield Path(os.path.relpath(file, root)).as_posix(), file


def _is_ignored(file: Path) -> bool:
    return file.suffix == ".pyc" or any(part in _IGNORED or part.endswith(".egg-info") for part in file.parts)


def requirements_of(layout: PluginLayout) -> list[str]:
    """The requirements of a plugin: `dependencies` of its project, or ``Requires-Dist`` if it is installed."""
    for folder in (layout.root, *layout.root.parents[:2]):
        project = folder / "pyproject.toml"
        if project.is_file():
            return [str(one) for one in read_project(project).get("dependencies", [])]
    inside = layout.file.relative_to(layout.search).as_posix()
    for installed in distributions(path=[str(layout.search)]):
        if any(file.as_posix() == inside for file in installed.files or []):
            return list(installed.requires or [])
    return []


_LIBRARIES = {"evalkit", "lighteval", "torch", "transformers", "vllm", "sglang", "datasets", "peft", "litellm"}
"""Not searched for, even where they are run from their sources, which would take minutes."""
_PACKAGES = {"site-packages", "dist-packages"}


def imported_modules(file: Path, module: str, places: Sequence[str | Path]) -> dict[str, Path]:
    """Dotted name -> file of what a module imports from folders, anywhere in it and in each other; no installed ones.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "helper.py").write_text("")
    ...     tasks = Path(folder, "tasks.py")
    ...     _ = tasks.write_text("import json, helper")
    ...     print(list(imported_modules(tasks, "tasks", [folder])))
    ['helper']
    """
    folders = [Path(folder) for folder in places if not is_installed(folder)]
    modules, pending = dict[str, Path](), [(module, file)]
    while pending:
        importer, path = pending.pop()
        parts = importer.split(".")
        for target in (parts, *_targets(path, parts if path.name == "__init__.py" else parts[:-1])):
            for end in range(1, len(target) + 1) if target[0] not in _LIBRARIES else ():
                name = ".".join(target[:end])
                if name not in (module, *modules) and (source := file_of(target[:end], folders)) is not None:
                    modules[name] = source
                    pending.append((name, source))
    return modules


def is_installed(place: str | Path) -> bool:
    """Whether a path is in a folder of installed packages."""
    return bool(_PACKAGES & {*Path(place).parts})


def _targets(file: Path, package: list[str]) -> Iterator[list[str]]:
    """The names that a file's import statements may stand for, in parts; `package` is where relative ones begin."""
    with suppress(OSError, ValueError, SyntaxError):  # whoever imports the file hears of it
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                yield from (alias.name.split(".") for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                base = [*base, *(node.module.split(".") if node.module else [])]
                yield from ([*base, alias.name] for alias in node.names)
