"""Scores: the judges of a jury become one score, criteria one rubric score, items one figure."""
