"""The order of runs on a leaderboard, without runs of LightEval."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("alembic")

from run_setup import made, pack

from evalkit.runs import Run, leaderboard
from evalkit.runs.registry import Registry
from evalkit.runs.run_store import RunStore


def test_the_highest_score_is_first_ties_share_a_rank_and_gaps_have_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    registry = Registry.open(tmp_path / "registry.sqlite")
    registry.apply_pack(pack(name="p"))

    def board(*runs: Run) -> Any:
        monkeypatch.setattr(RunStore, "runs", lambda *_: list(runs))
        return leaderboard(registry, "p").set_index("run")

    assert board(made("x", [0.5]), made("y", [0.75]), made("z", [0.25]))["rank"].to_dict() == {"y": 1, "x": 2, "z": 3}
    runs = [made("a", [0.5, None]), made("b", [None, None]), made("c", [0.25, 0.75]), made("d", [0.75, 0.25])]
    random.Random(4).shuffle(runs)
    table = board(*runs)
    assert table.loc[["c", "d"], "rank"].tolist() == [1, 1], "ties share a rank"
    assert table.loc[["a", "b"], "score"].isna().all()
    assert table.loc["a", "notes"].startswith("no score: t1|0 has no first metric")
    assert table["rank"].isna().tolist() == [False, False, True, True], "what has no score is last, without a rank"
    lowest = board(made("e", [0.5, 0.25], task_aggregation="min"))
    assert lowest["score"].tolist() == [0.25]
    assert board(made("f", [0.5], task_aggregation="none"))["score"].isna().all()
    assert board(made("g", [0.5], primary_metric="other"))["notes"].iloc[0].startswith("no score: t0|0 has no other")
    registry.close()
