"""`evalkit evaluate`, `evalkit report`, `evalkit judge`, `evalkit plan` and `evalkit freeze`."""

from __future__ import annotations

import argparse
import os
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evalkit as ek
from evalkit.cli import reading_and_printing as io
from evalkit.cli.arguments import (
    Commands,
    add_command,
    add_flags,
    add_value,
    data_arguments,
    options_of,
    rules_of,
    source_of,
    spec_arguments,
)
from evalkit.cli.ci import RECORD_USAGE
from evalkit.cli.reading_and_printing import check_output, note, put, put_document, put_either, read_items, tell
from evalkit.errors import ConfigError, EvalkitWarning, InputError, counted

if TYPE_CHECKING:
    import pandas as pd


_TABLES = (
    *("judgments", "votes", "scores", "rubric_scores", "points", "summary"),
    *("disagreement", "reliability", "alignment"),
)
_USAGE = """ITEMS (--rubric R | --profile P) --judge J [--judge J …] [--label C=COL,…] [options]
       evalkit {0} [ITEMS] --judgments FILE [--rubric R] [--labels FILE] [options]"""
_EVALUATE = """\
  evalkit evaluate items.jsonl --rubric faithfulness --judge openai:gpt-4o-mini --label faithfulness=ann1,ann2
  evalkit evaluate items.jsonl --profile support.yaml --out results --format csv
  evalkit evaluate items.jsonl --profile support.yaml --judge none       (only what is cached; no connection)
  evalkit evaluate items.jsonl --judgments judgments.jsonl --labels labels.csv      (judged already; no calls)

with --out DIR one file per table: items (one row per item, with everything about it), judgments, votes,
scores, rubric_scores, summary, disagreement, reliability, alignment if there are labels, and points if the
items have criteria of their own; and settings.json: rubric, judges, samples and rules"""
_REPORT = """\
  evalkit report items.jsonl --rubric faithfulness --judge openai:gpt-4o-mini --label faithfulness=ann1,ann2 \\
      --out report.html
  evalkit report items.jsonl --profile support.yaml --judge none --out report.html    (only what is cached)
  evalkit report items.jsonl --profile support.yaml --baseline before --out report.html

'evalkit report' takes the arguments of 'evalkit evaluate', and does not pay for cached replies again.
--baseline is a table of 'evalkit judge' or a folder of 'evalkit evaluate --out'"""


def add(commands: Commands) -> None:
    """Their parsers."""
    group = _add_evaluating(commands, "evaluate", _evaluate, "judge items and show every figure", _EVALUATE)
    add_value(group, "-o --out", "DIR", "write every table into this folder")
    text = "format of the tables in --out"
    group.add_argument("--format", choices=("jsonl", "csv", "parquet"), default="jsonl", help=text)
    add_flags(group, "json", "quiet")

    group = _add_evaluating(commands, "report", _report, "judge items and write every figure as one page", _REPORT)
    add_value(group, "-o --out", "FILE", "the page (.html), replaced if it exists", required=True)
    add_value(
        group, "--baseline", "A", "earlier judgments, or a folder of 'evalkit evaluate --out': shows what changed"
    )
    add_flags(group, "quiet")
    _add_judging(commands)


def _add_evaluating(commands: Commands, name: str, run: Any, text: str, end: str) -> Any:
    """A command that evaluates; returns the group of its output flags."""
    parser = add_command(commands, name, run, text, end, _USAGE.format(name))
    parser.add_judging(n_items="?")
    add_value(parser, "--judgments", "FILE", "existing judgments: no judge is called, and ITEMS may be left out")
    add_flags(parser, "labels", "reader")
    parser.add_label_columns("the items")
    parser.add_rules()
    parser.add_running()
    return parser.add_argument_group("output")


def _evaluate(args: argparse.Namespace) -> None:
    from evalkit.core.files import write_whole
    from evalkit.tables.files import write_frame

    folder = None if args.out is None else _folder(args)
    evaluation = _evaluation(args)
    if folder is not None:
        tables = {name: table for name in _TABLES if (table := getattr(evaluation, name)) is not None}
        tables = {"items": evaluation.wide()} | tables
        for name, table in tables.items():
            write_frame(table, folder / f"{name}.{args.format}")
        write_whole(folder / io.SETTINGS, [io.json_bytes(_settings(evaluation))])
        note(args, f"wrote {len(tables)} tables to {folder}: {', '.join(tables)} (.{args.format})")
    if args.json:
        io.put_document(_figures(evaluation))
    else:
        io.put_shown(evaluation)
    # of existing judgments, nothing was asked now; without --json, the cost was printed with the figures
    report_unscored(args, evaluation.judgments, cost=args.json and args.judgments is None)


def _report(args: argparse.Namespace) -> None:
    from evalkit.core.files import check_writable

    target = Path(args.out)
    if target.suffix not in (".html", ".htm"):  # checked before anything is paid
        raise ConfigError(f"--out of a report must end in .html, got {args.out}; rename it")
    check_writable(target)
    baseline = None if args.baseline is None else io.read_side(args.baseline)
    evaluation = _evaluation(args)
    note(args, f"wrote {ek.report(evaluation, target, baseline=baseline)}")
    report_unscored(args, evaluation.judgments, cost=args.judgments is None)


def _evaluation(args: argparse.Namespace) -> ek.Evaluation:
    """The evaluation that the flags describe: judged now, or from a judgments table."""
    if args.labels and args.label:
        raise ConfigError(
            "--labels (a table) and --label (columns of the items) contradict each other; remove one of them"
        )
    labels: Any = io.read_label_file(args) if args.labels else dict(args.label) or None
    if args.judgments is None:
        if args.items is None:
            raise ConfigError("ITEMS is missing; name the file of items to judge, or pass --judgments FILE")
        arguments = spec_arguments(args) | data_arguments(args) | rules_of(args)
        return ek.evaluate(io.read_items(args), labels=labels, **arguments, **options_of(args))
    names = ("judge", "profile", "judge_samples", "template")
    if judging := [f"--{name.removeprefix('judge_')}" for name in names if getattr(args, name)]:
        raise ConfigError(f"--judgments reads existing judgments and calls no judges; remove {', '.join(judging)}")
    judgments = io.read_table(args.judgments, "judgments")
    items = judgments[["item_id"]].drop_duplicates() if args.items is None else io.read_items(args)
    return ek.Evaluation.of(judgments, items, labels, args.rubric, inputs=dict(args.inputs), **rules_of(args))


def _folder(args: argparse.Namespace) -> Path:
    folder = Path(args.out)
    if args.out == "-" or folder.is_file() or folder.suffix in (".jsonl", ".csv", ".parquet"):
        raise ConfigError(
            f"--out must be a folder, because evaluate writes several tables, got {args.out}; name a folder (--format "
            "sets the format of the tables)"
        )
    for name in ("items", *_TABLES):
        io.check_output(args, folder / f"{name}.{args.format}")
    return folder


def _settings(evaluation: ek.Evaluation) -> dict[str, Any]:
    return {
        "rubric": evaluation.rubric.id, "rubric_version": evaluation.rubric.label, "judges": list(evaluation.judges),
        "samples": evaluation.samples, "rules": evaluation.rules.to_dict(),
    }  # fmt: skip


def _figures(evaluation: ek.Evaluation) -> dict[str, Any]:

    return (
        _settings(evaluation)
        | {
            "n_items": len(evaluation.items),
            "n_unique": evaluation.n_unique,
            "n_judgments": len(evaluation.judgments),
            "n_unscored": int(evaluation.judgments["error"].notna().sum()),
            "cost": asdict(evaluation.cost),
        }
        | {name: getattr(evaluation, name) for name in ("summary", "reliability", "alignment")}
        | ({} if evaluation.points is None else {"points": ek.summarize(evaluation.points)})
    )


_SHOWN = ("rubric", "rubric_version", "item_id", "criterion", "judge", "order", "sample", "label", "passed")
_JUDGE_USAGE = "ITEMS (--rubric R | --profile P) --judge J [--judge J …] [options]"
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


def _add_judging(commands: Commands) -> None:
    """Their parsers."""
    text = "judge items: one row per item, criterion, judge and sample"
    parser = add_command(commands, "judge", _judge, text, _JUDGE, f"{_JUDGE_USAGE}\n       {RECORD_USAGE}")
    parser.add_judging(n_items="+")
    parser.add_running()
    parser.add_output()
    parser.set_defaults(writes_table=False, rows=None)  # `_judge` checks the output itself: it may be a folder
    group = parser.add_argument_group("many items: --out is a folder, with one parquet file per part")
    add_value(group, "--part-rows", "N", "items per part (default 5000)", type=int, default=5000)
    add_value(group, "--shard", "I/N", "only every N-th part from the I-th on, as in 3/16", type=_shard)
    add_value(group, "--jobs", "N", "parts of the files to judge at once, one process each (default 1)", type=int)

    text = "calls, cached share and US$ that judging takes, and the source of each setting"
    parser = add_command(commands, "plan", _plan, text, _PLAN, _JUDGE_USAGE)
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
        raise ConfigError(
            "--rows is the number of rows shown on a terminal, and none are shown if --out is a folder; for the items "
            "of each part, pass --part-rows (in Python: rows=)"
        )
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
        tell(
            f"unscored: {row['n']} ({row['share']:.0%}) of {row['judge']}, {row['error']} (item "
            f"{row['items']}{', …' if row['n'] > 3 else ''}): {row['what_to_do']}"
        )


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
