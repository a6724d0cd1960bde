"""Spans of OpenTelemetry, and the messages of a trace, of which each span repeats those before it."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evalkit.errors import EvalkitWarning, InputError, counted

_AGENTS = {"gen_ai.operation.name": "invoke_agent", "openinference.span.kind": "AGENT"}
"""Attributes that mark the span of an agent's run."""

History = Iterable[tuple[dict[str, Any], bool]]
"""The messages of a span, and whether the span wrote them; the others were there before."""


@dataclass(frozen=True, slots=True)
class Span:
    """A span: the ids of its trace, itself and its parent, when it started, and its attributes by their names."""

    trace: str
    start: tuple[int, str]
    attributes: dict[str, Any]
    id: str = ""
    parent: str = ""

    @property
    def is_agent(self) -> bool:
        """Whether it is an agent's run, and not a call of a model or tool."""
        return any(self.attributes.get(name) == value for name, value in _AGENTS.items())


def spans_by_trace(rows: Iterable[Any]) -> dict[str, list[Span]]:
    """The spans of each trace in order of time; as OTLP exports them, or one mapping per span.

    Raises
    ------
    InputError
        For a row that is no span.
    """
    by_trace: dict[str, list[Span]] = {}
    for row in rows:
        for span in _spans(row):
            by_trace.setdefault(span.trace, []).append(span)
    return {trace: sorted(spans, key=lambda span: span.start) for trace, spans in by_trace.items()}


def _spans(row: Any) -> Iterator[Span]:
    if isinstance(row, Mapping) and isinstance(row.get("resourceSpans"), list):
        scopes = [scope for resource in row["resourceSpans"] for scope in resource.get("scopeSpans", ())]
        for span in [span for scope in scopes for span in scope.get("spans", ())]:
            yield from _spans(span)
        return
    if not isinstance(row, Mapping) or not isinstance(row.get("attributes"), (Mapping, list)):
        raise InputError(f"a span is an object with attributes, got {row!r:.60}")
    attributes, context = row["attributes"], row.get("context") or {}
    if isinstance(attributes, list):
        attributes = {entry["key"]: _value(entry.get("value")) for entry in attributes}
    trace, span, parent = (
        str(next(filter(None, [*map(row.get, names), context.get(names[1])]), ""))
        for names in (("traceId", "trace_id"), ("spanId", "span_id"), ("parentSpanId", "parent_id", "parent_span_id"))
    )
    if not trace:
        raise InputError(
            f"the span {row.get('name', row.get('attributes'))!r:.60} has no trace id, by which spans become items; "
            "write it as traceId, trace_id or context.trace_id, one for each trace"
        )
    start = str(row.get("startTimeUnixNano") or row.get("start_time") or "")
    yield Span(trace, (len(start) if start.isdigit() else 0, start), dict(attributes), span, parent)


def _value(value: Any) -> Any:
    """A value of OTLP: ``{"stringValue": "x"}``, ``{"arrayValue": {"values": […]}}`` …"""
    if not isinstance(value, Mapping):
        return value
    if "kvlistValue" in value:
        return {entry["key"]: _value(entry["value"]) for entry in value["kvlistValue"].get("values", ())}
    entries = value["arrayValue"].get("values", ()) if "arrayValue" in value else None
    return next(iter(value.values()), None) if entries is None else [*map(_value, entries)]


def parsed(value: Any) -> Any:
    """A value that an attribute may hold as JSON text."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError:
        return value


def agents_of(spans: Iterable[Span]) -> list[str]:
    """For each span of a trace the id of the agent's run that it is, or is in; empty where there is none."""
    by_id = {span.id: span for span in spans if span.id}
    agents = []
    for span in spans:
        visited, current = set[str](), span
        while not current.is_agent and current.parent in by_id and current.parent not in visited:
            visited.add(current.parent)
            current = by_id[current.parent]
        agents.append(current.id if current.is_agent else "")
    return agents


def merged(histories: Iterable[tuple[str, History]]) -> list[dict[str, Any]]:
    """The messages of agents' histories that repeat one another, each as often as the history that has it most often.

    What one agent wrote is not what another wrote, however equal.
    """
    listed, counts, authors = list[dict[str, Any]](), Counter[str](), dict[str, set[str]]()
    for agent, history in histories:
        in_history = Counter[str]()
        for message, is_written in history:
            key, call = json.dumps(message, sort_keys=True, default=str), message.get("tool_call_id")
            # results are known by their call, as a span of the tool may write them otherwise than the next history
            names = {key, f"result {agent} {call}"} if call else {key}
            in_history.update(names)
            is_known = any(in_history[name] <= counts[name] for name in names)
            if is_known and is_written and agent not in authors.get(key, {agent}):
                is_known, in_history[key] = False, counts[key] + 1
            if not is_known:
                listed.append(message)
            if is_written:
                authors.setdefault(key, set()).add(agent)
        counts |= in_history
    return listed


def with_messages(items: list[dict[str, Any]], advice: str) -> list[dict[str, Any]]:
    """The items of traces that have messages; a warning counts the others.

    Raises
    ------
    InputError
        If none has.
    """
    # spans of a health check have none, and rules alone are no trace
    with_any = [item for item in items if any(message["role"] != "system" for message in item["messages"])]
    if not with_any:
        raise InputError(f"no span has messages; {advice}")
    if n_lost := len(items) - len(with_any):
        warnings.warn(
            f"{counted(n_lost, 'trace')} of {len(items)} left out: no span of theirs has messages; if one should, "
            f"{advice}",
            EvalkitWarning,
            stacklevel=4,
        )
    return with_any
