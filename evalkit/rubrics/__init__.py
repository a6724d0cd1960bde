"""Rubrics, criteria, scales and profiles: what is judged, and how."""

from evalkit.rubrics.criteria import Criterion
from evalkit.rubrics.drafts import draft
from evalkit.rubrics.files import list_rubrics, load_rubric, rubric_folders, save
from evalkit.rubrics.models import Rubric
from evalkit.rubrics.pollux import load_pollux
from evalkit.rubrics.profiles import Profile, load_profile
from evalkit.rubrics.scales import Code, Level, Scale, code_text, number
from evalkit.rubrics.wording import Finding, diff, review

__all__ = [
    "Code",
    "Criterion",
    "Finding",
    "Level",
    "Profile",
    "Rubric",
    "Scale",
    "code_text",
    "diff",
    "draft",
    "list_rubrics",
    "load_pollux",
    "load_profile",
    "load_rubric",
    "number",
    "review",
    "rubric_folders",
    "save",
]
