"""Agreement with and without the answers that rest on a repaired reply."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

import evalkit as ek
from evalkit import tables
from evalkit.engine.judging.replies_to_judgments import answer_notes
from evalkit.errors import InputError

SCALE = '{"codes":[0,1],"better":"high","pass_at":1}'
ITEMS, SAID = list("abcdefgh"), [1, 1, 0, 1, 0, 0, 1, 0]
# people pass a to d; the judge is wrong on c and g
LABELS = pd.DataFrame({"item_id": ITEMS, "criterion": "c", "annotator": "ann", "label": [1, 1, 1, 1, 0, 0, 0, 0]})


def judgments(repaired: str | None, judge: str = "j", samples: int = 1) -> pd.DataFrame:
    """A row per item and sample; of the items in `repaired`, the last sample got its score by a repair."""
    n = len(ITEMS) * samples
    columns = {
        "rubric": ["r"] * n, "rubric_version": ["v1"] * n, "item_id": np.repeat(ITEMS, samples), "criterion": ["c"] * n,
        "judge": [judge] * n, "sample": [*range(samples)] * len(ITEMS), "score": np.repeat(SAID, samples).astype(float),
        "score_norm": np.repeat(SAID, samples).astype(float), "label": [str(code) for code in np.repeat(SAID, samples)],
        "passed": np.repeat(SAID, samples) == 1, "level": ["ordinal"] * n, "scale": [SCALE] * n,
    }  # fmt: skip
    table = tables.table("judgments", columns)
    if repaired is None:
        return table
    return table.assign(repaired=table["item_id"].isin(list(repaired)) & table["sample"].eq(samples - 1))


def test_the_note_has_the_agreement_on_the_items_that_no_repair_bears_on() -> None:
    table = ek.align(ek.vote(judgments("cg")), LABELS)
    assert table["accuracy"].tolist() == [0.75]
    assert table["n_repaired"].tolist() == [2]
    (note,) = [note for note in table["notes"].iloc[0].split("; ") if "repaired" in note]
    assert note.startswith("2 of 8 labelled items by a repaired reply (on the other 6 items: accuracy 1.00")
    assert "kappa 1.00" in note


def test_by_repaired_shows_both_groups() -> None:
    table = ek.align(ek.vote(judgments("cg")), LABELS, by="repaired").set_index("repaired")
    assert table["accuracy"].to_dict() == {False: 1.0, True: 0.0}
    assert table["n_items"].to_dict() == {False: 6, True: 2}


def test_without_the_column_nothing_is_said() -> None:
    table = ek.align(ek.vote(judgments(None)), LABELS)
    assert "n_repaired" not in table
    assert "repair" not in str(table["notes"].iloc[0])
    unused = ek.align(ek.vote(judgments("")), LABELS)
    assert unused["n_repaired"].tolist() == [0]
    assert "repair" not in str(unused["notes"].iloc[0])


def test_where_all_rest_on_repairs_there_is_no_other_figure() -> None:
    notes = ek.align(ek.vote(judgments("".join(ITEMS))), LABELS)["notes"].iloc[0]
    assert "8 of 8 labelled items by a repaired reply (all of them)" in notes


def test_items_without_a_label_do_not_count() -> None:
    table = ek.align(ek.vote(judgments("cgh")), LABELS[LABELS["item_id"] != "h"])
    assert table["n_repaired"].tolist() == [2]


def test_one_sample_or_one_judge_is_enough_to_mark_a_vote_and_a_score() -> None:
    votes = ek.vote(pd.concat([judgments("c", samples=3), judgments("", judge="k", samples=3)], ignore_index=True))
    assert votes.groupby("judge", observed=True)["repaired"].sum().to_dict() == {"j": 1, "k": 0}
    scores = ek.aggregate(votes)
    assert scores.loc[scores["repaired"], "item_id"].tolist() == ["c"]
    idle = ek.aggregate(votes, weights={"j": 0})
    assert not idle["repaired"].any(), "a judge without weight bears on no score"
    assert "repaired" not in ek.aggregate(ek.vote(judgments(None)))


@pytest.mark.parametrize("way", ["csv", "jsonl", "concat"])
def test_tables_from_files_and_joined_ones_keep_what_was_repaired(way: str) -> None:
    table = judgments("cg")
    if way == "csv":
        table = pd.read_csv(io.StringIO(table.to_csv(index=False)))
    elif way == "jsonl":
        table = pd.read_json(io.StringIO(table.to_json(orient="records", lines=True)), lines=True)
    else:  # the other table has no such column: NA there
        table = pd.concat([table, judgments(None, judge="k")], ignore_index=True)
    votes = ek.vote(table)
    assert votes.loc[votes["repaired"], "item_id"].tolist() == ["c", "g"]
    assert ek.align(votes, LABELS)["n_repaired"].tolist() == ([2, 0] if way == "concat" else [2])
    with pytest.raises(InputError, match="'repaired' of the judgments table is not boolean"):
        ek.vote(table.assign(repaired="perhaps"))


def test_a_comparison_names_the_side_that_has_repaired_replies() -> None:
    shown = str(ek.compare(judgments("cg"), judgments(None)))
    assert "judge j, repaired replies" in shown
    assert shown.count("repaired replies") == 1
    both = str(ek.compare(judgments("cg"), judgments("a")))
    assert both.count("repaired replies") == 2
    joined = pd.concat([judgments(None)[:4], judgments("")[4:]], ignore_index=True)
    assert "repaired replies" not in str(ek.compare(joined, judgments(None))), "NA is no repair"


def test_replies_that_are_still_unread_are_counted_apart() -> None:
    table = judgments("cg").assign(error=pd.Categorical([None] * 5 + ["ambiguous", None, "unreadable"]))
    unread = table["error"].notna()
    empty = {"score": np.nan, "score_norm": np.nan, "label": None, "passed": pd.NA}
    table = table.assign(**{name: table[name].where(~unread, value) for name, value in empty.items()})
    (note,) = answer_notes(table)
    assert note.startswith("judge 'j': 2 of 8 judgments (25%) by a repaired reply")
    assert note.endswith("1 unreadable, 1 ambiguous")
    assert answer_notes(judgments("")) == answer_notes(judgments(None)) == []
