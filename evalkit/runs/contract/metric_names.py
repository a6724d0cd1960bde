"""How the figures of a LightEval task are named: what counts samples, what a count belongs to, what a judge touches."""

from __future__ import annotations

from collections.abc import Collection, Iterable

PASS_RATE = "_pass_rate"  # noqa: S105
"""End of the name of a figure whose base is the samples with a verdict, not those with a score."""

_COUNTS = ("_n_empty", "_n_unscored", "_n_skipped", "_n_verdicts")


def is_count(metric: str, names: Collection[str]) -> bool:
    """Whether a figure of a task counts samples beside another one, and is no score; `names` are all of the task.

    Examples
    --------
    >>> is_count("tone_n_empty", ["tone", "tone_n_empty"]), is_count("f1_n", ["f1", "f1_n"]), is_count("f1_n", ["f1_n"])
    (True, True, False)
    """
    return metric.endswith(_COUNTS) or (metric.endswith("_n") and metric.removesuffix("_n") in names)


def count_name(metric: str) -> str:
    """The name of the figure that says how many samples are behind one.

    Examples
    --------
    >>> count_name("f1"), count_name("tone_pass_rate")
    ('f1_n', 'tone_n_verdicts')
    """
    return f"{metric.removesuffix(PASS_RATE)}_n_verdicts" if metric.endswith(PASS_RATE) else f"{metric}_n"


def is_of(metric: str, heads: Iterable[str]) -> bool:
    """Whether a figure is one of these, or its name begins with one: it is part of what that one found.

    Examples
    --------
    >>> is_of("tone_pass_rate", ["tone"]), is_of("tool_use", ["tone"])
    (True, False)
    """
    return any(metric == head or metric.startswith(f"{head}_") for head in heads)


def no_values(pairs: Iterable[tuple[str, str]]) -> str:
    """A line on the figures (task, metric) that have no value at all, so that they take no rows; blank for none.

    Examples
    --------
    >>> no_values([("qa|0", "a"), ("qa|0", "b"), ("qa|1", "a")])
    'without a value, as of criteria that no sample has: qa|0: a, b; qa|1: a'
    """
    by_task: dict[str, list[str]] = {}
    for task, metric in pairs:
        by_task.setdefault(task, []).append(metric)
    said = "; ".join(f"{task}: {', '.join(names)}" for task, names in by_task.items())
    return f"without a value, as of criteria that no sample has: {said}" if said else ""


def group_of(task: str) -> str | None:
    """The group whose mean LightEval calls a task (``pollux:_average|0``); None for a task by itself.

    Examples
    --------
    >>> group_of("pollux:_average|0"), group_of("pollux:easy|0")
    ('pollux', None)
    """
    name = task.partition("|")[0]
    return name.removesuffix(":_average") if name.endswith(":_average") else None
