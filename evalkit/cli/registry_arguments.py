"""What the commands on the registry share."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from evalkit.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

    from evalkit.runs import Registry

__all__ = ["add_registry", "moments_as_text", "name_version", "opened", "seconds"]


def add_registry(parser: argparse.ArgumentParser) -> None:
    """``--registry``."""
    parser.add_argument(
        "--registry",
        metavar="URL",
        help="SQLite file or postgresql://… (default: EVALKIT_REGISTRY, else registry.sqlite of the cache folder)",
    )


@contextlib.contextmanager
def opened(args: argparse.Namespace) -> Iterator[Registry]:
    """The registry of ``--registry``."""
    from evalkit.runs import Registry

    registry = Registry.open(args.registry)
    try:
        yield registry
    finally:
        registry.close()


def seconds(text: str) -> float:
    """A time on the command line: more than 0, less than a day."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 86400:
        raise argparse.ArgumentTypeError(f"expected seconds, more than 0 and less than a day, got {text!r}")
    return found


def name_version(text: str) -> tuple[str, str | None]:
    """``name`` or ``name@version``.

    Examples
    --------
    >>> name_version("tone@1.0"), name_version("tone")
    (('tone', '1.0'), ('tone', None))
    """
    name, at, version = text.partition("@")
    if not name or (at and not version):
        raise ConfigError(f"invalid name {text!r}: give NAME or NAME@VERSION")
    return name, version or None


def moments_as_text(table: pd.DataFrame) -> pd.DataFrame:
    """`created_at` as ISO text, to the second: what JSON takes and a terminal has room for."""
    return table.assign(created_at=[moment.isoformat(timespec="seconds") for moment in table["created_at"]])
