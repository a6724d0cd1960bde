"""`RunView`: a run on screen, its scores, its judges, and its samples with the judges' explanations."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from evalkit.core.formatting import html_page, html_table
from evalkit.errors import InputError, counted
from evalkit.notebook.runs.lighteval_run_samples import SampleQuery, Samples
from evalkit.notebook.runs.run_progress import UNFINISHED
from evalkit.notebook.widget_base import NotebookWidget, new_widget
from evalkit.runs import Run
from evalkit.runs.run.run_display import run_facts, run_tables, run_title, run_without

_HTML_TASKS, _HTML_ROWS, _HTML_REASON = 4, 5, 240


class RunPanel(NotebookWidget):
    """Shows one run, and its samples page by page; samples are read in a queue of their own."""

    def __init__(self, owner: str) -> None:
        super().__init__(new_widget("RunWidget", owner, "'evalkit run' starts and shows runs"))
        self._samples: Samples | None = None
        self._query = SampleQuery()

    def _show_run(self, run: Run) -> None:
        """Draw a run; its samples follow when they are read."""
        self._clear_run()
        self._samples = Samples(run)
        self.widget.run = run_payload(run)
        if run.status == "succeeded":
            self._read("page", self._draw_page)

    def _clear_run(self) -> None:
        self._samples, self._query = None, SampleQuery()
        self.widget.run, self.widget.page, self.widget.sample = {}, {}, {}

    def _run_html(self) -> str:
        """The run shown as static HTML; blank without a run."""
        return "" if self._samples is None else run_page(self._samples)

    def _actions(self) -> dict[str, Callable[[Any], object]]:
        return super()._actions() | {"query": self._set_query, "select": self._select}

    def _set_query(self, message: Mapping[str, Any]) -> None:
        self._query = SampleQuery(**message["query"])
        self._read("page", self._draw_page)

    def _select(self, message: Mapping[str, Any]) -> None:
        task, number = str(message["task"]), int(message["number"])
        self._read("sample", lambda: self._draw_sample(task, number))

    def _draw_page(self) -> None:
        samples = self._samples
        if samples is not None and (tasks := samples.tasks()):
            query = self._query if self._query.task else replace(self._query, task=tasks[0])
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

        self._jobs.do(name, read, queue="samples")


class RunView(RunPanel):
    """Look at a run: scores with coverage and spread, the judges that were used, each sample with their explanations.

    Parameters
    ----------
    run
        As `Runner.start` returns it. Samples are shown if its output is on this machine.

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
    ...     run = Runner(registry, folder=folder, command=["echo"]).start("smoke", "gpt2")  # in place of LightEval
    ...     print(RunView(run).run.status)
    ...     registry.close()
    failed
    """

    def __init__(self, run: Run) -> None:
        super().__init__("RunView")
        self.run = run
        self._show_run(run)

    def __repr__(self) -> str:
        return str(self.run)

    def _repr_html_(self) -> str:
        return self._run_html()


def run_payload(run: Run) -> dict[str, Any]:
    """A run as plain JSON values for the screen: the title, tables and facts that ``print(run)`` shows."""
    head = {"id": run.id, "title": run_title(run), "status": run.status, "error": run.error or ""}
    notes, facts = [*run.notes, *filter(None, [run_without(run)])], [[name, value] for name, value in run_facts(run)]
    if run.status in UNFINISHED:
        notes.append("this is the run as it was when it was read; to see it now, read it again and run the cell")
    tables = [
        {"title": title, "columns": list(dict.fromkeys(name for row in rows for name in row)), "rows": rows}
        for title, rows in run_tables(run)
    ]
    return {**head, "notes": notes, "tables": tables, "facts": facts}


def run_page(samples: Samples) -> str:
    """A run as HTML, and of each task the samples that need review first; all texts are escaped."""
    run = samples.run
    parts = list(_sample_tables(samples)) if run.status == "succeeded" else []
    return run._repr_html_() + html_page(parts)


def _sample_tables(samples: Samples) -> Iterator[str]:
    try:
        for task in samples.tasks()[:_HTML_TASKS]:
            page = samples.page(SampleQuery(task))
            rows = [_cells(samples, task, page["columns"], row) for row in page["rows"][:_HTML_ROWS]]
            if rows:
                caption = f"{task}: {len(rows)} of {counted(page['n_all'], 'sample')}, those that need review first"
                yield html_table(rows, texts=("sample", "text", "explanations"), caption=caption)
    except InputError as problem:
        yield f"<p class='note'>no samples are shown: {html.escape(str(problem))}</p>"


def _cells(samples: Samples, task: str, columns: list[str], row: Mapping[str, Any]) -> dict[str, str]:
    explanations = "; ".join(map(_explanation, samples.sample(task, row["number"])["judges"])) or row["error"]
    shown = {"explanations": explanations} if explanations else {}
    return {"sample": row["id"], "text": row["text"], **dict(zip(columns, row["figures"], strict=True)), **shown}


def _explanation(judge: Mapping[str, Any]) -> str:
    """A judge's first explanation, and how many of its samples have a score."""
    text = next((sample["explanation"] or sample["error"] for sample in judge["samples"]), "")
    score = "unscored" if judge["score"] is None else judge["score"]
    return f"{judge['judge']} {score} (scored {judge['scored']}): {text[:_HTML_REASON]}"
