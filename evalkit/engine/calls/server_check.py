"""`check_server`: whether a judge's server can be reached, and which features of the protocol it supports."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Message, Prompt, Reply
from evalkit.core.providers import PROVIDERS
from evalkit.core.reply_keys import KeyParts
from evalkit.engine.calls.event_loop import LoopThread
from evalkit.engine.providers import check_ready, connect
from evalkit.engine.providers.error_answers import JSON_OBJECT
from evalkit.engine.providers.openai_replies import json_of
from evalkit.engine.request import ProviderError, Request
from evalkit.errors import ConfigError, JudgeError, listed

Works = Literal["works", "refused", "ignored", "failed", "not tried"]
"""``ignored``: the server answers, but does not do what it was asked to do."""

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "integer", "enum": [0, 1]}},
    "required": ["score"],
    "additionalProperties": False,
}
_QUESTION = 'Is 2 + 2 equal to 4? Reply with a JSON object: {"score": 1} for yes, {"score": 0} for no.'
_DECISION = "Is this number equal to 2 + 2?"
_ADDRESSES = {name: provider.address for name, provider in PROVIDERS.items() if provider.address}
_NOT_HANDLED = (500, 501)  # so some servers end with a parameter that they do not handle
_TRIES = 8  # each refusal names one parameter to leave out, or the one that is tried is left out


@dataclass(slots=True)
class ServerReport:
    """The result of `check_server`; `print` shows it.

    Attributes
    ----------
    judge, base_url
        The judge, and the address of its server.
    reachable
        Whether the server answered at all.
    models
        Names of the models that the server lists (only for ``openai``).
    model_listed
        Whether the judge's model is among them; None if there is no list.
    answers
        Whether the model answers a chat completion.
    seconds
        Duration of its first answer.
    n, json_schema, json_object
        Whether one request can return several replies, and whether replies follow a JSON schema; if the schema is
        refused, whether they are a JSON object when one is asked for without it.
    refused
        Parameters that the model refuses; evalkit leaves them out automatically.
    n_calls
        Answers that may be billed: at most 2, of a few tokens each.
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
    json_object: Works = "not tried"
    refused: list[str] = field(default_factory=list)
    n_calls: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        rows = {
            "reachable": "yes" if self.reachable else "no",
            "models": listed(self.models, most=12) if self.models else "no list",
            "model answers": "no" if self.seconds is None else f"yes, in {self.seconds:.2f} s",
            "n": self.n,
            "json schema": self.json_schema,
            "json object": self.json_object,
            "refused": ", ".join(self.refused) or "nothing",
            "answers billed": f"{self.n_calls} at most",
        }
        lines = [f"{self.judge} at {self.base_url}", *(f"  {name:<15} {value}" for name, value in rows.items())]
        return "\n".join([*lines, *(f"  problem: {problem}" for problem in self.problems)])


def check_server(judge: Judge | str) -> ServerReport:
    """Check whether a judge's server answers, which models it has, and which features of the protocol it supports.

    Costs at most two tiny calls: one for ``n``, one for a JSON schema. Nothing is stored. The list of models is
    requested only for ``openai``, and not by a client that is called itself: other libraries do not offer it.

    Raises
    ------
    ConfigError
        For a judge without a server: ``transformers``, ``vllm``, ``function``, ``fake``.
    MissingExtraError
        If the judge's library is not installed.

    Examples
    --------
    >>> report = check_server(Judge("openai", "any", base_url="http://127.0.0.1:9/v1"))
    >>> report.reachable, report.n_calls
    (False, 0)
    """
    judge = Judge.of(judge)
    if judge.provider not in _ADDRESSES:
        raise ConfigError(
            f"judge '{judge.name}' runs in this process and has no server to check; providers with a server: "
            f"{', '.join(_ADDRESSES)}"
        )
    report = ServerReport(judge.name, judge.base_url or _ADDRESSES[judge.provider])
    try:
        check_ready(judge)
    except JudgeError as error:
        report.problems.append(str(error))
        return report
    LoopThread.get(to_wait=True).submit(_Check(judge, report).run()).result()
    return report


class _Check:
    """The requests of one check; parameters that the model refuses are left out of the following ones."""

    def __init__(self, judge: Judge, report: ServerReport) -> None:
        self._judge = judge if judge.decides else judge.replace(max_tokens=min(judge.max_tokens or 64, 64))
        self._report = report
        self._client: Any = None
        self._adapt: dict[str, str | int | None] = {}

    async def run(self) -> None:
        """Fill in the report."""
        report = self._report
        self._client = connect(self._judge)  # on the loop thread: its connections belong to the loop
        try:
            if self._judge.provider == "openai" and not getattr(self._judge.given, "calls", False):
                await self._list_models()
            started = time.perf_counter()
            works = await self._try("n", n=1 if self._judge.decides else 2)
            report.n = "not tried" if self._judge.decides else works
            report.seconds = time.perf_counter() - started if report.answers else None
            if report.answers and not self._judge.decides:
                report.json_schema = await self._try("response_format", schema=_SCHEMA)
        except ProviderError as problem:
            report.problems.append(problem.detail)

    async def _list_models(self) -> None:
        report, judge = self._report, self._judge
        answer = await self._client.send("/models", None, timeout_s=judge.timeout_s, method="GET")
        report.reachable = True
        content = json_of(answer.content)
        rows = content.get("data") if isinstance(content, dict) else None
        if answer.status == 200 and isinstance(rows, list):
            names = (row.get("id") for row in rows if isinstance(row, dict))
            report.models = sorted(name for name in names if isinstance(name, str))
            # Google lists its models as models/NAME
            report.model_listed = bool({judge.model, f"models/{judge.model}"} & set(report.models))
            if report.models and not report.model_listed:
                report.problems.append(f"the server does not list the model {judge.model!r}")

    async def _try(self, parameter: str, *, n: int = 1, schema: dict[str, Any] | None = None) -> Works:
        """Send a request that uses a parameter; whether the parameter works."""
        report, judge = self._report, self._judge
        form = "number" if schema is None else "json"
        messages: tuple[Message, ...] = (Message("user", _QUESTION),)
        if judge.decides:
            form, schema = "decision", {"type": "predicate"}
            messages = Message("system", _DECISION), Message("user", "4")
        prompt = Prompt(messages, form, schema, "doctor", "v1", "doctor", "doctor@v1", "ordinal", (0, 1), {})
        parts = KeyParts(
            judge.provider, judge.service, judge.model, "doctor", "v1", "", "", judge.temperature, None, {}
        )
        request = Request(judge, prompt, parts, (0,), (parts.key,))
        first: ProviderError | None = None
        for _ in range(_TRIES):
            try:
                replies: list[Reply] = await self._client.ask(
                    request, 1 if "n" in self._adapt else n, adapt=self._adapt
                )
            except ProviderError as problem:
                report.n_calls += problem.maybe_paid
                report.reachable |= problem.status is not None
                name, instead = str(problem.parameter), problem.instead
                unclear = (
                    problem.kind in ("client_error", "too_long") and problem.status
                ) or problem.status in _NOT_HANDLED
                if unclear and self._adapt.get(parameter, "") is not None:  # it does not name what it refuses, perhaps
                    first, name, instead = first or problem, parameter, None
                    if schema is not None and parameter not in self._adapt and judge.provider != "anthropic":
                        instead = JSON_OBJECT
                elif problem.kind != "refused_parameter" or self._adapt.get(name, "") == instead:
                    report.problems.append((first or problem).detail)
                    if first is not None:
                        del self._adapt[parameter]
                        report.refused.remove(parameter)
                    break
                self._adapt[name] = instead
                if name not in report.refused:
                    report.refused.append(name)
            else:
                report.n_calls += 1
                report.reachable = report.answers = True
                is_followed = schema is None or judge.decides or _follows_schema(replies[0])
                followed: Works = "works" if is_followed else "ignored"
                if parameter not in self._adapt:
                    return followed if len(replies) == n else "ignored"
                if schema is not None:
                    report.json_object = "refused" if self._adapt[parameter] is None else followed
                return "refused"
        return "refused" if parameter in self._adapt else "failed"


def _follows_schema(reply: Reply) -> bool:
    values = json_of((reply.text or "").encode("utf-8", "replace"))
    return isinstance(values, dict) and set(values) == set(_SCHEMA["properties"])
