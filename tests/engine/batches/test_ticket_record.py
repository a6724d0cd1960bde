"""The record of a ticket: what is stored, read again, and changed by two processes at a time."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from evalkit.engine.batches.ticket import BatchRecord, State, Ticket, TicketRecord
from evalkit.engine.batches.ticket_in_progress import OpenTicket
from evalkit.engine.cache import ReplyStore
from evalkit.engine.cache.batch_tickets import StoredTicket, TicketChangedError

JUDGE = {"provider": "openai", "model": "gpt-4o", "name": "openai:gpt-4o", "price": (2.5, 10.0), "base_url": None,
         "service": "openai", "api_key_env": "OPENAI_API_KEY", "headers_env": None, "timeout_s": 60.0,
         "score": None}  # fmt: skip
BATCH = BatchRecord(JUDGE, 10, 30, "/tmp/1.jsonl", 0.1, 0.4)
STATES: tuple[State, ...] = ("written", "sending", "running", "file", "ended", "unsent")


def stored(text: bytes) -> StoredTicket:
    return StoredTicket("ab" * 12, "open", text, 1000.0)


def test_a_ticket_that_an_earlier_evalkit_stored_is_read() -> None:
    """As it was written when a ticket could belong to a run, and had an age and hashes: they are left out."""
    part = {
        "judge": JUDGE | {"price": [2.5, 10.0]}, "state": "running", "batch": "b1", "uploaded": "f1",
        "word": "in_progress", "problem": "", "n_done": 4, "n_requests": 10, "n_replies": 30, "n_stored": 0,
        "reasons": {}, "path": "x", "usd": None, "usd_at_most": 0.4, "cost_usd": 0.25,
        "gives_up": "", "cancelled": False,
    }  # fmt: skip
    details: dict[str, Any] = {
        "batches": [part], "n_left_out": 2, "newer_than": None, "at": 5.0,
    }  # fmt: skip
    earlier = details | {
        "run": "october",
        "live_after_s": 60.0,
        "batches": [part | {"billed_usd": 0.3, "n_bytes": 1000, "sha256": "ab"}],
    }
    record = TicketRecord.of(stored(orjson.dumps(earlier)))
    (batch,) = record.batches
    assert (batch.waits, batch.is_open, batch.cost_usd, batch.at, batch.gives_up) == (True, True, 0.25, None, "")
    again = orjson.loads(orjson.dumps(record.to_dict()))
    assert again == details, "the names stay, and what is not known yet is left out"
    unknown = orjson.dumps(details | {"batches": [part | {"of_a_later_evalkit": 1}], "and": 2})
    assert TicketRecord.of(stored(unknown)) == record


def test_records_make_the_round_trip() -> None:
    draw = random.Random(39)
    for _ in range(300):
        usd = draw.choice([None, 0.0, draw.random()])
        batch = replace(
            BATCH, state=draw.choice(STATES), usd=usd, usd_at_most=usd,
            cost_usd=draw.choice([None, 0.25]), at=draw.choice([None, draw.random()]), cancelled=draw.random() < 0.5,
            when_sent=draw.choice([None, "", "why"]), without_files=draw.choice([None, 3.5]),
            gives_up=draw.choice(["", "why"]), reasons=draw.choice([{}, {"refused": 2}]),
        )  # fmt: skip
        record = TicketRecord(7.5, (batch, BATCH), draw.randrange(3), at=draw.random())
        text = orjson.dumps(record.to_dict())
        read = TicketRecord.of(stored(text))
        assert orjson.dumps(read.to_dict()) == text
        assert read == replace(
            record, batches=tuple(replace(one, judge=read.batches[0].judge) for one in record.batches)
        )
        assert batch.waits == (batch.state in ("written", "sending", "running"))
        assert batch.is_open == (batch.state not in ("ended", "unsent"))


def test_two_processes_change_two_batches_of_a_priced_judge(tmp_path: Path) -> None:
    store = ReplyStore.open(tmp_path)
    opened, _ = store.open_ticket(TicketRecord(None).to_dict(), [bytes(32)])
    sender = OpenTicket(store, opened)
    sender.change(batches=(BATCH, BATCH), manifest={})
    other = OpenTicket(store, store.ticket(opened.ticket))
    other.note(1, state="running", batch="b2")
    sender.note(0, state="sending")
    assert [(one.state, one.batch) for one in sender.batches] == [("sending", None), ("running", "b2")]
    with pytest.raises(TicketChangedError):
        other.note(0, state="unsent")
    assert [one.state for one in other.batches] == ["sending", "running"], "it has seen the latest now"
    other.note(0, state="unsent")
    other.note(1, state="ended")
    assert store.ticket(opened.ticket).state == "ended"


@pytest.mark.parametrize("word", ["completed", "expired", "cancelled", "ended", ""])
def test_a_batch_that_was_processed_whole_is_not_said_to_have_ended_early(word: str, tmp_path: Path) -> None:
    few = replace(BATCH, state="ended", word=word, n_done=10, n_stored=20)  # a server gave two candidates of three
    details = orjson.dumps(TicketRecord(None, (few,)).to_dict())
    (problem,) = Ticket.of(ReplyStore.open(tmp_path), stored(details)).table["problem"]
    assert problem == ("" if word in ("", "completed") else f"{word} before all requests were processed")
