"""Judges of clients: what is sent for them, how clients are called, and what is asked without them elsewhere."""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest
from batch_runs import sent, some_items
from batch_server import batch_server
from servers import JudgeServer, Seen, judge_server

import evalkit as ek
from evalkit.core.judges import Judge
from evalkit.errors import ConfigError, JudgeError

KEY = "sk-0123456789abcdefghij"
ITEMS = [{"item_id": str(at), "question": f"ITEM-{at}", "answer": "x", "reference": "y"} for at in range(3)]
GOOD = {"content": '{"explanation": "so", "score": 2}'}
_EVERY = ("x-stainless", "accept", "content-", "host", "connection", "idempotency", "anthropic-version")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("OPENAI_", "AZURE_", "ANTHROPIC_")):
            monkeypatch.delenv(name)


def judged(judge: Any, cache: Path | str, samples: int = 1, **options: Any) -> Any:
    options = {"progress": False} | options
    return ek.judge(ITEMS, "correctness", judge, samples=samples, cache=cache, **options)


def heads(seen: Seen) -> dict[str, str]:
    every = {name.lower(): value for name, value in seen.headers.items() if not name.lower().startswith(_EVERY)}
    return every if every.get("user-agent") == "mine" else {n: v for n, v in every.items() if n != "user-agent"}


def asked(client: Any) -> None:
    """The client's own call."""
    messages: Any = [{"role": "user", "content": "ITEM-1"}]
    create = client.messages.create if "nthropic" in type(client).__name__ else client.chat.completions.create

    async def call() -> None:
        await create(model="m", messages=messages, max_tokens=5)
        await client.close()

    if type(client).__name__.startswith("Async"):
        asyncio.run(call())
    else:
        create(model="m", messages=messages, max_tokens=5)


def options_of(name: str, root: str, chance: random.Random) -> dict[str, Any]:
    """Options of a client of this class, as people set them."""

    async def token() -> str:
        return "token-of-a-coroutine-1"

    options: dict[str, Any] = {"max_retries": 0}
    if chance.random() < 0.5:
        options["default_headers"] = chance.choice(
            [{"X-Team": "a"}, {"X-Team": "a", "User-Agent": "mine"}, {"Authorization": "Bearer of-the-headers-1"},
             {"X-Api-Key": "of-the-gateway-012345"}]
        )  # fmt: skip
    if chance.random() < 0.3 and "nthropic" not in name:
        options["default_query"] = chance.choice([{"a": "1"}, {"a": "1", "b": "x y"}, {"l": ["1", "2"]}, {"t": True}])
    if "nthropic" in name:
        return options | {
            "base_url": root + chance.choice(["", "/", "/gw"]),
            chance.choice(["api_key", "auth_token"]): KEY,
        }
    if chance.random() < 0.3:
        options["organization"] = "org-given"
    if "Azure" not in name:
        call = token if name == "AsyncOpenAI" else lambda: "token-of-a-function-1"
        options |= {"api_key": chance.choice([KEY, "EMPTY", call]), "base_url": root + chance.choice(["/v1", "/a/v1/"])}
        return options | ({"project": "proj-given"} if chance.random() < 0.3 else {})
    place = chance.choice(
        [{"azure_endpoint": root}, {"azure_endpoint": root + "/", "azure_deployment": "d"},
         {"base_url": root + "/openai/deployments/e"}, {"base_url": root + "/gw/openai"}]
    )  # fmt: skip
    provider = chance.choice([token, lambda: "token-1"]) if name == "AsyncAzureOpenAI" else lambda: "token-1"
    keys = [{"api_key": KEY}, {"azure_ad_token": "token-2"}, {"azure_ad_token_provider": provider}]
    return options | place | chance.choice(keys) | {"api_version": "2024-10-21"}


def test_evalkit_sends_what_the_client_sends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The truth is the client's own request: path, query, and all headers but those of every request."""
    chance = random.Random(40)
    names = ["OpenAI", "AsyncOpenAI", "AzureOpenAI", "AsyncAzureOpenAI", "Anthropic", "AsyncAnthropic"]
    with judge_server(always=GOOD, proxied=True) as server:
        for number in range(42):
            name = names[number % 6]
            made = anthropic if "nthropic" in name else openai
            options = options_of(name, server.url.removesuffix("/v1"), chance)
            with monkeypatch.context() as here:
                for variable, value in [
                    ("OPENAI_ORG_ID", "org-here"),
                    ("OPENAI_CUSTOM_HEADERS", "X-Here: 1\nX-Team: h"),
                ]:
                    if chance.random() < 0.3:
                        here.setenv(variable, value)
                server.seen.clear()
                asked(getattr(made, name)(**options))
                judge = Judge.client(getattr(made, name)(**options), "m")
                assert not judge.given.calls
                assert judged(judge, tmp_path / str(number), retries=0)["score"].tolist() == [2.0] * 3
            theirs, ours = server.seen[0], server.seen[1]
            assert (ours.path, sorted(ours.query.split("&"))) == (theirs.path, sorted(theirs.query.split("&"))), options
            assert heads(ours) == heads(theirs), options


def test_headers_of_a_variable_are_sent_for_a_client_that_has_none(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TEAM_HEADERS", "X-Team: ours")
    with judge_server(always=GOOD, proxied=True) as server:
        cases: list[tuple[dict[str, Any], str]] = [({}, "ours"), ({"default_headers": {"X-Team": "its"}}, "its")]
        for options, team in cases:
            client = openai.OpenAI(api_key=KEY, base_url=server.url, max_retries=0, **options)
            table = judged(Judge.client(client, "m", headers_env="TEAM_HEADERS"), tmp_path / team, retries=0)
            assert table["score"].tolist() == [2.0] * 3
            assert heads(server.seen[-1])["x-team"] == team


@pytest.fixture
def service() -> Any:
    with judge_server(always=GOOD, proxied=True) as server:
        yield server


def clients(url: str, **options: Any) -> list[Any]:
    """A client of each class that is read off, and of each way of being called, for one service."""
    given: dict[str, Any] = {"api_key": KEY, "base_url": url} | options
    root = url.removesuffix("/v1")

    class Mine(openai.OpenAI):
        pass

    wrapped = openai.OpenAI(**given, max_retries=0)
    create = wrapped.chat.completions.create
    wrapped.chat.completions.create = lambda **arguments: create(**arguments)  # type: ignore[method-assign]
    return [
        openai.OpenAI(**given), openai.AsyncOpenAI(**given), Mine(**given), wrapped,
        openai.AzureOpenAI(api_key=KEY, azure_endpoint=root, api_version="2024-10-21"),
        openai.OpenAI(**given, http_client=httpx2.Client()), openai.OpenAI(**given, http_client=httpx.Client()),
        openai.AsyncOpenAI(**given, http_client=httpx2.AsyncClient()),
        openai.OpenAI(**given, http_client=openai.DefaultHttpxClient()),
        openai.OpenAI(**given, default_query={"key": KEY}),
        SimpleNamespace(base_url=url, chat=openai.OpenAI(**given, max_retries=0).chat),
    ]  # fmt: skip


def test_the_reply_keys_are_those_of_the_address(service: JudgeServer, tmp_path: Path) -> None:
    table = judged(Judge("openai", "m", base_url=service.url), tmp_path, samples=2)
    assert table["score"].tolist() == [2.0] * 6
    n_seen = len(service.seen)
    for client in clients(service.url):
        again = judged(Judge.client(client, "m"), tmp_path, samples=2)
        assert again["key"].tolist() == table["key"].tolist()
        assert set(again["source"]) == {"cache"}
        fresh = judged(Judge.client(client, "m"), tmp_path / "other", samples=2, refresh=True)
        assert fresh["score"].tolist() == [2.0] * 6
        assert set(fresh["source"]) == {"live"}
    assert len(service.seen) == n_seen + 3 * len(clients(service.url))  # `n`: one request for both samples
    with judge_server(always=GOOD, proxied=True) as other:
        native = Judge("anthropic", "m", base_url=other.url.removesuffix("/v1"))
        by_address = judged(native, tmp_path / "native")
        options: Any = {"api_key": KEY, "base_url": other.url.removesuffix("/v1")}
        for client in (
            anthropic.Anthropic(**options),
            anthropic.Anthropic(**options, http_client=httpx2.Client()),
            anthropic.AsyncAnthropic(**options, http_client=httpx2.AsyncClient()),
        ):
            live = judged(Judge.client(client, "m"), tmp_path / "native", refresh=True)
            assert live["key"].tolist() == by_address["key"].tolist()
            assert live["score"].tolist() == [2.0] * 3
            assert live["prompt_tokens"].tolist() == by_address["prompt_tokens"].tolist()


def failure(judge: Judge, cache: Path, log: pytest.LogCaptureFixture) -> str:
    """What is said of a judge that does not answer."""
    log.clear()
    try:
        table = ek.judge(ITEMS[:1], "correctness", judge, samples=1, cache=cache, progress=False, retries=0)
    except JudgeError as problem:
        return str(problem)
    assert table["score"].isna().all()
    return log.text


def test_retries_are_evalkits_alone_and_errors_mean_the_same(
    service: JudgeServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    steps: list[tuple[dict[str, Any], str]] = [
        ({"status": 500}, "HTTP 500"),
        ({"status": 429, "headers": {"retry-after": "0.1"}}, "HTTP 429"),
        ({"status": 401, "body": {"error": {"message": f"bad key {KEY}"}}}, "HTTP 401"),
        ({"status": 400, "body": {"error": {"message": "the prompt is bad"}}}, "the prompt is bad"),
        ({"body": b"<html>"}, "HTML"),
        ({"reset": True}, ""),
        ({"hang": 600}, "no answer"),
    ]
    for number, (step, words) in enumerate(steps):
        for at, client in enumerate(clients(service.url)):
            service.always = step
            judge = Judge.client(client, "m", timeout_s=0.5 if "hang" in step else 300)
            service.seen.clear()
            said = failure(judge, tmp_path / f"{number}-{at}", caplog)
            assert words in said, (step, client)
            assert KEY not in said
            assert len(service.seen) == 1, (step, client)


def test_refused_parameters_and_probabilities_work_through_a_called_client(tmp_path: Path) -> None:
    rows = [{"token": token, "logprob": -0.1, "top_logprobs": []} for token in ("2",)]
    told = {
        "choices": [{"index": 0, "message": {"content": "2"}, "finish_reason": "stop", "logprobs": {"content": rows}}]
    }
    with judge_server(always=GOOD | {"tells": {"usage": {"prompt_tokens": 7, "cost": 0.5}}}, proxied=True) as server:
        server.refuses = ("max_tokens",)
        client = openai.OpenAI(api_key=KEY, base_url=server.url, http_client=httpx2.Client())
        judge = Judge.client(client, "m", params={"top_k": 3, "seed": 5})
        with pytest.warns(ek.errors.EvalkitWarning, match="max_tokens"):
            table = judged(judge, tmp_path)
        assert table["score"].tolist() == [2.0] * 3
        assert table["cost_usd"].tolist() == [0.5] * 3
        body = server.seen[-1].body
        assert (body["top_k"], body["seed"], body["max_completion_tokens"]) == (3, 5, 512)
        server.always = {"tells": told}
        report = ek.engine.check_server(judge)
        assert report.answers
        assert not report.problems
        expected = judged(Judge.client(client, "m", score="expected"), tmp_path)
        assert server.seen[-1].body["logprobs"] is True
        assert "score_sd" in expected


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the connections of the loop that is gone cannot be closed
def test_an_asynchronous_client_of_another_loop_is_named(service: JudgeServer, tmp_path: Path) -> None:
    def made() -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(api_key=KEY, base_url=service.url, http_client=httpx2.AsyncClient())

    client = made()
    judge = Judge.client(client, "m")
    for refresh in (False, True):  # on one loop, as often as one likes
        assert judged(judge, tmp_path, refresh=refresh)["score"].tolist() == [2.0] * 3
    client = made()

    async def used() -> None:
        await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "ITEM-1"}])

    asyncio.run(used())
    with pytest.raises(JudgeError, match=r"used in another event loop.* or a synchronous one"):
        judged(Judge.client(client, "m"), tmp_path / "other", concurrency=1)
    # read off, the same client needs no loop of its own
    plain = openai.AsyncOpenAI(api_key=KEY, base_url=service.url)

    async def used_and_judged() -> Any:
        await plain.chat.completions.create(model="m", messages=[{"role": "user", "content": "ITEM-1"}])
        return await ek.ajudge(ITEMS, "correctness", Judge.client(plain, "m"), samples=1, cache=tmp_path / "plain")

    assert asyncio.run(used_and_judged())["score"].tolist() == [2.0] * 3


def test_functions_that_return_keys_are_asked_for_each_call(service: JudgeServer, tmp_path: Path) -> None:
    keys = iter(f"token-number-{number:08d}" for number in range(100))
    client = openai.OpenAI(api_key=lambda: next(keys), base_url=service.url)
    judged(Judge.client(client, "m"), tmp_path)
    assert len({seen.headers["Authorization"] for seen in service.seen}) == 3
    for value, words in [(None, "returned NoneType"), ("", "returned a text"), ("a\nb", "no header can hold")]:
        with pytest.raises(JudgeError, match=words):
            judged(Judge.client(openai.OpenAI(api_key=lambda: value, base_url=service.url), "m"), tmp_path / "none")  # noqa: B023

    def fails() -> str:
        raise OSError(f"no sign-in with {KEY}")

    judge = Judge.client(openai.OpenAI(api_key=fails, base_url=service.url), "m")
    with pytest.raises(JudgeError, match="raised OSError: no sign-in with") as caught:
        judged(judge, tmp_path / "no", retries=0)
    assert KEY not in str(caught.value)


def test_a_client_that_cannot_be_asked_is_refused_before_any_call(service: JudgeServer, tmp_path: Path) -> None:
    closed = openai.OpenAI(api_key=KEY, base_url=service.url, http_client=httpx2.Client())
    closed.close()
    retrying = openai.OpenAI(api_key=KEY, base_url=service.url)
    retrying.chat.completions.create = lambda **_: None  # type: ignore[method-assign]

    class Mine(openai.OpenAI):
        def __init__(self, team: str) -> None:
            super().__init__(api_key=KEY, base_url=service.url, default_headers={"X-Team": team})

    no_header = openai.OpenAI(api_key="a\nb", base_url=service.url)
    for client, words in [
        (closed, "is closed"),
        (retrying, r"max_retries=2.*max_retries=0"),
        (Mine("a"), r"max_retries=2.*max_retries=0"),
    ]:
        with pytest.raises(ConfigError, match=words):
            judged(Judge.client(client, "m"), tmp_path)
    own = Judge.client(openai.OpenAI(api_key=KEY, base_url=service.url, http_client=httpx2.Client()), "m")
    with pytest.raises(ConfigError, match=r"sends no batches.*HTTPS_PROXY"):
        ek.submit(ITEMS, "correctness", own, cache=tmp_path)
    with pytest.raises(JudgeError, match="the client <OpenAI> contains characters other than"):
        judged(Judge.client(no_header, "m"), tmp_path)
    assert not service.seen


ELSEWHERE = """
import pickle, sys, evalkit as ek
judge = pickle.load(open(sys.argv[1], "rb"))
items = [{"item_id": "a", "question": "ITEM-1", "answer": "x", "reference": "y"}]
try:
    print(ek.judge(items, "correctness", judge, samples=1, cache=sys.argv[2], progress=False)["score"].tolist())
except ek.errors.EvalkitError as problem:
    print(type(problem).__name__, problem)
"""


def test_elsewhere_the_address_and_the_variables_stand_for_the_client(service: JudgeServer, tmp_path: Path) -> None:
    numbers = itertools.count()

    def elsewhere(judge: Judge, **variables: str) -> str:
        path = tmp_path / "judge.pickle"
        path.write_bytes(pickle.dumps(judge))
        assert KEY.encode() not in path.read_bytes()
        command = [sys.executable, "-c", ELSEWHERE, str(path), str(tmp_path / f"elsewhere{next(numbers)}")]
        done = subprocess.run(
            command, env=os.environ | variables, capture_output=True, text=True, timeout=300, check=True
        )
        assert KEY not in done.stdout + done.stderr
        return done.stdout

    client = openai.OpenAI(api_key=KEY, base_url=service.url, default_headers={"X-Team": "a"})
    judge = Judge.client(client, "m")
    assert "LOCAL_HEADERS" in elsewhere(judge)
    assert "the environment variable LOCAL_API_KEY is not set" in elsewhere(judge, LOCAL_HEADERS="X-Team: a")
    assert elsewhere(judge, LOCAL_HEADERS="X-Team: a", LOCAL_API_KEY="other-key-0123") == "[2.0]\n"
    assert service.seen[-1].headers["Authorization"] == "Bearer other-key-0123"
    own = Judge.client(openai.OpenAI(api_key=KEY, base_url=service.url, http_client=httpx2.Client()), "m")
    variables = {"LOCAL_API_KEY": "other-key-0123"}
    assert "set HTTP_PROXY, or make the judge here" in elsewhere(own, **variables)
    with judge_server(always=GOOD, proxied=True) as proxy:
        address = proxy.url.removesuffix("/v1")
        assert elsewhere(own, **variables, http_proxy=address, no_proxy="") == "[2.0]\n"
        assert len(proxy.seen) == 1
    shape = SimpleNamespace(base_url=service.url, chat=openai.OpenAI(api_key=KEY, max_retries=0).chat)
    assert "no address stands for" in elsewhere(Judge.client(shape, "m"))


def test_a_frozen_profile_names_what_is_needed(service: JudgeServer, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    judge = Judge.client(openai.OpenAI(api_key=KEY, base_url=service.url), "m")
    evaluation = ek.evaluate(ITEMS, "correctness", judge, samples=1, cache=tmp_path / "cache")
    ek.freeze(evaluation, tmp_path / "strict.yaml")
    text = (tmp_path / "strict.yaml").read_text()
    assert f"base_url: {service.url}" in text
    assert "api_key_env: LOCAL_API_KEY" in text
    assert KEY not in text
    profile = ek.load_profile(tmp_path / "strict.yaml")
    assert set(ek.judge(ITEMS, profile, cache=tmp_path / "cache", progress=False)["source"]) == {"cache"}
    with pytest.raises(JudgeError, match="LOCAL_API_KEY is not set"):
        ek.judge(ITEMS, profile, cache=tmp_path / "empty", progress=False)
    stored = b"".join(path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert KEY.encode() not in stored


def test_batches_are_sent_and_collected_with_the_key_of_the_client(tmp_path: Path) -> None:
    cache, items = str(tmp_path / "cache"), some_items(3)
    with batch_server() as server:
        client = openai.OpenAI(api_key=KEY, base_url=server.url)
        judge = Judge.client(client, "gpt-4o-mini", service="api.openai.com")
        assert ek.plan(items, "correctness", judge, samples=3, cache=cache).usd > 0
        ticket = sent(items, judge, cache, budget_usd=1.0)
        assert KEY not in repr(ticket) + str(pickle.dumps(ticket.table))
        # by its id, another process would need the variable
        with pytest.raises(JudgeError, match="LOCAL_API_KEY is not set"):
            ek.collect(ticket.id, cache=cache, base_url=server.url)
        assert ek.collect(ticket, progress=False).table["n_stored"].sum() == 9
        assert set(ek.judge(items, "correctness", judge, samples=3, cache=cache, progress=False)["source"]) == {"cache"}
        assert server.live_calls == 0
