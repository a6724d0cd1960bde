"""`RunView`: a run on screen, its scores, who judged by what, and its samples with the judges' reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from evalkit.errors import EvalkitError, InputError, MissingExtraError, advise_extra
from evalkit.notebook.background_thread import Worker
from evalkit.notebook.run_html import run_still
from evalkit.notebook.run_payload import run_payload
from evalkit.notebook.run_samples import SampleQuery, Samples
from evalkit.runs import Run

__all__ = ["Pages", "RunView", "new_screen", "with_still"]


def new_screen(what: str) -> Any:
    """The widget that wizard and view are drawn by.

    Raises
    ------
    MissingExtraError
        Without ipywidgets and anywidget.
    """
    try:
        from evalkit.notebook.run_widget import RunScreen
    except ImportError as problem:
        raise MissingExtraError(
            f"{what} needs ipywidgets and anywidget: {advise_extra('notebook')}; "
            "without it, 'evalkit run' starts and shows runs"
        ) from problem
    return RunScreen()


class Pages:
    """Shows one run, and its samples as they are asked for; reading is done by the worker."""

    def __init__(self, view: Any) -> None:
        self.view, self.worker = view, Worker()
        self._samples: Samples | None = None
        self._query = SampleQuery()

    def show(self, run: Run) -> None:
        """Draw a run; its samples follow when they are read."""
        samples = self._samples = Samples(run)
        self._query = SampleQuery()
        self.view.sample = {}
        self.view.page = {}
        self.view.run = run_payload(run)
        if run.status == "succeeded":
            self.worker.do("page", lambda: self._told(lambda: self._first(samples)))

    def clear(self) -> None:
        """Show no run."""
        self._samples = None
        self.view.run, self.view.page, self.view.sample = {}, {}, {}

    def ask(self, said: Mapping[str, Any]) -> None:
        """Show the rows that the view asks for."""
        self._query = SampleQuery.of(said["query"])
        self.worker.do("page", lambda: self._told(self._page))

    def select(self, said: Mapping[str, Any]) -> None:
        """Show one sample in full."""
        task, number = str(said["task"]), int(said["number"])
        self.worker.do("sample", lambda: self._told(lambda: self._sample(task, number)))

    def still(self) -> str:
        """The run that is shown, as HTML without a script; blank where none is."""
        return "" if self._samples is None else run_still(self._samples.run, self._samples)

    def wait(self, timeout_s: float = 30.0) -> bool:
        """Wait until all that was asked for is shown; whether that came in time."""
        return self.worker.wait(timeout_s)

    def _first(self, samples: Samples) -> None:
        tasks = samples.tasks()
        if tasks:
            self._query = replace(self._query, task=tasks[0])
            self._page()

    def _page(self) -> None:
        samples = self._samples
        if samples is not None:
            query, tasks = self._query, samples.tasks()
            self.view.page = samples.page(query) | {"tasks": tasks, "query": asdict(query)}

    def _sample(self, task: str, number: int) -> None:
        if self._samples is not None:
            self.view.sample = self._samples.sample(task, number)

    def _told(self, job: Callable[[], None]) -> None:
        try:
            job()
        except InputError as problem:
            self.view.page = {"said": f"no samples are shown: {problem}"}
        except (EvalkitError, LookupError, TypeError, ValueError) as problem:
            self.view.alert = f"{type(problem).__name__}: {problem}"


class RunView:
    """Look at a run: scores with coverage and spread, the judges that were used, each sample with their reasons.

    Parameters
    ----------
    run
        As `Runner.start` returns it. Samples are shown where its output lies on this machine.

    Raises
    ------
    MissingExtraError
        Without ipywidgets and anywidget: they are in the extra ``notebook``.

    Examples
    --------
    >>> import tempfile
    >>> from evalkit.runs import Registry, Runner
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     registry = Registry.open(f"{folder}/registry.sqlite")
    ...     pack = registry.apply_pack({"pack": "smoke", "version": 1, "tasks": [{"task": "tool_use"}]})
    ...     print(RunView(Runner(registry).queue("smoke", "gpt2")).run.status)
    ...     registry.close()
    queued
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._view = new_screen("RunView")
        self._pages = Pages(self._view)
        self._view.on_msg(self._receive)
        self._pages.show(run)

    def _receive(self, _widget: Any, content: Any, _buffers: Any) -> None:
        actions: dict[str, Callable[[Any], object]] = {
            "query": self._pages.ask,
            "select": self._pages.select,
            "dismiss": lambda _: setattr(self._view, "alert", ""),
        }
        try:
            if isinstance(content, Mapping) and content.get("do") in actions:
                actions[content["do"]](content)
        except (LookupError, TypeError, ValueError) as problem:
            self._view.alert = f"{type(problem).__name__}: {problem}"

    def __repr__(self) -> str:
        return str(self.run)

    def _repr_html_(self) -> str:
        return self._pages.still()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return with_still(self._view, self, options)


def with_still(view: Any, shown: Any, options: Mapping[str, Any]) -> Any:
    """The widget's mime bundle, with the plain HTML and text for where no widget can be drawn."""
    made = view._repr_mimebundle_(**options)
    data, metadata = made if isinstance(made, tuple) else (made or {}, {})
    return {**data, "text/html": shown._repr_html_(), "text/plain": repr(shown)}, metadata
