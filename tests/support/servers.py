"""A small OpenAI-compatible server on loopback, in a thread of its own, that does what a test scripts."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiohttp import web


class Listener:
    """A bare server on loopback: `serve` gets each connection, in a thread of its own."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        raise NotImplementedError


@dataclass
class Seen:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float
    query: str = ""


@dataclass
class JudgeServer:
    """Answers with the number in ``ITEM-<number>`` of the prompt, or with what `script` holds next.

    `script` holds dicts: `status`, `headers`, `body` (bytes, or JSON), `content`, `finish_reason`, `refusal`,
    `choices` (how many), `tells` (more fields of the answer), `reset`, `raw` (bytes, after which the connection is
    closed), `hang` (seconds), `delay` (seconds), `until` (an event that is waited for). `always` is used when `script`
    is empty.
    `refuses` are parameters that bring a 400. `faults` is asked for each request: a step, or None. With `tls`, a
    certificate and its key, it speaks HTTPS. `models` are listed at ``/v1/models``. At ``/v1/messages`` it answers in
    Anthropic's form, with `blocks`, `stop_details` and `usage` of the step.
    """

    script: deque[dict[str, Any]] = field(default_factory=deque)
    always: dict[str, Any] = field(default_factory=dict)
    refuses: tuple[str, ...] = ()
    proxied: bool = False
    faults: Callable[[dict[str, Any]], dict[str, Any] | None] | None = None
    tls: tuple[Path, Path] | None = None
    models: list[str] | None = None
    seen: list[Seen] = field(default_factory=list)
    paid: list[str] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.seen.append(Seen(request.path, dict(request.headers), body, time.monotonic(), request.query_string))
        step = self.always | (self.script.popleft() if self.script else {})
        if self.faults is not None:
            step |= self.faults(body) or {}
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._answer(request, body, step)
        finally:
            self.in_flight -= 1

    async def _answer(self, request: web.Request, body: dict[str, Any], step: dict[str, Any]) -> web.StreamResponse:
        if step.get("delay"):
            await asyncio.sleep(step["delay"])
        if "until" in step:
            await asyncio.to_thread(step["until"].wait, 600)
        if step.get("hang"):
            await asyncio.sleep(step["hang"])
        if step.get("reset"):
            request.transport.abort()
            return web.Response()
        if "raw" in step:
            request.transport.write(step["raw"])
            request.transport.close()
            return web.Response()
        native = request.path.endswith("/messages")
        for name in self.refuses:
            if name in body:
                return web.json_response(native_refusal_of(name) if native else refusal_of(name), status=400)
        if "status" in step or "body" in step:
            given = step.get("body", {"error": {"message": f"scripted {step.get('status')}"}})
            raw = given if isinstance(given, bytes) else json.dumps(given).encode()
            return web.Response(status=step.get("status", 200), body=raw, headers=step.get("headers"))
        return web.json_response(self.message(body, step) if native else self.completion(body, step))

    async def list_models(self, request: web.Request) -> web.StreamResponse:
        if self.models is None:
            raise web.HTTPNotFound
        return web.json_response({"object": "list", "data": [{"id": name} for name in self.models]})

    def completion(self, body: dict[str, Any], step: dict[str, Any]) -> dict[str, Any]:
        text = str(body["messages"][-1]["content"])
        item = re.search(r"ITEM-(\d+)", text)
        self.paid.append(item[0] if item else "")
        n = min(body.get("n", 1), step.get("choices", 100))
        message = {"role": "assistant", "content": step.get("content", item[1] if item else "?")}
        if "refusal" in step:
            message["refusal"] = step["refusal"]
        return {
            "model": body["model"] + "-2026",
            "choices": [
                {"index": i, "message": message, "finish_reason": step.get("finish_reason", "stop")} for i in range(n)
            ],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10 * n + 1, "total_tokens": 101 + 10 * n},
            **step.get("tells", {}),
        }

    def message(self, body: dict[str, Any], step: dict[str, Any]) -> dict[str, Any]:
        """As Anthropic's Messages API answers."""
        completion = self.completion(body, step)
        choice = completion["choices"][0]
        reason = {"stop": "end_turn"}.get(choice["finish_reason"], choice["finish_reason"])
        return {
            "id": f"msg_{len(self.seen)}",
            "type": "message",
            "role": "assistant",
            "model": completion["model"],
            "content": step.get("blocks", [{"type": "text", "text": choice["message"]["content"]}]),
            "stop_reason": reason,
            "stop_details": step.get("stop_details"),
            "usage": {"input_tokens": 100, "output_tokens": 11} | step.get("usage", {}),
        }


def native_refusal_of(name: str) -> dict[str, Any]:
    said = {"type": "invalid_request_error", "message": f"{name}: Extra inputs are not permitted"}
    return {"type": "error", "error": said, "request_id": "req_1"}


def refusal_of(name: str) -> dict[str, Any]:
    said = f"Unsupported parameter: '{name}' is not supported with this model."
    if name == "max_tokens":
        said += " Use 'max_completion_tokens' instead."
    return {"error": {"message": said, "type": "invalid_request_error", "param": name, "code": "unsupported_parameter"}}


def wait_for(server: JudgeServer, n: int) -> None:
    """Wait until n requests have come."""
    deadline = time.monotonic() + 300
    while len(server.seen) < n:
        assert time.monotonic() < deadline, f"only {len(server.seen)} requests came"
        time.sleep(0.01)


@contextmanager
def judge_server(**options: Any) -> Iterator[JudgeServer]:
    """A running server; `url` is its base URL."""
    server = JudgeServer(**options)
    loop = asyncio.new_event_loop()
    ready = threading.Event()

    async def start() -> web.AppRunner:
        app = web.Application()
        for path in ("/{path:.*}",) if server.proxied else ("/v1/chat/completions", "/v1/messages"):
            app.router.add_post(path, server.answer)
        if not server.proxied:
            app.router.add_get("/v1/models", server.list_models)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        context = None
        if server.tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(*server.tls)
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        assert runner.addresses
        server.url = f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}/v1"
        return runner

    def main() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(start())
        loop.call_soon(ready.set)  # not before: a stop that comes earlier would be lost
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()

    thread = threading.Thread(target=main, daemon=True)
    thread.start()
    assert ready.wait(300)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(300)
