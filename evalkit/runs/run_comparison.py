"""`compare_runs`: two runs task by task, and sample by sample if both have their details."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.formatting import figure, html_page, html_table, noted, text_table, wrapped
from evalkit.core.printable_text import printable
from evalkit.errors import InputError, MissingExtraError
from evalkit.runs.contract.figure_name_rules import PASS_RATE, is_of
from evalkit.runs.contract.lighteval_output import LightevalArtifacts
from evalkit.runs.run_record import Run, RunScore
from evalkit.runs.run_results import has_samples, sample_values
from evalkit.stats.intervals import Interval, change_interval, mean_interval

TYPES = {
    **dict.fromkeys(("task", "metric"), "object"),
    **dict.fromkeys(("before", "after", "difference", "low", "high"), "float64"),
    "n_pairs": "Int64",
    **dict.fromkeys(("coverage_before", "coverage_after"), "float64"),
    "comparable": "bool",
    "notes": "object",
}
_Z = 1.959964  # normal, two-sided 95 %


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The result of `compare_runs`; ``print`` shows it.

    Attributes
    ----------
    before, after
        The runs: differences are after − before.
    table
        One row per task and metric of either run (without counts of samples), columns `task`, `metric`,
        `before`, `after`, `difference` (after − before), `low`, `high` (95 %), `n_pairs` (samples that both scored;
        NA if not paired), `coverage_before`, `coverage_after` (shares, 0-1), `comparable` (scored in the
        same way), `notes` (why there is no interval, or how it was made).
    reasons
        Why the runs as wholes are not comparable; empty if they are.
    """

    before: Run
    after: Run
    table: pd.DataFrame
    reasons: tuple[str, ...]

    @property
    def comparable(self) -> bool:
        """Whether both were scored in the same way."""
        return not self.reasons

    def __str__(self) -> str:
        rows = _cells(self.table)
        pairs = [(f"{row['task']}, {row['metric']}", row.pop("notes")) for row in rows]
        lines = [_title(self.before, self.after), text_table(rows, left=("metric",))]
        lines += noted([pair for pair in pairs if pair[1]], len(rows))
        lines += [f"not comparable: {reason}" for reason in self.reasons]
        return wrapped(printable("\n".join(lines)))

    def _repr_html_(self) -> str:
        reasons = "".join(f"<p>not comparable: {html.escape(reason)}</p>" for reason in self.reasons)
        table = html_table(_cells(self.table), texts=("metric", "notes"), caption=_title(self.before, self.after))
        return html_page([table, reasons])


def compare_runs(before: Run, after: Run) -> RunComparison:
    """The differences between two runs, after − before.

    If both kept their details on this machine, samples are paired by document and the interval is that of the mean of
    their differences (t, one cluster per sample; of verdicts by Agresti and Min 2005; samples that one side did not
    score are left out and counted). Otherwise it comes from both standard errors, as if the samples were not the same,
    which makes it too wide.

    Parameters
    ----------
    before, after
        Runs that succeeded.

    Raises
    ------
    InputError
        When one did not succeed.
    """
    runs = (before, after)
    for run in runs:
        if run.status != "succeeded":
            raise InputError(f"run {run.id} is {run.status}; only runs that succeeded can be compared")
    differences = list(_differences(before, after))
    scores = [{(one.task, one.metric): one for one in run.scores if not run.is_count(one)} for run in runs]
    samples = [_sample_reader(run) for run in runs]
    rows = [
        _row(key, runs, [side.get(key) for side in scores], [read(*key) for read in samples], differences)
        for key in dict.fromkeys([*scores[0], *scores[1]])
    ]
    table = pd.DataFrame(rows, columns=list(TYPES)).astype(TYPES)
    return RunComparison(before, after, table, tuple(_reasons(before, after, differences)))


def _sample_reader(run: Run) -> Callable[[str, str], pd.Series | None]:
    """Task and metric -> sample values by document; None without details, or if two documents are equal."""

    @cache
    def details(task: str) -> pd.DataFrame | None:
        try:
            return LightevalArtifacts.at(run.output).details(task)
        except (InputError, MissingExtraError):
            return None

    def values(task: str, metric: str) -> pd.Series | None:
        frame = details(task)
        # a pass rate is the mean of its samples' verdicts
        metric = f"{metric.removesuffix(PASS_RATE)}_passed" if metric.endswith(PASS_RATE) else metric
        if frame is None or not has_samples(frame, metric):
            return None
        series = sample_values(frame, metric).set_axis([_document(doc) for doc in frame["doc"]])
        return series if series.index.is_unique else None

    return values


def _document(doc: Any) -> str:
    """A document's place and question: places alone would pair different documents."""
    return f"{doc.get('id')}\x00{doc.get('query')}" if isinstance(doc, dict) else str(doc)


def _row(
    key: tuple[str, str],
    runs: tuple[Run, Run],
    scores: Sequence[RunScore | None],
    samples: Sequence[pd.Series | None],
    differences: Sequence[str],
) -> dict[str, Any]:
    identities = [run.figure_identity(*key) for run in runs]
    notes = [*differences, *(["scored differently"] if identities[0] != identities[1] else [])]
    comparable = not notes
    values = [math.nan if score is None or score.value is None else score.value for score in scores]
    difference = values[1] - values[0]
    interval, n_pairs = Interval.none(""), None
    if math.isnan(difference):
        notes = ["one run has no such figure" if None in scores else "one run has nothing scored"]
    else:
        interval, n_pairs, note = _paired(samples[0], samples[1], difference) or _unpaired(scores[0], scores[1])
        notes += [*_cautions(runs, *key), note if interval.reason is None else interval.reason]
    coverages = [None if score is None else score.coverage for score in scores]
    notes_text = "; ".join(filter(None, notes))
    cells = (*key, *values, difference, interval.low, interval.high, n_pairs, *coverages, comparable, notes_text)
    return dict(zip(TYPES, cells, strict=True))


def _cautions(runs: tuple[Run, Run], task: str, metric: str) -> Iterator[str]:
    """Why two figures may differ although they are scored in the same way."""
    if any(run.scored_by_unknown(task, metric) for run in runs):
        yield "scorer not known"
    for run in runs:
        receipts = [receipt for receipt in run.receipts_of(task) if is_of(metric, [receipt.metric])]
        down = [judge.name for receipt in receipts for judge in receipt.judges if judge.is_down]
        if down:
            yield f"{', '.join(down)} scored nothing in {run.id}"


def _paired(a: pd.Series | None, b: pd.Series | None, difference: float) -> tuple[Interval, int, str] | None:
    if a is None or b is None or set(a.index) != set(b.index):
        return None
    steps = (b.reindex(a.index) - a).dropna().to_numpy(dtype=np.float64)
    if not len(steps):
        return Interval.none("no sample is scored on both sides"), 0, ""
    known = np.concatenate([a.dropna().to_numpy(), b.dropna().to_numpy()])
    samples = np.arange(len(steps))
    if np.isin(known, (0.0, 1.0)).all():
        interval = change_interval(steps, samples)
    else:
        unit = bool(known.min() >= 0 and known.max() <= 1)
        interval = mean_interval(steps, samples, bounds=(-1.0, 1.0) if unit else None)
    if len(steps) == len(a) and not math.isclose(float(steps.mean()), difference, abs_tol=1e-6):
        return None  # the figure is not the mean of its samples
    left = len(a) - len(steps)
    return interval, len(steps), f"paired, {left} left out because one run did not score them" if left else "paired"


def _unpaired(a: RunScore | None, b: RunScore | None) -> tuple[Interval, None, str]:
    errors = [None if one is None else one.stderr for one in (a, b)]
    if a is None or b is None or None in errors:
        return Interval.none("no details and no standard errors"), None, ""
    half = _Z * math.hypot(*(error for error in errors if error is not None))
    if not half:
        return Interval.none("not paired, and both standard errors are 0: no interval"), None, ""
    middle = float(b.value or 0.0) - float(a.value or 0.0)
    return Interval(middle - half, middle + half), None, "not paired, so the interval is wider than a paired one"


def _differences(before: Run, after: Run) -> Iterator[str]:
    """How the settings differ that change every figure."""
    settings: dict[str, list[Any]] = {
        "max_samples": [run.options.get("max_samples") for run in (before, after)],
        "flags": [run.options.get("flags") or {} for run in (before, after)],
        "LightEval": [run.lighteval for run in (before, after)],
    }
    for name, (first, second) in settings.items():
        if first != second:
            yield f"different {name}: {first} and {second}"


def _reasons(before: Run, after: Run, differences: Iterable[str]) -> Iterator[str]:
    first, second = before.identities, after.identities
    if before.scoring_mode != after.scoring_mode:
        yield f"scoring modes {before.scoring_mode} and {after.scoring_mode}"
    yield from differences
    for task in dict.fromkeys([*first, *second]):
        if task not in first or task not in second:
            yield f"{task} is only in {after.id if task in second else before.id}"
        elif first[task] != second[task] and before.scoring_mode == after.scoring_mode:
            yield f"{task}: different judges, rubric, template, plugin or rules"


def _title(a: Run, b: Run) -> str:
    return f"{a.id} ({a.pack}, {a.model}) -> {b.id} ({b.pack}, {b.model})"


def _cells(table: pd.DataFrame) -> list[dict[str, str]]:
    return [
        {
            "task": str(row["task"]),
            "metric": str(row["metric"]),
            "before": figure(row["before"], digits=3),
            "after": figure(row["after"], digits=3),
            "difference": figure(row["difference"], row["low"], row["high"], digits=3),
            "pairs": "NA" if pd.isna(row["n_pairs"]) else str(row["n_pairs"]),
            "scored": " / ".join(
                "NA" if pd.isna(row[f"coverage_{side}"]) else f"{row[f'coverage_{side}']:.0%}"
                for side in ("before", "after")
            ),
            "notes": str(row["notes"]),
        }
        for row in table.to_dict("records")
    ]
