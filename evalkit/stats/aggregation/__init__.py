"""Scores: the judges of a jury become one score, criteria one rubric score, items one figure."""

from evalkit.stats.aggregation.aggregate_rules import aggregate
from evalkit.stats.aggregation.combining import combine
from evalkit.stats.aggregation.jury_values import jury_value
from evalkit.stats.aggregation.summaries import summarize

__all__ = ["aggregate", "combine", "jury_value", "summarize"]
