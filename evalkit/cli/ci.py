"""`evalkit ci`, and `evalkit judge --trace-file`."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit.cli.arguments import Commands, add_command, add_quiet
from evalkit.cli.messages import spoken, tell
from evalkit.cli.tables import put_text
from evalkit.errors import ConfigError

if TYPE_CHECKING:
    from evalkit.gate import GateOptions, GateResult

__all__ = ["add", "enrich_traces"]

_USAGE = "--config FILE.yaml --trace-file FILE.jsonl [--judge none|openai|fake] [options]"
_END = """\
  evalkit ci --config eval.yaml --trace-file traces.jsonl                   offline: recorded and cached judgments
  evalkit ci --config eval.yaml --trace-file traces.jsonl --judge openai --judge-model gpt-4o-mini --budget-usd 2
  evalkit judge --config eval.yaml --trace-file traces.jsonl --judge openai:gpt-4o-mini     record, without gating

exit codes: 0 passed; 1 a test failed (with --strict: is flaky or warned, too); 2 anything else"""


def add(commands: Commands) -> None:
    """Its parser."""
    parser = add_command(commands, "ci", _ci, "gate recorded traces: judge metrics in, exit code out", _END, _USAGE)
    parser.add_argument(
        "--config", metavar="FILE", required=True, help="settings, tests and suite bounds: YAML or JSON"
    )
    parser.add_argument("--trace-file", metavar="FILE", required=True, help="traces, one JSON object a line")
    judging = parser.add_argument_group("who judges")
    judging.add_argument(
        "--judge", metavar="J", help="none (default: recorded and cached judgments only), openai, fake, provider:model"
    )
    judging.add_argument("--no-judge", action="store_true", help="the same as --judge none")
    judging.add_argument("--judge-model", metavar="MODEL", help="model for a --judge that names only its provider")
    judging.add_argument("--judge-samples", metavar="K", type=int, help="samples a judge and test (default 3)")
    judging.add_argument("--judge-refresh", action="store_true", help="ask again, whatever trace and cache hold")
    judging.add_argument("--judge-base-url", metavar="URL", help="OpenAI-compatible server")
    judging.add_argument("--judge-api-key-env", metavar="NAME", help="environment variable that holds the key")
    judging.add_argument("--profile", metavar="P", help="profile: name or .yaml file (judges, samples, rules)")
    judging.add_argument("--no-promoted", action="store_true", help="refuse replies promoted from other versions")
    judging.add_argument("--budget-usd", metavar="USD", type=float, help="spend no more on live calls")
    judging.add_argument("--cache", metavar="DIR", help="cache folder (default: EVALKIT_CACHE, else the project's)")
    group = parser.add_argument_group("output")
    group.add_argument("--strict", action="store_true", help="flaky and warned tests fail too")
    for name, what in (("junit", "JUnit XML"), ("markdown", "a page for a pull request"), ("json", "the whole result")):
        group.add_argument(f"--{name}", metavar="FILE", help=f"write {what}")
    group.add_argument(
        "-o", "--out", metavar="DIR", help="write junit.xml, report.md, result.json and traces.jsonl (enriched) there"
    )
    group.add_argument("--redact", action="store_true", help="[REDACTED] in place of prompts and answers, everywhere")
    add_quiet(group)


def _ci(args: argparse.Namespace) -> int:
    from evalkit.gate import run_gate
    from evalkit.gate.documents import as_text

    options = _options(args, args.judge, args.judge_samples, refresh=args.judge_refresh)
    _check_places(args)
    result = run_gate(args.config, args.trace_file, options)
    put_text(spoken(as_text(result, redact=args.redact)))
    for note in result.notes:
        tell(note)
    if result.lacks_judgments:
        _tell_ways_out(args)
    _write(args, result)
    return result.exit_code


def _options(args: argparse.Namespace, judge: str | None, samples: int | None, *, refresh: bool) -> GateOptions:
    from evalkit.gate import GateOptions

    if getattr(args, "no_judge", False):
        if judge not in (None, "none"):
            raise ConfigError(f"--no-judge and --judge {judge} contradict each other; keep one")
        judge = "none"
    if judge == "none" and refresh:
        raise ConfigError("--judge-refresh asks a judge again, --judge none asks nobody; keep one")
    return GateOptions(
        judge=judge,
        model=args.judge_model,
        samples=samples,
        base_url=args.judge_base_url,
        api_key_env=args.judge_api_key_env,
        profile=args.profile,
        refresh=refresh,
        no_promoted=getattr(args, "no_promoted", False),
        strict=getattr(args, "strict", False),
        budget_usd=args.budget_usd,
        redact=args.redact,
        cache=None if args.cache is None else Path(args.cache),
    )


def _check_places(args: argparse.Namespace) -> None:
    """Before anything is paid: the reports can be written."""
    for name in ("junit", "markdown", "json"):
        place = getattr(args, name)
        if place is not None and not Path(place).absolute().parent.is_dir():
            raise ConfigError(f"--{name} {place}: there is no folder {Path(place).parent}; make it first")
    if args.out is not None and Path(args.out).exists() and not Path(args.out).is_dir():
        raise ConfigError(f"--out {args.out} is a file; name a folder")


def _tell_ways_out(args: argparse.Namespace) -> None:
    files = f"--config {shlex.quote(args.config)} --trace-file {shlex.quote(args.trace_file)}"
    model = shlex.quote(args.judge_model or "MODEL")
    tell("some judgments are neither recorded in the traces nor cached; three ways out:")
    tell(f"  ask a judge now:        evalkit ci {files} --judge openai --judge-model {model}")
    tell(f"  record them once:       evalkit judge {files} --judge openai:{model}")
    tell("  bring a cache you have: evalkit cache import REPLIES.jsonl")


def _write(args: argparse.Namespace, result: GateResult) -> None:
    from evalkit.gate import enrich
    from evalkit.gate.documents import as_json, as_junit, as_markdown

    made: dict[str, bytes] = {
        "junit": as_junit(result, redact=args.redact),
        "markdown": as_markdown(result, redact=args.redact).encode(),
        "json": as_json(result, redact=args.redact),
    }
    for name, content in made.items():
        if getattr(args, name) is not None:
            Path(getattr(args, name)).write_bytes(content)
    if args.out is not None:
        folder = Path(args.out)
        folder.mkdir(parents=True, exist_ok=True)
        for name, file in (("junit", "junit.xml"), ("markdown", "report.md"), ("json", "result.json")):
            (folder / file).write_bytes(made[name])
        enrich(args.trace_file, folder / "traces.jsonl", _found(result), redact=args.redact)


def _found(result: GateResult) -> dict[int, dict[str, Any]]:
    return {line: {name: one.to_dict() for name, one in by.items()} for line, by in result.found.items()}


def enrich_traces(args: argparse.Namespace) -> int:
    """`evalkit judge --trace-file`: judgments into the traces, without gating."""
    from evalkit.gate import enrich, run_gate

    if len(args.judge) > 1:
        raise ConfigError("commands on traces take one --judge, or a jury by --profile")
    options = _options(args, args.judge[0] if args.judge else None, args.samples, refresh=args.refresh is True)
    result = run_gate(args.config, args.trace_file, options)
    target = args.out or args.trace_file
    enrich(args.trace_file, target, _found(result), redact=args.redact)
    count = sum(map(len, result.found.values()))
    if not args.quiet:
        tell(f"recorded {count} {'judgment' if count == 1 else 'judgments'} in {target}")
    lost = [test for test in result.tests if test.status == "error"]
    for test in lost[:20]:
        tell(f"not judged: test {test.id!r}: {spoken(test.message)}")
    for note in result.notes:
        tell(note)
    return 2 if lost and not count else 0
