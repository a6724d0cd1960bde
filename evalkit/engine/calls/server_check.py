"""`check_server`: whether a judge's server can be reached, and which features of the protocol work there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Message, Prompt, Reply, Request
from evalkit.core.reply_keys import KeyParts
from evalkit.engine.calls.event_loop import LoopThread
from evalkit.engine.providers import check_ready, connect
from evalkit.engine.providers.client import ProviderError
from evalkit.engine.providers.openai_replies import json_of, problem_of
from evalkit.errors import ConfigError, JudgeError

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
_ADDRESSES = {
    "openai": "https://api.openai.com/v1",
    "litellm": "the address that litellm has for its provider",
    "inference-providers": "https://router.huggingface.co/v1",
}
_TRIES = 4  # each refusal names one parameter to leave out; there are four


@dataclass(slots=True)
class ServerReport:
    """The result of `check_server`; `print` shows it.

    Attributes
    ----------
    judge, base_url
        The judge, and the address of its server.
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
        Several replies in one request, replies bound to a schema, probabilities of tokens (checked only for
        ``openai``, as is the list of models).
    refused
        Parameters that the model refuses; evalkit leaves them out automatically.
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
        head = [f"{self.judge} at {self.base_url}", *(f"  {name:<15} {value}" for name, value in lines.items())]
        return "\n".join([*head, *(f"  problem: {problem}" for problem in self.problems)])


def check_server(judge: Judge | str) -> ServerReport:
    """Check whether a judge's server answers, which models it has, and which features of the protocol work.

    Costs at most three tiny calls: one for ``n``, one for a JSON schema, one for ``logprobs``. Nothing is stored.
    Judges of ``litellm`` and ``inference-providers`` are asked through their library, twice at most.

    Raises
    ------
    ConfigError
        For a judge without a server: ``transformers``, ``vllm``, ``fake``.
    MissingExtraError
        When the judge's library is not installed.

    Examples
    --------
    >>> report = check_server(Judge("openai", "any", base_url="http://127.0.0.1:9/v1"))
    >>> report.reachable, report.n_calls
    (False, 0)
    """
    judge = Judge.of(judge)
    if judge.provider not in _ADDRESSES:
        raise ConfigError(
            f"judge '{judge.name}' has no server, it computes in this process; providers with a server are "
            f"{', '.join(_ADDRESSES)}"
        )
    report = ServerReport(judge.name, judge.base_url or _ADDRESSES[judge.provider])
    try:
        check_ready(judge)
    except JudgeError as error:
        report.problems.append(str(error))
        return report
    LoopThread.get().check_may_wait()
    check = _check_openai if judge.provider == "openai" else _check_library
    LoopThread.get().submit(check(judge, report)).result()
    return report


async def _check_library(judge: Judge, report: ServerReport) -> None:
    """The two calls of a judge that another library calls: it shows answers, but not the protocol."""
    adapt: dict[str, str | None] = {}
    started = time.perf_counter()
    found = await _ask_through_library(judge, report, adapt, n=2)
    if found is None:
        report.n = "refused" if "n" in adapt else "failed"
        return
    report.reachable = report.answers = True
    report.seconds = time.perf_counter() - started
    report.n = "refused" if "n" in adapt else "works" if len(found) > 1 else "ignored"
    found = await _ask_through_library(judge, report, adapt, schema=True)
    if "response_format" in adapt:
        report.json_schema = "refused"
    else:
        report.json_schema = "failed" if found is None else "works" if _is_bound(found[0].text) else "ignored"


async def _ask_through_library(
    judge: Judge, report: ServerReport, adapt: dict[str, str | None], *, n: int = 1, schema: bool = False
) -> list[Reply] | None:
    """Replies, or None; what is refused goes into `adapt`."""
    request = _request(judge.replace(max_tokens=min(judge.max_tokens or 64, 64)), schema=schema)
    client = connect(judge)
    for _ in range(_TRIES):
        try:
            replies = await client.ask(request, 1 if "n" in adapt else n, adapt=adapt)
        except ProviderError as problem:
            report.n_calls += problem.maybe_paid
            report.reachable |= problem.status is not None
            name = str(problem.parameter)
            if problem.kind != "refused_parameter" or name in adapt:
                report.problems.append(problem.detail)
                return None
            _note_refused(name, adapt, report)
        else:
            report.n_calls += 1
            return replies
    return None


def _note_refused(name: str, adapt: dict[str, str | None], report: ServerReport) -> None:
    adapt[name] = "max_completion_tokens" if name == "max_tokens" else None
    report.refused.append(name)


def _is_bound(text: object) -> bool:
    """Whether a reply is what the schema asks for."""
    reply = json_of(text.encode("utf-8", "replace")) if isinstance(text, str) else None
    return isinstance(reply, dict) and set(reply) == {"score"}


async def _check_openai(judge: Judge, report: ServerReport) -> None:
    from evalkit.engine.providers.openai import OpenAIClient

    client = connect(judge)
    assert isinstance(client, OpenAIClient)
    try:
        await _list_models(client, judge, report)
        check = _OpenAICheck(client, judge, report)
        await check.ask_n()
        if report.answers:
            await check.ask_schema()
            await check.ask_logprobs()
    except ProviderError as problem:
        report.problems.append(problem.detail)


async def _list_models(client: Any, judge: Judge, report: ServerReport) -> None:
    answer = await client.send("/models", None, timeout_s=judge.timeout_s, method="GET")
    report.reachable = True
    found = json_of(answer.content)
    rows = found.get("data") if isinstance(found, dict) else None
    if answer.status == 200 and isinstance(rows, list):
        report.models = sorted(row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str))
        # Google lists its models as models/NAME
        report.model_listed = bool({judge.model, f"models/{judge.model}"} & set(report.models))
        if not report.model_listed and report.models:
            report.problems.append(f"the server does not list the model {judge.model!r}")


class _OpenAICheck:
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
            message = found[0].get("message")
            works = "works" if isinstance(message, dict) and _is_bound(message.get("content")) else "ignored"
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
        from evalkit.engine.providers.openai import request_body

        request = _request(self._judge, schema=schema)
        for _ in range(_TRIES):
            body, _sent = request_body(request, 1 if "n" in self._adapt else n, self._adapt)
            body |= extra or {}
            answer = await self._client.send("/chat/completions", orjson.dumps(body), timeout_s=self._judge.timeout_s)
            if 200 <= answer.status < 300:
                self._report.n_calls += 1
                found = json_of(answer.content)
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
            _note_refused(str(problem.parameter), self._adapt, self._report)
        return None


def _request(judge: Judge, *, schema: bool) -> Request:
    prompt = Prompt(
        (Message("user", _QUESTION),), "json" if schema else "number", _SCHEMA if schema else None,
        "doctor", "v1", "doctor", "doctor@v1", "ordinal", (0, 1), {},
    )  # fmt: skip
    parts = KeyParts(judge.provider, judge.service, judge.model, "doctor", "v1", "", "", judge.temperature, None, {})
    return Request(judge, prompt, parts, (0,))
