"""Conversations: read from a cell, split into question, answer and what else was said and done, and shown."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
import pandas as pd

from evalkit.core.images import Image
from evalkit.errors import InputError, error_at
from evalkit.tables import message_forms as forms
from evalkit.tables.items import canonical, is_missing
from evalkit.tables.lists_in_texts import list_in
from evalkit.tables.message_files import file_part, is_unseen, mark_texts, marks_in, unseen
from evalkit.tables.message_forms import Message, is_result, shown_value, text_of, warn_of

QUESTION: Message = {"role": "question", "content": "(The question, which is shown apart, stood here.)"}
"""Stands in a conversation where the question stood, if something came between it and the answer."""
ANSWER: Message = {"role": "answer", "content": "(The answer, which is shown apart, stood here.)"}
"""Stands where the answer stood, if the assistant did something after it."""

CONVERSATIONS = ("conversation", "messages")
"""Inputs of rubrics that hold messages: what is none is refused."""
_COLUMNS = ("question", "answer", "conversation")
_SPEAKER_LINE = re.compile(
    r"^[ \t]*\**(user|assistant|system|tool|human|ai|bot|agent|customer|client|model|student|teacher)\**[ \t]*:\**",
    re.IGNORECASE | re.MULTILINE,
)


def split_messages(items: pd.DataFrame, column: str, inputs: Iterable[str] = _COLUMNS) -> pd.DataFrame:
    """Items with the columns `question`, `answer` and `conversation`, from a column of chats.

    Parameters
    ----------
    items
        The items.
    column
        Its cells are lists of messages in the form of OpenAI's chat API (``{"role": "user", "content": …}``), also as
        JSON text, or as pandas writes a list into a CSV file. `load_items` reads other forms (``form="anthropic"``).
    inputs
        The inputs of the rubric. What is no input of its own stays in the conversation.

    Returns
    -------
    pandas.DataFrame
        The items with `answer` (what the assistant said last), `question` (the user's last message before it) and
        `conversation`: all messages before the question and, if there are any, those between it and the answer, after
        a message that marks where the question stood. Calls of tools and their results are messages, too. Messages of
        the user after the answer are left out. None where there is none.

    Raises
    ------
    InputError
        For a missing column, and for a cell that is not a list of messages.

    Examples
    --------
    >>> chat = [{"role": "user", "content": "Is it on?"}, {"role": "assistant", "content": "Yes."}]
    >>> split_messages(pd.DataFrame({"log": [chat]}), "log")[["question", "answer"]].to_dict("list")
    {'question': ['Is it on?'], 'answer': ['Yes.']}
    """
    if column not in items.columns:
        raise InputError(f"the items have no column {column!r} with messages")
    wanted = [name for name in _COLUMNS if name in {name.removesuffix("?") for name in inputs}]
    names = items["item_id"] if "item_id" in items.columns else items.index
    unknown, rows = set[str](), list[dict[str, Any]]()
    for name, cell in zip(names, items[column].tolist(), strict=True):
        with error_at(f"item {name!r}", InputError):
            rows.append(split(messages_of(cell, unknown), wanted))
    warn_of(unknown, f"column {column!r}")
    return items.assign(**{name: pd.Series([row[name] for row in rows], items.index, object) for name in wanted})


def messages_of(cell: Any, unknown: set[str] | None = None) -> list[Message]:
    """The messages of a cell, in one form; a missing cell has none. Fields not shown are added to `unknown`.

    Raises
    ------
    InputError
        When the cell is not a list of messages.
    """
    value = list_of(cell)
    return forms.stated_messages(value, unknown) if value != [] else []


def list_of(cell: Any) -> Any:
    """The list in a cell, also as JSON text or as pandas writes one; empty if the cell is missing."""
    try:
        value = canonical(orjson.loads(cell) if isinstance(cell, str) else cell)
    except orjson.JSONDecodeError:
        value = canonical(list_in(cell) or cell)
    return [] if value is None or (isinstance(value, str) and not value.strip()) else value


def holds_chats(cells: Iterable[Any]) -> bool:
    """Whether there are cells, and each of those that are not missing is a list of messages."""
    present = [cell for cell in cells if not is_missing(cell)]
    try:
        return bool(present) and all(messages_of(cell) for cell in present)
    except InputError:
        return False


def conversation_value(value: Any, unknown: set[str] | None = None) -> Any:
    """A canonical value of an input in `CONVERSATIONS` as it is hashed and shown: messages, or texts.

    A JSON text of messages becomes a list; one of nothing but texts stays as it is, since judges have read such chats
    as JSON. Fields not shown are added to `unknown`.

    Raises
    ------
    InputError
        For anything else that is no text, with the form that it looks like.
    """
    if isinstance(value, list) and len({*map(type, value)}) < 2 and forms.is_plain(value):  # no texts among messages
        return value
    parsed = value
    if isinstance(value, str):
        try:
            parsed = canonical(orjson.loads(value)) if value.lstrip()[:1] in ("[", "{") else value
        except orjson.JSONDecodeError:
            return shown_value(value)
    elements = parsed if isinstance(parsed, list) else [parsed]
    is_text = not any(isinstance(element, Mapping) for element in elements)
    if is_text or any(map(is_unseen, elements)) or (isinstance(parsed, Mapping) and file_part(parsed)):
        return shown_value(value)
    messages = forms.stated_messages(parsed, unknown)
    return shown_value(value) if messages == parsed and isinstance(value, str) else messages


def split(
    messages: Sequence[Message], inputs: Iterable[str] = _COLUMNS, *, answer: str | None = None
) -> dict[str, Any]:
    """Question, answer and conversation of messages; None for what there is none of.

    Parameters
    ----------
    messages
        Messages in the one form.
    inputs
        Which of the three are wanted apart; the conversation holds the others in their places.
    answer
        The answer, if it is known; it need not be among the messages, which then all came before it.
    """
    wanted = {*inputs}
    at, is_there = _place_of_answer(messages, answer)
    asked = max((n for n, one in enumerate(messages[:at]) if is_question(one)), default=-1)
    end = next((n for n in range(at + is_there, len(messages)) if is_question(messages[n])), len(messages))
    is_whole = is_there and (answer is None or words(messages[at]["content"]) == words(answer))
    unsaid = "" if answer is None and forms.speakers(messages) else answer
    shown = _told(messages[at]) if is_whole else unsaid
    before, turn = list(messages[: asked + 1]), list(messages[asked + 1 : end])
    place = at - asked - 1
    if "answer" not in wanted:
        turn += messages[end:]
        if not is_there and shown:
            turn.insert(place, {"role": "assistant", "content": shown})
    elif is_there:
        mine = turn[place]
        calls = {"role": mine["role"], "content": "", "tool_calls": mine.get("tool_calls")}
        later = [
            one
            for one in turn[place + 1 :]
            if one["role"] != mine["role"] or str(one["content"]).strip() or len(one) > 2
        ]
        after = [*([calls] if calls["tool_calls"] else []), *later]
        earlier = turn[:place]
        if not is_whole:  # the rest of it stands amid calls
            earlier = [one if one["role"] != mine["role"] or is_result(one) else _without_words(one) for one in earlier]
        turn = earlier + ([ANSWER, *after] if after else [])
    if before and asked >= 0 and "question" in wanted:
        before[-1:] = [QUESTION] if turn else []
    question = None if asked < 0 else _told(messages[asked])
    return {"question": question, "answer": shown, "conversation": [*before, *turn] or None}


def without_answer(conversation: list[Any], question: Any, answer: Any) -> list[Any]:
    """A conversation of an item without the answer, and its question, that the item has as inputs of their own.

    It stays as it is where the answer does not follow the question, or nothing else would be left of it.
    """
    text = words(answer) if isinstance(answer, str) else ""
    if not text or not any(isinstance(turn, dict) and words(turn.get("content")) == text for turn in conversation):
        return conversation
    messages = forms.read_messages(conversation) or []
    number, is_there = _place_of_answer(messages, None)
    questions = [words(turn["content"]) for turn in messages[:number] if is_question(turn)][-1:]
    is_asked = question is None or questions == [words(question)]
    if not (is_there and is_asked and words(messages[number]["content"]) == text):
        return conversation
    inputs = ("answer", "conversation", *(() if question is None else ("question",)))
    return split(messages, inputs, answer=answer)["conversation"] or []


def _place_of_answer(messages: Sequence[Message], answer: str | None) -> tuple[int, bool]:
    """The number of the message that is the answer and True, or of the message that follows it and False."""
    roles = forms.speakers(messages)
    mine = [n for n, one in enumerate(messages) if one["role"] in roles and not is_result(one)]
    if answer is not None:
        if same := [n for n in mine if words(messages[n]["content"]) == words(answer)]:
            return same[-1], True
        # calls of tools of the provider stand amid an answer
        last = max((n for n, one in enumerate(messages) if is_question(one)), default=-1)
        pieces = [n for n in mine if n > last and words(messages[n]["content"])]
        whole = "\n".join(words(messages[n]["content"]) for n in pieces)
        return (pieces[-1], True) if pieces and whole == words(answer) else (len(messages), False)
    if not mine:
        return len(messages), False
    # of the assistant's last turn, what it said last; if it only called tools, it said nothing at the end of the turn
    start = max((n for n, one in enumerate(messages[: mine[-1]]) if is_question(one)), default=-1)
    spoken = [n for n in mine if n > start and str(forms.said(messages[n]["content"])).strip()]
    spoken = spoken or [n for n in mine if n > start and "tool_calls" not in messages[n]]
    if spoken:
        return spoken[-1], True
    return next((n for n in range(mine[-1], len(messages)) if is_question(messages[n])), len(messages)), False


def words(content: Any) -> str:
    """The texts of a content, stripped."""
    parts = content if isinstance(content, list) else [content]
    return "\n".join(text for part in parts if (text := text_of(part)) is not None).strip()


def _without_words(message: Message) -> Message:
    content = message["content"]
    kept = [part for part in content if text_of(part) is None] if isinstance(content, list) else []
    return {**message, "content": kept or ""}


def _told(message: Message) -> Any:
    """What is said in a message, with the fields beside it: a text, or a list if images or files stand in it."""
    value = forms.said(message["content"])
    fields = message.get("shown")
    parts = [block for block in value if block != ""] if isinstance(value, list) else [value] if value else []
    value = [*parts, as_json(fields)] if fields else value
    return value if isinstance(value, str) or unseen(value) else content_text(value)


def further(message: Message) -> Message:
    """The fields of a message in the one form that are shown as JSON."""
    name = {} if is_result(message) or "name" not in message else {"name": message["name"]}
    return {**name, **message.get("shown", {})}


def is_question(message: Message) -> bool:
    """Whether the user says something in a message, which may be a question."""
    return message["role"].lower() in forms.USERS and not is_result(message)


def turns(messages: Sequence[Message], longest: int | None = None) -> Iterator[tuple[int, str, str]]:
    """What is shown of messages in the one form: number of the message, who did what, and the text.

    A text of a tool's result with more characters than `longest` is cut in its middle, in two parts.

    Examples
    --------
    >>> call = {"id": "1", "name": "order", "arguments": {"id": 7}}
    >>> for turn in turns([{"role": "assistant", "content": "Wait.", "tool_calls": [call]}]):
    ...     print(turn)
    (1, 'assistant', 'Wait.')
    (1, 'assistant: call 1, order', '{"id":7}')
    """
    names = {call["id"]: call["name"] for message in messages for call in message.get("tool_calls", [])}
    for at, message in enumerate(messages, 1):
        calls = message.get("tool_calls", [])
        fields, blocks = further(message), list(_blocks(message, names))
        if not blocks and (fields or not calls):
            blocks = [(str(message["role"]), "")]
        if fields:
            heading, text = blocks[0]
            blocks[0] = heading, f"{text}\n{as_json(fields)}"
        if longest is not None and is_result(message):
            blocks = [piece for heading, text in blocks for piece in _cut(heading, text, longest)]
        blocks += [(f"{message['role']}: call {call['id']}, {call['name']}", _called(call)) for call in calls]
        # one line: names come from logs, and what follows a line break would look like another heading
        yield from ((at, " ".join(heading.split()), text) for heading, text in blocks)


def _cut(heading: str, text: str, longest: int) -> list[tuple[str, str]]:
    """A text with its heading; of one that is too long the two ends, and in a heading, not in a text, what was cut."""
    if len(text) <= longest:
        return [(heading, text)]
    end = longest // 2
    further_heading = f"{heading}, after {len(text) - longest} characters that are left out"
    return [(heading, text[: longest - end]), (further_heading, text[len(text) - end :])]


def cut_chars(inputs: Iterable[Any], longest: int) -> int:
    """How many characters of tools' results `turns` leaves out of inputs as they are shown."""
    conversations = [forms.read_messages(value) or [] for value in inputs if isinstance(value, list)]
    whole, cut = (
        sum(len(text) for messages in conversations for *_, text in turns(messages, limit)) for limit in (None, longest)
    )
    return whole - cut


def _blocks(message: Message, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Heading and text of what a message says: texts in a row together, reasoning and marks by themselves."""
    heading = str(message["role"])
    error = message.get("error") if is_result(message) else None
    if is_result(message):
        number = str(message.get("tool_call_id", ""))
        about = [number and f"result of call {number}", message.get("name") or names.get(number), error and "error"]
        heading += "".join([": ", ", ".join(map(str, filter(None, about)))] if any(about) else [])
    content = message["content"]
    parts = content if isinstance(content, list) else [content] if content or error or is_result(message) else []
    texts: list[str] = []
    for part in parts:
        is_reasoning = isinstance(part, Mapping) and part.get("type") == "reasoning"
        if not is_reasoning and not is_unseen(part):
            texts.append(_text(part))
            continue
        if texts:
            yield heading, "\n".join(texts)
        texts = []
        if is_unseen(part):
            kind, text = mark_texts(part)
            yield f"{heading}: {kind}", text
        else:
            yield f"{heading}: reasoning", part.get("text") or "(not shown)"
    if isinstance(error, str) and error not in "\n".join(texts):
        texts = [*filter(None, texts), error]
    if texts:
        yield heading, "\n".join(texts)


def _text(part: Any) -> str:
    if isinstance(part, Mapping) and isinstance(part.get("text"), str) and part.get("type") != "reasoning":
        return str(part["text"])
    return part if isinstance(part, str) else as_json(part)


def content_text(parts: Iterable[Any]) -> str:
    """The parts of a content as one text, with marks in place of images and files."""
    return "\n".join(f"({': '.join(mark_texts(part))})" if is_unseen(part) else _text(part) for part in parts)


def _called(call: Mapping[str, Any]) -> str:
    """The arguments of a call, and what was wrong with them."""
    arguments = call.get("arguments")
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    error = call.get("error") or arguments_of(call)[1]
    return f"{text}\n(error: {error})" if error else text


def arguments_of(call: Mapping[str, Any]) -> tuple[Any, str]:
    """The arguments of a call, read if they are JSON; and what is wrong with them, if they are another text."""
    arguments = call.get("arguments")
    try:
        return (orjson.loads(arguments) if isinstance(arguments, str) else arguments), ""
    except orjson.JSONDecodeError:
        return arguments, "invalid JSON" if arguments else ""


def as_json(value: Any) -> str:
    """A value as JSON, indented."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2).decode()


def _shown(value: Any, name: str) -> Any:
    """A value of an item in the form that is shown; as text if it is a number, or no input can have it."""
    if is_missing(value) or isinstance(value, (bool, int, float)):
        return "" if is_missing(value) else str(value)
    try:
        return (conversation_value if name in CONVERSATIONS else shown_value)(canonical(value))
    except InputError:
        return str(value)


def value_turns(value: Any, name: str = "") -> list[tuple[int, str, str]]:
    r"""The turns of a conversation as `turns` gives them, with the number of each message; empty if it is none.

    A text is one if at least two of its lines start with a speaker, as in ``User: …``. `name` is the input of the
    rubric that has the value.

    Examples
    --------
    >>> value_turns([{"role": "user", "content": "Is it on?"}, {"role": "assistant", "content": "Yes."}])
    [(1, 'user', 'Is it on?'), (2, 'assistant', 'Yes.')]
    >>> value_turns("User: Is it on?\nAssistant: Yes.\nIt is."), value_turns("Note: it is on.")
    ([(1, 'User', 'Is it on?'), (2, 'Assistant', 'Yes.\nIt is.')], [])
    """
    shown = _shown(value, name)
    if isinstance(shown, list):
        return [*turns(forms.read_messages(shown) or [])]
    starts = [*_SPEAKER_LINE.finditer(shown)] if isinstance(shown, str) else []
    if len(starts) < 2 or shown[: starts[0].start()].strip():
        return []
    ends = [start.start() for start in starts[1:]] + [len(shown)]
    texts = [shown[start.end() : end].strip() for start, end in zip(starts, ends, strict=True)]
    return [(number, start[1], text) for number, (start, text) in enumerate(zip(starts, texts, strict=True), 1)]


def value_text(value: Any, name: str = "") -> str:
    """A value of an item for people to read: empty if missing; the entries of a list and messages as paragraphs.

    `name` is the input of the rubric that has the value.
    """
    shown = _shown(value, name)
    messages = forms.read_messages(shown) if isinstance(shown, list) else None
    if messages is not None:
        return "\n\n".join(f"{heading}: {text}" for _, heading, text in turns(messages))
    if isinstance(shown, list) and not any(map(is_unseen, shown)):
        return "\n\n".join(map(value_text, shown))
    if isinstance(shown, list) or is_unseen(shown):
        return content_text(shown if isinstance(shown, list) else [shown])
    return orjson.dumps(shown).decode() if isinstance(shown, dict) else str(shown)


def image_urls(value: Any, largest: int) -> list[str]:
    """The images of a value of an item as ``data:`` URLs of at most `largest` characters; none whose file is gone."""
    urls = list[str]()
    for mark in marks_in(_shown(value, "")):
        if isinstance(mark, Image) and mark.header is not None:
            with contextlib.suppress(OSError):
                urls.append(mark.sent["url"])
    return [url for url in urls if len(url) <= largest]
