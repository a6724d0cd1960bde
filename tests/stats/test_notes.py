"""Notes: facts in functions, one text in tables."""

import itertools

import numpy as np
import pandas as pd
from judgment_tables import NAMES, ORDINAL, judgments

from evalkit.stats.agreement.reliabilities import reliability
from evalkit.stats.alignment.judge_alignment import align
from evalkit.stats.intervals import Interval
from evalkit.stats.result_tables import (
    Note,
    figure_row,
    jackknife_row,
    joined,
    notes_of,
    result_table,
    row_notes,
    with_facts,
)
from evalkit.stats.voting import vote

KINDS = ("figure", "interval")


def test_the_sentence_of_a_note_is_made_of_its_facts():
    titles = {"kappa": "Cohen's kappa", "mae": "error"}
    for names in itertools.chain.from_iterable(itertools.combinations(("kappa", "mae", "bias"), n) for n in range(4)):
        for kind in KINDS:
            note = Note("nothing varies", names, kind)
            start = "no interval of " if kind == "interval" else ""
            assert str(note) == (f"{start}{', '.join(names)}: nothing varies" if names else f"{start}nothing varies")
            shown = [titles[name] for name in names if name in titles]
            expected = f"{start}{', '.join(shown)}: nothing varies" if shown else None
            assert note.about(titles) == (expected if names else str(note))


def test_a_table_has_texts_and_gives_facts_back():
    facts = [Note("why", ("kappa", "mae"), "interval"), Note("only 4 clusters"), Note("too few", ("bias",))]
    cases = [list(part) for n in range(4) for part in itertools.combinations(facts, n)]
    rows = [{"judge": f"j{at}", "notes": [None, case[:1], [case[1:], ""]]} for at, case in enumerate(cases)]
    table = result_table(rows, ["judge", "notes"])
    for shuffled in (table, table[::-1], table.sample(frac=1, random_state=1).reset_index(drop=True)):
        for _, row in shuffled.iterrows():
            case = cases[int(row["judge"][1:])]
            assert notes_of(row) == case
            assert (None if pd.isna(row["notes"]) else row["notes"]) == joined(case)
    plain = pd.DataFrame({"judge": ["a", "b"], "notes": ["one; two", None]})  # from a file
    assert row_notes(plain, "judge") == [("a", "one"), ("a", "two")]


def test_a_missing_figure_and_a_missing_interval_are_told_apart():
    notes: list[Note | str] = []
    figure_row("kappa", 0.5, Interval.none("fewer than two clusters"), notes)
    figure_row("mae", 0.5, Interval(0.1, 0.9), notes)
    jackknife_row("alpha", np.array([np.nan, 0.5]), "atanh", notes, "nothing varies")
    assert notes == [Note("fewer than two clusters", ("kappa",), "interval"), Note("nothing varies", ("alpha",))]


def test_users_get_the_same_table_without_facts():
    for scale, code in ((ORDINAL, 2), (NAMES, "art")):
        table = judgments({(f"i{n}", judge): [code] for n in range(4) for judge in "ab"}, scale)
        labels = pd.DataFrame({"item_id": ["i0", "i1", "none"], "criterion": "c", "annotator": "p", "label": str(code)})
        for function, given in ((reliability, (table,)), (align, (vote(table), labels))):
            told, noted = function(*given), with_facts(function)(*given)
            pd.testing.assert_frame_equal(told, noted)
            assert not told.attrs
            facts = [note for _, row in noted.iterrows() for note in notes_of(row)]
            assert any(note.figures for note in facts), facts
            assert any("of no item, such as 'none'" in note.reason for note in facts) == (function is align)
            texts = ["; ".join(map(str, notes_of(row))) for _, row in noted.iterrows()]
            assert texts == told["notes"].tolist()


def test_a_column_of_the_users_own_is_read_as_its_text():
    values = [0, ["a", "b"], np.array(["a", "b"]), "", None, np.nan, pd.NA, "one; two"]
    table = pd.DataFrame({"notes": pd.Series(values, dtype=object)})
    read = [[str(note) for note in notes_of(row)] for _, row in table.iterrows()]
    assert read == [["0"], ["['a', 'b']"], ["['a' 'b']"], [], [], [], [], ["one", "two"]]
