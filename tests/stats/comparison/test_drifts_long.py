"""Drift: a judge that changes under an unchanged name is noticed, one that only varies is not."""

import hashlib

import pandas as pd
import pytest
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.errors import InputError

RUBRIC = rubric_of("tone", {0: "no", 1: "yes"}, "kind", pass_at=1)
ITEMS = pd.DataFrame({"item_id": [f"i{n}" for n in range(120)], "answer": [f"answer {n}" for n in range(120)]})


def luck(*parts):
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") / 2**64


class Served:
    """A model behind a name: of `stricter` of the items it now fails what it used to pass; one in ten is noisy."""

    def __init__(self):
        self.stricter, self.calls, self.date, self.broken = 0.0, 0, "then", False

    def __call__(self, prompt):
        self.calls += 1
        answer = prompt.inputs["answer"]
        if self.broken and luck("broken", answer) < 0.2:
            return "I cannot say"
        passes = luck("item", answer) < 0.8 and not luck("strict", answer) < self.stricter
        if luck("noisy", answer) < 0.1:
            passes = luck("draw", answer, self.calls, self.date) < 0.5
        return f'{{"explanation": "", "score": {int(passes)}}}'


def judge_both(model, folder, samples=3, **change):
    judge = ek.Judge.function(model, name="served", version="1")
    then = ek.evaluate(ITEMS, RUBRIC, judge, samples=samples, cache=folder, progress=False)
    model.date = "now"
    for name, value in change.items():
        setattr(model, name, value)
    return then, ek.evaluate(ITEMS, RUBRIC, judge, samples=samples, cache=folder, progress=False, refresh=True)


def changes(then, now, **options):
    return ek.compare(then, now, same_prompts=True, **options).table


def test_a_judge_that_got_stricter_is_noticed_and_the_direction_is_shown(tmp_path):
    people = ITEMS[["item_id"]].assign(
        criterion="kind", annotator="a", label=[int(luck("item", answer) < 0.8) for answer in ITEMS["answer"]]
    )
    model = Served()
    then, now = judge_both(model, tmp_path, stricter=0.3)
    assert model.calls == 2 * 3 * 120
    row = changes(then, now, labels=people).iloc[0]
    assert row["status"] == "changed"
    assert row["changed"] > row["chance_up_to"]
    assert (row["against"], row["scored_before"], row["scored_after"]) == ("labels", 1, 1)
    assert row["effect_high"] < 0
    plain = changes(then, now).iloc[0]
    assert (plain["against"], plain["status"]) == ("verdicts", "changed")
    assert plain["effect_low"] < plain["effect"] < plain["effect_high"] < 0
    passed = [side.votes.set_index("item_id")["passed"].astype(float) for side in (then, now)]
    assert plain["effect"] == pytest.approx((passed[1] - passed[0]).mean())


def test_noise_alone_is_no_drift(tmp_path):
    then, now = judge_both(Served(), tmp_path)
    row = changes(then, now).iloc[0]
    assert row["status"] == "no change seen"
    assert row["effect_low"] <= 0 <= row["effect_high"]


def test_replies_that_can_no_longer_be_read_are_shown(tmp_path):
    row = changes(*judge_both(Served(), tmp_path, broken=True)).iloc[0]
    assert row["scored_before"] == 1
    assert row["scored_after"] == pytest.approx(
        sum(luck("broken", answer) < 0.2 for answer in ITEMS["answer"]) / 120 * -1 + 1
    )
    assert row["status"] == "changed"


def test_one_sample_cannot_tell_and_no_new_reply_says_so(tmp_path):
    then, now = judge_both(Served(), tmp_path, samples=1, stricter=0.3)
    assert changes(then, now)["status"].tolist() == ["cannot tell"]
    assert changes(then, then)["status"].tolist() == ["same replies"]
    assert changes(then.judgments, now.judgments)["n_common"].tolist() == [120]


def test_what_is_not_the_same_judge_is_refused(tmp_path):
    options = {"cache": tmp_path, "progress": False, "samples": 2}
    one = ek.evaluate(ITEMS, RUBRIC, "fake:strict", **options)
    with pytest.raises(InputError, match=r"only one side has .*judge 'tone v1 kind "):
        changes(one, ek.evaluate(ITEMS, RUBRIC, "fake:noisy", **options))
    with pytest.raises(InputError, match=r"only one side has .*rubric_version.*; .* leave it out"):
        changes(one, ek.evaluate(ITEMS, RUBRIC.edit("kind", description="Is it kind?"), "fake:strict", **options))
    with pytest.raises(InputError, match=r"only one side has .*sample "):
        changes(one, ek.evaluate(ITEMS, RUBRIC, "fake:strict", **options | {"samples": 3}))
    with pytest.raises(InputError, match="reply keys: the texts of an item"):
        changes(one, ek.evaluate(ITEMS.assign(answer=ITEMS["answer"] + "!"), RUBRIC, "fake:strict", **options))
    with pytest.raises(InputError, match="no item in common"):
        changes(one, ek.evaluate(ITEMS.assign(item_id="x" + ITEMS["item_id"]), RUBRIC, "fake:strict", **options))


def test_imported_tables_say_that_settings_are_not_known():
    scores = pd.DataFrame({"id": ["a", "b"] * 20, "n": range(40)})
    scores["id"] += scores["n"].astype(str)
    tables = [
        ek.import_judgments(scores.assign(s=code), RUBRIC, item="id", judge="openai:m", score="s") for code in (0, 1)
    ]
    assert "settings of the judges not known" in changes(*tables)["notes"].iloc[0]


def test_scores_and_votes_are_told_to_be_no_judgments():
    items, _ = ek.load_example("support")
    ev = ek.evaluate(items.head(4), "faithfulness", "fake:noisy", samples=2)
    for table in (ev.scores, ev.votes):
        with pytest.raises(InputError, match="same_prompts=True needs judgments on both sides, not votes or scores"):
            ek.compare(table, table, same_prompts=True)
