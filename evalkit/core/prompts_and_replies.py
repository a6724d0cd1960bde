"""The records that rubrics, engine and cache exchange: Prompt, Reply, Failure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any

from evalkit.core.formatting import html_text
from evalkit.core.images import Image
from evalkit.core.lists_of_choices import Reason, ReplySource

_CHARACTERS_PER_TOKEN = 8
_SMALLEST_WINDOW = 256
_RUNS = re.compile(r"([\W_])\1{2,}")
MOST_TOKENS = 2**31 - 1
"""Maximum of a token count from outside; a larger one is an error of the server."""


def token_count(value: object) -> int | None:
    """A token count from outside, if it is a whole number from 0 to 2³¹ - 1; else None.

    Examples
    --------
    >>> token_count(12), token_count(2**63), token_count(-1), token_count(1.5), token_count("12"), token_count(True)
    (12, None, None, None, None, None)
    """
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


class Message(dict[str, str]):
    """One chat message, as clients of chat services take it: a read-only dict with `role` and `content`.

    Both are attributes too; `role` is ``system``, ``user`` or ``assistant``.

    Examples
    --------
    >>> message = Message("user", "2 + 2?")
    >>> message == {"role": "user", "content": "2 + 2?"}, message.role, message.content
    (True, 'user', '2 + 2?')
    """

    __slots__ = ()

    def __init__(self, role: Any = "", content: str = "") -> None:
        # `dataclasses.asdict` copies a dict by passing its pairs
        super().__init__({"role": role, "content": content} if isinstance(role, str) else role)

    @property
    def role(self) -> str:
        """Who speaks."""
        return self["role"]

    @property
    def content(self) -> str:
        """The text."""
        return self["content"]

    def __repr__(self) -> str:
        return f"Message(role={self.role!r}, content={self.content!r})"

    def __hash__(self) -> int:  # type: ignore[override]
        return hash((self.role, self.content))

    def _read_only(self, *_: object, **__: object) -> Any:
        # all samples and tries of a prompt share its messages
        raise TypeError("the messages of a prompt are read-only; change copies: [dict(m) for m in prompt.messages]")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _read_only

    def __reduce__(self) -> tuple[type[Message], tuple[str, str]]:
        return Message, (self.role, self.content)


def without_system(messages: Sequence[Message]) -> list[Message]:
    """The messages with the system text put before the user's text, for models without a system role."""
    first, second, *rest = messages
    return [Message(second.role, f"{first.content}\n\n{second.content}"), *rest]


OWN_ANSWER = "own_answer"
"""The input that holds a judge's own answer to the question, given before it saw the candidate."""


@dataclass(frozen=True)
class Prompt:
    """The prompt for one item and one criterion, ready to be sent.

    `print(prompt)` shows what the judge will read.

    Attributes
    ----------
    messages
        The chat messages, in order: dicts that every client of a chat service takes as they are.
    form
        Required form of the reply: ``json``, ``tagged``, ``number``, ``label``, ``decision`` or ``regex:PATTERN``.
    schema
        JSON schema of the reply if `form` is ``json``; the type and possible answers of the question if it is
        ``decision``, whose `messages` are the question and the content; else None.
    rubric, rubric_version, criterion, template
        Origin of the prompt; `template` is ``name@version``.
    level, codes, inputs, texts
        The criterion's level of measurement, its scale's codes, the item's inputs and what each code
        means, for judges that run inside evalkit. Not sent.
    together
        If one reply judges several criteria, a prompt of the same messages for each of them; else empty. Not sent.
    origin
        The builder that rendered the prompt, and the criteria that it asks for: `memory` makes the reply key of them.
        None for a prompt that was made by hand. Not sent.
    images
        The images that are sent with the first message of the user, numbered from 1.
    """

    messages: tuple[Message, ...]
    form: str
    schema: Mapping[str, Any] | None
    rubric: str
    rubric_version: str
    criterion: str
    template: str
    level: str
    codes: tuple[int | float | str, ...]
    inputs: Mapping[str, Any]
    texts: tuple[str, ...] = ()
    together: tuple[Prompt, ...] = ()
    origin: tuple[Any, tuple[Any, ...]] | None = field(default=None, compare=False, repr=False)
    images: tuple[Image, ...] = ()

    @cached_property
    def n_bytes(self) -> int:
        """Length of all messages in UTF-8 bytes: an upper bound of their tokens."""
        return sum(len(message.content.encode()) + 16 for message in self.messages)

    def is_cut_at(self, tokens: int) -> bool:
        """Whether so few prompt tokens mean that the server cut the prompt.

        Text has 2 to 6 characters per token; runs of one character, which may be a single token, count once. A small
        count that a server states for all prompts means nothing unless the prompt is long.

        Examples
        --------
        >>> messages = (Message("user", "word " * 40_000),)
        >>> prompt = Prompt(messages, "number", None, "r", "v1", "c", "t@v1", "ordinal", (), {})
        >>> prompt.is_cut_at(4096), prompt.is_cut_at(40_000)
        (True, False)
        """
        spare = 1000 if tokens >= _SMALLEST_WINDOW else 20_000
        most = _CHARACTERS_PER_TOKEN * tokens + spare
        if sum([len(message["content"]) for message in self.messages]) <= most:
            return False
        return sum(len(_RUNS.sub(r"\1", message.content)) for message in self.messages) > most

    def __str__(self) -> str:
        parts = [(message.role, message.content) for message in self.messages]
        parts += [(f"image {number}", image["unseen"]) for number, image in enumerate(self.images, 1)]
        if self.form == "decision":
            parts.append(("answers", json.dumps(self.schema, ensure_ascii=False)))
        return "\n\n".join(f"[{name}]\n{text}" for name, text in parts)

    def _repr_html_(self) -> str:
        return html_text(str(self))


@dataclass(frozen=True, slots=True)
class Reply:
    """One raw reply of a judge, as it is stored, before parsing.

    Attributes
    ----------
    text
        What the judge wrote; None if the server sent no text.
    finish_reason
        As reported by the server: ``stop``, ``length``, ``content_filter`` …
    refusal
        The refusal text, if the server marks refusals.
    model
        The model as reported by the server; may be more precise than the requested name.
    prompt_tokens, completion_tokens
        Tokens billed for this reply; its share, if several replies came from one request.
    cost_usd
        US$ paid for it, with what attempts cost that came back empty; None if the price is unknown.
    latency_s
        Seconds from sending to receipt.
    created
        Unix time of receipt.
    source
        ``live``, ``batch`` or ``recorded``.
    sent
        Parameters whose sent value differs from the requested one (None: not sent).
    logprobs
        ``tokens``: per token of the reply ``[token, logprob, token, logprob, …]``, what was written, then, where a
        verdict may be, the other candidates with a probability of .0001 or more. A token is a string, or a list of
        bytes if it is not UTF-8 by itself. ``stage``: ``raw`` if the probabilities are those before temperature and
        grammar masks, ``processed`` if after, ``unknown`` if the service does not state it. None if the service gave
        none.
    id
        The service's id of the completion; replies that came together share it.
    prompt_cut
        True if the server counted far fewer tokens than the prompt can make: it probably cut it. Else None.
    fingerprint
        The service's own name of the software and weights that answered (OpenAI's ``system_fingerprint``).
    """

    text: str | None
    finish_reason: str | None = None
    refusal: str | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    latency_s: float | None = None
    created: float = 0.0
    source: ReplySource = "live"
    sent: Mapping[str, Any] | None = None
    logprobs: Mapping[str, Any] | None = None
    id: str | None = None
    prompt_cut: bool | None = None
    fingerprint: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The fields that are not None, as JSON values."""
        return {
            name: value
            for name, value in zip(self.__slots__, _fields_of(self), strict=True)
            if value is not None or name == "text"
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Reply:
        """The inverse of `as_dict`."""
        return cls(**values)


_fields_of: Callable[[Reply], tuple[Any, ...]] = attrgetter(*Reply.__slots__)


TOO_LONG = "prompt_too_long"
"""The finish reason of a stored reply without text: the service refused the prompt as longer than its context."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A call without a reply: its `reason`, what happened in words, and whether it may have been billed."""

    reason: Reason
    detail: str = ""
    maybe_paid: int = 0
