"""Models that run in this process's own vLLM engine.

Written against the source of vLLM 0.33 and tested with a stub of the same signatures, because vLLM needs a GPU.
``EVALKIT_VLLM`` contains options of the engine that depend on the machine, as JSON:
``{"gpu_memory_utilization": 0.8, "max_model_len": 8192}``.
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Message, without_system
from evalkit.engine.providers.error_answers import ErrorText, kind_of
from evalkit.engine.providers.in_process_models import (
    ENDING,
    MOST_TOKENS,
    Call,
    Ended,
    LocalClient,
    Written,
    check_local,
    failed_with,
    not_begun,
    seed_of,
    stops_of,
)
from evalkit.engine.providers.judge_checks import check_packages
from evalkit.engine.providers.special_tokens import TokenTexts, hide_special_tokens, prompt_tokens
from evalkit.engine.request import ProviderError, Request
from evalkit.errors import ConfigError, listed

_SAMPLING = ("top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
_LOADING = ("dtype", "quantization", "revision")
_PARAMS = (*_SAMPLING, "logprobs", "top_logprobs", "stop", "seed", *_LOADING, "chat_template_kwargs")
_MACHINE = (
    "gpu_memory_utilization", "max_model_len", "max_num_seqs", "tensor_parallel_size", "pipeline_parallel_size",
    "cpu_offload_gb", "enforce_eager",
)  # fmt: skip
_VARIABLE = "EVALKIT_VLLM"
_HANGS_AFTER_S = 10.0  # a step that began in time has ended by then
_MAX_NUM_SEQS = 1024  # the largest number that the engine sets by itself
_LOOK_S = 0.25


def check(judge: Judge) -> None:
    """Check library, parameters and options of the engine; imports nothing.

    Raises
    ------
    MissingExtraError
        Without vllm.
    ConfigError
        For an unknown parameter or option, or a base_url: to use a vLLM server, choose ``openai``.
    """
    check_local(judge, _PARAMS)
    _machine()
    check_packages("vllm")


def connect(judge: Judge) -> LocalClient:
    """The client of a judge whose model vLLM computes here."""
    check(judge)
    return LocalClient(judge, load_model, at_once=_queued(_machine().get("max_num_seqs", _MAX_NUM_SEQS)))


def _queued(n_computed: int) -> int:
    """How many replies the engine has at a time: some in its queue, so that the next one starts when one has ended."""
    return n_computed + n_computed // 4 + 1


def _machine() -> dict[str, Any]:
    """Options of the engine from the variable."""
    text = os.environ.get(_VARIABLE, "").strip()
    try:
        options = json.loads(text or "{}")
    except json.JSONDecodeError:
        options = None
    if not isinstance(options, dict):
        raise ConfigError(f'{_VARIABLE} is not a JSON object; expected, for example, {{"gpu_memory_utilization": 0.8}}')
    unknown = [name for name in options if name not in _MACHINE]
    if unknown:
        raise ConfigError(
            f"{_VARIABLE} contains {listed(unknown)}; allowed: {', '.join(_MACHINE)}; put options that change the "
            "replies into params of the judge"
        )
    return options


def load_model(judge: Judge) -> VllmModel:
    """Start an engine with weights from a folder or the hub; code that comes with a model is never run."""
    # this process has threads, whose locks a forked engine would inherit
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    import vllm

    settings = {name: judge.params[name] for name in _LOADING if name in judge.params}
    if "revision" in settings:
        settings["tokenizer_revision"] = settings["revision"]
    return VllmModel(judge.model, vllm.LLM(model=judge.model, trust_remote_code=False, **settings, **_machine()))


@dataclass(slots=True)
class _Computed:
    """A call in the engine: the names of its samples there, what has ended of them, and when the first one began."""

    call: Call
    names: list[str]
    done: dict[str, Any] = field(default_factory=dict)
    began: float | None = None


class VllmModel:
    """A running engine with its model. A turn is a step of the engine, for all replies that are under way."""

    binds_schema = True
    gathers_s = 0.0
    hangs_after_s: float | None = (
        _HANGS_AFTER_S  # the engine is another process: if that is killed, the library waits for ever
    )

    def __init__(self, name: str, llm: Any) -> None:
        revision = getattr(getattr(llm.model_config, "hf_config", None), "_commit_hash", None)
        self.name = f"{name}@{revision}" if revision else name
        self.is_down = False
        self._llm = llm
        self._most = _queued(llm.llm_engine.vllm_config.scheduler_config.max_num_seqs)
        self._defaults: dict[str, Any] = llm.model_config.get_diff_sampling_param()
        self._texts = TokenTexts(llm.get_tokenizer())
        self._of: dict[str, _Computed] = {}  # by the names that outputs have
        self._looked = 0.0

    @property
    def room(self) -> int:
        """For how many further replies the engine has room."""
        return max(0, self._most - len(self._of))

    def turn(self, new: Sequence[Call]) -> list[Ended]:
        """Queue the new calls, compute one step, and return what has ended; what is refused or late fails alone."""
        from vllm.exceptions import VLLMClientError
        from vllm.v1.engine.exceptions import EngineDeadError

        ended: list[Ended] = []
        try:
            for call in new:
                try:
                    self._add(call)
                except (VLLMClientError, ValueError) as error:
                    message = " ".join(str(error).split())[:240]
                    ended.append((call, ProviderError(kind_of(400, ErrorText(message)), message)))
                except EngineDeadError:
                    raise
                except Exception as error:  # noqa: BLE001  # of a template, say: it is this prompt's alone
                    ended.append((call, failed_with(error)))
            engine = self._llm.llm_engine
            for output in engine.step() if engine.has_unfinished_requests() else ():
                if output.finished and (of := self._of.pop(output.request_id, None)) is not None:
                    of.done[output.request_id] = output
                    if len(of.done) == len(of.names):
                        ended.append((of.call, self._answer(of)))
            return ended + self._late()
        except EngineDeadError as error:  # as after Ctrl-C, which reaches the engine's process too
            self.is_down = True
            raise ProviderError("server_error", "the vLLM engine has ended; it will be started again") from error
        except BaseException:  # what is left would go on being computed
            self._drop({id(of): of for of in self._of.values()}.values())
            raise

    def _late(self) -> list[Ended]:
        """The calls whose time is over, which is counted from the first token: until then they wait in the queue."""
        now = time.monotonic()
        if now < self._looked + _LOOK_S and not ENDING.is_set():
            return []
        self._looked = now
        states = self._llm.llm_engine.output_processor.request_states
        late: dict[int, tuple[_Computed, ProviderError]] = {}
        for of in self._of.values():
            if of.began is None and not all(states[name].is_prefilling for name in of.names if name in states):
                of.began = now
            timeout_s = of.call.request.judge.timeout_s
            if ENDING.is_set() or (of.began is not None and now > of.began + timeout_s):
                why = ProviderError("timeout", f"the model had not finished after {timeout_s:g} s")
                late[id(of)] = of, why
            elif of.began is None and of.call.is_stopped:
                late[id(of)] = of, not_begun()
        self._drop(of for of, _ in late.values())
        return [(of.call, why) for of, why in late.values()]

    def _drop(self, computed: Iterable[_Computed]) -> None:
        """Take calls out of the engine."""
        names = [name for of in computed for name in of.names if self._of.pop(_outside(name), None) is not None]
        if names:
            self._llm.llm_engine.abort_request(names, internal=True)

    def has_died(self) -> bool:
        """Whether the library's own watch says that the engine's process has ended."""
        core = getattr(getattr(self, "_llm", None), "llm_engine", None)
        resources = getattr(getattr(core, "engine_core", None), "resources", None)
        return bool(getattr(resources, "engine_dead", False))

    def close(self) -> None:
        """End the engine's process, which frees its memory."""
        self._llm.llm_engine.engine_core.shutdown()
        del self._llm
        gc.collect()

    def _add(self, call: Call) -> None:
        """Queue the samples of a call, each as a request of its own: that is what the engine's `n` is too."""
        from vllm.exceptions import ChatTemplateResolutionError

        request = call.request
        n = 1 if request.judge.temperature == 0 else call.n  # what draws nothing is computed once
        messages, params = request.prompt.messages, [self._params(request, sample) for sample in request.samples[:n]]
        tokenizer = self._llm.get_tokenizer()
        # the engine would read them as such; tokenizers of other libraries, which have no template, do not
        if hasattr(tokenizer, "chat_template") and hide_special_tokens(tokenizer, messages)[1]:
            options = request.judge.params.get("chat_template_kwargs", {})
            prompt: Any = {"prompt_token_ids": prompt_tokens(tokenizer, messages, options)}
            names = self._llm.enqueue([prompt] * n, params, use_tqdm=False)
        else:
            try:
                names = self._chat(request, messages, params)
            except ChatTemplateResolutionError:  # a model without a chat template reads the bare text
                text = "\n\n".join(message.content for message in messages)
                names = self._llm.enqueue([text] * n, params, use_tqdm=False)
            except Exception as error:
                # some templates raise at the role "system", by an error of the template library
                templates = type(error.__cause__).__name__ == "TemplateError"
                if messages[0].role != "system" or len(messages) < 2 or not templates:
                    raise
                names = self._chat(request, without_system(messages), params)
        computed = _Computed(call, list(names))
        self._of |= {_outside(name): computed for name in names}

    def _chat(self, request: Request, messages: Sequence[Message], params: list[Any]) -> list[str]:
        chat = [{"role": message.role, "content": message.content} for message in messages]
        options = request.judge.params.get("chat_template_kwargs")
        names = self._llm.enqueue_chat([chat] * len(params), params, use_tqdm=False, chat_template_kwargs=options)
        return list(names)

    def _params(self, request: Request, sample: int) -> Any:
        """Sampling parameters: the model's defaults, overridden by the judge's."""
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        judge, prompt = request.judge, request.prompt
        settings = self._defaults | {name: judge.params[name] for name in _SAMPLING if name in judge.params}
        if judge.temperature is not None:
            settings["temperature"] = judge.temperature
        if "seed" in judge.params:
            settings["seed"] = seed_of(judge.params["seed"], sample)
        if judge.params.get("logprobs"):
            settings["logprobs"] = judge.params.get("top_logprobs", 0)
        if prompt.form == "json" and prompt.schema is not None:
            settings["structured_outputs"] = StructuredOutputsParams(json=dict(prompt.schema))
        return SamplingParams(**settings | {"max_tokens": judge.max_tokens or MOST_TOKENS, "stop": stops_of(judge)})

    def _answer(self, of: _Computed) -> list[Written] | ProviderError:
        written = []
        for output in (of.done[_outside(name)] for name in of.names):
            choice = output.outputs[0]
            tokens = choice.token_ids
            if choice.finish_reason not in ("stop", "length", "repetition"):
                return ProviderError(
                    "server_error", f"the vLLM engine ended the reply abnormally ({choice.finish_reason!r})"
                )
            reason = "length" if choice.finish_reason == "repetition" else choice.finish_reason
            rows = None if choice.logprobs is None else self._texts.rows(tokens, _shares(choice.logprobs), choice.text)
            written.append(Written(choice.text, reason, len(output.prompt_token_ids), len(tokens), rows))
        return written * (of.call.n // len(written))


def _shares(logprobs: Sequence[Mapping[int, Any]]) -> list[dict[int, float]]:
    return [{token: float(share.logprob) for token, share in row.items()} for row in logprobs]


def _outside(name: str) -> str:
    """The name of a request in its output: the engine's own name ends in random characters."""
    return name.partition("-")[0]
