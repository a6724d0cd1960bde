"""`evalkit judge` and `evalkit plan`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from evalkit.cli.arguments import (
    Commands,
    add_adopt,
    add_command,
    add_judging,
    add_output,
    add_quiet,
    add_rules,
    add_running,
)
from evalkit.cli.judge_arguments import options_of, rules_of, spec_arguments
from evalkit.cli.messages import tell
from evalkit.cli.output import check_output, put, put_document, put_text, read_items
from evalkit.errors import ConfigError, counted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["add", "report"]

_SHOWN = ("rubric", "rubric_version", "item_id", "criterion", "judge", "order", "sample", "label", "passed")
_OUTCOME = ("error", "explanation", "reply")
_USAGE = "ITEMS (--rubric R | --profile P) --judge J [--judge J …] [options]"
_JUDGE_USAGE = f"{_USAGE}\n       evalkit judge --trace-file TRACES --config FILE.yaml --judge J [-o COPY] [options]"
# What a configuration sets, or a gate cannot do: flag -> its value where it was not given.
_NOT_OF_TRACES = {
    "rubric": None, "item_id": None, "recorded": "miss", "replies": False, "judge_temperature": None,
    "judge_max_tokens": None, "template": None, "offline": False, "on_miss": "row", "adopt": False, "json": False,
    "rows": 20,
}  # fmt: skip
_ONLY_OF_TRACES = ("config", "redact", "judge_samples", "judge_refresh", "no_judge", "no_promoted")
_JUDGE = """\
  evalkit judge items.jsonl --rubric faithfulness --judge openai:gpt-4o-mini --samples 3 -o judgments.jsonl
  evalkit judge items.csv --profile support.yaml --budget-usd 2 -o judgments.parquet
  evalkit judge items.jsonl --rubric relevancy --judge fake --judge fake:lenient -o - | evalkit vote -
  evalkit judge --trace-file traces.jsonl --config eval.yaml --judge openai:gpt-4o-mini     for evalkit ci"""
_PLAN = """\
  evalkit plan items.jsonl --rubric faithfulness --judge openai:gpt-4o-mini --samples 5"""


def add(commands: Commands) -> None:
    """Their parsers."""
    parser = add_command(
        commands, "judge", _judge, "judge items: one row per item, criterion, judge and sample", _JUDGE, _JUDGE_USAGE
    )
    add_judging(parser, needs_items=False)
    traces = parser.add_argument_group("traces instead of items")
    traces.add_argument("--trace-file", metavar="FILE", help="record judgments in these traces (-o: in a copy of them)")
    traces.add_argument("--config", metavar="FILE", help="the gate's configuration: which traces, by which rubrics")
    traces.add_argument("--redact", action="store_true", help="[REDACTED] in place of prompts and answers (with -o)")
    traces.add_argument("--judge-samples", metavar="K", type=int, help="the same as --samples")
    traces.add_argument("--judge-refresh", action="store_true", help="the same as --refresh")
    traces.add_argument("--no-judge", action="store_true", help="the same as --judge none: record what is cached")
    traces.add_argument("--no-promoted", action="store_true", help="refuse replies promoted from other versions")
    add_running(parser)
    add_output(parser)
    parser = add_command(
        commands,
        "plan",
        _plan,
        "what judging would take: calls, cached share, US$; who judges and why",
        _PLAN,
        _USAGE,
    )
    add_judging(parser)
    add_adopt(parser)
    add_rules(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_quiet(parser)


def _judge(args: argparse.Namespace) -> int | None:
    if args.trace_file is not None:
        return _judge_traces(args)
    given = [_flag(name) for name in _ONLY_OF_TRACES if getattr(args, name) not in (None, False)]
    if args.items is None or given:
        raise ConfigError(
            f"name the ITEMS to judge; {', '.join(given) or '--config'} goes with --trace-file "
            "(see: evalkit judge --help)"
        )
    from evalkit import judge  # after what needs no pandas

    check_output(args.out, args.items)
    arguments = spec_arguments(args)
    judgments = judge(read_items(args), **arguments, **options_of(args))
    put(args, judgments, columns=(*_SHOWN, *_OUTCOME))
    report(args, judgments)
    return None


def _judge_traces(args: argparse.Namespace) -> int:
    from evalkit.cli.ci import enrich_traces

    given = [_flag(name) for name, plain in _NOT_OF_TRACES.items() if getattr(args, name) != plain]
    if args.items is not None or args.config is None or given:
        said = f", and takes no {', '.join(given)}" if given else ""
        raise ConfigError(f"--trace-file takes what is judged from --config FILE, not from ITEMS{said}")
    if args.refresh not in (False, True):
        raise ConfigError("--trace-file takes --refresh without a value: everything is asked again, or nothing")
    return enrich_traces(args)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def report(args: argparse.Namespace, judgments: pd.DataFrame, *, cost: bool = True) -> None:
    """On stderr: what was asked and paid, and (always) what is unscored, why, and what to do."""
    from evalkit.engine import explain
    from evalkit.evaluation import Cost

    if cost and not args.quiet:
        tell(f"{counted(len(judgments), 'judgment')}: {Cost.of(judgments)}")
    for row in explain(judgments).to_dict("records"):
        tell(
            f"unscored: {row['n']} ({row['share']:.0%}) of {row['judge']}, {row['error']} (item {row['items']}"
            f"{', …' if row['n'] > 3 else ''}): {row['what_to_do']}"
        )


def _plan(args: argparse.Namespace) -> None:
    from evalkit import plan
    from evalkit.core.settings import Settings
    from evalkit.engine import Spec

    arguments: dict[str, Any] = spec_arguments(args)
    spec = Spec.of(**arguments, rules=rules_of(args), source="flag")
    source = "flag" if args.rubric or spec.profile is None else f"profile {spec.profile.profile}"
    named = Settings.of((source, {"rubric": f"{spec.rubric.id}@{spec.rubric.label}"}))
    settings = named.filled(*((spec.settings.source(name), {name: value}) for name, value in spec.settings.items()))
    result = plan(read_items(args), **arguments, recorded=args.recorded, adopt=args.adopt, cache=args.cache)
    if args.json:
        names = ("n_items", "n_unique", "n_to_call", "usd", "usd_at_most", "cache")
        document = {name: getattr(result, name) for name in names}
        put_document(document | {"judges": result.table, "settings": settings.to_dict()})
    else:
        put_text(f"{result}\n\nsettings, with the source of each value\n{settings}")
