"""What every widget here stands on: its script and style as one text each, and faults that are told on screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evalkit.errors import EvalkitError
from evalkit.notebook.background_thread import Worker

__all__ = ["Stage", "joined"]

_STATIC = Path(__file__).parent / "static"


def joined(kind: str, *names: str) -> str:
    """Files of one kind one after the other: an anywidget is one module, and may import nothing that lies beside it."""
    return "\n".join((_STATIC / f"{name}.{kind}").read_text(encoding="utf-8") for name in names)


class Stage:
    """Takes what a person does in a view, at once or by the worker.

    What goes wrong is told in the view's `alert`, until the same goes well.
    """

    def __init__(self, view: Any) -> None:
        self.view, self.worker = view, Worker()
        self._faulty = ""  # what the alert is about
        self.view.on_msg(self._receive)

    def _act(self, content: Any) -> None:
        """Do what the view says; it may have been said by anybody."""
        raise NotImplementedError

    def _failed(self) -> None:
        """What else a fault changes on screen."""

    def _alert(self, text: str, about: str = "") -> None:
        self.view.alert, self._faulty = text, about

    def _receive(self, _widget: Any, content: Any, _buffers: Any) -> None:
        about = str(content.get("do", "")) if isinstance(content, Mapping) else ""
        self._safely(lambda: self._act(content), about)

    def _safely(self, job: Callable[[], object], about: str = "") -> None:
        try:
            job()
        except EvalkitError as problem:
            self._alert(str(problem), about)
            self._failed()
        except Exception as problem:  # noqa: BLE001  # a callback's or thread's traceback is seen by nobody
            self._alert(f"{type(problem).__name__}: {problem}", about)
            self._failed()
        else:
            if about and about == self._faulty:
                self._alert("")

    def _do(self, name: str, job: Callable[[], object]) -> None:
        # a worker's job has a name of its own: to be taken in is not to have gone well
        self.worker.do(name, lambda: self._safely(job, f"worker: {name}"))
