"""What the tests of real LightEval processes share: a task file, a custom model, a tiny llama."""

from __future__ import annotations

import json
from pathlib import Path

TASKS = """
from pathlib import Path

from lighteval.metrics.metrics import Metrics
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc

from evalkit.lighteval import judge_metric

DATA = str(Path(__file__).with_name("sums"))


def prompt(line, task_name=None):
    return Doc(task_name=task_name, query=line["question"], choices=[line["reference"]], gold_index=0,
               specific={"reference_answer": line["reference"]})


def task(name, metrics):
    return LightevalTaskConfig(name=name, prompt_function=prompt, hf_repo=DATA, hf_subset="default",
                               hf_avail_splits=["test"], evaluation_splits=["test"], metrics=metrics,
                               generation_size=8)


TASKS_TABLE = [
    task("sums", [judge_metric("correctness")]),
    task("sums_exact", [Metrics.exact_match]),
    task("sums_unsupported", [judge_metric("faithfulness")]),
]
"""

MODEL = """
import os

from lighteval.models.abstract_model import LightevalModel
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import SamplingMethod
from lighteval.utils.cache_management import SampleCache, cached


class Parrot(LightevalModel):
    def __init__(self, config):
        self.config = config
        self._cache = SampleCache(config)

    tokenizer = None
    add_special_tokens = False
    max_length = 4096

    def tok_encode(self, text):
        return text

    @cached(SamplingMethod.GENERATIVE)
    def greedy_until(self, docs):
        with open(os.environ["MODEL_CALLS"], "a") as calls:
            calls.write("".join(doc.query + "\\\\n" for doc in docs))
        return [ModelResponse(text=[self.say(doc)], input_tokens=[1], output_tokens=[[1]]) for doc in docs]

    def say(self, doc):
        return "" if "4 plus 4" in doc.query else doc.specific["reference_answer"]

    def loglikelihood(self, docs):
        raise NotImplementedError

    def loglikelihood_rolling(self, docs):
        raise NotImplementedError
"""


def make_parts(folder: Path, n: int = 10) -> Path:
    """`tasks.py`, `model.py` and the data; the folder."""
    (folder / "sums").mkdir(parents=True)
    (folder / "tasks.py").write_text(TASKS)
    (folder / "model.py").write_text(MODEL.replace("\\\\n", "\\n"))
    write_sums(folder, n)
    return folder


def write_sums(folder: Path, n: int, suffix: str = "") -> None:
    lines = [{"question": f"What is {i} plus {i}?{suffix}", "reference": f"{i} plus {i} is {2 * i}"} for i in range(n)]
    (folder / "sums" / "test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def make_llama(folder: Path, seed: int = 7, template: str | None = None, positions: int = 2048) -> str:
    """A random llama that knows bytes as tokens, saved by transformers."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: number for number, token in enumerate(["<s>", "</s>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.chat_template = template
    fast.save_pretrained(folder)
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=len(vocab), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=positions, bos_token_id=0, eos_token_id=1, initializer_range=0.3,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)
