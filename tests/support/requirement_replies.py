"""A judge of items' own criteria for tests: what a prompt asks, and a reply that is known for each criterion."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_TEXT = re.compile(r"^Requirement(?: (\d+))?:\n(.*)$", re.MULTILINE)


def asked_in(prompt: str) -> dict[str, str]:
    """Number (``alone`` if there is one criterion) -> the text of each criterion in a prompt."""
    return {number or "alone": text for number, text in _TEXT.findall(prompt)}


def reply_to(prompt: str, met: Callable[[str], bool], left_out: Callable[[str], bool] = lambda text: False) -> str:
    """The reply of a judge that finds met what `met` does; of what is left out it says nothing that can be read."""
    entries = {number: {"explanation": f"about {text}", "score": int(met(text))}
               for number, text in asked_in(prompt).items() if not left_out(text)}  # fmt: skip
    return json.dumps(entries.get("alone", entries)) if entries else "I would rather not say."


def replies(met: Callable[[str], bool], left_out: Callable[[str], bool] = lambda text: False) -> Any:
    """For `judge_server(faults=...)`: answers each request, and refuses nothing."""
    return lambda body: {"content": reply_to(body["messages"][-1]["content"], met, left_out)}
