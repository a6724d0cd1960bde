"""What the tuner's screen shows of a session, and what each of its actions does.

It is one module since an action draws what others draw too: a run the editor, a save the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from evalkit.core.formatting import Bill
from evalkit.core.settings import Options
from evalkit.errors import ConfigError, EvalkitError, counted
from evalkit.notebook.judgments.item_table import Query
from evalkit.notebook.judgments.run_notices import alert_lines
from evalkit.notebook.tuner.code_snippets import session_code
from evalkit.notebook.tuner.decision_sentence import decision_texts, judges_without_answer, running
from evalkit.notebook.tuner.drafts import OVER, plan_line, run_price
from evalkit.notebook.tuner.judge_addresses import judge_at, server_of
from evalkit.notebook.tuner.rubric_form import from_form, from_yaml
from evalkit.notebook.tuner.tuner_payload import PAYLOADS
from evalkit.notebook.tuner.tuning_session import Session
from evalkit.notebook.widget_base import Jobs
from evalkit.rubrics import Rubric
from evalkit.rubrics.files import file_versions, save_folder
from evalkit.rubrics.rubrics_by_name import is_found

_PAID_ACTIONS = ("run", "part", "again", "suggest", "try", "measure")


class TunerController:
    """Draws a session on screen, and does what the user asks for there.

    No callback of the kernel waits: long jobs run in the background, one after another.
    """

    def __init__(self, session: Session, widget: Any, jobs: Jobs) -> None:
        self.session, self.widget, self._jobs = session, widget, jobs
        jobs.failed = self._failed
        self._revision, self._running = 0, False
        self._may_overwrite: object = None
        self._part = list[str]()  # the items that a run can judge within the limit
        self._draft_message: Mapping[str, Any] = {}
        self._jury_message = self._queue_message = ""
        self._status(text="")
        if session.drafts.typed:
            self._edit(session.drafts.typed)
        self.draw("draft", "jury", "figures", "page", "suggestions", "notices")
        if session.runs.current:
            self._jobs.do("restore", self._restore)
            for key in session.runs.shown_versions:
                self._jobs.do(f"load {key}", partial(self._load, key), "samples")
        self._sum_up()

    # -- drawing
    def draw(self, *names: str) -> None:
        """Redraw these parts of the screen."""
        messages: dict[str, tuple[Any, ...]] = {"draft": (self._revision, self._draft_message)}
        messages |= {"jury": (self._jury_message,), "queue": (self._queue_message,)}
        with self.session.history.lock:
            if self.session.labels.log.read() and not self.session.labels.queue.is_open:  # others have labelled
                self._jobs.do("figures", lambda: self.draw("page", "item", "figures"))
            for name in names:
                setattr(self.widget, name, PAYLOADS[name](self.session, *messages.get(name, ())))
            if "figures" in names:
                session, criterion = self.session, self.session.shown_criterion
                about = session.runs.against, session.runs.current, criterion
                self.widget.price = session.repeats.price(criterion) if about in session.repeats.prices else ""
                self.plan_tries()

    def _restore(self) -> None:
        """Draw the two versions of the last session, unless a cell has run others meanwhile."""
        runs, history = self.session.runs, self.session.history
        for key in filter(None, (runs.current, runs.against)):
            runs.load(key)
        with history.lock:
            history.save()  # what the cell names now
        self._draw_versions()

    def _load(self, key: str) -> None:
        """Draw the point of a version of an earlier session; one whose replies are gone has none."""
        with suppress(EvalkitError):
            self.session.runs.load(key)
            self.draw("figures")

    def redraw_draft(self) -> None:
        """Redraw the fields of the rubric, which was changed elsewhere."""
        with self.session.history.lock:
            self._revision += 1
            self._draft_message = {"id": self._draft_message.get("id", "")}
            self.draw("draft")
        self._plan()

    def _status(self, **values: Any) -> None:
        with self.session.history.lock:  # kernel and worker both report
            last_values = {name: self.widget.status.get(name, "") for name in ("plan", "button", "part", "paid")}
            self.widget.status = {"running": False, "done": 0, "total": 0, "text": "", **last_values, **values}

    def _failed(self) -> None:
        if not self._running and not self.session.runs.busy:
            self._status()

    def show_progress(self, progress: Any) -> None:
        """Show how far a run is."""
        failed = f", {progress.n_failed:,} failed" if progress.n_failed else ""
        bill = Bill(progress.cost_usd, progress.done, progress.n_unpriced)
        paid = f", {bill}" if progress.cost_usd or progress.n_unpriced else ""
        stopping = "stopping: waiting for calls in flight; " if progress.stopped else ""
        of_all = f"{progress.done:,} of {progress.total:,} {'reply' if progress.total == 1 else 'replies'}"
        text = f"{stopping}{of_all}{failed}{paid}"
        done, version = progress.done + progress.n_failed, self.session.history.versions.get(self.session.runs.current)
        decision = decision_texts(running(progress.done, progress.total, "" if version is None else version.name))
        self._status(running=True, done=done, total=progress.total, text=text, decision=decision)

    def show_run(self, run: Callable[[], str], *more: str) -> None:
        """Run what a call starts, draw its result and report its end, also that of one that fails or is interrupted."""
        text = ""
        try:
            text = self._draw_run(run(), *more)
        finally:
            if not self._running:  # else a run that was started on screen meanwhile goes on
                self._status(text=text)
            self._sum_up()

    def _draw_run(self, text: str, *more: str) -> str:
        self.session.drop_empty_cell()
        self.draw("draft", "figures", "page", "item", "queue", *more)
        self._alert_unscored()
        return text or "done: all replies came from the cache"

    def _alert_unscored(self) -> None:
        evaluation, runs, silent = self.session.evaluation, self.session.runs, judges_without_answer(self.session)
        if evaluation is not None:
            others = evaluation.judgments[~evaluation.judgments["judge"].isin(silent).to_numpy()]
            self._jobs.alert("\n".join(alert_lines(others, runs.problems.get(runs.current, {}))))
        self.draw("notices")

    def _plan(self) -> None:
        self._jobs.do("plan", self._show_plan)

    def _sum_up(self) -> None:
        """Plan the next run, and say what was paid so far."""
        self._plan()
        self._jobs.do("paid", self._show_paid, "samples")

    def plan_tries(self) -> None:
        """Plan what *Measure chance*, *Try* and *Suggest edits* cost, and show it."""

        def show() -> None:
            if self.widget.figures["measure"]:
                price = self.session.repeats.price(self.session.shown_criterion)
                with self.session.history.lock:
                    self.widget.price = price
            self.session.runs.plan_again()
            self.draw("notices")  # what follows takes longer
            self.session.suggestions.plan(self.session.shown_criterion)
            self.draw("suggestions")

        self._jobs.do("tries", show, "plan")

    def _show_paid(self) -> None:
        paid = self.session.paid()
        with self.session.history.lock:
            self.widget.status = {**self.widget.status, "paid": paid}

    def _show_plan(self) -> None:
        if not self.session.drafts.problem:
            # if planning fails, no plan is shown instead of the last one
            status = {"plan": "", "button": "", "part": ""}
            try:
                plan, left_usd = self.session.drafts.plan(), self.session.drafts.left_usd
                status |= {"plan": plan_line(plan, left_usd), "button": run_price(plan, left_usd)}
            finally:
                self.draw("notices")
                with self.session.history.lock:
                    self.widget.status = {**self.widget.status, **status}
                if OVER in status["button"]:
                    self._jobs.do("part", self._show_part, "plan")
                self.plan_tries()

    def _show_part(self) -> None:
        with suppress(EvalkitError):  # of a draft that was changed meanwhile, and is planned next
            self._part, price = self.session.runs.fitting()
            text = price and f"Run {counted(len(self._part), 'item')}: {price}"
            with self.session.history.lock:
                self.widget.status = {**self.widget.status, "part": text * (OVER in self.widget.status["button"])}

    # -- actions
    def actions(self) -> dict[str, Callable[[Any], object]]:
        """Name of an action -> the function that takes its message."""
        return {
            "form": self._edit,
            "yaml": self._edit,
            "run": lambda _: self._start_run(),
            "part": lambda _: self._start_run(self._part),
            "again": lambda _: self._start_run(refresh="unscored"),
            "stop": lambda _: self.session.runs.stop(),
            "measure": lambda _: self._start_judging(
                partial(self.session.repeats.measure, self.show_progress, self.session.shown_criterion)
            ),
            "undo_edit": lambda _: self._undo_edit(),
            "redo_edit": lambda _: self._undo_edit(redo=True),
            "note": self._set_note,
            "jury": self._set_jury,
            "judge": self._add_judge,
            "criterion": self._choose_criterion,
            "query": self._query,
            "select": self._select,
            "label": self._label,
            "queue": self._set_queue,
            "label_next": partial(self._label_queued, self.session.label_next, "item_id criterion label"),
            "skip_item": partial(self._label_queued, self.session.skip_item, "item_id criterion"),
            "undo_label": partial(self._label_queued, self.session.undo_label, ""),
            "annotator": self._set_annotator,
            "count_labels": self._count_labels,
            "versions": lambda message: self._jobs.do(
                "versions", lambda: self._show_versions(message["current"], message.get("against", ""))
            ),
            "take": self._edit_version,
            "save": lambda _: self._jobs.do("save", self.save),
            "freeze": lambda _: self._jobs.do("freeze", self._freeze),
            "held_out": lambda message: self._jobs.do("held_out", lambda: self._look_held_out(message)),
            "suggest": self._start_suggesting,
            "try": self._start_trying,
            "code": lambda _: setattr(self.widget, "code", session_code(self.session)),
        }

    def takes(self, message: Any) -> bool:
        """Whether a message is for now: a second click on what is paid does not pay twice."""
        return not (isinstance(message, Mapping) and message.get("do") in _PAID_ACTIONS and self._running)

    def _start(self, name: str, text: str, job: Callable[[], str]) -> None:
        """Start a job that Stop ends; it returns the text to show at its end."""
        self.session.runs.begin_run()
        self._jobs.alert("")
        self._status(running=True, text=text)
        self._running = True

        def finish() -> None:
            text = None
            try:
                text = job()
            finally:
                # a click as soon as the buttons are on again counts, and is reported later
                with self.session.history.lock:
                    self.session.runs.end_run()
                    self._running = False
                    if text is not None:
                        self._status(text=text)
                self._sum_up()

        self._jobs.do(name, finish)

    def _start_run(self, item_ids: list[str] | None = None, **changed: Any) -> None:
        """Run the draft, on all items or on some; with `refresh`, ask again for replies of the version shown."""
        history, runs = self.session.history, self.session.runs
        # an error appears before anything is shown as running
        version = history.versions[runs.current] if changed else self.session.drafts.next_version()
        log_later = partial(self._jobs.do, f"log {version.key}")
        self._start_judging(lambda: self.session.run(self.show_progress, version, log_later, item_ids, **changed))

    def _start_trying(self, message: Mapping[str, Any]) -> None:
        number = int(message["number"])
        self._start_judging(lambda: self.session.suggestions.try_edit(number, self.show_progress), "suggestions")

    def _start_judging(self, run: Callable[[], str], *more: str) -> None:
        self._start("run", "reading the cache …", lambda: self._draw_run(run(), *more))

    def _start_suggesting(self, message: Mapping[str, Any]) -> None:
        name, pool, suggestions = str(message["judge"]).strip(), self.session.drafts.pool, self.session.suggestions
        judge = next((judge for judge in pool if judge.name == name), None) or judge_at(name, pool)
        where = server_of(judge)

        def suggest() -> str:
            suggestions.suggest(judge, self.session.shown_criterion)
            self.draw("suggestions")
            return suggestions.edits.head

        self._start("suggest", f"waiting for {name}{where and f' at {where}'} to suggest edits …", suggest)

    def _edit(self, message: Mapping[str, Any]) -> None:
        def make(base: Rubric, draft: Rubric) -> Rubric:
            return from_form(base, draft, message["form"]) if "form" in message else from_yaml(base, message["text"])

        with self.session.history.lock:  # the worker may save meanwhile
            self.session.drafts.edit(make, str(message.get("step", "")), message)
            self._draft_message = message
            self.draw("draft")
        if not self.session.drafts.problem:
            self._jobs.forget_error("run")
        self._plan()

    def _undo_edit(self, *, redo: bool = False) -> None:
        self.session.drafts.undo(redo=redo)
        self.redraw_draft()

    def _set_note(self, message: Mapping[str, Any]) -> None:
        self.session.history.set_note(message["key"], str(message["note"]))
        self.draw("figures")

    def _set_jury(self, message: Mapping[str, Any]) -> None:
        self._jury_message = str(message.get("id", ""))
        try:
            weights = {name: float(weight) for name, weight in message["active"].items()}
            typed = message.get("budget_usd")
            budget = None if typed in (None, "") else float(typed)
            Options(budget_usd=budget)  # raises for an invalid budget
            self.session.drafts.set_jury(weights, int(message["samples"]), message["aggregate"])
            self.session.drafts.budget_usd = budget
            self.session.history.save()
        finally:
            self.draw("jury", "draft")  # no field keeps a rejected value, which the next run would not use
        self._jobs.forget_error("run", "worker: run", "judge")  # for example because no judge was selected
        self._plan()

    def _add_judge(self, message: Mapping[str, Any]) -> None:
        named = judge_at(str(message["judge"]).strip(), self.session.drafts.pool, str(message.get("server") or ""))
        added = self.session.drafts.add_judge(named)
        self.session.history.save()
        self._jobs.alert("")
        if not self._running:
            where = server_of(added)
            self._status(text=f"added {added.name}{f': its calls go to {where}' if where else ''}")
        self.draw("jury", "draft", "suggestions")
        self._plan()

    def _choose_criterion(self, message: Mapping[str, Any]) -> None:
        self.session.criterion = message["name"]
        self.session.query = Query()
        self.session.history.save()
        self.draw("page", "item", "figures", "notices")

    def _query(self, message: Mapping[str, Any]) -> None:
        self.session.query = Query(**message["query"])
        self.draw("page")

    def _select(self, message: Mapping[str, Any]) -> None:
        self.session.selected = str(message["item_id"])
        self._jobs.forget_error("label")
        self.draw("item")

    def _label(self, message: Mapping[str, Any]) -> None:
        criterion = message.get("criterion")
        self.session.label(str(message["item_id"]), message["label"], criterion=criterion, source="picked")
        self.draw("page", "item")
        self._jobs.do("figures", lambda: self.draw("figures"))

    def _set_queue(self, message: Mapping[str, Any]) -> None:
        self.session.labels.queue.set(message["source"], blind=bool(message["blind"]), is_open=bool(message["open"]))
        self.draw("queue")
        if not message["open"]:  # figures that change with each label would show what the jury said
            self.draw("page", "item")
            self._jobs.do("figures", lambda: self.draw("figures"))

    def _label_queued(self, change: Callable[..., None], names: str, message: Mapping[str, Any]) -> None:
        self._queue_message = str(message.get("id", ""))
        try:
            change(*[message[name] for name in names.split()])
        finally:
            self.draw("queue")  # the screen takes no key until its last message is answered

    def _set_annotator(self, message: Mapping[str, Any]) -> None:
        self.session.labels.annotator = str(message["name"]).strip() or self.session.labels.annotator
        self._jobs.forget_error("label", "label_next")
        self.session.history.save()
        self.draw("item", "figures", "queue")

    def _count_labels(self, message: Mapping[str, Any]) -> None:
        self.session.labels.count_annotator(str(message["annotator"]), counts=bool(message["counts"]))
        self.draw("page", "item", "queue")
        self._jobs.do("figures", lambda: self.draw("figures"))

    def _show_versions(self, current: str, against: str) -> None:
        self.session.runs.show(current, against)
        self._draw_versions()

    def _draw_versions(self) -> None:
        self.session.drop_empty_cell()
        self.draw("draft", "page", "figures", "item")
        self._alert_unscored()

    def _edit_version(self, message: Mapping[str, Any]) -> None:
        self.session.drafts.edit_version(self.session.history.versions[message["key"]])
        self._jobs.forget_error("run")
        self.redraw_draft()

    def save(self, rubrics_folder: str | Path | None = None) -> Rubric:
        """Save the draft as the next version of its id (see `Rubric.save`), and report it on screen."""
        before = self.session.drafts.base
        self._jobs.forget_error("worker: freeze")
        try:
            saved = self.session.save(rubrics_folder)
        finally:
            self.redraw_draft()
            self.draw("figures", "page")
        path = file_versions(saved.id, further=[save_folder(rubrics_folder)])[int(saved.version[1:])]
        loads = f"{saved.id!r} without a version now means {saved.version} wherever evalkit looks in this folder"
        if not is_found(saved):
            rest = f"name the file, or set EVALKIT_RUBRICS={path.parents[1]}"
            loads = f"evalkit does not look for rubrics in this folder: {rest}"
        elif before.version != saved.version and is_found(before):
            loads += f"; to use the older one, name '{saved.id}@{before.version}'"
        self._status(text=f"saved as {saved.id}@{saved.version}: {path}. {loads}")
        return saved

    def _freeze(self) -> None:
        """Freeze the version shown; a file with another judge is only overwritten by a second press."""
        session, compared = self.session, (self.session.runs.current, self.session.runs.evaluation)
        try:
            path = session.freeze(overwrite=self._may_overwrite == compared)
        except ConfigError as problem:
            file, exists, _ = str(problem).partition(" already exists")
            if not exists:
                raise
            self._may_overwrite = compared
            self._status(text=f"not frozen: {file} has another judge; press Freeze again to replace it (.bak keeps it)")
            return
        self._status(text=f"frozen as {path}: a judge for ek.load_profile, evalkit ci and pytest. Nothing was asked.")

    def _look_held_out(self, message: Mapping[str, Any]) -> None:
        looks = self.session.look.get("words", {}).get("looks", "")
        if message.get("seen", looks) != looks:
            return  # a second click would count another look
        self.session.look_held_out()
        self.draw("figures")
