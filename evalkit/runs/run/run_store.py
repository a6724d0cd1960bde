"""`RunStore`: the rows of runs. Every change of state is one transaction; the end of a run is written with retries."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import func, select
from sqlalchemy.exc import InterfaceError, InternalError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from evalkit.core.printable_text import one_line
from evalkit.core.validation_errors import validated
from evalkit.errors import RegistryError, listed
from evalkit.runs.contract.receipts import Receipt, RunFacts
from evalkit.runs.processes.run_owner import Owner
from evalkit.runs.registry import Registry
from evalkit.runs.registry.database_tables import Base, PackRow, ReceiptRow, RunRow, RunScoreRow, RunTaskRow
from evalkit.runs.run.binding_tasks import Resolution
from evalkit.runs.run.run_record import OTHER_VERSION, Run, RunScore, RunTask

_LONGEST_PAUSE_S = 5.0


class RunStore:
    """Runs in a registry's database."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def create(self, resolution: Resolution, folder: Path, artifacts: Mapping[str, Any], **values: Any) -> str:
        """Write the row of a new run, which this process carries out; its id.

        `folder` is for the folders of runs; `values` are the columns `model`, `backend`, `scoring_config`, `options`.
        """
        pack = resolution.pack
        with self.registry.database.session() as session:
            now = _now(session)
            run_id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
            pack_id = session.scalars(select(PackRow.id).filter_by(name=pack.name, version=pack.version)).one()
            session.add(RunRow(
                id=run_id, pack_id=pack_id, scoring_mode=resolution.scoring.mode, resolution=resolution.to_dict(),
                status="running", worker=Owner.here().text, artifacts={**artifacts, "folder": str(folder / run_id)},
                created_at=now, started_at=now, tasks=list(task_rows(resolution)), **values,
            ))  # fmt: skip
        return run_id

    def running(self) -> dict[str, Owner]:
        """Id of each running run -> the process that carries it out."""
        with self.registry.database.session() as session:
            rows = session.execute(select(RunRow.id, RunRow.worker).where(RunRow.status == "running")).all()
        return {run_id: Owner.of(text) for run_id, text in rows if text}

    def close(self, run_id: str, ending: Ending) -> bool:
        """Write how a run ended; False, without a change, if it is closed."""
        with self.registry.database.session() as session:
            # locked, but for SQLite, which has one writer at a time
            mine = select(RunRow).where(RunRow.id == run_id, RunRow.status == "running").with_for_update(of=RunRow)
            if (row := session.scalars(mine).first()) is None:
                return False
            now = _now(session)
            row.status, row.error, row.exit_code = ending.status, ending.error, ending.exit_code
            row.worker, row.finished_at = None, now
            if ending.notes:
                row.artifacts = {**row.artifacts, "notes": [*ending.notes, *row.artifacts.get("notes", [])]}
            put_findings(session, run_id, ending, now)
        return True

    def run(self, name: str) -> Run:
        """A run by its id, the beginning of one, or ``last``.

        Raises
        ------
        RegistryError
            When there is none, or several start with `name`.
        """
        with self.registry.database.session() as session:
            return read_run(session.get_one(RunRow, _id_of(session, name)))

    def runs(self, pack: str | None = None, status: str | None = None) -> list[Run]:
        """Runs, oldest first; optionally only those of a pack (``name`` or ``name@version``) or with a status."""
        query = select(RunRow).join(RunRow.pack).order_by(RunRow.created_at, RunRow.id)
        if pack is not None:
            name, _, version = pack.partition("@")
            query = query.where(PackRow.name == name, *([PackRow.version == version] if version else []))
        if status is not None:
            query = query.where(RunRow.status == status)
        with self.registry.database.session() as session:
            return [read_run(row) for row in session.scalars(query).all()]


def close_run(store: RunStore, run_id: str, ending: Ending, patience_s: float) -> None:
    """Close a run's row; as failed if the database rejects the results.

    Raises
    ------
    RegistryError
        When the database is unreachable or full for `patience_s` seconds.
    """
    deadline, pause = time.monotonic() + patience_s, 0.1
    while True:
        try:
            store.close(run_id, ending)
        except RegistryError as problem:
            if _is_refused(problem):
                ending = Ending("failed", one_line(f"its results cannot be stored: {problem}"))
            elif time.monotonic() + pause >= deadline:
                raise RegistryError(
                    f"run {run_id} has ended ({ending.status}), but the registry cannot store this: {problem}; start "
                    "the run again with --reuse-answers, which calls neither model nor judges for what is stored"
                ) from problem
            else:
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            continue
        return


def _is_refused(problem: RegistryError) -> bool:
    """Whether a retry cannot help: a name that is too long, characters that the database does not accept."""
    cause, passing = problem.__cause__, (OperationalError, InterfaceError, InternalError)
    return isinstance(cause, (SQLAlchemyError, UnicodeError)) and not isinstance(cause, passing)


def _now(session: Session) -> datetime:
    """The time of the database, if machines share it: their clocks may differ."""
    if session.get_bind().dialect.name == "sqlite":
        return datetime.now(UTC)
    moment: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    return moment.astimezone(UTC)


def _id_of(session: Session, name: str) -> str:
    if name == "last":
        found = session.scalars(select(RunRow.id).order_by(RunRow.created_at.desc(), RunRow.id.desc()).limit(1)).first()
        if found is None:
            raise RegistryError("there are no runs yet; start one with 'evalkit run start PACK --model MODEL'")
        return found
    query = select(RunRow.id).where(RunRow.id.startswith(name, autoescape=True)).order_by(RunRow.id)
    ids = session.scalars(query).all()
    if name in ids or len(ids) == 1:
        return name if name in ids else ids[0]
    if ids:
        raise RegistryError(
            f"the ids of {len(ids)} runs start with {name!r}: {listed(ids, most=4)}; pass more of the id"
        )
    raise RegistryError(f"run {name!r} not found; 'evalkit run list' lists all runs")


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


def task_rows(resolution: Resolution) -> Iterator[RunTaskRow]:
    """The tasks of a new run."""
    for position, task in enumerate(resolution.pack.tasks):
        binding = resolution.bindings.of_task(task.task)
        yield RunTaskRow(
            position=position, task=task.spec, weight=task.weight,
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
    where, advice = f"run {row.id}: invalid receipts, the records of how it was scored", OTHER_VERSION
    contents = (content for receipts in row.receipts for content in receipts.content["receipts"])
    return tuple(validated(Receipt, content, where, RegistryError, advice=advice) for content in contents)
