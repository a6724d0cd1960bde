"""Short requests are sent over aiohttp's connections by a shorter way: it sees and says the same as aiohttp's own."""

from __future__ import annotations

import asyncio
import gzip
import random
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from socket import SO_LINGER, SOL_SOCKET
from typing import Any, TypeVar

import aiohttp
import pytest

from evalkit.engine.providers import transport
from evalkit.engine.providers.transport import Transport
from evalkit.engine.request import ProviderError
from evalkit.errors.secrets import Secret

T = TypeVar("T")
WAYS = ("short", "usual")
KEY = "sk-of-this-test-1234567890"
HEADERS = {"accept": "application/json", "accept-encoding": "gzip, deflate", "content-type": "application/json",
           "user-agent": "evalkit/test"}  # fmt: skip


@dataclass
class Step:
    """What the server does with one request: bytes in pieces, then `end`."""

    pieces: list[bytes]
    end: str  # keep, close, reset


@dataclass
class Server:
    """Does what the steps say, by the path of a request; remembers what it read."""

    steps: dict[str, list[Step]] = field(default_factory=dict)
    read: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    n_done: dict[str, int] = field(default_factory=dict)
    n_begun: int = 0
    n_ended: int = 0
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.n_begun += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                line, *rest = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
                headers = dict(sorted((name.lower(), value) for name, value in (one.split(": ", 1) for one in rest)))
                body = await reader.readexactly(int(headers.pop("content-length")))
                path = line.split()[1].removeprefix("/v1")
                self.read.setdefault(path, []).append((line.replace(path, ""), headers, body))
                self.steps.setdefault(path, [])
                step = self.steps[path].pop(0) if self.steps[path] else None
                try:
                    for piece in step.pieces if step else ():
                        writer.write(piece)
                        await writer.drain()
                        await asyncio.sleep(0)
                    if step and step.end == "reset":
                        writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
                    if step and step.end != "keep":
                        writer.close()
                        await writer.wait_closed()
                finally:
                    self.n_done[path] = self.n_done.get(path, 0) + 1
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self.n_ended += 1


def step_by_chance(chance: random.Random) -> Step:
    """An answer of any kind, well formed or not, in pieces."""
    pick = chance.choice
    body = chance.randbytes(pick([0, 1, 50, 3000])) + pick([b"", KEY.encode(), b"{}"])
    good, head = chance.random() < 0.5, []
    status = "200 OK" if good else pick(
        ["200 OK", "201 Made", "204 No Content", "304 Not Modified", "302 Found", "429 Slow", "500 Oops", "400 Bad",
         "999 Odd", "abc", "200", "101 Switching Protocols"])  # fmt: skip
    version = "HTTP/1.1" if good else pick(["HTTP/1.1"] * 4 + ["HTTP/1.0", "HTTP/2.0", "ICY", ""])
    encoding = pick(["", "", "", "gzip", "GZIP", "br", "cut"])
    if encoding:
        packed = gzip.compress(body) if encoding != "br" else body
        body = packed[: len(packed) // 2] if encoding == "cut" else packed
        head.append(f"Content-Encoding: {'gzip' if encoding == 'cut' else encoding}")
    head += [] if good else chance.sample(
        ["Set-Cookie: a=b; Path=/", "Location: http://127.0.0.1:9/", "Connection: close", f"X-Long: {'x' * 9000}",
         "No colon", "X-Odd: \x01", "Retry-After: 1", "Retry-After: 2", "Content-Type: text/html", ": empty"],
        pick([0, 1, 1, 2]))  # fmt: skip
    framing = pick(["length", "chunked"]) if good else pick(
        ["length", "chunked", "none", "more", "less", "negative", "both", "chunk cut", "chunk bad"])  # fmt: skip
    wire = body
    if framing in ("length", "more", "less", "negative", "both"):
        n = {"more": len(body) + 5, "less": max(0, len(body) - 5), "negative": -1}.get(framing, len(body))
        head.append(f"Content-Length: {n}")
    if framing in ("chunked", "both", "chunk cut", "chunk bad"):
        head.append("Transfer-Encoding: chunked")
        at = len(body) // 2
        wire = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:at], body[at:]) if part) + b"0\r\n\r\n"
        wire = {"chunk cut": wire[: len(wire) // 2], "chunk bad": b"zz\r\n" + wire}.get(framing, wire)
    first = (
        b"" if good else pick([b""] * 5 + [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n"])
    )
    sent = first + "\r\n".join([f"{version} {status}".strip(), *head, "", ""]).encode("latin-1") + wire
    sent = sent if good or chance.random() < 0.9 else sent[: chance.randint(0, len(sent))]
    cuts = sorted(chance.sample(range(len(sent) + 1), min(len(sent), pick([0, 1, 3]))))
    pieces = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True) if a < b]
    # what does not end by itself is ended, or each such answer would last until the time is up
    ends = ["keep"] if good else ["close", "close", "reset"]
    return Step(pieces, pick(ends) if chance.random() < 0.99 else "keep")


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until it is so; what never comes fails the test, rather than hang it."""
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110  # counters of a server in the same loop
            await asyncio.sleep(0.005)


async def outcomes(server: Server, path: str, steps: list[Step], *, is_short: bool) -> list[Any]:
    """What a client gets for each of the steps, one request after the other."""
    read_as = f"{path}&api-version=1"
    server.steps[read_as] = list(steps)
    client, seen = Transport(f"{server.url}/v1?api-version=1"), list[Any]()
    for number in range(len(steps)):
        body = b"%3d" % number * (100 if is_short else 20_000)
        try:
            answer = await client.send(
                path, HEADERS, body, key=Secret(KEY), own={"x-team": Secret("judges")}, timeout_s=8
            )
        except ProviderError as problem:
            seen.append((problem.kind, problem.detail.replace(path, ""), problem.maybe_paid, problem.status))
        else:
            seen.append((answer.status, [*answer.headers.items()], answer.content, answer.origin))
        await until(lambda: server.n_done.get(read_as, 0) == len(seen))  # an end comes before the next request
        await asyncio.sleep(0.02)
    await client.aclose()
    return seen


def served(test: Callable[[Server], Coroutine[Any, Any, T]]) -> T:
    """What the test returns, with a server in its loop."""

    async def run() -> T:
        server = Server()
        async with asyncio.timeout(300), await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
            server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
            result = await test(server)
            await until(lambda: server.n_ended == server.n_begun)
            return result

    return asyncio.run(run())


@pytest.fixture
def short_paths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the requests that are sent the shorter way."""
    paths: list[str] = []
    usual = Transport._post

    async def counted(self: Transport, url: Any, *args: Any) -> Any:
        paths.append(url.raw_path_qs)
        return await usual(self, url, *args)

    monkeypatch.setattr(Transport, "_post", counted)
    return paths


def test_any_answer_is_read_as_aiohttp_reads_it(short_paths: list[str]) -> None:
    chance = random.Random(45)
    cases = [[step_by_chance(chance) for _ in range(4)] for _ in range(300)]

    async def compare(server: Server) -> list[tuple[Any, ...]]:
        room = asyncio.Semaphore(20)

        async def both(number: int, steps: list[Step]) -> tuple[Any, ...]:
            async with room:
                short = await outcomes(server, f"/short/{number}?a=1", steps, is_short=True)
                usual = await outcomes(server, f"/usual/{number}?a=1", steps, is_short=False)
                return steps, short, usual, *(server.read[f"/{way}/{number}?a=1&api-version=1"] for way in WAYS)

        return await asyncio.gather(*(both(number, steps) for number, steps in enumerate(cases)))

    kinds = set()
    for steps, short, usual, read_short, read_usual in served(compare):
        assert short == usual, steps
        kinds |= {one[0] for one in short}
        # the usual way uses no connection again
        closing = [(line, headers | {"connection": "close"}, body * 200) for line, headers, body in read_short]
        assert closing == read_usual
    assert {200, 204, 429, 500, "connection", "malformed", "timeout"} <= kinds
    assert len(short_paths) == 4 * len(cases)
    assert all("/short/" in path for path in short_paths)


def test_a_call_that_is_stopped_or_too_late_ends_its_connection(short_paths: list[str]) -> None:
    async def stop(server: Server) -> int:
        client = Transport(f"{server.url}/v1")
        call = asyncio.ensure_future(client.send("/late", HEADERS, b"{}", timeout_s=60))
        await until(lambda: bool(server.n_done))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        with pytest.raises(ProviderError, match=r"no answer from http://127\.0\.0\.1:\d+ in 2 s") as late:
            await client.send("/late", HEADERS, b"{}", timeout_s=2)
        assert (late.value.kind, late.value.maybe_paid) == ("timeout", True)
        await until(lambda: server.n_ended == 2)
        await client.aclose()
        return len(short_paths)

    assert served(stop) == 2


def test_who_replaces_aiohttps_way_to_send_gets_the_requests(
    monkeypatch: pytest.MonkeyPatch, short_paths: list[str]
) -> None:
    """As libraries do that answer calls in tests, that record answers, or trace requests; so does a newer aiohttp."""

    def replaced(*_: Any, **__: Any) -> Any:
        raise aiohttp.ClientError("of the library that replaces it")

    async def send(server: Server, at: str = "") -> str:
        server.steps["/x"] = [Step([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"], "keep")]
        client = Transport(f"{server.url.replace('//', f'//{at}')}/v1")
        try:
            return (await client.send("/x", HEADERS, b"{}", timeout_s=10)).content.decode()
        except ProviderError as problem:
            return problem.detail
        finally:
            await client.aclose()

    async def with_name(server: Server) -> str:
        return await send(server, "me:word@") + str(server.read["/x"][0][1]["authorization"])

    async def expecting(server: Server) -> str:
        client = Transport(server.url)
        with pytest.raises(ProviderError) as problem:  # this server never says 100 Continue
            await client.send("/x", HEADERS | {"Expect": "100-continue"}, b"{}", timeout_s=1)
        await client.aclose()
        return problem.value.kind

    usual = aiohttp.ClientSession.__init__
    for name in ("request", "_request"):
        with monkeypatch.context() as patch:
            patch.setattr(aiohttp.ClientSession, name, replaced)
            assert "of the library that replaces it" in served(send)
    traced: list[str] = []
    config = aiohttp.TraceConfig()

    async def note(*_: Any) -> None:
        traced.append("seen")

    config.on_request_start.append(note)
    with monkeypatch.context() as patch:
        patch.setattr(
            aiohttp.ClientSession, "__init__", lambda self, **given: usual(self, trace_configs=[config], **given)
        )
        assert (served(send), traced) == ("hi", ["seen"])
    assert served(with_name) == "hiBasic bWU6d29yZA=="
    with monkeypatch.context() as patch:
        patch.setattr(transport, "_MINOR", ["3", "15"])
        assert served(send) == "hi"
    assert served(expecting) == "timeout"
    assert short_paths == []
    assert served(send) == "hi"
    assert short_paths == ["/v1/x"]


def test_a_header_that_holds_a_line_break_is_not_sent() -> None:
    async def send(server: Server) -> int:
        client = Transport(server.url)
        for body in (b"{}", b"{}" * 20_000):
            with pytest.raises(ValueError, match="header"):
                await client.send("/x", HEADERS, body, own={"x-team": Secret("a\r\nx-other: b")}, timeout_s=10)
        await client.aclose()
        return len(server.read)

    assert served(send) == 0
