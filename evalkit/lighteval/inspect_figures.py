"""The figures of tasks that `lighteval eval` ran, by item: epochs are repeats of one item, not further items."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from inspect_ai import Epochs
from inspect_ai.log import EvalLog, EvalScore, read_eval_log
from inspect_ai.scorer import Score, ScoreReducer, mean_score, value_to_float

from evalkit.core.formatting import figure, text_table
from evalkit.evaluation.lighteval_rows import EMPTY_ANSWER, is_tied, mean_row
from evalkit.inspect.scorers import row_of
from evalkit.lighteval.metrics import RubricScore


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
