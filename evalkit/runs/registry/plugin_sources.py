"""The place of a plugin's code and its hash, found without importing anything."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.metadata import distributions
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit
from urllib.request import url2pathname

from evalkit.errors import ConfigError
from evalkit.runs.contract.imported_modules import imported_modules
from evalkit.runs.contract.plugin_layout import PluginLayout, read_project

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_GIT = re.compile(r"git\+(https?|file|ssh)://")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_IGNORED = frozenset({
    "__pycache__", "build", "dist", "node_modules", "venv", ".DS_Store", ".git", ".hypothesis", ".ipynb_checkpoints",
    ".mypy_cache", ".nox", ".pytest_cache", ".ruff_cache", ".tox", ".venv",
})  # fmt: skip
_GIT_WAIT_S = 600


class Place(NamedTuple):
    """A plugin's code on this machine: the URI as it is stored (`locate`), and the file or folder."""

    uri: str
    path: Path


def locate(uri: str, folder: Path) -> Place:
    """Find a plugin's code.

    `uri` is a file or folder; a dotted package path; or a Git repository (``git+https://…@REF``, and
    ``#subdirectory=FOLDER`` for a plugin in a folder of it), which is copied to a folder in `folder`. A branch or tag
    is replaced by the commit that it stands for now.

    Raises
    ------
    ConfigError
        When there is no plugin, or it cannot be fetched.

    Examples
    --------
    >>> locate("evalkit.runs.registry", Path()).path.name
    'registry'
    """
    if uri.startswith("file:"):
        uri = url2pathname(urlsplit(uri).path)
    if "://" in uri:
        _check_no_password(uri)
    if _GIT.match(uri):
        return _checked_out(uri, folder)
    path = Path(uri).expanduser()
    if path.exists():
        return Place(str(path.resolve()), path.resolve())
    if _DOTTED.fullmatch(uri) and (found := _package(uri)) is not None:
        return Place(uri, found)
    expected = "a file or folder, an installed package, or a Git repository (git+https://…@REF)"
    raise ConfigError(f"no plugin at {uri!r}: expected {expected}; install an archive with pip, and give its package")


def _check_no_password(uri: str) -> None:
    """ConfigError for a URL with a password or token, which would be stored (``https://TOKEN@host`` is a token)."""
    try:
        parts = urlsplit(uri)
    except ValueError as problem:
        raise ConfigError(f"{uri!r} is not a URL: {problem}") from None
    is_web = parts.scheme.lower().endswith(("http", "https"))
    if parts.password is not None or (is_web and parts.username is not None):
        text = "the registry would store the password or token of this URL; remove it, and let git look it up"
        raise ConfigError(text)


def _checked_out(uri: str, folder: Path) -> Place:
    """The files of a Git repository at a commit, in a folder of their own; fetched once."""
    url, hash_mark, fragment = uri.partition("#")
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    path, _, reference = path.rpartition("@") if "@" in path else (path, "", "HEAD")
    plain = f"{scheme}://{host}{slash}{path}"
    inside = parse_qs(fragment).get("subdirectory", [""])[0]
    if _COMMIT.fullmatch(reference) and (target := _copy_of(plain, reference, folder)).is_dir():
        return Place(uri, _inside(target, inside, uri))
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch, "plugin")
        _git(uri, "clone", "--quiet", "--no-checkout", "--", plain.removeprefix("git+"), str(made))
        commit = _commit_of(made, reference, plain)
        target = _copy_of(plain, commit, folder)
        if not target.is_dir():
            _git(uri, "-C", str(made), "checkout", "--quiet", "--detach", commit)
            _git(uri, "-C", str(made), "submodule", "--quiet", "update", "--init", "--recursive")
            try:
                made.rename(target)
            except OSError:
                if not target.is_dir():  # another process made it first
                    raise
    return Place(f"{plain}@{commit}{hash_mark}{fragment}", _inside(target, inside, uri))


def _copy_of(url: str, commit: str, folder: Path) -> Path:
    return folder / hashlib.sha256(f"{url}@{commit} checked out".encode()).hexdigest()[:16]


def _inside(target: Path, folder: str, uri: str) -> Path:
    path = (target / folder).resolve()
    if not path.is_dir() or not path.is_relative_to(target.resolve()):
        raise ConfigError(f"{uri}: the repository has no folder {folder!r}")
    return path


def _commit_of(repository: Path, reference: str, url: str) -> str:
    for name in (f"refs/remotes/origin/{reference}", f"refs/tags/{reference}", reference):
        words = ["-C", str(repository), "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
        code, printed = _run_git(*words)
        if code == 0:
            return printed[-1]
    raise ConfigError(f"{url} has no branch, tag or commit {reference!r}")


def _git(uri: str, *words: str) -> None:
    code, printed = _run_git(*words)
    if code != 0:
        problem = f"git did not end within {_GIT_WAIT_S} s" if code is None else " ".join(printed[-3:])[:400]
        raise ConfigError(f"{uri} cannot be fetched: {problem}")


def _run_git(*words: str) -> tuple[int | None, list[str]]:
    """The exit code of git, None if it took too long; and the lines that it printed."""
    environment = os.environ | {"GIT_TERMINAL_PROMPT": "0"}  # fails where it would ask for a password
    try:
        done = subprocess.run(  # noqa: S603  # a list of words, no shell
            ["git", *words], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,  # noqa: S607
            stderr=subprocess.STDOUT, text=True, errors="replace", timeout=_GIT_WAIT_S, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise ConfigError("a plugin in a Git repository needs git, which is not installed") from None
    except subprocess.TimeoutExpired:
        return None, []
    return done.returncode, done.stdout.splitlines()


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
