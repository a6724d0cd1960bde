"""`check_server`: whether a judge's server can be reached and what of the protocol works there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from evalkit.calling.loop import LoopThread
from evalkit.errors import ConfigError, JudgeError
from evalkit.keys import KeyParts
from evalkit.providers import ProviderError, check_ready, connect
from evalkit.records import Judge, Message, Prompt, Request

__all__ = ["ServerReport", "Works", "check_server"]

Works = Literal["works", "refused", "ignored", "failed", "not tried"]
"""``ignored``: the server answers as if it had not been asked for it."""

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "integer", "enum": [0, 1]}},
    "required": ["score"],
    "additionalProperties": False,
}
_QUESTION = 'Is 2 + 2 equal to 4? Reply with a JSON object: {"score": 1} for yes, {"score": 0} for no.'
_TRIES = 4  # each refusal names one parameter to leave out; there are four


@dataclass(slots=True)
class ServerReport:
    """What was found; `print` shows it.

    Attributes
    ----------
    judge, base_url
        Who was asked, and where.
    reachable
        Whether anything answered there.
    models
        Names that the server lists; empty where it lists none.
    model_listed
        Whether the judge's model is among them; None where there is no list.
    answers
        Whether the model answers a chat completion.
    seconds
        How long its first answer took.
    n, json_schema, logprobs
        Several replies in one request, replies bound to a schema, probabilities of tokens.
    refused
        Parameters that the model refuses; evalkit leaves them out by itself.
    n_calls
        Answers that may be on the bill: 3 at most, of a few tokens each.
    problems
        What is wrong, in words.
    """

    judge: str
    base_url: str
    reachable: bool = False
    models: list[str] = field(default_factory=list)
    model_listed: bool | None = None
    answers: bool = False
    seconds: float | None = None
    n: Works = "not tried"
    json_schema: Works = "not tried"
    logprobs: Works = "not tried"
    refused: list[str] = field(default_factory=list)
    n_calls: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        listed = ", ".join(self.models[:12]) + (f" and {len(self.models) - 12} more" if len(self.models) > 12 else "")
        lines = {
            "reachable": "yes" if self.reachable else "no",
            "models": listed or "no list",
            "model answers": "no" if self.seconds is None else f"yes, in {self.seconds:.2f} s",
            "n": self.n,
            "json schema": self.json_schema,
            "logprobs": self.logprobs,
            "refused": ", ".join(self.refused) or "nothing",
            "answers billed": f"{self.n_calls} at most",
        }
        told = [f"{self.judge} at {self.base_url}", *(f"  {name:<15} {value}" for name, value in lines.items())]
        return "\n".join([*told, *(f"  problem: {problem}" for problem in self.problems)])


def check_server(judge: Judge | str) -> ServerReport:
    """Look whether a judge's server is there, which models it has, and what of the protocol works.

    Costs at most three tiny calls: one for ``n``, one for a JSON schema, one for ``logprobs``. Nothing is stored.

    Raises
    ------
    ConfigError
        For a judge that is not asked over the network.

    Examples
    --------
    >>> report = check_server(Judge("openai", "any", base_url="http://127.0.0.1:9/v1"))
    >>> report.reachable, report.n_calls
    (False, 0)
    """
    judge = Judge.of(judge)
    if judge.provider != "openai":
        raise ConfigError(f"judge '{judge.name}' is no server; there is nothing to check but for provider 'openai'")
    report = ServerReport(judge.name, judge.base_url or "https://api.openai.com/v1")
    try:
        check_ready(judge)
    except JudgeError as error:
        report.problems.append(str(error))
        return report
    LoopThread.get().check_may_wait()
    LoopThread.get().submit(_look(judge, report)).result()
    return report


async def _look(judge: Judge, report: ServerReport) -> None:
    from evalkit.providers.openai import OpenAIClient

    client = connect(judge)
    assert isinstance(client, OpenAIClient)
    try:
        await _list_models(client, judge, report)
        visit = _Visit(client, judge, report)
        await visit.ask_n()
        if report.answers:
            await visit.ask_schema()
            await visit.ask_logprobs()
    except ProviderError as problem:
        report.problems.append(problem.detail)


async def _list_models(client: Any, judge: Judge, report: ServerReport) -> None:
    answer = await client.send("/models", None, timeout_s=judge.timeout_s, method="GET")
    report.reachable = True
    found = _json(answer.content)
    rows = found.get("data") if isinstance(found, dict) else None
    if answer.status == 200 and isinstance(rows, list):
        report.models = sorted(str(row["id"]) for row in rows if isinstance(row, dict) and "id" in row)
        # Google lists its models as models/NAME
        report.model_listed = bool({judge.model, f"models/{judge.model}"} & set(report.models))
        if not report.model_listed and report.models:
            report.problems.append(f"the server does not list the model {judge.model!r}")


class _Visit:
    """The three calls; what a model refuses is left out of the next ones."""

    def __init__(self, client: Any, judge: Judge, report: ServerReport) -> None:
        self._client, self._report = client, report
        self._judge = judge.replace(max_tokens=min(judge.max_tokens or 64, 64))
        self._adapt: dict[str, str | None] = {}

    async def ask_n(self) -> None:
        started = time.perf_counter()
        found = await self._ask(n=2)
        report = self._report
        report.n = "refused" if "n" in self._adapt else "failed"
        if found is not None:
            report.answers, report.seconds = True, time.perf_counter() - started
            if "n" not in self._adapt:
                report.n = "works" if len(found) > 1 else "ignored"

    async def ask_schema(self) -> None:
        found = await self._ask(schema=True)
        works: Works = "failed"
        if "response_format" in self._adapt:
            works = "refused"
        elif found is not None:
            content = found[0].get("message", {}).get("content")
            reply = _json(content.encode("utf-8", "replace")) if isinstance(content, str) else None
            works = "works" if isinstance(reply, dict) and set(reply) == {"score"} else "ignored"
        self._report.json_schema = works

    async def ask_logprobs(self) -> None:
        found = await self._ask(extra={"logprobs": True})
        if found is None:
            self._report.logprobs = "refused"
        else:
            self._report.logprobs = "works" if found[0].get("logprobs") else "ignored"

    async def _ask(
        self, *, n: int = 1, schema: bool = False, extra: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]] | None:
        """The choices of an answer; None where the server refuses, which is noted unless `extra` was the reason."""
        from evalkit.providers.answers import problem_of
        from evalkit.providers.openai import request_body

        request = _request(self._judge, schema=schema)
        for _ in range(_TRIES):
            body, _sent = request_body(request, 1 if "n" in self._adapt else n, self._adapt)
            body |= extra or {}
            answer = await self._client.send("/chat/completions", orjson.dumps(body), timeout_s=self._judge.timeout_s)
            if 200 <= answer.status < 300:
                self._report.n_calls += 1
                found = _json(answer.content)
                choices = found.get("choices") if isinstance(found, dict) else None
                if isinstance(choices, list) and choices and all(isinstance(choice, dict) for choice in choices):
                    return choices
                said = "HTML" if answer.content.lstrip()[:1] == b"<" else "something else"
                self._report.problems.append(
                    f"the server answers with {said} instead of a chat completion: is base_url right?"
                )
                return None
            problem = problem_of(answer, request, body)
            if problem.kind != "refused_parameter" or problem.parameter in self._adapt:
                if extra is None:
                    self._report.problems.append(problem.detail)
                return None
            name = str(problem.parameter)
            self._adapt[name] = "max_completion_tokens" if name == "max_tokens" else None
            self._report.refused.append(name)
        return None


def _request(judge: Judge, *, schema: bool) -> Request:
    prompt = Prompt(
        (Message("user", _QUESTION),), "json" if schema else "number", _SCHEMA if schema else None,
        "doctor", "v1", "doctor", "doctor@v1", "ordinal", (0, 1), {},
    )  # fmt: skip
    parts = KeyParts(judge.provider, judge.service, judge.model, "doctor", "v1", "", "", judge.temperature, None, {})
    return Request(judge, prompt, parts, (0,))


def _json(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
