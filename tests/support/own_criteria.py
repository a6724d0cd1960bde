"""Items with criteria of their own that were judged by functions: nothing is random, some verdicts are missing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import evalkit as ek

NAMES = ["openai:judge-small", "anthropic:judge-mid", "vllm:local-8b"]
ROLLBACK = [
    ("Names the command that rolls back (`deploy rollback <release>`).", 5, "accuracy", []),
    ("Says that database migrations are not rolled back by it.", 4, "accuracy", []),
    ("Claims that a rollback restores deleted rows.", -3, "accuracy", []),
    ("Says how to find the number of the last good release.", 3, "completeness", ["1"]),
    ("Says how to check that the rollback has worked.", 3, "completeness", ["1"]),
    ("Names who must be told, and in which channel.", 2, "completeness", []),
    ("Says to stop the running deployment first.", 3, "safety", []),
    ("Says to keep the logs of the failed release before it is removed.", 2, "safety", []),
    ("Tells the reader to use `--force` without a warning.", -2, "safety", []),
    ("Says when not to roll back but to fix forward.", 3, "safety", ["2"]),
    ("Can be followed from top to bottom without jumping.", 0.5, "style", []),
    ("Is longer than one screen.", -0.5, "style", []),
]
VOTES = ["111", "110", "000", "111", "001", "111", "000", "010", "111", "?10", "111", "100"]
"""What each judge says of the criteria above; ? is a reply that cannot be read."""


def items(n: int = 1) -> list[dict[str, Any]]:
    """Items with these criteria."""
    criteria = [
        {"id": at, "text": text, "points": points, "axis": axis, "requires": requires}
        for at, (text, points, axis, requires) in enumerate(ROLLBACK, start=1)
    ]
    answer = (
        "List the releases with `deploy list`, take the last one marked good, and run `deploy rollback <release> "
        "--force`. The database keeps its migrations, so check with the owner of the schema if one was part of the "
        "release. Tell #releases and the person on call for the platform."
    )
    question = "A new colleague is on call tonight. Explain to her how to roll back a release."
    return [
        {"item_id": f"task-{at + 1}", "question": question, "answer": answer[: len(answer) - 9 * at],
         "team": f"t{at % 2}", "criteria": criteria[: len(criteria) - at % 5]}
        for at in range(n)
    ]  # fmt: skip


def judges(votes: Sequence[str] = VOTES) -> list[ek.Judge]:
    """Three judges that say of each criterion above what `votes` has, of others what their text adds up to."""
    known = {text: votes[at] for at, (text, *_) in enumerate(ROLLBACK)}

    def judge(number: int) -> ek.Judge:
        def reply(prompt: Any) -> str:
            text = prompt.inputs["requirement"]
            drawn = "0?011010"[(sum(map(ord, text + prompt.inputs["answer"])) + number // 2) % 8]
            said = known[text][number] if text in known else drawn
            if said == "?":
                return "I cannot say."
            return json.dumps(
                {"explanation": f"The answer {'says so' if said == '1' else 'does not say so'}.", "score": int(said)}
            )

        return ek.Judge.function(reply, name=NAMES[number], version="1")

    return [judge(number) for number in range(3)]


def evaluated(given: list[dict[str, Any]], cache: Path, **options: Any) -> ek.Evaluation:
    """These items judged by majority; a criterion without all votes is open."""
    options = {"aggregate": "majority", "quorum": 1, "samples": 1} | options
    return ek.evaluate(ek.explode_criteria(given), "requirement", judges(), cache=cache, **options)
