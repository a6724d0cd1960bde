"""Rubrics, criteria, scales and profiles: what is judged, and how."""

from evalkit.rubrics.models import Criterion, Rubric
from evalkit.rubrics.scales import Code, Level, Scale, code_text, number

__all__ = ["Code", "Criterion", "Level", "Rubric", "Scale", "code_text", "number"]
