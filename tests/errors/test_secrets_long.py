"""Keys: found wherever a judge is described, refused without being shown, and in no view of what holds them."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import multiprocessing
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from servers import judge_server

import evalkit as ek
from evalkit.cli import main
from evalkit.core.judges import Judge
from evalkit.engine.cache import ReplyStore
from evalkit.engine.providers import connect
from evalkit.engine.providers.api_keys import hold_key
from evalkit.engine.providers.openai import OpenAIClient
from evalkit.engine.request import Request
from evalkit.errors import ConfigError, EvalkitError
from evalkit.errors.secrets import Secret, find_key, without_keys
from evalkit.gate import GateConfig, GateOptions
from evalkit.gate.config import load_gate
from evalkit.lighteval import PolluxLLMJudgeMetric
from evalkit.rubrics.prompt_builder import PromptBuilder
from evalkit.runs.contract.scoring_config import ScoringConfig

OWN = "local-4711-not-of-any-known-shape"
RUBRIC = ek.Rubric(id="numbers", inputs=["answer"], criteria=[{"name": "number", "scale": {0: "nought", 1: "one"}}])
SHAPES = {
    "openai": "sk-proj-Ab3dEf6hIj9lMn2pQr5t",
    "anthropic": "sk-ant-api03-Ab3dEf6hIj9lMn2p",
    "hugging-face": "hf_Ab3dEf6hIj9lMn2pQr5t",
    "google": "AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "yandex": "AQVNyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "scheme": "Api-Key 0815-4711-0815",
    "amazon": "AKIAIOSFODNN7EXAMPLE",
    "groq": "gsk_Ab3dEf6hIj9lMn2pQr5t",
    "github": "ghp_Ab3dEf6hIj9lMn2pQr5t",
    "token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "bearer": "Bearer 0815-4711-0815",
    "basic": "Basic bWU6cGFzc3dvcmQ=",
    "pem": "-----BEGIN RSA PRIVATE KEY-----",
}
NAMES = [
    "api_key", "apiKey", "X-API-Key", "api-key", "key", "token", "access_token", "Authorization", "Proxy-Authorization",
    "password", "secret", "client_secret", "Cookie", "Ocp-Apim-Subscription-Key", "x-portkey-virtual-key", "sig",
    "Helicone-Auth", "x-functions-key", "X-Vault-Token", "PRIVATE-TOKEN", "X-Master-Key", "X-Amz-Signature", "jwt",
    "vertex_credentials", "azure_ad_token", "iam_token", "AccountKey",
]  # fmt: skip


@pytest.fixture(autouse=True)
def own_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_CREDENTIAL_OF_THE_TEST", OWN)
    Judge("openai", "m", base_url="http://127.0.0.1:9/v1", api_key_env="MY_CREDENTIAL_OF_THE_TEST")


class TestWhatIsAKey:
    @pytest.mark.parametrize("key", [OWN, *SHAPES.values()], ids=["variable", *SHAPES])
    @pytest.mark.parametrize(
        "place",
        [
            lambda key: {"user": key},
            lambda key: {"extra_body": {"a": [{"b": f"x {key}"}]}},
            lambda key: {f"x-{key}": 1},
            lambda key: {"endpoint": f"https://me.example/{key}/v1"},
        ],
        ids=["field", "deep", "name", "path"],
    )
    def test_known_values_and_shapes(self, key: str, place: Callable[[str], Any]) -> None:
        assert find_key(place(key)) is not None
        assert key not in str(find_key(place(key)))

    @pytest.mark.parametrize("name", NAMES)
    def test_names(self, name: str) -> None:
        assert find_key({"extra_headers": {name: "0815"}})
        assert find_key({"extra_headers": {name: ["0815"]}})
        assert find_key(f"https://me.example/v1?api-version=1&{name}=0815")
        assert find_key(f"https://me.example/v1?a=1#{name}=0815")
        assert find_key({"properties": {name: {"type": "string"}}}) is None, "a field of a schema may be called so"

    def test_long_values_of_variables_that_end_like_a_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MY_AZURE_KEY", "0123456789abcdef0123456789abcdef")
        monkeypatch.setenv("SORT_KEY", "question_and_answer")
        found = find_key({"metadata": "0123456789abcdef0123456789abcdef"})
        assert found == "the value of the environment variable MY_AZURE_KEY"
        assert find_key({"metadata": "question_and_answer"}) is None

    @pytest.mark.parametrize(
        "url", ["https://me:pw@h.example/v1", "https://me@h.example/v1", "https://h.example/v1?%6Bey=0815",
                "https://h.example/v1?x=sk%2Dproj%2DAb3dEf6hIj9lMn2pQr5t"],
    )  # fmt: skip
    def test_addresses(self, url: str) -> None:
        assert find_key(url)

    @pytest.mark.parametrize(
        "value",
        [
            "https://me.openai.azure.com/openai/deployments/gpt-4o?api-version=2024-10-21",
            "https://gateway.ai.cloudflare.com/v1/0123456789abcdef0123456789abcdef/judges/openai",
            "http://127.0.0.1:8000/v1",
            "meta-llama/Llama-3.1-70B-Instruct", "gpt-4o-mini", "sk-learn", "task-1234567890-1234567890", "hf_hub",
            "sk-judge-2024-very-long-name", "pk-12-long-model-name-here-2024",
            "https://h.example/sk-learn-judge-model-v2/v1",
            "https://h.example/v1/deployments/3f2504e0-4f89-11d3-9a0c-0305e82c3301?monkey=1&sort_key=a&keyword=b",
            {"guided_regex": r"key=(\d)", "stop": ["key=", "token="]},
            {"top_k": 5, "token_budget": 9, "stop_token_ids": [1]},
            {"max_tokens": 5, "pad_token": "x", "eos_token_id": 2, "prompt_cache_key": "j1", "logit_bias": {"key": 1}},
            {"user": "ann", "stop": ["Token: x", "\n\n"], "seed": 1, "api_key": None, "token": ""},
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"required": ["token", "key"]}}}},
            {"extra_headers": {"cf-aig-gateway-id": "judges", "OpenAI-Organization": "org-123456789012345678"}},
        ],
        ids=str,
    )  # fmt: skip
    def test_what_is_none(self, value: Any) -> None:
        assert find_key(value) is None

    @given(
        path=st.lists(st.sampled_from(["a", "extra_body", "extra_headers", 0]), max_size=5),
        key=st.sampled_from([OWN, *SHAPES.values()]),
        around=st.tuples(st.text(" .:/", max_size=3), st.text(" .:/", max_size=3)),
    )
    def test_none_gets_into_a_judge_at_any_depth(self, path: list[Any], key: str, around: tuple[str, str]) -> None:
        value: Any = key.join(around)
        for step in reversed(["extra_body", *path]):
            value = [value] if step == 0 else {step: value}
        with pytest.raises(ConfigError, match="params of a judge contains an API key") as problem:
            Judge("openai", "m", params=value)
        assert key not in str(problem.value)


def _files(folder: Path, **texts: Any) -> dict[str, str]:
    paths = {}
    for name, content in texts.items():
        paths[name] = str(folder / f"{name}.yaml")
        Path(paths[name]).write_text(yaml.safe_dump(content), encoding="utf-8")
    return paths


def _profile(folder: Path, judge: Mapping[str, Any]) -> Any:
    profile = {"profile": "p", "rubric": "faithfulness", "judges": [{"provider": "openai", "model": "m", **judge}]}
    return ek.load_profile(_files(folder, profile=profile)["profile"])


def _scoring(judge: Mapping[str, Any]) -> Any:
    return ScoringConfig.of({"judges": [{"judge_model_name": "m", "judge_backend": "openai", **judge}]})


def _pollux(**changes: Any) -> Any:
    return PolluxLLMJudgeMetric("c", {0: "no", 1: "yes"}, "m", **changes)


URL = f"https://me.example/v1?key={OWN}"
DOORS: dict[str, Callable[[Path], Any]] = {
    "judge": lambda _: Judge("openai", "m", base_url=URL),
    "judge-params": lambda _: Judge("openai", "m", params={"extra_headers": {"Authorization": OWN}}),
    "replace": lambda _: Judge.of("openai:m").replace(base_url=URL),
    "text": lambda _: Judge.of(f"openai:{OWN}"),
    "text-alone": lambda _: Judge.of(SHAPES["openai"]),
    "mapping": lambda _: Judge.of({"provider": "openai", "model": "m", "base_url": URL}),
    "unknown-field": lambda _: Judge.of({"provider": "openai", "model": "m", SHAPES["openai"]: 1}),
    "variable-name": lambda _: Judge("openai", "m", api_key_env=SHAPES["amazon"]),
    "call": lambda _: ek.judge([{"answer": "1"}], RUBRIC, f"openai:m?key={OWN}"),
    "plan": lambda _: ek.plan([{"answer": "1"}], RUBRIC, [{"provider": "openai", "model": "m", "base_url": URL}]),
    "profile": lambda folder: _profile(folder, {"base_url": URL}),
    "profile-params": lambda folder: _profile(folder, {"params": {"user": OWN}}),
    "scoring": lambda _: _scoring({"base_url": URL}),
    "scoring-name": lambda _: _scoring({"name": OWN}),
    "scoring-literal": lambda _: _scoring({"api_key": OWN}),
    "scoring-unknown": lambda _: _scoring({"headers": {"Authorization": OWN}}),
    "scoring-text": lambda _: ScoringConfig.of(json.dumps({"profile": OWN, "judges": [{"judge_model_name": URL}]})),
    "scoring-wrong-type": lambda _: _scoring({"base_url": [URL]}),
    "pollux-url": lambda _: _pollux(url=URL),
    "pollux-model": lambda _: PolluxLLMJudgeMetric("c", {0: "no", 1: "yes"}, OWN),
    "pollux-options": lambda _: _pollux(backend_options={"params": {"extra_headers": {"Cookie": OWN}}}),
    "pollux-back-end": lambda _: _pollux(judge_backend=OWN),
    "pollux-criteria": lambda _: PolluxLLMJudgeMetric("", {0: "no"}, "m", api_key=OWN),
    "gate-url": lambda _: _gate({"base_url": URL}),
    "gate-options": lambda _: _gate({}, judge="openai:m", base_url=URL),
}  # fmt: skip


def _gate(settings: Mapping[str, Any], **options: Any) -> Any:
    tests: Any = [{"id": "a", "expected": {"type": "faithfulness", "min_score": 0.5}}]
    trace = ek.gate.Trace(1, "a", "How long?", ["30 days."], "30 days.")
    config = GateConfig(tests=tests, settings={"judge": "openai", "model": "m", **settings})
    result = ek.gate.run_gate(config, [trace], GateOptions(**options))
    assert result.exit_code == 2
    raise ConfigError(repr(result))


CI = ("ci", "--config", "gate.yaml", "--trace-file", "traces.jsonl")


class TestDoors:
    @pytest.mark.parametrize("door", DOORS)
    def test_python(self, door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        with pytest.raises(EvalkitError) as problem:
            DOORS[door](tmp_path)
        shown = "".join(traceback.format_exception(problem.value)[-1:]) + caplog.text
        assert not any(key in shown for key in (OWN, *SHAPES.values()))

    @pytest.mark.parametrize(
        "command",
        [
            ("judge", "items.jsonl", "--rubric", "faithfulness", "--judge", "openai:m", "--judge-base-url", URL),
            ("judge", "items.jsonl", "--rubric", "faithfulness", "--judge", f"openai:{OWN}"),
            ("judge", "items.jsonl", "--rubric", "faithfulness", "--judge", OWN),
            ("judge", "items.jsonl", "--rubric", "faithfulness", "--judge", "openai:m", "--judge-api-key-env", OWN),
            ("plan", "items.jsonl", "--rubric", "faithfulness", "--judge", "openai:m", "--judge-base-url", URL),
            ("evaluate", "items.jsonl", "--profile", "profile.yaml"),
            (*CI, "--judge", "openai:m", "--judge-base-url", URL),
            (*CI, "--judge", "openai"),
            ("doctor", "--judge", "openai:m", "--judge-base-url", URL),
            ("doctor", "--judge", f"openai:{OWN}"),
        ],
        ids=lambda command: " ".join(command).replace(OWN, "KEY"),
    )  # fmt: skip
    def test_command_line(
        self,
        command: tuple[str, ...],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.chdir(tmp_path)
        item = {"question": "How long?", "answer": "30 days.", "context": ["30 days."]}
        Path("items.jsonl").write_text(json.dumps({"item_id": "a", **item}) + "\n", encoding="utf-8")
        trace = {"schema_version": 1, "type": "verdict.trace", "request_id": "a", "prompt": "How long?",
                 "context": ["30 days."], "response": "30 days."}  # fmt: skip
        Path("traces.jsonl").write_text(json.dumps(trace) + "\n", encoding="utf-8")
        _files(
            tmp_path,
            profile={"profile": "p", "rubric": "faithfulness",
                     "judges": [{"provider": "openai", "model": "m", "base_url": URL}]},
            gate={"settings": {"model": "m", "base_url": URL},
                  "tests": [{"id": "a", "expected": {"type": "faithfulness", "min_score": 0.5}}]},
        )  # fmt: skip
        assert main(list(command)) == 2
        said = capsys.readouterr()
        written = "".join(
            path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.suffix in (".json", ".xml")
        )
        assert OWN not in said.out + said.err + written
        assert "Traceback" not in said.err

    def test_a_gate_file_with_a_wrong_value_quotes_no_key(self, tmp_path: Path) -> None:
        path = _files(tmp_path, gate={"settings": {"samples": SHAPES["openai"]}, "tests": []})["gate"]
        with pytest.raises(ConfigError) as problem:
            load_gate(path)
        assert SHAPES["openai"] not in str(problem.value)


class TestSecret:
    def test_no_view_shows_it(self) -> None:
        key = Secret(OWN)
        views = [str(key), repr(key), f"{key}", f"{key!s:>40}", f"{key}", repr([key]), repr({"a": key}),
                 repr(copy.copy(key)), repr(copy.deepcopy({"a": key}))]  # fmt: skip
        assert not any(OWN in view for view in views)
        assert copy.deepcopy(key).reveal() == OWN
        with pytest.raises(TypeError, match="an API key cannot be pickled"):
            pickle.dumps(key)

    def test_errors_and_kept_values_hold_none(self) -> None:
        text = f"https://me:pw@h.example/v1?token=0815&a=1 {OWN} {SHAPES['hugging-face']}"
        kept = "https://h.example/v1?token=[not kept]&a=1 [not kept] [not kept]"
        assert without_keys({"a": [text], "api_key": "x"}) == {"a": [kept], "api_key": "[not kept]"}
        assert str(ConfigError(text)) == kept
        assert str(pickle.loads(pickle.dumps(ConfigError(text)))) == kept


def _every_local(error: BaseException) -> str:
    """The variables of every frame, but for this test's own, of an error and of all its causes, suppressed ones too."""
    waiting: list[BaseException | None] = [error]
    shown = []
    while waiting:
        link = waiting.pop()
        if link is not None:
            frames = traceback.TracebackException.from_exception(link, capture_locals=True).stack
            shown += [f"{frame.name}: {frame.locals}" for frame in frames if frame.filename != __file__]
            waiting += [link.__cause__, link.__context__]
    return "\n".join([*shown, repr(error), str(error)])


class TestTracebacks:
    @pytest.fixture(params=["reset", "status", "html", "library", "library, long"])
    def failing(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
        """What goes wrong in a call; `library`: what nobody catches, deep in what sends it."""
        if "library" in request.param:
            from aiohttp.http import StreamWriter

            async def broken(*_: Any, **__: Any) -> None:
                raise RuntimeError("of the library")

            monkeypatch.setattr(StreamWriter, "write_headers", broken)
        if "long" in request.param:  # sent by another way
            monkeypatch.setattr("evalkit.engine.providers.transport._SHORT_BYTES", 0)
        return str(request.param)

    def test_a_call_that_fails_shows_no_key_in_any_frame(self, failing: str) -> None:
        step = {"reset": {"reset": True}, "status": {"status": 401, "body": {"error": {"message": f"wrong key {OWN}"}}},
                "html": {"body": f"<p>{OWN}</p>".encode()},
                "library": {}, "library, long": {}}[failing]  # fmt: skip
        with judge_server(always=step) as server:
            judge = Judge("openai", "m", base_url=server.url, api_key_env="MY_CREDENTIAL_OF_THE_TEST")
            prompt = PromptBuilder.of(RUBRIC).prompt(RUBRIC.criteria[0], {"answer": "ITEM-1"})

            async def ask() -> None:
                client = OpenAIClient(judge, server.url)
                try:
                    await client.ask(Request(judge, prompt, None, (0,), (b"",)), 1)  # type: ignore[arg-type]
                finally:
                    await client.aclose()

            with pytest.raises(Exception) as problem:  # of a library, too
                asyncio.run(ask())
        shown = _every_local(problem.value)
        assert "ask: {'self'" in shown, "variables are shown"
        assert OWN not in shown

    @pytest.mark.parametrize(
        ("provider", "library"),
        [("litellm", "litellm"), ("inference-providers", "aiohttp"), ("anthropic", "anthropic")],
    )
    @pytest.mark.parametrize(
        "step", [{"status": 401}, {"reset": True}, {"body": b"<p>"}], ids=["status", "reset", "html"]
    )
    def test_nor_do_libraries_that_send_it(self, provider: str, library: str, step: dict[str, Any]) -> None:
        pytest.importorskip(library)
        with judge_server(always=step) as server:
            model = "openai/m" if provider == "litellm" else "m"
            judge = Judge(provider, model, base_url=server.url, api_key_env="MY_CREDENTIAL_OF_THE_TEST")
            prompt = PromptBuilder.of(RUBRIC).prompt(RUBRIC.criteria[0], {"answer": "ITEM-1"})

            async def ask() -> None:
                await connect(judge).ask(Request(judge, prompt, None, (0,), (b"",)), 1)  # type: ignore[arg-type]

            with pytest.raises(Exception) as problem:  # of a library, too
                asyncio.run(ask())
        shown = _every_local(problem.value)
        assert "ask: {'self'" in shown, "variables are shown"
        assert OWN not in shown

    def test_a_key_given_by_value_is_in_no_frame_of_evalkits(self) -> None:
        for key in ("", f"{OWN}\nschlüssel"):
            with pytest.raises(ConfigError) as problem:
                hold_key(key)
            assert OWN not in str(_locals(problem.value)[-1])
        with pytest.raises(ConfigError) as problem:
            _pollux(api_key=OWN, judge_backend="unknown")
        assert not any(OWN in str(values) for values in _locals(problem.value)[2:]), "the first two are this test's"


def _locals(error: BaseException) -> list[Any]:
    return [frame.locals for frame in traceback.TracebackException.from_exception(error, capture_locals=True).stack]


def test_a_server_that_echoes_the_key_has_it_stored_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    reply = json.dumps({"explanation": f"your key is {OWN}", "score": 1})
    with judge_server(always={"content": reply}) as server:
        judge = Judge("openai", "m", base_url=server.url, api_key_env="MY_CREDENTIAL_OF_THE_TEST")
        table = ek.judge([{"answer": "ITEM-1"}], RUBRIC, judge, samples=1)
    assert table["score"].tolist() == [1.0]
    assert OWN not in table.to_json()
    ReplyStore.open().close()
    assert not any(OWN.encode() in path.read_bytes() for path in (tmp_path / "cache").iterdir())


def test_the_working_directory_is_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every shell sets PWD, whose name reads like that of a password."""
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("OLDPWD", str(tmp_path))
    model = str(tmp_path / "judge")
    assert find_key({"model": model}) is None
    assert without_keys(f"{model} was not found") == f"{model} was not found"
    assert Judge("openai", "m", base_url="http://127.0.0.1:9/v1", params={"extra_body": {"lora": model}})


OTHER_PROCESS = """
import pickle, sys
from evalkit.lighteval import PolluxLLMJudgeMetric
own = PolluxLLMJudgeMetric("c", {0: "no", 1: "yes"}, "m", url="http://127.0.0.1:9/v1", api_key="key-of-this-process")
print(pickle.loads(sys.stdin.buffer.read()).api_key)
"""


def test_a_pickled_metric_has_its_key_where_the_key_is_and_no_other_anywhere() -> None:
    """LightEval pickles the metrics of tasks whose data several processes load (dataset_loading_processes)."""
    metric = PolluxLLMJudgeMetric("c", {0: "no", 1: "yes"}, "m", url="http://127.0.0.1:9/v1", api_key=OWN)
    content = pickle.dumps(metric)
    assert OWN.encode() not in content
    assert pickle.loads(content).api_key == copy.deepcopy(metric).api_key == OWN
    if "fork" in multiprocessing.get_all_start_methods():
        with multiprocessing.get_context("fork").Pool(1) as pool:  # as LightEval makes it
            assert pool.apply(_has_key, (metric,))
    other = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS], input=content, capture_output=True, check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip
    assert other.stdout.split() == [b"None"]


def _has_key(metric: PolluxLLMJudgeMetric) -> bool:
    return metric.api_key == OWN
