"""What changed between two evaluations, and what sampling alone explains of it."""

from evalkit.changes.comparisons import Comparison, compare
from evalkit.changes.repeats import noise_floor, plan_again, sample_again

__all__ = ["Comparison", "compare", "noise_floor", "plan_again", "sample_again"]
