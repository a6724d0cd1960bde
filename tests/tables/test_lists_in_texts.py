"""Lists that a CSV file holds as text, and byte order marks: what is read, and what is warned of."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evalkit as ek
from evalkit.errors import EvalkitWarning
from evalkit.rubrics.prompt_builder import Template, load_template
from evalkit.tables.files import parts_of_file, read_frame
from evalkit.tables.lists_in_texts import hold_lists, list_in

BOM = b"\xef\xbb\xbf"
ITEM = {"item_id": "a", "question": "q", "answer": "x"}


def passages(draw: random.Random) -> list[str]:
    marks = ["'", '"', "it's", '"so"', "[1]", ", ", "\n", "\\", "é", "nan", "None", "{}", "(", "plain words", " "]
    return ["".join(draw.choices(marks, k=draw.randint(1, 5))) for _ in range(draw.randint(0, 4))]


def test_lists_that_pandas_writes_are_read_back(tmp_path: Path) -> None:
    draw = random.Random(1)
    for _ in range(40):
        lists = [passages(draw) for _ in range(5)] + [["d1", "d2"]]
        turns = [[{"role": "user", "content": text} for text in one] for one in lists]
        for name, values in (("context", lists), ("conversation", turns)):
            pd.DataFrame({"item_id": range(6), name: values}).to_csv(tmp_path / "rows.csv", index=False)
            assert read_frame(tmp_path / "rows.csv")[name].tolist() == values


@pytest.mark.parametrize(
    ("text", "value"),
    [("[]", []), ("['a']", ["a"]), ("('a', 'b')", ["a", "b"]), ('["a", 1]', ["a", 1]), ("[None, 'a']", [None, "a"]),
     (" ['a'] ", ["a"]), ("['a' 'b']", None), ("['a'\n 'b']", None), ("[nan, 'a']", None), ("[a, b]", None),
     ("[1 2]", None), ("['a', 'b'", None), ("__import__('os')", None), ("[open('x')]", None), ("{'a'}", None),
     ("text", None), ("", None), ("[" * 5000 + "]" * 5000, None)],
)  # fmt: skip
def test_what_a_list_is(text: str, value: Any) -> None:
    assert list_in(text) == value


@pytest.mark.parametrize(
    ("cells", "name"),
    [
        (["['d1' 'd2']"], "context"), ([str(np.array(["d1", "d2"]))], "context"), (["[nan, 'd2']"], "context"),
        (["['d1', 'd2']", None, "['d3']"], "passages"), (['["d1"]'], "passages"), (["('d1', 'd2')"], "passages"),
        # sets, PostgreSQL's arrays, JSON within JSON, lists of objects
        (["{'d1', 'd2'}"], "context"), (['{"d \\"1\\"","d2"}'], "passages"), ([json.dumps('["d1"]')], "context"),
        (["[np.str_('d1')]"], "passages"), (["[Document(page_content='d1')]"], "context"),
    ],
)  # fmt: skip
def test_lists_that_stay_texts_are_warned_of(tmp_path: Path, cells: list[Any], name: str) -> None:
    frame = pd.DataFrame([ITEM | {"item_id": str(at), name: cell or "['d']"} for at, cell in enumerate(cells)])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    inputs = {} if name == "context" else {"inputs": {"context": name}}
    for items in (ek.load_items(tmp_path / "rows.csv"), frame):
        with pytest.warns(EvalkitWarning, match="the input 'context'.* holds lists that were written as text"):
            ek.plan(items, "faithfulness", "fake", samples=1, cache=tmp_path / "c", **inputs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "a passage",
        "[see below]",
        "[P(x) = 2]",
        "[Smith](a.html)",
        "[Smith(2020)]",
        "[DataFrame.merge(on)](a.html)",
        "[Fe(CN)6] (aq)",
        '"[The court] held it void [1]"',
        '{"a": "b"}',
        '"[so]" he said',
        "{'a': 1}",
        "[1] Smith, 2020",
        "['Tis the season] it said",
        ["a", "b"],
    ],
)
def test_ordinary_texts_are_not_warned_of(tmp_path: Path, text: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ek.plan([ITEM | {"context": text}], "faithfulness", "fake", samples=1, cache=tmp_path)
        answers = [ITEM | {"answer": "['a']", "context": "c"}]
        ek.plan(answers, "faithfulness", "fake", samples=1, cache=tmp_path)


def test_one_list_among_texts_is_enough_where_lists_are_usual() -> None:
    assert hold_lists(["text", "['a']"], may_be_lists=True) == "['a']"
    assert hold_lists(["text", '["a"]', "[1]"], may_be_lists=True) == '["a"]'
    assert hold_lists(["text", "[1]", "[see]", []], may_be_lists=True) is None
    assert hold_lists(["text", "['a']"], may_be_lists=False) is None
    assert hold_lists([None, "", "['a']", float("nan")], may_be_lists=False) == "['a']"
    assert hold_lists(['["a"]'], may_be_lists=False) is None


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_parts_of_a_file_with_a_byte_order_mark(tmp_path: Path, rows: int, end: str) -> None:
    items = [ITEM | {"item_id": str(at)} for at in range(4)]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(BOM + (end or "\n").join(map(json.dumps, items)).encode() + end.encode())
    found = pd.concat([part.read() for part in parts_of_file(path, rows)])
    assert found["item_id"].tolist() == ek.load_items(path)["item_id"].tolist() == ["0", "1", "2", "3"]
    path.write_bytes(BOM)
    assert list(parts_of_file(path, rows)) == []
    # files of which each begins with one, joined
    path.write_bytes(b"".join(BOM + json.dumps(item).encode() + b"\n" for item in items) + BOM + b"\n")
    found = pd.concat([part.read() for part in parts_of_file(path, rows)])
    assert found["item_id"].tolist() == ek.load_items(path)["item_id"].tolist() == ["0", "1", "2", "3"]


def test_other_files_with_a_byte_order_mark(tmp_path: Path) -> None:
    trace = {"schema_version": 1, "type": "verdict.trace", "request_id": "t", "prompt": "q", "response": "30 days"}
    lines = [json.dumps(trace | {"request_id": name}).encode() + b"\n" for name in "ab"]
    (tmp_path / "t.jsonl").write_bytes(BOM + BOM.join(lines))
    items, _ = ek.gate.from_traces(tmp_path / "t.jsonl")
    assert items["answer"].tolist() == ["30 days"] * 2
    source = load_template("number@v1").source
    (tmp_path / "v1.jinja").write_bytes(BOM + source.encode())
    assert Template.of_file("own@v1", tmp_path / "v1.jinja").source == source
    store = ek.engine.ReplyStore.open(tmp_path / "one")
    ek.judge([ITEM | {"context": "c"}], "faithfulness", "fake", samples=1, cache=tmp_path / "one", progress=False)
    assert store.export(tmp_path / "replies.jsonl") == 1
    (tmp_path / "replies.jsonl").write_bytes(BOM + (tmp_path / "replies.jsonl").read_bytes())
    assert ek.engine.ReplyStore.open(tmp_path / "two").import_(tmp_path / "replies.jsonl").n_added == 1
