"""Arguments that several commands share, how their texts are read, and the settings that they give."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import evalkit as ek
from evalkit.core.judge_settings import CALL_FLAGS, FLAGS, JUDGE_SETTINGS, OF_CALLS, flag_place, variable_place
from evalkit.core.lists_of_choices import ON_MISS, ON_MISSING, RECORDED
from evalkit.core.settings import CONCURRENCY, RULE_NAMES, Options, Place, Settings
from evalkit.core.strict_json import read_json
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES, VOTE_RULES, VOTE_TIES
from evalkit.errors import ConfigError
from evalkit.errors.secrets import without_keys

if TYPE_CHECKING:
    from evalkit.core.judges import Judge


Commands = Any
"""What `add_subparsers` returns; argparse has no public name for it."""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps examples as they are written, and leaves room for the names of commands beside their help."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)
        self._action_max_length = 14  # argparse forgets that commands are indented


class Parser(argparse.ArgumentParser):
    """A parser without abbreviated flags, whose errors are one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, formatter_class=_Formatter, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Exit 2 with one line, without keys."""
        self.exit(2, f"evalkit: error: {without_keys(message)} (see: {self.prog} --help)\n")

    def add_what(self) -> None:
        """What is judged, and by whom."""
        group = self.add_argument_group("what is judged, and by whom")
        judge = (flag for flag in FLAGS if flag not in CALL_FLAGS)
        add_flags(group, "rubric", "profile", *judge, "template", "criteria-per-call")

    def add_judging(self, *, n_items: str | None = None) -> None:
        """Items (`n_items` as `nargs` of argparse), what is judged, and the cache."""
        add_value(
            self, "items", "ITEMS", "JSONL, CSV, TSV, JSON or parquet file, '-' for JSONL on stdin", nargs=n_items
        )
        self.add_what()
        add_flags(self, "item-id", "form", "input", "on-missing", "cache", "recorded")

    def add_running(self) -> None:
        """How judges are called."""
        add_flags(
            self.add_argument_group("calls"), "offline", "on-miss", "refresh", "adopt", *LIMITS, "repair", "replies"
        )

    def add_rules(self) -> None:
        """From samples to scores."""
        group = self.add_argument_group("rules from samples to scores (default: those of the profile)")
        add_flags(group, *(name.replace("_", "-") for name in RULE_NAMES))

    def add_label_columns(self, whose: str) -> None:
        """Human labels as columns."""
        add_value(
            self,
            "--label",
            "CRITERION=COLUMN,…",
            f"human labels in columns of {whose}, one per annotator; repeat for another criterion",
            action="append",
            default=[],
            type=_columns,
        )

    def add_output(self, *, rows: int = 20) -> None:
        """Where a table goes. Before the command runs, it is checked that the file can be written."""
        group = self.add_argument_group("output")
        add_value(
            group, "-o --out", "FILE", "write the table: .jsonl, .csv, .tsv, .json, .parquet; '-': JSONL on stdout"
        )
        add_flags(group, "json", "quiet")
        add_value(group, "--rows", "N", f"rows shown on a terminal (default {rows})", type=int, default=rows)
        self.set_defaults(writes_table=True)


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int | None] | None,
    text: str,
    end: str = "",
    usage: str = "",
    flags: Sequence[str] = (),
) -> Parser:
    """A command: its name, what it does, examples that close its help, its arguments in short, and shared flags."""
    about = text[0].upper() + text[1:] + "."
    epilog = f"examples:\n{end}" if end else None
    parser: Parser = commands.add_parser(name, help=text, description=about, epilog=epilog)
    if usage:
        parser.usage = f"{parser.prog} {usage}"
    parser.set_defaults(handler=run)
    add_flags(parser, *flags)
    return parser


def add_group(commands: Commands, name: str, text: str) -> Commands:
    """A command that has commands of its own, as in ``evalkit cache stats``."""
    return add_command(commands, name, None, text).add_subparsers(title="commands", metavar="COMMAND", required=True)


def meanings(choices: Mapping[Any, object]) -> str:
    """Each choice with its meaning, for a help text."""
    return "; ".join(f"{name}: {meaning}" for name, meaning in choices.items())


def read_as(expected: str, read: Callable[[str], Any]) -> Callable[[str], Any]:
    """The reader of an argument, with an error that shows what is expected."""

    def read_text(text: str) -> Any:
        try:
            return read(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}") from None

    return read_text


def _moment(text: str) -> float:
    if age := re.fullmatch(r"(\d+)([hdw])", text):
        unit = {"h": "hours", "d": "days", "w": "weeks"}[age[2]]
        return (datetime.now(UTC) - timedelta(**{unit: int(age[1])})).timestamp()
    is_unix_time = re.fullmatch(r"\d{9,11}(\.\d*)?", text)
    return float(text) if is_unix_time else datetime.fromisoformat(text).timestamp()


moment = read_as("a date (2026-01-31), an age (30d, 12h, 8w) or a Unix time", _moment)
"""Unix time of a date, of a Unix time, or of an age: ``30d``, ``12h``, ``8w``."""


def _input_column(text: str) -> tuple[str, Any]:
    """An input and its column; for criteria that have a form of their own, its JSON."""
    name, _, column = (part.strip() for part in text.partition("="))
    if not name or not column:
        raise ValueError
    return name, read_json(column) if column.startswith("{") else column


def _label_columns(text: str) -> tuple[str, list[str]]:
    criterion, _, columns = text.partition("=")
    names = [name.strip() for name in columns.split(",") if name.strip()]
    if not criterion or not names:
        raise ValueError
    return criterion.strip(), names


_input = read_as("INPUT=COLUMN as in answer=response", _input_column)
_columns = read_as("CRITERION=COLUMN,COLUMN as in faithfulness=ann1,ann2", _label_columns)
_refresh = read_as(
    "no value, 'unscored' or a time (put files before --refresh)",
    lambda text: text if text == "unscored" else _moment(text),
)


def _per_call(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _value(metavar: str, text: str, **more: Any) -> dict[str, Any]:
    return {"metavar": metavar, "help": text, **more}


def add_value(parser: Any, names: str, metavar: str, text: str, **more: Any) -> None:
    """Add an argument that takes a value; ``names`` may be two, as in ``"-o --out"``."""
    parser.add_argument(*names.split(), **_value(metavar, text, **more))


def _switch(text: str) -> dict[str, Any]:
    return {"action": "store_true", "help": text}


_DEFAULT = Options()
_JUDGE = (
    "provider:model, as in openai:gpt-4o-mini; repeat for a jury; 'fake' needs no model and no network; "
    "'profile': all judges of the profile; 'none': no calls, only cached replies of the profile's judges"
)
_INPUT = "column that holds an input of the rubric, if it has another name, as in answer=response; repeat for others"
_ON_MISSING = "an item without a required input is an error (default), or skipped and unscored"
_ON_MISS_OFFLINE = "offline, a missing reply is a row with an error (default), or exit code 2"
_REFRESH = "call again for all judgments, for unscored ones, or for replies older than TIME (Unix time or 2026-01-31)"
_CONCURRENCY = "at most N calls in flight for one service, model and key"
_MIN_SELF_AGREEMENT = "leave out a judge's vote on an item if less than this share (0-1) of its samples agree"
_AGGREGATE = "how votes become a score (default mean)"
_QUORUM = "an item is scored if more than this share of its judges (by weight) scored it (default 0.5)"
_LABELS = "human labels: item_id, criterion, annotator, label; or an export of Label Studio or Argilla"
_REGISTRY = "SQLite file or postgresql://… (default: EVALKIT_REGISTRY, else registry.sqlite of the cache folder)"
_FLAGS: dict[str, dict[str, Any]] = {
    # what is judged, and by whom
    **{one.flag: _value(one.metavar, one.text, type=one.of_flag) for one in JUDGE_SETTINGS.values()},
    "rubric": _value("R", "rubric: id, id@version or a .yaml file"),
    "profile": _value("P", "profile: name or .yaml file (rubric, judges, samples, rules)"),
    "judge": _value("J", _JUDGE, action="append", default=[]),
    "criteria-per-call": _value("N|all", "criteria that one call judges (default 1)", type=_per_call),
    "template": _value("T", "prompt template instead of the rubric's, as in tagged@v1"),
    # where replies and items come from
    "item-id": _value("COLUMN", "column that holds the ids (default: item_id, else the row)"),
    "form": _value("NAME", "reader of traces that another program wrote, as in otel"),
    "input": _value("INPUT=COLUMN", _INPUT, action="append", default=[], dest="inputs", type=_input),
    "on-missing": {"choices": ON_MISSING, "default": "raise", "help": _ON_MISSING},
    "cache": _value("DIR", "cache folder or postgresql://… (default: EVALKIT_CACHE, else cache/ of the project)"),
    "recorded": {"choices": RECORDED, "default": "miss", "help": "'use' takes recorded replies in place of live calls"},
    "adopt": _switch("for unchanged criteria, also use replies to other versions of the rubric"),
    # calls
    "offline": _switch("never open a connection: cached and recorded replies only"),
    "on-miss": {"choices": ON_MISS, "default": "row", "help": _ON_MISS_OFFLINE},
    "refresh": _value("unscored|TIME", _REFRESH, nargs="?", const=True, default=False, type=_refresh),
    "replies": _switch("add the raw replies as a column to the judgments"),
    "budget-usd": _value("USD", "spend at most this; the rest stays unscored", type=float),
    "max-calls": _value("N", "make at most N calls; the rest stays unscored", type=int),
    "concurrency": _value("N", f"{_CONCURRENCY} (default {CONCURRENCY})", type=int),
    "retries": _value("N", "retries of a failed call (default %(default)s)", type=int, default=_DEFAULT.retries),
    "requests-per-minute": _value("N", "at most N requests per minute for one service, model and key", type=float),
    "tokens-per-minute": _value("N", "at most N tokens per minute for one service, model and key", type=float),
    # from samples to scores
    "vote": {"choices": tuple(VOTE_RULES), "help": f"how samples become a vote: {meanings(VOTE_RULES)} (default mean)"},
    "ties": {"choices": tuple(VOTE_TIES), "help": f"vote if the samples tie: {meanings(VOTE_TIES)} (default na)"},
    "min-self-agreement": _value("SHARE", _MIN_SELF_AGREEMENT, type=float),
    "aggregate": {"choices": tuple(AGGREGATE_RULES), "help": f"{_AGGREGATE}: {meanings(AGGREGATE_RULES)}"},
    "quorum": _value("SHARE", _QUORUM, type=float),
    "pass-prob-at": _value("P", "a vote passes from this mean P(pass) on (default: no such cut)", type=float),
    # labels, output and the registry
    "labels": _value("FILE", _LABELS),
    "reader": _value("NAME", "reader of labels of another tool, by the entry point evalkit.readers"),
    "items": _value("ITEMS", "items with group_id: the intervals treat each group as one unit"),
    "json": _switch("print one JSON document"),
    "quiet": _switch("print only warnings, errors and unscored judgments on stderr"),
    "folder": _value("DIR", "logs and output of runs (default: runs/ in the cache folder)"),
    "registry": _value("URL", _REGISTRY),
}
LIMITS = (
    "budget-usd", "max-calls", "max-seconds", "concurrency", "retries", "requests-per-minute", "tokens-per-minute",
)  # fmt: skip
"""Flags for how much judging may spend, and how fast it may send."""


def add_flags(parser: Any, *names: str) -> None:
    """Shared flags, by their names."""
    for name in names:
        aliases = {"judge-samples": ["--samples"], "refresh": ["--judge-refresh"]}.get(name, [])
        parser.add_argument(f"--{name}", *aliases, **_FLAGS[name])


def opened(args: argparse.Namespace) -> contextlib.closing[ek.runs.Registry]:
    """The registry of ``--registry``, to be used in a ``with`` block."""
    return contextlib.closing(ek.runs.Registry.open(args.registry))


_CHANGES = ("model", *(name for name, setting in JUDGE_SETTINGS.items() if setting.field is not None))
_NONE = (
    "the judge 'none' means the judges of a profile, without calls: pass --profile, and no other --judge flag. To read "
    "the cached replies of other judges, name these judges and pass --offline"
)


def spec_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Rubric or profile, judges, samples and template: what all of evalkit's judging functions take."""
    rubric = _rubric_or_profile(args)
    others = {name: getattr(args, name) for name in ("template", "criteria_per_call")}
    others |= {"samples": judge_settings(args)[0].get("samples")}
    return {"rubric": rubric, "judges": _judges(args, None if isinstance(rubric, str) else rubric)} | others


def data_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """How the columns of the items are read."""
    return {"inputs": dict(args.inputs), "on_missing": args.on_missing}


def _rubric_or_profile(args: argparse.Namespace) -> Any:
    if args.profile is None and args.rubric is None:
        raise ConfigError("no rubric is named; pass --rubric ID ('evalkit rubric list' lists the ids), or --profile")
    if args.profile is None:
        return args.rubric

    profile = ek.load_profile(args.profile)
    return profile if args.rubric is None else profile.with_rubric(args.rubric)


def flags_of(args: argparse.Namespace) -> dict[str, Any]:
    """The settings of judges that the flags name; None: not named."""
    values = {name: getattr(args, setting.flag.replace("-", "_"), None) for name, setting in JUDGE_SETTINGS.items()}
    return values | {"judge": getattr(args, "judge", None) or None}


def judge_settings(args: argparse.Namespace) -> tuple[Settings, list[Place]]:
    """The settings of judges that flags and variables name, and these places."""
    flags = flag_place(flags_of(args))
    places = [flags, variable_place(without=flags[1])]
    return Settings.of(*places), places


def _judges(args: argparse.Namespace, profile: ek.rubrics.Profile | None) -> list[Judge] | Literal["none"] | None:
    """The judges that flags and variables name or change; None leaves them to the profile.

    ``none``, which makes no calls, leaves them to it as well.
    """
    from evalkit.engine.judging.specification import named_judges

    settings, places = judge_settings(args)
    if profile is not None and profile.judges:
        places = places[:1]  # only a flag changes the judges of a profile that a flag names
    texts = Settings.of(*places).get("judge") or []
    if texts in ("none", ["none"]):
        if changed := [name for name, value in flags_of(args).items() if name in _CHANGES and value is not None]:
            raise ConfigError(f"--{JUDGE_SETTINGS[changed[0]].flag} changes a judge, but {_NONE}")
        return "none"
    if "none" in texts and not isinstance(texts, str):
        raise ConfigError(f"--judge {', '.join(texts)}: {_NONE}")
    panel = named_judges(places, profile)
    if panel.source == "missing":
        parts = (text.partition(":") for text in ([texts] if isinstance(texts, str) else texts))
        name = next(name for name, _, model in parts if not model.strip() and name != "fake").strip()
        raise ConfigError(
            f"{settings.source('judge')}: the judge {name!r} has no model; name {name}:MODEL, or pass --judge-model "
            "MODEL"
        )
    if settings.source("base_url").startswith("flag ") and {judge.provider for judge in panel.judges} == {"fake"}:
        raise ConfigError(
            "--judge-base-url cannot be set for the judge 'fake', which runs inside evalkit and has no server; remove "
            "it"
        )
    judges = panel.changed(settings)
    return None if panel.of_profile and judges == panel.judges else list(judges) or None


def source_of(args: argparse.Namespace) -> Callable[[str], str]:
    """The source of a setting that the command passes on: a flag, or a variable."""
    settings, _ = judge_settings(args)
    judges = [settings.source(name) for name in settings if name not in ("samples", *OF_CALLS)]

    def source(name: str) -> str:
        if name == "judges":
            return ", ".join(dict.fromkeys(judges)) or "flag --judge"
        flag = {"inputs": "input"}.get(name, name.replace("_", "-"))
        return settings.source(name) if name in settings else f"flag --{flag}"

    return source


def rules_of(args: argparse.Namespace) -> dict[str, Any]:
    """The rules that the flags name."""
    return {name: getattr(args, name) for name in RULE_NAMES}


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """How judges are called: the options of `judge`."""
    options = {name: getattr(args, name) for name in Options.__slots__ if hasattr(args, name)}
    settings = judge_settings(args)[0]
    options |= {name: settings.get(name) for name in OF_CALLS if hasattr(args, name)}
    return options | {"progress": False if args.quiet else None}
