"""`JudgeBatch` under plain pandas and Dask, models loaded once, and a Dask DataFrame as a source of `judge_files`."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from dask_workers import dask_workers
from loaded_model import Loaded

import evalkit as ek
from evalkit.engine.providers import transformers as provider
from evalkit.errors import ConfigError, InputError

dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")

COLUMNS = ["item_id", "criterion", "judge", "sample", "score", "score_norm", "label", "passed", "error", "key"]


def some_items(n: int) -> pd.DataFrame:
    rows = [{"item_id": f"i{i}", "question": f"{i} + 1?", "answer": str(i), "reference": str(i + 1)} for i in range(n)]
    return pd.DataFrame(rows)


def same(judgments: pd.DataFrame, items: pd.DataFrame) -> None:
    whole = ek.judge(items, "correctness", "fake:strict", samples=2)
    left, right = (table[COLUMNS].astype(str).reset_index(drop=True) for table in (judgments, whole))
    pd.testing.assert_frame_equal(left, right, check_dtype=False)


# --- JudgeBatch


@pytest.mark.parametrize("form", ["frame", "arrays"])
def test_the_batches_together_are_what_judge_returns(form: str) -> None:
    judge_batch = pickle.loads(pickle.dumps(ek.engine.JudgeBatch("correctness", "fake:strict", samples=2)))
    items = some_items(10)
    frames = [items[:4], items[4:]]
    batches = frames if form == "frame" else [{name: part[name].to_numpy() for name in part} for part in frames]
    same(pd.concat(map(judge_batch, batches)), items)


@pytest.mark.long
def test_under_dask_partitions_give_the_same_and_the_same_types() -> None:
    judge_batch = ek.engine.JudgeBatch("correctness", "fake:strict", samples=2)
    frame = dd.from_pandas(some_items(10), npartitions=3)
    lazy = frame.map_partitions(judge_batch, meta=judge_batch.meta)
    judgments = lazy.compute(scheduler="synchronous")
    same(judgments, some_items(10))
    assert judgments.dtypes.to_dict() == judge_batch.meta.dtypes.to_dict()
    assert ek.aggregate(ek.vote(judgments))["score"].notna().all()


def test_dask_without_meta_does_not_pay_for_its_dummy_rows() -> None:
    calls: list[str] = []

    def ask(prompt: Any) -> str:
        calls.append(str(prompt))
        return '{"correctness": 1}'

    judge_batch = ek.engine.JudgeBatch("correctness", ek.Judge.function(ask, name="counted", version="1"))
    with pytest.raises(ValueError, match="Metadata inference failed"):
        dd.from_pandas(some_items(10), npartitions=3).map_partitions(judge_batch)
    assert calls == []


def test_a_batch_without_ids_and_limits_of_one_batch_are_errors() -> None:
    with pytest.raises(InputError, match="no column 'item_id' for the ids; available: 'question', 'answer', 'referenc"):
        ek.engine.JudgeBatch("correctness", "fake:strict")(some_items(2).drop(columns="item_id"))
    with pytest.raises(
        ConfigError, match=r"would apply 'max_calls' to each batch of items by itself; omit it, or use judge_files"
    ):
        ek.engine.JudgeBatch("correctness", "fake:strict", max_calls=5)


@pytest.mark.long
def test_a_model_in_the_process_is_loaded_once_for_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    loads: list[str] = []

    def load(judge: ek.Judge) -> Loaded:
        loads.append(judge.model)
        return Loaded()

    monkeypatch.setattr(provider, "load_model", load)
    judge_batch = ek.engine.JudgeBatch("correctness", "transformers:not/there", samples=1)
    judgments = pd.concat([judge_batch(some_items(10)[first : first + 2]) for first in range(0, 10, 2)])
    ek.engine.release_models()
    assert loads == ["not/there"]
    assert judgments["source"].eq("live").all()


# --- a Dask DataFrame as the source of judge_files


def test_the_partitions_of_a_dask_data_frame_are_the_parts(tmp_path: Path) -> None:
    some_items(25).to_parquet(tmp_path / "items.parquet", row_group_size=10)
    frame, out = dd.read_parquet(tmp_path / "items.parquet", split_row_groups=True), tmp_path / "out"
    done = ek.judge_files(frame, "correctness", "fake:strict", samples=2, out=out)
    assert done.parts["n_items"].tolist() == [10, 10, 5]
    same(pd.read_parquet(out), some_items(25))
    again = ek.judge_files(frame, "correctness", "fake:strict", samples=2, out=out)
    assert again.parts["state"].tolist() == ["kept"] * 3


def test_a_dask_data_frame_without_ids_is_refused(tmp_path: Path) -> None:
    frame = dd.from_pandas(some_items(4).drop(columns="item_id"), npartitions=2)
    with pytest.raises(InputError, match="the Dask DataFrame has no column 'item_id' for the ids; available: 'questi"):
        ek.judge_files(frame, "correctness", "fake:strict", out=tmp_path / "out")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_reads_the_partitions_on_its_workers(tmp_path: Path) -> None:
    some_items(40).to_parquet(tmp_path / "items.parquet", row_group_size=4)
    frame = dd.read_parquet(tmp_path / "items.parquet", split_row_groups=True)
    with dask_workers(tmp_path):
        done = ek.judge_files(
            frame, "correctness", "fake:strict", samples=2, out=tmp_path / "out", cache=tmp_path / "cache"
        )
        persisted = ek.judge_files(frame.persist(), "correctness", "fake:strict", out=tmp_path / "other")
    assert persisted.parts["problem"].str.contains("before persist()", regex=False).all()
    assert done.parts["n_items"].tolist() == [4] * 10
    same(pd.read_parquet(tmp_path / "out"), some_items(40))
