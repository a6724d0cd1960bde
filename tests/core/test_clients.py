"""Clients as judges: what is read off them, what stands for them elsewhere, and that their keys stay in them."""

from __future__ import annotations

import copy
import os
import pickle
from types import FunctionType, SimpleNamespace
from typing import Any

import anthropic
import httpx2
import joblib
import openai
import pytest
from ruamel.yaml import YAML

from evalkit.core.judges import Judge
from evalkit.errors import ConfigError
from evalkit.errors.secrets import find_key
from evalkit.rubrics.profiles import Profile, judge_dict

KEY = "sk-0123456789abcdefghij"
HOST = "https://llm.example.org/v1"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("OPENAI_", "AZURE_", "ANTHROPIC_")):
            monkeypatch.delenv(name)


def azure(**options: Any) -> openai.AzureOpenAI:
    return openai.AzureOpenAI(api_version="2024-10-21", azure_endpoint="https://n.openai.azure.com/", **options)


def test_what_stands_for_a_client_is_its_address_and_the_names_of_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_GATEWAY", "sk-of-the-gateway-0815")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another-account-0815")
    cases = [
        (openai.OpenAI(), "api.openai.com", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        (openai.OpenAI(api_key=KEY), "api.openai.com", "https://api.openai.com/v1", "OPENAI_API_KEY_2"),
        (openai.AsyncOpenAI(api_key=KEY, base_url=HOST + "/"), "llm.example.org", HOST, "LLM_EXAMPLE_ORG_API_KEY"),
        (openai.OpenAI(api_key="sk-of-the-gateway-0815", base_url=HOST), "llm.example.org", HOST, "MY_GATEWAY"),
        (openai.OpenAI(api_key="EMPTY", base_url="http://localhost:1/v1"), "local", "http://localhost:1/v1", None),
        (openai.OpenAI(api_key=KEY, base_url="http://[::1]:1/v1"), "local", "http://[::1]:1/v1", "LOCAL_API_KEY"),
        (
            openai.OpenAI(api_key=KEY, base_url="http://10.0.0.5/"),
            "10.0.0.5", "http://10.0.0.5", "HOST_10_0_0_5_API_KEY",
        ),
        (
            azure(api_key=KEY), "n.openai.azure.com",
            "https://n.openai.azure.com/openai/deployments/m%201?api-version=2024-10-21", "AZURE_OPENAI_API_KEY",
        ),
        (
            azure(azure_ad_token_provider=lambda: KEY, azure_deployment="d"), "n.openai.azure.com",
            "https://n.openai.azure.com/openai/deployments/d?api-version=2024-10-21", "AZURE_OPENAI_AD_TOKEN",
        ),
        (anthropic.AsyncAnthropic(api_key=KEY), "api.anthropic.com", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    ]  # fmt: skip
    for client, service, base_url, variable in cases:
        judge = Judge.client(client, "m 1", temperature=0.0)
        assert (judge.service, judge.base_url, judge.api_key_env) == (service, base_url, variable)
        by_address = Judge(judge.provider, "m 1", base_url=base_url, temperature=0.0)
        assert judge.identity == by_address.identity
        assert not judge.given.calls
        for text in (repr(judge), str(judge_dict(judge)), str(Profile(profile="p", judges=(judge,)))):
            assert KEY not in text
            assert "0815" not in text
        for other in (pickle.loads(pickle.dumps(judge)), Judge.of(judge_dict(judge))):
            assert other == judge
            assert other.ask is None
        assert KEY.encode() not in pickle.dumps(judge)
        assert joblib.hash(judge) == joblib.hash(by_address.replace(api_key_env=variable, timeout_s=judge.timeout_s))
        assert copy.deepcopy(judge).given is judge.given is judge.replace(weight=2).given
        assert judge.replace(base_url="https://other.example.org/v1").ask is None
    assert find_key(f"a text with {KEY}") is not None


def test_time_limits_are_read_off_unless_they_are_the_packages_own() -> None:
    limits = [
        (7, 7.0), (0.5, 0.5), (openai.Timeout(20, connect=5), 20.0), (openai.Timeout(None), 600.0), (None, 600.0),
        (openai.NOT_GIVEN, 60.0), (openai.DEFAULT_TIMEOUT, 60.0),
    ]  # fmt: skip
    for limit, seconds in limits:
        assert Judge.client(openai.OpenAI(api_key=KEY, timeout=limit), "m").timeout_s == seconds
    assert Judge.client(openai.OpenAI(api_key=KEY, timeout=7), "m", timeout_s=9).timeout_s == 9.0
    assert Judge.client(anthropic.Anthropic(api_key=KEY, timeout=7), "m").timeout_s == 7.0


def test_headers_need_a_variable_elsewhere_unless_the_environment_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def name(client: Any) -> str | None:
        return Judge.client(client, "m").headers_env

    assert name(openai.OpenAI(api_key=KEY)) is None
    assert name(openai.OpenAI(api_key=KEY, organization="org")) == "API_OPENAI_COM_HEADERS"
    assert name(openai.OpenAI(api_key=KEY, base_url=HOST, default_headers={"X-A": "b"})) == "LLM_EXAMPLE_ORG_HEADERS"
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    assert name(openai.OpenAI(api_key=KEY)) is None
    assert name(openai.OpenAI(api_key=KEY, base_url=HOST)) is None
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-A: b")
    assert name(openai.OpenAI(api_key=KEY)) is None
    assert name(openai.OpenAI(api_key=KEY, base_url=HOST)) == "OPENAI_CUSTOM_HEADERS"
    given = Judge.client(openai.OpenAI(api_key=KEY, base_url=HOST), "m").given
    assert {name: value.reveal() for name, value in given.headers.items()} == {"x-a": "b", "openai-organization": "org"}


class Mine(openai.OpenAI):
    """A class of somebody's own."""


def shape(**fields: Any) -> Any:
    create = lambda **_: None  # noqa: E731
    return SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)), **fields)


def test_which_clients_are_called_and_what_stands_for_them_elsewhere() -> None:
    wrapped = openai.OpenAI(api_key=KEY)
    wrapped.chat.completions.create = lambda **_: None  # as a wrapper that traces does
    cases = [
        (openai.OpenAI(api_key=KEY, http_client=httpx2.Client()), "http_client"),
        (openai.AsyncOpenAI(api_key=KEY, http_client=openai.DefaultAsyncHttpxClient()), "http_client"),
        (anthropic.Anthropic(api_key=KEY, http_client=httpx2.Client()), "http_client"),
        (openai.OpenAI(api_key=KEY, http_client=httpx2.Client(transport=httpx2.MockTransport(print))), "client"),
        (openai.OpenAI(api_key=KEY, http_client=httpx2.Client(auth=("me", "pass"))), "client"),
        (Mine(api_key=KEY), None),
        (Mine(api_key=KEY, http_client=httpx2.Client()), "http_client"),
        (wrapped, None),
        (openai.OpenAI(api_key=KEY, default_query={"key": KEY}), "client"),
        (openai.OpenAI(api_key=KEY, base_url="https://me:pass@llm.example.org/v1"), "client"),
        (shape(base_url=HOST), "client"),
    ]
    for client, elsewhere in cases:
        judge = Judge.client(client, "m")
        assert judge.given.calls, client
        assert (judge.given.elsewhere, judge_dict(judge).get("ask")) == (elsewhere, elsewhere)
        assert pickle.loads(pickle.dumps(judge)).ask == elsewhere
        assert KEY not in repr(judge) + str(judge_dict(judge))
        assert "pass" not in str(judge.base_url)
        file = YAML().load(str(Profile(profile="p", judges=(judge,))))
        assert Profile(**file).judges[0] == judge
    judge = Judge.client(shape(base_url="https://api.example.org"), "m", base_url="https://api.example.org/openai/v1")
    assert (judge.base_url, judge.service, judge.import_path) == (
        "https://api.example.org/openai/v1",
        "api.example.org",
        None,
    )
    assert Judge.client(shape(), "m", service="inside").service == "inside"


def test_a_client_whose_class_is_traced_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    client = openai.OpenAI(api_key=KEY)
    resource = type(client.chat.completions)
    before = resource.create

    class Traced:  # as the packages that trace every client make one
        def __call__(self, *given: Any, **options: Any) -> Any:
            return before(*given, **options)

    class Proxy(Traced):  # as wrapt's, which tells the class and the attributes of what it wraps
        __class__ = property(lambda _: FunctionType)  # type: ignore[assignment]
        __globals__ = before.__globals__

    for replaced in (Traced(), lambda *given, **options: before(*given, **options), Proxy()):
        monkeypatch.setattr(resource, "create", replaced)
        given = Judge.client(client, "m").given
        assert (given.calls, given.elsewhere) == (True, None)


def test_what_is_no_client_is_refused_with_what_is_allowed() -> None:
    client = openai.OpenAI(api_key=KEY)
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (openai.OpenAI, {}, r"takes a client, as OpenAI\(…\).* got the class OpenAI;"),
        (openai, {}, "got the module openai"),
        ("https://api.openai.com/v1", {}, r"got str; for an address, write ek.Judge\("),
        (client.chat.completions, {}, "AsyncAnthropic.* got Completions"),
        (client.chat.completions.create, {}, "got .*method"),
        (None, {}, "got NoneType"),
        (SimpleNamespace(chat=SimpleNamespace(complete=print)), {}, "got SimpleNamespace; .*for another service"),
        (shape(), {}, "states no base_url"),
        (shape(base_url=object()), {}, "states no base_url"),
        (client, {"base_url": HOST}, "base_url is read off the client"),
        (client, {"provider": "openai"}, "takes no .provider"),
        (client, {"ask": print}, "takes no .ask"),
        (client, {"api_key_env": KEY}, "API key"),
    ]
    for value, fields, words in cases:
        with pytest.raises(ConfigError, match=words) as caught:
            Judge.client(value, "m", **fields)
        assert KEY not in str(caught.value)
    for value, model in [(client, ""), (azure(api_key=KEY), 5), (azure(api_key=KEY), None)]:
        with pytest.raises(ConfigError, match="needs a model"):
            Judge.client(value, model)
