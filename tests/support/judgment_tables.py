"""Small judgments tables written by hand, for the tests of votes, scores and figures."""

import gzip
import json
import math

import pandas as pd

import evalkit as ek
from evalkit.rubrics import Scale
from evalkit.rubrics.scales import code_text
from evalkit.tables import schemas

ORDINAL = Scale.of({0: "invents", 1: "mostly", 2: "supported"}, pass_at=2)
PLAIN = Scale.of({1: "a", 2: "b", 3: "c"})
BINARY = Scale.of({0: "no", 1: "yes"}, pass_at=1)
LOW = Scale.of({0: "clean", 1: "odd", 2: "toxic"}, better="low", pass_at=0)
TOPIC = Scale.of({"art": "", "law": "", "sport": ""}, level="nominal", pass_if=["art", "law"])
NAMES = Scale.of({"art": "", "law": "", "sport": ""}, level="nominal")
DECIMAL = Scale.of({0: "worst", 1: "best"}, level="interval", pass_at=0.5)
PAIR = Scale.of({"A": "", "B": "", "tie": ""}, level="nominal")
PAIR_SCORE = {"A": 1.0, "B": 0.0, "tie": 0.5}
# Krippendorff 2011, "Computing Krippendorff's alpha-reliability", example C: four observers, twelve units, in five
# categories; also Gwet's example.
TEXTBOOK = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


def judgments(samples, scale=ORDINAL, *, criterion="c", rubric="r", version="v1", weights=None):
    """A judgments table from {(item, judge): [codes]}; a text starting with "!" is an error.

    Pairwise: {(item, judge): {"AB": [codes], "BA": [codes]}}.
    """
    rows = []
    for (item, judge), given in samples.items():
        orders = given if isinstance(given, dict) else {None: given}
        for order, answers in orders.items():
            for sample, answer in enumerate(answers):
                error = answer[1:] if isinstance(answer, str) and answer.startswith("!") else None
                code = None if error else scale.code(answer)
                if error is None and code is None:
                    raise ValueError(f"{answer!r} is off the scale")
                score = math.nan if error else scale.score(code)
                norm = math.nan if error else scale.norm(code)
                if order and not error:
                    score = norm = PAIR_SCORE[code]
                rows.append(
                    {
                        "rubric": rubric,
                        "rubric_version": version,
                        "item_id": str(item),
                        "criterion": criterion,
                        "judge": judge,
                        "order": order,
                        "sample": sample,
                        "score": score,
                        "score_norm": norm,
                        "label": None if error else code_text(code),
                        "passed": None if error else scale.passed(code),
                        "error": error,
                        "weight": (weights or {}).get(judge, 1.0),
                        "level": scale.level,
                        "scale": scale.to_json(),
                    }
                )
    if not rows:
        return schemas.empty("judgments")
    return schemas.table("judgments", pd.DataFrame(rows).astype(object).to_dict("list"))


def answered(given, scale=BINARY, item="i{:03}"):
    """Judgments from {judge: [for each item a code, a list of codes, or None for a reply that could not be read]}."""
    cells = {
        (item.format(at), judge): ["!empty" if code is None else code for code in _listed(cell)]
        for judge, row in given.items()
        for at, cell in enumerate(row)
    }
    return judgments(cells, scale)


def _listed(cell):
    return cell if isinstance(cell, list) else [cell]


def rated(ratings, scale):
    """Judgments of items u00, u01, … by j0, j1, …, as in `answered`; on a nominal scale, 1 is the name c1."""
    name = "c{}" if scale.level == "nominal" else "{}"
    rows = [
        [[code if code is None else name.format(code) for code in _listed(cell)] for cell in row] for row in ratings
    ]
    return answered({f"j{judge}": row for judge, row in enumerate(rows)}, scale, "u{:02}")


def only(table):
    """The one row of a table."""
    assert len(table) == 1
    return table.iloc[0]


def published_rows(folder, name):
    """The rows of a file of published judgments."""
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return pd.DataFrame(map(json.loads, lines))


def imported(table, scale, *, criterion="c", **columns):
    """`import_judgments` for one criterion with this scale."""
    one = {"name": criterion, "level": scale.level, "scale": dict(scale)}
    return ek.import_judgments(table, ek.Rubric(id="r", inputs=["answer"], criteria=[one]), **columns)


def graded(replies, *, fields=None, **options):
    """An evaluation of recorded replies, one list an item, on the scale 0, 1, 2 with pass at 2."""
    criterion = {"name": "c", "scale": {0: "no", 1: "half", 2: "yes"}, "pass_at": 2} | (fields or {})
    rubric = ek.Rubric(id="one", inputs=["answer"], template="tagged@v1", criteria=[criterion])
    items = [{"item_id": f"i{at}", "answer": f"a{at}"} for at in range(len(replies))]
    judge = ek.Judge("openai", "m")
    ek.record(items, rubric, judge, replies)
    return ek.evaluate(items, rubric, judge, samples=len(replies[0]), offline=True, **options)
