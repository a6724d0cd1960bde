"""Data sets with names of classes and with splits, and ids of more digits than a float has."""

import pandas as pd
import pytest

import evalkit as ek
from evalkit.errors import InputError
from evalkit.tables.items import as_items
from evalkit.tables.schemas import check


@pytest.mark.long
def test_names_of_classes_are_the_values():
    datasets = pytest.importorskip("datasets", reason="the extra datasets is not installed")
    features = {"item_id": datasets.Value("string"), "verdict": datasets.ClassLabel(names=["good", "bad"])}
    rows = {"item_id": ["a", "b", "c"], "verdict": [0, 1, None]}
    data = datasets.Dataset.from_dict(rows, features=datasets.Features(features))
    assert as_items(data)["verdict"].tolist()[:2] == ["good", "bad"]
    assert pd.isna(as_items(data)["verdict"][2])
    scale = {0: "bad", 1: "good"}  # the numbers of the classes would be the wrong codes
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": "c", "scale": scale}])
    assert ek.extract_labels(data, {"c": "verdict"}, rubric=rubric)["label"].tolist() == ["1", "0"]
    with pytest.raises(InputError, match=r"DatasetDict with the splits 'train', 'test'; choose one.*data\['train'\]"):
        as_items(datasets.DatasetDict({"train": data, "test": data}))
    assert as_items(data.to_iterable_dataset())["verdict"].tolist()[:2] == ["good", "bad"]


def test_long_ids_stay_exact_or_are_refused(tmp_path):
    ids = [2**70, 2**70 + 1, -(2**64)]
    assert as_items([{"item_id": one, "answer": "x"} for one in ids])["item_id"].tolist() == [str(one) for one in ids]
    labels = pd.DataFrame({"item_id": ids, "criterion": "c", "annotator": "p", "label": 1})
    assert check(labels, "labels")["item_id"].tolist() == [str(one) for one in ids]
    file = tmp_path / "items.jsonl"
    file.write_text('{"item_id": 123456789012345678901234567890, "answer": "x"}\n')
    with pytest.raises(InputError, match="which was rounded when it was read"):
        ek.load_items(file)
    with pytest.raises(InputError, match=r"column 'item_id' of the labels table is not text: .*rounded"):
        check(labels.assign(item_id=[float(one) for one in ids]), "labels")
    assert as_items([{"item_id": 3.0, "answer": "x"}])["item_id"].tolist() == ["3"]
