"""Scores: the judges of a jury become one score, criteria one rubric score, items one figure."""

from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.aggregation.combining_criteria import combine
from evalkit.stats.aggregation.judge_contributions import jury_value
from evalkit.stats.aggregation.summaries import summarize

__all__ = ["aggregate", "combine", "jury_value", "summarize"]
