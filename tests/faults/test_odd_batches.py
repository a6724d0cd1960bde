"""Whatever a batch service answers: nothing is lost that could be read, nothing is paid twice, and cancelling ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from odd_batches import KEY, N_ITEMS, SAMPLES, Odd, became_of, odd_batches, odd_server

from evalkit.engine.batches import ticket_in_progress


def test_the_odd_ways_are_many_and_differ() -> None:
    assert len({odd.name for odd in odd_batches()}) == len(odd_batches()) > 70


@pytest.mark.parametrize("odd", odd_batches(), ids=lambda odd: odd.name)
def test_nothing_is_lost_or_paid_twice(odd: Odd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(ticket_in_progress, "_FIRST_POLL_S", 0.01)
    monkeypatch.setattr(ticket_in_progress, "_LONGEST_POLL_S", 0.02)
    monkeypatch.setattr("evalkit.engine.providers.waits.FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(ticket_in_progress, "_CUT_TRIES", 5)
    with odd_server(odd) as server:
        became = became_of(odd, server, tmp_path / "cache")
    n_all = N_ITEMS * SAMPLES
    assert not became.shows_key
    if not odd.ends:
        assert became.is_open, "the batch may run: its replies are not paid again"
        assert len(became.said) == 2, "both calls came to an end"
        assert became.reasons == {"in_batch": n_all}
        assert became.n_twice == 0
        return
    assert not became.is_open
    assert became.n_twice == odd.n_lost * SAMPLES, became
    assert (became.n_stored == 0) == (odd.unsent or odd.n_lost == N_ITEMS)
    assert bool(became.said) == (odd.unsent or odd.n_lost == N_ITEMS or odd.needs_cancel)
    assert became.n_paid_later == (n_all if odd.unsent else odd.n_lost * SAMPLES)
    assert became.n_scored == n_all - became.reasons.get("empty", 0)
