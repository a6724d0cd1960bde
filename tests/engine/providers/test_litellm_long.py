"""Judges of litellm, Hugging Face and Anthropic: the same answers, problems and keys as by the openai provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import judge_requests
import pytest
from judge_requests import SCHEMA, request_of
from odd_answers import odd_answers
from servers import judge_server

import evalkit as ek
from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply, token_count
from evalkit.engine.cache.writer import encoded
from evalkit.engine.calls.event_loop import LoopThread
from evalkit.engine.providers import check_ready, connect
from evalkit.engine.providers.openai import with_version
from evalkit.engine.request import ProviderError
from evalkit.errors import ConfigError, JudgeError, MissingExtraError

BOTH = [
    pytest.param("litellm", "openai/m", id="litellm"),
    pytest.param("inference-providers", "org/m", id="inference-providers"),
]
ALL = [*BOTH, pytest.param("anthropic", "m", id="anthropic")]
MODULES = {"anthropic": "anthropic", "litellm": "litellm"}


def judge_of(provider: str, model: str, url: str, **options: Any) -> Judge:
    if provider in MODULES:
        pytest.importorskip(MODULES[provider], reason=f"needs the extra {provider}")
    return Judge(provider, model, base_url=url, **({"timeout_s": 10} | options))


def ask(judge: Judge, n: int = 1) -> list[Reply]:
    return judge_requests.ask(request_of(judge, 7, tuple(range(n)), form="json"), n)


@pytest.mark.parametrize(("provider", "model"), BOTH)
def test_replies_come_with_tokens_cost_and_the_model_as_served(provider: str, model: str) -> None:
    with judge_server() as server:
        judge = judge_of(provider, model, server.url, price=(1.0, 10.0), params={"top_p": 0.5, "seed": 3})
        replies = ask(judge, 3)
    body = server.seen[0].body
    assert len(server.seen) == 1
    assert (body["n"], body["temperature"], body["max_tokens"], body["top_p"], body["seed"]) == (3, 1.0, 512, 0.5, 3)
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert [reply.text for reply in replies] == ["7"] * 3
    # 100 prompt and 31 completion tokens: (100 * 1 + 31 * 10) / 1e6 in all
    assert [reply.prompt_tokens for reply in replies] == [34, 33, 33]
    assert sum(reply.cost_usd or 0 for reply in replies) == pytest.approx(410e-6)
    assert {reply.model for reply in replies} == {
        model.split("/")[1] + "-2026" if provider == "litellm" else "org/m-2026"
    }


FAULTS = [
    pytest.param({"status": 429, "headers": {"Retry-After": "7"}}, "rate_limited", id="429"),
    pytest.param({"status": 500}, "server_error", id="500"),
    pytest.param({"status": 401}, "auth", id="401"),
    pytest.param({"status": 404}, "unknown_model", id="404"),
    pytest.param({"status": 400}, "client_error", id="400"),
    pytest.param({"hang": 6}, "timeout", id="hang"),
]


@pytest.mark.parametrize(("fault", "kind"), FAULTS)
@pytest.mark.parametrize(("provider", "model"), ALL)
def test_a_fault_is_the_same_kind_of_problem_and_is_not_tried_again_by_the_library(
    provider: str, model: str, fault: dict[str, Any], kind: str
) -> None:
    with judge_server(always=fault) as server, pytest.raises(ProviderError) as caught:
        ask(judge_of(provider, model, server.url, timeout_s=2.0 if "hang" in fault else 10.0))
    assert caught.value.kind == kind
    assert len(server.seen) == 1
    assert caught.value.retry_after == (7.0 if kind == "rate_limited" else None)
    assert caught.value.maybe_paid is (kind == "timeout")


@pytest.mark.parametrize(("provider", "model"), ALL)
@pytest.mark.parametrize(
    "body",
    [b"<html>", b"", b"[]", b'{"choices": []}', b'{"choices": [{"no": 1}]}'],
    ids=["html", "empty", "list", "none", "no message"],
)
def test_what_is_no_chat_completion_may_have_been_paid_for(provider: str, model: str, body: bytes) -> None:
    answer = {"body": body, "headers": {"content-type": "application/json"}}
    with judge_server(always=answer) as server, pytest.raises(ProviderError) as caught:
        ask(judge_of(provider, model, server.url))
    assert (caught.value.kind, caught.value.maybe_paid) == ("malformed", True)
    assert len(server.seen) == 1


@pytest.mark.parametrize(("provider", "model"), ALL)
def test_no_server_is_a_problem_of_the_connection(provider: str, model: str) -> None:
    with pytest.raises(ProviderError) as caught:
        ask(judge_of(provider, model, "http://127.0.0.1:9/v1"))
    assert caught.value.kind == "connection"


@pytest.mark.parametrize(("provider", "model"), BOTH)
def test_a_refused_parameter_is_learnt_and_left_out(provider: str, model: str, tmp_path: Path) -> None:
    items = [{"item_id": str(i), "question": "2 + 2?", "answer": str(i), "reference": "4"} for i in range(2)]
    with judge_server(
        refuses=("n", "response_format"), always={"content": '{"explanation": "a", "score": 1}'}
    ) as server:
        judge = judge_of(provider, model, server.url)
        with pytest.warns(ek.errors.EvalkitWarning):
            table = ek.judge(items, "correctness", judge, samples=2, cache=tmp_path)
        assert table["score"].tolist() == [1] * 4
        assert "n" not in server.seen[-1].body
        n_seen = len(server.seen)
        ek.judge(items, "correctness", judge, samples=2, cache=tmp_path)
        assert len(server.seen) == n_seen


@pytest.mark.parametrize(("provider", "model"), ALL)
def test_a_key_goes_to_another_host_only_if_it_is_named(
    provider: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "HF_TOKEN", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "hf_not-for-others")
    monkeypatch.setenv("MY_KEY", "mine")
    with judge_server() as server:
        ask(judge_of(provider, model, server.url))
        ask(judge_of(provider, model, server.url, api_key_env="MY_KEY"))
    first, second = ({k.lower(): v for k, v in seen.headers.items()}.get("authorization") for seen in server.seen)
    assert "not-for-others" not in str(server.seen[0].headers)
    assert (first, second) == ("Bearer unset" if provider == "litellm" else None, "Bearer mine")


def test_a_missing_key_is_named_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("litellm", reason="needs the extra litellm")
    for name in ("ANTHROPIC_API_KEY", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(JudgeError, match="ANTHROPIC_API_KEY"):
        check_ready(Judge("litellm", "anthropic/claude-sonnet-4-5"))
    with pytest.raises(JudgeError, match="HF_TOKEN"):
        check_ready(Judge("inference-providers", "org/m"))
    with pytest.raises(ConfigError, match="put the provider before the model"):
        check_ready(Judge("litellm", "some-unknown-model"))
    with pytest.raises(ConfigError, match="mock_response"):
        check_ready(Judge("litellm", "openai/m", params={"mock_response": "5"}))


@pytest.mark.parametrize(("provider", "model"), [ALL[0], ALL[2]])
def test_a_missing_library_names_its_extra(provider: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=rf"pip install '\.\[{provider}\]'"):
        check_ready(Judge(provider, model))


def test_the_provider_behind_the_router_goes_with_the_models_name() -> None:
    judge = Judge("inference-providers", "org/m", params={"hf_provider": "together", "thinking": False})

    async def body_of(judge: Judge) -> dict[str, Any]:
        body, _ = connect(judge).body(request_of(judge, 7, (0,)), 1, {})  # type: ignore[attr-defined]
        return {name: body[name] for name in ("model", "thinking", "hf_provider") if name in body}

    def sent(judge: Judge) -> dict[str, Any]:
        return LoopThread.get().submit(body_of(judge)).result(300)

    assert sent(judge) == {"model": "org/m:together", "thinking": False}
    for company in ("auto", None, ""):
        assert sent(judge.replace(params={"hf_provider": company})) == {"model": "org/m"}
    assert sent(judge.replace(base_url="http://127.0.0.1:9")) == {"model": "org/m", "thinking": False}


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://gw.io/v1?api-version=1", "http://gw.io/v1?api-version=1"), ("http://gw.io/x?k=1", "http://gw.io/x/v1?k=1"),
        ("http://gw.io/v1/chat/completions", "http://gw.io/v1"), ("http://gw.io", "http://gw.io/v1"),
    ],
)  # fmt: skip
def test_the_version_is_added_to_the_path_of_an_address(address: str, expected: str) -> None:
    assert with_version(address) == expected


# of the server's odd answers those that the library lets through, or may not: a bomb it reads in full
ODD = [odd for odd in odd_answers() if "bomb" not in odd.name and "Retry-After: 9" not in odd.name]


@pytest.mark.parametrize(("provider", "model"), ALL)
def test_no_odd_answer_is_anything_but_replies_or_a_problem(provider: str, model: str) -> None:
    with judge_server() as server:
        judge = judge_of(provider, model, server.url)
        for odd in ODD:
            server.always = odd.step
            try:
                replies = ask(judge)
            except ProviderError as problem:
                problem.detail.encode()
                continue
            assert replies, odd.name
            for reply in replies:
                assert reply.text is None or isinstance(reply.text, str), odd.name
                assert (reply.prompt_tokens is None) or token_count(reply.prompt_tokens) is not None, odd.name
                assert encoded(reply.as_dict()), odd.name
