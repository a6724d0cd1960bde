"""Human labels: item columns into the long table, each label checked against its scale."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from evalkit.errors import ConfigError, InputError, RubricError
from evalkit.rubrics import Rubric, extract_labels
from evalkit.tables import load_items
from evalkit.tables.files import write_frame
from evalkit.tables.schemas import TABLES

RUBRIC = Rubric(
    id="r",
    inputs=["answer"],
    criteria=[
        {"name": "c", "scale": {0: "Bad", 1: "Fair", 2: "Good"}, "pass_at": 2},
        {"name": "share", "level": "interval", "scale": {0: "none", 1: "all"}},
        {
            "name": "tone",
            "level": "nominal",
            "scale": {"1": "polite", "no": "rude", "да": "friendly"},
            "pass_if": ["1"],
        },
        {"name": "same", "scale": {0: "alike", 1: "alike"}},
    ],
)


def found(values: list[object], criterion: str = "c", rubric: Rubric | None = RUBRIC) -> list[str]:
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object)})
    return extract_labels(frame, {criterion: "a"}, rubric=rubric)["label"].tolist()


class TestShape:
    def test_one_row_a_label(self):
        items = [{"item_id": "x", "a": 1, "b": "2"}, {"item_id": "y", "a": None, "b": 0.0}]
        made = extract_labels(items, {"c": ["a", "b"], "other": "b"})
        rows = [tuple(row) for row in made.itertuples(index=False)]
        # by criterion, by annotator, then as the items stand
        assert rows == [
            ("x", "c", "a", "1"), ("x", "c", "b", "2"), ("y", "c", "b", "0"), ("x", "other", "b", "2"),
            ("y", "other", "b", "0"),
        ]  # fmt: skip
        assert list(made.columns) == list(TABLES["labels"])
        assert made["label"].dtype == "category"

    def test_empty_one_row_and_nothing_labelled(self):
        assert len(extract_labels([], {})) == 0
        assert len(extract_labels([{"a": 1}], {"c": "a"})) == 1
        none = extract_labels([{"a": None}, {"a": ""}, {"a": " \t"}, {"a": math.nan}, {"a": pd.NA}], {"c": "a"})
        assert len(none) == 0
        assert list(none.columns) == list(TABLES["labels"])

    def test_ids_from_another_column(self):
        assert extract_labels([{"id": 7, "a": 1}], {"c": "a"}, item_id="id")["item_id"].tolist() == ["7"]

    def test_same_labels_from_every_source(self, tmp_path):
        rows = [{"item_id": "x", "a": 1, "b": True}, {"item_id": "y", "a": None, "b": False}]
        expected = extract_labels(rows, {"c": ["a", "b"]}, rubric=RUBRIC)
        for ending in ("csv", "jsonl"):
            write_frame(pd.DataFrame(rows), tmp_path / f"i.{ending}")
            made = extract_labels(load_items(tmp_path / f"i.{ending}"), {"c": ["a", "b"]}, rubric=RUBRIC)
            pd.testing.assert_frame_equal(made, expected, check_categorical=False)
        assert expected["label"].tolist() == ["1", "true", "false"]


class TestMeaning:
    def test_codes_names_and_booleans(self):
        given = [2, 2.0, "2", " 2 ", np.int64(2), "2.0", "good", "GOOD ", True, "True", np.bool_(False), "false"]
        assert found(given) == ["2"] * 8 + ["true", "true", "false", "false"]

    def test_sides_of_a_pair(self):
        items = pd.DataFrame({"winner": ["model_a", "tie", "model_b"]})
        advice = r"allowed: A, B, tie; if it means one of these, say which: column.replace\({'model_a': …}\)"
        with pytest.raises(InputError, match=advice):
            extract_labels(items, {"preference": "winner"}, rubric="preference")
        items = items.replace({"winner": {"model_a": "A", "model_b": "B"}})
        made = extract_labels(items, {"preference": "winner"}, rubric="preference")
        assert made["label"].tolist() == ["A", "tie", "B"]

    @pytest.mark.parametrize("word", ["ok", "not ok", "yes", "✓", "pass", "unsure", "n/a"])
    def test_words_of_ones_own_are_refused_until_they_are_replaced(self, word):
        with pytest.raises(InputError, match=rf"label '{word}' is not on the scale; .*true, false; .*'{word}': …"):
            found([word])
        items = pd.DataFrame({"a": [word, 1]}).replace({"a": {word: "true"}})
        assert extract_labels(items, {"c": "a"}, rubric=RUBRIC)["label"].tolist() == ["true", "1"]

    def test_interval_takes_decimals(self):
        assert found([0.25, "0,5", 1, "all"], "share") == ["0.25", "0.5", "1", "1"]

    def test_nominal_codes_that_look_like_something_else(self):
        assert found([1, "1", 1.0, "NO", "Да", "polite"], "tone") == ["1", "1", "1", "no", "да", "1"]

    def test_without_a_rubric_they_are_texts(self):
        assert found([1.0, "Good", True, "TRUE", 0.5, " x "], rubric=None) == ["1", "Good", "true", "true", "0.5", "x"]

    @pytest.mark.parametrize(
        ("value", "criterion", "message"),
        [
            (3, "c", r"item '0', column 'a': label '3' is not on the scale; allowed: 0, 1, 2, true, false"),
            ("great", "c", "label 'great' is not on the scale"),
            (1.5, "c", "label '1.5' is not on the scale"),
            (1.5, "share", "label '1.5' is not on the scale; allowed: any number from 0 to 1;"),
            ("maybe", "tone", "allowed: 1, no, да, true, false"),
            ("alike", "same", "label 'alike' is not on the scale"),
            (True, "same", "a boolean label needs a criterion with a pass rule"),
            ("False", "same", "a boolean label needs a criterion with a pass rule"),
            ([1], "c", "expected a code, a level name or a boolean as label, got list"),
            ({"label": 1}, "c", "got dict"),
        ],
    )
    def test_what_is_not_on_the_scale(self, value, criterion, message):
        with pytest.raises(InputError, match=message):
            found([value], criterion)


class TestFaults:
    def test_missing_column_names_what_is_there(self):
        with pytest.raises(InputError, match="no column 'ann1'; available: 'item_id', 'a'"):
            extract_labels([{"a": 1}], {"c": "ann1"})

    def test_a_column_twice(self):
        with pytest.raises(InputError, match="labels= names a column twice for criterion 'c': 'a', 'a'"):
            extract_labels([{"a": 1}], {"c": ["a", "a"]})

    def test_unknown_criterion(self):
        with pytest.raises(RubricError, match="no criterion 'x'; available: 'c'"):
            extract_labels([{"a": 1}], {"x": "a"}, rubric=RUBRIC)

    def test_the_name_of_a_rubric_is_a_rubric(self):
        made = extract_labels([{"a": " 2.0"}], {"faithfulness": "a"}, rubric="faithfulness")
        assert made["label"].tolist() == ["2"]
        with pytest.raises(ConfigError, match="expected a Rubric, a Profile, or the name or path of one, got int"):
            extract_labels([{"a": 1}], {"c": "a"}, rubric=7)  # type: ignore[arg-type]

    def test_doubled_ids(self):
        with pytest.raises(InputError, match="repeated in column 'item_id': 'x'"):
            extract_labels([{"item_id": "x", "a": 1}] * 2, {"c": "a"})
