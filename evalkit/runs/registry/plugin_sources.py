"""The place of a plugin's code and its hash, found without importing anything."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.metadata import PathDistribution, distributions
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from evalkit.errors import ConfigError
from evalkit.runs.child_process import run_command
from evalkit.runs.contract.plugin_layout import PluginLayout, read_project

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_URL = re.compile(r"(git\+)?(https?|file|ssh)(\+\w+)?://")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_COMMIT_CUT = re.compile(r"[0-9a-f]{7,39}")
_ARCHIVES = (".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_IGNORED = frozenset({
    "__pycache__", "build", "dist", "node_modules", "venv", ".DS_Store", ".git", ".hypothesis", ".ipynb_checkpoints",
    ".mypy_cache", ".nox", ".pytest_cache", ".ruff_cache", ".tox", ".venv",
})  # fmt: skip
_PIP_WAIT_S = 600
_GIT_WAIT_S = 60


@dataclass(frozen=True, slots=True)
class Place:
    """A plugin's code on this machine.

    Attributes
    ----------
    uri
        The stored URI: paths are absolute, and a branch or tag of Git is replaced by its commit.
    path
        The file or folder.
    """

    uri: str
    path: Path


def locate(uri: str, folder: Path) -> Place:
    """Find a plugin's code.

    Parameters
    ----------
    uri
        A file or folder; a dotted package path; a wheel or source archive; or a URL that pip takes. A branch or tag
        of a Git URL is replaced by the commit it stands for now.
    folder
        The folder for copies of archives and URLs.

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
    if _URL.match(uri):
        uri = _at_commit(uri) if uri.startswith("git+") else uri
        return Place(uri, fetched(uri, folder))
    path = Path(uri).expanduser()
    if path.is_file() and path.name.endswith(_ARCHIVES):
        path = path.resolve()
        return Place(str(path), fetched(str(path), folder, content_hash(path)))
    if path.exists():
        return Place(str(path.resolve()), path.resolve())
    if _DOTTED.fullmatch(uri):
        found = _package(uri)
        if found is not None:
            return Place(uri, found)
    raise ConfigError(
        f"no plugin at {uri!r}: expected a file or folder, an installed package, or a URL "
        "(git+https://…@commit, https://….whl)"
    )


def _check_no_password(uri: str) -> None:
    """ConfigError for a URL with a password or token, which would be stored (``https://TOKEN@host`` is a token)."""
    try:
        parts = urlsplit(uri)
    except ValueError as problem:
        raise ConfigError(f"{uri!r} is not a URL: {problem}") from None
    is_web = parts.scheme.lower().endswith(("http", "https"))
    if parts.password is not None or (is_web and parts.username is not None):
        raise ConfigError(
            "the registry would store the password or token of this URL; remove it, and let git or pip look it up"
        )


def _at_commit(uri: str) -> str:
    """A Git URL with the commit of its branch, tag or default branch; unchanged if it ends with a commit."""
    url, hash_mark, fragment = uri.partition("#")
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    path, _, reference = path.rpartition("@") if "@" in path else (path, "", "HEAD")
    if _COMMIT.fullmatch(reference):
        return uri
    plain = f"{scheme}://{host}{slash}{path}"
    commit = _commit_of(plain.removeprefix("git+"), reference)
    return f"{plain}@{commit}{hash_mark}{fragment}"


def _commit_of(repository: str, reference: str) -> str:
    if shutil.which("git") is None:
        raise ConfigError(f"cannot look up {reference!r} in {repository}: git is not installed")
    code, printed = run_command(
        # after -- nothing is read as an option
        ["git", "ls-remote", "--", repository, reference, f"{reference}^{{}}"],
        timeout_s=_GIT_WAIT_S,
        environment=os.environ | {"GIT_TERMINAL_PROMPT": "0"},
    )
    if code != 0:
        problem = f"no answer within {_GIT_WAIT_S} s" if code is None else " ".join(" ".join(printed).split())[:300]
        raise ConfigError(f"cannot look up {reference!r} in {repository}: {problem}")
    commits = {name: commit for commit, _, name in (line.partition("\t") for line in printed)}
    # an annotated tag is an object of its own; ^{} is its commit
    for name in (reference, f"refs/heads/{reference}", f"refs/tags/{reference}^{{}}", f"refs/tags/{reference}"):
        if name in commits:
            return commits[name]
    if _COMMIT_CUT.fullmatch(reference):  # last: a tag such as 20260131 looks like a commit
        return reference
    raise ConfigError(f"{repository} has no branch, tag or commit {reference!r}")


def _package(name: str) -> Path | None:
    """The file or folder of a dotted name; unlike `importlib.util.find_spec`, parents are not imported."""
    where: list[str] | None = None
    origin: str | None = None
    for part in name.split("."):
        spec = PathFinder.find_spec(part, where)
        if spec is None:
            return None
        where, origin = list(spec.submodule_search_locations or []), spec.origin
    place = where[0] if where else origin
    return Path(place).resolve() if place else None


def fetched(uri: str, folder: Path, content: str = "") -> Path:
    """The code of an archive or URL, installed by pip (without what it needs) into a folder of its own; fetched once.

    Parameters
    ----------
    uri, folder
        The code to fetch, and the folder for the copy.
    content
        Hash of a local archive, so that another archive with its name gets another copy.

    Raises
    ------
    ConfigError
        When pip fails; the message ends with pip's own.
    """
    target = folder / hashlib.sha256(f"{uri}{content}".encode()).hexdigest()[:16]
    if target.is_dir():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch, "plugin")
        options = ["--quiet", "--no-input", "--no-deps", "--no-compile", "--no-build-isolation"]
        pip = [sys.executable, "-m", "pip", "install", *options, "--disable-pip-version-check"]
        code, printed = run_command([*pip, "--target", str(made), uri], timeout_s=_PIP_WAIT_S)
        if code is None:
            raise ConfigError(f"{uri} cannot be fetched: pip did not end within {_PIP_WAIT_S} s")
        if code or not made.is_dir():
            raise ConfigError(f"{uri} cannot be fetched: {' '.join(printed[-3:])[:400]}")
        shutil.rmtree(made / "bin", ignore_errors=True)
        for record in made.glob("*.dist-info"):  # these contain the time and place of the installation
            for name in ("RECORD", "direct_url.json", "INSTALLER", "REQUESTED"):
                (record / name).unlink(missing_ok=True)
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():  # another process made it first
                raise
    return target


def content_hash(path: Path) -> str:
    """sha256 over names and bytes of a file, or of all files of a folder; caches and builds do not count.

    The hash of a single-file module includes the profiles, templates and rubrics next to it (`PluginLayout`).

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
        raise ConfigError(f"plugin {path} contains no files")
    return found.hexdigest()


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    if not path.is_dir():
        yield path.name, path
        if path.suffix == ".py":
            for file in PluginLayout.at(path).parts():
                yield file.relative_to(path.parent).as_posix(), file
        return
    for file in sorted(path.rglob("*")):
        parts = file.relative_to(path).parts
        ignored = file.suffix == ".pyc" or any(part in _IGNORED or part.endswith(".egg-info") for part in parts)
        if file.is_file() and not ignored:
            yield "/".join(parts), file


def requirements_of(layout: PluginLayout) -> list[str]:
    """The requirements of a plugin's package (``Requires-Dist``, or ``dependencies`` of pyproject.toml).

    Raises
    ------
    ConfigError
        When pyproject.toml is not valid TOML.

    Examples
    --------
    >>> requirements_of(PluginLayout.at(Path(__file__)))[:1]
    []
    """
    root = layout.root
    for record in sorted(root.glob("*.dist-info")) if root.is_dir() else []:
        return list(PathDistribution(record).requires or [])
    for folder in (root, *root.parents[:2]):
        project = folder / "pyproject.toml"
        if project.is_file():
            return [str(one) for one in read_project(project).get("dependencies", [])]
    inside = layout.file.relative_to(layout.search).as_posix()
    for installed in distributions(path=[str(layout.search)]):
        if any(file.as_posix() == inside for file in installed.files or []):
            return list(installed.requires or [])
    return []
