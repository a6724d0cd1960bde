"""Scores: the judges of a jury become one score, criteria one rubric score, items one figure."""

from evalkit.aggregation.combining import combine
from evalkit.aggregation.juries import AggregateMethod, aggregate
from evalkit.aggregation.summaries import summarize
from evalkit.aggregation.worths import jury_value

__all__ = ["AggregateMethod", "aggregate", "combine", "jury_value", "summarize"]
