"""Judges that are Python functions: ways to write one, what goes wrong in it, and that nothing is asked twice."""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import function_judges
import numpy as np
import pytest
from function_judges import GOOD, ITEMS
from places import SUPPORT
from servers import judge_server

import evalkit as ek
from evalkit.cli import main
from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Prompt, Reply
from evalkit.engine.cache import ReplyStore
from evalkit.errors import ConfigError, EvalkitWarning, InputError, JudgeError


class Calls:
    """Counts calls, and how many ran at once."""

    def __init__(self, text: str = GOOD, seconds: float = 0.0) -> None:
        self.text, self.seconds = text, seconds
        self.n, self.n_now, self.most = 0, 0, 0
        self.threads: set[str] = set()
        self.prompts: list[Prompt] = []
        self._lock = threading.Lock()

    def __call__(self, prompt: Prompt) -> str:
        with self._lock:
            self.n += 1
            self.n_now += 1
            self.most = max(self.most, self.n_now)
            self.threads.add(threading.current_thread().name)
            self.prompts.append(prompt)
        time.sleep(self.seconds)
        with self._lock:
            self.n_now -= 1
        return self.text


def judge_of(ask: Callable[[Prompt], Any], is_async: bool = False, **fields: Any) -> Judge:
    """The judge of a function, or of a coroutine that does the same."""

    async def ask_later(prompt: Prompt) -> Any:
        return ask(prompt)

    return Judge.function(ask_later if is_async else ask, name="mine", version="1", **fields)


def judged(judge: Any, folder: Path, **options: Any) -> Any:
    options = {"samples": 1, "progress": False, "retries": 1} | options
    return ek.judge(options.pop("items", ITEMS), "correctness", judge, cache=folder, **options)


# -- ways to write one


def test_a_sync_function_is_called_in_threads(tmp_path: Path) -> None:
    calls = Calls(seconds=0.02)
    table = judged(judge_of(calls), tmp_path)
    assert table["score"].tolist() == [2.0] * 6
    assert table["judge"].unique().tolist() == ["mine"]
    assert calls.most > 1
    assert "evalkit-loop" not in calls.threads
    assert str(calls.prompts[0]).count("+ 0?") == 1


def test_an_async_function_runs_on_the_loop(tmp_path: Path) -> None:
    n_now = most = 0

    async def ask(prompt: Prompt) -> str:
        nonlocal n_now, most
        n_now += 1
        most = max(most, n_now)
        await asyncio.sleep(0.02)
        n_now -= 1
        return GOOD

    table = judged(judge_of(ask), tmp_path)
    assert table["score"].tolist() == [2.0] * 6
    assert most == 6


def test_an_instance_with_an_async_call(tmp_path: Path) -> None:
    class Ask:
        async def __call__(self, prompt: Prompt) -> str:
            await asyncio.sleep(0)
            return GOOD

    assert judged(judge_of(Ask()), tmp_path)["score"].tolist() == [2.0] * 6


def test_a_decorator_makes_a_judge() -> None:
    judge = function_judges.good
    assert isinstance(judge, Judge)
    assert (judge.provider, judge.model, judge.name, judge.service) == ("function", "good@1", "good", "local")
    assert (judge.temperature, judge.max_tokens, judge.api_key_env) == (None, None, None)
    assert judge.import_path == "function_judges:good"


def test_by_text_by_mapping_and_by_place(tmp_path: Path) -> None:
    named = Judge.of("function:function_judges:good")
    assert named == function_judges.good
    mapped = Judge.of({"provider": "function", "model": "good@1", "name": "good", "ask": "function_judges:good"})
    placed = Judge.function("function_judges:plain", name="plain", version="1")
    assert mapped == named
    judged(named, tmp_path)
    assert set(judged(mapped, tmp_path)["source"]) == {"cache"}
    assert set(judged(placed, tmp_path)["source"]) == {"live"}


def test_pairs_with_other_judges_in_a_jury(tmp_path: Path) -> None:
    jury = [function_judges.good, "fake:strict", Judge.function(Calls(), name="other", version="1")]
    table = judged(jury, tmp_path)
    assert table.groupby("judge")["score"].count().to_dict() == {"good": 6, "fake:strict": 6, "other": 6}


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        (lambda: Judge("function", "m"), "needs ask=…: a Python function"),
        (lambda: Judge("function", "m", ask="nowhere"), "needs ask=…"),
        (lambda: Judge("openai", "m", ask=len), "only judges of the provider 'function' take"),
        (lambda: Judge("function", "m", ask=len, base_url="http://localhost/v1"), "neither base_url nor api_key_env"),
        (lambda: Judge.function(len, name="a@b", version="1"), "a version, and a name without an '@'"),
        (lambda: Judge.function(len, name="a", version=""), "a version, and a name without an '@'"),
        (lambda: Judge.of("function:no_such_module:ask"), "no function judge at 'no_such_module:ask'"),
        (lambda: Judge.of("function:function_judges:missing"), "no function judge at 'function_judges:missing'"),
        (lambda: Judge.of("function:function_judges:plain"), "is a function, not a judge; make it one with"),
        (lambda: Judge.of("function:function_judges"), "no function judge at 'function_judges'"),
    ],
)
def test_what_is_no_function_judge(judge: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        judge()


# -- what it returns


def test_a_reply_brings_tokens_and_price(tmp_path: Path) -> None:
    def ask(prompt: Prompt) -> Reply:
        return Reply(GOOD, model="m-2024", prompt_tokens=1000, completion_tokens=10)

    free = judged(Judge.function(ask, name="free", version="1"), tmp_path)
    assert free["cost_usd"].isna().all()
    table = judged(Judge.function(ask, name="priced", version="1", price=(1.0, 2.0)), tmp_path)
    assert table["cost_usd"].tolist() == pytest.approx([1020e-6] * 6)  # 1000 × 1 + 10 × 2 US$ per million
    assert table["prompt_tokens"].tolist() == [1000] * 6
    assert (table["latency_s"] >= 0).all()


def test_numbers_of_numpy_and_decimal_cost_no_reply(tmp_path: Path) -> None:
    tokens: dict[str, Any] = {"prompt_tokens": np.int64(7), "completion_tokens": np.int32(3)}
    table = judged(judge_of(lambda prompt: Reply(GOOD, cost_usd=Decimal("0.25"), **tokens)), tmp_path)
    assert table["score"].notna().all()
    assert table[["prompt_tokens", "completion_tokens", "cost_usd"]].values.tolist() == [[7, 3, 0.25]] * 6


@pytest.mark.parametrize("is_async", [False, True])
def test_none_costs_its_row_and_is_asked_again_for_unscored(tmp_path: Path, is_async: bool) -> None:
    values: list[str | None] = [GOOD, None, GOOD, GOOD, GOOD, GOOD, GOOD]

    def ask(prompt: Prompt) -> str | None:
        return values.pop(0)

    judge = judge_of(ask, is_async)
    table = judged(judge, tmp_path, concurrency=1)
    assert table["error"].value_counts().to_dict()["empty"] == 1
    assert table["score"].notna().sum() == 5
    assert judged(judge, tmp_path)["score"].isna().sum() == 1
    assert len(values) == 1
    assert judged(judge, tmp_path, refresh="unscored")["score"].notna().all()
    assert not values


@pytest.mark.parametrize("value", [2, b"2", {"score": 2}, [GOOD], False])
def test_another_type_is_an_error_and_is_not_stored(tmp_path: Path, value: Any) -> None:
    judge = Judge.function(lambda prompt: value, name="wrong", version="1")
    with pytest.raises(
        InputError, match=f"'wrong' must return the text of a reply, a Reply or None, got {type(value).__name__}"
    ):
        judged(judge, tmp_path)
    assert ReplyStore.open(tmp_path).stats()["n_replies"] == 0


def test_a_lambda_around_an_async_function_says_what_to_do(tmp_path: Path) -> None:
    async def ask(prompt: Prompt) -> str:
        return GOOD

    with pytest.raises(InputError, match=r"got coroutine.*async def"):
        judged(Judge.function(lambda prompt: ask(prompt), name="wrong", version="1"), tmp_path, items=ITEMS[:1])


# -- what goes wrong in it


@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_that_passes_is_tried_again(tmp_path: Path, is_async: bool) -> None:
    n = 0

    def ask(prompt: Prompt) -> str:
        nonlocal n
        n += 1
        if n == 1:
            raise OSError("busy")
        return GOOD

    table = judged(judge_of(ask, is_async), tmp_path, items=ITEMS[:1])
    assert table["score"].tolist() == [2.0]
    assert n == 2


def test_one_item_that_always_fails_is_unscored(tmp_path: Path) -> None:
    def ask(prompt: Prompt) -> str:
        if "3 + 0?" in str(prompt):
            raise RuntimeError("cannot")
        return GOOD

    table = judged(judge_of(ask), tmp_path)
    assert table["error"].tolist()[3] == "server_error"
    assert table["score"].notna().sum() == 5


def test_a_bug_is_not_tried_again_and_is_named(tmp_path: Path) -> None:
    calls = 0

    def ask(prompt: Prompt) -> str:
        nonlocal calls
        calls += 1
        return prompt.no_such_field  # type: ignore[attr-defined]

    with pytest.raises(JudgeError, match=r"raised AttributeError.*no_such_field"):
        judged(judge_of(ask), tmp_path, retries=5)
    assert calls == 6


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration()])
@pytest.mark.parametrize("is_async", [False, True])
def test_no_exception_ends_the_loop(tmp_path: Path, error: BaseException, is_async: bool) -> None:
    def ask(prompt: Prompt) -> str:
        raise error

    with pytest.raises(JudgeError, match="raised"):
        judged(judge_of(ask, is_async), tmp_path, retries=0)
    assert judged("fake:strict", tmp_path)["score"].notna().all()  # the loop still runs


def test_a_call_cancelled_from_within_is_unscored(tmp_path: Path) -> None:
    async def ask(prompt: Prompt) -> str:
        raise asyncio.CancelledError

    with pytest.raises(JudgeError, match="the function cancelled its own call"):
        judged(judge_of(ask), tmp_path, retries=0)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_slow_function_is_a_timeout(tmp_path: Path, is_async: bool) -> None:
    released = threading.Event()

    def ask(prompt: Prompt) -> str:
        if "3 + 0?" in str(prompt):
            released.wait(600)
        return GOOD

    async def aask(prompt: Prompt) -> str:
        if "3 + 0?" in str(prompt):
            await asyncio.sleep(600)
        return GOOD

    judge = Judge.function(aask if is_async else ask, name="mine", version="1", timeout_s=3.0)
    table = judged(judge, tmp_path, retries=0)
    released.set()
    assert table["error"].tolist()[3] == "timeout"
    assert table["score"].notna().sum() == 5


def test_what_an_error_says_is_kept_from_logs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def ask(prompt: Prompt) -> str:
        if "3 + 0?" not in str(prompt):
            return GOOD
        raise RuntimeError(f"key sk-abcdefghijklmnopqrstuvwxyz0123456789 for {prompt}")

    judged(judge_of(ask), tmp_path, retries=0)
    assert "RuntimeError" in caplog.text
    assert "sk-abcdefghij" not in caplog.text
    assert "3 + 0?" not in caplog.text


# -- the engine's bounds


def test_threads_keep_to_the_concurrency(tmp_path: Path) -> None:
    calls = Calls(seconds=0.02)
    judged(judge_of(calls), tmp_path, concurrency=2)
    assert calls.most == 2


def test_a_thread_that_hangs_still_counts(tmp_path: Path) -> None:
    calls = Calls(seconds=1.0)
    judge = Judge.function(calls, name="mine", version="1", timeout_s=0.1)
    table = judged(judge, tmp_path, items=ITEMS[:3], concurrency=1, retries=0)
    assert set(table["error"]) == {"timeout"}
    assert calls.most == 1


def test_a_call_that_gets_no_thread_says_so_and_may_not_have_been_billed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Event()

    def ask(prompt: Prompt) -> str:
        ended.wait(600)
        return GOOD

    last: list[Any] = []
    judge = Judge.function(ask, name="mine", version="1", timeout_s=0.2)
    options: dict[str, Any] = {"concurrency": 1, "retries": 0, "on_progress": last.append}
    try:
        table = judged(judge, tmp_path, items=ITEMS[:3], **options)
    finally:
        ended.set()
    assert set(table["error"]) == {"timeout"}
    assert "2 judgments without a reply: the function of judge 'mine' was not called: its earlier calls" in caplog.text
    assert last[-1].maybe_paid == 1  # the function was called for the first item only


def test_the_loop_goes_on_while_a_function_computes(tmp_path: Path) -> None:
    calls = Calls(seconds=0.5)
    jury = [Judge.function(calls, name="slow", version="1"), "fake:strict"]
    seen: list[int] = []

    async def main() -> None:
        await ek.ajudge(
            ITEMS[:1], "correctness", jury, cache=tmp_path, samples=1, on_progress=lambda p: seen.append(p.done)
        )

    asyncio.run(main())
    assert 1 in seen  # the other judge's reply came while the function was still at it


def test_a_reply_dearer_than_its_bound_is_warned_of_once(tmp_path: Path) -> None:
    judge = Judge.function(lambda prompt: Reply(GOOD, cost_usd=5.0), name="mine", version="1", price=(1.0, 1.0))
    with pytest.raises(ConfigError, match="max_tokens=None, so budget_usd cannot be enforced; set max_tokens"):
        judged(judge, tmp_path, budget_usd=6.0)
    with pytest.warns(EvalkitWarning, match=r"'mine' billed more .* may exceed budget_usd=6\.0; correct") as caught:
        table = judged(judge.replace(max_tokens=100), tmp_path, budget_usd=6.0, concurrency=1)
    assert len(caught) == 1
    assert table["cost_usd"].sum() == 10.0  # the second call fits by its bound, the third does not
    assert table["error"].value_counts().to_dict() == {"budget": 4}


def test_samples_are_asked_one_by_one(tmp_path: Path) -> None:
    calls = Calls()
    judge = judge_of(calls)
    assert ek.plan(ITEMS, "correctness", judge, samples=3, cache=tmp_path).n_to_call == 18
    judged(judge, tmp_path, samples=3)
    judged(judge, tmp_path, samples=5)
    assert calls.n == 30  # 6 items, 5 samples each, none twice


# -- nothing is asked twice


def test_what_is_stored_is_not_asked_again(tmp_path: Path) -> None:
    calls = Calls()
    judge = judge_of(calls)
    first, second = judged(judge, tmp_path), judged(judge, tmp_path)
    assert calls.n == 6
    assert set(second["source"]) == {"cache"}
    assert second["key"].tolist() == first["key"].tolist()
    judged(Judge.function(calls, name="mine", version="2"), tmp_path)
    assert calls.n == 12  # another version is another judge
    judged(judge, tmp_path, refresh=True)
    assert calls.n == 18
    assert ReplyStore.open(tmp_path).stats()["n_replies"] == 18


def test_a_second_process_asks_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()
    monkeypatch.setenv("FUNCTION_CALLS", str(calls))
    code = (
        "import sys, evalkit as ek; from function_judges import ITEMS\n"
        "ek.judge(ITEMS, 'correctness', 'function:function_judges:good', samples=2, cache=sys.argv[1], progress=False)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "cache")]
    running = [subprocess.Popen(command, cwd=SUPPORT) for _ in range(2)]
    assert [process.wait(120) for process in running] == [0, 0]
    assert len(list(calls.iterdir())) == 12
    judged("function:function_judges:good", tmp_path / "cache", samples=2)
    assert len(list(calls.iterdir())) == 12


# -- frozen, pickled, at other doors


def test_it_can_be_pickled() -> None:
    copy = pickle.loads(pickle.dumps(function_judges.good))
    assert copy == function_judges.good
    assert copy.load_function()("") == GOOD
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(judge_of(lambda prompt: GOOD))


def test_a_profile_names_it_by_its_place(tmp_path: Path) -> None:
    evaluation = ek.evaluate(ITEMS, "correctness", function_judges.good, samples=1, cache=tmp_path)
    profile = ek.freeze(evaluation, tmp_path / "mine.yaml", cache=tmp_path)
    assert "ask: function_judges:good" in (tmp_path / "mine.yaml").read_text(encoding="utf-8")
    loaded = ek.load_profile(tmp_path / "mine.yaml")
    assert loaded == profile
    table = ek.judge(ITEMS, loaded, cache=tmp_path)
    assert set(table["source"]) == {"cache"}


def test_a_lambda_works_live_and_cannot_be_frozen(tmp_path: Path) -> None:
    judge = judge_of(lambda prompt: GOOD)
    evaluation = ek.evaluate(ITEMS, "correctness", judge, samples=1, cache=tmp_path)
    with pytest.raises(ConfigError, match="'mine' cannot be frozen: its function is a lambda"):
        ek.freeze(evaluation, tmp_path / "mine.yaml", cache=tmp_path)


def test_another_version_than_the_frozen_one_is_an_error(tmp_path: Path) -> None:
    judge = Judge.of({"provider": "function", "model": "good@0", "ask": "function_judges:good"})
    with pytest.raises(
        ConfigError,
        match=r"judge .* needs the function 'good@0', but the function at 'function_judges:good' is 'good@1'",
    ):
        judged(judge, tmp_path)


def test_on_the_command_line_and_in_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    judge = ["--judge", "function:function_judges:good"]
    Path("items.jsonl").write_text('{"question": "2 + 2?", "answer": "4", "reference": "4"}\n', encoding="utf-8")
    assert main(["judge", "items.jsonl", "--rubric", "correctness", "--samples", "1", "--out", "out.csv", *judge]) == 0
    assert "good" in Path("out.csv").read_text(encoding="utf-8")
    expected = {"type": "faithfulness", "samples": 1}
    test = {"id": "a", "input": {"prompt": "2 + 2?", "context": ["2 + 2 = 4"]}, "expected": expected}
    Path("eval.yaml").write_text(json.dumps({"tests": [test]}), encoding="utf-8")
    trace = {"schema_version": 1, "type": "verdict.trace", "request_id": "a", "prompt": "2 + 2?",
             "context": ["2 + 2 = 4"], "response": "4", "model": "m", "provider": "p", "meta": {}}  # fmt: skip
    Path("traces.jsonl").write_text(json.dumps(trace) + "\n", encoding="utf-8")
    assert main(["ci", "--config", "eval.yaml", "--trace-file", "traces.jsonl", *judge]) == 0


@pytest.mark.parametrize("kind", ["OpenAI", "AsyncOpenAI", "Anthropic"])
def test_the_obvious_function_around_a_client_is_a_judge(tmp_path: Path, kind: str) -> None:
    """A prompt's messages go to the clients as they are; Anthropic's takes the system text apart from them."""
    library = pytest.importorskip("anthropic" if kind == "Anthropic" else "openai")
    items = [{"question": "2 + 2?", "answer": f"ITEM-{number}", "reference": "4"} for number in range(3)]
    with judge_server() as server:
        address = server.url.removesuffix("/v1") if kind == "Anthropic" else server.url
        client = getattr(library, kind)(base_url=address, api_key="k", max_retries=0)

        def ask(prompt: Prompt) -> str:
            return client.chat.completions.create(model="m", messages=prompt.messages).choices[0].message.content

        async def ask_awaited(prompt: Prompt) -> str:
            reply = await client.chat.completions.create(model="m", messages=prompt.messages)
            return reply.choices[0].message.content

        def ask_claude(prompt: Prompt) -> str:
            system = [message["content"] for message in prompt.messages if message["role"] == "system"]
            rest = [message for message in prompt.messages if message["role"] != "system"]
            reply = client.messages.create(model="m", max_tokens=64, system="\n\n".join(system), messages=rest)
            return reply.content[0].text

        function = {"OpenAI": ask, "AsyncOpenAI": ask_awaited, "Anthropic": ask_claude}[kind]
        judge = Judge.function(function, name=kind.lower(), version="1")
        table = ek.judge(items, "correctness", judge, samples=1, cache=tmp_path)
    assert table["error"].isna().all(), table["error"].tolist()
    assert table["score"].tolist() == [0, 1, 2]
    sent = sorted(str(request.body["messages"]) for request in server.seen)
    messages = [list(ek.build_prompt("correctness", item).messages) for item in items]
    kept = [[one for one in each if kind != "Anthropic" or one["role"] == "user"] for each in messages]
    assert sent == sorted(str([dict(one) for one in each]) for each in kept)


@pytest.mark.parametrize("cost", ["0.01", float("nan"), -1.0])
def test_a_price_that_is_none_is_named_and_nothing_is_stored(cost: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cost_usd of a reply .* expected a finite number ≥ 0 or None; nothing"):
        judged(judge_of(lambda prompt: Reply(GOOD, cost_usd=cost)), tmp_path)
    assert ReplyStore.open(tmp_path).stats()["n_replies"] == 0
