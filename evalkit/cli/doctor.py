"""`evalkit doctor`: checks that only read, and show no key's value."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING

from evalkit.cli.arguments import Commands, add_command, add_flags, add_value
from evalkit.cli.reading_and_printing import in_words, put_document

if TYPE_CHECKING:
    from evalkit.engine.calls.server_check import ServerReport


def add(commands: Commands) -> None:
    """Its parser."""
    parser = add_command(commands, "doctor", _doctor, "check versions, cache, rubrics, keys and extras of this machine")
    add_flags(parser, "cache", "json")
    server = parser.add_argument_group("also check a judge's server, with at most two tiny calls")
    add_value(server, "--judge", "JUDGE", "provider:model, as in openai:gpt-4o-mini")
    add_flags(server, "judge-base-url", "judge-api-key-env")


def _doctor(args: argparse.Namespace) -> None:
    from evalkit.cli.doctor_checks import check_machine  # imports sqlite3

    checks = check_machine(args.cache)
    server = _server(args) if args.judge else None
    problems = checks.pop("problems") + ([] if server is None else list(server.problems))
    if args.json:
        found = {} if server is None else {"server": dataclasses.asdict(server)}
        put_document(checks | found | {"problems": problems})
        return
    for title, values in checks.items():
        print(title)
        for name, value in values.items():
            print(f"  {name:<22} {in_words(value)}")
    if server is not None:
        print("server\n  " + str(server).replace("\n", "\n  "))
    print("\n  ".join(["problems", *problems]) if problems else "no problems found")


def _server(args: argparse.Namespace) -> ServerReport:
    from evalkit.core.judges import Judge
    from evalkit.engine.calls.server_check import check_server

    judge, changes = Judge.of(args.judge), {"base_url": args.judge_base_url, "api_key_env": args.judge_api_key_env}
    return check_server(judge.replace(**{name: value for name, value in changes.items() if value is not None}))
