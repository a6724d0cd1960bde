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

_HIDDEN = "[REDACTED]"


def tell(text: str) -> None:
    """One line on stderr, marked as evalkit's."""
    print(f"evalkit: {one_line(text)}", file=sys.stderr)


def note(args: argparse.Namespace, text: str) -> None:
    """One line on stderr, unless ``--quiet``."""
    if not args.quiet:
        tell(text)


class _Handler(logging.Handler):
    def __init__(self, *, redact: bool) -> None:
        super().__init__(logging.WARNING)
        self._redact = redact

    def emit(self, record: logging.LogRecord) -> None:
        if self._redact and isinstance(record.args, tuple):
            record.args = tuple(_HIDDEN if isinstance(value, str) else value for value in record.args)
        _warn(record.getMessage(), redact=self._redact)


def _warn(text: str, *, redact: bool) -> None:
    """A warning; with `redact`, without what is in brackets, which quotes servers and files."""
    head, bracket, _ = text.partition(" (")
    tell(f"warning: {head} ({_HIDDEN})" if redact and bracket else f"warning: {text}")


@contextlib.contextmanager
def warnings_as_messages(*, redact: bool = False) -> Iterator[None]:
    """Inside, evalkit's warnings and log become lines on stderr, each warning once; `redact`ed, they quote nothing."""
    log, handler, shown = logging.getLogger("evalkit"), _Handler(redact=redact), set[str]()
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, EvalkitWarning):
                others(message, category, *where, **more)
            elif str(message) not in shown:
                shown.add(str(message))
                _warn(str(message), redact=redact)

        warnings.simplefilter("always", EvalkitWarning)
        warnings.showwarning = show
        propagate, log.propagate = log.propagate, False
        log.addHandler(handler)
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.propagate = propagate
