"""A plugin project, written from the files under ``plugin/``."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Template

from evalkit._version import __version__
from evalkit.errors import ConfigError

__all__ = ["new_plugin"]

_SOURCE = Path(__file__).parent / "plugin"
_SUFFIX = ".tmpl"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def new_plugin(name: str, folder: str | Path | None = None) -> Path:
    """Write a plugin project that can be tested, registered, built and installed without changes; its folder.

    `name` is lower-case words joined by dashes, as in ``support-tone``, whose package is ``support_tone``. `folder` is
    new or empty, by default `name` in the working folder.

    Raises
    ------
    ConfigError
        For a name that is not valid or is the name of a library, or a folder that is not empty.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     project = new_plugin("support-tone", f"{place}/support-tone")
    ...     print(sorted(path.name for path in project.iterdir()))
    ['README.md', 'pyproject.toml', 'src', 'tests']
    """
    package = _package(name)
    target = Path(name if folder is None else folder).expanduser().absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"{target} exists and is not empty; choose another folder")
    place = Path(os.path.realpath(target))  # a folder can replace an empty folder, but not a link to one
    scratch = place.with_name(f".{place.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        for file, text in _files(name, package):
            path = scratch / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        scratch.replace(place)  # all files at once
    except OSError as problem:
        raise ConfigError(f"{target} cannot be written: {problem.strerror or problem}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _package(name: str) -> str:
    from importlib.util import find_spec
    from keyword import iskeyword

    package = name.replace("-", "_")
    if not _NAME.fullmatch(name) or iskeyword(package) or len(name) > 60:
        raise ConfigError(
            f"invalid plugin name {name!r}: expected lower-case words and digits joined by dashes, such as support-tone"
        )
    spec = find_spec(package)  # a plain folder of that name has no origin; it may be the target
    if package in sys.stdlib_module_names or (spec is not None and spec.origin is not None):
        raise ConfigError(f"a plugin named {name!r} would hide the package {package!r}; choose another name")
    return package


def _files(name: str, package: str) -> Iterator[tuple[Path, str]]:
    values = {"name": name, "package": package, "evalkit": __version__}
    for source in sorted(_SOURCE.rglob(f"*{_SUFFIX}")):
        place = source.relative_to(_SOURCE).as_posix().removesuffix(_SUFFIX)
        place = place.replace("PACKAGE", package).replace("NAME", name)
        yield Path(place), Template(source.read_text(encoding="utf-8")).substitute(values)
