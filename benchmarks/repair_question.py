"""The question what a reply means, on replies whose verdict is known: what a judge's answer to it gives them.

The replies are clear ones of `plain_replies` that are read; with `--recorded` also replies of a file of recorded
judgments (its scale, its texts). Two judges answer the question: one names the verdict that the reply was made or read
for, one any code of the scale, or none. Of the first, all should count; of the second, only levels that the reply
names can.

    python benchmarks/repair_question.py [--replies 200] [--seed 1] [--recorded FILE.jsonl.gz]
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import plain_replies

from evalkit.engine.judging.further_requests import repair_prompts
from evalkit.rubrics import Scale
from evalkit.rubrics.parsing import parser_for
from evalkit.rubrics.scales import code_text
from evalkit.stats.intervals import wilson


class Known(NamedTuple):
    """A reply whose verdict is known."""

    kind: str
    scale: Scale
    text: str
    code: object


def made(n: int, seed: int) -> Iterator[Known]:
    """The first `n` clear replies of a seed that are read, rightly."""
    for reply in plain_replies.cases(100 * n, seed):
        if n and reply.is_clear and (code := plain_replies.code_of(reply)) in reply.right:
            n -= 1
            yield Known(reply.kind, plain_replies.KINDS[reply.kind].scale, reply.text, code)


def recorded(path: Path, n: int, seed: int) -> Iterator[Known]:
    """Up to `n` replies of a file of judgments that are read, drawn at random."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    low, high = rows[0]["scale"]
    scale = Scale.of(dict.fromkeys(range(int(low), int(high) + 1), ""))
    parse = parser_for("number", scale, rows[0]["criterion"])
    texts = [text for row in rows for text in row["samples"] if text and not text.strip().isdecimal()]
    random.Random(seed).shuffle(texts)
    read = ((text, parse(text, None, None).code) for text in texts)
    replies = (Known("recorded", scale, text, code) for text, code in read if code is not None)
    yield from (reply for _, reply in zip(range(n), replies, strict=False))


def outcome(reply: Known, answer: str) -> str:
    """What an answer to the question gives: ``right``, ``another level``, or ``not counted``."""
    prompts = repair_prompts(reply.scale, reply.scale.level)
    inputs = {"reply": reply.text}
    prompt = prompts.prompt(prompts.rubric.criteria[0], inputs)
    assert reply.text.strip() in prompt.messages[0].content
    assert prompts.reply_reader is not None
    parsed = prompts.reply_reader({"text": json.dumps({"verdict": answer}), "finish_reason": "stop"}, inputs)
    return "not counted" if parsed.code is None else "right" if parsed.code == reply.code else "another level"


def at_random(rng: random.Random, scale: Scale) -> str:
    """Any code of a scale, or none."""
    codes = range(int(scale.lowest), int(scale.highest) + 1) if scale.level == "interval" else scale.codes
    return rng.choice([*map(code_text, codes), "none"])


def show(name: str, replies: Iterable[Known], seed: int) -> float:
    """Print what counts of both judges; the share of the first one's answers that is right."""
    rng, known, random_answers, through = random.Random(seed), Counter[str](), Counter[str](), Counter[str]()
    for reply in replies:
        known[outcome(reply, code_text(reply.code))] += 1
        answer = at_random(rng, reply.scale)
        result = "none" if answer == "none" else outcome(reply, answer)
        random_answers[result] += 1
        through[reply.kind] += result == "another level"
    n = known.total()
    ends = wilson(known["right"] / n, n)
    print(f"{name}: {n} replies")
    print(f"  the verdict itself: right {known['right'] / n:.3f} [{ends.low:.3f}, {ends.high:.3f}], {dict(known)}")
    print(f"  any code at random: {dict(random_answers)}; another level by kind: {dict(+through)}")
    return known["right"] / n


def main() -> int:
    """Print the figures; 1 if the verdict itself counts for less than 95 % of the replies that were made."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--replies", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--recorded", type=Path, action="append", default=[])
    asked = options.parse_args()
    share = show("made", made(asked.replies, asked.seed), asked.seed)
    for path in asked.recorded:
        show(path.name, recorded(path, asked.replies, asked.seed), asked.seed)
    return int(share < 0.95)


if __name__ == "__main__":
    sys.exit(main())
