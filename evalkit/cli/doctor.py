"""`evalkit doctor`: checks that only read, and show no key's value."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING

from evalkit.cli.arguments import Commands, add_command, add_flags, add_value
from evalkit.cli.reading_and_printing import in_words, put_document
from evalkit.cli.settings_from_flags import judge_settings
from evalkit.core.judge_settings import FLAGS
from evalkit.errors import ConfigError

if TYPE_CHECKING:
    from evalkit.engine.calls.server_check import ServerReport


def add(commands: Commands) -> None:
    """Its parser."""
    text = "check versions, cache, rubrics, keys and extras of this machine; exit code 1 if there are problems"
    parser = add_command(commands, "doctor", _doctor, text)
    add_flags(parser, "cache", "json")
    server = parser.add_argument_group("also check a judge's server, with at most two tiny calls")
    add_value(server, "--judge", "JUDGE", "provider:model, as in openai:gpt-4o-mini")
    add_flags(server, *(flag for flag in FLAGS if flag not in ("judge", "judge-samples", "max-seconds")))


def _doctor(args: argparse.Namespace) -> int:
    from evalkit.cli.doctor_checks import check_machine  # imports sqlite3

    checks = check_machine(args.cache)
    server = _server(args) if args.judge else None
    problems = checks.pop("problems") + ([] if server is None else list(server.problems))
    if args.json:
        found = {} if server is None else {"server": dataclasses.asdict(server)}
        put_document(checks | found | {"problems": problems})
        return bool(problems)
    for title, values in checks.items():
        print(title)
        for name, value in values.items():
            print(f"  {name:<22} {in_words(value)}")
    if server is not None:
        print("server\n  " + str(server).replace("\n", "\n  "))
    print("\n  ".join(["problems", *problems]) if problems else "no problems found")
    return bool(problems)


def _server(args: argparse.Namespace) -> ServerReport:
    from evalkit.engine.calls.server_check import check_server
    from evalkit.engine.judging.named_judges import named_judges

    settings, places = judge_settings(args)
    if not (judges := named_judges(places).changed(settings)):
        raise ConfigError(f"--judge {args.judge} has no model; pass --judge PROVIDER:MODEL, or --judge-model MODEL")
    return check_server(judges[0])
