"""Readers by their names: evalkit's own, and those of installed packages."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from evalkit.errors import ConfigError, guess, listed
from evalkit.readers.records import CRITERIA, LABELS, TRACES, Reader

GROUP = "evalkit.readers"
_OWN = dict.fromkeys(("apex", "devai", "dr_tulu", "healthbench", "paperbench"), CRITERIA)
_OWN |= dict.fromkeys(("argilla", "label_studio"), LABELS)
_OWN |= dict.fromkeys(("anthropic", "atif", "inspect", "openai_responses", "openinference", "otel"), TRACES)


def names(reads: str = "") -> list[str]:
    """The names of evalkit's readers, by default of all, and of the entry points ``evalkit.readers``.

    Examples
    --------
    >>> "healthbench" in names()
    True
    """
    readers = {name for name, form in _OWN.items() if reads in ("", form)}
    return sorted({*readers, *entry_points(group=GROUP).names})


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
    if not points and name not in _OWN:
        raise ConfigError(
            f"unknown reader {name!r}; {guess(name, names(reads))}available: {listed(names(reads), most=30)}"
        )
    reader = points[0].load() if points else _own(name)
    if not isinstance(reader, Reader) or reader.reads != reads:
        raise ConfigError(f"{name!r} is no reader of {reads}; available: {listed(names(reads), most=30)}")
    return reader


def recognized(rows: object, reads: str) -> Reader | None:
    """The reader of evalkit for exactly this form; None if there is none. Those of packages are found by name alone."""
    readers = (_own(name) for name, form in _OWN.items() if form == reads)
    return next((reader for reader in readers if reader.fits and reader.fits(rows)), None)


def _own(name: str) -> Reader:
    return import_module(f"evalkit.readers.{name}").READER  # type: ignore[no-any-return]
