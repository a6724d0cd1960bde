"""What the tests of runs share: a pack, a plugin, databases of both kinds, a stand-in for LightEval."""

from __future__ import annotations

import dataclasses
import resource
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalkit.runs import Run, Runner
from evalkit.runs.processes.run_owner import Owner
from evalkit.runs.registry import Registry
from evalkit.runs.registry.database_tables import RunRow
from evalkit.runs.run.binding_tasks import resolve
from evalkit.runs.run.run_record import RunScore, RunTask

WAIT_S = 300.0
FAKE = (sys.executable, str(Path(__file__).with_name("fake_lighteval.py")))
JURY = {
    "judges": [
        {"judge_model_name": "strict", "judge_backend": "fake"},
        {"judge_model_name": "lenient", "judge_backend": "fake", "weight": 2},
    ],
    "aggregation": "median",
}
JUDGE = {"judges": JURY["judges"][:1]}
PROFILE = "profile: tone-strict\nversion: '1'\nsamples: 3\naggregate: min\n"
TEMPLATE = "{#- evalkit\nform: number\n-#}\nRate {{ fence('answer') }} for {{ criterion.name }}."


def make_plugin(folder: Path, code: str = "TASKS_TABLE = []\n") -> Path:
    """A plugin package with one profile and one template."""
    package = folder / "tone_plugin"
    for part in ("profiles", "templates/plain"):
        (package / part).mkdir(parents=True)
    (package / "__init__.py").write_text(code)
    (package / "profiles" / "tone-strict.yaml").write_text(PROFILE)
    (package / "templates" / "plain" / "v1.jinja").write_text(TEMPLATE)
    return package


def pack(*tasks: dict[str, Any], name: str = "support", version: str = "1", **more: Any) -> dict[str, Any]:
    return {"pack": name, "version": version, "tasks": list(tasks) or [{"task": "plain"}], **more}


def bound(task: str, plugin: str = "tone", **overrides: str) -> dict[str, Any]:
    return {"task": task, "overrides": {"judge_plugin_name": plugin, **overrides}}


def runner_of(registry: Registry, folder: Path, **options: Any) -> Runner:
    return Runner(registry, folder=folder / "runs", command=FAKE, **({"poll_s": 0.2, "patience_s": 5.0} | options))


def left_running(runner: Runner, pack: str = "support", owner: Owner | None = None, model: str = "model_name=m") -> Run:
    """A run that no process of these tests carries out: that of `owner`, else of a process that has ended."""
    owner = owner or dataclasses.replace(Owner.here(), started="0")
    resolution = resolve(runner.registry, runner.registry.pack(pack))
    columns = {"model": model, "backend": "accelerate", "scoring_config": None, "options": {}}
    run_id = runner.store.create(resolution, runner.folder, {}, **columns)
    with runner.registry.database.session() as session:
        session.get_one(RunRow, run_id).worker = owner.text
    return runner.run(run_id)


def wait_for(is_so: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT_S
    while not (found := is_so()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)
    return found


def processes_of(run_id: str) -> list[tuple[int, str]]:
    """Processes that carry the run's id: their ids and what they are; none where there is no /proc."""
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"EVALKIT_RUN_ID={run_id}".encode() in place.read_bytes().split(b"\0"):
                words = place.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode()
                found.append((int(place.parent.name), words))
        except OSError:
            continue
    return found


# These run in processes of their own, and say what they do by files in a folder: a queue shared with a process that is
# killed may stay locked for ever.


def say(folder: Path, *words: object) -> None:
    folder.mkdir(exist_ok=True)
    (folder / " ".join(map(str, words))).touch()


def heard(folder: Path) -> list[list[str]]:
    return [path.name.split() for path in sorted(folder.glob("*"))]


def begin(url: str, folder: Path, model: str, file_size: int | None = None) -> None:
    """One run in the foreground; it says the run's id as soon as the row is there."""

    def started(run: Run) -> None:
        say(folder / "begun", run.id)
        if file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    runner_of(Registry.open(url), folder, patience_s=0.5).start("support", model, on_start=started)


def made(run_id: str, values: list[float | None], **changes: Any) -> Run:
    """A run as the registry would give it, without one."""
    tasks = tuple(RunTask(f"t{at}|0", 1.0, {}, "deterministic") for at in range(len(values)))
    scores = tuple(RunScore(f"t{at}|0", "m", value, None, None) for at, value in enumerate(values))
    fields: dict[str, Any] = {
        "id": run_id, "pack": "p@1", "model": run_id, "backend": "accelerate", "scoring_mode": "deterministic",
        "scoring_config": None, "options": {}, "resolution": {}, "status": "succeeded", "error": None, "exit_code": 0,
        "artifacts": {}, "tasks": tasks, "scores": scores, "receipts": (),
        "created_at": datetime(2026, 1, 31, tzinfo=UTC), "started_at": None, "finished_at": None,
        "primary_metric": None, "task_aggregation": "mean",
    }  # fmt: skip
    return Run(**(fields | changes))
