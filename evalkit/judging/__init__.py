"""Judging: items → keys → what is missing → calls → the judgments table."""

from evalkit.judging.explaining import explain
from evalkit.judging.importing import import_judgments
from evalkit.judging.options import Options
from evalkit.judging.plans import Plan, plan
from evalkit.judging.recording import readings, record, replies
from evalkit.judging.runs import ajudge, judge, judge_chunk
from evalkit.judging.specs import Spec
from evalkit.judging.works import Work

__all__ = [
    "Options",
    "Plan",
    "Spec",
    "Work",
    "ajudge",
    "explain",
    "import_judgments",
    "judge",
    "judge_chunk",
    "plan",
    "readings",
    "record",
    "replies",
]
