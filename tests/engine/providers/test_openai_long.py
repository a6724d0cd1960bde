"""What is sent to an OpenAI-compatible server, how its answers are read, and what they cost."""

from __future__ import annotations

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_requests import SCHEMA, ask, request_of
from servers import judge_server

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply
from evalkit.engine.providers import check_ready
from evalkit.engine.providers.chat_client import request_body
from evalkit.engine.providers.openai import _headers_for
from evalkit.engine.providers.openai_replies import replies_of
from evalkit.engine.providers.prices import cost_of, price_of, shares
from evalkit.engine.providers.transport import Answer
from evalkit.engine.request import ProviderError, Request
from evalkit.errors import ConfigError, JudgeError
from evalkit.errors.secrets import without_keys

LOCAL = "http://127.0.0.1:1/v1"


def problem(request: Request) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        ask(request)
    return caught.value


def answer(body: bytes) -> Answer:
    return Answer(200, {}, body, LOCAL.removesuffix("/v1"))


def read(body: bytes, n: int) -> tuple[list[Reply], str]:
    """The replies, or what the problem is."""
    try:
        return replies_of(answer(body), n, price=(1.0, 1.0), latency_s=0.1, sent=None), ""
    except ProviderError as error:
        return [], error.detail


def said(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "param": param, "code": code}}


def test_an_answer_that_contradicts_itself_is_no_reply() -> None:
    def choice(text: str, **fields: Any) -> str:
        return json.dumps({"message": {"role": "assistant", "content": text}, "finish_reason": "stop"} | fields)

    logprobs = {"logprobs": {"content": [{"token": "4", "logprob": -0.1, "top_logprobs": []}]}}
    for body, n, found in (
        (f'{{"choices": [{choice("4")}], "choices": [{choice("5")}]}}', 1, "duplicate key 'choices'"),
        ('{"choices": [{"message": {"content": "4", "content": "5"}}]}', 1, "duplicate key 'content'"),
        ('{"choices": [{"message": {"content": "4"}, "message": {"content": "5"}}]}', 1, "duplicate key 'message'"),
        (f'{{"choices": [{choice("4", index=0)}, {choice("5", index=0)}]}}', 1,
         "two different choices with the index 0"),
        (f'{{"choices": [{choice("4")}, {choice("5")}]}}', 1, "two different choices with the index None"),
        # more replies than asked for, each with its number; the same twice; all those asked for under one number
        (f'{{"choices": [{choice("4", index=0)}, {choice("5", index=1)}]}}', 1, ["4"]),
        (f'{{"choices": [{choice("4", index=0)}, {choice("4", index=0)}]}}', 1, ["4"]),
        (f'{{"choices": [{choice("4", index=0)}, {choice("5", index=0)}]}}', 2, ["4", "5"]),
        (f'{{"choices": [{choice("4", **logprobs)}], "id": NaN}}', 1, ["4"]),
        (f'{{"id": 1, "id": 2, "choices": [{choice(json.dumps({"choices": 1, "content": 2}))}]}}', 1,
         ['{"choices": 1, "content": 2}']),
    ):  # fmt: skip
        replies, detail = read(body.encode(), n)
        assert (detail.removeprefix("the answer contains ").removeprefix("the ") if detail else
                [reply.text for reply in replies]) == found, body  # fmt: skip


SCHEMA_REFUSED = said("Unknown parameter: 'response_format.json_schema'", "response_format.json_schema")


def test_the_body_holds_what_was_asked_for_and_no_more() -> None:
    judge = Judge("openai", "m", base_url=LOCAL, temperature=0.5, max_tokens=9, params={"seed": 1})
    body, sent = request_body(request_of(judge, 3), 1, {})
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "ITEM-3 "}],
        "temperature": 0.5,
        "max_tokens": 9,
        "seed": 1,
    }
    assert sent is None
    bare, _ = request_body(request_of(judge.replace(temperature=None, max_tokens=None, params={}), 3), 1, {})
    assert set(bare) == {"model", "messages"}


def test_the_schema_is_sent_strict_unless_the_judge_has_its_own_or_it_is_refused() -> None:
    judge = Judge("openai", "m", base_url=LOCAL)
    body, _ = request_body(request_of(judge, 3, form="json"), 2, {})
    assert body["response_format"]["json_schema"] == {"name": "judgment", "schema": SCHEMA, "strict": True}
    assert body["n"] == 2
    own = judge.replace(params={"response_format": {"type": "json_object"}})
    assert request_body(request_of(own, 3, form="json"), 1, {})[0]["response_format"] == {"type": "json_object"}
    body, sent = request_body(request_of(judge, 3, form="json"), 1, {"response_format": None, "n": None})
    assert "response_format" not in body
    assert sent == {"response_format": None}


def test_what_is_sent_otherwise_is_noted() -> None:
    body, sent = request_body(request_of(Judge("openai", "m"), 3), 1, {"max_tokens": "max_completion_tokens"})
    assert (body.get("max_completion_tokens"), "max_tokens" in body) == (512, False)
    assert sent == {"max_tokens": None, "max_completion_tokens": 512}


@pytest.mark.parametrize("name", ["n", "stream", "model", "messages"])
def test_params_that_evalkit_sets_itself_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"must not contain '{name}'"):
        check_ready(Judge("openai", "m", base_url=LOCAL, params={name: 2}))


@given(total=st.integers(0, 10**6), n=st.integers(1, 50))
def test_shares_are_nearly_equal_and_sum_to_the_bill(total: int, n: int) -> None:
    parts = [part for part in shares(total, n) if part is not None]
    assert (len(parts), sum(parts)) == (n, total)
    assert max(parts) - min(parts) <= 1


@given(st.binary(max_size=300))
def test_any_bytes_are_replies_or_a_problem(body: bytes) -> None:
    replies, detail = read(body, 1)
    assert bool(detail) != (len(replies) == 1)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "usage", "model", "error", "code", "prompt_tokens"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(_json)
def test_any_json_is_replies_or_a_problem(body: Any) -> None:
    import orjson

    try:
        raw = orjson.dumps(body)
    except TypeError:  # integers beyond 64 bits are no JSON that orjson writes
        return
    replies, detail = read(raw, 2)
    assert bool(detail) != (1 <= len(replies) <= 2)
    assert all(reply.text is None or isinstance(reply.text, str) for reply in replies)


def test_usage_that_is_missing_is_unknown_not_zero() -> None:
    body = b'{"choices": [{"message": {"content": "1"}}]}'
    (reply,) = replies_of(answer(body), 1, price=(1.0, 1.0), latency_s=0.1, sent=None)
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cost_usd, reply.model) == (None, None, None, None)


@pytest.mark.parametrize(
    ("status", "body", "kind", "parameter"),
    [
        (400, said("Unsupported value", "temperature", "unsupported_value"), "refused_parameter", "temperature"),
        (400, SCHEMA_REFUSED, "refused_parameter", "response_format"),
        (422, {"detail": "Extra inputs are not permitted: max_tokens"}, "refused_parameter", "max_tokens"),
        (400, {"error": "plain text"}, "client_error", None),
        (400, b"<html>", "client_error", None),
        (401, {}, "auth", None),
        (404, {}, "unknown_model", None),
        (408, {}, "server_error", None),
        (429, {}, "rate_limited", None),
        (529, {}, "server_error", None),
        (307, b"", "client_error", None),
    ],
)  # fmt: skip
def test_statuses_are_told_apart(status: int, body: Any, kind: str, parameter: str | None) -> None:
    with judge_server(script=deque([{"status": status, "body": body}])) as server:
        found = problem(request_of(Judge("openai", "m", base_url=server.url), 1, form="json"))
    assert (found.kind, found.status, found.parameter) == (kind, status, parameter)
    assert f"HTTP {status} from {server.url.removesuffix('/v1')}" in found.detail
    assert len(found.detail) < 350


@pytest.mark.parametrize(
    ("header", "wait"),
    [({"Retry-After": "2"}, 2.0), ({"retry-after-ms": "150"}, 0.15), ({"Retry-After": "soon"}, None)],
)
def test_a_wait_is_read_from_the_headers(header: dict[str, str], wait: float | None) -> None:
    with judge_server(script=deque([{"status": 429, "headers": header}])) as server:
        assert problem(request_of(Judge("openai", "m", base_url=server.url), 1)).retry_after == wait


def test_a_redirect_is_not_followed_with_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-mine")
    with judge_server() as other:
        step = {"status": 307, "body": b"", "headers": {"Location": other.url + "/chat/completions"}}
        with judge_server(script=deque([step])) as server:
            found = problem(request_of(Judge("openai", "m", base_url=server.url, api_key_env="MY_KEY"), 1))
        assert other.seen == []
        assert "HTTP 307" in found.detail
        assert "a redirect, which evalkit does not follow: set base_url" in found.detail


def test_a_proxy_of_the_environment_is_used_and_netrc_is_not_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine judge.invalid login me password sk-netrc\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with judge_server(proxied=True) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1").removeprefix("http://"))  # as curl reads it
        monkeypatch.setenv("no_proxy", "")
        (reply,) = ask(request_of(Judge("openai", "m", base_url="http://judge.invalid/v1"), 4))
    assert reply.text == "4"
    assert proxy.seen[0].headers["Host"] == "judge.invalid"
    assert "Authorization" not in proxy.seen[0].headers


def test_a_proxy_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "")
    judge = Judge("openai", "m", base_url="https://judge.invalid/v1")
    for status, words in (
        (407, "name and password: HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT"),
        (403, "does not let this host through"),
    ):
        answers = {"do_CONNECT": lambda self, code=status: self.send_error(code), "log_message": lambda *_: None}
        with HTTPServer(("127.0.0.1", 0), type("Proxy", (BaseHTTPRequestHandler,), answers)) as proxy:
            monkeypatch.setenv("https_proxy", f"http://me:sk-of-the-proxy@127.0.0.1:{proxy.server_port}")
            thread = threading.Thread(target=proxy.handle_request)
            thread.start()
            found = problem(request_of(judge, 1))
            thread.join()
        assert words in found.detail
        assert "sk-of-the-proxy" not in found.detail
        assert without_keys(found.detail) == found.detail  # as in the error that the caller gets
        assert not found.maybe_paid
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"set http://HOST:PORT or .* in HTTP_PROXY"):
        ask(request_of(Judge("openai", "m", base_url="http://judge.invalid/v1"), 1))


def test_a_missing_key_names_the_variable_and_the_ways_out() -> None:
    with pytest.raises(JudgeError, match=r"OPENAI_API_KEY is not set; set it.*api_key_env.*fake:strict.*offline"):
        check_ready(Judge.of("openai:gpt-4o-mini"))
    check_ready(Judge("openai", "m", base_url=LOCAL))  # another host needs none


@pytest.mark.parametrize("key", ["bad\nkey", "ключ"])
def test_a_key_that_cannot_be_one_is_not_shown(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("MY_KEY", key)
    found = problem(request_of(Judge("openai", "m", base_url=LOCAL, api_key_env="MY_KEY"), 1))
    assert found.kind == "auth"
    assert key not in found.detail


def test_prices_are_the_judges_own_the_listed_or_unknown() -> None:
    listed = price_of(Judge.of("openai:gpt-4o-mini"))
    assert 0 < listed[0] < listed[1]  # completion tokens cost more than prompt tokens
    assert price_of(Judge("openai", "gpt-4o-mini", price=(1.0, 2.0))) == (1.0, 2.0)
    assert price_of(Judge("openai", "gpt-4o-mini", base_url=LOCAL)) is None  # the name alone says nothing
    assert price_of(Judge("openai", "gpt-4o-mini", base_url="https://judge.invalid/v1")) is None
    assert price_of(Judge.of("openai:no-such-model-at-all")) is None
    assert price_of(Judge.of("fake:strict")) == (0.0, 0.0)


def test_an_unknown_price_or_usage_gives_no_cost() -> None:
    assert cost_of(None, 1, 1) is cost_of((1.0, 1.0), None, 1) is cost_of((1.0, 1.0), 1, None) is None
    # 1000 · 2 / 1e6 + 500 · 8 / 1e6
    assert cost_of((2.0, 8.0), 1000, 500) == pytest.approx(0.006)


class Captured(httpx2.BaseTransport):
    """Sends nothing: keeps the last request of the openai client."""

    request: httpx2.Request

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.request = request
        return httpx2.Response(200, json={"choices": []}, request=request)


def test_a_request_is_that_of_the_openai_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Same address, body and headers, but for those by which the client describes its own machine."""
    for name in ("OPENAI_BASE_URL", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    captured = Captured()
    theirs = openai.OpenAI(api_key="unset", http_client=httpx2.Client(transport=captured))
    body, _ = request_body(request_of(Judge("openai", "m", params={"seed": 1}), 3, form="json"), 2, {})
    theirs.chat.completions.create(**body)
    assert str(captured.request.url) == "https://api.openai.com/v1/chat/completions"
    assert json.loads(captured.request.content) == body
    described = {name: value for name, value in captured.request.headers.items() if not name.startswith("x-stainless")}
    own = _headers_for("https://api.openai.com/v1")
    assert {name: own[name] for name in described if name in own and name not in ("user-agent", "accept-encoding")} == {
        "accept": "application/json",
        "content-type": "application/json",
        "openai-organization": "org-1",
        "openai-project": "proj-1",
    }
    assert set(described) - set(own) == {"host", "connection", "content-length", "authorization"}
    assert set(_headers_for("http://127.0.0.1:8000/v1")) == {"accept", "accept-encoding", "content-type", "user-agent"}


def test_headers_of_ones_own_cannot_set_what_evalkit_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: judges\nAuthorization: Bearer q\nno colon\nUser-Agent: mine")
    headers = _headers_for("https://api.openai.com/v1")
    assert (headers["x-team"], headers["user-agent"]) == ("judges", "mine")
    assert {"authorization", "no colon"}.isdisjoint(headers)
