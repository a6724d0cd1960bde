"""Rows of a run in the database, written from what was found and read as a `Run`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from evalkit.core.validation_errors import explain
from evalkit.errors import RegistryError
from evalkit.runs.contract import Receipt
from evalkit.runs.contract.task_bindings import task_name
from evalkit.runs.pack_resolution import Resolution
from evalkit.runs.registry import Pack
from evalkit.runs.registry.database_tables import PackRow, PluginRow, ReceiptRow, RunRow, RunScoreRow, RunTaskRow
from evalkit.runs.run import Run
from evalkit.runs.run_record import RunScore, RunTask

__all__ = ["Ending", "pack_id", "put_findings", "read_run", "task_rows"]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended, and what came of it.

    Attributes
    ----------
    status
        ``succeeded``, ``failed``, ``cancelled``, or ``queued``: given back, for another worker.
    error
        Why, unless it succeeded.
    exit_code
        Of LightEval's process; None where it has none.
    tasks, scores, receipts
        What was read from its output.
    notes
        What is worth knowing of its figures.
    scorers
        Task -> metric -> what scores it.
    """

    status: str
    error: str | None = None
    exit_code: int | None = None
    tasks: tuple[RunTask, ...] = ()
    scores: tuple[RunScore, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    notes: tuple[str, ...] = ()
    scorers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def pack_id(session: Session, pack: Pack) -> int:
    """The key of a pack."""
    return int(
        session.scalars(select(PackRow.id).where(PackRow.name == pack.name, PackRow.version == pack.version)).one()
    )


def task_rows(session: Session, run_id: str, resolution: Resolution) -> list[RunTaskRow]:
    """The tasks of a new run."""
    rows = []
    for position, task in enumerate(resolution.pack.tasks):
        binding = resolution.bindings.root.get(task.task)
        given = {} if binding is None else binding.to_dict()
        plugin = select(PluginRow.id).where(
            PluginRow.name == given.get("plugin"), PluginRow.version == given.get("plugin_version")
        )
        rows.append(
            RunTaskRow(
                run_id=run_id,
                position=position,
                task=task.spec,
                weight=task.weight,
                plugin_id=session.scalars(plugin).first(),
                binding={**given, "overrides": dict(task.overrides)} if task.overrides else {},
            )
        )
    return rows


def put_findings(session: Session, run_id: str, ending: Ending, now: datetime) -> None:
    """Write what was read of a run; rows of the same task and metric are replaced."""
    run = session.get_one(RunRow, run_id)
    run.artifacts = {**run.artifacts, "scorers": {task: dict(found) for task, found in ending.scorers.items()}}
    tasks = {row.task: row for row in session.scalars(select(RunTaskRow).where(RunTaskRow.run_id == run_id))}
    for one in ending.tasks:
        tasks[one.task].receipt_state, tasks[one.task].n_samples = one.receipt_state, one.n_samples
    scores = {
        (row.task, row.metric): row for row in session.scalars(select(RunScoreRow).where(RunScoreRow.run_id == run_id))
    }
    for score in ending.scores:
        row = scores.get((score.task, score.metric))
        if row is None:
            row = RunScoreRow(run_id=run_id, task=score.task, metric=score.metric)
            session.add(row)
        row.value, row.stderr, row.coverage = score.value, score.stderr, score.coverage
    receipts: dict[str, list[dict[str, Any]]] = {}
    for receipt in ending.receipts:
        receipts.setdefault(receipt.task, []).append(receipt.model_dump(mode="json"))
    known = {row.task: row for row in session.scalars(select(ReceiptRow).where(ReceiptRow.run_id == run_id))}
    for task, contents in receipts.items():
        if task in known:
            known[task].content = {"receipts": contents}
        else:
            session.add(ReceiptRow(run_id=run_id, task=task, content={"receipts": contents}, created_at=now))


def read_run(session: Session, row: RunRow) -> Run:
    """A run with all that belongs to it."""
    tasks = session.scalars(select(RunTaskRow).where(RunTaskRow.run_id == row.id).order_by(RunTaskRow.position)).all()
    scores = session.scalars(select(RunScoreRow).where(RunScoreRow.run_id == row.id).order_by(RunScoreRow.id)).all()
    receipts = session.scalars(select(ReceiptRow).where(ReceiptRow.run_id == row.id).order_by(ReceiptRow.id)).all()
    return Run(
        id=row.id,
        pack=f"{row.pack.name}@{row.pack.version}",
        model=row.model,
        backend=row.backend,
        scoring_mode=row.scoring_mode,
        scoring_config=row.scoring_config,
        options=row.options,
        resolution=row.resolution,
        status=row.status,
        error=row.error,
        exit_code=row.exit_code,
        artifacts=row.artifacts,
        tasks=tuple(RunTask(one.task, one.weight, one.binding, one.receipt_state, one.n_samples) for one in tasks),
        scores=tuple(RunScore(one.task, one.metric, one.value, one.stderr, one.coverage) for one in scores),
        receipts=_receipts(row.id, sorted(receipts, key=lambda one: _position(one.task, tasks))),
        rerun_of=row.rerun_of,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        primary_metric=row.pack.primary_metric,
        task_aggregation=row.pack.task_aggregation,
    )


def _position(task: str, tasks: Sequence[RunTaskRow]) -> int:
    """Of the task in the pack; last where it is part of a group of tasks."""
    return next((one.position for one in tasks if task_name(one.task) == task_name(task)), len(tasks))


def _receipts(run_id: str, rows: Sequence[ReceiptRow]) -> tuple[Receipt, ...]:
    contents: Iterable[Any] = (one for row in rows for one in row.content["receipts"])
    try:
        return tuple(Receipt.model_validate(one) for one in contents)
    except ValidationError as problem:
        raise RegistryError(
            f"run {run_id}: invalid receipts ({explain(problem, Receipt)}); use the evalkit version that wrote them"
        ) from None
