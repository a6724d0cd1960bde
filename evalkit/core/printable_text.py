"""Untrusted text for a terminal: no character in it can control the terminal."""

from __future__ import annotations


def printable(text: str, keep: str = "\n") -> str:
    r"""The text with every non-printable character replaced, except those in `keep`.

    Examples
    --------
    >>> printable("a\x1b[2Jb\nc")
    'a�[2Jb\nc'
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in keep else "\N{REPLACEMENT CHARACTER}" for sign in text)


def one_line(text: str) -> str:
    r"""The text in one line, its white space as single spaces.

    Examples
    --------
    >>> one_line("a\x1b[2Jb\nc")
    'a�[2Jb c'
    """
    return printable(" ".join(text.split()), keep="")
