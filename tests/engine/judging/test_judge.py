"""What `judge` pays for, and what it does not: keys, cache, refresh, adoption, offline replay."""

from __future__ import annotations

import asyncio
import inspect
import json
import pickle
import time
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from in_threads import in_threads
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import KeyParts
from evalkit.core.settings import JudgeOptions, Options
from evalkit.engine.cache import ReplyStore
from evalkit.engine.judging.judge import judge_worklist
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import CacheMiss, ConfigError, EvalkitWarning, InputError, RubricError
from evalkit.tables.schemas import columns_of

FAKE = "fake:strict"
RECORDED = "openai:gpt-4o-mini"


def two_criteria(**changes: object) -> ek.Rubric:
    criteria = [
        {"name": "clear", "scale": {0: "unclear", 1: "clear"}, "pass_at": 1},
        {"name": "kind", "scale": {0: "rude", 1: "neutral", 2: "kind"}, "pass_at": 2},
    ]
    return ek.Rubric(**({"id": "pair", "inputs": ["question", "answer"], "criteria": criteria} | changes))


def rows(n: int = 4) -> list[dict[str, str]]:
    return [{"question": f"What is {i} + {i}?", "answer": f"It is {2 * i}."} for i in range(n)]


def live(table: pd.DataFrame) -> int:
    return int((table["source"].astype(object) == "live").sum())


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))


class TestTable:
    def test_one_row_per_item_criterion_judge_and_sample_in_the_order_of_the_input(self):
        items = pd.DataFrame(rows(3)).assign(item_id=["c", "a", "b"])
        table = ek.judge(items, two_criteria(), [FAKE, "fake:lenient"], samples=2)
        assert list(table.columns) == columns_of("judgments")
        expected = [
            (item, criterion, judge, sample)
            for item in "cab"
            for criterion in ("clear", "kind")
            for judge in (FAKE, "fake:lenient")
            for sample in (0, 1)
        ]
        assert list(table[["item_id", "criterion", "judge", "sample"]].itertuples(index=False, name=None)) == expected

    def test_the_same_again_comes_from_the_cache_and_is_the_same_table(self):
        first = ek.judge(rows(), two_criteria(), FAKE)
        again = ek.judge(rows(), two_criteria(), FAKE)
        assert live(first) == len(first) == 4 * 2 * 3
        assert live(again) == 0
        pd.testing.assert_frame_equal(first.drop(columns="source"), again.drop(columns="source"))

    def test_no_items_give_an_empty_table_with_all_columns(self):
        for items in (pd.DataFrame({"question": [], "answer": []}), []):
            table = ek.judge(items, two_criteria(), FAKE)
            assert (len(table), list(table.columns)) == (0, columns_of("judgments"))

    def test_items_of_equal_content_share_their_replies(self):
        items = [rows(1)[0] | {"item_id": name} for name in "abc"]
        table = ek.judge(items, two_criteria(), FAKE, samples=2)
        assert table["key"].nunique() == 2 * 2
        assert ek.plan(items, two_criteria(), FAKE, samples=3).n_to_call == 2  # one more sample of two criteria
        assert ek.plan(items, two_criteria(), FAKE).n_unique == 1

    @pytest.mark.parametrize("kind", ["frame", "records", "dict", "row"])
    def test_every_form_of_items_has_the_same_keys(self, kind):
        frame = pd.DataFrame(rows(1))
        given = {"frame": frame, "records": rows(1), "dict": rows(1)[0], "row": frame.iloc[0]}[kind]
        assert (
            ek.judge(given, two_criteria(), FAKE)["key"].tolist()
            == ek.judge(rows(1), two_criteria(), FAKE)["key"].tolist()
        )


class TestWhatIsPaid:
    def test_more_samples_pay_the_difference(self):
        ek.judge(rows(), two_criteria(), FAKE, samples=3)
        more = ek.judge(rows(), two_criteria(), FAKE, samples=5)
        assert live(more) == 4 * 2 * 2
        assert set(more.loc[more["source"] == "live", "sample"]) == {3, 4}

    def test_an_edit_to_one_criterion_asks_for_that_one_alone(self):
        rubric = two_criteria()
        ek.judge(rows(), rubric, FAKE)
        table = ek.judge(rows(), rubric.edit("kind", scale={2: "kind and warm"}), FAKE)
        assert set(table.loc[table["source"] == "live", "criterion"]) == {"kind"}
        assert live(table) == 4 * 3

    @pytest.mark.parametrize("change", [{"pass_at": 1}, {"weight": 3.0}, {"critical": True}])
    def test_rules_that_no_judge_reads_pay_nothing(self, change):
        rubric = two_criteria()
        ek.judge(rows(), rubric, FAKE)
        table = ek.judge(rows(), rubric.edit("kind", **change), FAKE)
        assert live(table) == 0

    @pytest.mark.parametrize(
        "change",
        [
            {"temperature": 0.5},
            {"max_tokens": 100},
            {"model": "lenient"},
            {"service": "elsewhere"},
            {"template": "tagged@v1"},
            {"params": {"seed": 1}},
        ],
    )
    def test_everything_that_can_change_a_reply_misses(self, change):
        judge = Judge.of(FAKE)
        ek.judge(rows(), two_criteria(), judge)
        assert live(ek.judge(rows(), two_criteria(), judge.replace(**change))) == 4 * 2 * 3

    @pytest.mark.parametrize("change", [{"name": "other"}, {"weight": 2.0}, {"timeout_s": 5}, {"price": (1, 2)}])
    def test_what_cannot_change_a_reply_hits(self, change):
        judge = Judge.of(FAKE)
        ek.judge(rows(), two_criteria(), judge)
        assert live(ek.judge(rows(), two_criteria(), judge.replace(**change))) == 0

    def test_a_new_version_misses_unless_it_adopts_unchanged_criteria(self):
        rubric = two_criteria()
        origin = ek.judge(rows(), rubric, FAKE)
        edited = rubric.edit(version="v2").edit("kind", scale={2: "warm"})
        before = ek.judge(rows(), edited, FAKE, offline=True)
        assert before["error"].eq("cache_miss").all()
        planned = ek.plan(rows(), edited, FAKE, adopt=True)  # writes nothing
        assert ek.plan(rows(), edited, FAKE).n_to_call == len(before) == 2 * planned.n_to_call
        adopted = ek.judge(rows(), edited, FAKE, adopt=True)
        assert set(adopted.loc[adopted["source"] == "live", "criterion"]) == {"kind"}
        # what was adopted counts for every later call, under the keys of the new version
        plain = ek.judge(rows(), edited, FAKE)
        assert live(plain) == 0
        assert plain["key"].tolist() == adopted["key"].tolist()
        assert not {*plain["key"]} & {*origin["key"]}
        clear, of_origin = plain["criterion"] == "clear", origin["criterion"] == "clear"
        same = ["item_id", "sample", "score", "explanation", "cost_usd"]
        assert plain.loc[clear, same].values.tolist() == origin.loc[of_origin, same].values.tolist()
        keys = [[bytes.fromhex(key) for key in plain.loc[rows_of, "key"]] for rows_of in (clear, ~clear)]
        stored = [ReplyStore.open().get_many(some, promoted=False) for some in keys]
        assert [len(replies) for replies in stored] == [0, len(keys[1])]
        assert ReplyStore.open().stats()["n_promoted"] == len(keys[0])

    def test_promoted_replies_hit_under_the_new_version(self):
        rubric = two_criteria()
        old = ek.judge(rows(), rubric, FAKE)
        new = rubric.edit(version="v2")
        hashes = set(rubric.prompt_hashes.values())
        assert ReplyStore.open().promote("pair", "v1", "v2", hashes) == len(old)
        table = ek.judge(rows(), new, FAKE)
        assert live(table) == 0
        assert set(table["rubric_version"]) == {"v2"}
        assert set(table["key"]).isdisjoint(old["key"])


class TestRefresh:
    def test_refresh_asks_all_again_and_keeps_the_old_replies(self):
        ek.judge(rows(), two_criteria(), FAKE)
        before = ReplyStore.open().stats()
        table = ek.judge(rows(), two_criteria(), FAKE, refresh=True)
        assert live(table) == len(table)
        assert ReplyStore.open().stats()["n_replies"] == before["n_replies"] + len(table)

    def test_a_time_stamp_resumes_a_refresh(self):
        ek.judge(rows(4), two_criteria(), FAKE)
        time.sleep(0.01)
        started = time.time()
        ek.judge(rows(2), two_criteria(), FAKE, refresh=True)  # as if it had been stopped half-way
        table = ek.judge(rows(4), two_criteria(), FAKE, refresh=started)
        assert live(table) == 2 * 2 * 3
        assert set(table.loc[table["source"] == "live", "item_id"]) == {"2", "3"}

    @pytest.mark.parametrize("hours", [1, 10_000])
    def test_replies_of_a_clock_that_was_ahead_are_asked_again(self, hours, monkeypatch):
        clock = time.time
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: clock() + 3600 * hours)
            ahead = ek.judge(rows(4), two_criteria(), FAKE)
        started = time.time()
        table = ek.judge(rows(2), two_criteria(), FAKE, refresh=True)
        assert live(table) == len(table)
        table = ek.judge(rows(4), two_criteria(), FAKE, refresh=started)
        assert live(table) == len(table) / 2 == len(ahead) / 2
        assert live(ek.judge(rows(4), two_criteria(), FAKE, refresh=started)) == 0

    @pytest.mark.parametrize("form", ["float", "datetime", "iso", "pandas"])
    def test_a_time_stamp_may_be_given_in_any_form(self, form):
        ek.judge(rows(1), two_criteria(), FAKE, samples=1)
        later = datetime.now(UTC) + timedelta(seconds=30)
        forms = {"float": later.timestamp(), "datetime": later, "iso": later.isoformat(), "pandas": pd.Timestamp(later)}
        assert Options(refresh=forms[form]).refresh == pytest.approx(later.timestamp())
        assert Options(refresh="2026-01-31").refresh == time.mktime((2026, 1, 31, 0, 0, 0, 0, 0, -1))
        with pytest.raises(ConfigError, match="a time stamp: Unix seconds, a datetime, or a string"):
            Options(refresh="yesterday")

    def test_unscored_asks_again_for_what_had_no_score(self):
        criterion = {"name": "c", "scale": {0: "bad", 1: "good"}}
        rubric = ek.Rubric(id="one", inputs=["answer"], criteria=[criterion], template="number@v1")
        items: ClassVar = [{"answer": "x"}, {"answer": "y"}]
        judge = Judge("fake", "strict")
        ek.record(items, rubric, judge, [["1"], ["no idea"]])
        table = ek.judge(items, rubric, judge, samples=1, recorded="use", refresh="unscored")
        assert table["source"].astype(object).tolist() == ["recorded", "live"]
        assert table["error"].isna().all()


class TestRecorded:
    items: ClassVar = [{"answer": "x"}, {"answer": "y"}]
    rubric = rubric_of("one", {0: "", 1: "", 2: ""}, template="number@v1")

    def test_recorded_replies_replay_offline(self):
        assert ek.record(self.items, self.rubric, RECORDED, [["0", "1", None], ["2", "2", "hm"]]) == 5
        with pytest.warns(ek.errors.EvalkitWarning, match="1 of 6 replies are missing"):
            table = ek.judge(self.items, self.rubric, RECORDED, samples=3, offline=True, replies=True)
        assert table["score"].fillna(-1).tolist() == [0, 1, -1, 2, 2, -1]
        assert table["error"].astype(object).fillna("").tolist() == ["", "", "cache_miss", "", "", "unreadable"]
        assert table["reply"].fillna("").tolist() == ["0", "1", "", "2", "2", "hm"]
        assert ek.engine.replies(table).fillna("").tolist() == ["0", "1", "", "2", "2", "hm"]

    def test_somebody_elses_reply_is_a_miss_for_a_live_judge(self):
        judge = Judge("fake", "strict")
        ek.record(self.items, self.rubric, judge, [["0"], ["2"]])
        plan = ek.plan(self.items, self.rubric, judge, samples=1)
        assert plan.table[["n_cached", "n_recorded", "n_to_call"]].values.tolist() == [[0, 2, 2]]
        used = ek.judge(self.items, self.rubric, judge, samples=1, recorded="use")
        assert used["source"].astype(object).tolist() == ["recorded", "recorded"]

    def test_other_text_under_a_key_is_an_error_unless_overwritten(self):
        ek.record(self.items, self.rubric, RECORDED, [["0"], ["2"]])
        assert ek.record(self.items, self.rubric, RECORDED, [["0"], ["2"]]) == 0
        with pytest.raises(InputError, match="overwrite=True"):
            ek.record(self.items, self.rubric, RECORDED, [["1"], ["2"]])
        assert ek.record(self.items, self.rubric, RECORDED, [["1"], ["2"]], overwrite=True) == 1
        assert ek.judge(self.items, self.rubric, RECORDED, samples=1, offline=True)["score"].tolist() == [1, 2]

    def test_replies_must_be_one_list_per_item(self):
        with pytest.raises(InputError, match=r"one entry per item \(2 items\), .* got list of 1"):
            ek.record(self.items, self.rubric, RECORDED, [["0"]])

    def test_a_reply_may_carry_what_it_cost(self):
        ek.record(
            self.items[:1], self.rubric, RECORDED, [[Reply("1", prompt_tokens=10, cost_usd=0.25, model="m-2024")]]
        )
        row = ek.judge(self.items[:1], self.rubric, RECORDED, samples=1, offline=True).iloc[0]
        assert (row["prompt_tokens"], row["cost_usd"], row["model"]) == (10, 0.25, "m-2024")


class TestOffline:
    def test_a_miss_names_the_field_that_differs(self):
        judge = Judge("fake", "strict")
        ek.judge(rows(), two_criteria(), judge)
        with pytest.raises(CacheMiss, match=r"temperature: 1\.0 cached, 0\.5 needed"):
            ek.judge(rows(), two_criteria(), judge.replace(temperature=0.5), offline=True, on_miss="raise")
        with pytest.raises(CacheMiss, match=r"model: 'strict' cached, 'lenient' needed"):
            ek.judge(rows(), two_criteria(), "fake:lenient", offline=True, on_miss="raise")

    def test_a_miss_is_a_row_with_its_reason(self):
        table = ek.judge(rows(), two_criteria(), FAKE, offline=True)
        assert set(table["error"]) == {"cache_miss"}
        assert table["source"].isna().all()
        told = ek.explain(table)
        assert told[["error", "n", "share"]].values.tolist() == [["cache_miss", 24, 1.0]]

    def test_no_connection_is_opened(self, monkeypatch):
        import socket

        def refuse(*_args, **_kwargs):
            raise AssertionError("a socket was opened")

        ek.record(rows(1), two_criteria(), RECORDED, [['{"explanation": "x", "score": 1}']], criterion="clear")
        monkeypatch.setattr(socket, "socket", refuse)
        table = ek.judge(rows(1), two_criteria(), RECORDED, samples=1, offline=True)
        assert table.set_index("criterion")["error"].isna().to_dict() == {"clear": True, "kind": False}


class TestPairwise:
    items: ClassVar = [{"question": "2 + 2?", "answer_a": "4", "answer_b": "I do not know."}]
    other_way: ClassVar = [{"question": "2 + 2?", "answer_a": "I do not know.", "answer_b": "4"}]

    def test_both_orders_are_asked_and_mapped_back(self):
        replies = {"AB": ['{"explanation": "x", "label": "A"}'], "BA": ['{"explanation": "x", "label": "A"}']}
        for order, given in replies.items():
            ek.record(self.items, "preference", RECORDED, [given], order=order)
        table = ek.judge(self.items, "preference", RECORDED, samples=1, offline=True)
        assert table["order"].astype(object).tolist() == ["AB", "BA"]
        # A in the order BA is the answer that the item calls B
        assert table["label"].astype(object).tolist() == ["A", "B"]
        assert table["score_norm"].tolist() == [1.0, 0.0]
        votes = ek.vote(table)
        assert votes["order_flip"].tolist() == [True]

    def test_one_order_of_a_pair_is_the_other_order_of_the_swapped_pair(self):
        table = ek.judge(self.items, "preference", FAKE, samples=2)
        swapped = ek.judge(self.other_way, "preference", FAKE, samples=2)
        assert live(swapped) == 0
        assert set(table["key"]) == set(swapped["key"])
        assert table["key"].tolist()[:2] == swapped["key"].tolist()[2:]


class TestChecks:
    def test_missing_column_names_what_is_there(self):
        with pytest.raises(InputError, match=r"needs 1 column that the items do not have: 'answer'.*'question'"):
            ek.judge([{"question": "x"}], two_criteria(), FAKE)

    def test_missing_value_names_the_items(self):
        items = [*rows(2), {"question": "x", "answer": None}]
        with pytest.raises(InputError, match=r"1 of 3 items have no 'answer'.*item '2'"):
            ek.judge(items, two_criteria(), FAKE)

    def test_an_empty_answer_is_judged_with_one_warning(self):
        with pytest.warns(EvalkitWarning, match=r"1 of 3 items have an empty 'answer' \(item '2'\)") as caught:
            table = ek.judge([*rows(2), {"question": "x", "answer": " "}], two_criteria(), FAKE)
        assert len(caught) == 1
        assert len(table) == 3 * 2 * 3

    @pytest.mark.parametrize("gap", [None, float("nan"), pd.NA, "", "  "])
    def test_a_gap_in_a_list_is_judged_with_one_warning(self, gap):
        rubric = ek.Rubric(id="r", inputs=["answer", "context"], criteria=[{"name": "c", "scale": {0: "n", 1: "y"}}])
        lists = pd.DataFrame({"a": ["x", "x"], "b": ["y", gap], "c": ["z", "z"]}, dtype=object).to_numpy().tolist()
        items = pd.DataFrame({"answer": ["one", "two"], "context": lists})
        with pytest.warns(EvalkitWarning, match=r"1 of 2 items have a list with a missing or empty element") as caught:
            ek.judge(items, rubric, FAKE, samples=1)
        assert len(caught) == 1
        ek.judge(items.head(1), rubric, FAKE, samples=1)

    @pytest.mark.long
    def test_a_two_megabyte_answer_is_judged(self):
        with pytest.warns(EvalkitWarning, match="more than a million characters"):
            table = ek.judge([{"question": "x", "answer": "word " * 400_000}], two_criteria(), FAKE, samples=1)
        assert len(table) == 2

    def test_the_same_judge_twice_is_refused(self):
        with pytest.raises(ConfigError, match="are the same"):
            ek.judge(rows(), two_criteria(), [Judge("fake", "strict"), Judge("fake", "strict", name="b")])
        with pytest.raises(ConfigError, match="two judges are called"):
            ek.judge(rows(), two_criteria(), [Judge("fake", "strict", name="a"), Judge("fake", "lenient", name="a")])
        with pytest.raises(ConfigError, match="are the same"):  # the rubric's own template, named or not
            ek.judge(
                rows(), two_criteria(), [Judge("fake", "strict"), Judge("fake", "strict", name="b", template="default")]
            )

    def test_a_jury_is_any_row_of_judges(self):
        names = ["fake:strict", "fake:lenient"]
        expected = ek.judge(rows(), two_criteria(), names)
        for jury in (tuple(names), iter(names), np.array(names), pd.Series(names), pd.Index(names)):
            made = ek.judge(rows(), two_criteria(), jury)
            assert made[["judge", "score"]].equals(expected[["judge", "score"]])

    def test_no_judge_and_unknown_options_are_refused(self):
        with pytest.raises(ConfigError, match="no judge is named"):
            ek.judge(rows(), two_criteria())
        with pytest.raises(ConfigError, match="allowed: row, raise"):
            ek.judge(rows(), two_criteria(), FAKE, on_miss="skip")
        with pytest.raises(ConfigError, match="samples must be"):
            ek.judge(rows(), two_criteria(), FAKE, samples=0)
        with pytest.raises(ConfigError, match=r"offline \(make no calls\) contradict each other"):
            ek.judge(rows(), two_criteria(), FAKE, offline=True, refresh=True)

    @pytest.mark.parametrize("samples", [0, -1, True, 2.0, "3", 1001, 10**9, 10**6000, float("nan")], ids=lambda _: "")
    @pytest.mark.parametrize("call", [ek.judge, ek.plan])
    def test_a_number_of_samples_that_cannot_be_meant_is_refused_with_the_limit(self, call, samples):
        with pytest.raises(ConfigError, match="samples must be a whole number from 1 to 1000, not "):
            call(rows(), two_criteria(), FAKE, samples=samples)

    @pytest.mark.parametrize("refresh", [float("nan"), float("inf"), 10**400, "yesterday", [1]], ids=lambda _: "")
    def test_a_refresh_that_is_no_moment_is_refused(self, refresh):
        with pytest.raises(ConfigError, match="allowed: False, True, 'unscored' or a time stamp"):
            ek.judge(rows(), two_criteria(), FAKE, refresh=refresh)

    def test_samples_at_temperature_zero_are_warned_of(self):
        with pytest.warns(
            EvalkitWarning, match=r"the . samples of .* will be alike and show no spread, because the temperature is 0"
        ):
            ek.judge(rows(1), two_criteria(), Judge("fake", "strict", temperature=0), samples=2)

    @pytest.mark.parametrize("params", [{"top_k": 1}, {"top_p": 0}, {"do_sample": False}, {"seed": "7"}, {"seed": 7.5}])
    def test_so_are_samples_of_which_nothing_else_is_drawn(self, params):
        judge = Judge("openai", "m", base_url="http://127.0.0.1:9/v1", params=params)
        with pytest.warns(EvalkitWarning, match=f"will be alike and show no spread, because {next(iter(params))} is"):
            Spec.of(two_criteria(), [judge], samples=2)
        for drawn in (
            {"top_k": 2},
            {"top_p": 0.9},
            {"do_sample": True},
            {"seed": 7},
            {"seed": -1},
            {"sampling_seed": 1},
        ):
            Spec.of(two_criteria(), [judge.replace(params=drawn)], samples=2)

    def test_template_precedence_is_judge_then_call_then_rubric(self):
        rubric = two_criteria(template="tagged@v1")
        judges = [Judge("fake", "strict"), Judge("fake", "lenient", template="number@v1")]
        assert [builder.template.name for builder in Spec.of(rubric, judges).prompt_builders] == ["tagged", "number"]
        named = Spec.of(rubric, judges, template="default").prompt_builders
        assert [builder.template.name for builder in named] == ["default", "number"]

    def test_a_template_that_asks_for_a_number_does_not_fit_words(self):
        with pytest.raises(RubricError, match="asks for a number, but criterion 'preference'"):
            ek.judge(TestPairwise.items, "preference", FAKE, template="number@v1")

    def test_tables_of_another_step_say_which_step_is_missing(self):
        table = ek.judge(rows(1), two_criteria(), FAKE, samples=1)
        with pytest.raises(InputError, match=r"this is a judgments table, not votes: call vote"):
            ek.aggregate(table)
        with pytest.raises(InputError, match=r"not scores: call aggregate"):
            ek.summarize(ek.vote(table))


class TestEverywhere:
    def test_inside_a_running_loop(self):
        async def cell():
            return ek.judge(rows(), two_criteria(), FAKE), await ek.ajudge(rows(), two_criteria(), FAKE, samples=4)

        table, more = asyncio.run(cell())
        assert live(table) == 24
        assert live(more) == 8

    def test_ajudge_refuses_unknown_options(self):
        with pytest.raises(TypeError, match="unexpected keyword argument 'speed'"):
            asyncio.run(ek.ajudge(rows(), two_criteria(), FAKE, speed=1))

    def test_from_several_threads_each_reply_is_asked_once(self):
        tables = in_threads(*[lambda: ek.judge(rows(20), two_criteria(), FAKE)] * 4)
        assert ReplyStore.open().stats()["n_replies"] == 20 * 2 * 3
        assert len({tuple(table["score"]) for table in tables}) == 1

    def test_a_chunk_can_be_sent_to_another_process(self):
        spec = Spec.of(two_criteria(), [FAKE], 2)
        sent = pickle.loads(pickle.dumps((Worklist.of(spec, rows()), Options())))
        assert len(judge_worklist(*sent)) == 4 * 2 * 2


def test_a_profile_names_rubric_judges_and_samples(tmp_path):
    profile = tmp_path / "p.yaml"
    profile.write_text("profile: p\nrubric: relevancy@v1\njudges: [{provider: fake, model: strict}]\nsamples: 2\n")
    table = ek.judge(rows(), ek.load_profile(profile))
    assert len(table) == 4 * 2
    assert len(ek.judge(rows(), str(profile))) == 4 * 2
    with pytest.raises(RubricError, match="has no rubric"):
        ek.judge(rows(), ek.load_profile("strict"), FAKE)
    assert len(ek.judge(rows(), ek.load_profile("conservative").with_rubric("relevancy"), FAKE)) == 4 * 5


@pytest.mark.parametrize("per_call", [1, 2, "all"])
@pytest.mark.parametrize(("template", "own"), [(None, None), ("reference@v1", None), ("reference@v1", "default@v1")])
def test_the_prompt_of_a_profile_is_the_one_that_its_judge_gets(template, own, per_call, tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path))
    criteria = [{"name": name, "scale": {0: "no", 1: "yes"}} for name in ("one", "two", "three")]
    ek.Rubric(id="three", inputs=["answer", "reference"], criteria=criteria).save(tmp_path)
    own = own or ("default@v1" if per_call != 1 else None)  # the only one of these for several criteria
    sent = []

    def ask(prompt):
        sent.append(prompt.messages)
        return "1"

    judge = Judge.function(ask, name="j", version="1").replace(template=own)
    fields = {"template": template} if template else {}
    profile = ek.rubrics.Profile(
        profile="p", rubric="three@v1", judges=[judge], samples=1, criteria_per_call=per_call, **fields
    )
    item = {"item_id": "a", "answer": "x", "reference": "y"}
    ek.judge([item], profile)
    shown = [ek.build_prompt(profile, item, name).messages for name in ("one", "two", "three")]
    assert {str(messages) for messages in shown} == {str(messages) for messages in sent}
    if per_call == "all":
        assert ek.build_prompt(profile, item).messages == sent[0]


def test_none_replays_what_the_judges_of_a_profile_have_said():
    profile = ek.load_profile("strict").with_rubric("relevancy").with_judges(FAKE)
    assert set(ek.judge(rows(), profile, "none")["error"]) == {"cache_miss"}
    ek.judge(rows(2), profile)
    table = ek.judge(rows(), profile, "none")
    assert table["error"].isna().tolist() == [True] * 6 + [False] * 6
    pd.testing.assert_frame_equal(asyncio.run(ek.ajudge(rows(), profile, "none")), table)
    assert ek.evaluate(rows(), profile, "none").cost.n_missing == 6
    with pytest.raises(ConfigError, match="no profile with judges was passed"):
        ek.judge(rows(), "relevancy", "none")


def test_the_verdict_does_not_depend_on_how_often_it_is_read():
    """What stands in the store is read by the parser each time: the key holds no reading."""
    rubric = TestRecorded.rubric
    ek.record([{"answer": "x"}], rubric, RECORDED, [["Score: 2"]])
    store = ReplyStore.open()
    judged = ek.judge([{"answer": "x"}], rubric, RECORDED, samples=1, offline=True)
    value = json.loads(store.get_many([bytes.fromhex(judged["key"].iloc[0])]).popitem()[1])
    assert value["text"] == "Score: 2"
    assert "score" not in value
    assert judged["score"].tolist() == [2.0]
    assert isinstance(KeyParts.from_dict(KeyParts("p", "s", "m", "r", "v", "h", "t", 1.0, 1, {}).as_dict()), KeyParts)


def test_the_options_that_other_functions_pass_on_are_those_of_judge():
    parameters = inspect.signature(ek.judge).parameters
    own = {"items", "rubric", "judges", "samples", "template", "item_id", "inputs", "on_missing", "criteria_per_call"}
    assert set(JudgeOptions.__annotations__) == set(parameters) - own == {one.name for one in fields(Options)}
    types = {one.name: one.type for one in fields(Options)}
    assert {name: str(one.__forward_arg__) for name, one in JudgeOptions.__annotations__.items()} == types
