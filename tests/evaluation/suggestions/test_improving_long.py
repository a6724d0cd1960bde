"""`improve`: dev labels choose, held-out labels test once; looks are counted, and nothing is paid twice."""

from __future__ import annotations

import hashlib
import json
import math
import re
import subprocess
import sys
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import SUPPORT
from servers import judge_server

import evalkit as ek
from evalkit.errors import CacheError, ConfigError, InputError
from evalkit.stats.alignment.held_out_log import ItemSet, append_log, read_log
from evalkit.stats.alignment.held_out_tests import HeldOutLog, alpha_of, evidence, flip_p, power_of
from evalkit.stats.alignment.label_splits import held_out_looks

RUBRIC = ek.Rubric(
    id="r",
    inputs=["answer"],
    criteria=[{"name": "c", "description": "Is it so?", "scale": {0: "no", 1: "yes"}, "pass_at": 1}],
)


def number(*parts):
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") / 2**64


def truth(item):
    return int(number("truth", item) < 0.6)


def ask(prompt, asked=None):
    """Wrong on a fifth; a wording with 'helps' fixes most of that, each other new word changes a few verdicts."""
    item, wording = prompt.inputs["answer"], prompt.texts[1]
    wrong = number("wrong", item) < 0.2
    for word in wording.split()[1:]:
        if word == "mute" and number("mute", item) < 0.5:
            return "I cannot say."
        chance, (fixed, broke) = number(word, item), (0.9, 0.0) if word == "helps" else (0.25, 0.0625)
        wrong = chance >= fixed if wrong else chance < broke
    if asked is not None:
        asked.append(item)
    return json.dumps({"score": truth(item) ^ wrong})


def suggest(prompt, words=("helps",), seen=None):
    if seen is not None:
        seen.append(prompt.messages[-1].content)
    edits = [
        {"criterion": "c", "part": "level", "code": "1", "text": f"{prompt.texts[1]} {word}", "reason": "so"}
        for word in words
        if word not in prompt.texts[1]
    ]
    return json.dumps({"edits": edits})


def helper(words=("helps",), seen=None, name="helper"):
    return ek.Judge.function(partial(suggest, words=words, seen=seen), name=name, version=str(words))


def case(n=400, *, asked=None, rubric=RUBRIC, groups=None, **options):
    ids = [f"i{at:04d}" for at in range(n)]
    items = pd.DataFrame({"item_id": ids, "answer": ids})
    if groups is not None:
        items["group_id"] = [f"g{groups(at)}" for at in range(n)]
    labels = pd.DataFrame({"item_id": ids, "criterion": "c", "annotator": "p", "label": [str(truth(i)) for i in ids]})
    judge = ek.Judge.function(partial(ask, asked=asked), name="j", version="1")
    return ek.evaluate(items, rubric, judge, samples=1, labels=labels, progress=False, **options), labels


def improve(evaluation, *args, **options):
    return ek.improve(evaluation, *args, progress=False, **options)


def lucky_words(labels, n=1):
    """Words that chance makes better on the dev labels, and not on the held-out ones."""
    split, found = ek.split_labels(labels), []
    for word in (f"w{at}" for at in range(3000)):
        steps = {"dev": [], "held-out": []}
        for item, part in zip(split["item_id"], split["part"], strict=True):
            wrong, chance = number("wrong", item) < 0.2, number(word, item)
            steps[part].append((wrong and chance < 0.25) - (not wrong and chance < 0.0625))
        if flip_p(np.array(steps["dev"])) <= 0.1 and sum(steps["held-out"]) <= 2:
            found.append(word)
        if len(found) == n:
            return found
    raise AssertionError("no such word")


class TestFigures:
    @given(st.lists(st.integers(-4, 4), max_size=10))
    def test_sign_flips_are_exact(self, steps):
        flips = [
            sum(s * abs(x) for s, x in zip(signs, steps, strict=True)) for signs in product((1, -1), repeat=len(steps))
        ]
        expected = sum(total >= sum(steps) for total in flips) / len(flips)
        assert flip_p(np.array(steps, dtype=np.int64)) == pytest.approx(expected, abs=1e-12)

    def test_steps_of_one_are_the_sign_test(self):
        steps = np.array([1] * 11 + [-1] * 2 + [0] * 30)
        assert flip_p(steps) == pytest.approx(sum(math.comb(13, k) for k in (11, 12, 13)) / 2**13)

    @pytest.mark.parametrize(("n", "published"), [(40, 0.32), (80, 0.71), (160, 0.97)])
    def test_power_at_a_level_of_five_percent(self, n, published):
        assert abs(power_of(n, 0.05) - published) < 0.01

    def test_power_by_hand(self):
        # n = 6, α = .025: six changed, all fixed (1/64); less never suffices
        assert power_of(6, 0.025, fixed=0.5, broke=0.25) == pytest.approx(0.5**6)

    def test_the_levels_of_all_looks_are_five_percent(self):
        assert sum(alpha_of(look) for look in range(1, 20_000)) == pytest.approx(0.05, abs=1e-5)
        assert alpha_of(1) == 0.025

    @given(st.integers(0, 60), st.integers(0, 60))
    def test_evidence_is_a_fair_bet(self, fixed, broke):
        # where a change helps as often as not, the mean of the next two values is the value now
        after = evidence(fixed + 1, broke) + evidence(fixed, broke + 1)
        assert after / 2 == pytest.approx(evidence(fixed, broke), rel=1e-9)

    def test_evidence_by_hand(self):
        # ∫ 2 · (2θ)² dθ over (½, 1) = 8/3 · (1 − 1/8)
        assert evidence(2, 0) == pytest.approx(8 / 3 * 7 / 8)


class TestLooks:
    def test_kept_and_what_it_shows(self, tmp_path):
        evaluation, _ = case(cache=tmp_path)
        found = improve(evaluation, judge=helper())
        assert (found.outcome, found.look) == ("kept", 1)
        assert found.rubric.criterion("c").scale[1] == "yes helps"
        assert found.figures["part"].tolist() == ["dev", "held-out"]
        dev = found.table.iloc[0]
        own = dict(zip(evaluation.scores["item_id"], evaluation.scores["label"], strict=True))
        assert dev["fixed"] > 20 > dev["broke"]
        assert dev["n_labelled"] + found.n_tested == 400
        held = found.figures.iloc[1]
        before = np.mean([own[i] == str(truth(i)) for i in own])
        assert abs(held["agreement_before"] - before) < 0.08
        for told in ("kept", "look 1", "α 0.025", f"{held['fixed']} fixed", "used up"):
            assert told in str(found)
        assert "look 1" in found._repr_html_()

    def test_not_kept_shows_no_figure_and_the_next_look_costs_more(self, tmp_path):
        evaluation, _ = case(cache=tmp_path)
        looks = []
        for word in lucky_words(evaluation.labels, 2):
            found = improve(evaluation, judge=helper((word,)))
            looks.append(found.look)
            assert (found.outcome, found.figures, found.rubric) == ("not kept", None, evaluation.rubric)
            heads = "\n".join(found.heads())
            assert "fixed" not in heads
            assert "agreement" not in heads
        assert looks == [1, 2]
        lines = [line for line in read_log(tmp_path) if "kept" in line]
        assert [set(line) for line in lines] == [{"criterion", "candidate", "labels", "kept", "search", "at"}] * 2
        assert held_out_looks(tmp_path)["n_looks"].sum() == 2

    def test_the_same_call_again_is_the_same_look_and_asks_nobody(self, tmp_path):
        asked, seen = [], []
        evaluation, _ = case(cache=tmp_path, asked=asked)
        first = improve(evaluation, judge=helper(seen=seen))
        n, m = len(asked), len(seen)
        again = improve(evaluation, judge=helper(seen=seen))
        assert (len(asked), len(seen)) == (n, m)
        assert (again.outcome, again.look, again.cost_usd) == ("kept", 1, 0.0)
        assert again.table.drop(columns="usd").equals(first.table.drop(columns="usd"))

    def test_kept_labels_are_used_up_until_there_are_new_ones(self, tmp_path):
        evaluation, labels = case(600, cache=tmp_path)
        old = labels[labels["item_id"] < "i0300"]
        assert improve(evaluation, old, judge=helper()).outcome == "kept"
        with pytest.raises(InputError, match="were used to test a change that was kept"):
            improve(evaluation, old, judge=helper(("other",)))
        found = improve(evaluation, labels, judge=helper(("w1", "helps")))
        assert (found.outcome, found.look) == ("kept", 1)
        split = ek.split_labels(labels)
        fresh = split[(split["part"] == "held-out").to_numpy() & (split["item_id"] >= "i0300").to_numpy()]
        assert found.n_tested == len(fresh)

    def test_one_more_label_does_not_begin_a_new_count(self, tmp_path):
        evaluation, labels = case(cache=tmp_path)
        (word,) = lucky_words(labels)
        split = ek.split_labels(labels)
        last = split.index[(split["part"] == "held-out").to_numpy()][-1]
        first = improve(evaluation, labels.drop(index=last), judge=helper((word,)))
        again = improve(evaluation, labels.sample(frac=1, random_state=1), judge=helper((word,)))
        assert (first.outcome, first.look, again.outcome, again.look) == ("not kept", 1, "not kept", 2)

    def test_figures_that_a_person_saw_are_looks(self, tmp_path):
        evaluation, labels = case(cache=tmp_path)
        split = ek.split_labels(labels)
        for _ in range(2):  # the same figure twice is one look
            ek.align(evaluation, split, part="held-out", cache=tmp_path)
        assert improve(evaluation, judge=helper()).look == 2

    def test_a_hand_made_candidate(self, tmp_path):
        evaluation, _ = case(cache=tmp_path)
        better = RUBRIC.edit("c", scale={1: "yes helps"})
        found = improve(evaluation, candidate=better)
        assert (found.outcome, len(found.table), found.rubric) == ("kept", 0, better)

    def test_unreadable_replies_count_as_wrong(self, tmp_path):
        evaluation, _ = case(cache=tmp_path)
        found = improve(evaluation, candidate=RUBRIC.edit("c", scale={1: "yes helps mute"}))
        assert found.outcome == "not kept"

    def test_held_out_texts_never_reach_the_judge_that_suggests(self, tmp_path):
        seen = []
        evaluation, labels = case(cache=tmp_path)
        improve(evaluation, judge=helper(("a1", "helps", "b2"), seen), n_cases=50)
        split = ek.split_labels(labels)
        held = split.loc[(split["part"] == "held-out").to_numpy(), "item_id"]
        assert len(seen) >= 2
        assert not [item for item in held for text in seen if item in text]

    def test_clusters_are_the_unit(self, tmp_path):
        evaluation, _ = case(cache=tmp_path, groups=lambda at: at // 4)
        found = improve(evaluation, judge=helper())
        assert found.n_clusters * 4 == found.n_tested
        assert found.outcome == "kept"

    def test_an_edit_that_would_change_other_criteria_is_not_tried(self, tmp_path):
        two = RUBRIC.edit(criteria=[*RUBRIC.to_dict()["criteria"], {"name": "d", "scale": {0: "no", 1: "yes"}}])
        edit = {"criterion": "c", "part": "rubric", "code": None, "text": "Something else.", "reason": "so"}
        judge = ek.Judge.function(lambda _: json.dumps({"edits": [edit]}), name="h", version="1")
        evaluation, _ = case(cache=tmp_path, rubric=two)
        found = improve(evaluation, judge=judge, criterion="c", rounds=1)
        assert found.outcome == "nothing better"
        assert "would change the other\n  criteria" in str(found)


class TestLaterLabels:
    def test_each_new_label_counts_once_and_the_evidence_grows(self, tmp_path):
        evaluation, labels = case(600, cache=tmp_path)
        first = labels.head(100)
        found = improve(evaluation, first, judge=helper(), look=False)
        assert (found.outcome, found.look) == ("not tested", 0)
        assert found.check(first).evidence == 1
        steps = {i: self.step(i) for i in labels["item_id"][100:]}
        values, sizes = [], (100, 150, 250, 250, 600)
        for n in sizes:
            made = found.check(labels.head(n))
            counts = [steps[i] for i in labels["item_id"][100:n]]
            values.append(evidence(counts.count(1), counts.count(-1)))
            assert made.evidence == pytest.approx(max(values))
            assert made.n_tested == n - 100
            assert (made.outcome == "kept") == (max(values) >= 20)
        assert made.outcome == "kept"
        assert made.rubric == found.candidate
        others = labels.head(7).assign(item_id=[f"new{at}" for at in range(7)])
        assert "7 labelled items not in the evaluation" in str(found.check(pd.concat([labels, others])))

    @staticmethod
    def step(item):
        wrong, chance = number("wrong", item) < 0.2, number("helps", item)
        return int(wrong and chance < 0.9)

    def test_another_process_goes_on_and_another_candidate_gets_other_labels(self, tmp_path):
        evaluation, labels = case(600, cache=tmp_path)
        found = improve(evaluation, labels.head(100), judge=helper(), look=False)
        before = found.check(labels.head(200))
        again = improve(evaluation, labels.head(300), candidate=found.candidate, look=False)
        after = again.check(labels.head(300))
        assert (before.n_tested, after.n_tested) == (100, 200)
        other = improve(evaluation, labels.head(100), candidate=RUBRIC.edit("c", scale={1: "yes w1"}), look=False)
        assert other.check(labels.head(300)).n_tested == 0
        assert other.check(labels.head(340)).n_tested == 40

    def test_items_of_a_labelled_cluster_are_left_out(self, tmp_path):
        evaluation, labels = case(400, cache=tmp_path, groups=lambda at: at % 200)
        found = improve(evaluation, labels.head(100), judge=helper(), look=False)
        made = found.check(labels.head(350))  # 100-199 are new; 200-299 share groups with 0-99, 300-349 with 100-149
        assert (made.n_tested, made.outcome) == (150, made.outcome)

    def test_without_a_candidate(self, tmp_path):
        evaluation, labels = case(cache=tmp_path)
        found = improve(evaluation, judge=helper(()), look=False)
        assert found.outcome == "nothing better"
        with pytest.raises(InputError, match="no candidate to check"):
            found.check(labels)


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({}, "either judge=, which suggests edits, or candidate="),
            ({"judge": "fake:strict", "candidate": RUBRIC}, "either judge="),
            ({"judge": "fake:strict", "rounds": 0}, "rounds must be a whole number from 1 to 100"),
            ({"judge": "fake:strict", "refresh": True}, "improve has no option 'refresh'"),
        ],
    )
    def test_settings(self, options, message):
        evaluation, _ = case(60)
        with pytest.raises(ConfigError, match=message):
            improve(evaluation, **options)

    def test_too_few_held_out_labels_and_the_power_that_they_have(self):
        evaluation, _ = case(80)
        with pytest.raises(InputError) as refused:
            improve(evaluation, judge=helper())
        for told in ("needs 40 held-out items in 10", "40 labels 0.20, 80 labels 0.60, 160 labels 0.93", "look=False"):
            assert told in str(refused.value)

    def test_too_few_clusters(self):
        evaluation, _ = case(cache=None, groups=lambda at: at % 12)
        with pytest.raises(InputError, match=r"testing a change of 'c' needs 40 held-out items in 10 clusters, got"):
            improve(evaluation, judge=helper())

    def test_one_class(self):
        evaluation, labels = case()
        with pytest.raises(InputError, match="people gave all items the same verdict on 'c'"):
            improve(evaluation, labels.assign(label="1"), judge=helper())

    def test_dev_labels_given_as_held_out(self):
        evaluation, labels = case(200)
        split = ek.split_labels(labels)
        improve(evaluation, split, judge=helper(("w1",)))
        turned = split.assign(part=np.where(split["part"] == "dev", "held-out", "dev"))
        with pytest.raises(InputError, match="were dev labels, or share a cluster or text with dev labels"):
            improve(evaluation, turned, judge=helper(("w1",)))

    def test_the_same_text_is_not_on_both_sides(self):
        ids = [f"i{at:04d}" for at in range(400)]
        items = pd.DataFrame({"item_id": ids, "answer": [f"i{at % 60:04d}" for at in range(400)]})
        labels = pd.DataFrame(
            {"item_id": ids, "criterion": "c", "annotator": "p", "label": [str(truth(i)) for i in items["answer"]]}
        )
        judge = ek.Judge.function(ask, name="j", version="1")
        evaluation = ek.evaluate(items, RUBRIC, judge, samples=1, labels=labels, progress=False)
        by_id = ek.split_labels(labels)  # which knows no texts
        with pytest.raises(InputError, match="share a cluster or text with dev labels"):
            improve(evaluation, by_id, judge=helper())
        found = improve(evaluation, judge=helper())
        places = [int.from_bytes(hashlib.sha256(f"i{at % 60:04d}".encode()).digest()[:8]) / 2**64 for at in range(400)]
        held = [at for at, number in enumerate(places) if number >= 0.6]  # by the first item of each text
        assert (found.n_tested, found.n_clusters) == (len(held), len({at % 60 for at in held}))

    def test_candidates_that_are_no_change_of_wording(self):
        evaluation, _ = case()
        with pytest.raises(InputError, match="is the same rubric as that of the evaluation"):
            improve(evaluation, candidate=RUBRIC)
        with pytest.raises(InputError, match="other levels or another pass rule"):
            improve(evaluation, candidate=RUBRIC.edit("c", scale={0: "no", 1: "so", 2: "yes"}, pass_at=2))

    def test_a_table_has_no_judges(self):
        evaluation, labels = case(60)
        made = ek.Evaluation.of(evaluation.judgments, evaluation.items, labels, RUBRIC)
        with pytest.raises(InputError, match="needs the judges' settings"):
            improve(made, judge=helper())

    def test_a_look_that_cannot_be_noted_is_not_taken(self, tmp_path, monkeypatch):
        evaluation, _ = case(cache=tmp_path)
        found = improve(evaluation, judge=helper(), look=False)

        def full(*_):
            raise CacheError("the disk is full")

        monkeypatch.setattr("evalkit.stats.alignment.held_out_tests.append_log", full)
        with pytest.raises(CacheError):
            improve(evaluation, candidate=found.candidate)


class TestPaying:
    """A loopback server as the judge, whose price is known: 100 tokens in, 11 out."""

    def served(self, server, n=200):
        ids = [f"i{at:04d}" for at in range(n)]
        items = pd.DataFrame({"item_id": ids, "answer": ids})
        labels = pd.DataFrame(
            {"item_id": ids, "criterion": "c", "annotator": "p", "label": [str(truth(i)) for i in ids]}
        )
        judge = ek.Judge(
            "openai", "m", name="m", base_url=server.url, temperature=None, price=(100, 100), max_tokens=20
        )
        return ek.evaluate(items, RUBRIC, judge, samples=1, labels=labels, progress=False, retries=0)

    def test_a_budget_below_the_price_of_the_held_out_items(self):
        with judge_server(always={"content": '{"score": 1}'}) as server:
            evaluation = self.served(server)
            n = len(server.seen)
            with pytest.raises(ConfigError, match=r"is too small: judging the \d+ held-out items will cost about"):
                improve(evaluation, judge=helper(), budget_usd=0.01)
            assert len(server.seen) == n

    def test_the_search_stops_at_the_budget_less_the_part_that_is_set_aside(self):
        with judge_server(always={"content": '{"score": 1}'}) as server:
            evaluation = self.served(server)
            n = len(server.seen)
            free = helper(("w1", "w2", "w3")).replace(price=(0, 0), max_tokens=2_000)
            found = improve(evaluation, judge=free, budget_usd=5.0, rounds=3)
            assert "missing (budget)" in str(found)
            assert found.outcome == "unfinished"
            assert len(found.table) < 3
            spent = (len(server.seen) - n) * 111 * 100 / 1e6
            assert 0 < spent <= 5.0 - 90 * 111 * 100 / 1e6  # about half of 200 items are held out

    def test_missing_replies_take_no_look(self):
        with judge_server(always={"content": '{"score": 1}'}) as server:
            evaluation = self.served(server)
            server.faults = lambda body: {"status": 400} if "i0001" in str(body) else None
            held = ek.split_labels(evaluation.labels)
            assert held.loc[held["item_id"] == "i0001", "part"].tolist() == ["held-out"]
            found = improve(evaluation, candidate=RUBRIC.edit("c", scale={1: "yes helps"}), retries=0)
            assert (found.outcome, found.look) == ("unfinished", 0)
            assert "1 reply is missing" in str(found)
            assert held_out_looks()["n_looks"].sum() == 0
            server.faults = None
            assert improve(evaluation, candidate=RUBRIC.edit("c", scale={1: "yes helps"})).look == 1


SCRIPT = """
import os, sys
sys.path[:0] = {folders!r}
import test_improving_long as t
from evalkit.stats.alignment.held_out_tests import HeldOutLog
if sys.argv[2] == "kill":
    HeldOutLog.close = lambda *a, **k: os._exit(9)
evaluation, _ = t.case(cache=sys.argv[1])
found = t.improve(evaluation, candidate=t.RUBRIC.edit("c", scale={{1: "yes helps"}}))
print(found.outcome, found.look)
"""


class TestProcesses:
    def test_a_process_killed_in_its_look_takes_the_same_look_again(self, tmp_path):
        script = SCRIPT.format(folders=[str(SUPPORT), str(Path(__file__).parent)])
        command = [sys.executable, "-c", script, str(tmp_path)]
        killed = subprocess.run([*command, "kill"], capture_output=True, text=True, timeout=300, check=False)
        assert killed.returncode == 9, killed.stderr
        assert not [line for line in read_log(tmp_path) if "kept" in line]
        again = subprocess.run([*command, "go on"], capture_output=True, text=True, timeout=300, check=False)
        assert again.stdout.split() == ["kept", "1"], again.stderr

    def test_two_sessions_at_once_have_two_looks(self, tmp_path):
        items = ItemSet.of("c", ["a", "b"])
        logs = [HeldOutLog(tmp_path, "c", name) for name in "xy"]
        for name in "xy":  # both note their look before either counts
            append_log(tmp_path, [{"criterion": "c", "candidate": name, "labels": items.key}], [items])
        assert [log.look(items, name, {})[0] for log, name in zip(logs, "xy", strict=True)] == [1, 2]


class TestTuner:
    def tuner(self, tmp_path, n=400, n_labelled=None):
        evaluation, labels = case(n)
        labels = labels.head(n_labelled or n)
        judge = ek.Judge.function(ask, name="j", version="1")
        made = ek.RubricTuner(evaluation.items, RUBRIC, judge, labels, samples=1, folder=tmp_path, name="t")
        made.run()
        return made

    @pytest.mark.parametrize("n_of_ben", [0, 9, 10, 200])
    def test_the_labels_are_those_of_the_strip(self, tmp_path, n_of_ben):
        """An annotator with few labels counts in neither; with more, items on which the two differ test nothing."""
        evaluation, labels = case(400)
        others = labels.head(n_of_ben).assign(annotator="ben")
        others["label"] = ["1" if label == "0" else "0" for label in others["label"].astype(str)]
        judge = ek.Judge.function(ask, name="j", version="1")
        both = pd.concat([labels.astype(str), others.astype(str)])
        tuner = ek.RubricTuner(evaluation.items, RUBRIC, judge, both, samples=1, folder=tmp_path, name="t")
        tuner.run()
        assert tuner.wait_idle(300)
        n_tied = 0 if n_of_ben < 10 else n_of_ben
        dev, held = re.findall(r"(\d+) (?:dev|held-out) items", tuner.state["suggestions"]["improve"])
        assert int(dev) + int(held) == 400 - n_tied
        figures = tuner.session.alignment(tuner.session.runs.current)
        in_dev = (tuner.labels.drop_duplicates("item_id")["part"] == "dev").sum()
        tied = tuner.labels[tuner.labels["item_id"].isin(others["item_id"]) & (tuner.labels["part"] == "dev")]
        assert figures["n_labelled"] == in_dev
        assert int(dev) == in_dev - (tied["item_id"].nunique() if n_tied else 0)

    def test_the_price_is_named_first_and_what_is_kept_is_in_the_draft(self, tmp_path):
        tuner = self.tuner(tmp_path)
        held = int((tuner.labels["part"] == "held-out").sum())
        assert tuner.wait_idle(300)
        assert tuner.state["suggestions"]["improve"] == (
            f"Improve: asks this judge up to 3 times for edits, judges each on {400 - held} dev items, and tests "
            f"the best once on {held} held-out items. Price: price unknown, plus 3 prompts for edits."
        )
        text = tuner.improve(helper())
        assert text.startswith("r, c: kept; 1 edit tried, 1 taken")
        assert tuner.rubric.criterion("c").scale[1] == "yes helps"
        assert any(
            note.startswith("round 1, c: level 1: “yes helps” fixed ") for note in tuner.state["suggestions"]["notes"]
        )
        tuner.run()
        assert len(tuner.versions) == 2

    def test_its_test_is_one_look_and_no_sentence_on_screen_contradicts_it(self, tmp_path):
        """Chance is not measured and the dev gain is small, but the held-out labels decide; also after a restart."""
        tuner = self.tuner(tmp_path, 150, 124)
        text = tuner.improve(helper())
        tested = int(re.search(r"Kept by the test on (\d+) held-out items \(look 1,", text)[1])
        tuner.run()  # judges the other items: the look stays
        again = ek.RubricTuner(tuner.session.items, RUBRIC, tuner.session.drafts.judges, tuner.labels, samples=1,
                               folder=tmp_path, name="t")  # fmt: skip
        for made in (tuner, again):
            assert made.wait_idle(300)
            figures, suggestions = made.state["figures"], made.state["suggestions"]
            decision = " ".join(map(str, figures["decision"].values()))
            assert figures["decision"]["verdict"] == "Keep v1.1."
            assert "the test of Improve on the held-out labels kept it (+0." in decision
            assert "not looked at" not in decision
            assert "chance is not measured" not in decision
            assert figures["held_out"]["looks"] == "look 1, the test of Improve"
            assert figures["held_out"]["compared"].startswith(f"{tested} of {tested} labelled items; no interval: ")
            assert suggestions["improve_lack"].endswith("and 26 have none: add items to the table.")
            assert f"{tested} were used to test a change that was kept" in suggestions["improve_lack"]
            made.receive({"do": "held_out", "seen": figures["held_out"]["looks"]})
            assert made.wait_idle(300)
            assert made.state["figures"]["held_out"] == figures["held_out"]
        assert held_out_looks()["n_looks"].sum() == 1
        # a second pair of versions has not been looked at, and the screen says how many looks there were
        again.edit("c", scale={0: "not so"})
        again.run()
        assert "against v1; 1 look at them so far" in str(again.state["figures"]["decision"]) or (
            again.state["figures"]["decision"]["kind"] != "keep"
        )
        again.session.look_held_out()
        assert again.session.look["number"] == 2

    def test_not_kept_changes_nothing_and_names_no_held_out_figure(self, tmp_path):
        tuner = self.tuner(tmp_path)
        (word,) = lucky_words(tuner.labels)
        text = tuner.improve(helper((word,)))
        assert text.splitlines()[0].startswith("r, c: not kept")
        assert not tuner.rubric.edited
        assert [line for line in text.splitlines() if "fixed" in line] == [
            line for line in text.splitlines() if line.startswith("round ")
        ]
        again = ek.RubricTuner(tuner.session.items, RUBRIC, "fake:strict", tuner.labels, folder=tmp_path, name="t")
        assert again.state["suggestions"]["head"].startswith("r, c: not kept")

    def test_by_a_click_and_too_few_labels(self, tmp_path):
        tuner = self.tuner(tmp_path, 90)
        tuner.receive({"do": "improve", "judge": "fake:strict"})
        assert tuner.wait_idle(300)
        shown, held = tuner.state["suggestions"], int((tuner.labels["part"] == "held-out").sum())
        lack = f"Improve needs 40 held-out items that can test it, there are {held}: that takes labels for about "
        assert shown["improve"] == ""
        assert shown["improve_lack"].startswith(lack)
        assert lack in tuner.state["alert"]  # the same words after the click
        assert "look=" not in tuner.state["alert"]
