"""Logs of Inspect: a file by `inspect_ai`'s own reader, or samples as JSON. Scores become columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
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
    if not log.samples:
        raise InputError(
            f"this log of Inspect has no samples (its status is {log.status!r}); run it with log_samples on"
        )
    model = {"system_id": log.eval.model}
    return [sample.model_dump(mode="json", exclude_none=True) | model for sample in log.samples]


def _item(row: Any) -> dict[str, Any]:
    attached = row.get("attachments") or {}
    talk = [entry for message in row["messages"] for entry in messages(_attached(message, attached))]
    scores = [
        (f"score_{name}{end}", score[field])
        for name, score in (row.get("scores") or {}).items()
        for end, field in _OF_SCORES.items()
        if score.get(field) is not None
    ]
    if doubled := [name for name, n in Counter(name for name, _ in scores).items() if n > 1]:
        raise InputError(f"two scores of a sample give the column {listed(doubled)}; rename one in scores")
    beside = {name: row.get(name) for name in _BESIDE}
    target = row.get("target")
    reference = "\n".join(target) if isinstance(target, list) else target
    number = f"{row.get('id')}/{row['epoch']}" if row.get("epoch", 1) != 1 else row.get("id")
    columns = {"item_id": number, "group_id": row.get("id"), "system_id": row.get("system_id"), "reference": reference}
    return blocks.item(talk, **{**beside, **columns, **dict(scores)})


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


def _blocks(block: Any) -> list[Any]:
    block = {"type": "text", "text": block} if isinstance(block, str) else block
    make = _BLOCKS.get(block.get("type"))
    return [block] if make is None else make(block)


def _file(block: Mapping[str, Any]) -> list[Any]:
    kind = block["type"]
    return [{"type": "input_file" if kind == "document" else kind, kind: {"url": block[kind]}}]


_BLOCKS: dict[str, Callable[[Mapping[str, Any]], list[Any]]] = {
    "text": lambda block: [blocks.text(block.get("text"))],
    "reasoning": lambda block: [blocks.thought("" if block.get("redacted") else block.get("reasoning"))],
    "image": lambda block: [blocks.image(block["image"])],
    "tool_use": lambda block: [  # a tool that the model's service ran
        blocks.call(block.get("name"), block.get("arguments", {}), block.get("id")),
        blocks.result(block.get("result", ""), block.get("id"), block.get("error")),
    ],
    "audio": _file, "video": _file, "document": _file,
}  # fmt: skip

READER = Reader("inspect", TRACES, blocks.of_each(_item, "a sample of an Inspect log", "messages"), opens=_open)
