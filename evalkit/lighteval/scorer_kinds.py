"""What scores a metric: a judge of evalkit, code that is known to call no model, or something unknown."""

from __future__ import annotations

import contextlib
import enum
import functools
import re
import types
from collections.abc import Mapping
from typing import Any

from evalkit.runs.contract import Scorer

_KNOWN = (
    "builtins", "math", "numpy", "re", "statistics", "string",
    "evalkit.lighteval", "lighteval.metrics", "lighteval.utils.language",
    "lighteval.tasks.tasks.ifbench", "lighteval.tasks.tasks.ifeval", "lighteval.tasks.tasks.lcb",
    "lighteval.tasks.tasks.tiny_benchmarks", "lighteval.tasks.templates", "latex2sympy2_extended",
)  # fmt: skip
"""Modules reviewed in LightEval 0.13: none of their functions and classes calls a model, except `_CALLING`."""
_CALLING = ("JudgeLM", "JudgeLLM")
"""LightEval's own judges, by the names of their classes."""


def scorer_of(metric: Any) -> Scorer:
    """What scores a metric of a task.

    ``judge``: one of evalkit's judged metrics, which leaves a receipt. ``deterministic``: everything that the metric
    is made of (functions, their closures, objects and their attributes) comes from modules that call no model.
    ``unknown``: anything else: LightEval's own judge, or the code of a task or plugin.

    Examples
    --------
    >>> from lighteval.metrics.metrics import Metrics
    >>> scorer_of(Metrics.exact_match.value)
    'deterministic'
    >>> scorer_of(lambda: None)
    'unknown'
    """
    function = getattr(metric, "sample_level_fn", None)
    if getattr(function, "is_judged", False) and _is_from(type(function), ("evalkit.lighteval",)):
        return "judge"
    return "deterministic" if function is not None and _is_known(metric, set()) else "unknown"


def _is_known(value: Any, seen: set[int]) -> bool:
    """Whether a value, and everything that it contains, is data or known code."""
    if value is None or isinstance(value, (str, bytes, int, float, complex, re.Pattern, enum.Enum)):
        return True
    if id(value) in seen:
        return True
    seen.add(id(value))
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(_is_known(one, seen) for one in value)
    if isinstance(value, Mapping):
        return all(_is_known(one, seen) for one in value.values())
    if isinstance(value, functools.partial):
        return all(_is_known(one, seen) for one in (value.func, value.args, value.keywords))
    if isinstance(value, types.MethodType):
        return _is_known(value.__self__, seen)
    if isinstance(value, types.FunctionType):
        return _is_from(value) and all(_is_known(one, seen) for one in _held_by(value))
    if isinstance(value, (types.BuiltinFunctionType, type)) or not hasattr(value, "__dict__"):
        return _is_from(value)
    return _is_object_known(value, seen)


def _held_by(function: types.FunctionType) -> list[Any]:
    """The values that a function refers to: set variables of enclosing functions, and its defaults."""
    held = [function.__defaults__, function.__kwdefaults__]
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # it has no value yet
            held.append(cell.cell_contents)
    return held


def _is_object_known(value: Any, seen: set[int]) -> bool:
    classes = [one for one in type(value).__mro__ if one.__module__ not in ("abc", "typing")]
    if getattr(value, "is_judged", False) or not all(_is_from(one) for one in classes):
        return False
    return _is_known(getattr(value, "__dict__", {}), seen)


def _is_from(code: Any, modules: tuple[str, ...] = _KNOWN) -> bool:
    """Whether a function or class is from one of these modules and is not a judge of LightEval's."""
    name = str(getattr(code, "__module__", None) or "builtins")
    if isinstance(code, type) and code.__name__.startswith(_CALLING):
        return False
    if isinstance(code, types.FunctionType):  # a decorator may have given it the name of another's module
        name = str(code.__globals__.get("__name__"))
    return any(name == one or name.startswith(f"{one}.") for one in modules)
