"""Workers of one judge alone, for a run that only notes what they report."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

import evalkit as ek
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.settings import Options
from evalkit.engine.cache import ReplyStore
from evalkit.engine.calls.budget import Budget
from evalkit.engine.calls.pending_call import Outcome, PendingCall, Progress
from evalkit.engine.calls.workers import Workers
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.engine.request import Request

ITEMS = [{"item_id": str(at), "question": f"question {at}", "answer": "4", "reference": "4"} for at in range(3)]
ASKED = Counter[str]()


def answer(prompt: Any) -> str:
    """The number of the question that a prompt asks."""
    number = next(str(at) for at in range(3) if f"question {at}" in str(prompt))
    ASKED[number] += 1
    return f"[RESULT] {number} [END]"


@dataclass
class Noted:
    """A run that notes outcomes, errors and warnings."""

    store: ReplyStore
    options: Options = field(default_factory=Options)
    newer_than: float | None = None
    budget: Budget | None = None
    counts: Progress = field(default_factory=Progress)
    stopped: bool = False
    outcomes: list[Outcome] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    n_expected: int = 0
    complete: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def fail(self, error: BaseException) -> None:
        self.errors.append(error)

    def resolve(self, key: bytes, outcome: Outcome) -> None:
        assert key == outcome.key
        self.outcomes.append(outcome)
        if len(self.outcomes) == self.n_expected:
            self.complete.set()


def requests(samples: int = 1) -> list[Request]:
    """One request per item."""
    ASKED.clear()
    judge = ek.Judge.function(answer, name="asked", version="1")
    worklist = Worklist.of(Spec.of("correctness", judge, samples), ITEMS, None)
    return worklist.requests(list(range(worklist.n_rows)))


def work(run: Noted, asked: list[Request], *, stopped: bool = False) -> dict[bytes, Outcome]:
    """The outcome of each sample, once its worker has reported it."""
    run.n_expected = sum(len(request.keys) for request in asked)

    async def until_all_are_reported() -> None:
        workers = Workers(asked[0].judge, run)
        workers.add([PendingCall(request) for request in asked])
        if stopped:
            run.stopped = True
            workers.stop()
        await asyncio.wait_for(run.complete.wait(), 60)

    asyncio.run(until_all_are_reported())
    assert len({outcome.key for outcome in run.outcomes}) == run.n_expected, "each sample is reported once"
    return {outcome.key: outcome for outcome in run.outcomes}


def texts(outcomes: dict[bytes, Outcome]) -> dict[bytes, str]:
    """What was answered, by key."""
    return {key: orjson.loads(outcome.value)["text"] for key, outcome in outcomes.items() if outcome.value is not None}


def test_every_sample_is_asked_stored_and_reported_once(tmp_path: Path) -> None:
    asked, store = requests(samples=2), ReplyStore.open(tmp_path)
    run = Noted(store, Options(concurrency=2))
    outcomes = work(run, asked)
    expected = {key: f"[RESULT] {at // (len(asked) // 3)} [END]" for at, one in enumerate(asked) for key in one.keys}
    assert texts(outcomes) == expected
    assert store.get_many(expected) == {key: outcome.value for key, outcome in outcomes.items()}
    assert ASKED == {"0": 2, "1": 2, "2": 2}
    assert (run.errors, run.notes, run.counts.in_flight) == ([], [], 0)


def test_what_another_process_has_stored_is_not_asked(tmp_path: Path) -> None:
    asked, store = requests(), ReplyStore.open(tmp_path)
    store.put(asked[0].parts.of_sample(0), Reply("[RESULT] 2 [END]")).result()
    outcomes = work(Noted(store), asked)
    assert texts(outcomes)[asked[0].keys[0]] == "[RESULT] 2 [END]"
    assert [outcomes[one.keys[0]].joined for one in asked] == [True, False, False]
    assert ASKED["0"] == 0


def test_a_budget_of_two_calls_answers_two(tmp_path: Path) -> None:
    options = Options(concurrency=1, max_calls=2)
    asked = requests()
    outcomes = work(Noted(ReplyStore.open(tmp_path), options, budget=Budget(options)), asked)
    assert texts(outcomes) == {asked[0].keys[0]: "[RESULT] 0 [END]", asked[1].keys[0]: "[RESULT] 1 [END]"}
    assert [outcome.failure.reason for outcome in outcomes.values() if outcome.failure] == ["budget"]
    assert ASKED.total() == 2


def test_a_stopped_run_asks_nothing(tmp_path: Path) -> None:
    asked = requests()
    outcomes = work(Noted(ReplyStore.open(tmp_path)), asked, stopped=True)
    assert {outcome.failure.reason for outcome in outcomes.values() if outcome.failure} == {"stopped"}
    assert (len(outcomes), ASKED.total()) == (3, 0)
