"""`evalkit ci`, and `evalkit judge --trace-file`."""

from __future__ import annotations

import argparse
import shlex
from datetime import datetime
from pathlib import Path
from typing import Any

import evalkit as ek
from evalkit.cli.arguments import (
    LIMITS,
    Commands,
    Parser,
    add_command,
    add_flags,
    add_value,
    flags_of,
    moment,
    options_of,
)
from evalkit.cli.reading_and_printing import note, tell
from evalkit.core.judge_settings import FLAGS
from evalkit.errors import ConfigError, counted

RECORD_USAGE = "evalkit judge --trace-file TRACES --config FILE.yaml --judge J [-o COPY] [options]"
_REPORTS = {"junit": "junit.xml", "markdown": "report.md", "json": "result.json"}
_TRACES = "traces.jsonl"
_USAGE = "--config FILE.yaml --trace-file FILE.jsonl [--judge none|profile|openai|fake] [options]"
_END = """\
  evalkit ci --config eval.yaml --trace-file traces.jsonl                   offline: recorded and cached judgments
  evalkit ci --config eval.yaml --trace-file traces.jsonl --judge openai --judge-model gpt-4o-mini --budget-usd 2
  evalkit judge --config eval.yaml --trace-file traces.jsonl --judge openai:gpt-4o-mini     record, without gating

exit codes: 0 passed; 1 a test failed (with --strict: is flaky or warned, too); 2 anything else"""


def add(commands: Commands) -> None:
    """Its parser."""
    text = "test recorded traces: each judgment from the trace, the cache or a judge; exit code 0, 1 or 2"
    group = _add_traces(add_command(commands, "ci", _ci, text, _END, _USAGE))
    group.add_argument("--strict", action="store_true", help="flaky and warned tests fail too")
    text = "test whether the judge changed: compare its replies from before this date (default: today) with new ones"
    today = datetime.now().astimezone().date().isoformat()
    add_value(group, "--drift", "SINCE", text, nargs="?", const=today, type=moment)
    for name, what in (("junit", "JUnit XML"), ("markdown", "a page for a pull request"), ("json", "the whole result")):
        group.add_argument(f"--{name}", metavar="FILE", help=f"write {what}")
    add_value(group, "-o --out", "DIR", "write junit.xml, report.md, result.json and traces.jsonl (enriched) there")


def record_parser() -> Parser:
    """The parser of ``evalkit judge`` with ``--trace-file``."""
    text = "Record judgments in traces, for 'evalkit ci'."
    parser = Parser(prog="evalkit judge --trace-file TRACES", usage=RECORD_USAGE, description=text)
    parser.set_defaults(handler=_record, strict=False, drift=None)
    group = _add_traces(parser)
    add_value(group, "-o --out", "FILE", "write to a copy of the trace file, and leave the file itself unchanged")
    return parser


def _add_traces(parser: Parser) -> Any:
    """Traces, and who judges them; returns the group of output flags."""
    add_value(parser, "--config", "FILE", "YAML or JSON: settings, tests, limits for all tests together", required=True)
    add_value(parser, "--trace-file", "FILE", "traces, one JSON object per line", required=True)
    group = parser.add_argument_group("who judges")
    add_value(
        group,
        "--judge",
        "J",
        "none (default: recorded and cached judgments only), profile (all judges of the profile), openai, fake, "
        "provider:model",
        action="append",
    )
    group.add_argument("--no-judge", action="store_true", help="the same as --judge none")
    add_flags(group, "refresh")
    text = "do not use replies that were copied from another rubric version"
    group.add_argument("--no-promoted", action="store_true", help=text)
    flags = [flag for flag in FLAGS if flag not in ("judge", *LIMITS)]
    add_flags(group, *flags, "profile", *LIMITS, "cache")
    output = parser.add_argument_group("output")
    output.add_argument("--redact", action="store_true", help="write [REDACTED] in place of all prompts and answers")
    add_flags(output, "quiet")
    return output


def _ci(args: argparse.Namespace) -> int:
    from evalkit.gate.config import load_gate
    from evalkit.gate.reports import as_text
    from evalkit.gate.trace_enriching import stamp_of

    options = _options(args)
    config = load_gate(args.config, redact=args.redact)
    _check_places(args, None if config.baseline is None else config.folder / config.baseline)
    since = stamp_of(args.trace_file)
    result = ek.gate.run_gate(config, args.trace_file, options)
    print(as_text(result))
    for text in result.notes:
        tell(text)
    if {"cache_miss", "not_recorded"} & result.reasons:
        _tell_ways_out(args, result)
    _write(args, result, since)
    return result.exit_code


def _options(args: argparse.Namespace) -> ek.gate.GateOptions:

    judges = [*(args.judge or []), *(["none"] if args.no_judge else [])]
    if len(set(judges)) > 1:
        fact = f"with --trace-file, --judge takes one judge, got {', '.join(judges)}"
        if args.no_judge:
            raise ConfigError(f"{fact}, which is what --no-judge means; remove one of the two")
        jury = " ".join(f"--judge {shlex.quote(judge)}" for judge in judges)
        raise ConfigError(
            f"{fact}; keep one. To call all of a jury, write it once with 'evalkit freeze jury.yaml --rubric R "
            f"{jury}', then pass --profile jury.yaml --judge profile"
        )
    if judges == ["none"] and args.refresh:
        fact = "--judge-refresh (call the judge again) and --judge none (make no calls) contradict each other"
        raise ConfigError(f"{fact}; remove one of them")
    asked = flags_of(args) | {"judge": judges[0] if judges else None}
    own = {name: getattr(args, name) for name in ("profile", "no_promoted", "strict", "redact")}
    if args.drift is not None:
        if args.refresh:
            raise ConfigError("--drift already calls the judge again; remove --judge-refresh")
        asked |= {"refresh": args.drift, "drift": True}
    return ek.gate.GateOptions(**own, **(options_of(args) | asked))


def _check_places(args: argparse.Namespace, baseline: Path | None) -> None:
    """Before anything is paid: the reports can be written, and replace nothing that is read."""
    from evalkit.core.files import check_writable

    taken = {Path(args.config).resolve(): "--config", Path(args.trace_file).resolve(): "--trace-file"}
    taken |= {} if baseline is None else {baseline.resolve(): "the baseline"}
    places = {f"--{name} {Path(file)}": Path(file) for name in _REPORTS if (file := getattr(args, name)) is not None}
    for flag, place in places.items():
        if str(place) == "-" or place.is_dir():
            raise ConfigError(
                f"{flag} is not a path of a file; name a file, or use --out DIR to write all reports into a folder"
            )
        if not place.absolute().parent.is_dir():
            raise ConfigError(f"{flag}: folder {place.parent} not found; create it first")
    if args.out is not None:
        if Path(args.out).exists() and not Path(args.out).is_dir():
            raise ConfigError(f"--out {args.out} must be a folder, but is a file; name a folder")
        places |= {f"--out {args.out}: {file}": Path(args.out, file) for file in (*_REPORTS.values(), _TRACES)}
    for flag, place in places.items():
        check_writable(place)
        other = taken.setdefault(place.resolve(), flag)
        if other != flag and not (place.exists() and not place.is_file()):
            raise ConfigError(f"{flag} would overwrite {other}; name another file")


def _tell_ways_out(args: argparse.Namespace, result: ek.gate.GateResult) -> None:
    files = f"--config {shlex.quote(args.config)} --trace-file {shlex.quote(args.trace_file)}"
    names = ("profile", *(flag for flag in FLAGS if flag not in ("judge", "judge-model")), "cache")
    given = {name: value for name in names if (value := getattr(args, name.replace("-", "_"))) is not None}
    more = "".join(f" --{name} {shlex.quote(_word(value))}" for name, value in given.items())
    judge = shlex.quote(_judge_of(result) or (args.judge_model and f"openai:{args.judge_model}") or "openai:MODEL")
    own = "" if args.cache is None else f" --cache {shlex.quote(args.cache)}"
    tell("some judgments are neither recorded in the traces nor cached; three ways to continue:")
    tell(f"  call a judge now:       evalkit ci {files} --judge {judge}{more}")
    tell(f"  record them once:       evalkit judge {files} --judge {judge}{more}")
    tell(f"  import cached replies:  evalkit cache import REPLIES.jsonl{own}")


def _word(value: object) -> str:
    """A value as its flag takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _judge_of(result: ek.gate.GateResult) -> str | None:
    """The judge that was looked up in the cache, as for ``--judge``: ``profile`` if a profile names the judges."""
    for metric in (metric for test in result.tests for metric in test.metrics):
        for one in metric.measured:
            parts = (one.judgment and one.judgment.parts) or {}
            if one.judgment is not None and one.judgment.reasons and "judges" in parts:  # a recorded one has no judges
                judge = parts["judges"][0]
                return "profile" if metric.of_profile else f"{judge['provider']}:{judge['model']}"
    return None


def _write(args: argparse.Namespace, result: ek.gate.GateResult, since: tuple[int, int]) -> None:
    from evalkit.core.files import write_whole
    from evalkit.gate.reports import as_json, as_junit, as_markdown

    made = {"junit": as_junit(result), "markdown": as_markdown(result).encode(), "json": as_json(result)}
    if args.out is not None:  # first, because it may fail: no report says "passed" if the exit code is 2
        folder = Path(args.out)
        folder.mkdir(parents=True, exist_ok=True)
        ek.gate.enrich(args.trace_file, folder / _TRACES, result.judgments, redact=args.redact, since=since)
        for name, file in _REPORTS.items():
            write_whole(folder / file, [made[name]])
    for name, content in made.items():
        if getattr(args, name) is not None:
            write_whole(getattr(args, name), [content])


def _record(args: argparse.Namespace) -> int:
    """`evalkit judge --trace-file`: record judgments in the traces, without gating."""
    from evalkit.core.files import check_writable
    from evalkit.gate.trace_enriching import stamp_of

    target = Path(args.out or args.trace_file)
    if args.redact and target.resolve() == Path(args.trace_file).resolve():
        raise ConfigError(
            f"--redact would overwrite {args.trace_file} and erase its texts permanently; name another file with --out"
        )
    if target.is_dir() or not target.absolute().parent.is_dir() or target.resolve() == Path(args.config).resolve():
        raise ConfigError(
            f"--out {target} cannot be written: it must be a file in an existing folder, and not the file of --config; "
            "choose another path"
        )
    check_writable(target)
    options = _options(args)
    since = stamp_of(args.trace_file)
    result = ek.gate.run_gate(args.config, args.trace_file, options)
    ek.gate.enrich(args.trace_file, target, result.judgments, redact=args.redact, since=since)
    note(args, f"recorded {counted(sum(map(len, result.judgments.values())), 'judgment')} in {target}")
    lost = [test for test in result.tests if test.status == "error"]
    for test in lost[:20]:
        tell(f"not judged: test {test.id!r}: {test.message}")
    if len(lost) > 20:
        tell(f"not judged: {counted(len(lost) - 20, 'more test')}")
    for text in result.notes:
        tell(text)
    return 2 if (lost and not result.has_judgments) or {"budget", "stopped"} & result.reasons else 0
