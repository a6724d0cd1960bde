"""LightEval's process of one run: started, followed to its end, cancelled, or put back into the queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from evalkit.runs.child_process import Child
from evalkit.runs.lighteval_command import check_model_files, lighteval_environment, lighteval_words, placed_model
from evalkit.runs.pack_resolution import relocate
from evalkit.runs.registry import Registry
from evalkit.runs.run_database_rows import Ending
from evalkit.runs.run_owner import OWNER_VARIABLE, RUN_VARIABLE, kill_leftovers
from evalkit.runs.run_record import Run
from evalkit.runs.run_results import read_findings


def follow_run(
    run: Run,
    command: Sequence[str],
    environment: dict[str, str],
    beat: Callable[[], Ending | None],
    beat_every_s: float,
    give_back: Callable[[], bool],
    on_line: Callable[[str], None] | None,
) -> Ending:
    """Start LightEval for a run, and return when it has ended, is cancelled, or must go back to the queue.

    Parameters
    ----------
    run, command, environment
        The run; the command and variables of its process.
    beat, beat_every_s
        Called every `beat_every_s` seconds to report that the run's owner is alive. It returns how the run must end,
        or None to continue.
    give_back
        If it returns True, the process is ended and the run is queued again.
    on_line
        Called with each line of the log.

    Raises
    ------
    InputError
        When its output cannot be read.
    """
    model = placed_model(run.backend, run.model, run.artifacts.get("model", {}))
    words = lighteval_words(run.backend, model, [one.task for one in run.tasks], run.output, run.options)
    next_beat = 0.0
    try:
        with Child([*command, *words], environment, run.log) as child:
            for lines in child.follow():
                if on_line is not None:
                    for line in lines:
                        on_line(line)
                if child.code is None and give_back():
                    return Ending("queued", "put back into the queue by its worker")
                if child.code is None and time.monotonic() >= next_beat:
                    next_beat = time.monotonic() + beat_every_s
                    if (ending := beat()) is not None:
                        return ending
    finally:
        kill_leftovers(run.id, environment[OWNER_VARIABLE])  # processes that left the process group
    if child.code:
        return Ending("failed", f"LightEval {child.failure}", exit_code=child.code)
    return read_findings(run)


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
