"""`evalkit vote`, `evalkit aggregate` and `evalkit summarize`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from evalkit.cli.arguments import Commands, Parser, add_command, add_flags, add_value, meanings, named_number, number_or
from evalkit.cli.reading_and_printing import put, read_items, read_table
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES, VOTE_RULES

_VOTE = "  evalkit vote judgments.jsonl --method majority -o votes.jsonl"
_AGGREGATE = "  evalkit aggregate votes.jsonl --method median --weight openai:gpt-4o-mini=2 -o scores.jsonl"
_SUMMARIZE = "  evalkit summarize scores.jsonl --items items.jsonl --by system_id"
_RUBRIC = ("rubric", "rubric_version")


def add(commands: Commands) -> None:
    """Their parsers."""
    text = "the samples of each judge become one vote per item and criterion"
    parser = add_command(commands, "vote", _vote, text, _VOTE)
    add_value(parser, "judgments", "JUDGMENTS", "table that 'evalkit judge' wrote; '-': JSONL on stdin")
    _add_method(parser, VOTE_RULES)
    add_flags(parser, "ties", "min-self-agreement")
    text = "score that unscored samples get; drop (the default): they are left out"
    add_value(parser, "--unscored", "drop|NUMBER", text, type=number_or("drop"), default="drop")
    parser.add_output()

    text = "the votes of all judges become one score per item and criterion"
    parser = add_command(commands, "aggregate", _aggregate, text, _AGGREGATE)
    add_value(parser, "votes", "VOTES", "table of 'evalkit vote'; '-': JSONL on stdin")
    _add_method(parser, AGGREGATE_RULES)
    add_flags(parser, "quorum")
    add_value(parser, "--weight", "JUDGE=NUMBER", "weight of a judge", action="append", default=[], type=named_number)
    parser.add_output()

    text = "one row of figures per criterion, with intervals and coverage"
    parser = add_command(commands, "summarize", _summarize, text, _SUMMARIZE)
    add_value(parser, "scores", "SCORES", "table of 'evalkit aggregate'; '-': JSONL on stdin")
    add_value(parser, "--by", "COLUMN", "one row per value of this column", action="append")
    add_value(parser, "--items", "ITEMS", "file of items, with the columns that --by names, and group_id for intervals")
    add_flags(parser, "item-id")
    parser.add_output()


def _add_method(parser: Parser, rules: Mapping[Any, object]) -> None:
    parser.add_argument("--method", choices=tuple(rules), default="mean", help=f"default mean; {meanings(rules)}")


def _vote(args: argparse.Namespace) -> None:
    from evalkit import vote

    rules = {"method": args.method, "ties": args.ties or "na", "min_self_agreement": args.min_self_agreement}
    votes = vote(read_table(args.judgments, "judgments"), unscored=args.unscored, **rules)
    shown = ("item_id", "criterion", "judge", "score", "label", "passed", "self_agreement", "n_scored", "n_samples")
    put(args, votes, columns=(*_RUBRIC, *shown, "reason"))


def _aggregate(args: argparse.Namespace) -> None:
    from evalkit import aggregate

    quorum = 0.5 if args.quorum is None else args.quorum
    votes = read_table(args.votes, "votes")
    scores = aggregate(votes, method=args.method, quorum=quorum, weights=dict(args.weight) or None)
    shown = ("item_id", "criterion", "score", "label", "passed", "disagreement", "n_scored", "n_judges", "status")
    put(args, scores, columns=(*_RUBRIC, *shown, "reason"))


def _summarize(args: argparse.Namespace) -> None:
    from evalkit import summarize

    items = None if args.items is None else read_items(args)
    summary = summarize(read_table(args.scores, "scores", "rubric_scores"), by=args.by, items=items)
    shown = ("mean", "low", "high", "pass_rate", "pass_low", "pass_high", "n_scored", "n_items", "n_partial")
    put(args, summary, columns=(*_RUBRIC, "criterion", *(args.by or ()), *shown, "notes"))
