"""Suggestions: edits of a rubric's wording, from items on which judges and people disagree."""
