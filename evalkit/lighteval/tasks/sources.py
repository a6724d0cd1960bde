"""The data of a task, its documents and its config: the files that ship with evalkit, or a data set of the Hub."""

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
from lighteval.tasks.requests import Doc

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
        raise ConfigError(
            f"{where}: use the task with |0, because LightEval would show few-shot examples without their context"
        )
    if lacking := [name for name in columns if name not in row]:
        there = listed(sorted(name for name in row if not name.startswith("__")), most=30)
        raise ConfigError(f"{where} lacks the column {listed(lacking)}; expected {', '.join(columns)}, got {there}")


Row = Mapping[str, Any]

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "conversation_helpfulness": ("question", "conversation", "category"),
    "instruction_following_judged": ("question", "instructions_id_list", "kwargs", "category"),
    "safety_guardrail": ("question", "label", "category"),
    "grounded_qa": ("question", "context", "reference_answer", "category"),
    "tool_use": ("question", "tools", "expected", "category"),
}
"""Task -> the columns of its shipped rows; all but the question are in `doc.specific`."""

_ROLES = {"user": "User", "assistant": "Assistant", "system": "System"}
_GROUNDED = (
    "Answer the question from the context alone, as briefly as you can. If the context does not say, reply: "
    "The context does not say.\n\nContext:\n{context}\n\nQuestion: "
)
_TOOLS = (
    "You can call these tools:\n{tools}\n\nReply with a JSON array of the calls that the request needs and nothing "
    'else, each call as {{"name": "…", "arguments": {{…}}}}. If no tool fits the request, reply [].\n\nRequest: '
)


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads the rows of one task, shipped or of the Hub; LightEval's prompt function."""

    task: str
    place: Place

    def __call__(self, row: Row, task_name: str) -> Doc | None:
        """The document of a row; None leaves the row out."""
        values: Row | None = row
        if self.place.source == "hub":
            check_row(row, self.place.columns, HUB[self.task].repo)
            values = _FROM_HUB[self.task](row)
        else:
            check_row(row, COLUMNS[self.task], f"task {task_name!r}")
        if values is None:
            return None
        specific = {name: values[name] for name in COLUMNS[self.task][1:]}
        instruction = None
        if "conversation" in specific:
            turns = [{"role": str(turn["role"]), "content": str(turn["content"])} for turn in values["conversation"]]
            specific["conversation"], instruction = turns, transcript(turns)
        elif "context" in specific:
            specific["context"], instruction = [values["context"]], _GROUNDED.format(context=values["context"])
        elif "tools" in specific:
            instruction = _TOOLS.format(tools=values["tools"])
        gold = specific.get("reference_answer") or specific.get("expected")
        return Doc(
            task_name=task_name, query=values["question"], instruction=instruction, choices=[gold] if gold else [],
            gold_index=[0] if gold else [], specific=specific,
        )  # fmt: skip


def transcript(conversation: Sequence[Mapping[str, str]]) -> str | None:
    """The turns before a question, as the model sees them; None where there are none.

    Examples
    --------
    >>> print(transcript([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]).strip())
    The conversation so far:
    <BLANKLINE>
    User: Hi
    <BLANKLINE>
    Assistant: Hello!
    <BLANKLINE>
    Write the assistant's next reply. The user now says:
    """
    if not conversation:
        return None
    turns = "\n\n".join(f"{_ROLES.get(turn['role'], turn['role'])}: {turn['content']}" for turn in conversation)
    return f"The conversation so far:\n\n{turns}\n\nWrite the assistant's next reply. The user now says:\n\n"


def _from_ifeval(row: Row) -> Row:
    """A request with instructions in the form of IFEval, whose name of the list LightEval's metric has changed."""
    ids, kwargs = row["instruction_id_list"], row["kwargs"]
    return {"question": row["prompt"], "instructions_id_list": ids, "kwargs": kwargs, "category": "ifeval"}


def _from_xstest(row: Row) -> Row:
    """Safe prompts that look unsafe, and their unsafe contrasts."""
    _check_label("safety_guardrail", row, ("safe", "unsafe"))
    return {"question": row["prompt"], "label": row["label"], "category": row["type"]}


def _from_halubench(row: Row) -> Row | None:
    """The rows whose answer is faithful (label PASS) and not blank, so that the answer is a reference."""
    _check_label("grounded_qa", row, ("PASS", "FAIL"))
    if row["label"] == "FAIL" or not str(row["answer"]).strip():
        return None
    texts = {"question": row["question"], "context": row["passage"], "reference_answer": row["answer"]}
    return {name: str(text) for name, text in texts.items()} | {"category": str(row.get("source_ds") or "")}


def _check_label(task: str, row: Row, allowed: Sequence[str]) -> None:
    if row["label"] not in allowed:
        raise ConfigError(f"{HUB[task].repo}: label is {row['label']!r}; allowed: {', '.join(allowed)}")


_FROM_HUB: Mapping[str, Callable[[Row], Row | None]] = {
    # the first turn: the second refers to an answer that the model would have to give in between
    "conversation_helpfulness": lambda row: {**row, "question": row["turns"][0], "conversation": []},
    "instruction_following_judged": _from_ifeval,
    "safety_guardrail": _from_xstest,
    "grounded_qa": _from_halubench,
    "tool_use": lambda row: {**row, "question": row["query"], "expected": row["answers"], "category": "xlam"},
}
"""Task -> from a row of the Hub to the form of the shipped rows."""
