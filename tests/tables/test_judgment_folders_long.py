"""A folder of judgments, read part by part: every figure is that of one table, and no part is left out unseen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judgment_tables import BINARY, DECIMAL, LOW, NAMES, ORDINAL, PAIR, TOPIC, judgments
from pandas.testing import assert_frame_equal

import evalkit as ek
from evalkit.errors import ConfigError, EvalkitWarning, InputError
from evalkit.stats.agreement import krippendorff
from evalkit.tables.judgment_folders import one_table, read_parts

SCALES = {"ordinal": ORDINAL, "binary": BINARY, "low": LOW, "topic": TOPIC, "names": NAMES, "decimal": DECIMAL}
JUDGES = ("x", "y", "z")
N_ITEMS = 40


def answers(draw: np.random.Generator, scale: Any, n: int) -> list[Any]:
    """Codes of a scale; one answer in eight is an error."""
    codes = [0.0, 0.25, 0.5, 1.0] if scale is DECIMAL else list(scale.codes)
    return [draw.choice(["!unreadable", "!timeout"]) if draw.random() < 0.125 else codes[at]
            for at in draw.integers(0, len(codes), n)]  # fmt: skip


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Two versions of a rubric, seven criteria, pairs in two orders, three judges, one to four samples; by item."""
    draw = np.random.default_rng(7)
    tables = []
    for name, scale in SCALES.items():
        for version in ("v1", "v2") if name == "ordinal" else ("v1",):
            said = {
                (f"i{item}", judge): answers(draw, scale, draw.integers(1, 5))
                for item in range(N_ITEMS) for judge in JUDGES
            }  # fmt: skip
            tables.append(judgments(said, scale, criterion=name, version=version, weights={"z": 2.0}))
    pairs = {
        (f"i{item}", judge): {order: answers(draw, PAIR, 2) for order in ("AB", "BA")}
        for item in range(N_ITEMS) for judge in JUDGES
    }  # fmt: skip
    whole = one_table([*tables, judgments(pairs, PAIR, criterion="pair", weights={"z": 2.0})])
    whole = whole.assign(explanation="because", source="live", key=[f"k{at}" for at in range(len(whole))])
    place = whole["item_id"].str.removeprefix("i").astype(int)
    return whole.iloc[np.argsort(place.to_numpy(), kind="stable")].reset_index(drop=True)


@pytest.fixture(scope="module")
def labels() -> pd.DataFrame:
    draw = np.random.default_rng(8)
    rows = [
        (f"i{item}", name, person, str(draw.choice(["0", "1"] if scale is DECIMAL else list(scale.labels))))
        for name, scale in (SCALES | {"pair": PAIR}).items()
        for person in ("ann", "bob") for item in range(0, N_ITEMS, 2)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["item_id", "criterion", "annotator", "label"])


def split(table: pd.DataFrame, folder: Path, n_parts: int) -> Path:
    """A folder of so many files, whole items in each."""
    folder.mkdir()
    ids = table["item_id"].unique()
    for number, own in enumerate(np.array_split(ids, n_parts)):
        part = table[table["item_id"].isin(own)]
        # each file with the categories that it needs, as if it had been judged alone
        used = {name: part[name].cat.remove_unused_categories() for name in part.select_dtypes("category")}
        part.assign(**used).to_parquet(folder / f"{number:03d}.parquet", index=False)
    return folder


GROUPS = {f"i{item}": f"g{item // 3}" for item in range(N_ITEMS)}
FIGURES = {
    "vote": lambda source, _: ek.vote(source),
    "vote with options": lambda source, _: ek.vote(source, method="median", ties="low", min_self_agreement=0.4),
    "aggregate": lambda source, _: ek.aggregate(voted(source)),
    "aggregate by min, all judges": lambda source, _: ek.aggregate(voted(source), method="min", quorum=1.0),
    "aggregate with weights": lambda source, _: ek.aggregate(voted(source), weights={"x": 0.5, "y": 0.0}),
    "disagreement": lambda source, _: ek.disagreement(voted(source)),
    "summarize": lambda source, _: ek.summarize(scored(source)),
    "summarize by groups": lambda source, _: ek.summarize(scored(source), clusters=GROUPS),
    "reliability": lambda source, _: ek.reliability(source),
    "reliability, full": lambda source, _: ek.reliability(source, full=True, clusters=GROUPS),
    "align": lambda source, labels: ek.align(voted(source), labels),
    "align, ties half": lambda source, labels: ek.align(voted(source), labels, ties="half", clusters=GROUPS),
    "confusion": lambda source, labels: ek.stats.confusion(voted(source), labels),
    "jury value": lambda source, labels: ek.stats.jury_value(voted(source), labels, clusters=GROUPS),
    "pass threshold": lambda source, labels: ek.stats.pass_threshold(voted(source), labels, ties="half"),
    "alternative annotator": lambda source, labels: ek.stats.alt_test(voted(source), labels, 0.1).summary,
    "align by a column": lambda source, labels: ek.align(voted(source), labels, by="method"),
}


def voted(source: Any) -> Any:
    """The votes of a table; a folder stands for them."""
    return ek.vote(source) if isinstance(source, pd.DataFrame) else source


def scored(source: Any) -> Any:
    """The scores of a table; a folder stands for them."""
    return ek.aggregate(ek.vote(source)) if isinstance(source, pd.DataFrame) else source


@pytest.mark.parametrize("n_parts", [1, 3, 17])
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_of_a_folder_is_that_of_one_table(table, labels, tmp_path, name, n_parts):
    folder = split(table, tmp_path / "out", n_parts)
    expected = FIGURES[name](table, labels)
    assert len(expected)
    assert_frame_equal(FIGURES[name](folder, labels), expected, check_categorical=False, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["reliability", "reliability, full"])
def test_figures_that_take_some_items_at_a_time_are_those_of_all(table, labels, monkeypatch, name):
    expected = FIGURES[name](table, labels)
    monkeypatch.setattr(krippendorff, "_AT_ONCE", 7)
    assert_frame_equal(FIGURES[name](table, labels), expected, rtol=1e-12, atol=1e-12)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_the_figures_do_not_depend_on_how_items_are_dealt_to_files(tmp_path_factory, table, data):
    some = table[table["criterion"].isin(["ordinal", "pair"])]
    place = data.draw(st.lists(st.integers(0, 4), min_size=N_ITEMS, max_size=N_ITEMS))
    folder = tmp_path_factory.mktemp("dealt")
    files = some["item_id"].map({f"i{item}": number for item, number in enumerate(place)})
    for number, part in some.groupby(files):
        part.to_parquet(folder / f"{number}.parquet", index=False)
    assert_frame_equal(
        ek.summarize(folder), ek.summarize(ek.aggregate(ek.vote(some))), check_categorical=False, rtol=1e-12
    )
    expected = ek.reliability(some).sort_values(["criterion", "rubric_version"], ignore_index=True)
    found = ek.reliability(folder).sort_values(["criterion", "rubric_version"], ignore_index=True)
    assert_frame_equal(found, expected, check_categorical=False, rtol=1e-9)


def test_dawid_skene_is_estimated_from_all_items_together(tmp_path):
    draw = np.random.default_rng(1)
    said = {(f"i{item}", judge): [int(draw.random() < 0.6)] for item in range(60) for judge in JUDGES}
    whole = judgments(said, BINARY)
    folder = split(whole, tmp_path / "out", 9)
    expected = ek.aggregate(ek.vote(whole), method="dawid_skene")
    assert_frame_equal(ek.aggregate(folder, method="dawid_skene"), expected, check_categorical=False, rtol=1e-12)


def test_a_judge_of_one_file_alone_may_have_a_weight(tmp_path):
    whole = judgments({("a", "x"): [2], ("b", "y"): [1]})
    folder = split(whole, tmp_path / "out", 2)
    assert ek.aggregate(folder, weights={"y": 3.0})["score"].tolist() == [2.0, 1.0]
    with pytest.raises(ConfigError, match="unknown judges in weights: 'q'"):
        ek.aggregate(folder, weights={"q": 3.0})


def test_a_part_without_any_label_or_number_of_samples_joins_the_others(tmp_path):
    whole = judgments({("a", "x"): ["!timeout"], ("b", "x"): [1, 2], ("c", "x"): [2]})
    votes = ek.vote(split(whole, tmp_path / "out", 3))
    assert votes["reason"].astype(object).where(votes["reason"].notna(), None).tolist()[0] == "timeout"
    assert_frame_equal(votes, ek.vote(whole), check_categorical=False)


def test_only_the_columns_that_are_needed_are_read(table, tmp_path):
    folder = split(table, tmp_path / "out", 2)
    parts = list(read_parts(folder))
    assert sum(map(len, parts)) == len(table)
    assert not {"explanation", "key"} & set(parts[0])


# --- parts that are missing


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """A folder of `judge_files`: 25 items in 3 parts."""
    items = pd.DataFrame({"question": [f"{n} + 1?" for n in range(25)], "answer": "4", "reference": "4"})
    ek.engine.judge_files(items, "correctness", ["fake:strict", "fake:lenient"], out=tmp_path / "out", rows=10)
    return tmp_path / "out"


def test_what_judge_files_returns_and_writes_are_one_thing(judged, tmp_path):
    items = pd.DataFrame({"question": [f"{n} + 1?" for n in range(25)], "answer": "4", "reference": "4"})
    returned = ek.engine.judge_files(items, "correctness", ["fake:strict", "fake:lenient"], out=judged, rows=10)
    assert returned.parts["state"].tolist() == ["kept"] * 3
    whole = ek.judge(items, "correctness", ["fake:strict", "fake:lenient"], progress=False)
    expected = ek.summarize(ek.aggregate(ek.vote(whole)))
    for source in (returned, judged, str(judged)):
        assert_frame_equal(ek.summarize(source), expected, check_categorical=False)
    assert expected["n_items"].tolist() == [25]


@pytest.mark.parametrize("lost", ["part-000001.parquet", "_part-000001.json", "part-000002.parquet"])
def test_a_part_that_is_not_there_is_named(judged, lost):
    (judged / lost).unlink()
    name = lost.removeprefix("_").partition(".")[0]
    with pytest.raises(InputError, match=rf"has only 2 of 3 parts, without '{name}'; repeat the call"):
        ek.summarize(judged)


def test_a_part_that_failed_is_named_even_if_it_is_the_last(tmp_path):
    rows = [json.dumps({"question": "1 + 1?", "answer": "2", "reference": "2"})] * 24 + ["{"]
    (tmp_path / "items.jsonl").write_text("\n".join(rows))
    with pytest.warns(EvalkitWarning, match="1 part of 3 failed"):
        failed = ek.engine.judge_files(
            tmp_path / "items.jsonl", "correctness", "fake:strict", out=tmp_path / "out", rows=10
        )
    with pytest.raises(InputError, match="has only 2 of 3 parts, without 'part-000002'"):
        ek.vote(failed)


def test_the_folder_of_one_shard_alone_is_incomplete(tmp_path):
    items = pd.DataFrame({"question": [f"{n} + 1?" for n in range(25)], "answer": "4", "reference": "4"})
    options = {"out": tmp_path / "out", "rows": 10}
    ek.engine.judge_files(items, "correctness", "fake:strict", shard=(1, 2), **options)
    with pytest.raises(InputError, match="has only 2 of 3 parts, without 'part-000001'"):
        ek.vote(tmp_path / "out")
    ek.engine.judge_files(items, "correctness", "fake:strict", shard=(2, 2), **options)
    assert len(ek.vote(tmp_path / "out")) == 25


def test_a_run_that_was_stopped_is_not_taken_for_a_whole_one(judged):
    (judged / "_n_parts.json").unlink()
    with pytest.raises(InputError, match=r"judge_files has not finished with .*out; wait until it has, or repeat"):
        ek.disagreement(judged)


def test_a_run_over_more_items_than_before_is_not_finished(judged):
    (judged / "_n_parts.json").write_text('{"n_parts": 2}')
    with pytest.raises(InputError, match="judge_files has not finished"):
        ek.vote(judged)


@pytest.mark.parametrize("text", ["{", "[]", '{"n_parts": "x"}', "{}"])
def test_a_count_of_parts_that_cannot_be_read_is_named(judged, text):
    (judged / "_n_parts.json").write_text(text)
    with pytest.raises(
        InputError, match=r"_n_parts\.json was not written by evalkit .*; remove it and repeat the call"
    ):
        ek.vote(judged)


# --- folders that evalkit did not write


def test_equal_hashes_of_different_items_are_no_double(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    for item in ("a", "b"):
        judgments({(item, "x"): [1]}).to_parquet(tmp_path / "out" / f"{item}.parquet")
    monkeypatch.setattr(pd.util, "hash_pandas_object", lambda frame, **_: pd.Series(7, index=frame.index))
    assert len(ek.vote(tmp_path / "out")) == 2


def test_a_criterion_of_an_item_in_two_files_is_an_error(tmp_path):
    (tmp_path / "out").mkdir()
    for judge in ("x", "y"):
        judgments({("a", judge): [1], ("b", judge): [2]}).to_parquet(tmp_path / "out" / f"{judge}.parquet")
    with pytest.raises(InputError, match=r"item 'a' has judgments in .*x\.parquet and in y\.parquet; write all"):
        ek.aggregate(tmp_path / "out")


def test_criteria_may_be_in_files_of_their_own(tmp_path):
    (tmp_path / "out").mkdir()
    said = {("a", "x"): [1], ("b", "x"): [2]}
    tables = [judgments(said, criterion=name) for name in ("c", "d")]
    for table, name in zip(tables, "cd", strict=True):
        table.to_parquet(tmp_path / "out" / f"{name}.parquet")
    expected = ek.aggregate(ek.vote(pd.concat(tables)))
    assert_frame_equal(ek.aggregate(tmp_path / "out"), expected, check_categorical=False)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "has no parquet files; expected a folder of judgments"),
        ({"_part.parquet": b"", ".hidden.parquet": b""}, "has no parquet files"),
        ({"items.parquet": pd.DataFrame({"item_id": ["a"]})}, r"items\.parquet: not a judgments table: column"),
        ({"a.parquet": b"no parquet"}, r"a\.parquet: invalid parquet"),
    ],
)
def test_a_folder_without_judgments_is_an_error(tmp_path, files, message):
    for name, content in files.items():
        if isinstance(content, bytes):
            (tmp_path / name).write_bytes(content)
        else:
            content.to_parquet(tmp_path / name)
    with pytest.raises(InputError, match=message):
        ek.vote(tmp_path)


@pytest.mark.parametrize("function", ["vote", "aggregate", "disagreement", "summarize", "reliability"])
def test_a_path_that_is_no_folder_is_an_error(tmp_path, function):
    with pytest.raises(InputError, match="none was not found; pass a folder of judgments, such as judge_files writes"):
        getattr(ek, function)(str(tmp_path / "none"))
    (tmp_path / "votes.parquet").write_bytes(b"")
    with pytest.raises(InputError, match=r"votes\.parquet is a file; read it with evalkit\.tables\.read_table"):
        getattr(ek, function)(tmp_path / "votes.parquet")


def test_a_judgment_that_is_in_a_file_twice_is_an_error(tmp_path):
    one = judgments({("a", "x"): [1]})
    pd.concat([one, one]).to_parquet(tmp_path / "a.parquet")
    for function in (ek.vote, ek.reliability):
        with pytest.raises(InputError, match="1 of 2 rows of the judgments table have the same key"):
            function(tmp_path)


# --- evaluations


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[ek.Evaluation, ek.Evaluation]:
    """Evaluations of the same judgments: of one table, and of a folder."""
    items, labels = ek.load_example("support")
    folder = tmp_path_factory.mktemp("evaluated") / "out"
    judges = ["fake:strict", "fake:lenient"]
    done = ek.engine.judge_files(items, "faithfulness", judges, samples=2, out=folder, rows=10)
    whole = pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))])
    of = ek.Evaluation.of
    return of(whole, items, labels), of(done, items, labels)


@pytest.mark.parametrize(
    "name", ["votes", "scores", "rubric_scores", "summary", "disagreement", "reliability", "alignment", "judgments"]
)
def test_every_table_of_an_evaluation_of_a_folder_is_that_of_one_table(evaluated, name):
    expected, found = (getattr(evaluation, name) for evaluation in evaluated)
    assert len(expected)
    found, expected = (table.reset_index(drop=True) for table in (found, expected))
    assert_frame_equal(found[list(expected)], expected, check_categorical=False, check_dtype=False, rtol=1e-12)


def test_an_evaluation_of_a_folder_is_shown_as_that_of_one_table(evaluated, tmp_path):
    of_table, of_folder = evaluated
    assert str(of_folder) == str(of_table)
    assert (of_folder.judges, of_folder.samples, of_folder.cost) == (of_table.judges, of_table.samples, of_table.cost)
    assert of_folder.cost.n_live + of_folder.cost.n_cached == 96
    assert_frame_equal(of_folder.wide(), of_table.wide(), check_categorical=False)
    assert ek.report(of_folder, tmp_path / "report.html").stat().st_size > 1000


def test_a_reply_that_two_parts_share_costs_once(tmp_path):
    items = [{"question": "1 + 1?", "answer": "2", "reference": "2"}] * 6
    done = ek.engine.judge_files(items, "correctness", "fake:strict", samples=1, out=tmp_path / "out", rows=2)
    assert done.parts["n_judgments"].tolist() == [2, 2, 2]
    cost = ek.Evaluation.of(done, items).cost
    assert (cost.n_live, cost.n_cached) == (1, 1)  # bought for the first part, from the cache for the others


def test_the_figures_of_an_evaluation_do_not_read_explanations(evaluated, monkeypatch):
    of_table, _ = evaluated
    read: list[str] = []
    real = read_parts
    for module in ("evalkit.evaluation.evaluation", "evalkit.tables.judgment_folders"):
        monkeypatch.setattr(
            f"{module}.read_parts",
            lambda folder, need=(), **more: read.extend(need) or real(folder, need, **more) if need else real(folder),
        )
    folder = evaluated[1].judged
    again = ek.Evaluation.of(folder, of_table.items, of_table.labels)
    assert "US$" in str(again)
    assert "key" in read
    assert "explanation" not in read


def test_an_evaluation_of_a_folder_checks_items_and_rubrics(tmp_path):
    items = [{"item_id": "a", "answer": "x"}, {"item_id": "b", "answer": "y"}]
    said = {("a", "x"): [1], ("b", "x"): [2]}
    folder = split(judgments(said), tmp_path / "one", 2)
    with pytest.raises(InputError, match="the judgments contain the item_id 'b', which is not among the items"):
        ek.Evaluation.of(folder, items[:1])
    judgments(said, version="v2").to_parquet(folder / "v2.parquet", index=False)
    with pytest.raises(InputError, match="expected judgments of one rubric, got 'r@v1', 'r@v2'; select"):
        ek.Evaluation.of(folder, items)
