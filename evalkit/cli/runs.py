"""`evalkit run start | list | show | logs | cancel | compare | rerun | ingest | leaderboard`, and `evalkit worker`."""

from __future__ import annotations

import argparse
import contextlib
import signal
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from evalkit.cli.arguments import Commands, add_command, add_output, add_quiet, add_registry, opened, seconds
from evalkit.cli.messages import tell
from evalkit.cli.output import check_output, put, put_document, put_text
from evalkit.core.choices import RUN_STATUSES, SCORING_MODES
from evalkit.errors import counted

if TYPE_CHECKING:
    import pandas as pd

    from evalkit.runs import Registry, Run, Runner

__all__ = ["add"]

_FAULT = 2
_FOLLOW_S = 0.5


def add(commands: Commands) -> None:
    """Their parsers."""
    whole = add_command(commands, "run", _none, "run packs with LightEval; list, show, compare and rank runs")
    parts = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_start(parts)
    _add_looks(parts)
    _add_changes(parts)
    _add_worker(commands)


def _add_start(parts: Commands) -> None:
    end = (
        "  evalkit run start support-suite --model HuggingFaceTB/SmolLM2-135M-Instruct\n"
        "  evalkit run start support-suite@1 --model tiny=my_model.py --backend custom \\\n"
        "      --scoring-mode jury --scoring-config jury.yaml --queue"
    )
    text = "check a pack and run it with a model: here and now, or later by a worker; exit code 2 unless it succeeds"
    parser = add_command(parts, "start", _start, text, end)
    parser.add_argument("pack", metavar="PACK[@VERSION]", help="a registered pack (default: the version applied last)")
    parser.add_argument(
        "--model", metavar="M", required=True, help="name, KEY=VALUE,… or YAML file for LightEval; custom: NAME=FILE.py"
    )
    parser.add_argument(
        "--backend", metavar="B", default="accelerate", help="accelerate (default), custom, vllm, endpoint-litellm …"
    )
    parser.add_argument("--scoring-mode", choices=SCORING_MODES, default="deterministic", help="default deterministic")
    parser.add_argument("--scoring-config", metavar="FILE", help="judges and rules: YAML or JSON file, or JSON text")
    parser.add_argument("--max-samples", metavar="N", type=int, help="at most so many samples of each task")
    parser.add_argument(
        "--option",
        metavar="NAME[=VALUE]",
        action="append",
        default=[],
        type=_option,
        help="another flag of LightEval, as in num-fewshot-seeds=1; again for more",
    )
    parser.add_argument("--queue", action="store_true", help="leave it to 'evalkit worker'")
    parser.add_argument(
        "--plan", action="store_true", help="only check it, and print its judge calls at most and what they cost"
    )
    _with_runner(parser)


def _add_looks(parts: Commands) -> None:
    parser = add_command(parts, "list", _list, "all runs, newest last")
    parser.add_argument("--pack", metavar="PACK[@VERSION]", help="only runs of this pack; without @VERSION of any")
    parser.add_argument("--status", choices=RUN_STATUSES, help="only these")
    add_registry(parser)
    add_output(parser, rows=50)

    end = "  evalkit run show last\n  evalkit run show 20260131-1200 --json"
    text = "scores with coverage and spread, the judges that were used, and what speaks against them"
    parser = add_command(parts, "show", _show, text, end)
    _with_run(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_registry(parser)

    parser = add_command(parts, "logs", _logs, "the log of LightEval's process, on the machine that ran it")
    _with_run(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run is over")
    add_registry(parser)

    end = "  evalkit run compare 20260131-1200 last"
    parser = add_command(parts, "compare", _compare, "differences between two runs, sample by sample where kept", end)
    parser.add_argument("before", metavar="BEFORE", help="a run that succeeded")
    parser.add_argument("after", metavar="AFTER", help="another; differences are AFTER - BEFORE")
    add_registry(parser)
    add_output(parser, rows=200)

    text = "runs of a pack, ranked only among those that are scored in the same way"
    parser = add_command(parts, "leaderboard", _leaderboard, text)
    parser.add_argument("pack", metavar="PACK[@VERSION]", help="a pack")
    parser.add_argument("--all", action="store_true", help="every run, not only the newest of each model")
    add_registry(parser)
    add_output(parser, rows=50)


def _add_changes(parts: Commands) -> None:
    parser = add_command(parts, "cancel", _cancel, "end a run that is queued or running")
    _with_run(parser)
    add_registry(parser)
    add_quiet(parser)

    text = "run again what a run was; refused if plugins, templates or the model's file are not what they were"
    parser = add_command(parts, "rerun", _rerun, text)
    _with_run(parser)
    parser.add_argument("--queue", action="store_true", help="leave it to 'evalkit worker'")
    _with_runner(parser)

    parser = add_command(parts, "ingest", _ingest, "read the output of a run once more; nothing is doubled")
    _with_run(parser)
    add_registry(parser)
    add_quiet(parser)


def _add_worker(commands: Commands) -> None:
    text = "carry out queued runs, one after the other; any number of workers share a registry"
    end = "  evalkit worker --registry postgresql://evalkit@db.example.org/evalkit"
    parser = add_command(commands, "worker", _work, text, end)
    parser.add_argument("--once", action="store_true", help="end when the queue is empty")
    parser.add_argument(
        "--poll", metavar="S", type=seconds, default=5.0, help="seconds between looks at an empty queue (default 5)"
    )
    _with_runner(parser)


def _with_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RUN", help="its id, the beginning of it, or 'last'")


def _with_runner(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", metavar="DIR", help="logs and output of runs (default: runs/ in the cache folder)")
    add_registry(parser)
    add_quiet(parser)


def _none(_: argparse.Namespace) -> None:
    """Never called: a command below it is required."""


def _option(text: str) -> tuple[str, str | None]:
    name, separator, value = text.partition("=")
    if not name.strip("-"):
        raise argparse.ArgumentTypeError(f"expected NAME or NAME=VALUE, got {text!r}")
    return name, value if separator else None


def _runner(args: argparse.Namespace, registry: Registry) -> Runner:
    from evalkit.runs import Runner

    return Runner(registry, folder=getattr(args, "folder", None))


def _start(args: argparse.Namespace) -> int:
    options: dict[str, Any] = {
        "backend": args.backend,
        "scoring_mode": args.scoring_mode,
        "scoring_config": args.scoring_config,
        "max_samples": args.max_samples,
        "flags": dict(args.option),
    }
    with opened(args) as registry, _stoppable():
        runner = _runner(args, registry)
        if args.plan:
            return _plan(args, registry, options)
        if args.queue:
            return _ended(args, runner.queue(args.pack, args.model, **options))
        return _ended(args, runner.start(args.pack, args.model, **options, **_hooks(args)))


def _plan(args: argparse.Namespace, registry: Registry, options: dict[str, Any]) -> int:
    from evalkit.lighteval import plan_run
    from evalkit.runs.lighteval_command import check_flags, model_facts

    model_facts(options.pop("backend"), args.model)
    check_flags(options.pop("flags"))
    put_text(str(plan_run(registry, args.pack, look=True, **options)))
    return 0


def _rerun(args: argparse.Namespace) -> int:
    with opened(args) as registry, _stoppable():
        hooks = {} if args.queue else _hooks(args)
        return _ended(args, _runner(args, registry).rerun(args.name, queue=args.queue, **hooks))


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM is Ctrl-C: the row is closed, and LightEval ended."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _hooks(args: argparse.Namespace) -> dict[str, Any]:
    def begun(run: Run) -> None:
        args.told = run.notes
        for note in run.notes:
            tell(f"warning: {note}")
        if not args.quiet:
            tell(f"run {run.id} of {run.pack} begins; log: {run.log}")

    return {"on_start": begun, "on_line": None if args.quiet else tell}


def _ended(args: argparse.Namespace, run: Run) -> int:
    if run.status == "queued":
        put_text(run.id)
        if not args.quiet:
            tell(f"run {run.id} waits for a worker: evalkit worker")
        return 0
    for note in _notes(run, getattr(args, "told", ())):
        tell(f"warning: {note}")
    put_text(str(run))
    return 0 if run.status == "succeeded" else _FAULT


def _notes(run: Run, told: Sequence[str] = ()) -> Iterator[str]:
    """What its figures are to be read with, shown with ``--quiet`` too, but for what was told before."""
    if run.scored_nothing:
        yield f"run {run.id} scored nothing in {', '.join(run.scored_nothing)}"
    yield from (note for note in run.notes if note not in told)


def _list(args: argparse.Namespace) -> None:
    check_output(args.out)
    with opened(args) as registry:
        runner = _runner(args, registry)
        runner.recover()
        table = registry.runs()
        runs = {run.id: run for run in runner.store.runs(args.pack, "succeeded")}
    nothing = {name: ", ".join(run.scored_nothing) for name, run in runs.items()}
    table["scored_nothing"] = [nothing.get(name, "") for name in table["id"]]
    if args.pack is not None:
        table = table[(table["pack"] == args.pack) | (table["pack"].str.partition("@")[0] == args.pack)]
    if args.status is not None:
        table = table[table["status"] == args.status]
    if args.out is None and not args.json:
        for row in table.index[table["scored_nothing"] != ""]:
            run = runs[table.loc[row, "id"]]
            part = "nothing" if len(run.scored_nothing) == len(run.receipts) else "partly"
            table.loc[row, "status"] += f", {part} scored"
    columns = ("id", "status", "pack", "scoring_mode", "model")
    put(args, _moments(table.reset_index(drop=True)), columns=columns)


def _moments(table: pd.DataFrame) -> pd.DataFrame:
    """Moments as ISO text, to the second."""
    table = table.copy()
    for name in ("created_at", "started_at", "finished_at"):
        table[name] = table[name].map(lambda one: one.isoformat(timespec="seconds"), na_action="ignore").astype(object)
    return table


def _show(args: argparse.Namespace) -> None:
    run = _read(args)
    if args.json:
        put_document(run.to_dict())
    else:
        put_text(str(run))


def _read(args: argparse.Namespace) -> Run:
    with opened(args) as registry:
        runner = _runner(args, registry)
        runner.recover()
        return runner.run(args.name)


def _logs(args: argparse.Namespace) -> None:
    from evalkit.errors import RegistryError
    from evalkit.runs.child_process import Tail

    run = _read(args)
    if not args.follow and not run.artifacts.get("folder"):
        raise RegistryError(f"run {run.id} has no log: it is {run.status}, and no process of it was started")
    if not args.follow and not run.log.is_file():
        where = run.artifacts.get("environment", {}).get("host", "another machine")
        raise RegistryError(f"run {run.id} has no log here; it is {run.status}, and its folder {run.folder} on {where}")
    tail = Tail(run.log)
    while True:
        over = run.status not in ("queued", "running")
        for line in tail.lines(whole=over or not args.follow):
            put_text(line)
        if over or not args.follow:
            return
        time.sleep(_FOLLOW_S)
        run = _read(args)
        if tail.path != run.log:  # it waited, and had no folder yet
            tail = Tail(run.log)


def _cancel(args: argparse.Namespace) -> None:
    with opened(args) as registry:
        run = _runner(args, registry).cancel(args.name)
    if not args.quiet:
        tell(f"run {run.id} is cancelled" if run.status == "cancelled" else f"run {run.id} will end within seconds")


def _ingest(args: argparse.Namespace) -> None:
    with opened(args) as registry:
        run = _runner(args, registry).ingest(args.name)
    if not args.quiet:
        tell(f"run {run.id} has {counted(len(run.scores), 'figure')} of {counted(len(run.tasks), 'task')}")


def _compare(args: argparse.Namespace) -> None:
    from evalkit.runs import compare_runs

    check_output(args.out)
    with opened(args) as registry:
        runner = _runner(args, registry)
        runner.recover()
        found = compare_runs(runner.run(args.before), runner.run(args.after))
    if args.out is None and not args.json:
        put_text(str(found))
        return
    put(args, found.table)
    for reason in found.reasons:
        tell(f"not comparable: {reason}")


def _leaderboard(args: argparse.Namespace) -> None:
    from evalkit.runs import leaderboard

    check_output(args.out)
    with opened(args) as registry:
        _runner(args, registry).recover()
        table = leaderboard(registry, args.pack, newest=not args.all)
    if args.out is None and not args.json:
        table = table.rename(columns={"coverage": "scored"})  # 80 columns hold it then, beside whole ids
    columns = ("scored_as", "rank", "run", "model", "score", "stderr", "scored", "judged_by", "notes")
    put(args, table, columns=columns)


def _work(args: argparse.Namespace) -> None:
    from evalkit.runs import Worker

    def told(run: Run) -> None:
        if not args.quiet:
            tell(f"run {run.id} of {run.pack}: {run.status}{f': {run.error}' if run.error else ''}")
        for note in _notes(run):
            tell(f"warning: {note}")

    with opened(args) as registry:
        n_done = Worker(_runner(args, registry), poll_s=args.poll, on_run=told).work(once=args.once)
    if not args.quiet:
        tell(f"{counted(n_done, 'run')} carried out")
