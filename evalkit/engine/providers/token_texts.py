"""Log-probabilities of a model in this process, in the form of OpenAI's answers: what each token is as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
