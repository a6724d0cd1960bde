"""`evalkit evaluate` and `evalkit report`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import evalkit as ek
from evalkit.cli import reading_and_printing as io
from evalkit.cli.arguments import Commands, add_command, add_flags, add_value
from evalkit.cli.judge_plan_and_freeze import report_unscored
from evalkit.cli.settings_from_flags import data_arguments, options_of, rules_of, spec_arguments
from evalkit.cli.stderr_messages import note
from evalkit.errors import ConfigError

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
    text = "earlier judgments, or a folder of 'evalkit evaluate --out': shows what changed"
    add_value(group, "--baseline", "A", text)
    add_flags(group, "quiet")


def _add_evaluating(commands: Commands, name: str, run: Any, text: str, end: str) -> Any:
    """A command that evaluates; returns the group of its output flags."""
    parser = add_command(commands, name, run, text, end, _USAGE.format(name))
    parser.add_judging(n_items="?")
    add_value(parser, "--judgments", "FILE", "existing judgments: no judge is called, and ITEMS may be left out")
    add_flags(parser, "labels")
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
        text = "--labels (a table) and --label (columns of the items) contradict each other; remove one of them"
        raise ConfigError(text)
    labels: Any = io.read_label_file(args.labels) if args.labels else dict(args.label) or None
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
        fact = f"--out must be a folder, because evaluate writes several tables, got {args.out}"
        raise ConfigError(f"{fact}; name a folder (--format sets the format of the tables)")
    for name in ("items", *_TABLES):
        io.check_output(args, folder / f"{name}.{args.format}")
    return folder


def _settings(evaluation: ek.Evaluation) -> dict[str, Any]:
    return {
        "rubric": evaluation.rubric.id, "rubric_version": evaluation.rubric.label, "judges": list(evaluation.judges),
        "samples": evaluation.samples, "rules": asdict(evaluation.rules),
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
