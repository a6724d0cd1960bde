"""What goes to the person at the terminal beside the data: one line each, on stderr."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from evalkit.core.terminal_text import one_line
from evalkit.errors import EvalkitWarning

__all__ = ["tell", "warnings_told"]


def tell(text: str) -> None:
    """One line on stderr, marked as evalkit's."""
    print(f"evalkit: {one_line(text)}", file=sys.stderr)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        tell(f"warning: {record.getMessage()}")


@contextlib.contextmanager
def warnings_told() -> Iterator[None]:
    """Inside, evalkit's warnings and log become lines on stderr, each said once."""
    log, handler, said = logging.getLogger("evalkit"), _Handler(logging.WARNING), set[str]()
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, EvalkitWarning):
                others(message, category, *where, **more)
            elif str(message) not in said:
                said.add(str(message))
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
