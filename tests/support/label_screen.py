"""Label pages on code reviews, in Chromium without a notebook (see `tuner_screen.Screen`), or from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuner_screen import DIFF, TEXTS

import evalkit as ek

CRITERIA = [
    {
        "name": "correct", "description": "Is what the comment says true of the changed lines? Tone is not asked here.",
        "scale": {
            0: "No. It claims something that is false of the change.",
            1: "Partly, or so vague that it could be said of any change.",
            2: "Yes. Every claim is true of the changed lines and specific to them.",
        },
    },
    {
        "name": "actionable", "description": "After reading it, does the author know what to do next?",
        "scale": {
            0: "No.", 1: "More or less: the direction is clear, the step is not.", 2: "Yes, the next step is clear."
        },
    },
    {
        "name": "tone", "description": "Would you want to receive this comment?",
        "scale": {0: "No, it is rude or mocks the author.", 1: "Yes."},
    },
]  # fmt: skip
RUBRIC = ek.Rubric(id="review", description="A comment on a diff.", inputs=["diff", "comment"], criteria=CRITERIA)


def reviews(n: int) -> list[dict[str, Any]]:
    """Items."""
    return [
        {
            "item_id": f"CR-{1001 + at}",
            "comment": TEXTS[at % len(TEXTS)],
            "diff": DIFF + "".join(f" line {line} of the file\n" for line in range(4 * (at % 5))),
        }
        for at in range(n)
    ]


def page_of(log: Path, annotator: str, n: int = 30, **options: Any) -> ek.notebook.LabelPage:
    """A label page whose log is this file."""
    return ek.notebook.LabelPage(reviews(n), RUBRIC, annotator=annotator, labels=log, **options)


def save(page: ek.notebook.LabelPage, answers: Sequence[str], comment: str = "") -> str:
    """Fill in the form on screen; returns its name."""
    name: str = page.state["form"]["form"]
    page.receive({"do": "save", "form": name, "answers": list(answers), "comment": comment})
    assert page.state["alert"] == ""
    return name


def labelled(log: Path, people: Sequence[str] = ("Anna", "Ben"), n: int = 30, n_done: int = 24) -> None:
    """What people answered, without chance: they differ most on *actionable*."""
    for who, name in enumerate(people):
        page = page_of(log, name, n)
        for at in range(n_done):
            answers = ["2" if at % 9 else str(who), str((at + who * (at % 2)) % 3), "1"]
            save(page, answers, "Which batch size?" if at % 4 == 1 else "")


def form_labels(page: ek.notebook.LabelPage, who: str, name: str | None = None) -> dict[str, Any]:
    """What a person answers about a form, always the same; by default about the one on screen."""
    name = name or page.state["form"]["form"]
    number = sum(map(ord, f"{who} {name}"))
    return {"form": name, "answers": [str(number % 3), str(number // 3 % 3), str(number // 9 % 2)]}
