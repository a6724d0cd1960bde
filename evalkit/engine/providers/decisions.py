"""Decision models: a content and questions about it go in, probabilities come back (OpenAI's ``POST /v1/decisions``).

One request holds the questions of one prompt. The body of the answer is stored as it came, and read after the cache.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any

import orjson

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Prompt, Reply
from evalkit.core.providers import PROVIDERS
from evalkit.engine.providers.api_keys import key_of
from evalkit.engine.providers.chat_client import client_of_loop
from evalkit.engine.providers.error_answers import ErrorText
from evalkit.engine.providers.judge_checks import check_key
from evalkit.engine.providers.openai import OpenAIClient
from evalkit.engine.providers.openai_replies import json_of, problem_of, unexpected_answer
from evalkit.engine.providers.prices import cost_of_call, stated_cost, tokens_of
from evalkit.engine.providers.provider_interface import ProviderError
from evalkit.engine.providers.transport import Answer
from evalkit.engine.request import Request

_ENDPOINTS = ("/decisions", "/systemone")
_TOO_MANY = (400, 422)


def check(judge: Judge) -> None:
    """Check the key."""
    check_key(judge)


def connect(judge: Judge) -> DecisionsClient:
    """The client for a judge's server and key variable; one of them per event loop."""
    return client_of_loop(DecisionsClient, judge, judge.base_url or PROVIDERS[judge.provider].address)


class DecisionsClient(OpenAIClient):
    """One server of decision models. A server's limit on questions is learned from its first refusal."""

    endpoint = "/decisions"
    content = "input"
    other_provider = "systemone"

    def __init__(self, judge: Judge, base_url: str) -> None:
        super().__init__(judge, base_url)
        self.supports_n = False
        is_endpoint = base_url.partition("?")[0].rstrip("/").endswith(_ENDPOINTS)
        self._path = "" if is_endpoint else self.endpoint
        self._most: int | None = None
        self._paid: dict[bytes, Answer] = {}  # by what was sent: parts of a request whose other parts are missing

    def body(self, request: Request, *_: Any) -> tuple[dict[str, Any], None]:
        """The JSON body: the content, and the questions, named ``c1``, ``c2`` …"""
        content = request.prompt.messages[-1].content
        body = {"model": request.judge.model, self.content: content, "questions": self.questions(request.prompt)}
        return {**body, **request.judge.params}, None

    @staticmethod
    def questions(prompt: Prompt) -> Any:
        """The questions of a prompt."""
        questions = prompt.together or (prompt,)
        return [
            {"name": f"c{number}", "instructions": question.messages[0].content, **(question.schema or {})}
            for number, question in enumerate(questions, 1)
        ]

    async def answer(self, request: Request, body: Mapping[str, Any]) -> Answer:
        """Send the questions; in several requests, if there are more than the server takes in one."""
        questions = body["questions"]
        if self._most is None or len(questions) <= self._most:
            answer = await self._post(request, body)
            if len(questions) == 1 or not _has_too_many(answer):
                return answer
            self._most = (len(questions) + 1) // 2
        answers, most = {}, self._most  # another request, or a part of this one, may learn a lower limit meanwhile
        for first in range(0, len(questions), most):
            some = _some(questions, first, first + most)
            part_body = {**body, "questions": some}
            key = hashlib.sha256(orjson.dumps(part_body)).digest()
            answers[key] = answer = self._paid.get(key) or await self.answer(request, part_body)
            if not 200 <= answer.status < 300:
                return answer
            self._paid[key] = answer
        for key in answers:
            self._paid.pop(key, None)
        return _merged([*answers.values()])

    async def _post(self, request: Request, body: Mapping[str, Any]) -> Answer:
        return await self.send(self._path, orjson.dumps(body), timeout_s=request.judge.timeout_s)

    def problem(self, answer: Answer, request: Request, body: Mapping[str, Any]) -> ProviderError:
        """The error of an answer with an error status."""
        problem = problem_of(answer, request.judge, {"messages": [], **body}, key_of(request.judge))
        return self._with_wire(problem, ErrorText.of(json_of(answer.content)).param in ("input", "state"))

    def _with_wire(self, problem: ProviderError, is_other: bool) -> ProviderError:
        if is_other and self.other_provider in PROVIDERS:
            problem.detail += f"; this address may speak the form of the provider {self.other_provider!r}"
        return problem

    def replies(
        self, answer: Answer, request: Request, *_: Any, latency_s: float, body: Mapping[str, Any], **__: Any
    ) -> list[Reply]:
        """The reply: the whole body of the answer, whatever its numbers are."""
        judge, parsed = request.judge, json_of(answer.content)
        answers = parsed.get("answers") if isinstance(parsed, dict) else None
        if not isinstance(answers, type(body["questions"])):
            problem = unexpected_answer(answer, judge, key_of(judge), "list of answers")
            raise self._with_wire(problem, isinstance(answers, (list, dict)))
        tokens = tokens_of(parsed.get("usage"))
        cost = stated_cost(parsed.get("usage"), answer.headers)
        model = parsed.get("model")
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


def _some(questions: Any, first: int, end: int) -> Any:
    """Those of the questions, a list or a mapping by name, from one place to another."""
    if isinstance(questions, list):
        return questions[first:end]
    return dict([*questions.items()][first:end])


def _has_too_many(answer: Answer) -> bool:
    """Whether an error is about the questions as a whole: there are more than the server takes."""
    return answer.status in _TOO_MANY and ErrorText.of(json_of(answer.content)).param == "questions"


def _merged(answers: list[Answer]) -> Answer:
    """The answers of several requests about one content as one."""
    bodies = [json_of(answer.content) for answer in answers]
    if not all(isinstance(body, dict) and isinstance(body.get("answers"), (list, dict)) for body in bodies):
        return answers[0]
    merged, counts = dict(bodies[0]), [body.get("usage") for body in bodies]
    if isinstance(merged["answers"], list):
        merged["answers"] = [answer for body in bodies for answer in body["answers"]]
    else:
        merged["answers"] = {name: answer for body in bodies for name, answer in body["answers"].items()}
    merged["usage"] = None
    if all(isinstance(count, dict) for count in counts):
        merged["usage"] = {
            name: sum(count.get(name) or 0 for count in counts) for name in ("input_tokens", "output_tokens")
        }
    return answers[0]._replace(content=orjson.dumps(merged))
