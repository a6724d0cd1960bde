"""The edits that the embedded juror suggests: its levels made easier or harder to reach, by the words it weighs."""

from __future__ import annotations

from typing import Any

import orjson

from evalkit.core.records import Prompt

__all__ = ["asks_for_edits", "write_edits"]

# by whether judges are to forgive: levels in full, sentences to add to a level, sentences to add to the question
_LEVELS = {
    True: (
        "Right in the main. What matters is there; minor or small additions are acceptable.",
        "Mostly right, in the main; slight or minor gaps are acceptable.",
    ),
    False: (
        "Right in every part. Each claim holds exactly, and all that was asked for is there.",
        "Right literally and completely: any claim that does not hold rules this level out.",
    ),
}
_SENTENCES = {
    True: "Minor and small gaps are acceptable.",
    False: "Every claim counts; all of it has to hold exactly.",
}
_QUESTIONS = {
    True: "Judge what matters to the reader; a side remark that does no harm is acceptable.",
    False: "Judge every claim by itself, side remarks too.",
}


def asks_for_edits(prompt: Prompt) -> bool:
    """Whether the reply is to be edits of a rubric, and no verdict."""
    return "edits" in ((prompt.schema or {}).get("properties") or {})


def write_edits(prompt: Prompt, sample: int) -> str:
    """The reply: up to as many edits as are asked for, towards where people are more often than the jury."""
    told = prompt.inputs
    forgive = told["false_fail"] >= told["false_pass"]
    code, text = _target(prompt)
    side = "fail what people pass" if forgive else "pass what people fail"
    why = f"Judges {side} more often than the other way round."
    levels = _LEVELS[forgive]
    edits = [
        _edit(prompt, "level", code, levels[sample % len(levels)], why),
        _edit(prompt, "level", code, f"{_ended(text)} {_SENTENCES[forgive]}", why),
        _edit(
            prompt, "criterion", None, f"{_ended(told['question'])} {_QUESTIONS[forgive]}",
            "The question does not say how much a side remark counts.",
        ),
    ]  # fmt: skip
    return orjson.dumps({"edits": edits[: told["max_edits"]]}).decode()


def _edit(prompt: Prompt, part: str, code: str | None, text: str, reason: str) -> dict[str, Any]:
    return {"criterion": prompt.criterion, "part": part, "code": code, "text": text.strip(), "reason": reason}


def _target(prompt: Prompt) -> tuple[str, str]:
    """Code and text of the level that decides: the lowest that passes, else the last of the scale."""
    codes = [str(code) for code in prompt.codes]
    passing = prompt.inputs["passing"]
    at = codes.index(passing[0]) if passing and passing[0] in codes else len(codes) - 1
    return codes[at], prompt.texts[at] if at < len(prompt.texts) else ""


def _ended(text: str) -> str:
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."
