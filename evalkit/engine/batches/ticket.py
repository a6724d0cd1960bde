"""`Ticket`: judgments that were sent in batches, and what became of them so far."""

from __future__ import annotations

import html
import math
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.core.formatting import figure, html_page, html_table, text_table
from evalkit.core.judges import Judge
from evalkit.engine.batches.ticket_record import BatchRecord, TicketRecord
from evalkit.engine.cache import ReplyStore
from evalkit.engine.cache.batch_tickets import StoredTicket
from evalkit.errors import counted

Server = str | Judge | None
"""A base URL that may get a key, or a judge of a client, which keeps its key itself."""

WHEN_FILE_CUT = "; import the rest when it is there, or cancel the ticket to give it up"

_NAMES = (
    "judge", "state", "n_requests", "n_replies", "n_answered", "n_stored", "n_unanswered", "usd", "usd_at_most",
    "cost_usd", "batch", "problem",
)  # fmt: skip


@dataclass(frozen=True)
class Ticket:
    """Judgments that were sent in batches.

    Attributes
    ----------
    id
        Its id in the store; blank if there was nothing to send.
    table
        One row per batch: `judge`; `state` (``written``, ``sending``, ``running``, ``ended``, ``unsent`` (the provider
        did not take it, or never got it), ``file`` (it was written to a file)); `n_requests` (lines), `n_replies` (that
        they ask for), `n_answered` (requests, as the provider says), `n_stored` (replies in the store), `n_unanswered`
        (replies that an ended batch did not bring); `usd` and `usd_at_most` (expected and highest price, NaN if
        unknown); `cost_usd` (of the stored replies); `batch` (its id at the provider, or the path of the file) and
        `problem`.
    cache
        The cache folder, or the server of the reply store.
    created
        Unix time.
    is_open
        Whether replies may still come.
    n_left_out
        Replies that did not fit into the budget.
    servers
        Base URLs that this process named, which may get a key, and judges of clients.
    why_none
        Why there was nothing to send, in words; blank if there was.
    """

    id: str
    table: pd.DataFrame
    cache: Path | str
    created: float
    is_open: bool
    n_left_out: int = 0
    servers: tuple[Server, ...] = field(default=(), repr=False, compare=False)
    store: ReplyStore | None = field(default=None, repr=False, compare=False)
    why_none: str = ""

    @classmethod
    def of(cls, store: ReplyStore, stored: StoredTicket | str, servers: Collection[Server] = ()) -> Ticket:
        """A ticket as it is in a store; a text: one that asks for nothing, for this reason."""
        if isinstance(stored, str):
            none = pd.DataFrame(columns=list(_NAMES))
            return cls("", none, store.where, time.time(), is_open=False, store=store, why_none=stored)
        record = TicketRecord.of(stored)
        table = pd.DataFrame(map(_row, record.batches), columns=list(_NAMES))
        return cls(
            stored.ticket, table, store.where, stored.created, stored.state == "open", record.n_left_out,
            tuple(servers), store,
        )  # fmt: skip

    def __str__(self) -> str:
        table = [text_table(self._rows())] if len(self.table) else []
        return "\n".join([self._head(), *table, *self._problems()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        problems = [f"<p>{html.escape(line)}</p>" for line in self._problems()]
        return html_page([f"<p>{html.escape(self._head())}</p>", html_table(self._rows()), *problems])

    def _head(self) -> str:
        if not self.id:
            return f"nothing to send: {self.why_none}"
        sums = self.table[["n_replies", "n_stored"]].sum()
        age = max(0.0, time.time() - self.created)
        age_text = f"{age / 3600:.1f} h" if age >= 3600 else f"{age / 60:.0f} min"
        cost = self.table["cost_usd"].sum(skipna=False)
        running = self.table[~self.table["state"].isin(["ended", "unsent"])]
        usd, usd_at_most = (running[name].sum(skipna=False) for name in ("usd", "usd_at_most"))
        expected = "" if not self.is_open or math.isnan(usd) else f", expected {figure(usd, digits=4)}"
        expected += "" if not expected or math.isnan(usd_at_most) else f", at most {figure(usd_at_most, digits=4)}"
        left_out_text = f"; {counted(self.n_left_out, 'reply', 'replies')} not sent, to stay within budget_usd"
        return (
            f"ticket {self.id}: {int(sums['n_stored'])} of {counted(int(sums['n_replies']), 'reply', 'replies')} "
            f"stored (US$ {figure(cost, digits=4)}{expected}), {'open' if self.is_open else 'ended'}, {age_text} old"
            f"{left_out_text if self.n_left_out else ''}"
        )

    def _rows(self) -> list[dict[str, str]]:
        return [
            {
                "judge": row["judge"],
                "state": row["state"],
                "requests answered": f"{row['n_answered']} of {row['n_requests']}",
                "replies stored": f"{row['n_stored']} of {row['n_replies']}",
                "expected US$": figure(row["usd"], digits=4),
                "at most": figure(row["usd_at_most"], digits=4),
                "paid": figure(row["cost_usd"], digits=4),
                "batch": row["batch"],
            }
            for row in self.table.to_dict("records")
        ]

    def _problems(self) -> list[str]:
        return [
            f"{row['judge']}, {row['batch'] or row['state']}: {row['problem']}"
            for row in self.table.to_dict("records")
            if row["problem"]
        ]


def _row(batch: BatchRecord) -> dict[str, Any]:
    """A row of the table from what the store keeps of a batch."""
    n_unanswered = 0 if batch.is_open else batch.n_replies - batch.n_stored
    reasons = ", ".join(f"{n} {reason}" for reason, n in batch.reasons.items())
    problem = batch.problem + WHEN_FILE_CUT * (batch.state == "file" and batch.problem != "")
    if batch.word not in ("", "completed") and not problem and n_unanswered > sum(batch.reasons.values()):
        problem = f"{batch.word} before all requests were processed"
    usd = {"usd": batch.usd, "usd_at_most": batch.usd_at_most, "cost_usd": batch.cost_usd}
    return {
        "judge": batch.judge["name"],
        "state": f"running ({batch.word})" if batch.state == "running" and batch.word else batch.state,
        "n_requests": batch.n_requests, "n_replies": batch.n_replies, "n_answered": batch.n_done,
        "n_stored": batch.n_stored, "n_unanswered": n_unanswered,
        "batch": batch.batch or (batch.path if batch.state == "file" else ""),
        "problem": "; ".join(filter(None, [problem, reasons])),
        **{name: float("nan") if value is None else value for name, value in usd.items()},
    }  # fmt: skip


def shower(progress: bool | None) -> Callable[[Ticket], None]:
    """A function that shows a ticket each time in the place of the last one: in a notebook, or as a line."""
    from evalkit.engine.calls.event_loop import in_notebook
    from evalkit.engine.calls.progress import is_shown

    if not is_shown(progress):
        return lambda _: None
    if not in_notebook():
        states: list[Any] = [None]

        def show_line(ticket: Ticket) -> None:
            state = ticket._rows(), ticket._problems(), ticket.is_open
            if state != states[0]:  # another age alone is not shown
                sys.stderr.write(f"{ticket}\n")
                states[0] = state

        return show_line
    from IPython.display import display

    handle: list[Any] = []

    def show(ticket: Ticket) -> None:
        if handle:
            handle[0].update(ticket)
        else:
            handle.append(display(ticket, display_id=True))  # type: ignore[no-untyped-call]

    return show
