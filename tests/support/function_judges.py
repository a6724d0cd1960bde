"""Function judges that tests, other processes and profiles import."""

from __future__ import annotations

import os
import time
from pathlib import Path

import evalkit as ek
from evalkit.core.prompts_and_replies import Prompt

GOOD = '{"explanation": "equal", "score": 2}'


ITEMS = [{"question": f"{n} + 0?", "answer": str(n), "reference": str(n)} for n in range(6)]


def note(prompt: Prompt) -> None:
    """One line per call, where the test wants to know."""
    if folder := os.environ.get("FUNCTION_CALLS"):
        Path(folder, f"{os.getpid()}-{time.perf_counter_ns()}").write_text(str(prompt), encoding="utf-8")


@ek.Judge.function(name="good", version="1")
def good(prompt: Prompt) -> str:
    """Always the best score."""
    note(prompt)
    time.sleep(float(os.environ.get("FUNCTION_SECONDS", "0")))
    return GOOD


def plain(prompt: Prompt) -> str:
    """As `good`, without a judge around it."""
    note(prompt)
    return GOOD
