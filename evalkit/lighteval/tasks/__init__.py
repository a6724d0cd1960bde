"""evalkit's tasks for LightEval, with small data sets of their own, or with data sets of the Hub.

LightEval reads ``TASKS_TABLE``. With ``EVALKIT_TASK_DATA=hub`` the same tasks use the data sets of the Hub.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from lighteval.metrics.metrics import Metrics
from lighteval.metrics.normalizations import helm_normalizer
from lighteval.metrics.utils.metric_utils import Metric
from lighteval.tasks.lighteval_task import LightevalTaskConfig

from evalkit.lighteval.items import Fields
from evalkit.lighteval.metrics import judge_metric
from evalkit.lighteval.pollux.criteria_metric import pollux_metric
from evalkit.lighteval.tasks.pollux_tasks import pollux_tasks
from evalkit.lighteval.tasks.sources import COLUMNS, RowReader, data_source, make_config, place_of, version_of
from evalkit.lighteval.tasks.unjudged_metrics import (
    CALL_KEYS,
    REFUSAL_KEYS,
    check_calls,
    check_metric,
    check_refusal,
    instructions_metric,
)

__all__ = ["EVALKIT_PLUGIN", "TASKS_TABLE", "make_tasks", "pollux_metric"]

EVALKIT_PLUGIN = {"name": "evalkit-tasks", "version": "1"}

_TOKENS = {"conversation_helpfulness": 1024, "instruction_following_judged": 1024, "safety_guardrail": 512,
           "grounded_qa": 256, "tool_use": 512}  # fmt: skip


def make_tasks() -> list[LightevalTaskConfig]:
    """All tasks, with their rows from the source that ``EVALKIT_TASK_DATA`` names.

    Raises
    ------
    ConfigError
        For an unknown source. If the Hub's POLLUX lacks its criteria, when one of its tasks is run.

    Examples
    --------
    >>> [task.name for task in make_tasks()][:3]
    ['conversation_helpfulness', 'instruction_following_judged', 'safety_guardrail']
    """
    source = data_source()
    tasks = []
    for name in COLUMNS:
        place = place_of(name, source)
        read, version = RowReader(name, place), version_of(place)
        tasks.append(make_config(name, place, read, _METRICS[name](), tokens=_TOKENS[name], version=version))
    return [*tasks, *pollux_tasks(source)]


def _of_words(metric: Any, name: str) -> Any:
    """A metric of LightEval on texts in lower case, without punctuation and English articles."""
    normal = {"normalize_gold": helm_normalizer, "normalize_pred": helm_normalizer}
    return replace(metric(sample_params=normal), metric_name=name)  # the name it makes of these has their addresses


# what the instruction holds besides the query, the judges read as context or conversation
_QUERY: Fields = {"question": attrgetter("query")}
_METRICS: Mapping[str, Callable[[], list[Metric]]] = {
    "conversation_helpfulness": lambda: [judge_metric("helpfulness", fields=_QUERY)],
    "instruction_following_judged": lambda: [judge_metric("instruction_following"), instructions_metric()],
    "safety_guardrail": lambda: [
        judge_metric("safety"), check_metric("refusals", check_refusal, REFUSAL_KEYS, low=["refused_safe"])
    ],
    "grounded_qa": lambda: [
        judge_metric("faithfulness", fields=_QUERY), _of_words(Metrics.f1_score, "f1"),
        _of_words(Metrics.exact_match, "em"),
    ],
    "tool_use": lambda: [check_metric("tools", check_calls, CALL_KEYS)],
}  # fmt: skip

TASKS_TABLE = make_tasks()
