"""`evalkit label`."""

from __future__ import annotations

import argparse
from functools import partial

from evalkit.cli.arguments import Commands, add_command, add_flags, add_value
from evalkit.cli.reading_and_printing import note, read_items
from evalkit.core.printable_text import one_line
from evalkit.errors import ConfigError, MissingExtraError, advise_extra, listed

_EXAMPLES = """\
  evalkit label items.jsonl --rubric faithfulness --annotator Ana --annotator Ben
  evalkit label items.jsonl --rubric review.yaml --annotator Ana --lead Eva --host 0.0.0.0 --port 8600

each person opens the address printed for them: its token says who labels. The addresses hold until Ctrl+C.
Without --host, only this machine can open them"""


def add(commands: Commands) -> None:
    """Its parser."""
    text = "a page on which people label items, each with an address of their own"
    parser = add_command(commands, "label", _label, text, _EXAMPLES)
    add_value(parser, "items", "ITEMS", "JSONL, CSV, TSV, JSON or parquet file, '-' for JSONL on stdin")
    add_flags(parser, "rubric", "item-id", "input")
    add_value(parser, "--annotator", "NAME", "a person who labels; repeat for others", action="append", default=[])
    text = "a person who sees how far people agree, and decides where they differ"
    add_value(parser, "--lead", "NAME", text, action="append", default=[])
    text = "random (default), as given, or those that the tuner drew because judges disagree on them"
    parser.add_argument("--order", choices=("random", "given", "disputed"), default="random", help=text)
    add_value(parser, "--labels", "FILE", "log of labels (default: the tuner's, for these items and this rubric)")
    add_value(parser, "--host", "HOST", "where to listen (default %(default)s: this machine)", default="127.0.0.1")
    add_value(parser, "--port", "N", "port (default %(default)s; 0: any)", type=int, default=8600)
    add_flags(parser, "quiet")


def _label(args: argparse.Namespace) -> None:
    people = [name.strip() for name in (*args.annotator, *args.lead)]
    if not people or not args.rubric:
        raise ConfigError("evalkit label needs --rubric R and --annotator NAME, once for each person, or --lead NAME")
    odd = [name for name in people if not name or one_line(name) != name]
    if odd or len({name.casefold() for name in people}) < len(people):
        raise ConfigError(f"--annotator, --lead: a different name for each person, on one line; got {listed(people)}")
    try:
        from evalkit.notebook.together.label_server import serve
    except ImportError as problem:
        raise MissingExtraError(f"evalkit label needs marimo: {advise_extra('label')}") from problem
    from evalkit.notebook import LabelPage

    source = read_items(args) if args.items == "-" else args.items
    options = {"labels": args.labels, "order": args.order, "item_id": args.item_id, "inputs": dict(args.inputs)}
    options["people"] = people[: len(args.annotator)]
    views = dict.fromkeys(people, "label") | dict.fromkeys(people[len(args.annotator) :], "lead")
    page = partial(LabelPage, source, args.rubric, **options)
    pages = {name: partial(page, annotator=name, view=view) for name, view in views.items()}
    first, *_ = [open_page() for open_page in pages.values()]  # what is wrong is said before anybody has an address

    def show(addresses: dict[str, str]) -> None:
        print(*(f"{name}  {address}" for name, address in addresses.items()), sep="\n", flush=True)
        note(args, f"labels go to {first.path}; Ctrl+C stops")

    serve(pages, args.host, args.port, show)
    note(args, f"stopped; the labels are in {first.path}")
