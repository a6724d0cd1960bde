"""A stand-in for the vllm package, which takes an accelerator: its names and signatures, and one byte as a token.

`install` puts it in the place of the package. What it promises of the real one is `FACTS`, taken from the source of
vLLM 0.33; `test_providers_vllm` compares the stand-in with them always, and the real package where it is installed.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import sys
import time
import types
from itertools import count
from typing import Any

import pytest

FACTS: dict[str, tuple[str, ...]] = {
    "vllm:LLM": (
        "model", "trust_remote_code", "dtype", "quantization", "revision", "tokenizer_revision",
        "gpu_memory_utilization", "tensor_parallel_size", "cpu_offload_gb", "enforce_eager", "kwargs",
    ),
    "vllm:EngineArgs": ("max_model_len", "max_num_seqs", "pipeline_parallel_size"),
    "vllm:LLM.enqueue": ("prompts", "sampling_params", "use_tqdm"),
    "vllm:LLM.enqueue_chat": ("messages", "sampling_params", "use_tqdm", "chat_template_kwargs"),
    "vllm:LLM.get_tokenizer": (),
    "vllm:LLMEngine.step": (),
    "vllm:LLMEngine.has_unfinished_requests": (),
    "vllm:LLMEngine.abort_request": ("request_ids", "internal"),
    "vllm:SamplingParams": (
        "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
        "seed", "stop", "max_tokens", "structured_outputs", "logprobs",
    ),
    "vllm.sampling_params:StructuredOutputsParams": ("json",),
    "vllm.v1.engine.output_processor:OutputProcessor": ("log_stats",),
    "vllm.config:SchedulerConfig": ("max_num_seqs",),
    "vllm:RequestOutput": ("request_id", "prompt_token_ids", "outputs", "finished"),
    "vllm:CompletionOutput": ("text", "token_ids", "finish_reason", "logprobs"),
    "vllm.config:ModelConfig.get_diff_sampling_param": (),
    "vllm.exceptions:VLLMClientError": (),
    "vllm.exceptions:ChatTemplateResolutionError": (),
    "vllm.v1.engine.exceptions:EngineDeadError": (),
}  # fmt: skip
"""Where a name is -> parameters that it takes."""


def parameters_of(place: str) -> set[str]:
    """The parameters that the thing at this place takes; raises where it is not there."""
    module, _, path = place.partition(":")
    found: Any = __import__(module, fromlist=["_"])
    for name in path.split("."):
        found = getattr(found, name)
    if isinstance(found, type) and issubclass(found, Exception):
        return set()
    return set(inspect.signature(found).parameters)


class VLLMClientError(Exception):
    pass


class ChatTemplateResolutionError(VLLMClientError):
    pass


class EngineDeadError(Exception):
    pass


class TemplateError(Exception):
    """Of jinja2."""


@dataclasses.dataclass
class StructuredOutputsParams:
    json: Any = None


@dataclasses.dataclass
class SamplingParams:
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    stop: Any = None
    max_tokens: int | None = 16
    structured_outputs: StructuredOutputsParams | None = None
    logprobs: int | None = None


@dataclasses.dataclass
class CompletionOutput:
    text: str
    token_ids: list[int]
    finish_reason: str | None = None
    logprobs: list[dict[int, Any]] | None = None


@dataclasses.dataclass
class RequestOutput:
    request_id: str
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool


@dataclasses.dataclass
class EngineArgs:
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    pipeline_parallel_size: int = 1


class ModelConfig:
    def __init__(self, defaults: dict[str, Any]) -> None:
        self._defaults = defaults
        self.hf_config = types.SimpleNamespace(_commit_hash="c0ffee")

    def get_diff_sampling_param(self) -> dict[str, Any]:
        return dict(self._defaults)


@dataclasses.dataclass
class SchedulerConfig:
    max_num_seqs: int = 1024


class OutputProcessor:
    def __init__(self, log_stats: bool = False) -> None:
        self.request_states: dict[str, types.SimpleNamespace] = {}


class LLMEngine:
    """Computes up to `max_num_seqs` requests at a time.

    By default it ends one request a step, the last first: outputs do not come in order. With `LLM.n_steps`, each
    request takes so many steps of `LLM.step_s` seconds, as in the real engine, and `LLM.log` has for each step how many
    were computed, and how many of them ended.
    """

    def __init__(self, max_num_seqs: int) -> None:
        self.waiting: dict[str, tuple[str, SamplingParams]] = {}
        self.left: dict[str, int] = {}
        self.aborted: list[str] = []
        self.n_largest = 0
        self.engine_core = types.SimpleNamespace(shutdown=lambda: LLM.closed.append(self))
        self.vllm_config = types.SimpleNamespace(scheduler_config=SchedulerConfig(max_num_seqs))
        self.output_processor = OutputProcessor()

    def add(self, name: str, prompt: str, params: SamplingParams) -> None:
        self.waiting[name] = prompt, params
        self.output_processor.request_states[name] = types.SimpleNamespace(is_prefilling=True)

    def has_unfinished_requests(self) -> bool:
        return bool(self.waiting)

    def abort_request(self, request_ids: list[str], internal: bool = False) -> None:
        assert internal, "the names are the engine's own"
        for name in request_ids:
            self._end(name)
        self.aborted += request_ids

    def step(self) -> list[RequestOutput]:
        self.n_largest = max(self.n_largest, len(self.waiting))
        if LLM.dead:
            LLM.dead -= 1
            raise EngineDeadError("EngineCore encountered an issue")
        if LLM.broken:
            raise RuntimeError("no such token")
        computed = [*self.waiting][: self.vllm_config.scheduler_config.max_num_seqs]
        for name in computed:
            if "QUEUED" not in self.waiting[name][0]:
                self.output_processor.request_states[name].is_prefilling = False
        ready = [name for name in computed if not any(word in self.waiting[name][0] for word in ("HANG", "QUEUED"))]
        if LLM.n_steps is None:
            return [self._output(name) for name in ready[-1:]]
        time.sleep(LLM.step_s)
        for name in ready:
            self.left[name] = self.left.get(name, LLM.n_steps(self.waiting[name][0])) - 1
        ended = [name for name in ready if self.left[name] <= 0]
        LLM.log.append((len(computed), len(ended)))
        return [self._output(name) for name in ended]

    def _end(self, name: str) -> tuple[str, SamplingParams]:
        del self.output_processor.request_states[name]
        self.left.pop(name, None)
        return self.waiting.pop(name)

    def _output(self, name: str) -> RequestOutput:
        prompt, params = self._end(name)
        text = LLM.reply(prompt, params)
        reason = "length" if len(text) > (params.max_tokens or 0) else "stop"
        if "ABORT" in prompt:
            reason = "abort"
        text = text[: params.max_tokens]
        tokens, rows = list(text.encode()), None
        if params.logprobs is not None:
            rows = [LLM.shares(token, params.logprobs) for token in tokens]
        output = CompletionOutput(text, tokens, reason, rows)
        return RequestOutput(name.split("-")[0], list(prompt.encode()), [output], True)


@dataclasses.dataclass
class Logprob:
    logprob: float


class LLM:
    """Writes down how it was made and what it was asked."""

    made: list[dict[str, Any]]
    seen: list[tuple[str, SamplingParams]]
    closed: list[LLMEngine]
    defaults: dict[str, Any]
    broken: bool
    dead: int
    template: str
    tokenizer: Any
    n_steps: Any
    step_s: float
    log: list[tuple[int, int]]

    @classmethod
    def reset(cls) -> None:
        cls.made, cls.seen, cls.closed, cls.defaults, cls.broken, cls.dead = [], [], [], {}, False, 0
        cls.template, cls.n_steps, cls.step_s, cls.log = "full", None, 0.0, []
        cls.tokenizer = types.SimpleNamespace(
            chat_template="", all_special_tokens=(), added_tokens_decoder={},
            decode=lambda tokens, skip_special_tokens: bytes(tokens).decode("utf-8", "replace"),
        )  # fmt: skip

    @staticmethod
    def shares(token: int, n_top: int) -> dict[int, Logprob]:
        """The token that was written has .6, its neighbour .3."""
        given = {token: Logprob(math.log(0.6)), token + 1 if token < 127 else 65: Logprob(math.log(0.3))}
        return dict(list(given.items())[: n_top + 1])

    @staticmethod
    def reply(prompt: str, params: SamplingParams) -> str:
        return f"{params.temperature:g} {params.seed} {prompt[-8:]}"

    def __init__(
        self, model: str, *, trust_remote_code: bool = False, dtype: str = "auto", quantization: str | None = None,
        revision: str | None = None, tokenizer_revision: str | None = None, gpu_memory_utilization: float = 0.92,
        tensor_parallel_size: int = 1, cpu_offload_gb: float = 0, enforce_eager: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        LLM.made.append({name: value for name, value in locals().items() if name not in ("self", "kwargs")} | kwargs)
        if model == "no-model":
            time.sleep(0.2)  # meanwhile others get in line
            raise ValueError("no such model")
        self.model_config = ModelConfig(LLM.defaults)
        options = EngineArgs(**kwargs)
        self.llm_engine = LLMEngine(options.max_num_seqs or 1024)
        self._longest = options.max_model_len or 4096
        self._numbers = count()

    def get_tokenizer(self) -> Any:
        return LLM.tokenizer

    def enqueue(
        self, prompts: Any, sampling_params: Any = None, lora_request: Any = None, priority: Any = None,
        use_tqdm: bool = True,
    ) -> list[str]:  # fmt: skip
        assert not use_tqdm
        names = []
        for prompt, params in zip(prompts, sampling_params, strict=True):
            if len(prompt) >= self._longest:
                raise VLLMClientError(f"This model's maximum context length is {self._longest} tokens.")
            names.append(f"{next(self._numbers)}-a1b2c3d4")
            self.llm_engine.add(names[-1], prompt, params)
            LLM.seen.append((prompt, params))
        return names

    def enqueue_chat(
        self, messages: Any, sampling_params: Any = None, use_tqdm: bool = True, *, chat_template_kwargs: Any = None
    ) -> list[str]:
        if LLM.template == "none":
            raise ChatTemplateResolutionError("default chat template is no longer allowed")
        chats = []
        for chat in messages:
            if LLM.template == "no system" and chat[0]["role"] == "system":
                raise VLLMClientError("System role not supported") from TemplateError("System role not supported")
            told = "".join(f"<{one['role']}>{one['content']}" for one in chat)
            chats.append(told + "".join(f"[{name}]" for name in chat_template_kwargs or ()) + "<assistant>")
        return self.enqueue(chats, sampling_params, use_tqdm=use_tqdm)


def install(monkeypatch: pytest.MonkeyPatch) -> type[LLM]:
    """Put the stand-in where `import vllm` finds it; the class that writes down what it was asked."""
    LLM.reset()
    here = sys.modules[__name__]
    parts = {
        "vllm": ("LLM", "EngineArgs", "LLMEngine", "SamplingParams", "RequestOutput", "CompletionOutput"),
        "vllm.sampling_params": ("StructuredOutputsParams",),
        "vllm.config": ("ModelConfig", "SchedulerConfig"),
        "vllm.exceptions": ("VLLMClientError", "ChatTemplateResolutionError"),
        "vllm.v1": (),
        "vllm.v1.engine": (),
        "vllm.v1.engine.output_processor": ("OutputProcessor",),
        "vllm.v1.engine.exceptions": ("EngineDeadError",),
    }
    for name, held in parts.items():
        module = types.ModuleType(name)
        module.__spec__ = types.SimpleNamespace(name=name)  # type: ignore[assignment]  # looked for by find_spec
        for one in held:
            setattr(module, one, getattr(here, one))
        monkeypatch.setitem(sys.modules, name, module)
    return LLM
