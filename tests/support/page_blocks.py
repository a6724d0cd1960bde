"""The fenced blocks of a page."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its words after the fence, its text, its first line, and what the next block says."""

    words: tuple[str, ...]
    body: str
    line: int
    output: str | None = None


def blocks_of(text: str) -> list[Block]:
    """All fenced blocks; a ``text`` block right after a ``python`` one is that one's output."""
    found = list(_FENCE.finditer(text))
    blocks = []
    for at, match in enumerate(found):
        following = found[at + 1] if at + 1 < len(found) else None
        output = None
        if following is not None and following["info"].strip() == "text":
            between = text[match.end() : following.start()]
            output = following["body"] if not between.strip() else None
        line = text.count("\n", 0, match.start()) + 2
        blocks.append(Block(tuple(match["info"].split()), match["body"], line, output))
    return blocks
