"""The screen: what a session shows in the widget, and what a person does there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evalkit.core.formatting import Bill
from evalkit.errors import ConfigError, counted
from evalkit.notebook.code_snippets import code_of
from evalkit.notebook.item_table import Query
from evalkit.notebook.rubric_form import from_form, from_yaml
from evalkit.notebook.session import Session
from evalkit.notebook.tuner_payload import advice_of, board_of, draft_of, item_of, jury_of, page_payload, unscored_of
from evalkit.notebook.tuner_widget import View
from evalkit.notebook.widget_base import Stage
from evalkit.rubrics import Rubric

__all__ = ["Screen"]

_ASKING = ("run", "suggest", "try")


class Screen(Stage):
    """Draws a session in a view, and does what the view says that a person wants.

    Nothing waits in a callback of the kernel: what takes long is done by the worker, one thing after the other.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(View())
        self.session = session
        self._revision, self._going = 0, False
        self._said: Mapping[str, Any] = {}
        self._said_of_jury = ""
        self._status(text="")
        self.show("draft", "jury", "board", "page", "advice")
        if session.current:
            self._do("restore", self._return)
        self._plan()

    def show(self, *names: str) -> None:
        """Draw these parts anew."""
        session, view = self.session, self.view
        with session.lock:
            if "draft" in names:
                view.draft = draft_of(session, self._revision, self._said)
            if "jury" in names:
                view.jury = jury_of(session, self._said_of_jury)
            if "board" in names:
                view.board = board_of(session)
            if "page" in names:
                view.page = page_payload(session)
            if "item" in names:
                view.item = item_of(session)
            if "advice" in names:
                view.advice = advice_of(session)

    def redraw(self) -> None:
        """The draft was changed from elsewhere: its fields are drawn anew."""
        with self.session.lock:
            self._revision += 1
            self._said = {"said": self._said.get("said", "")}  # what was typed before is no more
            self.show("draft")
        self._plan()

    def _status(self, **values: Any) -> None:
        with self.session.lock:  # kernel and worker both tell
            plan = self.view.status.get("plan", "")
            self.view.status = {"running": False, "done": 0, "total": 0, "text": "", "plan": plan, **values}

    def _failed(self) -> None:
        if not self._going and not self.session.busy:
            self._status()

    def progress(self, progress: Any) -> None:
        """Say how far a run is."""
        failed = f", {progress.n_failed} failed" if progress.n_failed else ""
        bill = Bill(progress.cost_usd, progress.done, progress.n_unpriced)
        paid = f", {bill}" if progress.cost_usd or progress.n_unpriced else ""
        ending = "stopping: waiting for what is in flight; " if progress.stopped else ""
        text = f"{ending}{progress.done} of {counted(progress.total, 'reply', 'replies')}{failed}{paid}"
        self._status(running=True, done=progress.done + progress.n_failed, total=progress.total, text=text)

    # -- what a person does
    def _begun(self, name: str, job: Callable[[], str]) -> None:
        """A job that Stop is about, from the click on; it returns what to say at its end."""
        self._going = True

        def done() -> None:
            text = None
            try:
                text = job()
            finally:
                with self.session.lock:  # what is pressed as soon as the buttons are on again is heard, and told after
                    self.session.end()
                    self._going = False
                    if text is not None:
                        self._status(text=text)
            self._plan()

        self._do(name, done)

    def _act(self, content: Any) -> None:
        actions: dict[str, Callable[[Any], object]] = {
            "form": lambda said: self._draft(said, lambda base, draft: from_form(base, draft, said["form"])),
            "yaml": lambda said: self._draft(said, lambda base, _draft: from_yaml(base, said["text"])),
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
            "save": lambda _: self._do("save", self.save),
            "held_out": lambda said: self._do("held_out", lambda: self._held_out(said)),
            "suggest": self._suggest,
            "try": self._try,
            "code": lambda _: setattr(self.view, "code", code_of(self.session)),
            "dismiss": lambda _: self._alert(""),
        }
        if isinstance(content, Mapping) and content.get("do") in actions:
            if content["do"] in _ASKING and self._going:
                return  # pressed twice: it would be asked, and paid, once more after the first
            actions[content["do"]](content)

    def _draft(self, said: Mapping[str, Any], make: Callable[[Rubric, Rubric], Rubric]) -> None:
        with self.session.lock:  # the worker may save meanwhile
            self.session.propose(make)
            self._said = said
            self.show("draft")
        self._plan()

    def _plan(self) -> None:
        self._do("plan", self._tell_plan)

    def _tell_plan(self) -> None:
        if not self.session.problem:
            head = ""  # what cannot be planned has no plan, rather than the last one
            try:
                head = str(self.session.plan()).splitlines()[0]
            finally:
                with self.session.lock:
                    self.view.status = {**self.view.status, "plan": head}

    def _start(self) -> None:
        version = self.session.proposal()  # as it is now; a fault is told before anything is shown as running
        self.session.begin()
        self._alert("")
        self._status(running=True, text="looking up what is cached …")
        self._begun("run", lambda: self._drawn(self.session.run(self.progress, version)))

    def shown(self, said: str, *more: str) -> None:
        """Draw what a run brought, and that it is over."""
        text = self._drawn(said, *more)
        if not self._going:  # else something that was pressed meanwhile goes on
            self._status(text=text)
        self._plan()

    def _drawn(self, said: str, *more: str) -> str:
        self.show("board", "page", "item", *more)  # tiles first
        self._tell_unscored()
        return said or "done: everything was cached"

    def _tell_unscored(self) -> None:
        evaluation = self.session.evaluation
        self._alert("" if evaluation is None else "\n".join(unscored_of(evaluation.judgments)))

    def _return(self) -> None:
        session = self.session
        session.choose(session.current, session.against)
        self.show("page", "board")
        self._tell_unscored()

    def _jury(self, said: Mapping[str, Any]) -> None:
        self._said_of_jury = str(said.get("said", ""))
        try:
            weights = {name: float(weight) for name, weight in said["active"].items()}
            budget = _budget(said.get("budget_usd"))
            self.session.set_jury(weights, int(said["samples"]), said["aggregate"])
            self.session.budget_usd = budget
            self.session.keep()
        finally:
            self.show("jury")  # a refused value stays in no field: the next run would not be by it
        if self._faulty == "run":  # there was no judge, say
            self._alert("")
        self._plan()

    def _judge(self, said: Mapping[str, Any]) -> None:
        self.session.add_judge(said["judge"])
        self.session.keep()
        self._alert("")
        self.show("jury", "advice")
        self._plan()

    def _criterion(self, said: Mapping[str, Any]) -> None:
        self.session.criterion = said["name"]
        self.session.held_out = {}
        self.session.query = Query()
        self.show("page", "item", "board")

    def _query(self, said: Mapping[str, Any]) -> None:
        self.session.query = Query.of(said["query"])
        self.show("page")

    def _select(self, said: Mapping[str, Any]) -> None:
        self.session.selected = str(said["item_id"])
        self.show("item")

    def _label(self, said: Mapping[str, Any]) -> None:
        self.session.label(str(said["item_id"]), said["label"], criterion=said.get("criterion"))
        self.show("page", "item")
        self._do("board", lambda: self.show("board"))

    def _annotator(self, said: Mapping[str, Any]) -> None:
        self.session.annotator = str(said["name"]).strip() or self.session.annotator
        self.session.keep()
        self.show("item", "board")

    def _versions(self, said: Mapping[str, Any]) -> None:
        self.session.choose(said["current"], said.get("against", ""))
        self.show("page", "board", "item")
        self._tell_unscored()

    def _take(self, said: Mapping[str, Any]) -> None:
        self.session.take_up(said["key"])
        self.redraw()

    def save(self, folder: str | Path | None = None) -> Rubric:
        """Save the draft as the next version, and say so."""
        saved = self.session.save(folder)
        self.redraw()
        self.show("board", "page")
        self._status(text=f"saved as {saved.id}@{saved.version}")
        return saved

    def _suggest(self, said: Mapping[str, Any]) -> None:
        judge = str(said["judge"]).strip()
        self.session.begin()
        self._alert("")
        self._status(running=True, text=f"asking {judge} for edits …")
        self._begun("suggest", lambda: self._suggested(judge))

    def _suggested(self, judge: str) -> str:
        self.session.suggest(judge)
        self.show("advice")
        return self.session.proposals.head

    def _try(self, said: Mapping[str, Any]) -> None:
        number = int(said["number"])
        self.session.begin()
        self._alert("")
        self._status(running=True, text="looking up what is cached …")
        self._begun("run", lambda: self._drawn(self.session.try_edit(number, self.progress), "advice"))

    def _held_out(self, said: Mapping[str, Any]) -> None:
        looks = self.session.held_out.get("looks", "")
        if said.get("seen", looks) != looks:
            return  # pressed twice: a look more would be counted
        self.session.look_held_out()
        self.show("board")


def _budget(said: Any) -> float | None:
    if said in (None, ""):
        return None
    budget = float(said)
    if not 0 <= budget < float("inf"):
        raise ConfigError(f"the most to spend is a number of US$ ≥ 0, not {said}; leave it blank for no limit")
    return budget
