"""From a row to LightEval's document, for the shipped rows and for those of the hub.

`query` is what was asked last, and so the rubric's question. What the model must see besides (a conversation, a
context, tools) stands in `instruction`, which LightEval puts before it. What differs in form from row to row is kept
as JSON text: a details file holds one type per field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lighteval.tasks.requests import Doc

from evalkit.errors import ConfigError
from evalkit.lighteval.tasks.sources import HUB, check_row

Row = Mapping[str, Any]
Reader = Callable[..., "Doc | None"]
"""Row and task name -> document; None leaves the row out."""

_ROLES = {"user": "User", "assistant": "Assistant", "system": "System"}


def _document(
    task_name: str, query: str, specific: Mapping[str, Any], *, instruction: str | None = None, gold: str = ""
) -> Doc:
    return Doc(
        task_name=task_name,
        query=query,
        instruction=instruction,
        choices=[gold] if gold else [],
        gold_index=[0] if gold else [],
        specific=dict(specific),
    )


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


def read_conversation(row: Row, task_name: str) -> Doc:
    """A message with what was said before it."""
    check_row(row, ("question", "conversation", "category"), f"task {task_name!r}")
    turns = [{"role": str(turn["role"]), "content": str(turn["content"])} for turn in row["conversation"]]
    specific = {"conversation": turns, "category": row["category"]}
    return _document(task_name, row["question"], specific, instruction=transcript(turns))


def read_mt_bench(row: Row, task_name: str) -> Doc:
    """The first turn: the second one refers to an answer that the model would have to give in between."""
    place = HUB["conversation_helpfulness"]
    check_row(row, place.columns, place.repo)
    return _document(task_name, row["turns"][0], {"conversation": [], "category": row["category"]})


def read_instruction(row: Row, task_name: str) -> Doc:
    """A request with rules that can be checked."""
    check_row(row, ("question", "rules", "category"), f"task {task_name!r}")
    return _document(task_name, row["question"], {"rules": row["rules"], "category": row["category"]})


def read_ifeval(row: Row, task_name: str) -> Doc:
    """A request whose rules LightEval's IFEval checkers know."""
    place = HUB["instruction_following_judged"]
    check_row(row, place.columns, place.repo)
    rules = [
        {"rule": "ifeval", "id": name, "value": {key: one for key, one in (value or {}).items() if one is not None}}
        for name, value in zip(row["instruction_id_list"], row["kwargs"], strict=True)
    ]
    specific = {"rules": json.dumps(rules, ensure_ascii=False), "category": "ifeval"}
    return _document(task_name, row["prompt"], specific)


def read_guarded(row: Row, task_name: str) -> Doc:
    """A request that is safe to answer or not."""
    check_row(row, ("question", "label", "category"), f"task {task_name!r}")
    return _document(task_name, row["question"], {"label": row["label"], "category": row["category"]})


def read_xstest(row: Row, task_name: str) -> Doc:
    """XSTest: safe prompts that look unsafe, and their unsafe contrasts."""
    place = HUB["safety_guardrail"]
    check_row(row, place.columns, place.repo)
    if row["label"] not in ("safe", "unsafe"):
        raise ConfigError(f"{place.repo}: label is {row['label']!r}; allowed are safe, unsafe")
    return _document(task_name, row["prompt"], {"label": row["label"], "category": row["type"]})


_GROUNDED = (
    "Answer the question from the context alone, as briefly as you can. If the context does not say, reply: "
    "The context does not say.\n\nContext:\n{context}\n\nQuestion: "
)


def _grounded(task_name: str, question: str, context: str, reference: str, category: str) -> Doc:
    specific = {"context": [context], "reference_answer": reference, "category": category}
    return _document(task_name, question, specific, instruction=_GROUNDED.format(context=context), gold=reference)


def read_grounded(row: Row, task_name: str) -> Doc:
    """A question with the text that answers it, or does not."""
    check_row(row, ("question", "context", "reference_answer", "category"), f"task {task_name!r}")
    return _grounded(task_name, row["question"], row["context"], row["reference_answer"], row["category"])


def read_halubench(row: Row, task_name: str) -> Doc | None:
    """HaluBench: of its rows those whose answer is faithful (label PASS), so that the answer is a reference."""
    place = HUB["grounded_qa"]
    check_row(row, place.columns, place.repo)
    if row["label"] not in ("PASS", "FAIL"):
        raise ConfigError(f"{place.repo}: label is {row['label']!r}; allowed are PASS, FAIL")
    if row["label"] == "FAIL":
        return None
    category = str(row.get("source_ds") or "")
    return _grounded(task_name, str(row["question"]), str(row["passage"]), str(row["answer"]), category)


_TOOLS = (
    "You can call these tools:\n{tools}\n\nReply with a JSON array of the calls that the request needs and nothing "
    'else, each call as {{"name": "…", "arguments": {{…}}}}. If no tool fits the request, reply [].\n\nRequest: '
)


def _tooled(task_name: str, query: str, tools: str, expected: str, category: str) -> Doc:
    specific = {"tools": tools, "expected": expected, "category": category}
    return _document(task_name, query, specific, instruction=_TOOLS.format(tools=tools), gold=expected)


def read_tools(row: Row, task_name: str) -> Doc:
    """A request with tools and the calls it needs."""
    check_row(row, ("question", "tools", "expected", "category"), f"task {task_name!r}")
    return _tooled(task_name, row["question"], row["tools"], row["expected"], row["category"])


def read_xlam(row: Row, task_name: str) -> Doc:
    """xlam-function-calling: tools and answers are JSON texts."""
    place = HUB["tool_use"]
    check_row(row, place.columns, place.repo)
    return _tooled(task_name, row["query"], row["tools"], row["answers"], "xlam")


READERS: Mapping[str, Mapping[str, Reader]] = {
    "conversation_helpfulness": {"shipped": read_conversation, "hub": read_mt_bench},
    "instruction_following_judged": {"shipped": read_instruction, "hub": read_ifeval},
    "safety_guardrail": {"shipped": read_guarded, "hub": read_xstest},
    "grounded_qa": {"shipped": read_grounded, "hub": read_halubench},
    "tool_use": {"shipped": read_tools, "hub": read_xlam},
}
"""Task -> source -> the function that reads its rows."""
