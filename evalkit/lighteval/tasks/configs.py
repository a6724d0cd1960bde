"""A task's config for LightEval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lighteval.metrics.utils.metric_utils import SampleLevelMetric
from lighteval.tasks.lighteval_task import LightevalTaskConfig

from evalkit.lighteval.tasks.sources import Place
from evalkit.lighteval.tasks.unjudged_metrics import answered_metric


def make_config(
    name: str,
    place: Place,
    read: Callable[..., Any],
    metrics: Sequence[SampleLevelMetric],
    *,
    tokens: int,
    version: int,
) -> LightevalTaskConfig:
    """A task's config: `read` converts a row, `tokens` limits the answers; the metric `answered` is added."""
    return LightevalTaskConfig(
        name=name,
        prompt_function=read,
        hf_repo=place.repo,
        hf_subset=place.subset,
        hf_avail_splits=[place.split],
        evaluation_splits=[place.split],
        metrics=[*metrics, answered_metric()],
        generation_size=tokens,
        version=version,
    )
