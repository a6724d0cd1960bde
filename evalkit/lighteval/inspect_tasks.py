"""Tasks for `lighteval eval`, which runs them with Inspect: `sample_fields`, `solver` and `scorer` from a task's own
prompt function and metrics, so that both commands show the model the same text and compute the same figures.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from anyio import to_thread
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.scorer import Score, Scorer, Target, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc, SamplingMethod
from lighteval.utils.utils import as_list

from evalkit.core.formatting import figure, text_table
from evalkit.inspect.scorers import mean, row_of, score_of, stderr
from evalkit.lighteval.metric_checks import nothing_judged
from evalkit.lighteval.metrics import RubricScore

_log = logging.getLogger("evalkit")


def with_inspect_fields(task: LightevalTaskConfig) -> LightevalTaskConfig:
    """The task with the fields that `lighteval eval` needs; as it is if it has them, or if a metric cannot be computed.

    Metrics of generated answers are computed sample by sample; others (log-probabilities, JudgeLM's batches) cannot.
    """
    metrics = [metric for metric in task.metrics if _is_possible(metric)]
    if task.sample_fields is not None or len(metrics) < len(task.metrics):
        return task
    fields: Any = {
        "sample_fields": _Samples(task.prompt_function, task.name),
        "solver": [_answer(task.generation_size)],
        "scorer": [_task_scorer(metric) for metric in metrics],
    }  # LightEval's annotations say None
    return replace(task, **fields)


def _is_possible(metric: Any) -> bool:
    compute = metric.sample_level_fn
    is_other_judge = getattr(compute, "is_judged", False) and not isinstance(compute, RubricScore)
    return bool(metric.category == SamplingMethod.GENERATIVE and hasattr(compute, "corpus") and not is_other_judge)


class _Samples:
    """Makes Inspect's samples of a row, as the prompt function makes its document."""

    def __init__(self, read: Callable[..., Doc | None], task: str) -> None:
        self._read, self._task = read, task
        self._first: Mapping[str, Any] | None = None

    def __repr__(self) -> str:  # part of the key of LightEval's stored answers
        return f"_Samples({self._read!r})"

    def __deepcopy__(self, _memo: dict[int, Any]) -> _Samples:
        return self

    def __call__(self, row: dict[str, Any]) -> list[Sample]:
        is_first = self._first is None or row == self._first
        self._first = self._first or dict(row)
        doc = self._read({**row, "__few_shots": False, "__index": int(not is_first)}, f"{self._task}|0")
        if doc is None:
            return []
        kept = {name: getattr(doc, name) for name in ("query", "choices", "gold_index", "instruction", "specific")}
        golds = [str(doc.choices[at]) for at in as_list(doc.gold_index)] if doc.choices else []
        text = f"{doc.instruction or ''}{doc.query}"
        return [Sample(input=text, target=golds, metadata={"task": f"{self._task}|0", "document": kept})]


@solver(name="evalkit_answer")
def _answer(max_tokens: int | None) -> Solver:
    return _Answer(max_tokens)


class _Answer:
    """Generates the answer, or takes the one that Inspect has stored for the same input and settings."""

    def __init__(self, max_tokens: int | None) -> None:
        self._max_tokens = max_tokens

    def __repr__(self) -> str:
        return f"_Answer({self._max_tokens})"

    async def __call__(self, state: TaskState, generate: Generate) -> TaskState:
        return await generate(state, cache=True, max_tokens=self._max_tokens)


def _task_scorer(metric: Any) -> Scorer:
    @scorer(metrics={"*": [mean(), stderr()]}, name=str(metric.metric_name))
    def made() -> Scorer:
        return _TaskScorer(metric)

    return made()


class _TaskScorer:
    """Scores a sample as LightEval's metric does; judge and jury as the variables for scoring say."""

    def __init__(self, metric: Any) -> None:
        self.name = str(metric.metric_name)
        compute = metric.sample_level_fn
        self.compute = compute.alone() if isinstance(compute, RubricScore) else compute

    def __repr__(self) -> str:
        return f"_TaskScorer({self.compute!r})"

    def __deepcopy__(self, _memo: dict[int, Any]) -> _TaskScorer:
        return self

    async def __call__(self, state: TaskState, target: Target) -> Score:  # noqa: ARG002  # Inspect's protocol
        document = Doc(task_name=state.metadata["task"], id=str(state.sample_id), **state.metadata["document"])
        answer = state.output.completion
        (row,) = await to_thread.run_sync(partial(self.compute.compute, [ModelResponse(text=[answer])], [document]))
        return score_of(row, answer, f"{self.name}_")


_RENAMED = {"frequence_penalty": "frequency_penalty", "log_probs": "logprobs"}
"""What LightEval 0.13 calls settings that Inspect has under other names."""


class EvalCommand:
    """`lighteval eval` with ``--custom-tasks`` and ``--model-base-url``, which LightEval 0.13 drops, with the names of
    settings that Inspect knows, and with figures that have their coverage.

    Attributes
    ----------
    failed
        Whether a task of the run failed.
    """

    def __init__(self, args: Sequence[str]) -> None:
        self._module, self._base_url = (_option(args, f"--{name}") for name in ("custom-tasks", "model-base-url"))
        self._tasks, self._table, self.failed = dict[str, LightevalTaskConfig](), "", False

    def prepare(self) -> None:
        """Wrap the functions of the command; called once, before it starts."""
        import lighteval.main_inspect
        from lighteval.tasks.registry import Registry

        main_inspect: Any = lighteval.main_inspect

        load, make, run = Registry.__init__, main_inspect.get_inspect_ai_task, main_inspect.inspect_ai_eval_set

        def load_with_tasks(registry: Any, *args: Any, **named: Any) -> None:
            load(registry, *args, **{**named, "custom_tasks": self._module})

        def make_checked(task: LightevalTaskConfig, *args: Any, **named: Any) -> Any:
            for one in _scorers(task):
                if isinstance(one.compute, RubricScore):
                    one.compute.check(f"{task.name}|0")  # raises before a model is asked
            made = make(task, *args, **named)
            self._tasks[made.name] = task
            return made

        def run_and_read(*args: Any, **named: Any) -> tuple[bool, list[EvalLog]]:
            if line := nothing_judged({f"{task.name}|0": task.metrics for task in self._tasks.values()}):
                _log.warning("%s", line)
            settings = {_RENAMED.get(name, name): value for name, value in named.items() if value is not None}
            success, logs = run(*args, **{"model_base_url": self._base_url} | settings)
            self.failed = not success
            for log in logs:
                if log.error is not None:  # with --display none, Inspect does not show it
                    _log.error("%s, %s: %s", log.eval.model, log.eval.task, log.error.message)
            if success:
                self._table = figures_table({(log.eval.model, log.eval.task): self._figures(log) for log in logs})
            return success, logs

        Registry.__init__ = load_with_tasks  # type: ignore[assignment, method-assign]
        main_inspect.get_inspect_ai_task = make_checked
        main_inspect.inspect_ai_eval_set = run_and_read
        main_inspect.results_to_markdown_table = lambda *_, **__: self._table  # its own shows `accuracy` alone

    def _figures(self, log: EvalLog) -> dict[str, float]:
        task = self._tasks.get(log.eval.task.rpartition("/")[2])
        return figures_of(log, task) if task is not None else {}


def _option(args: Sequence[str], name: str) -> str | None:
    """The value of an option, as in ``--name value`` and ``--name=value``; the last one counts."""
    found = [text.partition("=")[2] if "=" in text else after
             for text, after in pairwise([*args, ""]) if text.partition("=")[0] == name]  # fmt: skip
    return found[-1] if found else None


def _scorers(task: LightevalTaskConfig) -> list[_TaskScorer]:
    scorers: Any = task.scorer or ()
    return [one for one in scorers if isinstance(one, _TaskScorer)]


def figures_of(log: EvalLog, task: LightevalTaskConfig) -> dict[str, float]:
    """The figures of a task that `lighteval eval` ran, as LightEval's other commands compute them; writes receipts."""
    samples = read_eval_log(log.location).samples or []
    figures: dict[str, float] = {}
    for one in _scorers(task):
        found = [(sample.scores or {}).get(one.name) for sample in samples]
        rows = [row_of(score, f"{one.name}_") for score in found if score is not None]
        figures |= one.compute.corpus(rows)
        if isinstance(one.compute, RubricScore):
            one.compute.leave_receipt(f"{task.name}|0", rows)
    return figures


def figures_table(figures: Mapping[tuple[str, str], Mapping[str, float]]) -> str:
    """Figures by model and task as a text: each score with its standard error, number of samples and coverage."""
    lines = []
    for (model, task), values in figures.items():
        for name in values:
            if f"{name}_n" in values:
                row = {"model": model, "task": task, "figure": name}
                row |= {part: figure(values.get(f"{name}{end}", math.nan)) for part, end in _PARTS}
                lines.append(row | {"n": f"{values[f'{name}_n']:.0f}"})
    return text_table(lines, left=("model", "task", "figure"))


_PARTS = (("value", ""), ("stderr", "_stderr"), ("n", "_n"), ("coverage", "_coverage"))
