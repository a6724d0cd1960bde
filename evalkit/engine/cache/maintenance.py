"""The maintenance of a `ReplyStore`: statistics, export and import, promotion, removal."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from evalkit.core.formatting import money
from evalkit.core.reply_keys import canonical_json
from evalkit.engine.cache.database_protocol import REPLIES, Connection
from evalkit.engine.cache.lookups import Chosen, Counters, Lookups, PaidRubric, call_id, call_parts
from evalkit.engine.cache.writer import Writer, key_makers
from evalkit.errors import CacheError, counted

if TYPE_CHECKING:
    from evalkit.engine.cache.jsonl import ImportReport

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
        from evalkit.engine.cache.jsonl import export  # only now: its checks take long to build

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
        from evalkit.engine.cache.jsonl import import_

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
        from evalkit.engine.cache.jsonl import export

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
