"""Criteria of DevAI: `requirements` of https://github.com/metauto-ai/agent-as-a-judge (benchmark/devai/instances)."""

from __future__ import annotations

from typing import Any

from evalkit.readers.records import CRITERIA, Reader, renamed

_NAMES = {"criteria": "text", "requirement_id": "id", "prerequisites": "requires", "category": "axis"}


def _read(cell: Any) -> Any:
    return [renamed(entry, _NAMES) for entry in cell] if isinstance(cell, list) else cell


READER = Reader("devai", CRITERIA, _read)
