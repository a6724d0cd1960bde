"""One repair request: a judge says what its own unread reply meant, once, without the item."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from batch_server import batch_server
from commandline import environment
from repair_server import FIVE, UNREAD, Speaker, judged, judged_by, on, some_items
from servers import judge_server, wait_for
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.core.formatting import Bill
from evalkit.engine.batches import ticket_in_progress


def test_a_reply_that_is_not_read_is_asked_about_once_and_equal_ones_share_it(tmp_path: Path) -> None:
    speaker = Speaker()
    with judge_server(faults=speaker) as server:
        table = judged(server, tmp_path)
        again = judged(server, tmp_path)
        offline = judged(server, tmp_path, offline=True)
    assert (len(speaker.judged), len(speaker.asked)) == (3, 1), (
        "three equal replies are one repair, and a repeat is free"
    )
    (body,) = speaker.asked
    (message,) = body["messages"]
    assert message["role"] == "user"
    assert UNREAD in message["content"]
    assert "ITEM" not in message["content"]
    assert body["response_format"]["json_schema"]["schema"]["properties"]["verdict"]["enum"] == [*"12345", "none"]
    for rows, source in ((table, "live"), (again, "cache"), (offline, "cache")):
        assert rows["score"].tolist() == [4.0] * 3
        assert rows["repaired"].tolist() == [True] * 3
        assert rows["explanation"].tolist() == [UNREAD] * 3
        assert set(rows["repair_source"]) == {source}
        assert rows["repair_key"].nunique() == 1
    each = (100 * 1.0 + 11 * 4.0) / 1e6
    bill = Bill.of(table, "live")
    assert (bill.usd, bill.n_replies) == (pytest.approx(4 * each), 4)


@pytest.mark.parametrize(
    ("says", "means"),
    [
        (UNREAD, '{"verdict": "none"}'),
        (UNREAD, '{"verdict": "3"}'),  # a level that the reply does not name
        (UNREAD, "It may be 2 or 4."),
        ('It asks me for "4", and I waver between 2 and 3 of them.', '{"verdict": "4"}'),  # only in a quotation
    ],
)
def test_a_repair_picks_and_does_not_invent(tmp_path: Path, says: str, means: str) -> None:
    speaker = Speaker(says, means)
    with judge_server(faults=speaker) as server:
        table = judged(server, tmp_path)
        again = judged(server, tmp_path)
    assert (len(speaker.judged), len(speaker.asked)) == (3, 1)
    for rows in (table, again):
        assert rows["score"].isna().all()
        assert set(rows["error"]) <= {"unreadable", "ambiguous"}
        assert rows["repaired"].tolist() == [False] * 3
    assert Bill.of(table).n_replies == 4, "what gave nothing was paid, too"


@pytest.mark.parametrize("says", ["4", "9", "Score: 7/10", ""])
def test_what_is_read_off_scale_or_empty_is_not_asked_about(tmp_path: Path, says: str) -> None:
    speaker = Speaker(says)
    table = judged_by(speaker, tmp_path)
    assert not speaker.asked
    assert "repaired" not in table


def test_thinking_is_left_out_and_a_pair_is_repaired_in_both_orders(tmp_path: Path) -> None:
    pair = rubric_of(
        "pair",
        {"A": "", "B": "", "tie": ""},
        "better",
        inputs="answer_a answer_b",
        level="nominal",
        template="pairwise@v1",
        mode="pairwise",
    )
    speaker = Speaker("<think>B at first.</think>To my mind the one called A has the edge here.", '{"verdict": "A"}')
    with judge_server(faults=speaker) as server:
        items = [{"answer_a": "ITEM-1", "answer_b": "ITEM-2"}]
        table = ek.judge(items, pair, on(server), samples=1, progress=False, cache=tmp_path)
    assert len(speaker.asked) == 1
    assert "B at first" not in speaker.asked[0]["messages"][0]["content"]
    assert table["label"].tolist() == ["A", "B"], "the first answer shown is the second one in the other order"


def test_a_plan_is_at_least_what_is_paid(tmp_path: Path) -> None:
    with judge_server(faults=Speaker("Of #0 points all told I see 2 or 4 of them.")) as server:
        plan = ek.plan(some_items(), FIVE, on(server), samples=1, cache=tmp_path)
        table = judged(server, tmp_path)
        after = ek.plan(some_items(), FIVE, on(server), samples=1, cache=tmp_path)
    more = float(plan.table["usd_repairs_at_most"].iloc[0])
    assert table["repaired"].all()
    assert 0 < table["repair_usd"].sum() <= more
    assert Bill.of(table).usd <= plan.usd_at_most + more
    assert plan.table["usd_repairs"].isna().all()
    assert f", and for repairs at most {more:.4f} (how many is not known yet)" in str(plan)
    assert after.table[["usd_repairs", "usd_repairs_at_most"]].to_numpy().tolist() == [[0.0, 0.0]]


def test_a_plan_expects_the_repairs_that_this_judge_needed_so_far(tmp_path: Path) -> None:
    """Of 30 replies every third was asked about; the next 12 are of the same kind, so 4 repairs are expected."""
    unread = {"content": "Of its points all told I see 2 or 4 of ITEM #."}

    def every_third(is_repair: bool) -> dict[str, Any] | None:
        if is_repair or len(speaker.judged) % 3:
            return None
        return {"content": unread["content"].replace("#", str(len(speaker.judged)))}

    speaker = Speaker("4", fault=every_third)
    with judge_server(faults=speaker) as server:
        first = judged(server, tmp_path, n=30, concurrency=1)
        assert first["repaired"].sum() == 10
        more = [{"item_id": f"new {number}", "answer": f"NEW-{number}"} for number in range(12)]
        plan = ek.plan(more, FIVE, on(server), samples=1, cache=tmp_path)
        table = ek.judge(more, FIVE, on(server), samples=1, cache=tmp_path, progress=False, concurrency=1)
        other = ek.plan(more, FIVE, on(server, temperature=0.5), samples=1, cache=tmp_path)
    expected, most = plan.table[["usd_repairs", "usd_repairs_at_most"]].to_numpy()[0]
    # a repair has no 20 earlier ones: a token is four bytes of its prompt, and its answer has 120
    (request,) = {len(body["messages"][0]["content"]) for body in speaker.asked[:3]}
    assert expected == pytest.approx(4 * (request / 4 * 1.0 + 120 * 4.0) / 1e6, rel=0.15)
    assert table["repaired"].sum() == 4
    assert 0 < table["repair_usd"].sum() <= expected <= most
    assert f", and for repairs about US$ {expected:.4f}, at most {most:.4f}" in str(plan)
    assert other.table["usd_repairs"].isna().all(), "nothing is known of this judge"


@pytest.mark.parametrize("params", [{}, {"max_completion_tokens": 3000}, {"best_of": 3}, {"tools": [{"x": "y" * 500}]}])
def test_a_plan_bounds_a_repair_as_a_budget_does(tmp_path: Path, params: dict[str, Any]) -> None:
    said = " ".join(["Of its parts I see 2 or 4, and more words"] * 9)
    with judge_server(faults=Speaker(said)) as server:
        judge = on(server, params=params)
        plan = ek.plan(some_items(1), FIVE, judge, samples=1, cache=tmp_path)
        most = plan.usd_at_most + float(plan.table["usd_repairs_at_most"].sum())
        table = judged(server, tmp_path, n=1, judge=judge, budget_usd=most)
    assert table["repaired"].all(), "a budget of this size is enough"


def test_a_plan_expects_no_repair_of_what_is_not_repaired(tmp_path: Path) -> None:
    two = ek.Rubric(id="two", inputs=["answer"], criteria=[{"name": n, "scale": {0: "", 1: ""}} for n in ("x", "y")])
    with judge_server() as server:
        together = ek.plan(some_items(), two, on(server), samples=1, criteria_per_call="all", cache=tmp_path)
        alone = ek.plan(some_items(), two, on(server), samples=1, cache=tmp_path)
    assert together.table[["usd_repairs", "usd_repairs_at_most"]].to_numpy().tolist() == [[0.0, 0.0]]
    assert alone.table["usd_repairs_at_most"].iloc[0] > 0
    assert "for repairs" not in str(together)


def test_an_evaluation_shows_the_repaired_share_and_the_agreement_without(tmp_path: Path) -> None:
    """Of 12 items 4 are repaired to a 4; people say 4 of all but the last, which was repaired."""

    def every_third(is_repair: bool) -> dict[str, Any] | None:
        return {"content": UNREAD} if not is_repair and len(speaker.judged) % 3 == 0 else None

    passes = FIVE.edit("quality", pass_at=4)
    speaker = Speaker("4", fault=every_third)
    labels = [{"item_id": str(n), "criterion": "quality", "annotator": "ann", "label": 4 if n < 11 else 1}
              for n in range(12)]  # fmt: skip
    with judge_server(faults=speaker) as server:
        ask: dict[str, Any] = {"samples": 1, "progress": False, "cache": tmp_path, "concurrency": 1}
        jury = [on(server), on(server, temperature=0.5, name="second")]
        one = ek.evaluate(some_items(12), passes, jury[0], labels=pd.DataFrame(labels), **ask)
        both = ek.evaluate(some_items(12), passes, jury, labels=pd.DataFrame(labels), **ask)
    name = jury[0].name
    shared = "4 of 12 labelled items by a repaired reply (on the other 8 items: accuracy 1.00"
    for shown in (" ".join(str(one).split()), one._repr_html_()):
        assert "4 of 12 judgments (33%) by a repaired reply" in shown
        assert "0 unreadable, 0 ambiguous" in shown
        assert shared in shown
    assert one.alignment["accuracy"].tolist() == [pytest.approx(11 / 12)]
    assert both.alignment.set_index("judge")["n_repaired"].to_dict() == {"jury": 4, name: 4, "second": 4}
    ek.report(one, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert shared in page
    assert "4 of 12 judgments (33%) by a repaired reply" in page


def test_off_asks_and_reads_nothing(tmp_path: Path) -> None:
    speaker = Speaker()
    with judge_server(faults=speaker) as server:
        table = judged(server, tmp_path, repair=False)
        assert not speaker.asked
        later = judged(server, tmp_path)
        assert not speaker.asked, "a reply of an earlier call needs refresh='unscored'"
        asked = judged(server, tmp_path, refresh="unscored")
        assert (len(speaker.judged), len(speaker.asked)) == (3, 1)
        off = judged(server, tmp_path, repair=False)
    assert [rows["score"].notna().sum() for rows in (table, later, asked, off)] == [0, 0, 3, 0]


@pytest.mark.parametrize("value", ["no", "false", 0, 1, []])
def test_what_is_neither_true_nor_false_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ek.errors.ConfigError, match="repair must be true or false, got"):
        ek.judge(some_items(1), FIVE, "fake:strict", repair=value, cache=tmp_path)


def test_after_none_refresh_judges_again(tmp_path: Path) -> None:
    speaker = Speaker(means='{"verdict": "none"}')
    with judge_server(faults=speaker) as server:
        judged(server, tmp_path)
        judged(server, tmp_path, refresh="unscored")
    assert (len(speaker.judged), len(speaker.asked)) == (6, 1)


def test_a_budget_that_ends_between_reply_and_repair_changes_no_row_that_has_one(tmp_path: Path) -> None:
    speaker = Speaker("Of #0 points all told I see 2 or 4 of them.")
    with judge_server(faults=speaker) as server:
        first = judged(server, tmp_path, max_calls=5)
        assert (len(speaker.judged), len(speaker.asked)) == (3, 2)
        second = judged(server, tmp_path, max_calls=0)
        third = judged(server, tmp_path, refresh="unscored", max_calls=5)
        assert (len(speaker.judged), len(speaker.asked)) == (3, 3)
    assert first["repaired"].sum() == second["repaired"].sum() == 2
    assert first["score"].equals(second["score"])
    assert third["score"].tolist() == [4.0] * 3


def test_a_repair_that_fails_leaves_its_row_as_it_was(tmp_path: Path) -> None:
    speaker = Speaker(fault=lambda is_repair: {"status": 500} if is_repair else None)
    with judge_server(faults=speaker) as server:
        table = judged(server, tmp_path)
        speaker.fault = None
        later = judged(server, tmp_path, refresh="unscored")
    assert set(table["error"]) == {"unreadable"} | set(table["error"]) & {"ambiguous"}
    assert "repaired" not in table
    assert later["score"].tolist() == [4.0] * 3


def test_a_judge_that_is_never_read_is_stopped_and_not_asked(tmp_path: Path) -> None:
    speaker = Speaker("Some of its parts reach the 3 to me in their own way.")
    with judge_server(faults=speaker) as server, pytest.warns(ek.errors.EvalkitWarning, match="could not be read"):
        table = judged(server, tmp_path, n=60, concurrency=1)
    assert (len(speaker.judged), len(speaker.asked)) == (20, 0)
    assert (table["error"] == "stopped").sum() == 40


def test_a_server_without_schemas_and_a_running_loop(tmp_path: Path) -> None:
    speaker = Speaker(fault=None)
    with judge_server(faults=speaker, refuses=("response_format",)) as server:
        ask = ek.ajudge(some_items(2), FIVE, on(server), samples=1, progress=False, cache=tmp_path)
        with pytest.warns(ek.errors.EvalkitWarning, match="response_format"):
            table = asyncio.run(ask)
    assert table["score"].tolist() == [4.0, 4.0]
    assert "response_format" not in speaker.asked[-1]


def test_criteria_of_one_reply_functions_and_recorded_replies_are_not_asked(tmp_path: Path) -> None:
    asked = []

    @ek.Judge.function(name="odd", version="1")
    def odd(prompt: Any) -> str:
        asked.append(prompt)
        return UNREAD

    two = ek.Rubric(id="two", inputs=["answer"], criteria=[{"name": n, "scale": {0: "", 1: ""}} for n in ("x", "y")])
    assert ek.judge(some_items(2), FIVE, odd, samples=1, cache=tmp_path)["score"].isna().all()
    assert len(asked) == 2
    speaker = Speaker()
    judged_by(speaker, tmp_path, rubric=two, criteria_per_call="all")
    assert not speaker.asked


def test_a_process_killed_between_reply_and_repair_loses_only_the_repair(tmp_path: Path) -> None:
    never = threading.Event()
    speaker = Speaker(fault=lambda is_repair: {"until": never} if is_repair else None)
    with judge_server(faults=speaker) as server:
        code = f"""
import evalkit as ek
rubric = ek.Rubric(id="five", inputs=["answer"], template="number@v1",
    criteria=[{{"name": "quality", "scale": {{code: f"degree {{code}}" for code in range(1, 6)}}}}])
judge = ek.Judge("openai", "m", base_url={server.url!r}, price=(1.0, 4.0))
ek.judge({some_items()!r}, rubric, judge, samples=1, progress=False, cache={str(tmp_path)!r})
"""
        process = subprocess.Popen([sys.executable, "-c", code], env=environment())
        wait_for(server, 4)
        process.kill()
        process.wait(60)
        never.set()
        speaker.fault = None
        after = judged(server, tmp_path)
        assert (len(speaker.judged), len(speaker.asked)) == (3, 1), "the replies were stored, and a repeat asks nothing"
        asked = judged(server, tmp_path, refresh="unscored")
    assert (len(speaker.judged), len(speaker.asked)) == (3, 2)
    assert after["score"].isna().all()
    assert asked["score"].tolist() == [4.0] * 3


def test_a_stub_that_answers_at_random_gives_only_levels_that_the_reply_names(tmp_path: Path) -> None:
    answers = iter([*"12345", "none"] * 2)
    speaker = Speaker("Of #0 points all told I see 2 or 4 of them.")
    speaker.fault = lambda is_repair: {"content": f'{{"verdict": "{next(answers)}"}}'} if is_repair else None
    table = judged_by(speaker, tmp_path, n=10, concurrency=1)
    assert len(speaker.asked) == 10
    assert sorted(table["score"].dropna()) == [2.0, 2.0, 4.0, 4.0]  # of 2 × (1, 2, 3, 4, 5, none), without the last two


def test_a_reply_of_a_batch_is_asked_about_only_by_a_live_refresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticket_in_progress, "_FIRST_POLL_S", 0.01)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests-only")
    speaker = Speaker()
    with batch_server() as batches, judge_server(faults=speaker) as server:
        batches.reply = UNREAD
        named: dict[str, Any] = {"service": "api.openai.com", "api_key_env": "OPENAI_API_KEY"}
        judge = ek.Judge("openai", "m", base_url=batches.url, **named)
        ask: dict[str, Any] = {"samples": 1, "cache": tmp_path}
        items = [{"item_id": "a", "answer": "x"}, {"item_id": "b", "answer": "y"}]
        ek.collect(ek.submit(items, FIVE, judge, **ask).id, cache=tmp_path, wait=True)
        live = ek.Judge("openai", "m", base_url=server.url, **named)
        plain = ek.judge(items, FIVE, live, progress=False, **ask)
        n_before = len(server.seen)
        asked = ek.judge(items, FIVE, live, progress=False, refresh="unscored", **ask)
        again = ek.judge(items, FIVE, judge, progress=False, offline=True, **ask)
        rest = ek.submit(items, FIVE, judge, **ask)
    assert n_before == 0
    assert (len(speaker.judged), len(speaker.asked)) == (0, 1), "what the batch received is not judged again"
    assert rest.table.empty, "nothing is left to submit"
    assert plain["error"].notna().all()
    for rows in (asked, again):
        assert rows["score"].tolist() == [4.0, 4.0]


THINKS = "<think>2 at first; no, perhaps 5.</think>"


@pytest.mark.parametrize(
    ("says", "means", "score"),
    [
        (THINKS + UNREAD, THINKS + '{"verdict": "4"}', 4.0),
        (THINKS + UNREAD, THINKS + '{"verdict": "5"}', None),  # a level of its thinking alone
        (THINKS + UNREAD, "<think>2 or 4 … and so on without an end", None),
        (UNREAD, THINKS + "2", 2.0),
    ],
)
def test_a_thinking_judge_is_asked_without_its_thinking_and_read_without_it(
    tmp_path: Path, says: str, means: str, score: float | None
) -> None:
    speaker = Speaker(says, means)
    table = judged_by(speaker, tmp_path, n=1)
    (body,) = speaker.asked
    assert "perhaps 5" not in body["messages"][0]["content"]
    assert table["score"].tolist() == [score] or (score is None and table["score"].isna().all())


@pytest.mark.parametrize("says", [THINKS, THINKS + "I keep my verdict to myself.", "<think>It may be 2 or 4"])
def test_a_judge_that_names_a_level_only_in_its_thinking_is_not_asked(tmp_path: Path, says: str) -> None:
    speaker = Speaker(says)
    table = judged_by(speaker, tmp_path, n=1)
    assert not speaker.asked
    assert table["score"].isna().all()


def test_thinking_in_a_field_of_its_own_is_left_out(tmp_path: Path) -> None:
    def answer(is_repair: bool) -> dict[str, Any]:
        text = '{"verdict": "2"}' if is_repair else UNREAD
        message = {"role": "assistant", "content": text, "reasoning_content": "I lean to 5, and then to 3."}
        usage = {"prompt_tokens": 100, "completion_tokens": 11}
        return {"body": {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}}

    speaker = Speaker(fault=answer)
    table = judged_by(speaker, tmp_path)
    (body,) = speaker.asked
    assert "lean to 5" not in body["messages"][0]["content"]
    assert table["score"].tolist() == [2.0] * 3


def test_in_a_running_loop_repairs_refreshes_and_budgets_are_those_of_judge(tmp_path: Path) -> None:
    speaker = Speaker("Of #0 points all told I see 2 or 4 of them.")
    with judge_server(faults=speaker) as server:
        ask: dict[str, Any] = {"samples": 1, "progress": False, "retries": 0}

        async def calls(cache: Path) -> list[pd.DataFrame]:
            options: list[dict[str, Any]] = [
                {"repair": False}, {}, {"refresh": "unscored", "max_calls": 2}, {}, {"refresh": "unscored"},
            ]  # fmt: skip
            return [await ek.ajudge(some_items(), FIVE, on(server), cache=cache, **ask, **more) for more in options]

        tables = asyncio.run(calls(tmp_path))
        counts = [int(rows["score"].notna().sum()) for rows in tables]
        sync = judged(server, tmp_path)
    assert counts == [0, 0, 2, 2, 3]
    assert (len(speaker.judged), len(speaker.asked)) == (3, 3)
    assert sync["score"].tolist() == [4.0] * 3


def test_a_server_that_takes_json_but_no_schema(tmp_path: Path) -> None:
    refusal = {
        "error": {"message": "'json_schema' is not supported", "param": "response_format", "code": "unsupported"}
    }

    def refuse(body: dict[str, Any]) -> dict[str, Any]:
        refused = body.get("response_format", {}).get("type") == "json_schema"
        return {"status": 400, "body": refusal} if refused else speaker(body)

    speaker = Speaker()
    with judge_server(faults=refuse) as server, pytest.warns(ek.errors.EvalkitWarning, match="response_format"):
        table = judged(server, tmp_path)
    assert table["score"].tolist() == [4.0] * 3
    assert speaker.asked[-1]["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize(("n_unread", "stops"), [(10, False), (11, True)])
def test_a_judge_of_whose_first_20_replies_half_are_unread_is_asked(tmp_path: Path, n_unread: int, stops: bool) -> None:
    unread = "Some of its parts reach the 3 to me in their own way."
    speaker = Speaker("4", '{"verdict": "3"}')
    speaker.fault = lambda is_repair: {"content": unread} if not is_repair and len(speaker.judged) <= n_unread else None
    with judge_server(faults=speaker) as server:
        if stops:
            with pytest.warns(ek.errors.EvalkitWarning, match="could not be read"):
                table = judged(server, tmp_path, n=40, concurrency=1)
        else:
            table = judged(server, tmp_path, n=40, concurrency=1)
    assert len(speaker.asked) == int(not stops)
    assert int(table["score"].notna().sum()) == (20 - n_unread if stops else 40)
    assert "repaired" not in table if stops else table["repaired"].sum() == n_unread


TONE = rubric_of("tone", {"warm": "", "cool": "", "rude": ""}, "tone", level="nominal")


@pytest.mark.parametrize(
    ("says", "label"),
    [
        ('{"explanation": "It opens cool and then turns.", "assessment": "warm"}', "warm"),
        ('{"explanation": "", "tone": ["warm", "cool"]}', None),  # what is nested is quoted
        ('```json\n{"why": "friendly", "answer": "warm"}\n```', "warm"),
        ('{"note": "the user wrote \\"warm\\" twice", "tone": "unsure"}', None),  # quoted within a value
        ('{"warm": "the word of the guideline"}', None),  # a key is no value
        ('It said {"assessment": "warm"} of another text.', None),  # an object within prose
        ('"warm"', "read"),
    ],
)
def test_the_values_of_a_json_object_are_no_quotations(tmp_path: Path, says: str, label: str | None) -> None:
    speaker = Speaker(says, '{"verdict": "warm"}')
    table = judged_by(speaker, tmp_path, n=1, rubric=TONE)
    assert len(speaker.asked) == int(label == "warm")
    assert table["label"].tolist() == ["warm"] if label else table["label"].isna().all()


def test_refresh_asks_for_replies_and_repairs_again(tmp_path: Path) -> None:
    speaker = Speaker()
    with judge_server(faults=speaker) as server:
        judged(server, tmp_path)
        speaker.means = '{"verdict": "2"}'
        again = judged(server, tmp_path, refresh=True)
        later = judged(server, tmp_path)
    assert (len(speaker.judged), len(speaker.asked)) == (6, 2)
    assert again["score"].tolist() == later["score"].tolist() == [2.0] * 3


def test_criteria_of_equal_scales_share_a_repair_and_others_do_not(tmp_path: Path) -> None:
    scale = {code: f"degree {code}" for code in range(1, 6)}
    criteria = [{"name": "style", "scale": scale}, {"name": "sense", "scale": scale},
                {"name": "tact", "scale": {**scale, 5: "the best degree"}}]  # fmt: skip
    three = ek.Rubric(id="three", inputs=["answer"], template="number@v1", criteria=criteria)
    speaker = Speaker()
    with judge_server(faults=speaker) as server:
        table = judged(server, tmp_path, n=2, rubric=three)
        other = judged(server, tmp_path, n=2, rubric=three, judge=on(server, temperature=0.0))
    assert table["score"].tolist() == other["score"].tolist() == [4.0] * 6
    assert (len(speaker.judged), len(speaker.asked)) == (12, 4), "two for each judge: another judge asks for itself"
    assert table.groupby("criterion", observed=True)["repair_key"].first().nunique() == 2
