"""Decision models at ``POST /v1/systemone``: the questions of `decisions`, by name in an object."""

from __future__ import annotations

from evalkit.engine.providers.decisions import check, connect

__all__ = ["check", "connect"]
