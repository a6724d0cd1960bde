"""Suggesting: edits of a rubric's wording, from items where judges and people disagree."""

from evalkit.evaluation.suggestions.cases import Case, Cases, cases_of, groups_of
from evalkit.evaluation.suggestions.edit_effects import change_of, measure_edit
from evalkit.evaluation.suggestions.edits import Edit, Refusal, Suggestions
from evalkit.evaluation.suggestions.requests import suggest_edits

__all__ = [
    "Case",
    "Cases",
    "Edit",
    "Refusal",
    "Suggestions",
    "cases_of",
    "change_of",
    "groups_of",
    "measure_edit",
    "suggest_edits",
]
