"""The sentence that decides: every case by its words, and random comparisons against the formulas, written again."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import norm, t

from evalkit.stats.comparison.comparison_table import Circumstances, Difference, alpha_for, decide

TUNED = Circumstances("v5", "v4", labels="the labels that you tune on", unseen="held-out labels: not looked at")


def row(d: float, low: float, high: float, n: int = 100, **more: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "effect": d,
        "effect_low": low,
        "effect_high": high,
        "n_paired": n,
        "n_paired_clusters": n,
    }
    values |= {"against": "labels", "changed": 15, "n_verdicts": n, "n_common": n, "fixed": 14, "broke": 1}
    return values | {"chance_up_to": 9.0, "floor_source": "measured", "change_p": 0.001} | more


ENDS: dict[str, Any] = {"effect_least": 0.05, "effect_least_low": -0.02, "effect_least_high": 0.12, "n_clusters": 100}
ENDS |= {"effect_most": 0.25, "effect_most_low": 0.19, "effect_most_high": 0.31, "evidence_least": 25.0}
ENDS |= {"n_rarer": 9, "effect_by_before_rule": math.nan}
UNMEASURED = {"floor_source": "range", "chance_up_to": 30.0}
BETTER = "It agrees with people on 13 more of 100 items than v4 (+0.13 [0.06, 0.21])."
CHANGED = "15 verdicts changed (14 fixed, 1 broke); asking again changes"
UNSEEN = "On the labels that you tune on; held-out labels: not looked at."
LATER = "Labels were added after a decision was shown, and an interval that is looked at again and again misleads:"


@pytest.mark.parametrize(
    ("compared", "about", "kind", "verdict", "then", "reason", "action"),
    [
        (row(0.13, 0.06, 0.21), TUNED, "keep", "Keep v5.", BETTER,
         f"{CHANGED} 0 to 9. {UNSEEN}", ""),
        # within what asking again changes, but one way: the paired interval allows for that noise
        (row(0.13, 0.06, 0.21, chance_up_to=30.0), TUNED, "keep", "Keep v5.", BETTER,
         f"{CHANGED} 0 to 30, fixed and broken alike. {UNSEEN}", ""),
        (row(0.04, 0.01, 0.09, **UNMEASURED), TUNED, "chance",
         "Cannot tell yet: chance is not measured.", "+0.04 [0.01, 0.09] against v4.",
         ("15 verdicts changed (14 fixed, 1 broke); how many change when the same prompt is asked again is unknown. "
         "Measure chance."), "measure"),
        (row(0.04, 0.01, 0.09, floor_source=None, chance_up_to=math.nan, change_p=math.nan), TUNED, "chance",
         "Cannot tell yet: chance is not measured.", "+0.04 [0.01, 0.09] against v4.",
         ("15 verdicts changed (14 fixed, 1 broke); how many change when the same prompt is asked again is unknown. "
         "With one sample per judge it cannot be measured: run both versions with two samples or more."), ""),
        # more changed than the samples allow for chance, though it is not measured
        (row(0.13, 0.06, 0.21, floor_source="range", chance_up_to=12.0), TUNED, "keep", "Keep v5.", BETTER,
         f"{CHANGED} 0 to 12. {UNSEEN}", ""),
        (row(-0.09, -0.16, -0.02, fixed=2, broke=11), replace(TUNED, worst=", 8 of them people fail, jury pass",
                                                            best="the best so far is v3 (agreement 0.80)"),
         "drop", "Do not keep v5.", "It agrees with people on 9 fewer of 100 items than v4 (−0.09 [−0.16, −0.02]).",
         "2 fixed, 11 broke, 8 of them people fail, jury pass. The best so far is v3 (agreement 0.80).", ""),
        (row(0.0, -0.02, 0.02), replace(TUNED, leaner="Keep the shorter one, v4: 120 characters less."), "same",
         "No difference that matters.", "v5 and v4 are within 3 of 100 items of each other (0.00 [−0.02, 0.02]).",
         "Keep the shorter one, v4: 120 characters less.", ""),
        (row(0.0, 0.0, 0.0, floor_source="same replies", changed=0, fixed=0, broke=0), TUNED, "same",
         "No difference that matters.",
         "v5 and v4 have the same replies, and the same verdicts.", "", ""),
        (row(0.0, 0.0, 0.0, floor_source="same replies", changed=0, fixed=0, broke=0),  # also after a look
         replace(TUNED, held_out=(Difference(0.0, -0.04, 0.04, 60, 60), 1)), "same", "No difference that matters.",
         "v5 and v4 have the same replies, and the same verdicts.", "", ""),
        # n·(1.43·0.075/0.06)² = 100·3.195 = 319.5: 219.5 more, so about 220; at 12 s each 44 minutes
        (row(0.06, -0.01, 0.14), replace(TUNED, n_items=400, seconds=12.0), "open",
         "Cannot tell: label about 220 more items.", "v5 may be better than v4 (+0.06 [−0.01, 0.14]).",
         "That many (about 44 minutes) decide in four cases of five if the difference stays as it is.", "queue"),
        # of what is labelled, 60 % counts here: 219.5/0.6 = 366
        (row(0.06, -0.01, 0.14), replace(TUNED, n_items=600, dev_share=0.6), "open",
         "Cannot tell: label about 370 more items.", "v5 may be better than v4 (+0.06 [−0.01, 0.14]).",
         "That many decide in four cases of five if the difference stays as it is.", "queue"),
        (row(-0.06, -0.14, 0.01), replace(TUNED, n_items=150), "open", "Cannot tell, and labels will not decide it.",
         "v5 may be worse than v4 (−0.06 [−0.14, 0.01]).",
         "About 320 labels in all would be needed if the difference stays as it is; there are 150 items.", ""),
        (row(0.0, -0.07, 0.07), replace(TUNED, n_items=150), "open", "Cannot tell, and labels will not decide it.",
         "v5 and v4 agree with people equally often (0.00 [−0.07, 0.07]).",
         "If the difference stays as it is, labels for all 150 items would not decide it.", ""),
        # ten versions: 45 pairs, so t of .05/45 (3.357 at 99) in place of 1.984: 0.135 ± 0.075·1.692
        (row(0.13, 0.06, 0.21), replace(TUNED, n_versions=10), "keep", "Keep v5.",
         "It agrees with people on 13 more of 100 items than v4 (+0.13 [0.01, 0.26]).",
         ("15 verdicts changed (14 fixed, 1 broke); asking again changes 0 to 9. On the labels that you tune on; "
         "held-out labels: not looked at; interval widened for 10 versions (Bonferroni)."), ""),
        # look 2: one-sided .05/6, so the interval of .1/6
        (row(0.13, 0.06, 0.21), replace(TUNED, held_out=(Difference(-0.02, -0.09, 0.05, 60, 60), 2)), "held-out",
         "Do not keep v5.",
         "On the held-out labels of 60 items it is not shown to be better than v4 (−0.02 [−0.11, 0.07]).",
         ("On the labels that you tune on: +0.13 [0.06, 0.21]. "
         "This was look 2 at the held-out labels, and each look makes the test stricter."), ""),
        (row(-0.1, -0.16, -0.04), replace(TUNED, held_out=(Difference(-0.26, -0.43, -0.09, 60, 60), 1)), "held-out",
         "Do not keep v5.", "On the held-out labels of 60 items it is worse than v4 (−0.26 [−0.43, −0.09]).",
         ("On the labels that you tune on: −0.10 [−0.16, −0.04]. "
         "This was look 1 at the held-out labels, and each look makes the test stricter."), ""),
        (row(0.13, 0.06, 0.21), replace(TUNED, held_out=(Difference(0.1, 0.03, 0.17, 60, 60), 1)), "keep", "Keep v5.",
         BETTER,
         ("15 verdicts changed (14 fixed, 1 broke); asking again changes 0 to 9. "
         "On the labels that you tune on; the held-out labels confirm it (+0.10 [0.03, 0.17], look 1)."), ""),
        # held-out labels decide also where the others do not, or chance is not measured
        (row(0.06, -0.01, 0.14), replace(TUNED, held_out=(Difference(0.1, 0.03, 0.17, 60, 60), 1)), "keep", "Keep v5.",
         ("On the held-out labels of 60 items, it agrees with people on 10 more of 100 items than v4 "
          "(+0.10 [0.03, 0.17])."),
         ("15 verdicts changed (14 fixed, 1 broke); asking again changes 0 to 9. On the labels that you tune on: +0.06 "
         "[−0.01, 0.14]; the held-out labels confirm it (+0.10 [0.03, 0.17], look 1)."), ""),
        (row(0.13, 0.06, 0.21, changed=9, floor_source="given", chance_up_to=9.0),
         replace(TUNED, held_out=(Difference(0.1, 0.03, 0.17, 60, 60), 1)), "keep", "Keep v5.", BETTER,
         ("9 verdicts changed (14 fixed, 1 broke); asking again changes 0 to 9, fixed and broken alike. On the labels "
         "that you tune on; the held-out labels confirm it (+0.10 [0.03, 0.17], look 1)."), ""),
        # a small effect is not rounded to none, nor an end to the wrong side of 0
        (row(0.004, 0.001, 0.007, n=4000), TUNED, "keep", "Keep v5.",
         "It agrees with people on less than 1 more of 100 items than v4 (+0.004 [0.001, 0.007]).",
         f"{CHANGED} 0 to 9. {UNSEEN}", ""),
        (row(0.13, 0.06, 0.21, against="distances"), TUNED, "keep", "Keep v5.",
         "Its scores are nearer to people's on 13 more of 100 items than v4's (+0.13 [0.06, 0.21]).",
         ("Scores: 14 nearer to people's, 1 farther; asking again changes 0 to 9. "
         "On the labels that you tune on; held-out labels: not looked at."), ""),
        # nothing is kept where one verdict for all would agree as well, nor by one of two pass rules alone
        (row(0.13, 0.06, 0.21, n_rarer=2), TUNED, "one verdict", "Cannot tell: one verdict for nearly all items.",
         "+0.13 [0.06, 0.21] against v4.",
         ("People, or v5, have another verdict on 2 of 100 items only. A judge that always gives one verdict would "
          "agree as well: label items that should get the other."), "queue"),
        (row(0.13, 0.06, 0.21, effect_by_before_rule=-0.1, effect_by_before_rule_low=-0.2,
             effect_by_before_rule_high=0.0), TUNED, "rule", "Cannot tell: it depends on the pass rule.",
         ("People's labels by the rule of v5: +0.13 [0.06, 0.21] against v4; by that of v4: −0.10 [−0.20, 0.00]."),
         ("15 verdicts changed (14 fixed, 1 broke); asking again changes 0 to 9. Labels cannot say which rule is "
          "right: choose it by what passing is to mean. To compare wordings, give both versions one rule."), ""),
        # labels came after a look: 2⁷·B(7, 1)·P(Beta(7, 1) > ½) = 128/7·(1 − 2⁻⁷) = 18.1; with 7 to 0 it is 31.9
        (row(0.13, 0.06, 0.21, n_clusters_fixed=6, n_clusters_broke=0), replace(TUNED, is_later=True), "early",
         "Cannot tell yet: label more items.", "+0.13 [0.06, 0.21] against v4.",
         f"{LATER} the evidence is 18.1 of 20.", "queue"),
        (row(0.13, 0.06, 0.21, n_clusters_fixed=7, n_clusters_broke=0), replace(TUNED, is_later=True), "keep",
         "Keep v5.", BETTER, f"{CHANGED} 0 to 9. {UNSEEN}", ""),
        (row(-0.09, -0.16, -0.02, fixed=0, broke=7, n_clusters_fixed=0, n_clusters_broke=7),
         replace(TUNED, is_later=True), "drop", "Do not keep v5.",
         "It agrees with people on 9 fewer of 100 items than v4 (−0.09 [−0.16, −0.02]).", "0 fixed, 7 broke.", ""),
        (row(-0.19, -0.26, -0.12, n_clusters_fixed=0, n_clusters_broke=7),  # of three pairs of versions
         replace(TUNED, is_later=True, n_versions=3), "early", "Cannot tell yet: label more items.",
         "−0.19 [−0.28, −0.10] against v4.",
         f"{LATER} the evidence is 31.9 of 60. Interval widened for 3 versions (Bonferroni).", "queue"),
        (row(0.06, -0.01, 0.14, n_unlabelled=22), replace(TUNED, n_items=400), "open",
         "Cannot tell: label the 22 items that changed.", "v5 may be better than v4 (+0.06 [−0.01, 0.14]).",
         "They tell the difference over all items, as about 220 more random labels would.", "changed"),
        (row(0.06, -0.01, 0.14, n_unlabelled=22, **ENDS), replace(TUNED, n_items=400), "open",
         "Cannot tell: label the 22 items that changed.", "v5 may be better than v4 (+0.06 [−0.01, 0.14]).",
         "They tell the difference over all items, as about 220 more random labels would. So far from −0.02 to +0.31.",
         "changed"),
        (row(0.06, -0.01, 0.14, n_unlabelled=1, **ENDS | {"effect_least_low": 0.02}), TUNED, "keep",
         "Keep v5.", "It agrees with people on 5 more of 100 items than v4 (+0.05 [0.02, 0.12]).",
         ("With 1 missing label of items that changed counted against it. 15 verdicts changed (14 fixed, 1 broke); "
          "asking again changes 0 to 9."), ""),
        *[(row(0.06, -0.01, 0.14, n_unlabelled=1, **ENDS | {"effect_least_low": 0.02} | doubt),
           replace(TUNED, n_items=400), "open",
           "Cannot tell: label the 1 item that changed.", "v5 may be better than v4 (+0.06 [−0.01, 0.14]).",
           ("They tell the difference over all items, as about 220 more random labels would. So far from +0.02 to "
            "+0.31."), "changed")
          for doubt in (UNMEASURED, {"evidence_least": 19.0}, {"n_rarer": 2}, {"effect_by_before_rule": 0.1})],
        (row(math.nan, math.nan, math.nan, against="verdicts", n_unlabelled=3, **ENDS), TUNED, "open",
         "Cannot tell: label the 3 items that changed.", "Against v4 the difference is from −0.02 to +0.31.",
         "3 missing labels of items that changed may all count against v5, or all for it.", "changed"),
        (row(0.13, 0.06, 0.21, against="changed", n_unlabelled=0, n_clusters_fixed=7, n_clusters_broke=0), TUNED,
         "keep", "Keep v5.", BETTER,
         ("15 verdicts changed (14 fixed, 1 broke); asking again changes 0 to 9. On the labels of all items that "
          "changed; held-out labels: not looked at."), ""),
        (row(0.13, 0.06, 0.21, against="changed", n_unlabelled=0, n_clusters_fixed=6, n_clusters_broke=0), TUNED,
         "early", "Cannot tell, and labels will not decide it.", "+0.13 [0.06, 0.21] against v4.",
         f"{LATER} the evidence is 18.1 of 20. All items that changed are labelled, so only further items can tell.",
         ""),
        (row(math.nan, math.nan, math.nan), TUNED, "no labels", "Cannot tell: no difference can be computed.",
         "Too few labelled items have a verdict in both v5 and v4.", "", ""),
        (row(0.1, 0.05, 0.15, against="verdicts"), TUNED, "no labels", "Cannot tell: no difference can be computed.",
         "v5 and v4 need labelled items, and the same scale or a pass rule each.", "", ""),
    ],
)  # fmt: skip
def test_every_case_in_its_words(
    compared: Any, about: Circumstances, kind: str, verdict: str, then: str, reason: str, action: str
) -> None:
    decision = decide(compared, about)
    assert (decision.kind, decision.verdict) == (kind, verdict)
    assert decision.then == then
    assert decision.reason == reason
    assert decision.action == action


def test_random_comparisons_are_decided_by_the_formulas() -> None:
    """What is said against what follows from the interval, computed here with scipy's t; nothing contradicts it."""
    rng, seen = random.Random(2), dict[str, int]()
    for _ in range(2000):
        n = rng.choice([5, 20, 60, 150, 1000])
        d = rng.choice([0.0, *(round(rng.uniform(-0.3, 0.3), 3) for _ in range(6))])
        half = rng.choice([0.004, 0.02, 0.05, 0.1, 0.3]) * rng.uniform(0.5, 1.5)
        middle = d * n / (n + 2)  # Agresti and Min shrink the middle
        changed, limit = rng.randint(0, n), rng.choice([0, n // 4, n, math.nan])
        source = rng.choice(["measured", "range", None]) if limit == limit else None
        facts = {
            "changed": changed,
            "chance_up_to": limit,
            "floor_source": source,
            "change_p": rng.choice([0.2, math.nan]),
        }
        compared = row(d, middle - half, middle + half, n, **facts)
        about = replace(TUNED, n_versions=rng.choice([1, 2, 3, 5, 20]), n_items=rng.choice([n, 4 * n, 10**6]))
        decision = decide(compared, about)
        seen[decision.kind] = seen.get(decision.kind, 0) + 1
        pairs = max(1, about.n_versions * (about.n_versions - 1) / 2)
        wide = half * t.isf(0.025 / pairs, n - 1) / t.isf(0.025, n - 1)
        low, high = middle - wide, middle + wide
        could_be_chance = source != "measured" and (math.isnan(limit) or changed <= limit)
        expected = (
            ("chance" if could_be_chance else "keep") if low > 0 else "drop" if high < 0
            else "same" if low >= -0.03 and high <= 0.03 else "open"
        )  # fmt: skip
        assert decision.kind == expected, (compared, about)
        ends = [float(text.replace("−", "-")) for text in re.findall(r"[+−]?\d\.\d+", decision.then)[-3:]]
        assert ends == pytest.approx([d, max(-1, low), min(1, high)], abs=0.0051)
        if abs(low) >= 0.0005:
            assert (ends[1] > 0) == (low > 0), "an end is shown on the side of 0 where it is"
        assert len(decision.verdict.split()) <= 9
        assert ("more of 100" in decision.then) == (expected == "keep")
        assert ("fewer of 100" in decision.then) == (expected == "drop")
        if expected == "open" and (number := re.search(r"about ([\d,]+) more", decision.verdict)):
            more = int(number[1].replace(",", ""))
            needed = (
                n * ((t.isf(0.025 / pairs, n - 1) + norm.ppf(0.8)) / t.isf(0.025 / pairs, n - 1) * wide / d) ** 2 - n
            )
            assert more == max(10, math.ceil(needed / 10 - 1e-9) * 10)
            assert n + more <= (about.n_items or 0)
    assert min(seen.values()) > 30, seen
    assert set(seen) == {"keep", "chance", "drop", "same", "open"}


def test_more_versions_never_make_a_decision_bolder() -> None:
    rng = random.Random(4)
    for _ in range(100):
        d, half = rng.uniform(-0.2, 0.2), rng.uniform(0.01, 0.2)
        kinds = [
            decide(row(d, d - half, d + half), replace(TUNED, n_versions=n, n_items=10**6)).kind for n in range(1, 30)
        ]
        for kind in ("keep", "drop", "same"):
            held = [one == kind for one in kinds]
            assert held == sorted(held, reverse=True), "once it is not decided, it stays so"
    assert [alpha_for(n) for n in (1, 2, 3, 4)] == [0.05, 0.05, 0.05 / 3, 0.05 / 6]


def test_each_look_at_held_out_labels_makes_the_test_stricter() -> None:
    """The look ℓ has a one-sided α of .05/(ℓ(ℓ+1)), as `alpha_of` says."""
    for low in (0.001, 0.01, 0.02, 0.03):
        difference = Difference(0.1, low, 0.2 - low, 80, 80)
        for look in range(1, 12):
            half = (0.1 - low) * t.isf(0.05 / (look * (look + 1)), 79) / t.isf(0.025, 79)
            about = replace(TUNED, held_out=(difference, look))
            assert decide(row(0.13, 0.06, 0.21), about).kind == ("keep" if 0.1 - half > 0 else "held-out")
