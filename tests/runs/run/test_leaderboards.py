"""The order of runs on a leaderboard, without runs of LightEval."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy")

from run_setup import made, pack

from evalkit.runs import Run, leaderboard
from evalkit.runs.registry import Registry
from evalkit.runs.run.run_store import RunStore


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


def test_the_best_is_first_where_low_is_good(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    local = Registry.open(tmp_path / "registry.sqlite")
    local.apply_pack(pack(name="p"))

    def facts(*better: bool | None) -> dict[str, Any]:
        metrics = [{"m": {"scorer": "own", "higher_is_better": high}} for high in better]
        return {"facts": {"tasks": {f"t{at}|0": {"metrics": one} for at, one in enumerate(metrics)}}}

    def board(*runs: Run) -> Any:
        monkeypatch.setattr(RunStore, "runs", lambda *_: list(runs))
        return leaderboard(local, "p").set_index("run")

    values = {"good": [0.1, 0.2], "bad": [0.8, 0.2], "none": [None, 0.1]}
    low = board(*(made(name, pair, artifacts=facts(False, False)) for name, pair in values.items()))
    assert low.index.tolist() == ["good", "bad", "none"]
    assert (low["rank"].tolist()[:2], set(low["better"])) == ([1, 2], {"low"})
    high = board(*(made(name, pair, artifacts=facts(True, True)) for name, pair in values.items()))
    assert (high.index.tolist(), set(high["better"])) == (["bad", "good", "none"], {"high"})
    # the worst task is the highest where low is good
    worst = board(made("w", [0.8, 0.2], task_aggregation="min", artifacts=facts(False, False)))
    assert worst.loc["w", "score"] == 0.8
    mixed = board(made("x", [0.8, 0.2], artifacts=facts(True, False))).loc["x"]
    assert (mixed["better"], math.isnan(mixed["score"])) == ("mixed", True)
    assert mixed["notes"].startswith("no score: high is good in some of its tasks, and low in others")
    untold = board(made("y", [0.8, 0.2], artifacts=facts(None, None))).loc["y"]
    assert (untold["better"], untold["rank"]) == (None, 1)
    assert "metric: direction" in untold["not_known"]
    apart = board(made("a", [0.5], artifacts=facts(True)), made("b", [0.4], artifacts=facts(False)))
    assert apart["group"].tolist() == [1, 2], "another direction is another group"
    assert "direction" in apart["differs"].iloc[1]
    versions = board(made("a", [0.5]), made("b", [0.6], pack="p@2"))
    assert versions["group"].tolist() == [1, 2]
    assert versions["differs"].tolist() == ["", "pack: p@2 -> p@1"]
    local.close()
