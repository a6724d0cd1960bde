"""Labels of a log count for the texts that people read, wherever labels and items meet."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import evalkit as ek
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import EvalkitWarning
from evalkit.evaluation import Evaluation
from evalkit.evaluation.inputs import labels_of
from evalkit.rubrics.human_labels import text_hashes
from evalkit.stats import k_curve
from evalkit.tables.items import as_items

RUBRIC = ek.Rubric(
    id="r", inputs=["question", "answer", "hint?"], criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}, "pass_at": 1}]
)
INPUTS = {"answer": "reply"}
ODD = ["", "7", 7, 7.5, None, "x" * 300, "Ünï\n", ["a", "b"], [{"role": "user", "content": "hi"}], {"k": 1}]


def rows(n: int = 12) -> list[dict[str, Any]]:
    return [{"question": f"q{at}", "reply": f"a{at % 9}", "note": "n", "hint": None} for at in range(n)]


def log_of(tmp_path: Path, items: list[dict[str, Any]]) -> pd.DataFrame:
    pytest.importorskip("anywidget")
    for who in ("Ana", "Ben"):
        page = ek.notebook.LabelPage(items, RUBRIC, annotator=who, labels=tmp_path / "l.jsonl", inputs=INPUTS)
        while form := page.state["form"]["form"]:
            page.receive({"do": "save", "form": form, "answers": ["1"]})
    return ek.load_labels(tmp_path / "l.jsonl", rubric=RUBRIC)


def read(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Item -> what people and judges read of it."""
    names = [str(one.get("item_id", at)) for at, one in enumerate(items)]
    return {name: (one["question"], one["reply"], one["hint"]) for name, one in zip(names, items, strict=True)}


@pytest.mark.long
def test_a_label_of_another_text_is_none_of_the_item(tmp_path: Path) -> None:
    """Rows without ids: inserted, moved, edited in columns that are read and in others."""
    before = rows()
    labels, draw = log_of(tmp_path, before), random.Random(5)
    assert len(labels) == 24
    for attempt in range(60):
        items = [dict(row) for row in before]
        for _ in range(draw.randint(0, 3)):
            at = draw.randrange(len(items))
            match draw.choice(["insert", "move", "drop", "edit", "note", "hint", "blank", "double"]):
                case "insert":
                    items.insert(at, rows(20)[-1])
                case "move":
                    items.append(items.pop(at))
                case "drop" if len(items) > 9:
                    items.pop(at)
                case "edit":
                    items[at]["reply"] += "!"
                case "note":
                    items[at]["note"] = "another"
                case "hint":
                    items[at]["hint"] = "look"
                case "blank":
                    items[at]["hint"] = " " if attempt % 2 else ""
                case "double":
                    items.append(dict(items[at]))
        then, now = read(before), read([row | {"hint": row["hint"] or None} for row in items])
        truth = {name for name in now if name in then and now[name] == then[name]}
        n_other = len({*now} & {*then}) - len(truth)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            used = labels_of(labels, as_items(items), RUBRIC, INPUTS)
        said = [str(one.message) for one in caught if "of other texts" in str(one.message)]
        assert {*used["item_id"]} == truth, attempt
        assert len(said) == bool(n_other)
        assert all(text.startswith(f"{2 * n_other} labels of 24 left out") for text in said)
        plain = labels.drop(columns="text_hash")  # labels of other tools count as before
        assert {*labels_of(plain, as_items(items), RUBRIC, INPUTS)["item_id"]} == {*now} & {*then}


@pytest.mark.long
def test_all_that_has_items_and_labels_leaves_them_out(tmp_path: Path) -> None:
    labels, items = log_of(tmp_path, rows()), rows()
    items[3]["reply"] = "another"
    options: dict[str, Any] = {"samples": 1, "inputs": INPUTS, "progress": False}
    with pytest.warns(
        EvalkitWarning, match="2 labels of 24 left out, as of other texts than the items have now .rubric 'r', item '3'"
    ):
        evaluation = ek.evaluate(items, RUBRIC, ["fake:strict"], labels=labels, **options)
    assert evaluation.alignment is not None
    assert evaluation.alignment["n_labelled"].tolist() == [11]
    assert "2 labels of 24 left out, as of other texts" in evaluation.alignment["notes"].iloc[0]
    with pytest.warns(EvalkitWarning, match="of other texts"):
        assert ek.align(evaluation, labels)["n_labelled"].tolist() == [11]
    with pytest.warns(EvalkitWarning, match="of other texts"):
        assert Evaluation.of(evaluation.judgments, items, labels, RUBRIC, inputs=INPUTS).labels is not None
    with pytest.warns(EvalkitWarning, match="of other texts"):
        k_curve(evaluation, labels)
    bare = ek.align(evaluation.votes, labels)  # a table has no texts
    assert bare["n_labelled"].tolist() == [12]
    assert "not checked whether the texts are those that people labelled" in bare["notes"].iloc[0]


def test_the_hash_of_a_text_is_that_of_the_work_list() -> None:
    """Logs that exist hold hashes of the work list."""
    items = as_items([{"question": "q", "reply": value, "hint": hint} for value in ODD if value for hint in ODD[:5]])
    spec = Spec.of(RUBRIC, "fake:strict", inputs=INPUTS, on_missing="skip")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work = Worklist.of(spec, items)
    hashes = {item: of_item[0][:16] for item, of_item in zip(items["item_id"], work.hashes, strict=True)}
    assert text_hashes(RUBRIC, items, INPUTS) == hashes
