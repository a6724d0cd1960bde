"""Judges against people: agreement with human labels, beside the agreement of the people themselves."""

from evalkit.validity.alignment import align
from evalkit.validity.annotators import AltTest, alt_test
from evalkit.validity.confusions import confusion
from evalkit.validity.corrections import corrected_mean
from evalkit.validity.parts import held_out_looks, split_labels
from evalkit.validity.thresholds import pass_threshold

__all__ = [
    "AltTest",
    "align",
    "alt_test",
    "confusion",
    "corrected_mean",
    "held_out_looks",
    "pass_threshold",
    "split_labels",
]
