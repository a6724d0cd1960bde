"""What a task is scored on, and what scores it: hashes of its documents; for each metric its scorer and direction."""

from __future__ import annotations

import contextlib
import enum
import functools
import hashlib
import json
import re
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalkit.runs.contract import MetricFacts, Scorer, TaskFacts

_KNOWN = (
    "builtins", "dataclasses", "math", "numpy", "re", "statistics", "string",
    "evalkit.lighteval", "lighteval.metrics", "lighteval.utils.imports", "lighteval.utils.language",
    "lighteval.utils.timeout", "lighteval.tasks.tasks.ifeval", "lighteval.tasks.tasks.lcb",
    "lighteval.tasks.tasks.tiny_benchmarks", "lighteval.tasks.templates", "latex2sympy2_extended",
)  # fmt: skip
"""Modules reviewed in LightEval 0.13: none of their code calls a model or loads weights, except `_CALLING`."""
_CALLING = ("JudgeLM", "JudgeLLM", "BertScore", "BERTScorer", "BLEURT", "Extractiveness", "Faithfulness")
"""LightEval's judges and the metrics that load weights, by the beginnings of their classes' names."""
_CALLING_MODULE = "lighteval.metrics.imports"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def task_facts(task: Any, docs: Sequence[Any]) -> TaskFacts:
    """The facts about a task of LightEval and its documents; its metrics are named as their figures are."""
    metrics = {name: facts for metric in task.metrics for name, facts in _metric_facts(metric, task)}
    return TaskFacts(documents=document_hashes(docs), metrics=metrics)


def document_hashes(docs: Sequence[Any]) -> dict[str, int | str]:
    """Number of documents, and hashes of their parts; equal if the texts are, and their order."""
    parts: dict[str, list[Any]] = {name: [] for name in ("ids", "questions", "golds", "context", "examples")}
    for doc in docs:
        shots = [[shot.query, *_golds_and_context(shot)] for shot in doc.fewshot_samples or ()]
        values = (doc.id, [doc.query, doc.instruction], *_golds_and_context(doc), shots)
        for name, value in zip(parts, values, strict=True):
            parts[name].append(value)
    return {"n": len(docs), **{name: hashlib.sha256(_bytes(values)).hexdigest()[:16] for name, values in parts.items()}}


def _golds_and_context(doc: Any) -> tuple[list[Any], list[Any]]:
    specific = dict(doc.specific) if isinstance(doc.specific, Mapping) else {"": doc.specific}
    return [doc.choices, doc.gold_index, specific.pop("reference_answer", None)], [specific, doc.images]


def _bytes(value: Any) -> bytes:
    try:
        text = json.dumps(value, default=_plain, ensure_ascii=False)
    except (TypeError, ValueError):  # keys of other types, a structure that contains itself
        text = _plain(value)
    return text.encode(errors="surrogatepass")


def _plain(value: Any) -> str:
    """What JSON does not know: images by their pixels, other objects as text without addresses in memory."""
    if isinstance(value, (set, frozenset)):
        return ", ".join(sorted(map(_plain, value)))  # in an order that is the same in every process
    pixels = getattr(value, "tobytes", None)
    return hashlib.sha256(pixels()).hexdigest() if callable(pixels) else _ADDRESS.sub("", repr(value))


def _metric_facts(metric: Any, task: Any) -> Iterator[tuple[str, MetricFacts]]:
    names = metric.metric_name if isinstance(metric.metric_name, (list, tuple)) else [metric.metric_name]
    better = metric.higher_is_better if isinstance(metric.higher_is_better, Mapping) else {}
    scorer = scorer_of(metric)
    words = [_word(str(name), metric, task) for name in names] if scorer == "unknown" else []
    word = None if None in words or not words else words[0]
    # a mapping has the figures of a metric, which may have another name
    for name in map(str, better or names):
        high = better.get(name, metric.higher_is_better)
        known = high if isinstance(high, bool) else None
        yield name, MetricFacts(scorer="own" if word else scorer, word=word, higher_is_better=known)


def _word(name: str, metric: Any, task: Any) -> str | None:
    """The plugin whose author declares a metric deterministic (`EVALKIT_PLUGIN`); None if no author does."""
    for code in (type(metric.sample_level_fn), getattr(getattr(task, "config", None), "prompt_function", None)):
        module = str(getattr(code, "__module__", ""))
        while module:
            declared = getattr(sys.modules.get(module), "EVALKIT_PLUGIN", None)
            declared = declared if isinstance(declared, Mapping) else {}
            named = declared.get("deterministic")
            if named == name or (isinstance(named, (list, tuple, set)) and name in named):
                return str(declared.get("name") or module)
            module = module.rpartition(".")[0]
    return None


def scorer_of(metric: Any) -> Scorer:
    """What scores a metric of a task, as far as its code shows.

    ``judge``: one of evalkit's judged metrics, which leaves a receipt. ``own``: everything that the metric is made of
    (functions, their closures, objects and their attributes) comes from evalkit's and LightEval's modules that call no
    model and load no weights. ``unknown``: anything else: LightEval's own judge, BERTScore, or the code of a task or
    plugin.

    Examples
    --------
    >>> from lighteval.metrics.metrics import Metrics
    >>> scorer_of(Metrics.exact_match.value), scorer_of(Metrics.bert_score.value)
    ('own', 'unknown')
    >>> scorer_of(lambda: None)
    'unknown'
    """
    function = getattr(metric, "sample_level_fn", None)
    if getattr(function, "is_judged", False) and _is_from(type(function), ("evalkit.lighteval",)):
        return "judge"
    return "own" if function is not None and _is_known(metric, set()) else "unknown"


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
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] in sys.stdlib_module_names
    if isinstance(value, functools.partial):
        return all(_is_known(one, seen) for one in (value.func, value.args, value.keywords))
    if isinstance(value, types.MethodType):
        return _is_known(value.__func__, seen) and _is_known(value.__self__, seen)
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
    methods = [code for one in classes for code in vars(one).values() if isinstance(code, types.FunctionType)]
    if getattr(value, "is_judged", False) or not all(map(_is_from, classes)):
        return False
    return all(_is_known(code, seen) for code in methods) and _is_known(getattr(value, "__dict__", {}), seen)


def _is_from(code: Any, modules: tuple[str, ...] = _KNOWN) -> bool:
    """Whether a function or class is from one of these modules, calls no model and loads no weights."""
    name = str(getattr(code, "__module__", None) or "builtins")
    if isinstance(code, types.FunctionType):  # a decorator may have given it the name of another's module
        name = str(code.__globals__.get("__name__"))
    if name.startswith(_CALLING_MODULE) or (isinstance(code, type) and code.__name__.startswith(_CALLING)):
        return False
    return any(name == one or name.startswith(f"{one}.") for one in modules)
