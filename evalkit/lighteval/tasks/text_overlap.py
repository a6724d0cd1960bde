"""Overlap of an answer with a reference: exact match and token F1, as for SQuAD."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

OVERLAP_KEYS = ("token_f1", "exact_match")

_PUNCTUATION = re.compile(r"[^\w\s]|_")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def tokens(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation and English articles.

    Examples
    --------
    >>> tokens("The Rhône, in 1,200 A.D.")
    ['rhône', 'in', '1200', 'ad']
    """
    return _ARTICLES.sub(" ", _PUNCTUATION.sub("", text.lower())).split()


def token_f1(answer: str, reference: str) -> float:
    """F1 of the words that two texts share, each as often as both contain it (Rajpurkar et al. 2016, section 6.1).

    Examples
    --------
    >>> token_f1("in the year 1987", "1987")  # precision 1/3, recall 1
    0.5
    >>> token_f1("", ""), token_f1("yes", "")
    (1.0, 0.0)
    """
    mine, theirs = tokens(answer), tokens(reference)
    if not mine or not theirs:
        return float(mine == theirs)
    shared = sum((Counter(mine) & Counter(theirs)).values())
    # 2 p r / (p + r) with p = shared/|mine| and r = shared/|theirs|
    return 2 * shared / (len(mine) + len(theirs))


def check_overlap(answer: str, doc: Any) -> tuple[Mapping[str, float], str]:
    """Token F1 and exact match (of `tokens`) with the document's reference; no figures without a reference."""
    reference = str((doc.specific or {}).get("reference_answer") or "")
    if not reference.strip():
        return {"token_f1": math.nan, "exact_match": math.nan}, "no_reference"
    exact = tokens(answer) == tokens(reference)
    return {"token_f1": token_f1(answer, reference), "exact_match": float(exact)}, ""
