"""`evalkit report`."""

from __future__ import annotations

import argparse
from pathlib import Path

from evalkit.cli.arguments import Commands, add_command, add_quiet
from evalkit.cli.evaluate import add_evaluating, evaluated
from evalkit.cli.judge_plan import report as report_unscored
from evalkit.cli.messages import tell
from evalkit.cli.output import read_side
from evalkit.errors import ConfigError

__all__ = ["add"]

_USAGE = """ITEMS (--rubric R | --profile P) --judge J [--judge J …] [--label C=COL,…] --out FILE.html [options]
       evalkit report [ITEMS] --judgments FILE [--rubric R] [--labels FILE] --out FILE.html [options]"""
_END = """\
  evalkit report items.jsonl --rubric faithfulness --judge openai:gpt-4o-mini --label faithfulness=ann1,ann2 \\
      --out report.html
  evalkit report items.jsonl --profile support.yaml --judge none --out report.html    (only what is cached)
  evalkit report items.jsonl --profile support.yaml --baseline before --out report.html

takes the arguments of 'evalkit evaluate': what is cached is not asked again. --baseline is a table of
'evalkit judge' or a folder of 'evalkit evaluate --out'"""


def add(commands: Commands) -> None:
    """Its parser."""
    parser = add_command(commands, "report", _report, "judge items and write every figure as one page", _END, _USAGE)
    add_evaluating(parser)
    group = parser.add_argument_group("output")
    group.add_argument("-o", "--out", metavar="FILE", required=True, help="the page, FILE.html; one there is replaced")
    group.add_argument(
        "--baseline", metavar="A", help="judgments, or a folder of 'evalkit evaluate --out': what changed"
    )
    add_quiet(group)


def _report(args: argparse.Namespace) -> None:
    from evalkit import report

    target = Path(args.out)
    if target.suffix not in (".html", ".htm"):  # asked before anything is paid
        raise ConfigError(f"a report is an HTML file: --out names a file .html, not {args.out}")
    baseline = None if args.baseline is None else read_side(args.baseline)
    evaluation = evaluated(args)
    path = report(evaluation, target, baseline=baseline)
    if not args.quiet:
        tell(f"wrote {path}")
    report_unscored(args, evaluation.judgments)
