"""Processes that submit and collect are killed at random moments: nothing is paid twice, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from batch_runs import MODELS, SAMPLES, judged, jury, sent, some_items
from batch_server import batch_server
from commandline import python
from places import SUPPORT
from postgres import fresh_database

import evalkit as ek
from evalkit.engine import tickets
from evalkit.engine.batches import ticket_in_progress
from evalkit.errors import JudgeError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kill -9")

KILLS, ITEMS = 40, 30
CERTAIN_S = 4.0
CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from batch_runs import judged, jury, sent, some_items
import evalkit as ek
from evalkit.engine import tickets
from evalkit.engine.batches import ticket_in_progress
from evalkit.errors import JudgeError

cache, n_items = sys.argv[3], int(sys.argv[4])
ticket_in_progress.CERTAIN_S, ticket_in_progress._FIRST_POLL_S, ticket_in_progress._LONGEST_POLL_S = 4.0, .02, .05

class Server:
    url = sys.argv[2]

print("ready", flush=True)
for ticket in tickets(cache, only_open=True):
    ek.collect(ticket, progress=False)
ek.collect(sent(some_items(n_items), jury(Server), cache), progress=False)
print("done", flush=True)
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_killed_forty_times(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = str(tmp_path / "cache")
    if kind == "postgresql":
        cache = fresh_database(request.getfixturevalue("postgres_url"), tmp_path.name)
    chance = random.Random(5)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests-only")
    monkeypatch.setattr(ticket_in_progress, "CERTAIN_S", CERTAIN_S)
    with batch_server() as server:
        server.delay_s, server.takes_s, server.listed_after_s = 0.03, 0.3, 0.5
        n_killed, n_items, after_s = 0, 0, 1.5
        while n_killed < KILLS:
            n_items += ITEMS
            arguments = [str(SUPPORT), server.url, cache, str(n_items)]
            with subprocess.Popen(python(CHILD, *arguments), stdout=subprocess.PIPE) as child:
                assert child.stdout is not None
                assert child.stdout.readline() == b"ready\n"
                start = time.monotonic()
                time.sleep(chance.uniform(0.0, after_s))
                os.kill(child.pid, signal.SIGKILL)
                if child.stdout.read() != b"done\n":
                    n_killed += 1
                else:
                    after_s = 0.9 * (time.monotonic() - start)
        items, judges = some_items(n_items), jury(server)
        deadline = time.monotonic() + 300
        while True:  # a server may still be carrying out what a killed process asked for
            for ticket in tickets(cache, only_open=True):
                ek.collect(ticket, progress=False)
            sent(items, judges, cache)
            plan = ek.plan(items, "correctness", judges, samples=SAMPLES, cache=cache).table
            if not plan[["n_in_batch", "n_to_call"]].any(axis=None) or time.monotonic() > deadline:
                break
        table = judged(items, judges, cache, offline=True, on_miss="raise")
        assert len(table) == n_items * len(MODELS) * SAMPLES
        assert table["score"].notna().all()
        assert len(server.billed) == n_items * len(MODELS)
        assert set(server.billed.values()) == {SAMPLES}, "each prompt was billed as often as it was needed"
        assert server.live_calls == 0
        assert server.never_used() == []


def test_all_faults_over_many_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 items × 2 judges × 3 samples end scored, or unscored with the right reason; nothing is paid twice."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests-only")
    monkeypatch.setattr(ticket_in_progress, "_FIRST_POLL_S", 0.01)
    monkeypatch.setattr(ticket_in_progress, "_LONGEST_POLL_S", 0.05)
    monkeypatch.setattr(ticket_in_progress, "CERTAIN_S", 2.0)
    monkeypatch.setattr("evalkit.engine.providers.waits.FIRST_WAIT_S", 0.01)
    monkeypatch.setattr("evalkit.engine.providers.openai_batches.Service.max_requests", 1000)
    faults = ["shuffle", "duplicate_lines", "cut_line", "empty_file_id", "output_comes_later", "error_file",
              "expire_half", "fail_created", "drop_create", "drop_upload", "stuck"]  # fmt: skip
    items = some_items(5000)
    items.loc[4990:4994, "answer"] = [f"REFUSE THIS {at}" for at in range(5)]
    items.loc[4995:, "answer"] = [f"WITHOUT A VERDICT {at}" for at in range(5)]
    with batch_server() as server:
        judges, cache = jury(server), str(tmp_path / "cache")
        server.faults.update(dict.fromkeys(faults, 2))
        server.statuses.update({"/v1/files": [429, 503], "/v1/batches": [500, 429], "/v1/batches/": [503, 429, 500]})
        for _ in range(12):
            ticket = sent(items, judges, cache)
            if ticket.n_left_out or len(ticket.table) == 0 or ticket.table["n_requests"].sum() <= 10:
                break
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                with contextlib.suppress(JudgeError):
                    if not ek.collect(ticket, wait=False).is_open:
                        break
                time.sleep(0.05)
            ek.collect(ticket, cancel=True, progress=False)  # those that are stuck
        ek.collect(ticket, cancel=True, progress=False)
        n_batched = server.live_calls
        table = judged(items, judges, cache)
        reasons = table["error"].value_counts().to_dict()
        assert n_batched == 0
        assert reasons == {"refused": 5 * 2 * SAMPLES, "unreadable": 5 * 2 * SAMPLES}
        assert len(server.billed) == (5000 - 5) * 2, "the refused ones are not billed"
        assert set(server.billed.values()) == {SAMPLES}
        assert not +server.faults, "all of them happened"
