"""Random slow servers: what is scored, requests per item, US$ shown and billed, against a bill counted at the server.

Each server is drawn from a seed: how many requests it works on at once, how long one takes, whether it drops a request
whose client has gone or works on it all the same, whether it is at a private address or a hosted one, how often and in
which form it refuses with HTTP 429, of which service tier its answers are, and how often they are cut, empty or never
come. A judge asks with evalkit's defaults, over HTTP on loopback.

Minutes pass in milliseconds: evalkit's loop, on which the server runs too, goes on to its next timer as soon as nothing
else is to be done (`fast_time`). So the figures hardly depend on how busy the machine is. For a hosted address, the
predicate of private addresses is replaced.

``python benchmarks/random_servers.py`` takes the servers of the seeds 0 to 29 (under a minute of CPU), and shows the
worst five; ``… random_servers.py 3 100`` takes 3 from seed 100 on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import selectors
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aiohttp import web

import evalkit as ek
from evalkit.engine.calls import rate_limits, workers
from evalkit.engine.calls.event_loop import LoopThread

TIMEOUT_S = 60.0
_GRACE_S = 0.004  # so long threads and sockets may take before the clock goes on
PRICE = (1.0, 10.0)
PROMPT_TOKENS, COMPLETION_TOKENS = 300, 50
LIMITS: dict[str, dict[str, str]] = {
    "none": {},
    "retry-after": {"retry-after": "0.3"},
    "milliseconds": {"retry-after-ms": "200"},
    "reset": {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "250ms"},
    "long reset of another limit": {
        "retry-after": "0.2", "x-ratelimit-remaining-tokens": "900", "x-ratelimit-reset-tokens": "7h12m",
    },
}  # fmt: skip
"""Forms of HTTP 429: the headers that say how long to wait."""
TIERS = {"none": 1.0, "default": 1.0, "flex": 0.5, "priority": 2.0}
"""Service tier of the answers -> what it costs, as a multiple of the standard price."""


class _Selector(selectors.DefaultSelector):
    """Waits a moment instead of until the next timer, and then sets the clock of `loop` to that."""

    loop: FastLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(min(timeout, _GRACE_S) if timeout else timeout)
        if not events and timeout:
            self.loop.ahead_s += timeout
        return events


class FastLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock goes on to the next timer as soon as nothing else is to be done."""

    def __init__(self) -> None:
        self.ahead_s, selector = 0.0, _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        """Seconds of the clock."""
        return super().time() + self.ahead_s


@contextmanager
def fast_time() -> Iterator[LoopThread]:
    """Within it, evalkit's calls are made on a `FastLoop`."""
    usual, LoopThread._instance = LoopThread._instance, None
    with mock.patch("asyncio.new_event_loop", FastLoop):
        thread = LoopThread.get()
    clock = SimpleNamespace(monotonic=thread.loop.time)
    try:
        with mock.patch.object(rate_limits, "time", clock), mock.patch.object(workers, "time", clock):
            yield thread
    finally:
        thread.close()
        LoopThread._instance = usual


@dataclass
class Server:
    """A server, and what it has seen and billed.

    Attributes
    ----------
    slots, seconds, spread
        Requests at a time; seconds for one of them, and by which share that differs.
    computes_on, hosted
        Whether it works on requests whose client has gone; whether its address is a hosted one.
    limited, limit, tier
        Share of requests refused with HTTP 429, the form of that; the service tier of its answers.
    cut, empty, hung
        Shares of the answers that are cut, that are empty, and of requests that are never answered.
    n_items, samples
        How much is judged.
    """

    seed: int
    slots: int
    seconds: float
    spread: float
    computes_on: bool
    hosted: bool
    limited: float = 0.0
    limit: str = "none"
    tier: str = "none"
    cut: float = 0.0
    empty: float = 0.0
    hung: float = 0.0
    n_items: int = 80
    samples: int = 1
    seen: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("requests", "usd_billed", "usd_empty"), 0))

    usd_of: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, seed: int) -> Server:
        """The server of a seed. A hosted one is slow at most as one that needs an eighth of the time limit."""
        draw = random.Random(seed)
        hosted = draw.random() < 0.3
        slots = draw.choice((1, 1, 2, 4, 4, 16))
        # twelve answers per slot within the time limit, as 5 s of 60 s; from four to forty
        seconds = TIMEOUT_S / draw.choice((8, 12, 20, 40) if hosted else (4, 6, 8, 12, 12, 20, 40))
        server = cls(seed, slots, seconds, draw.choice((0.02, 0.3, 0.6)), draw.random() < 0.5, hosted)
        server.n_items = min(150, round(20 * slots * TIMEOUT_S / (seconds * 12)) + 40)
        if draw.random() < 0.3:
            server.limited, server.limit = draw.choice((0.05, 0.2)), draw.choice(list(LIMITS))
        server.tier = draw.choice(list(TIERS)) if draw.random() < 0.3 else "none"
        if draw.random() < 0.3:
            server.cut, server.empty, server.hung = (draw.choice((0.0, 0.05)) for _ in range(3))
        return server

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Wait for a slot and answer."""
        await request.json()
        self.seen["requests"] += 1
        draw = random.Random(f"{self.seed} {self.seen['requests']}")
        if draw.random() < self.limited:
            error = {"error": {"message": "Rate limit reached for requests", "type": "requests", "code": "rate_limit"}}
            return web.json_response(error, status=429, headers=LIMITS[self.limit])
        if draw.random() < self.hung:
            await asyncio.sleep(3600)
        work = self._work(draw)
        reply = await (asyncio.shield(asyncio.ensure_future(work)) if self.computes_on else work)
        return web.json_response(reply)

    def _usd(self, n_tokens: int) -> float:
        return (PROMPT_TOKENS * PRICE[0] + n_tokens * PRICE[1]) / 1e6 * TIERS[self.tier]

    def usd_of_replies(self, texts: Iterable[Any]) -> float:
        """What these replies cost, by the numbers in them; empty ones cost their prompt."""
        numbers = [re.search("#([0-9]+)#", text) if isinstance(text, str) else None for text in texts]
        return sum(self._usd(0) if number is None else self.usd_of[int(number[1])] for number in numbers)

    async def _work(self, draw: random.Random) -> dict[str, Any]:
        async with self._free:
            await asyncio.sleep(self.seconds * draw.uniform(1 - self.spread, 1 + self.spread))
        kind = draw.choices(("cut", "empty", "good"), (self.cut, self.empty, 1 - self.cut - self.empty))[0]
        n_tokens = 0 if kind == "empty" else COMPLETION_TOKENS
        self.usd_of.append(self._usd(n_tokens))
        name = f"#{len(self.usd_of) - 1}#" if n_tokens else ""
        text = {"cut": f'{{"explanation": "{name} th', "good": f'{{"explanation": "{name}", "score": 2}}'}.get(kind, "")
        choice = {"index": 0, "finish_reason": "length" if kind == "cut" else "stop", "message": {"content": text}}
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": n_tokens}
        tier = {} if self.tier == "none" else {"service_tier": self.tier}
        self.seen["usd_billed"] += self.usd_of[-1]
        self.seen["usd_empty"] += 0.0 if n_tokens else self.usd_of[-1]
        return {"object": "chat.completion", "model": "m", "choices": [choice], "usage": usage, **tier}

    async def start(self) -> tuple[web.AppRunner, str]:
        """Start it on the running loop; what ends it, and its base URL."""
        self._free = asyncio.Semaphore(self.slots)
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.answer)
        runner = web.AppRunner(app, handler_cancellation=not self.computes_on, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner, f"http://127.0.0.1:{runner.addresses[0][1]}/v1"


def judged(server: Server, thread: LoopThread, **options: Any) -> dict[str, Any]:
    """The figures of one run with evalkit's defaults, beside those of the server; call it within `fast_time`."""
    items = [{"question": f"question {n}", "answer": "4", "reference": "4"} for n in range(server.n_items)]
    started = thread.loop.time()
    address = mock.patch.object(workers, "is_private", return_value=not server.hosted)
    runner, url = thread.submit(server.start()).result()
    with tempfile.TemporaryDirectory() as cache, address, warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        judge = ek.Judge("openai", f"server-{server.seed}", base_url=url, price=PRICE)
        options = {"samples": 1, "cache": cache, "progress": False, "replies": True} | options
        table = ek.judge(items, "correctness", judge, **options)
        ek.engine.ReplyStore.open(cache).close()
    took, seen = thread.loop.time() - started, dict(server.seen)
    thread.submit(runner.cleanup()).result()
    lost = table["error"].isin(["timeout", "rate_limited", "server_error", "judge_down", "stopped"])
    usd = table["cost_usd"]
    return asdict(server) | seen | {
        "scored": int(table["score"].notna().sum()), "lost": int(lost.sum()), "per_item": seen["requests"] / len(table),
        "usd_shown": float(usd.sum()), "usd_answered": server.usd_of_replies(table.loc[~lost, "reply"]),
        "n_unpriced": int(usd[~lost].isna().sum()), "minutes": took / 60,
        "notes": [str(note.message) for note in notes],
    }  # fmt: skip


def line(figures: dict[str, Any]) -> str:
    """One server in words."""
    kind = f"{figures['slots']} × {figures['seconds']:.2f} s, {'works on' if figures['computes_on'] else 'drops'}"
    kind += ", hosted" if figures["hosted"] else ""
    kind += f", 429 {figures['limited']:.0%} {figures['limit']}" if figures["limited"] else ""
    kind += f", tier {figures['tier']}" if figures["tier"] != "none" else ""
    kind += "".join(f", {name} {figures[name]:.0%}" for name in ("cut", "empty", "hung") if figures[name])
    unpriced = f" ({figures['n_unpriced']} NA)" if figures["n_unpriced"] else ""
    return (
        f"  seed {figures['seed']:>3}: {figures['scored']:>3} scored, {figures['lost']} lost of {figures['n_items']}, "
        f"{figures['per_item']:.2f} requests an item, US$ {figures['usd_shown']:.4f}{unpriced} shown, "
        f"{figures['usd_answered']:.4f} answered, {figures['usd_billed']:.4f} billed, {figures['minutes']:.1f} min "
        f"({kind})"
    )


def is_billed(figures: dict[str, Any]) -> bool:
    """Whether the cost of the answers that came is shown, or NA for those of a tier with a price of its own.

    Empty answers that were asked for again were paid for too.
    """
    if figures["n_unpriced"]:
        return TIERS[figures["tier"]] != 1.0 and figures["usd_shown"] == 0
    repeated_usd = figures["usd_shown"] - figures["usd_answered"]
    return -1e-6 < repeated_usd < figures["usd_empty"] + 1e-6


def main(n: int = 30, first: int = 0) -> int:
    """Judge by all servers; 1 if a reply was lost or asked for too often, or if another cost is shown."""
    logging.disable()
    with fast_time() as thread:
        all_figures = []
        for seed in range(first, first + n):
            all_figures.append(judged(Server.of(seed), thread))
            print(line(all_figures[-1]), flush=True)
    worst = sorted(all_figures, key=lambda row: (-row["lost"] / row["n_items"], -row["per_item"]))[:5]
    print("\nthe worst five:", *map(line, worst), sep="\n")
    n_lost, n_items = (sum(row[name] for row in all_figures) for name in ("lost", "n_items"))
    slow = [row for row in all_figures if not row["limited"] and not row["hung"] and not row["empty"]]
    most = {
        kind: max((row["per_item"] for row in slow if row["hosted"] is kind), default=0.0) for kind in (False, True)
    }
    other = [row["seed"] for row in all_figures if not is_billed(row)]
    print(
        f"\n{n_lost} of {n_items} replies lost; without HTTP 429, hung and empty answers at most {most[False]:.2f} "
        f"requests an item at a private address, {most[True]:.2f} at a hosted one"
    )
    print(f"US$ shown differ from those of the answers that came: seeds {other or 'none'}")
    return int(n_lost > 0 or most[False] > 1.8 or most[True] > 2.6 or bool(other))


if __name__ == "__main__":
    code = main(*(int(text) for text in sys.argv[1:3]))
    sys.stdout.flush()
    os._exit(code)  # what a server goes on with is not awaited
