"""From a row of POLLUX to LightEval's document, one group of difficulty or type of task a reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lighteval.tasks.requests import Doc

from evalkit.lighteval.pollux.criteria import PolluxCriteria, slug_of
from evalkit.lighteval.tasks.sources import HUB, Place, check_row

__all__ = ["DIFFICULTIES", "PolluxReader", "difficulty_of"]

DIFFICULTIES = ("easy", "medium", "hard")

_STEMS = {"easy": ("easy", "лёгк", "легк", "прост"), "medium": ("medium", "средн"), "hard": ("hard", "сложн", "трудн")}


def difficulty_of(text: Any) -> str | None:
    """``easy``, ``medium`` or ``hard`` of a difficulty in English or Russian; None for another.

    Examples
    --------
    >>> difficulty_of("Средний"), difficulty_of("Hard"), difficulty_of("?")
    ('medium', 'hard', None)
    """
    folded = str(text or "").strip().casefold()
    return next((name for name, stems in _STEMS.items() if folded.startswith(stems)), None)


class PolluxReader:
    """Reads the rows of one task: those of a difficulty, or of a type; of several rows of one prompt the first.

    The published data have a row for each prompt, model and criterion, of which a run needs the prompt alone.

    Attributes
    ----------
    criteria, place
        Which criteria there are, and where the rows lie.
    difficulty, kind
        The difficulty, or the type of task, that rows must have.
    """

    def __init__(
        self, criteria: PolluxCriteria, place: Place, *, difficulty: str | None = None, kind: str | None = None
    ) -> None:
        self.criteria, self.place, self.difficulty, self.kind = criteria, place, difficulty, kind
        self._seen: set[tuple[str, str]] = set()

    def __repr__(self) -> str:
        return f"PolluxReader({self.difficulty or self.kind})"

    def __deepcopy__(self, _memo: dict[int, Any]) -> PolluxReader:
        # LightEval copies a config to print it; hundreds of criteria need not be copied with it
        return PolluxReader(self.criteria, self.place, difficulty=self.difficulty, kind=self.kind)

    def __call__(self, row: Mapping[str, Any], task_name: str) -> Doc | None:
        """The document of a row; None for one that belongs to another task or is there already."""
        if not row.get("__index"):
            self._seen.clear()  # LightEval reads a split from its first row, more than once
        check_row(row, self.place.columns or HUB["pollux"].columns, self.place.repo)
        instruction, reference = str(row["instruction"]), str(row["reference_answer"] or "")
        if not self._wants(row) or (instruction, reference) in self._seen:
            return None
        self._seen.add((instruction, reference))
        specific = {
            "reference_answer": reference,
            "criteria": self.criteria.applying_to(row),
            "task_type": str(row["task_type"]),
            "difficulty": str(row["difficulty"]),
        }
        gold = [reference] if reference.strip() else []
        return Doc(
            task_name=task_name, query=instruction, choices=gold, gold_index=[0] if gold else [], specific=specific
        )

    def _wants(self, row: Mapping[str, Any]) -> bool:
        if self.difficulty is not None:
            return difficulty_of(row["difficulty"]) == self.difficulty
        kind = str(row["task_type"])
        return self.kind is not None and (slug_of(kind) == slug_of(self.kind) or self.criteria.is_same(self.kind, kind))
