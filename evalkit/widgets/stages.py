"""What every widget here stands on: its script and style as one text each, and faults that are told on screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from evalkit.errors import EvalkitError
from evalkit.widgets.workers import Worker

__all__ = ["Stage", "joined"]

_STATIC = Path(__file__).parent / "static"


def joined(kind: str, *names: str) -> str:
    """Files of one kind one after the other: an anywidget is one module, and may import nothing that lies beside it."""
    return "\n".join((_STATIC / f"{name}.{kind}").read_text(encoding="utf-8") for name in names)


class Stage:
    """Takes what a person does in a view, at once or by the worker; what goes wrong is told in the view's `alert`."""

    def __init__(self, view: Any) -> None:
        self.view, self.worker = view, Worker()
        self.view.on_msg(self._receive)

    def _act(self, content: Any) -> None:
        """Do what the view says; it may have been said by anybody."""
        raise NotImplementedError

    def _failed(self) -> None:
        """What else a fault changes on screen."""

    def _alert(self, text: str) -> None:
        self.view.alert = text

    def _receive(self, _widget: Any, content: Any, _buffers: Any) -> None:
        self._safely(lambda: self._act(content))

    def _safely(self, job: Callable[[], object]) -> None:
        try:
            job()
        except EvalkitError as problem:
            self._alert(str(problem))
            self._failed()
        except Exception as problem:  # noqa: BLE001  # a callback's or thread's traceback is seen by nobody
            self._alert(f"{type(problem).__name__}: {problem}")
            self._failed()

    def _do(self, name: str, job: Callable[[], object]) -> None:
        self.worker.do(name, lambda: self._safely(job))
