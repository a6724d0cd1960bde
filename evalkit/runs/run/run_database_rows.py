"""Rows of a run in the database: written from its results, and read as a `Run`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from evalkit.core.validation_errors import explain
from evalkit.errors import RegistryError
from evalkit.runs.contract.receipts import Receipt, RunFacts
from evalkit.runs.registry.database_tables import Base, PluginRow, ReceiptRow, RunRow, RunScoreRow, RunTaskRow
from evalkit.runs.run.pack_resolution import Resolution
from evalkit.runs.run.run_record import Run, RunScore, RunTask

Record = TypeVar("Record", Run, RunTask, RunScore)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended (``succeeded``, ``failed`` or ``cancelled``), why, its results, and notes about its figures."""

    status: str
    error: str | None = None
    exit_code: int | None = None
    tasks: tuple[RunTask, ...] = ()
    scores: tuple[RunScore, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    notes: tuple[str, ...] = ()
    facts: RunFacts = field(default_factory=RunFacts)


def task_rows(session: Session, resolution: Resolution) -> Iterator[RunTaskRow]:
    """The tasks of a new run."""
    plugins = {(row.name, row.version): row.id for row in session.scalars(select(PluginRow))}
    for position, task in enumerate(resolution.pack.tasks):
        binding = resolution.bindings.of_task(task.task)
        yield RunTaskRow(
            position=position, task=task.spec, weight=task.weight,
            plugin_id=plugins.get((binding.plugin or "", binding.plugin_version or "")),
            binding={**binding.to_dict(), "overrides": task.overrides.values} if task.overrides else {},
        )  # fmt: skip


def put_findings(session: Session, run_id: str, ending: Ending, now: datetime) -> None:
    """Write the results of a run, in place of results that were read before."""
    run = session.get_one(RunRow, run_id)
    run.artifacts = {**run.artifacts, "facts": ending.facts.model_dump(mode="json")}
    rows = {row.task: row for row in run.tasks}
    for task in ending.tasks:
        rows[task.task].receipt_state, rows[task.task].n_samples = task.receipt_state, task.n_samples
    run.scores, run.receipts = [], []
    session.flush()  # else rows are inserted before those of the same task are deleted
    run.scores = [RunScoreRow(**asdict(score)) for score in ending.scores]
    receipts: dict[str, list[dict[str, Any]]] = {}
    for receipt in ending.receipts:
        receipts.setdefault(receipt.task, []).append(receipt.model_dump(mode="json"))
    run.receipts = [ReceiptRow(task=task, content={"receipts": own}, created_at=now) for task, own in receipts.items()]


def read_run(row: RunRow) -> Run:
    """A run with its tasks, scores and receipts."""
    return _read(
        Run, row, pack=f"{row.pack.name}@{row.pack.version}", tasks=tuple(_read(RunTask, task) for task in row.tasks),
        scores=tuple(_read(RunScore, score) for score in row.scores), receipts=_receipts(row),
        primary_metric=row.pack.primary_metric, task_aggregation=row.pack.task_aggregation,
    )  # fmt: skip


def _read(kind: type[Record], row: Base, **others: Any) -> Record:
    """A record with the columns of a row as fields, except for `others`."""
    values = {field.name: getattr(row, field.name) for field in fields(kind) if field.name not in others}
    return kind(**values, **others)


def _receipts(row: RunRow) -> tuple[Receipt, ...]:
    try:
        return tuple(Receipt.model_validate(one) for receipts in row.receipts for one in receipts.content["receipts"])
    except ValidationError as problem:
        said = f"the records of how it was scored ({explain(problem, Receipt)})"
        raise RegistryError(
            f"run {row.id}: invalid receipts, {said}; use the evalkit version that wrote them"
        ) from None
