"""What a conversation in another form looks like, and the line that converts it: advice, never a guess."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from evalkit.errors import listed

_DEEPEST = 6  # levels of a value that are looked at
_MOST = 200  # mappings of it
LOOKS_LIKE = "this looks like "
_LOAD = "ek.load_items({}, form={!r})"
_AROUND = "[log if 'messages' in log else {'messages': log}]"
_OF_LANGCHAIN = (
    "[{{'role': {{'human': 'user', 'ai': 'assistant'}}.get(turn['type'], turn['type']), 'content': turn['content'], "
    "'tool_calls': [{{'id': call['id'], 'name': call['name'], 'arguments': call['args']}} for call in "
    "turn.get('tool_calls') or ()], 'tool_call_id': turn.get('tool_call_id')}} for turn in {}]"
)
_SPANS_OF_MLFLOW = (
    "[{key: json.loads(text) for key, text in span['attributes'].items()} for span in log['data']['spans']]"
)


class _Form(NamedTuple):
    name: str
    line: str
    has: tuple[str, ...] = ()
    """Fields that one of its mappings has."""
    types: tuple[str, ...] = ()
    """Values, one of which is the type of one of its mappings."""
    starts: tuple[str, ...] = ()
    """How the name of a field of one of its mappings starts."""
    is_outermost: bool = False
    """Whether only the value itself may be such a mapping."""


_FORMS = (
    _Form("OpenInference", _LOAD.format("log", "openinference"),
          starts=("openinference.", "llm.input_messages", "llm.output_messages")),
    _Form("OpenTelemetry's GenAI spans", _LOAD.format("log", "otel"), starts=("gen_ai.",)),
    _Form("ATIF", _LOAD.format("log", "atif"), ("steps", "schema_version")),
    _Form("a trace of MLflow", "next(span['mlflow.spanInputs']['messages'] + [span['mlflow.spanOutputs']['choices'][0]"
          f"['message']] for span in reversed({_SPANS_OF_MLFLOW}) if span['mlflow.spanType'] == 'CHAT_MODEL')",
          starts=("mlflow.",)),
    _Form("a session of Codex", _LOAD.format("[row['payload'] for row in log if row['type'] == 'response_item']",
                                             "openai_responses"), ("payload", "type")),
    _Form("a session of Claude Code", _LOAD.format("[{'messages': [row['message'] for row in (log['loglines'] if "
          "'loglines' in log else log) if row['type'] in ('user', 'assistant') and not row.get('isSidechain')]}]",
          "anthropic"), ("message",), ("user", "assistant")),
    _Form("events of OpenHands", "[{'role': 'tool', 'tool_call_id': event['cause'], 'content': event['content']} if "
          "'observation' in event else {'role': 'system' if event['action'] == 'system' else {'agent': 'assistant'}"
          ".get(event['source'], event['source']), 'content': event['args']['content']} if event['action'] in "
          "('message', 'system') else {'role': 'assistant', 'content': event['args'].get('thought'), 'tool_calls': "
          "[{'id': event['id'], 'name': event['action'], 'arguments': event['args']}]} "
          "for event in log if 'action' in event or event.get('cause') is not None]",
          ("action", "source", "args")),
    _Form("completions of OpenHands", "log['messages'] + [log['response']['choices'][0]['message']]",
          ("messages", "response")),
    _Form("SWE-agent",
          "[{**turn, 'tool_call_id': (turn.get('tool_call_ids') or [None])[0]} for turn in log['history']]",
          ("trajectory", "history")),
    _Form("steps of smolagents", "[turn for step in log for turn in ([{'role': 'user', 'content': step['task']}] if "
          "'task' in step else [{'role': 'assistant', 'content': step['model_output'], 'tool_calls': "
          "step['tool_calls']}, *([{'role': 'tool', 'tool_call_id': step['tool_calls'][0]['id'], 'content': "
          "step['observations']}] if step['tool_calls'] else [])] if 'step_number' in step else [])]",
          ("step_number", "model_output")),
    _Form("runs of LangSmith", _OF_LANGCHAIN.format("log['outputs']['messages']") + ", log being the root run",
          ("run_type", "inputs")),
    _Form("observations of Langfuse", "(lambda read, row: read(row['input']) + [read(row['output'])])(lambda cell: "
          "json.loads(cell) if isinstance(cell, str) else cell, sorted((row for row in (log['observations'] if "
          "'observations' in log else log) if row['type'] == 'GENERATION'), key=lambda row: row['startTime'])[-1]), "
          "if its framework wrote lists of messages",
          ("traceId", "startTime"), ("GENERATION", "SPAN", "TOOL")),
    _Form("Inspect", _LOAD.format(f"log['samples'] if 'samples' in log else {_AROUND}", "inspect"),
          ("source", "role", "content")),
    _Form("CrewAI", "[turn for task in log['tasks_output'] for turn in task['messages']]", ("tasks_output",)),
    _Form("AutoGen", "[{'role': 'tool', 'tool_call_id': part['call_id'], 'content': part['content']} if 'call_id' in "
          "part else {'role': turn['source'], 'tool_calls': turn['content']} if turn['type'] == 'ToolCallRequestEvent' "
          "else {'role': turn['source'], 'content': turn['content']} for turn in log for part in (turn['content'] if "
          "turn['type'] == 'ToolCallExecutionEvent' else [turn])]", ("source", "content", "type")),
    _Form("OpenAI's Responses API", _LOAD.format("log", "openai_responses"),
          types=("function_call", "function_call_output", "message", "reasoning")),
    _Form("Anthropic", _LOAD.format(_AROUND, "anthropic"),
          types=("tool_use", "tool_result", "thinking", "image")),
    _Form("ShareGPT", "[{'role': {'human': 'user', 'gpt': 'assistant'}.get(turn['from'], turn['from']), "
          "'content': turn['value']} for turn in log]", ("from", "value")),
    _Form("serialized objects of LangChain", "langchain_core.messages.convert_to_openai_messages("
          "langchain_core.load.load(log))", types=("constructor",)),
    _Form("LangChain", _OF_LANGCHAIN.format("(log['messages'] if 'messages' in log else log)"), types=("human", "ai")),
    _Form("AgentBench", "log['output']['history']", ("output", "index")),
    _Form("an object around its messages", "log['messages']", ("messages",), is_outermost=True),
    _Form("an object around its messages", "log['traj']", ("traj",), is_outermost=True),
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
        if any(_is_of(form, mapping) for mapping in mappings if mapping is value or not form.is_outermost):
            return f"{LOOKS_LIKE}{form.name}: use {form.line}"
    return _any_form(value[:_MOST] if isinstance(value, list) else [value])


def _any_form(rows: Any) -> str:
    """The line that converts any log, with the fields that this one has."""
    fields = listed(dict.fromkeys(name for row in rows if isinstance(row, Mapping) for name in row))
    return (
        f"write it in OpenAI's form (its fields are {fields}): use ek.load_items([{{'item_id': …, 'task': …, "
        "'messages': [{'role': …, 'content': …}, …]} for …]), with calls in 'tool_calls' and 'tool_call_id' in "
        "results, or name a reader with form="
    )


def _is_of(form: _Form, mapping: Mapping[str, Any]) -> bool:
    has_type = not form.types or mapping.get("type") in form.types
    has_start = not form.starts or any(str(name).startswith(form.starts) for name in mapping)
    return mapping.keys() >= {*form.has} and has_type and has_start


def _mappings(value: Any, depth: int) -> Iterator[Mapping[str, Any]]:
    """The mappings in a value, the outer before the inner; of a message only its content, and no copy of a reply."""
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        yield value
        value = [value.get("content")] if "role" in value else [*value.values()]
    for inner in value[:_MOST] if isinstance(value, list) else ():
        yield from _mappings(inner, depth + 1)
