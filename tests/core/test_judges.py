"""Judges: who they are, where they are, and that no key can be kept in one."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.core.judge_field_checks import host_of
from evalkit.core.judges import Judge
from evalkit.core.lists_of_choices import ENGINE_REASONS, REASONS
from evalkit.core.prompts_and_replies import Message, Prompt, Reply
from evalkit.core.reply_keys import Params
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import ConfigError

SECRET = "sk-live-0123456789"


class TestOf:
    @pytest.mark.parametrize("judge", [len, lambda prompt: "1", object(), 3, None])
    def test_the_line_for_functions_and_clients_is_shown(self, judge):
        with pytest.raises(ConfigError, match=r"ek\.Judge\.function\(FUNCTION, name='NAME', version='1'\), a client"):
            Judge.of(judge)
        with pytest.raises(ConfigError, match=r"ek\.Judge\.client\(CLIENT, 'MODEL'\)"):
            Judge.of(judge)

    def test_text(self):
        judge = Judge.of("openai:gpt-4o-mini")
        assert (judge.provider, judge.model, judge.name) == ("openai", "gpt-4o-mini", "openai:gpt-4o-mini")
        assert (judge.service, judge.api_key_env) == ("api.openai.com", "OPENAI_API_KEY")
        assert Judge.of("openai:ft:gpt:x").model == "ft:gpt:x"
        assert Judge.of(" fake : noisy ").model == "noisy"

    def test_bare_fake_is_strict_and_no_llm(self):
        assert Judge.of("fake") == Judge.of("fake:strict") == Judge("fake", "strict")
        assert not Judge.of("fake").is_llm
        assert Judge.of("openai:m").is_llm

    def test_mapping_and_judge(self):
        fields = {"provider": "openai", "model": "m", "weight": 2, "price": [1, 2], "params": {"seed": 1}}
        judge = Judge.of(fields)
        assert (judge.weight, judge.price, dict(judge.params)) == (2.0, (1.0, 2.0), {"seed": 1})
        assert Judge.of(judge) is judge

    @pytest.mark.parametrize(
        ("given_", "message"),
        [
            ("gpt-4o", "unknown judge provider 'gpt-4o'; allowed: openai, anthropic, litellm"),
            ("none", "unknown judge provider 'none'"),
            ("openai", "a judge needs a model; write it as 'openai:MODEL'"),
            ("openai: ", "needs a model"),
            ("", "unknown judge provider ''"),
            ({"provider": "openai"}, "needs 'provider' and 'model'; got 'provider'"),
            (
                {"provider": "openai", "model": "m", "temprature": 1},
                "judge: unknown key 'temprature'; did you mean 'temperature'?",
            ),
            ({"provider": "openai", "model": 4}, "needs a model"),
            (7, "got int"),
            (None, "got NoneType"),
        ],
    )
    def test_faults(self, given_, message):
        with pytest.raises(ConfigError, match=message):
            Judge.of(given_)

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"temperature": -1}, "must be a number ≥ 0 or None"),
            ({"temperature": float("nan")}, "must be a number"),
            ({"temperature": True}, "must be a number"),
            ({"max_tokens": 0}, "whole number ≥ 1"),
            ({"max_tokens": 2.0}, "whole number ≥ 1"),
            ({"weight": -0.1}, "weight"),
            ({"weight": "1"}, "weight"),
            ({"timeout_s": 0}, "seconds > 0"),
            ({"price": (1,)}, "two numbers"),
            ({"price": 3}, "two numbers"),
            ({"price": (1, float("inf"))}, "two numbers"),
            ({"params": {"stop": {1, 2}}}, "must be JSON values"),
            ({"params": {1: 2}}, "must be JSON values with string keys"),
            ({"params": [1]}, "must be a mapping, got .1"),
            ({"name": 5}, "name of .* must be a string, got 5"),
            ({"base_url": 5}, "base_url of .* must be a string, got 5"),
        ],
    )
    def test_values_out_of_range_name_the_judge(self, fields, message):
        with pytest.raises(ConfigError, match=message) as caught:
            Judge("openai", "gpt-x", **fields)
        assert "openai:gpt-x" in str(caught.value)


class TestService:
    @pytest.mark.parametrize(
        ("url", "service"),
        [
            ("http://localhost:8000/v1", "local"),
            ("http://LOCALHOST./v1", "local"),
            ("http://127.0.0.1/v1", "local"),
            ("http://127.8.9.1:1/v1", "local"),
            ("http://[::1]:8000/v1", "local"),
            ("http://[0:0:0:0:0:0:0:1]/v1", "local"),
            ("http://[::ffff:127.0.0.1]/v1", "local"),
            ("http://0.0.0.0:80", "local"),
            ("https://Judges.Example.org:8443/v1", "judges.example.org"),
            ("http://[2001:db8::7]:80/v1", "2001:db8::7"),
            ("http://127.0.0.1.example.org/v1", "127.0.0.1.example.org"),
            ("http://127.example.org/v1", "127.example.org"),
            ("http://localhost.example.org/v1", "localhost.example.org"),
        ],
    )
    def test_host_without_port(self, url, service):
        assert Judge("openai", "m", base_url=url).service == host_of(url) == service

    @pytest.mark.parametrize(
        "url",
        [
            "localhost:8000/v1",
            "api.openai.com/v1",
            "http://",
            "http://[::1",
            "ftp://a/b",
            "http://a:x/",
            "file:///a",
            "http://h/v1 http://i/v1",
            "http://h/ v1",
            "http://h/v1\u200b",
            "\ufeffhttp://h/v1",
            "http://h\xa0/v1",
            "http://h/v\n1",
            "http://NAME:PASSWORD@h/v1",
        ],
    )
    def test_what_is_no_address(self, url):
        with pytest.raises(ConfigError, match="write it as http://HOST:PORT/v1"):
            Judge("openai", "m", base_url=url)

    @pytest.mark.parametrize("blanks", [" ", "\t", "\r\n", "\xa0", " \n "])
    def test_blanks_around_an_address_are_taken_off(self, blanks, monkeypatch):
        plain = Judge("openai", "m", base_url="http://h:1/v1")
        for address in (f"http://h:1/v1{blanks}", f"{blanks}http://h:1/v1"):
            assert Judge("openai", "m", base_url=address) == plain
            monkeypatch.setenv("OPENAI_BASE_URL", address)
            assert Judge.of("openai:m") == plain
        monkeypatch.setenv("OPENAI_BASE_URL", blanks)
        assert Judge.of("openai:m").base_url is None
        assert Judge("openai", "m", base_url=blanks).base_url is None

    def test_a_port_is_no_other_service(self):
        here, there = (Judge("openai", "m", base_url=f"http://h:{port}/v1") for port in (1, 2))
        assert here.identity == there.identity

    def test_from_the_environment(self, monkeypatch):
        monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9/v1")
        assert Judge.of("openai:m").service == "local"
        assert Judge.of("openai:m").api_key_env is None
        assert Judge("openai", "m", base_url="http://other/v1").service == "other"
        assert Judge.of("fake").base_url is None

    def test_of_other_providers(self):
        assert Judge.of("inference-providers:m").api_key_env == "HF_TOKEN"
        assert Judge.of("transformers:m").service == "local"


class TestKeys:
    """A key goes to the provider's own host, or where somebody named its variable, and stands in no judge."""

    @pytest.mark.parametrize(
        "judge",
        [
            lambda: Judge("openai", "m", base_url="http://evil.example/v1"),
            lambda: Judge("openai", "m", base_url="http://evil.example/v1", service="api.openai.com"),
            lambda: Judge("openai", "m", base_url="http://api.openai.com.evil.example/v1"),
            lambda: Judge("openai", "m", base_url="http://evil.example/?api.openai.com"),
            lambda: Judge.of("openai:m").replace(base_url="http://evil.example/v1"),
            lambda: Judge.of("openai:m").replace(base_url="http://evil.example/v1", service="api.openai.com"),
            lambda: Judge("openai", "m", base_url="http://own/v1", api_key_env="OWN").replace(
                base_url="http://evil/v1"
            ),
        ],
    )
    def test_never_to_another_host(self, judge):
        assert judge().api_key_env is None

    def test_where_it_is_named_or_the_host_is_the_providers(self):
        assert Judge("openai", "m", base_url="http://own/v1", api_key_env="OWN_KEY").api_key_env == "OWN_KEY"
        assert Judge("openai", "m", base_url="https://api.openai.com/v1").api_key_env == "OPENAI_API_KEY"
        assert Judge("openai", "m", base_url="http://own/v1").replace(weight=2.0).api_key_env is None

    @pytest.mark.parametrize(
        "fields",
        [
            {"api_key_env": SECRET},
            {"base_url": f"http://me:{SECRET}@host/v1"},
            {"base_url": f"http://{SECRET}@host/v1"},
            {"params": {"api_key": SECRET}},
            {"params": {"extra_headers": {"Authorization": f"Bearer {SECRET}"}}},
            {"params": {"extra_body": [{"X-API-Key": SECRET}]}},
        ],
    )
    def test_none_can_be_given_and_the_refusal_does_not_show_it(self, fields):
        with pytest.raises(ConfigError) as caught:
            Judge("openai", "m", **fields)
        assert SECRET not in str(caught.value)

    def test_no_field_for_it(self):
        with pytest.raises(ConfigError, match="unknown key 'api_key'") as caught:
            Judge.of({"provider": "openai", "model": "m", "api_key": SECRET})
        assert SECRET not in str(caught.value)

    def test_not_in_repr_pickle_or_identity(self, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        judge = Judge.of("openai:m")
        assert SECRET not in repr(judge) + str(judge.identity)
        assert SECRET.encode() not in pickle.dumps(judge)

    def test_parameters_that_only_sound_like_keys_are_fine(self):
        params = {"max_completion_tokens": 5, "logit_bias": {"key": 1}, "top_logprobs": 3, "user": "me"}
        assert dict(Judge("openai", "m", params=params).params) == params

    @pytest.mark.parametrize("name", ["temperature", "max_tokens"])
    def test_fields_are_no_parameters(self, name):
        with pytest.raises(ConfigError, match=f"must not contain '{name}'; pass {name}= to Judge"):
            Judge("openai", "m", params={name: 1})


class TestIdentity:
    def test_what_is_in_it(self):
        base = Judge.of("openai:m")
        same = [base.replace(name="x"), base.replace(weight=2.0), base.replace(timeout_s=1), base.replace(price=(1, 1))]
        other = [base.replace(model="n"), base.replace(temperature=0.5), base.replace(max_tokens=1),
                 base.replace(template="tagged"), base.replace(params={"seed": 1}), base.replace(service="pool"),
                 base.replace(base_url="http://h/v1"), base.replace(provider="litellm")]  # fmt: skip
        assert {judge.identity for judge in same} == {base.identity}
        assert len({judge.identity for judge in [base, *other]}) == 9

    def test_order_of_parameters_does_not_count_and_kinds_do(self):
        def judge(**params: object) -> Judge:
            return Judge("openai", "m", params=params)

        assert judge(a=1, b=2) == judge(b=2, a=1)
        assert hash(judge(a=1, b=2)) == hash(judge(b=2, a=1))
        # as in a reply's key, which is made of JSON
        assert judge(a=1) != judge(a=1.0) != judge(a=True)
        assert len({judge(a=1), judge(a=1.0), judge(a=True)}) == 3

    def test_frozen_down_to_the_parameters(self):
        given_ = {"stop": ["a"]}
        judge = Judge("openai", "m", params=given_)
        given_["stop"].append("b")
        assert judge.params["stop"] == ["a"]
        for change in (
            lambda p: p.update(x=1), lambda p: p.pop("stop"), lambda p: p.clear(), lambda p: p.setdefault("x", 1),
            lambda p: p.__setitem__("x", 1), lambda p: p.__delitem__("stop"), lambda p: p.__ior__({"x": 1}),
            lambda p: p.popitem(),
        ):  # fmt: skip
            with pytest.raises(TypeError, match="read-only"):
                change(judge.params)
        with pytest.raises(AttributeError):
            judge.model = "n"  # type: ignore[misc]
        assert dict(judge.params) == {"stop": ["a"]}

    @given(st.dictionaries(st.text(st.characters(blacklist_categories=("Cs",))), st.integers(-9, 9), max_size=3))
    def test_pickle_and_copy(self, params):
        judge = Judge("openai", "m", params={f"p{name}": value for name, value in params.items()})
        for back in (pickle.loads(pickle.dumps(judge)), copy.deepcopy(judge), copy.copy(judge), judge.replace()):
            assert back == judge
            assert hash(back) == hash(judge)
            assert isinstance(back.params, Params)


class TestReplace:
    def test_name_and_service_follow(self):
        judge = Judge.of("openai:m").replace(model="n", base_url="http://h:1/v1")
        assert (judge.name, judge.service) == ("openai:n", "h")

    def test_unless_they_were_set_by_hand(self):
        judge = Judge("openai", "m", name="mine", service="pool", base_url="http://a/v1")
        moved = judge.replace(model="n", base_url="http://b/v1")
        assert (moved.name, moved.service) == ("mine", "pool")

    def test_checks_as_when_made(self):
        with pytest.raises(ConfigError, match="max_tokens"):
            Judge.of("fake").replace(max_tokens=0)


class TestOthers:
    def test_reply_round_trip(self):
        for reply in (Reply(None), Reply("", refusal="no"), Reply("x", "stop", model="m", cost_usd=0.0, created=1.5)):
            assert Reply.from_dict(reply.as_dict()) == reply
        assert Reply(None).as_dict() == {"text": None, "created": 0.0, "source": "live"}

    def test_prompt_shows_all_messages_and_counts_bytes(self):
        prompt = Prompt((Message("system", "be"), Message("user", "я")), "number", None, "r", "v1", "c", "t@v1",
                        "ordinal", (0, 1), {})  # fmt: skip
        assert str(prompt) == "[system]\nbe\n\n[user]\nя"
        assert prompt.n_bytes == (2 + 16) + (2 + 16)

    def test_request_knows_the_key_of_each_sample(self):
        judge = Judge.of("fake")
        worklist = Worklist.of(Spec.of("coherence", judge, 3), [{"question": "q", "answer": "a"}])
        (request,) = worklist.requests([0, 2])
        assert request.samples == (0, 2)
        assert request.keys == tuple(replace(request.parts, sample=sample).key for sample in (0, 2))
        assert request.keys[0] != request.keys[1]

    def test_engine_reasons_are_the_later_half(self):
        assert (REASONS[7], ENGINE_REASONS[0], ENGINE_REASONS[-1]) == ("low_mass", "timeout", "not_asked")
        assert len(REASONS) == 21
