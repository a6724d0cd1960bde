"""Names of the figures of a LightEval task: which count samples, of which figure, and which depend on a judge."""

from __future__ import annotations

from collections.abc import Collection, Iterable

PASS_RATE = "_pass_rate"  # noqa: S105
"""Suffix of figures that are computed over the samples with a verdict, not those with a score."""

DISAGREEMENT = "_disagreement"
"""Suffix of figures of a jury's disagreement: low is good."""

_COUNTS = ("_n_empty", "_n_unscored", "_n_skipped", "_n_verdicts")


def is_count(metric: str, names: Collection[str]) -> bool:
    """Whether a figure of a task is a number of samples and not a score; `names` are all figures of the task.

    Examples
    --------
    >>> is_count("tone_n_empty", ["tone", "tone_n_empty"]), is_count("f1_n", ["f1", "f1_n"]), is_count("f1_n", ["f1_n"])
    (True, True, False)
    """
    return metric.endswith(_COUNTS) or (metric.endswith("_n") and metric.removesuffix("_n") in names)


def count_name(metric: str) -> str:
    """The name of the figure that holds the number of samples of `metric`.

    Examples
    --------
    >>> count_name("f1"), count_name("tone_pass_rate")
    ('f1_n', 'tone_n_verdicts')
    """
    return f"{metric.removesuffix(PASS_RATE)}_n_verdicts" if metric.endswith(PASS_RATE) else f"{metric}_n"


def is_of(metric: str, heads: Iterable[str]) -> bool:
    """Whether a figure is one of `heads` or one of their parts, whose names start with theirs.

    Examples
    --------
    >>> is_of("tone_pass_rate", ["tone"]), is_of("tool_use", ["tone"])
    (True, False)
    """
    return any(metric == head or metric.startswith(f"{head}_") for head in heads)


def no_values(pairs: Iterable[tuple[str, str]]) -> str:
    """One line that lists figures (task, metric) without a value, in place of their rows; blank if there are none.

    Examples
    --------
    >>> no_values([("qa|0", "a"), ("qa|0", "b"), ("qa|1", "a")])
    'without a value, such as criteria that apply to no sample: qa|0: a, b; qa|1: a'
    """
    by_task: dict[str, list[str]] = {}
    for task, metric in pairs:
        by_task.setdefault(task, []).append(metric)
    lists = "; ".join(f"{task}: {', '.join(names)}" for task, names in by_task.items())
    return f"without a value, such as criteria that apply to no sample: {lists}" if lists else ""


def group_of(task: str) -> str | None:
    """The group of tasks whose mean LightEval reports as a task (``pollux:_average|0``); None for a single task.

    Examples
    --------
    >>> group_of("pollux:_average|0"), group_of("pollux:easy|0")
    ('pollux', None)
    """
    name = task.partition("|")[0]
    return name.removesuffix(":_average") if name.endswith(":_average") else None
