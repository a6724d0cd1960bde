"""What processes that name the same run share in a store: a budget, and the times at which calls may start.

`docs/adr/0013-shared-limits.md` says why it looks like this. The writer of the store writes leases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from evalkit.engine.cache.database_protocol import Connection

LEASE_S = 15.0
"""A lease of the budget that was not renewed for so long belongs to a process that is dead: others stop waiting."""

_SPENT = ""
"""The holder of what ended processes have spent; its row is the lock of the run."""
_LOCK = (
    "INSERT INTO leases (run, holder, usd, calls, expires) VALUES (?, ?, 0, 0, 0) "
    "ON CONFLICT (run, holder) DO UPDATE SET expires = 0"
)
_HELD = "SELECT holder, usd, calls, expires > {clock} FROM leases WHERE run = ?"
_RENEW = (
    "INSERT INTO leases (run, holder, usd, calls, expires) VALUES (?, ?, ?, ?, {clock} + ?) ON CONFLICT (run, holder) "
    "DO UPDATE SET usd = excluded.usd, calls = excluded.calls, expires = excluded.expires"
)
_TAKE_TIME = (
    "INSERT INTO rates (run, service, free_at) VALUES (?, ?, {clock} + ?) ON CONFLICT (run, service) DO UPDATE "
    "SET free_at = CASE WHEN rates.free_at > {clock} THEN rates.free_at ELSE {clock} END + ?"
)
_UNTIL_FREE = "SELECT free_at - {clock} FROM rates WHERE run = ? AND service = ?"


class Amount(NamedTuple):
    """US$ and calls."""

    usd: float
    calls: float


NOTHING = Amount(0.0, 0)


class Granted(NamedTuple):
    """The answer to a `BudgetLease`.

    Attributes
    ----------
    amount
        What the process may spend beyond what it holds.
    others
        What other processes spent or hold.
    fits
        Whether what was needed was granted.
    may_return
        Whether other processes, or calls of this one that are in flight, hold money that they may give back.
    """

    amount: Amount
    others: Amount
    fits: bool
    may_return: bool


@dataclass(frozen=True, slots=True)
class BudgetLease:
    """One process's lease of a run's budget, to be renewed or ended.

    The row holds the whole amount that the process has spent or may be spending, so writing it twice changes nothing.
    The row of a dead process stays, and counts as spent.

    Attributes
    ----------
    run, holder
        Name of the run, and id of the process's lease.
    held
        What was spent, and what is reserved for calls that may have been sent.
    need, wish
        What the next call needs, and how much more would be used soon.
    most
        The limits of the run, `math.inf` for none.
    in_flight
        Whether a part of `held` may be given back.
    ended
        Whether the process makes no more calls: what it holds counts as spent.
    """

    run: str
    holder: str
    held: Amount
    need: Amount = NOTHING
    wish: Amount = NOTHING
    most: Amount = Amount(math.inf, math.inf)  # noqa: RUF009  # a tuple
    in_flight: bool = False
    ended: bool = False

    @property
    def place(self) -> tuple[str, ...]:
        """What it locks."""
        return ("leases", self.run)

    def write(self, connection: Connection) -> Granted:
        """Renew or end the lease, inside a transaction."""
        connection.execute(_LOCK, [self.run, _SPENT])
        rows = connection.execute(_HELD.format(clock=connection.clock), [self.run]).fetchall()
        other_rows = [row for row in rows if row[0] != self.holder]
        used = Amount(math.fsum(row[1] for row in other_rows), sum(row[2] for row in other_rows))
        if self.ended:
            if len(other_rows) < len(rows):
                connection.execute(
                    "UPDATE leases SET usd = usd + ?, calls = calls + ? WHERE run = ? AND holder = ?",
                    [float(self.held.usd), int(self.held.calls), self.run, _SPENT],
                )
                connection.execute("DELETE FROM leases WHERE run = ? AND holder = ?", [self.run, self.holder])
            return Granted(NOTHING, used, fits=True, may_return=False)
        n_alive = sum(bool(row[3]) for row in other_rows)
        amount = self._granted_amount(used, n_alive + 1)
        fits = amount is not None
        amount = amount or NOTHING
        lease_s = LEASE_S if self.in_flight or any(amount) else 0.0
        usd, calls = float(self.held.usd + amount.usd), int(self.held.calls + amount.calls)
        connection.execute(_RENEW.format(clock=connection.clock), [self.run, self.holder, usd, calls, lease_s])
        return Granted(amount, used, fits, may_return=n_alive > 0 or self.in_flight)

    def _granted_amount(self, used: Amount, n_processes: int) -> Amount | None:
        """What is granted: of what is left at most one half, shared by the live processes, but at least what is needed.

        None if that does not fit.
        """
        rests = [limit - spent - reserved for limit, spent, reserved in zip(self.most, used, self.held, strict=True)]
        # a process that is over the limit itself may still renew what it holds
        if any(need > max(0.0, rest) for need, rest in zip(self.need, rests, strict=True)):
            return None
        usd, calls = (
            0.0 if math.isinf(rest) else max(need, min(need + wish, rest / (2 * n_processes)))
            for need, wish, rest in zip(self.need, self.wish, rests, strict=True)
        )
        return Amount(usd, math.floor(calls))


@dataclass(frozen=True, slots=True)
class RateLease:
    """Time in which a process alone may start calls to a service.

    The times of all processes follow each other without overlap. The time of a dead process passes unused.

    Attributes
    ----------
    run, service
        Name of the run, and service, model and key that the limit is for.
    seconds
        How much time.
    """

    run: str
    service: str
    seconds: float

    @property
    def place(self) -> tuple[str, ...]:
        """What it locks."""
        return ("rates", self.run, self.service)

    def write(self, connection: Connection) -> float:
        """Take the next free time; in how many seconds it begins (negative: it has begun)."""
        clock, seconds = connection.clock, float(self.seconds)
        connection.execute(_TAKE_TIME.format(clock=clock), [self.run, self.service, seconds, seconds])
        (wait,) = connection.execute(_UNTIL_FREE.format(clock=clock), [self.run, self.service]).fetchone()
        return float(wait) - seconds
