"""A reply that broke off is stored, scored only if it is complete, and asked again by the next run."""

from __future__ import annotations

import pytest
from servers import judge_server
from small_rubrics import rubric_of

import evalkit as ek

TEN = rubric_of("ten", dict.fromkeys(range(1, 11), ""), "quality", template="number@v1")
ITEMS = [{"item_id": name, "answer": f"An answer: {name}"} for name in "abc"]


def judged(url: str, cache: object, **options: object):
    judge = ek.Judge("openai", "m", base_url=url)
    return ek.judge(ITEMS, TEN, judge, samples=1, cache=cache, progress=False, concurrency=1, **options)


def planned(url: str, cache: object) -> tuple[int, int, int]:
    table = ek.plan(ITEMS, TEN, ek.Judge("openai", "m", base_url=url), samples=1, cache=cache).table
    return tuple(table[["n_cached", "n_recorded", "n_to_call"]].iloc[0])


@pytest.mark.parametrize("reason", ["error", "network_error", "what_a_router_says"])
def test_the_next_run_asks_again_only_for_what_broke_off(tmp_path, reason) -> None:
    with judge_server() as server:
        server.script.extend([{"content": "1", "finish_reason": reason}, {"content": "7"}, {"content": "8"}])
        first = judged(server.url, tmp_path)
        assert first["error"].isna().sum() == 2
        assert first["error"].dropna().tolist() == ["truncated"]
        server.always = {"content": "10", "finish_reason": "stop"}
        offline = judged(server.url, tmp_path, offline=True)
        assert offline["error"].dropna().tolist() == ["truncated"]
        assert len(server.seen) == 3
        assert planned(server.url, tmp_path) == (2, 0, 1)
        second = judged(server.url, tmp_path)
        assert len(server.seen) == 4
        assert sorted(second["score"]) == [7, 8, 10]
        judged(server.url, tmp_path)
        assert len(server.seen) == 4


def test_what_a_limit_cut_off_or_is_complete_is_not_asked_again(tmp_path) -> None:
    with judge_server() as server:
        whole = "Rating: 4\nRationale: the first half of it"
        server.script.extend(
            [{"content": "1", "finish_reason": "length"}, {"content": whole, "finish_reason": "error"}]
        )
        server.script.append({"content": "8"})
        first = judged(server.url, tmp_path)
        assert sorted(first["score"].dropna()) == [4, 8]
        assert planned(server.url, tmp_path) == (3, 0, 0)
        judged(server.url, tmp_path)
        assert len(server.seen) == 3


def test_a_failure_of_the_next_run_keeps_what_was_stored(tmp_path) -> None:
    with judge_server() as server:
        server.script.extend([{"content": "1", "finish_reason": "error"}, {"content": "7"}, {"content": "8"}])
        judged(server.url, tmp_path)
        server.always = {"status": 500}
        again = judged(server.url, tmp_path, retries=0)
        assert again["error"].dropna().tolist() == ["truncated"]


def test_what_breaks_off_three_times_in_a_row_is_paid_no_fourth_time(tmp_path) -> None:
    with judge_server() as server:
        server.always = {"content": "", "finish_reason": "a_reason_of_its_own"}
        for run in range(5):
            table = judged(server.url, tmp_path)
            assert len(server.seen) == 3 * min(run + 1, 3)
        assert table["error"].tolist() == ["truncated"] * 3
        assert planned(server.url, tmp_path) == (3, 0, 0)
        server.always = {"content": "7", "finish_reason": "a_reason_of_its_own"}
        judged(server.url, tmp_path, refresh="unscored")
        assert len(server.seen) == 12
        server.always = {"content": "7", "finish_reason": "stop"}
        assert judged(server.url, tmp_path, refresh="unscored")["score"].tolist() == [7, 7, 7]


def test_a_reply_that_was_whole_before_has_three_attempts_again(tmp_path) -> None:
    with judge_server() as server:
        for reason in ("error", "stop", "error"):
            server.always = {"content": "1", "finish_reason": reason}
            judged(server.url, tmp_path, refresh=True)
        n = len(server.seen)
        judged(server.url, tmp_path)
        judged(server.url, tmp_path)
        judged(server.url, tmp_path)
        assert len(server.seen) == n + 2 * 3
