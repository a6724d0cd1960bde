"""Spans of OpenTelemetry, and the messages of a trace, of which each span repeats those before it."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evalkit.errors import EvalkitWarning, InputError, counted
from evalkit.readers import blocks


@dataclass(frozen=True, slots=True)
class Span:
    """A span: the id of its trace, when it started (as written), and its attributes by their names."""

    trace: str
    start: tuple[int, str]
    attributes: dict[str, Any]


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
        for resource in row["resourceSpans"]:
            for scope in resource.get("scopeSpans", ()):
                for span in scope.get("spans", ()):
                    yield from _spans(span)
        return
    if not isinstance(row, Mapping) or not isinstance(row.get("attributes"), (Mapping, list)):
        raise InputError(f"a span is an object with attributes, got {row!r:.60}")
    attributes, context = row["attributes"], row.get("context") or {}
    if isinstance(attributes, list):
        attributes = {entry["key"]: _value(entry.get("value")) for entry in attributes}
    trace = row.get("traceId") or row.get("trace_id") or context.get("trace_id") or ""
    start = str(row.get("startTimeUnixNano") or row.get("start_time") or "")
    yield Span(str(trace), (len(start) if start.isdigit() else 0, start), dict(attributes))


def _value(value: Any) -> Any:
    """A value of OTLP: ``{"stringValue": "x"}``, ``{"arrayValue": {"values": […]}}`` …"""
    if not isinstance(value, Mapping):
        return value
    inner: Any
    kind, inner = next(iter(value.items()), ("", None))
    if kind == "arrayValue":
        return [_value(entry) for entry in inner.get("values", ())]
    if kind == "kvlistValue":
        return {entry["key"]: _value(entry["value"]) for entry in inner.get("values", ())}
    return inner


def parsed(value: Any) -> Any:
    """A value that an attribute may hold as JSON text."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError:
        return value


def merged(histories: Iterable[Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The messages of histories that repeat one another, each as often as the history that has it most often."""
    listed, counts, results = list[dict[str, Any]](), Counter[str](), set[str]()
    for history in histories:
        in_history = Counter[str]()
        for message in history:
            key, call = json.dumps(message, sort_keys=True, default=str), message.get("tool_call_id")
            in_history[key] += 1
            is_known = call in results if call else in_history[key] <= counts[key]
            if not is_known:
                listed.append(message)
            results |= {call} if call else set()
        counts |= in_history
    return listed


def item(trace: str, histories: Iterable[Iterable[dict[str, Any]]], **columns: Any) -> dict[str, Any] | None:
    """A trace as an item; None if its spans have no messages, as those of a health check."""
    listed = merged(histories)
    return blocks.item(listed, item_id=trace, **columns) if listed else None


def with_messages(items: list[dict[str, Any] | None], advice: str) -> list[dict[str, Any]]:
    """The items of traces that have messages; a warning counts the others.

    Raises
    ------
    InputError
        If none has.
    """
    with_any = [*filter(None, items)]
    if not with_any:
        raise InputError(f"no span has messages; {advice}")
    if n_lost := len(items) - len(with_any):
        fact = f"{counted(n_lost, 'trace')} of {len(items)} left out: no span of theirs has messages"
        warnings.warn(f"{fact}; if one should, {advice}", EvalkitWarning, stacklevel=4)
    return with_any
