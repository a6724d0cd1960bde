"""Conversations: read from a cell, split into question, answer and what else was said and done, and shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
import pandas as pd

from evalkit.errors import InputError
from evalkit.tables import message_forms as forms
from evalkit.tables.items import canonical, is_missing
from evalkit.tables.lists_in_texts import list_in
from evalkit.tables.message_fields import ABOUT, kind_of_files
from evalkit.tables.message_forms import Message
from evalkit.tables.typed_messages import as_messages

QUESTION: Message = {"role": "question", "content": "(The question, which is shown apart, stood here.)"}
"""Stands in a conversation where the question stood, if something came between it and the answer."""
ANSWER: Message = {"role": "answer", "content": "(The answer, which is shown apart, stood here.)"}
"""Stands where the answer stood, if the assistant did something after it."""

_ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant", "observation": "tool"}
_COLUMNS = ("question", "answer", "conversation")
_ANSWERS = ("choices", "candidates", "response", "output", "completion", "final_output", "structured_response")
_LOGS = ("messages", "traj", "conversation", "conversations", "contents", "input")
_SYSTEMS = ("system", "instructions", "system_prompt", "systemPrompt", "system_instruction", "systemInstruction")
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
        Its cells are lists of messages of OpenAI (``{"role": "user", "content": …}``), Anthropic, LangChain, AutoGen,
        Pydantic AI, tau-bench, Inspect or ShareGPT (``{"from": "human", "value": …}``), also with blocks of Bedrock or
        the AI SDK; an object that has them
        as ``messages`` or ``traj`` (and perhaps the answer as ``choices``, ``candidates``, ``response``, ``output`` or
        ``completion``);
        or one of these as JSON text, or a list as pandas writes it into a CSV file.
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
    wanted = [name for name in _COLUMNS if name in {one.removesuffix("?") for one in inputs}]
    names = items["item_id"] if "item_id" in items.columns else items.index
    rows = [
        split(_messages_of_item(name, cell), wanted) for name, cell in zip(names, items[column].tolist(), strict=True)
    ]
    return items.assign(**{name: pd.Series([row[name] for row in rows], items.index, object) for name in wanted})


def _messages_of_item(name: Any, cell: Any) -> list[Message]:
    try:
        return messages_of(cell)
    except InputError as error:
        raise InputError(f"item {name!r}: {error}") from None


def messages_of(cell: Any) -> list[Message]:
    """The messages of a cell, in one form; a missing cell has none.

    Raises
    ------
    InputError
        When the cell is not a list of messages.
    """
    try:
        value = canonical(orjson.loads(cell) if isinstance(cell, str) else cell)
    except orjson.JSONDecodeError:
        value = canonical(list_in(cell) or cell)
    if isinstance(value, Mapping):
        value = _of_log(value)
    if value in (None, []) or (isinstance(value, str) and not value.strip()):
        return []
    found = forms.read_messages([_named(message) for message in value]) if isinstance(value, list) else None
    if found is None:
        got = str(cell)[:60]
        advice = "rewrite it in OpenAI's form, as LangChain's convert_to_openai_messages does"
        raise InputError(f"expected a list of messages with role and content, got {got!r}; {advice}")
    return found


def holds_chats(cells: Iterable[Any]) -> bool:
    """Whether there are cells, and each of those that are not missing is a list of messages."""
    present = [cell for cell in cells if not is_missing(cell)]
    try:
        return bool(present) and all(messages_of(cell) for cell in present)
    except InputError:
        return False


def conversation_value(value: Any) -> Any:
    """A canonical value of the input `conversation` as it is hashed and shown.

    An object or a JSON text that holds messages becomes a list; a JSON text of nothing but texts stays as it is, since
    judges have read such chats as JSON.
    """
    if isinstance(value, list) and forms.is_plain(value):
        return value
    parsed = value
    if isinstance(value, str):
        try:
            parsed = canonical(orjson.loads(value)) if value.lstrip()[:1] in ("[", "{") else value
        except (orjson.JSONDecodeError, InputError):
            return forms.shown_value(value)
    given = _of_log(parsed) if isinstance(parsed, Mapping) else parsed
    found = forms.read_messages(given) if isinstance(given, list) else None
    return forms.shown_value(value) if found is None or (found == parsed and isinstance(value, str)) else found


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
    shown: Any = answer
    if answer is None and forms.speakers(messages):
        shown = _told(messages[at]) if is_there else ""
    elif is_there and words(messages[at]["content"]) == words(answer):
        shown = _told(messages[at])
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
        if answer is not None and words(mine["content"]) != words(answer):  # the rest of it stands amid calls
            earlier = [
                one if one["role"] != mine["role"] or forms.is_result(one) else _without_words(one) for one in earlier
            ]
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
    mine = [n for n, one in enumerate(messages) if one["role"] in roles and not forms.is_result(one)]
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
    return "\n".join(text for part in parts if (text := forms.text_of(part)) is not None).strip()


def _without_words(message: Message) -> Message:
    content = message["content"]
    kept = [part for part in content if forms.text_of(part) is None] if isinstance(content, list) else []
    return {**message, "content": kept or ""}


def _told(message: Message) -> Any:
    """What is said in a message, with the fields beside it: a text, or a list if images or files stand in it."""
    value = forms.said(message["content"])
    # who speaks, and what a program noted of it, is no part of what is said
    fields = {name: field for name, field in further(message).items() if name not in ("name", *ABOUT)}
    parts = [block for block in value if block != ""] if isinstance(value, list) else [value] if value else []
    value = [*parts, as_json(fields)] if fields else value
    return value if isinstance(value, str) or forms.unseen(value) else content_text(value)


def further(message: Message) -> Message:
    """The fields of a message in the one form that are shown as JSON."""
    names = ("role", "content", "tool_calls", *(_OF_RESULTS if forms.is_result(message) else ()))
    return {name: value for name, value in message.items() if name not in names}


def is_question(message: Message) -> bool:
    """Whether the user says something in a message, which may be a question."""
    return message["role"].lower() in forms.USERS and not forms.is_result(message)


def turns(messages: Sequence[Message]) -> Iterator[tuple[int, str, str]]:
    """What is shown of messages in the one form: number of the message, who did what, and the text.

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
        blocks += [(f"{message['role']}: call {call['id']}, {call['name']}", _called(call)) for call in calls]
        # one line: names come from logs, and what follows a line break would look like another heading
        yield from ((at, " ".join(heading.split()), text) for heading, text in blocks)


_OF_RESULTS = ("tool_call_id", "name", "error")


def _blocks(message: Message, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Heading and text of what a message says: texts in a row together, reasoning and marks by themselves."""
    heading = str(message["role"])
    error = message.get("error") if forms.is_result(message) else None
    if forms.is_result(message):
        number = str(message.get("tool_call_id", ""))
        about = [number and f"result of call {number}", message.get("name") or names.get(number), error and "error"]
        heading += "".join([": ", ", ".join(map(str, filter(None, about)))] if any(about) else [])
    content = message["content"]
    parts = content if isinstance(content, list) else [content] if content or error or forms.is_result(message) else []
    texts: list[str] = []
    for part in parts:
        is_reasoning = isinstance(part, Mapping) and part.get("type") == "reasoning"
        if not is_reasoning and not forms.is_unseen(part):
            texts.append(_text(part))
            continue
        if texts:
            yield heading, "\n".join(texts)
        texts = []
        if forms.is_unseen(part):
            yield f"{heading}: {part['type']}, not shown", part["unseen"]
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
    return "\n".join(
        f"({part['type']}, not shown: {part['unseen']})" if forms.is_unseen(part) else _text(part) for part in parts
    )


def _called(call: Mapping[str, Any]) -> str:
    """The arguments of a call, and what was wrong with them."""
    arguments = call.get("arguments")
    text, error = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode(), call.get("error")
    if isinstance(arguments, str) and arguments and not error:
        try:
            orjson.loads(arguments)
        except orjson.JSONDecodeError:
            error = "invalid JSON"
    return f"{text}\n(error: {error})" if error else text


def as_json(value: Any) -> str:
    """A value as JSON, indented."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2).decode()


def value_turns(value: Any, name: str = "") -> list[tuple[str, str]]:
    r"""Who said or did what, and the text, in the order of the turns; empty if the value is no conversation.

    A text is one if at least two of its lines start with a speaker, as in ``User: …``. `name` is the input of the
    rubric that has the value.

    Examples
    --------
    >>> value_turns([{"role": "user", "content": "Is it on?"}, {"role": "assistant", "content": "Yes."}])
    [('user', 'Is it on?'), ('assistant', 'Yes.')]
    >>> value_turns("User: Is it on?\nAssistant: Yes.\nIt is."), value_turns("Note: it is on.")
    ([('User', 'Is it on?'), ('Assistant', 'Yes.\nIt is.')], [])
    """
    if is_missing(value) or isinstance(value, (bool, int, float)):
        return []
    try:
        shown = conversation_value(canonical(value)) if name == "conversation" else forms.shown_value(canonical(value))
    except InputError:
        return []
    if isinstance(shown, list):
        messages = forms.read_messages(shown)
        return [] if messages is None else [(heading, text) for _, heading, text in turns(messages)]
    starts = list(_SPEAKER_LINE.finditer(shown)) if isinstance(shown, str) else []
    if len(starts) < 2 or shown[: starts[0].start()].strip():
        return []
    ends = [start.start() for start in starts[1:]] + [len(shown)]
    return [(start[1], shown[start.end() : end].strip()) for start, end in zip(starts, ends, strict=True)]


def value_text(value: Any, name: str = "") -> str:
    """A value of an item for people to read: empty if missing; the entries of a list and messages as paragraphs.

    `name` is the input of the rubric that has the value.
    """
    if is_missing(value) or isinstance(value, (bool, int, float)):
        return "" if is_missing(value) else str(value)
    try:
        shown = conversation_value(canonical(value)) if name == "conversation" else forms.shown_value(canonical(value))
    except InputError:
        return str(value)
    if isinstance(shown, list):
        if (messages := forms.read_messages(shown)) is not None:
            return "\n\n".join(f"{heading}: {text}" for _, heading, text in turns(messages))
        return content_text(shown) if any(map(forms.is_unseen, shown)) else "\n\n".join(map(value_text, shown))
    if forms.is_unseen(shown):
        return content_text([shown])
    return orjson.dumps(shown).decode() if isinstance(shown, dict) else str(shown)


def _of_log(value: Mapping[str, Any]) -> Any:
    """The messages of a log's object, with Anthropic's system prompt and Inspect's attachments in their places."""
    messages = next((value[name] for name in _LOGS if isinstance(value.get(name), list)), None)
    if messages is None and isinstance(value.get("output"), list) and isinstance(value.get("input"), str):
        messages = [{"role": "user", "content": value["input"]}]  # OpenAI's Responses API
    if messages is None:
        return value
    messages = list(as_messages([_named(turn) for turn in messages if turn is not None]))
    ends = (turns_of[-1] for turn in reversed(messages) if (turns_of := forms.read_messages([turn])))
    last: Message = next(ends, {"role": "user"})
    is_open = "choices" in value or forms.is_other(last["role"]) or bool({"tool_calls", "tool_call_id"} & last.keys())
    if (answers := _answers_beside(value)) is None and is_open:
        return value  # shown whole, not without its answer
    gists: list[Any] = []  # after the last question
    for turn in reversed(messages) if answers else ():
        turns_of = forms.read_messages([turn]) or []
        if any(map(is_question, turns_of)):
            break
        gists += map(_gist, turns_of)
    messages += [turn for turn in answers or [] if not all(gist in gists for gist in _gists(turn))]
    for name in [name for name in reversed(_SYSTEMS) if value.get(name)]:
        text = value[name]
        rules = {"role": "system", **(text if isinstance(text, Mapping) else {"content": text})}
        messages = messages if _gists(rules) in map(_gists, messages[:1]) else [rules, *messages]
    files = {name: field for name, field in value.items() if isinstance(field, list) and kind_of_files(name, field)}
    messages = [{"role": "user", "content": "", **files}, *messages] if files else messages
    attached = value.get("attachments")
    return _with_attachments(messages, attached) if isinstance(attached, Mapping) else messages


def _gists(message: Any) -> list[Any]:
    """What a message says and does, however it is written."""
    return [*map(_gist, forms.read_messages([_named(message)]) or [])] or [message]


def _gist(turn: Message) -> Any:
    text = "".join(words(turn["content"]).split())  # pieces of a text are joined in several ways
    return (text, turn.get("tool_calls")) if text else turn


def _answers_beside(value: Mapping[str, Any]) -> list[Any] | None:
    """The answer that a log's object has beside its messages, if any; None if it cannot be told."""
    answer: Any = next((value[name] for name in _ANSWERS if value.get(name)), [])
    if isinstance(answer, list) and len(answer) > 0 and "choices" not in value and forms.read_messages(answer):
        return answer
    answer = answer.get("choices", answer.get("candidates", answer)) if isinstance(answer, Mapping) else answer
    answer = answer[0] if isinstance(answer, list) and len(answer) == 1 else answer
    answer = answer.get("message", answer.get("text", answer)) if isinstance(answer, Mapping) else answer
    answer = answer["content"] if isinstance(answer, Mapping) and isinstance(answer.get("content"), Mapping) else answer
    answer = {"content": answer} if isinstance(answer, str) else answer
    if isinstance(answer, Mapping):
        return [{"role": "assistant", **answer}] if forms.read_messages([{"role": "assistant", **answer}]) else None
    return None if answer else []


def _with_attachments(value: Any, attached: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return attached.get(value.removeprefix("attachment://"), value) if value.startswith("attachment://") else value
    if isinstance(value, list):
        return [_with_attachments(one, attached) for one in value]
    if isinstance(value, Mapping):
        return {name: _with_attachments(one, attached) for name, one in value.items()}
    return value


def _named(message: Any) -> Any:
    """A message in the form ``{"from": "human", "value": …}`` as one with role and content."""
    if not isinstance(message, Mapping) or "from" not in message or "role" in message:
        return message
    role, value = str(message["from"]), message.get("value", message.get("content", ""))
    if role in ("function_call", "tool_call"):
        try:
            return {"role": "assistant", "content": "", "tool_calls": [dict(orjson.loads(value))]}
        except (ValueError, TypeError):
            pass
    rest = {name: field for name, field in message.items() if name not in ("from", "value")}
    return {**rest, "role": _ROLES.get(role, role), "content": value}
