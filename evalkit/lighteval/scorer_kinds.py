"""What answers in a LightEval run, what a task is scored on, and what scores it, for the record of the run."""

from __future__ import annotations

import enum
import functools
import gc
import hashlib
import json
import logging
import os
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from evalkit.errors.secrets import without_keys
from evalkit.runs.contract.receipts import MetricFacts, RunFacts, Scorer, TaskFacts, write_facts

_WHOLE = 64 * 2**20  # bytes; of a larger file, hashed are its size, its time and 16 parts
_PART = 2**16
_NOT_LOADED = re.compile(
    r"\.|optimizer|scheduler|scaler|rng_state|train(er|ing)_|events\.out|README|receipts|.*\.(log|md)$|.*_results\.json$"
)
"""What training and evaluation leave in a folder of weights, and no library loads as part of the model."""
_FIELDS = ("model_name", "tokenizer", "processor", "base_model")
_REMOTE = frozenset({"provider", "inference_server_address", "endpoint_name"})


def model_identity(config: Mapping[str, Any]) -> dict[str, str]:
    """What answers for a model of LightEval, as far as its config shows it; equal for the same content elsewhere.

    Parameters
    ----------
    config
        The fields of LightEval's `ModelConfig`.

    Returns
    -------
    dict
        Only what is known:

        - name of a file -> hash of its content (of files above 64 MiB: size, time and hash of 16 parts): the files of a
          folder of weights, and the file of a custom model, without what it imports or reads;
        - ``revision NAME`` -> commit of a name on the Hub, in the local cache;
        - ``server address`` -> the address that the config names, without a key.
    """
    code, address = config.get("model_definition_file_path"), config.get("base_url")
    facts = {Path(code).name: _fingerprint(Path(code))} if code else {}
    for field in () if _REMOTE & config.keys() else _FIELDS:
        name = str(config.get(field) or "")
        folder = Path(name).expanduser() / (config.get("subfolder") or "" if field == "model_name" else "")
        if name and os.path.isdir(folder):  # noqa: PTH112  # a Path refuses names longer than a file's may be
            facts |= {f"{field}/{path.name}": _fingerprint(path) for path in _loaded_from(folder)}
        elif name and (commit := _commit(name, config.get("revision") or "main")):
            facts[f"revision {name}"] = commit
    if address := address or config.get("inference_server_address"):
        facts["server address"] = without_keys(str(address))
    return dict(sorted(facts.items()))


def _loaded_from(folder: Path) -> Iterator[Path]:
    """The files that libraries load from a folder of weights."""
    yield from (path for path in folder.iterdir() if path.is_file() and not _NOT_LOADED.match(path.name))


def _commit(name: str, revision: str) -> str:
    """The commit of a model of the Hub in the local cache; blank if it is not there."""
    from huggingface_hub import try_to_load_from_cache

    for file in ("config.json", "adapter_config.json"):
        with suppress(ValueError, OSError):
            path = try_to_load_from_cache(name, file, revision=revision)
            if isinstance(path, str):
                return Path(path).parent.name
    return ""


def _fingerprint(path: Path) -> str:
    """The hash of a file; of a large one its size, time and the hash of some parts."""
    some = hashlib.sha256()
    try:
        with path.open("rb") as file:
            state = os.fstat(file.fileno())
            if state.st_size <= _WHOLE:
                return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
            for number in range(16):
                file.seek((state.st_size - _PART) * number // 15)
                some.update(file.read(_PART))
    except OSError as problem:  # no library can load it, either
        return f"cannot be read: {problem.strerror}"
    return f"{state.st_size} bytes of {state.st_mtime_ns}, some sha256:{some.hexdigest()}"


_log = logging.getLogger("evalkit")
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


def note_facts(model: Mapping[str, str], tasks: Mapping[str, Any], docs: Mapping[str, Sequence[Any]]) -> None:
    """Write down what is evaluated, and what scores it; if that fails, the run continues."""
    try:
        facts = {name: task_facts(tasks[name], docs[name]) for name in sorted(tasks)}  # LightEval's order varies
        write_facts(RunFacts(model=dict(model) or None, tasks=facts))
    except Exception as problem:  # noqa: BLE001  # answers may be paid for: no document or metric may lose them here
        _log.error("the file with the facts of this run was not written: %s", problem)


def names_of(metric: Any) -> list[str]:
    """The names of a metric of LightEval, which may be a group."""
    names = metric.metric_name
    return list(map(str, names)) if isinstance(names, (list, tuple)) else [str(names)]


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
    names = names_of(metric)
    better = metric.higher_is_better if isinstance(metric.higher_is_better, Mapping) else {}
    scorer = scorer_of(metric)
    words = [_word(name, metric, task) for name in names] if scorer == "unknown" else []
    word = None if None in words or not words else words[0]
    # a mapping has the figures of a metric, which may have another name
    for name in map(str, better or names):
        high = better.get(name, metric.higher_is_better)
        known = high if isinstance(high, bool) else None
        yield name, MetricFacts(scorer="own" if word else scorer, word=word, higher_is_better=known)


def _word(name: str, metric: Any, task: Any) -> str | None:
    """The plugin whose author declares a metric deterministic (`EVALKIT_PLUGIN`); None if no author does."""
    for code in (type(metric.sample_level_fn), getattr(getattr(task, "config", None), "prompt_function", None)):
        parts = str(getattr(code, "__module__", "")).split(".")
        for module in (".".join(parts[:n]) for n in range(len(parts), 0, -1)):  # a package may declare for its modules
            given = getattr(sys.modules.get(module), "EVALKIT_PLUGIN", None)
            declared = given if isinstance(given, Mapping) else {}
            named = declared.get("deterministic")
            if named == name or (isinstance(named, (list, tuple, set)) and name in named):
                return str(declared.get("name") or module)
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
    if id(value) in seen or isinstance(value, (str, bytes, int, float, complex, re.Pattern, enum.Enum, type(None))):
        return True
    seen.add(id(value))
    held: Iterable[Any]
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] in sys.stdlib_module_names
    if isinstance(value, (list, tuple, set, frozenset)):
        held = value
    elif isinstance(value, Mapping):
        held = value.values()
    elif isinstance(value, functools.partial):
        held = (value.func, value.args, value.keywords)
    elif isinstance(value, types.MethodType):
        held = (value.__func__, value.__self__)
    elif isinstance(value, types.CellType):
        held = gc.get_referents(value)  # nothing, if it has no value yet
    elif isinstance(value, types.FunctionType):
        held = (value.__defaults__, value.__kwdefaults__, value.__closure__)
        if not _is_from(value):
            return False
    elif isinstance(value, (types.BuiltinFunctionType, type)) or not hasattr(value, "__dict__"):
        return _is_from(value)
    else:
        classes = [one for one in type(value).__mro__ if one.__module__ not in ("abc", "typing")]
        methods = [code for one in classes for code in vars(one).values() if isinstance(code, types.FunctionType)]
        if getattr(value, "is_judged", False) or not all(map(_is_from, classes)):
            return False
        held = (*methods, vars(value))
    return all(_is_known(one, seen) for one in held)


def _is_from(code: Any, modules: tuple[str, ...] = _KNOWN) -> bool:
    """Whether a function or class is from one of these modules, calls no model and loads no weights."""
    name = str(getattr(code, "__module__", None) or "builtins")
    if isinstance(code, types.FunctionType):  # a decorator may have given it the name of another's module
        name = str(code.__globals__.get("__name__"))
    if name.startswith(_CALLING_MODULE) or (isinstance(code, type) and code.__name__.startswith(_CALLING)):
        return False
    return any(name == one or name.startswith(f"{one}.") for one in modules)
