"""`evalkit vote`, `evalkit aggregate` and `evalkit summarize`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import evalkit as ek
from evalkit.cli.arguments import Commands, Parser, add_command, add_flags, add_value, meanings, named_number, number_or
from evalkit.cli.reading_and_printing import put, read_items, read_table
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES, VOTE_RULES
from evalkit.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_VOTE = "  evalkit vote judgments.jsonl --method majority -o votes.jsonl"
_AGGREGATE = "  evalkit aggregate votes.jsonl --method median --weight openai:gpt-4o-mini=2 -o scores.jsonl"
_SUMMARIZE = "  evalkit summarize scores.jsonl --items items.jsonl --by system_id"
_SCALE = "scale of a table of your own, such as 0-2, '0, 1, 2' or 'bad, ok, good'"
_RUBRIC = ("rubric", "rubric_version")


def add(commands: Commands) -> None:
    """Their parsers."""
    text = "the samples of each judge become one vote per item and criterion"
    parser = add_command(commands, "vote", _vote, text, _VOTE)
    add_value(parser, "judgments", "JUDGMENTS", "table of 'evalkit judge', or your own; '-': JSONL on stdin")
    _add_method(parser, VOTE_RULES)
    add_flags(parser, "ties", "min-self-agreement")
    text = "score that unscored samples get; drop (the default): they are left out"
    add_value(parser, "--unscored", "drop|NUMBER", text, type=number_or("drop"), default="drop")
    add_value(parser, "--scale", "SCALE", _SCALE)
    parser.add_output()

    text = "the votes of all judges become one score per item and criterion"
    parser = add_command(commands, "aggregate", _aggregate, text, _AGGREGATE)
    add_value(parser, "votes", "VOTES", "table of 'evalkit vote', or your own; '-': JSONL on stdin")
    _add_method(parser, AGGREGATE_RULES)
    add_flags(parser, "quorum")
    add_value(parser, "--weight", "JUDGE=NUMBER", "weight of a judge", action="append", default=[], type=named_number)
    add_value(parser, "--scale", "SCALE", _SCALE)
    parser.add_output()

    text = "one row of figures per criterion, with intervals and coverage"
    parser = add_command(commands, "summarize", _summarize, text, _SUMMARIZE)
    add_value(parser, "scores", "SCORES", "table of 'evalkit aggregate', or your own; '-': JSONL on stdin")
    add_value(parser, "--by", "COLUMN", "one row per value of this column", action="append")
    add_value(parser, "--items", "ITEMS", "file of items, with the columns that --by names, and group_id for intervals")
    add_flags(parser, "item-id")
    add_value(parser, "--scale", "SCALE", _SCALE)
    parser.add_output()


def _add_method(parser: Parser, rules: Mapping[Any, object]) -> None:
    parser.add_argument("--method", choices=tuple(rules), default="mean", help=f"default mean; {meanings(rules)}")


def _of_file(function: Callable[..., pd.DataFrame], path: str, *names: str, **options: Any) -> pd.DataFrame:
    """The function's table of a file; its errors name the file."""
    table = read_table(path, *names, plain=True)
    try:
        return function(table, **options)
    except InputError as problem:
        raise InputError(f"{'stdin' if path == '-' else path}: {problem}") from None


def _vote(args: argparse.Namespace) -> None:

    rules = {"method": args.method, "ties": args.ties or "na", "min_self_agreement": args.min_self_agreement}
    votes = _of_file(ek.vote, args.judgments, "judgments", unscored=args.unscored, scale=args.scale, **rules)
    shown = ("item_id", "criterion", "judge", "score", "label", "passed", "self_agreement", "n_scored", "n_samples")
    put(args, votes, columns=(*_RUBRIC, *shown, "reason"))


def _aggregate(args: argparse.Namespace) -> None:

    quorum = 0.5 if args.quorum is None else args.quorum
    options = {"method": args.method, "weights": dict(args.weight) or None, "scale": args.scale}
    scores = _of_file(ek.aggregate, args.votes, "votes", quorum=quorum, **options)
    shown = ("item_id", "criterion", "score", "label", "passed", "disagreement", "n_scored", "n_judges", "status")
    put(args, scores, columns=(*_RUBRIC, *shown, "reason"))


def _summarize(args: argparse.Namespace) -> None:

    options = {"by": args.by, "items": None if args.items is None else read_items(args), "scale": args.scale}
    summary = _of_file(ek.summarize, args.scores, "scores", "rubric_scores", **options)
    rates, counts = ("pass_rate", "pass_low", "pass_high"), ("n_verdicts", "n_scored", "n_items", "n_partial")
    shown = ("mean", "low", "high", *rates, *counts, "notes")
    put(args, summary, columns=(*_RUBRIC, "criterion", *(args.by or ()), *shown))
