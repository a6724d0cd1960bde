"""Tasks for `lighteval eval`, which runs them with Inspect: `sample_fields`, `solver` and `scorer` from a task's own
prompt function and metrics, so that both commands show the model the same text and compute the same figures; and the
command itself, with a row for each figure of each task. One module, because the command checks the scorers made here.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
from anyio import to_thread
from inspect_ai import Epochs
from inspect_ai._util.error import PrerequisiteError
from inspect_ai._util.registry import registry_info, registry_params
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, EvalScore, read_eval_log
from inspect_ai.scorer import Score, Scorer, ScoreReducer, Target, mean_score, scorer, value_to_float
from inspect_ai.solver import Generate, Solver, TaskState, solver
from lighteval.metrics.utils.metric_utils import SampleLevelMetric, SampleLevelMetricGrouping
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.prompt_manager import PromptManager
from lighteval.tasks.requests import Doc, SamplingMethod
from lighteval.utils.utils import as_list

from evalkit.core.formatting import figure, text_table
from evalkit.errors import ConfigError, EvalkitError, listed
from evalkit.evaluation.lighteval_rows import EMPTY_ANSWER, is_tied, mean_row
from evalkit.inspect.scorers import mean, row_of, score_of, stderr
from evalkit.lighteval.metric_checks import nothing_judged, raise_all
from evalkit.lighteval.metrics import RubricScore
from evalkit.lighteval.scorer_kinds import model_identity, note_facts
from evalkit.rubrics.files import parse_yaml, read_text

_log = logging.getLogger("evalkit")
_ANOTHER = "use another command, such as `evalkit lighteval endpoint`"


def with_inspect_fields(task: LightevalTaskConfig) -> LightevalTaskConfig:
    """The task with the fields that `lighteval eval` needs; as it is if it has them, or if a metric cannot be computed.

    Metrics of generated answers are computed sample by sample; others (log-probabilities, JudgeLM's batches) cannot.
    """
    if task.sample_fields is not None or any(map(_why_impossible, task.metrics)):
        return task
    fields: Any = {
        "sample_fields": _Samples(task.prompt_function, task.name, task.hf_filter),
        "solver": [_answer(task.generation_size, tuple(task.stop_sequence or ()))],
        "scorer": [_task_scorer(metric) for metric in task.metrics],
    }  # LightEval's annotations say None
    return replace(task, **fields)


def _why_impossible(metric: Any) -> str:
    """Why the figures of a metric cannot be computed from samples that come one by one; empty if they can."""
    compute = metric.sample_level_fn
    if metric.category != SamplingMethod.GENERATIVE:
        return "it needs log-probabilities"
    if getattr(compute, "is_judged", False) and not isinstance(compute, RubricScore):
        return "it judges all answers at once"
    if hasattr(compute, "corpus"):
        return ""
    if metric.batched_compute:
        return "it scores all answers at once"
    if hasattr(compute, "num_samples"):
        return "it needs several answers to each question"
    means = metric.corpus_level_fn
    means = means.values() if isinstance(means, dict) else [means]
    of_samples = isinstance(metric, (SampleLevelMetric, SampleLevelMetricGrouping))
    is_mean = of_samples and all(one in (np.mean, np.nanmean) for one in means)
    return "" if is_mean else "its figure is not the mean (np.mean) of one number per answer"


class _Samples:
    """Makes Inspect's samples of a row, as the prompt function makes its document."""

    def __init__(self, read: Callable[..., Doc | None], task: str, keep: Callable[..., bool] | None) -> None:
        self._read, self._task, self._keep = read, task, keep
        self._first: Mapping[str, Any] | None = None

    def __repr__(self) -> str:  # part of the key of LightEval's stored answers
        return f"_Samples({self._read!r})"

    def __deepcopy__(self, _memo: dict[int, Any]) -> _Samples:
        return self

    def __call__(self, row: dict[str, Any]) -> list[Sample]:
        if self._keep is not None and not self._keep(row):
            return []
        self._first = self._first or dict(row)
        doc = self._read({**row, "__few_shots": False, "__index": int(row != self._first)}, f"{self._task}|0")
        if doc is None:
            return []
        kept = {name: getattr(doc, name) for name in ("query", "choices", "gold_index", "instruction", "specific")}
        golds = [str(doc.choices[at]) for at in as_list(doc.gold_index)] if doc.choices else []
        text = PromptManager().prepare_prompt_api(doc)[-1]["content"]
        return [Sample(input=text, target=golds, metadata={"task": f"{self._task}|0", "document": kept})]


def _document(of: Any, name: Any) -> Doc:
    """The document of a sample, or of its state, with a name for messages."""
    return Doc(task_name=of.metadata["task"], id=str(name), **of.metadata["document"])


def _document_of_others(sample: Any, name: Any) -> Doc:
    """The document of a sample that a task makes itself, for the facts."""
    text = sample.input if isinstance(sample.input, str) else str([(one.role, one.text) for one in sample.input])
    golds = as_list(sample.target)
    specific = (sample.metadata or {}) | ({"choices": sample.choices} if sample.choices else {})
    return Doc(query=text, choices=golds, gold_index=[*range(len(golds))], specific=specific, id=str(name))


@solver(name="evalkit_answer")
def _answer(max_tokens: int | None, stop: Sequence[str]) -> Solver:
    return _Answer({"max_tokens": max_tokens} | ({"stop_seqs": list(stop)} if stop else {}))


class _Answer:
    """Generates the answer, or takes the one that Inspect has stored for the same input and settings."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings

    def __repr__(self) -> str:
        return f"_Answer({self._settings})"

    async def __call__(self, state: TaskState, generate: Generate) -> TaskState:
        return await generate(state, cache=True, **self._settings)


def _task_scorer(metric: Any) -> Scorer:
    made = _TaskScorer(metric)

    @scorer(metrics={"*": [mean(), stderr()]}, name=made.name)
    def make() -> Scorer:
        return made

    return make()


class _TaskScorer:
    """Scores a sample as LightEval's metric does; judge and jury as the variables for scoring say."""

    def __init__(self, metric: Any) -> None:
        compute = metric.sample_level_fn
        self.compute = compute if hasattr(compute, "corpus") else _OwnMetric(metric)
        if isinstance(compute, RubricScore):
            self.compute = compute.alone()
        self.name = "+".join(as_list(metric.metric_name))

    def __repr__(self) -> str:
        return f"_TaskScorer({self.compute!r})"

    def __deepcopy__(self, _memo: dict[int, Any]) -> _TaskScorer:
        return self

    async def __call__(self, state: TaskState, target: Target) -> Score:  # noqa: ARG002  # Inspect's protocol
        document = _document(state, state.sample_id)
        answer = state.output.completion
        (row,) = await to_thread.run_sync(partial(self.compute.compute, [ModelResponse(text=[answer])], [document]))
        return score_of(row, answer, f"{self.name}_")


class _OwnMetric:
    """A metric of LightEval, or of a task's author, that gives each answer a number, and means as figures."""

    def __init__(self, metric: Any) -> None:
        self._metric, self._names = metric, as_list(metric.metric_name)
        check = getattr(metric.sample_level_fn, "check", None)
        self.check = check if callable(check) else None

    def __repr__(self) -> str:
        return f"_OwnMetric({self._metric.sample_level_fn})"

    def compute(self, responses: Sequence[ModelResponse], docs: Sequence[Doc]) -> list[dict[str, float]]:
        """One row per sample."""
        found = [self._metric.compute_sample(model_response=one, doc=doc)
                 for one, doc in zip(responses, docs, strict=True)]  # fmt: skip
        return [{name: _number(row[name], name) for name in self._names} for row in found]

    def corpus(self, rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """The mean of each figure, with standard error, number and share of the samples that have one."""
        figures: dict[str, float] = {}
        for name in self._names:
            figures |= mean_row(name, [row[name] for row in rows])
            figures[f"{name}_coverage"] = figures[f"{name}_n"] / len(rows)
        return figures


def _number(value: Any, name: str) -> float:
    try:
        return math.nan if value is None else float(value)
    except (TypeError, ValueError):
        raise ConfigError(
            f"metric {name!r} gave {type(value).__name__} for an answer, but `lighteval eval` needs one number; "
            f"{_ANOTHER}"
        ) from None


_RENAMED = {"frequence_penalty": "frequency_penalty", "log_probs": "logprobs"}
"""What LightEval 0.13 calls settings that Inspect has under other names."""

_LOADED_HERE = ("hf", "vllm", "sglang", "transformer_lens", "nnterp")
"""Inspect's names for what loads a model from a folder or the Hub."""

_SELF_GRADED = ("inspect_ai/model_graded_fact", "inspect_ai/model_graded_qa")
"""Scorers that ask the evaluated model, unless they name a model or the run has a grader."""


class EvalCommand:
    """`lighteval eval` with ``--custom-tasks``, ``--model-base-url`` and ``--model-roles``, which LightEval 0.13 drops,
    with the names of settings that Inspect knows, and with figures that have their coverage.

    Attributes
    ----------
    failed
        Whether a task of the run failed.
    """

    def __init__(self, args: Sequence[str], *, reuse_answers: bool) -> None:
        given = (_option(args, f"--{name}") for name in ("custom-tasks", "model-base-url", "model-roles"))
        self._module, self._base_url, roles = given
        self._roles = _model_roles(roles) if roles else None
        self._tasks, self._table, self.failed = dict[str, LightevalTaskConfig](), "", False
        self._faults: dict[str, list[str]] = {}
        self._reuses_answers = reuse_answers

    def prepare(self) -> None:
        """Wrap the functions of the command; called once, before it starts."""
        import lighteval.main_inspect
        from inspect_ai.model import _model as inspect_model
        from lighteval.tasks.registry import Registry

        command: Any = lighteval.main_inspect
        models: Any = inspect_model
        load, read = Registry.__init__, command.hf_dataset

        def load_with_tasks(registry: Any, *args: Any, **named: Any) -> None:
            try:
                load(registry, *args, **{**named, "custom_tasks": self._module})
            except ValueError as problem:  # such as a parameter that a metric lacks
                raise ConfigError(_one_line(problem)) from None

        Registry.__init__ = load_with_tasks  # type: ignore[assignment, method-assign]
        command.get_inspect_ai_task = partial(self._make, command.get_inspect_ai_task)
        # Inspect keeps the rows of a folder by its name, and would not see that they changed
        command.hf_dataset = lambda path, **named: read(path, cached=not Path(path).is_dir(), **named)
        command.inspect_ai_eval_set = partial(self._run, command.inspect_ai_eval_set)
        command.results_to_markdown_table = lambda *_, **__: self._table  # its own shows `accuracy` alone
        if not self._reuses_answers:
            _take_only_own_answers(models)

    def _make(self, make: Callable[..., Any], config: LightevalTaskConfig, *args: Any, **named: Any) -> Any:
        """Inspect's task; None for one that cannot run (a fault is noted) and one that is named twice."""
        task = with_inspect_fields(config)
        try:
            self._refuse(task)
            made = make(task, *args, **named)
        except Exception as problem:  # noqa: BLE001  # the data, or code of a task: all are reported in one message
            self._faults.setdefault(_one_line(problem), []).append(task.name)
            return None
        if made.name in self._tasks:  # named twice, as in bbq,bbq:Age
            return None
        self._tasks[made.name] = task
        return made

    def _run(self, run: Callable[..., Any], made: list[Any], *args: Any, limit: int | None = None, **named: Any) -> Any:
        """Check, run and read the tasks."""
        found = [one for one in made if one is not None]
        models = [*named["model"], *(self._roles or {}).values()]
        self._check_all(found, limit, {model: _content_of(model, named.get("model_args") or {}) for model in models})
        settings = {_RENAMED.get(name, name): value for name, value in named.items() if value is not None}
        # Inspect would wait 30 s, 60 s, … and up to an hour, ten times, before it says that a task failed
        own = {"model_base_url": self._base_url, "model_roles": self._roles, "limit": limit, "retry_attempts": 1}
        try:
            success, logs = run(found, *args, **own | settings)
        except PrerequisiteError as problem:
            raise ConfigError(re.sub(r"\[/?[a-z]+\]", "", _one_line(problem))) from None
        self.failed = not success
        for log in logs:
            if log.error is not None:  # with --display none, Inspect does not show it
                _log.error("%s, %s: %s", log.eval.model, log.eval.task, log.error.message)
        ran = [(log, self._tasks[log.eval.task.rpartition("/")[2]]) for log in logs if log.status == "success"]
        rows = [row for log, task in ran for row in figures_of(log, task.name, _scorers(task))]
        self._table = figures_table(rows)
        if not success:
            sys.stdout.write(f"{self._table}\n")  # of the tasks that did not fail
            if not self._reuses_answers:
                _log.warning("the same command asks all tasks again; with --reuse-answers, only what is missing")
        return success, logs

    def _refuse(self, task: LightevalTaskConfig) -> None:
        if task.sample_fields is None:
            whys = {"+".join(as_list(metric.metric_name)): _why_impossible(metric) for metric in task.metrics}
            name, why = next((name, why) for name, why in whys.items() if why)
            raise ConfigError(f"`lighteval eval` cannot compute the metric {name!r}, because {why}; {_ANOTHER}")
        if task.num_fewshots > 0 and task.sample_to_fewshot is None:
            raise ConfigError("the task has no few-shot examples for `lighteval eval` (sample_to_fewshot); use |0")
        names = [one.name for one in _scorers(task)]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise ConfigError(f"two metrics have the name {listed(twice)}; give one another name")

    def _check_all(self, found: Sequence[Any], limit: int | None, models: Mapping[str, str]) -> None:
        """Raise what prevents judging, say what will not be judged, and note the facts, before a model is asked.

        Inspect would take a task that was finished in the same --log-dir, by its name, model and version, without
        looking at what scores it: a version of its own makes it run.
        """
        facts: dict[str, Any] = {}
        every: dict[str, list[Doc]] = {}
        for made in found:
            task = self._tasks[made.name]
            name, read = f"{task.name}|0", _document if _scorers(task) else _document_of_others
            every[name] = [read(sample, at) for at, sample in enumerate(made.dataset)]
            self._check(task, every[name][:limit])
            scorers: list[Any] = [] if _scorers(task) else as_list(task.scorer or ())
            others = [SimpleNamespace(metric_name=registry_info(one).name, higher_is_better=None, sample_level_fn=None)
                      for one in scorers]  # fmt: skip
            facts[name] = SimpleNamespace(metrics=others or task.metrics, config=task)
            made.version = uuid.uuid4().hex
        faults = self._faults.items()
        raise_all([f"task {listed(tasks, most=3)}: {fault}" if tasks else fault for fault, tasks in faults])
        if line := nothing_judged({f"{task.name}|0": task.metrics for task in self._tasks.values()}):
            _log.warning("%s", line)
        note_facts(models, facts, {name: docs[:limit] for name, docs in every.items()})

    def _check(self, task: LightevalTaskConfig, docs: Sequence[Doc]) -> None:
        """Note what prevents judging a task, before a model is asked, and say if a model grades itself."""
        for one in _scorers(task):
            try:
                if check := getattr(one.compute, "check", None):
                    check(f"{task.name}|0", docs)
            except EvalkitError as problem:
                self._faults.setdefault(str(problem), [])
        if "grader" not in (self._roles or {}) and any(map(_asks_the_evaluated_model, as_list(task.scorer or ()))):
            _log.warning(
                "%s: the evaluated model grades its own answers; to have another model do it, add "
                """--model-roles '{"grader": "openai/gpt-4o"}'""",
                task.name,
            )


def _content_of(model: str, args: Mapping[str, Any]) -> str:
    """The hash of what answers, for a model that is loaded in this process; else blank."""
    api, _, name = model.partition("/")
    given = {"model_name": name, "revision": args.get("revision")}
    facts = model_identity(given) if api in _LOADED_HERE else {}
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16] if facts else ""


def _take_only_own_answers(models: Any) -> None:
    """Let Inspect store all answers, and take only those that this process has stored."""
    store, fetch, stored = models.cache_store, models.cache_fetch, set[tuple[str, str]]()

    def store_noted(entry: Any, output: Any) -> Any:
        stored.add((entry.model, entry.key))  # Inspect's key does not name the model
        return store(entry=entry, output=output)

    models.cache_store = store_noted
    models.cache_fetch = lambda entry: fetch(entry) if (entry.model, entry.key) in stored else None


def _one_line(problem: Exception) -> str:
    said = " ".join(str(problem).split())
    return said if isinstance(problem, (EvalkitError, PrerequisiteError)) else f"{type(problem).__name__}: {said[:300]}"


def _option(args: Sequence[str], name: str) -> str | None:
    """The value of an option, as in ``--name value`` and ``--name=value``; the last one counts."""
    found = [text.partition("=")[2] if "=" in text else after
             for text, after in pairwise([*args, ""]) if text.partition("=")[0] == name]  # fmt: skip
    return found[-1] if found else None


def _model_roles(given: str) -> dict[str, str]:
    """Role -> model, from YAML or JSON or a file of it."""
    file = Path(given)
    text = given if given.lstrip().startswith("{") else read_text(file)
    found = parse_yaml(Path("--model-roles") if text is given else file, text)
    if not isinstance(found, dict) or not all(isinstance(one, str) for pair in found.items() for one in pair):
        raise ConfigError(
            f"--model-roles={given!r} is not a mapping of roles to models; write it as "
            """--model-roles '{"grader": "openai/gpt-4o"}', or name a file with this content"""
        )
    return found


def _asks_the_evaluated_model(one: Any) -> bool:
    return registry_info(one).name in _SELF_GRADED and registry_params(one).get("model") is None


def _scorers(task: LightevalTaskConfig) -> list[_TaskScorer]:
    scorers: list[Any] = as_list(task.scorer or ())
    return [one for one in scorers if isinstance(one, _TaskScorer)]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a task that `lighteval eval` ran, by item.

    Attributes
    ----------
    model, task, name
        What was scored, and the name of the figure.
    value, stderr, n, coverage
        The figure over the `n` items that have a number, its standard error, and the share of items that are scored.
    reducer, n_answers, all_answers
        How the epochs of an item become one value (empty for one epoch), how many answers have a value, and of how
        many.
    """

    model: str
    task: str
    name: str
    value: float
    stderr: float
    n: float
    coverage: float
    reducer: str = ""
    n_answers: float = 0.0
    all_answers: int = 0


def figures_of(log: EvalLog, task: str, scorers: Sequence[Any]) -> list[Figure]:
    """The figures of a task that `lighteval eval` ran, as LightEval's other commands compute them; writes receipts.

    `scorers` are those of the task that evalkit has made of its metrics.
    """
    log = read_eval_log(log.location)
    epochs, names = log.eval.config.epochs or 1, log.eval.config.epochs_reducer
    reducer = f"{'+'.join(names or ['mean'])} of {epochs}" if epochs > 1 else ""
    make = partial(Figure, log.eval.model, task, reducer=reducer)
    figures = [found for one in scorers for found in _own_figures(one, log, task, make)]
    mine = {one.name for one in scorers}
    for score in log.results.scores if log.results else []:
        if score.scorer not in mine:
            figures += _inspect_figures(score, log, make, [found.name for found in figures])
    return figures


def _own_figures(one: Any, log: EvalLog, task: str, make: Callable[..., Figure]) -> list[Figure]:
    """The figures of a metric, as its task computes them from one row per item."""
    reducers = Epochs(1, log.eval.config.epochs_reducer).reducer or [mean_score()]
    items: dict[Any, list[dict[str, Any]]] = {}
    for sample in log.samples or []:
        score = (sample.scores or {}).get(one.name)
        items.setdefault(sample.id, []).extend([] if score is None else [row_of(score, f"{one.name}_")])
    rows = [row for epochs in items.values() for row in epochs]
    merged = [_merged(epochs, reducers[0]) for epochs in items.values() if epochs]
    if isinstance(one.compute, RubricScore):
        one.compute.leave_receipt(f"{task}|0", rows, merged)
    values = one.compute.corpus(merged)
    alpha = {f"{one.name}_alpha"} & {*values}  # of all answers: merged rows have no judgments
    values |= {name: one.compute.corpus(rows)[name] for name in alpha}
    answers = one.compute.corpus([_merged([row], mean_score()) for row in rows]) if len(rows) > len(items) else values
    scored = len(merged) / len(items) if items else math.nan
    counts = {f"{one.name}_alpha": f"{one.name}_n", f"{one.name}_pass_rate": f"{one.name}_n_verdicts"}
    counts = {name: count for name in values if (count := counts.get(name, f"{name}_n")) in values}
    return [
        make(
            name, values[name], values.get(f"{name}_stderr", math.nan), values[count],
            values.get(f"{name}_coverage", values[count] / max(len(merged), 1)) * scored,
            n_answers=answers[count], all_answers=len(rows),
        )
        for name, count in counts.items()
    ]  # fmt: skip


def _merged(rows: Sequence[Mapping[str, Any]], reduce: ScoreReducer) -> dict[str, Any]:
    """The row of an item from those of its epochs: numbers by the reducer, as in Inspect's log; without judgments."""
    columns = {key: [row.get(key) for row in rows] for row in rows for key in row}
    texts = {key: [str(one or "") for one in column] for key, column in columns.items()
             if any(isinstance(one, str) for one in column)}  # fmt: skip
    numbers = [key for key in columns if key not in texts]
    reduced: Any = reduce([Score(value={key: _float(columns[key][at], None) for key in numbers})
                           for at in range(len(rows))]).value  # fmt: skip
    made = {key: None if math.isnan(reduced[key]) and None in columns[key] else reduced[key] for key in numbers}
    for key, said in texts.items():
        if key.endswith("_criteria"):
            parts = [orjson.loads(one) for one in said]
            known = {name: [part[name] for part in parts if name in part] for part in parts for name in part}
            made[key] = orjson.dumps({name: _merged(mine, reduce) for name, mine in known.items()}).decode()
        elif key.endswith("_judgments"):
            made[key] = "[]"
        else:  # a reason: none if an epoch has none; a tie is scored, an empty answer says least
            made[key] = max(said, key=lambda one: (not one, is_tied(one), one != EMPTY_ANSWER))
    return made


_SPREADS = ("stderr", "std", "var", "bootstrap_stderr")
_MEAN_METRICS = ("accuracy", "mean")


def _inspect_figures(score: EvalScore, log: EvalLog, make: Callable[..., Figure], taken: Sequence[str]) -> list[Figure]:
    """The figures of another scorer, as Inspect computed them; a mean with its standard error over the items."""
    part = None if score.name == score.scorer else score.name
    reduced = [_float(one.value, part) for found in log.reductions or [] for one in found.samples
               if (found.scorer, found.reducer) == (score.scorer, score.reducer)]  # fmt: skip
    given = [(sample.scores or {}).get(score.scorer) for sample in log.samples or []]
    n_answers = sum(one is not None and not math.isnan(_float(one.value, part)) for one in given)
    n, n_items = score.scored_samples or 0, len({sample.id for sample in log.samples or []})
    means = mean_row("x", reduced)
    figures = []
    for metric in score.metrics.values():
        if (kind := metric.name.rpartition("/")[2]) in _SPREADS:
            continue
        is_mean = kind in _MEAN_METRICS and math.isclose(metric.value, means["x"], abs_tol=1e-9)
        name = (part or kind) if part is None or kind in _MEAN_METRICS else f"{part}/{kind}"
        figures.append(make(
            f"{score.name}/{kind}" if name in taken else name, metric.value,
            means["x_stderr"] if is_mean else math.nan, n, n / n_items if n_items else math.nan,
            n_answers=n_answers, all_answers=len(given),
        ))  # fmt: skip
    return figures


_to_float = value_to_float()


def _float(value: Any, part: str | None) -> float:
    value = value.get(part) if isinstance(value, dict) else value
    return math.nan if value is None else _to_float(value)


def figures_table(figures: Sequence[Figure]) -> str:
    """Figures as a text: each with its standard error, number of items and coverage; of groups of tasks the mean."""
    lines = [
        {"model": one.model, "task": one.task, "figure": one.name, "value": figure(one.value),
         "stderr": figure(one.stderr), "n": f"{one.n:.0f}", "coverage": figure(one.coverage)}
        for one in [*figures, *_averages(figures)]
    ]  # fmt: skip
    said = dict.fromkeys(f"Epochs: the value of an item is the {one.reducer} answers." for one in figures
                         if one.reducer)  # fmt: skip
    lost = [f"{one.model}, {one.task}, {one.name}: {one.n_answers:.0f} of {one.all_answers} answers have a value."
            for one in figures if one.reducer and one.n_answers < one.all_answers]  # fmt: skip
    return "\n".join([text_table(lines, width=None, left=("model", "task", "figure")), *said, *lost])


def _averages(figures: Sequence[Figure]) -> list[Figure]:
    """The means over the tasks of a group, such as `arc` for `arc:easy` and `arc:challenge`, as LightEval has them."""
    groups: dict[tuple[str, str, str], list[Figure]] = {}
    for one in figures:
        group, colon, _ = one.task.partition(":")
        if colon:
            groups.setdefault((one.model, f"{group}:_average", one.name), []).append(one)
    return [
        Figure(
            model, task, name, sum(one.value for one in mine) / len(mine),
            math.hypot(*(one.stderr for one in mine)) / len(mine), sum(one.n for one in mine),
            sum(one.coverage for one in mine) / len(mine), mine[0].reducer,
        )
        for (model, task, name), mine in groups.items() if len(mine) > 1
    ]  # fmt: skip
