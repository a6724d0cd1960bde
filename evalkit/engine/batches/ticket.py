"""`Ticket`: judgments that were sent in batches, its record in the store, and what became of them so far."""

from __future__ import annotations

import html
import math
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

import orjson
import pandas as pd

from evalkit.core.formatting import figure, html_page, html_table, text_table
from evalkit.core.judges import Judge
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


State = Literal["written", "sending", "running", "file", "ended", "unsent"]
T = TypeVar("T", "BatchRecord", "TicketRecord")

_LATER = ("at", "when_sent", "without_files")
"""Fields that are not in the JSON until they are known."""


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One batch of a ticket.

    Attributes
    ----------
    judge
        Fields of its `Judge`, and its service.
    n_requests, n_replies, path
        Lines of the file, the replies that they ask for, and where it was written.
    usd, usd_at_most
        Expected and highest price; None if unknown.
    state
        ``written``, ``sending``, ``running``, ``ended``, ``unsent`` (the provider has no such batch), or ``file``
        (another program answers it).
    batch, uploaded
        Its id, and that of its file, at the provider; None until they are known.
    word, n_done
        The provider's word for its state, and the number of requests that it has answered.
    problem
        What went wrong, without keys and prompts.
    n_stored, cost_usd, reasons
        Replies in the store, their cost (None if unknown), and for each reason why there is no reply, the number of
        these.
    at
        When it changed last; None: when the ticket did.
    gives_up
        Its sender cannot go on, for this reason; whoever reads it frees the replies.
    when_sent
        The problem when it was sent; `problem` is then the provider's answer to the look for it.
    cancelled
        Whether the provider was told to cancel it.
    without_files
        Since when it has ended without all of its results.
    """

    judge: Mapping[str, Any]
    n_requests: int
    n_replies: int
    path: str
    usd: float | None
    usd_at_most: float | None
    state: State = "written"
    batch: str | None = None
    uploaded: str | None = None
    word: str = ""
    problem: str = ""
    n_done: int = 0
    n_stored: int = 0
    cost_usd: float | None = 0.0
    reasons: Mapping[str, int] = field(default_factory=dict)
    at: float | None = None
    gives_up: str = ""
    when_sent: str | None = None
    cancelled: bool = False
    without_files: float | None = None

    @property
    def waits(self) -> bool:
        """Whether it will end by itself."""
        return self.state in ("written", "sending", "running")

    @property
    def is_open(self) -> bool:
        """Whether it may bring replies."""
        return self.waits or self.state == "file"


@dataclass(frozen=True, slots=True)
class TicketRecord:
    """What changes of a ticket while it is open.

    Attributes
    ----------
    newer_than
        Unix time of a refresh: earlier stored replies do not count.
    batches
        Empty as long as the files of requests are being written.
    n_left_out
        Replies that did not fit into the budget.
    at
        The last sign of life of the process that sends it, Unix time.
    """

    newer_than: float | None
    batches: tuple[BatchRecord, ...] = ()
    n_left_out: int = 0
    at: float = field(default_factory=time.time)

    @classmethod
    def of(cls, stored: StoredTicket) -> TicketRecord:
        """The record of a stored ticket."""
        values = orjson.loads(stored.details)
        return _of(cls, values | {"batches": tuple(_of(BatchRecord, batch) for batch in values["batches"])})

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        batches = [
            {name: value for name, value in asdict(batch).items() if value is not None or name not in _LATER}
            for batch in self.batches
        ]
        return asdict(self) | {"batches": batches}


def _of(cls: type[T], values: Mapping[str, Any]) -> T:
    """A record from those of the values that it knows: another evalkit may have stored others of a paid batch."""
    return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})
