"""What a conversation in another form looks like, and the line that converts it: advice, never a guess."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_DEEPEST = 6  # levels of a value that are looked at
_MOST = 200  # mappings of it
_LOAD = 'ek.load_items("traces.jsonl", form={!r})'


class _Form(NamedTuple):
    name: str
    line: str
    has: tuple[str, ...] = ()
    """Fields that one of its mappings has."""
    types: tuple[str, ...] = ()
    """Values, one of which is the type of one of its mappings."""
    starts: tuple[str, ...] = ()
    """How the name of a field of one of its mappings starts."""


_FORMS = (
    _Form("OpenInference", _LOAD.format("openinference"),
          starts=("openinference.", "llm.input_messages", "llm.output_messages")),
    _Form("OpenTelemetry's GenAI spans", _LOAD.format("otel"), starts=("gen_ai.",)),
    _Form("ATIF", _LOAD.format("atif"), ("steps", "schema_version")),
    _Form("a trace of MLflow", "mlflow.get_trace(id).search_spans(span_type='AGENT')[0].inputs['messages']",
          starts=("mlflow.",)),
    _Form("a session of Codex", "[row['payload'] for row in log if row['type'] == 'response_item'], then "
          + _LOAD.format("openai_responses"), ("payload", "type")),
    _Form("runs of LangSmith", "run.inputs['messages'] + [run.outputs['output']], then LangChain's "
          "convert_to_openai_messages", ("run_type", "inputs")),
    _Form("observations of Langfuse", "observation['input'] + [observation['output']] of its last GENERATION",
          ("traceId", "startTime"), ("GENERATION", "SPAN", "TOOL")),
    _Form("Inspect", _LOAD.format("inspect"), ("source", "role", "content")),
    _Form("OpenAI's Responses API", _LOAD.format("openai_responses"),
          types=("function_call", "function_call_output", "message", "reasoning")),
    _Form("Anthropic", _LOAD.format("anthropic"), types=("tool_use", "tool_result", "thinking", "image")),
    _Form("ShareGPT", "[{'role': {'human': 'user', 'gpt': 'assistant'}.get(turn['from'], turn['from']), "
          "'content': turn['value']} for turn in log]", ("from", "value")),
    _Form("LangChain", "langchain_core.messages.convert_to_openai_messages(log)", types=("human", "ai", "constructor")),
    _Form("Pydantic AI", "the messages that its OpenAIChatModel sends", ("kind", "parts")),
    _Form("Gemini or the AI SDK", "[{'role': turn['role'], 'content': ''.join(part['text'] for part in turn['parts'])} "
          "for turn in log], if it has only texts", ("parts",)),
    _Form("Bedrock", "litellm or another converter from Converse to OpenAI's form", ("toolUse",)),
    _Form("AutoGen", "[{'role': turn['source'], 'content': turn['content']} for turn in log], if it has only texts",
          ("source", "content")),
    _Form("an object around its messages", "log['messages']", ("messages",)),
    _Form("an object around its messages", "log['traj']", ("traj",)),
)  # fmt: skip


def looks_like(value: Any) -> str:
    """Which form a value looks like, and the line that converts it; else the general advice.

    Examples
    --------
    >>> looks_like([{"from": "human", "value": "Hi"}])[:28]
    'this looks like ShareGPT: us'
    """
    mappings = [*_mappings(value, 0)][:_MOST]
    for form in _FORMS:
        if any(_is_of(form, mapping) for mapping in mappings):
            return f"this looks like {form.name}: use {form.line}"
    return "rewrite it in OpenAI's form, as LangChain's convert_to_openai_messages does, or name a reader with form="


def _is_of(form: _Form, mapping: Mapping[str, Any]) -> bool:
    if form.has and not mapping.keys() >= {*form.has}:
        return False
    if form.types and mapping.get("type") not in form.types:
        return False
    return not form.starts or any(str(name).startswith(form.starts) for name in mapping)


def _mappings(value: Any, depth: int) -> Iterator[Mapping[str, Any]]:
    """The mappings in a value, the outer before the inner."""
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        yield value
    for inner in value.values() if isinstance(value, Mapping) else value[:_MOST] if isinstance(value, list) else ():
        yield from _mappings(inner, depth + 1)
