"""HTTP 403 and 404 in a long run: about single prompts, or about the judge."""

from __future__ import annotations

import random

from evalkit.engine.calls.retries_and_breaker import Breaker
from evalkit.engine.request import ProviderError

BLOCKED = ProviderError("forbidden", "blocked", status=403)


def failures_until_down(n_answered: int) -> int:
    breaker = Breaker()
    for _ in range(n_answered):
        breaker.succeeded()
    return next(n for n in range(1, 1000) if breaker.failed(BLOCKED, n))


def test_three_at_the_start_and_more_after_many_replies() -> None:
    assert [failures_until_down(n) for n in (0, 1, 9, 10, 100, 470, 100_000)] == [3, 3, 3, 4, 13, 50, 50]


def test_prompts_blocked_at_random_do_not_close_a_judge() -> None:
    """A tenth of the prompts is blocked: of 100 runs of 5000 prompts, few end, and those at their start."""
    draw, ended = random.Random(35), list[int]()
    for _ in range(100):
        breaker = Breaker()
        for prompt in range(5000):
            if draw.random() >= 0.1:
                breaker.succeeded()
            elif breaker.failed(BLOCKED, prompt):
                ended.append(prompt)
                break
    assert len(ended) <= 5
    assert max(ended, default=0) < 40


def test_one_prompt_again_and_again_does_not_close_a_judge() -> None:
    breaker = Breaker()
    assert not any(breaker.failed(BLOCKED, "the same") for _ in range(100))
