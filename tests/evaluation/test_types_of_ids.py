"""Ids of items that are no texts: an evaluation's tables give them back, and every door computes the same figures."""

from pathlib import Path

import pandas as pd
import pytest

import evalkit as ek
from evalkit.evaluation import history, measure_edit, open_evaluation, plan_again, suggest_edits

TABLES = ("items", "judgments", "votes", "scores", "disagreement", "rubric_scores")
FIGURES = ("summary", "reliability", "alignment")


def tables_of(evaluation: ek.Evaluation) -> dict[str, pd.DataFrame]:
    return {name: getattr(evaluation, name) for name in TABLES}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["int64", "category"])
def test_ids_come_back_as_they_were_and_no_figure_depends_on_them(kind: str, tmp_path: Path) -> None:
    texts, labels = ek.load_example("support")
    numbers = pd.Series(range(100, 100 + len(texts)), index=texts["item_id"])
    ids = numbers.astype(kind) if kind != "category" else numbers.astype("category")
    items = texts.assign(item_id=ids.array)
    numbered = labels.assign(item_id=labels["item_id"].map(numbers).to_numpy())
    asked = {"rubric": "faithfulness", "judges": ["fake:strict", "fake:lenient"], "cache": tmp_path, "progress": False}
    plain = ek.evaluate(texts, labels=labels, **asked)
    made = ek.evaluate(items, labels=numbered, **asked)
    of = ek.Evaluation.of(made.judgments, items, numbered, "faithfulness")
    opened = open_evaluation(history(cache=tmp_path)["evaluation"].iloc[0], items, numbered, cache=tmp_path)
    for evaluation in (made, of, opened):
        for name, table in tables_of(evaluation).items():
            assert table["item_id"].dtype == items["item_id"].dtype, name
            assert set(table["item_id"]) == set(items["item_id"]), name
        assert len(items.merge(evaluation.scores, on="item_id")) == len(plain.scores)
        assert len(evaluation.items.merge(evaluation.scores, on="item_id")) == len(plain.scores)
        assert evaluation.scores["score"].tolist() == plain.scores["score"].tolist()
        assert evaluation.wide()["item_id"].tolist() == items["item_id"].tolist()
        for name in FIGURES:
            pd.testing.assert_frame_equal(getattr(evaluation, name), getattr(plain, name))
        pd.testing.assert_frame_equal(ek.align(evaluation, numbered), ek.align(plain, labels), check_dtype=False)
        assert str(evaluation).startswith("faithfulness@v1: 24 items")
        assert "100" in ek.report(evaluation, tmp_path / "report.html", baseline=made).read_text()
        assert len(suggest_edits(evaluation, "fake:strict")) == len(suggest_edits(plain, "fake:strict"))
        assert ek.compare(made, evaluation).table["changed"].eq(0).all()
    assert measure_edit(made, made)["n_labelled"].tolist() == measure_edit(plain, plain)["n_labelled"].tolist()
    assert plan_again(made).n_items == plan_again(plain).n_items
    assert ek.evaluation.sample_again(made)["item_id"].dtype == items["item_id"].dtype


@pytest.mark.parametrize("index", [range(3), [7, 5, 6], ["x", "y", "z"], [0.5, 1.0, 2.0], [1, "x", 2]])
def test_ids_of_the_index_come_back_as_they_were(index: list[object], tmp_path: Path) -> None:
    items = pd.DataFrame({"question": ["q"] * 3, "answer": ["a", "b", "c"]}, index=pd.Index(index))
    rubric = ek.Rubric(id="r", inputs=["question", "answer"], criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}}])
    made = ek.judge(items, rubric, "fake:strict", cache=tmp_path, progress=False)
    scores = ek.aggregate(ek.vote(made))
    evaluation = ek.evaluate(items, rubric, ["fake:strict"], cache=tmp_path, progress=False)
    imported = ek.import_judgments(items.assign(mark=1), rubric, judge="fake:strict", score="mark")
    for table in (made.drop_duplicates("item_id"), scores, evaluation.scores, imported):
        if len({*map(type, index)}) > 1:  # of mixed types: texts
            assert table["item_id"].tolist() == [*map(str, index)]
            continue
        assert table["item_id"].dtype == items.index.dtype
        joined = items.join(table.set_index("item_id")["score"])
        assert joined["score"].tolist() == table["score"].tolist()


@pytest.mark.parametrize(
    ("name", "ids"),
    [("item_id", [4, 2, 9]), ("number", [4.0, 2.5, 9.0]), ("number", ["04", "2", "9"]), ("item_id", [2**63 + 5, 1, 2])],
)
def test_ids_of_rows_that_are_no_table_come_back_as_pandas_has_them(
    name: str, ids: list[object], tmp_path: Path
) -> None:
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}}])
    rows = [{name: one, "answer": f"a{n}"} for n, one in enumerate(ids)]
    table = pd.DataFrame(rows).rename(columns={name: "item_id"})
    options = {"item_id": None if name == "item_id" else name, "cache": tmp_path, "progress": False}
    made = ek.judge(rows, rubric, "fake:strict", samples=1, **options)
    evaluation = ek.evaluate(rows, rubric, "fake:strict", samples=1, **options)
    of = ek.Evaluation.of(made, rows, rubric=rubric, item_id=options["item_id"])
    opened = open_evaluation(
        history(cache=tmp_path)["evaluation"].iloc[0], rows, cache=tmp_path, item_id=options["item_id"]
    )
    imported = ek.import_judgments(
        [row | {"mark": 1} for row in rows], rubric, item=name, judge="fake:strict", score="mark"
    )
    for scores in (made, evaluation.scores, evaluation.items, of.scores, opened.scores, imported):
        assert scores["item_id"].dtype == table["item_id"].dtype
        assert len(table.merge(scores, on="item_id")) == len(ids)


def test_numbers_that_evalkit_gives_and_mixed_ids_are_texts(tmp_path: Path) -> None:
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}}])
    options = {"cache": tmp_path, "progress": False, "samples": 1}
    assert ek.judge([{"answer": "a"}, {"answer": "b"}], rubric, "fake:strict", **options)["item_id"].tolist() == [
        "0",
        "1",
    ]
    mixed = [{"item_id": 5, "answer": "a"}, {"item_id": "x", "answer": "b"}]
    assert ek.judge(mixed, rubric, "fake:strict", **options)["item_id"].tolist() == ["5", "x"]
    single = {"item_id": 5, "answer": "a"}
    assert ek.judge(single, rubric, "fake:strict", **options)["item_id"].tolist() == [5]
    assert ek.judge([], rubric, "fake:strict", **options).empty


@pytest.mark.long
def test_a_stream_is_read_once_and_keeps_whole_numbers(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="the extra datasets is not installed")
    reads = []

    def rows():
        for number in (30, 10, 20):
            reads.append(number)
            yield {"item_id": number, "answer": "a"}

    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}}])
    stream = datasets.IterableDataset.from_generator(rows)
    evaluation = ek.evaluate(stream, rubric, "fake:strict", samples=1, cache=tmp_path, progress=False)
    assert evaluation.scores["item_id"].tolist() == reads == [30, 10, 20]
