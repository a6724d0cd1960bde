"""Models of the transformers library in this process, on a CPU or an accelerator."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Request
from evalkit.engine.providers.in_process_models import (
    ENDING,
    MOST_TOKENS,
    LocalClient,
    Written,
    check_local,
    seed_of,
    stops_of,
)
from evalkit.engine.providers.judge_checks import check_extra
from evalkit.engine.providers.provider_interface import ProviderError
from evalkit.engine.providers.special_tokens import prompt_tokens
from evalkit.errors import ConfigError

_SAMPLING = ("top_p", "top_k", "min_p", "repetition_penalty", "no_repeat_ngram_size")
_PARAMS = (*_SAMPLING, "stop", "seed", "dtype", "revision", "chat_template_kwargs")
_DTYPES = ("auto", "float32", "float16", "bfloat16")


def check(judge: Judge) -> None:
    """Check libraries and parameters; imports nothing.

    Raises
    ------
    MissingExtraError
        Without torch or transformers.
    ConfigError
        For a parameter that is not taken.
    """
    check_local(judge, _PARAMS)
    if judge.params.get("dtype", "auto") not in _DTYPES:
        raise ConfigError(
            f"dtype {judge.params['dtype']!r} of judge '{judge.name}' is unknown; allowed: {', '.join(_DTYPES)}"
        )
    check_extra("transformers", "torch", "transformers")


def connect(judge: Judge) -> LocalClient:
    """The client of a judge whose model runs in this process."""
    check(judge)
    return LocalClient(judge, load_model)


def load_model(judge: Judge) -> TransformersModel:
    """Load tokenizer and weights, from a folder or the hub; code that comes with a model is never run."""
    import torch
    import transformers

    where = {"revision": judge.params.get("revision"), "trust_remote_code": False}
    tokenizer = transformers.AutoTokenizer.from_pretrained(judge.model, padding_side="left", **where)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(
        judge.model, dtype=judge.params.get("dtype", "auto"), **where
    )
    device = os.environ.get("EVALKIT_DEVICE", "").strip() or ("cuda" if torch.cuda.is_available() else "cpu")
    return TransformersModel(judge.model, model.to(device).eval(), tokenizer)


class TransformersModel:
    """A loaded model with its tokenizer."""

    binds_schema = False
    seeds_samples = False
    is_down = False
    hangs_after_s: float | None = None  # on a slow processor, one long prompt may take longer than any limit

    def __init__(self, name: str, model: Any, tokenizer: Any) -> None:
        revision = getattr(model.config, "_commit_hash", None)
        self.name = f"{name}@{revision}" if revision else name
        self._model, self._tokenizer = model, tokenizer
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        ends = model.generation_config.eos_token_id
        self._ends = {*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id} - {None}

    def answer(self, requests: Sequence[Request], n: int) -> list[list[Written] | ProviderError]:
        """Replies to the prompts, as one padded batch; a prompt that is too long fails alone."""
        judge = requests[0].judge
        prompts = [self._tokens(request) for request in requests]
        most = getattr(self._model.config, "max_position_embeddings", None)
        found: list[list[Written] | ProviderError] = [
            ProviderError("client_error", f"the prompt has {len(tokens)} tokens; the model takes fewer than {most}")
            for tokens in prompts
        ]
        fit = [place for place, tokens in enumerate(prompts) if most is None or len(tokens) < most]
        if fit:
            answers = self._generate(judge, [prompts[place] for place in fit], n, most, requests[fit[0]].samples)
            for place, answer in zip(fit, answers, strict=True):
                found[place] = answer
        return found

    def has_died(self) -> bool:
        """Never: it computes in this process."""
        return False

    def close(self) -> None:
        """Drop the weights."""
        import torch

        del self._model, self._tokenizer
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _tokens(self, request: Request) -> list[int]:
        options = dict(request.judge.params.get("chat_template_kwargs", {}))
        return prompt_tokens(self._tokenizer, request.prompt.messages, options)

    def _generate(
        self, judge: Judge, prompts: list[list[int]], n: int, most: int | None, samples: Sequence[int]
    ) -> list[list[Written] | ProviderError]:
        import torch

        batch = self._tokenizer.pad({"input_ids": prompts}, return_tensors="pt").to(self._model.device)
        longest = batch["input_ids"].shape[1]
        room = [] if most is None else [most - longest]
        new = min([judge.max_tokens or MOST_TOKENS, *room])
        drawn = judge.temperature != 0
        settings = {name: judge.params[name] for name in _SAMPLING if name in judge.params}
        if drawn and judge.temperature is not None:
            settings["temperature"] = judge.temperature
        if not drawn:  # what draws nothing takes no setting of drawing; a model's own defaults would bring a warning
            settings |= {"temperature": None, "top_p": None, "top_k": None, "min_p": None}
        settings["stopping_criteria"] = [_Stops(self._text, stops_of(judge), longest)]
        each = n if drawn else 1
        with torch.inference_mode(), _randomness(judge, samples, self._model.device):
            output = self._model.generate(
                **batch, max_new_tokens=new, do_sample=drawn, num_return_sequences=each, num_beams=1,
                max_time=judge.timeout_s, pad_token_id=self._tokenizer.pad_token_id, **settings,
            )  # fmt: skip
        rows = output[:, longest:].tolist()
        return [
            self._written(judge, rows[place * each : (place + 1) * each] * (n // each), len(tokens), new)
            for place, tokens in enumerate(prompts)
        ]

    def _written(
        self, judge: Judge, rows: Sequence[list[int]], n_prompt: int, limit: int
    ) -> list[Written] | ProviderError:
        stops, written = stops_of(judge), []
        for row in rows:
            end = next((place for place, token in enumerate(row) if token in self._ends), None)
            text = self._text(row[:end])
            n_tokens = len(row) if end is None else end + 1
            stop = min((at for stop in stops if (at := text.find(stop)) >= 0), default=None)
            if stop is not None:  # what follows in the row is padding
                n_tokens = next(n for n in range(1, len(row) + 1) if any(s in self._text(row[:n]) for s in stops))
            elif end is None and len(row) < limit:
                return ProviderError("timeout", f"the model had not finished after {judge.timeout_s:g} s")
            ended = end is not None or stop is not None
            written.append(Written(text[:stop], "stop" if ended else "length", n_prompt, n_tokens))
        return written

    def _text(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True))


class _Stops:
    """Stopping criterion: rows whose reply contains a stop string, or all rows when the process ends."""

    def __init__(self, text_of: Callable[[Sequence[int]], str], stops: Sequence[str], start: int) -> None:
        self._text_of, self._stops, self._start = text_of, stops, start
        self._reach = max((len(stop.encode()) for stop in stops), default=0) + 8  # a token may be a single byte

    def __call__(self, tokens: Any, scores: Any, **_: Any) -> Any:
        """One truth value for each row."""
        import torch

        del scores
        if ENDING.is_set() or not self._stops:
            return torch.full((tokens.shape[0],), ENDING.is_set(), device=tokens.device)
        tails = tokens[:, max(self._start, tokens.shape[1] - self._reach) :].tolist()
        ended = [any(stop in self._text_of(tail) for stop in self._stops) for tail in tails]
        return torch.tensor(ended, device=tokens.device)


@contextlib.contextmanager
def _randomness(judge: Judge, samples: Sequence[int], device: Any) -> Iterator[None]:
    """Separate random numbers for this batch; the random state of the caller is unchanged."""
    import torch

    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        if "seed" in judge.params:  # of each sample its own, or all of them would be the same reply
            torch.manual_seed(seed_of(judge.params["seed"], *samples))
        else:
            torch.seed()
        yield
