"""`RubricTuner`: the session on screen, and what a person does there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.errors import EvalkitError, MissingExtraError
from evalkit.evaluation import Evaluation
from evalkit.judging import Plan
from evalkit.rubrics import Rubric
from evalkit.widgets import stills
from evalkit.widgets.drafts import from_form, from_yaml
from evalkit.widgets.payloads import board_of, draft_of, item_of, jury_of, page_payload, unscored_of
from evalkit.widgets.rows import Query
from evalkit.widgets.sessions import Session
from evalkit.widgets.snippets import code_of
from evalkit.widgets.workers import Worker

__all__ = ["RubricTuner"]

_TABLES = {"judgments", "votes", "scores", "rubric_scores", "summary", "disagreement", "reliability", "cost"}
_TABLES |= {"alignment", "wide"}


class RubricTuner:
    """Tune a rubric by hand and eye: edit it, run, see what changed, look at the items, label, save.

    In a notebook it draws itself when it is the last line of a cell. Everything that is on screen can be had as a table
    too (`judgments`, `votes`, `scores` …), and everything that is done there by a call. What was run, labelled and
    drafted is kept in two files (see `folder`), so that the same cell goes on where it was after a restart.

    Parameters
    ----------
    items, rubric, judges, samples, template, item_id
        As for `judge`; `items` may be the path of a file too.
    labels
        Human labels: the long table of `labels`, or a mapping criterion -> item columns. 60 % of the items are
        shown (``dev``), the others held out, from 50 labelled items of a criterion on.
    aggregate
        How votes become scores (see `aggregate`).
    folder, name
        Where ``<name>.tuner.json`` and ``<name>.labels.jsonl`` lie: beside a file of items, else in the working folder.
    annotator
        The name under which labels are given.
    cache, budget_usd
        As for `judge`.
    **options
        What else `judge` takes: ``concurrency``, ``retries``, ``requests_per_minute`` …

    Raises
    ------
    MissingExtraError
        Without ipywidgets and anywidget: they are in the extra ``notebook``.
    InputError, RubricError, ConfigError, CacheError
        For what cannot be judged, and files that cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from evalkit import load_example
    >>> items, labels = load_example("facts")
    >>> tuner = RubricTuner(items, "correctness", ["fake:strict", "fake:lenient"], labels, folder=tempfile.mkdtemp())
    >>> tuner.run()
    >>> tuner.edit("correctness", scale={1: "mostly right"})
    >>> tuner.run()
    >>> len(tuner.versions), tuner.rubric.edited, len(tuner.scores)
    (2, True, 20)
    """

    def __init__(self, items: Any, rubric: Any, judges: Any = None, labels: Any = None, **options: Any) -> None:
        try:
            from evalkit.widgets.views import View
        except ImportError as problem:
            raise MissingExtraError(
                "RubricTuner needs ipywidgets and anywidget: install evalkit with the extra notebook "
                "(pip install 'evalkit[notebook]'); without it, evaluate and compare give the same figures"
            ) from problem
        self.session = Session(items, rubric, judges, labels=labels, **options)
        self._worker = Worker()
        self._revision = 0
        self._view = View()
        self._view.on_msg(self._receive)
        self._status(text="")
        self._show("draft", "jury", "board", "page")
        if self.session.current:
            self._do("restore", self._return)
        self._plan()

    # -- for those who type
    @property
    def rubric(self) -> Rubric:
        """The rubric as it is edited."""
        return self.session.draft

    @property
    def evaluation(self) -> Evaluation | None:
        """What is shown, with the dev labels; None before the first run."""
        shown, dev = self.session.evaluation, self.session.book.dev
        return shown if shown is None or dev.empty else replace(shown, labels=dev.drop(columns="part"))

    @property
    def versions(self) -> pd.DataFrame:
        """The versions that were run: `key`, `label`, `judges`, `samples`, `aggregate`, `at` (UTC)."""
        rows = [
            (key, one.label, ", ".join(judge.name for judge in one.judges), one.samples, one.aggregate, one.at)
            for key, one in self.session.history.versions.items()
        ]
        return pd.DataFrame(rows, columns=["key", "label", "judges", "samples", "aggregate", "at"])

    @property
    def labels(self) -> pd.DataFrame:
        """All labels, those given here included, with their `part`."""
        return self.session.book.table

    def __getattr__(self, name: str) -> Any:
        if name not in _TABLES:
            raise AttributeError(f"RubricTuner has no attribute {name!r}")
        evaluation = self.evaluation if name in ("alignment", "wide") else self.session.evaluation
        if evaluation is None:
            raise AttributeError(f"nothing was judged yet: {name!r} is there after a run")
        return getattr(evaluation, name)

    def plan(self) -> Plan:
        """What a run would take now."""
        return self.session.plan()

    def edit(self, criterion: str | None = None, **changes: Any) -> None:
        """Change the draft, as `Rubric.edit` does; RubricError for what is no rubric."""
        made = self.session.draft.edit(criterion, **changes)
        self.session.propose(lambda _base, _draft: made)
        self._redraw()

    def run(self) -> None:
        """Judge what the draft changed, and wait for it; raises what `judge` raises."""
        self.session.run(self._progress)
        self._shown("")

    def label(self, item_id: str, label: Any, *, criterion: str | None = None) -> None:
        """Give or correct a label in the annotator's name; None takes it back."""
        self.session.label(item_id, None if label is None else str(label), criterion=criterion)
        self._show("board", "page", "item")

    def save(self, folder: str | Path | None = None) -> Rubric:
        """Save the draft as the next version of its id (see `save`)."""
        saved = self.session.save(folder)
        self._redraw()
        self._show("board", "page")
        return saved

    def code(self, items: str = "items") -> str:
        """Python that gives what is on screen without the tuner."""
        return code_of(self.session, items)

    # -- on screen
    def __repr__(self) -> str:
        return stills.text(self.session)

    def _repr_html_(self) -> str:
        return stills.page(self.session)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        made = self._view._repr_mimebundle_(**options)
        data, metadata = made if isinstance(made, tuple) else (made or {}, {})
        return {**data, "text/html": self._repr_html_(), "text/plain": repr(self)}, metadata

    def _show(self, *names: str) -> None:
        session, view = self.session, self._view
        with session.lock:
            if "draft" in names:
                view.draft = draft_of(session, self._revision)
            if "jury" in names:
                view.jury = jury_of(session)
            if "board" in names:
                view.board = board_of(session)
            if "page" in names:
                view.page = page_payload(session)
            if "item" in names:
                view.item = item_of(session)

    def _redraw(self) -> None:
        """The draft was changed from elsewhere: its fields are drawn anew."""
        self._revision += 1
        self._show("draft")
        self._plan()

    def _status(self, **values: Any) -> None:
        plan = self._view.status.get("plan", "")
        self._view.status = {"running": False, "done": 0, "total": 0, "text": "", "plan": plan, **values}

    def _alert(self, text: str) -> None:
        self._view.alert = text

    def _progress(self, progress: Any) -> None:
        failed = f", {progress.n_failed} failed" if progress.n_failed else ""
        paid = f", US$ {progress.cost_usd:.4f}" if progress.cost_usd else ""
        ending = "stopping: waiting for what is in flight; " if progress.stopped else ""
        text = f"{ending}{progress.done} of {progress.total} replies{failed}{paid}"
        self._status(running=True, done=progress.done + progress.n_failed, total=progress.total, text=text)

    # -- what a person does
    def _receive(self, _widget: Any, content: Any, _buffers: Any) -> None:
        self._safely(lambda: self._act(content))

    def _safely(self, job: Callable[[], object]) -> None:
        try:
            job()
        except EvalkitError as problem:
            self._alert(str(problem))
            self._status()
        except Exception as problem:  # noqa: BLE001  # a callback's or thread's traceback is seen by nobody
            self._alert(f"{type(problem).__name__}: {problem}")
            self._status()

    def _do(self, name: str, job: Callable[[], object]) -> None:
        self._worker.do(name, lambda: self._safely(job))

    def _act(self, content: Any) -> None:
        actions: dict[str, Callable[[Any], object]] = {
            "form": lambda said: self._draft(lambda base, draft: from_form(base, draft, said["form"])),
            "yaml": self._yaml,
            "run": lambda _: self._start(),
            "stop": lambda _: self.session.stop(),
            "jury": self._jury,
            "judge": self._judge,
            "criterion": self._criterion,
            "query": self._query,
            "select": self._select,
            "label": self._label,
            "annotator": self._annotator,
            "versions": lambda said: self._do("versions", lambda: self._versions(said)),
            "take": self._take,
            "save": lambda _: self._do("save", self._save),
            "held_out": lambda _: self._do("held_out", self._held_out),
            "code": lambda _: setattr(self._view, "code", self.code()),
            "dismiss": lambda _: self._alert(""),
        }
        if isinstance(content, Mapping) and content.get("do") in actions:
            actions[content["do"]](content)

    def _draft(self, make: Callable[[Rubric, Rubric], Rubric]) -> None:
        self.session.propose(make)
        self._show("draft")
        self._plan()

    def _yaml(self, said: Mapping[str, Any]) -> None:
        self.session.propose(lambda base, _draft: from_yaml(base, said["text"]))
        self._show("draft")
        self._plan()

    def _plan(self) -> None:
        self._do("plan", self._tell_plan)

    def _tell_plan(self) -> None:
        if not self.session.problem:
            head = str(self.session.plan()).splitlines()[0]
            self._view.status = {**self._view.status, "plan": head}

    def _start(self) -> None:
        self.session.proposal()  # a fault is told before anything is shown as running
        self.session.begin()
        self._alert("")
        self._status(running=True, text="looking up what is cached …")
        self._do("run", lambda: self._shown(self.session.run(self._progress)))

    def _shown(self, said: str) -> None:
        self._show("page", "board", "item")
        self._status(text=said or "done: everything was cached")
        self._tell_unscored()
        self._plan()

    def _tell_unscored(self) -> None:
        evaluation = self.session.evaluation
        self._alert("" if evaluation is None else "\n".join(unscored_of(evaluation.judgments)))

    def _return(self) -> None:
        session = self.session
        session.choose(session.current, session.against)
        self._show("page", "board")
        self._tell_unscored()

    def _jury(self, said: Mapping[str, Any]) -> None:
        weights = {name: float(weight) for name, weight in said["active"].items()}
        budget = said.get("budget_usd")
        self.session.set_jury(weights, int(said["samples"]), said["aggregate"])
        self.session.budget_usd = None if budget in (None, "") else float(budget)
        self._show("jury")
        self._plan()

    def _judge(self, said: Mapping[str, Any]) -> None:
        self.session.add_judge(said["judge"])
        self._alert("")
        self._show("jury")
        self._plan()

    def _criterion(self, said: Mapping[str, Any]) -> None:
        self.session.criterion = said["name"]
        self.session.held_out = {}
        self.session.query = Query()
        self._show("page", "item", "board")

    def _query(self, said: Mapping[str, Any]) -> None:
        self.session.query = Query.of(said["query"])
        self._show("page")

    def _select(self, said: Mapping[str, Any]) -> None:
        self.session.selected = str(said["item_id"])
        self._show("item")

    def _label(self, said: Mapping[str, Any]) -> None:
        self.session.label(str(said["item_id"]), said["label"])
        self._show("page", "item")
        self._do("board", lambda: self._show("board"))

    def _annotator(self, said: Mapping[str, Any]) -> None:
        self.session.annotator = str(said["name"]).strip() or self.session.annotator
        self.session.keep()
        self._show("item", "board")

    def _versions(self, said: Mapping[str, Any]) -> None:
        self.session.choose(said["current"], said.get("against", ""))
        self._show("page", "board", "item")
        self._tell_unscored()

    def _take(self, said: Mapping[str, Any]) -> None:
        self.session.take_up(said["key"])
        self._redraw()

    def _save(self) -> None:
        saved = self.save()
        self._status(text=f"saved as {saved.id}@{saved.version}")

    def _held_out(self) -> None:
        self.session.look_held_out()
        self._show("board")
