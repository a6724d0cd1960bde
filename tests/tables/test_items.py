"""Items: one item has one form and one hash, whatever it was read from; ids are text, and each fault is told once."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import math
import random
import re
import unicodedata
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from small_rubrics import rubric_of

from evalkit.core.reply_keys import digest
from evalkit.errors import InputError
from evalkit.rubrics.inputs import item_inputs
from evalkit.tables import load_items
from evalkit.tables.files import write_frame
from evalkit.tables.items import as_items, canonical, canonical_text, input_text, is_missing

RUBRIC = rubric_of("r", {0: "", 1: ""}, inputs="question? answer? context? conversation? extra?")
TEXTS = st.text(st.characters(blacklist_categories=("Cs",)), max_size=30)
NAMES = st.sampled_from(["a", "b", "é", "e\u0301", "1"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_infinity=False, width=64), TEXTS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=2)),
    max_leaves=6,
)


def hashes(source: Any, **options: Any) -> list[str]:
    items = as_items(source, **options)
    columns = {name: items[name].tolist() for name in items.columns}
    return [digest(inputs) for inputs in item_inputs(RUBRIC, columns, len(items))]


ROWS = [
    {
        "item_id": "1",
        "question": "café\nnow",
        "answer": 3,
        "context": ["one"],
        "extra": {"n": 2.0, "gone": None, "on": True},
    },
    {"item_id": "2", "question": None, "answer": None, "context": ["a", "b"], "extra": {"n": 0.5, "deep": {"x": [1]}}},
]


class TestOneHash:
    @pytest.fixture
    def expected(self) -> list[str]:
        # by hand: optional inputs that are missing are left out, numbers are text, integral floats whole,
        # missing fields dropped, the text is NFC
        return [
            digest({"question": "café\nnow", "answer": "3", "context": ["one"], "extra": {"n": 2, "on": True}}),
            digest({"context": ["a", "b"], "extra": {"n": 0.5, "deep": {"x": [1]}}}),
        ]

    def test_list_and_mappings(self, expected):
        assert hashes(ROWS) == expected
        assert [hashes(row)[0] for row in ROWS] == expected
        assert hashes(tuple(ROWS)) == expected

    def test_frames(self, expected):
        frame = pd.DataFrame(ROWS)
        assert hashes(frame) == expected
        assert hashes(frame.astype(object)) == expected
        assert hashes(frame.convert_dtypes()) == expected
        assert hashes(frame.to_dict("records")) == expected
        assert [hashes(frame.iloc[at])[0] for at in range(2)] == expected
        assert [hashes(frame.iloc[[at]])[0] for at in range(2)] == expected
        assert hashes(frame.set_index("item_id")) == expected

    def test_variants_of_writing(self, expected):
        variant = dict(ROWS[0])
        variant["question"] = unicodedata.normalize("NFD", "café") + "\r\nnow"
        variant["answer"] = np.float32(3)
        variant["context"] = "one"
        variant["extra"] = {"on": np.bool_(True), "gone": math.nan, "n": np.int8(2), "too": pd.NA}
        assert hashes([variant]) == expected[:1]
        assert hashes([variant | {"context": np.array(["one"], dtype=object)}]) == expected[:1]
        assert hashes([variant | {"context": ("one",)}]) == expected[:1]

    @pytest.mark.parametrize("ending", ["jsonl", "json", "ndjson", "jsonl.gz", "parquet"])
    def test_files(self, expected, tmp_path, ending):
        path = tmp_path / f"items.{ending}"
        rows = [row | {"extra": row["extra"]} for row in ROWS]
        write_frame(pd.DataFrame(rows), path)
        assert hashes(pd.read_parquet(path) if ending == "parquet" else load_items(path)) == expected
        assert hashes(load_items(path)) == expected

    @pytest.mark.long
    def test_dataset(self, expected):
        datasets = pytest.importorskip("datasets", reason="the extra datasets is not installed")
        assert hashes(datasets.Dataset.from_list(ROWS)) == expected
        assert hashes(datasets.Dataset.from_list(ROWS).with_format("numpy")) == expected

    @pytest.mark.parametrize("dtype", ["object", "int64", "int8", "uint64", "float64", "float32", "Int64", "Float64",
                                       "int64[pyarrow]", "double[pyarrow]"])  # fmt: skip
    def test_whole_numbers_of_every_dtype(self, dtype):
        if "pyarrow" in dtype:
            pytest.importorskip("pyarrow")
        frame = pd.DataFrame({"answer": pd.Series([1, 42], dtype=dtype)})
        assert hashes(frame) == hashes([{"answer": 1}, {"answer": 42.0}]) == hashes([{"answer": "1"}, {"answer": "42"}])

    @pytest.mark.parametrize("dtype", ["object", "str", "string", "string[python]", "category", "string[pyarrow]"])
    def test_texts_of_every_dtype(self, dtype):
        frame = pd.DataFrame({"answer": pd.Series(["yes", None, ""], dtype=dtype)})
        assert hashes(frame) == hashes([{"answer": "yes"}, {}, {"answer": ""}])

    @pytest.mark.parametrize("dtype", ["object", "boolean", "bool[pyarrow]"])
    def test_booleans_of_every_dtype(self, dtype):
        frame = pd.DataFrame({"answer": pd.Series([True, None, False], dtype=dtype)})
        assert hashes(frame) == hashes([{"answer": "true"}, {}, {"answer": False}])

    @pytest.mark.parametrize("dtype", ["Int64", "Float64", "int64[pyarrow]", "float64"])
    def test_missing_numbers_of_every_dtype(self, dtype):
        frame = pd.DataFrame({"answer": pd.Series([None, 2], dtype=dtype)})
        assert hashes(frame) == hashes([{"answer": None}, {"answer": 2}])

    def test_times(self):
        moment, text = dt.datetime(2024, 1, 2, 3, 4, 5), "2024-01-02T03:04:05"  # noqa: DTZ001
        ways = [moment, pd.Timestamp(moment), np.datetime64(moment), np.datetime64(moment, "ns"), text]
        assert {hashes([{"answer": way}])[0] for way in ways} == set(hashes([{"answer": text}]))
        for dtype in ("datetime64[ns]", "datetime64[us]", "datetime64[s]", "object"):
            assert hashes(pd.DataFrame({"answer": pd.Series([moment], dtype=dtype)})) == hashes([{"answer": text}])
        nested = np.array([moment, "NaT"], dtype="datetime64[ns]")
        assert as_items([{"answer": nested}])["answer"][0] == [text, None]
        assert canonical(dt.date(2024, 1, 2)) == "2024-01-02"
        assert canonical(dt.time(3, 4)) == "03:04:00"
        assert canonical(pd.Timestamp(moment, tz="UTC")) == text + "+00:00"
        assert canonical(np.datetime64("NaT")) is None

    @given(TEXTS)
    @example("a\rb\r\nc\nd")
    @example("\u212b e\u0301")
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
    @pytest.mark.long
    def test_texts_through_every_file(self, tmp_path, text):
        row = {"question": "q", "answer": text}
        for ending in ("jsonl", "csv", "tsv", "parquet"):
            path = tmp_path / f"items.{ending}"
            write_frame(pd.DataFrame([row]), path)
            assert hashes(load_items(path)) == hashes(row), ending

    @pytest.mark.long
    @given(st.lists(st.fixed_dictionaries({"answer": SCALARS}), min_size=1, max_size=4))
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
    def test_scalars_through_csv(self, tmp_path, rows):
        # an empty cell and a missing one are the same in CSV, and so are they for an optional input
        path = tmp_path / "items.csv"
        answers = pd.Series([row["answer"] for row in rows], dtype=object)
        write_frame(pd.DataFrame({"n": range(len(rows)), "answer": answers}), path)
        assert hashes(load_items(path)) == hashes(rows)

    @pytest.mark.long
    @given(VALUES)
    def test_values_through_json_and_back(self, value):
        row = {"extra": value}
        try:
            expected = hashes(row)
        except InputError as problem:
            if "become the same text" not in str(problem):  # é typed in two ways in one mapping
                raise
            return
        plain = json.loads(json.dumps(as_items(row)["extra"].tolist()[0]))
        assert hashes({"extra": plain}) == expected
        assert hashes(pd.DataFrame({"extra": pd.Series([value], dtype=object)})) == expected

    @given(VALUES)
    @pytest.mark.long
    def test_canonical_is_idempotent_and_plain(self, value):
        try:
            made = canonical(value)
        except InputError:
            return
        assert canonical(made) == made
        json.dumps(made, allow_nan=False)

    def test_what_csv_cannot_tell_apart_is_documented(self, tmp_path):
        path = tmp_path / "items.csv"
        path.write_text("answer,context\n3.0,\"['one']\"\n")
        assert hashes(load_items(path)) != hashes([{"answer": 3.0, "context": ["one"]}])
        assert "CSV cells are text" in " ".join((as_items.__doc__ or "").split())


class TestCanonical:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (3.0, 3), (-0.0, 0), (0.1, 0.1), (np.float64(2), 2), (1e300, 1e300), (2**64 - 1, 2**64 - 1),
            (-(2**63), -(2**63)), (np.bool_(False), False), (np.array(5), 5), (np.array([[1, 2.5]]), [[1, 2.5]]),
            (np.array([1.0, math.nan]), [1, None]), ((1, "a"), [1, "a"]), ({1: "x"}, {"1": "x"}), (pd.NaT, None),
            (pd.NA, None), (np.str_("e\u0301"), "é"), ({"a": {"b": None}}, {"a": {}}),
        ],
    )  # fmt: skip
    def test_forms(self, value, expected):
        made = canonical(value)
        assert made == expected
        assert type(made) is type(expected)

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (b"bytes", "cannot have the type bytes; use strings, numbers, lists or dicts"),
            ({1, 2}, "type set"),
            (math.inf, "infinite"),
            ([-math.inf], "infinite"),
            (Decimal("1.5"), "type Decimal"),
            (1j, "type complex"),
            (dt.timedelta(1), "type timedelta"),
            (np.timedelta64(1, "s"), "type timedelta"),
            (2**64, "must fit in 64 bits"),
            ("\ud800", "half a surrogate pair"),
            ({"\udfff": 1}, "half a surrogate pair"),
            ({1: "a", "1": "b"}, "two keys of a mapping become the same text, .1."),
            (print, "type builtin_function_or_method"),
        ],
    )
    def test_what_is_no_json(self, value, message):
        with pytest.raises(InputError, match=message):
            canonical(value)

    def test_text(self):
        assert canonical_text("a\r\nb\rc\n") == "a\nb\nc\n"
        assert canonical_text("e\u0301") == "é"

    def test_missing(self):
        assert all(map(is_missing, (None, math.nan, np.nan, np.float32("nan"), pd.NA, pd.NaT)))
        assert not any(map(is_missing, (0, "", False, [], {}, "nan", np.array([math.nan]))))

    def test_input_text(self):
        assert [input_text(value) for value in (1, 0.5, True, "x", [1])] == ["1", "0.5", "true", "x", [1]]


class TestIds:
    def test_default_is_the_index_as_text(self):
        frame = pd.DataFrame({"answer": ["a", "b"]}, index=[7, "x"])
        assert as_items(frame)["item_id"].tolist() == ["7", "x"]
        assert as_items([{"answer": "a"}, {"answer": "b"}])["item_id"].tolist() == ["0", "1"]
        assert as_items(frame.iloc[0])["item_id"].tolist() == ["7"]
        assert as_items({"answer": "a"})["item_id"].tolist() == ["0"]

    def test_always_text(self):
        frame = pd.DataFrame({"item_id": [1.0, 2.5, 3.0], "answer": "a"})
        assert as_items(frame)["item_id"].tolist() == ["1", "2.5", "3"]
        assert as_items([{"item_id": 7}, {"item_id": "7a"}, {"item_id": np.int64(8)}])["item_id"].tolist() == [
            "7",
            "7a",
            "8",
        ]
        assert as_items(frame)["item_id"].dtype == "str"

    def test_another_column(self):
        frame = pd.DataFrame({"id": ["x", "y"], "item_id": ["1", "1"], "answer": ["a", "b"]})
        made = as_items(frame, item_id="id")
        assert made["item_id"].tolist() == ["x", "y"]
        assert list(made.columns) == ["item_id", "answer"]

    @pytest.mark.parametrize(
        ("ids", "message"),
        [
            (["a", "b", "a", "b", "c"], r"repeated in column 'item_id': 'a', 'b';.*reset_index"),
            (["1", 1.0], "repeated in column 'item_id': '1'"),
            (["é", "e\u0301"], "repeated in column 'item_id': 'é'"),
            (["a", None], "row 1 has an invalid id in column 'item_id': None; ids must be strings or numbers"),
            (["a", math.nan], "row 1 has an invalid id"),
            (["a", ""], "row 1 has an invalid id"),
            (["a", True], "row 1 has an invalid id in column 'item_id': True"),
            (["a", ["b"]], "row 1 has an invalid id"),
            (["a", (1, 2)], r"row 1 has an invalid id in column 'item_id': \(1, 2\); make one text of them"),
        ],
    )
    def test_faults(self, ids, message):
        with pytest.raises(InputError, match=message):
            as_items([{"item_id": one, "answer": "a"} for one in ids])

    def test_doubled_index_and_levels_and_missing_column(self):
        frame = pd.DataFrame({"answer": ["a", "b"]}, index=["x", "x"])
        with pytest.raises(InputError, match="repeated in the index: 'x'"):
            as_items(frame)
        with pytest.raises(
            InputError, match=r"index has several levels, so it is no id of a row; pass df\.reset_index"
        ):
            as_items(frame.set_index(pd.MultiIndex.from_tuples([(1, 2), (1, 3)])))
        with pytest.raises(InputError, match="no column 'id' for the ids; available: 'answer'"):
            as_items(frame, item_id="id")

    def test_an_index_with_a_name_is_kept_or_refused(self):
        frame = pd.DataFrame({"item_id": ["x", "y"], "answer": ["a", "b"], "group_id": ["g", "g"]})
        for lost in (frame.set_index("group_id"), frame.set_index(["group_id", "answer"])):
            with pytest.raises(InputError, match=r"the items' index has 'group_id'.*pass df\.reset_index\(\)"):
                as_items(lost)
        for kept in (frame, frame.set_index("item_id"), frame.set_index("group_id", drop=False)):
            assert as_items(kept).to_dict("list") == frame.to_dict("list")


class TestSources:
    def test_argument_is_never_changed(self):
        frame = pd.DataFrame({"answer": pd.Series([["a", None], {"n": 1.0}], dtype=object)})
        before = [["a", None], {"n": 1.0}]
        as_items(frame)
        assert frame["answer"].tolist() == before
        assert list(frame.columns) == ["answer"]

    def test_empty(self):
        assert as_items([]).to_dict("list") == {"item_id": []}
        assert list(as_items(pd.DataFrame({"answer": []})).columns) == ["item_id", "answer"]

    def test_rows_with_different_fields(self):
        made = as_items([{"a": 1}, {"b": "x"}])
        assert made["a"].tolist() == [1, None]
        assert is_missing(made["b"][0])

    def test_chosen_columns_even_from_a_generator(self):
        made = as_items({"a": 1, "b": 2, "c": b"\x00"}, columns=(name for name in ("a", "b")))
        assert list(made.columns) == ["item_id", "a", "b"]

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("items.jsonl", "got str; for a file or"),
            (b"x", "got bytes"),
            (3, "got int"),
            (None, "got NoneType"),
            ([{"a": 1}, "text"], "item 1 of the list: expected a mapping of fields, got str"),
            ((row for row in ()), "got generator"),
            (pd.DataFrame([[1, 2]], columns=["a", "a"]), "duplicate columns: 'a'"),
            (pd.DataFrame([[1, 2]], columns=["1", 1]), "duplicate columns: '1'"),
        ],
    )
    def test_faults(self, source, message):
        with pytest.raises(InputError, match=message):
            as_items(source)

    @pytest.mark.long
    def test_columns_are_no_item_unless_they_may_be_one(self, tmp_path):
        draw = random.Random(4)
        texts = {name: lambda n: [draw.choice(["", "a", "b c"]) for _ in range(n)] for name in ("question", "answer")}
        turns = {"conversation": lambda n: [{"role": "user", "content": "x"}] * n}
        lists = {"context": lambda n: [["p"], ["q", "r"], None][:n], **turns, "criteria": lambda n: ["is kind"] * n}
        for _ in range(200):
            n = draw.randint(1, 3)
            names = [*draw.sample([*texts], draw.randint(0, 2)), *draw.sample([*lists], draw.randint(0, 2))]
            columns = {name: {**texts, **lists}[name](n) for name in draw.sample(names, len(names))}
            n_texts = len({"question", "answer", "criteria"} & {*columns})
            frame = pd.DataFrame(columns)
            frame.to_json(tmp_path / "pandas.json")
            if len(columns) > 1 and n_texts > ("conversation" in columns):
                with pytest.raises(InputError, match="as the columns of a table are"):
                    as_items(frame.to_dict())
                for kind in (list, tuple, np.array, pd.Series):
                    cells = {name: kind(pd.Series(cells, dtype=object)) for name, cells in columns.items()}
                    with pytest.raises(InputError, match="as the columns of a table are; for one item per row pass"):
                        as_items(cells)
                with pytest.raises(InputError, match=r"pandas.json is a mapping with a list in each field"):
                    load_items(tmp_path / "pandas.json")
            elif columns:
                assert len(as_items(columns)) == 1
            assert len(as_items([columns])) == (len(columns) > 0)
            assert len(as_items(frame)) == (n if columns else 0)
            assert len(as_items(columns | {"answer": "a text"})) == 1

    @pytest.mark.parametrize(
        ("source", "advice"),
        [
            (type("DataFrame", (), {"__module__": "polars.frame", "to_pandas": lambda self: None})(),
             "got polars.DataFrame; pass table.to_pandas()"),
            (iter([{"a": 1}]), "got list_iterator; pass pd.DataFrame(table)"),
        ],
    )  # fmt: skip
    def test_tables_of_others_are_told_how_they_become_one(self, source, advice):
        with pytest.raises(InputError, match=re.escape(advice)):
            as_items(source)

    def test_fault_in_a_value_names_item_and_column(self):
        with pytest.raises(
            InputError, match="item 'b', column 'answer': a field of an item cannot have the type bytes"
        ):
            as_items([{"item_id": "a", "answer": "x"}, {"item_id": "b", "answer": b"x"}])

    def test_a_large_answer(self):
        text = "ж" * 1_000_000
        assert as_items({"answer": text})["answer"][0] == text

    def test_shuffled_rows_keep_their_hashes(self):
        rows = [{"item_id": str(n), "answer": f"text {n}"} for n in range(20)]
        order = list(np.random.default_rng(0).permutation(20))
        plain, shuffled = hashes(rows), hashes(pd.DataFrame(rows).iloc[order])
        assert shuffled == [plain[at] for at in order]


class TestLoad:
    def put(self, tmp_path, name: str, content: bytes):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    def test_ids_and_texts_stay_text(self, tmp_path):
        path = self.put(tmp_path, "i.csv", b"item_id,answer\n007,1e5\n008,NA\n")
        assert load_items(path).to_dict("list") == {"item_id": ["007", "008"], "answer": ["1e5", "NA"]}
        path = self.put(tmp_path, "i.jsonl", b'\xef\xbb\xbf{"item_id": "007", "answer": "2024-01-01"}\r\n\r\n')
        assert load_items(str(path)).to_dict("list") == {"item_id": ["007"], "answer": ["2024-01-01"]}

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("i.jsonl", b'{"a": 1}\n{"a": \n', r"i\.jsonl, line 2: invalid JSON"),
            ("i.jsonl", b'{"a": 1}\n[1]\n', "line 2: expected an object with fields, got list"),
            ("i.jsonl", b'\n{"a": NaN}\n', "line 2: invalid JSON"),
            ("i.jsonl", b'{"a": "\xff"}\n', "line 1"),
            ("i.jsonl", b"", "has no rows"),
            ("i.json", b"[1]", "expected an object with fields, got int"),
            ("i.json", b"{", "invalid JSON"),
            ("i.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 999, mtime=0)[:-9], "cannot be read"),
            ("i.jsonl.gz", b"no gzip", "cannot be read"),
            ("i.csv.gz", gzip.compress(b"a\n" * 999, mtime=0)[:-9], "cannot be read"),
            ("i.csv", b"", "invalid CSV or TSV"),
            ("i.csv", b'a,b\n"open,1\n', "invalid CSV or TSV"),
            ("i.csv", b"a,b\n1,2,3\n4,5,6\n", "Expected 2 fields in line 2, saw 3"),
            ("i.csv", b"a,b\n1,2\n4,5,6\n", "invalid CSV or TSV"),
            ("i.csv", b"a,a\n1,2\n", "duplicate columns: 'a'"),
            ("i.csv", b"a\n\xff\n", "save it as UTF-8"),
            ("i.parquet", b"PAR1", "invalid parquet"),
            ("i.xlsx", b"", "unknown file format: .*; allowed endings: .jsonl"),
            ("items", b"", "unknown file format"),
        ],
    )
    def test_broken_files(self, tmp_path, name, content, message):
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        with pytest.raises(InputError, match=message):
            load_items(self.put(tmp_path, name, content))

    def test_no_such_file(self, tmp_path):
        with pytest.raises(InputError, match=r"file not found: .*nothing\.jsonl"):
            load_items(tmp_path / "nothing.jsonl")
        (tmp_path / "folder.csv").mkdir()
        with pytest.raises(InputError, match=r"folder\.csv is a folder; name a file"):
            load_items(tmp_path / "folder.csv")
        with pytest.raises(InputError, match="unknown file format"):
            load_items(tmp_path / "nothing.jsnl")

    def test_a_name_without_ending_is_a_data_set(self, monkeypatch):
        datasets = pytest.importorskip("datasets", reason="the extra datasets is not installed")
        asked = []

        def load(path: str, name: str | None, split: str) -> Any:
            # the hub cannot be reached from a test; what is checked is what would be asked of it
            asked.append((path, name, split))
            if path == "org/missing":
                raise FileNotFoundError("no such data set")
            return datasets.Dataset.from_list(ROWS)

        monkeypatch.setattr(datasets, "load_dataset", load)
        assert load_items("org/items-v1.5", split="test", name="en")["item_id"].tolist() == ["1", "2"]
        assert asked == [("org/items-v1.5", "en", "test")]
        with pytest.raises(InputError, match="'org/missing' is not a file, and loading it"):
            load_items("org/missing")
