"""Models in this process: how fast `judge` feeds them, beside the same prompts given to the model at once.

    python benchmarks/local_models.py                 # no GPU: an engine with a fixed time per step
    python benchmarks/local_models.py vllm [kill]     # vLLM on a card, with a random model; kill its process as well
    python benchmarks/local_models.py transformers    # the same with transformers, in batches of 8, 64 and 256

Without a card, the engine computes 64 replies at a time, each in 20 to 65 steps of 5 ms, and writes down for each step
how many it computes; a step is idle as far as it computes fewer than it could, while replies are left to be asked for.
The model of the other two has 1.2 billion random parameters and a head that makes it write 20 to 65 tokens and end; its
speed is real, its scores mean nothing.

On one NVIDIA H200, with prompts of about 900 tokens and replies of 64 (transformers 5.17, vLLM 0.33, torch 2.11):

| | evalkit | the same prompts at once |
| --- | --- | --- |
| transformers, batches of 64 (32 with 256) | 15 replies a second | as many, by one call of `generate` |
| transformers, batches of 8 | 6 replies a second | |
| vLLM with a JSON schema, 1,500 prompts | 9.1 and 9.2 s | 9.1 and 9.2 s, by `LLM.chat` |
| vLLM with a JSON schema, 200 prompts (medians of five) | 1.43 s | 1.46 s |

A killed engine process of vLLM was replaced and every prompt answered. A prompt over the context got `too_long`, also
in `vllm run-batch`, whose other 400 replies were imported.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

import pandas as pd

import evalkit as ek

N_PROMPTS = (200, 1500)
WORDS = [
    "the",
    "answer",
    "is",
    "right",
    "and",
    "says",
    "why",
    "it",
    "is",
    "so",
    "in",
    "a",
    "few",
    "words",
    "which",
    "are",
    "short",
]


def items_of(n: int, words: int = 400) -> list[dict[str, str]]:
    draw = random.Random(1)
    text = lambda: " ".join(draw.choices(WORDS, k=words // 2 + draw.randrange(words)))  # noqa: E731
    return [{"item_id": str(at), "question": f"{at} + 2?", "answer": text(), "reference": "4"} for at in range(n)]


CACHE = tempfile.mkdtemp()


def judged(judge: ek.Judge, n: int) -> float:
    """Seconds that `judge` takes to ask for so many items again."""
    items = items_of(n)
    start = time.perf_counter()
    table = ek.judge(items, "correctness", judge, samples=1, cache=CACHE, progress=False, refresh=True)
    seconds = time.perf_counter() - start
    print(
        f"    {int(table['score'].notna().sum())} of {n} scored; {table['error'].value_counts().to_dict()}", flush=True
    )
    return seconds


def stand_in() -> int:
    """1 if the engine computed fewer than it could for more than 2 % of its places."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    import pytest
    import vllm_stand_in

    most, step_s = 64, 0.005
    patch = pytest.MonkeyPatch()
    engine = vllm_stand_in.install(patch)
    patch.setenv("EVALKIT_VLLM", json.dumps({"max_num_seqs": most, "max_model_len": 100_000}))
    patch.setattr(engine, "reply", staticmethod(lambda *_: '{"explanation": "a", "score": 1}'))
    steps_of = lambda prompt: 20 + zlib.crc32(prompt.encode()) % 46  # noqa: E731
    judge = ek.Judge("vllm", "m")
    rows = []
    for n in N_PROMPTS:
        engine.log, engine.n_steps, engine.step_s = [], steps_of, step_s
        seconds = judged(judge, n)
        total, left, idle = sum(computed for computed, _ in engine.log), n, 0
        for computed, ended in engine.log:
            idle += min(most, left) - computed
            left -= ended
        floor = total / most * step_s
        rows.append((n, len(engine.log), seconds, floor, floor / seconds, idle / (most * len(engine.log))))
    ek.engine.release_models()
    patch.undo()
    print(
        pd.DataFrame(rows, columns=["prompts", "steps", "s", "floor s", "of the floor", "idle share"])
        .round(3)
        .to_string(index=False)
    )
    return int(max(row[-1] for row in rows) > 0.02)


def random_model(folder: Path) -> str:
    """A llama of 1.2 billion random parameters that ends its replies after about 65 tokens at most."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    rubric = ek.load_rubric("correctness")
    texts = [one.content for item in items_of(200) for one in ek.build_prompt(rubric, item).messages]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=4000, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(texts, trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.chat_template = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    fast.save_pretrained(folder)
    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
        num_key_value_heads=32, max_position_embeddings=4096, bos_token_id=0, eos_token_id=1, dtype="bfloat16",
    )  # fmt: skip
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    with torch.no_grad():  # a direction that all tokens share raises the quotation mark and the end mark
        model.model.embed_tokens.weight[:, 0] = 1.0
        ends = [fast.convert_tokens_to_ids('"'), 1]
        device = "cuda" if torch.cuda.is_available() else "cpu"
        model.to(device)
        state = model.model(torch.randint(5, len(fast), (4, 64), device=device)).last_hidden_state.float().mean((0, 1))
        known = model.lm_head.weight[: len(fast)].float() @ state
        raised = float(known.exp().sum().log()) - math.log(30)  # about one token in thirty
        for end in ends:
            model.lm_head.weight[end] += ((raised - float(known[end])) * state / state.dot(state)).to(torch.bfloat16)
    model.save_pretrained(folder)
    return str(folder)


def bare_vllm(model: Any, n: int, judge: ek.Judge) -> float:
    """Seconds of `LLM.chat` for the prompts that `judge` sends, with its sampling parameters."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    rubric = ek.load_rubric("correctness")
    prompts = [ek.build_prompt(rubric, item) for item in items_of(n)]
    chats = [[{"role": one.role, "content": one.content} for one in prompt.messages] for prompt in prompts]
    schema = StructuredOutputsParams(json=dict(prompts[0].schema or {}))
    params = SamplingParams(temperature=1.0, max_tokens=judge.max_tokens, structured_outputs=schema)
    start = time.perf_counter()
    outputs = model.chat(chats, params, use_tqdm=False)
    seconds = time.perf_counter() - start
    tokens = [len(output.outputs[0].token_ids) for output in outputs]
    read = sum(len(output.prompt_token_ids) for output in outputs) / n
    print(f"    bare: {read:.0f} prompt tokens, {min(tokens)}-{max(tokens)} tokens a reply", flush=True)
    return seconds


def on_vllm(folder: str) -> None:
    from evalkit.engine.providers import in_process_models

    judge = ek.Judge("vllm", folder, max_tokens=65)
    judged(judge, 64)  # loads
    (thread,) = in_process_models._threads.values()
    engine = thread._model._llm
    rows = []
    for n in N_PROMPTS:
        for turn in range(4 if n < 1000 else 2):
            bare = bare_vllm(engine, n, judge)
            engine.reset_prefix_cache()
            ours = judged(judge, n)
            engine.reset_prefix_cache()
            rows.append((n, turn, bare, ours, bare / ours))
    print(
        pd.DataFrame(rows, columns=["prompts", "turn", "bare s", "judge s", "of bare"]).round(3).to_string(index=False)
    )
    if "kill" in sys.argv:
        killed(judge)
    print("scores by log-probabilities:", flush=True)
    read = ek.judge(
        items_of(24), "correctness", judge.replace(score="expected"), cache=tempfile.mkdtemp(), progress=False
    )
    print(read[["score", "score_mass", "error"]].describe(include="all").to_string())
    print(judged(judge.replace(temperature=0), 24))


def killed(judge: ek.Judge) -> None:
    """The engine's process is killed in the middle of a run: nothing is lost but what was under way."""
    import signal
    import threading

    import psutil

    def kill() -> None:
        time.sleep(1.5)
        for child in psutil.Process().children(recursive=True):
            if "EngineCore" in " ".join(child.cmdline()) + child.name():
                print("    killed", child.pid, child.name(), flush=True)
                os.kill(child.pid, signal.SIGKILL)

    threading.Thread(target=kill).start()
    print(f"    {judged(judge, 1500):.1f} s with a kill after 1.5 s", flush=True)


def bare_transformers(model: Any, tokenizer: Any, n: int) -> float:
    """Seconds of one call of `generate` for the prompts that `judge` sends."""
    rubric = ek.load_rubric("correctness")
    chats = [
        tokenizer.apply_chat_template(
            [{"role": one.role, "content": one.content} for one in ek.build_prompt(rubric, item).messages],
            add_generation_prompt=True, tokenize=False,
        )
        for item in items_of(n)
    ]  # fmt: skip
    start = time.perf_counter()
    batch = tokenizer(chats, return_tensors="pt", padding=True, add_special_tokens=False).to(model.device)
    output = model.generate(**batch, max_new_tokens=64, do_sample=False, pad_token_id=tokenizer.pad_token_id)
    output.tolist()
    return time.perf_counter() - start


def on_transformers(folder: str) -> None:
    import torch

    from evalkit.engine.providers import in_process_models
    from evalkit.engine.providers.transformers import TransformersModel

    sizes: list[int] = []
    generate = TransformersModel._generate
    TransformersModel._generate = lambda self, waiting: sizes.append(len(waiting)) or generate(self, waiting)  # type: ignore[method-assign]
    judge = ek.Judge("transformers", folder, max_tokens=64, temperature=0, params={"dtype": "bfloat16"})
    judged(judge, 8)  # loads
    (thread,) = in_process_models._threads.values()
    model: Any = thread._model
    for n in (8, 64, 256):
        os.environ["EVALKIT_BATCH_SIZE"] = str(n)
        bare = bare_transformers(model._model, model._tokenizer, n)
        torch.cuda.reset_peak_memory_stats()
        sizes.clear()
        seconds = judged(judge, n)
        peak = torch.cuda.max_memory_allocated() / 1e9
        print(f"{n} prompts: {n / seconds:.1f}/s, bare {n / bare:.1f}/s, batches {sizes}, peak {peak:.1f} GB")
    sizes.clear()
    seconds = judged(judge.replace(temperature=1.0, score="expected"), 128)
    print(f"with log-probabilities: {128 / seconds:.1f}/s, batches {sizes}")


def main() -> int:
    if len(sys.argv) == 1:
        return stand_in()
    which = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        model = random_model(Path(folder))
        {"vllm": on_vllm, "transformers": on_transformers}[which](model)
        print(ek.engine.release_models(), "released")
    return 0


if __name__ == "__main__":
    sys.exit(main())
