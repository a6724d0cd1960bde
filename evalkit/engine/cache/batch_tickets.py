"""The tickets of a store: batches that a provider answers later, and the reply keys that they ask for.

Each reply key is in at most one open ticket, and calls leave it to that one: nothing is requested twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from evalkit.engine.cache.database_protocol import ConflictError, Database
from evalkit.engine.cache.lookups import Lookups
from evalkit.errors import CacheError, InputError, listed

IN_BATCH = b""
"""In place of a stored reply: an open ticket asks for it."""

_HELD = "SELECT key, ticket FROM ticket_keys WHERE key IN ({})"
_ANY = "SELECT 1 FROM ticket_keys LIMIT 1"
_FREE = "DELETE FROM ticket_keys WHERE key IN ({})"
_OPEN = "INSERT INTO tickets (ticket, state, details, manifest, created) VALUES (?, 'open', ?, '', {clock})"
_CHANGE = "UPDATE tickets SET details = ?, state = ? WHERE ticket = ? AND details = ?"
_MANIFEST = "UPDATE tickets SET manifest = ? WHERE ticket = ?"
_LIST = "SELECT ticket, state, details, created FROM tickets WHERE {} ORDER BY created, ticket"
_MANY = 500


class TicketChangedError(CacheError):
    """Another process changed the ticket at the same time."""


@dataclass(frozen=True, slots=True)
class StoredTicket:
    """A ticket in a store.

    Attributes
    ----------
    ticket
        Its id, 24 hexadecimal digits.
    state
        ``open`` while it may bring replies, then ``ended``.
    details
        What changes while it is open, as JSON.
    created
        Unix time, by the store's clock.
    """

    ticket: str
    state: str
    details: bytes
    created: float


class Tickets(Lookups):
    """The methods of a store that concern batches."""

    database: Database

    def in_batches(self, keys: Collection[bytes]) -> dict[bytes, str]:
        """Those of the keys that an open ticket asks for, with its id."""
        with self.database.reading() as connection:
            if connection is None or (len(keys) > _MANY and connection.execute(_ANY).fetchone() is None):
                return {}
            return dict(connection.rows_in(_HELD, sorted(keys)))

    def stored_or_asked(self, keys: Collection[bytes], *, since: float | None, recorded: bool) -> dict[bytes, bytes]:
        """As `get_many`, with `IN_BATCH` for those that an open ticket asks for."""
        stored = self.get_many(keys, since=since, recorded=recorded)
        missing = [key for key in keys if key not in stored]
        return stored | dict.fromkeys(self.in_batches(missing), IN_BATCH) if missing else stored

    def open_ticket(self, details: Mapping[str, Any], keys: Iterable[bytes]) -> tuple[StoredTicket, set[bytes]]:
        """A new ticket that asks for those of the keys that no open ticket asks for already; and which these are."""
        ticket, text, sorted_keys = secrets.token_hex(12), _text(details), sorted(set(keys))
        while True:
            try:
                with self.database.writer() as connection, self.database.transaction(connection):
                    held_keys = {key for key, _ in connection.rows_in(_HELD, sorted_keys)}
                    free = [key for key in sorted_keys if key not in held_keys]
                    connection.execute(_OPEN.format(clock=connection.clock), [ticket, text])
                    connection.insert("ticket_keys", ("key", "ticket"), [(key, ticket) for key in free])
                break
            except ConflictError:  # another process opened a ticket for some of them in the meantime
                continue
        (stored,) = self.tickets(ticket)
        return stored, set(free)

    def change_ticket(
        self,
        stored: StoredTicket,
        details: Mapping[str, Any],
        *,
        manifest: Mapping[str, Any] | None = None,
        free: Collection[bytes] = (),
        ended: bool = False,
    ) -> StoredTicket:
        """Write new details, if nobody changed the ticket since it was read; once this returns, they are on disk.

        With `manifest`, what the ticket asks for. `free` are keys that it asks for no longer. A ticket that has ended
        asks for nothing, and its manifest is removed.

        Raises
        ------
        TicketChangedError
            If another process changed it.
        """
        text, state = _text(details), "ended" if ended else "open"
        if ended:
            manifest = {}
        with self.database.writer() as connection, self.database.transaction(connection):
            change = [text, state, stored.ticket, stored.details.decode()]
            if connection.execute(_CHANGE, change).rowcount != 1:
                raise TicketChangedError(f"ticket {stored.ticket} is being changed by another process; repeat the call")
            if manifest is not None:
                connection.execute(_MANIFEST, [_text(manifest), stored.ticket])
            list(connection.rows_in(_FREE, sorted(free)))
            if ended:
                connection.execute("DELETE FROM ticket_keys WHERE ticket = ?", [stored.ticket])
        return StoredTicket(stored.ticket, state, text.encode(), stored.created)

    def tickets(self, start: str = "", *, only_open: bool = False) -> list[StoredTicket]:
        """The tickets whose id begins with `start`, the oldest first."""
        condition = "ticket >= ? AND ticket < ?" + (" AND state = 'open'" if only_open else "")
        with self.database.reading() as connection:
            if connection is None:
                return []
            rows = connection.execute(_LIST.format(condition), [start, f"{start}g"]).fetchall()
        return [StoredTicket(ticket, state, details.encode(), created) for ticket, state, details, created in rows]

    def ticket(self, start: str) -> StoredTicket:
        """The one ticket whose id begins with `start`; InputError if there is none, or more than one."""
        stored = self.tickets(start) if start and set(start) <= set("0123456789abcdef") else []
        if len(stored) == 1:
            return stored[0]
        if stored:
            raise InputError(f"{len(stored)} tickets begin with {start!r}: {listed([row.ticket for row in stored])}")
        open_ids = [row.ticket for row in self.tickets(only_open=True)]
        open_ones = f"open tickets: {listed(open_ids)}" if open_ids else "no open tickets"
        raise InputError(
            f"ticket {start!r} not found in {self.place} ({open_ones}); name the cache that submit used, because it "
            "contains the ticket"
        )

    def manifest(self, ticket: str) -> dict[str, Any]:
        """What an open ticket asks for; empty if it was not written yet, or the ticket has ended."""
        with self.database.reading() as connection:
            assert connection is not None
            row = connection.execute("SELECT manifest FROM tickets WHERE ticket = ?", [ticket]).fetchone()
        return dict(orjson.loads(row[0])) if row and row[0] else {}


def _text(value: Mapping[str, Any]) -> str:
    return orjson.dumps(value).decode()
