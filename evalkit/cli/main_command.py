"""`main`: the parser of the command that is called, and the exit codes."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any, cast

from evalkit._version import __version__
from evalkit.cli.arguments import Parser
from evalkit.cli.reading_and_printing import check_output, tell, warnings_as_messages
from evalkit.errors import EvalkitError
from evalkit.errors.secrets import is_key

_DONE, _ERROR, _PIPE_CLOSED = 0, 2, 141
_COMMANDS = {
    "demo": ("demo",), "judging_commands": ("evaluate", "report", "judge", "plan", "freeze"), "batch": ("batch",),
    "align_and_compare": ("align", "compare"), "label": ("label",), "ci": ("ci",),
    "rubrics": ("rubric",), "plugins": ("plugin",), "judge_templates": ("template",), "packs": ("pack",),
    "runs": ("run",), "cache": ("cache",), "doctor": ("doctor",), "lighteval": ("lighteval",),
}  # fmt: skip
"""Module -> the commands whose parsers it adds, in the order of the help."""

_END = """\
first steps:
  evalkit demo                    what evalkit does, offline, in a minute
  evalkit rubric list             the rubrics that can be used
  evalkit evaluate items.jsonl --rubric faithfulness --judge fake
                                  judge offline and see every figure
  evalkit plan items.jsonl --rubric faithfulness --judge openai:gpt-4o-mini
                                  what a real judge would cost

exit codes: 0 done (unscored rows are reported, not failed); 1 a check failed
(ci, rubric lint, doctor, compare --fail-on-worse); 2 anything else
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv
        The arguments after ``evalkit``; those of the process if None.

    Returns
    -------
    int
        The exit code: 0 done (unscored rows are reported, not failed), 1 a check failed, 2 anything else,
        141 if the reader of the output closed it, 143 or 129 after SIGTERM or SIGHUP.

    Examples
    --------
    >>> main(["rubric", "diff", "faithfulness", "faithfulness@v1"])
    0
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without a character shows its code, not a traceback
            stream.reconfigure(errors="backslashreplace")
    try:
        given = sys.argv[1:] if argv is None else list(argv)
        if not given:
            parser_of_commands().print_help(sys.stderr)
            return _ERROR
        args = parse_arguments(given)
        with warnings_as_messages(redact=getattr(args, "redact", False)):
            code = _run(args)
        sys.stdout.flush()
    except SystemExit as end:  # argparse: help was shown, or the arguments are wrong
        return end.code if isinstance(end.code, int) else _ERROR
    except BrokenPipeError:
        _drop_output()
        return _PIPE_CLOSED
    return code


def _run(args: argparse.Namespace) -> int:
    try:
        if getattr(args, "writes_table", False) and args.out is not None:
            check_output(args, args.out)
        return args.handler(args) or _DONE
    except KeyboardInterrupt as stop:
        tell(str(stop) or "stopped")
    except BrokenPipeError:
        raise
    except (EvalkitError, OSError) as problem:
        if os.environ.get("EVALKIT_DEBUG", "0") not in ("", "0"):
            traceback.print_exc()
        tell(f"error: {_text_of(problem)}")
    except Exception:  # noqa: BLE001  # shown in full; Python's own exit code, 1, would mean that a check failed
        traceback.print_exc()
        tell("error: this is an error in evalkit, not in your input; please report it with the lines above")
    return _ERROR


def _text_of(problem: EvalkitError | OSError) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.filename}: {problem.strerror.lower()}" if problem.filename else problem.strerror.lower()
    return str(problem)


def _drop_output() -> None:
    """Drop what is still buffered: Python would try to write it again at exit, and fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def parse_arguments(given: list[str]) -> argparse.Namespace:
    """The arguments of one command, read by the parser that they are for.

    ``lighteval`` takes arguments of LightEval, and ``judge --trace-file`` flags of the gate. A flag that is called as
    a key is refused before a message can repeat its value.
    """
    flags = (word.partition("=")[0] for word in given if word.startswith("--") and given[0] != "lighteval")
    if (flag := next(filter(is_key, flags), None)) is not None:
        Parser(prog="evalkit").error(
            f"unknown flag {flag}: no flag takes a key itself; put the key into an environment variable and pass the "
            "variable's name, as in --judge-api-key-env NAME"
        )
    if given[0] == "judge" and any(word.partition("=")[0] == "--trace-file" for word in given):
        return cast(argparse.Namespace, _module("ci").record_parser().parse_args(given[1:]))
    parser = parser_of_commands(given[0])
    args = (given[0] == "lighteval" and _module("lighteval").passed_on(given)) or parser.parse_args(given)
    if getattr(args, "json", False) and getattr(args, "out", None) == "-":
        parser.error("--out - and --json both go to stdout; choose one")
    return args


def parser_of_commands(command: str | None = None) -> Parser:
    """The parser of one command (and of others in its module), or else of all commands."""
    parser = Parser(
        prog="evalkit",
        description="LLM judges and juries: judge items by a rubric, see their spread and their agreement\n"
        "with people, and never pay for a judgment twice.",
        epilog=_END,
    )
    parser.add_argument("--version", action="version", version=f"evalkit {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in [name for name, own in _COMMANDS.items() if command in own] or _COMMANDS:
        _module(name).add(commands)
    return parser


def _module(name: str) -> Any:
    return import_module(f"evalkit.cli.{name}")
