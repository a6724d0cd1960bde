"""`evalkit pack apply | starter | list | show | export`."""

from __future__ import annotations

import argparse
from pathlib import Path

from evalkit.cli.arguments import Commands, add_command, add_group, add_value, opened
from evalkit.cli.reading_and_printing import moments_as_text, note, put, put_document, put_shown
from evalkit.core.printable_text import one_line
from evalkit.errors import ConfigError, counted


def add(commands: Commands) -> None:
    """Their parsers."""
    parts = add_group(commands, "pack", "packs: benchmark tasks, bound to judge plugins, profiles, templates")

    end = "  evalkit pack apply support-suite.yaml"
    text = "register packs from YAML files; registered ones stay as they are"
    parser = add_command(parts, "apply", _apply, text, end, flags=("registry", "quiet"))
    add_value(parser, "files", "FILE", "YAML file with pack, version and tasks", nargs="+")

    text = "register the starter pack: two small tasks that come with evalkit"
    add_command(parts, "starter", _starter, text, flags=("registry", "quiet"))

    add_command(parts, "list", _list, "all packs", flags=("registry",)).add_output(rows=50)

    text = "the tasks of a pack, with their judge plugins, profiles and templates"
    _with_pack(add_command(parts, "show", _show, text, flags=("registry", "json")))

    parser = add_command(parts, "export", _export, "a pack as a YAML file for apply", flags=("registry", "quiet"))
    _with_pack(parser)
    add_value(parser, "-o --out", "FILE", "a new file (default: stdout)")


def _with_pack(parser: argparse.ArgumentParser) -> None:
    add_value(parser, "pack", "NAME[@VERSION]", "default version: the one applied last")


def _apply(args: argparse.Namespace) -> None:
    from evalkit.runs.registry.pack_files import read_pack

    for file in args.files:
        read_pack(file)  # all files, before the first is registered
    with opened(args) as registry:
        for file in args.files:
            pack = registry.apply_pack(file)
            note(args, f"{pack.label}: {counted(len(pack.tasks), 'task')}")


def _starter(args: argparse.Namespace) -> None:
    from evalkit.runs.registry.pack_files import STARTER_PACK

    with opened(args) as registry:
        pack = registry.apply_pack(STARTER_PACK)
    note(args, f"{pack.label}: {', '.join(task.task for task in pack.tasks)}; evalkit pack show {pack.name} shows it")


def _list(args: argparse.Namespace) -> None:
    with opened(args) as registry:
        packs = moments_as_text(registry.packs())
    put(args, packs, columns=("name", "version", "n_tasks", "primary_metric", "task_aggregation", "description"))


def _show(args: argparse.Namespace) -> None:
    import pandas as pd

    with opened(args) as registry:
        pack = registry.pack(args.pack)
    if args.json:
        put_document(pack.model_dump() | {"tasks": [task.model_dump(exclude_none=True) for task in pack.tasks]})
        return
    columns = ("task", "fewshot", "weight")
    rows = [{name: getattr(task, name) for name in columns} | task.overrides.values for task in pack.tasks]
    metric = pack.primary_metric or "the first of each task"
    print(one_line(f"{pack.label}: {pack.description}" if pack.description.strip() else pack.label))
    print(f"primary metric: {one_line(metric)}; tasks are combined by: {pack.task_aggregation}\n")
    put_shown(pd.DataFrame(rows), rows=200, fit=False)


def _export(args: argparse.Namespace) -> None:
    from evalkit.rubrics.files import write_new

    with opened(args) as registry:
        text = registry.pack_yaml(args.pack)
    if args.out is None:
        print(text.rstrip())
        return
    try:
        write_new(Path(args.out), text)
    except FileExistsError:
        raise ConfigError(f"{args.out} exists already; name another file") from None
    note(args, f"wrote {args.out}")
