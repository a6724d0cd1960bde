"""`Runner`: starts runs, follows them to their end, and always closes their rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalkit.errors import ConfigError, EvalkitError, RegistryError
from evalkit.runs.child_process import Child
from evalkit.runs.contract import ScoringConfig
from evalkit.runs.contract.scoring_config import as_given
from evalkit.runs.lighteval_command import (
    LIGHTEVAL,
    check_flags,
    check_model_files,
    lighteval_environment,
    lighteval_words,
    model_facts,
    placed_model,
    same_files,
)
from evalkit.runs.pack_resolution import relocate, resolve
from evalkit.runs.registry import Registry
from evalkit.runs.registry.database import registry_settings
from evalkit.runs.run_completion import OUTCOME, close_run, kept_ending, store_ending
from evalkit.runs.run_database_rows import Ending
from evalkit.runs.run_owner import OWNER_VARIABLE, RUN_VARIABLE, Owner, environment_facts, kill_leftovers
from evalkit.runs.run_record import Run
from evalkit.runs.run_results import read_findings
from evalkit.runs.run_store import STALE_S, RunStore

_LOST = Ending("failed", "another process took it over")


class Runner:
    """Carries out runs of a registry's packs, one after the other.

    Parameters
    ----------
    registry
        The registry with packs, plugins, templates and runs.
    folder
        The folder for logs and LightEval's output; by default ``runs/`` in the cache folder.
    command
        The command that is started with LightEval's arguments.
    heartbeat_s
        Seconds between two heartbeats in the registry, which also read whether the run was cancelled.
    stale_s
        Seconds without a heartbeat after which a runner on another machine counts as dead.
    patience_s
        How long to try to close a run's row while the database is unreachable. After that, the outcome is kept in the
        run's folder, and stored at the next start.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     registry = Registry.open(f"{folder}/registry.sqlite")
    ...     pack = registry.apply_pack({"pack": "smoke", "version": 1, "tasks": [{"task": "tool_use"}]})
    ...     run = Runner(registry).queue("smoke", "gpt2")
    ...     print(run.status, run.pack, [task.task for task in run.tasks])
    ...     registry.close()
    queued smoke@1 ['tool_use|0']
    """

    def __init__(
        self,
        registry: Registry,
        *,
        folder: str | Path | None = None,
        command: Sequence[str] = LIGHTEVAL,
        heartbeat_s: float = 2.0,
        stale_s: float = STALE_S,
        patience_s: float = 60.0,
    ) -> None:
        self.registry = registry
        self.store = RunStore(registry, stale_s=stale_s)
        self.folder = Path(registry_settings()["runs"] if folder is None else folder)
        self.command = tuple(command)
        self.heartbeat_s = heartbeat_s
        self.patience_s = patience_s

    def start(
        self,
        pack: str,
        model: str,
        *,
        backend: str = "accelerate",
        scoring_mode: str = "deterministic",
        scoring_config: ScoringConfig | Mapping[str, Any] | str | Path | None = None,
        max_samples: int | None = None,
        flags: Mapping[str, Any] | None = None,
        on_line: Callable[[str], None] | None = None,
        on_start: Callable[[Run], None] | None = None,
        queue: bool = False,
        rerun_of: Run | None = None,
    ) -> Run:
        """Run a pack in this process, and return the run when it has ended.

        Parameters
        ----------
        pack
            ``name`` or ``name@version``.
        model, backend
            The model: a name, ``key=value,…`` or a YAML file; for the back end ``custom``, ``NAME=FILE.py``.
        scoring_mode, scoring_config
            ``deterministic``, ``judge`` or ``jury``; config as a mapping, JSON text, or JSON or YAML file.
        max_samples
            Maximum number of samples of each task.
        flags
            More flags of LightEval, name -> value (None for one without).
        on_line, on_start
            Called with each new line of the log, and with the run as soon as its row is written.
        queue
            Leave the run to a worker, and return it at once.
        rerun_of
            The run that this one repeats.

        Returns
        -------
        Run
            With the status ``succeeded``, ``failed`` or ``cancelled`` (or ``queued``); `error` has the reason.

        Raises
        ------
        ConfigError
            Before anything starts, with all problems in one message; with `rerun_of`, also when a plugin, profile,
            template or the model's file changed since that run.
        RegistryError
            When the registry is unreachable.
        KeyboardInterrupt
            After Ctrl-C, when the processes have ended and the row is closed.
        """
        self.recover()
        if max_samples is not None and max_samples < 1:
            raise ConfigError(f"max_samples must be a whole number ≥ 1, got {max_samples}")
        entry = self.registry.pack(pack)
        resolution = resolve(self.registry, entry, scoring_mode, scoring_config, import_tasks=True)
        facts = model_facts(backend, model) if rerun_of is None else same_files(rerun_of.artifacts.get("model", {}))
        if rerun_of is not None:
            _check_same(rerun_of, resolution.to_dict(), facts)
        owner = None if queue else Owner.here()
        run_id = self.store.create(
            resolution,
            owner,
            {"model": facts, "notes": list(resolution.warnings)},
            model=model,
            backend=backend,
            scoring_config=as_given(scoring_config),
            options={"max_samples": max_samples, "flags": check_flags(flags or {})},
            rerun_of=None if rerun_of is None else rerun_of.id,
        )
        if owner is None:
            return self.store.run(run_id)
        return self.carry_out(run_id, owner, on_line=on_line, on_start=on_start)

    def queue(self, pack: str, model: str, **options: Any) -> Run:
        """Check a run like `start`, and queue it for a worker; `options` are those of `start`."""
        return self.start(pack, model, queue=True, **options)

    def rerun(self, run: Run | str, **options: Any) -> Run:
        """Repeat a run with its pack version, model, mode, config and options; names are looked up again.

        Parameters
        ----------
        run
            The run, or its id.
        **options
            `queue`, `on_line` and `on_start`, as in `start`.

        Raises
        ------
        ConfigError
            When a plugin, profile, template or the model's file changed.
        """
        old = self.store.run(run) if isinstance(run, str) else run
        same = {name: getattr(old, name) for name in ("backend", "scoring_mode", "scoring_config")}
        return self.start(old.pack, old.model, **same, **old.options, rerun_of=old, **options)

    def carry_out(
        self,
        run_id: str,
        owner: Owner,
        *,
        on_line: Callable[[str], None] | None = None,
        on_start: Callable[[Run], None] | None = None,
        give_back: Callable[[], bool] = lambda: False,
    ) -> Run:
        """Carry out a run that this process owns, and close its row.

        Parameters
        ----------
        run_id, owner
            As for the store's `create` or `claim`.
        on_line, on_start
            As for `start`.
        give_back
            Called regularly; if it returns True, the processes are ended and the run is queued again.
        """
        folder = self.folder / run_id
        ending = Ending("failed", "the runner itself failed; see its own error message")
        try:
            if not self.store.note(run_id, owner, folder=str(folder), environment=environment_facts()):
                ending = _LOST
            else:
                run = self.store.run(run_id)
                if on_start is not None:
                    on_start(run)
                ending = self._follow(run, owner, give_back, on_line)
        except KeyboardInterrupt:
            ending = Ending("cancelled", "stopped by Ctrl-C")
            raise
        except (EvalkitError, OSError) as problem:
            ending = Ending("failed", str(problem))
            if isinstance(problem, RegistryError):
                raise
        finally:
            close_run(self.store, folder, run_id, owner, ending, self.patience_s)
        return self.store.run(run_id)

    def _follow(
        self, run: Run, owner: Owner, give_back: Callable[[], bool], on_line: Callable[[str], None] | None
    ) -> Ending:
        """Start LightEval, and return when it has ended, is cancelled, or must go back to the queue."""
        environment = child_environment(self.registry, run, owner.nonce)
        model = placed_model(run.backend, run.model, run.artifacts.get("model", {}))
        words = lighteval_words(run.backend, model, [one.task for one in run.tasks], run.output, run.options)
        next_beat = 0.0
        try:
            with Child([*self.command, *words], environment, run.log) as child:
                for lines in child.follow():
                    if on_line is not None:
                        for line in lines:
                            on_line(line)
                    if child.code is None and give_back():
                        return Ending("queued", "put back into the queue by its worker")
                    if child.code is None and time.monotonic() >= next_beat:
                        next_beat = time.monotonic() + self.heartbeat_s
                        if (ending := self._beat(run.id, owner)) is not None:
                            return ending
        finally:
            kill_leftovers(run.id, owner.nonce)  # processes that left the process group
        if child.code:
            return Ending("failed", f"LightEval {child.failure}", exit_code=child.code)
        return read_findings(run)

    def _beat(self, run_id: str, owner: Owner) -> Ending | None:
        """Report that the owner is alive. An unreachable database does not stop the run."""
        try:
            state = self.store.beat(run_id, owner)
        except RegistryError:
            return None
        if state == "cancel":
            return Ending("cancelled", "cancelled while it ran")
        return _LOST if state == "lost" else None

    def recover(self) -> list[Run]:
        """Close runs whose process is dead; those of a worker are queued again, once.

        Their leftover processes on this machine are killed. Called at each start and by workers.

        Returns
        -------
        list of Run
            The runs that were closed or queued, as they are now.
        """
        if self.registry.database.is_read_only:
            return []  # runs can be shown, but not closed
        found = []
        for run_id, owner in self.store.stale():
            if owner.is_near():
                kill_leftovers(run_id, owner.nonce)
            ending = kept_ending(self.store, self.folder / run_id, run_id)
            if ending is not None:
                done: object = store_ending(self.store, run_id, owner, ending)
            else:
                done = self.store.give_up(run_id, owner)
            (self.folder / run_id / OUTCOME).unlink(missing_ok=True)
            if done:
                found.append(self.store.run(run_id))
        return found

    def run(self, name: str) -> Run:
        """A run by its id, the start of an id, or ``last``; RegistryError if there is none, or several match."""
        return self.store.run(name)

    def ingest(self, run: str) -> Run:
        """Read the output of a run that succeeded again; the same output has the same rows."""
        found = self.store.run(run)
        if found.status != "succeeded":
            raise RegistryError(f"run {found.id} is {found.status}; only the output of runs that succeeded can be read")
        self.store.put_findings(found.id, read_findings(found))
        return self.store.run(found.id)

    def cancel(self, run: str) -> Run:
        """Cancel a run: a queued one at once; the owner of a running one ends its processes within two heartbeats."""
        self.recover()
        found = self.store.run(run)
        if found.status not in ("queued", "running"):
            raise RegistryError(f"run {found.id} is already {found.status}; there is nothing to cancel")
        self.store.cancel(found.id)
        return self.store.run(found.id)


def child_environment(registry: Registry, run: Run, nonce: str) -> dict[str, str]:
    """The environment variables of a run's process; two of them hold the run's id and its owner's `nonce`.

    Raises
    ------
    ConfigError
        When a plugin or the model's file changed since the run was created.
    """
    check_model_files(run.artifacts.get("model", {}))
    config = None if run.scoring_mode == "deterministic" else run.scoring_config
    bindings = relocate(registry, run.resolution, config)
    marks = {RUN_VARIABLE: run.id, OWNER_VARIABLE: nonce}
    run.output.mkdir(parents=True, exist_ok=True)
    return lighteval_environment(run.scoring_mode, config, bindings, run.output, **marks)


def _check_same(old: Run, now: Mapping[str, Any], model: Mapping[str, Any]) -> None:
    """ConfigError if a resolution or the model's files differ from those of an earlier run."""
    then = {**old.resolution, "model": old.artifacts.get("model", {})}
    here = {**now, "model": model}
    differs = [name for name in ("plugins", "profiles", "templates", "model") if then.get(name) != here.get(name)]
    if differs:
        raise ConfigError(
            f"run {old.id} cannot be repeated: {', '.join(differs)} changed since that run; start a new run of "
            f"{old.pack} instead"
        )
