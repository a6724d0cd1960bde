"""Receipts: the judges, rubric and rules that a judge plugin used for a task, with counts; and a run's other facts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from evalkit.core.files import held, whole
from evalkit.core.lists_of_choices import ScoreReading, ScoringMode
from evalkit.core.validation_errors import explain
from evalkit.errors import ConfigError, counted

RECEIPT_VARIABLE = "EVALUATOR_RECEIPT_PATH"
RECEIPTS_FILE = "receipts.json"
"""The file of a run's receipts in LightEval's output folder."""

Scorer = Literal["judge", "own", "unknown"]
"""What scores a metric: a judge of evalkit, its own code that by its author's word calls no model, or unknown code."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class JudgeUsed(_Part):
    """One judge and its settings; never a key.

    Attributes
    ----------
    name, provider, service, model
        The judge's name in tables, and the model that it calls.
    weight, temperature, max_tokens, params, score
        Its weight in the jury, its sampling settings, and how its score is read (None: from the text).
    template, template_hash
        Its prompt template: ``name@version`` and sha256 of the source. Two with a comma between, if some criteria are
        asked alone and others together.
    samples
        Its own number of samples; None: that of the receipt.
    base_url
        Its server; None for the provider's own server, or no server.
    n_judgments, n_scored
        Judgments requested from this judge, and those with a score; None if not counted.
    reasons
        Reason -> number of judgments without a score.
    served, fingerprints
        Model name, and fingerprint of software and weights, in the server's replies -> number of judgments; empty if
        the replies have none.
    """

    name: str
    provider: str
    service: str
    model: str
    weight: float
    temperature: float | None
    max_tokens: int | None
    params: dict[str, Any] = {}
    score: ScoreReading | None = None
    samples: int | None = None
    template: str
    template_hash: str
    base_url: str | None = None
    n_judgments: int | None = None
    n_scored: int | None = None
    reasons: dict[str, int] = {}
    served: dict[str, int] = {}
    fingerprints: dict[str, int] = {}

    @property
    def is_down(self) -> bool:
        """Whether it was called and scored nothing."""
        return bool(self.n_judgments) and not self.n_scored

    @property
    def lost(self) -> str:
        """How many of its judgments have a score, and why others have none; blank if none lacks one.

        Examples
        --------
        >>> JudgeUsed(name="b", provider="openai", service="local", model="b", weight=1, temperature=1.0, max_tokens=9,
        ...           template="default@v1", template_hash="0", n_judgments=6, n_scored=0,
        ...           reasons={"judge_down": 6}).lost
        'b: 0 of 6 scored: judge_down 6'
        """
        if self.n_judgments is None or self.n_scored is None or self.n_scored >= self.n_judgments:
            return ""
        counts = sorted(self.reasons.items(), key=lambda one: (-one[1], one[0]))
        reasons = ", ".join(f"{reason} {n}" for reason, n in counts)
        return f"{self.name}: {self.n_scored} of {self.n_judgments} scored{f': {reasons}' if reasons else ''}"


class Receipt(_Part):
    """What scored one metric of one task.

    Attributes
    ----------
    task, metric
        The figure that was scored.
    scoring_mode
        Mode of the run.
    plugin, plugin_version, plugin_hash
        The plugin of the task's binding, if there is one.
    rubric, rubric_version, rubric_hash
        The rubric of the judgments.
    profile, profile_version
        The profile that set the rules, if one did.
    judges
        The judges, with their settings and counts.
    samples, vote, ties, min_self_agreement, aggregation, quorum, pass_prob_at, report_disagreement
        Samples per judge and the rules from samples to a score.
    criteria_per_call
        How many criteria one reply judged, or ``all``; None: each criterion had a reply of its own.
    arguments
        Further arguments of the metric that decide what judges see or how replies count, if they are not the default:
        ``fields``, ``on_unparsed``, ``score_pattern``.
    origins
        Field -> source of its value: ``judge``, ``binding``, ``config``, ``profile``, ``task``, ``rubric``,
        ``default``.
    n_items, n_scored, n_empty
        Answers, those with a score, and those that were empty and not judged.
    n_judgments, n_unscored, n_live, n_cached
        Judgments requested, those without a score, live replies, and replies from the cache.
    cost_usd
        Cost of the live replies; None if a price is unknown, also that of a reply from the cache.
    evalkit_version
        The version of evalkit that wrote the receipt.
    """

    task: str
    metric: str
    scoring_mode: ScoringMode
    plugin: str | None = None
    plugin_version: str | None = None
    plugin_hash: str | None = None
    rubric: str
    rubric_version: str
    rubric_hash: str
    profile: str | None = None
    profile_version: str | None = None
    judges: list[JudgeUsed] = []
    samples: int | None = None
    criteria_per_call: int | str | None = None
    vote: str | None = None
    ties: str | None = None
    min_self_agreement: float | None = None
    aggregation: str | None = None
    quorum: float | None = None
    pass_prob_at: float | None = None
    report_disagreement: bool = False
    arguments: dict[str, str] = {}
    origins: dict[str, str] = {}
    n_items: int
    n_scored: int
    n_empty: int
    n_judgments: int
    n_unscored: int
    n_live: int
    n_cached: int
    cost_usd: float | None = None
    evalkit_version: str

    @property
    def scored_nothing(self) -> bool:
        """Whether there were answers to judge, and none of them has a score."""
        return self.n_items > self.n_empty and self.n_scored == 0

    @property
    def warnings(self) -> list[str]:
        """Warnings to read before the figures: nothing has a score; judgments that a judge left unscored."""
        where = ", ".join(filter(None, [self.task, self.metric]))
        n_judged = self.n_items - self.n_empty
        nothing = [f"{where}: none of {counted(n_judged, 'answer')} has a score"] if self.scored_nothing else []
        return [*nothing, *(f"{where}: {said}" for judge in self.judges if (said := judge.lost))]


class MetricFacts(_Part):
    """What scores a metric, the plugin whose author says so (`word`), and its direction (None: unknown)."""

    scorer: Scorer
    word: str | None = None
    higher_is_better: bool | None = None


class TaskFacts(_Part):
    """`n` and hashes of a task's documents (`questions`, `golds`, `ids` …), and its metrics, named as their figures."""

    documents: dict[str, int | str] = {}
    metrics: dict[str, MetricFacts] = {}


class RunFacts(_Part):
    """What a process of LightEval evaluated: the model (file or name -> hash or revision) and the tasks."""

    schema_version: Literal[1] = 1
    model: dict[str, str] | None = None
    tasks: dict[str, TaskFacts] = {}


class Progress(_Part):
    """How many of a metric's calls of judges are done."""

    done: int
    total: int


class _ReceiptsFile(_Part):
    schema_version: Literal[1] = 1
    tasks: dict[str, list[Receipt]]


File = TypeVar("File", RunFacts, _ReceiptsFile)


def receipt_place(environ: Mapping[str, str] | None = None) -> Path | None:
    """The file of ``EVALUATOR_RECEIPT_PATH``; None if it is not set."""
    text = (os.environ if environ is None else environ).get(RECEIPT_VARIABLE, "").strip()
    return Path(text) if text else None


def check_receipts(path: Path | None = None) -> None:
    """Create the folder of the receipts, and check before a run starts that they can be written.

    Raises
    ------
    ConfigError
        When the folder cannot be created or written to, or the file exists and is something else.
    """
    if (place := path or receipt_place()) is not None:
        with _held(place):
            if place.exists():
                read_receipts(place)


def write_receipt(receipt: Receipt, path: Path | None = None) -> None:
    """Write a receipt into the file, in place of an earlier one of the same task and metric.

    The file is one JSON object, ``{"schema_version": 1, "tasks": {task: [receipt, …]}}``. It is replaced as a whole, so
    a reader sees either the old or the new content.

    Raises
    ------
    ConfigError
        When the file cannot be written, or is something else.
    """
    if (place := path or receipt_place()) is None:
        return
    with _held(place):
        known = read_receipts(place) if place.exists() else []
        tasks: dict[str, list[Receipt]] = {}
        for one in [*(one for one in known if (one.task, one.metric) != (receipt.task, receipt.metric)), receipt]:
            tasks.setdefault(one.task, []).append(one)
        with whole(place) as out:
            out.write(_ReceiptsFile(tasks=tasks).model_dump_json(indent=1).encode())


def write_facts(facts: RunFacts, path: Path | None = None) -> None:
    """Record next to the receipts what a run evaluates, and what scores it.

    Raises
    ------
    ConfigError
        When the file cannot be written.
    """
    if (place := path or receipt_place()) is None:
        return
    with _held(place), whole(_beside(place, "facts")) as out:
        out.write(facts.model_dump_json(indent=1).encode())


def note_progress(progress: Progress) -> None:
    """Write the newest progress next to the receipts; a run does not stop if that fails."""
    if (place := receipt_place()) is not None:
        with suppress(OSError), whole(_beside(place, "progress")) as out:
            out.write(progress.model_dump_json().encode())


def read_progress(path: str | Path) -> Progress | None:
    """The newest progress next to a file of receipts; None if there is none yet."""
    try:
        return Progress.model_validate_json(_beside(Path(path), "progress").read_bytes())
    except (OSError, ValidationError):
        return None


def read_receipts(path: str | Path) -> list[Receipt]:
    """The receipts of a file, in the order of its tasks.

    Raises
    ------
    ConfigError
        When the file is not a file of receipts, or is truncated.
    """
    tasks = _read(_ReceiptsFile, Path(path), "a receipts file").tasks
    return [receipt for receipts in tasks.values() for receipt in receipts]


def read_facts(path: str | Path) -> RunFacts:
    """The facts next to a file of receipts; without tasks if none are recorded.

    Raises
    ------
    ConfigError
        When the file is something else, or is truncated.
    """
    file = _beside(Path(path), "facts")
    return _read(RunFacts, file, "the facts") if file.is_file() else RunFacts()


def _beside(place: Path, what: str) -> Path:
    return place.with_name(f"{place.stem}.{what}.json")


def _read(kind: type[File], place: Path, what: str) -> File:
    try:
        return kind.model_validate_json(place.read_bytes())
    except (OSError, ValidationError) as problem:
        said = explain(problem, _ReceiptsFile, redact=True) if isinstance(problem, ValidationError) else str(problem)
        raise ConfigError(f"{place}: not {what} of a run: {said}") from None


@contextmanager
def _held(place: Path) -> Iterator[None]:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        lock = place.with_name(f".{place.name}.lock")
        lock.touch()
        with held(lock):
            yield
    except OSError as problem:
        raise ConfigError(
            f"cannot write receipts to {place}: {problem.strerror or problem}; set {RECEIPT_VARIABLE} to another file"
        ) from None
