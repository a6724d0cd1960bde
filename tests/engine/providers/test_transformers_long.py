"""Models in this process: a tiny random llama, in batches, beside other work."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from in_threads import in_threads
from judge_requests import ask, ask_all, request_of
from lighteval_parts import make_llama
from warm_process import WarmProcess

import evalkit as ek
from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Message
from evalkit.engine.cache.sqlite_schema import FILE_NAME
from evalkit.engine.calls.event_loop import LoopThread
from evalkit.engine.providers import check_ready, connect
from evalkit.engine.providers.in_process_models import release_models
from evalkit.engine.request import ProviderError, Request
from evalkit.errors import ConfigError, MissingExtraError

pytestmark = pytest.mark.usefixtures("frozen_heap")
pytest.importorskip("torch", reason="needs the extra transformers")

transformers = pytest.importorskip("transformers", reason="needs the extra transformers")

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture(autouse=True)
def _no_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of random weights ends no reply, so the rule that stops such a judge would stop it."""
    monkeypatch.setattr("evalkit.engine.calls.retries_and_breaker._FIRST_REPLIES", 10_000)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The folder of a random llama that knows bytes as tokens."""
    import torch

    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # several would wait for each other longer than this model computes
    yield make_llama(tmp_path_factory.mktemp("llama"), template=TEMPLATE, positions=4096)
    release_models()
    torch.set_num_threads(n_threads)


class Computed(list[str]):
    """The last message of each prompt that a model computed, its batches by their prompts' lengths, and a first one."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[int]] = []
        self.first = threading.Event()


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Computed:
    from evalkit.engine.providers.transformers import TransformersModel

    seen = Computed()
    generate = TransformersModel._generate

    def note(self: TransformersModel, waiting: list[Any]) -> object:
        seen.extend(one.call.request.prompt.messages[-1].content for one in waiting)
        seen.batches.append([len(one.tokens) for one in waiting])
        seen.first.set()
        return generate(self, waiting)

    monkeypatch.setattr(TransformersModel, "_generate", note)
    return seen


def test_a_batch_brings_the_same_replies_as_single_calls_at_temperature_0(model: str) -> None:
    judge = Judge("transformers", model, temperature=0, max_tokens=12, params={"dtype": "float32"})
    requests = [request_of(judge, item, text="word " * item) for item in range(11)]
    together = [replies[0].text for replies in ask_all(*requests)]
    singly = [ask(request)[0].text for request in requests]
    assert together == singly
    assert len(set(together)) > 1


def test_a_reply_says_how_it_ended_and_what_it_took(model: str) -> None:
    judge = Judge("transformers", model, temperature=0, max_tokens=3)
    [reply] = ask(request_of(judge, 1))
    # bytes are tokens here: <|user|>ITEM-1 <|assistant|> is 8 + 7 + 13 of them
    assert (reply.prompt_tokens, reply.completion_tokens, reply.finish_reason) == (28, 3, "length")
    assert reply.model == model
    assert reply.cost_usd is None
    assert judge.service == "local"


def test_several_samples_come_from_one_prompt_and_differ(model: str) -> None:
    judge = Judge("transformers", model, max_tokens=12)
    replies = ask(request_of(judge, 1, (0, 1, 2, 3)), n=4)
    assert len(replies) == 4
    assert len({reply.text for reply in replies}) > 1
    # the prompt is read once: its 28 tokens are shared out, so that the column sums to the bill
    assert [reply.prompt_tokens for reply in replies] == [7, 7, 7, 7]
    same = ask(request_of(judge.replace(temperature=0), 1, (0, 1, 2)), n=3)
    assert len({reply.text for reply in same}) == 1
    assert len(same) == 3


def test_the_bill_of_several_samples_is_split_and_sums_to_the_whole(model: str) -> None:
    judge = Judge("transformers", model, temperature=0, max_tokens=3, price=(10.0, 100.0))
    replies = ask(request_of(judge, 1, (0, 1, 2)), n=3)
    assert [reply.prompt_tokens for reply in replies] == [10, 9, 9]
    # 28 prompt tokens once, 3 completion tokens for each of 3 samples: (28 * 10 + 9 * 100) / 1e6
    assert sum(reply.cost_usd or 0 for reply in replies) == pytest.approx(1180e-6)


def test_a_stop_text_ends_a_reply_and_is_no_part_of_it(model: str) -> None:
    judge = Judge("transformers", model, temperature=0, max_tokens=12)
    requests = [request_of(judge, item, text="word " * item) for item in range(4)]
    plain = [replies[0] for replies in ask_all(*requests)]
    # a late ASCII sign of the first reply; other replies hold it at other places, or not at all
    stop = next(sign for sign in reversed(plain[0].text or "") if sign.isascii())
    judge = judge.replace(params={"stop": [stop, "never written"]})
    stopped = [replies[0] for replies in ask_all(*(request_of(judge, i, text="word " * i) for i in range(4)))]
    for whole, cut in zip(plain, stopped, strict=True):
        before, found, _ = (whole.text or "").partition(stop)
        assert cut.text == before
        assert cut.finish_reason == ("stop" if found else whole.finish_reason)
        assert (cut.completion_tokens or 0) <= (whole.completion_tokens or 0)
        if found and "\N{REPLACEMENT CHARACTER}" not in before:  # bytes are tokens; that sign is one to three of them
            assert cut.completion_tokens == len((before + stop).encode())


def test_a_seed_fixes_a_sample_and_leaves_the_notebooks_random_numbers_alone(model: str) -> None:
    import torch

    judge = Judge("transformers", model, max_tokens=12, params={"seed": 5})
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    first, second, other = (ask(request_of(judge, 1, samples))[0].text for samples in ((0,), (0,), (1,)))
    assert first == second
    assert first != other
    assert torch.equal(state, torch.random.get_rng_state())


def test_a_template_without_a_system_role_gets_its_text_with_the_users(model: str) -> None:
    from dataclasses import replace

    judge = Judge("transformers", model, temperature=0, max_tokens=3)
    plain = request_of(judge, 1)
    prompt = replace(plain.prompt, messages=(Message("system", "be fair"), *plain.prompt.messages))
    [reply] = ask(replace(plain, source=prompt))
    assert reply.prompt_tokens == 28 + len("be fair\n\n")


def test_a_prompt_that_is_too_long_fails_alone(model: str) -> None:
    judge = Judge("transformers", model, temperature=0, max_tokens=3)
    good, bad = ask_all(request_of(judge, 1), request_of(judge, 2, text="x" * 5000))
    assert isinstance(good, list)
    assert (bad.kind, "takes fewer than 4096" in bad.detail) == ("too_long", True)


def test_no_model_is_an_unknown_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(ProviderError) as caught:
        ask(request_of(Judge("transformers", str(tmp_path)), 1))
    assert caught.value.kind == "unknown_model"


def test_a_model_is_loaded_once_until_it_is_released(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    release_models()
    from evalkit.engine.providers import transformers as ours

    loaded: list[str] = []
    load = ours.load_model
    monkeypatch.setattr(ours, "load_model", lambda judge: loaded.append(judge.model) or load(judge))
    judge = Judge("transformers", model, max_tokens=2)
    ask_all(*(request_of(judge, item) for item in range(4)))
    ask(request_of(judge.replace(temperature=0.5), 1))
    assert loaded == [model]
    assert ek.engine.release_models() == 1
    assert ek.engine.release_models() == 0
    ask(request_of(judge, 1))
    assert loaded == [model, model]


def test_a_jury_with_a_model_in_process_judges_and_is_not_asked_twice(model: str, tmp_path: Path) -> None:
    items = [{"item_id": str(i), "question": "2 + 2?", "answer": str(i), "reference": "4"} for i in range(5)]
    judges = [Judge("transformers", model, max_tokens=8), Judge.of("fake:strict")]
    first = ek.judge(items, "correctness", judges, samples=2, cache=tmp_path)
    again = ek.judge(items, "correctness", judges, samples=2, cache=tmp_path, offline=True)
    assert ek.engine.replies(first, cache=tmp_path).tolist() == ek.engine.replies(again, cache=tmp_path).tolist()
    assert set(first.loc[first["judge"] == judges[0].name, "error"]) <= {"truncated", "unreadable", "empty"}
    assert first.loc[first["judge"] == "fake:strict", "score"].notna().all()


def test_what_cannot_work_is_said_before_a_model_is_loaded(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="no base_url"):
        check_ready(Judge("transformers", model, base_url="http://localhost:1/v1"))
    with pytest.raises(ConfigError, match="contain 'logit_bias'; allowed for 'transformers': top_p"):
        check_ready(Judge("transformers", model, params={"logit_bias": 1}))
    with pytest.raises(ConfigError, match="dtype 'int3'"):
        check_ready(Judge("transformers", model, params={"dtype": "int3"}))
    monkeypatch.setenv("EVALKIT_BATCH_SIZE", "many")
    with pytest.raises(
        ConfigError, match="EVALKIT_BATCH_SIZE must be a whole number of prompts, 1 or more, got 'many'"
    ):
        check_ready(Judge("transformers", model))
    monkeypatch.delenv("EVALKIT_BATCH_SIZE")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[transformers\]'"):
        check_ready(Judge("transformers", model))


def test_log_probabilities_are_those_of_the_model(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared with one pass of the model over prompt and reply; the parameters of drawing do not change them."""
    import torch

    from evalkit.engine.providers import transformers as ours

    given: list[tuple[list[list[int]], list[list[dict[int, float]]]]] = []
    of = ours._Shares.of
    monkeypatch.setattr(
        ours._Shares, "of", lambda self, written: given.append((written.tolist(), of(self, written))) or given[-1][1]
    )
    params = {"logprobs": True, "top_logprobs": 5, "top_p": 0.9, "dtype": "float32"}
    judge = Judge("transformers", model, max_tokens=6, temperature=0.7, params=params)
    replies = ask(request_of(judge, 1, (0, 1, 2)), n=3)
    assert all(reply.logprobs for reply in replies)
    whole = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    prompt = tokenizer("<|user|>ITEM-1 <|assistant|>", add_special_tokens=False)["input_ids"]
    [(rows, found)] = given
    assert len(rows) == 3
    for row, candidates in zip(rows, found, strict=True):
        with torch.inference_mode():
            shares = whole(torch.tensor([prompt + row])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        ended = row.index(1) if 1 in row else len(row)
        for at in range(ended):
            expected = {row[at]: float(shares[at, row[at]])}
            top = shares[at].topk(5)
            expected |= dict(zip(top.indices.tolist(), top.values.tolist(), strict=True))
            assert candidates[at] == pytest.approx(expected, abs=1e-3)


def queued_before_loading(monkeypatch: pytest.MonkeyPatch, requests: list[Request], n: int) -> list[Any]:
    """Replies or problems of requests that are all there when the model begins, so that its batches are known."""
    from evalkit.engine.providers import transformers as ours

    release_models()
    ready, load = threading.Event(), ours.load_model
    monkeypatch.setattr(ours, "load_model", lambda judge: ready.wait(300) and load(judge))

    async def work() -> list[Any]:
        asked = [asyncio.ensure_future(connect(request.judge).ask(request, n)) for request in requests]
        await asyncio.sleep(0)
        ready.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    return LoopThread.get().submit(work()).result(300)


def test_what_does_not_fit_into_memory_is_an_error_that_names_the_setting(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of twenty prompts, four at a time, the batch of the longest fails, and alone that prompt still does."""
    import torch

    from evalkit.engine.providers.transformers import TransformersModel

    generate, sizes = TransformersModel._generate, list[int]()

    def small(self: TransformersModel, waiting: list[Any]) -> object:
        sizes.append(len(waiting))
        if any(len(one.tokens) > 1000 for one in waiting):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        return generate(self, waiting)

    monkeypatch.setattr(TransformersModel, "_generate", small)
    monkeypatch.setenv("EVALKIT_BATCH_SIZE", "4")
    judge = Judge("transformers", model, max_tokens=3, temperature=0)
    # bytes are tokens: 2,000 of the text, 28 of its frame
    requests = [request_of(judge, item, text="x" * (2000 if item == 5 else item)) for item in range(20)]
    found = queued_before_loading(monkeypatch, requests, 1)
    problems = [one for one in found if isinstance(one, ProviderError)]
    assert found[5] in problems
    assert len(problems) == 4
    assert sizes == [4] * 5, "nothing is computed twice"
    text = (
        "a batch of 4 prompts, the longest of 2028 tokens, with 4 replies, does not fit into the memory of cpu; "
        "lower EVALKIT_BATCH_SIZE (it is 4); for more, use a server"
    )
    assert {(problem.kind, problem.detail) for problem in problems} == {("client_error", text)}
    two = request_of(judge.replace(temperature=1), 5, (0, 1), text="x" * 2000)
    [alone] = queued_before_loading(monkeypatch, [two], 2)
    text = "a prompt of 2028 tokens, with 2 replies, does not fit into the memory of cpu; for more, use a server"
    assert (alone.kind, alone.detail) == ("too_long", text)
    release_models()


@pytest.mark.parametrize(
    ("size", "n", "batches"), [("", 1, [8, 2]), ("4", 2, [2] * 5), ("3", 2, [1] * 10), ("1", 1, [1] * 10)]
)
def test_a_batch_has_as_many_replies_as_the_setting_says_or_those_of_one_call(
    model: str, computed: Computed, monkeypatch: pytest.MonkeyPatch, size: str, n: int, batches: list[int]
) -> None:
    monkeypatch.setenv("EVALKIT_BATCH_SIZE", size)
    judge = Judge("transformers", model, max_tokens=2)
    queued_before_loading(monkeypatch, [request_of(judge, item, tuple(range(n))) for item in range(10)], n)
    assert [*map(len, computed.batches)] == batches
    release_models()


def test_an_error_of_a_library_is_of_its_prompt_or_batch_alone(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One prompt whose template raises, and one batch of 8 that raises, among 40; the model goes on."""
    from evalkit.engine.providers.transformers import TransformersModel

    release_models()
    tokens, generate, n_batches = TransformersModel._tokens, TransformersModel._generate, [0]

    def odd(self: TransformersModel, call: Any) -> list[int]:
        if "BAD" in call.request.prompt.messages[-1].content:
            raise TypeError("can only concatenate str")
        return tokens(self, call)

    def broken(self: TransformersModel, waiting: list[Any]) -> object:
        n_batches[0] += 1
        if n_batches[0] == 2:
            raise RuntimeError("device-side assert")
        return generate(self, waiting)

    monkeypatch.setattr(TransformersModel, "_tokens", odd)
    monkeypatch.setattr(TransformersModel, "_generate", broken)
    judge = Judge("transformers", model, max_tokens=3, temperature=0)
    found = ask_all(*(request_of(judge, item, text="BAD" if item == 30 else "x") for item in range(40)))
    problems = [one for one in found if isinstance(one, ProviderError)]
    assert "TypeError" in found[30].detail
    assert 1 <= sum("device-side assert" in problem.detail for problem in problems) <= 8
    assert all(isinstance(one, list) for one in found if one not in problems)
    assert len(ask(request_of(judge, 50))) == 1, "the thread lives"
    release_models()


def test_prompts_of_about_the_same_length_are_one_batch(
    model: str, computed: Computed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty short prompts and fifty long ones, mixed: padding takes less than a tenth of the tokens."""
    judge = Judge("transformers", model, max_tokens=1)
    requests = [request_of(judge, item, text="x" * (item % 2 * 500)) for item in range(100)]
    queued_before_loading(monkeypatch, requests, 1)
    assert len(computed) == 100
    padded = sum(max(batch) * len(batch) for batch in computed.batches)
    assert padded < 1.1 * sum(map(sum, computed.batches))
    release_models()


# -- stopping, time-outs, several runs, forked children


def items_of(n: int) -> list[dict[str, str]]:
    return [{"item_id": str(i), "question": "2 + 2?", "answer": str(i), "reference": "4"} for i in range(n)]


def n_stored(cache: Path) -> int:
    with contextlib.closing(sqlite3.connect(cache / FILE_NAME)) as connection:
        return int(connection.execute("SELECT count(DISTINCT key) FROM replies").fetchone()[0])


def test_a_batch_that_takes_too_long_is_a_timeout(model: str) -> None:
    judge = Judge("transformers", model, max_tokens=3000, temperature=0, timeout_s=0.05)
    with pytest.raises(ProviderError) as caught:
        ask(request_of(judge, 1))
    assert (caught.value.kind, caught.value.maybe_paid) == ("timeout", False)
    assert "not finished after 0.05 s" in caught.value.detail


def test_the_end_of_the_process_breaks_off_what_is_computed(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from evalkit.engine.providers import transformers as ours

    ended = threading.Event()
    ended.set()
    monkeypatch.setattr(ours, "ENDING", ended)
    with pytest.raises(ProviderError, match="not finished"):
        ask(request_of(Judge("transformers", model, max_tokens=3000, temperature=0), 1))


def test_loading_and_waiting_in_line_are_not_under_the_time_out(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    release_models()
    from evalkit.engine.providers import transformers as ours

    load = ours.load_model
    monkeypatch.setattr(ours, "load_model", lambda judge: time.sleep(0.5) or load(judge))
    # a reply of one token is at its end before the clock is looked at, so that only the loading could be too long
    judge = Judge("transformers", model, max_tokens=1, timeout_s=0.2)
    found = ask_all(*(request_of(judge, item) for item in range(20)))
    assert [len(replies) for replies in found] == [1] * 20


def test_two_runs_at_once_share_a_model_and_what_both_want_is_computed_once(
    model: str, tmp_path: Path, computed: Computed
) -> None:
    judge = Judge("transformers", model, max_tokens=8)

    def run(items: list[dict[str, str]]) -> pd.DataFrame:
        return ek.judge(items, "correctness", judge, samples=1, cache=tmp_path)

    tables = in_threads(lambda: run(items_of(30)[:20]), lambda: run(items_of(30)[10:]))
    assert len(computed) == len(set(computed)) == 30
    again = ek.judge(items_of(30), "correctness", judge, samples=1, cache=tmp_path, offline=True)
    assert again["error"].astype(str).ne("cache_miss").all()
    for table, part in zip(tables, (again.iloc[:20], again.iloc[10:]), strict=True):
        assert table["key"].tolist() == part["key"].tolist()
        assert table["completion_tokens"].tolist() == part["completion_tokens"].tolist()


def test_a_run_that_is_stopped_computes_no_more_and_the_next_one_only_the_rest(
    model: str, tmp_path: Path, computed: Computed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALKIT_BATCH_SIZE", "2")
    judge = Judge("transformers", model, max_tokens=8)

    async def work() -> None:
        task = asyncio.ensure_future(
            ek.ajudge(items_of(20), "correctness", judge, samples=1, repair=False, cache=tmp_path)
        )
        await asyncio.to_thread(computed.first.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(work(), 60))
    release_models()  # answers what is in line
    assert len(computed) < 15  # one of two that were computed, and twice two that were handed over already
    table = ek.judge(items_of(20), "correctness", judge, samples=1, repair=False, cache=tmp_path)
    assert len(table) == 20
    assert len(computed) == len(set(computed)) == 20


PROCESS = """
import os, sys
import evalkit as ek
from evalkit.engine.providers.transformers import TransformersModel
generate = TransformersModel._generate
def told(self, waiting):
    found = generate(self, waiting)
    print("BATCH", len(waiting), flush=True)
    return found
TransformersModel._generate = told
items = [{"item_id": str(i), "question": "2 + 2?", "answer": str(i), "reference": "4"} for i in range(24)]
judge = ek.Judge("transformers", sys.argv[1], max_tokens=8)
def run(items):
    return ek.judge(items, "correctness", judge, samples=1, cache=sys.argv[2], progress=False)
"""
INTERRUPTED = (
    PROCESS
    + """
def waiting_for_the_signal(self, waiting):
    found = told(self, waiting)
    sys.stdin.readline()
    return found
TransformersModel._generate = waiting_for_the_signal
run(items)
"""
)
FORKED = (
    PROCESS
    + """
run(items[-2:])
child = os.fork()
if not child:
    run(items[-6:])
    print("CHILD", flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
import torch
torch.set_num_threads(1)  # the rest is done faster that way
print(len(run(items)))
"""
)


def started(warm: WarmProcess, code: str, *arguments: object) -> subprocess.Popen[str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"PYTHONPATH": paths, "EVALKIT_BATCH_SIZE": "2"}
    return subprocess.Popen(
        warm.command("-c", code, *map(str, arguments)),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


def finished(child: subprocess.Popen[str]) -> tuple[str, str]:
    """The rest of what a process says, to which no more is said; it is not left running."""
    try:
        return child.communicate(timeout=300)
    finally:
        child.kill()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals and forks are those of POSIX")
def test_ctrl_c_ends_a_process_and_the_next_one_computes_the_rest_in_forked_children_too(
    model: str, tmp_path: Path, warm_lighteval: WarmProcess
) -> None:
    child = started(warm_lighteval, INTERRUPTED, model, tmp_path)
    first = child.stdout.readline()
    child.send_signal(signal.SIGINT)
    out, err = finished(child)
    assert first.startswith("BATCH"), err
    assert child.returncode not in (0, -signal.SIGSEGV, -signal.SIGABRT)
    assert "KeyboardInterrupt" in err
    stored = n_stored(tmp_path)
    assert 0 < stored < 14  # the forked child has some to do
    child = started(warm_lighteval, FORKED, model, tmp_path)
    out, err = finished(child)
    assert child.returncode == 0, err
    assert "CHILD" in out
    assert out.split()[-1] == "24"
    # each process prints its own batches: what was stored before, and by the other one, is computed by nobody
    assert sum(int(line.split()[1]) for line in out.splitlines() if line.startswith("BATCH")) == 24 - stored
