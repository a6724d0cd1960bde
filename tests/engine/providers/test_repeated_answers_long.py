"""Answers that a server or proxy repeats on an open connection are not taken for those to later requests."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from evalkit.engine.providers.transport import Transport
from evalkit.engine.request import ProviderError

HEADERS = {"accept": "application/json", "content-type": "application/json"}


class RepeatingServer:
    """Answers each request with its own text, then sends some answers again: late, cut, with a wrong length."""

    def __init__(self, *, share: float, seed: int, ids: str = "own") -> None:
        self.chance, self.share, self.ids = random.Random(seed), share, ids
        self.n_requests = self.n_repeated = self.n_connections = 0
        self.url = ""

    def answer(self, request: bytes) -> bytes:
        """The whole answer to one request, as bytes."""
        self.n_requests += 1
        name = {"own": {"id": f"answer-{self.n_requests}"}, "one": {"id": "answer-0"}, "none": {}}[self.ids]
        body = json.dumps({**name, "text": json.loads(request)["question"]}).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    def copy_of(self, answer: bytes) -> bytes:
        """The answer again, or a part of it."""
        head, _, body = answer.partition(b"\r\n\r\n")
        kind = self.chance.choice(["whole", "whole", "whole", "short", "long", "cut", "error"])
        length = {"short": len(body) - 4, "long": len(body) + 9}.get(kind, len(body))
        if kind == "error":
            return b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"
        if kind == "cut":
            body = body[: self.chance.randrange(len(body))]
            length = len(body)
        return head.rpartition(b" ")[0] + b" %d\r\n\r\n%s" % (length, body)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until the client closes it."""
        self.n_connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.partition("content-length: ")[2].split("\r\n")[0])
                answer = self.answer(await reader.readexactly(length))
                await asyncio.sleep(self.chance.choice([0, 0, 0.003]))
                writer.write(answer)
                await writer.drain()
                if self.share and (self.chance.random() < self.share or self.n_requests == 20):  # always at least one
                    await asyncio.sleep(self.chance.choice([0, 0.001, 0.05]) * self.chance.random())
                    self.n_repeated += 1
                    writer.write(self.copy_of(answer))
                    if self.chance.random() < 0.1:
                        break
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def ask(client: Transport, question: str, outcomes: Counter[str]) -> None:
    """One request, sent again after an error as the engine does."""
    for _ in range(20):
        try:
            answer = await client.send(
                "/chat/completions", HEADERS, json.dumps({"question": question}).encode(), timeout_s=30
            )
            text = json.loads(answer.content)["text"] if answer.status == 200 else None
        except (ProviderError, ValueError, KeyError):
            outcomes["asked again"] += 1
            continue
        if text is not None:
            outcomes["right" if text == question else "wrong"] += 1
            return
    outcomes["lost"] += 1


async def outcomes_of(server: RepeatingServer, n: int, in_flight: int, *, tls: Any = None) -> Counter[str]:
    """How many of n requests got their own answer, another one's, or none."""
    outcomes: Counter[str] = Counter()
    async with asyncio.timeout(240), await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls) as listening:
        port = listening.sockets[0].getsockname()[1]
        client, room = Transport(f"http{'s' if tls else ''}://127.0.0.1:{port}/v1"), asyncio.Semaphore(in_flight)

        async def one(number: int) -> None:
            async with room:
                await ask(client, f"question {number}", outcomes)

        await asyncio.gather(*(one(number) for number in range(n)))
        await client.aclose()
    return outcomes


@pytest.mark.parametrize("in_flight", [1, 16, 64])
def test_no_answer_is_taken_for_that_to_another_request(in_flight: int) -> None:
    n_repeated = 0  # of all seeds: a server whose connections all close early repeats nothing
    for seed in range(8):  # each begins with connections that are kept open
        server = RepeatingServer(share=0.02, seed=seed)
        outcomes = asyncio.run(outcomes_of(server, 250, in_flight))
        assert (outcomes["right"], outcomes["wrong"], outcomes["lost"]) == (250, 0, 0)
        n_repeated += server.n_repeated
    assert n_repeated > 0


def test_the_same_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(files[0]), "-out", str(files[1])],
        check=True, capture_output=True,
    )  # fmt: skip
    monkeypatch.setenv("SSL_CERT_FILE", str(files[1]))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files[1], files[0])
    server = RepeatingServer(share=0.02, seed=3)
    outcomes = asyncio.run(outcomes_of(server, 300, 32, tls=context))
    assert (outcomes["right"], outcomes["wrong"]) == (300, 0)
    assert server.n_repeated > 0


def test_connections_of_a_server_that_repeats_nothing_are_used_again_whatever_its_ids() -> None:
    for ids, most in (("own", 16), ("none", 16)):
        server = RepeatingServer(share=0.0, seed=1, ids=ids)
        outcomes = asyncio.run(outcomes_of(server, 200, 16))
        assert (outcomes["right"], outcomes["asked again"]) == (200, 0)
        assert server.n_connections <= most


def test_a_server_with_one_id_for_all_answers_is_asked_again_once() -> None:
    server = RepeatingServer(share=0.0, seed=1, ids="one")
    outcomes = asyncio.run(outcomes_of(server, 60, 1))
    assert outcomes == {"right": 60, "asked again": 1}
    assert server.n_requests == 61


def test_equal_requests_may_get_one_answer_but_not_the_next_one() -> None:
    """Samples of one item are equal requests: a repeated answer is one to them too, but what follows it is not."""
    server, outcomes = RepeatingServer(share=0.3, seed=5), Counter[str]()

    async def run() -> None:
        async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
            client = Transport(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1")
            for number in range(60):
                await ask(client, f"question {number // 3}", outcomes)
            await client.aclose()

    asyncio.run(run())
    assert (outcomes["right"], outcomes["wrong"]) == (60, 0)
