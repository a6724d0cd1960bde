"""The maintenance of a `ReplyStore`: statistics, export and import, promotion, removal.

Replies are exported as JSONL: equal replies give equal bytes; each line that is imported is checked.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Collection, Iterator
from dataclasses import MISSING, dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, get_type_hints

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from evalkit.core.files import BOM
from evalkit.core.formatting import money
from evalkit.core.lists_of_choices import Order
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import KeyParts, canonical_json
from evalkit.core.validation_errors import explain
from evalkit.engine.cache.database_protocol import REPLIES, Connection, Database
from evalkit.engine.cache.lookups import Chosen, Counters, Lookups, PaidRubric, call_id, call_parts
from evalkit.engine.cache.sqlite_schema import place
from evalkit.engine.cache.writer import Row, Writer, key_makers, row_of
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
_Values = dict[str, Any]


class _Checked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


def _model_of(record: type, **own: Any) -> Any:
    """A model that checks the fields of a record; those of `own` have another type there, or must be given."""
    types = get_type_hints(record)
    of_record = {
        field.name: (types[field.name], ... if field.default is MISSING else field.default) for field in fields(record)
    }
    return create_model(f"_{record.__name__}", __base__=_Checked, **of_record | own)


@cache
def _line() -> Any:
    """The model of a line of an export: the fields are those of the records. Built for an import: that takes long."""
    return create_model(
        "_Line",
        __base__=_Checked,
        key=(_Sha256, ...),
        generation=(_Count, ...),
        parts=(
            _model_of(
                KeyParts, params=(_Values, ...), input_hash=(_Sha256, ...), order=(Order | None, ...),
                sample=(_Count, ...), schema_number=(Literal[1], Field(alias="schema")),
            ),
            ...,
        ),
        promoted_from=(_Sha256 | None, None),
        reply=(
            _model_of(
                Reply, prompt_tokens=(_Count | None, None), completion_tokens=(_Count | None, None),
                cost_usd=(_Amount | None, None), latency_s=(_Amount | None, None), sent=(_Values | None, None),
                created=(Annotated[float, Field(gt=0, allow_inf_nan=False)], ...), logprobs=(_Values | None, None),
            ),
            ...,
        ),
    )  # fmt: skip


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
    checked = _line().model_validate(raw)
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
        return explain(problem, _line())
    if isinstance(problem, orjson.JSONDecodeError):
        return f"not a whole JSON object ({problem}); the file may be truncated"
    return str(problem)


_TALLY = (
    "SELECT count(*), count(DISTINCT key), coalesce(sum(length(value)), 0), "
    "coalesce(sum(CASE WHEN promoted_from IS NULL THEN cost_usd END), 0.0) FROM replies WHERE {}"
)
_GROUPS = (
    "SELECT call_id, source, promoted_from IS NOT NULL, count(*), "
    "coalesce(sum(CASE WHEN promoted_from IS NULL THEN cost_usd END), 0.0) FROM replies GROUP BY 1, 2, 3"
)
_ORIGINS = (
    'SELECT key, input_hash, "order", sample, content_key, created, source, cost_usd, '
    "coalesce(promoted_from, key), value FROM replies WHERE call_id = ? ORDER BY key, generation"
)
_CREATED = REPLIES.index("created")
_THERE = "SELECT DISTINCT key FROM replies WHERE key IN ({})"
_EVALUATIONS = (
    "SELECT evaluation, created, summary, CASE WHEN :start <> '' THEN settings END FROM evaluations "
    "WHERE evaluation >= :start AND evaluation < :start || 'g' ORDER BY created DESC, evaluation"  # by the index
)

_BILLS = (
    "SELECT call_id, count(*), count(cost_usd), coalesce(sum(cost_usd), 0.0), max(created) FROM replies "
    "WHERE promoted_from IS NULL GROUP BY call_id"
)

_JUDGE, _RUBRIC = ("provider", "service", "model"), ("rubric", "rubric_version")


class Stats(TypedDict):
    """Statistics of a store. All generations count as replies; promoted ones add no cost.

    `judges` has one dict per `provider`, `service` and `model`, and `rubrics` one per `rubric` and `rubric_version`,
    each with `n_replies` and `cost_usd` (of the replies whose price is known).
    """

    path: str
    n_bytes: int
    n_replies: int
    n_keys: int
    n_live: int
    n_batch: int
    n_recorded: int
    n_promoted: int
    cost_usd: float
    judges: list[dict[str, Any]]
    rubrics: list[dict[str, Any]]
    session: dict[str, float]


@dataclass(frozen=True, slots=True)
class PruneReport:
    """The replies that were removed or, in a dry run, would be removed.

    Attributes
    ----------
    n_replies, n_keys
        Replies (all generations), and how many keys they belong to.
    n_bytes, cost_usd
        Their size, and their cost in US$ (replies of unknown price count 0).
    applied
        False for a dry run.
    exported_to
        Where they were written before they were removed.
    """

    n_replies: int
    n_keys: int
    n_bytes: int
    cost_usd: float
    applied: bool = False
    exported_to: Path | None = None

    def __str__(self) -> str:
        size = f"{counted(self.n_replies, 'reply', 'replies')} of {counted(self.n_keys, 'key')}"
        summary = f"{size} ({self.n_bytes / 1e6:.1f} MB, {money(self.cost_usd)})"
        if self.applied:
            return f"removed {summary}; they are kept in {self.exported_to}"
        return f"would remove {summary}; nothing was removed; pass apply=True (--apply) to remove them"


class Maintenance(Lookups):
    """The methods of a store that concern all of its replies."""

    counters: Counters
    _writer: Writer

    def stats(self) -> Stats:
        """Statistics of the store and of this process (`session`). Reads the whole store."""
        groups: list[tuple[int, str, int, int, float]] = []
        calls: dict[int, dict[str, Any]] = {}
        n_keys = 0
        with self.database.reading() as connection:
            if connection is not None:
                with connection.snapshot():
                    calls = call_parts(connection)
                    groups = connection.execute(_GROUPS).fetchall()
                    (n_keys,) = connection.execute(
                        "SELECT count(*) FROM (SELECT DISTINCT key FROM replies) AS k"
                    ).fetchone()
        sums: dict[tuple[str, ...], dict[tuple[str, ...], dict[str, Any]]] = {_JUDGE: {}, _RUBRIC: {}}
        for number, _, _, n, cost in groups:
            for names, entries in sums.items():
                fields = {name: calls[number][name] for name in names}
                entry = entries.setdefault(tuple(fields.values()), fields | {"n_replies": 0, "cost_usd": 0.0})
                entry["n_replies"] += n
                entry["cost_usd"] += cost
        return Stats(
            path=self.place,
            n_bytes=self.database.n_bytes(),
            n_replies=sum(n for *_, n, _ in groups),
            n_keys=n_keys,
            n_live=sum(n for _, source, _, n, _ in groups if source == "live"),
            n_batch=sum(n for _, source, _, n, _ in groups if source == "batch"),
            n_recorded=sum(n for _, source, _, n, _ in groups if source == "recorded"),
            n_promoted=sum(n for _, _, promoted, n, _ in groups if promoted),
            cost_usd=sum(cost for *_, cost in groups),
            judges=[entry for _, entry in sorted(sums[_JUDGE].items())],
            rubrics=[entry for _, entry in sorted(sums[_RUBRIC].items())],
            session=self.counters.as_dict(),
        )

    def bills(self) -> dict[tuple[str, str], PaidRubric]:
        """What the replies to each rubric and version cost; together as much as `stats` says. Reads the whole store."""
        self._writer.flush()
        bills: dict[tuple[str, str], PaidRubric] = {}
        with self.database.reading() as connection:
            calls = {} if connection is None else call_parts(connection)
            for number, n, n_priced, usd, created in () if connection is None else connection.execute(_BILLS):
                parts = calls[number]
                bill = bills.setdefault((parts["rubric"], parts["rubric_version"]), PaidRubric())
                bill.usd, bill.n_unpriced, bill.last = (
                    bill.usd + usd,
                    bill.n_unpriced + n - n_priced,
                    max(bill.last, created),
                )
                bill.judges.add(f"{parts['provider']}:{parts['model']}")
        return bills

    def evaluations(self, start: str = "") -> list[tuple[str, float, str, str | None]]:
        """The log of evaluations, newest first: id, Unix time, summary, settings (see `log_evaluation`).

        With `start` only those whose id starts with it; without, their settings are not read.
        """
        self._writer.flush()
        with self.database.reading() as connection:
            if connection is None:
                return []
            return list(connection.execute(_EVALUATIONS, {"start": start}))

    def export(
        self, path: Path | str, *, rubric: str | None = None, model: str | None = None, source: str | None = None
    ) -> int:
        """Write replies, all generations, to a JSONL file, sorted by key: the same replies, the same bytes.

        Parameters
        ----------
        path
            The file; replaced as a whole, at the end.
        rubric
            ``id`` or ``id@version``.
        model
            ``model`` or ``provider:model``.
        source
            ``live``, ``batch`` or ``recorded``.

        Returns
        -------
        int
            The number of lines.
        """
        self._writer.flush()
        with self.database.reading() as connection:
            return export(connection, Path(path), Chosen(rubric=rubric, model=model, source=source))

    def import_(self, path: Path | str) -> ImportReport:
        """Read a file that `export` wrote; all of it or, after an error, nothing.

        Nothing in the file is trusted: each line is checked and its key is computed again. What is stored
        already is skipped, so that importing twice changes nothing. If the store has another reply for a
        line's key, the store's reply stays and no generation of that key is imported.

        Raises
        ------
        CacheError
            If a line is truncated, malformed or does not match its key; the message names it.
        """
        self.check_writable()
        return import_(self.database, Path(path))

    def promote(self, rubric_id: str, from_version: str | None, to_version: str, rubric_hashes: Collection[str]) -> int:
        """Copy the newest replies to unchanged criteria to another rubric version, marked `promoted_from`.

        Parameters
        ----------
        rubric_id, from_version, to_version
            The rubric, the version to copy from (None: all others), and the version to copy to.
        rubric_hashes
            Hashes of the criteria that are the same in both versions; others are not promoted.

        Returns
        -------
        int
            The number of replies written; keys that are stored already are left alone.
        """
        self.check_writable()
        self._writer.flush()
        with self.database.writer() as connection, self.database.transaction(connection):
            copies: dict[bytes, tuple[Any, ...]] = {}
            for origin, parts in call_parts(connection).items():
                version = parts["rubric_version"]
                is_asked = version != to_version if from_version is None else version == from_version
                if parts["rubric"] != rubric_id or not is_asked or parts["rubric_hash"] not in rubric_hashes:
                    continue
                call = canonical_json(parts | {"rubric_version": to_version})
                number, (keys_of, _) = call_id(connection, call.decode()), key_makers(call)
                newest = {key: row for key, *row in connection.execute(_ORIGINS, (origin,))}
                for input_hash, order, sample, content_key, created, *rest in newest.values():
                    (key,) = keys_of(input_hash.hex(), order, (sample,))
                    if key not in copies or created > copies[key][_CREATED]:  # as `get_by_content` chooses
                        copies[key] = (key, 0, number, input_hash, order, sample, content_key, created, *rest)
            stored_keys = {key for (key,) in connection.rows_in(_THERE, sorted(copies))}
            added = [copy for key, copy in copies.items() if key not in stored_keys]
            connection.insert("replies", REPLIES, added)
            return len(added)

    def prune(
        self,
        *,
        older_than: float | None = None,
        rubric: str | None = None,
        model: str | None = None,
        keep_generations: int | None = None,
        apply: bool = False,
        export_to: Path | str | None = None,
    ) -> PruneReport:
        """Export and remove the replies that meet all conditions; a dry run unless `apply`.

        Parameters
        ----------
        older_than
            Received before this Unix time.
        rubric, model
            As in `export`.
        keep_generations
            How many of the newest generations of each key stay (1 or more).
        apply
            Really remove.
        export_to
            The file to export to before removing; it must not exist. None: ``pruned-<time>.jsonl`` in the
            cache folder.

        Raises
        ------
        CacheError
            If no condition is given, or the export cannot be written: then nothing is removed.
        """
        chosen = Chosen(rubric=rubric, model=model, older_than=older_than, keep_generations=keep_generations)
        if chosen == Chosen():
            raise CacheError(
                "prune() needs a condition; pass older_than=, rubric=, model= or keep_generations=, or remove "
                "everything with clear()"
            )
        return self._remove(chosen, apply=apply, export_to=export_to)

    def clear(self, *, confirm: str | None = None) -> PruneReport:
        """Export and remove all replies, if `confirm` states their number as in the error's message.

        Raises
        ------
        CacheError
            If `confirm` is not ``"delete N replies"`` with the present number.
        """
        report = self._remove(Chosen(), apply=False, export_to=None)
        expected = f"delete {report.n_replies} replies"
        if confirm != expected:
            raise CacheError(
                f"nothing was removed: clear() would remove all {counted(report.n_replies, 'reply', 'replies')} of "
                f"{self.place}, which cost {money(report.cost_usd)}; to remove all, use "
                f"clear(confirm={expected!r}), and to remove some, prune()"
            )
        return self._remove(Chosen(), apply=True, export_to=None)

    def _remove(self, chosen: Chosen, *, apply: bool, export_to: Path | str | None) -> PruneReport:
        self._writer.flush()
        if not apply:
            with self.database.reading() as connection:
                return _tally(connection, chosen)
        self.check_writable()
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        target = Path(export_to) if export_to else self.folder / f"pruned-{moment}.jsonl"
        if not export_to:
            self.folder.mkdir(parents=True, exist_ok=True)  # with a store on a server there may be none
        with self.database.writer() as connection, self.database.transaction(connection):
            # only under the lock: another prune to this file may have ended in between, and its export is there
            if target.exists():
                raise CacheError(f"{target} already exists; choose another path for export_to; no replies were removed")
            removed = _tally(connection, chosen)
            export(connection, target, chosen, fresh=True)
            where, parameters = chosen.where(connection)
            connection.execute(f"DELETE FROM replies WHERE {where}", parameters)  # noqa: S608  # our own conditions
        self.database.compact()
        return replace(removed, applied=True, exported_to=target)


def _tally(connection: Connection | None, chosen: Chosen) -> PruneReport:
    """Number, size and cost of the chosen replies."""
    if connection is None:
        return PruneReport(0, 0, 0, 0.0)
    with connection.snapshot():
        where, parameters = chosen.where(connection)
        n_replies, n_keys, n_bytes, cost = connection.execute(_TALLY.format(where), parameters).fetchone()
    return PruneReport(n_replies, n_keys, int(n_bytes), cost)
