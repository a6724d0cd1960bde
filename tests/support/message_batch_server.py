"""A loopback server with batches and live calls of Anthropic's form, with faults and a clock that can be moved."""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from batch_server import BatchServer

INPUT_TOKENS, OUTPUT_TOKENS = 100, 10


class MessageBatchServer(BatchServer):
    """See `BatchServer`; further faults: `error_lines`, `cut_results`, `stuck_create` (an HTTP 500 after creation).

    `versions` are those of the API that were asked for, by path; without `create_goes_on`
    there is no answer to the creation of a batch, although there is one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.versions: list[tuple[str, str]] = []
        self.create_goes_on = threading.Event()
        self.create_goes_on.set()

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body for a message; billed if it is good."""
        prompt = json.dumps(body["messages"])
        assert body["max_tokens"] > 0
        if self.refuses_parameter in body and self.refuses_parameter:
            return 400, error_of("invalid_request_error", f"{self.refuses_parameter}: Extra inputs are not permitted")
        self.billed[body["model"], prompt] += 1
        text = json.dumps({"explanation": "as it is", "score": sum(prompt.encode()) % 3})
        return 200, {
            "id": "msg", "type": "message", "role": "assistant", "model": body["model"],
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
            "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
        }  # fmt: skip

    async def create(self, request: web.Request) -> web.StreamResponse:
        if refusal := self.busy("busy_create"):
            return refusal
        assert request.content_length is not None
        asked = (await request.json())["requests"]
        self.versions.append((request.path, request.headers["anthropic-version"]))
        ids = [one["custom_id"] for one in asked]
        wrong = [one for one in ids if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one)]
        if wrong or len(set(ids)) < len(ids) or not 0 < len(ids) <= 100_000:
            return web.json_response(error_of("invalid_request_error", f"requests: {wrong[:2]}"), status=400)
        name = self.new_id("msgbatch_")
        self.batches[name] = {"id": name, "asked": asked, "created": self.now(), "due": self.now() + self.takes_s,
                              "state": "in_progress", "lines": [], "counts": {}, "polls": 0}  # fmt: skip
        await asyncio.to_thread(self.create_goes_on.wait, 60)
        self.drop(request, "drop_create")
        if self.has("stuck_create"):
            return web.json_response(error_of("api_error", "try again"), status=500)
        return web.json_response(self.shown(self.batches[name]))

    def progress(self, batch: dict[str, Any]) -> dict[str, Any]:
        batch["polls"] += batch["state"] == "canceling"
        if batch["state"] == "in_progress" and self.now() >= batch["due"]:
            self.finish(batch, "expired", share=0.5 if self.has("expire_half") else 1.0)
        elif batch["state"] == "canceling" and batch["polls"] > 2:
            self.finish(batch, "canceled", share=0.5)
        return self.shown(batch)

    def shown(self, batch: dict[str, Any]) -> dict[str, Any]:
        has_ended = batch["state"] == "ended"
        created = datetime.fromtimestamp(batch["created"], UTC).isoformat().replace("+00:00", "Z")
        counts = batch["counts"] if has_ended else {"processing": len(batch["asked"])}
        kinds = ("processing", "succeeded", "errored", "canceled", "expired")
        return {
            "id": batch["id"], "type": "message_batch", "processing_status": batch["state"], "created_at": created,
            "request_counts": dict.fromkeys(kinds, 0) | counts,
            "results_url": f"http://elsewhere.example.org/{batch['id']}" if has_ended else None,
        }  # fmt: skip

    def finish(self, batch: dict[str, Any], status: str, share: float = 1.0) -> None:
        """Answer the requests (a share of them)."""
        n_done, fails = round(share * len(batch["asked"])), self.has("error_lines")
        for number, request in enumerate(batch["asked"]):
            if number >= n_done:
                result: dict[str, Any] = {"type": status}
            elif fails and number % 7 == 3:
                result = {"type": "errored", "error": error_of("api_error", "try again")}
            else:
                code, body = self.answer(request["params"])
                good = {"type": "succeeded", "message": body}
                result = good if code == 200 else {"type": "errored", "error": body}
            batch["lines"].append({"custom_id": request["custom_id"], "result": result})
            batch["counts"][result["type"]] = batch["counts"].get(result["type"], 0) + 1
        if self.has("shuffle"):
            random.Random(5).shuffle(batch["lines"])
        batch["state"] = "ended"

    async def list_batches(self, request: web.Request) -> web.StreamResponse:
        listed = [one for one in reversed(self.batches.values()) if self.now() - one["created"] >= self.listed_after_s]
        after, limit = request.query.get("after_id"), min(2, int(request.query["limit"]))
        if after is not None:
            listed = listed[[one["id"] for one in listed].index(after) + 1 :]
        page = [self.progress(one) for one in listed[:limit]]
        return web.json_response({"data": page, "has_more": len(listed) > limit, "last_id": None})

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        batch = self.batches[request.match_info["id"]]
        if batch["state"] == "in_progress":
            batch["state"] = "canceling"
        return web.json_response(self.progress(batch))

    async def results(self, request: web.Request) -> web.StreamResponse:
        content = "".join(json.dumps(one) + "\n" for one in self.batches[request.match_info["id"]]["lines"]).encode()
        if not self.has("cut_results"):
            return web.Response(body=content, content_type="application/x-jsonl")
        if self.faults["cut_results"] % 2:  # between two lines, as if it were all of it
            return web.Response(body=content[: content.index(b"\n") + 1])
        answer = web.StreamResponse(headers={"content-length": str(len(content))})
        await answer.prepare(request)
        await answer.write(content[: len(content) // 2])
        request.transport.close()
        return answer

    async def chat(self, request: web.Request) -> web.StreamResponse:
        self.live_calls += 1
        status, body = self.answer(await request.json())
        return web.json_response(body, status=status)

    def application(self) -> web.Application:
        """Its routes."""
        application = web.Application(middlewares=[self.fail], client_max_size=1 << 30)
        path = "/v1/messages/batches"
        application.add_routes([
            web.post(path, self.create), web.get(path, self.list_batches), web.get(f"{path}/{{id}}", self.get),
            web.post(f"{path}/{{id}}/cancel", self.cancel), web.get(f"{path}/{{id}}/results", self.results),
            web.post("/v1/messages", self.chat),
        ])  # fmt: skip
        return application


def error_of(kind: str, said: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": said}, "request_id": "req_1"}
