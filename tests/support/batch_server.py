"""A loopback server with files, batches and live calls of OpenAI's form, with faults and a clock that can be moved.

It answers a prompt always the same way, and counts the replies that it bills per prompt.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from aiohttp import web

PROMPT_TOKENS, COMPLETION_TOKENS = 100, 10


class BatchServer:
    """The state of the server; tests read and change it directly.

    Attributes
    ----------
    url
        Its base URL.
    offset_s
        How far its clock is ahead.
    takes_s
        How long a batch takes, by its clock.
    delay_s
        How long each answer takes.
    hides_metadata
        Whether batches are listed without their metadata.
    listed_after_s
        How long a new batch is missing in the list.
    faults
        Fault -> how many more times it happens.
    statuses
        Path prefix -> statuses of the next requests to it.
    refused
        Models that no batch may name.
    billed
        (model, messages as JSON) -> replies that were billed.
    live_calls, hold
        Live calls, and whether they get no answer for now.
    seen
        All requests as (method, path).
    """

    def __init__(self) -> None:
        self.url = ""
        self.hides_metadata = False
        self.offset_s = self.takes_s = self.delay_s = self.listed_after_s = 0.0
        self.faults: Counter[str] = Counter()
        self.statuses: dict[str, list[int]] = {}
        self.refused: set[str] = set()
        self.refuses_parameter = ""
        self.billed: Counter[tuple[str, str]] = Counter()
        self.live_calls, self.hold = 0, False
        self.seen: list[tuple[str, str]] = []
        self.reply: Any = ""  # the text of all replies, if it is given; or a function from the last message to it
        self.files: dict[str, tuple[str, str, bytes]] = {}  # id -> purpose, name, content
        self.batches: dict[str, dict[str, Any]] = {}
        self._n = 0

    # --- what it does

    def now(self) -> float:
        return time.time() + self.offset_s

    def has(self, fault: str) -> bool:
        if self.faults[fault] <= 0:
            return False
        self.faults[fault] -= 1
        return True

    def new_id(self, kind: str) -> str:
        self._n += 1
        return f"{kind}{self._n:06d}"

    def never_used(self) -> list[str]:
        """Uploaded files that no batch names."""
        used = {batch["input_file_id"] for batch in self.batches.values()}
        return [name for name, (purpose, _, _) in self.files.items() if purpose == "batch" and name not in used]

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body for a chat completion; billed if it is good."""
        prompt = json.dumps(body["messages"])
        if self.refuses_parameter and self.refuses_parameter in body:
            name = self.refuses_parameter
            return 400, {"error": {"message": f"Unsupported parameter: '{name}' is not supported with this model.",
                                   "code": "unsupported_parameter", "param": name}}  # fmt: skip
        if "REFUSE THIS" in prompt:
            return 400, {"error": {"message": "the prompt is against the rules", "code": "content_policy_violation"}}
        n = body.get("n", 1)
        self.billed[body["model"], prompt] += n
        text = json.dumps({"explanation": "as it is", "score": sum(prompt.encode()) % 3})
        if self.reply:
            text = self.reply(body["messages"][-1]["content"]) if callable(self.reply) else self.reply
        if "WITHOUT A VERDICT" in prompt:
            text = "who knows"
        choices = [
            {"index": at, "finish_reason": "stop", "message": {"role": "assistant", "content": text}} for at in range(n)
        ]
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": n * COMPLETION_TOKENS, "total_tokens": 0}
        return 200, {
            "id": self.new_id("chatcmpl_"),
            "object": "chat.completion",
            "model": body["model"],
            "choices": choices,
            "usage": usage,
        }

    def problems(self, file: str) -> list[dict[str, Any]]:
        """What is wrong with a file of requests."""
        ids, models, problems = set(), set(), []
        content = self.files[file][2]
        if len(content) > 200_000_000:
            problems.append({"code": "file_too_large", "message": "200 MB are allowed"})
        lines = content.splitlines()
        if not 0 < len(lines) <= 50_000:
            problems.append({"code": "too_many_tasks", "message": f"{len(lines)} requests"})
        for number, line in enumerate(lines, 1):
            asked = json.loads(line)
            if asked["custom_id"] in ids or asked["url"] != "/v1/chat/completions" or asked["method"] != "POST":
                problems.append(
                    {"code": "invalid_request", "message": "custom_id twice, or another url", "line": number}
                )
            ids.add(asked["custom_id"])
            models.add(asked["body"]["model"])
        if len(models) > 1:
            problems.append({"code": "mismatched_model", "message": f"several models: {sorted(models)}"})
        if models & self.refused:
            problems.append({"code": "model_not_found", "message": "there are no batches of this model"})
        return problems

    def progress(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Move a batch on, as far as the clock says."""
        if batch["status"] == "validating":
            problems = self.problems(batch["input_file_id"])
            if self.has("fail_created"):
                problems.append({"code": "internal", "message": "it failed right after it was created"})
            batch["status"] = "failed" if problems else "in_progress"
            batch["errors"] = {"object": "list", "data": problems} if problems else None
        is_due = self.now() >= batch["due"] and not batch["stuck"]
        if batch["status"] == "in_progress" and is_due:
            self.finish(batch, "completed")
        elif batch["status"] == "cancelling":
            batch["polls"] += 1
            if batch["polls"] > 2:
                self.finish(batch, "cancelled", share=0.5)
        elif batch["hidden"] > 0:
            batch["hidden"] -= 1
            if batch["hidden"] == 0:
                batch["output_file_id"], batch["error_file_id"] = batch["later"]
        return {
            name: value for name, value in batch.items() if name not in ("due", "stuck", "polls", "hidden", "later")
        }

    def finish(self, batch: dict[str, Any], status: str, share: float = 1.0) -> None:
        """Answer the requests (a share of them), and write the files of results."""
        asked = [json.loads(line) for line in self.files[batch["input_file_id"]][2].splitlines()]
        if status == "completed" and self.has("expire_half"):
            status, share = "expired", 0.5
        n_done, fails = round(share * len(asked)), self.has("error_file")
        good, bad = [], []
        for number, request in enumerate(asked):
            line = {"id": self.new_id("batch_req_"), "custom_id": request["custom_id"], "error": None}
            if number >= n_done:
                line |= {
                    "response": None,
                    "error": {"code": f"batch_{status}", "message": "This request was not processed."},
                }
                bad.append(line)
                continue
            code, body = (
                (500, {"error": {"message": "try again"}})
                if fails and number % 7 == 3
                else self.answer(request["body"])
            )
            line["response"] = {"status_code": code, "request_id": "r", "body": body}
            (good if code == 200 else bad).append(line)
        if self.has("shuffle"):
            random.Random(5).shuffle(good)
        if self.has("duplicate_lines"):
            good += good[:3]
        files: list[str | None] = []
        for lines in (good, bad):
            if lines:
                files.append(self.new_id("file-out"))
                content = "".join(json.dumps(line) + "\n" for line in lines).encode()
                self.files[str(files[-1])] = "batch_output", "output.jsonl", content
            else:
                files.append("" if self.has("empty_file_id") else None)
        n_good = len({line["custom_id"] for line in good})
        counts = {"total": len(asked), "completed": n_good, "failed": len(asked) - n_good}
        batch |= {"status": status, "request_counts": counts}
        if self.has("output_comes_later"):
            batch["hidden"], batch["later"] = 3, files
        elif not self.has("no_output"):
            batch["output_file_id"], batch["error_file_id"] = files

    # --- its addresses

    def busy(self, fault: str) -> web.StreamResponse | None:
        """A refusal that asks to wait for almost five minutes."""
        if not self.has(fault):
            return None
        return web.json_response({"error": {"message": "too busy"}}, status=429, headers={"retry-after": "280"})

    async def upload(self, request: web.Request) -> web.StreamResponse:
        if refusal := self.busy("busy_upload"):
            return refusal
        form = await request.post()
        file = form["file"]
        assert isinstance(file, web.FileField)
        name = self.new_id("file-")
        self.files[name] = str(form["purpose"]), file.filename, file.file.read()
        self.drop(request, "drop_upload")
        return web.json_response(self.file(name))

    def file(self, name: str) -> dict[str, Any]:
        purpose, filename, content = self.files[name]
        return {"id": name, "object": "file", "purpose": purpose, "filename": filename, "bytes": len(content),
                "created_at": int(self.now()), "status": "processed"}  # fmt: skip

    async def list_files(self, request: web.Request) -> web.StreamResponse:
        wanted = [self.file(name) for name in self.files if self.files[name][0] == request.query.get("purpose")]
        return web.json_response({"object": "list", "data": wanted, "has_more": False})

    async def content(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["id"]
        if name not in self.files:
            return web.json_response({"error": {"message": "no such file"}}, status=404)
        content = self.files[name][2]
        if self.has("broken_content"):
            answer = web.StreamResponse(headers={"content-length": str(len(content))})
            await answer.prepare(request)
            await answer.write(content[: len(content) // 2])
            request.transport.close()
            return answer
        if self.has("cut_line"):
            content = content[: len(content) // 2]
        return web.Response(body=content)

    async def delete(self, request: web.Request) -> web.StreamResponse:
        if self.files.pop(request.match_info["id"], None) is None:
            return web.json_response({"error": {"message": "no such file"}}, status=404)
        return web.json_response({"id": request.match_info["id"], "deleted": True})

    async def create(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if asked["input_file_id"] not in self.files:
            return web.json_response({"error": {"message": "no such file"}}, status=400)
        name = self.new_id("batch_")
        self.batches[name] = {
            "id": name, "object": "batch", "status": "validating", "endpoint": asked["endpoint"], "errors": None,
            "input_file_id": asked["input_file_id"], "completion_window": asked["completion_window"],
            "metadata": asked.get("metadata"), "created_at": int(self.now()), "output_file_id": None,
            "error_file_id": None, "request_counts": {"total": 0, "completed": 0, "failed": 0},
            "due": self.now() + self.takes_s, "stuck": self.has("stuck"), "polls": 0, "hidden": 0,
            "later": (None, None),
        }  # fmt: skip
        self.drop(request, "drop_create")
        shown = {
            name: value
            for name, value in self.batches[name].items()
            if name not in ("due", "stuck", "polls", "hidden", "later")
        }
        return web.json_response(shown)

    async def list_batches(self, request: web.Request) -> web.StreamResponse:
        listed = [
            one for one in reversed(self.batches.values()) if self.now() - one["created_at"] >= self.listed_after_s
        ]
        after, limit = request.query.get("after"), int(request.query.get("limit", 20))
        if after is not None:
            listed = listed[[one["id"] for one in listed].index(after) + 1 :]
        page = [self.progress(one) | ({"metadata": None} if self.hides_metadata else {}) for one in listed[:limit]]
        return web.json_response({"object": "list", "data": page, "has_more": len(listed) > limit})

    async def get(self, request: web.Request) -> web.StreamResponse:
        batch = self.batches.get(request.match_info["id"])
        if batch is None:
            return web.json_response({"error": {"message": "no such batch"}}, status=404)
        return web.json_response(self.progress(batch))

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        batch = self.batches[request.match_info["id"]]
        self.progress(batch)
        if batch["status"] == "in_progress":
            batch["status"] = "cancelling"
        return web.json_response(self.progress(batch))

    async def chat(self, request: web.Request) -> web.StreamResponse:
        self.live_calls += 1
        while self.hold:  # noqa: ASYNC110  # a test in another thread sets it
            await asyncio.sleep(0.01)
        status, body = self.answer(await request.json())
        return web.json_response(body, status=status)

    def drop(self, request: web.Request, fault: str) -> None:
        """Close the connection without an answer."""
        if self.has(fault) and request.transport is not None:
            request.transport.abort()

    @web.middleware
    async def fail(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.seen.append((request.method, request.path))
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        for prefix, statuses in self.statuses.items():
            if statuses and request.path.startswith(prefix):
                return web.json_response({"error": {"message": "not now"}}, status=statuses.pop(0))
        answer: web.StreamResponse = await handler(request)
        return answer

    def application(self) -> web.Application:
        """Its routes."""
        application = web.Application(middlewares=[self.fail], client_max_size=1 << 30)
        application.add_routes([
            web.post("/v1/files", self.upload), web.get("/v1/files", self.list_files),
            web.get("/v1/files/{id}/content", self.content), web.delete("/v1/files/{id}", self.delete),
            web.post("/v1/batches", self.create), web.get("/v1/batches", self.list_batches),
            web.get("/v1/batches/{id}", self.get), web.post("/v1/batches/{id}/cancel", self.cancel),
            web.post("/v1/chat/completions", self.chat),
        ])  # fmt: skip
        return application


@contextlib.contextmanager
def batch_server(server: BatchServer | None = None) -> Iterator[Any]:
    """A running server, in a thread of this process; a `BatchServer` unless another one is given."""
    server, loop = server or BatchServer(), asyncio.new_event_loop()

    async def start() -> web.AppRunner:
        runner = web.AppRunner(server.application(), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        return runner

    runner = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
