"""Criteria of PaperBench: the tree of a `rubric.json` of https://github.com/openai/frontier-evals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evalkit.errors import InputError
from evalkit.readers.records import CRITERIA, Reader, renamed

_NAMES = {"requirements": "text", "weight": "points", "task_category": "axis"}
_BELOW = "sub_tasks"
_UNUSED = (_BELOW, "finegrained_task_category")
_DEEPEST = 100  # levels


def _read(cell: Any) -> list[Any]:
    return [*_nodes(cell, None, 1)]


def _nodes(node: Any, parent: str | None, level: int) -> Iterator[dict[str, Any]]:
    """A node with the id of its parent, then what is below it."""
    below = node.get(_BELOW, []) if isinstance(node, Mapping) else None
    if not isinstance(below, list) or "id" not in node:
        raise InputError(f"a node of a PaperBench rubric is a mapping with id and the list {_BELOW}, got {node!r:.60}")
    if level > _DEEPEST:
        raise InputError(f"its tree has over {_DEEPEST} levels")
    if (stated := node.get("parent", parent)) != parent:
        raise InputError(
            f"the node {node['id']!r} has the parent {stated!r}, but stands below {parent!r}; drop one of them"
        )
    yield renamed(node, _NAMES, _UNUSED) | ({} if parent is None else {"parent": parent})
    for child in below:
        yield from _nodes(child, node["id"], level + 1)


READER = Reader("paperbench", CRITERIA, _read)
