"""What the tuner's screen shows of a session, and what each of its actions does.

It is one module since an action draws what others draw too: a run the editor, a save the figures.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from evalkit.core.formatting import Bill, span
from evalkit.core.settings import Options, default_cache, shown_cache
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES
from evalkit.errors import ConfigError, EvalkitError, EvalkitWarning, counted
from evalkit.evaluation.evaluation import columns_of
from evalkit.notebook.judgments.headline_numbers import RIGHT, WRONG
from evalkit.notebook.judgments.item_details import item_texts
from evalkit.notebook.judgments.item_table import Query, implied_verdict, page_texts
from evalkit.notebook.judgments.run_notices import alert_lines, notice, notices
from evalkit.notebook.tuner.code_snippets import session_code
from evalkit.notebook.tuner.decision_sentence import (
    before_run,
    decision_payload,
    decision_texts,
    judges_without_answer,
    running,
)
from evalkit.notebook.tuner.drafts import OVER, plan_line, run_price
from evalkit.notebook.tuner.exported_rows import export
from evalkit.notebook.tuner.judge_addresses import OWN, judge_at, server_of
from evalkit.notebook.tuner.rubric_form import form_of, from_form, from_yaml
from evalkit.notebook.tuner.tuning_session import Session
from evalkit.notebook.tuner.version_history import changed_words, changes_of
from evalkit.notebook.widget_base import Jobs
from evalkit.rubrics import Rubric
from evalkit.rubrics.files import file_versions, save_folder
from evalkit.rubrics.prompt_builder import list_templates
from evalkit.rubrics.rubric import REQUIREMENT
from evalkit.rubrics.rubrics_by_name import is_found
from evalkit.rubrics.scales import number

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
        self._chosen_versions = dict[str, str]()
        self._part = list[str]()  # the items that a run can judge within the limit
        self._draft_message: Mapping[str, Any] = {}
        self._jury_message = self._queue_message = ""
        self._status(text="")
        if session.drafts.typed:
            self._edit(session.drafts.typed)
        self.draw("draft", "jury", "figures", "page", "suggestions", "notices")
        if session.runs.current:
            self._jobs.do("restore", self._restore)
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
        try:
            for key in filter(None, (runs.current, runs.against)):
                runs.load(key)
            with history.lock:
                history.save()  # what the cell names now
        finally:
            self._draw_versions()
            for key in runs.shown_versions:
                if runs.known(key) is None:
                    self._jobs.do(f"load {key}", partial(self._load, key), "samples")

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
        self.draw("figures", "page", "draft", "item", "queue", *more)
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
            "versions": self._choose_versions,
            "take": self._edit_version,
            "save": lambda _: self._jobs.do("save", self.save),
            "freeze": lambda _: self._jobs.do("freeze", self._freeze),
            "export": lambda _: self._jobs.do("export", lambda: self._status(text=export(self.session))),
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

    def _choose_versions(self, message: Mapping[str, Any]) -> None:
        """Show the chosen versions; a choice that is still waiting to be shown counts with a later one."""
        runs, chosen = self.session.runs, self._chosen_versions
        waiting = {"current": runs.current, "against": runs.against} | chosen
        if "against" not in message and message["current"] == waiting["against"]:
            chosen["against"] = waiting["current"]  # no version is compared with itself
        chosen.update((name, message[name]) for name in waiting if name in message)
        self._jobs.do("versions", self._show_versions)

    def _show_versions(self) -> None:
        runs, chosen = self.session.runs, self._chosen_versions
        runs.show(chosen.pop("current", runs.current), chosen.pop("against", runs.against))
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
            with warnings.catch_warnings(record=True) as cautions:
                warnings.simplefilter("always", EvalkitWarning)
                path = session.freeze(overwrite=self._may_overwrite == compared)
        except ConfigError as problem:
            file, exists, _ = str(problem).partition(" already exists")
            if not exists:
                raise
            self._may_overwrite = compared
            self._status(text=f"not frozen: {file} has another judge; press Freeze again to replace it (.bak keeps it)")
            return
        done = f"frozen as {path}: a judge for ek.load_profile, evalkit ci and pytest. Nothing was asked."
        self._status(
            text=" ".join(
                [done, *(f"Note: {one.message}." for one in cautions if issubclass(one.category, EvalkitWarning))]
            )
        )

    def _look_held_out(self, message: Mapping[str, Any]) -> None:
        looks = self.session.look.get("words", {}).get("looks", "")
        if message.get("seen", looks) != looks:
            return  # a second click would count another look
        self.session.look_held_out()
        self.draw("figures")


def draft_payload(session: Session, revision: int, message: Mapping[str, Any]) -> dict[str, Any]:
    """The draft; the screen redraws its fields when `revision` changes.

    `message` is the last one about the draft. If it was invalid, other views show what was typed.
    """
    drafts, draft, problem = session.drafts, session.drafts.draft, session.drafts.problem
    name, findings = drafts.next_name, None if problem else draft.lint()
    return {
        "revision": revision,
        "answers": str(message.get("id", "")),
        "typed": {key: message[key] for key in ("form", "text") if key in message} if problem else {},
        "id": draft.id,
        "name": name,
        "ran": name in {version.name for version in session.history.versions.values()},
        "differs": _draft_differs(session),
        "undo": bool(drafts.edits or problem),
        "redo": bool(drafts.undone),
        "form": form_of(draft),
        "yaml": str(draft),
        "problem": problem,
        "warnings": [] if findings is None else [f"{row.where}: {row.message}" for row in findings.itertuples()],
        "templates": list_templates(),
    }


def _draft_differs(session: Session) -> str:
    """In what the draft differs from the version shown, in words; empty if in nothing, or if nothing was run."""
    shown = session.history.versions.get(session.runs.current)
    with suppress(EvalkitError):  # an invalid draft
        places = [] if shown is None else [change.where for change in changes_of(shown, session.drafts.next_version())]
        kind_of = {place: "question" if place.endswith(": description") else "setting" for place in places}
        kinds = Counter("level" if ": level " in place else kind_of[place] for place in places)
        if shown is not None and kinds:
            words = " and ".join(counted(n, kind) for kind, n in kinds.items())
            return f"{words} {'differs' if len(places) == 1 else 'differ'} from {shown.name}"
    return ""


def jury_payload(session: Session, message_id: str = "") -> dict[str, Any]:
    """Judges, samples, rule and budget; `message_id` is of the last message about them, accepted or refused."""
    drafts = session.drafts
    servers = sorted({*map(server_of, drafts.pool)} - {""})
    return {
        "answers": message_id,
        "judges": [
            {"name": judge.name, "on": judge.name in drafts.active, "weight": judge.weight, "server": server_of(judge)}
            for judge in drafts.pool
        ],
        "servers": servers and [*servers, OWN],
        "samples": drafts.samples,
        "aggregate": str(drafts.aggregate),
        "aggregates": list(dict.fromkeys([*AGGREGATE_RULES, str(drafts.aggregate)])),
        "budget_usd": drafts.budget_usd,
        "cache": shown_cache(session.setup.cache or default_cache()),
    }


def figures_payload(session: Session) -> dict[str, Any]:
    """Tiles, confusion matrix, versions, and which labels do not count."""
    labels, points = session.labels, session.points()
    versions, criterion = session.history.versions, session.shown_criterion
    current, against = session.runs.current, session.runs.against
    changes = changes_of(versions[against], versions[current]) if against and current else []
    rule, row = session.shown_rubric.criterion(criterion).scale, session.alignment(current)
    cells, labels_in_use = session.cells(), [label for row in session.rows() for label in row.counted.values()]
    beside = Counter(labels_in_use) - Counter({label: len(labels_in_use) for label in {cell.human for cell in cells}})
    return {
        "criteria": list(session.shown_rubric.names),
        "criterion": criterion,
        "agreements": {name: asdict(point) for name, point in session.criterion_agreements().items()},
        "decision": decision_payload(session),
        "right": sum(cell.n for cell in cells if cell.kind in RIGHT),
        "wrong": sum(cell.n for cell in cells if cell.kind in WRONG),
        "n_compared": 0 if row is None else int(row["n_verdicts"]),
        "n_wrong": sum(bool(row.wrong) for row in session.rows()),
        "passes": [code for code in rule.labels if implied_verdict(code, rule)],
        "tiles": [asdict(tile) for tile in session.tiles()],
        "cells": [asdict(cell) for cell in cells],
        "between": sum(n for label, n in beside.items() if number(label) is not None),  # means of people
        "split": bool(labels.log.table.loc[labels.log.table["criterion"] == criterion, "part"].eq("held-out").any()),
        "held_out": session.look.get("words", {}),
        "same": session.is_same,
        "other_texts": labels.log.n_other_texts,
        "off_scale": session.n_off_scale,
        "other_criteria": _other_criteria(session),
        "pass_prob": session.pass_prob_lines(),
        "annotator": labels.annotator,
        "newcomers": labels.log.newcomers(),
        "versions": [
            {name: getattr(version, name) for name in ("name", "note", "label", "at")}
            | {"key": key, "jury": f"{len(version.judges)} × {span(version.counts)}, {version.aggregate}"}
            | {"point": asdict(points[key]) if key in points else None}
            for key, version in versions.items()
        ],
        "current": current,
        "against": against,
        "diff": [asdict(change) for change in changes],
        "measure": session.floor_missing,
        "to_label": session.n_changed_open,
    }


def _other_criteria(session: Session) -> dict[str, int]:
    """Number of labels per criterion that the version shown does not have, for example because it was renamed."""
    if session.evaluation is None:
        return {}
    names = session.labels.log.table["criterion"].astype(str)
    counts = names[~names.isin(session.evaluation.rubric.names)].value_counts(sort=False)
    return {str(name): int(n) for name, n in counts.items()}


def page_payload(session: Session) -> dict[str, Any]:
    """One page of rows, and the query that it answers."""
    shown = session.evaluation
    about = {"n_items": len(session.items), "query": asdict(session.query), "judged": shown is not None}
    return asdict(session.page()) | about | ({} if shown is None else page_texts(shown, session.shown_criterion))


def notices_payload(session: Session) -> list[dict[str, Any]]:
    """What the version shown left open (see `notices`)."""
    restored = [notice(text) for text in session.history.notes]
    if session.evaluation is None:
        return restored
    before = before_run(session)
    what_to_do = f"{before[:1].upper()}{before[1:]}." if before else "Press Run to request the remaining {n}."
    problems = dict(session.runs.problems.get(session.runs.current, {}))
    about = session.evaluation, session.shown_criterion, what_to_do, problems
    lines = session.once("notices", about, lambda: notices(*about))
    return restored + [line | ({"again": session.runs.again} if line["filter"] else {}) for line in lines]


def queue_payload(session: Session, message_id: str = "") -> dict[str, Any]:
    """The item to label next; while labelling is blind, nothing of the jury or of other people is sent."""
    queue = session.labels.queue
    if not queue.is_open:
        return {"open": False}
    turn, rubric = session.turn(), session.shown_rubric
    criterion = rubric.criterion(session.shown_criterion)
    columns = columns_of(rubric, session.setup.data_options(rubric)["inputs"], session.items)
    blind = session.is_blind(turn)
    judges = [] if blind or turn.item_id is None else session.detail(turn.item_id)["judges"]
    questions, requirement = list[Any](), columns.pop(REQUIREMENT, "") if queue.asks_criteria else ""
    if requirement:
        texts = session.items.set_index("item_id")[requirement]
        given = session.labels.log.given_by(session.labels.annotator, queue.source)
        labels = {item: edit.label for (item, name), edit in given.items() if name == criterion.name}
        questions = [[item, str(texts[item]), labels.get(item)] for item in turn.form]
    return asdict(turn) | {
        "questions": questions,
        "open": True,
        "answers": message_id,
        "source": queue.source,
        "blind": queue.blind,
        "annotator": session.labels.annotator,
        "counts": session.labels.log.counts(session.labels.annotator, criterion.name),
        "criterion": criterion.name,
        "question": criterion.description,
        "levels": [],
        "judges": judges,
        "precision": session.precision(),
        **({} if turn.item_id is None else item_texts(session.items, columns, turn.item_id, rubric, criterion.name)),
    }


def suggestions_payload(session: Session) -> dict[str, Any]:
    """The suggested edits, and the judges that can suggest more."""
    suggested = session.suggestions.edits
    base = session.history.versions.get(suggested.base)
    return {
        "judges": [judge.name for judge in session.drafts.pool],
        "judge": suggested.judge or session.drafts.pool[0].name,
        "prices": session.suggestions.prices,
        "of": "" if base is None else base.name,
        "head": suggested.head,
        "notes": list(suggested.notes),
        "rows": [
            asdict(row.edit)
            | {"where": row.edit.where, "key": row.key, "effects": list(row.effects)}
            | {"words": changed_words(row.edit.was, row.edit.text)}
            | {"base": row.base or suggested.base, "price": session.suggestions.price(number)}
            for number, row in enumerate(suggested.rows)
        ],
    }


PAYLOADS: dict[str, Callable[..., Any]] = {
    "draft": draft_payload,
    "jury": jury_payload,
    "figures": figures_payload,
    "page": page_payload,
    "notices": notices_payload,
    "item": lambda session: session.detail(session.selected),
    "suggestions": suggestions_payload,
    "queue": queue_payload,
}
"""Part of the screen -> its content; the draft, the jury and the queue also take their last message."""
