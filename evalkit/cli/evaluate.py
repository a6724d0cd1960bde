"""`evalkit evaluate`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit.cli.arguments import (
    Commands,
    Parser,
    add_command,
    add_judging,
    add_labels,
    add_quiet,
    add_rules,
    add_running,
)
from evalkit.cli.judge_arguments import options_of, rules_of, spec_arguments
from evalkit.cli.judge_plan import report
from evalkit.cli.messages import tell
from evalkit.cli.output import (
    SETTINGS,
    check_output,
    json_bytes,
    put_document,
    put_text,
    read_items,
    read_labels,
    read_table,
    terminal_width,
)
from evalkit.errors import ConfigError

if TYPE_CHECKING:
    from evalkit import Evaluation

__all__ = ["add", "add_evaluating", "evaluated"]

_TABLES = ("judgments", "votes", "scores", "rubric_scores", "summary", "disagreement", "reliability", "alignment")
_USAGE = """ITEMS (--rubric R | --profile P) --judge J [--judge J …] [--label C=COL,…] [options]
       evalkit evaluate [ITEMS] --judgments FILE [--rubric R] [--labels FILE] [options]"""
_END = """\
  evalkit evaluate items.jsonl --rubric faithfulness --judge openai:gpt-4o-mini --label faithfulness=ann1,ann2
  evalkit evaluate items.jsonl --profile support.yaml --out results --format csv
  evalkit evaluate items.jsonl --profile support.yaml --judge none       (only what is cached; no connection)
  evalkit evaluate items.jsonl --judgments judgments.jsonl --labels labels.csv      (judged already; no calls)

with --out DIR one file per table: items (one row per item, with everything about it), judgments, votes,
scores, rubric_scores, summary, disagreement, reliability, and alignment where there are labels; and
settings.json: rubric, judges, samples and rules"""


def add(commands: Commands) -> None:
    """Its parser."""
    parser = add_command(commands, "evaluate", _evaluate, "judge items and show every figure", _END, _USAGE)
    add_evaluating(parser)
    group = parser.add_argument_group("output")
    group.add_argument("-o", "--out", metavar="DIR", help="write every table into this folder")
    group.add_argument("--format", choices=("jsonl", "csv", "parquet"), default="jsonl", help="of the tables in --out")
    group.add_argument("--json", action="store_true", help="print the figures as one JSON document")
    add_quiet(group)


def add_evaluating(parser: Parser) -> None:
    """What `evaluate` and `report` take."""
    add_judging(parser, needs_items=False)
    parser.add_argument(
        "--judgments", metavar="FILE", help="judgments that exist already: makes no calls; ITEMS may be left out"
    )
    add_labels(parser)
    add_rules(parser)
    add_running(parser)


def _evaluate(args: argparse.Namespace) -> None:
    from evalkit import show
    from evalkit.core.files import write_whole
    from evalkit.tables import write_frame

    folder = None if args.out is None else _folder(args)
    evaluation = evaluated(args)
    if folder is not None:
        tables = _tables(evaluation)
        for name, table in tables.items():
            write_frame(table, folder / f"{name}.{args.format}")
        write_whole(folder / SETTINGS, [json_bytes(_settings(evaluation))])
        if not args.quiet:
            tell(f"wrote {len(tables)} tables to {folder}: {', '.join(tables)} (.{args.format})")
    if args.json:
        put_document(_figures(evaluation))
    else:
        put_text(str(show(evaluation, width=terminal_width())))
    report(args, evaluation.judgments, cost=args.json)  # else it stands in what was printed


def evaluated(args: argparse.Namespace) -> Evaluation:
    """The evaluation that the flags describe: judged now, or from a judgments table."""
    from evalkit import Evaluation, evaluate

    if args.labels and args.label:
        raise ConfigError("--labels names a table, --label columns of the items; choose one")
    labels: Any = read_labels(args.labels, ()) if args.labels else dict(args.label) or None
    if args.judgments is None:
        if args.items is None:
            raise ConfigError("ITEMS is missing: pass the items to judge, or --judgments FILE")
        arguments = spec_arguments(args) | rules_of(args)
        return evaluate(read_items(args), labels=labels, **arguments, **options_of(args))
    judging = [f"--{name}" for name in ("judge", "profile", "samples", "template") if getattr(args, name)]
    if judging:
        raise ConfigError(f"--judgments is a table that was judged already: leave out {', '.join(judging)}")
    judgments = read_table(args.judgments, "judgments")
    items = judgments[["item_id"]].drop_duplicates() if args.items is None else read_items(args)
    return Evaluation.of(judgments, items, labels, args.rubric, **rules_of(args))


def _folder(args: argparse.Namespace) -> Path:
    folder = Path(args.out)
    if args.out == "-" or folder.is_file() or folder.suffix in (".jsonl", ".csv", ".parquet"):
        raise ConfigError(f"evaluate writes several tables: --out names a folder, and {args.out} is none; see --format")
    for name in ("items", *_TABLES):
        check_output(folder / f"{name}.{args.format}", args.items, args.labels, args.judgments)
    return folder


def _tables(evaluation: Evaluation) -> dict[str, Any]:
    found = {name: getattr(evaluation, name) for name in _TABLES}
    return {"items": evaluation.wide()} | {name: table for name, table in found.items() if table is not None}


def _settings(evaluation: Evaluation) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "rubric": evaluation.rubric.id,
        "rubric_version": evaluation.rubric.label,
        "judges": list(evaluation.judges),
        "samples": evaluation.samples,
        "rules": asdict(evaluation.rules),
    }


def _figures(evaluation: Evaluation) -> dict[str, Any]:
    from dataclasses import asdict

    return _settings(evaluation) | {
        "n_items": len(evaluation.items),
        "n_unique": evaluation.n_unique,
        "n_judgments": len(evaluation.judgments),
        "n_unscored": int(evaluation.judgments["error"].notna().sum()),
        "cost": asdict(evaluation.cost),
        "summary": evaluation.summary,
        "reliability": evaluation.reliability,
        "alignment": evaluation.alignment,
    }
