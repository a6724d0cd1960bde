"""`evalkit judge`, `evalkit plan` and `evalkit freeze`."""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evalkit as ek
from evalkit.cli.arguments import Commands, add_command, add_flags, add_value
from evalkit.cli.ci import RECORD_USAGE
from evalkit.cli.reading_and_printing import check_output, put, put_document, put_either, read_items
from evalkit.cli.settings_from_flags import data_arguments, options_of, rules_of, source_of, spec_arguments
from evalkit.cli.stderr_messages import note, tell
from evalkit.errors import ConfigError, EvalkitWarning, InputError, counted

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = ("rubric", "rubric_version", "item_id", "criterion", "judge", "order", "sample", "label", "passed")
_USAGE = "ITEMS (--rubric R | --profile P) --judge J [--judge J …] [options]"
_JUDGE = """\
  evalkit judge items.jsonl --rubric faithfulness --judge openai:gpt-4o-mini --samples 3 -o judgments.jsonl
  evalkit judge items.csv --profile support.yaml --budget-usd 2 -o judgments.parquet
  evalkit judge items/*.parquet --rubric relevancy --judge openai:gpt-4o-mini --shard 3/16 --out judgments/
  evalkit judge --trace-file traces.jsonl --config eval.yaml --judge openai:gpt-4o-mini     for evalkit ci

with --trace-file it takes the flags of 'evalkit ci': evalkit judge --trace-file TRACES --help"""
_PLAN = "  evalkit plan items.jsonl --rubric faithfulness --judge openai:gpt-4o-mini --samples 5"
_FREEZE_USAGE = "NAME.yaml (--rubric R | --profile P) --judge J [--judge J …] [options]"
_FREEZE = """\
  evalkit freeze support.yaml --rubric faithfulness --judge openai:gpt-4o-mini --samples 5 --vote majority
  evalkit freeze strict-support.yaml --profile strict --rubric faithfulness --judge openai:gpt-4o-mini"""


def add(commands: Commands) -> None:
    """Their parsers."""
    text = "judge items: one row per item, criterion, judge and sample"
    parser = add_command(commands, "judge", _judge, text, _JUDGE, f"{_USAGE}\n       {RECORD_USAGE}")
    parser.add_judging(n_items="+")
    parser.add_running()
    parser.add_output()
    parser.set_defaults(writes_table=False, rows=None)  # `_judge` checks the output itself: it may be a folder
    group = parser.add_argument_group("many items: --out is a folder, with one parquet file per part")
    add_value(group, "--part-rows", "N", "items per part (default 5000)", type=int, default=5000)
    add_value(group, "--shard", "I/N", "only every N-th part from the I-th on, as in 3/16", type=_shard)
    add_value(group, "--jobs", "N", "parts of the files to judge at once, one process each (default 1)", type=int)

    text = "calls, cached share and US$ that judging takes, and the source of each setting"
    parser = add_command(commands, "plan", _plan, text, _PLAN, _USAGE)
    parser.add_judging()
    add_flags(parser, "adopt")
    parser.add_rules()
    add_flags(parser, "json", "quiet")

    text = "write rubric, judges, samples and rules to a profile, for use elsewhere"
    parser = add_command(commands, "freeze", _freeze, text, _FREEZE, _FREEZE_USAGE)
    add_value(parser, "path", "NAME.yaml", "the new file; an existing file is never overwritten")
    parser.add_what()
    parser.add_rules()
    add_flags(parser, "json", "quiet")


def _judge(args: argparse.Namespace) -> None:

    folder = args.out is not None and (args.out.endswith(("/", os.sep)) or Path(args.out).is_dir())
    if folder or args.shard or len(args.items) > 1:
        _judge_files(args, folder)
        return
    (args.items,) = args.items
    args.rows = 20 if args.rows is None else args.rows
    if args.out is not None:
        check_output(args, args.out)
    judgments = ek.judge(read_items(args), **spec_arguments(args), **data_arguments(args), **options_of(args))
    put(args, judgments, columns=(*_SHOWN, "error", "explanation", "reply"))
    report_unscored(args, judgments)


def _judge_files(args: argparse.Namespace, folder: bool) -> None:

    if not folder:
        raise ConfigError("several files and --shard need a folder for the judgments; pass --out FOLDER/")
    if args.rows is not None:
        fact = "--rows is the number of rows shown on a terminal, and none are shown if --out is a folder"
        raise ConfigError(f"{fact}; for the items of each part, pass --part-rows (in Python: rows=)")
    ways = {"out": args.out, "rows": args.part_rows, "shard": args.shard, "n_jobs": args.jobs, "item_id": args.item_id}
    with warnings.catch_warnings(action="ignore", category=EvalkitWarning):  # the text below says it
        judged = ek.judge_files(args.items, **spec_arguments(args), **data_arguments(args), **ways, **options_of(args))
    if args.json:
        put_document({"folder": str(judged.folder), "parts": judged.parts, "text": str(judged)})
    else:
        tell(str(judged))
    if (judged.parts["state"] == "failed").any():
        raise InputError("some parts failed; to judge only these, run the same command again")


def _shard(text: str) -> tuple[int, int]:
    part, _, of = text.partition("/")
    if not (part.isdigit() and of.isdigit() and 1 <= int(part) <= int(of)):
        raise argparse.ArgumentTypeError(f"expected I/N with I from 1 to N, such as 3/16, got {text!r}")
    return int(part), int(of)


def report_unscored(args: argparse.Namespace, judgments: pd.DataFrame, *, cost: bool = True) -> None:
    """On stderr: replies and cost, and (also with ``--quiet``) what is unscored, why, and what to do."""
    if cost:
        note(args, f"{counted(len(judgments), 'judgment')}: {ek.evaluation.Cost.of(judgments)}")
    for row in ek.explain(judgments).to_dict("records"):
        lost = f"{row['n']} ({row['share']:.0%}) of {row['judge']}, {row['error']}"
        tell(f"unscored: {lost} (item {row['items']}{', …' if row['n'] > 3 else ''}): {row['what_to_do']}")


def _plan(args: argparse.Namespace) -> None:
    from evalkit.core.settings import Settings
    from evalkit.engine.judging.specification import Spec

    arguments: dict[str, Any] = spec_arguments(args) | data_arguments(args)
    spec = Spec.of(**arguments, rules=rules_of(args), source=source_of(args))
    source = "flag --rubric" if args.rubric or spec.profile is None else spec.profile.label
    others = ((spec.settings.source(name), {name: value}) for name, value in spec.settings.items())
    settings = Settings.of((source, {"rubric": f"{spec.rubric.id}@{spec.rubric.label}"}), *others)
    result = ek.plan(read_items(args), **arguments, recorded=args.recorded, adopt=args.adopt, cache=args.cache)
    names = ("n_items", "n_unique", "n_skipped", "n_to_call", "usd", "usd_at_most", "usd_in_batches", "cache")
    document = {name: getattr(result, name) for name in names}
    document |= {"judges": result.table, "settings": settings.to_dict()}
    put_either(args, document, f"{result}\n\nsettings, with the source of each value\n{settings}")


def _freeze(args: argparse.Namespace) -> None:
    from evalkit.evaluation.freeze_and_calibrate import write_profile

    profile = write_profile(args.path, **spec_arguments(args), **rules_of(args))
    note(args, f"wrote profile {profile.profile} to {args.path}; use it with --profile {args.path}")
    put_either(args, profile.to_dict(), str(profile).rstrip())
