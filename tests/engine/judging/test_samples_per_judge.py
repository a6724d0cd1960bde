"""Judges with numbers of samples of their own: rows, keys, plans, profiles, the default of decision models."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from decision_server import RUBRIC, at, decider, items_with
from hypothesis import given
from hypothesis import strategies as st
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.evaluation.sampling_again import sample_again
from evalkit.lighteval.run_cost_forecast import TaskPlan

ITEMS = [{"item_id": str(n), "question": "Why?", "answer": f"Because of {n}."} for n in range(3)]
PAIRS = [{"item_id": "x", "question": "Why?", "answer_a": "So.", "answer_b": "Because."}]


def counts_of(table: pd.DataFrame) -> dict[str, int]:
    """The number of samples of each judge."""
    return {str(name): int(n) for name, n in (table.groupby("judge", observed=True)["sample"].max() + 1).items()}


@given(
    own=st.lists(st.sampled_from([None, 1, 2, 5]), min_size=1, max_size=3),
    common=st.sampled_from([None, 1, 4]),
    pairwise=st.booleans(),
)
def test_rows_and_keys_are_those_of_each_judge_alone(own: list[int | None], common: int | None, pairwise: bool):
    judges = [ek.Judge("fake", "strict", name=f"j{n}", temperature=(n + 1) / 8, samples=k) for n, k in enumerate(own)]
    items, rubric = (PAIRS, "preference") if pairwise else (ITEMS, RUBRIC_OF_THREE)
    work = Worklist.of(Spec.of(rubric, judges, common), items)
    keys = list(work.keys())
    assert len(keys) == work.n_rows == len({*keys})
    assert list(work.keys(rows={0, work.n_rows - 1})) == [keys[0], keys[-1]]
    for number, judge in enumerate(judges):
        alone = Worklist.of(Spec.of(rubric, judge.replace(samples=None), own[number] or common), items)
        rows = [row for row in range(work.n_rows) if work.place(row)[2] == number]
        assert [keys[row] for row in rows] == list(alone.keys())
        for row, other in zip(rows, range(alone.n_rows), strict=True):
            item, criterion, _, order, sample = work.place(row)
            assert (item, criterion, 0, order, sample) == alone.place(other)


RUBRIC_OF_THREE = rubric_of("three", {0: "No", 1: "Yes"}, "a", "b", "c", pass_at=1)


def test_a_table_has_the_samples_of_each_judge(tmp_path: Path):
    judges = [ek.Judge("fake", "strict", samples=1), ek.Judge("fake", "lenient", weight=2.0)]
    for rubric, items in (("relevancy", ITEMS), ("preference", PAIRS)):
        table = ek.judge(items, rubric, judges, cache=tmp_path, progress=False)
        assert counts_of(table) == {"fake:strict": 1, "fake:lenient": 3}
        alone = ek.judge(items, rubric, "fake:lenient", cache=tmp_path, progress=False)
        both = table[table["judge"] == "fake:lenient"]
        assert both["weight"].eq(2.0).all()
        same = ["item_id", "order", "sample", "score", "key"]
        assert both[same].astype(object).values.tolist() == alone[same].astype(object).values.tolist()
        assert ek.plan(items, rubric, judges, cache=tmp_path).table["n_cached"].tolist() == [
            len(table) - len(both), len(both)
        ]  # fmt: skip


@pytest.mark.parametrize("samples", [0, 1001, 2.0, True, "3"])
def test_a_number_of_its_own_is_checked(samples: object):
    with pytest.raises(ek.errors.ConfigError, match="samples of judge 'fake:strict' must be a whole number from 1 to"):
        ek.Judge("fake", "strict", samples=samples)


def test_decision_models_take_one_sample_beside_others_that_take_three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)  # freeze writes the rubric
    with decider() as (server, model):
        jury = [at(server), at(server, provider="systemone", name="second"), "fake:strict"]
        plan = ek.plan(items_with("MASS .5 .5"), RUBRIC, jury, cache=tmp_path)
        assert plan.table["n_judgments"].tolist() == [3, 3, 9]
        ev = ek.evaluate(items_with("MASS .5 .5"), RUBRIC, jury, cache=tmp_path)
        assert counts_of(ev.judgments) == {"decisions:luna": 1, "second": 1, "fake:strict": 3}
        assert "1 to 3 samples each" in " ".join(str(ev).split())
        assert len(model.asked) == 6
        # a profile keeps the number of each, and its replies are those that are stored
        with pytest.warns(ek.errors.EvalkitWarning, match="answered as 'luna-2026'"):
            ek.freeze(ev, tmp_path / "frozen.yaml")
        frozen = ek.load_profile(tmp_path / "frozen.yaml")
        assert [judge.samples for judge in frozen.judges] == [1, 1, None]
        again = ek.evaluate(items_with("MASS .5 .5"), frozen, cache=tmp_path)
        assert again.judgments["source"].eq("cache").all()
        assert len(model.asked) == 6
        # a number that is asked for is for all judges that name none
        assert counts_of(ek.judge(items_with("x"), RUBRIC, jury, samples=2, cache=tmp_path, progress=False)) == {
            "decisions:luna": 2, "second": 2, "fake:strict": 2
        }  # fmt: skip
        with pytest.raises(ek.errors.ConfigError, match=r"as many samples of each judge.*evaluate with samples=3"):
            sample_again(ev)


def test_a_forecast_counts_the_samples_of_each_judge():
    judges = (ek.Judge("decisions", "m", samples=1, price=(1, 0)), ek.Judge("fake", "strict"))
    plan = TaskPlan("t", 10, 2, judges, 3)
    assert plan.calls == 10 * 2 * (1 + 3)
    assert str(plan) == "10 items × 4 samples of 2 judges × 2 criteria = 80"
    assert str(TaskPlan("t", 10, 2, judges[1:], 3)) == "10 items × 1 judge × 3 samples × 2 criteria = 60"
