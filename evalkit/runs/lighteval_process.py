"""A run's LightEval process, followed from its start to its end, its cancellation, or its return to the queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evalkit.errors import RegistryError
from evalkit.runs.child_process import Child
from evalkit.runs.lighteval_command import check_model_files, lighteval_environment, lighteval_words, placed_model
from evalkit.runs.pack_resolution import relocate
from evalkit.runs.registry import Registry
from evalkit.runs.run_database_rows import Ending
from evalkit.runs.run_owner import OWNER_VARIABLE, RUN_VARIABLE, Owner, kill_leftovers
from evalkit.runs.run_record import Run
from evalkit.runs.run_results import read_findings
from evalkit.runs.run_store import RunStore

__all__ = ["Heartbeat", "child_environment", "follow_run"]


@dataclass(slots=True)
class Heartbeat:
    """Tells the registry now and then that the owner of a run is there, and hears whether the run is to end.

    Attributes
    ----------
    store, run_id, owner
        Whose.
    every_s
        Seconds between two heartbeats.
    """

    store: RunStore
    run_id: str
    owner: Owner
    every_s: float
    next_at: float = 0.0

    def beat(self) -> Ending | None:
        """How the run is to end, or None to go on. A database that is away for a while stops nothing."""
        if time.monotonic() < self.next_at:
            return None
        self.next_at = time.monotonic() + self.every_s
        try:
            state = self.store.beat(self.run_id, self.owner)
        except RegistryError:
            return None
        if state == "cancel":
            return Ending("cancelled", "cancelled while it ran")
        return Ending("failed", "another process took it over") if state == "lost" else None


def follow_run(
    run: Run,
    command: Sequence[str],
    environment: dict[str, str],
    heartbeat: Heartbeat,
    give_back: Callable[[], bool],
    on_line: Callable[[str], None] | None,
) -> Ending:
    """Start LightEval for a run and stay until its end, its cancellation, or until the run is to be given back.

    Raises
    ------
    InputError
        When what it left cannot be read.
    """
    model = placed_model(run.backend, run.model, run.artifacts.get("model", {}))
    words = lighteval_words(run.backend, model, [one.task for one in run.tasks], run.output, run.options)
    try:
        with Child([*command, *words], environment, run.log) as child:
            for lines in child.follow():
                if on_line is not None:
                    for line in lines:
                        on_line(line)
                if child.code is None and give_back():
                    return Ending("queued", "given back by its worker")
                if child.code is None and (ending := heartbeat.beat()) is not None:
                    return ending
    finally:
        kill_leftovers(run.id, heartbeat.owner)  # what left the process group
    if child.code:
        return Ending("failed", f"LightEval {child.failure}", exit_code=child.code)
    return read_findings(run)


def child_environment(registry: Registry, run: Run, owner: Owner) -> dict[str, str]:
    """The variables of a run's process.

    Raises
    ------
    ConfigError
        When a plugin or the model's file changed since the run was made.
    """
    check_model_files(run.artifacts.get("model", {}))
    config = None if run.scoring_mode == "deterministic" else run.scoring_config
    bindings = relocate(registry, run.resolution, config)
    marks = {RUN_VARIABLE: run.id, OWNER_VARIABLE: owner.nonce}
    run.output.mkdir(parents=True, exist_ok=True)
    return lighteval_environment(run.scoring_mode, config, bindings, run.output, **marks)
