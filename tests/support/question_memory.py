"""A memory for functions of one question, which has the parts of its reply key."""

from __future__ import annotations

from typing import Any

from evalkit.core.reply_keys import KeyParts
from evalkit.engine.cache.joblib_memory import AsyncMemoizedReply, MemoizedReply, ReplyMemory


class _Memoized(MemoizedReply):
    def _parts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> KeyParts:
        (question,) = *args, *kwargs.values()
        return question.parts  # type: ignore[no-any-return]


class _MemoizedAsync(_Memoized, AsyncMemoizedReply):
    pass


class QuestionMemory(ReplyMemory):
    _kinds = _Memoized, _MemoizedAsync
