"""`evalkit vote`, `evalkit aggregate` and `evalkit summarize`."""

from __future__ import annotations

import argparse

from evalkit.cli.arguments import Commands, add_command, add_output, meanings, named_number
from evalkit.cli.output import check_output, put, read_table
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES, VOTE_RULES, VOTE_TIES

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Their parsers."""
    _add_vote(commands)
    _add_aggregate(commands)
    _add_summarize(commands)


def _add_vote(commands: Commands) -> None:
    parser = add_command(
        commands,
        "vote",
        _vote,
        "the samples of each judge become one vote per item and criterion",
        "  evalkit vote judgments.jsonl --method majority -o votes.jsonl",
    )
    parser.add_argument("judgments", metavar="JUDGMENTS", help="table of 'evalkit judge'; '-': JSONL on stdin")
    parser.add_argument(
        "--method", choices=tuple(VOTE_RULES), default="mean", help=f"{meanings(VOTE_RULES)} (default mean)"
    )
    parser.add_argument(
        "--ties", choices=tuple(VOTE_TIES), default="na", help=f"what a tie becomes: {meanings(VOTE_TIES)} (default na)"
    )
    parser.add_argument(
        "--unscored",
        metavar="drop|NUMBER",
        type=_unscored,
        default="drop",
        help="leave out (default), or count as this",
    )
    parser.add_argument(
        "--min-self-agreement",
        metavar="SHARE",
        type=float,
        help="leave out judges that agree less with themselves",
    )
    add_output(parser)


def _add_aggregate(commands: Commands) -> None:
    parser = add_command(
        commands,
        "aggregate",
        _aggregate,
        "the votes of all judges become one score per item and criterion",
        "  evalkit aggregate votes.jsonl --method median --weight openai:gpt-4o-mini=2 -o scores.jsonl",
    )
    parser.add_argument("votes", metavar="VOTES", help="table of 'evalkit vote'; '-': JSONL on stdin")
    parser.add_argument(
        "--method", choices=tuple(AGGREGATE_RULES), default="mean", help=f"default mean; {meanings(AGGREGATE_RULES)}"
    )
    parser.add_argument(
        "--quorum", metavar="SHARE", type=float, default=0.5, help="more than this share must be scored (default 0.5)"
    )
    parser.add_argument(
        "--weight", metavar="JUDGE=NUMBER", action="append", default=[], type=named_number, help="weight of a judge"
    )
    add_output(parser)


def _add_summarize(commands: Commands) -> None:
    parser = add_command(
        commands,
        "summarize",
        _summarize,
        "one row of figures per criterion, with intervals and coverage",
        "  evalkit summarize scores.jsonl --items items.jsonl --by system_id",
    )
    parser.add_argument("scores", metavar="SCORES", help="table of 'evalkit aggregate'; '-': JSONL on stdin")
    parser.add_argument("--by", metavar="COLUMN", action="append", help="also by this column of scores or items")
    parser.add_argument("--items", metavar="ITEMS", help="items: their columns for --by, their group_id for intervals")
    parser.add_argument("--item-id", metavar="COLUMN", help="column of the items that holds the ids")
    add_output(parser)


def _vote(args: argparse.Namespace) -> None:
    from evalkit import vote

    check_output(args.out, args.judgments)
    judgments = read_table(args.judgments, "judgments")
    votes = vote(
        judgments,
        method=args.method,
        ties=args.ties,
        unscored=args.unscored,
        min_self_agreement=args.min_self_agreement,
    )
    shown = ("item_id", "criterion", "judge", "score", "label", "passed", "self_agreement", "n_scored", "n_samples")
    put(args, votes, columns=("rubric", "rubric_version", *shown, "reason"))


def _aggregate(args: argparse.Namespace) -> None:
    from evalkit import aggregate

    check_output(args.out, args.votes)
    votes = read_table(args.votes, "votes")
    scores = aggregate(votes, method=args.method, quorum=args.quorum, weights=dict(args.weight) or None)
    shown = ("item_id", "criterion", "score", "label", "passed", "disagreement", "n_scored", "n_judges", "status")
    put(args, scores, columns=("rubric", "rubric_version", *shown, "reason"))


def _summarize(args: argparse.Namespace) -> None:
    from evalkit import load_items, summarize

    check_output(args.out, args.scores, args.items)
    scores = read_table(args.scores, "scores", "rubric_scores")
    items = None if args.items is None else load_items(args.items, item_id=args.item_id)
    summary = summarize(scores, by=args.by, items=items)
    shown = ("mean", "low", "high", "pass_rate", "pass_low", "pass_high", "n_scored", "n_items", "n_partial")
    put(args, summary, columns=("rubric", "rubric_version", "criterion", *(args.by or ()), *shown, "notes"))


def _unscored(text: str) -> float | str:
    if text == "drop":
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected 'drop' or a number, got {text!r}") from None
