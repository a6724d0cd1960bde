"""Logs of Inspect: a file by `inspect_ai`'s own reader, or samples as JSON. Scores become columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evalkit.errors import InputError, MissingExtraError, advise_extra, listed
from evalkit.readers import blocks
from evalkit.readers.records import TRACES, Reader

_OF_SCORES = {"": "value", "_explanation": "explanation", "_answer": "answer"}
"""Ends of the columns of a score, and its fields."""
_BESIDE = ("metadata", "choices", "error", "limit")
"""Fields of a sample that become columns."""
_HEAD = 4096  # bytes of a log in JSON, in which its block "eval" starts


def _open(path: str) -> list[Any] | None:
    """The samples of a log; None for a file of samples as JSON."""
    with Path(path).open("rb") as file:
        if not path.endswith(".eval") and b'"eval"' not in file.read(_HEAD):
            return None
    try:
        from inspect_ai.log import read_eval_log
    except ImportError:
        raise MissingExtraError(f"reading a log of Inspect needs inspect_ai: {advise_extra('inspect')}") from None
    log = read_eval_log(path, resolve_attachments=True)
    model = {"system_id": log.eval.model}
    return [sample.model_dump(mode="json", exclude_none=True) | model for sample in log.samples or ()]


def _read(rows: Any) -> list[Any]:
    return [_item(row) for row in rows]


def _item(row: Any) -> dict[str, Any]:
    if not isinstance(row, Mapping) or not isinstance(row.get("messages"), list):
        raise InputError("a sample of an Inspect log is an object with the list messages")
    attached = row.get("attachments") or {}
    talk = [entry for message in row["messages"] for entry in messages(_attached(message, attached))]
    scores: dict[str, Any] = {}
    for name, score in (row.get("scores") or {}).items():
        told_columns = {
            f"score_{name}{end}": score[field] for end, field in _OF_SCORES.items() if score.get(field) is not None
        }
        if doubled := scores.keys() & told_columns.keys():
            raise InputError(f"two scores of a sample give the column {listed(doubled)}; rename one in scores")
        scores |= told_columns
    beside = {name: row.get(name) for name in _BESIDE}
    target = row.get("target")
    reference = "\n".join(target) if isinstance(target, list) else target
    number = f"{row.get('id')}/{row['epoch']}" if row.get("epoch", 1) != 1 else row.get("id")
    columns = {"item_id": number, "group_id": row.get("id"), "system_id": row.get("system_id"), "reference": reference}
    return blocks.item(talk, **{**beside, **columns, **scores})


def _attached(value: Any, attached: Mapping[str, Any]) -> Any:
    if isinstance(value, str) and value.startswith("attachment://"):
        return attached.get(value.removeprefix("attachment://"), value)
    if isinstance(value, list):
        return [_attached(inner, attached) for inner in value]
    return {name: _attached(inner, attached) for name, inner in value.items()} if isinstance(value, Mapping) else value


def messages(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A message of Inspect in evalkit's form; one with results of a service's tools is several."""
    content = message.get("content", "")
    parts = [piece for block in (content if isinstance(content, list) else [content]) for piece in _blocks(block)]
    if message["role"] == "tool":
        error = message.get("error")
        if isinstance(error, Mapping):
            error = ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))
        plain = parts[0]["text"] if len(parts) == 1 and parts[0].get("type") == "text" else parts
        yield blocks.result(plain, message.get("tool_call_id"), error, message.get("function"))
        return
    calls = [
        blocks.call(call.get("function"), call.get("arguments", {}), call.get("id"), call.get("parse_error"))
        for call in message.get("tool_calls") or ()
    ]
    if calls:
        parts = [block for block in parts if block.get("text") != ""]
    yield from blocks.messages(message["role"], [*parts, *calls])


def _blocks(block: Any) -> Iterator[dict[str, Any]]:
    kind = block.get("type") if isinstance(block, Mapping) else "text"
    if kind == "text":
        yield blocks.text(block if isinstance(block, str) else block.get("text"))
    elif kind == "reasoning":
        yield blocks.thought("" if block.get("redacted") else block.get("reasoning"))
    elif kind == "image":
        yield blocks.image(block["image"])
    elif kind == "tool_use":  # a tool that the model's service ran
        yield blocks.call(block.get("name"), block.get("arguments", {}), block.get("id"))
        yield blocks.result(block.get("result", ""), block.get("id"), block.get("error"))
    elif kind in ("audio", "video", "document"):
        yield {"type": {"document": "input_file"}.get(kind, kind), kind: {"url": block[kind]}}
    else:
        yield block


READER = Reader("inspect", TRACES, _read, opens=_open)
