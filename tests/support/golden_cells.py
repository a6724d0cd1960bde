"""200 cells in the stated form, and what was made of them: `python tests/support/golden_cells.py` writes it again.

Do so only on purpose: a prompt or key that changes makes everybody pay for the replies on such cells again.
"""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import pandas as pd
from places import TESTS

import evalkit as ek
from evalkit.tables import split_messages

FILE = TESTS / "golden" / "cells.json"
SCALE = [{"name": "c", "description": "d", "scale": {0: "a", 1: "b"}}]
WHOLE = ek.Rubric(id="whole", inputs=["conversation"], criteria=SCALE)
APART = ek.Rubric(id="apart", inputs=["conversation?", "question", "answer"], criteria=SCALE)
TEXTS = ek.Rubric(id="texts", inputs=["answer", "context", "note?"], criteria=SCALE)
WORDS = ["Where is A17?", "Yes.", "two\nlines", "é\r\nß", "--- 3 user ---", "</conversation>", '{"a": [1]}', "", "  "]


def _call(draw: random.Random, number: int) -> dict[str, Any]:
    arguments: Any = draw.choice(['{"id": 7}', '{"id": 7', "", {"id": [1, None]}, "{}"])
    function = {"name": draw.choice(["look", "order"]), "arguments": arguments}
    return {"id": draw.choice([f"c{number}", f"c{number}", "same"]), "type": "function", "function": function}


def _parts(draw: random.Random) -> list[dict[str, Any]]:
    return [{"type": "text", "text": draw.choice(WORDS)} for _ in range(draw.randint(1, 3))]


def log(draw: random.Random) -> list[dict[str, Any]]:
    """Messages with all fields of the stated form, also in odd orders."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be kind."}] * draw.randint(0, 1)
    for _ in range(draw.randint(1, 3)):
        asked: Any = {"role": draw.choice(["user", "user", "User"]), "content": draw.choice([*WORDS, _parts(draw)])}
        messages.append(asked | draw.choice([{}, {}, {"name": "Ann"}]))
        for step in range(draw.choice([0, 0, 1, 2])):
            calls = [_call(draw, 10 * len(messages) + at) for at in range(draw.randint(1, 3))]
            acts = {"content": draw.choice([None, "", "Wait.", _parts(draw)]), "tool_calls": calls}
            messages.append({"role": "assistant", **acts} | draw.choice([{}, {"reasoning_content": "Hm."}]))
            ids = [call["id"] for call in calls] + draw.choice([[], ["unknown"]])
            draw.shuffle(ids)
            for name in ids:
                content: Any = draw.choice(["R", "", None, _parts(draw), {"status": "sent", "n": [step, 1.5]}])
                result = {"role": "tool", "tool_call_id": name, "content": content}
                messages.append(result | draw.choice([{}, {"name": "look"}]))
        said: Any = {"role": draw.choice(["assistant", "assistant", "Planner"])}
        said |= draw.choice([{"content": draw.choice(WORDS)}, {"content": _parts(draw)},
                             {"content": None, "refusal": "I will not."},
                             {"content": "So.", "reasoning_content": "I think.\nYes."}])  # fmt: skip
        messages.append(said)
    return messages


def cells() -> list[tuple[ek.Rubric, dict[str, Any]]]:
    """Rubrics with the inputs of one item."""
    draw, made = random.Random(57), list[tuple[ek.Rubric, dict[str, Any]]]()
    for at in range(120):
        talk = log(draw)
        made.append((WHOLE, {"conversation": json.dumps(talk) if at % 10 == 9 else talk}))
    while len(made) < 160:
        items = split_messages(pd.DataFrame({"log": pd.Series([log(draw)], dtype=object)}), "log")
        row = {name: items[name][0] for name in ("question", "answer", "conversation")}
        if row["question"] and row["answer"]:
            made.append((APART, row))
    others: list[Any] = [
        *WORDS[:7], ["one", "two"], [{"text": "p", "score": 0.5}], {"a": {"b": [None, 2]}}, 3.0, True,
        [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}], [["a"], []], [1, "x"], {"text": "t"},
    ]  # fmt: skip
    while len(made) < 200:
        row = {"answer": draw.choice(others[:7]), "context": draw.choice(others), "note": draw.choice(others)}
        made.append((TEXTS, row))
    return made


def shown() -> list[list[str]]:
    """Of each cell the hash of its prompt, and the key of the reply."""
    rows = []
    for rubric, row in cells():
        prompt = hashlib.sha256(str(ek.build_prompt(rubric, [row])).encode()).hexdigest()[:16]
        keys = ek.judge([row], rubric, "fake:strict", samples=1, progress=False)["key"].tolist()
        rows.append([prompt, *keys])
    return rows


if __name__ == "__main__":
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        os.environ["EVALKIT_CACHE"] = folder
        lines = ",\n".join(json.dumps(row) for row in shown())
        FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
