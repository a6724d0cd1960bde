"""`evalkit align` and `evalkit compare`."""

from __future__ import annotations

import argparse

import evalkit as ek
from evalkit.cli import reading_and_printing as io
from evalkit.cli.arguments import Commands, add_command, add_flags, add_value
from evalkit.cli.reading_and_printing import tell
from evalkit.core.lists_of_choices import REFERENCES, TIES, UNSCORED
from evalkit.errors import ConfigError

_HEAD = ("rubric", "rubric_version", "criterion", "judge")
_COUNTS = ("n_verdicts", "n_scored", "n_labelled", "n_tied", "n_left_out", "n_annotators", "notes")
_ALIGN = """\
  evalkit align results/votes.jsonl labels.csv                  each judge against people
  evalkit align results/scores.jsonl items.jsonl --label faithfulness=ann1,ann2     the jury"""
_COMPARE = """\
  evalkit compare before.jsonl after.jsonl                      tables of 'evalkit judge'
  evalkit compare before after --labels labels.csv              folders of 'evalkit evaluate --out'
  evalkit compare before after --floor twice.jsonl              BEFORE judged with twice the samples
  evalkit compare before after --fail-on-worse                  exit code 1 if AFTER is worse, 2 if that cannot be said

AFTER is worse if one criterion got worse by more than chance explains (p ≤ 0.05 by Holm): more items
broke than were fixed or, if there are no labels, the mean score fell. With a jury, only its row counts.
If half of the items or more could not be compared, or too few for such a p, the exit code is 2"""


def add(commands: Commands) -> None:
    """Their parsers."""
    parser = add_command(commands, "align", _align, "agreement of judges, or of the jury, with human labels", _ALIGN)
    add_value(parser, "judged", "VOTES|SCORES", "the table votes or scores of 'evalkit evaluate --out'")
    text = "file with item_id, criterion, annotator, label; or a file of items, with --label"
    add_value(parser, "labels", "LABELS", text)
    parser.add_label_columns("LABELS")
    add_flags(parser, "reader", "items", "item-id")
    for name, choices, text in (
        ("reference", REFERENCES, "people to compare with (default: each annotator; the figures are averaged)"),
        ("ties", TIES, "how a tie of t labels counts: left out (default), as 1/t right, or as wrong"),
        ("unscored", UNSCORED, "an item without a score is left out (default), or counts as wrong"),
    ):
        parser.add_argument(f"--{name}", choices=choices, default=choices[0], help=text)
    text = "figures instead of the default ones: accuracy, kappa, balanced_accuracy, macro_f1, f1_LABEL …"
    add_value(parser, "--figures", "FIGURE,…", text, type=lambda names: [name.strip() for name in names.split(",")])
    parser.add_output()

    text = "what changed between two evaluations, and how much of it chance explains"
    parser = add_command(commands, "compare", _compare, text, _COMPARE)
    add_value(parser, "before", "BEFORE", "judgments, or a folder of 'evalkit evaluate --out'")
    add_value(parser, "after", "AFTER", "the later evaluation, of the same items; judgments or a folder as for BEFORE")
    text = "file with human labels, or a file of items, with --label; compare then shows which changes are right"
    add_value(parser, "--labels", "FILE", text)
    parser.add_label_columns("--labels")
    add_flags(parser, "reader", "items", "item-id")
    add_value(parser, "--floor", "FILE", "judgments of BEFORE's rubric with twice the samples")
    parser.add_argument("--across-modes", action="store_true", help="allow one judge on one side, a jury on the other")
    parser.add_argument(
        "--fail-on-worse", action="store_true", help="exit code 1 if AFTER is worse than BEFORE, 2 if unknown"
    )
    parser.add_output()


def _align(args: argparse.Namespace) -> None:
    from evalkit.stats.alignment.agreement_measures import SHOWN

    options = {name: getattr(args, name) for name in ("figures", "reference", "ties", "unscored")}
    judged, labels = io.read_table(args.judged, "votes", "scores"), io.read_labels(args)
    aligned = ek.align(judged, labels, clusters=io.read_groups(args), **options)
    figures = [f"{name}{end}" for name in args.figures or SHOWN for end in ("", "_low", "_high", "_people")]
    io.put(args, aligned, columns=(*_HEAD, *figures, *_COUNTS))
    if not args.json and args.out is None:
        print(f"ties: {args.ties}, unscored: {args.unscored}")


def _compare(args: argparse.Namespace) -> int | None:
    if args.label and not args.labels:
        raise ConfigError(
            "--label selects columns of the file that --labels names, but --labels is missing; pass --labels FILE"
        )
    sides = io.read_side(args.before), io.read_side(args.after)
    labels, clusters = None if args.labels is None else io.read_labels(args), io.read_groups(args)
    floor = None if args.floor is None else io.read_table(args.floor, "judgments")
    comparison = ek.compare(*sides, labels=labels, clusters=clusters, across_modes=args.across_modes, floor=floor)
    worse, undecided = comparison.worse, comparison.undecided
    io.put_out(args, comparison.table)
    if args.json:
        names = ("before", "after", "n_only_before", "n_only_after", "table")
        costs = {"cost_before": comparison.bill_before.usd, "cost_after": comparison.bill_after.usd}
        io.put_document(
            {name: getattr(comparison, name) for name in names} | costs | {"worse": worse, "undecided": undecided}
        )
    elif args.out is None:
        io.put_shown(comparison)
    if not args.fail_on_worse:
        return None
    if worse:
        tell(f"after is worse than before: {', '.join(worse)}")
    for why in undecided:
        tell(f"error: too little to compare: {why}")
    return 2 if undecided else 1 if worse else 0
