"""`Run`: a run as ``print`` and notebooks show it."""

from __future__ import annotations

from dataclasses import dataclass

from evalkit.runs.run_display import run_html, run_text
from evalkit.runs.run_record import RunRecord

__all__ = ["Run"]


@dataclass(frozen=True, slots=True)
class Run(RunRecord):
    """One run of a pack with a model: ``print(run)`` shows its scores, its judges and what speaks against them."""

    def __str__(self) -> str:
        return run_text(self)

    def _repr_html_(self) -> str:
        return run_html(self)
