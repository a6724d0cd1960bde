"""Patches of LightEval's command line: checks before a model is loaded, work without network, no answers of other runs.

LightEval 0.13 has no hooks for these, so a few of its functions are wrapped; a test pins what is used of them.
"""

from __future__ import annotations

import atexit
import copy
import functools
import hashlib
import json
import logging
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evalkit.errors import ConfigError, EvalkitError, guess, listed
from evalkit.lighteval.items import repair
from evalkit.lighteval.metric_checks import cannot_run, listed_places, raise_all, said_before
from evalkit.lighteval.metric_settings import place_of, without_place
from evalkit.lighteval.scorer_kinds import model_identity, names_of, note_facts
from evalkit.runs.contract.scoring_config import TaskBindings

_log = logging.getLogger("evalkit")

_FETCHES_AT_IMPORT = "tiny_benchmarks"

REUSE_ANSWERS = "--reuse-answers"
"""The flag with which a run takes answers that earlier runs have stored."""


def prepare(*, reuse_answers: bool) -> None:
    """Wrap LightEval in this process; called once, before its command line starts.

    - Tasks: those of ``--custom-tasks`` are loaded first. If the run uses only these, LightEval's own are not loaded:
      they take long, and one of them fetches a file at import. One that cannot be imported is left out with a warning.
    - Metrics of every task of the run are checked after the data and before the model are loaded; all problems come
      in one message. The facts of the run (documents, metrics, model) are written next to the receipts.
    - The model's answers are stored in the folder `lighteval` of evalkit's cache folder, or in the folder that
      ``EVALKIT_LIGHTEVAL_CACHE`` names; so are those in LiteLLM's own cache, which LightEval puts into the working
      folder. Answers of earlier runs are taken only with `reuse_answers`, by LightEval's keys and the documents'
      content.
    - A task that a pack lists under several profiles is scored under each, and the model answers it once.
    - Tasks without stop sequences work with every model.
    - Half a surrogate pair in a document or an answer becomes U+FFFD: LightEval's files cannot store it, and one such
      answer would lose the whole run.
    """
    from evalkit.core.settings import default_folder

    folder = Path(os.environ.get("EVALKIT_LIGHTEVAL_CACHE") or default_folder() / "lighteval")
    _keep_litellm(folder / "litellm", oldest=0 if reuse_answers else time.time())
    from lighteval.pipeline import Pipeline
    from lighteval.tasks import registry
    from lighteval.utils.cache_management import SampleCache

    documents: dict[str, str] = {}
    wanted: list[str] = []
    _wrap(registry.Registry, "__init__", functools.partial(_noting_tasks, wanted))
    registry.Registry.load_all_task_configs = functools.partial(_tasks, wanted)  # type: ignore[method-assign]
    _wrap(Pipeline, "_init_tasks_and_requests", functools.partial(_checking, documents))
    _wrap(Pipeline, "_run_model", _answering_once)
    _wrap(Pipeline, "_post_process_outputs", _mending)
    _wrap(SampleCache, "_dump_sample", _keeping_texts)
    _wrap(SampleCache, "__init__", functools.partial(_keeping_in, folder))
    _wrap(SampleCache, "_get_task_hash", functools.partial(_hashing, documents))
    _wrap(Pipeline, "_init_model", _loading)
    if not reuse_answers:
        own = Path(tempfile.mkdtemp(prefix="evalkit-answers-"))
        atexit.register(shutil.rmtree, own, ignore_errors=True)
        _wrap(SampleCache, "_load_cached_indices", lambda *_: {})
        _wrap(SampleCache, "get_cache_path", functools.partial(_answers_of_this_run, own))
        _wrap(SampleCache, "cache_samples", functools.partial(_storing_for_later, own))


def _keep_litellm(folder: Path, oldest: float) -> None:
    """Called before LightEval is imported, because the import creates the cache; older replies are not taken."""
    try:
        from litellm.caching.caching import Cache
    except ModuleNotFoundError:
        return

    def placed(plain: Callable[..., None], _cache: Any, *args: Any, **named: Any) -> None:
        if named.get("type") == "disk":
            named.setdefault("disk_cache_dir", str(folder))
        plain(*args, **named)

    def of_this_run(plain: Callable[..., Any], _cache: Any, cached_result: Any, max_age: float | None) -> Any:
        return plain(cached_result, min(math.inf if max_age is None else max_age, time.time() - oldest))

    _wrap(Cache, "__init__", placed)
    _wrap(Cache, "_get_cache_logic", of_this_run)


def _wrap(owner: type, name: str, around: Callable[..., Any]) -> None:
    plain = getattr(owner, name)

    @functools.wraps(plain)
    def wrapped(self: Any, *args: Any, **named: Any) -> Any:
        return around(functools.partial(plain, self), self, *args, **named)

    setattr(owner, name, wrapped)


def _noting_tasks(
    wanted: list[str], plain: Callable[..., None], _self: Any, tasks: Any = None, *args: Any, **named: Any
) -> None:
    wanted[:] = [] if tasks is None else _names(tasks)
    plain(tasks, *args, **named)


def _names(tasks: Any) -> list[str]:
    """The task names of a specification: ``a|0,b|2``, or a file with one per line."""
    # os.path: a Path refuses text that is longer than a file's name may be
    text = Path(tasks).read_text(encoding="utf-8") if os.path.isfile(tasks) else str(tasks)  # noqa: PTH113
    specs = [line.strip() for part in text.splitlines() for line in part.split(",")]
    named = [spec.split("|") for spec in specs if spec and not spec.startswith("#")]
    return [(parts[1] if len(parts) == 3 else parts[0]).split("@")[0] for parts in named]


def _tasks(wanted: Sequence[str], custom_tasks: Any = None, load_multilingual: bool = False) -> dict[str, Any]:
    """Replaces `Registry.load_all_task_configs`: custom tasks first; skips modules that cannot be imported."""
    from lighteval.tasks.registry import Registry

    own: dict[str, Any] = {}
    if custom_tasks is not None:
        own = Registry._extract_configs(Registry.create_custom_tasks_module(custom_tasks))
    copies = {name: task for name, task in _copies().items() if name in wanted and name not in own}
    tasks = _known_tasks(own, [copies.get(name, name) for name in wanted], custom_tasks, load_multilingual)
    for copy_name, task in copies.items():
        for name, config in list(tasks.items()):
            if name == task or name.startswith(f"{task}:"):
                renamed = tasks[copy_name + name.removeprefix(task)] = copy.copy(config)
                renamed.name = copy_name + name.removeprefix(task)
                renamed.full_name = f"{renamed.name}|{config.num_fewshots}"
    return tasks


def _copies() -> dict[str, str]:
    """Copies of tasks under another profile -> the task."""
    bindings = TaskBindings.from_environ().root
    return {name: binding.copy_of for name, binding in bindings.items() if binding.copy_of is not None}


def _known_tasks(
    own: dict[str, Any], wanted: Sequence[str], custom_tasks: Any, load_multilingual: bool
) -> dict[str, Any]:
    groups = {name.split(":")[0] for name in own}
    if wanted and all(name in own or name in groups for name in wanted):
        return own
    there, lost = _own_tasks(wanted, load_multilingual)
    if two := sorted(set(own) & set(there)):
        raise ConfigError(f"tasks {', '.join(two)} of {custom_tasks} have the names of tasks of LightEval; rename them")
    known = own | there
    heads = {name.split(":")[0] for name in known}
    if missing := [name for name in wanted if name not in known and name not in heads]:
        why = "".join(f"; {module} could not be imported: {problem}" for module, problem in lost.items())
        near = guess(missing[0], sorted({*known, *heads}))
        if any(one.plugin_path for one in TaskBindings.from_environ().root.values()):
            near += "a run that binds tasks to plugins loads only these plugins and LightEval's own tasks; "
        raise ConfigError(f"unknown task {', '.join(missing)}; {near}`evalkit lighteval tasks list` lists all{why}")
    return known


def _own_tasks(wanted: Sequence[str], multilingual: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """LightEval's own tasks, and the modules that could not be imported, with the reason."""
    from lighteval.tasks import registry

    home = Path(registry.__file__).parent
    files = [(path, "lighteval.tasks.tasks") for path in (home / "tasks").glob("*.py")]
    if multilingual:
        files += [(path, "lighteval.tasks.multilingual.tasks") for path in (home / "multilingual/tasks").glob("*.py")]
    load = registry.Registry
    loaders = [(path.stem, functools.partial(load._load_from_files, [path], prefix)) for path, prefix in sorted(files)]
    folders = sorted(path.parent for path in (home / "tasks").glob("*/main.py"))
    loaders += [(path.name, functools.partial(load._load_from_subdirs, [path])) for path in folders]
    found: dict[str, Any] = {}
    lost: dict[str, str] = {}
    for module, load_tasks in loaders:
        fetches = module == _FETCHES_AT_IMPORT and not any("tiny" in name.lower() for name in wanted)
        if module == "__init__" or fetches:
            continue
        try:
            found |= load_tasks()
        except Exception as problem:  # noqa: BLE001  # one module of LightEval's must not stop all tasks
            lost[module] = f"{type(problem).__name__}: {problem}"
            _log.warning("LightEval's tasks in %s are left out: %s", module, lost[module])
    return found, lost


def _checking(documents: dict[str, str], plain: Callable[..., None], pipeline: Any, *args: Any, **named: Any) -> None:
    plain(*args, **named)
    faults: dict[str, list[str]] = {}
    for task in pipeline.tasks_dict.values():
        docs = pipeline.documents_dict[task.full_name]
        for doc in docs:
            # a task that names no stop sequence has a tuple, to which accelerate's model adds a list
            doc.stop_sequences = list(doc.stop_sequences or ())
            repair(doc, *(doc.fewshot_samples or ()))
        documents[task.full_name] = _content(docs)
        faults |= {said: [] for said in _names_twice(task)}
        for metric in task.metrics:
            _check(metric, task.full_name, docs, faults)
    said = [f"{listed_places(places)}: {fault}" if places else fault for fault, places in faults.items()]
    raise_all(said)
    for line in said_before(pipeline.tasks_dict.values()):
        _log.warning("%s", line)


def _check(metric: Any, task: str, docs: Sequence[Any], faults: dict[str, list[str]]) -> None:
    """Add the error that prevents judging a metric of a task, with its place; one error may occur at many places."""
    if fault := cannot_run(metric):
        faults.setdefault(fault, []).append(place_of(task, ", ".join(names_of(metric))))
    function, name = metric.sample_level_fn, "+".join(names_of(metric))
    if callable(getattr(function, "called", None)) and isinstance(metric.metric_name, str):
        function.called(metric.metric_name)
    try:
        if check := getattr(function, "check", None):
            check(task, docs)
    except EvalkitError as problem:
        faults.setdefault(without_place(str(problem), task, name), []).append(place_of(task, name))


def _names_twice(task: Any) -> list[str]:
    names = [name for metric in task.metrics for name in names_of(metric)]
    twice = dict.fromkeys(name for name in names if names.count(name) > 1)
    return [f"task {task.full_name!r} has two metrics named {name!r}, but LightEval stores only one; give one another "
            "name, as in judge_metric(…, name=…)" for name in twice]  # fmt: skip


def _content(docs: Sequence[Any]) -> str:
    """A hash of everything that the model sees of a task's documents."""
    shown = [[doc.id, doc.query, doc.instruction, doc.choices, [asdict(one) for one in doc.fewshot_samples]]
             for doc in docs]  # fmt: skip
    text = json.dumps(shown, default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def _keeping_in(folder: Path, plain: Callable[..., None], _cache: Any, model_config: Any) -> None:
    default = type(model_config).model_fields["cache_dir"].default
    if model_config.cache_dir == default:
        model_config.cache_dir = str(folder)
    plain(model_config)


def _answering_once(plain: Callable[[], dict[Any, list[Any]]], pipeline: Any) -> dict[Any, list[Any]]:
    """Let the model answer the documents of a task once, and give copies of the task the same answers."""
    copies, every = _copies(), pipeline.sampling_docs
    if not copies:
        return plain()
    sent: dict[Any, list[Any]] = {method: [] for method in every}
    places: dict[Any, dict[int, int]] = {method: {} for method in every}
    for method, docs in every.items():
        first = dict[tuple[str, str], int]()
        tasks = [_task_of(doc.task_name, copies) for doc in docs]
        are_copies = [task != doc.task_name for task, doc in zip(tasks, docs, strict=True)]
        for index in sorted(range(len(docs)), key=are_copies.__getitem__):  # LightEval shuffles the tasks
            number = first.setdefault((tasks[index], _content([docs[index]])), len(sent[method]))
            if not are_copies[index]:  # a task may have two equal documents, which are answered apart
                number = len(sent[method])
            if number == len(sent[method]):
                sent[method].append(docs[index])
            places[method][index] = number
    pipeline.sampling_docs = sent
    try:
        answers = plain()
    finally:
        pipeline.sampling_docs = every
    return {
        method: [copy.copy(responses[places[method][index]]) for index in range(len(every[method]))]
        for method, responses in answers.items()
    }


def _task_of(name: str, copies: Mapping[str, str]) -> str:
    """LightEval's name of the task of which another may be a copy, also one of a group: ``a+p:b|0`` -> ``a:b|0``."""
    head = name.partition("|")[0].partition(":")[0]
    return f"{copies.get(head, head)}{name.removeprefix(head)}"


def _mending(plain: Callable[..., None], pipeline: Any, responses: Mapping[Any, Sequence[Any]]) -> None:
    model = getattr(pipeline, "model_identity", {})
    note_facts(model, {task.full_name: task for task in pipeline.tasks_dict.values()}, pipeline.documents_dict)
    for mine in responses.values():
        repair(*mine)
    plain(responses)


def _keeping_texts(plain: Callable[..., dict[str, Any]], _cache: Any, result: Any) -> dict[str, Any]:
    repair(result)
    return plain(result)


def _hashing(documents: Mapping[str, str], plain: Callable[..., str], _cache: Any, full_task_name: str) -> str:
    content = documents.get(full_task_name)
    return plain(full_task_name) if content is None else f"{plain(full_task_name)}-{content}"


def _answers_of_this_run(own: Path, plain: Callable[..., Path], cache: Any, task_id: Any) -> Path:
    return own / plain(task_id).relative_to(cache.cache_dir)


def _storing_for_later(own: Path, plain: Callable[..., None], cache: Any, *args: Any, **named: Any) -> None:
    """Store the answers of this run where a run that reuses answers finds them, in place of older ones."""
    plain(*args, **named)
    for file in own.rglob("*.parquet"):
        place = cache.cache_dir / file.relative_to(own)
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.with_name(f"{own.name}.tmp")
        shutil.copyfile(file, fresh)
        fresh.replace(place)


def _loading(plain: Callable[..., Any], pipeline: Any, config: Any, model: Any) -> Any:
    """Load the model, and note what answers: `pipeline.model_identity`."""
    if config is None:
        return plain(config, model)
    was = model_identity(config.model_dump())
    made = plain(config, model)
    now = pipeline.model_identity = model_identity(config.model_dump())
    same = {name: now[name] for name in was if name in now and not name.startswith("revision ")}
    if changed := [name for name, value in same.items() if value != was[name]]:
        raise ConfigError(f"{listed(changed)} changed while the model was loaded; run this again when it is complete")
    return made
