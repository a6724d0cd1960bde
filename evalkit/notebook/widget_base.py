"""What all widgets share: messages from the screen, a background worker, errors shown on screen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from evalkit.core.threads import daemon_thread
from evalkit.errors import EvalkitError, MissingExtraError, advise_extra


def new_widget(kind: str, owner: str, instead: str) -> Any:
    """A widget of this class (``TunerWidget`` or ``RunWidget``).

    Raises
    ------
    MissingExtraError
        Without ipywidgets and anywidget: `owner` needs them, and `instead` names what works without.
    """
    try:
        widgets = import_module("evalkit.notebook.anywidgets")
    except ImportError as problem:
        raise MissingExtraError(
            f"{owner} needs ipywidgets and anywidget: {advise_extra('notebook')}; without these, {instead}"
        ) from problem
    return getattr(widgets, kind)()


class Worker:
    """Runs jobs one after another on a daemon thread, which ends when the queue is empty.

    If several waiting jobs have the same name, only the newest runs. A job must handle its own exceptions.

    Examples
    --------
    >>> done = []
    >>> worker = Worker()
    >>> worker.do("a", lambda: done.append(1))
    >>> worker.wait(5), done
    (True, [1])
    """

    def __init__(self) -> None:
        self._idle = threading.Condition()
        self._jobs: dict[str, Callable[[], object]] = {}
        self._thread: threading.Thread | None = None

    def do(self, name: str, job: Callable[[], object]) -> None:
        """Put a job at the end of the queue."""
        with self._idle:
            self._jobs.pop(name, None)
            self._jobs[name] = job
            if self._thread is None:
                self._thread = daemon_thread(self._main, "evalkit-widget")
                self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait until the queue is empty and the last job is done; False when the time was too short."""
        with self._idle:
            return self._idle.wait_for(lambda: self._thread is None, timeout_s)

    def _main(self) -> None:
        while True:
            with self._idle:
                if not self._jobs:
                    self._thread = None
                    self._idle.notify_all()
                    return
                job = self._jobs.pop(next(iter(self._jobs)))
            job()


class Jobs:
    """The background work of a widget, and the error that it shows.

    An error appears in the widget's `alert` until the same action succeeds, or its cause is gone.

    Attributes
    ----------
    failed_action
        The action whose error is shown.
    failed
        What else an error changes on screen.
    """

    def __init__(self, widget: Any) -> None:
        self._widget, self.failed_action = widget, ""
        self._queues = {name: Worker() for name in ("main", "plan", "samples")}
        self.failed: Callable[[], None] = lambda: None

    def do(self, name: str, job: Callable[[], object], queue: str = "main") -> None:
        """Do a job in the background, after those that wait in its queue."""
        # another name than the action's: an action that was queued may still fail
        self._queues[queue].do(name, lambda: self.safely(job, f"worker: {name}"))

    def safely(self, job: Callable[[], object], action: str = "") -> None:
        """Do a job now; an error appears on screen."""
        try:
            job()
        except Exception as problem:  # noqa: BLE001  # the traceback of a callback or thread is not shown
            kind = "" if isinstance(problem, EvalkitError) else f"{type(problem).__name__}: "
            self.alert(f"{kind}{problem}", action)
            self.failed()
        else:
            if action:
                self.forget_error(action)

    def wait(self, timeout_s: float) -> bool:
        """Wait until nothing runs; False when the time was too short."""
        return all(worker.wait(timeout_s) for worker in self._queues.values())

    def alert(self, text: str, action: str = "") -> None:
        """Show an error of an action; without text, none."""
        self._widget.alert, self.failed_action = text, action

    def forget_error(self, *actions: str) -> None:
        """Remove the message of these actions: its cause is gone."""
        if self.failed_action in actions:
            self.alert("")


class NotebookWidget:
    """An object that draws itself in a notebook, and as HTML and text if no widget can be drawn.

    It stands for its widget wherever ipywidgets takes one (`VBox`, `Tab`, `AppLayout`, `interactive` …), and has what
    every widget has, such as `layout` and `observe`.

    Attributes
    ----------
    widget
        The ipywidget.
    """

    def __init__(self, widget: Any) -> None:
        self.widget, self._jobs = widget, Jobs(widget)
        widget.on_msg(lambda _widget, message, _buffers: self.receive(message))

    @property
    def __class__(self) -> Any:  # all that ipywidgets asks is isinstance
        return type(self.widget) if "widget" in self.__dict__ else type(self)

    @__class__.setter
    def __class__(self, kind: Any) -> None:
        raise TypeError(f"the class of a {type(self).__name__} cannot be set to {kind.__name__}")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and "widget" in self.__dict__:
            from anywidget import AnyWidget

            if hasattr(AnyWidget, name):  # what every widget has, and not the parts of this screen
                return getattr(self.widget, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def state(self) -> dict[str, Any]:
        """What is on screen: the widget's traits by name, as plain values."""
        from anywidget import AnyWidget

        names = set(self.widget.trait_names(sync=True)) - set(AnyWidget.class_trait_names())
        return {name: getattr(self.widget, name) for name in sorted(names) if not name.startswith("_")}

    def receive(self, message: Any) -> None:
        """Do what a message from the screen asks for, ``{"do": action, …}``; other messages are ignored.

        Every click and key press arrives here. Long jobs continue in the background (see `wait_idle`).
        """
        name = message.get("do") if isinstance(message, Mapping) else None
        action = self._actions().get(name) if isinstance(name, str) else None
        if action is not None:
            self._jobs.safely(lambda: action(message), str(name))

    def wait_idle(self, timeout_s: float = 60.0) -> bool:
        """Wait until nothing runs in the background; False when the time was too short."""
        return self._jobs.wait(timeout_s)

    def _actions(self) -> dict[str, Callable[[Any], object]]:
        """Name of an action -> the function that takes its message."""
        return {"dismiss": lambda message: self._jobs.forget_error(message.get("action", self._jobs.failed_action))}

    # marimo: `mo.ui.anywidget(…)` takes this object for the widget that it draws, by what it needs of one
    @property
    def comm(self) -> Any:
        """The channel to the browser."""
        return self.widget.comm

    @property
    def _model_id(self) -> str:
        return str(self.widget.model_id)

    def get_state(self, *names: Any) -> dict[str, Any]:
        """What the browser gets, by name of the trait."""
        return dict(self.widget.get_state(*names))

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what the browser changed."""
        self.widget.set_state(state)

    def _mime_(self) -> Any:
        from marimo import as_html

        return as_html(self.widget)._mime_()

    def _repr_html_(self) -> str:
        raise NotImplementedError

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = self.widget._repr_mimebundle_(**options)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return {**data, "text/html": self._repr_html_(), "text/plain": repr(self)}, metadata
