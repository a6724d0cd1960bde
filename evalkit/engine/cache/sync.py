"""Copies what one store has and another lacks, between folders and servers."""

from __future__ import annotations

from collections.abc import Callable, Collection

from evalkit.engine.cache.database_protocol import REPLIES, ConflictError, Connection, Database
from evalkit.engine.cache.jsonl import ImportReport
from evalkit.engine.cache.lookups import call_id
from evalkit.engine.cache.sqlite_schema import ADDED
from evalkit.engine.cache.store import ReplyStore
from evalkit.engine.cache.writer import LOG
from evalkit.errors import CacheError

_KEYS_AT_ONCE = 5000
_KEYS = "SELECT DISTINCT key FROM replies WHERE key > ? ORDER BY key LIMIT ?"
_PLACES = "SELECT key, generation, created FROM replies WHERE key IN ({})"
_ROWS = (
    'SELECT key, generation, parts, input_hash, "order", sample, content_key, created, source, cost_usd, '
    "promoted_from, value FROM replies JOIN calls USING (call_id) WHERE key IN ({}) ORDER BY key, generation"
)
_LOGGED = "SELECT evaluation, created, summary, settings FROM evaluations"


def sync(
    source: ReplyStore, target: ReplyStore, on_progress: Callable[[ImportReport], object] | None = None
) -> ImportReport:
    """Copy to `target` the replies that only `source` has, and its log of evaluations.

    This is done portion by portion: what was copied stays, and a second call goes on where the first ended. Where both
    have a reply for a key, but not the same, each keeps its own.

    Parameters
    ----------
    source, target
        Two stores, each in a folder or on a server.
    on_progress
        Called with the counts so far after each portion.

    Raises
    ------
    CacheError
        If one of them cannot be read or written.
    """
    target.check_writable()
    for store in (source, target):
        store.flush()
    report, last = ImportReport(0, 0, 0, 0), b""
    with source.database.reading() as source_connection:
        if source_connection is None:
            raise CacheError(f"there is no cache in {source.place}; `evalkit cache stats` says where yours is")
        while keys := [key for (key,) in source_connection.execute(_KEYS, (last, _KEYS_AT_ONCE))]:
            last = keys[-1]
            n_lines, n_added, n_conflicts = _copy(source_connection, target.database, keys)
            n_lines, n_added = report.n_lines + n_lines, report.n_added + n_added
            n_conflicts += report.n_conflicts
            report = ImportReport(n_lines, n_added, n_lines - n_added - n_conflicts, n_conflicts)
            if on_progress is not None:
                on_progress(report)
        logged = [] if source_connection.schema() in ADDED else list(source_connection.execute(_LOGGED))
    with target.database.writer() as target_connection, target.database.transaction(target_connection):
        for row in logged:
            target_connection.execute(LOG, row)
    return report


def _copy(there: Connection, database: Database, keys: Collection[bytes]) -> tuple[int, int, int]:
    """Copy the replies with these keys: how many there are, were added, and have other ones here."""
    theirs = _places(there, keys)
    while True:
        try:
            with database.writer() as target_connection, database.transaction(target_connection):
                ours = _places(target_connection, keys)
                conflicts = {entry[0] for entry in theirs.keys() & ours.keys() if theirs[entry] != ours[entry]}
                missing = {entry for entry in theirs.keys() - ours.keys() if entry[0] not in conflicts}
                rows = list(there.rows_in(_ROWS, sorted({key for key, _ in missing})))
                ids = {parts: call_id(target_connection, parts) for parts in {row[2] for row in rows}}
                added = [(*row[:2], ids[row[2]], *row[3:]) for row in rows if row[:2] in missing]
                target_connection.insert("replies", REPLIES, added)
            return len(theirs), len(added), sum(key in conflicts for key, _ in theirs)
        except ConflictError:  # another process wrote some of them in the meantime
            continue


def _places(connection: Connection, keys: Collection[bytes]) -> dict[tuple[bytes, int], float]:
    """When the replies of these keys were received, by key and generation."""
    rows = connection.rows_in(_PLACES, sorted(keys))
    return {(key, generation): created for key, generation, created in rows}
