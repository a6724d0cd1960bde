"""Judges by Anthropic's API: what is sent, what an answer means, and what it costs."""

from __future__ import annotations

import logging
import subprocess
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import judge_requests
import pytest
from judge_requests import SCHEMA, request_of
from servers import judge_server

import evalkit as ek
from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Message, Reply
from evalkit.engine.calls.event_loop import LoopThread
from evalkit.engine.providers import check_ready, connect
from evalkit.engine.providers.prices import price_of
from evalkit.engine.request import ProviderError
from evalkit.errors import ConfigError, JudgeError

pytest.importorskip("anthropic", reason="needs the extra anthropic")
from evalkit.engine.providers.anthropic import as_completion, native_body
from evalkit.engine.providers.chat_client import request_body
from evalkit.engine.providers.transport import Answer

ITEMS = [{"item_id": str(i), "question": "2 + 2?", "answer": str(i), "reference": "4"} for i in range(2)]
GOOD = '{"explanation": "a", "score": 1}'
OWN = Judge("anthropic", "claude-sonnet-4-6")


def judge_at(url: str, **options: Any) -> Judge:
    return Judge("anthropic", "m", base_url=url, **({"timeout_s": 10} | options))


def ask(judge: Judge) -> list[Reply]:
    return judge_requests.ask(request_of(judge, 7, form="json"))


def body_of(judge: Judge, adapt: dict[str, Any] | None = None) -> dict[str, Any]:
    request = request_of(judge, 1, form="json")
    return native_body(request, request_body(request, 1, adapt or {})[0])


def test_a_judge_of_anthropic_has_its_service_key_and_price() -> None:
    judge = Judge.of("anthropic:claude-sonnet-4-6")
    assert (judge.service, judge.api_key_env, judge.base_url) == ("api.anthropic.com", "ANTHROPIC_API_KEY", None)
    assert price_of(judge) == (3.0, 15.0)


def test_the_address_in_the_environment_counts_and_gets_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://gateway.example.org")
    judge = Judge("anthropic", "m")
    assert (judge.base_url, judge.service, judge.api_key_env) == (
        "http://gateway.example.org", "gateway.example.org", None,
    )  # fmt: skip
    assert Judge("openai", "m", base_url="http://h/v1").base_url == "http://h/v1"


def test_what_the_api_cannot_take_is_said_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(JudgeError, match="ANTHROPIC_API_KEY"):
        check_ready(OWN)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    check_ready(OWN)
    with pytest.raises(ConfigError, match="needs max_tokens"):
        check_ready(OWN.replace(max_tokens=None))
    with pytest.raises(ConfigError, match="from 0 to 1"):
        check_ready(OWN.replace(temperature=1.5))
    with pytest.raises(ConfigError, match="system"):
        check_ready(OWN.replace(params={"system": "be kind"}))


def test_a_message_is_sent_with_schema_parameters_and_system_apart() -> None:
    with judge_server() as server:
        judge = judge_at(server.url, temperature=0.5, price=(1.0, 10.0), params={"top_k": 5, "thinking": {"type": "x"}})
        request = request_of(judge, 7, form="json")
        prompt = replace(request.prompt, messages=(Message("system", "be fair"), *request.prompt.messages))
        request.source = prompt
        (reply,) = judge_requests.ask(request)
    (seen,) = server.seen
    headers = {name.lower(): value for name, value in seen.headers.items()}
    assert seen.path == "/v1/messages"
    assert seen.body == {
        "model": "m", "max_tokens": 512, "temperature": 0.5, "top_k": 5, "thinking": {"type": "x"},
        "system": "be fair", "messages": [{"role": "user", "content": "ITEM-7 "}],
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    }  # fmt: skip
    assert headers["anthropic-version"] == "2023-06-01"
    # 100 prompt and 11 completion tokens: (100 * 1 + 11 * 10) / 1e6
    assert (reply.text, reply.finish_reason, reply.model) == ("7", "stop", "m-2026")
    assert (reply.prompt_tokens, reply.completion_tokens, reply.sent) == (100, 11, None)
    assert reply.cost_usd == pytest.approx(210e-6)


def test_the_default_temperature_is_left_out_where_it_is_the_default() -> None:
    assert "temperature" not in body_of(OWN)
    assert body_of(OWN.replace(temperature=0.0))["temperature"] == 0.0
    assert "temperature" not in body_of(OWN.replace(temperature=None))
    elsewhere = Judge("anthropic", "m", base_url="http://llm.example.org")
    assert body_of(elsewhere)["temperature"] == 1.0
    with judge_server() as server:
        ask(judge_at(server.url, temperature=None))
    assert server.seen[0].headers["anthropic-version"] > "2023-06-01"


def test_max_tokens_keeps_its_name_whatever_was_learnt_of_the_model() -> None:
    body = body_of(OWN, {"max_tokens": "max_completion_tokens", "response_format": None})
    assert body["max_tokens"] == 512
    assert not {"max_completion_tokens", "output_config", "response_format"} & set(body)


def test_a_limit_of_another_name_is_refused_and_not_dropped() -> None:
    with pytest.raises(ConfigError, match="must not contain 'max_completion_tokens'"):
        check_ready(judge_at("http://127.0.0.1:1", params={"max_completion_tokens": 3000}))


def test_an_effort_of_the_user_stands_beside_the_schema() -> None:
    config = body_of(OWN.replace(params={"output_config": {"effort": "low"}}))["output_config"]
    assert (config["effort"], config["format"]["type"]) == ("low", "json_schema")


THOUGHT = {"type": "thinking", "thinking": "0"}
STOPS = [
    ({"finish_reason": "max_tokens"}, "length", GOOD, None),
    ({"finish_reason": "stop_sequence"}, "stop", GOOD, None),
    ({"finish_reason": "refusal", "stop_details": {"explanation": "no"}}, "refusal", GOOD, "no"),
    ({"finish_reason": "tool_use"}, "tool_use", GOOD, None),
    ({"blocks": [THOUGHT]}, "stop", None, None),
    ({"blocks": [THOUGHT, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "stop", "ab", None),
]  # fmt: skip


@pytest.mark.parametrize(("step", "reason", "text", "refusal"), STOPS, ids=range(len(STOPS)))
def test_stop_reasons_and_blocks(step: dict[str, Any], reason: str, text: str | None, refusal: str | None) -> None:
    with judge_server(always={"content": GOOD} | step) as server:
        (reply,) = ask(judge_at(server.url))
    assert (reply.finish_reason, reply.text, reply.refusal) == (reason, text, refusal)


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ({"finish_reason": "refusal"}, "refused"),
        ({"finish_reason": "max_tokens", "content": '{"explan'}, "truncated"),
        ({"blocks": []}, "empty"),
    ],
    ids=["refusal", "length", "empty"],
)
def test_what_is_no_verdict_is_unscored_for_the_right_reason(step: dict[str, Any], error: str, tmp_path: Path) -> None:
    with judge_server(always={"content": GOOD} | step) as server:
        table = ek.judge(ITEMS[:1], "correctness", judge_at(server.url), samples=1, cache=tmp_path)
    assert (table["error"].tolist(), table["score"].isna().all()) == ([error], True)


def test_refused_parameters_are_learnt_and_left_out(tmp_path: Path) -> None:
    with judge_server(refuses=("temperature", "output_config"), always={"content": GOOD}) as server:
        judge = judge_at(server.url)
        with pytest.warns(ek.errors.EvalkitWarning):
            table = ek.judge(ITEMS, "correctness", judge, samples=2, cache=tmp_path)
        assert table["score"].tolist() == [1] * 4
        assert len(server.paid) == 4, "one request per sample"
        assert not {"temperature", "output_config", "n"} & set(server.seen[-1].body)
        n_seen = len(server.seen)
        ek.judge(ITEMS, "correctness", judge, samples=2, cache=tmp_path)
        assert len(server.seen) == n_seen
        ek.judge(ITEMS, "correctness", judge, samples=3, cache=tmp_path)
        assert len(server.seen) == n_seen + 2, "what was refused once is not sent again"


SAID = [
    (400, "invalid_request_error", "`temperature` is deprecated for this model.", "refused_parameter", "temperature"),
    (400, "invalid_request_error", "output_config.format.schema: too complex", "refused_parameter", "response_format"),
    (400, "invalid_request_error", "No structured outputs with this model", "client_error", None),
    (400, "invalid_request_error", "output_config.effort: not supported", "client_error", None),
    (400, "invalid_request_error", "max_tokens: 900000 > 64000", "client_error", None),
    (403, "permission_error", "no", "forbidden", None),
    (529, "overloaded_error", "Overloaded", "server_error", None),
    (307, "redirect", "elsewhere", "client_error", None),
]  # fmt: skip


@pytest.mark.parametrize(("status", "type_", "said", "kind", "parameter"), SAID, ids=[said[2] for said in SAID])
def test_errors_in_the_words_of_the_api(status: int, type_: str, said: str, kind: str, parameter: str | None) -> None:
    step = {"status": status, "body": {"type": "error", "error": {"type": type_, "message": said}}}
    step |= {"headers": {"location": "http://127.0.0.1:9/"}} if status == 307 else {}
    with judge_server(always=step) as server, pytest.raises(ProviderError) as caught:
        ask(judge_at(server.url, temperature=0.0))
    assert (caught.value.kind, caught.value.parameter, caught.value.status) == (kind, parameter, status)
    assert said in caught.value.detail
    assert len(server.seen) == 1
    assert not caught.value.maybe_paid


@pytest.mark.parametrize("step", [{"reset": True}, {"raw": b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"}], ids=str)
def test_a_connection_that_breaks_may_have_been_paid_for(step: dict[str, Any]) -> None:
    with judge_server(always=step) as server, pytest.raises(ProviderError) as caught:
        ask(judge_at(server.url))
    assert (caught.value.kind, caught.value.maybe_paid) == ("connection", True)
    assert len(server.seen) == 1


# claude-sonnet-4-6: US$ 3 per million prompt tokens, 15 per million written, 0.30 read from the cache, 3.75 written to
# it for five minutes, 6 for an hour
MILLION = 10**6
COSTS = [
    ({"input_tokens": MILLION, "output_tokens": MILLION}, 18.0, MILLION),
    ({"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": MILLION}, 0.3, MILLION),
    ({"input_tokens": 5, "output_tokens": 0, "cache_creation_input_tokens": MILLION}, 3.750015, MILLION + 5),
    (
        {"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": MILLION}
        | {"cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": MILLION}},
        6.0, MILLION,
    ),
    ({"input_tokens": 1, "output_tokens": 1, "speed": "fast"}, None, 1),
    ({"input_tokens": 1, "output_tokens": 1, "inference_geo": "us"}, None, 1),
    ({"input_tokens": 1, "output_tokens": 1, "service_tier": "priority"}, None, 1),
    ({"input_tokens": 1, "output_tokens": 1, "server_tool_use": {"web_search_requests": 2}}, None, 1),
    ({"input_tokens": 1, "output_tokens": 0, "server_tool_use": {"web_search_requests": 0}}, 3e-6, 1),
    ({"input_tokens": "1", "output_tokens": 1}, None, None),
    ({"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": -1}, None, None),
    ("none", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("usage", "usd", "prompt"), COSTS, ids=range(len(COSTS)))
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_cost_is_that_of_what_was_billed_or_unknown(
    usage: Any, usd: float | None, prompt: int | None, share: float
) -> None:
    import orjson

    message = {"model": "claude-sonnet-4-6", "content": [], "stop_reason": "end_turn", "usage": usage}
    answer = as_completion(Answer(200, {}, orjson.dumps(message), ""), OWN, share)
    assert answer.cost_usd == (None if usd is None else pytest.approx(usd * share))
    assert orjson.loads(answer.content)["usage"]["prompt_tokens"] == prompt
    own = as_completion(Answer(200, {}, orjson.dumps(message), ""), OWN.replace(price=(1.0, 1.0)))
    cached = isinstance(usage, dict) and ("cache_read_input_tokens" in usage or "cache_creation_input_tokens" in usage)
    has_tier = isinstance(usage, dict) and "service_tier" in usage
    assert (own.cost_usd is None) is (cached or has_tier or prompt is None)


@pytest.mark.parametrize("usage", [{"input_tokens": 0}, {"output_tokens": 0}, {"input_tokens": 0, "output_tokens": 0}])
def test_tokens_that_were_not_counted_have_no_price(usage: dict[str, int]) -> None:
    with judge_server(always={"usage": usage}) as server:
        (reply,) = ask(judge_at(server.url, price=(1, 1)))
    assert reply.text
    assert reply.cost_usd is None
    assert None in (reply.prompt_tokens, reply.completion_tokens)


def problem(judge: Judge) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        ask(judge)
    return caught.value


def test_a_certificate_that_is_not_trusted_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = tmp_path / "cert.pem", tmp_path / "key.pem"
    options = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=here -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(["openssl", *options.split(), "-out", pair[0], "-keyout", pair[1]], check=True, capture_output=True)
    with judge_server(tls=pair) as server:
        address = server.url.removesuffix("/v1")
        found = problem(judge_at(address))
        assert (found.kind, found.maybe_paid) == ("connection", False)
        assert "certificate verify failed" in found.detail
        assert "SSL_CERT_FILE names certificates to trust" in found.detail
        monkeypatch.setenv("SSL_CERT_FILE", str(pair[0]))
        (reply,) = ask(judge_at(address))
    assert reply.text
    assert problem(judge_at(address)).detail.startswith(f"no connection to {address} (")


def test_a_proxy_that_asks_for_a_password_shows_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "")
    answers = {"do_CONNECT": lambda self: self.send_error(407), "log_message": lambda *_: None}
    with HTTPServer(("127.0.0.1", 0), type("Proxy", (BaseHTTPRequestHandler,), answers)) as proxy:
        monkeypatch.setenv("https_proxy", f"http://me:sk-of-the-proxy@127.0.0.1:{proxy.server_port}")
        thread = threading.Thread(target=proxy.handle_request)
        thread.start()
        found = problem(judge_at("https://judge.invalid"))
        thread.join()
    assert "asks for a name and password: HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT" in found.detail
    assert "sk-of-the-proxy" not in found.detail


def test_headers_of_the_environment_do_not_go_to_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-gateway-key: secret\nX-Team: t")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-of-the-environment")
    monkeypatch.setenv("MY_OTHER_KEY", "mine")
    with judge_server() as server:
        ask(judge_at(server.url, api_key_env="MY_OTHER_KEY"))
    headers = {name.lower(): value for name, value in server.seen[0].headers.items()}
    assert not {"x-gateway-key", "x-team", "x-api-key"} & set(headers)
    assert headers["authorization"] == "Bearer mine"


def test_no_log_holds_the_key(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_OTHER_KEY", "sk-ant-of-this-test-0123456789")
    with judge_server() as server:
        (reply,) = ask(judge_at(server.url, api_key_env="MY_OTHER_KEY"))
        server.always = {"status": 401, "body": {"error": {"message": "sk-ant-of-this-test-0123456789 is wrong"}}}
        with pytest.raises(ProviderError) as caught:
            ask(judge_at(server.url, api_key_env="MY_OTHER_KEY"))
    assert reply.text == "7"
    assert "of-this-test" not in caplog.text + str(caught.value)
    assert "ITEM-7" not in str(caught.value)


def test_connections_are_shared_by_the_calls_of_a_judge() -> None:
    async def same() -> bool:
        judge = Judge("anthropic", "m", base_url="http://127.0.0.1:9")
        return connect(judge) is connect(judge.replace(model="other"))

    assert LoopThread.get().submit(same()).result(300)
