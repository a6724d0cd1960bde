"""The rows of the table as CSV, and what the pane of an item has beside them."""

from __future__ import annotations

import pandas as pd
import pytest
from small_tuner import do

import evalkit as ek

pytestmark = pytest.mark.long
ANSWERS = ["=SUM(A1)", "fine", "-4", '@home, "quoted"\nand on two lines']
ITEMS = [{"item_id": f"i{at}", "answer": text, "ticket": f"T-{at // 2}"} for at, text in enumerate(ANSWERS)]
RUBRIC = ek.Rubric(
    id="r",
    inputs=["answer"],
    criteria=[{"name": "so", "scale": {0: "no", 1: "yes"}, "pass_at": 1}],
    template="number@v1",
)


def tuner_of(folder, labels=None, **options):
    """A tuner whose judge says 1 to all but i1, and after an edit to all; `asked` has the answers in their order."""
    asked = []

    def reply(prompt):
        asked.append(prompt.inputs["answer"])
        return "1" if "edited" in "".join(prompt.texts) or prompt.inputs["answer"] != "fine" else "0"

    judge = ek.Judge.function(reply, name="f", version="1")
    tuner = ek.RubricTuner(ITEMS, RUBRIC, judge, labels, samples=1, folder=folder, cache=folder / "c", **options)
    tuner.run()
    return tuner, asked


def agreement(tuner):
    """How many labels the jury agrees with, how many not, and on how many items."""
    return tuple(tuner.state["figures"][name] for name in ("right", "wrong", "n_compared"))


def labels_of(*labels):
    rows = [("i0", "so", "Ana", "1"), ("i1", "so", "Ana", "1"), ("i2", "so", "Ana", "0")]
    return pd.DataFrame([*rows, *labels], columns=["item_id", "criterion", "annotator", "label"])


def test_the_rows_of_a_filter_are_written_with_both_versions_and_no_cell_is_computed(tmp_path):
    tuner, _ = tuner_of(tmp_path, labels_of())
    tuner.edit("so", scale={1: "yes, edited"})
    tuner.run()
    do(tuner, do="query", query={"search": "T-0", "sort": "file"})
    do(tuner, do="export")
    path = tmp_path / "r-v1.1.export.csv"
    assert tuner.state["status"]["text"] == f"exported 2 of 4 items as {path}"
    table = pd.read_csv(path, keep_default_na=False, dtype=str)
    assert table["item_id"].tolist() == ["i0", "i1"]
    assert table["ticket"].tolist() == ["T-0", "T-0"]
    assert table["answer"].tolist() == ["'=SUM(A1)", "fine"]
    assert table["so_Ana"].tolist() == ["1", "1"]
    assert table["so_f_label"].tolist() == ["1", "1"]
    assert table["so_f_label v1"].tolist() == ["1", "0"]
    assert table["change"].tolist() == ["", "fixed"]
    do(tuner, do="query", query={"sort": "file"})
    do(tuner, do="export")
    answers = pd.read_csv(path, keep_default_na=False, dtype=str)["answer"].tolist()
    assert answers == ["'=SUM(A1)", "fine", "-4", "'" + ANSWERS[3]]  # a number stays one


def test_held_out_labels_are_in_no_column(tmp_path):
    items = [{"item_id": f"i{at}", "answer": f"text {at}", "Ana": at % 2} for at in range(60)]
    judge = ek.Judge.function(lambda prompt: "1", name="f", version="1")
    tuner = ek.RubricTuner(items, RUBRIC, judge, {"so": "Ana"}, samples=1, folder=tmp_path, cache=tmp_path / "c")
    tuner.run()
    do(tuner, do="export")
    table = pd.read_csv(tmp_path / "r-v1.export.csv", keep_default_na=False, dtype=str).set_index("item_id")
    held = tuner.labels.set_index("item_id")["part"].eq("held-out")
    assert 0 < held.sum() < 60
    assert table.columns.tolist().count("so_Ana") == 1
    assert "Ana" not in table.columns
    assert set(table.loc[held[held].index, "so_Ana"]) == {""}


def test_the_open_item_is_asked_about_first(tmp_path):
    tuner, asked = tuner_of(tmp_path, concurrency=1)
    do(tuner, do="select", item_id="i2")
    asked.clear()
    tuner.edit("so", scale={1: "yes, edited"})
    do(tuner, do="run")
    assert asked == [ANSWERS[at] for at in (2, 0, 1, 3)]
    assert tuner.judgments["item_id"].tolist() == ["i0", "i1", "i2", "i3"]  # in the order of the items as ever


def test_the_pane_has_the_item_before_and_after_its_columns_and_the_share_that_the_strip_names(tmp_path):
    tuner, _ = tuner_of(tmp_path, labels_of())
    # by hand: i0 is right (1, 1), i1 is wrong (0 for 1), i2 is wrong (1 for 0)
    assert agreement(tuner) == (1, 2, 3)
    assert tuner.state["figures"]["n_wrong"] == 2
    assert tuner.state["figures"]["decision"]["brief"] == "of 3 labelled items."
    tuner.edit("so", scale={1: "yes, edited"})
    tuner.run()
    do(tuner, do="select", item_id="i1")
    item = tuner.state["item"]
    assert (item["before"], item["jury"], item["passed"], item["wrong"]) == ("0", "1", True, False)
    assert (item["columns"], item["change"], item["versions"]) == ({"ticket": "T-0"}, "fixed", ["v1.1", "v1"])
    assert item["siblings"] is None
    assert agreement(tuner) == (2, 1, 3)


def test_two_people_who_differ_are_counted_in_labels(tmp_path):
    tuner, _ = tuner_of(tmp_path, labels_of(("i0", "so", "Ben", "0"), ("i2", "so", "Ben", "1")))
    assert agreement(tuner) == (2, 3, 3)  # Ana's of i0 and Ben's of i2
