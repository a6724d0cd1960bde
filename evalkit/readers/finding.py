"""Readers by their names: evalkit's own, and those of installed packages."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from evalkit.errors import ConfigError, guess, listed
from evalkit.readers.records import Reader

GROUP = "evalkit.readers"
_OWN = ("apex", "devai", "dr_tulu", "healthbench", "paperbench")


def names() -> list[str]:
    """The names of all readers, of evalkit's own and of the entry points ``evalkit.readers``.

    Examples
    --------
    >>> "healthbench" in names()
    True
    """
    return sorted({*_OWN, *entry_points(group=GROUP).names})


@cache  # looking through the installed packages takes milliseconds, and a table has many cells
def find(name: str, reads: str) -> Reader:
    """The reader of this name, which reads `reads` (such as ``criteria``).

    Raises
    ------
    ConfigError
        For an unknown name, a name that two packages have, and for what is no reader of this.

    Examples
    --------
    >>> find("healthbench", "criteria").read([{"criterion": "Names a dose", "points": 5, "tags": ["axis:accuracy"]}])
    [{'text': 'Names a dose', 'points': 5, 'axis': 'accuracy'}]
    """
    points = [*entry_points(group=GROUP, name=name)]
    if len(points) + (name in _OWN) > 1:
        packages = [point.value for point in points]
        raise ConfigError(f"several readers have the name {name!r}: {listed(packages)}; rename or uninstall one")
    if name in _OWN:
        return import_module(f"evalkit.readers.{name}").READER  # type: ignore[no-any-return]
    if not points:
        raise ConfigError(f"unknown reader {name!r}; {guess(name, names())}available: {listed(names(), most=30)}")
    reader = points[0].load()
    if not isinstance(reader, Reader) or reader.reads != reads:
        raise ConfigError(f"the entry point {points[0].value!r} is {reader!r}, which is no Reader that reads {reads!r}")
    return reader
