"""`evalkit run start | list | show | logs | cancel | compare | leaderboard`."""

from __future__ import annotations

import argparse
import contextlib
import signal
import time
from collections.abc import Iterator, Sequence
from typing import Any

import evalkit as ek
from evalkit.cli.arguments import Commands, Parser, add_command, add_flags, add_group, add_value, opened, read_as
from evalkit.cli.reading_and_printing import moments_as_text, note, put, put_either, tell
from evalkit.core.lists_of_choices import RUN_STATUSES, SCORING_MODES

_FOLLOW_S = 0.5
_START = """\
  evalkit run start support-suite --model HuggingFaceTB/SmolLM2-135M-Instruct
  evalkit run start support-suite@1 --model tiny=my_model.py --backend custom \\
      --scoring-mode jury --scoring-config jury.yaml"""
_SHOW = """\
  evalkit run show last
  evalkit run show 20260131-1200 --json"""


def add(commands: Commands) -> None:
    """Their parsers."""
    parts = add_group(commands, "run", "run packs with LightEval; list, show, compare and rank runs")
    _add_starting(parts)
    _add_reading(parts)


def _add_starting(parts: Commands) -> None:
    text = "check a pack and run it with a model; exit code 2 if the run does not succeed"
    parser = _add_part(parts, "start", _start, text, _START)
    add_value(parser, "pack", "PACK[@VERSION]", "a registered pack (default: the version applied last)")
    text = "name, KEY=VALUE,… or YAML file; for --backend custom: NAME=FILE.py"
    add_value(parser, "--model", "M", text, required=True)
    add_value(parser, "--backend", "B", "accelerate (default), custom, vllm, endpoint-litellm …", default="accelerate")
    parser.add_argument("--scoring-mode", choices=SCORING_MODES, default="deterministic", help="default deterministic")
    add_value(parser, "--scoring-config", "FILE", "judges and rules: YAML or JSON file, or JSON text")
    add_value(parser, "--max-samples", "N", "at most this many samples of each task", type=int)
    text, option = "another flag of LightEval, as in num-fewshot-seeds=1; repeat for more", "NAME or NAME=VALUE"
    add_value(parser, "--option", "NAME[=VALUE]", text, action="append", default=[], type=read_as(option, _option))
    text = "take stored answers of the same model name and settings; other weights or code behind it are not noticed"
    parser.add_argument("--reuse-answers", action="store_true", help=text)
    text = "only check it, and print how many judge calls it makes at most and what they cost"
    parser.add_argument("--plan", action="store_true", help=text)
    add_flags(parser, "folder", "quiet")


def _add_reading(parts: Commands) -> None:
    parser = _add_part(parts, "list", _list, "all runs, newest last")
    add_value(parser, "--pack", "PACK[@VERSION]", "only runs of this pack, or of this version of it")
    parser.add_argument("--status", choices=RUN_STATUSES, help="only runs with this status")
    parser.add_output(rows=50)

    text = "scores with coverage and spread, the judges that were used, and reasons to doubt the scores"
    _with_run(_add_part(parts, "show", _show, text, _SHOW, "json"))

    parser = _add_part(parts, "logs", _logs, "the log of LightEval's process, on the machine that ran it")
    _with_run(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing until the run ends")

    text = "differences between two runs, sample by sample if both stored their samples, and what else differs"
    parser = _add_part(parts, "compare", _compare, text, "  evalkit run compare 20260131-1200 last")
    add_value(parser, "before", "BEFORE", "a run that succeeded")
    add_value(parser, "after", "AFTER", "another run that succeeded; differences are AFTER - BEFORE")
    parser.add_output(rows=200)

    text = "runs of a pack, ranked within groups that are scored alike; what differs is marked"
    parser = _add_part(parts, "leaderboard", _leaderboard, text)
    add_value(parser, "pack", "PACK[@VERSION]", "a pack")
    parser.add_argument("--all", action="store_true", help="every run, not only the newest of each model")
    parser.add_output(rows=50)

    _with_run(_add_part(parts, "cancel", _cancel, "end a run, of any machine that shares the registry", "", "quiet"))


def _add_part(commands: Commands, name: str, run: Any, text: str, end: str = "", *flags: str) -> Parser:
    return add_command(commands, name, run, text, end, flags=("registry", *flags))


def _with_run(parser: Parser) -> None:
    add_value(parser, "name", "RUN", "its id, the beginning of its id, or 'last'")


def _option(text: str) -> tuple[str, str | None]:
    name, separator, value = text.partition("=")
    if not name.strip("-"):
        raise ValueError
    return name, value if separator else None


@contextlib.contextmanager
def _runner(args: argparse.Namespace) -> Iterator[ek.runs.Runner]:
    """The runner of ``--registry``, after it closed the runs of processes that died."""
    with opened(args) as registry:
        runner = ek.runs.Runner(registry, folder=getattr(args, "folder", None))
        runner.recover()
        yield runner


def _start(args: argparse.Namespace) -> int:
    options: dict[str, Any] = {name: getattr(args, name) for name in ("scoring_mode", "scoring_config", "max_samples")}
    launch = {"backend": args.backend, "flags": dict(args.option + [("reuse-answers", None)] * args.reuse_answers)}
    with _runner(args) as runner:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: LightEval is ended, the run's row closed
        if args.plan:
            return _plan(args, runner, options, **launch)
        run = runner.start(args.pack, args.model, **options, **launch, **_hooks(args))
    _warn(run, but=getattr(args, "shown", ()))
    print(run)
    return 0 if run.status == "succeeded" else 2


def _plan(args: argparse.Namespace, runner: ek.runs.Runner, options: dict[str, Any], backend: str, flags: Any) -> int:
    from evalkit.lighteval import plan_run
    from evalkit.runs.processes.lighteval_command import check_flags, model_facts

    model_facts(backend, args.model)
    check_flags(flags)
    print(plan_run(runner.registry, args.pack, **options))
    return 0


def _hooks(args: argparse.Namespace) -> dict[str, Any]:
    def begun(run: ek.runs.Run) -> None:
        args.shown = run.notes
        _warn(run)
        note(args, f"run {run.id} of {run.pack} begins; log: {run.log}")

    return {"on_start": begun, "on_line": None if args.quiet else tell}


def _warn(run: ek.runs.Run, but: Sequence[str] = ()) -> None:
    """Warnings about a run, with ``--quiet`` too, except those that were shown before."""
    nothing = [f"run {run.id} scored nothing in {', '.join(run.scored_nothing)}"] if run.scored_nothing else []
    for text in [*nothing, *run.notes]:
        if text not in but:
            tell(f"warning: {text}")


def _list(args: argparse.Namespace) -> None:
    import pandas as pd

    with _runner(args) as runner:
        table = runner.registry.runs()
        runs = {run.id: run for run in runner.store.runs(args.pack, args.status)}
    table = table[table["id"].isin(list(runs))].reset_index(drop=True)
    unscored = [runs[name].scored_nothing if runs[name].status == "succeeded" else () for name in table["id"]]
    table["scored_nothing"] = pd.Series([", ".join(tasks) or None for tasks in unscored], dtype=object)
    put(args, moments_as_text(table), columns=("id", "status", "scored_nothing", "pack", "scoring_mode", "model"))


def _show(args: argparse.Namespace) -> None:
    run = _read(args)
    put_either(args, run.to_dict(), str(run))


def _read(args: argparse.Namespace) -> ek.runs.Run:
    with _runner(args) as runner:
        return runner.run(args.name)


def _logs(args: argparse.Namespace) -> None:
    from evalkit.errors import RegistryError
    from evalkit.runs.processes.child_process import Tail

    run = _read(args)
    if not args.follow and not (run.artifacts.get("folder") and run.log.is_file()):
        host = run.artifacts.get("environment", {}).get("host")
        where = f"it ran on {host}" if host else "no process was started"
        raise RegistryError(f"run {run.id} has no log on this machine (status: {run.status}; {where})")
    tail = Tail(run.log)
    while True:
        over = run.status != "running"
        for line in tail.lines(whole=over or not args.follow):
            print(line)
        if over or not args.follow:
            return
        time.sleep(_FOLLOW_S)
        run = _read(args)


def _cancel(args: argparse.Namespace) -> None:
    with _runner(args) as runner:
        run = runner.cancel(args.name)
    note(args, f"run {run.id} is cancelled; its processes end within seconds")


def _compare(args: argparse.Namespace) -> None:
    with _runner(args) as runner:
        comparison = ek.runs.compare_runs(runner.run(args.before), runner.run(args.after))
    if args.out is None and not args.json:
        print(comparison)
        return
    put(args, comparison.table)
    for head, lines in (("differs", comparison.differences), ("not known", comparison.not_known)):
        for line in lines:
            tell(f"{head}: {line}")


def _leaderboard(args: argparse.Namespace) -> None:
    with _runner(args) as runner:
        table = ek.runs.leaderboard(runner.registry, args.pack, newest=not args.all)
    columns = (
        "group",
        "rank",
        "run",
        "model",
        "score",
        "stderr",
        "coverage",
        "differs",
        "judged_by",
        "not_known",
        "notes",
    )
    put(args, table, columns=columns)
