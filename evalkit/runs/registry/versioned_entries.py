"""Adds, finds and lists rows by name and version."""

from __future__ import annotations

from typing import Any

import pandas as pd
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from evalkit.errors import ConfigError, RegistryError, listed
from evalkit.runs.registry.database import Database
from evalkit.runs.registry.database_tables import PackRow, PackTaskRow, TemplateRow
from evalkit.runs.registry.pack_files import PackFile
from evalkit.runs.registry.records import EntryError


def add_row(database: Database, row: Any, same: tuple[str, ...] = ()) -> Any:
    """Add a row, or return the existing row with its name and version, content hash and values of the fields `same`.

    Raises
    ------
    ConfigError
        When name and version already exist with other content.
    """
    kind = type(row)
    try:
        with database.session() as session:
            session.add(row)
            session.flush()
            session.refresh(row)
            return row
    except RegistryError as problem:
        if not isinstance(problem.__cause__, IntegrityError):
            raise
    existing = find_row(database, kind, kind.__tablename__, row.name, row.version)
    if differs := [name for name in ("content_hash", *same) if getattr(existing, name) != getattr(row, name)]:
        fact = f"already exists in {kind.__tablename__} with another {', '.join(differs)}"
        advice = "versions are never overwritten, so use a new version"
        raise ConfigError(f"{row.name}@{row.version} {fact}; {advice}")
    return existing


def pack_row(file: PackFile) -> PackRow:
    """The row of a pack, and those of its tasks."""
    tasks = [
        PackTaskRow(
            position=position, task_spec=entry.task, fewshot=entry.fewshot, weight=entry.weight,
            overrides=entry.overrides.values,
        )
        for position, entry in enumerate(file.tasks)
    ]  # fmt: skip
    return PackRow(**file.model_dump(exclude={"tasks"}), tasks=tasks, content_hash=file.hash)


def find_row(database: Database, kind: Any, what: str, label: str, version: str | None = None) -> Any:
    """The row of ``name@version``, or of name and version; without a version of templates the highest, else the newest.

    Raises
    ------
    EntryError
        When there is none; the message lists the versions or names that there are. `what` is the name of a row in it.
    """
    name, separator, labelled = label.partition("@")
    version = labelled if separator else version
    with database.session() as session:
        rows = {row.version: row for row in session.scalars(select(kind).filter_by(name=name).order_by(kind.id))}
        names = sorted(set(session.scalars(select(kind.name))))
    if not rows:
        raise EntryError(f"{what} {name!r} not found; available: {listed(names)}")
    if version is None and kind is TemplateRow:
        return max(rows.values(), key=lambda row: int(row.version.removeprefix("v")))
    version = next(reversed(rows)) if version is None else version
    if version not in rows:
        raise EntryError(f"{what} {name}@{version} not found; available versions: {', '.join(rows)}")
    return rows[version]


def list_rows(database: Database, kind: Any, columns: tuple[str, ...]) -> pd.DataFrame:
    """All rows of a kind, oldest first."""
    with database.session() as session:
        found = session.scalars(select(kind).order_by(kind.id)).all()
        rows = [{column: getattr(row, column) for column in columns} for row in found]
    return pd.DataFrame(rows, columns=list(columns))
