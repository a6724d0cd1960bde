"""From replies to columns: what each reply says lands in its row, whatever was read before."""

from __future__ import annotations

import gc
import json
import math
import threading
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evalkit as ek
from evalkit.core.judges import Judge
from evalkit.core.lists_of_choices import REASONS
from evalkit.core.prompts_and_replies import Reply
from evalkit.engine.judging.replies_to_judgments import Columns
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist, gc_paused
from evalkit.rubrics.parsing import parse_reply
from evalkit.tables.schemas import TABLES, columns_of

JUDGES = ["fake:strict", Judge("fake", "noisy", template="tagged@v1", weight=2.5)]
RUBRIC = ek.Rubric(
    id="two",
    inputs=["answer"],
    template="label@v1",
    criteria=[
        {"name": "low", "scale": {0: "clean", 1: "odd", 2: "toxic"}, "better": "low", "pass_at": 0},
        {"name": "kind", "level": "nominal", "scale": {"art": "", "law": ""}},
    ],
)
ITEMS = [{"item_id": name, "answer": name} for name in "ab"]


def columns(rubric: ek.Rubric = RUBRIC, judges: Any = JUDGES, items: Any = ITEMS, samples: int = 2, **options: Any):
    work = Worklist.of(Spec.of(rubric, judges, samples), items)
    return Columns(work, **options), list(work.keys())


def value(text: str | None, **fields: Any) -> bytes:
    return orjson.dumps({"text": text, **fields})


def read(made: Columns, keys: list[bytes], replies: dict[int, bytes], source: str | None = "live") -> None:
    made.read(list(replies), [keys[row] for row in replies], list(replies.values()), source=source)


def test_each_reply_lands_in_its_row():
    made, keys = columns(replies=True)
    # rows: item a: low strict 0, 1; low noisy 2, 3; kind strict 4, 5; kind noisy 6, 7; then item b from 8
    full = {"model": "m-1", "prompt_tokens": 5, "completion_tokens": 2, "cost_usd": 0.5, "latency_s": 0.1}
    read(made, keys, {9: value("2"), 0: value("0", **full)})
    read(made, keys, {2: value("[FEEDBACK] why [RESULT] 1 [END]", source="recorded"), 4: value("Art")}, None)
    made.fail([1, 15], [keys[1], keys[15]], ["timeout", "budget"])
    table = made.table()
    assert list(table.columns) == [*columns_of("judgments"), "reply"]
    assert table.dtypes[["sample", "passed", "prompt_tokens"]].astype(str).tolist() == ["int64", "boolean", "Int64"]
    assert len(table) == 16
    # better: low, scale 0-2: norm = 1 - score / 2; passes at 0
    shown = table.loc[[0, 2, 9], ["score", "score_norm", "label", "passed"]].values.tolist()
    assert shown == [[0, 1, "0", True], [1, 0.5, "1", False], [2, 0, "2", False]]
    assert table.loc[4, "label"] == "art"
    assert math.isnan(table.loc[4, "score"])
    assert pd.isna(table.loc[4, "passed"])
    assert table.loc[2, "explanation"] == "why"
    assert table.loc[[1, 15], "error"].tolist() == ["timeout", "budget"]
    assert table.loc[[0, 2, 4], "source"].tolist() == ["live", "recorded", "cache"]
    assert table.loc[0, list(full)].tolist() == list(full.values())
    assert table.loc[9, list(full)].isna().all()
    assert table.loc[[1, 15], ["score", "label", "source", "explanation", "reply", "cost_usd"]].isna().all(axis=None)
    known = [0, 1, 2, 4, 9, 15]
    assert table.loc[known, "key"].tolist() == [keys[row].hex() for row in known]
    assert pd.isna(table.loc[3, "key"])
    assert table.loc[[0, 2], "weight"].tolist() == [1.0, 2.5]
    assert table.loc[[0, 4], "level"].tolist() == ["ordinal", "nominal"]
    assert json.loads(table.loc[0, "scale"])["better"] == "low"


def test_a_row_read_again_keeps_nothing_of_its_first_reply():
    made, keys = columns(replies=True)
    full = {"model": "old", "prompt_tokens": 5, "completion_tokens": 2, "cost_usd": 0.5, "latency_s": 0.1}
    read(made, keys, {0: value("no idea", **full), 1: value("hm")}, None)
    assert made.error(0) == "unreadable"
    read(made, keys, {0: value("1")})
    table = made.table()
    assert made.error(0) is None
    assert table.loc[0, ["score", "reply", "source"]].tolist() == [1.0, "1", "live"]
    assert table.loc[0, ["error", *full]].isna().all()
    assert table.loc[1, ["error", "reply"]].tolist() == ["unreadable", "hm"]


def test_nothing_read_is_a_table_of_gaps():
    made, _ = columns()
    table = made.table()
    assert len(table) == 16
    assert table[["score", "label", "error", "source", "key", "explanation"]].isna().all(axis=None)


@pytest.mark.parametrize("judges", [["fake:strict"], JUDGES])
def test_no_items_have_every_type(judges):
    made, _ = columns(items=pd.DataFrame({"answer": []}), judges=judges)
    table = made.table()
    assert len(table) == 0
    full = columns(judges=judges)[0].table()
    assert [kind.name for kind in table.dtypes] == [kind.name for kind in full.dtypes]
    assert list(table.columns) == list(TABLES["judgments"])


def test_categories_are_only_those_in_use():
    made, keys = columns()
    read(made, keys, {0: value("1"), 4: value("law")})
    made.fail([1], [keys[1]], ["empty"])
    table = made.table()
    assert list(table["error"].cat.categories) == ["empty"]
    assert set(table["label"].cat.categories) == {"1", "law"}
    assert list(table["judge"].cat.categories) == ["fake:strict", "fake:noisy"]


def test_every_reason_can_be_told():
    made, keys = columns(samples=len(REASONS))
    made.fail(range(len(REASONS)), keys[: len(REASONS)], REASONS)
    assert [made.error(row) for row in range(len(REASONS))] == list(REASONS)
    assert made.table()["error"].tolist()[: len(REASONS)] == list(REASONS)


@pytest.mark.parametrize(
    ("answer", "order", "label", "score"),
    [("A", "AB", "A", 1.0), ("A", "BA", "B", 0.0), ("B", "BA", "A", 1.0), ("tie", "BA", "tie", 0.5)],
)
def test_swapped_answers_are_mapped_back(answer, order, label, score):
    pair = [{"question": "q", "answer_a": "x", "answer_b": "y"}]
    made, keys = columns(ek.load_rubric("preference"), Judge("fake", "first", template="label@v1"), pair, 1)
    read(made, keys, {("AB", "BA").index(order): value(answer)})
    row = made.table().set_index("order").loc[order]
    assert row[["label", "score", "score_norm"]].tolist() == [label, score, score]


texts = st.one_of(
    st.sampled_from(["0", "1", "2", "3", "1,0", "", "2 or 1", "I refuse"]), st.text(max_size=40), st.none()
)


@pytest.mark.long
@settings(max_examples=25)
@given(st.lists(st.tuples(texts, st.sampled_from(["stop", "length", None])), max_size=8), st.randoms())
def test_columns_say_what_the_parser_says_in_any_order(replies, random):
    criterion = RUBRIC.criterion("low")
    single = ek.Rubric(id="s", inputs=["answer"], template="label@v1", criteria=[criterion])
    made, keys = columns(single, "fake:strict", ITEMS[:1], samples=8)
    rows = list(range(len(replies)))
    random.shuffle(rows)
    cut = random.randint(0, len(rows))
    for part in (rows[:cut], rows[cut:]):
        read(made, keys, {row: value(replies[row][0], finish_reason=replies[row][1]) for row in part})
    assert made.known_usd == 0.0
    table = made.table()
    for row, (text, finish) in enumerate(replies):
        parsed = parse_reply(Reply(text, finish_reason=finish), "number", criterion.scale)
        error = table.loc[row, "error"]
        assert (None if pd.isna(error) else error) == parsed.error
        assert np.isnan(table.loc[row, "score"]) == (parsed.error is not None)
        if parsed.error is None:
            assert table.loc[row, "score"] == parsed.code
            assert table.loc[row, "passed"] == (parsed.code == 0)


def test_costs_add_up_and_unknown_ones_are_left_out():
    made, keys = columns()
    read(made, keys, {0: value("1", cost_usd=0.25), 1: value("1"), 2: value("1", cost_usd=0.5)})
    assert made.known_usd == 0.75


class TestQuietGc:
    def test_collection_is_off_inside_and_as_before_after(self):
        assert gc.isenabled()
        with gc_paused():
            assert not gc.isenabled()
            with gc_paused():
                assert not gc.isenabled()
            assert not gc.isenabled()
        assert gc.isenabled()

    def test_an_error_turns_it_on_again(self):
        with pytest.raises(KeyError), gc_paused():
            raise KeyError
        assert gc.isenabled()

    def test_off_before_stays_off(self):
        gc.disable()
        try:
            with gc_paused():
                pass
            assert not gc.isenabled()
        finally:
            gc.enable()

    def test_what_was_built_counts_as_old_and_what_the_user_froze_stays_frozen(self):
        with gc_paused():
            built = [[] for _ in range(5000)]
        young = {id(each) for each in gc.get_objects(generation=0)}
        assert young.isdisjoint(map(id, built))
        assert gc.get_freeze_count() == 0
        gc.freeze()
        try:
            with gc_paused():
                more = [[] for _ in range(5000)]
            assert gc.get_freeze_count() >= len(built)
            assert not any(each is more for each in gc.get_objects(generation=2))
        finally:
            gc.unfreeze()

    def test_two_threads_leave_it_on(self):
        inside, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with gc_paused():
                inside.set()
                leave.wait(5)

        thread = threading.Thread(target=hold)
        with gc_paused():
            thread.start()
            inside.wait(5)
        leave.set()
        thread.join()
        assert gc.isenabled()
