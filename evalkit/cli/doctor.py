"""`evalkit doctor`."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from evalkit.cli.arguments import Commands, add_command
from evalkit.cli.output import put_document, put_text

__all__ = ["add"]

_TITLES = ("versions", "cache", "rubrics", "settings", "extras")


def add(commands: Commands) -> None:
    """Its parser."""
    parser = add_command(commands, "doctor", _doctor, "check versions, cache, rubrics, keys and extras of this machine")
    parser.add_argument(
        "--cache", metavar="DIR", help="cache folder (default: EVALKIT_CACHE, else cache/ of the project)"
    )
    server = parser.add_argument_group("a judge's server: makes at most three tiny calls")
    server.add_argument("--judge", metavar="JUDGE", help="provider:model, as in openai:gpt-4o-mini")
    server.add_argument("--judge-base-url", metavar="URL", help="its address, as in http://localhost:8000/v1")
    server.add_argument("--judge-api-key-env", metavar="NAME", help="environment variable that holds the key")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _doctor(args: argparse.Namespace) -> None:
    from evalkit.cli.doctor_checks import check_up  # it looks at sqlite3

    found = check_up(args.cache)
    report = None
    if args.judge:
        report = _server(args)
        found["server"] = dataclasses.asdict(report)
        found["problems"] += report.problems
    if args.json:
        put_document(found)
        return
    for title in _TITLES:
        put_text(title)
        for name, value in found[title].items():
            put_text(f"  {name:<22} {_said(value)}")
    if report is not None:
        put_text("server")
        put_text("  " + str(report).replace("\n", "\n  "))
    problems = found["problems"]
    put_text("problems" if problems else "no problems found")
    for problem in problems:
        put_text(f"  {problem}")


def _server(args: argparse.Namespace) -> Any:
    from evalkit.core.judges import Judge
    from evalkit.engine.calls.server_check import check_server

    given = {"base_url": args.judge_base_url, "api_key_env": args.judge_api_key_env}
    judge = Judge.of(args.judge)
    return check_server(judge.replace(**{name: value for name, value in given.items() if value is not None}))


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "unknown" if value is None else str(value)
