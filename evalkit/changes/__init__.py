"""What changed between two evaluations, beside what would have changed by chance."""

from evalkit.changes.comparisons import Comparison, compare
from evalkit.changes.floors import noise_floor

__all__ = ["Comparison", "compare", "noise_floor"]
