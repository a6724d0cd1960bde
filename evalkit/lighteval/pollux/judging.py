"""The judging of answers by criteria that differ from item to item: one group of items a criterion."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from evalkit.engine import Options, Spec
from evalkit.errors import JudgeError
from evalkit.evaluation import Evaluation, evaluate_spec
from evalkit.lighteval.metric_rows import sample_rows, unjudged_row
from evalkit.lighteval.progress import Told
from evalkit.lighteval.scoring import Settled, judges_used
from evalkit.rubrics import Criterion, Rubric
from evalkit.rubrics.prompts import PromptBuilder

__all__ = ["JudgedCriteria", "judge_criteria"]

_log = logging.getLogger("evalkit")
_AT_ONCE = 8  # criteria under way; the calls among them are limited by the engine, which all share


@dataclass(frozen=True, slots=True)
class JudgedCriteria:
    """What came out.

    Attributes
    ----------
    rows
        Number of the item -> id of the criterion -> its row, as `sample_rows` makes it with the name ``x``.
    evaluations
        One a criterion; none where no judge could be asked.
    n_wanted
        Judgments wanted.
    """

    rows: dict[int, dict[str, dict[str, Any]]] = field(default_factory=dict)
    evaluations: list[Evaluation] = field(default_factory=list)
    n_wanted: int = 0

    def counts(self, spec: Spec) -> dict[str, Any]:
        """What a receipt says of judges, judgments and costs."""
        tables = [evaluation.judgments for evaluation in self.evaluations]
        n_down = (self.n_wanted - sum(map(len, tables))) // len(spec.judges)
        costs = [evaluation.cost for evaluation in self.evaluations]
        paid = [cost.paid_usd for cost in costs]
        n_scored = sum(int(table["error"].isna().sum()) for table in tables)
        return {
            "judges": judges_used(spec, tables, n_down),
            "n_judgments": self.n_wanted,
            "n_unscored": self.n_wanted - n_scored,
            "n_live": sum(cost.n_live for cost in costs),
            "n_cached": sum(cost.n_cached + cost.n_recorded for cost in costs),
            "cost_usd": None if None in paid else float(sum(one for one in paid if one is not None)),
        }


def judge_criteria(
    settled: Settled, items: pd.DataFrame, applying: Mapping[int, Mapping[str, Criterion]], options: Mapping[str, Any]
) -> JudgedCriteria:
    """Judge each item by its own criteria; groups of one criterion run side by side.

    Parameters
    ----------
    settled
        Who judges, by which rules.
    items
        With an `item_id`; the number of an item is its row's.
    applying
        Number of the item -> id -> criterion.
    options
        For the engine.
    """
    groups: dict[tuple[str, Criterion], list[int]] = {}
    for number, criteria in applying.items():
        for key, criterion in criteria.items():
            groups.setdefault((key, criterion), []).append(number)
    work = [(_spec(settled.spec, criterion), items.iloc[mine]) for (_, criterion), mine in groups.items()]
    evaluations = _evaluations(settled, work, options)
    report = settled.report_disagreement and settled.mode == "jury"
    found: dict[int, dict[str, dict[str, Any]]] = {number: {} for number in applying}
    for ((key, _), mine), (spec, part), evaluation in zip(groups.items(), work, evaluations, strict=True):
        rows = {} if evaluation is None else sample_rows("x", evaluation, report_disagreement=report)
        lost = unjudged_row("x", spec.rubric, "judge_down", report_disagreement=report)
        for number, item in zip(mine, part["item_id"], strict=True):
            found[number][key] = rows.get(item, lost)
    per_criterion = len(settled.spec.judges) * settled.spec.samples
    n_wanted = sum(map(len, applying.values())) * per_criterion
    return JudgedCriteria(found, [one for one in evaluations if one is not None], n_wanted)


def _evaluations(
    settled: Settled, work: Sequence[tuple[Spec, pd.DataFrame]], options: Mapping[str, Any]
) -> list[Evaluation | None]:
    """The evaluation of each group; Ctrl-C, SIGTERM and SIGHUP, which reach the main thread alone, end all of them."""
    from evalkit.engine.calls.fetching import ending_signals

    stopping = threading.Event()
    with ending_signals(), ThreadPoolExecutor(max_workers=max(1, min(_AT_ONCE, len(work)))) as pool:
        try:
            return list(pool.map(lambda one: _evaluation(settled, one[0], one[1], options, stopping), work))
        except (KeyboardInterrupt, SystemExit):
            _log.warning("stopped: waiting for calls in flight, so that nothing is paid twice")
            stopping.set()
            raise


def _until(stopping: threading.Event, tell: Callable[[Any], object]) -> Callable[[Any], object]:
    """For `on_progress`: stops the run of this thread, once, as Ctrl-C does one of the main thread."""
    told = False

    def hear(progress: Any) -> None:
        nonlocal told
        if stopping.is_set() and not told:
            told = True
            raise KeyboardInterrupt
        tell(progress)

    return hear


def _evaluation(
    settled: Settled, spec: Spec, items: pd.DataFrame, options: Mapping[str, Any], stopping: threading.Event
) -> Evaluation | None:
    given: dict[str, Any] = {"progress": False, "on_progress": Told(spec.rubric.names[0])} | dict(options)
    given["on_progress"] = _until(stopping, given["on_progress"])
    try:
        return evaluate_spec(spec, items, settled.rules, Options(**given))
    except JudgeError as problem:
        # the model's answers were paid for as well: the run goes on, with a lower coverage
        _log.error("%s: %s", spec.rubric.names[0], problem)
        return None


def _spec(spec: Spec, criterion: Criterion) -> Spec:
    """The same judges and templates with one criterion."""
    whole = spec.rubric
    rubric = Rubric(id=whole.id, inputs=whole.inputs, template=whole.template, criteria=(criterion,))
    return replace(
        spec,
        rubric=rubric,
        prompt_builders=tuple(PromptBuilder(rubric, builder.template) for builder in spec.prompt_builders),
    )
