"""`Runner`: starts runs, attends to them until they end, and closes their rows whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from evalkit.errors import ConfigError, EvalkitError, RegistryError
from evalkit.runs.contract import ScoringConfig
from evalkit.runs.installed_packages import environment_facts
from evalkit.runs.lighteval_command import LIGHTEVAL, check_flags, model_facts, same_files
from evalkit.runs.lighteval_process import child_environment, follow_run
from evalkit.runs.pack_resolution import resolve
from evalkit.runs.registry import Registry
from evalkit.runs.registry.database import registry_settings
from evalkit.runs.run_completion import OUTCOME, close_run, kept_ending, store_ending
from evalkit.runs.run_config import as_given, check_same
from evalkit.runs.run_database_rows import Ending
from evalkit.runs.run_owner import Owner, kill_leftovers
from evalkit.runs.run_record import Run
from evalkit.runs.run_results import read_findings
from evalkit.runs.run_store import STALE_S, RunStore

_LOST = Ending("failed", "another process took it over")


class Runner:
    """Carries out runs of a registry's packs; one object may start any number, one after the other.

    Parameters
    ----------
    registry
        Packs, plugins, templates and runs.
    folder
        Where runs keep their logs and LightEval's output; by default ``runs/`` in the cache folder.
    command
        What is started with LightEval's words.
    heartbeat_s
        Seconds between two heartbeats in the registry, which also tell whether the run was cancelled.
    stale_s
        Seconds without one after which a runner on another machine counts as gone.
    patience_s
        How long to try to close a run's row when the database is away; then the outcome is kept in the run's folder,
        and taken in at the next start.

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
    ) -> Run:
        """Run a pack here and now, and return the run when it is over.

        Parameters
        ----------
        pack
            ``name`` or ``name@version``.
        model, backend
            What LightEval evaluates: a name, ``key=value,…`` or a YAML file; for ``custom`` ``NAME=FILE.py``.
        scoring_mode, scoring_config
            ``deterministic``, ``judge`` or ``jury``; config as a mapping, JSON text, or JSON or YAML file.
        max_samples
            At most so many of each task.
        flags
            More flags of LightEval, name -> value (None for one without).
        on_line, on_start
            Called with each line of the log as it is written, and with the run as soon as its row is there.

        Returns
        -------
        Run
            ``succeeded``, ``failed`` or ``cancelled``; `error` says why.

        Raises
        ------
        ConfigError
            Before anything starts: one message with all that is wrong.
        RegistryError
            When the registry is away.
        KeyboardInterrupt
            After Ctrl-C, when the processes have ended and the row is closed.
        """
        owner = Owner.here()
        run_id = self._create(pack, model, backend, scoring_mode, scoring_config, max_samples, flags, owner=owner)
        return self.carry_out(run_id, owner, on_line=on_line, on_start=on_start)

    def queue(self, pack: str, model: str, **options: Any) -> Run:
        """Check a run as `start` does, and leave it to a worker; `options` are those of `start`."""
        return self.store.run(self._create(pack, model, **options))

    def rerun(
        self,
        run: Run | str,
        *,
        queue: bool = False,
        on_line: Callable[[str], None] | None = None,
        on_start: Callable[[Run], None] | None = None,
    ) -> Run:
        """Run again what a run was: pack version, model, mode, config, options; names are looked up again.

        Raises
        ------
        ConfigError
            When a plugin or template is not what it was then.
        """
        old = self.store.run(run) if isinstance(run, str) else run
        owner = None if queue else Owner.here()
        options = old.options
        run_id = self._create(
            old.pack, old.model, old.backend, old.scoring_mode, old.scoring_config, options.get("max_samples"),
            options.get("flags"), owner=owner, rerun_of=old,
        )  # fmt: skip
        if owner is None:
            return self.store.run(run_id)
        return self.carry_out(run_id, owner, on_line=on_line, on_start=on_start)

    def _create(
        self,
        pack: str,
        model: str,
        backend: str = "accelerate",
        scoring_mode: str = "deterministic",
        scoring_config: Any = None,
        max_samples: int | None = None,
        flags: Mapping[str, Any] | None = None,
        *,
        owner: Owner | None = None,
        rerun_of: Run | None = None,
    ) -> str:
        self.recover()
        if max_samples is not None and max_samples < 1:
            raise ConfigError(f"max_samples must be a whole number ≥ 1, got {max_samples}")
        resolution = resolve(self.registry, self.registry.pack(pack), scoring_mode, scoring_config, look=True)
        facts = model_facts(backend, model) if rerun_of is None else same_files(rerun_of.artifacts.get("model", {}))
        if rerun_of is not None:
            check_same(rerun_of, resolution.to_dict(), facts)
        return self.store.create(
            resolution,
            owner,
            {"model": facts, "notes": list(resolution.warnings)},
            model=model,
            backend=backend,
            scoring_config=as_given(scoring_config),
            options={"max_samples": max_samples, "flags": check_flags(flags or {})},
            rerun_of=None if rerun_of is None else rerun_of.id,
        )

    def carry_out(
        self,
        run_id: str,
        owner: Owner,
        *,
        on_line: Callable[[str], None] | None = None,
        on_start: Callable[[Run], None] | None = None,
        give_back: Callable[[], bool] = lambda: False,
    ) -> Run:
        """Attend to a run that this process owns, from its start to the closing of its row.

        Parameters
        ----------
        run_id, owner
            As of the store's `create` or `claim`.
        on_line, on_start
            As of `start`.
        give_back
            Called now and then: True ends the processes and queues the run again.
        """
        ending = Ending("failed", "the runner itself failed; its own message tells why")
        try:
            ending = self._attended(run_id, owner, on_line, on_start, give_back)
        except KeyboardInterrupt:
            ending = Ending("cancelled", "stopped by Ctrl-C")
            raise
        except (EvalkitError, OSError) as problem:
            ending = Ending("failed", str(problem))
            if isinstance(problem, RegistryError):
                raise
        finally:
            close_run(self.store, self.folder / run_id, run_id, owner, ending, self.patience_s)
        return self.store.run(run_id)

    def _attended(
        self,
        run_id: str,
        owner: Owner,
        on_line: Callable[[str], None] | None,
        on_start: Callable[[Run], None] | None,
        give_back: Callable[[], bool],
    ) -> Ending:
        folder = self.folder / run_id
        if not self.store.note(run_id, owner, folder=str(folder), environment=environment_facts()):
            return _LOST
        run = self.store.run(run_id)
        if on_start is not None:
            on_start(run)
        environment = child_environment(self.registry, run, owner.nonce)
        beat = partial(self._beat, run_id, owner)
        return follow_run(run, self.command, environment, beat, self.heartbeat_s, give_back, on_line)

    def _beat(self, run_id: str, owner: Owner) -> Ending | None:
        """Report that the owner is alive. A database that is away for a while stops nothing."""
        try:
            state = self.store.beat(run_id, owner)
        except RegistryError:
            return None
        if state == "cancel":
            return Ending("cancelled", "cancelled while it ran")
        return _LOST if state == "lost" else None

    def recover(self) -> list[Run]:
        """Close runs whose process is gone; those that a worker had are queued once more.

        What is left of their processes on this machine is killed. Called at each start and by workers.

        Returns
        -------
        list of Run
            Those that were closed or queued, as they are now.
        """
        if self.registry.database.is_read_only:
            return []  # runs can be looked at, and nothing can be closed
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
        """A run by its id, the beginning of one, or ``last``; RegistryError when there is none, or several begin so."""
        return self.store.run(name)

    def ingest(self, run: str) -> Run:
        """Read the output of a run that succeeded once more; the same output gives the same rows."""
        found = self.store.run(run)
        if found.status != "succeeded":
            raise RegistryError(f"run {found.id} is {found.status}; only the output of a run that succeeded is read")
        self.store.put_findings(found.id, read_findings(found))
        return self.store.run(found.id)

    def cancel(self, run: str) -> Run:
        """End a run: at once if it waits; else its owner ends the processes within a heartbeat or two."""
        self.recover()
        found = self.store.run(run)
        if found.status not in ("queued", "running"):
            raise RegistryError(f"run {found.id} is {found.status} already; there is nothing to cancel")
        self.store.cancel(found.id)
        return self.store.run(found.id)
