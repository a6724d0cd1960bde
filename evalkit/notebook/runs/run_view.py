"""`RunView`: a run on screen, its scores, its judges, and its samples with the judges' explanations."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.formatting import figure, html_page, html_table
from evalkit.errors import InputError, counted
from evalkit.lighteval.result_tables import details_table, judgments_table
from evalkit.notebook.widget_base import NotebookWidget, new_widget
from evalkit.runs import Run
from evalkit.runs.contract.lighteval_output import LightevalArtifacts
from evalkit.runs.run.run_display import run_facts, run_tables, run_title, run_without
from evalkit.tables.messages import value_text

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
    if run.status == "running":
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


PAGE = 25

_ITEM = ("question", "answer", "context", "reference", "conversation")
_SHOWN_CHARACTERS = 160
_MOST_COLUMNS = 6
_TEXTS = ("_explanation", "_error", "_feedback", "_note")


@dataclass(frozen=True, slots=True)
class SampleQuery:
    """Which samples are shown.

    Attributes
    ----------
    task
        ``name|0``.
    search
        Text to find in question, answer or id; case does not matter.
    order
        ``review``: unscored and lowest first; or ``file``: as in the file.
    page
        From 0.
    """

    task: str = ""
    search: str = ""
    order: str = "review"
    page: int = 0


class Samples:
    """The samples of one run, by task.

    Parameters
    ----------
    run
        A run with its output on this machine.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._tables: dict[str, tuple[pd.DataFrame, pd.DataFrame]] = {}

    def tasks(self) -> list[str]:
        """The tasks with samples, in the order of the pack; empty if the run has no output on this machine.

        Raises
        ------
        InputError
            When its results cannot be read.
        """
        names = [name for name in LightevalArtifacts.at(self.run.output).results if "_average|" not in name]
        ranks = {one.task: rank for rank, one in enumerate(self.run.tasks)}
        return sorted(names, key=lambda name: ranks.get(name, len(ranks)))  # tasks of groups come last

    def page(self, query: SampleQuery) -> dict[str, Any]:
        """One page of rows, as plain values: `columns`, `rows` (`number`, `id`, `text`, `figures`, `error`), counts.

        Raises
        ------
        InputError
            When details are missing or cannot be read.
        """
        table = self._table(query.task)[0]
        names = _figures(self.run, query.task, table)
        rows = table[_matches(table, query.search)]
        if query.order == "review" and names:
            lead = pd.to_numeric(rows[names[0]], errors="coerce")
            # stable: equal figures stay in the order of the file
            rows = rows.loc[lead.sort_values(kind="stable", na_position="first").index]
        n_pages = max(1, math.ceil(len(rows) / PAGE))
        page = min(max(0, query.page), n_pages - 1)
        shown = [_row(number, row, names) for number, row in rows.iloc[page * PAGE : (page + 1) * PAGE].iterrows()]
        sizes = {"n": len(rows), "n_all": len(table), "page": page, "n_pages": n_pages}
        return {"columns": [name.removesuffix("_norm") for name in names], "rows": shown, **sizes}

    def sample(self, task: str, number: int) -> dict[str, Any]:
        """One sample in full: `inputs` (name, text), `figures` (name, value), `judges` with their samples."""
        table, judgments = self._table(task)
        row = table.loc[number]
        mine = judgments[judgments["item_id"].astype(str) == f"{task}/{row['item_id']}"]
        texts = {str(name): text for name, value in row.items() if (text := value_text(value, str(name)))}
        # explanations are shown with their judges, if those are known
        suffixes = tuple(suffix for suffix in _TEXTS if mine.empty or suffix != "_explanation")
        leads = _figures(self.run, task, table)
        others = sorted(set(_plain_figures(table)) - set(leads))
        return {
            "task": task,
            "number": int(number),
            "id": str(row["item_id"]),
            "inputs": [[name, texts[name]] for name in _ITEM if name in texts],
            "figures": [[name, _value(row[name])] for name in [*leads, *others]],
            "texts": [[name, text] for name, text in texts.items() if name.endswith(suffixes)],
            "judges": [_judge(key, rows) for key, rows in mine.groupby(["criterion", "judge"], observed=True)],
        }

    def _table(self, task: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        if task not in self._tables:
            details = LightevalArtifacts.at(self.run.output).details(task)
            receipts = self.run.receipts
            self._tables[task] = (details_table(task, details, receipts), judgments_table(task, details, receipts))
        return self._tables[task]


def _matches(table: pd.DataFrame, search: str) -> pd.Series:
    if not search:
        return pd.Series(data=True, index=table.index)
    texts = table[["question", "answer", "item_id"]].astype(object).map(value_text).agg("\n".join, axis="columns")
    return texts.str.casefold().str.contains(search.casefold(), regex=False)


def _figures(run: Run, task: str, table: pd.DataFrame) -> list[str]:
    """The columns of the run's metrics, the primary one first."""
    metrics = [one.metric for one in run.scores if one.task == task]
    metrics.sort(key=lambda name: name != run.primary_metric)
    plain, names = _plain_figures(table), []
    for metric in metrics:
        # of a judged metric the 0-1 score: the column of the metric's own name is in rubric units
        lead = f"{metric}_norm" if f"{metric}_norm" in plain else metric
        names += [name for name in (lead, f"{metric}_verdict", f"{metric}_disagreement") if name in plain]
    return list(dict.fromkeys(names))[:_MOST_COLUMNS]


def _plain_figures(table: pd.DataFrame) -> list[str]:
    """The columns that hold figures or verdicts of the whole sample."""
    names = [str(name) for name in table.columns if name not in ("task", "item_id", *_ITEM)]
    return [name for name in names if all(isinstance(value, (Real, np.bool_)) for value in table[name].dropna())]


def _row(number: Any, row: pd.Series, names: list[str]) -> dict[str, Any]:
    errors = filter(None, (value_text(row[name]) for name in row.index if str(name).endswith("_error")))
    text = f"{value_text(row['question'])} → {value_text(row['answer']) or '(empty answer)'}"
    head = {"number": int(number), "id": str(row["item_id"]), "text": text[:_SHOWN_CHARACTERS]}
    return {**head, "figures": [_value(row[name]) for name in names], "error": next(errors, "")}


def _judge(key: Any, rows: pd.DataFrame) -> dict[str, Any]:
    scores = pd.to_numeric(rows["score"], errors="coerce").dropna()
    return {
        "criterion": str(key[0]),
        "judge": str(key[1]),
        "score": None if scores.empty else figure(float(scores.mean())),
        "scored": f"{len(scores)} of {len(rows)}",
        "samples": rows[["label", "explanation", "error"]].astype(object).map(value_text).to_dict("records"),
    }


def _value(value: Any) -> str:
    """A figure as text; a verdict in words."""
    if pd.isna(value):
        return "NA"
    if isinstance(value, (bool, np.bool_)):
        return "pass" if value else "fail"
    return f"{value:d}" if isinstance(value, Integral) else figure(float(value), digits=3)
