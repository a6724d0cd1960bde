"""Checks of a run's metrics before a model is loaded: those that would fail later, and those that judge nothing."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from evalkit.errors import ConfigError
from evalkit.lighteval.metric_settings import place_of
from evalkit.runs.contract.scoring_config import MODE_VARIABLE, Scoring, asked_mode

NOTHING = "nothing will be judged"
"""The beginning of a line that `run_lighteval` always shows."""

_OUT = "correct it, or leave the metric or its task out"


def said_before(tasks: Iterable[Any]) -> Iterator[str]:
    """What to know before a model is loaded, although it is no fault."""
    known = {task.full_name: task for task in tasks}
    if line := nothing_judged({name: task.metrics for name, task in known.items()}):
        yield line
    for name, task in known.items():
        n = max(*task.num_samples, *(task.config.num_samples or (1,)))
        judged = [one for one in task.metrics if hasattr(one.sample_level_fn, "is_judged") and not _waits(one)]
        if n > 1 and judged and asked_mode() != "deterministic":
            yield f"{name}: of the {n} answers to each document, only the first is judged"


def nothing_judged(metrics: Mapping[str, Iterable[Any]]) -> str:
    """The line that the judged metrics of these tasks (name -> metrics) are not judged for want of a mode, or blank."""
    silent = [place_of(task, one.metric_name) for task, mine in metrics.items() for one in mine if _waits(one)]
    if not silent:
        return ""
    fact = f"{NOTHING}: the scoring mode is 'deterministic', the default ({listed_places(silent)})"
    return f"{fact}; to have answers judged, set {MODE_VARIABLE} to judge (one judge) or jury"


def _waits(metric: Any) -> bool:
    """Whether a metric is judged only in another mode; POLLUX's own metric needs none."""
    return hasattr(metric.sample_level_fn, "declared") and Scoring.from_environ().mode == "deterministic"


def raise_all(faults: Sequence[str]) -> None:
    """Raise one fault as it is, and several as a list."""
    if faults:
        lines = "".join(f"\n  {number}. {fault}" for number, fault in enumerate(faults, start=1))
        raise ConfigError(
            faults[0] if len(faults) == 1 else f"this run has {len(faults)} problems and cannot be scored:{lines}"
        )


def cannot_run(metric: Any) -> str:
    """Why a metric fails after the model has answered, as some judges of LightEval 0.13 do; blank if it does not."""
    from lighteval.metrics.utils.metric_utils import Metric, MetricGrouping

    function, is_group = metric.sample_level_fn, isinstance(metric, MetricGrouping)
    if getattr(type(metric), "compute_sample", None) is not Metric.compute_sample:
        return ""
    compute = getattr(function, "compute", None) or getattr(function, "prepare", None)
    if compute is None:
        return f"LightEval takes no {type(function).__name__} as sample_level_fn; {_OUT}"
    if is_group and metric.batched_compute:
        return f"LightEval cannot compute a group of metrics with batched_compute=True; {_OUT}"
    given = ("responses", "docs") if metric.batched_compute else ("model_response", "doc")
    accepted = inspect.signature(compute)
    try:
        accepted.bind(**dict.fromkeys(given))
    except TypeError as problem:
        batched = f"{'with' if metric.batched_compute else 'without'} batched_compute=True"
        return f"LightEval calls {type(function).__name__}.compute({', '.join(given)}) {batched}, but {problem}; {_OUT}"
    if type(function).__name__ == "JudgeLLMMTBench":
        return f"LightEval gives JudgeLLMMTBench one turn, and it reads two; {_OUT}"
    judge = getattr(function, "judge", None)
    if type(judge).__module__.startswith("lighteval.") and (lacks := _lacks(judge)):
        return f"LightEval's judge {getattr(judge, 'model', '')} needs {lacks}; {_OUT}"
    aggregate, returned = metric.corpus_level_fn, inspect.formatannotation(accepted.return_annotation)
    is_dict = hasattr(function, "is_judged") or bool(re.fullmatch(r"'?(list\[)?dict\b[^|]*", returned, re.IGNORECASE))
    if is_group or not is_dict or type(function).__module__.startswith("lighteval.") or not callable(aggregate):
        return ""  # LightEval's own annotations are not always true
    try:
        aggregate([{str(metric.metric_name): 0.0}] * 2)
    except Exception as problem:  # noqa: BLE001  # of any library
        name = getattr(aggregate, "__name__", str(aggregate))
        if "dict" in str(problem) or str(getattr(aggregate, "__module__", "")).startswith("numpy"):
            fact = f"its samples are dicts, which corpus_level_fn={name} cannot take ({problem})"
            return (
                f"{fact}; use the metric as judge_metric returns it, or for PolluxLLMJudgeMetric "
                "corpus_level_fn=pollux_corpus"
            )
    return ""


def _lacks(judge: Any) -> str:
    """What LightEval's `JudgeLM` misses when it is first called, which is after the model has answered."""
    backend = str(getattr(judge, "backend", ""))
    package = "openai" if backend == "tgi" else backend
    if package in ("openai", "litellm", "vllm") and importlib.util.find_spec(package) is None:
        return f"the package {package}"
    has_key = getattr(judge, "url", None) is None and getattr(judge, "api_key", None)
    if package == "openai" and not has_key and not os.environ.get("OPENAI_API_KEY"):
        return "a key in OPENAI_API_KEY"
    return ""


def listed_places(places: Sequence[str], most: int = 3) -> str:
    """The first places of a message, and how many there are besides."""
    return "; ".join(places[:most]) + (f"; and {len(places) - most} more" if len(places) > most else "")
