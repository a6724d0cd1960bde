"""Where a plugin's code is, and the hash of it: found without importing anything."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.metadata import PathDistribution
from pathlib import Path

from evalkit.errors import ConfigError

__all__ = ["Place", "content_hash", "fetched", "locate", "requirements_of"]

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_URL = re.compile(r"(git\+)?(https?|file|ssh)(\+\w+)?://")
_IGNORED = {"__pycache__", ".git", ".venv", "build", "dist", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
_PIP_WAIT_S = 600


@dataclass(frozen=True, slots=True)
class Place:
    """A plugin's code on this machine.

    Attributes
    ----------
    uri
        What is stored: as given, paths made absolute.
    path
        The file or folder.
    """

    uri: str
    path: Path


def locate(uri: str, folder: Path) -> Place:
    """Find a plugin's code: a file or folder, a dotted package path, or a URL that pip takes (fetched into `folder`).

    Raises
    ------
    ConfigError
        When there is nothing, or a Git reference names no commit: what it stands for could change.

    Examples
    --------
    >>> locate("evalkit.registry", Path()).path.name
    'registry'
    """
    if _URL.match(uri):
        return Place(uri, fetched(uri, folder))
    path = Path(uri).expanduser()
    if path.exists():
        return Place(str(path.resolve()), path.resolve())
    if _DOTTED.fullmatch(uri):
        found = _package(uri)
        if found is not None:
            return Place(uri, found)
    raise ConfigError(
        f"there is no plugin at {uri!r}: it is no file or folder, no package that is installed here, and no URL "
        "(git+https://…@commit, https://….whl)"
    )


def _package(name: str) -> Path | None:
    """The file or folder of a dotted name; parents are not imported, as `find_spec` of importlib would."""
    where: list[str] | None = None
    for number, part in enumerate(name.split("."), 1):
        spec = PathFinder.find_spec(part, where)
        if spec is None:
            return None
        places = list(spec.submodule_search_locations or [])
        if number == name.count(".") + 1:
            if places:
                return Path(places[0]).resolve()
            return Path(spec.origin).resolve() if spec.origin else None
        where = places
    return None


def fetched(uri: str, folder: Path) -> Path:
    """The code at a URL, installed by pip (without what it needs) into a folder of its own; fetched once.

    Raises
    ------
    ConfigError
        When pip cannot get it; the message ends with what pip said.
    """
    if uri.startswith("git+") and not re.search(r"@[0-9a-f]{7,40}(#|$)", uri):
        raise ConfigError(f"{uri} names no commit: end it with @ and the commit's hash, so that it stays what it is")
    target = folder / hashlib.sha256(uri.encode()).hexdigest()[:16]
    if target.is_dir():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch, "plugin")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps", "--no-compile"]
        done = subprocess.run(  # noqa: S603  # the URI is one argument, and a plugin is code that the user names
            [*command, "--disable-pip-version-check", "--no-build-isolation", "--target", str(made), uri],
            capture_output=True, text=True, timeout=_PIP_WAIT_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode or not made.is_dir():
            said = " ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-3:])
            raise ConfigError(f"{uri} cannot be fetched: {said[:400]}")
        shutil.rmtree(made / "bin", ignore_errors=True)
        for record in made.glob("*.dist-info"):  # holds the time and place of this installation
            for name in ("RECORD", "direct_url.json", "INSTALLER", "REQUESTED"):
                (record / name).unlink(missing_ok=True)
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():  # another process was faster
                raise
    return target


def content_hash(path: Path) -> str:
    """sha256 over names and bytes of a file, or of all files of a folder; caches and builds do not count.

    Raises
    ------
    ConfigError
        When a file cannot be read, or there is none.
    """
    found = hashlib.sha256()
    n_files = 0
    try:
        for name, file in _files(path):
            body = file.read_bytes()
            found.update(f"{len(name)}:{name}:{len(body)}:".encode())
            found.update(body)
            n_files += 1
    except OSError as problem:
        raise ConfigError(f"plugin {path} cannot be read: {problem.strerror or problem}") from None
    if not n_files:
        raise ConfigError(f"plugin {path} holds no files")
    return found.hexdigest()


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    if not path.is_dir():
        yield path.name, path
        return
    for file in sorted(path.rglob("*")):
        parts = file.relative_to(path).parts
        ignored = file.suffix == ".pyc" or any(part in _IGNORED or part.endswith(".egg-info") for part in parts)
        if file.is_file() and not ignored:
            yield "/".join(parts), file


def requirements_of(path: Path) -> list[str]:
    """What the package at a path says it needs (``Requires-Dist``, or ``dependencies`` of pyproject.toml).

    Examples
    --------
    >>> requirements_of(Path("/nowhere/at/all"))
    []
    """
    for record in sorted(path.glob("*.dist-info")) if path.is_dir() else []:
        return list(PathDistribution(record).requires or [])
    for folder in (path, *path.parents[:2]):
        project = folder / "pyproject.toml"
        if project.is_file():
            import tomllib

            try:
                content = tomllib.loads(project.read_text(encoding="utf-8"))
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
                raise ConfigError(f"{project}: this is no valid TOML ({problem})") from None
            needs = content.get("project", {}).get("dependencies", [])
            return [str(one) for one in needs]
    return []
