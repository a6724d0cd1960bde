"""Many replies in one text."""

import ast
import re


def replies_in(text: str) -> list[str]:
    """The replies of a text: `¦` ends one, and `⏎` stands for a line break within it."""
    return [reply.strip(" \n").replace("⏎", "\n") for reply in text.split("¦")]


def reply_tables(text: str) -> list[tuple[str, str, object, str]]:
    """The blocks of a text: ``== scale | form | what is right``, as Python writes it, then replies (`replies_in`)."""
    blocks = re.split(r"^== (.+?) \| (\w+) \| (.+)$", text, flags=re.MULTILINE)[1:]
    columns = (blocks[first::4] for first in range(4))
    return [(scale, form, ast.literal_eval(right), body) for scale, form, right, body in zip(*columns, strict=True)]
