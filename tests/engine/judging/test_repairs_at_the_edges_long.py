"""Repairs beside cut and adopted replies, limits, logs, files, and tables of parts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from repair_server import FIVE, UNREAD, Speaker, judged, judged_by, on, some_items
from servers import judge_server
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.core.formatting import Bill
from evalkit.engine import JudgeBatch, judge_files
from evalkit.engine.calls import event_loop
from evalkit.engine.judging.planning import plan_worklist
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.evaluation.evaluating import open_evaluation

NAMED = rubric_of("named", {0: "None", 1: "Minor", 2: "Major"}, "faults", template="number@v1")


def test_the_question_has_a_line_for_each_level(tmp_path: Path) -> None:
    speaker = Speaker()
    judged_by(speaker, tmp_path, n=1)
    lines = speaker.asked[0]["messages"][0]["content"].splitlines()
    assert [f"{code}: degree {code}" for code in range(1, 6)] == [line for line in lines if ": degree" in line]
    assert any(line.startswith("none: ") for line in lines)


@pytest.mark.parametrize(
    "means",
    [
        '{"verdict": "none"}', '{"verdict": "None."}', '{"verdict": "none", "score": 1}', '{"score": 1}',
        '{"verdict": null, "label": 1}', '{"verdict": true}', '{"verdict": ["1"]}', '{"verdict": "0", "verdict": "1"}',
        '{"verdict": "0"} {"verdict": "1"}', "none", "It is 1.",
    ],
)  # fmt: skip
def test_an_answer_counts_only_as_one_verdict(tmp_path: Path, means: str) -> None:
    speaker = Speaker("I waver between 0 and 1 of these.", means)
    table = judged_by(speaker, tmp_path, rubric=NAMED)
    assert (len(speaker.asked), table["repaired"].any(), table["score"].isna().all()) == (1, False, True)


@pytest.mark.parametrize(("means", "score"), [('{"verdict": "0"}', 0.0), ('{"verdict": "Minor"}', 1.0), ("1", 1.0)])
def test_a_level_may_be_named_none(tmp_path: Path, means: str, score: float) -> None:
    assert (
        judged_by(Speaker("I waver between 0 and 1 of these.", means), tmp_path, rubric=NAMED)["score"].tolist()
        == [score] * 3
    )


def test_numbers_of_a_list_are_no_levels(tmp_path: Path) -> None:
    speaker = Speaker("1. It is short.\n2. It is plain.\n3) It says too little.\nThat is all.", '{"verdict": "2"}')
    judged_by(speaker, tmp_path)
    assert not speaker.asked


def test_an_article_is_no_answer_of_a_pair(tmp_path: Path) -> None:
    pair = rubric_of(
        "pair",
        {"A": "", "B": "", "tie": ""},
        "better",
        inputs="answer_a answer_b",
        level="nominal",
        template="pairwise@v1",
        mode="pairwise",
    )
    items = [{"answer_a": "ITEM-1", "answer_b": "ITEM-2"}]
    for says, n_asked in (
        ("It is a tough call, and both have a point.", 0),
        ("I lean to (a), or to neither of them, it seems.", 1),
    ):  # fmt: skip
        speaker = Speaker(says, '{"verdict": "A"}')
        with judge_server(faults=speaker) as server:
            ek.judge(items, pair, on(server), samples=1, progress=False, cache=tmp_path / says[:9])
        assert len(speaker.asked) == n_asked, says


def test_a_repair_has_room_for_its_object_where_replies_are_short(tmp_path: Path) -> None:
    speaker = Speaker()
    with judge_server(faults=speaker) as server:
        judged(server, tmp_path, judge=on(server, max_tokens=4))
    assert ({body["max_tokens"] for body in speaker.judged}, speaker.asked[0]["max_tokens"]) == ({4}, 64)


@pytest.mark.parametrize("ended", ["length", "network_error"])
def test_a_reply_whose_end_is_missing_is_not_asked_about(tmp_path: Path, ended: str) -> None:
    state = {"finish_reason": ended}
    speaker = Speaker(fault=lambda is_repair: None if is_repair else {"content": "Score: 3\nScore: 4\nIt is", **state})
    with judge_server(faults=speaker) as server:
        judged(server, tmp_path)
        assert not speaker.asked
        state["finish_reason"] = "stop"
        table = judged(server, tmp_path, refresh="unscored")
    assert (len(speaker.asked), table["score"].tolist()) == (1, [4.0] * 3)


def test_a_repeat_with_adopted_replies_shows_the_same(tmp_path: Path) -> None:
    other = ek.Rubric(**(FIVE.to_dict() | {"id": "other"}))
    with judge_server(faults=Speaker()) as server:
        judged(server, tmp_path)
        first, again = (judged(server, tmp_path, rubric=other, adopt=True) for _ in range(2))
        n_requests = len(server.seen)
    assert first["score"].tolist() == again["score"].tolist() == [4.0] * 3
    assert n_requests == 4


def test_a_new_repair_counts_for_the_stored_replies_of_its_text(tmp_path: Path) -> None:
    with judge_server(faults=Speaker()) as server:
        judged(server, tmp_path, n=1, repair=False)
        first, again = (judged(server, tmp_path, n=1, samples=2) for _ in range(2))
    assert first["score"].tolist() == again["score"].tolist() == [4.0, 4.0]


def test_a_judge_at_its_limit_is_not_asked_for_repairs(tmp_path: Path) -> None:
    n = iter(range(100))

    def fault(is_repair: bool) -> Any:
        return (
            None if next(n) < 2 else {"status": 429, "headers": {"retry-after": "4000"}, "message": "come back later"}
        )

    speaker = Speaker(fault=fault)
    with judge_server(faults=speaker) as server:
        table = judged(server, tmp_path, n=6, judge=on(server), concurrency=1)
    assert not speaker.asked
    assert set(table["error"]) <= {"unreadable", "ambiguous", "rate_limited", "judge_down"}


def test_progress_counts_repairs_and_a_stop_in_them_names_what_to_do(tmp_path: Path) -> None:
    seen = list[tuple[int, int, float]]()
    with judge_server(faults=Speaker()) as server:
        judged(server, tmp_path, on_progress=lambda now: seen.append((now.done, now.total, now.cost_usd)))
        assert seen[-1] == (4, 4, pytest.approx(4 * (100 * 1.0 + 11 * 4.0) / 1e6))

        def stop(now: Any) -> None:
            if now.done > 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt, match="refresh="):
            judged(server, tmp_path, refresh=True, on_progress=stop)


def test_without_repairs_nothing_later_uses_them(tmp_path: Path) -> None:
    with judge_server(faults=Speaker()) as server:
        judged(server, tmp_path)
        ask: dict[str, Any] = {"samples": 1, "progress": False, "cache": tmp_path}
        plain = ek.evaluate(some_items(), FIVE, on(server), repair=False, **ask)
        repaired = ek.evaluate(some_items(), FIVE, on(server), **ask)
        opened = [
            open_evaluation(name, some_items(), cache=tmp_path)
            for name in ek.history(cache=tmp_path)["evaluation"].dropna()
        ]
    scores = [table.judgments["score"].isna().all() for table in (plain, repaired)]
    assert scores == [True, False]
    assert sorted(table.judgments["score"].isna().all() for table in opened) == [False, True]


def test_a_plan_says_what_repairs_of_stored_replies_may_cost(tmp_path: Path) -> None:
    with judge_server(faults=Speaker()) as server:
        judged(server, tmp_path, repair=False)
        spec = Spec.of(FIVE, on(server), 1)
        work = Worklist.of(spec, pd.DataFrame(some_items()))
        plan = plan_worklist(work, refresh="unscored", cache=tmp_path)
        assert (plan.n_to_call, plan.n_to_repair) == (0, 3)
        table = judged(server, tmp_path, refresh="unscored")
    most = float(plan.table["usd_repairs_at_most"].iloc[0])
    assert f"at most {most:.4f} for repairs of 3 stored replies" in plan.price
    assert 0 < Bill.of(table, "live").usd <= most


def test_a_plan_without_repairs_has_no_price_of_them(tmp_path: Path) -> None:
    with judge_server(faults=Speaker()) as server:
        new = ek.plan(some_items(), FIVE, on(server), samples=1, repair=False, cache=tmp_path)
        judged(server, tmp_path, repair=False)
        work = Worklist.of(Spec.of(FIVE, on(server), 1), pd.DataFrame(some_items()))
        stored = plan_worklist(work, refresh="unscored", repair=False, cache=tmp_path)
    prices = ["usd_repairs", "usd_repairs_at_most"]
    assert new.table[prices].to_numpy().tolist() == stored.table[prices].to_numpy().tolist() == [[0.0, 0.0]]
    assert "repairs" not in new.price
    assert (stored.n_to_call, stored.n_to_repair) == (3, 0), "what is unread is asked again"


@pytest.mark.parametrize("word", ["words ", "Wörter über ", "意見はいろいろ"])
def test_a_budget_as_planned_is_enough_to_repair_long_replies(tmp_path: Path, word: str) -> None:
    says = f"Answer no # has {word * 800}. {UNREAD}"
    with judge_server(faults=Speaker(says)) as server:
        judged(server, tmp_path, repair=False)
        work = Worklist.of(Spec.of(FIVE, on(server), 1), pd.DataFrame(some_items()))
        plan = plan_worklist(work, refresh="unscored", cache=tmp_path)
        most = float(plan.table["usd_repairs_at_most"].iloc[0])
        table = judged(server, tmp_path, refresh="unscored", budget_usd=most, concurrency=1)
    assert table["repaired"].tolist() == [True] * 3


@pytest.mark.parametrize("asks", ["judge", "ajudge"])
def test_a_judge_that_answers_no_call_is_asked_for_no_repair(tmp_path: Path, asks: str) -> None:
    """Item 0 is unread, items 1 and 2 were empty: both are asked again, the server is down by then."""
    speaker = Speaker(
        fault=lambda is_repair: None if "ITEM-0" in str(speaker.judged[-1]) else {"content": "none at all"}
    )
    with judge_server(faults=speaker) as server:
        judged(server, tmp_path, repair=False)
        speaker.judged.clear()
        speaker.fault = lambda is_repair: {"status": 503, "body": {"error": {"message": "down"}}}
        again: dict[str, Any] = {"samples": 1, "progress": False, "cache": tmp_path, "retries": 0}
        if asks == "judge":
            table = ek.judge(some_items(), FIVE, on(server), refresh="unscored", **again)
        else:
            table = asyncio.run(ek.ajudge(some_items(), FIVE, on(server), refresh="unscored", **again))
    assert (len(speaker.judged), len(speaker.asked)) == (2, 0)
    assert table["score"].isna().all()


def test_parts_and_files_have_the_same_columns_with_and_without_a_repair(tmp_path: Path) -> None:
    speaker = Speaker(fault=lambda is_repair: None)
    says = {"0": "4", "1": UNREAD}
    speaker.fault = lambda is_repair: (
        None
        if is_repair
        else {"content": says[speaker.judged[-1]["messages"][-1]["content"].rpartition("ITEM-")[2][:1]]}
    )
    with judge_server(faults=speaker) as server:
        options: dict[str, Any] = {"cache": tmp_path / "cache", "progress": False}
        batch = JudgeBatch(FIVE, on(server), samples=1, **options)
        tables = [batch.meta, *(batch(pd.DataFrame([item])) for item in some_items(2))]
        files = judge_files(
            pd.DataFrame(some_items(2)), FIVE, on(server), out=tmp_path / "out", rows=1, samples=1, **options
        )
        with pytest.raises(ek.errors.InputError, match="pass another folder"):
            judge_files(
                pd.DataFrame(some_items(2)), FIVE, on(server), out=tmp_path / "out", rows=1, samples=1, repair=False,
                **options,
            )  # fmt: skip
    assert [table.dtypes.to_dict() for table in tables[1:]] == [tables[0].dtypes.to_dict()] * 2
    whole = pd.read_parquet(files.folder)
    assert whole["repaired"].tolist() == [False, True]
    assert whole["repair_usd"].notna().tolist() == [False, True]


def test_a_table_from_a_csv_file_bills_repairs(tmp_path: Path) -> None:
    with judge_server(faults=Speaker()) as server:
        table = judged(server, tmp_path / "cache")
    table.to_csv(tmp_path / "table.csv", index=False)
    back = ek.tables.read_table(tmp_path / "table.csv", "judgments")
    assert back["repaired"].tolist() == [True] * 3
    assert Bill.of(back).usd == pytest.approx(Bill.of(table).usd)
    table.assign(repaired=False).to_csv(tmp_path / "table.csv", index=False)
    assert not ek.tables.read_table(tmp_path / "table.csv", "judgments")["repaired"].any()


def test_repairs_have_the_time_that_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, fetch = list[float](), event_loop.fetch

    def noted(requests: Any, store: Any, options: Any, **more: Any) -> Any:
        left.append(options.max_seconds)
        return fetch(requests, store, options, **more)

    monkeypatch.setattr(event_loop, "fetch", noted)
    speaker = Speaker(fault=lambda is_repair: None if is_repair else {"content": UNREAD, "delay": 0.3})
    judged_by(speaker, tmp_path, n=1, max_seconds=300)
    assert len(left) == 2
    assert left[0] - left[1] >= 0.3, "what the reply took"
