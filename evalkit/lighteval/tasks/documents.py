"""From a row to LightEval's document, for the shipped rows and for those of the Hub.

`query` is the last message, and so the rubric's question. Everything else that the model must see (a conversation, a
context, tools) is in `instruction`, which LightEval puts before it. Values whose form differs from row to row are JSON
texts, because a details file has one type per field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lighteval.tasks.requests import Doc

from evalkit.errors import ConfigError
from evalkit.lighteval.tasks.sources import HUB, Place, check_row

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
