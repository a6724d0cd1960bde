"""What changed between two evaluations, and what sampling alone explains of it."""

from evalkit.stats.comparison.comparisons import Comparison, compare
from evalkit.stats.comparison.floor_table import noise_floor

__all__ = ["Comparison", "compare", "noise_floor"]
