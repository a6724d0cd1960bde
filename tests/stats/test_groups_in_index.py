"""Groups count the same whether ids, groups and judges are columns of a table or stand in its index."""

import pandas as pd
import pytest

import evalkit as ek

ITEMS = [f"i{n}" for n in range(12)]
JUDGMENTS = pd.DataFrame(
    [(item, judge, sample, int(n // 3 > 1 or (judge == "b" and n == 0)), f"g{n // 3}")
     for n, item in enumerate(ITEMS) for judge in "ab" for sample in (0, 1)],
    columns=["item_id", "judge", "sample", "score", "group_id"],
)  # fmt: skip
VOTES = JUDGMENTS[JUDGMENTS["sample"] == 0].drop(columns="sample")
SCORES = VOTES[VOTES["judge"] == "a"].drop(columns="judge")
LABELS = pd.DataFrame({"item_id": ITEMS, "label": [int(n // 3 > 1) for n in range(12)]})
DOORS = {
    "compare": (JUDGMENTS, lambda t: ek.compare(t, t.assign(score=1 - t["score"]), scale=[0, 1]).table),
    "reliability": (JUDGMENTS, lambda t: ek.reliability(t, scale=[0, 1])),
    "align": (VOTES, lambda t: ek.align(t, LABELS, scale=[0, 1])),
    "summarize": (SCORES, lambda t: ek.summarize(t, scale=[0, 1])),
    "corpus_estimate": (SCORES, lambda t: ek.stats.corpus_estimate(t, LABELS, scale=[0, 1])),
    "jury_value": (VOTES, lambda t: ek.stats.jury_value(t, LABELS)),
}


@pytest.mark.long
@pytest.mark.parametrize("door", DOORS)
def test_groups_are_the_clusters_wherever_they_stand(door: str) -> None:
    table, figures = DOORS[door]
    expected = figures(table)
    for index in (["item_id"], ["group_id"], ["item_id", "group_id"], ["group_id", "item_id"]):
        pd.testing.assert_frame_equal(figures(table.set_index(index)), expected, obj=str(index))
    if "n_clusters" in expected:
        assert expected["n_clusters"].eq(4).all()  # twelve items in groups of three
