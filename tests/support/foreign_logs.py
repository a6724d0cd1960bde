"""Conversations in the shapes in which other programs keep their logs: invented, one function per program."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from stories import Step, Story, as_openai, as_openinference


class Log(NamedTuple):
    """How a program writes a conversation."""

    write: Callable[[Story], Any]
    looks_like: str
    """What its refusal names; empty if it is read by `form`."""
    form: str = ""
    has_system: bool = True
    has_goodbye: bool = True
    """Whether what the user says after the last answer is in the log."""
    one_call: bool = False
    """Whether each step has one call."""


def _acts(story: Story) -> Iterator[tuple[str, Any]]:
    """What happens, in order: ``system``, ``user`` and ``answer`` with a text, ``step`` with its number and step."""
    if story.system:
        yield "system", story.system
    n = 0
    for turn in story.turns:
        yield "user", turn.question
        for step in turn.steps:
            n += 1
            yield "step", (n, step)
        yield "answer", turn.answer
    if story.goodbye:
        yield "user", story.goodbye


def _calls(n: int, step: Step) -> list[tuple[str, str, dict[str, str]]]:
    """Id, name and arguments of the calls of a step."""
    return [(f"call_{n}_{place}", name, arguments) for place, (name, arguments) in enumerate(step.calls)]


def _results(n: int, step: Step) -> list[tuple[str, str, str, bool]]:
    """Id of the call, its name, the text, and whether it is an error."""
    return [(f"call_{n}_{place}", step.calls[place][0], text, error) for place, text, error in step.results]


def langgraph(story: Story) -> Any:
    """A state of LangGraph, its messages dumped by LangChain."""
    types = {"system": "system", "user": "human", "answer": "ai"}
    messages: list[dict[str, Any]] = []
    for kind, act in _acts(story):
        if kind != "step":
            messages.append({"type": types[kind], "content": act, "id": str(len(messages)), "additional_kwargs": {}})
            continue
        calls = [{"name": name, "args": args, "id": key, "type": "tool_call"} for key, name, args in _calls(*act)]
        messages.append({"type": "ai", "content": act[1].text, "tool_calls": calls, "invalid_tool_calls": []})
        messages += [{"type": "tool", "content": text, "name": name, "tool_call_id": key, "status": "success"}
                     for key, name, text, _ in _results(*act)]  # fmt: skip
    return {"messages": messages, "remaining_steps": 24}


def langsmith(story: Story) -> Any:
    """The root run of a graph, as LangSmith exports it."""
    state = langgraph(story)
    return {"id": "r1", "name": "LangGraph", "run_type": "chain", "inputs": {"messages": state["messages"][:1]},
            "outputs": state, "feedback_stats": {"correct": {"avg": 1.0}}}  # fmt: skip


def autogen(story: Story) -> Any:
    """The messages of a team of AutoGen."""
    messages: list[dict[str, Any]] = []
    for kind, act in _acts(story):
        source = "user" if kind == "user" else "assistant"
        if kind != "step":
            messages.append({"source": source, "models_usage": None, "content": act, "type": "TextMessage"})
            continue
        step = act[1]
        messages += [{"source": source, "content": step.text, "type": "ThoughtEvent"}] if step.text else []
        calls = [{"id": key, "name": name, "arguments": json.dumps(args)} for key, name, args in _calls(*act)]
        results = [{"content": text, "name": name, "call_id": key, "is_error": error}
                   for key, name, text, error in _results(*act)]  # fmt: skip
        messages.append({"source": source, "content": calls, "type": "ToolCallRequestEvent"})
        messages.append({"source": source, "content": results, "type": "ToolCallExecutionEvent"})
    return messages


def smolagents(story: Story) -> Any:
    """The steps in the memory of an agent of smolagents."""
    steps: list[dict[str, Any]] = [{"system_prompt": "Solve the task."}]
    for kind, act in _acts(story):
        if kind == "user":
            steps.append({"task": act, "task_images": None})
            continue
        text = act if kind == "answer" else act[1].text
        calls = [] if kind == "answer" else [
            {"id": key, "type": "function", "function": {"name": name, "arguments": args}}
            for key, name, args in _calls(*act)
        ]  # fmt: skip
        seen = None if kind == "answer" else act[1].results[0][1]
        steps.append({"step_number": len(steps), "timing": {"start_time": 1.0}, "model_input_messages": None,
                      "tool_calls": calls, "error": None, "model_output": text, "observations": seen,
                      "is_final_answer": kind == "answer"})  # fmt: skip
    return steps


def swe_agent(story: Story) -> Any:
    """A trajectory file of SWE-agent: the history, and the same steps once more."""
    history: list[dict[str, Any]] = []
    for message in as_openai(story, null=""):
        about: dict[str, Any] = {"agent": "main", "message_type": "action"}
        if message["role"] == "tool":
            about = {"agent": "main", "message_type": "observation", "tool_call_ids": [message.pop("tool_call_id")]}
            message["content"] = [{"type": "text", "text": message["content"]}]
        history.append(message | about)
    steps = [{"action": "ls", "observation": "a.py", "response": "Look.", "thought": "Look.", "execution_time": 0.1}]
    return {"trajectory": steps, "history": history, "info": {"exit_status": "submitted", "submission": "diff"}}


def openhands(story: Story) -> Any:
    """The last completion of OpenHands: what the model was sent, and its response."""
    parts = [
        {**message, "content": [{"type": "text", "text": message["content"]}]} for message in as_openai(story, null="")
    ]
    return {"messages": parts[:-1], "response": {"id": "c", "choices": [{"message": parts[-1]}]}, "cost": 0.1}


def crewai(story: Story) -> Any:
    """The output of a crew with one task."""
    answer = story.turns[-1].answer
    task = {"description": "Help.", "raw": answer, "agent": "clerk", "messages": as_openai(story)}
    return {"raw": answer, "tasks_output": [task], "token_usage": {"total_tokens": 9}}


def codex(story: Story) -> Any:
    """A rollout of Codex, with events that say the same once more."""
    rows: list[dict[str, Any]] = [{"timestamp": "t", "type": "session_meta", "payload": {"id": "s", "cwd": "/w"}}]

    def add(payload: dict[str, Any]) -> None:
        rows.append({"timestamp": "t", "type": "response_item", "payload": payload})

    for kind, act in _acts(story):
        if kind != "step":
            role, part = ("user", "input_text") if kind == "user" else ("assistant", "output_text")
            add({"type": "message", "role": role, "content": [{"type": part, "text": act}]})
            event = "user_message" if kind == "user" else "agent_message"
            rows.append({"timestamp": "t", "type": "event_msg", "payload": {"type": event, "message": act}})
            continue
        if act[1].text:
            content = [{"type": "output_text", "text": act[1].text}]
            add({"type": "message", "role": "assistant", "content": content})
        for key, name, args in _calls(*act):
            add({"type": "function_call", "name": name, "arguments": json.dumps(args), "call_id": key})
        for key, _, text, _ in _results(*act):
            add({"type": "function_call_output", "call_id": key, "output": text})
    return rows


def claude_code(story: Story) -> Any:
    """A session of Claude Code: a row per block, with a summary and a subagent's rows."""
    rows: list[dict[str, Any]] = [{"type": "summary", "summary": "Help", "leafUuid": "x"}]

    def add(role: str, content: Any, *, is_sidechain: bool = False) -> None:
        rows.append({"type": role, "message": {"role": role, "content": content}, "uuid": str(len(rows)),
                     "isSidechain": is_sidechain, "sessionId": "s", "cwd": "/w"})  # fmt: skip

    for kind, act in _acts(story):
        if kind == "user":
            add("user", act)
        elif kind == "answer":
            add("assistant", [{"type": "text", "text": act}])
        else:
            add("assistant", "What a subagent says.", is_sidechain=True)
            blocks = [{"type": "text", "text": act[1].text}] if act[1].text else []
            blocks += [{"type": "tool_use", "id": key, "name": name, "input": args} for key, name, args in _calls(*act)]
            for block in blocks:
                add("assistant", [block])
            for key, _, text, error in _results(*act):
                add("user", [{"type": "tool_result", "tool_use_id": key, "content": text, "is_error": error}])
    return rows


def mlflow(story: Story) -> Any:
    """A trace of MLflow with the calls of a model, and a person's assessment, which is no message."""
    messages = as_openai(story)
    spans: list[dict[str, Any]] = [{"span_id": "0", "attributes": {"mlflow.spanType": '"AGENT"'}}]
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            written = {"mlflow.spanType": "CHAT_MODEL", "mlflow.spanInputs": {"messages": messages[:place]},
                       "mlflow.spanOutputs": {"choices": [{"message": message}]}}  # fmt: skip
            spans.append({"attributes": {name: json.dumps(value) for name, value in written.items()}})
    spans.append({"attributes": {"mlflow.spanType": '"TOOL"', "mlflow.spanOutputs": "null"}})
    return {"info": {"trace_id": "tr", "assessments": [{"feedback": {"value": True}}]}, "data": {"spans": spans}}


def langfuse(story: Story) -> Any:
    """An export of Langfuse: observations in no order of time, with values as texts of JSON."""
    messages = as_openai(story)
    rows = [
        {"id": str(place), "traceId": "t", "type": "GENERATION", "startTime": f"2026-11-20T10:00:00.{place:03}Z",
         "input": json.dumps(messages[:place]), "output": json.dumps(message), "costDetails": {"total": 0.1}}
        for place, message in enumerate(messages) if message["role"] == "assistant"
    ]  # fmt: skip
    span = {"id": "x", "traceId": "t", "type": "SPAN", "startTime": "2026-11-20T10:00:00Z", "input": "{}"}
    return {"trace": {"id": "t"}, "observations": [*reversed(rows), span]}


def agentbench(story: Story) -> Any:
    """A run of AgentBench: its history has texts alone."""
    history = [{"role": "agent" if kind == "answer" else "user", "content": act} for kind, act in _acts(story)]
    return {"index": 3, "info": None, "output": {"status": "completed", "result": None, "history": history}}


LOGS = {
    "langgraph": Log(langgraph, "LangChain"),
    "langsmith": Log(langsmith, "runs of LangSmith"),
    "autogen": Log(autogen, "AutoGen", has_system=False),
    "smolagents": Log(smolagents, "steps of smolagents", has_system=False, has_goodbye=False, one_call=True),
    "swe_agent": Log(swe_agent, "SWE-agent"),
    "openhands": Log(openhands, "completions of OpenHands", has_goodbye=False),
    "crewai": Log(crewai, "CrewAI"),
    "codex": Log(codex, "a session of Codex", has_system=False),
    "claude_code": Log(claude_code, "a session of Claude Code", has_system=False),
    "mlflow": Log(mlflow, "a trace of MLflow", has_goodbye=False),
    "langfuse": Log(langfuse, "observations of Langfuse", has_goodbye=False),
    "phoenix": Log(as_openinference, "", "openinference", has_goodbye=False),
}
