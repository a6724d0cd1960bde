"""`evalkit cache stats | export | import | prune | promote`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from evalkit.cli.arguments import Commands, add_command, add_quiet, moment
from evalkit.cli.messages import tell
from evalkit.cli.output import put_document, put_text
from evalkit.errors import counted

if TYPE_CHECKING:
    from evalkit.engine import ReplyStore

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Their parsers."""
    whole = add_command(commands, "cache", _none, "stored replies: count, export, import, remove")
    parts = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _with_cache(add_command(parts, "stats", _stats, "stored replies per judge and rubric, and what they cost"))

    parser = add_command(parts, "export", _export, "write replies to a JSONL file, for import elsewhere")
    parser.add_argument("file", metavar="FILE", help="the file; replaced whole, at the end")
    _with_choice(parser)
    parser.add_argument("--source", choices=("live", "recorded"), help="only these")
    _with_cache(parser)

    parser = add_command(
        parts, "import", _import, "read a file that export wrote: all of it or, after an error, nothing"
    )
    parser.add_argument("file", metavar="FILE", help="the file")
    _with_cache(parser)

    end = (
        "  evalkit cache prune --older-than 90d --model gpt-4o-mini\n  evalkit cache prune --keep-generations 1 --apply"
    )
    parser = add_command(
        parts, "prune", _prune, "remove replies that meet all conditions; a dry run without --apply", end
    )
    _with_choice(parser)
    parser.add_argument("--older-than", metavar="WHEN", type=moment, help="received before: 90d, 12h, 2026-01-31")
    parser.add_argument("--keep-generations", metavar="N", type=int, help="not the newest N of a key")
    parser.add_argument("--apply", action="store_true", help="remove them, after exporting them")
    parser.add_argument("--export-to", metavar="FILE", help="where to (default: pruned-TIME.jsonl in the cache folder)")
    _with_cache(parser)

    end = "  evalkit cache promote support@v3\n  evalkit cache promote support v2 v3"
    parser = add_command(
        parts, "promote", _promote, "let replies to unchanged criteria of one rubric version count for another", end
    )
    parser.add_argument("rubric", metavar="RUBRIC", help="version they are to count for, as in support@v3; or the id")
    parser.add_argument("old", metavar="OLD", nargs="?", help="version that was judged, as in v2 (default: all others)")
    parser.add_argument("new", metavar="NEW", nargs="?", help="version they are to count for, as in v3")
    _with_cache(parser)


def _with_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rubric", metavar="R", help="only replies to this rubric: id or id@version")
    parser.add_argument("--model", metavar="M", help="only replies of this model: model or provider:model")


def _with_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cache", metavar="DIR", help="cache folder (default: EVALKIT_CACHE, else cache/ of the project)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_quiet(parser)


def _none(_: argparse.Namespace) -> None:
    """Never called: a command below it is required."""


def _store(args: argparse.Namespace) -> ReplyStore:
    from evalkit.engine import ReplyStore

    return ReplyStore.open(args.cache)


def _stats(args: argparse.Namespace) -> None:
    import pandas as pd

    from evalkit.evaluation import cache_stats, show

    stats = cache_stats(args.cache)
    stored = {name: value for name, value in stats.items() if name != "session"}  # this process did nothing yet
    if args.json:
        put_document(stored)
        return
    put_text(
        f"{stats['path']}: {counted(stats['n_replies'], 'reply', 'replies')} to {counted(stats['n_keys'], 'key')}, "
        f"{stats['n_bytes'] / 1e6:.1f} MB; "
        f"{stats['n_live']} live, {stats['n_recorded']} recorded, {stats['n_promoted']} promoted; "
        f"US$ {stats['cost_usd']:.4f}"
    )
    for name in ("judges", "rubrics"):
        if stored[name]:
            put_text(f"\n{show(pd.DataFrame(stored[name]))}")


def _export(args: argparse.Namespace) -> None:
    n_lines = _store(args).export(args.file, rubric=args.rubric, model=args.model, source=args.source)
    _put(args, {"n_lines": n_lines, "file": args.file}, f"wrote {counted(n_lines, 'reply', 'replies')} to {args.file}")


def _import(args: argparse.Namespace) -> None:
    from dataclasses import asdict  # dataclasses takes longer to load than all of the parser

    report = _store(args).import_(args.file)
    _put(args, asdict(report), str(report))


def _prune(args: argparse.Namespace) -> None:
    from dataclasses import asdict

    names = ("older_than", "rubric", "model", "keep_generations", "apply", "export_to")
    report = _store(args).prune(**{name: getattr(args, name) for name in names})
    _put(args, asdict(report), str(report))


def _promote(args: argparse.Namespace) -> None:
    from evalkit.errors import ConfigError
    from evalkit.evaluation import promote

    if (args.old is None) != (args.new is None) or (args.new is None) == ("@" not in args.rubric):
        raise ConfigError("give ID@NEW, as in support@v3, or ID OLD NEW, as in support v2 v3")
    n_replies = promote(args.rubric, args.old, args.new, cache=args.cache)
    target = args.rubric if args.new is None else f"{args.rubric}@{args.new}"
    said = counted(n_replies, "more reply counts", "more replies count")
    _put(args, {"n_replies": n_replies}, f"{said} for {target} now")


def _put(args: argparse.Namespace, document: dict[str, Any], text: str) -> None:
    if args.json:
        put_document(document)
    elif not args.quiet:
        tell(text)
