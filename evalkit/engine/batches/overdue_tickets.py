"""Tickets that are older than their `live_after`: `judge` and `submit` cancel them before they look for replies."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

from evalkit.engine.batches.ticket import Server
from evalkit.engine.batches.ticket_in_progress import OpenTicket
from evalkit.engine.batches.ticket_record import TicketRecord
from evalkit.engine.cache import ReplyStore

_LONGEST_CANCEL_S = 900.0
_overdue_since: dict[str, float] = {}
"""When this process first found a ticket overdue, by its monotonic clock: all calls together wait for it once."""
_log = logging.getLogger("evalkit")


def take_overdue(store: ReplyStore, ids: Collection[str], servers: Collection[Server]) -> bool:
    """Cancel and collect those of the tickets that are older than their `live_after`; whether there were any.

    All calls of a process together wait `_LONGEST_CANCEL_S` for a ticket; later calls take what has ended by then.
    `servers` are base URLs that may get a key, and judges of clients.
    """
    overdue = [
        stored
        for stored in store.tickets(only_open=True)
        if stored.ticket in ids and TicketRecord.of(stored).is_overdue(stored.created)
    ]
    for stored in overdue:
        _log.info(
            "ticket %s has waited for longer than live_after; its running batches are being cancelled", stored.ticket
        )
        until = _overdue_since.setdefault(stored.ticket, time.monotonic()) + _LONGEST_CANCEL_S
        ticket = OpenTicket(store, stored, servers)
        if ticket.collect(wait=True, cancel=True, progress=False, until=until).is_open:
            _log.warning(
                "ticket %s has waited for longer than live_after, but not all of its batches have ended", stored.ticket
            )
    return bool(overdue)
