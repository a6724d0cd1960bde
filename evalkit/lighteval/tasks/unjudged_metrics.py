"""Metrics that need no judge, with standard error and number of samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.utils.metric_utils import SampleLevelMetric

from evalkit.evaluation.lighteval_rows import EMPTY_ANSWER, mean_row
from evalkit.lighteval.items import answers_of
from evalkit.lighteval.metrics import batched_metric

Check = Callable[[str, Any], tuple[Mapping[str, float], str]]
"""Maps an answer and a document to figures (NaN: unknown, or not applicable) and a note."""


def check_metric(
    name: str, check: Check, keys: Sequence[str], *, empty: bool = False, low: Sequence[str] = ()
) -> SampleLevelMetric:
    """A LightEval metric from a function; the same in every scoring mode.

    Parameters
    ----------
    name
        Name of the metric; a sample's note is in ``<name>_note``.
    check
        A function of a module (it is copied and named in LightEval's logs).
    keys
        The names of the figures, each 0-1.
    empty
        Whether empty answers are checked. Otherwise they have no figures and the note ``empty_answer``, because a
        failed call of the model also leaves an empty answer.
    low
        The figures of which low is good.

    Returns
    -------
    SampleLevelMetric
        Per sample the figures (float, NaN: none) and ``<name>_note`` (text); corpus: for each key its mean, ``_stderr``
        (sd with ddof 1 over √n; NaN under two) and ``_n`` (samples behind it), and ``<name>_n_empty``.
    """
    metric = batched_metric(CheckScore(name, check, tuple(keys), empty=empty))
    # LightEval takes a mapping where a metric has several figures
    metric.higher_is_better = {key: key not in low for key in keys}  # type: ignore[assignment,unused-ignore]
    return metric


class CheckScore(SampleLevelComputation):  # type: ignore[misc,unused-ignore]  # Any without LightEval
    """The sample-level function of `check_metric`.

    Attributes
    ----------
    name, keys
        Names of the metric and its figures.
    check_answer
        The function that returns them.
    empty
        Whether empty answers are checked.
    """

    def __init__(self, name: str, check: Check, keys: tuple[str, ...], *, empty: bool = False) -> None:
        self.name, self.check_answer, self.keys, self.empty = name, check, keys, empty

    def __repr__(self) -> str:
        return f"CheckScore({self.name}: {', '.join(self.keys)})"

    __str__ = __repr__

    def compute(self, responses: Sequence[Any], docs: Sequence[Any], **_: Any) -> list[dict[str, Any]]:  # type: ignore[override,unused-ignore]
        """One row per sample; see `check_metric`."""
        return [self._row(answer, doc) for answer, doc in zip(answers_of(responses, docs), docs, strict=True)]

    def _row(self, answer: str, doc: Any) -> dict[str, Any]:
        row: dict[str, Any] = dict.fromkeys(self.keys, math.nan)
        if not answer.strip() and not self.empty:
            return row | {f"{self.name}_note": EMPTY_ANSWER}
        figures, note = self.check_answer(answer, doc)
        return row | {key: float(value) for key, value in figures.items()} | {f"{self.name}_note": note}

    def corpus(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """The figures of a task as floats; see `check_metric`."""
        figures: dict[str, float] = {}
        for key in self.keys:
            figures |= mean_row(key, [row[key] for row in rows])
        return figures | {f"{self.name}_n_empty": float(sum(row[f"{self.name}_note"] == EMPTY_ANSWER for row in rows))}


def answered_metric() -> SampleLevelMetric:
    """The share of answers that are not empty, `answered`.

    If calls to a model fail, LightEval finishes successfully with empty answers; this figure shows it.
    """
    return check_metric("answered", _is_answered, ["answered"], empty=True)


def _is_answered(answer: str, _doc: Any) -> tuple[Mapping[str, float], str]:
    filled = bool(answer.strip())
    return {"answered": float(filled)}, "" if filled else EMPTY_ANSWER
