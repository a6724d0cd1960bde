"""Messages on stderr, one line each; stdout is for data."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from evalkit.core.printable_text import one_line
from evalkit.errors import EvalkitWarning


def tell(text: str) -> None:
    """One line on stderr, marked as evalkit's."""
    print(f"evalkit: {one_line(text)}", file=sys.stderr)


def note(args: argparse.Namespace, text: str) -> None:
    """One line on stderr, unless ``--quiet``."""
    if not args.quiet:
        tell(text)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        tell(f"warning: {record.getMessage()}")


@contextlib.contextmanager
def warnings_as_messages() -> Iterator[None]:
    """Inside, evalkit's warnings and log become lines on stderr, each shown once."""
    log, handler, shown = logging.getLogger("evalkit"), _Handler(logging.WARNING), set[str]()
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, EvalkitWarning):
                others(message, category, *where, **more)
            elif str(message) not in shown:
                shown.add(str(message))
                tell(f"warning: {message}")

        warnings.simplefilter("always", EvalkitWarning)
        warnings.showwarning = show
        propagate, log.propagate = log.propagate, False
        log.addHandler(handler)
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.propagate = propagate
