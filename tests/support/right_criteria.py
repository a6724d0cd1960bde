"""Two hundred cells of criteria in the stated form, each with the criteria that it holds: all of them stay accepted."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

STATEMENTS = (
    "Names a time", "Gives the dose in mg (0.5 mg, twice a day)", "Says that |x| < 1", "Cites at least 2 sources [1]",
    "Invents a source", "Tells the reader to use `--force` without a warning", "States that x = -2",
    "Is written in German: „Grüße“", "Explains why the sky is blue; names scattering", "Mentions the bonus of 2019",
    "Does not name a brand", "Is about 40-50 years", "Uses the table | of contents", "Advises a doctor, or a nurse",
    "Quotes \"I think, therefore I am\"", "Runs `print({'a': 1})` and shows its output", "Ends with a question",
    "Says why\n   and how", "Must not be longer than one page", "Says that it is 12% (95% interval: 10-14%)",
    "Names the function f(x) = 3", "Describes a required step", "Rates the film as good", "Names 😀 as an emoji",
    "Gives the answer (B)", "Weighs the pros and cons", "Says \"yes\" or \"no\"", "Covers title and description",
    "Keeps the penalty of the contract apart", "Names both of the two levels", "Is optional in tone", "Refers to § 5",
)  # fmt: skip
AXES = ("accuracy", "style", "Data or Environment", "penalty", "all")
SCALES = ([0, 1], [0, 0.5, 1], {"0": "no", "1": "in part", "2": "yes"})


class Right(NamedTuple):
    """A cell, and for each criterion id, text, points, axis and prerequisites."""

    cell: Any
    rows: list[tuple[str, str, float, str | None, list[str]]]


def right_criteria() -> list[Right]:
    """Forty draws in five forms: mappings, texts, ids to texts, JSON, numbered lines."""
    draw = random.Random(54)
    cells = []
    for number in range(40):
        texts = draw.sample(STATEMENTS, draw.randint(1, 9))
        plain = [(str(place), text, 1.0, None, list[str]()) for place, text in enumerate(texts, start=1)]
        entries, rows = [], []
        for place, text in enumerate(texts, start=1):
            entry: dict[str, Any] = {"text": text}
            name, points, axis, requires = str(place), 1.0, None, list[str]()
            if draw.random() < 0.5:
                points = draw.choice([1, 5, -2, 0.5, 10.0, -7])
                entry["points"] = points
            if draw.random() < 0.3:
                axis = draw.choice(AXES)
                entry["axis"] = axis
            if draw.random() < 0.4:
                name = f"c{place}"
                entry["id"] = name
            if rows and draw.random() < 0.3:
                requires = [draw.choice(rows)[0]]
                entry["requires"] = requires
            if draw.random() < 0.1:
                entry["scale"] = draw.choice(SCALES)
            if draw.random() < 0.2:
                entry |= draw.choice([{"axis": axis}, {"requires": requires}, {"parent": None}, {"scale": None}]
                                     if "scale" not in entry else [{"parent": None}])  # fmt: skip
            entries.append(entry)
            rows.append((name, text, float(points), axis, requires))
        by_id = {f"k{place}": text for place, text in enumerate(texts)}
        lines = "\n".join(
            f"{draw.choice([f'{place}.', f'{place})', '-']) if number % 2 else f'{place}.'} {text}"
            for place, text in enumerate(texts, start=1)
        )
        cells += [
            Right(entries, rows), Right(texts, plain),
            Right(by_id, [(f"k{place}", text, 1.0, None, []) for place, text in enumerate(texts)]),
            Right(json.dumps([entries, texts, by_id][number % 3], indent=[None, 1][number % 2]),
                  [rows, plain, [(f"k{place}", text, 1.0, None, []) for place, text in enumerate(texts)]][number % 3]),
            Right(lines, plain),
        ]  # fmt: skip
    return cells
