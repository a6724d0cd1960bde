"""Models of the transformers library in this process, on a CPU or an accelerator."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evalkit.core.judges import Judge
from evalkit.core.reply_keys import canonical_json
from evalkit.engine.providers.in_process_models import (
    BATCH_SIZE,
    ENDING,
    MOST_TOKENS,
    Call,
    Ended,
    LocalClient,
    Written,
    batch_size,
    check_local,
    failed_with,
    not_begun,
    seed_of,
    stops_of,
)
from evalkit.engine.providers.judge_checks import check_packages
from evalkit.engine.providers.special_tokens import TokenTexts, prompt_tokens
from evalkit.engine.request import ProviderError
from evalkit.errors import ConfigError

_SAMPLING = ("top_p", "top_k", "min_p", "repetition_penalty", "no_repeat_ngram_size")
_PARAMS = (*_SAMPLING, "logprobs", "top_logprobs", "stop", "seed", "dtype", "revision", "chat_template_kwargs")
_AT_ONCE = 1024
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
    check_packages("transformers")


def connect(judge: Judge) -> LocalClient:
    """The client of a judge whose model runs in this process."""
    check(judge)
    return LocalClient(judge, load_model, at_once=_AT_ONCE)


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


@dataclass(slots=True)
class _Waiting:
    """A call that waits for a batch: with which others it can be in one, its prompt, and how many rows it takes."""

    call: Call
    settings: object
    tokens: list[int]
    n_rows: int


class TransformersModel:
    """A loaded model with its tokenizer. A turn is a batch of prompts of about the same length.

    A batch has at most EVALKIT_BATCH_SIZE replies, or those of one call; one that does not fit into memory is an error.
    """

    binds_schema = False
    gathers_s = 0.02
    is_down = False
    hangs_after_s: float | None = None  # on a slow processor, one long prompt may take longer than any limit

    def __init__(self, name: str, model: Any, tokenizer: Any) -> None:
        revision = getattr(model.config, "_commit_hash", None)
        self.name = f"{name}@{revision}" if revision else name
        self._model, self._tokenizer = model, tokenizer
        self._texts = TokenTexts(tokenizer)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        ends = model.generation_config.eos_token_id
        self._ends = {*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id} - {None}
        self._longest = getattr(model.config, "max_position_embeddings", None)
        self._waiting: list[_Waiting] = []

    @property
    def room(self) -> int:
        """For how many further replies there is room in the queue, from which batches are chosen."""
        return max(0, _AT_ONCE - sum(waiting.n_rows for waiting in self._waiting))

    def turn(self, new: Sequence[Call]) -> list[Ended]:
        """Compute one batch; prompts that are too long fail alone."""
        ended: list[Ended] = []
        for call in new:
            judge = call.request.judge
            try:
                tokens = self._tokens(call)
            except Exception as error:  # noqa: BLE001  # of a template, say: it is this prompt's alone
                ended.append((call, failed_with(error)))
                continue
            if self._longest is not None and len(tokens) >= self._longest:
                ended.append(
                    (
                        call,
                        ProviderError(
                            "too_long",
                            f"the prompt has {len(tokens)} tokens; the model takes fewer than {self._longest}",
                            status=413,  # as of a server: it is refused in any other run, too, and stored
                        ),
                    )
                )
                continue
            alone = call if "seed" in judge.params else None  # a batch has one state of randomness
            settings = judge.temperature, judge.max_tokens, judge.timeout_s, canonical_json(dict(judge.params)), alone
            self._waiting.append(_Waiting(call, (*settings, call.n), tokens, 1 if judge.temperature == 0 else call.n))
        ended += [(waiting.call, not_begun()) for waiting in self._waiting if waiting.call.is_stopped]
        self._waiting = [waiting for waiting in self._waiting if not waiting.call.is_stopped]
        if not self._waiting:
            return ended
        batch = self._next_batch()
        try:
            answers = self._generate(batch)
        except Exception as error:  # noqa: BLE001
            is_too_large = _is_out_of_memory(error)
            answers = [self._without_memory(batch, error) if is_too_large else failed_with(error)] * len(batch)
        self._waiting = [waiting for waiting in self._waiting if waiting not in batch]
        return ended + [(waiting.call, answer) for waiting, answer in zip(batch, answers, strict=True)]

    def _next_batch(self) -> list[_Waiting]:
        """The call that has waited longest, with those of its settings that are nearest to it in length."""
        first = self._waiting[0]
        near = sorted(
            (waiting for waiting in self._waiting if waiting.settings == first.settings),
            key=lambda waiting: (waiting is not first, abs(len(waiting.tokens) - len(first.tokens))),
        )
        return near[: max(1, batch_size() // first.n_rows)]  # calls of equal settings have equally many replies

    def _without_memory(self, batch: list[_Waiting], error: Exception) -> ProviderError:
        """The problem of a batch that did not fit into memory, which is given back; a prompt alone is too long."""
        import torch

        error.__traceback__ = None  # its frames hold the tensors
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        longest, n_rows = max(len(waiting.tokens) for waiting in batch), sum(waiting.n_rows for waiting in batch)
        fact = f"with {n_rows} replies, does not fit into the memory of {self._model.device}"
        if len(batch) == 1:
            return ProviderError("too_long", f"a prompt of {longest} tokens, {fact}; for more, use a server")
        return ProviderError(
            "client_error",
            f"a batch of {len(batch)} prompts, the longest of {longest} tokens, {fact}; lower {BATCH_SIZE} (it is "
            f"{batch_size()}); for more, use a server",
        )

    def has_died(self) -> bool:
        """Never: it computes in this process."""
        return False

    def close(self) -> None:
        """Drop the weights."""
        import torch

        del self._model, self._tokenizer
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _tokens(self, call: Call) -> list[int]:
        request = call.request
        options = dict(request.judge.params.get("chat_template_kwargs", {}))
        return prompt_tokens(self._tokenizer, request.prompt.messages, options)

    def _new_tokens(self, waiting: _Waiting) -> int:
        """The greatest number of tokens that a reply may have."""
        limit = waiting.call.request.judge.max_tokens or MOST_TOKENS
        return limit if self._longest is None else min(limit, self._longest - len(waiting.tokens))

    def _generate(self, waiting: Sequence[_Waiting]) -> list[list[Written] | ProviderError]:
        import torch

        call, prompts = waiting[0].call, [entry.tokens for entry in waiting]
        judge, n, n_rows = call.request.judge, call.n, waiting[0].n_rows
        batch = self._tokenizer.pad({"input_ids": prompts}, return_tensors="pt").to(self._model.device)
        longest = batch["input_ids"].shape[1]
        new = min(self._new_tokens(entry) for entry in waiting)
        is_sampling = judge.temperature != 0
        settings = {name: judge.params[name] for name in _SAMPLING if name in judge.params}
        if is_sampling and judge.temperature is not None:
            settings["temperature"] = judge.temperature
        if not is_sampling:  # then no setting of sampling is taken; a model's own defaults would bring a warning
            settings |= {"temperature": None, "top_p": None, "top_k": None, "min_p": None}
        settings["stopping_criteria"] = [_Stops(self._text, stops_of(judge), longest)]
        shares = _Shares(judge.params.get("top_logprobs", 0)) if judge.params.get("logprobs") else None
        if shares is not None:
            settings["logits_processor"] = [shares]
        with torch.inference_mode(), _randomness(judge, call.request.samples, self._model.device):
            output = self._model.generate(
                **batch, max_new_tokens=new, do_sample=is_sampling, num_return_sequences=n_rows, num_beams=1,
                max_time=judge.timeout_s, pad_token_id=self._tokenizer.pad_token_id, **settings,
            )  # fmt: skip
        rows = output[:, longest:].tolist()
        row_shares = [None] * len(rows) if shares is None else shares.of(output[:, longest:])
        answers = []
        for index, tokens in enumerate(prompts):
            span = slice(index * n_rows, (index + 1) * n_rows)
            answer = self._written(judge, rows[span], row_shares[span], len(tokens), new)
            answers.append(answer if isinstance(answer, ProviderError) else answer * (n // n_rows))
        return answers

    def _written(
        self, judge: Judge, rows: Sequence[list[int]], found: Sequence[Any], n_prompt: int, limit: int
    ) -> list[Written] | ProviderError:
        stops, written = stops_of(judge), []
        for row, shares in zip(rows, found, strict=True):
            end = next((index for index, token in enumerate(row) if token in self._ends), None)
            text = self._text(row[:end])
            n_tokens = len(row) if end is None else end + 1
            stop = min((start for stop in stops if (start := text.find(stop)) >= 0), default=None)
            if stop is not None:  # what follows in the row is padding
                n_tokens = next(n for n in range(1, len(row) + 1) if any(s in self._text(row[:n]) for s in stops))
            elif end is None and len(row) < limit:
                return ProviderError("timeout", f"the model had not finished after {judge.timeout_s:g} s")
            ended = end is not None or stop is not None
            token_rows = (
                None
                if shares is None
                else self._texts.rows(row[:n_tokens], shares[:n_tokens], self._text(row[:n_tokens]))
            )
            written.append(Written(text[:stop], "stop" if ended else "length", n_prompt, n_tokens, token_rows))
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


class _Shares:
    """Processor of logits that keeps the log-probabilities of the likeliest tokens, before temperature and the like.

    Those of all tokens would take gigabytes. That of the token which was drawn is known one step later.
    """

    def __init__(self, n_top: int) -> None:
        self._n_top = n_top
        self._steps: list[tuple[list[list[int]], list[list[float]]]] = []
        self._last: Any = None
        self._drawn: list[list[float]] = []

    def __call__(self, tokens: Any, scores: Any) -> Any:
        """The scores, unchanged."""
        self._note(tokens[:, -1])
        self._last = scores.float().log_softmax(-1)
        top = self._last.topk(self._n_top, dim=-1)
        self._steps.append((top.indices.tolist(), top.values.tolist()))
        return scores

    def _note(self, drawn: Any) -> None:
        if self._last is not None:
            self._drawn.append(self._last.gather(1, drawn[:, None])[:, 0].tolist())

    def of(self, written: Any) -> list[list[dict[int, float]]]:
        """For each row its tokens' candidates: token -> log-probability, first the one that was written."""
        self._note(written[:, -1])
        rows = written.tolist()
        return [
            [
                {row[step]: logprobs[index]} | dict(zip(tokens[index], shares[index], strict=True))
                for step, (logprobs, (tokens, shares)) in enumerate(zip(self._drawn, self._steps, strict=True))
            ]
            for index, row in enumerate(rows)
        ]


def _is_out_of_memory(error: Exception) -> bool:
    """Whether the machine's memory was too small; on a CPU torch raises a RuntimeError with words of its own."""
    import torch

    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


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
