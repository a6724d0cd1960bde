"""The data of a task and its config: the files that ship with evalkit, or a data set of the Hugging Face Hub."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lighteval.metrics.utils.metric_utils import Metric
from lighteval.tasks.lighteval_task import LightevalTaskConfig

from evalkit.errors import ConfigError, listed
from evalkit.lighteval.tasks.unjudged_metrics import answered_metric

DATA_VARIABLE = "EVALKIT_TASK_DATA"
SOURCES = ("shipped", "hub")

_DATA = Path(__file__).resolve().parent / "data"


@dataclass(frozen=True, slots=True)
class Place:
    """A data set as LightEval loads it.

    Attributes
    ----------
    source
        ``shipped`` or ``hub``.
    repo, subset, split
        Folder or name, configuration and split.
    columns
        The required columns.
    """

    source: str
    repo: str
    subset: str = "default"
    split: str = "test"
    columns: tuple[str, ...] = ()


HUB: Mapping[str, Place] = {
    "conversation_helpfulness": Place("hub", "lighteval/mt-bench", split="train", columns=("turns", "category")),
    "instruction_following_judged": Place(
        "hub", "google/IFEval", split="train", columns=("prompt", "instruction_id_list", "kwargs")
    ),
    "safety_guardrail": Place("hub", "walledai/XSTest", columns=("prompt", "type", "label")),
    "grounded_qa": Place("hub", "PatronusAI/HaluBench", columns=("passage", "question", "answer", "label")),
    "tool_use": Place(
        "hub", "Salesforce/xlam-function-calling-60k", "dataset", "train", columns=("query", "tools", "answers")
    ),
    "pollux": Place(
        "hub",
        "ai-forever/POLLUX",
        columns=("instruction", "reference_answer", "task_type", "task_subtype", "task_subsubtype", "difficulty"),
    ),
}
"""Task (``pollux`` for all of POLLUX) -> the data set on the Hub that it can use instead."""


def data_source(environ: Mapping[str, str] | None = None) -> str:
    """The value of ``EVALKIT_TASK_DATA``, by default ``shipped``.

    Raises
    ------
    ConfigError
        For a value that is neither ``shipped`` nor ``hub``.

    Examples
    --------
    >>> data_source({}), data_source({"EVALKIT_TASK_DATA": "hub"})
    ('shipped', 'hub')
    """
    given = (os.environ if environ is None else environ).get(DATA_VARIABLE, "").strip()
    if given and given not in SOURCES:
        raise ConfigError(f"{DATA_VARIABLE}={given!r} is unknown; allowed: {', '.join(SOURCES)}")
    return given or "shipped"


def data_folder(task: str) -> Path:
    """The folder with a task's shipped rows, ``test.jsonl``."""
    file = _DATA / task / "test.jsonl"
    if not file.is_file():
        raise ConfigError(f"the file with the rows of task {task!r}, {file}, is missing; install evalkit again")
    return file.parent


def place_of(task: str, source: str) -> Place:
    """The data set of a task (``pollux`` for all of POLLUX) in a source."""
    return HUB[task] if source == "hub" else Place("shipped", str(data_folder(task)))


def make_config(
    name: str, place: Place, read: Callable[..., Any], metrics: Sequence[Metric], *, tokens: int, version: int
) -> LightevalTaskConfig:
    """A task's config: `read` converts a row, `tokens` limits the answers; the metric `answered` is added."""
    return LightevalTaskConfig(
        name=name, prompt_function=read, hf_repo=place.repo, hf_subset=place.subset, hf_avail_splits=[place.split],
        evaluation_splits=[place.split], metrics=[*metrics, answered_metric()], generation_size=tokens, version=version,
    )  # fmt: skip


def version_of(place: Place, *more: str) -> int:
    """A number for LightEval's `version` that changes when the shipped rows, or `more`, change.

    LightEval stores the answers of a model by task config and row number, not by the content of the row.
    """
    file = Path(place.repo) / f"{place.split}.jsonl"
    rows = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else place.repo
    return int(hashlib.sha256(json.dumps([rows, place.subset, place.split, *more]).encode()).hexdigest()[:5], 16)


def check_row(row: Mapping[str, Any], columns: Sequence[str], where: str) -> None:
    """Raise for a row that lacks a column, and for few-shot examples.

    LightEval shows examples without their instruction, which in these tasks contains context, tools and earlier turns,
    and puts the instruction of the question before the first example.

    Raises
    ------
    ConfigError
        With the required and the existing columns.

    Examples
    --------
    >>> check_row({"prompt": "Hi"}, ["prompt", "label"], "org/data")
    Traceback (most recent call last):
    ...
    evalkit.errors.ConfigError: org/data lacks the column 'label'; expected prompt, label, got 'prompt'
    """
    if row.get("__few_shots"):
        text = f"{where}: use the task with |0, because LightEval would show few-shot examples without their context"
        raise ConfigError(text)
    if lacking := [name for name in columns if name not in row]:
        there = listed(sorted(name for name in row if not name.startswith("__")), most=30)
        raise ConfigError(f"{where} lacks the column {listed(lacking)}; expected {', '.join(columns)}, got {there}")
