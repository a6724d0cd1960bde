"""Replies that somebody already has: whose they are, how many there are, and against published figures."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import ROOT
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import recorded_hash
from evalkit.gate.precedence import GateOptions

sys.path.insert(0, str(ROOT / "benchmarks"))

import topical_chat
from recorded import data_folder, loaded, rows

RUBRIC = rubric_of("short", {1: "", 2: "", 3: "", 4: "", 5: ""}, "good", pass_at=3, template="number@v1")
WHO = ek.Judge("fake", "strict", name="who")
TWINS = [{"item_id": "a", "answer": "same"}, {"item_id": "b", "answer": "same"}]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))


def said(table: pd.DataFrame) -> list[tuple[str, str | None]]:
    """(item, label or reason) of each row."""
    texts = table["label"].astype(object).where(table["label"].notna(), table["error"].astype(object))
    return list(zip(table["item_id"].tolist(), texts.tolist(), strict=True))


class TestTwins:
    def test_a_missing_reply_is_not_filled_from_a_twin(self):
        assert ek.record(TWINS, RUBRIC, WHO, [["3"], None]) == 1
        assert said(ek.judge(TWINS, RUBRIC, WHO, samples=1, offline=True)) == [("a", "3"), ("b", "cache_miss")]
        assert said(ek.judge(TWINS[1:], RUBRIC, WHO, samples=1, offline=True)) == [("b", "cache_miss")]

    def test_different_replies_are_kept_apart(self):
        assert ek.record(TWINS, RUBRIC, WHO, [["3"], ["5"]]) == 2
        table = ek.judge(TWINS[::-1], RUBRIC, WHO, samples=1, offline=True)
        assert said(table) == [("b", "5"), ("a", "3")]
        assert ek.engine.replies(table).tolist() == ["5", "3"]

    def test_overwrite_changes_the_named_item_alone(self):
        ek.record(TWINS, RUBRIC, WHO, [["3"], ["5"]])
        with pytest.raises(
            ek.errors.InputError,
            match=r"item 'b', sample 0: another reply .* is already stored \(stored: '5', new: '1'\)",
        ):
            ek.record(TWINS[1:], RUBRIC, WHO, [["1"]])
        assert ek.record(TWINS[1:], RUBRIC, WHO, [["1"]], overwrite=True) == 1
        assert said(ek.judge(TWINS, RUBRIC, WHO, samples=1, offline=True)) == [("a", "3"), ("b", "1")]

    def test_mirrored_pairs_and_equal_answers_do_not_collide(self):
        pairs = [
            {"item_id": "xy", "question": "?", "answer_a": "x", "answer_b": "y"},
            {"item_id": "yx", "question": "?", "answer_a": "y", "answer_b": "x"},
            {"item_id": "xx", "question": "?", "answer_a": "x", "answer_b": "x"},
        ]
        ek.record(pairs, "preference", WHO, ["A", "B", "A"], order="AB", template="label@v1")
        ek.record(pairs, "preference", WHO, ["A", "A", "tie"], order="BA", template="label@v1")
        table = ek.judge(pairs, "preference", WHO, samples=1, template="label@v1", offline=True)
        # in the order BA the place A holds answer_b: by hand
        assert table["label"].astype(str).tolist() == ["A", "B", "B", "B", "A", "tie"]

    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(
            st.tuples(st.sampled_from("xyz"), st.lists(st.sampled_from(["1", "2", "5", None]), max_size=4)),
            min_size=1,
            max_size=6,
        )
    )
    def test_every_item_gets_back_what_was_recorded_for_it(self, tmp_path_factory, drawn):
        cache = tmp_path_factory.mktemp("replies")
        items = [{"item_id": f"i{at}", "answer": answer} for at, (answer, _) in enumerate(drawn)]
        ek.record(items, RUBRIC, WHO, [texts for _, texts in drawn], cache=cache)
        table = ek.judge(items, RUBRIC, WHO, offline=True, cache=cache)
        found = table[table["error"].isna()]
        assert list(zip(found["item_id"], found["sample"], found["label"], strict=True)) == [
            (f"i{at}", sample, text)
            for at, (_, texts) in enumerate(drawn)
            for sample, text in enumerate(texts)
            if text is not None
        ]
        assert set(table["item_id"]) == {item["item_id"] for item in items}

    def test_the_key_of_a_recorded_reply_can_be_computed_by_hand(self):
        inputs = "ab" * 32
        text = '{"input_hash":"' + inputs + '","item_id":"é 1"}'
        assert recorded_hash(inputs, "é 1") == hashlib.sha256(text.encode()).hexdigest()


class TestShapes:
    ITEMS = pd.DataFrame({"item_id": ["a", "b"], "answer": ["one", "two"]}, index=["p", "q"])

    @pytest.mark.parametrize(
        "replies",
        [
            [["1", "2"], "3"],
            {"b": "3", "a": ("1", "2")},
            pd.DataFrame({"item_id": ["a", "b", "a"], "sample": [1, 0, 0], "reply": ["2", "3", "1"]}),
        ],
    )
    def test_lists_mappings_and_tables_are_one(self, replies):
        assert ek.record(self.ITEMS, RUBRIC, WHO, replies) == 3
        table = ek.judge(self.ITEMS, RUBRIC, WHO, offline=True)
        assert said(table) == [("a", "1"), ("a", "2"), ("b", "3")]

    @pytest.mark.parametrize(
        ("replies", "told"),
        [
            ([1, 2], r"item 'a': expected a string, a Reply, None, .* got int \(1\); .*import_judgments\(…, score=…\)"),
            ([["1", 2.5], None], r"item 'a': expected a string, .* got float \(2\.5\)"),
            ({"a": "1", "z": "2"}, "replies= has 1 item id that the items do not have: 'z'"),
            ({"a": "1", "z": {"x": 1}}, "replies= has 1 item id that the items do not have: 'z'"),
            ([{"x": 1}, None], "item 'a': expected a string, .* got dict"),
            ("1", r"replies= must be a list with one entry per item \(2 items\), a mapping .* or a table .*, got str"),
            (3, r"one entry per item \(2 items\), a mapping from item id to replies, or a table .*, got int"),
            (pd.Series(["1", "2"]), "a mapping from item id to replies, .* got Series"),  # by index, or by position?
            (pd.DataFrame({"id": ["a"], "reply": ["1"]}), "without the column 'item_id'; it has 'id', 'reply'"),
            (pd.DataFrame({"item_id": ["a", "a"], "sample": [0, 0], "reply": list("12")}), "item 'a', sample 0 twice"),
            (pd.DataFrame({"item_id": ["a", "a"], "judge": ["x", "y"], "reply": list("12")}), "several .* 'judge'"),
        ],
    )
    def test_a_message_names_item_and_remedy(self, replies, told):
        with pytest.raises(ek.errors.InputError, match=told):
            ek.record(self.ITEMS, RUBRIC, WHO, replies)


class TestLiveAndRecorded:
    def test_a_live_reply_counts_for_all_twins_and_a_recorded_one_for_its_item(self):
        ek.record(TWINS, RUBRIC, WHO, [["3"], None])
        plan = ek.plan(TWINS, RUBRIC, WHO, samples=1, recorded="use").table
        assert plan[["n_cached", "n_recorded", "n_to_call"]].values.tolist() == [[1, 0, 1]]
        plan = ek.plan(TWINS, RUBRIC, WHO, samples=1).table
        assert plan[["n_cached", "n_recorded", "n_to_call"]].values.tolist() == [[0, 1, 1]]
        used = ek.judge(TWINS, RUBRIC, WHO, samples=1, recorded="use")
        assert used["source"].astype(str).tolist() == ["recorded", "live"]
        # what was received last counts for "a" too: its reply was recorded before the live one came
        again = ek.judge(TWINS, RUBRIC, WHO, samples=1, offline=True)
        assert again["source"].astype(str).tolist() == ["cache", "cache"]
        assert again["key"].nunique() == 1

    def test_a_reply_recorded_over_a_live_one_is_the_items_alone(self):
        live = ek.judge(TWINS, RUBRIC, WHO, samples=1, replies=True)["reply"]
        with pytest.raises(ek.errors.InputError, match=r"item 'a', sample 0: another reply .* is already stored"):
            ek.record(TWINS[:1], RUBRIC, WHO, [["Rating: 1"]])
        assert ek.record(TWINS[:1], RUBRIC, WHO, [Reply("Rating: 1", created=5.0)], overwrite=True) == 1
        table = ek.judge(TWINS, RUBRIC, WHO, samples=1, offline=True, replies=True)
        assert table["reply"].tolist() == ["Rating: 1", live[1]]
        assert table["source"].astype(str).tolist() == ["recorded", "cache"]

    def test_export_import_and_adoption_keep_items_apart(self, tmp_path):
        ek.record(TWINS, RUBRIC, WHO, [["3"], ["5"]])
        store = ek.engine.ReplyStore.open()
        assert store.export(tmp_path / "replies.jsonl") == 2
        other = ek.engine.ReplyStore.open(tmp_path / "other")
        assert other.import_(tmp_path / "replies.jsonl").n_added == 2
        found = ek.judge(TWINS, RUBRIC, WHO, samples=1, offline=True, cache=tmp_path / "other")
        assert said(found) == [("a", "3"), ("b", "5")]
        newer = RUBRIC.edit(version="v2")
        assert said(ek.judge(TWINS, newer, WHO, samples=1, offline=True)) == [("a", "cache_miss"), ("b", "cache_miss")]
        assert said(ek.judge(TWINS, newer, WHO, samples=1, offline=True, adopt=True)) == [("a", "3"), ("b", "5")]

    def test_a_miss_names_the_part_that_differs(self):
        ek.record(TWINS, RUBRIC, WHO, [["3"], ["5"]])
        cold = WHO.replace(temperature=0.5)
        with pytest.raises(ek.errors.CacheMiss, match=r"item 'a'; temperature: 1\.0 cached, 0\.5 needed"):
            ek.judge(TWINS, RUBRIC, cold, samples=1, offline=True, on_miss="raise")
        renamed = [{"item_id": "z", "answer": "same"}]
        with pytest.raises(ek.errors.CacheMiss, match="nothing recorded for this item id"):
            ek.judge(renamed, RUBRIC, WHO, samples=1, offline=True, on_miss="raise")

    def test_the_gate_finds_recorded_replies_by_the_request_id(self, tmp_path):
        items = [
            {"item_id": name, "question": "q", "answer": "x", "context": ["c"]} for name in ("first", "second", "third")
        ]
        for name, texts in (("first", ["2", "2"]), ("second", ["0", "0"])):
            mine = [item for item in items if item["item_id"] == name]
            ek.record(mine, "faithfulness", "openai:m", [texts], template="number@v1")
        ek.gate.to_traces(items, None, tmp_path / "t.jsonl")
        expected = {"type": "faithfulness", "samples": 2, "rubric_version": "v1"}
        tests = [
            {"id": item["item_id"], "input": {"prompt": "q", "context": ["c"]}, "expected": expected} for item in items
        ]
        (tmp_path / "e.yaml").write_text(json.dumps({"tests": tests}))
        judges = [{"provider": "openai", "model": "m"}]
        frozen = {"profile": "p", "version": "1", "rubric": "faithfulness@v1", "judges": judges, "samples": 2}
        (tmp_path / "p.yaml").write_text(json.dumps(frozen | {"template": "number@v1"}))
        options = GateOptions(profile=str(tmp_path / "p.yaml"), judge="none")
        run = ek.gate.run_gate(tmp_path / "e.yaml", tmp_path / "t.jsonl", options)
        assert [one.status for one in run.tests] == ["pass", "fail", "error"]
        # a trace that holds the verdicts needs no cache
        evaluation = ek.evaluate(items[:2], tmp_path / "p.yaml", offline=True)
        ek.gate.to_traces(items[:2], evaluation, tmp_path / "t.jsonl")
        (tmp_path / "e.yaml").write_text(json.dumps({"tests": tests[:2]}))
        run = ek.gate.run_gate(tmp_path / "e.yaml", tmp_path / "t.jsonl", replace(options, cache=tmp_path / "empty"))
        assert [one.status for one in run.tests] == ["pass", "fail"]


class TestSamples:
    ITEMS = ({"item_id": "a", "answer": "one"}, {"item_id": "b", "answer": "two"})

    def test_one_recorded_sample_is_taken_as_it_is(self):
        items = list(self.ITEMS)
        ek.record(items, RUBRIC, WHO, [["1"], ["4"]])
        table = ek.judge(items, RUBRIC, WHO, offline=True, on_miss="raise")
        assert said(table) == [("a", "1"), ("b", "4")]
        votes = ek.vote(table)
        assert votes["n_samples"].tolist() == [1, 1]
        assert votes["passed"].tolist() == [False, True]
        assert votes["agreement"].isna().all()  # NA at k = 1

    def test_items_may_have_different_numbers_of_samples(self):
        items = [*self.ITEMS, {"item_id": "c", "answer": "three"}]
        ek.record(items, RUBRIC, WHO, [["1"] * 7, ["4", None, "5"], None])
        table = ek.judge(items, RUBRIC, WHO, offline=True)
        assert table.groupby("item_id").size().to_dict() == {"a": 7, "b": 2, "c": 1}
        assert table.loc[table["item_id"] == "b", "sample"].tolist() == [0, 2]
        assert table.loc[table["item_id"] == "c", "error"].tolist() == ["cache_miss"]
        assert ek.vote(table)["n_samples"].tolist() == [7, 2, 1]
        assert len(ek.evaluate(items, RUBRIC, WHO, offline=True).votes) == 3

    def test_other_judges_keep_the_default_number(self):
        items = list(self.ITEMS)
        ek.judge(items, RUBRIC, "fake:lenient", samples=5)
        ek.record(items, RUBRIC, WHO, [["1"], ["4"]])
        table = ek.judge(items, RUBRIC, [WHO, "fake:lenient"], offline=True)
        assert table.groupby("judge", observed=True)["sample"].max().to_dict() == {"who": 0, "fake:lenient": 2}
        assert table["error"].isna().all()

    def test_more_samples_than_there_are_is_said_once(self):
        items = list(self.ITEMS)
        ek.record(items, RUBRIC, WHO, [["1"], ["4", "5"]])
        told = r"3 of 6 replies are missing \(cache_miss\), because fewer than 3 samples were recorded"
        with pytest.warns(ek.errors.EvalkitWarning, match=told) as caught:
            table = ek.judge(items, RUBRIC, WHO, samples=3, offline=True)
        assert len(caught) == 1
        assert table["error"].astype(object).fillna("").tolist() == ["", *["cache_miss"] * 2, "", "", "cache_miss"]

    def test_one_order_of_pairs_is_enough(self):
        pairs = [{"item_id": "p", "question": "?", "answer_a": "x", "answer_b": "y"}]
        ek.record(pairs, "preference", WHO, ["B"], template="label@v1")
        table = ek.judge(pairs, "preference", WHO, template="label@v1", offline=True)
        assert list(zip(table["order"], table["label"], strict=True)) == [("AB", "B")]

    def test_an_order_that_other_items_have_is_missing(self):
        pairs = [{"item_id": name, "question": name, "answer_a": "x", "answer_b": "y"} for name in "pqr"]
        ek.record(pairs, "preference", WHO, ["B", "B", None], template="label@v1", order="AB")
        ek.record(pairs, "preference", WHO, ["A", None, None], template="label@v1", order="BA")
        table = ek.judge(pairs, "preference", WHO, template="label@v1", offline=True)
        # labels are mapped back: A of the order BA is the item's answer B
        assert table[["item_id", "order", "label", "error"]].astype(object).fillna("").values.tolist() == [
            ["p", "AB", "B", ""],
            ["p", "BA", "B", ""],
            ["q", "AB", "B", ""],
            ["q", "BA", "", "cache_miss"],
            ["r", "AB", "", "cache_miss"],
            ["r", "BA", "", "cache_miss"],
        ]
        votes = ek.vote(table)
        assert votes[["n_samples", "n_scored"]].values.tolist() == [[2, 2], [2, 1], [2, 0]]

    def test_the_heading_names_the_numbers_that_there_are(self):
        items = list(self.ITEMS)
        ek.record(items, RUBRIC, WHO, [["1"], ["4", "5"]])
        assert "judged by who, 1 to 2 samples each" in str(ek.evaluate(items, RUBRIC, WHO, offline=True))
        ek.record(items[:1], RUBRIC, WHO, [["1", "1"]])
        assert "judged by who, 2 samples each" in str(ek.evaluate(items, RUBRIC, WHO, offline=True))


DATA = data_folder()
FREE_PROMPTS = ("geval", "geval_no_auto_cot", "llm_eval_no_cot", "analyze_rate", "analyze_rate_auto_cot")
PROMPTS = [
    (f"{criterion}/{name}", which)
    for criterion in ("naturalness", "engagingness")
    for which, names in (("all", ("rate_explain", "rate_explain_auto_cot")), ("of all samples", FREE_PROMPTS))
    for name in names
]
"""With which votes are compared: those of fewer samples, too, where replies explain themselves. The same votes of the
other prompts are compared over the corpus in `test_judge_alignment_long.py`, and within groups in
`benchmarks/topical_chat.py`."""


@pytest.mark.skipif(DATA is None, reason="no recorded data: set EVALKIT_DATA to its folder")
@pytest.mark.parametrize(("prompt", "which"), PROMPTS)
def test_correlations_equal_the_published_ones(prompt: str, which: str) -> None:
    recorded = pd.DataFrame(rows(DATA, f"topicalchat_gpt35_{prompt.split('/')[0]}"))
    replies = recorded[recorded["prompt_id"] == prompt]
    parsed = loaded(DATA, "topicalchat_ref_parsed.json.gz")[prompt]
    reference = loaded(DATA, "reference.json")["topicalchat_gpt35"]["values"][prompt]

    variant = topical_chat.variant_of(prompt, replies, parsed)

    assert len(variant.own) == 20 * len(replies)
    assert set(variant.own["source"]) == {"recorded"}
    n_figures = 0
    for name, k, rule, published in topical_chat.expected(reference):
        if which != "all" and k < 20:
            continue
        found = topical_chat.figures(variant, variant.authors[variant.authors["sample"] < k], **rule)
        assert found == pytest.approx(published, abs=1e-6), name
        n_figures += len(published)
    assert n_figures == (2 + (5 if which == "all" else 1) * 4) * 6
    assert len(topical_chat.readings(variant)) <= 0.02 * len(variant.own)
