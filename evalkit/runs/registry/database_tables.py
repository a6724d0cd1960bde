"""The registry's tables. Nothing is overwritten: a new version is a new row."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import JSON, CheckConstraint, DateTime, ForeignKey, Index, MetaData, String, Text, UniqueConstraint
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import TypeDecorator

from evalkit.core.lists_of_choices import PLUGIN_TYPES, RUN_STATUSES, SCORING_MODES

RECEIPT_STATES = ("consumed", "own_config", "not_consumed", "deterministic")
_NAME = 200
_PARTS = "all, delete-orphan"
_now = partial(datetime.now, UTC)


class UtcTime(TypeDecorator[datetime]):
    """A time in UTC. SQLite alone would lose the time zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """To the database, in UTC; a time without a zone is an error."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"time without a time zone: {value}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """From the database, in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """Base of all tables: constraints have the same names on every database."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s", "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s", "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )  # fmt: skip
    type_annotation_map = {dict[str, Any]: JSON, list[Any]: JSON, datetime: UtcTime}  # noqa: RUF012  # SQLAlchemy's way


def _one_of(column: str, allowed: tuple[str, ...]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(name) for name in allowed)})", name=column)


class Versioned:
    """Name and version, which are unique together, and the hash of the content."""

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(_NAME))
    version: Mapped[str] = mapped_column(String(_NAME))
    content_hash: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime] = mapped_column(default=_now)


class OfRun:
    """A part of a run that belongs to one task."""

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"))
    task: Mapped[str] = mapped_column(String(_NAME))


class PluginRow(Versioned, Base):
    """A judge plugin: code with tasks, metrics, profiles and templates."""

    __tablename__ = "plugins"
    __table_args__ = (UniqueConstraint("name", "version"), _one_of("plugin_type", PLUGIN_TYPES))

    plugin_type: Mapped[str] = mapped_column(String(20))
    storage_uri: Mapped[str] = mapped_column(Text)
    requirements: Mapped[list[Any]]


class TemplateRow(Versioned, Base):
    """A judge template: the prompt, and optionally the schema of the reply."""

    __tablename__ = "judge_templates"
    __table_args__ = (UniqueConstraint("name", "version"),)

    prompt_template: Mapped[str] = mapped_column(Text)
    response_schema: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class PackRow(Versioned, Base):
    """A pack: tasks with weights, bound to plugins, profiles and templates."""

    __tablename__ = "packs"
    __table_args__ = (UniqueConstraint("name", "version"),)

    description: Mapped[str] = mapped_column(Text)
    primary_metric: Mapped[str | None] = mapped_column(String(_NAME))
    task_aggregation: Mapped[str] = mapped_column(String(20))
    tasks: Mapped[list[PackTaskRow]] = relationship(order_by="PackTaskRow.position", lazy="selectin")


class PackTaskRow(Base):
    """One task of a pack, with its overrides."""

    __tablename__ = "pack_tasks"
    __table_args__ = (UniqueConstraint("pack_id", "position"), UniqueConstraint("pack_id", "task_spec"))

    id: Mapped[int] = mapped_column(primary_key=True)
    pack_id: Mapped[int] = mapped_column(ForeignKey("packs.id"))
    position: Mapped[int]
    task_spec: Mapped[str] = mapped_column(String(_NAME))
    fewshot: Mapped[int]
    weight: Mapped[float]
    overrides: Mapped[dict[str, Any]]


class RunRow(Base):
    """One run of a pack with a model. `scoring_config` is stored as it was given."""

    __tablename__ = "runs"
    __table_args__ = (
        _one_of("scoring_mode", SCORING_MODES),
        _one_of("status", RUN_STATUSES),
        Index("ix_runs_status_created_at", "status", "created_at"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    pack_id: Mapped[int] = mapped_column(ForeignKey("packs.id"))
    model: Mapped[str] = mapped_column(Text)
    backend: Mapped[str] = mapped_column(String(40))
    scoring_mode: Mapped[str] = mapped_column(String(20))
    scoring_config: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    options: Mapped[dict[str, Any]]
    resolution: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(String(20))
    error: Mapped[str | None] = mapped_column(Text)
    exit_code: Mapped[int | None]
    artifacts: Mapped[dict[str, Any]]
    worker: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    pack: Mapped[PackRow] = relationship(lazy="joined")
    tasks: Mapped[list[RunTaskRow]] = relationship(order_by="RunTaskRow.position", cascade=_PARTS)
    scores: Mapped[list[RunScoreRow]] = relationship(order_by="RunScoreRow.id", cascade=_PARTS)
    receipts: Mapped[list[ReceiptRow]] = relationship(order_by="ReceiptRow.id", cascade=_PARTS)


class RunTaskRow(OfRun, Base):
    """One task of a run: its binding, and whether it has a receipt."""

    __tablename__ = "run_tasks"
    __table_args__ = (UniqueConstraint("run_id", "task"), _one_of("receipt_state", RECEIPT_STATES))

    position: Mapped[int]
    weight: Mapped[float]
    binding: Mapped[dict[str, Any]]
    receipt_state: Mapped[str | None] = mapped_column(String(20))
    n_samples: Mapped[int | None]


class RunScoreRow(OfRun, Base):
    """One figure of one task of a run, with its standard error and coverage if known."""

    __tablename__ = "run_scores"
    __table_args__ = (UniqueConstraint("run_id", "task", "metric"),)

    metric: Mapped[str] = mapped_column(String(_NAME))
    value: Mapped[float | None]
    stderr: Mapped[float | None]
    coverage: Mapped[float | None]


class ReceiptRow(OfRun, Base):
    """The receipts of one task of a run."""

    __tablename__ = "receipts"
    __table_args__ = (UniqueConstraint("run_id", "task"),)

    content: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
