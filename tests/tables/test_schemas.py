"""Column contracts: every table has its columns and types, and gets them back from whatever it went through."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from table_samples import assert_same, sample

from evalkit.errors import InputError
from evalkit.tables.schemas import (
    JUDGMENT_KEY,
    LABEL_KEY,
    SCORE_KEY,
    TABLES,
    VOTE_KEY,
    as_decimals,
    categorical,
    check,
    columns_of,
    empty,
    table,
)


@pytest.fixture(params=["pyarrow", "python"])
def storage(request: pytest.FixtureRequest) -> Iterator[str]:
    """Text columns as pandas keeps them with pyarrow installed, and as without."""
    if request.param == "pyarrow":
        pytest.importorskip("pyarrow")
    with pd.option_context("mode.string_storage", request.param):
        yield request.param


class TestMaking:
    @pytest.mark.parametrize("name", TABLES)
    def test_empty_has_every_column_of_its_type(self, name, storage):
        made = empty(name)
        assert list(made.columns) == columns_of(name) == list(TABLES[name])
        assert len(made) == 0
        for column, kind in TABLES[name].items():
            assert made[column].dtype == {"text": "str"}.get(kind, kind), column
        assert made.dtypes.equals(check(made, name).dtypes)

    def test_columns_not_given_are_missing_and_come_in_order(self, storage):
        made = table("labels", {"item_id": ["a", "b"], "criterion": categorical(["c", "c"])})
        assert list(made.columns) == columns_of("labels")
        assert made["label"].isna().all()
        assert made["annotator"].dtype == "category"

    def test_numbers_that_cannot_be_missing(self):
        with pytest.raises(KeyError, match=r"column sample of the judgments table cannot be missing"):
            table("judgments", {"item_id": ["a"]})

    def test_further_columns_are_kept_behind(self):
        made = table("labels", {"note": ["n"], "item_id": ["a"]})
        assert list(made.columns) == [*columns_of("labels"), "note"]

    def test_keys_are_columns_of_their_tables(self):
        for name, key in (
            ("judgments", JUDGMENT_KEY),
            ("votes", VOTE_KEY),
            ("scores", SCORE_KEY),
            ("labels", LABEL_KEY),
        ):
            assert set(key) <= set(TABLES[name])

    def test_the_documented_columns_are_there(self):
        # the design's table of columns, in its words: they cannot change later
        documented = {
            "labels": "item_id criterion annotator label",
            "judgments": "rubric rubric_version item_id criterion judge order sample score score_norm label passed "
            "explanation error source model prompt_tokens completion_tokens cost_usd latency_s weight key level scale",
            "votes": "rubric rubric_version item_id criterion judge score score_norm label passed reason agreement "
            "self_agreement n_samples n_scored tied weight level scale",
            "scores": "rubric rubric_version item_id criterion score score_norm label passed reason n_judges n_scored "
            "tied disagreement status level scale",
            "summary": "rubric rubric_version criterion mean mean_norm low high worst best pass_rate n_items n_scored "
            "n_partial",
        }
        for name, columns in documented.items():
            assert columns_of(name)[: len(columns.split())] == columns.split()


class TestCategorical:
    def test_categories_in_order_of_appearance(self):
        made = categorical(["b", None, "a", "b"])
        assert list(made.categories) == ["b", "a"]
        assert list(made.codes) == [0, -1, 1, 0]

    def test_empty_and_all_missing(self):
        assert len(categorical([])) == 0
        assert list(categorical(value for value in [None, None]).codes) == [-1, -1]


class TestCheck:
    @pytest.mark.parametrize("name", TABLES)
    def test_a_good_table_is_returned_as_it_is(self, name, storage):
        made = sample(name)
        assert check(made, name) is made

    @pytest.mark.parametrize("name", TABLES)
    def test_after_csv(self, name, storage):
        text = sample(name).to_csv(index=False)
        as_text = pd.read_csv(io.StringIO(text), dtype=str, na_values=[""], keep_default_na=False)
        assert_same(check(as_text, name), sample(name))

    @pytest.mark.parametrize("name", TABLES)
    def test_after_csv_whose_types_were_guessed(self, name, storage):
        # ids and codes that look like numbers lose their zeros here: nothing can bring them back
        made = sample(name).replace({"007": "7", "1e5": "a"})
        guessed = pd.read_csv(io.StringIO(made.to_csv(index=False)))
        found = check(guessed, name)
        assert found.dtypes.map(lambda kind: kind.name).equals(made.dtypes.map(lambda kind: kind.name))
        for column in made.columns:
            assert found[column].isna().equals(made[column].isna()), column
        if "tied" in made.columns:
            assert found["tied"].tolist() == [True, False, False]
        if "passed" in made.columns:
            assert found["passed"].tolist()[:2] == [True, False]

    @pytest.mark.parametrize("name", TABLES)
    def test_after_json(self, name, storage):
        rows = json.loads(sample(name).to_json(orient="records"))
        assert_same(check(pd.DataFrame(rows), name), sample(name))
        columns = {column: pd.Series([row[column] for row in rows], dtype=object) for column in rows[0]}
        assert_same(check(pd.DataFrame(columns), name), sample(name))

    @pytest.mark.parametrize("name", TABLES)
    def test_after_parquet(self, name, tmp_path):
        pytest.importorskip("pyarrow")
        sample(name).to_parquet(tmp_path / "t.parquet")
        assert_same(check(pd.read_parquet(tmp_path / "t.parquet"), name), sample(name))

    @pytest.mark.parametrize("name", TABLES)
    def test_after_concat(self, name, storage):
        one, two = sample(name).iloc[[0]], sample(name).iloc[[1, 2]]
        # categories that differ make object columns; a missing one makes floats of numbers
        one["label" if "label" in one else one.columns[0]] = pd.Categorical(["1"])
        assert_same(check(pd.concat([one, two], ignore_index=True), name), sample(name))

    @pytest.mark.parametrize("name", TABLES)
    def test_as_objects_shuffled_and_never_changed(self, name, storage):
        given = sample(name).astype(object).iloc[[2, 0, 1]]
        before = given.copy()
        found = check(given, name)
        pd.testing.assert_frame_equal(given, before)
        assert list(found.index) == [2, 0, 1]
        assert_same(found.sort_index(), sample(name))

    @pytest.mark.parametrize(
        ("column", "values", "expected"),
        [
            ("tied", ["False", "true", "FALSE"], [False, True, False]),
            ("passed", ["False", "true", None], [False, True, None]),
            ("passed", [0.0, 1.0, None], [False, True, None]),
            ("n_samples", ["3", "3.0", "4"], [3, 3, 4]),
            ("n_samples", [3.0, 3.0, 4.0], [3, 3, 4]),
            ("label", [1, 2, 1], ["1", "2", "1"]),
            ("label", [1.0, None, 0.5], ["1", None, "0.5"]),
            ("label", [True, False, None], ["true", "false", None]),
            ("item_id", [1.0, 2.0, 3.5], ["1", "2", "3.5"]),
            ("item_id", [1, 2, 3], ["1", "2", "3"]),
            ("score", ["1", None, "0.5"], [1.0, None, 0.5]),
        ],
    )
    @pytest.mark.parametrize("kind", [None, "object"])
    def test_what_readers_make_of_it(self, column, values, expected, kind, storage):
        given = sample("votes").assign(**{column: pd.Series(values, dtype=kind)})
        found = check(given, "votes")[column]
        assert [None if pd.isna(value) else value for value in found.tolist()] == expected

    def test_large_whole_numbers_with_gaps_stay_exact(self):
        for given in (["9007199254740993", None, "1"], [2**53 + 1, None, 1]):
            tokens = pd.Series(given, dtype=object)
            made = check(sample("judgments").assign(prompt_tokens=tokens), "judgments")["prompt_tokens"]
            assert made.dropna().tolist() == [2**53 + 1, 1]

    def test_categories_that_are_numbers_become_texts(self):
        given = sample("labels").assign(label=pd.Categorical([1, 2, None]))
        assert list(check(given, "labels")["label"].cat.categories) == ["1", "2"]

    @pytest.mark.parametrize(
        ("column", "values"),
        [("tied", ["maybe", "no", ""]), ("tied", [True, None, False]), ("sample", ["a", "1", "2"]),
         ("sample", [1.5, 1, 2]), ("sample", [None, 1, 2]), ("prompt_tokens", [0.5, 1, 2]),
         ("score", ["good", "1", "2"])],
    )  # fmt: skip
    def test_what_cannot_be_mended_names_the_column(self, column, values):
        name = "votes" if column == "tied" else "judgments"
        given = sample(name).assign(**{column: pd.Series(values, dtype=object)})
        with pytest.raises(InputError, match=f"column '{column}' of the {name} table is not"):
            check(given, name)

    def test_missing_columns_are_named_with_what_is_there(self):
        given = sample("labels").drop(columns=["label", "annotator"])
        with pytest.raises(
            InputError,
            match="not a labels table: column 'annotator', 'label' missing \\(it has 'item_id', 'criterion'\\)",
        ):
            check(given, "labels")
        assert check(given, "labels", need=["item_id"]) is given

    def test_further_columns_are_kept(self):
        given = sample("labels").assign(note=["a", "b", "c"], label=[1, 2, 3])
        assert check(given, "labels")["note"].tolist() == ["a", "b", "c"]

    @pytest.mark.parametrize("given", [None, [], {"a": 1}, pd.Series([1])])
    def test_no_frame(self, given):
        with pytest.raises(InputError, match=f"expected a votes table \\(a DataFrame\\), got {type(given).__name__}"):
            check(given, "votes")


class TestTextsBesideNumbers:
    """Columns that `concat` joined from files of which pandas read one as numbers and one as texts."""

    @pytest.mark.parametrize("column", ["label", "annotator", "criterion"])
    def test_a_number_and_its_text_are_one_value(self, column):
        for seed in range(20):
            draw = random.Random(seed)
            values = [draw.choice([0, 1, 2, 1.5, True, False, None]) for _ in range(12)]
            texts = [draw.random() < 0.5 for _ in values]
            words = {True: "true", False: "false"}
            expected = [None if v is None else words[v] if isinstance(v, bool) else f"{v:g}" for v in values]
            mixed = [text if is_text else value for text, is_text, value in zip(expected, texts, values, strict=True)]
            for kind in ("object", "category"):
                # to pandas, True and 1 are one category
                if kind == "category" and len({*map(type, mixed)} & {bool, int}) > 1:
                    continue
                labels = pd.DataFrame({"item_id": range(12), "criterion": "c", "annotator": "p", "label": "1"})
                labels[column] = pd.Series(mixed, dtype=object).astype(kind)
                found = check(labels, "labels")[column]
                assert [None if pd.isna(value) else value for value in found] == expected, (seed, kind)

    @pytest.mark.parametrize("kind", ["object", "str", "category"])
    def test_empty_texts_are_missing_values(self, kind):
        given = sample("judgments")
        for column in ("error", "label", "order", "key", "source"):
            blank = given.assign(**{column: pd.Series(["", None, "x"], dtype=kind)})
            assert check(blank, "judgments")[column].isna().tolist() == [True, True, False], column
        assert check(given.assign(passed=["", "True", "False"]), "judgments")["passed"].tolist() == [pd.NA, True, False]
        assert check(given.assign(explanation=["", "x", "y"]), "judgments")["explanation"].tolist() == ["", "x", "y"]
        with pytest.raises(InputError, match="column 'passed' of the judgments table is not boolean: 'maybe'"):
            check(given.assign(passed=["maybe", None, "True"]), "judgments")

    @pytest.mark.parametrize("n", [2, 64, 512, 1024])
    def test_means_of_so_many_samples_stay_as_they_are(self, n):
        means = np.arange(1, 4 * n) / n  # 32 bits would hold them too
        np.testing.assert_array_equal(as_decimals(means), means)
        np.testing.assert_array_equal(as_decimals(np.append(means, [0.1, 1 / 3])), np.append(means, [0.1, 1 / 3]))

    def test_numbers_of_32_bits_are_the_decimals_that_were_stored(self):
        draw = np.random.default_rng(0)
        decimals = np.round(draw.uniform(-100, 100, 2000), 4)
        whole = draw.integers(-(2**53), 2**53, 500).astype(np.float64)
        assert (as_decimals(decimals.astype(np.float32).astype(np.float64)) == decimals).all()
        for kept in (decimals, whole, draw.normal(size=2000), np.array([np.nan, np.inf, 1e300, 0.5, 2.0**40])):
            np.testing.assert_array_equal(as_decimals(kept), kept)
        given = sample("votes").assign(score=np.float32([0.3, 0.7, 0.1]))
        assert check(given, "votes")["score"].tolist() == [0.3, 0.7, 0.1]


def test_columns_of_judgments_are_a_users_own_in_a_table_of_labels() -> None:
    own = {"repaired": ["yes, by hand"], "repair_usd": ["?"], "remark": [""], "fingerprint": [7]}
    labels = pd.DataFrame({"item_id": ["a"], "criterion": ["c"], "annotator": ["x"], "label": ["1"], **own})
    checked = check(labels, "labels")
    assert {name: checked[name].tolist() for name in own} == own
