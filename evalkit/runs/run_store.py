"""`RunStore`: the rows of runs. Every change of state is one transaction, which only the owner can make."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from evalkit.errors import RegistryError, listed
from evalkit.runs.pack_resolution import Resolution
from evalkit.runs.registry import Registry
from evalkit.runs.registry.database_tables import PackRow, RunRow
from evalkit.runs.run_database_rows import Ending, put_findings, read_run, task_rows
from evalkit.runs.run_owner import Owner
from evalkit.runs.run_record import Run

STALE_S = 60.0
"""Seconds without a heartbeat after which a run's owner on another machine counts as dead."""

_STALE_HERE = 10  # factor for an owner whose process is visible and alive: it may be suspended
_MOST_ATTEMPTS = 2
_WAITED = "queued"


class RunStore:
    """Runs in a registry's database.

    Parameters
    ----------
    registry
        The registry.
    stale_s
        Seconds without a heartbeat after which an owner on another machine counts as dead.
    """

    def __init__(self, registry: Registry, *, stale_s: float = STALE_S) -> None:
        self.registry = registry
        self.stale_s = stale_s

    def create(self, resolution: Resolution, owner: Owner | None, artifacts: Mapping[str, Any], **values: Any) -> str:
        """Write the row of a new run, queued or (with an owner) running; its id.

        Parameters
        ----------
        resolution
            Its pack, mode and bindings.
        owner
            The process that carries it out; None queues it.
        artifacts
            Its first artifacts.
        **values
            Other columns: `model`, `backend`, `scoring_config` as given, `options`, `rerun_of`.
        """
        pack = resolution.pack
        with self.registry.database.session() as session:
            now = _now(session)
            row = RunRow(
                id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
                pack_id=session.scalars(select(PackRow.id).filter_by(name=pack.name, version=pack.version)).one(),
                scoring_mode=resolution.scoring.mode,
                resolution=resolution.to_dict(),
                status=_WAITED,
                artifacts={**artifacts, "queued": owner is None, "attempts": []},
                cancel_wanted=False,
                created_at=now,
                tasks=list(task_rows(session, resolution)),
                **values,
            )
            session.add(row)
            if owner is not None:
                _take(row, owner, now)
        return row.id

    def claim(self, owner: Owner) -> str | None:
        """Take the oldest queued run; None if there is none. No two callers get the same one."""
        with self.registry.database.session() as session:
            query = select(RunRow).where(RunRow.status == _WAITED).order_by(RunRow.created_at, RunRow.id).limit(1)
            if not self.registry.database.is_sqlite:
                # SQLite's transactions are IMMEDIATE, so there is only one writer at a time
                query = query.with_for_update(skip_locked=True, of=RunRow)
            row = session.scalars(query).first()
            if row is None:
                return None
            _take(row, owner, _now(session))
            return row.id

    def beat(self, run_id: str, owner: Owner) -> Literal["going", "cancel", "lost"]:
        """Record that the owner is alive; ``going``, ``cancel`` if requested, ``lost`` if the run has another owner."""
        with self.registry.database.session() as session:
            row = session.scalars(_owned(run_id, owner)).first()
            if row is None:
                return "lost"
            row.heartbeat_at = _now(session)
            return "cancel" if row.cancel_wanted else "going"

    def close(self, run_id: str, owner: Owner, ending: Ending) -> bool:
        """Write how a run ended; False, without a change, if it has another owner or is closed."""
        with self.registry.database.session() as session:
            row = session.scalars(_owned(run_id, owner)).first()
            if row is None:
                return False
            now = _now(session)
            _end_attempt(row, now, ending.error or ending.status)
            row.status, row.error, row.exit_code = ending.status, ending.error, ending.exit_code
            if ending.status == _WAITED:
                row.started_at = None
                return True
            row.finished_at = now
            if ending.notes:
                row.artifacts = {**row.artifacts, "notes": [*ending.notes, *row.artifacts.get("notes", [])]}
            put_findings(session, run_id, ending, now)
        return True

    def put_findings(self, run_id: str, ending: Ending) -> None:
        """Write the results of a run that has ended, in place of its earlier results."""
        with self.registry.database.session() as session:
            put_findings(session, run_id, ending, _now(session))

    def note(self, run_id: str, owner: Owner, **facts: Any) -> bool:
        """Add facts to a run's artifacts; False if it has another owner."""
        with self.registry.database.session() as session:
            row = session.scalars(_owned(run_id, owner)).first()
            if row is not None:
                row.artifacts = {**row.artifacts, **facts}
            return row is not None

    def cancel(self, run_id: str) -> None:
        """Cancel a queued run, or request the end of a running one from its owner."""
        with self.registry.database.session() as session:
            row = session.scalars(select(RunRow).where(RunRow.id == run_id).with_for_update(of=RunRow)).one()
            if row.status == _WAITED:
                row.status, row.error, row.finished_at = "cancelled", "cancelled before it started", _now(session)
            elif row.status == "running":
                row.cancel_wanted = True

    def stale(self) -> list[tuple[str, Owner]]:
        """Running runs whose owner is dead."""
        with self.registry.database.session() as session:
            now = _now(session)
            rows = session.execute(
                select(RunRow.id, RunRow.worker, RunRow.heartbeat_at).where(RunRow.status == "running")
            ).all()
        owners = [(run_id, Owner.of(text or ""), now - (beat or now)) for run_id, text, beat in rows]
        return [(run_id, owner) for run_id, owner, age in owners if self._is_stale(owner, age)]

    def _is_stale(self, owner: Owner, age: timedelta) -> bool:
        if owner.is_gone():
            return True
        return age.total_seconds() > self.stale_s * (_STALE_HERE if owner.is_near() else 1)

    def give_up(self, run_id: str, owner: Owner) -> str | None:
        """Close a stale run, or queue it again if a worker had it; its new status, None if it has another owner."""
        with self.registry.database.session() as session:
            row = session.scalars(_owned(run_id, owner)).first()
            if row is None:
                return None
            now = _now(session)
            reason = f"its process {owner.pid} on {owner.host} ended without closing it"
            _end_attempt(row, now, reason)
            n_dead = sum("without closing" in str(one.get("ended")) for one in row.artifacts["attempts"])
            if row.artifacts.get("queued") and n_dead < _MOST_ATTEMPTS and not row.cancel_wanted:
                row.status, row.started_at = _WAITED, None
            else:
                row.status = "cancelled" if row.cancel_wanted else "failed"
                row.error = reason if n_dead < _MOST_ATTEMPTS else f"{reason}; it failed on two workers"
                row.finished_at = now
            return str(row.status)

    def run(self, name: str) -> Run:
        """A run by its id, the beginning of one, or ``last``.

        Raises
        ------
        RegistryError
            When there is none, or several start with `name`.
        """
        with self.registry.database.session() as session:
            run_id = _id_of(session, name)
            return read_run(session.get_one(RunRow, run_id))

    def runs(self, pack: str | None = None, status: str | None = None) -> list[Run]:
        """Runs, oldest first; optionally only those of a pack (``name`` or ``name@version``) or with a status."""
        query = select(RunRow).join(RunRow.pack).order_by(RunRow.created_at, RunRow.id)
        if pack is not None:
            name, _, version = pack.partition("@")
            query = query.where(PackRow.name == name)
            if version:
                query = query.where(PackRow.version == version)
        if status is not None:
            query = query.where(RunRow.status == status)
        with self.registry.database.session() as session:
            return [read_run(row) for row in session.scalars(query).all()]


def _now(session: Session) -> datetime:
    """The time of the database, if machines share it: their clocks may differ."""
    if session.get_bind().dialect.name == "sqlite":
        return datetime.now(UTC)
    moment: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    return moment.astimezone(UTC)


def _owned(run_id: str, owner: Owner) -> Any:
    """The row if it is still this owner's, locked (SQLite has no such lock and needs none)."""
    mine = (RunRow.id == run_id, RunRow.status == "running", RunRow.worker == owner.text)
    return select(RunRow).where(*mine).with_for_update(of=RunRow)


def _take(row: RunRow, owner: Owner, now: datetime) -> None:
    row.status, row.worker = "running", owner.text
    row.started_at = row.heartbeat_at = now
    attempt = {"by": f"{owner.host}:{owner.pid}", "started": now.isoformat(timespec="seconds"), "ended": None}
    row.artifacts = {**row.artifacts, "attempts": [*row.artifacts["attempts"], attempt]}


def _end_attempt(row: RunRow, now: datetime, said: str) -> None:
    row.worker = row.heartbeat_at = None
    *before, last = row.artifacts["attempts"]
    last = {**last, "ended": f"{now.isoformat(timespec='seconds')} {said}"}
    row.artifacts = {**row.artifacts, "attempts": [*before, last]}


def _id_of(session: Session, name: str) -> str:
    if name == "last":
        found = session.scalars(select(RunRow.id).order_by(RunRow.created_at.desc(), RunRow.id.desc()).limit(1)).first()
        if found is None:
            raise RegistryError("there are no runs yet; start one with 'evalkit run start PACK --model MODEL'")
        return found
    ids = session.scalars(
        select(RunRow.id).where(RunRow.id.startswith(name, autoescape=True)).order_by(RunRow.id)
    ).all()
    if name in ids or len(ids) == 1:
        return name if name in ids else ids[0]
    if ids:
        raise RegistryError(
            f"the ids of {len(ids)} runs start with {name!r}: {listed(ids, most=4)}; pass more of the id"
        )
    raise RegistryError(f"run {name!r} not found; 'evalkit run list' lists all runs")
