"""Odd answers to the clients of other libraries cost one reply, and little memory: `anthropic`, `litellm`."""

from __future__ import annotations

import contextlib
import json
import socket
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odd_answers import bomb, deep
from servers import Listener

import evalkit as ek

pytest.importorskip("anthropic")
TEXT = '{"explanation": "cut ?", "score": 1}'
ITEMS = [{"item_id": str(at), "question": f"q{at}", "answer": "4", "reference": "4"} for at in range(3)]


class Server(Listener):
    """Answers each request with the same bytes; every third one is odd."""

    def __init__(self) -> None:
        self.odd = self.good = self.head = b""
        self.n = 0
        super().__init__()

    def serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            head = b"".join(iter(lines.readline, b"\r\n"))
            size = next(
                int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-le")
            )
            lines.read(size)
            self.n += 1
            is_odd = self.n % 3 == 1
            first, body = (self.head, self.odd) if is_odd and self.odd else (b"HTTP/1.1 200 OK\r\n", self.good)
            rest = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            with contextlib.suppress(ConnectionError):  # a client may hang up on an answer that it does not read
                connection.sendall(first + rest.encode() + body)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


def message(text: str = TEXT, more: str = "") -> bytes:
    """An answer of Anthropic's form; `more` is JSON text of further fields."""
    content = json.dumps([{"type": "text", "text": text}])
    usage = '{"input_tokens": 5, "output_tokens": 5}'
    fields = f'"type": "message", "role": "assistant", "model": "m", "content": {content}, "stop_reason": "end_turn"'
    return f'{{{fields}{more}, "usage": {usage}}}'.encode()


def judged(server: Server, cache: Path, provider: str = "anthropic") -> Any:
    fields: Any = {"model": "m"} if provider == "anthropic" else {"model": "anthropic/m"}
    judge = ek.Judge(provider, fields["model"], base_url=server.url, api_key_env="ODD_KEY", timeout_s=20)
    return ek.judge(ITEMS, "correctness", judge, samples=1, cache=cache, progress=False, retries=0, concurrency=1)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD_KEY", "sk-ant-of-this-test-0123")


@pytest.mark.parametrize(
    ("odd", "n_scored"),
    [
        (message(TEXT.replace("?", "\ud83d")), 3),
        (message(more=f', "more": {deep(300)}'), 3),
        (message().replace(b'"m"', deep(300).encode()), 3),
        (message(more=f', "more": {deep(50_000)}'), 2),
        (message().replace(json.dumps(TEXT).encode(), deep(300).encode()), 2),
    ],
    ids=["half of a pair", "deep beside", "deep model", "too deep", "deep text"],
)
def test_an_odd_answer_costs_one_reply(server: Server, tmp_path: Path, odd: bytes, n_scored: int) -> None:
    server.odd, server.good, server.head = odd, message(), b"HTTP/1.1 200 OK\r\n"
    assert judged(server, tmp_path)["score"].notna().sum() == n_scored
    assert server.n == 3


@pytest.mark.parametrize("status", ["200 OK", "500 No", "400 Bad Request", "307 Elsewhere"])
@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "br", "zstd"])
def test_a_small_answer_takes_little_memory(server: Server, tmp_path: Path, status: str, encoding: str) -> None:
    server.odd, server.good = bomb(1 << 31), message()
    server.head = f"HTTP/1.1 {status}\r\ncontent-encoding: {encoding}\r\n".encode()
    tracemalloc.start()
    table = judged(server, tmp_path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert table["score"].notna().sum() == 2
    assert most < 200e6
