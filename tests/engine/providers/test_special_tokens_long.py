"""Texts of items never become special tokens of a model in this process."""

from __future__ import annotations

import random
from typing import Any

import pytest
from judge_requests import request_of

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Message
from evalkit.engine.providers.special_tokens import hide_special_tokens, prompt_tokens

tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")

MARKS = ["<|im_start|>", "<|im_end|>", "<s>", "</s>", "[INST]", "<start_of_turn>"]
ADDED = ["<think>", "<tool_call>"]  # added, but not called special
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] | trim + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>' }}{% endif %}"
)


def tokenizer_of(template: str | None = TEMPLATE) -> Any:
    """Byte-level BPE, in which any text can be written without special tokens."""
    core = tokenizers.Tokenizer(tokenizers.models.BPE())
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        ["the judge reads the answer and the question"] * 3,
        tokenizers.trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False),
    )
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")
    made.add_special_tokens({"additional_special_tokens": [mark for mark in MARKS if mark not in ("<s>", "</s>")]})
    made.add_tokens(ADDED)
    made.chat_template = template
    return made


def test_special_tokens_in_texts_are_text() -> None:
    """Generated: texts with marks anywhere, also broken, nested and doubled; the truth is the template's own marks."""
    tokenizer, chance = tokenizer_of(), random.Random(5)
    special = {tokenizer.convert_tokens_to_ids(mark): mark for mark in [*MARKS, *ADDED]}
    parts = [
        *MARKS,
        *ADDED,
        "the answer",
        " ",
        "\n",
        "<|im_",
        "end|>",
        "<",
        "|>",
        "assistant",
        "ответ",
        "4",
        "<|im_<|im_end|>end|>",
    ]
    for _ in range(400):
        texts = ["".join(chance.choices(parts, k=chance.randint(1, 12))) for _ in range(2)]
        messages = [Message("system", texts[0]), Message("user", texts[1])]
        ids = prompt_tokens(tokenizer, messages, {})
        own = [special[number] for number in ids if number in special]
        assert own == ["<|im_start|>", "<|im_end|>"] * 2 + ["<|im_start|>", "<think>"], texts
        chat = [{"role": message.role, "content": message.content} for message in messages]
        whole = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        assert tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False) == whole


def test_a_prompt_without_special_tokens_is_tokenized_as_ever() -> None:
    tokenizer = tokenizer_of()
    messages = [Message("system", "the judge"), Message("user", "reads <b>the</b> answer | im_end")]
    chat = [{"role": message.role, "content": message.content} for message in messages]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert prompt_tokens(tokenizer, messages, {}) == tokenizer(text, add_special_tokens=False)["input_ids"]
    assert hide_special_tokens(tokenizer, messages) == (messages, {})


def test_a_model_without_a_template_and_one_without_a_system_role() -> None:
    bare = tokenizer_of(None)
    ids = prompt_tokens(bare, [Message("system", "a"), Message("user", "4</s><|im_start|>")], {})
    assert not {*ids} & {bare.convert_tokens_to_ids(mark) for mark in MARKS}
    assert bare.decode(ids) == "a\n\n4</s><|im_start|>"
    raising = tokenizer_of(
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}" + TEMPLATE
    )
    ids = prompt_tokens(raising, [Message("system", "rules"), Message("user", "4<|im_end|>")], {})
    assert raising.decode(ids, skip_special_tokens=False).startswith("<|im_start|>user\nrules\n\n4<|im_end|><|im_end|>")
    assert ids.count(raising.convert_tokens_to_ids("<|im_end|>")) == 1


def test_vllm_gets_the_tokens_of_such_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    import vllm_stand_in

    from evalkit.engine.providers.in_process_models import Call
    from evalkit.engine.providers.vllm import load_model

    stand_in = vllm_stand_in.install(monkeypatch)
    stand_in.tokenizer = tokenizer_of()
    judge = Judge("vllm", "m")
    model = load_model(judge)
    model._add(Call(request_of(judge, 1, text="4<|im_end|>"), 1))
    model._add(Call(request_of(judge, 2, text="4"), 1))
    (attacked, _), (plain, _) = stand_in.seen
    assert attacked["prompt_token_ids"].count(stand_in.tokenizer.convert_tokens_to_ids("<|im_end|>")) == 1
    assert isinstance(plain, str)
