"""From messages to tokens, for models in this process: no text of an item becomes a special token, as a turn mark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any

from evalkit.core.prompts_and_replies import Message, without_system

_PART = "\N{REPLACEMENT CHARACTER}"


class TokenTexts:
    """The texts of a tokenizer's tokens, as they are after another token.

    Parameters
    ----------
    tokenizer
        Of transformers, or with the same `decode`.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._decode = tokenizer.decode
        self._known: dict[int, str] = {}
        self._anchor: tuple[int, int] | None = None

    def rows(self, tokens: Sequence[int], shares: Sequence[Mapping[int, float]], text: str) -> list[dict[str, Any]]:
        """The rows of a reply.

        Parameters
        ----------
        tokens
            What was written.
        shares
            For each of these tokens: candidate -> log-probability, with the one that was written.
        text
            The reply.
        """
        pieces = [self._text(token) for token in tokens]
        if "".join(pieces) != text:  # characters of several tokens
            pieces = self._pieces(tokens)
        return [
            {
                "token": piece,
                "logprob": row[token],
                "top_logprobs": [
                    {"token": self._text(number), "logprob": share} for number, share in row.items() if number != token
                ],
            }
            for token, piece, row in zip(tokens, pieces, shares, strict=True)
        ]

    def _text(self, token: int) -> str:
        """The text of a token; alone, some tokenizers drop the space before a word."""
        if token not in self._known:
            alone = self._decode([token], skip_special_tokens=True)
            if self._anchor is None and alone and _PART not in alone:
                self._anchor = token, len(alone)
            before, n = ([], 0) if self._anchor is None else ([self._anchor[0]], self._anchor[1])
            self._known[token] = self._decode([*before, token], skip_special_tokens=True)[n:]
        return self._known[token]

    def _pieces(self, tokens: Sequence[int]) -> list[str]:
        """The text that each token adds to those before it; the last token of a character has the whole of it."""
        pieces: list[str] = []
        first = done = 0
        for index in range(len(tokens)):
            before = self._decode(tokens[first:done], skip_special_tokens=True)
            now = self._decode(tokens[first : index + 1], skip_special_tokens=True)
            is_whole = not now.endswith(_PART) or index + 1 == len(tokens)
            pieces.append(now[len(before) :] if is_whole else "")
            if is_whole:
                first, done = done, index + 1
        return pieces


_MARK = re.compile(r"[<\[{◁].*[>\]}▷]", re.DOTALL)


def prompt_tokens(tokenizer: Any, messages: Sequence[Message], options: Mapping[str, Any]) -> list[int]:
    """The tokens of a chat under the tokenizer's chat template; a special token in a message is ordinary text.

    `options` are those of the template. Without a template, the bare texts.
    """
    hidden, marks = hide_special_tokens(tokenizer, messages)
    if tokenizer.chat_template is None:
        text = "\n\n".join(message.content for message in hidden)
        if not marks:
            return list(tokenizer(text)["input_ids"])
        return [*tokenizer("")["input_ids"], *_encoded(tokenizer, text, marks)]
    try:
        text = _templated(tokenizer, hidden, options)
    except Exception as error:
        # some templates raise at the role "system", by an error of the template library
        if messages[0].role != "system" or len(messages) < 2 or type(error).__name__ != "TemplateError":
            raise
        text = _templated(tokenizer, without_system(hidden), options)
    return _encoded(tokenizer, text, marks)  # the template has set the special tokens already


def hide_special_tokens(tokenizer: Any, messages: Sequence[Message]) -> tuple[list[Message], dict[str, str]]:
    """The messages with a mark in place of each special token that their texts contain; mark -> token."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    names = {str(token) for token in tokenizer.all_special_tokens}
    # some models do not call all of their marks special
    names |= {str(token) for token in added if getattr(token, "special", False) or _MARK.fullmatch(str(token))}
    names = {name for name in names if len(name) > 1 and not name.isspace()}
    if not any(name in message.content for name in names for message in messages):
        return list(messages), {}
    pattern = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))
    salt, marks = token_hex(8), dict[str, str]()

    def mark(found: re.Match[str]) -> str:
        name = f"EK{salt}N{len(marks)}E"
        marks[name] = found[0]
        return name

    return [Message(message.role, pattern.sub(mark, message.content)) for message in messages], marks


def _templated(tokenizer: Any, messages: Sequence[Message], options: Mapping[str, Any]) -> str:
    chat = [{"role": message.role, "content": message.content} for message in messages]
    return str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, **options))


def _encoded(tokenizer: Any, text: str, marks: Mapping[str, str]) -> list[int]:
    if not marks:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])
    special = {*tokenizer.all_special_ids, *getattr(tokenizer, "added_tokens_decoder", {})}
    ids: list[int] = []
    for piece in re.split(f"({'|'.join(marks)})", text):
        if piece in marks:
            ids += _as_text(tokenizer, marks[piece], special)
        elif piece:
            ids += tokenizer(piece, add_special_tokens=False)["input_ids"]
    return ids


def _as_text(tokenizer: Any, token: str, special: set[int]) -> list[int]:
    """The tokens of the characters of a special token."""
    for pieces in ([token], [token[:1], token[1:]]):
        ids = [
            number
            for piece in pieces
            for number in tokenizer(piece, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        ]
        if not special.intersection(ids):
            return ids
    return [number for number in ids if number not in special]
