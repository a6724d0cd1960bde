"""Evaluations: everything at once, shown with coverage and spread, frozen for other places."""

from evalkit.evaluation.costs import Cost
from evalkit.evaluation.evaluations import Evaluation, evaluate, evaluate_spec
from evalkit.evaluation.freezing import freeze, promote, write_profile
from evalkit.evaluation.rules import Rules
from evalkit.evaluation.showing import View, cache_stats, load_example, show

__all__ = [
    "Cost",
    "Evaluation",
    "Rules",
    "View",
    "cache_stats",
    "evaluate",
    "evaluate_spec",
    "freeze",
    "load_example",
    "promote",
    "show",
    "write_profile",
]
