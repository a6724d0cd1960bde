"""Models by vLLM. It takes an accelerator, so what is asked here is a stand-in with vLLM's own signatures."""

from __future__ import annotations

import asyncio
import importlib.util
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import vllm_stand_in
from judge_requests import SCHEMA, ask, ask_all, request_of

import evalkit as ek
from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Message, Reply
from evalkit.engine.calls.event_loop import LoopThread
from evalkit.engine.providers import check_ready, connect
from evalkit.engine.providers.in_process_models import release_models
from evalkit.errors import ConfigError, MissingExtraError

pytestmark = pytest.mark.usefixtures("frozen_heap")
INSTALLED = importlib.util.find_spec("vllm") is not None


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[vllm_stand_in.LLM]]:
    yield vllm_stand_in.install(monkeypatch)
    release_models()


@pytest.mark.parametrize("place", vllm_stand_in.FACTS)
def test_the_stand_in_keeps_the_facts(place: str, vllm: object) -> None:
    assert set(vllm_stand_in.FACTS[place]) <= vllm_stand_in.parameters_of(place)


@pytest.mark.skipif(not INSTALLED, reason="vllm is not installed: it takes an accelerator")
@pytest.mark.parametrize("place", vllm_stand_in.FACTS)
def test_the_real_package_keeps_the_facts(place: str) -> None:
    assert set(vllm_stand_in.FACTS[place]) <= vllm_stand_in.parameters_of(place)


def test_a_reply_says_how_it_ended_and_what_it_took(vllm: type[vllm_stand_in.LLM]) -> None:
    judge = Judge("vllm", "org/m", max_tokens=5, price=(10.0, 100.0))
    replies = ask(request_of(judge, 1, (0, 1, 2)), n=3)
    # "<user>ITEM-1 <assistant>" is 6 + 7 + 11 bytes; each reply is cut at 5
    assert [reply.prompt_tokens for reply in replies] == [8, 8, 8]
    assert [(reply.completion_tokens, reply.finish_reason) for reply in replies] == [(5, "length")] * 3
    assert sum(reply.cost_usd or 0 for reply in replies) == pytest.approx((24 * 10 + 15 * 100) / 1e6)
    assert {reply.model for reply in replies} == {"org/m@c0ffee"}
    assert judge.service == "local"
    assert vllm.made == [
        {"model": "org/m", "trust_remote_code": False, "dtype": "auto", "quantization": None, "revision": None,
         "tokenizer_revision": None, "gpu_memory_utilization": 0.92, "tensor_parallel_size": 1, "cpu_offload_gb": 0,
         "enforce_eager": False}
    ]  # fmt: skip


def test_prompts_that_wait_are_one_batch_and_each_gets_its_own_reply(vllm: type[vllm_stand_in.LLM]) -> None:
    judge = Judge("vllm", "m", params={"seed": 4})
    started = threading.Event()
    load = vllm.__init__

    def wait_and_load(self: object, *args: object, **options: object) -> None:
        assert started.wait(300)
        load(self, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vllm, "__init__", wait_and_load)

        async def work() -> list[list[Reply]]:
            asked = [asyncio.ensure_future(connect(judge).ask(request_of(judge, i, (0, 1)), 2)) for i in range(40)]
            await asyncio.sleep(0)
            started.set()
            return await asyncio.gather(*asked)

        found = LoopThread.get().submit(work()).result(300)
    assert len(vllm.seen) == 80
    for item, replies in enumerate(found):
        prompts = [(prompt, params) for prompt, params in vllm.seen if f"ITEM-{item} " in prompt]
        assert [reply.text for reply in replies] == [vllm.reply(*asked) for asked in prompts]
    seeds = [params.seed for _, params in vllm.seen]
    assert len(set(seeds)) == 2  # one for each sample, wherever it is computed
    release_models()
    assert vllm.closed[0].n_largest > 2


def test_what_the_judge_says_stands_above_the_models_defaults(vllm: type[vllm_stand_in.LLM]) -> None:
    vllm.defaults = {"temperature": 0.6, "top_p": 0.95, "max_tokens": 9}
    params = {"top_k": 20, "stop": "[END]", "dtype": "bfloat16", "revision": "v2", "quantization": "awq"}
    judge = Judge("vllm", "m", temperature=0.5, params=params)
    ask(request_of(judge, 1, form="json"))
    ask(request_of(judge.replace(temperature=None, max_tokens=None, params={**params, "top_p": 0.1}), 2))
    first, second = (params for _, params in vllm.seen)
    assert (first.temperature, first.top_p, first.top_k, first.max_tokens, first.stop) == (
        0.5,
        0.95,
        20,
        512,
        ["[END]"],
    )
    assert first.structured_outputs == vllm_stand_in.StructuredOutputsParams(SCHEMA)
    assert (second.temperature, second.top_p, second.max_tokens, second.structured_outputs) == (0.6, 0.1, 4096, None)
    assert len(vllm.made) == 1
    told = ("dtype", "revision", "tokenizer_revision", "quantization")
    assert [vllm.made[0][name] for name in told] == ["bfloat16", "v2", "v2", "awq"]


def test_a_schema_binds_the_reply_and_nothing_is_said_to_be_sent_otherwise(vllm: object) -> None:
    [reply] = ask(request_of(Judge("vllm", "m"), 1, form="json"))
    assert reply.sent is None


def test_at_temperature_0_all_samples_are_one_computation(vllm: type[vllm_stand_in.LLM]) -> None:
    replies = ask(request_of(Judge("vllm", "m", temperature=0), 1, (0, 1, 2)), n=3)
    assert len(replies) == 3
    assert len({reply.text for reply in replies}) == len(vllm.seen) == 1


def test_prompts_that_cannot_be_computed_fail_alone(vllm: type[vllm_stand_in.LLM]) -> None:
    judge = Judge("vllm", "m", timeout_s=3)
    texts = ["", "x" * 5000, "HANG", "ABORT"]
    good, long, hangs, aborted = ask_all(*(request_of(judge, i, text=text) for i, text in enumerate(texts)))
    assert isinstance(good, list)
    for problem, kind, words in [
        (long, "too_long", "maximum context length is 4096"),
        (hangs, "timeout", "not finished after 3 s"),
        (aborted, "server_error", "'abort'"),
    ]:
        assert problem.kind == kind
        assert words in problem.detail
    assert isinstance(ask_all(request_of(judge, 9))[0], list)
    release_models()
    [engine] = vllm.closed
    assert not engine.waiting  # what hung was aborted
    assert len(engine.aborted) == 1


def test_an_odd_error_of_a_template_is_of_its_prompt_alone(
    vllm: type[vllm_stand_in.LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = vllm.enqueue_chat

    def odd(self: vllm_stand_in.LLM, messages: Any, *args: Any, **options: Any) -> list[str]:
        if "BAD" in messages[0][-1]["content"]:
            raise TypeError("can only concatenate str")
        return chat(self, messages, *args, **options)

    monkeypatch.setattr(vllm, "enqueue_chat", odd)
    judge = Judge("vllm", "m")
    found = ask_all(*(request_of(judge, i, text="BAD" if i == 3 else "x") for i in range(9)))
    problem = found.pop(3)
    assert "TypeError" in problem.detail
    assert all(isinstance(one, list) for one in found)


def test_an_engine_that_has_ended_is_started_anew(vllm: type[vllm_stand_in.LLM], tmp_path: Path) -> None:
    judge = Judge("vllm", "m")
    ask(request_of(judge, 1))
    vllm.dead = 1
    [problem] = ask_all(request_of(judge, 2))
    assert (problem.kind, "has ended" in problem.detail) == ("server_error", True)
    ask(request_of(judge, 3))
    assert (len(vllm.made), len(vllm.closed)) == (2, 1)
    vllm.dead = 1  # and judge asks again by itself
    items = [{"item_id": "a", "question": "2 + 2?", "answer": "4", "reference": "4"}]
    table = ek.judge(items, "correctness", judge, samples=1, cache=tmp_path)
    assert table["error"].tolist() == ["unreadable"]
    assert len(vllm.made) == 3


def test_an_engine_that_breaks_fails_its_calls_and_leaves_nothing_behind(vllm: type[vllm_stand_in.LLM]) -> None:
    judge = Judge("vllm", "m")
    vllm.broken = True
    [problem] = ask_all(request_of(judge, 1, (0, 1)), n=2)
    assert (problem.kind, "no such token" in problem.detail) == ("client_error", True)
    vllm.broken = False
    assert isinstance(ask_all(request_of(judge, 2))[0], list)
    release_models()
    assert len(vllm.closed[0].aborted) == 2


@pytest.mark.parametrize(
    ("template", "read"),
    [
        ("full", "<system>be fair<user>ITEM-1 <assistant>"),
        ("no system", "<user>be fair\n\nITEM-1 <assistant>"),
        ("none", "be fair\n\nITEM-1 "),
    ],
    ids=["full", "no system", "none"],
)
def test_messages_are_read_as_the_models_template_has_them(
    vllm: type[vllm_stand_in.LLM], template: str, read: str
) -> None:
    vllm.template = template
    plain = request_of(Judge("vllm", "m"), 1)
    prompt = replace(plain.prompt, messages=(Message("system", "be fair"), *plain.prompt.messages))
    ask(replace(plain, source=prompt))
    assert vllm.seen[0][0] == read


def test_options_of_a_template_reach_it(vllm: type[vllm_stand_in.LLM]) -> None:
    ask(request_of(Judge("vllm", "m", params={"chat_template_kwargs": {"enable_thinking": False}}), 1))
    assert vllm.seen[0][0].endswith("[enable_thinking]<assistant>")


def test_options_of_the_machine_come_from_a_variable_and_are_another_engine(
    vllm: type[vllm_stand_in.LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Judge("vllm", "m")
    ask(request_of(judge, 1))
    monkeypatch.setenv("EVALKIT_VLLM", '{"gpu_memory_utilization": 0.5, "max_model_len": 64}')
    ask(request_of(judge, 1))
    assert [made["gpu_memory_utilization"] for made in vllm.made] == [0.92, 0.5]
    assert vllm.made[1]["max_model_len"] == 64
    assert release_models() == 2
    assert len(vllm.closed) == 2


def test_a_model_that_cannot_be_loaded_ends_the_judge_and_not_each_call(
    vllm: type[vllm_stand_in.LLM], tmp_path: Path
) -> None:
    items = [{"item_id": str(i), "question": "?", "answer": str(i), "reference": "4"} for i in range(600)]
    judges = [Judge("vllm", "no-model"), Judge.of("fake:strict")]
    table = ek.judge(items, "correctness", judges, samples=1, cache=tmp_path)
    theirs = table[table["judge"] == "vllm:no-model"]
    assert set(theirs["error"]) == {"judge_down"}
    assert len(vllm.made) < 5  # tried for what was in line at first, not for 600
    assert table.loc[table["judge"] == "fake:strict", "error"].isna().all()


def test_a_jury_judges_and_is_not_asked_twice(
    vllm: type[vllm_stand_in.LLM], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [{"item_id": str(i), "question": "2 + 2?", "answer": str(i), "reference": "4"} for i in range(5)]
    monkeypatch.setattr(vllm, "reply", lambda prompt, params: '{"explanation": "a", "score": 1}')
    judge = Judge("vllm", "m")
    first = ek.judge(items, "correctness", judge, samples=2, cache=tmp_path)
    assert first["score"].tolist() == [1] * 10
    n_seen = len(vllm.seen)
    again = ek.judge(items, "correctness", judge, samples=2, cache=tmp_path)
    assert len(vllm.seen) == n_seen
    assert again["score"].tolist() == [1] * 10


def test_what_cannot_work_is_said_before_a_model_is_loaded(
    vllm: type[vllm_stand_in.LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="no base_url; a server needs the provider 'openai'"):
        check_ready(Judge("vllm", "m", base_url="http://localhost:1/v1"))
    with pytest.raises(ConfigError, match="contain 'logit_bias'; allowed for 'vllm': top_p"):
        check_ready(Judge("vllm", "m", params={"logit_bias": 1}))
    with pytest.raises(ConfigError, match="stop must be a string"):
        check_ready(Judge("vllm", "m", params={"stop": ["a", ""]}))
    for text, words in [
        ("{", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ('{"seed": 1}', "contains 'seed'; allowed"),
    ]:
        monkeypatch.setenv("EVALKIT_VLLM", text)
        with pytest.raises(ConfigError, match=words):
            check_ready(Judge("vllm", "m"))
    assert vllm.made == []


def test_a_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[vllm\]'"):
        check_ready(Judge("vllm", "m"))


# -- feeding the engine


def engine_of(model: type[vllm_stand_in.LLM]) -> vllm_stand_in.LLMEngine:
    from evalkit.engine.providers.in_process_models import _threads

    (thread,) = _threads.values()
    engine: vllm_stand_in.LLMEngine = thread._model._llm.llm_engine  # type: ignore[union-attr]
    return engine


def test_a_reply_leaves_when_it_is_finished_and_the_next_call_enters(
    vllm: type[vllm_stand_in.LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reply that does not end holds up none of 300, of which the engine computes 4 at a time and has 6."""
    monkeypatch.setenv("EVALKIT_VLLM", '{"max_num_seqs": 4}')
    vllm.n_steps = lambda prompt: 1 + len(prompt) % 3
    judge = Judge("vllm", "m", timeout_s=1000)

    async def work() -> None:
        requests = [request_of(judge, i, text="HANG" if i == 2 else "x" * (i % 7)) for i in range(300)]
        tasks = [asyncio.ensure_future(connect(judge).ask(request, 1)) for request in requests]
        hangs = tasks.pop(2)
        replies = await asyncio.wait_for(asyncio.gather(*tasks), 300)
        assert len(replies) == 299
        assert not hangs.done()
        engine = engine_of(vllm)
        for name, (prompt, params) in [*engine.waiting.items()]:
            engine.waiting[name] = prompt.replace("HANG", ""), params
        await hangs

    LoopThread.get().submit(work()).result(400)
    # all four places are taken as long as there are prompts: no step waits for the last token of others
    left, short = 300, 0
    for computed, ended in vllm.log:
        short += computed < min(4, left)
        left -= ended
    assert (left, short) == (0, 0)
    assert engine_of(vllm).n_largest == 6


def test_time_in_the_engines_queue_is_not_under_the_time_out(vllm: type[vllm_stand_in.LLM]) -> None:
    judge = Judge("vllm", "m", timeout_s=2.0)
    hangs, good = request_of(judge, 1, text="HANG"), request_of(judge, 3)
    queued = request_of(judge.replace(timeout_s=1.0), 2, text="QUEUED")
    problem, replies = ask_all(hangs, good)
    assert "not finished after 2 s" in problem.detail
    assert isinstance(replies, list)

    async def work() -> bool:
        task = asyncio.ensure_future(connect(judge).ask(queued, 1))
        done, _ = await asyncio.wait({task}, timeout=2)
        engine = engine_of(vllm)
        for name, (prompt, params) in [*engine.waiting.items()]:
            engine.waiting[name] = prompt.replace("QUEUED", ""), params
        return not done and bool(await task)

    assert LoopThread.get().submit(work()).result(300)


def wait_until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.01)


def test_a_run_that_is_stopped_leaves_what_had_not_begun(
    vllm: type[vllm_stand_in.LLM], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALKIT_VLLM", '{"max_num_seqs": 2}')
    monkeypatch.setattr(vllm, "reply", staticmethod(lambda *_: '{"explanation": "a", "score": 1}'))
    vllm.n_steps, vllm.step_s = (lambda _: 4), 0.05
    items = [{"item_id": str(i), "question": "?", "answer": str(i), "reference": "4"} for i in range(50)]
    judge = Judge("vllm", "m")

    async def work() -> None:
        task = asyncio.ensure_future(ek.ajudge(items, "correctness", judge, samples=1, cache=tmp_path))
        await asyncio.to_thread(wait_until, lambda: len(vllm.log) >= 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(work(), 60))
    release_models()
    n_asked = len(vllm.seen)
    assert n_asked < 50
    table = ek.judge(items, "correctness", judge, samples=1, cache=tmp_path)
    assert table["score"].notna().all()
    n_again = len(vllm.seen) - n_asked
    assert 50 - n_asked <= n_again < 50, "what had ended is not computed again"


@pytest.mark.parametrize(
    ("shares", "score", "error"),
    [((0.6, 0.38), (0.6 + 2 * 0.38) / 0.98, None), ((0.6, 0.3), None, "low_mass")],
    ids=["nearly all on codes", "a tenth elsewhere"],
)
def test_scores_are_read_from_the_log_probabilities(
    vllm: type[vllm_stand_in.LLM],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shares: tuple[float, float],
    score: float | None,
    error: str | None,
) -> None:
    """The token of the code 1, and the next one, which is that of 2; the explanation has characters of two tokens."""
    own, other = (vllm_stand_in.Logprob(math.log(share)) for share in shares)
    monkeypatch.setattr(vllm, "shares", staticmethod(lambda token, _: {token: own, token + 1: other}))
    monkeypatch.setattr(vllm, "reply", staticmethod(lambda *_: '{"explanation": "so \u0434\u0430", "score": 1}'))
    item = {"item_id": "a", "question": "2 + 2?", "answer": "4", "reference": "4"}
    judge = Judge("vllm", "m", score="expected")
    table = ek.judge([item], "correctness", judge, samples=1, cache=tmp_path)
    assert [params.logprobs for _, params in vllm.seen] == [20]
    assert table["score_mass"].tolist() == pytest.approx([sum(shares)], abs=1e-4)
    assert [None if pd.isna(one) else one for one in table["error"]] == [error]
    assert table["score"].tolist() == pytest.approx([math.nan if score is None else score], abs=1e-4, nan_ok=True)
