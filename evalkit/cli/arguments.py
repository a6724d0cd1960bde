"""Arguments that several commands share, and how their texts are read."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from evalkit.core.choices import ON_MISS, RECORDED
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES, VOTE_RULES, VOTE_TIES
from evalkit.engine.options import Options

if TYPE_CHECKING:
    import pandas as pd

    from evalkit.runs import Registry

__all__ = [
    "Commands",
    "Parser",
    "add_adopt",
    "add_command",
    "add_judging",
    "add_label_columns",
    "add_labels",
    "add_limits",
    "add_output",
    "add_registry",
    "add_rules",
    "add_running",
    "add_what",
    "meanings",
    "moment",
    "moments_as_text",
    "named_number",
    "opened",
    "seconds",
]

Commands = Any
"""What `add_subparsers` gives; argparse has no public name for it."""

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Examples stay as they are written; names of commands have room beside their help."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)
        self._action_max_length = 14  # argparse forgets that commands are indented


class Parser(argparse.ArgumentParser):
    """A parser without abbreviated flags, whose errors are one line."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", _Formatter)
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Exit 2 with one line."""
        self.exit(2, f"evalkit: error: {message} (see: {self.prog} --help)\n")


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int | None],
    text: str,
    end: str = "",
    usage: str = "",
) -> Parser:
    """A command: its name, what it does in one line, examples that close its help, and its arguments in short."""
    about = text[0].upper() + text[1:] + "."
    parser: Parser = commands.add_parser(
        name, help=text, description=about, epilog=f"examples:\n{end}" if end else None
    )
    if usage:
        parser.usage = f"{parser.prog} {usage}"
    parser.set_defaults(run=run)
    return parser


def add_what(parser: Parser) -> None:
    """What is judged, and by whom."""
    group = parser.add_argument_group("what is judged, and by whom")
    group.add_argument("--rubric", metavar="R", help="rubric: id, id@version or a .yaml file")
    group.add_argument("--profile", metavar="P", help="profile: name or .yaml file (rubric, judges, samples, rules)")
    group.add_argument(
        "--judge",
        metavar="J",
        action="append",
        default=[],
        help="provider:model, as in openai:gpt-4o-mini; repeat for a jury; 'fake' needs no model and no network; "
        "'profile': all judges of the profile; 'none' makes no calls: only what is cached of the profile's judges",
    )
    group.add_argument("--judge-model", metavar="MODEL", help="model for a --judge that names only its provider")
    group.add_argument(
        "--judge-base-url", metavar="URL", help="OpenAI-compatible server, as in http://localhost:8000/v1"
    )
    group.add_argument("--judge-api-key-env", metavar="NAME", help="environment variable that holds the key")
    group.add_argument("--judge-temperature", metavar="T", type=_number_or_none, help="default 1.0; 'none' sends none")
    group.add_argument("--judge-max-tokens", metavar="N", type=_whole_or_none, help="default 512; 'none' sends none")
    group.add_argument("--template", metavar="T", help="prompt template instead of the rubric's, as in tagged@v1")
    group.add_argument("--samples", metavar="K", type=int, help="samples per judge, item and criterion (default 3)")


def add_judging(parser: Parser, *, needs_items: bool = True) -> None:
    """Items, what is judged, and the cache."""
    count = None if needs_items else "?"
    parser.add_argument(
        "items", metavar="ITEMS", nargs=count, help="JSONL, CSV, TSV, JSON or parquet file, '-' for JSONL on stdin"
    )
    add_what(parser)
    parser.add_argument(
        "--item-id", metavar="COLUMN", help="column that holds the ids (default: item_id, else the row)"
    )
    parser.add_argument(
        "--cache", metavar="DIR", help="cache folder (default: EVALKIT_CACHE, else cache/ of the project)"
    )
    parser.add_argument(
        "--recorded", choices=RECORDED, default="miss", help="'use' lets recorded replies answer for live judges"
    )


def add_running(parser: Parser) -> None:
    """How judges are asked."""
    group = parser.add_argument_group("calls")
    group.add_argument(
        "--offline", action="store_true", help="never open a connection: cached and recorded replies only"
    )
    group.add_argument(
        "--on-miss",
        choices=ON_MISS,
        default="row",
        help="offline, a missing reply is a row with an error (default), or exit code 2",
    )
    group.add_argument(
        "--refresh",
        metavar="unscored|TIME",
        nargs="?",
        const=True,
        default=False,
        type=_refresh,
        help="call again: for everything, for what is unscored, or for what is older (Unix time or 2026-01-31T12:00)",
    )
    add_adopt(group)
    add_limits(group)
    group.add_argument("--replies", action="store_true", help="add the raw replies as a column to the judgments")


def add_limits(group: Any) -> None:
    """How much judging may spend, and how fast it may send."""
    group.add_argument("--budget-usd", metavar="USD", type=float, help="spend at most this; the rest stays unscored")
    group.add_argument("--max-calls", metavar="N", type=int, help="make at most N calls; the rest stays unscored")
    for name, what in (
        ("concurrency", "most calls in flight per service, model and key"),
        ("retries", "how often a failed call is tried again"),
    ):
        value = getattr(Options(), name)
        group.add_argument(f"--{name}", metavar="N", type=int, default=value, help=f"{what} (default {value})")
    for unit in ("requests", "tokens"):
        group.add_argument(
            f"--{unit}-per-minute", metavar="N", type=float, help=f"most {unit} per minute, service, model and key"
        )


def add_adopt(parser: Any) -> None:
    """``--adopt``."""
    parser.add_argument(
        "--adopt", action="store_true", help="also use replies of other rubric versions to unchanged criteria"
    )


def add_rules(parser: Parser) -> None:
    """From samples to scores."""
    group = parser.add_argument_group("from samples to scores (default: the profile's)")
    group.add_argument(
        "--vote", choices=tuple(VOTE_RULES), help=f"samples to a vote: {meanings(VOTE_RULES)} (default mean)"
    )
    group.add_argument(
        "--ties", choices=tuple(VOTE_TIES), help=f"what a tie of samples becomes: {meanings(VOTE_TIES)} (default na)"
    )
    group.add_argument(
        "--aggregate",
        choices=tuple(AGGREGATE_RULES),
        help=f"from votes to a score (default mean): {meanings(AGGREGATE_RULES)}",
    )
    group.add_argument(
        "--min-self-agreement",
        metavar="SHARE",
        type=float,
        help="leave out the vote of a judge that agrees less with itself (0-1)",
    )
    group.add_argument(
        "--quorum", metavar="SHARE", type=float, help="more than this share must be scored (default 0.5)"
    )


def meanings(choices: Mapping[Any, str]) -> str:
    """Each choice with what it means, for a help text."""
    return "; ".join(f"{name}: {meaning}" for name, meaning in choices.items())


def add_labels(parser: Parser) -> None:
    """Human labels, as a table or as columns of the items."""
    parser.add_argument("--labels", metavar="FILE", help="human labels: item_id, criterion, annotator, label")
    add_label_columns(parser, "the items")


def add_label_columns(parser: Parser, whose: str) -> None:
    """Human labels as columns."""
    parser.add_argument(
        "--label",
        metavar="CRITERION=COLUMN,…",
        action="append",
        default=[],
        type=_label_columns,
        help=f"human labels in columns of {whose}, one per annotator; repeat for another criterion",
    )


def add_output(parser: Parser, *, rows: int = 20) -> None:
    """Where a table goes."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o", "--out", metavar="FILE", help="write the table: .jsonl, .csv, .tsv, .json, .parquet; '-': JSONL on stdout"
    )
    group.add_argument("--json", action="store_true", help="print one JSON document: a list of records")
    group.add_argument("--rows", metavar="N", type=int, default=rows, help=f"rows shown on a terminal (default {rows})")
    add_quiet(group)


def add_quiet(parser: Any) -> None:
    """``--quiet``."""
    parser.add_argument(
        "--quiet", action="store_true", help="print only warnings, errors and unscored judgments on stderr"
    )


def add_registry(parser: argparse.ArgumentParser) -> None:
    """``--registry``."""
    parser.add_argument(
        "--registry",
        metavar="URL",
        help="SQLite file or postgresql://… (default: EVALKIT_REGISTRY, else registry.sqlite of the cache folder)",
    )


@contextlib.contextmanager
def opened(args: argparse.Namespace) -> Iterator[Registry]:
    """The registry of ``--registry``."""
    from evalkit.runs import Registry

    registry = Registry.open(args.registry)
    try:
        yield registry
    finally:
        registry.close()


def seconds(text: str) -> float:
    """A time on the command line: more than 0, less than a day."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 86400:
        raise argparse.ArgumentTypeError(f"expected seconds, more than 0 and less than a day, got {text!r}")
    return value


def moments_as_text(table: pd.DataFrame) -> pd.DataFrame:
    """`created_at` as ISO text, to the second: what JSON takes and a terminal has room for."""
    return table.assign(created_at=[moment.isoformat(timespec="seconds") for moment in table["created_at"]])


def named_number(text: str) -> tuple[str, float]:
    """``name=number``."""
    name, separator, value = text.rpartition("=")
    try:
        if separator and name:
            return name, float(value)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"expected NAME=NUMBER, as in openai:gpt-4o-mini=2, got {text!r}")


def moment(text: str) -> float:
    """Unix time of a date, of a Unix time, or of an age: ``30d``, ``12h``, ``8w``.

    Examples
    --------
    >>> moment("2026-01-31T00:00Z")
    1769817600.0
    """
    if age := re.fullmatch(r"(\d+)([hdw])", text):
        return (datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})).timestamp()
    if re.fullmatch(r"\d{9,11}(\.\d*)?", text):
        return float(text)
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a date (2026-01-31), an age (30d, 12h, 8w) or a Unix time, got {text!r}"
        ) from None


def _refresh(text: str) -> float | str:
    if text == "unscored":
        return text
    try:
        return moment(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"expected nothing, 'unscored' or a time, got {text!r} (files go before --refresh)"
        ) from None


def _label_columns(text: str) -> tuple[str, list[str]]:
    criterion, separator, columns = text.partition("=")
    names = [name.strip() for name in columns.split(",") if name.strip()]
    if not separator or not criterion or not names:
        raise argparse.ArgumentTypeError(f"expected CRITERION=COLUMN,COLUMN as in faithfulness=ann1,ann2, got {text!r}")
    return criterion.strip(), names


def _number_or_none(text: str) -> float | str:
    try:
        return "none" if text == "none" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number or 'none', got {text!r}") from None


def _whole_or_none(text: str) -> int | str:
    try:
        return "none" if text == "none" else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number or 'none', got {text!r}") from None
