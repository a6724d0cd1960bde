"""Judges against people: agreement with human labels, beside the agreement of the people themselves."""

from evalkit.stats.alignment.alternative_annotator import AltTest, alt_test
from evalkit.stats.alignment.confusion_matrices import confusion
from evalkit.stats.alignment.corrected_means import corrected_mean
from evalkit.stats.alignment.judge_alignment import align
from evalkit.stats.alignment.label_splits import held_out_looks, split_labels
from evalkit.stats.alignment.pass_thresholds import pass_threshold

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
