"""`RunView`: a run on screen, its scores, its judges, and its samples with the judges' explanations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from evalkit.errors import InputError
from evalkit.notebook.run_html import run_page
from evalkit.notebook.run_payload import run_payload
from evalkit.notebook.run_samples import SampleQuery, Samples
from evalkit.notebook.widget_base import NotebookWidget, Worker, new_widget
from evalkit.runs import Run

__all__ = ["RunPanel", "RunView"]


class RunPanel(NotebookWidget):
    """Shows one run, and its samples page by page; a worker of its own reads them."""

    def __init__(self, owner: str) -> None:
        super().__init__(new_widget("RunWidget", owner, "'evalkit run' starts and shows runs"))
        self._reader = Worker()
        self._samples: Samples | None = None
        self._query = SampleQuery()

    def wait_idle(self, timeout_s: float = 60.0) -> bool:
        """Wait until nothing runs in the background; False when the time was too short."""
        return super().wait_idle(timeout_s) and self._reader.wait(timeout_s)

    def _show_run(self, run: Run) -> None:
        """Draw a run; its samples follow when they are read."""
        samples = self._samples = Samples(run)
        self._query = SampleQuery()
        self.widget.sample = {}
        self.widget.page = {}
        self.widget.run = run_payload(run)
        if run.status == "succeeded":
            self._read("page", lambda: self._draw_first_page(samples))

    def _clear_run(self) -> None:
        self._samples = None
        self.widget.run, self.widget.page, self.widget.sample = {}, {}, {}

    def _run_html(self) -> str:
        """The run shown as static HTML; blank where none is."""
        return "" if self._samples is None else run_page(self._samples.run, self._samples)

    def _actions(self) -> dict[str, Callable[[Any], object]]:
        return super()._actions() | {"query": self._set_query, "select": self._select}

    def _set_query(self, message: Mapping[str, Any]) -> None:
        self._query = SampleQuery.of(message["query"])
        self._read("page", self._draw_page)

    def _select(self, message: Mapping[str, Any]) -> None:
        task, number = str(message["task"]), int(message["number"])
        self._read("sample", lambda: self._draw_sample(task, number))

    def _draw_first_page(self, samples: Samples) -> None:
        tasks = samples.tasks()
        if tasks:
            self._query = replace(self._query, task=tasks[0])
            self._draw_page()

    def _draw_page(self) -> None:
        samples = self._samples
        if samples is not None:
            query, tasks = self._query, samples.tasks()
            self.widget.page = samples.page(query) | {"tasks": tasks, "query": asdict(query)}

    def _draw_sample(self, task: str, number: int) -> None:
        if self._samples is not None:
            self.widget.sample = self._samples.sample(task, number)

    def _read(self, name: str, job: Callable[[], None]) -> None:
        def read() -> None:
            try:
                job()
            except InputError as problem:
                self.widget.page = {"problem": f"no samples are shown: {problem}"}

        self._reader.do(name, lambda: self._safely(read))


class RunView(RunPanel):
    """Look at a run: scores with coverage and spread, the judges that were used, each sample with their explanations.

    Parameters
    ----------
    run
        As `Runner.start` returns it. Samples are shown where its output is on this machine.

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
        super().__init__("RunView")
        self.run = run
        self._show_run(run)

    def __repr__(self) -> str:
        return str(self.run)

    def _repr_html_(self) -> str:
        return self._run_html()
