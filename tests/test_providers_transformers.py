"""Models in this process: a tiny random llama, in batches, beside other work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from asked import request_of

import evalkit as ek
from evalkit.calling import LoopThread
from evalkit.errors import ConfigError, MissingExtraError
from evalkit.providers import ProviderError, check_ready, connect
from evalkit.providers.local import release_models
from evalkit.records import Judge, Message, Reply, Request

pytest.importorskip("torch", reason="needs the extra transformers")
transformers = pytest.importorskip("transformers", reason="needs the extra transformers")

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The folder of a random llama that knows bytes as tokens."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("llama")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {"<s>": 0, "</s>": 1} | {letter: place + 2 for place, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(7)
    config = transformers.LlamaConfig(
        vocab_size=len(vocab), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=4096, bos_token_id=0, eos_token_id=1, initializer_range=0.3,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    yield str(folder)
    release_models()


def ask(*requests: Request, n: int = 1) -> list[list[Reply]]:
    """Ask all of them at one time, on the loop thread."""

    async def work() -> list[list[Reply]]:
        return await asyncio.gather(*(connect(r.judge).ask(r, n) for r in requests))

    return LoopThread.get().submit(work()).result(30)


def test_a_batch_brings_the_same_replies_as_single_calls_at_temperature_0(model: str) -> None:
    judge = Judge("transformers", model, temperature=0, max_tokens=12, params={"dtype": "float32"})
    requests = [request_of(judge, item, text="word " * item) for item in range(11)]
    together = [replies[0].text for replies in ask(*requests)]
    singly = [ask(request)[0][0].text for request in requests]
    assert together == singly
    assert len(set(together)) > 1


def test_a_reply_says_how_it_ended_and_what_it_took(model: str) -> None:
    judge = Judge("transformers", model, temperature=0, max_tokens=3)
    [[reply]] = ask(request_of(judge, 1))
    # bytes are tokens here: <|user|>ITEM-1 <|assistant|> is 8 + 7 + 13 of them
    assert (reply.prompt_tokens, reply.completion_tokens, reply.finish_reason) == (28, 3, "length")
    assert reply.model == model
    assert reply.cost_usd is None
    assert judge.service == "local"


def test_several_samples_come_from_one_prompt_and_differ(model: str) -> None:
    judge = Judge("transformers", model, max_tokens=12)
    [replies] = ask(request_of(judge, 1, (0, 1, 2, 3)), n=4)
    assert len(replies) == 4
    assert len({reply.text for reply in replies}) > 1
    # the prompt is read once: its 28 tokens are shared out, so that the column sums to the bill
    assert [reply.prompt_tokens for reply in replies] == [7, 7, 7, 7]
    [same] = ask(request_of(judge.replace(temperature=0), 1, (0, 1, 2)), n=3)
    assert len({reply.text for reply in same}) == 1
    assert len(same) == 3


def test_the_bill_of_several_samples_is_split_and_sums_to_the_whole(model: str) -> None:
    judge = Judge("transformers", model, temperature=0, max_tokens=3, price=(10.0, 100.0))
    [replies] = ask(request_of(judge, 1, (0, 1, 2)), n=3)
    assert [reply.prompt_tokens for reply in replies] == [10, 9, 9]
    # 28 prompt tokens once, 3 completion tokens for each of 3 samples: (28 * 10 + 9 * 100) / 1e6
    assert sum(reply.cost_usd or 0 for reply in replies) == pytest.approx(1180e-6)


def test_a_stop_text_ends_a_reply_and_is_no_part_of_it(model: str) -> None:
    judge = Judge("transformers", model, temperature=0, max_tokens=12)
    requests = [request_of(judge, item, text="word " * item) for item in range(4)]
    plain = [replies[0] for replies in ask(*requests)]
    # a late ASCII sign of the first reply; other replies hold it at other places, or not at all
    stop = next(sign for sign in reversed(plain[0].text or "") if sign.isascii())
    judge = judge.replace(params={"stop": [stop, "never written"]})
    stopped = [replies[0] for replies in ask(*(request_of(judge, i, text="word " * i) for i in range(4)))]
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
    first, second, other = (ask(request_of(judge, 1, samples))[0][0].text for samples in ((0,), (0,), (1,)))
    assert first == second
    assert first != other
    assert torch.equal(state, torch.random.get_rng_state())


def test_a_template_without_a_system_role_gets_its_text_with_the_users(model: str) -> None:
    from dataclasses import replace

    judge = Judge("transformers", model, temperature=0, max_tokens=3)
    plain = request_of(judge, 1)
    prompt = replace(plain.prompt, messages=(Message("system", "be fair"), *plain.prompt.messages))
    [[reply]] = ask(replace(plain, prompt=prompt))
    assert reply.prompt_tokens == 28 + len("be fair\n\n")


def test_a_prompt_that_is_too_long_fails_alone(model: str) -> None:
    judge = Judge("transformers", model, temperature=0, max_tokens=3)

    async def work() -> list[object]:
        requests = [request_of(judge, 1), request_of(judge, 2, text="x" * 5000)]
        return await asyncio.gather(*(connect(judge).ask(r, 1) for r in requests), return_exceptions=True)

    good, bad = LoopThread.get().submit(work()).result(30)
    assert isinstance(good, list)
    assert isinstance(bad, ProviderError)
    assert (bad.kind, "takes fewer than 4096" in bad.detail) == ("client_error", True)


def test_no_model_is_an_unknown_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(ProviderError) as caught:
        ask(request_of(Judge("transformers", str(tmp_path)), 1))
    assert caught.value.kind == "unknown_model"


def test_a_model_is_loaded_once_until_it_is_released(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    release_models()
    from evalkit.providers import transformers as ours

    loaded: list[str] = []
    load = ours.load_model
    monkeypatch.setattr(ours, "load_model", lambda judge: loaded.append(judge.model) or load(judge))
    judge = Judge("transformers", model, max_tokens=2)
    ask(*(request_of(judge, item) for item in range(4)))
    ask(request_of(judge.replace(temperature=0.5), 1))
    assert loaded == [model]
    assert release_models() == 1
    ask(request_of(judge, 1))
    assert loaded == [model, model]


def test_a_jury_with_a_model_in_process_judges_and_is_not_asked_twice(model: str, tmp_path: Path) -> None:
    items = [{"item_id": str(i), "question": "2 + 2?", "answer": str(i), "reference": "4"} for i in range(5)]
    judges = [Judge("transformers", model, max_tokens=8), Judge.of("fake:strict")]
    first = ek.judge(items, "correctness", judges, samples=2, cache=tmp_path)
    again = ek.judge(items, "correctness", judges, samples=2, cache=tmp_path, offline=True)
    assert ek.replies(first, cache=tmp_path).tolist() == ek.replies(again, cache=tmp_path).tolist()
    assert set(first.loc[first["judge"] == judges[0].name, "error"]) <= {"truncated", "unreadable", "empty"}
    assert first.loc[first["judge"] == "fake:strict", "score"].notna().all()


def test_what_cannot_work_is_said_before_a_model_is_loaded(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="no base_url"):
        check_ready(Judge("transformers", model, base_url="http://localhost:1/v1"))
    with pytest.raises(ConfigError, match="hold 'logit_bias'; 'transformers' takes top_p"):
        check_ready(Judge("transformers", model, params={"logit_bias": 1}))
    with pytest.raises(ConfigError, match="dtype 'int3'"):
        check_ready(Judge("transformers", model, params={"dtype": "int3"}))
    monkeypatch.setenv("EVALKIT_BATCH_SIZE", "many")
    with pytest.raises(ConfigError, match="EVALKIT_BATCH_SIZE is 'many'"):
        check_ready(Judge("transformers", model))
    monkeypatch.delenv("EVALKIT_BATCH_SIZE")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"evalkit\[transformers\]"):
        check_ready(Judge("transformers", model))
