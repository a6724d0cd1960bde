"""Tables in and out of files: the same table comes back, and a file is there whole or not at all."""

from __future__ import annotations

import csv
import errno
import gzip
import json
import math
import os
import stat

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from table_samples import assert_same, sample

from evalkit import RubricTuner, judge, load_items
from evalkit.errors import InputError, MissingExtraError
from evalkit.tables import read_frame, read_table
from evalkit.tables.files import write_frame
from evalkit.tables.schemas import TABLES, empty

ENDINGS = ["jsonl", "ndjson", "json", "csv", "tsv", "parquet", "jsonl.gz", "json.gz", "csv.gz", "tsv.gz"]
TEXTS = st.text(st.characters(blacklist_categories=("Cs",)), max_size=20)


@pytest.fixture(params=ENDINGS)
def path(request, tmp_path):
    if request.param == "parquet":
        pytest.importorskip("pyarrow")
    return tmp_path / "folder" / f"table.{request.param}"


@pytest.mark.parametrize("name", TABLES)
class TestRoundTrip:
    @pytest.mark.long
    def test_table(self, name, path):
        assert write_frame(sample(name), path) == path
        assert_same(read_table(path, name), sample(name))

    @pytest.mark.long
    def test_shuffled_rows(self, name, path):
        mixed = sample(name).iloc[[2, 0, 1]]
        write_frame(mixed, path)
        assert_same(read_table(path, name), mixed.reset_index(drop=True))

    @pytest.mark.long
    def test_empty_table(self, name, path):
        write_frame(empty(name), path)
        assert_same(read_table(path, name), empty(name))

    def test_without_pyarrow(self, name, tmp_path):
        with pd.option_context("mode.string_storage", "python"):
            write_frame(sample(name), tmp_path / "t.csv")
            assert_same(read_table(tmp_path / "t.csv", name), sample(name))


class TestValues:
    @pytest.mark.long
    @given(st.lists(TEXTS, min_size=1, max_size=3))
    @example(["a\rb", "\r\n", "\n", '"', ",", "\t", "\ufeff", "\u2028", "NA", "null", "007", "\x00"])
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
    def test_texts_come_back_as_they_are(self, tmp_path, texts):
        for ending in ENDINGS:
            file = tmp_path / f"t.{ending}"
            write_frame(pd.DataFrame({"n": range(len(texts)), "text": texts}), file)
            found = read_frame(file)["text"]
            same = [text or None for text in texts] if ending.startswith(("csv", "tsv")) else texts
            assert found.astype(object).where(found.notna(), None).tolist() == same, ending

    def test_an_empty_explanation_stays_one_except_in_csv(self, path):
        made = sample("judgments")
        made["explanation"] = pd.Series(["", "why", None], dtype="str")
        write_frame(made, path)
        found = read_table(path, "judgments")["explanation"]
        if ".csv" in path.name or ".tsv" in path.name:
            assert found.isna().tolist() == [True, False, True]
        else:
            assert found.tolist()[:2] == ["", "why"]
            assert found.isna().tolist() == [False, False, True]

    def test_csv_cells(self, tmp_path):
        frame = pd.DataFrame({
            "flag": [True, False],
            "maybe": pd.array([True, None], dtype="boolean"),
            "number": [3.0, math.nan],
            "mixed": pd.Series([0, None], dtype=object),
            "list": [["a", np.float64(2.0)], {"é": None}],
            1: ["x", None],
        })  # fmt: skip
        write_frame(frame, tmp_path / "t.csv")
        with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        assert rows == [
            ["flag", "maybe", "number", "mixed", "list", "1"],
            ["true", "true", "3", "0", '["a",2]', "x"],
            ["false", "", "", "", "{}", ""],
        ]

    def test_json_values(self, tmp_path):
        frame = pd.DataFrame({
            "when": pd.to_datetime(["2024-01-02T03:04:05", None]),
            "array": [np.array([1.0, math.nan]), [{"deep": np.int64(1), "gone": pd.NA}]],
            "kind": pd.Categorical(["a", None]),
            "count": pd.array([1, None], dtype="Int64"),
        })  # fmt: skip
        write_frame(frame, tmp_path / "t.jsonl")
        rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
        assert rows[0] == {"when": "2024-01-02T03:04:05", "array": [1.0, None], "kind": "a", "count": 1}
        assert rows[1] == {"when": None, "array": [{"deep": 1, "gone": None}], "kind": None, "count": None}

    def test_whole_numbers_with_gaps_stay_whole(self, tmp_path):
        (tmp_path / "t.jsonl").write_text('{"a": 9007199254740993}\n{"a": null}\n{"b": 1}\n')
        assert read_frame(tmp_path / "t.jsonl")["a"].tolist() == [9007199254740993, None, None]

    def test_gzip_is_the_same_for_the_same_table(self, tmp_path):
        one, two = (write_frame(sample("labels"), tmp_path / f"{n}.jsonl.gz").read_bytes() for n in "ab")
        assert one == two
        assert len(gzip.decompress(one).splitlines()) == 3


class TestReading:
    def test_of_several_tables_the_one_that_fits(self, tmp_path):
        write_frame(sample("votes"), tmp_path / "t.jsonl")
        assert "self_agreement" in read_table(tmp_path / "t.jsonl", "judgments", "votes").columns

    def test_another_table_names_file_and_columns(self, tmp_path):
        write_frame(sample("labels"), tmp_path / "t.jsonl")
        with pytest.raises(InputError, match=r"t\.jsonl: not a scores table: column 'rubric'.*\(it has 'item_id'"):
            read_table(tmp_path / "t.jsonl", "scores")

    def test_values_that_do_not_fit_name_file_and_column(self, tmp_path):
        write_frame(sample("votes").assign(tied="perhaps"), tmp_path / "t.csv")
        with pytest.raises(InputError, match=r"t\.csv: column 'tied' of the votes table is not bool"):
            read_table(tmp_path / "t.csv", "votes")

    def test_further_columns_keep_their_empty_texts_except_in_csv(self, tmp_path):
        labels = sample("labels").assign(answer=["", "a", "b"])
        for ending, first in (("jsonl", False), ("csv", True)):
            write_frame(labels, tmp_path / f"t.{ending}")
            found = read_table(tmp_path / f"t.{ending}", "labels")["answer"]
            assert found.isna().tolist() == [first, False, False]
            assert found.tolist()[1:] == ["a", "b"]

    def test_parquet_without_pyarrow_names_the_extra(self, tmp_path, monkeypatch):
        (tmp_path / "t.parquet").write_bytes(b"PAR1")
        monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
        with pytest.raises(MissingExtraError, match=r"pip install '\.\[parquet\]'"):
            read_frame(tmp_path / "t.parquet")
        with pytest.raises(MissingExtraError, match=r"pip install '\.\[parquet\]'"):
            write_frame(sample("labels"), tmp_path / "new.parquet")


class TestWriting:
    def names(self, folder):
        return sorted(path.name for path in folder.iterdir())

    @pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
    def test_what_cannot_be_written_leaves_the_old_file(self, tmp_path, ending):
        if ending == "parquet":
            pytest.importorskip("pyarrow")
        file = tmp_path / f"t.{ending}"
        write_frame(sample("labels"), file)
        before = file.read_bytes()
        broken = pd.DataFrame({"a": pd.Series([1, "a", b"x"], dtype=object)})
        with pytest.raises(InputError, match=rf"t\.{ending} cannot be written"):
            write_frame(broken, file)
        assert file.read_bytes() == before
        assert self.names(tmp_path) == [f"t.{ending}"]

    def test_rights_are_those_of_any_new_file(self, tmp_path):
        (tmp_path / "plain").write_text("")
        file = write_frame(sample("labels"), tmp_path / "t.jsonl")
        assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)

    @pytest.mark.parametrize("name", ["t.xlsx", "t", "t.gz", "t.txt.gz"])
    def test_unknown_ending(self, tmp_path, name):
        with pytest.raises(InputError, match=r"unknown file format: .*; allowed endings: \.jsonl"):
            write_frame(sample("labels"), tmp_path / name)
        assert os.listdir(tmp_path) == []  # noqa: PTH208  # names are all that is asked

    def test_argument_is_never_changed(self, path):
        given_, before = sample("votes"), sample("votes")
        write_frame(given_, path)
        pd.testing.assert_frame_equal(given_, before)


@pytest.mark.parametrize("ending", ["csv", "jsonl.gz", "parquet"])
def test_a_full_disk_leaves_the_old_file_and_says_which(tmp_path, monkeypatch, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"t.{ending}"
    path.write_bytes(b"old")

    def full(_file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=rf"t\.{ending} cannot be written: no space left on device"):
        write_frame(sample("judgments"), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("there", [True, False], ids=["a file", "nothing yet"])
def test_a_link_stays_a_link(tmp_path, there):
    real, link = tmp_path / "shared" / "t.csv", tmp_path / "t.csv"
    if there:
        real.parent.mkdir()
        real.write_text("old")
    link.symlink_to(real)
    assert write_frame(sample("labels"), link) == link
    assert link.is_symlink()
    assert_same(read_table(real, "labels"), sample("labels"))
    assert [path.name for path in real.parent.iterdir()] == ["t.csv"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz"])
def test_an_empty_cell_is_missing_however_items_are_loaded(tmp_path, ending):
    made = pd.DataFrame({"item_id": list("abcd"), "question": "q", "answer": ["yes", None, "None", "NA"]})
    path = write_frame(made, tmp_path / f"i.{ending}")
    expected = [False, True, False, False]
    assert load_items(path)["answer"].isna().tolist() == expected
    assert load_items(path)["answer"].tolist()[2:] == ["None", "NA"]
    assert (
        RubricTuner(path, "helpfulness", "fake:strict", on_missing="skip").session.items["answer"].isna().tolist()
        == expected
    )
    judged = judge(load_items(path)[:3], "helpfulness", "fake:strict", samples=1, on_missing="skip", progress=False)
    assert judged.groupby("item_id")["error"].first().notna().tolist() == [False, True, False]


def test_csv_of_a_spreadsheet_and_lists_in_cells(tmp_path):
    (tmp_path / "a.csv").write_text('item_id;answer\n1;"one, two"\n')
    assert read_frame(tmp_path / "a.csv").to_dict("list") == {"item_id": ["1"], "answer": ["one, two"]}
    (tmp_path / "a.csv").write_text('item_id\tanswer, in words\t"a, b; c, d"\n1\t"one, two"\tx\n')
    assert read_frame(tmp_path / "a.csv").iloc[0].tolist() == ["1", "one, two", "x"]
    for mark in (",", ";", "\t", "|"):  # Excel writes which one it is, and an answer may hold the others
        for first in (f"sep={mark}\n", f'"sep={mark}"\r\n', f"\ufeffSEP={mark}\n"):
            (tmp_path / "s.csv").write_text(f'{first}item_id{mark}answer\n1{mark}"a,b;c\td|e"\n', encoding="utf-8")
            assert read_frame(tmp_path / "s.csv").to_dict("list") == {"item_id": ["1"], "answer": ["a,b;c\td|e"]}
    (tmp_path / "b.csv").write_text('context,answer\n"[""x"", ""y""]","[1]"\n,no\n')
    assert read_frame(tmp_path / "b.csv").to_dict("list") == {"context": [["x", "y"], None], "answer": ["[1]", "no"]}
    (tmp_path / "c.csv").write_text('context\n[see above]\n"[""x""]"\n')
    assert read_frame(tmp_path / "c.csv")["context"].tolist() == ["[see above]", '["x"]']
