"""What a grid of judges and samples lists, and its notes."""

from itertools import product

from judgment_tables import judgments

from evalkit.stats.agreement.phi_grids import phi_grid
from evalkit.stats.agreement.reliabilities import reliability


def test_the_grid_and_its_notes_on_two_items():
    table = judgments({(item, judge): [0, 2] if item == "i" else [2, 1] for item in "ik" for judge in "ab"})
    grid = phi_grid(table)
    assert [*zip(grid["n_judges"], grid["n_samples"], strict=True)] == [*product((1, 2, 3, 4, 5), (1, 2, 3, 5, 10))]
    assert not grid["notes"].str.contains("one sample per judge").any()


def test_a_negative_component_is_set_to_0_with_a_note():
    # the judges contradict each other on both items: the items' means are equal, although the votes vary
    apart = judgments({("i", "a"): [0], ("i", "b"): [2], ("k", "a"): [2], ("k", "b"): [0]})
    assert "a negative variance component was set to 0" in reliability(apart)["notes"].iloc[0]
    # a and b agree on items that differ
    together = judgments({("i", "a"): [0], ("i", "b"): [0], ("k", "a"): [2], ("k", "b"): [2]})
    assert "negative" not in reliability(together)["notes"].iloc[0]
