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


def published_rows(folder, name):
    """The rows of a file of published judgments."""
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return pd.DataFrame(map(json.loads, lines))


def imported(table, scale, *, criterion="c", **columns):
    """`import_judgments` for one criterion with this scale."""
    one = {"name": criterion, "level": scale.level, "scale": dict(scale)}
    return ek.import_judgments(table, ek.Rubric(id="r", inputs=["answer"], criteria=[one]), **columns)
