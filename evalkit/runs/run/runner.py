"""`Runner`: starts runs, follows them to their end, and always closes their rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from evalkit.errors import ConfigError, EvalkitError, RegistryError
from evalkit.runs.contract.scoring_config import ScoringConfig, as_given
from evalkit.runs.processes.child_process import Child
from evalkit.runs.processes.lighteval_command import LIGHTEVAL, check_flags, lighteval_words, model_facts, run_variables
from evalkit.runs.processes.run_owner import RUN_VARIABLE, environment_facts, kill_leftovers
from evalkit.runs.registry import Registry
from evalkit.runs.registry.database import registry_settings
from evalkit.runs.run.binding_tasks import Resolution, resolve
from evalkit.runs.run.run_record import Run
from evalkit.runs.run.run_results import read_findings
from evalkit.runs.run.run_store import Ending, RunStore, close_run

_Value = TypeVar("_Value")


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
    poll_s
        Seconds between two looks at the run's row, which another process may have cancelled.
    patience_s
        How long to try to close a run's row while the database is unreachable.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     registry = Registry.open(f"{folder}/registry.sqlite")
    ...     pack = registry.apply_pack({"pack": "smoke", "version": 1, "tasks": [{"task": "tool_use"}]})
    ...     run = Runner(registry, folder=folder, command=["echo"]).start("smoke", "gpt2")  # in place of LightEval
    ...     print(run.status, run.pack, [task.task for task in run.tasks])
    ...     registry.close()
    failed smoke@1 ['tool_use|0']
    """

    def __init__(
        self,
        registry: Registry,
        *,
        folder: str | Path | None = None,
        command: Sequence[str] = LIGHTEVAL,
        poll_s: float = 2.0,
        patience_s: float = 60.0,
    ) -> None:
        self.registry, self.store = registry, RunStore(registry)
        self.folder = Path(registry_settings()["runs"] if folder is None else folder)
        self.command, self.poll_s, self.patience_s = tuple(command), poll_s, patience_s

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
            More flags of LightEval, name -> value (None for one without); ``reuse-answers`` takes stored answers.
        on_line, on_start
            Called with each new line of the log, and with the run as soon as its row is written.

        Returns
        -------
        Run
            With the status ``succeeded``, ``failed`` or ``cancelled``; `error` has the reason.

        Raises
        ------
        ConfigError
            Before anything starts, with all problems in one message.
        RegistryError
            When the registry is unreachable.
        KeyboardInterrupt
            After Ctrl-C, when the processes have ended and the row is closed.
        """
        self.recover()
        if max_samples is not None and max_samples < 1:
            raise ConfigError(f"max_samples must be a whole number ≥ 1, got {max_samples}")
        resolution = resolve(self.registry, self.registry.pack(pack), scoring_mode, scoring_config)
        artifacts = {"model": model_facts(backend, model), "notes": list(resolution.warnings)}
        artifacts["environment"] = environment_facts()
        options = {"max_samples": max_samples, "flags": check_flags(flags or {})}
        run_id = self.store.create(
            resolution, self.folder, artifacts, model=model, backend=backend, options=options,
            scoring_config=as_given(scoring_config),
        )  # fmt: skip
        ending = Ending("failed", "the runner itself failed; see its own error message")
        try:
            run = _whole(self.store.run, run_id)
            if on_start is not None:
                on_start(run)
            ending = self._follow(run, resolution, on_line)
        except KeyboardInterrupt:
            ending = Ending("cancelled", "stopped by Ctrl-C")
            raise
        except (EvalkitError, OSError) as problem:
            ending = Ending("failed", str(problem))
            if isinstance(problem, RegistryError):
                raise
        finally:
            close_run(self.store, run_id, ending, self.patience_s)
        return self.store.run(run_id)

    def _follow(self, run: Run, resolution: Resolution, on_line: Callable[[str], None] | None) -> Ending:
        """Start LightEval, and return when it has ended or the run is cancelled."""
        run.output.mkdir(parents=True, exist_ok=True)
        own = {RUN_VARIABLE: run.id}
        environment = run_variables(run.scoring_mode, run.scoring_config, resolution.bindings, run.output, **own)
        words = lighteval_words(run.backend, run.model, [one.task for one in run.tasks], run.output, run.options)
        next_look = 0.0
        try:
            with Child([*self.command, *words], environment, run.log) as child:
                for lines in child.follow():
                    if on_line is not None:
                        for line in lines:
                            on_line(line)
                    if child.code is None and time.monotonic() >= next_look:
                        next_look = time.monotonic() + self.poll_s
                        if self._is_closed(run.id):
                            return Ending("cancelled")  # its row says so already
        finally:
            kill_leftovers(run.id)  # processes that left the process group
        if child.code:
            return Ending("failed", f"LightEval {child.failure}", exit_code=child.code)
        return read_findings(run)

    def _is_closed(self, run_id: str) -> bool:
        """Whether another process closed the run. An unreachable database does not stop the run."""
        try:
            return run_id not in _whole(self.store.running)
        except RegistryError:
            return False

    def recover(self) -> list[Run]:
        """Close running runs whose process on this machine has ended; called at each start.

        A run of another machine stays as it is: whether its process is alive cannot be known here.

        Returns
        -------
        list of Run
            The runs that were closed, as they are now.
        """
        if self.registry.database.is_read_only:
            return []  # runs can be shown, but not closed
        found = []
        for run_id, owner in self.store.running().items():
            if not owner.is_gone(in_file=self.registry.database.is_sqlite):
                continue
            kill_leftovers(run_id)
            ending = Ending("failed", f"its process {owner.pid} on {owner.host} ended without closing it")
            if self.store.close(run_id, ending):
                found.append(self.store.run(run_id))
        return found

    def run(self, name: str) -> Run:
        """A run by its id, the start of an id, or ``last``; RegistryError if there is none, or several match."""
        return self.store.run(name)

    def cancel(self, run: str) -> Run:
        """Cancel a run, of any machine; the process that carries it out sees this and ends LightEval within seconds."""
        self.recover()
        found = self.store.run(run)
        if not self.store.close(found.id, Ending("cancelled", "cancelled while it ran")):
            raise RegistryError(f"run {found.id} is already {found.status}; there is nothing to cancel")
        return self.store.run(found.id)


def _whole(call: Callable[..., _Value], *given: Any) -> _Value:
    """Look at the registry in a thread of its own.

    Ctrl-C between two steps of SQLAlchemy would leave its connection open, and with it the lock that closing needs.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call, *given).result()
