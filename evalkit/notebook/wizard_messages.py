"""The wizard's screen: what is filled in, what is wrong with it, and the run that is followed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evalkit.errors import ConfigError, EvalkitError, InputError, RegistryError
from evalkit.notebook.background_thread import Worker
from evalkit.notebook.run_estimates import Estimate, check_pack, estimate
from evalkit.notebook.run_form import RunForm, choices
from evalkit.notebook.run_launch import launch
from evalkit.notebook.run_payload import runs_payload
from evalkit.notebook.run_progress import Follower
from evalkit.notebook.run_view import Pages, new_screen
from evalkit.notebook.widget_base import Stage
from evalkit.rubrics.files import write_new
from evalkit.rubrics.prompts import list_templates
from evalkit.runs import Run, Runner
from evalkit.runs.commands import model_facts

__all__ = ["WizardScreen"]

_PROFILES = ("conservative", "strict")
_GOING = ("queued", "running")
_CLOSE_WAIT_S = 60.0


class WizardScreen(Stage):
    """Draws a form and a run in a view, and does what the view says that a person wants.

    Nothing waits in a callback of the kernel: what takes long is done by workers, and a run by a process of its own.

    Attributes
    ----------
    runner
        Where runs are, and how they are carried out.
    form
        What is filled in.
    view
        The widget.
    """

    def __init__(self, runner: Runner, form: RunForm) -> None:
        super().__init__(new_screen("RunWizard"))
        self.runner, self.registry, self.form = runner, runner.registry, form
        self.pages = Pages(self.view)
        self._checker = Worker()
        self._follower: Follower | None = None
        self._revision, self._looked_into = 0, ""
        self._said, self._starting = "", False
        self._lock = threading.RLock()  # kernel, workers and follower all check the form
        self._watch = threading.RLock()  # who is followed no more tells nothing
        self.view.choices = choices() | {
            "packs": self._packs(), "templates": self._templates(), "profiles": list(_PROFILES)
        }  # fmt: skip
        self.fill(form)
        self._list()
        self._do("recover", self._return)

    def fill(self, form: RunForm) -> None:
        """Take over a form that was filled in elsewhere; its fields are drawn anew."""
        self.form = form
        self._revision += 1
        self._show_form()
        self._check()

    def _show_form(self) -> None:
        self.view.form = self.form.to_dict() | {"revision": self._revision, "said": self._said}

    @property
    def faults(self) -> dict[str, str]:
        """What is wrong with what is filled in, by field."""
        found: dict[str, str] = {}
        for place, said in [*self.form.faults(), *self._model_fault()]:
            found[place] = f"{found[place]}; {said}" if place in found else said
        return found

    @property
    def gaps(self) -> dict[str, str]:
        """What is not filled in, and a pack that the registry has not: no fault on screen, where it is being chosen."""
        form = self.form
        found = {name: "this is missing" for name in ("pack", "model") if not getattr(form, name)}
        if form.pack:
            name, _, version = form.pack.partition("@")
            try:
                self.registry.pack(name, version or None)
            except RegistryError as problem:
                if problem.__cause__ is not None:  # the database itself
                    raise
                found["pack"] = str(problem)
        return found

    @property
    def shown(self) -> str:
        """The id of the run that is followed or shown; blank before there is one."""
        return str(self.view.progress.get("id") or self.view.run.get("id") or "")

    def plan(self, *, look: bool = False) -> Estimate:
        """As `estimate`, after a look at the fields."""
        self._refuse_faults()
        return estimate(self.registry, self.form, look=look)

    def command(self) -> str:
        """The command line that starts the same run."""
        database = self.registry.database
        # a password belongs on no command line: the variable EVALKIT_REGISTRY takes it
        return self.form.command(_plain(database.shown) if database.url == database.shown else None)

    def export(self, form: str, file: Path | None) -> str:
        """As `RunWizard.export`."""
        text = self.form.export(form)
        if file is not None:
            self._save(file)
        return text

    def start(self, form: RunForm | None = None) -> str:
        """Start the run, as it is filled in unless a form is given, and follow it; its id."""
        if form is None:
            self._refuse_faults()
        run_id = launch(self.runner, form or self.form)
        self.follow(run_id)
        return run_id

    def stop(self) -> None:
        """Cancel the run that is followed."""
        run_id = self.followed.run_id
        self._stopping(True)
        try:
            self.runner.cancel(run_id)
        except EvalkitError:
            self._stopping(False)
            raise

    def _stopping(self, so: bool) -> None:
        with self._watch:
            self.view.progress = {**self.view.progress, "stopping": so}

    def _stop_once(self) -> None:
        if not self.view.progress.get("stopping"):  # else pressed twice: it may be over by now
            self.stop()

    def follow(self, run_id: str) -> None:
        """Show a run, and look after it until it is over."""
        run = self.runner.run(run_id)
        with self._watch:
            if self._follower is not None:
                self._follower.stop()
            self.pages.clear()
            self._follower = Follower(
                self.runner, run.id, on_look=self._looked, on_end=self._ended, on_fault=self._alert
            )
        self._list()

    @property
    def followed(self) -> Follower:
        """Who looks after the run; InputError when there is none."""
        if self._follower is None:
            raise InputError("no run is followed: start one, or choose one of the list")
        return self._follower

    def close(self) -> None:
        """As `RunWizard.close`."""
        for worker in (self.worker, self._checker):
            worker.wait(_CLOSE_WAIT_S)
        if self._follower is not None:
            self._follower.stop()
            self._follower.wait(_CLOSE_WAIT_S)
        self.pages.wait(_CLOSE_WAIT_S)

    # -- what is shown
    def _packs(self) -> list[str]:
        table = self.registry.packs()
        return [f"{name}@{version}" for name, version in zip(table["name"], table["version"], strict=True)][::-1]

    def _templates(self) -> list[str]:
        table = self.registry.templates()
        own = [f"{name}@{version}" for name, version in zip(table["name"], table["version"], strict=True)]
        return [*own, *list_templates()]

    def _list(self) -> None:
        table = self.registry.runs()
        self.view.runs = {"rows": runs_payload(table), "n": len(table)}

    def _check(self) -> None:
        """Say at once what the fields alone tell; what the pack's tasks name is looked up in the background."""
        with self._lock:  # else what was told last may be about an older form
            form, faults = self.form, self.faults
            missing = not (form.pack and form.model)
            shown = {
                "faults": faults, "ready": False, "unknown": False, "command": self.command(),
                "yaml": form.export("yaml"), "json": form.export("json"),
                "plan": ["choose a pack and name a model"] if missing else [] if faults else ["looking it up …"],
            }  # fmt: skip
            self.view.check = shown
            if not faults and not missing:
                look = form.pack == self._looked_into  # what was imported once is known from then on
                self._checker.do("plan", lambda: self._safely(lambda: self._tell_plan(form, shown, look=look)))

    def _tell_plan(self, form: RunForm, shown: Mapping[str, Any], *, look: bool = False) -> None:
        try:
            check_pack(self.registry, form)
            made = estimate(self.registry, form, look=look)
        except (EvalkitError, OSError) as problem:
            told: dict[str, Any] = {"faults": {"pack": str(problem)}, "plan": []}
        else:
            told = {"plan": made.lines(), "ready": True, "unknown": bool(made.unknown) and not look}
        with self._lock:
            if form == self.form:  # else it is about what was there before
                self.view.check = {**shown, **told, "saved": self.view.check.get("saved", "")}

    def _look_into(self) -> None:
        """Import the tasks, in a process of its own, for their rows and criteria."""
        form, shown = self.form, dict(self.view.check)
        self._looked_into = form.pack
        self.view.check = {**shown, "unknown": False, "plan": ["importing the tasks, in a process of its own …"]}
        self._checker.do("plan", lambda: self._safely(lambda: self._tell_plan(form, shown, look=True)))

    def _model_fault(self) -> list[tuple[str, str]]:
        if not self.form.model:
            return []
        try:
            model_facts(self.form.backend, self.form.model)
        except ConfigError as problem:
            return [("model", str(problem))]
        return []

    def _refuse_faults(self) -> None:
        if not (self.form.pack and self.form.model):
            raise ConfigError("choose a pack and name a model first")
        faults = self.faults
        if faults:
            raise ConfigError("; ".join(f"{place}: {said}" for place, said in faults.items()))

    def _looked(self, now: dict[str, Any]) -> None:
        with self._watch:
            if now["id"] == self.followed.run_id:
                before = self.view.progress
                stopping = before.get("id") == now["id"] and bool(before.get("stopping"))
                self.view.progress = {**now, "stopping": stopping}

    def _ended(self, run: Run) -> None:
        with self._watch:
            if run.id == self.followed.run_id:
                self.pages.show(run)
        self._safely(self._list)
        self._safely(self._check)  # of its tasks more is known now

    def _return(self) -> None:
        """After a restart: runs whose process is gone are closed, and one that goes on is followed."""
        self.runner.recover()
        self._list()
        going = [row for row in self.view.runs["rows"] if row["status"] in _GOING]
        if going and self._follower is None:
            self.follow(going[0]["id"])

    # -- what a person does
    def _act(self, content: Any) -> None:
        actions: dict[str, Callable[[Any], object]] = {
            "form": self._typed,
            "look": lambda _: self._look_into(),
            "start": lambda _: self._begin(),
            "stop": lambda _: self._do("stop", self._stop_once),
            "save": self._save_as,
            "watch": lambda said: self._do("watch", lambda: self.follow(str(said["id"]))),
            "query": self.pages.ask,
            "select": self.pages.select,
            "dismiss": lambda _: self._alert(""),
        }
        if isinstance(content, Mapping) and content.get("do") in actions:
            actions[content["do"]](content)

    def _typed(self, said: Mapping[str, Any]) -> None:
        form = RunForm.of(said["form"])
        with self._lock:
            if form != self.form:
                self.form, self._said = form, str(said.get("said", ""))
                self._show_form()  # the revision stays: the view that it was typed in has drawn it already
                self._check()

    def _begin(self) -> None:
        now = self.view.progress
        unseen = self._follower is not None and now.get("id") != self._follower.run_id  # it was started just now
        if self._starting or unseen or now.get("status") in _GOING:
            return  # pressed twice: it would be a run more
        self._refuse_faults()
        self._alert("")
        with self._lock:
            self.view.check = {**self.view.check, "ready": False, "plan": ["starting …"]}
        self._starting, form = True, self.form  # as it is now: one may go on with the next run
        self._do("start", lambda: self._started(form))

    def _started(self, form: RunForm) -> None:
        try:
            self.start(form)
        finally:
            self._starting = False
            self._check()

    def _save_as(self, said: Mapping[str, Any]) -> None:
        file = Path(str(said["file"]).strip() or "scoring.yaml")
        self._save(file)
        self.view.check = {**self.view.check, "saved": f"saved as {file}"}

    def _save(self, file: Path) -> None:
        if self.form.config is None:
            raise ConfigError("deterministic mode takes no scoring config; there is nothing to save")
        faults = self.faults
        if faults:
            raise ConfigError("; ".join(f"{place}: {said}" for place, said in faults.items()))
        if file.exists():
            raise ConfigError(f"{file} is there already, and is not overwritten; name another file")
        write_new(file, self.form.export("json" if file.suffix == ".json" else "yaml"))


def _plain(shown: str) -> str:
    """A SQLite registry by its file, as a person would name it."""
    return shown.partition("://")[2].removeprefix("/") if shown.startswith("sqlite") else shown
