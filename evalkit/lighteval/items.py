"""LightEval's documents and responses as items: the same fields, and so the same reply keys, as elsewhere. Halves of
surrogate pairs in them, which some models write, are replaced, so that texts can be sent and stored.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from evalkit.core.own_rules import OwnRule
from evalkit.errors import InputError, counted, listed
from evalkit.rubrics import Rubric
from evalkit.rubrics.item_criteria import refuse_lists
from evalkit.rubrics.rubric import REQUIREMENT
from evalkit.tables.items import canonical, is_missing
from evalkit.tables.message_forms import Message, said
from evalkit.tables.messages import conversation_value, is_question, split, value_text

Fields = Mapping[str, Any]
"""Input of the rubric -> key in `doc.specific`, or a function of the doc."""

_AS_TEXT = "conversation so far"
_FROM_SPECIFIC = {"context": "context", "reference": "reference_answer"}


def answer_of(response: Any) -> str:
    """The judged part of a response: its first text, without what LightEval recognises as reasoning.

    Half a surrogate pair becomes U+FFFD, so that the other answers of the task can be judged.
    """
    texts = response.final_text
    return repaired(str(texts[0])) if texts and texts[0] is not None else ""


def answers_of(responses: Sequence[Any], docs: Sequence[Any]) -> list[str]:
    """The judged part of each response.

    Raises
    ------
    InputError
        When there are not as many responses as documents.
    """
    if len(responses) != len(docs):
        raise InputError(
            f"got {counted(len(responses), 'response')} for {counted(len(docs), 'document')}; pass one response per "
            "document"
        )
    return [answer_of(response) for response in responses]


def fields_text(fields: Fields) -> dict[str, str]:
    """The fields as receipts hold them: keys, and functions by name and hash of their source."""
    texts = [f"{name}={_place_text(source)}" for name, source in sorted(fields.items())]
    return {"fields": ", ".join(texts)} if texts else {}


def _place_text(source: Any) -> str:
    if isinstance(source, (str, Mapping)):
        return str(source)
    # an object has no code of its own, but an address that is another one in each process
    return str(OwnRule(source)) if inspect.isfunction(source) else re.sub(r" at 0x[0-9a-f]+", "", repr(source))


def items_of(docs: Sequence[Any], responses: Iterable[Any], rubric: Rubric, fields: Fields) -> pd.DataFrame:
    """One item per document, in order: `item_id` and the rubric's inputs.

    ``question`` is the document's instruction and query, ``answer`` the response. ``context`` and ``reference`` come
    from `doc.specific` (``context``, ``reference_answer``; without the latter a gold choice is the reference), and so
    does every other input, under its own name. If the rubric has no input ``answer``, question and response are the
    last turns of ``conversation``.

    Raises
    ------
    InputError
        When a document lacks an input of the rubric.
    """
    rows = [
        {"item_id": str(number)} | _row(doc, repaired(answer_of(response)), rubric, fields)
        for number, (doc, response) in enumerate(zip(docs, responses, strict=True))
    ]
    names = [name for name in rubric.input_names if any(name in row for row in rows)]
    return pd.DataFrame(rows, columns=["item_id", *names])


def _row(doc: Any, answer: str, rubric: Rubric, fields: Fields) -> dict[str, Any]:
    """The inputs of a document and its answer; InputError if one is missing."""
    names = rubric.input_names
    values = {name: _input(doc, name, fields) for name in names if name != "answer" or name in fields}
    row = {name: repaired(value) for name, value in values.items() if value is not None}
    if "answer" in names and "answer" not in fields:
        row["answer"] = answer
    elif "conversation" in names and "answer" not in fields:
        row["conversation"] = _whole(row.get("conversation"), doc, answer, names)
    if lacking := [name for name in rubric.required_inputs if name not in row]:
        raise InputError(
            f"{_where(doc)}: rubric {rubric.id!r} needs {listed(lacking)}; put it into doc.specific (it has "
            f"{listed(doc.specific or {})}), or pass fields="
        )
    return row


def check_fields(docs: Iterable[Any], rubric: Rubric, fields: Fields) -> None:
    """Raise if a document lacks an input of the rubric; called before a model is loaded."""
    key = fields.get(REQUIREMENT) if rubric.has_requirements else None
    for doc in docs:
        row = _row(doc, "", rubric, fields)
        if isinstance(key, str):
            refuse_lists([row.get(REQUIREMENT)], f"{_where(doc)}: {key!r}", key, "fields")


def _where(doc: Any) -> str:
    return f"task {doc.task_name!r}, document {doc.id!r}"


def _input(doc: Any, name: str, fields: Fields) -> Any:
    place = fields.get(name)
    if callable(place):
        return _made(place, doc, name)
    if place is None and name == "question":
        return _asked(doc, question_of(doc))
    value = (doc.specific or {}).get(place or _FROM_SPECIFIC.get(name, name))
    if name == "reference" and place is None and _blank(value):
        value = next((gold for gold in _golds(doc) if not _blank(gold)), None)
    return None if is_missing(value) or (name in ("reference", "conversation") and _blank(value)) else value


def question_of(doc: Any) -> Any:
    r"""The query of a document after its instruction, as the model sees both; LightEval may have joined them.

    Examples
    --------
    >>> from lighteval.tasks.requests import Doc
    >>> question_of(Doc(query="What is 2 + 2?", instruction="Answer in French.", choices=[], gold_index=[]))
    'Answer in French.\n\nWhat is 2 + 2?'
    """
    instruction: Any = getattr(doc, "instruction", None)
    if _blank(instruction) or str(doc.query or "").startswith(instruction):
        return doc.query
    return f"{instruction.rstrip()}\n\n{doc.query or ''}"


def _asked(doc: Any, text: Any) -> Any:
    """The text with marks for the document's images, which judges cannot be shown."""
    pictures = [{"type": "image", "unseen": "an image of the document"} for _ in getattr(doc, "images", None) or ()]
    return [{"type": "text", "text": text}, *pictures] if pictures else text


def _whole(given: Any, doc: Any, answer: str, names: Sequence[str]) -> list[Message]:
    """A conversation that ends with the query and the answer; it may have the query already."""
    shown = conversation_value(canonical(given))
    messages: list[Message] = []
    if isinstance(shown, list) and all(isinstance(one, Mapping) and "role" in one for one in shown):
        messages += shown
    elif text := value_text(shown):
        messages.append({"role": _AS_TEXT, "content": text})
    texts = [text for one in messages if (text := str(said(one["content"])).strip())]
    instruction = canonical(repaired(getattr(doc, "instruction", None) or ""))
    is_shown = bool(texts) and all(text in instruction for text in texts)  # it is the conversation, written out
    if not _holds_query(messages, canonical(repaired(doc.query))) or getattr(doc, "images", None):
        question = doc.query if is_shown else question_of(doc)
        messages.append({"role": "user", "content": repaired(_asked(doc, question))})
    elif instruction.strip() and not is_shown:
        messages.insert(0, {"role": "system", "content": instruction})
    messages.append({"role": "assistant", "content": answer})
    return split(messages, names)["conversation"] or []


def _holds_query(messages: Sequence[Message], query: str) -> bool:
    """Whether a conversation ends with the query, or the query is all of the conversation, written out."""
    query = query.strip()
    if not messages or not (is_question(messages[-1]) or messages[-1]["role"] == _AS_TEXT):
        return not query
    texts = [str(said(one["content"])).strip() for one in messages]
    return query in texts[-1] or (len(texts) > 1 and all(text in query for text in texts))


def _made(function: Callable[[Any], Any], doc: Any, name: str) -> Any:
    try:
        value = function(doc)
    except (LookupError, TypeError, ValueError, AttributeError) as problem:
        raise InputError(
            f"{_where(doc)}: the function in fields= for input {name!r} raised {type(problem).__name__}: {problem}"
        ) from problem
    return None if is_missing(value) else value


def _golds(doc: Any) -> list[Any]:
    try:
        return list(doc.get_golds())
    except (IndexError, TypeError):  # a task without choices has none
        return []


def _blank(one: Any) -> bool:
    return is_missing(one) or (isinstance(one, str) and not one.strip()) or (isinstance(one, list) and not one)


def repaired(value: Any) -> Any:
    r"""The value with U+FFFD for each half of a surrogate pair, in strings, lists and mappings; whole pairs are joined.

    One such character would lose the other answers of a task, or LightEval's files.

    Examples
    --------
    >>> repaired({"text": ["a \ud83d b"], "n": 1}) == {"text": ["a \ufffd b"], "n": 1}
    True
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return value
    if isinstance(value, Mapping):
        return {repaired(name): repaired(inner) for name, inner in value.items()}
    return type(value)(repaired(inner) for inner in value) if isinstance(value, (list, tuple)) else value


_TEXTS = ("query", "instruction", "choices", "specific", "input", "text", "text_post_processed", "reasonings")


def repair(*parts: Any) -> None:
    """Repair the texts of LightEval's documents and responses, in place; a response's many tokens stay as they are."""
    for part in parts:
        for name in _TEXTS:
            if hasattr(part, name):
                setattr(part, name, repaired(getattr(part, name)))
