"""Judges against people: agreement with human labels, beside the agreement of the people themselves."""

from evalkit.validity.alignment import align
from evalkit.validity.parts import held_out_looks, split_labels

__all__ = ["align", "held_out_looks", "split_labels"]
