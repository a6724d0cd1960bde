"""Items that split: two judges' verdicts (without pass rule: labels) differ; ties and unscored votes have none."""

import pandas as pd
from judgment_tables import NAMES, ORDINAL, PLAIN, judgments

import evalkit as ek


def splits(cells, scale):
    made = ek.disagreement(ek.vote(judgments(cells, scale)))
    return made["split"].astype(object).where(made["split"].notna(), None).tolist()


def test_by_verdict_where_there_is_a_rule():
    assert splits(
        {
            ("means", "x"): [0, 1], ("means", "y"): [0, 0],  # .5 and 0, and both fail
            ("split", "x"): [2, 2], ("split", "y"): [1, 0],
            ("tied", "x"): [2, 0], ("tied", "y"): [2, 2],  # one verdict
            ("unread", "x"): ["!no"], ("unread", "y"): [2],
            ("three", "x"): [2, 0], ("three", "y"): [2], ("three", "z"): [0],
        },
        ORDINAL,
    ) == [False, True, None, None, True]  # fmt: skip


def test_by_label_without_a_rule():
    assert splits({("a", "x"): [1, 2, 2], ("a", "y"): [2], ("b", "x"): [1], ("b", "y"): [2]}, PLAIN) == [False, True]
    assert splits({("a", "x"): ["art"], ("a", "y"): ["art"], ("b", "x"): ["art"], ("b", "y"): ["law"]}, NAMES) == [
        *(False, True)
    ]


def test_the_overview_counts_them():
    cells = {("a", "x"): [0, 1], ("a", "y"): [0, 0], ("b", "x"): [2, 2], ("b", "y"): [0, 0]}
    cells |= {("c", "x"): [0, 2], ("c", "y"): [2, 2]}
    items = pd.DataFrame({"item_id": list("abc"), "answer": ["one", "two", "three"]})
    text = str(ek.Evaluation.of(judgments(cells, ORDINAL), items))
    # a: .25 apart and both fail; c: one tied verdict
    assert "1 of 2" in next(line for line in text.splitlines() if line.startswith("items that split"))


def test_criteria_of_other_scales_do_not_matter():
    # by the most frequent code; on three items two judges say 0, 0 · 2, 2 · 0, 2 and art, art · law, law · art, law
    answers = {("a", "x"): 0, ("a", "y"): 0, ("b", "x"): 1, ("b", "y"): 1, ("c", "x"): 0, ("c", "y"): 1}
    parts = [
        judgments({cell: [codes[at]] for cell, at in answers.items()}, scale, criterion=name)
        for name, scale, codes in (("number", ORDINAL, (0, 2)), ("topic", NAMES, ("art", "law")))
    ]
    votes = [ek.vote(part, method="majority") for part in (*parts, pd.concat(parts))]
    alone, whole = pd.concat([ek.reliability(part) for part in votes[:2]]), ek.reliability(votes[2])
    # nominal: six answers, three of each; n_c = 3, o = 4 of 6 pairs agree: 1 − (6 − 1)(6 − 4)/(36 − 18) = 4/9
    assert whole["alpha_vote"].round(6).tolist() == alone["alpha_vote"].round(6).tolist() == [0.444444, 0.444444]
    assert whole["percent_agreement"].round(6).tolist() == [0.666667, 0.666667]
