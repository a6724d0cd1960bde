"""evalkit in LightEval: judge and jury metrics, tasks, the POLLUX metric, and LightEval's command line started right.

Nothing here is imported before it is used: LightEval takes seconds to load.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PLACES: dict[str, tuple[str, ...]] = {
    "evalkit.lighteval.metrics": ("judge_metric", "jury_metric"),
    "evalkit.lighteval.pollux": ("PolluxLLMJudgeMetric",),
    "evalkit.lighteval.pollux_figures": ("pollux_corpus",),
    "evalkit.lighteval.pollux_parsers": (
        "POLLUX_DEFAULT_FEEDBACK_RE",
        "POLLUX_DEFAULT_SCORE_RE",
        "POLLUX_TAGGED_FEEDBACK_RE",
        "POLLUX_TAGGED_SCORE_RE",
        "make_pollux_feedback_parser",
        "make_pollux_score_parser",
        "parse_pollux_feedback",
        "process_judge_response_pollux",
    ),
    "evalkit.lighteval.pollux_prompts": ("_build_pollux_prompt_text", "get_judge_prompt_pollux"),
    "evalkit.lighteval.tasks.checks": ("check_metric",),
    "evalkit.lighteval.tasks.pollux_metrics": ("pollux_metric",),
}
_HOME = {name: module for module, names in _PLACES.items() for name in names}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'evalkit.lighteval' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
