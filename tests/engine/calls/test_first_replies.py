"""A judge whose first replies are paid for and of no use gets no more calls."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.core import Reply
from evalkit.engine.calls.retries_and_breaker import FirstReplies

GOOD, CUT, PROSE = '{"explanation": "", "score": 2}', '{"explanation": "the answer', "I would call it decent work"
RUBRIC = rubric_of("r", {0: "poor", 1: "fair", 2: "good"}, "quality")


def reply(text: str, finish: str = "stop") -> Reply:
    return Reply(text, finish_reason=finish, prompt_tokens=100, completion_tokens=50)


cut, empty, prose, good = reply(CUT, "length"), reply("", "length"), reply(PROSE), reply(GOOD)


class Scripted:
    """A judge that answers item n with `replies(n)`; `asked` are the items, in order."""

    def __init__(self, replies: Callable[[int], Reply]) -> None:
        self.replies, self.asked = replies, list[int]()

    async def __call__(self, prompt: Any) -> Reply:
        n = int(prompt.inputs["answer"])
        self.asked.append(n)
        await asyncio.sleep(0)
        return self.replies(n)

    def judge(self, name: str = "j", **fields: Any) -> ek.Judge:
        return ek.Judge.function(self, name=name, version="1", price=(1, 10), **{"max_tokens": 512, **fields})


def judged(judges: Any, n: int, cache: Path, **options: Any) -> tuple[pd.DataFrame, list[str]]:
    """The judgments of items 0 to n-1, and the warnings."""
    items = [{"item_id": str(number), "answer": str(number)} for number in range(n)]
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        options = {"samples": 1, "cache": cache, "progress": False, "concurrency": 1} | options
        table = ek.judge(items, RUBRIC, judges, **options)
    return table, [str(note.message) for note in notes]


def errors(table: pd.DataFrame) -> dict[str, int]:
    return table["error"].astype("str").fillna("scored").value_counts().to_dict()


@pytest.mark.parametrize(("bad", "reason"), [(cut, "truncated"), (empty, "truncated"), (reply(""), "empty")])
def test_five_cut_or_empty_replies_stop_a_judge(tmp_path: Path, bad: Reply, reason: str) -> None:
    judge = Scripted(lambda _: bad)
    table, notes = judged(judge.judge(), 30, tmp_path)
    assert judge.asked == [0, 1, 2, 3, 4]
    assert errors(table) == {reason: 5, "stopped": 25}
    assert table["cost_usd"].sum() == pytest.approx(5 * (100 * 1 + 50 * 10) / 1e6)  # what was paid is shown
    (note,) = notes
    assert "judge 'j' was stopped, since its first 5 replies were all cut off or empty; raise its max_tokens" in note


def test_only_calls_that_were_in_flight_are_paid_besides(tmp_path: Path) -> None:
    judge = Scripted(lambda _: cut)
    table, _ = judged(judge.judge(), 60, tmp_path, concurrency=4)
    assert len(judge.asked) <= 5 + 3
    assert errors(table) == {"truncated": len(judge.asked), "stopped": 60 - len(judge.asked)}


@pytest.mark.parametrize("fine", [good, prose, reply("", "content_filter"), reply('{"explanation": "", "score": 7}')])
def test_one_other_reply_among_the_first_lets_it_go_on(tmp_path: Path, fine: Reply) -> None:
    judge = Scripted(lambda n: fine if n == 4 else cut)
    table, notes = judged(judge.judge(), 19, tmp_path)
    assert (len(judge.asked), notes) == (19, [])
    assert "stopped" not in errors(table)


def test_a_reply_in_flight_may_refute_that_all_are_cut(tmp_path: Path) -> None:
    """Empty replies come first, since they are short: the first call of six answers last."""
    others = asyncio.Event()

    class Late(Scripted):
        async def __call__(self, prompt: Any) -> Reply:
            text = await super().__call__(prompt)
            if prompt.inputs["answer"] == "0":
                await others.wait()
            if len(self.asked) == 6:
                others.set()
            return text

    judge = Late(lambda n: good if n in (0, 7, 8, 9) else empty)
    table, notes = judged(judge.judge(), 10, tmp_path, concurrency=6)
    assert (errors(table), notes) == ({"truncated": 6, "scored": 4}, [])


def test_few_replies_or_replies_to_one_item_stop_nothing(tmp_path: Path) -> None:
    judge = Scripted(lambda _: cut)
    assert errors(judged(judge.judge(), 4, tmp_path)[0]) == {"truncated": 4}
    assert errors(judged(judge.judge("many"), 1, tmp_path, samples=8)[0]) == {"truncated": 8}
    assert errors(judged(judge.judge("two"), 2, tmp_path, samples=8)[0]) == {"truncated": 9, "stopped": 7}


@pytest.mark.parametrize(("n_bad", "is_stopped"), [(11, True), (10, False)])
def test_more_than_half_of_twenty_unreadable_replies_stop_a_judge(tmp_path: Path, n_bad: int, is_stopped: bool) -> None:
    judge = Scripted(lambda n: prose if n < n_bad else good)
    table, notes = judged(judge.judge(), 40, tmp_path)
    assert len(judge.asked) == (20 if is_stopped else 40)
    assert errors(table).get("stopped", 0) == (20 if is_stopped else 0)
    assert [note for note in notes if "11 of its first 20" in note and "template='tagged@v1'" in note] == notes
    assert len(notes) == is_stopped


def test_later_replies_are_not_judged_by_it(tmp_path: Path) -> None:
    judge = Scripted(lambda n: good if n < 20 else prose)
    assert errors(judged(judge.judge(), 60, tmp_path)[0]) == {"scored": 20, "unreadable": 40}


def test_a_plain_form_names_another_template(tmp_path: Path) -> None:
    _, notes = judged(Scripted(lambda _: prose).judge(), 25, tmp_path, template="tagged@v1")
    assert ["'tagged'" in note and "template='default@v1'" in note for note in notes] == [True]


def test_one_judge_of_two_is_stopped(tmp_path: Path) -> None:
    bad, fine = Scripted(lambda _: cut), Scripted(lambda _: good)
    table, notes = judged([bad.judge("bad"), fine.judge("fine")], 12, tmp_path)
    counts = table.groupby("judge", observed=True)["score"].count().to_dict()
    assert counts == {"bad": 0, "fine": 12}
    assert (len(bad.asked), len(fine.asked), len(notes)) == (5, 12, 1)


def test_stored_replies_neither_stop_a_judge_nor_excuse_it(tmp_path: Path) -> None:
    judge = Scripted(lambda _: cut)
    judged(judge.judge(), 12, tmp_path)
    judge.asked.clear()
    table, notes = judged(judge.judge(), 12, tmp_path)  # five are stored: seven are missing, five of them asked
    assert (len(judge.asked), errors(table), len(notes)) == (5, {"truncated": 10, "stopped": 2}, 1)
    judge.asked.clear()
    judge.replies = lambda _: good
    table, notes = judged(judge.judge(), 30, tmp_path)
    assert (len(judge.asked), errors(table), notes) == (20, {"truncated": 10, "scored": 20}, [])


def test_with_another_max_tokens_all_are_asked_once(tmp_path: Path) -> None:
    judge = Scripted(lambda _: cut)
    judged(judge.judge(), 12, tmp_path)
    judge.asked.clear()
    judge.replies = lambda _: good
    for n_asked in (12, 0):
        table, _ = judged(judge.judge(max_tokens=4000), 12, tmp_path)
        assert (errors(table), len(judge.asked)) == ({"scored": 12}, n_asked)
        judge.asked.clear()


def test_ajudge_stops_too(tmp_path: Path) -> None:
    judge = Scripted(lambda _: cut)
    items = [{"item_id": str(number), "answer": str(number)} for number in range(20)]
    with pytest.warns(ek.errors.EvalkitWarning, match="max_tokens"):
        asyncio.run(ek.ajudge(items, RUBRIC, judge.judge(), samples=1, cache=tmp_path, concurrency=1))
    assert len(judge.asked) == 5


def test_a_cut_reply_with_its_score_counts_as_read(tmp_path: Path) -> None:
    judge = Scripted(lambda _: reply(GOOD, "length"))
    assert errors(judged(judge.judge(), 12, tmp_path)[0]) == {"scored": 12}


def test_replies_that_the_server_lost_are_no_reason() -> None:
    first = FirstReplies()
    for number in range(30):
        first.add(reply("1", "error"), "truncated", number)
    assert (first.n, first.are_cut) == (0, False)
