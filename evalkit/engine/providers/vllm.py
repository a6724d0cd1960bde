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
from collections.abc import Sequence
from typing import Any

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Message, Request, without_system
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
from evalkit.engine.providers.special_tokens import hide_special_tokens, prompt_tokens
from evalkit.errors import ConfigError, listed

_SAMPLING = ("top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
_LOADING = ("dtype", "quantization", "revision")
_PARAMS = (*_SAMPLING, "stop", "seed", *_LOADING, "chat_template_kwargs")
_MACHINE = (
    "gpu_memory_utilization", "max_model_len", "max_num_seqs", "tensor_parallel_size", "pipeline_parallel_size",
    "cpu_offload_gb", "enforce_eager",
)  # fmt: skip
_VARIABLE = "EVALKIT_VLLM"
_HANGS_AFTER_S = 10.0  # a step that began in time has ended by then
_BATCH = 256  # the engine decides itself how many it computes at a time


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
    check_extra("vllm", "vllm")


def connect(judge: Judge) -> LocalClient:
    """The client of a judge whose model vLLM computes here."""
    check(judge)
    return LocalClient(judge, load_model, batch_size=_BATCH)


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

    given = {name: judge.params[name] for name in _LOADING if name in judge.params}
    if "revision" in given:
        given["tokenizer_revision"] = given["revision"]
    return VllmModel(judge.model, vllm.LLM(model=judge.model, trust_remote_code=False, **given, **_machine()))


class VllmModel:
    """A running engine with its model."""

    binds_schema = True
    seeds_samples = True
    hangs_after_s: float | None = (
        _HANGS_AFTER_S  # the engine is another process: if that is killed, the library waits for ever
    )

    def __init__(self, name: str, llm: Any) -> None:
        revision = getattr(getattr(llm.model_config, "hf_config", None), "_commit_hash", None)
        self.name = f"{name}@{revision}" if revision else name
        self.is_down = False
        self._llm = llm
        self._defaults: dict[str, Any] = llm.model_config.get_diff_sampling_param()

    def answer(self, requests: Sequence[Request], n: int) -> list[list[Written] | ProviderError]:
        """Replies to the prompts, all queued at once; a prompt that the engine refuses fails alone."""
        from vllm.exceptions import VLLMClientError
        from vllm.v1.engine.exceptions import EngineDeadError

        judge = requests[0].judge
        each = 1 if judge.temperature == 0 else n  # what draws nothing is computed once
        found: list[list[Written] | ProviderError | None] = [None] * len(requests)
        queued: dict[int, list[str]] = {}
        done: dict[str, Any] = {}
        try:
            for place, request in enumerate(requests):
                try:
                    queued[place] = self._queue(request, each)
                except (VLLMClientError, ValueError) as error:
                    found[place] = ProviderError("client_error", " ".join(str(error).split())[:240])
            done = self._compute([name for names in queued.values() for name in names], judge.timeout_s)
        except EngineDeadError as error:  # as after Ctrl-C, which reaches the engine's process too
            self.is_down = True
            raise ProviderError("server_error", "the vLLM engine has ended; it will be started again") from error
        finally:  # also when the engine fails in between: what is left would be computed with the next batch
            left = [name for names in queued.values() for name in names if _outside(name) not in done]
            if left:
                self._llm.llm_engine.abort_request(left, internal=True)
        for place, names in queued.items():
            found[place] = _written([done.get(_outside(name)) for name in names] * (n // each), judge)
        return [answer for answer in found if answer is not None]

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

    def _queue(self, request: Request, n: int) -> list[str]:
        """The engine's names of the request's samples, each a request of its own: that is what the engine's `n` is."""
        from vllm.exceptions import ChatTemplateResolutionError

        messages, params = request.prompt.messages, [self._params(request, sample) for sample in request.samples[:n]]
        tokenizer = self._llm.get_tokenizer()
        # the engine would read them as such; tokenizers of other libraries, which have no template, do not
        if hasattr(tokenizer, "chat_template") and hide_special_tokens(tokenizer, messages)[1]:
            options = request.judge.params.get("chat_template_kwargs", {})
            prompt = {"prompt_token_ids": prompt_tokens(tokenizer, messages, options)}
            return list(self._llm.enqueue([prompt] * len(params), params, use_tqdm=False))
        try:
            return self._chat(request, messages, params)
        except ChatTemplateResolutionError:  # a model without a chat template reads the bare text
            text = "\n\n".join(message.content for message in messages)
            return list(self._llm.enqueue([text] * len(params), params, use_tqdm=False))
        except Exception as error:
            # some templates raise at the role "system", by an error of the template library
            templates = type(error.__cause__).__name__ == "TemplateError"
            if messages[0].role != "system" or len(messages) < 2 or not templates:
                raise
            return self._chat(request, without_system(messages), params)

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
        given = self._defaults | {name: judge.params[name] for name in _SAMPLING if name in judge.params}
        if judge.temperature is not None:
            given["temperature"] = judge.temperature
        if "seed" in judge.params:
            given["seed"] = seed_of(judge.params["seed"], sample)
        if prompt.form == "json" and prompt.schema is not None:
            given["structured_outputs"] = StructuredOutputsParams(json=dict(prompt.schema))
        return SamplingParams(**given | {"max_tokens": judge.max_tokens or MOST_TOKENS, "stop": stops_of(judge)})

    def _compute(self, names: Sequence[str], timeout_s: float) -> dict[str, Any]:
        """The outputs of these requests that finish in time."""
        engine, done = self._llm.llm_engine, {}
        waited, until = {_outside(name) for name in names}, time.monotonic() + timeout_s
        while waited and engine.has_unfinished_requests() and time.monotonic() < until and not ENDING.is_set():
            for output in engine.step():
                if output.finished and output.request_id in waited:
                    waited.discard(output.request_id)
                    done[output.request_id] = output
        return done


def _outside(name: str) -> str:
    """The name of a request in its output: the engine's own name ends in random characters."""
    return name.partition("-")[0]


def _written(outputs: Sequence[Any], judge: Judge) -> list[Written] | ProviderError:
    written = []
    for output in outputs:
        if output is None:
            return ProviderError("timeout", f"the model had not finished after {judge.timeout_s:g} s")
        one = output.outputs[0]
        if one.finish_reason not in ("stop", "length", "repetition"):
            return ProviderError("server_error", f"the vLLM engine ended the reply abnormally ({one.finish_reason!r})")
        reason = "length" if one.finish_reason == "repetition" else one.finish_reason
        written.append(Written(one.text, reason, len(output.prompt_token_ids), len(one.token_ids)))
    return written
