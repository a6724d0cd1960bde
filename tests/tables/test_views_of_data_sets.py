"""Data sets of `datasets` as they show their rows: with a transform, with a format, and as streams."""

import pandas as pd
import pytest

import evalkit as ek
from evalkit.errors import InputError
from evalkit.tables.items import as_items

datasets = pytest.importorskip("datasets", reason="the extra datasets is not installed")

ROWS = [
    {"item_id": 7, "question": "Where?", "answer": "  In Rome. ", "grade": 0, "seen": 0.25},
    {"item_id": 9, "question": "When?", "answer": " In May.", "grade": 1, "seen": None},
]
RUBRIC = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}}])


def data_set(**features):
    kinds = {"item_id": "int64", "question": "string", "answer": "string", "grade": "int64", "seen": "float64"}
    types = {name: datasets.Value(kind) for name, kind in kinds.items()} | features
    return datasets.Dataset.from_list(ROWS, features=datasets.Features(types))


def stripped(batch):
    return {**batch, "answer": [text.strip() for text in batch["answer"]]}


def texts_judged(items):
    texts = []

    @ek.Judge.function(name="reader", version="1")
    def reader(prompt):
        texts.append(prompt.inputs["answer"])
        return '{"explanation": "", "score": 1}'

    ek.judge(items, RUBRIC, reader, samples=1, progress=False)
    return sorted(texts)


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.with_transform(stripped),
        lambda data: (data.set_transform(stripped), data)[1],
        lambda data: data.with_transform(stripped).select([1, 0]),
        lambda data: data.with_transform(stripped).shuffle(seed=3),
        lambda data: data.with_transform(stripped, columns=["answer"], output_all_columns=True),
        lambda data: data.to_iterable_dataset().map(lambda row: {"answer": row["answer"].strip()}),
        lambda data: data.to_iterable_dataset().map(lambda row: {"answer": row["answer"].strip()}).with_format("numpy"),
        lambda data: data.to_iterable_dataset().map(stripped, batched=True, batch_size=1).take(2),
        lambda data: datasets.IterableDataset.from_generator(lambda: iter([stripped_row(row) for row in ROWS])),
    ],
    ids=["with", "set", "selected", "shuffled", "of one column", "stream", "stream in numpy", "batches", "generator"],
)
def test_a_judge_reads_what_the_data_set_shows(change):
    data = change(data_set())
    assert texts_judged(data) == sorted(row["answer"] for row in data) == ["In May.", "In Rome."]
    assert sorted(as_items(data)["item_id"]) == ["7", "9"]


def stripped_row(row):
    return {**row, "answer": row["answer"].strip()}


@pytest.mark.long
@pytest.mark.parametrize("name", ["numpy", "pandas", "arrow", "python", None])
def test_a_format_changes_no_value_and_hides_the_columns_that_it_hides(name):
    plain, data = as_items(data_set()), data_set()
    pd.testing.assert_frame_equal(as_items(data.with_format(name)), plain)
    pd.testing.assert_frame_equal(
        as_items(data.with_format(name, columns=["item_id", "answer"])), plain[["item_id", "answer"]]
    )
    shown = data.with_format(name, columns=["answer"], output_all_columns=True)
    assert {*as_items(shown).columns} == {*plain.columns}


@pytest.mark.long
def test_classes_have_their_names_unless_the_transform_gives_others():
    data = data_set(grade=datasets.ClassLabel(names=["bad", "good"]))
    labels = {"c": "grade"}
    assert ek.extract_labels(data, labels)["label"].tolist() == ["bad", "good"]
    assert ek.extract_labels(data.with_transform(stripped), labels)["label"].tolist() == ["bad", "good"]
    turned = data.with_transform(lambda batch: {**batch, "grade": [5 - grade for grade in batch["grade"]]})
    assert ek.extract_labels(turned, labels)["label"].tolist() == ["5", "4"]
    words = data.with_transform(lambda batch: {"item_id": batch["item_id"], "grade": ["so", "so"]})
    assert ek.extract_labels(words, labels)["label"].tolist() == ["so", "so"]


@pytest.mark.long
def test_a_transform_that_leaves_no_column_of_the_rubric_is_refused():
    data = data_set().with_transform(lambda batch: {"input_ids": [[1]] * len(batch["answer"])})
    with pytest.raises(InputError, match="input_ids"):
        ek.judge(data, RUBRIC, "fake:strict", progress=False)
    empty = data_set().to_iterable_dataset().filter(lambda row: False).map(lambda row: row)
    assert as_items(empty).empty


@pytest.mark.long
def test_a_column_that_starts_empty_in_a_stream_is_read_whole():
    """datasets makes batches of 1,000 rows, and one without a text has another type than the next."""
    rows = [{"item_id": n, "answer": "x", "context": None if n < 1000 else "There."} for n in range(1001)]
    stream = datasets.IterableDataset.from_generator(lambda: iter(rows))
    assert as_items(stream)["context"].fillna("").tolist() == [""] * 1000 + ["There."]
