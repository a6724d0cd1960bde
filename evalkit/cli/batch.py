"""`evalkit batch submit | collect | status | cancel | list | export | import`."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from functools import partial
from typing import Any

import evalkit as ek
from evalkit.cli.arguments import (
    Commands,
    Parser,
    add_command,
    add_flags,
    add_group,
    add_value,
    data_arguments,
    spec_arguments,
)
from evalkit.cli.reading_and_printing import note, put_either, read_items
from evalkit.errors import EvalkitError

_SUBMIT = """\
  evalkit batch submit items.jsonl --rubric faithfulness --judge openai:gpt-4o-mini --samples 3
  evalkit batch collect
  evalkit judge items.jsonl --rubric faithfulness --judge openai:gpt-4o-mini --samples 3 -o judgments.jsonl"""
_EXPORT = """\
  evalkit batch export items.jsonl --rubric relevancy --judge openai:MODEL --judge-base-url http://localhost:8000/v1 \
--to requests.jsonl
  vllm run-batch -i requests.jsonl -o answers.jsonl --model MODEL
  evalkit batch import TICKET answers.jsonl"""
_TICKET = "its id or the beginning of it"


def add(commands: Commands) -> None:
    """Their parsers."""
    parts = add_group(commands, "batch", "judge in batches of the provider: half the price, within a day")

    add_part = partial(add_command, parts, flags=("cache", "json", "quiet"))
    parser = add_part("submit", _submit, "send what the cache lacks; prints a ticket", _SUBMIT)
    _add_requests(parser)
    text = "fetch the replies of a ticket, or of all open tickets, into the cache; may be stopped and repeated"
    parser = add_part("collect", _collect, text)
    _add_ticket(parser, nargs="?")
    parser.add_argument("--no-wait", action="store_true", help="fetch what has ended, and do not wait for the rest")
    text = "show the progress of a ticket, and fetch what has ended"
    _add_ticket(add_part("status", _collect, text), no_wait=True)
    text = "cancel what has not ended; replies that exist by then are billed and stored"
    _add_ticket(add_part("cancel", _collect, text), cancel=True)
    parser = add_part("list", _list, "the tickets of a cache, without asking the provider")
    parser.add_argument("--all", action="store_true", help="also those that have ended")
    text = "write the requests to a file, for a program such as vllm run-batch; prints a ticket"
    parser = add_part("export", _submit, text, _EXPORT)
    _add_requests(parser)
    add_value(parser, "--to", "FILE", "the file (.jsonl); one file per judge", required=True)
    parser = add_part("import", _import, "read the answers to the requests that export wrote")
    add_value(parser, "ticket", "TICKET", _TICKET)
    add_value(parser, "files", "FILE", "the output of the program", nargs="+")


def _add_requests(parser: Parser) -> None:
    add_value(parser, "items", "ITEMS", "JSONL, CSV, TSV, JSON or parquet file, '-' for JSONL on stdin")
    parser.add_what()
    add_flags(parser, "item-id", "form", "input", "on-missing", "refresh", "adopt", "budget-usd")


def _add_ticket(parser: Parser, nargs: str | None = None, **defaults: Any) -> None:
    add_value(parser, "ticket", "TICKET", _TICKET, nargs=nargs)
    add_flags(parser, "judge-base-url")
    parser.set_defaults(**{"no_wait": False, "cancel": False} | defaults)


def _submit(args: argparse.Namespace) -> None:

    names = ("refresh", "adopt", "cache", "budget_usd", "to")
    options = {name: getattr(args, name) for name in names if hasattr(args, name)}
    ticket = ek.submit(read_items(args), **spec_arguments(args), **data_arguments(args), **options)
    _put(args, [ticket])
    if ticket.is_open and not hasattr(args, "to"):
        note(args, f"to fetch the replies when they are ready, run: evalkit batch collect {ticket.id}")


def _collect(args: argparse.Namespace) -> None:

    ids = [args.ticket] if args.ticket else [one.id for one in ek.engine.tickets(args.cache, only_open=True)]
    options = {"cache": args.cache, "base_url": args.judge_base_url, "wait": not args.no_wait, "cancel": args.cancel}
    found, failed = [], list[EvalkitError]()
    for one in ids:
        try:
            found.append(ek.collect(one, progress=False if args.quiet else None, **options))
        except EvalkitError as error:
            failed.append(error)
    if found or not failed:
        _put(args, found)
    if failed:
        raise failed[0]


def _list(args: argparse.Namespace) -> None:

    _put(args, ek.engine.tickets(args.cache, only_open=not args.all))


def _import(args: argparse.Namespace) -> None:

    _put(args, [ek.collect(args.ticket, results=args.files, wait=False, cache=args.cache)])


def _put(args: argparse.Namespace, tickets: list[ek.engine.Ticket]) -> None:
    put_either(args, {"tickets": [*map(_values, tickets)]}, "\n\n".join(map(str, tickets)) or "no ticket is open")


def _values(ticket: ek.engine.Ticket) -> dict[str, Any]:
    created = datetime.fromtimestamp(ticket.created, UTC).isoformat(timespec="seconds")
    values = {"ticket": ticket.id, "created": created, "is_open": ticket.is_open}
    return values | {"n_left_out": ticket.n_left_out, "batches": ticket.table}
