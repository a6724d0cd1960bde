"""Decision models: a content and questions about it go in, probabilities come back.

The provider `decisions` sends OpenAI's ``POST /v1/decisions``, `systemone` the same questions in the form of ``POST
/v1/systemone``: by name in an object.

One request holds the questions of one prompt. The body of the answer is stored as it came, and read after the cache.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import orjson

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.providers import PROVIDERS
from evalkit.engine.providers.api_keys import key_of
from evalkit.engine.providers.chat_client import client_of_loop, sent_images
from evalkit.engine.providers.error_answers import ErrorText
from evalkit.engine.providers.judge_checks import check_key
from evalkit.engine.providers.openai import OpenAIClient
from evalkit.engine.providers.openai_replies import json_of, problem_of, unexpected_answer
from evalkit.engine.providers.prices import cost_of_call, stated_cost, tokens_of
from evalkit.engine.providers.transport import Answer
from evalkit.engine.request import ProviderError, Request
from evalkit.rubrics.decision_questions import questions_of

_CONTENTS = {"decisions": "input", "systemone": "state"}


def check(judge: Judge) -> None:
    """Check the key."""
    check_key(judge)


def connect(judge: Judge) -> DecisionsClient:
    """The client for a judge's server and key variable; one of them per event loop."""
    return client_of_loop(DecisionsClient, judge, judge.base_url or PROVIDERS[judge.provider].address)


class DecisionsClient(OpenAIClient):
    """One server of decision models; the form of a request is that of its judge's provider."""

    def __init__(self, judge: Judge, base_url: str) -> None:
        super().__init__(judge, base_url)
        self.supports_n = False
        self._has_endpoint = base_url.partition("?")[0].rstrip("/").endswith(tuple(f"/{name}" for name in _CONTENTS))

    def body(self, request: Request, *_: Any) -> tuple[dict[str, Any], None]:
        """The JSON body: the content with its images, and the questions, named ``c1``, ``c2`` …"""
        judge, images = request.judge, sent_images(request.prompt)
        content: Any = request.prompt.messages[-1].content
        more: dict[str, Any] = dict(judge.params)
        if images and judge.provider == "systemone":
            more["images"] = [image["url"] for _, image in images]
        elif images:
            parts = [{"type": "input_text", "text": content}]
            for label, image in images:
                address = {"image_url": image.pop("url"), **image}
                parts += [{"type": "input_text", "text": label}, {"type": "input_image", **address}]
            content = [{"role": "user", "content": parts}]
        questions = questions_of(request.prompt, judge.provider)
        return {"model": judge.model, _CONTENTS[judge.provider]: content, "questions": questions, **more}, None

    async def answer(self, request: Request, body: Mapping[str, Any]) -> Answer:
        """Send the questions of a prompt in one request."""
        path = "" if self._has_endpoint else f"/{request.judge.provider}"
        return await self.send(path, orjson.dumps(body), timeout_s=request.judge.timeout_s)

    def problem(self, answer: Answer, request: Request, body: Mapping[str, Any]) -> ProviderError:
        """The error of an answer with an error status."""
        problem = problem_of(answer, request.judge, {"messages": [], **body}, key_of(request.judge))
        error = ErrorText.of(json_of(answer.content))
        if problem.kind == "client_error" and error.param == "questions" and len(body["questions"]) > 1:
            problem.kind = "forbidden"  # as likely for the next prompt: most have as many
            problem.detail += f"; it has {len(body['questions'])} questions: pass a lower number as criteria_per_call="
        is_own = error.param == _CONTENTS[request.judge.provider] and "unknown_parameter" not in error.codes
        if error.param in _CONTENTS.values() and not is_own:
            problem.detail += _other_form(request.judge)
        return problem

    def replies(
        self, answer: Answer, request: Request, *_: Any, latency_s: float, body: Mapping[str, Any], **__: Any
    ) -> list[Reply]:
        """The reply: the whole body of the answer, whatever its numbers are."""
        judge, parsed = request.judge, json_of(answer.content)
        fields = parsed if isinstance(parsed, dict) else {}
        answers, usage, model = fields.get("answers"), fields.get("usage"), fields.get("model")
        tokens, cost = tokens_of(usage), stated_cost(usage, answer.headers)
        if not isinstance(answers, type(body["questions"])):
            form = "list" if isinstance(body["questions"], list) else "object"
            problem = unexpected_answer(answer, judge, key_of(judge), f"{form} of answers")
            is_other_form, is_billed = isinstance(answers, (list, dict)), tokens.prompt is not None
            if is_other_form or (is_billed and problem.kind == "malformed"):
                problem.kind = "forbidden"  # as likely for the next prompt, and as dear if it is sent again
            problem.detail += _other_form(judge) if is_other_form else ""
            raise problem
        return [
            Reply(
                text=answer.content.decode("utf-8", "replace"),
                model=model if isinstance(model, str) else None,
                prompt_tokens=tokens.prompt,
                completion_tokens=tokens.completion,
                cost_usd=cost_of_call(judge, tokens) if cost is None else cost,
                latency_s=latency_s,
                created=time.time(),
            )
        ]


def _other_form(judge: Judge) -> str:
    (name,) = _CONTENTS.keys() - {judge.provider}
    return f"; this address may speak the form of the provider {name!r}"
