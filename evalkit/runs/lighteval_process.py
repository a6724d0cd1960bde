"""A run's process from its start to its end: watched, followed, ended when that is wanted."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evalkit.errors import RegistryError
from evalkit.runs.child_process import Child, Tail, last_words
from evalkit.runs.contract import BINDINGS_VARIABLE, CONFIG_VARIABLE, MODE_VARIABLE, RECEIPT_VARIABLE
from evalkit.runs.lighteval_command import check_model_files, lighteval_words, placed_model
from evalkit.runs.pack_resolution import relocate
from evalkit.runs.registry import Registry
from evalkit.runs.run import Run
from evalkit.runs.run_owner import RUN_VARIABLE, Owner, kill_leftovers
from evalkit.runs.run_results import RECEIPTS, read_findings
from evalkit.runs.run_rows import Ending
from evalkit.runs.run_store import RunStore

__all__ = ["Watch", "attend", "child_environment"]

_STEP_S = 0.1
BINDINGS = "bindings.json"
"""In the run's folder, where they are too long for a variable."""


@dataclass(slots=True)
class Watch:
    """Signs of life of a run's owner, given now and then, and what the registry answers.

    Attributes
    ----------
    store, run_id, owner
        Whose.
    every_s
        Seconds between two.
    """

    store: RunStore
    run_id: str
    owner: Owner
    every_s: float
    next_at: float = 0.0

    def look(self) -> Literal["going", "cancel", "lost"]:
        """Whether to go on. A database that is away for a while stops nothing."""
        if time.monotonic() < self.next_at:
            return "going"
        self.next_at = time.monotonic() + self.every_s
        try:
            return self.store.beat(self.run_id, self.owner)
        except RegistryError:
            return "going"


def attend(
    run: Run,
    command: Sequence[str],
    environment: Mapping[str, str],
    watch: Watch,
    give_back: Callable[[], bool],
    on_line: Callable[[str], None] | None,
) -> Ending:
    """Start LightEval for a run and stay until its end, its cancellation, or until the run is to be given back.

    Raises
    ------
    InputError
        When what it left cannot be read.
    """
    run.output.mkdir(parents=True, exist_ok=True)
    tail = Tail(run.log, run.log.stat().st_size if run.log.exists() else 0)
    model = placed_model(run.backend, run.model, run.artifacts.get("model", {}))
    words = lighteval_words(run.backend, model, [one.task for one in run.tasks], run.output, run.options)
    child = Child([*command, *words], environment, run.log)
    try:
        while True:
            code = child.wait(_STEP_S)
            for line in tail.lines(whole=code is not None):
                if on_line is not None:
                    on_line(line)
            if code is not None:
                return _ended(run, code)
            if give_back():
                return Ending("queued", "given back by its worker")
            match watch.look():
                case "cancel":
                    return Ending("cancelled", "cancelled while it ran")
                case "lost":
                    return Ending("failed", "another process took it over")
    finally:
        child.stop()
        kill_leftovers(run.id, watch.owner)  # what left the process group


def _ended(run: Run, code: int) -> Ending:
    if code == 0:
        return read_findings(run)
    killed = f"killed by signal {code - 128}" if 128 < code < 160 else f"exit code {code}"
    return Ending("failed", f"LightEval ended with {killed}: {last_words(run.log)} (log: {run.log})", exit_code=code)


def child_environment(registry: Registry, run: Run) -> dict[str, str]:
    """The variables of the process that asks, with those of the scoring contract set, or taken out.

    Raises
    ------
    ConfigError
        When a plugin or the model's file is not what it was when the run was made.
    """
    check_model_files(run.artifacts.get("model", {}))
    config = None if run.scoring_mode == "deterministic" else run.scoring_config
    bindings = relocate(registry, run.resolution, config)
    given = {
        MODE_VARIABLE: run.scoring_mode,
        CONFIG_VARIABLE: None if config is None else json.dumps(config, ensure_ascii=False),
        BINDINGS_VARIABLE: bindings.to_environ(run.folder / BINDINGS) if bindings else None,
        RECEIPT_VARIABLE: str(run.output / RECEIPTS),
        RUN_VARIABLE: run.id,
        "PYTHONUNBUFFERED": "1",
    }
    kept = {name: value for name, value in os.environ.items() if name not in given}
    return kept | {name: value for name, value in given.items() if value is not None}
