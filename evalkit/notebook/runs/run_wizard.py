"""`RunWizard` and its screen: set up a run, see its cost, start and follow it; or copy its command."""

from __future__ import annotations

import html
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from evalkit.core.formatting import html_page, html_table
from evalkit.core.lists_of_choices import SCORING_MODES
from evalkit.core.providers import BACKENDS
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES
from evalkit.errors import ConfigError, EvalkitError, InputError
from evalkit.lighteval.run_cost_forecast import RunPlan, plan_run
from evalkit.notebook.runs.run_form import RunForm
from evalkit.notebook.runs.run_progress import Follower
from evalkit.notebook.runs.run_view import RunPanel
from evalkit.rubrics.files import dump_yaml
from evalkit.rubrics.profiles import profile_files
from evalkit.rubrics.prompt_builder import list_templates
from evalkit.runs import Run, Runner
from evalkit.runs.contract.scoring_config import ScoringConfig
from evalkit.runs.processes.lighteval_command import BACKENDS as MODEL_BACKENDS
from evalkit.runs.registry import STARTER_PACK, Pack, Registry
from evalkit.runs.registry.pack_files import EntryError
from evalkit.runs.run.detached_run import start_detached

_SHOWN_RUNS = 10
_CLOSE_WAIT_S = 60.0


ScoringConfigLike = ScoringConfig | Mapping[str, Any] | str | Path


class RunWizard(RunPanel):
    """Set up a run of a pack, see errors and cost, start it, and view its results.

    As the last line of a notebook cell it draws itself. The run is a process of its own: it continues when the
    kernel ends, and the same cell finds it again in the registry. Everything done on screen is available as a call too.

    Parameters
    ----------
    registry
        The registry, or its URL or file; by default that of `Registry.open`.
    runner
        Executes runs; by default ``Runner(registry)``. With a runner, its registry is used.
    scoring_config
        Initial scoring config: a mapping, JSON text, or a JSON or YAML file.
    **fields
        Initial `pack`, `model`, `backend`, `scoring_mode`, `max_samples`; the others are those of the registry's newest
        run.

    Raises
    ------
    MissingExtraError
        Without ipywidgets and anywidget (extra ``notebook``).
    ConfigError
        For an invalid scoring config, and unknown fields.
    RegistryError
        When the registry cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     registry = Registry.open(f"{folder}/registry.sqlite")
    ...     pack = registry.apply_pack({"pack": "smoke", "version": 1, "tasks": [{"task": "tool_use"}]})
    ...     wizard = RunWizard(registry, pack="smoke@1", model="gpt2")
    ...     print(wizard.errors, wizard.command().split(" --registry")[0])
    ...     wizard.close()
    ...     registry.close()
    {} evalkit run start smoke@1 --model gpt2
    """

    def __init__(
        self,
        registry: Registry | str | Path | None = None,
        *,
        runner: Runner | None = None,
        scoring_config: ScoringConfigLike | None = None,
        **fields: Any,
    ) -> None:
        if runner is None:
            runner = Runner(registry if isinstance(registry, Registry) else Registry.open(registry))
        form = _initial_form(runner, scoring_config).filled(scoring_config, **fields)
        super().__init__("RunWizard")
        self.runner, self.registry = runner, runner.registry
        self._follower: Follower | None = None
        self._revision = 0
        self._form_message, self._starting = "", False
        self._lock = threading.RLock()  # kernel, workers and follower all check the form
        self._follower_lock = threading.RLock()  # a replaced follower draws nothing
        packs = _names(self.registry.packs())
        self.widget.choices = {
            "scoring_mode": list(SCORING_MODES),
            "judge_backend": list(BACKENDS),
            "aggregation": list(AGGREGATE_RULES),
            "backend": list(MODEL_BACKENDS),
            "packs": packs[::-1],
            "starter": "" if packs else dump_yaml(dict(STARTER_PACK)),
            "templates": [*_names(self.registry.templates()), *list_templates()],
            "profiles": list(profile_files()),
        }
        self._fill(form)
        self._draw_runs()
        self._jobs.do("recover", self._recover)

    @property
    def run(self) -> Run | None:
        """The run that is followed or shown, as it is now; None before there is one."""
        run_id = self.widget.progress.get("id") or self.widget.run.get("id")
        return self.runner.run(str(run_id)) if run_id else None

    def set(self, scoring_config: ScoringConfigLike | None = None, **fields: Any) -> None:
        """Fill in fields; the others stay.

        Raises
        ------
        ConfigError
            For an invalid scoring config, and unknown fields.
        """
        self._fill(self.form.filled(scoring_config, **fields))

    def plan(self) -> RunPlan:
        """The most judge calls that the run makes, and their price (see `plan_run`).

        Raises
        ------
        ConfigError
            When the run could not start: with everything that is wrong.
        """
        refuse(self.errors)
        return plan_run(self.registry, self.form.pack, **self.form.settings)

    def export(self, form: str = "yaml") -> str:
        """The scoring config as ``yaml`` or ``json``."""
        return self.form.export(form)

    def wait(self, timeout_s: float = 600.0) -> Run:
        """Wait for the end of the run that is followed; the run at its end, or after so many seconds.

        Raises
        ------
        InputError
            When no run is selected.
        """
        followed = self.followed
        followed.wait(timeout_s)
        return self.runner.run(followed.run_id)

    @property
    def errors(self) -> dict[str, str]:
        """What is invalid or missing in the form, by field; `plan` also checks what the pack's tasks refer to.

        Raises
        ------
        RegistryError
            When the registry cannot be reached.
        """
        form = self.form
        errors = {name: "this is missing" for name in ("pack", "model") if not getattr(form, name)}
        if form.pack:
            try:
                self.registry.pack(form.pack)
            except EntryError as problem:
                errors["pack"] = str(problem)
        return errors | form.errors()

    def start(self) -> Run:
        """Start the run and follow it: returns when its row is written; `wait` waits for its end.

        Raises
        ------
        ConfigError
            When it cannot start: with everything that is wrong.
        RegistryError
            When the registry cannot be reached.
        """
        refuse(self.errors)
        return self._start(self.form)

    def create_starter_pack(self) -> Pack:
        """Register evalkit's starter pack and select it.

        Raises
        ------
        RegistryError
            When the registry cannot be written.
        """
        pack = self.registry.apply_pack(STARTER_PACK)
        self.widget.choices = {**self.widget.choices, "packs": _names(self.registry.packs())[::-1], "starter": ""}
        self._fill(self.form.filled(pack=pack.label))
        return pack

    def stop(self) -> None:
        """Cancel the run that is followed; RegistryError when it is over, InputError when there is none."""
        run_id = self.followed.run_id
        self._set_stopping(True)
        try:
            self.runner.cancel(run_id)
        except EvalkitError:
            self._set_stopping(False)
            raise

    def follow(self, run_id: str) -> None:
        """Show a run, and its progress until it is over."""
        run = self.runner.run(run_id)
        with self._follower_lock:
            if self._follower is not None:
                self._follower.stop()
            self._clear_run()
            self._follower = Follower(
                self.runner, run.id, on_change=self._draw_progress, on_end=self._draw_end, on_error=self._jobs.alert
            )
        self._draw_runs()

    @property
    def followed(self) -> Follower:
        """What reports the progress of the run; InputError when no run is selected."""
        if self._follower is None:
            raise InputError("no run is selected; start one, or select one from the list")
        return self._follower

    def close(self) -> None:
        """Stop following, and wait for background work; a run that is not over continues."""
        self.wait_idle(_CLOSE_WAIT_S)
        if self._follower is not None:
            self._follower.stop()
            self._follower.wait(_CLOSE_WAIT_S)
        self.wait_idle(_CLOSE_WAIT_S)

    # -- the form
    def _fill(self, form: RunForm) -> None:
        """Take over a form that was not filled in on screen, and redraw its fields."""
        self.form = form
        self._revision += 1
        self._draw_form()
        self._check_form()

    def _draw_form(self) -> None:
        self.widget.form = self.form.model_dump() | {"revision": self._revision, "answers": self._form_message}

    def command(self) -> str:
        """The command line that starts the same run."""
        database = self.registry.database
        if database.url != database.shown:  # a password must not be on a command line: EVALKIT_REGISTRY holds it
            return self.form.command(None)
        is_sqlite = database.shown.startswith("sqlite")
        return self.form.command(database.shown.partition("://")[2].removeprefix("/") if is_sqlite else database.shown)

    def _check_form(self) -> None:
        """Show the form's own errors at once; what the pack's tasks refer to is checked in the background."""
        with self._lock:  # else an older form could be reported last
            form, errors = self.form, self.form.errors()
            missing = not (form.pack and form.model)
            plan = ["choose a pack and a model"] if missing else [] if errors else ["counting judge calls …"]
            check: dict[str, Any] = {"errors": errors, "ready": False, "command": self.command(), "plan": plan}
            check |= {"yaml": form.export("yaml"), "json": form.export("json")}
            self.widget.check = check
            if not errors and not missing:
                self._jobs.do("plan", lambda: self._draw_plan(form, check), queue="plan")

    def _draw_plan(self, form: RunForm, check: Mapping[str, Any]) -> None:
        try:
            plan = plan_run(self.registry, form.pack, **form.settings)
        except (EvalkitError, OSError) as problem:
            changes: dict[str, Any] = {"errors": {"pack": str(problem)}, "plan": []}
        else:
            changes = {"plan": plan.lines(), "ready": True}
        with self._lock:
            if form == self.form:  # else the form has changed meanwhile
                self.widget.check = {**check, **changes}

    # -- the run
    def _start(self, form: RunForm) -> Run:
        run_id = start_detached(self.runner, form.pack, form.model, backend=form.backend, **form.settings)
        self.follow(run_id)
        return self.runner.run(run_id)

    def _recover(self) -> None:
        """After a restart: close runs whose process has ended, and follow one that continues."""
        self.runner.recover()
        self._draw_runs()
        unfinished = [row for row in self.widget.runs["rows"] if row["status"] == "running"]
        if unfinished and self._follower is None:
            self.follow(unfinished[0]["id"])

    def _draw_runs(self) -> None:
        table = self.registry.runs()
        newest = table[["id", "status", "pack", "scoring_mode", "model"]].tail(_SHOWN_RUNS).iloc[::-1]
        self.widget.runs = {"rows": newest.astype(str).to_dict("records"), "n": len(table)}

    def _draw_progress(self, progress: dict[str, Any]) -> None:
        with self._follower_lock:
            if progress["id"] == self.followed.run_id:
                last = self.widget.progress
                stopping = last.get("id") == progress["id"] and bool(last.get("stopping"))
                self.widget.progress = {**progress, "stopping": stopping}

    def _draw_end(self, run: Run) -> None:
        with self._follower_lock:
            if run.id == self.followed.run_id:
                self._show_run(run)
        self._jobs.safely(self._draw_runs)
        self._jobs.safely(self._check_form)  # more is known of its tasks now

    def _set_stopping(self, stopping: bool) -> None:
        with self._follower_lock:
            self.widget.progress = {**self.widget.progress, "stopping": stopping}

    # -- actions
    def _actions(self) -> dict[str, Callable[[Any], object]]:
        return super()._actions() | {
            "form": self._set_form,
            "starter": lambda _: self._jobs.do("starter", self.create_starter_pack),
            "start": lambda _: self._start_on_screen(),
            "stop": lambda _: self._jobs.do("stop", self._stop_once),
            "watch": lambda message: self._jobs.do("watch", lambda: self.follow(str(message["id"]))),
        }

    def _set_form(self, message: Mapping[str, Any]) -> None:
        form = RunForm.model_validate(message["form"])
        with self._lock:
            if form != self.form:
                self.form, self._form_message = form, str(message.get("id", ""))
                self._draw_form()  # without a new revision: the view where it was typed has drawn it already
                self._check_form()

    def _start_on_screen(self) -> None:
        progress = self.widget.progress
        unseen = self._follower is not None and progress.get("id") != self._follower.run_id  # started just now
        if self._starting or unseen or progress.get("status") == "running":
            return  # a second click would start a second run
        refuse(self.errors)
        self._jobs.alert("")
        with self._lock:
            self.widget.check = {**self.widget.check, "ready": False, "plan": ["starting …"]}
        self._starting, form = True, self.form  # as it is now: the user may go on to the next run

        def start() -> None:
            try:
                self._start(form)
            finally:
                self._starting = False
                self._check_form()

        self._jobs.do("start", start)

    def _stop_once(self) -> None:
        if not self.widget.progress.get("stopping"):  # after a second click the run may be over
            self.stop()

    def __repr__(self) -> str:
        run = self.run
        return "\n".join(filter(None, [self.command(), "" if run is None else str(run)]))

    def _repr_html_(self) -> str:
        rows = [dict(row) for row in self.widget.runs.get("rows", [])]
        parts = [f"<p>The same run from the command line:</p><pre>{html.escape(self.command())}</pre>"]
        if rows:
            parts.append(html_table(rows, texts=list(rows[0]), caption="Runs of this registry"))
        parts.append("<p class='note'>Run this cell to set up a run; the widget needs a kernel.</p>")
        return html_page(parts) + self._run_html()


def refuse(errors: Mapping[str, str]) -> None:
    """Raise ConfigError with all errors of a form, if there are any."""
    if errors:
        raise ConfigError("; ".join(f"{field}: {text}" for field, text in errors.items()))


def _names(table: Any) -> list[str]:
    return [f"{name}@{version}" for name, version in zip(table["name"], table["version"], strict=True)]


def _initial_form(runner: Runner, config: ScoringConfigLike | None) -> RunForm:
    """The form of the registry's newest run; with its scoring config only if none is passed."""
    table = runner.registry.runs()
    if table.empty:
        return RunForm()
    newest = runner.run(str(table["id"].iloc[-1]))
    named = {name: getattr(newest, name) for name in ("pack", "model", "backend", "scoring_mode")}
    form = RunForm().filled(**named, max_samples=newest.options.get("max_samples"))
    if newest.scoring_config and config is None:
        with suppress(ConfigError):  # a deterministic run does not check its config
            return form.filled(newest.scoring_config)
    return form
