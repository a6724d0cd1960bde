"""Replies as JSONL: equal replies give equal bytes; each line that is read is checked."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evalkit.core.files import BOM
from evalkit.core.lists_of_choices import Order, ReplySource
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import KeyParts, canonical_json
from evalkit.core.validation_errors import explain
from evalkit.engine.cache.database_protocol import REPLIES, Connection, Database
from evalkit.engine.cache.lookups import Chosen, call_parts
from evalkit.engine.cache.sqlite_schema import place
from evalkit.engine.cache.writer import Row, row_of
from evalkit.errors import CacheError, counted

_LINES = (
    'SELECT key, generation, call_id, input_hash, "order", sample, promoted_from, value '
    "FROM replies WHERE {} ORDER BY key, generation"
)
_STAGE = (
    "CREATE TEMP TABLE staged (line INTEGER, key BYTEA, generation INTEGER, parts TEXT, input_hash BYTEA, "
    '"order" TEXT, sample INTEGER, content_key BYTEA, created DOUBLE PRECISION, source TEXT, '
    "cost_usd DOUBLE PRECISION, promoted_from BYTEA, value BYTEA)"
)
_STAGED = ("line", *("parts" if name == "call_id" else name for name in REPLIES))
_TWICE = "SELECT max(line) FROM staged GROUP BY key, generation HAVING count(*) > 1 ORDER BY 1 LIMIT 1"
_CALLS = "INSERT INTO calls (parts) SELECT DISTINCT parts FROM staged WHERE true ORDER BY parts ON CONFLICT DO NOTHING"
_COUNT_CONFLICTS = "SELECT count(*) FROM staged WHERE key IN (SELECT key FROM conflicts)"
_ROWS_AT_ONCE = 1000
_CONFLICTS = (
    "CREATE TEMP TABLE conflicts AS SELECT DISTINCT key FROM staged s JOIN replies r USING (key, generation) "
    "WHERE s.value IS DISTINCT FROM r.value OR s.promoted_from IS DISTINCT FROM r.promoted_from"
)
_TAKE_OVER = (
    'INSERT INTO replies (key, generation, call_id, input_hash, "order", sample, content_key, created, source, '
    "cost_usd, promoted_from, value) "
    'SELECT s.key, s.generation, c.call_id, s.input_hash, s."order", s.sample, s.content_key, s.created, s.source, '
    "s.cost_usd, s.promoted_from, s.value FROM staged s JOIN calls c ON c.parts = s.parts "
    "WHERE s.key NOT IN (SELECT key FROM conflicts) "
    "AND NOT EXISTS (SELECT 1 FROM replies r WHERE r.key = s.key AND r.generation = s.generation)"
)

_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Count = Annotated[int, Field(ge=0, lt=2**31)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Checked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Parts(_Checked):
    provider: str
    service: str
    model: str
    rubric: str
    rubric_version: str
    rubric_hash: str
    template_hash: str
    temperature: float | None
    max_tokens: int | None
    params: dict[str, Any]
    input_hash: _Sha256
    order: Order | None
    sample: _Count
    schema_number: Literal[1] = Field(alias="schema")


class _Reply(_Checked):
    text: str | None
    finish_reason: str | None = None
    refusal: str | None = None
    model: str | None = None
    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None
    cost_usd: _Amount | None = None
    latency_s: _Amount | None = None
    created: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    source: ReplySource = "live"
    sent: dict[str, Any] | None = None
    logprobs: dict[str, Any] | None = None
    id: str | None = None
    prompt_cut: bool | None = None
    fingerprint: str | None = None


class _Line(_Checked):
    key: _Sha256
    generation: _Count
    parts: _Parts
    promoted_from: _Sha256 | None = None
    reply: _Reply


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of an import: how many lines were added, and how many were not.

    Attributes
    ----------
    n_lines
        Lines read: the sum of the other three.
    n_added
        Replies that are new here.
    n_present
        Replies that were stored already.
    n_conflicts
        Replies left out because the store has another reply for their key.
    """

    n_lines: int
    n_added: int
    n_present: int
    n_conflicts: int

    def __str__(self) -> str:
        text = (
            f"{counted(self.n_lines, 'reply', 'replies')} read: {self.n_added} added, {self.n_present} stored already"
        )
        if self.n_conflicts:
            text += f", {self.n_conflicts} left out because the store has other replies for their keys"
        return text


def export(connection: Connection | None, path: Path, chosen: Chosen, *, fresh: bool = False) -> int:
    """Write the chosen replies to a file that appears whole or not at all; returns their number.

    With `fresh` an existing file is an error.
    """
    target = path if fresh else Path(os.path.realpath(path))  # a link stays a link
    part_path = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    n_lines = 0
    try:
        with part_path.open("wb") as file:
            for line in _lines(connection, chosen):
                file.write(line)
                n_lines += 1
            file.flush()
            os.fsync(file.fileno())
        if fresh:
            place(part_path, target)
        else:
            part_path.replace(target)
    except FileExistsError:
        raise CacheError(f"{path} already exists; choose another path for export_to; no replies were removed") from None
    except OSError as problem:
        raise CacheError(f"replies could not be exported to {path}: {problem}") from problem
    finally:
        with contextlib.suppress(OSError):
            part_path.unlink()
    return n_lines


def _lines(connection: Connection | None, chosen: Chosen) -> Iterator[bytes]:
    if connection is None:
        return
    with connection.snapshot():
        calls = call_parts(connection)
        where, parameters = chosen.where(connection)
        for key, generation, call_id, input_hash, order, sample, origin, value in connection.stream(
            _LINES.format(where), parameters
        ):
            parts = {**calls[call_id], "input_hash": input_hash.hex(), "order": order, "sample": sample}
            line = {"key": key.hex(), "generation": generation, "parts": parts, "reply": orjson.Fragment(value)}
            if origin is not None:
                line["promoted_from"] = origin.hex()
            yield canonical_json(line) + b"\n"


def import_(database: Database, path: Path) -> ImportReport:
    """Import the replies of a file, all in one transaction.

    They are checked and staged before the store is locked, so that other processes go on writing.
    """
    n_lines = number = 0
    with database.writer() as connection:
        connection.execute(_STAGE)
        rows: list[tuple[Any, ...]] = []
        try:
            with path.open("rb") as file:
                for number, text in enumerate(file, 1):
                    line = text.removeprefix(BOM)
                    if line.strip():
                        generation, row = _read(line)
                        rows.append((number, row.key, generation, *row[1:]))
                        n_lines += 1
                    if len(rows) >= _ROWS_AT_ONCE:
                        connection.insert("staged", _STAGED, rows)
                        rows.clear()
            connection.insert("staged", _STAGED, rows)
            for (number,) in connection.execute(_TWICE):  # noqa: B007  # the error names it
                raise CacheError("an earlier line is the same reply (the same key and generation); keep one of them")
        except OSError as problem:
            raise CacheError(f"{path} cannot be imported: {problem}; nothing was imported") from problem
        except (ValueError, CacheError) as problem:
            raise CacheError(f"{path}, line {number}: {_problem_in(problem)}; nothing was imported") from problem
        with database.transaction(connection):
            connection.execute(_CALLS)
            connection.execute(_CONFLICTS)
            (n_conflicts,) = connection.execute(_COUNT_CONFLICTS).fetchone()
            n_added = connection.execute(_TAKE_OVER).rowcount
    return ImportReport(n_lines, n_added, n_lines - n_added - n_conflicts, n_conflicts)


def _read(line: bytes) -> tuple[int, Row]:
    raw = orjson.loads(line)
    checked = _Line.model_validate(raw)
    parts = KeyParts.from_dict(raw["parts"])
    origin = bytes.fromhex(checked.promoted_from) if checked.promoted_from else None
    row = row_of(parts, Reply.from_dict(raw["reply"]), promoted_from=origin)
    if row.key.hex() != checked.key:
        raise CacheError(
            f"the key {checked.key[:12]}… does not belong to this reply, whose key is {row.key.hex()[:12]}…"
        )
    return checked.generation, row


def _problem_in(problem: Exception) -> str:
    """The problem of a line, in words."""
    if isinstance(problem, ValidationError):
        return explain(problem, _Line)
    if isinstance(problem, orjson.JSONDecodeError):
        return f"not a whole JSON object ({problem}); the file may be truncated"
    return str(problem)
