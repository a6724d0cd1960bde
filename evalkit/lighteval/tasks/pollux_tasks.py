"""POLLUX as LightEval tasks: by difficulty (``pollux:easy`` …) and by type of task (``pollux_type:<type>``)."""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc

from evalkit.errors import ConfigError, EvalkitError
from evalkit.lighteval.pollux.criteria import PolluxCriteria, slug_of
from evalkit.lighteval.pollux.criteria_metric import pollux_metric
from evalkit.lighteval.tasks.sources import HUB, Place, check_row, data_folder, make_config, place_of, version_of
from evalkit.lighteval.tasks.unjudged_metrics import check_metric

CRITERIA_VARIABLE = "EVALKIT_POLLUX_CRITERIA"
_STEMS = {"easy": ("easy", "лёгк", "легк", "прост"), "medium": ("medium", "средн"), "hard": ("hard", "сложн", "трудн")}
_TOKENS = 1024


def difficulty_of(text: Any) -> str | None:
    """``easy``, ``medium`` or ``hard`` of a difficulty in English or Russian; None for another.

    Examples
    --------
    >>> difficulty_of("Средний"), difficulty_of("Hard"), difficulty_of("?")
    ('medium', 'hard', None)
    """
    folded = str(text or "").strip().casefold()
    return next((name for name, stems in _STEMS.items() if folded.startswith(stems)), None)


@dataclass(eq=False, repr=False)
class PolluxReader:
    """Reads the rows of one task, of one difficulty or one type; for each prompt only the first row.

    The published data have a row for each prompt, model and criterion, and a run needs only the prompt.

    Attributes
    ----------
    criteria, place
        The criteria, and the data set.
    difficulty, kind
        The difficulty, or the type of task, of the rows.
    problem
        Why the task cannot run; raised when LightEval prepares it, so that the other tasks can.
    """

    criteria: PolluxCriteria
    place: Place
    difficulty: str | None = None
    kind: str | None = None
    problem: EvalkitError | None = None
    _seen: set[tuple[str, str]] = field(default_factory=set, init=False)

    def __repr__(self) -> str:
        return f"PolluxReader({self.difficulty or self.kind})"

    def __deepcopy__(self, _memo: dict[int, Any]) -> PolluxReader:
        # LightEval copies the config of a task that it runs or prints; hundreds of criteria need not be copied with it
        self._check()
        return replace(self)

    def __call__(self, row: Mapping[str, Any], task_name: str) -> Doc | None:
        """The document of a row; None if it belongs to another task or its prompt was read already."""
        self._check()
        if not row.get("__index"):
            self._seen.clear()  # LightEval reads a split from its first row, more than once
        check_row(row, HUB["pollux"].columns, self.place.repo)
        instruction, reference = str(row["instruction"]), str(row["reference_answer"] or "")
        if not self._wants(row) or (instruction, reference) in self._seen:
            return None
        self._seen.add((instruction, reference))
        kinds = {name: str(row[name]) for name in ("task_type", "difficulty")}
        specific = {"reference_answer": reference, "criteria": self.criteria.applying_to(row), **kinds}
        gold = [reference] if reference.strip() else []
        return Doc(task_name=task_name, query=instruction, choices=gold, gold_index=[0][: len(gold)], specific=specific)

    def _check(self) -> None:
        if self.problem is not None:
            raise self.problem

    def _wants(self, row: Mapping[str, Any]) -> bool:
        if self.difficulty is not None:
            return difficulty_of(row["difficulty"]) == self.difficulty
        kind = str(row["task_type"])
        return self.kind is not None and (slug_of(kind) == slug_of(self.kind) or self.criteria.is_same(self.kind, kind))


def criteria_file(source: str) -> Path:
    """The file of criteria: the shipped one, or for rows of the Hub the one in ``EVALKIT_POLLUX_CRITERIA``.

    Raises
    ------
    ConfigError
        For rows of the Hub, if the variable is not set or the file is not found.
    """
    if source == "shipped":
        return data_folder("pollux") / "criteria.json"
    if not (given := os.environ.get(CRITERIA_VARIABLE, "").strip()):
        raise ConfigError(
            f"the POLLUX data from the Hub has no criteria; set {CRITERIA_VARIABLE} to the path of "
            "metainfo/criteria.json from the POLLUX project"
        )
    if not Path(given).is_file():
        raise ConfigError(
            f"{CRITERIA_VARIABLE}: file {given} not found; set it to metainfo/criteria.json from the POLLUX project"
        )
    return Path(given)


def pollux_tasks(source: str) -> list[LightevalTaskConfig]:
    """The tasks of POLLUX: each has the judged metric `pollux`, and `answered` and `in_russian` without a judge.

    Parameters
    ----------
    source
        ``shipped`` or ``hub``. If the Hub's lack their criteria, running or printing one of them is a ConfigError.
    """
    problem: EvalkitError | None = None
    try:
        file = criteria_file(source)
        known = PolluxCriteria.of(file)
    except EvalkitError as fault:
        file, problem = criteria_file("shipped"), fault
        known = PolluxCriteria.of(file)
    place = place_of("pollux", source)
    version = version_of(place, file.read_text(encoding="utf-8-sig"))
    # figures of hundreds of criteria would bury the others: shown are those of every task, in samples all
    shown = list(known.criteria) if source == "shipped" else known.general
    made = partial(PolluxReader, known, place, problem=problem)
    readers = {f"pollux:{name}": made(difficulty=name) for name in _STEMS}
    readers |= {f"pollux_type:{slug_of(kind)}": made(kind=kind) for kind in known.tasks}
    metrics = [pollux_metric(known, shown=shown), check_metric("russian", _is_russian, ["in_russian"])]
    return [make_config(name, place, read, metrics, tokens=_TOKENS, version=version) for name, read in readers.items()]


def _is_russian(answer: str, _doc: Any) -> tuple[Mapping[str, float], str]:
    """Whether most letters of an answer are Cyrillic; no figure without letters."""
    letters = [unicodedata.name(letter, "").startswith("CYRILLIC") for letter in answer if letter.isalpha()]
    return {"in_russian": float(2 * sum(letters) > len(letters)) if letters else math.nan}, ""
