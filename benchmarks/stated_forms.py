"""Criteria, labels and columns at random: is each read as it was meant, or refused, and is nothing dropped in silence?

    python benchmarks/stated_forms.py [cases of each edge] [seed]

Three generators know the truth. *Criteria* are in the stated form, with points, ids and prerequisites; into three of
five go a field, list, mapping or column of random name that changes what they are worth, which must be an error.
*Labels* are codes or words of levels; into half goes a word or code that the scale does not have, which must be an
error. *Columns* of random names hold codes, texts or a few values; where two fit a role, the card must propose neither.
The exit code is 1 if one case of any edge is wrong. 10,000 cases of each by default take some five minutes.
"""

from __future__ import annotations

import json
import random
import string
import sys
import warnings
from collections import Counter
from typing import Any

import pandas as pd

import evalkit as ek
from evalkit.errors import InputError
from evalkit.notebook.start.column_roles import guess_roles
from evalkit.notebook.start.table_columns import Column

CASES, SEED = 10_000, 1
FIELDS = {"text", "points", "id", "requires", "axis", "parent", "scale", "criteria"}
WORDS = ("names", "a", "day", "price", "reason", "source", "the", "limit", "of", "both", "answers")


def word(draw: random.Random, taken: set[str] = FIELDS) -> str:
    """A name of random letters."""
    while (name := "".join(draw.choices(string.ascii_lowercase, k=draw.randint(3, 9)))) in taken:
        pass
    return name


def sentence(draw: random.Random) -> str:
    """A text of a criterion or an answer, long enough to be no code."""
    return " ".join(draw.choices(WORDS, k=draw.randint(6, 12))).capitalize()


def criteria(draw: random.Random) -> str:
    """One item with criteria: ``read``, ``refused``, or what was wrong."""
    n = draw.randint(2, 6)
    points = [draw.choice([1, 2, 5, -1, -3]) for _ in range(n)]
    entries: list[dict[str, Any]] = [{"text": sentence(draw), "points": value} for value in points]
    if draw.random() < 0.3:
        for number, entry in enumerate(entries):
            entry["id"] = f"c{number}"
        entries[1]["requires"] = ["c0"]
    item: dict[str, Any] = {"item_id": "i", "answer": sentence(draw)}
    cell: Any = entries
    kind = draw.choice(("", "", "field", "wrapped", "column"))
    if kind == "field":
        draw.choice(entries)[word(draw)] = draw.choice([3, -2, True, "must not be met", ["c0"], {"weight": 2}])
    elif kind == "wrapped":
        second = draw.choice([[1.0] * n, [{"text": sentence(draw)}], {"weight": 2}])
        cell = {word(draw): entries, word(draw): second}
    elif kind == "column":
        numbers = [draw.randint(-3, 9) for _ in range(n)]
        item[word(draw, FIELDS | {"item_id", "answer"})] = draw.choice([numbers, json.dumps(numbers)])
    item["criteria"] = draw.choice([cell, json.dumps(cell)])
    try:
        rows = ek.explode_criteria([item])
    except InputError as problem:
        return "refused" if kind else f"right criteria refused: {problem}"
    if kind:
        return f"{kind} dropped: {cell!r:.200}"
    same = rows["points"].tolist() == points and rows["requirement"].tolist() == [entry["text"] for entry in entries]
    return "read" if same else f"other points: {cell!r:.200}"


def labels(draw: random.Random) -> str:
    """A column of labels of one criterion."""
    n_levels = draw.randint(2, 5)
    texts = {code: f"{word(draw)} {word(draw)}" for code in range(n_levels)}
    criterion: dict[str, Any] = {"name": "quality", "scale": texts, "pass_at": n_levels - 1}
    rubric = ek.Rubric(id="own", inputs=["answer"], criteria=[criterion])
    codes = [draw.randrange(n_levels) for _ in range(draw.randint(3, 12))]
    spelled = draw.choice((int, float, str, texts.__getitem__))
    cells: list[Any] = [spelled(code) for code in codes]
    is_wrong = draw.random() < 0.5
    if is_wrong:
        cells[draw.randrange(len(cells))] = draw.choice([word(draw), f"{word(draw)} {word(draw)}", n_levels + 1, -1])
    items = pd.DataFrame({"item_id": [f"i{at}" for at in range(len(cells))], "answer": "x"})
    items["person"] = pd.Series(cells, dtype=object)
    try:
        table = ek.extract_labels(items, {"quality": "person"}, rubric=rubric)
    except InputError as problem:
        return "refused" if is_wrong else f"right labels refused: {problem}"
    read = dict(zip(table["item_id"], table["label"], strict=True))
    if is_wrong:
        return f"not refused: {cells!r:.200} -> {read!r:.200}"
    same = [float(read[f"i{at}"]) for at in range(len(codes))] == codes
    return "read" if same else f"other labels: {cells!r:.200} -> {read!r:.200}"


def columns(draw: random.Random) -> str:
    """A table whose columns have random names: the roles that the card proposes."""
    n = draw.randint(12, 30)
    n_ids, n_texts, n_labels = draw.randint(0, 2), draw.randint(1, 3), draw.randint(0, 2)
    names = [word(draw) for _ in range(n_ids + n_texts + n_labels)]
    made: dict[str, list[Any]] = {}
    for at, name in enumerate(names):
        if at < n_ids:
            made[name] = [f"{chr(65 + at)}-{1000 + 7 * row}" for row in range(n)]
        elif at < n_ids + n_texts:
            made[name] = [f"{sentence(draw)} {row}." for row in range(n)]
        else:
            made[name] = [1, 5, *(draw.randint(1, 5) for _ in range(n - 2))]
    shuffled = draw.sample(names, len(names))
    shown = {name: Column(name, pd.Series(made[name])) for name in shuffled}
    roles = guess_roles(shown, ek.load_rubric("helpfulness")).roles
    said = Counter(role for role in roles.values() if role)
    of_role = {role: name for name, role in roles.items()}
    if said["id"] != (n_ids == 1) or (n_ids == 1 and of_role["id"] != names[0]):
        return f"id: {roles}"
    if said["label: helpfulness"] != (n_labels == 1) or (n_labels == 1 and of_role["label: helpfulness"] != names[-1]):
        return f"labels: {roles}"
    if any(role.startswith("input: ") for role in said):  # two inputs are missing, and no name says which
        return f"inputs: {roles}"
    return "read" if n_ids < 2 > n_labels else "asked"


def main(n: int = CASES, seed: int = SEED) -> int:
    """Print how often each edge read, refused or asked, and what was wrong."""
    wrong = 0
    for edge in (criteria, labels, columns):
        draw, seen = random.Random(f"{edge.__name__} {seed}"), Counter[str]()
        for _ in range(n):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ek.errors.EvalkitWarning)
                seen[edge(draw)] += 1
        right = {name: seen.pop(name, 0) for name in ("read", "refused", "asked")}
        print(f"{edge.__name__}: {right}, {seen.total()} wrong", *[f"  {one}" for one in [*seen][:5]], sep="\n")
        wrong += seen.total()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
