"""What processes of the registry's tests run; it loads little, since each of them does."""

from __future__ import annotations

from typing import Any

from evalkit.runs.registry import Registry


def apply_pack(url: str, content: dict[str, Any]) -> str:
    """Apply a pack to a registry that may not be there yet."""
    registry = Registry.open(url)
    try:
        return registry.apply_pack(content).label
    finally:
        registry.close()
