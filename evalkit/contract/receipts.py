"""Receipts: what a judge plugin says that it used for a task."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from evalkit.contract.configs import Mode, faults
from evalkit.errors import ConfigError
from evalkit.writing import held, whole

__all__ = [
    "RECEIPT_VARIABLE",
    "JudgeUsed",
    "Receipt",
    "check_receipts",
    "read_receipts",
    "read_unjudged",
    "receipt_place",
    "write_receipt",
    "write_unjudged",
]

RECEIPT_VARIABLE = "EVALUATOR_RECEIPT_PATH"
_SCHEMA = 1
_lock = threading.Lock()


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class JudgeUsed(_Part):
    """One judge as it was asked; never a key.

    Attributes
    ----------
    name, provider, service, model
        Who.
    weight, temperature, max_tokens, params
        With what.
    template, template_hash
        By which prompt: ``name@version`` and sha256 of its source.
    """

    name: str
    provider: str
    service: str
    model: str
    weight: float
    temperature: float | None
    max_tokens: int | None
    params: dict[str, Any] = {}
    template: str
    template_hash: str


class Receipt(_Part):
    """What scored one metric of one task.

    Attributes
    ----------
    task, metric
        Of which figure.
    scoring_mode
        Mode of the run.
    plugin, plugin_version, plugin_hash
        Where a binding names one.
    rubric, rubric_version, rubric_hash
        By what it was judged.
    profile, profile_version
        The profile that set the rules, if one did.
    judges
        By whom.
    samples, vote, ties, min_self_agreement, aggregation, quorum, report_disagreement
        Samples a judge and the rules from samples to a score.
    origins
        Field -> where its value came from: ``judge``, ``binding``, ``config``, ``profile``, ``task``, ``rubric``,
        ``default``.
    n_items, n_scored, n_empty
        Answers, those with a score, and those that were empty and not judged.
    n_judgments, n_unscored, n_live, n_cached
        Judgments wanted, those without a score, replies asked now and those from the cache.
    cost_usd
        Paid now; None if a price is unknown.
    evalkit_version
        Who wrote it.
    """

    task: str
    metric: str
    scoring_mode: Mode
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
    vote: str | None = None
    ties: str | None = None
    min_self_agreement: float | None = None
    aggregation: str | None = None
    quorum: float | None = None
    report_disagreement: bool = False
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
    def identity(self) -> dict[str, Any]:
        """What must be the same for two runs to be comparable: all but counts and costs."""
        counts = ("n_items", "n_scored", "n_empty", "n_judgments", "n_unscored", "n_live", "n_cached")
        return self.model_dump(mode="json", exclude={*counts, "cost_usd", "evalkit_version", "origins"})


def receipt_place(environ: Mapping[str, str] | None = None) -> Path | None:
    """The file of ``EVALUATOR_RECEIPT_PATH``; None where it is not set."""
    text = (os.environ if environ is None else environ).get(RECEIPT_VARIABLE, "").strip()
    return Path(text) if text else None


def check_receipts(path: Path | None = None) -> None:
    """Make the folder of the receipts, and say before a run starts if none could be written there.

    Raises
    ------
    ConfigError
        When the folder cannot be made or written to, or something else stands in the file's place.
    """
    if (place := path or receipt_place()) is not None:
        with _held(place):
            _content_of(place)


def write_receipt(receipt: Receipt, path: Path | None = None) -> None:
    """Put a receipt into the file, in place of an earlier one of the same task and metric.

    The file is one JSON object, ``{"schema_version": 1, "tasks": {task: [receipt, …]}, "unjudged": [task, …]}``,
    replaced as a whole, so that a reader finds the old one or the new one.

    Raises
    ------
    ConfigError
        When the file cannot be written, or holds something else.
    """
    place = path or receipt_place()
    if place is None:
        return
    with _changed(place) as content:
        kept = [old for old in content.receipts if (old.task, old.metric) != (receipt.task, receipt.metric)]
        content.receipts = [*kept, receipt]


def write_unjudged(tasks: Iterable[str], path: Path | None = None) -> None:
    """Note tasks that no judge is asked about in any mode, so that nobody waits for a receipt of theirs."""
    place = path or receipt_place()
    names = list(tasks)
    if place is None or not names:
        return
    with _changed(place) as content:
        content.unjudged = list(dict.fromkeys([*content.unjudged, *names]))


def read_receipts(path: str | Path) -> list[Receipt]:
    """The receipts of a file, in the order of its tasks.

    Raises
    ------
    ConfigError
        When the file is none of receipts, or is cut short.
    """
    return _read(Path(path)).receipts


def read_unjudged(path: str | Path) -> list[str]:
    """The tasks that a file notes as never judged; ConfigError as `read_receipts`."""
    return _read(Path(path)).unjudged


@dataclass(slots=True)
class _Content:
    receipts: list[Receipt]
    unjudged: list[str]

    def to_json(self) -> str:
        tasks: dict[str, list[Any]] = {}
        for one in self.receipts:
            tasks.setdefault(one.task, []).append(one.model_dump(mode="json"))
        values = {"schema_version": _SCHEMA, "tasks": tasks, "unjudged": self.unjudged}
        return json.dumps(values, ensure_ascii=False, indent=1)


def _read(path: Path) -> _Content:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        found = [Receipt.model_validate(one) for part in values["tasks"].values() for one in part]
        unjudged = [str(name) for name in values.get("unjudged", [])]
    except ValidationError as problem:
        raise ConfigError(f"{path}: {faults(problem, Receipt, {'judges': JudgeUsed})}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ConfigError(f"{path} holds no receipts: {problem}") from None
    if values.get("schema_version") != _SCHEMA:
        raise ConfigError(f"{path}: schema_version {values.get('schema_version')!r} is not known; {_SCHEMA} is")
    return _Content(found, unjudged)


@contextmanager
def _changed(place: Path) -> Iterator[_Content]:
    with _held(place):
        content = _content_of(place)
        yield content
        with whole(place) as out:
            out.write(content.to_json().encode())


def _content_of(place: Path) -> _Content:
    return _read(place) if place.exists() else _Content([], [])


@contextmanager
def _held(place: Path) -> Iterator[None]:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        lock = place.with_name(f".{place.name}.lock")
        lock.touch()
        with _lock, held(lock):
            yield
    except OSError as problem:
        raise ConfigError(
            f"receipts cannot be written to {place}: {problem.strerror or problem}; name another file by "
            f"{RECEIPT_VARIABLE}"
        ) from None


def _start_afresh_in_child() -> None:
    global _lock
    _lock = threading.Lock()  # another thread of the parent may hold its own for ever


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh_in_child)
