"""`evalkit pack apply | list | show | export | tasks`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit.cli.arguments import (
    Commands,
    add_command,
    add_output,
    add_quiet,
    add_registry,
    moments_as_text,
    opened,
)
from evalkit.cli.messages import tell
from evalkit.cli.output import check_output, put, put_document, put_text
from evalkit.core.terminal_text import one_line
from evalkit.errors import ConfigError, counted

if TYPE_CHECKING:
    from evalkit.runs.registry import Pack

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Their parsers."""
    whole = add_command(commands, "pack", _none, "packs: benchmark tasks, bound to judge plugins, profiles, templates")
    parts = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)

    end = "  evalkit pack apply support-suite.yaml"
    parser = add_command(parts, "apply", _apply, "take packs over from YAML files; what is there already stays", end)
    parser.add_argument("files", metavar="FILE", nargs="+", help="YAML file with pack, version and tasks")
    add_registry(parser)
    add_quiet(parser)

    parser = add_command(parts, "list", _list, "all packs")
    add_registry(parser)
    add_output(parser, rows=50)

    parser = add_command(parts, "show", _show, "the tasks of a pack, and what they are bound to")
    _with_pack(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")

    parser = add_command(parts, "export", _export, "a pack as the YAML that apply takes")
    _with_pack(parser)
    parser.add_argument("-o", "--out", metavar="FILE", help="a new file (default: stdout)")
    add_quiet(parser)

    end = "  evalkit pack tasks --refresh\n  evalkit pack tasks mmlu"
    parser = add_command(
        parts, "tasks", _tasks, "the tasks that packs may name: LightEval's, and those of plugins", end
    )
    parser.add_argument("words", metavar="WORD", nargs="*", help="only tasks whose name holds one of these")
    parser.add_argument(
        "--refresh",
        action="store_true",
        help="first ask LightEval, evalkit, installed bundles and registered plugins (offline)",
    )
    add_registry(parser)
    add_output(parser, rows=50)


def _with_pack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pack", metavar="NAME[@VERSION]", help="without a version the one applied last")
    add_registry(parser)


def _none(_: argparse.Namespace) -> None:
    """Never called: a command below it is required."""


def _apply(args: argparse.Namespace) -> None:
    from evalkit.runs.registry.pack_files import read_pack

    for file in args.files:
        read_pack(file)  # all files, before the first is taken over
    with opened(args) as registry:
        for file in args.files:
            pack = registry.apply_pack(file)
            if not args.quiet:
                tell(f"{pack.label}: {counted(len(pack.tasks), 'task')}")
        if not args.quiet and registry.benchmarks().empty:
            tell("its task names were not looked up: evalkit pack tasks --refresh lists what there is")


def _list(args: argparse.Namespace) -> None:
    check_output(args.out)
    with opened(args) as registry:
        packs = moments_as_text(registry.packs())
    put(args, packs, columns=("name", "version", "n_tasks", "primary_metric", "task_aggregation", "description"))


def _pack(args: argparse.Namespace) -> Pack:
    with opened(args) as registry:
        return registry.pack(args.pack)


def _show(args: argparse.Namespace) -> None:
    import pandas as pd

    from evalkit.evaluation import show

    pack = _pack(args)
    rows: list[dict[str, Any]] = [
        {"task": task.task, "fewshot": task.fewshot, "weight": task.weight} | task.overrides.values
        for task in pack.tasks
    ]
    if args.json:
        names = ("name", "version", "description", "primary_metric", "task_aggregation", "content_hash", "created_at")
        tasks = [
            {"task": task.task, "fewshot": task.fewshot, "weight": task.weight, "overrides": task.overrides.values}
            for task in pack.tasks
        ]
        put_document({name: getattr(pack, name) for name in names} | {"tasks": tasks})
        return
    metric = pack.primary_metric or "the first of each task"
    put_text(one_line(f"{pack.label}: {pack.description}").removesuffix(":"))
    put_text(f"primary metric: {one_line(metric)}; tasks to one figure: {pack.task_aggregation}\n")
    put_text(str(show(pd.DataFrame(rows), rows=200)))


def _export(args: argparse.Namespace) -> None:
    from evalkit.rubrics.yaml_files import write_new
    from evalkit.runs.registry.pack_files import pack_yaml

    text = pack_yaml(_pack(args))
    if args.out is None:
        put_text(text.rstrip())
        return
    try:
        write_new(Path(args.out), text)
    except FileExistsError:
        raise ConfigError(f"{args.out} is there already; name another file") from None
    if not args.quiet:
        tell(f"wrote {args.out}")


def _tasks(args: argparse.Namespace) -> None:
    check_output(args.out)
    with opened(args) as registry:
        if args.refresh:
            n_new, failed = registry.refresh_benchmarks()
            for said in failed:
                tell(f"warning: {said}")
            if not args.quiet:
                tell(f"{n_new} new tasks")
        known = moments_as_text(registry.benchmarks())
    if args.words:
        known = known[[any(word in name for word in args.words) for name in known["name"]]].reset_index(drop=True)
    put(args, known, columns=("name", "source", "scoring_modes", "fields", "dataset"))
