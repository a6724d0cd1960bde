"""What a store keeps of a ticket: `TicketRecord`, with a `BatchRecord` for each of its batches.

A batch goes through these states; its replies may be asked for by others as soon as it is in one of the last two:

    written ──► sending ──► running ──► ended      file ──► ended
       └───────────┴──► unsent
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeVar

import orjson

from evalkit.engine.cache.batch_tickets import StoredTicket

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
    """A record from those of the values that it knows."""
    return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})
