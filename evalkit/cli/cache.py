"""`evalkit cache stats | export | import | prune | promote`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial
from typing import Any

import evalkit as ek
from evalkit.cli.arguments import Commands, Parser, add_command, add_group, add_value, moment
from evalkit.cli.reading_and_printing import put_document, put_shown, tell
from evalkit.core.lists_of_choices import REPLY_SOURCES
from evalkit.errors import ConfigError, counted

_PRUNE = """\
  evalkit cache prune --older-than 90d --model gpt-4o-mini
  evalkit cache prune --keep-generations 1 --apply"""
_PROMOTE = """\
  evalkit cache promote support@v3
  evalkit cache promote support v2 v3"""


def add(commands: Commands) -> None:
    """Their parsers."""
    parts = add_group(commands, "cache", "stored replies: count, export, import, remove")

    add_part = partial(add_command, parts, flags=("cache", "json", "quiet"))
    add_part("stats", _stats, "stored replies per judge and rubric, and what they cost")

    parser = add_part("export", _export, "write replies to a JSONL file, for import elsewhere")
    add_value(parser, "file", "FILE", "the file; an existing file is replaced once the export is complete")
    _add_choice(parser)
    parser.add_argument("--source", choices=REPLY_SOURCES, help="only replies of this source")

    parser = add_part("import", _import, "add the replies in a file that export wrote; after an error, none is added")
    add_value(parser, "file", "FILE", "the file")

    text = "remove replies that meet all conditions; a dry run without --apply"
    parser = add_part("prune", _prune, text, _PRUNE)
    _add_choice(parser)
    add_value(parser, "--older-than", "WHEN", "received before: 90d, 12h, 2026-01-31", type=moment)
    add_value(parser, "--keep-generations", "N", "keep the newest N replies of each key", type=int)
    parser.add_argument("--apply", action="store_true", help="remove them, after exporting them")
    text = "file for the exported replies (default: pruned-TIME.jsonl in the cache folder)"
    add_value(parser, "--export-to", "FILE", text)

    text = "let replies to unchanged criteria of one rubric version count for another"
    parser = add_part("promote", _promote, text, _PROMOTE)
    add_value(parser, "rubric", "RUBRIC", "target version, as in support@v3; or the id")
    text = "version whose replies are copied, such as v2 (default: all other versions)"
    add_value(parser, "old", "OLD", text, nargs="?")
    add_value(parser, "new", "NEW", "target version, as in v3", nargs="?")


def _add_choice(parser: Parser) -> None:
    add_value(parser, "--rubric", "R", "only replies to this rubric: id or id@version")
    add_value(parser, "--model", "M", "only replies of this model: model or provider:model")


def _store(args: argparse.Namespace) -> ek.engine.ReplyStore:

    return ek.engine.ReplyStore.open(args.cache)


def _stats(args: argparse.Namespace) -> None:
    import pandas as pd

    from evalkit.core.formatting import money

    stats = ek.evaluation.cache_stats(args.cache)
    stored = {name: value for name, value in stats.items() if name != "session"}  # this process has read nothing yet
    if args.json:
        put_document(stored)
        return
    file = stats["path"] if stats["n_bytes"] else f"{stats['path']} (does not exist)"
    print(
        f"{file}: {counted(stats['n_replies'], 'reply', 'replies')} to {counted(stats['n_keys'], 'key')}, "
        f"{stats['n_bytes'] / 1e6:.1f} MB; "
        f"{stats['n_live']} live, {stats['n_batch']} from batches, {stats['n_recorded']} recorded, "
        f"{stats['n_promoted']} promoted; {money(stats['cost_usd'])}"
    )
    for rows in (stats["judges"], stats["rubrics"]):
        if rows:
            print()
            put_shown(pd.DataFrame(rows), fit=False)


def _export(args: argparse.Namespace) -> None:
    n_lines = _store(args).export(args.file, rubric=args.rubric, model=args.model, source=args.source)
    _put(args, {"n_lines": n_lines, "file": args.file}, f"wrote {counted(n_lines, 'reply', 'replies')} to {args.file}")


def _import(args: argparse.Namespace) -> None:
    report = _store(args).import_(args.file)
    _put(args, asdict(report), str(report))


def _prune(args: argparse.Namespace) -> None:
    names = ("older_than", "rubric", "model", "keep_generations", "apply", "export_to")
    report = _store(args).prune(**{name: getattr(args, name) for name in names})
    _put(args, asdict(report), str(report))


def _promote(args: argparse.Namespace) -> None:

    if (args.old is None) != (args.new is None) or (args.new is None) == ("@" not in args.rubric):
        raise ConfigError(
            "expected ID@NEW (such as support@v3) to copy the replies of all other versions to the version NEW, or ID "
            "OLD NEW (such as support v2 v3) to copy only those of OLD"
        )
    n_replies = ek.evaluation.promote(args.rubric, args.old, args.new, cache=args.cache)
    target = args.rubric if args.new is None else f"{args.rubric}@{args.new}"
    _put(
        args,
        {"n_replies": n_replies},
        f"{counted(n_replies, 'more reply counts', 'more replies count')} for {target} now",
    )


def _put(args: argparse.Namespace, document: dict[str, Any], text: str) -> None:
    if args.json:
        put_document(document)
    elif not args.quiet:
        tell(text)
