"""`import_judgments`: answers of several systems under one id are an error, not an average."""

import pandas as pd
import pytest

import evalkit as ek
from evalkit.errors import InputError

RUBRIC = ek.Rubric(id="r", inputs=["question", "answer?"], criteria=[{"name": "c", "scale": {0: "a", 1: "b"}}])
ROWS = pd.DataFrame(
    {
        "item_id": ["q1", "q1", "q2"],
        "judge": "j",
        "score": [1, 0, 1],
        "system": ["new", "old", "new"],
        "answer": list("xyx"),
    }
)


@pytest.mark.parametrize("columns", [["system"], ["answer"], ["system_id"], ["system", "answer"]])
def test_several_systems_share_an_id(columns):
    rows = ROWS.assign(system_id=ROWS["system"])[["item_id", "judge", "score", *columns]]
    with pytest.raises(InputError, match=rf"item 'q1' has 2 values in column '{columns[0]}'.*item=.*system="):
        ek.import_judgments(rows, RUBRIC, score="score")


def test_samples_and_other_ids_are_fine():
    same = ROWS.assign(system="new", answer="x")
    assert ek.import_judgments(same, RUBRIC, score="score")["sample"].tolist() == [0, 1, 0]
    ids = ROWS["item_id"] + ROWS["system"]
    made = ek.import_judgments(ROWS, RUBRIC, item=ids, score="score", system="system")
    assert made["system_id"].tolist() == ["new", "old", "new"]
    with pytest.raises(InputError, match="'q1' has two values of system"):
        ek.import_judgments(ROWS.drop(columns="answer"), RUBRIC, score="score", system="system")
