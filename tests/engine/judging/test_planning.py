"""Plans: what a call would take, against figures made by hand; and what to do about what went unscored."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
from servers import judge_server
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.core.judges import Judge
from evalkit.core.lists_of_choices import REASONS
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import canonical_json
from evalkit.engine.cache import ReplyStore
from evalkit.engine.calls.budget import upper_bound
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import ConfigError, InputError, RubricError
from evalkit.tables.schemas import empty

RUBRIC = rubric_of("one", {0: "bad", 1: "good"}, template="number@v1")
PRICED = Judge("openai", "m", price=(1, 2), max_tokens=100)
ITEMS = [{"answer": "x"}, {"answer": "yy"}]


def n_bytes(items: object, rubric: ek.Rubric = RUBRIC) -> list[int]:
    """UTF-8 bytes of each item's prompt, 16 more a message, and of its schema where there is one."""
    prompts = [ek.build_prompt(rubric, item) for item in items]
    schemas = [0 if one.schema is None else len(canonical_json(dict(one.schema))) for one in prompts]
    texts = [sum(len(message.content.encode()) + 16 for message in one.messages) for one in prompts]
    return [text + schema for text, schema in zip(texts, schemas, strict=True)]


class TestFigures:
    def test_by_hand(self):
        # US$ 1 a million prompt tokens, US$ 2 a million reply tokens; 2 items, 3 samples each, each with its
        # prompt: b bytes of prompts. At most: b tokens and 6 replies of 100. Expected: b/4 tokens, and as a
        # reply of 120 would be cut, 6 of 100.
        made = ek.plan(ITEMS, RUBRIC, PRICED, samples=3)
        b = 3 * sum(n_bytes(ITEMS))
        assert made.table[["n_judgments", "n_cached", "n_recorded", "n_to_call"]].values.tolist() == [[6, 0, 0, 6]]
        assert made.usd_at_most == pytest.approx((b * 1 + 6 * 100 * 2) / 1e6, rel=1e-12)
        assert made.usd == pytest.approx((b / 4 * 1 + 6 * 100 * 2) / 1e6, rel=1e-12)
        roomy = ek.plan(ITEMS, RUBRIC, PRICED.replace(max_tokens=1000), samples=3)
        assert roomy.usd == pytest.approx((b / 4 * 1 + 6 * 120 * 2) / 1e6, rel=1e-12)

    def test_the_schema_of_the_reply_counts(self):
        json = RUBRIC.edit(template="default@v1")
        made = ek.plan(ITEMS, json, PRICED, samples=1)
        assert made.usd_at_most == pytest.approx((sum(n_bytes(ITEMS, json)) + 2 * 100 * 2) / 1e6, rel=1e-12)
        requests = Worklist.of(Spec.of(json, PRICED, 1), ITEMS).requests([0, 1])
        assert made.usd_at_most == pytest.approx(sum(upper_bound(one, 1, (1.0, 2.0)) for one in requests), rel=1e-12)

    def test_stored_replies_say_how_long_the_next_will_be(self):
        # 10 replies of 20 and 10 of 40 tokens are stored: 30 expected; of 19 replies nothing is concluded
        texts = [{"answer": f"answer {number}"} for number in range(20)]
        for n_stored, length in ((19, 100), (20, 30)):
            replies = [[Reply("1", completion_tokens=20 + 20 * (number % 2))] for number in range(n_stored)]
            ek.record(texts[:n_stored], RUBRIC, PRICED, replies, overwrite=True)
            made = ek.plan(ITEMS, RUBRIC.edit("c", description="In other words."), PRICED, samples=2)
            prompts = n_bytes(ITEMS, RUBRIC.edit("c", description="In other words."))
            assert made.usd == pytest.approx((2 * sum(prompts) / 4 + 4 * length * 2) / 1e6, rel=1e-12)
            assert made.table["n_past"].tolist() == [20 * (n_stored == 20)]
        assert "(by 20 earlier replies), at most" in made.head

    def test_a_service_that_gives_several_replies_bills_a_prompt_once(self):
        apart = ek.plan(ITEMS, RUBRIC, PRICED, samples=3)
        ReplyStore.open().learn(PRICED.service, PRICED.model, "n_supported", True).result()
        together = ek.plan(ITEMS, RUBRIC, PRICED, samples=3)
        assert apart.usd - together.usd == pytest.approx(2 * sum(n_bytes(ITEMS)) / 4 / 1e6, rel=1e-9)
        assert together.usd_at_most == apart.usd_at_most

    def test_an_unknown_price_is_unknown(self):
        judges = [PRICED, Judge("openai", "nobody-knows-it", base_url="http://localhost:9/v1")]
        made = ek.plan(ITEMS, RUBRIC, judges)
        assert made.table["usd"].notna().tolist() == [True, False]
        assert math.isnan(made.usd)
        assert math.isnan(made.usd_at_most)
        assert "price unknown" in str(made)
        assert "unknown" in made._repr_html_()

    def test_without_max_tokens_there_is_no_upper_bound(self):
        made = ek.plan(ITEMS, RUBRIC, PRICED.replace(max_tokens=None), samples=1)
        assert made.usd > 0
        assert math.isnan(made.usd_at_most)
        assert "no upper bound without max_tokens" in str(made)

    def test_fake_judges_are_free(self):
        made = ek.plan(ITEMS, RUBRIC, "fake:strict")
        assert (made.usd, made.usd_at_most) == (0.0, 0.0)
        assert str(made).startswith("2 items, 6 judgments: 0 cached (0%), 6 to call; free")


class TestEarlierReplies:
    """What earlier replies say of the price: PRICED costs US$ 1 and 2 per million tokens; b bytes are b/4 tokens."""

    TEXTS: ClassVar = [{"answer": f"answer {number:03d}"} for number in range(24)]  # prompts of equal length
    EDITED = RUBRIC.edit("c", description="In other words.")

    def store(
        self,
        items: Any,
        rubric: Any = RUBRIC,
        judge: Any = PRICED,
        samples: int = 1,
        source: Any = "live",
        **reply: Any,
    ) -> None:
        """Store replies of 10 tokens; they cost US$ .0001 each, if nothing else is said."""
        work = Worklist.of(Spec.of(rubric, judge, samples), items)
        fields = {"completion_tokens": 10, "cost_usd": 1e-4} | reply
        requests = work.requests(list(range(work.n_rows)))
        parts = [request.parts.of_sample(sample) for request in requests for sample in request.samples]
        ReplyStore.open().put_many([(one, Reply("1", source=source, **fields)) for one in parts])

    def plan(self, items: Any = TEXTS, judge: Any = PRICED, **options: Any) -> Any:
        return ek.plan(items, self.EDITED, judge, **{"samples": 1} | options)

    def guessed(self, n_items: int = 24, n_samples: int = 1, tokens: float = 100) -> float:
        """By tokens alone: as many prompts as replies, of which each has its longest length, 100, or these tokens."""
        prompt = n_bytes(self.TEXTS[:1], self.EDITED)[0] / 4
        return float(n_items * n_samples * (prompt + tokens * 2) / 1e6)

    def test_an_edit_costs_what_the_same_items_cost(self):
        self.store(self.TEXTS)
        planned = self.plan()
        assert planned.usd == pytest.approx(24 * 1e-4, rel=0.03)  # the edited prompt has another length
        assert planned.usd_at_most == pytest.approx((24 * n_bytes(self.TEXTS[:1], self.EDITED)[0] + 4800) / 1e6)
        assert planned.table["n_past"].tolist() == [24]
        assert f"about US$ {planned.usd:.4f} (by 24 earlier replies), at most" in planned.head

    def test_after_a_trial_all_items_cost_alike(self):
        more = [{"answer": f"answer {number:03d}"} for number in range(200)]
        self.store(more[:20])
        assert ek.plan(more, RUBRIC, PRICED, samples=1).usd == pytest.approx(180 * 1e-4, rel=1e-9)
        longer = [*more[:20], *({"answer": "word " * 2000} for _ in range(1))]
        assert ek.plan(longer, RUBRIC, PRICED, samples=1).usd > 5 * 1e-4  # ten times as long

    def test_other_items_have_replies_as_long(self):
        self.store([{"answer": f"before {number}"} for number in range(20)])
        assert self.plan().usd == pytest.approx(self.guessed(tokens=10), rel=1e-12)

    @pytest.mark.parametrize(
        ("rubric", "judge"),
        [(RUBRIC, PRICED.replace(model="m2")), (RUBRIC, PRICED.replace(temperature=0.5)),
         (RUBRIC, PRICED.replace(max_tokens=99)), (ek.Rubric(**RUBRIC.to_dict() | {"id": "two"}), PRICED)],
    )  # fmt: skip
    def test_replies_of_another_judge_or_rubric_say_nothing(self, rubric, judge):
        self.store(self.TEXTS, rubric, judge)
        assert self.plan().usd == pytest.approx(self.guessed(), rel=1e-12)
        assert self.plan().table["n_past"].tolist() == [0]

    def test_each_judge_goes_by_its_own_replies(self):
        self.store(self.TEXTS)
        both = self.plan(judge=[PRICED, PRICED.replace(model="m2")]).table
        assert both["n_past"].tolist() == [24, 0]
        assert both["usd"].tolist() == pytest.approx([24 * 1e-4, self.guessed()], rel=0.03)

    def test_replies_of_unknown_price_say_how_long_they_are(self):
        self.store(self.TEXTS, cost_usd=None)
        assert self.plan().usd == pytest.approx(self.guessed(tokens=10), rel=1e-12)

    def test_a_reply_of_a_batch_counts_at_the_price_of_a_call(self):
        own = PRICED.replace(service="api.openai.com")  # whose batches cost half
        self.store(self.TEXTS, judge=own, source="batch", cost_usd=0.5e-4)
        planned = self.plan(judge=own)
        assert planned.usd == pytest.approx(24 * 1e-4, rel=0.03)
        assert planned.usd_in_batches == pytest.approx(planned.usd / 2)

    def test_more_samples_share_the_bill_of_a_prompt(self):
        ReplyStore.open().learn(PRICED.service, PRICED.model, "n_supported", True).result()
        prompt = n_bytes(self.TEXTS[:1])[0] / 4 / 1e6
        self.store(self.TEXTS, cost_usd=prompt + 10 * 2 / 1e6)
        edited = n_bytes(self.TEXTS[:1], self.EDITED)[0] / 4 / 1e6
        assert self.plan(samples=3).usd == pytest.approx(24 * (edited + 3 * 10 * 2 / 1e6), rel=0.03)

    def test_of_a_rubric_under_another_name_the_adopted_replies_count_once(self):
        self.store(self.TEXTS)
        copied = ek.Rubric(**RUBRIC.to_dict() | {"id": "copied"})
        for _ in range(2):
            assert ek.judge(self.TEXTS, copied, PRICED, samples=1, adopt=True, offline=True)["error"].isna().all()
        edited = ek.plan(self.TEXTS, copied.edit("c", description="In other words."), PRICED, samples=1)
        assert edited.table["n_past"].tolist() == [24]
        assert edited.usd == pytest.approx(24 * 1e-4, rel=0.03)

    def test_the_newest_200_count(self):
        many = [{"answer": f"answer {number:03d}"} for number in range(300)]
        for part, tokens in ((many[:100], 90), (many[100:], 10)):
            self.store(part, completion_tokens=tokens, cost_usd=None)
        planned = self.plan(self.TEXTS)
        assert planned.table["n_past"].tolist() == [200]
        assert planned.usd == pytest.approx(self.guessed(tokens=10), rel=1e-12)

    def test_what_is_free_stays_free(self):
        free = PRICED.replace(price=(0, 0))
        self.store(self.TEXTS, judge=free, cost_usd=0.0)
        assert "to call; free" in self.plan(judge=free).head


class TestCounts:
    def test_each_judge_has_its_row(self):
        ek.judge(ITEMS[:1], RUBRIC, "fake:strict", samples=2)
        made = ek.plan(ITEMS, RUBRIC, ["fake:strict", "fake:noisy"], samples=3)
        counts = made.table.set_index("judge")[["n_judgments", "n_cached", "n_to_call"]]
        assert counts.loc["fake:strict"].tolist() == [6, 2, 4]
        assert counts.loc["fake:noisy"].tolist() == [6, 0, 6]
        assert made.n_to_call == 10

    def test_it_is_what_judge_then_asks(self):
        doubled = [*ITEMS, ITEMS[0]]
        made = ek.plan(doubled, RUBRIC, "fake:strict")
        assert (made.n_items, made.n_unique, made.n_to_call) == (3, 2, 6)
        assert "3 items (2 distinct)" in str(made)
        table = ek.judge(doubled, RUBRIC, "fake:strict")
        assert table.loc[table["source"] == "live", "key"].nunique() == made.n_to_call
        after = ek.plan(doubled, RUBRIC, "fake:strict")
        assert (after.n_to_call, after.usd) == (0, 0.0)
        assert "9 cached (100%), 0 to call; nothing to pay" in str(after)

    def test_recorded_replies_are_counted_apart(self):
        ek.record(ITEMS, RUBRIC, PRICED, [["1", "0"], ["1"]])
        counts = ["n_cached", "n_recorded", "n_to_call"]
        assert ek.plan(ITEMS, RUBRIC, PRICED, samples=2).table[counts].values.tolist() == [[0, 3, 4]]
        used = ek.plan(ITEMS, RUBRIC, PRICED, samples=2, recorded="use")
        assert used.table[counts].values.tolist() == [[3, 0, 1]]

    def test_both_orders_of_a_pair_and_its_mirror_image(self):
        pairs = [{"question": "q", "answer_a": a, "answer_b": b} for a, b in ("xy", "yx")]
        made = ek.plan(pairs, "preference", "fake:strict", samples=2)
        assert made.table[["n_judgments", "n_to_call"]].values.tolist() == [[8, 4]]

    def test_no_items(self):
        made = ek.plan(pd.DataFrame({"answer": []}), RUBRIC, PRICED)
        assert (made.n_items, made.n_to_call, made.usd, made.usd_at_most) == (0, 0, 0.0, 0.0)
        assert str(made).startswith("0 items, 0 judgments: 0 cached, 0 to call; nothing to pay")


class TestRefusals:
    def test_neither_key_nor_network_nor_a_writable_cache_is_needed(self, tmp_path, monkeypatch):
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        made = ek.plan(ITEMS, RUBRIC, "openai:gpt-4o-mini", cache=tmp_path / "not" / "there")
        assert made.usd_at_most > made.usd > 0
        assert made.cache == tmp_path / "not" / "there"
        assert not (tmp_path / "not").exists()
        assert ek.plan(ITEMS, RUBRIC, PRICED, cache="/proc/nowhere").n_to_call == 6

    def test_what_judge_refuses_plan_refuses(self):
        with pytest.raises(InputError, match="answer"):
            ek.plan([{"question": "q"}], RUBRIC, PRICED)
        with pytest.raises(ConfigError, match="samples"):
            ek.plan(ITEMS, RUBRIC, PRICED, samples=0)
        with pytest.raises(RubricError, match="rubric 'nothing' not found"):
            ek.plan(ITEMS, "nothing", PRICED)
        with pytest.raises(ConfigError, match="unknown recorded='yes'; allowed: miss, use"):
            ek.plan(ITEMS, RUBRIC, PRICED, recorded="yes")

    def test_names_are_escaped(self):
        page = ek.plan(ITEMS, RUBRIC, Judge("openai", "m", name="<script>"))._repr_html_()
        assert "<script>" not in page
        assert "&lt;script&gt;" in page


class TestAdopt:
    """What a plan promises is what `judge` then asks for, with and without adopting."""

    TWO = rubric_of("two", {0: "bad", 1: "good"}, "kept", "changed", template="number@v1")
    NEXT = ek.Rubric(**(TWO.to_dict() | {"version": "v2"})).edit("changed", scale={1: "better"})
    JUDGES = ("fake:strict", "fake:lenient")

    def counts(self, made: ek.engine.Plan) -> list[list[int]]:
        return made.table[["n_judgments", "n_cached", "n_to_call"]].values.tolist()

    def test_unchanged_criteria_of_another_version_count_as_cached(self):
        ek.judge(ITEMS, self.TWO, self.JUDGES, samples=2)
        # each judge: 2 items x 2 criteria x 2 samples = 8; of these the 4 of `kept` are version v1's
        assert self.counts(ek.plan(ITEMS, self.NEXT, self.JUDGES, samples=2)) == [[8, 0, 8]] * 2
        made = ek.plan(ITEMS, self.NEXT, self.JUDGES, samples=2, adopt=True)
        assert self.counts(made) == [[8, 4, 4]] * 2
        asked = ek.judge(ITEMS, self.NEXT, self.JUDGES, samples=2, adopt=True)
        live = asked[asked["source"] == "live"]
        assert live["judge"].value_counts().to_dict() == dict.fromkeys(self.JUDGES, 4)
        assert set(live["criterion"]) == {"changed"}

    def test_recorded_replies_are_adopted_only_where_they_are_used(self):
        ek.record(ITEMS, self.TWO, self.JUDGES[0], [["1"], ["0"]], criterion="kept")
        one = self.JUDGES[0]
        assert self.counts(ek.plan(ITEMS, self.NEXT, one, samples=1, adopt=True)) == [[4, 0, 4]]
        assert self.counts(ek.plan(ITEMS, self.NEXT, one, samples=1, adopt=True, recorded="use")) == [[4, 2, 2]]

    def test_nothing_to_plan(self):
        assert self.counts(ek.plan([], self.NEXT, self.JUDGES, adopt=True)) == [[0, 0, 0]] * 2


class TestExplain:
    def judgments(self, *rows: tuple[str, str, str | None]) -> pd.DataFrame:
        return pd.DataFrame(rows, columns=["item_id", "judge", "error"])

    @pytest.mark.parametrize("reason", REASONS)
    def test_every_reason_has_advice(self, reason):
        told = ek.explain(self.judgments(("a", "j", reason)))
        assert len(told["what_to_do"].iloc[0]) > 10

    def test_grouped_most_frequent_first(self):
        rows = [(item, "j", "timeout") for item in "aabcd"] + [("a", "k", "empty"), ("a", "k", None), ("b", "j", None)]
        told = ek.explain(self.judgments(*rows)).drop(columns="what_to_do")
        # j: 5 of 6 in time-outs, first three items a, b, c; k: 1 of 2 empty
        assert told.values.tolist() == [["timeout", "j", 5, 5 / 6, "a, b, c"], ["empty", "k", 1, 0.5, "a"]]

    def test_nothing_to_explain_has_the_same_columns(self):
        told = ek.explain(self.judgments(("a", "j", "empty")))
        for none in (ek.explain(self.judgments(("a", "j", None))), ek.explain(empty("judgments"))):
            assert len(none) == 0
            pd.testing.assert_series_equal(none.dtypes, told.dtypes)

    def test_not_a_judgments_table(self):
        with pytest.raises(InputError, match="not a judgments table: column 'error' missing"):
            ek.explain(pd.DataFrame({"item_id": [], "judge": []}))

    def test_a_broken_judge(self):
        table = ek.judge(ek.load_example("support")[0], "faithfulness", "fake:broken")
        told = ek.explain(table)
        assert told["n"].sum() == table["error"].notna().sum() > 0
        assert set(told["error"]) <= set(REASONS)


def test_a_plan_writes_nothing(tmp_path: Path):
    ek.plan(ITEMS, RUBRIC, PRICED, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_plan_counts_the_requests_that_the_server_gets(tmp_path):
    """One per prompt, once the server is known to give all samples at once; half of the items are the same."""
    criteria = [{"name": name, "scale": {0: "no", 1: "nearly", 2: "yes"}} for name in "abc"]
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=criteria)
    items = [{"answer": f"ITEM-2 no. {n // 2}"} for n in range(8)]
    said = {name: {"explanation": "so", "score": 2} for name in "abc"} | {"explanation": "so", "score": 2}
    with judge_server(always={"content": json.dumps(said)}) as server:
        judge = ek.Judge("openai", "m", base_url=server.url)
        options = {"samples": 3, "cache": tmp_path}
        first = ek.plan(items, rubric, judge, **options)
        assert (first.n_requests, first.n_to_call) == (36, 36)  # not known yet
        ek.judge(items[:1], rubric, judge, progress=False, **options)
        for per_call, n_requests, n_judgments in ((1, 9, 54), (2, 4, 48), ("all", 4, 72)):
            planned = ek.plan(items, rubric, judge, criteria_per_call=per_call, **options)
            assert planned.n_requests == n_requests
            assert f"{n_requests} requests for {n_judgments} judgments" in planned.head
            n_seen = len(server.seen)
            ek.judge(items, rubric, judge, progress=False, criteria_per_call=per_call, **options)
            assert len(server.seen) - n_seen == n_requests
