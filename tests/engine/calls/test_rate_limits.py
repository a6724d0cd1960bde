"""How many calls may be in flight, after answers and failures."""

from __future__ import annotations

import math
from typing import Any

import pytest

from evalkit.core.judge_field_checks import is_private
from evalkit.core.settings import Options
from evalkit.engine.calls.rate_limits import RateLimiter
from evalkit.errors import ConfigError


def test_a_slow_start_grows_by_one_per_answer_until_an_answer_is_slow() -> None:
    limiter = RateLimiter()
    limiter.begin(slowly=True)
    assert limiter.most == 8
    for _ in range(4):
        limiter.succeeded()
    assert limiter.most == 12
    limiter.succeeded(slowly=True)
    limiter.succeeded()
    assert limiter.most == pytest.approx(12 + 1 / 12 + 1 / (12 + 1 / 12))


def test_a_slow_start_is_for_a_server_of_which_nothing_is_known() -> None:
    limiter = RateLimiter()
    limiter.succeeded()
    limiter.begin(slowly=True)
    assert limiter.most == math.inf
    limiter.lower(3, limiter.epoch)
    limiter.begin(slowly=False)  # a number that was given is no reason to forget what failures taught
    assert limiter.most == 3


def test_failures_of_one_epoch_lower_the_limit_once_and_never_below_one() -> None:
    limiter, epoch = RateLimiter(), 0
    for _ in range(5):
        limiter.lower(6, epoch)
    assert limiter.most == 6
    limiter.lower(40, limiter.epoch)  # no reason to raise it
    assert limiter.most == 6
    limiter.lower(0.0, limiter.epoch)
    assert (limiter.most, limiter.epoch) == (1, 3)


PRIVATE = (
    "localhost:11434", "127.0.0.1:8000", "127.1.2.3", "0.0.0.0:8080", "[::1]:1234", "10.1.2.3", "172.20.0.5:8000",
    "192.168.1.9:1234", "169.254.7.7", "100.101.102.103", "[fd12::7]:8000", "[fe80::1]", "ollama:11434",
    "host.docker.internal:11434", "gpu-box.local", "llm.home.arpa", "api.localhost",
)  # fmt: skip
PUBLIC = (
    "api.openai.com", "openrouter.ai", "llm.example.org:8000", "8.8.8.8", "172.32.0.1", "[2606:4700::1111]",
    "localhost.example.com", "local.ai", "internal.company.com", "10.example.net",
)  # fmt: skip


@pytest.mark.parametrize(("hosts", "private"), [(PRIVATE, True), (PUBLIC, False)])
def test_which_addresses_are_private(hosts: tuple[str, ...], private: bool) -> None:
    assert {host: is_private(f"http://{host}/v1") for host in hosts} == dict.fromkeys(hosts, private)


WRONG: dict[str, tuple[Any, ...]] = {
    "concurrency": (0, -1, 2.5, "8"), "retries": (-1, 1.5), "max_calls": (-1,), "budget_usd": (math.nan,),
    "requests_per_minute": (0,),
}  # fmt: skip


def test_limits_out_of_range_are_refused() -> None:
    assert Options().concurrency is None
    for name, values in WRONG.items():
        for wrong in values:
            with pytest.raises(ConfigError, match=f"{name}.*must be a"):
                Options(**{name: wrong})
