"""A service that generates nothing at first: each call is repeated before the judge is stopped; none waits forever."""

from __future__ import annotations

import json
import random
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from servers import judge_server
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.core.prompts_and_replies import Reply
from evalkit.engine.calls.retries_and_breaker import EMPTY, FirstReplies
from evalkit.errors import JudgeError

RUBRIC = rubric_of("r", {0: "poor", 1: "fair", 2: "good"}, "quality")
Step = dict[str, Any] | None


def reply(text: str, reason: str = "stop", n_tokens: int = 4) -> dict[str, Any]:
    choices = [{"index": 0, "message": {"content": text}, "finish_reason": reason}]
    return {"body": {"choices": choices, "usage": {"prompt_tokens": 9, "completion_tokens": n_tokens}}}


GOOD, CUT, NOTHING = reply('{"explanation": "", "score": 2}'), reply("the ans", "length"), reply("", n_tokens=0)
BUSY, DOWN = {"status": 429, "body": {}}, {"status": 503, "body": {}}
REFUSED = {"status": 400, "body": {"error": {"message": "temperature: not with this model"}}}


class Asked(Counter[str]):
    """Answers the n-th request on an item with `step(item, n)`, and counts the requests per item."""

    def __init__(self, step: Callable[[int, int], Step]) -> None:
        super().__init__()
        self.step = step

    def __call__(self, body: dict[str, Any]) -> Step:
        item = json.dumps(body["messages"]).partition("item<")[2].partition(">")[0]
        self[item] += 1
        return self.step(int(item), self[item])


def judged(asked: Asked, n: int, cache: Path, **options: Any) -> tuple[dict[str, int], list[str]]:
    """Why the rows have no score, and the warnings."""
    items = [{"item_id": str(number), "answer": f"item<{number}>"} for number in range(n)]
    options = {"samples": 1, "cache": cache, "progress": False, "concurrency": 1, "retries": 1} | options
    with judge_server(faults=asked) as server, warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        judge = ek.Judge("openai", "m", base_url=server.url, price=(1, 10), timeout_s=10)
        table = ek.judge(items, RUBRIC, judge, **options)
    return errors(table), [str(note.message) for note in notes]


def errors(table: pd.DataFrame) -> dict[str, int]:
    return table["error"].astype("str").fillna("scored").value_counts().to_dict()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalkit.engine.providers.waits.FIRST_WAIT_S", 0.02)


def test_each_empty_completion_is_repeated_before_the_judge_is_stopped(tmp_path: Path) -> None:
    asked = Asked(lambda item, n: NOTHING)
    rows, notes = judged(asked, 7, tmp_path)
    assert (rows, asked) == ({"empty": 5, "stopped": 2}, dict.fromkeys("01234", 2))
    assert ["its first 5 replies were all cut off or empty" in note for note in notes] == [True]


@pytest.mark.parametrize(("concurrency", "retries"), [(4, 2), (8, 1), (3, 0), (40, 3)])
def test_five_of_those_that_came_back_empty_are_repeated(tmp_path: Path, concurrency: int, retries: int) -> None:
    """All of the first wave is paid, but of their repetitions only those that decide."""
    asked = Asked(lambda item, n: NOTHING)
    rows, _ = judged(asked, 40, tmp_path, concurrency=concurrency, retries=retries)
    n_empty = rows.pop("empty")
    assert sum(rows.values()) == 40 - n_empty
    assert 5 <= n_empty < 5 + concurrency
    assert 5 <= len(asked) < 5 + concurrency
    assert sum(asked.values()) <= len(asked) + (5 if retries else 0) * retries


@pytest.mark.parametrize("concurrency", [1, 4, 32])
@pytest.mark.parametrize("first", [NOTHING, BUSY, DOWN])
def test_a_service_that_works_at_the_second_attempt_is_not_stopped(
    tmp_path: Path, concurrency: int, first: Step
) -> None:
    asked = Asked(lambda item, n: GOOD if n > 1 else first)
    rows, notes = judged(asked, 30, tmp_path, concurrency=concurrency, retries=2)
    assert (rows, sum(asked.values()), notes) == ({"scored": 30}, 60, [])


def test_an_empty_completion_that_is_repeated_may_still_refute_it(tmp_path: Path) -> None:
    """The first of nine calls is empty, then answered; the others are cut off meanwhile."""
    asked = Asked(lambda item, n: CUT if item else NOTHING if n == 1 else GOOD)
    rows, notes = judged(asked, 9, tmp_path, retries=2)
    assert (rows, notes) == ({"truncated": 8, "scored": 1}, [])


def test_five_cut_replies_need_not_wait_for_the_retries_of_a_failing_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalkit.engine.providers.waits.FIRST_WAIT_S", 3000.0)
    asked = Asked(lambda item, n: CUT if item else DOWN)
    rows, _ = judged(asked, 9, tmp_path, retries=2)
    assert (rows, sum(asked.values())) == ({"truncated": 5, "stopped": 4}, 6)


def test_four_empty_completions_stop_nothing(tmp_path: Path) -> None:
    assert judged(Asked(lambda item, n: NOTHING), 4, tmp_path) == ({"empty": 4}, [])


@pytest.mark.parametrize(
    ("limit", "reason", "n_requests"),
    [({"max_calls": 7}, "budget", 7), ({"budget_usd": 0.02}, "budget", 4), ({"max_seconds": 1}, "stopped", 15)],
)
def test_what_ends_a_run_meanwhile_ends_it(
    tmp_path: Path, limit: dict[str, Any], reason: str, n_requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call costs US$ .004 and may cost .0056; five calls are repeated twice, at most, within a second."""
    monkeypatch.setattr("evalkit.engine.providers.waits.FIRST_WAIT_S", 0.5)
    usage = NOTHING["body"]["usage"] | {"cost": 0.004}
    asked = Asked(lambda item, n: {"body": NOTHING["body"] | {"usage": usage}})
    rows, _ = judged(asked, 30, tmp_path, retries=5, **limit)
    assert rows == {reason: 30}
    assert sum(asked.values()) == n_requests or reason == "stopped"


def test_two_judges_of_one_service_do_not_wait_for_each_other(tmp_path: Path) -> None:
    asked = Asked(lambda item, n: NOTHING if n < 4 else GOOD)
    items = [{"item_id": str(number), "answer": f"item<{number}>"} for number in range(12)]
    with judge_server(faults=asked) as server:
        judges = [
            ek.Judge("openai", "m", name=name, base_url=server.url, temperature=temperature)
            for name, temperature in (("a", 0.0), ("b", 1.0))
        ]
        table = ek.judge(items, RUBRIC, judges, samples=1, cache=tmp_path, progress=False, concurrency=1, retries=3)
    assert errors(table) == {"scored": 24}


@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_answers_comes_to_an_end(tmp_path: Path, seed: int) -> None:
    """Each row has one outcome, and no item is asked more often than its attempts allow."""
    draw = random.Random(seed)
    kinds = [[NOTHING, CUT], [NOTHING, BUSY, DOWN], [NOTHING, NOTHING, CUT, BUSY, DOWN, REFUSED], [NOTHING, CUT, GOOD]]
    steps = kinds[seed % len(kinds)]
    asked = Asked(lambda item, n: draw.choice(steps))
    samples = draw.choice([1, 3])  # of three, this server answers one: the rest is requested singly
    options = {"concurrency": draw.choice([1, 2, 5, 30]), "retries": draw.choice([1, 2, 3]), "samples": samples}
    options |= draw.choice([{}, {"max_calls": 12}, {"requests_per_minute": 3000}])
    try:
        rows, _ = judged(asked, 25, tmp_path, **options)
    except JudgeError:
        return
    assert sum(rows.values()) == 25 * samples


@pytest.mark.parametrize(("n_of_one", "n_others"), [(8, 0), (8, 3), (5, 1), (40, 0)])
def test_empty_samples_of_one_prompt_alone_stop_no_judge(n_of_one: int, n_others: int) -> None:
    """All of them are repeated before a reply to another prompt decides; then nothing is repeated any more."""
    first, calls = FirstReplies(), [f"one {n}" for n in range(n_of_one)] + [f"other {n}" for n in range(n_others)]
    prompt = ek.build_prompt(RUBRIC, {"answer": "x"})
    first.sent.update(dict.fromkeys(calls, EMPTY))
    n_repeated, stopped = 0, None
    while stopped is None and (call := next(filter(first.begin_repeat, calls[n_repeated:]), None)) is not None:
        n_repeated += 1
        del first.sent[call]
        first.add(Reply(text="", finish_reason="stop"), "empty", call.partition(" ")[0])
        stopped = first.why_stop(prompt)
    assert n_repeated == n_of_one + min(1, n_others)
    assert (stopped is None) == (n_others == 0)
