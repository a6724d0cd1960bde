"""`main`: the parser of all commands, and what every way of ending means."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence

from evalkit._version import __version__
from evalkit.cli import (
    align_compare,
    cache,
    ci,
    demo,
    doctor,
    evaluate,
    freeze,
    judge_plan,
    judge_templates,
    lighteval,
    packs,
    plugins,
    report,
    rubrics,
    runs,
    vote_aggregate,
)
from evalkit.cli.arguments import Parser
from evalkit.cli.messages import tell, warnings_told
from evalkit.errors import EvalkitError

__all__ = ["main"]

_DONE, _ERROR, _PIPE_CLOSED = 0, 2, 141
_GROUPS = (
    demo,
    evaluate,
    judge_plan,
    vote_aggregate,
    align_compare,
    report,
    freeze,
    ci,
    rubrics,
    plugins,
    judge_templates,
    packs,
    runs,
    cache,
    doctor,
    lighteval,
)
_END = """\
first steps:
  evalkit demo                    what evalkit does, offline, in a minute
  evalkit rubric list             what can be judged
  evalkit evaluate items.jsonl --rubric faithfulness --judge fake
                                  judge offline and see every figure
  evalkit plan items.jsonl --rubric faithfulness --judge openai:gpt-4o-mini
                                  what a real judge would cost

exit codes: 0 done (unscored rows are reported, not failed); 1 a check failed
(ci, rubric lint, compare --fail-on-worse); 2 anything else
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
        The exit code: 0 done (unscored rows are reported, not failed), 1 a check failed, 2 all else,
        141 if the reader of the output went away, 143 or 129 after SIGTERM or SIGHUP.

    Examples
    --------
    >>> main(["rubric", "diff", "faithfulness", "faithfulness@v1"])
    0
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a sign gets a mark, not a traceback
            stream.reconfigure(errors="backslashreplace")
    try:
        given = sys.argv[1:] if argv is None else list(argv)
        parser = _parser()
        if not given:
            parser.print_help(sys.stderr)
            return _ERROR
        args = lighteval.passed_on(given) or parser.parse_args(given)
        if getattr(args, "json", False) and getattr(args, "out", None) == "-":
            parser.error("--out - and --json both go to stdout; choose one")
        with warnings_told():
            code = _run(args.run, args)
        sys.stdout.flush()
    except SystemExit as end:  # argparse: help was shown, or the arguments are wrong
        return end.code if isinstance(end.code, int) else _ERROR
    except BrokenPipeError:
        _drop_output()
        return _PIPE_CLOSED
    return code


def _run(run: Callable[[argparse.Namespace], int | None], args: argparse.Namespace) -> int:
    try:
        return run(args) or _DONE
    except KeyboardInterrupt as stop:
        tell(str(stop) or "stopped")
    except BrokenPipeError:
        raise
    except (EvalkitError, OSError) as problem:
        if os.environ.get("EVALKIT_DEBUG", "0") not in ("", "0"):
            traceback.print_exc()
        tell(f"error: {_said(problem)}")
    except Exception:  # noqa: BLE001  # shown in full; Python's own exit code, 1, would say that a check failed
        traceback.print_exc()
        tell("error: this is an error in evalkit, not in your input; please report it with the lines above")
    return _ERROR


def _said(problem: EvalkitError | OSError) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.filename}: {problem.strerror.lower()}" if problem.filename else problem.strerror.lower()
    return str(problem)


def _drop_output() -> None:
    """What is still buffered goes nowhere: Python would try to write it once more at exit, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _parser() -> Parser:
    parser = Parser(
        prog="evalkit",
        description="LLM judges and juries: judge items by a rubric, see their spread and their agreement\n"
        "with people, pay for no judgment twice.",
        epilog=_END,
    )
    parser.add_argument("--version", action="version", version=f"evalkit {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for group in _GROUPS:
        group.add(commands)
    return parser
