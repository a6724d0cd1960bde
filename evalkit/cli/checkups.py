"""`evalkit doctor`."""

from __future__ import annotations

import argparse

from evalkit.cli.arguments import Commands, add_command
from evalkit.cli.tables import put_document, put_text

__all__ = ["add"]

_TITLES = ("versions", "cache", "rubrics", "settings", "extras")


def add(commands: Commands) -> None:
    """Its parser."""
    parser = add_command(
        commands, "doctor", _doctor, "look at versions, cache, rubrics, keys and extras of this machine"
    )
    parser.add_argument(
        "--cache", metavar="DIR", help="cache folder (default: EVALKIT_CACHE, else cache/ of the project)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _doctor(args: argparse.Namespace) -> None:
    from evalkit.cli.findings import check_up  # it looks at sqlite3

    found = check_up(args.cache)
    if args.json:
        put_document(found)
        return
    for title in _TITLES:
        put_text(title)
        for name, value in found[title].items():
            put_text(f"  {name:<22} {_said(value)}")
    problems = found["problems"]
    put_text("problems" if problems else "no problems found")
    for problem in problems:
        put_text(f"  {problem}")


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "unknown" if value is None else str(value)
