"""`reward` within TRL's trainers, on a tiny random model; it skips without trl."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from requirement_replies import asked_in

import evalkit as ek

trl = pytest.importorskip("trl", reason="needs trl, datasets and torch")


def tiny(folder: Path) -> tuple[str, Any]:
    """The folder of a random model that knows bytes as tokens, and its tokenizer."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_as_tokens = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(letters)}, merges=[]))
    bytes_as_tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_as_tokens.decoder = decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bytes_as_tokens, eos_token="</s>", pad_token="<p>"
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.Qwen2Config(vocab_size=len(tokenizer), num_key_value_heads=1, **sizes, **ids)
    transformers.Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder), tokenizer


@pytest.mark.parametrize("kind", ["GRPO", "RLOO"])
@pytest.mark.parametrize("is_chat", [False, True])
def test_trainers_take_the_rewards_and_log_what_is_unscored(tmp_path: Path, kind: str, is_chat: bool) -> None:
    from datasets import Dataset

    def read(prompt: Any) -> str:
        found = asked_in(prompt.messages[-1].content)
        return json.dumps({"explanation": "so", "score": len(str(found)) % 2}) if len(str(prompt)) % 3 else ""

    reward = ek.engine.reward("requirement", ek.Judge.function(read, name="so", version="1"), cache=tmp_path / "cache",
                              inputs={"criteria": "rubric"})  # fmt: skip
    texts = ["How long?", "Why is it so?"]
    prompts = [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}] for text in texts]
    rubrics = [json.dumps([{"text": f"says {at}", "points": points} for at, points in enumerate([3, -1, 1])])] * 6
    rubrics += ["[]", "1. says A\n2. says B"]
    data = Dataset.from_dict({"prompt": (prompts if is_chat else texts) * 4, "rubric": rubrics, "answer": ["gold"] * 8})
    model, tokenizer = tiny(tmp_path / "model")
    options: dict[str, Any] = {"num_generations": 4, "per_device_train_batch_size": 8, "max_completion_length": 12}
    options |= {"output_dir": str(tmp_path / "out"), "use_cpu": True, "logging_steps": 1, "report_to": []}
    config = getattr(trl, f"{kind}Config")(save_strategy="no", max_steps=4, **options)
    trainer = getattr(trl, f"{kind}Trainer")(model, reward, config, train_dataset=data, processing_class=tokenizer)
    trainer.train()
    steps = [step for step in trainer.state.log_history if "reward" in step]
    log: list[Any] = reward.log  # type: ignore[attr-defined]
    assert [entry["n"] for entry in log] == [8] * 4
    assert [entry["unscored"] for entry in log] == [step["requirement/unscored"] for step in steps]
    assert sum("invalid_criteria" in entry["reasons"] for entry in log) == 1
    assert any(0 < entry["unscored"] < 1 for entry in log)
    for entry, step in zip(log, steps, strict=True):
        given = step["rewards/requirement/mean"]
        assert (given is None or math.isnan(given)) if entry["unscored"] == 1 else -1 <= given <= 1
        assert math.isfinite(step["loss"])
