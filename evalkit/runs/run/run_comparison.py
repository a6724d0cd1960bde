"""`compare_runs`: two runs task by task, and sample by sample if both have their details."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Sequence
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
from evalkit.runs.run.run_facts import Remark, differences, metrics_of, not_known
from evalkit.runs.run.run_record import Run, RunScore
from evalkit.runs.run.run_results import applies_to, has_samples, sample_values
from evalkit.stats.intervals import Interval, change_interval, mean_interval

TYPES = {
    **dict.fromkeys(("task", "metric"), "object"),
    **dict.fromkeys(("before", "after", "difference", "low", "high"), "float64"),
    "n_pairs": "Int64",
    **dict.fromkeys(("paired_before", "paired_after", "coverage_before", "coverage_after"), "float64"),
    **dict.fromkeys(("differs", "not_known", "notes"), "object"),
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
        `before`, `after` (the figures of the runs), `difference` (after − before, of the pairs if there are any),
        `low`, `high` (95 %), `n_pairs` (samples that both scored; NA if not paired), `paired_before`, `paired_after`
        (the means of these samples), `coverage_before`, `coverage_after` (shares, 0-1), `differs` (what else differs
        that may change the figure; blank if nothing does), `not_known` (what of that is not known), `notes` (why there
        is no interval, or how it was made).
    differences
        Everything recorded that differs between the runs; empty if nothing does.
    not_known
        What is not known of one of the runs or both.
    """

    before: Run
    after: Run
    table: pd.DataFrame
    differences: tuple[str, ...]
    not_known: tuple[str, ...]

    def __str__(self) -> str:
        rows = _cells(self.table)
        pairs = [(f"{row['task']}, {row['metric']}", row.pop("notes")) for row in rows]
        lines = [_title(self.before, self.after), text_table(rows, left=("metric",))]
        lines += [*noted([pair for pair in pairs if pair[1]], len(rows)), *self._facts()]
        return wrapped(printable("\n".join(lines)))

    def _repr_html_(self) -> str:
        facts = "".join(f"<p>{html.escape(line)}</p>" for line in self._facts())
        table = html_table(_cells(self.table), texts=("metric", "notes"), caption=_title(self.before, self.after))
        return html_page([table, facts])

    def _facts(self) -> list[str]:
        differing = [f"differs: {line}" for line in self.differences] or ["differs: nothing that is recorded"]
        return [*differing, *(f"not known: {line}" for line in self.not_known)]


def compare_runs(before: Run, after: Run) -> RunComparison:
    """The differences between two runs, after − before, and what else differs between them.

    If both kept their details on this machine, samples are paired by document: difference and interval are those of
    the samples that both scored (t, one cluster per sample; verdicts by Agresti and Min 2005), and the others are
    counted. Otherwise, or if a figure is not the mean of its samples, the interval comes from both standard errors, as
    if the samples were not the same, which makes it too wide.

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
    changes, gaps = differences(before, after), [not_known(run) for run in runs]
    scores = [{(one.task, one.metric): one for one in run.scores if not run.is_count(one)} for run in runs]
    samples = [_sample_reader(run) for run in runs]
    rows = []
    for key in dict.fromkeys([*scores[0], *scores[1]]):
        row = _row(key, runs, [side.get(key) for side in scores], [read(*key) for read in samples])
        metrics = {*metrics_of(before, key[0]), *metrics_of(after, key[0])}
        of_key = [one for one in changes if one.is_scoring and one.concerns(*key, metrics)]
        row["differs"] = "; ".join(f"{one.what}: {one.text}" for one in of_key)
        open_facts = [f"{one.what}: {one.text}" for side in gaps for one in side if one.concerns(*key, metrics)]
        row["not_known"] = "; ".join(dict.fromkeys(open_facts))
        rows.append(row)
    table = pd.DataFrame(rows, columns=list(TYPES)).astype(TYPES)
    return RunComparison(before, after, table, tuple(map(str, changes)), tuple(_gaps(runs, gaps)))


def _gaps(runs: tuple[Run, Run], gaps: Sequence[Sequence[Remark]]) -> Iterator[str]:
    """What is not known, with the run if it is not both."""
    sides = [[str(one) for one in side] for side in gaps]
    for line in dict.fromkeys([*sides[0], *sides[1]]):
        of = [run.id for run, side in zip(runs, sides, strict=True) if line in side]
        yield line if len(of) == len(runs) else f"{line}, of {of[0]}"


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
        documents = pd.Index([_document(doc) for doc in frame["doc"]])
        series = sample_values(frame, metric).set_axis(documents)
        series.attrs["without"] = set(documents[~applies_to(frame, metric)])
        return series if documents.is_unique else None

    return values


def _document(doc: Any) -> str:
    """A document's place and question: places alone would pair different documents."""
    return f"{doc.get('id')}\x00{doc.get('query')}" if isinstance(doc, dict) else str(doc)


def _row(
    key: tuple[str, str], runs: tuple[Run, Run], scores: Sequence[RunScore | None], samples: Sequence[pd.Series | None]
) -> dict[str, Any]:
    values = [math.nan if score is None or score.value is None else score.value for score in scores]
    notes = ["one run has no such figure" if None in scores else "one run has nothing scored"]
    found = Pairs(Interval.none(""), values[1] - values[0])
    if not math.isnan(found.difference):
        found = _paired(samples, values) or _unpaired(scores[0], scores[1], found.difference)
        notes = [*_cautions(runs, *key), found.interval.reason or "", found.note]
    coverages = [None if score is None else score.coverage for score in scores]
    cells = (*key, *values, found.difference, found.interval.low, found.interval.high, found.n, *found.means)
    cells = (*cells, *coverages, "", "", "; ".join(filter(None, notes)))
    return dict(zip(TYPES, cells, strict=True))


def _cautions(runs: tuple[Run, Run], task: str, metric: str) -> Iterator[str]:
    """Why two figures may differ although they are scored in the same way."""
    for run in runs:
        receipts = [receipt for receipt in run.receipts_of(task) if is_of(metric, [receipt.metric])]
        if down := [judge.name for receipt in receipts for judge in receipt.judges if judge.is_down]:
            yield f"{', '.join(down)} scored nothing in {run.id}"


@dataclass(frozen=True, slots=True)
class Pairs:
    """A difference with its interval, and the number and means of the samples behind it if they are paired."""

    interval: Interval
    difference: float
    n: int | None = None
    means: tuple[float, float] = (math.nan, math.nan)
    note: str = ""


def _paired(samples: Sequence[pd.Series | None], figures: Sequence[float]) -> Pairs | None:
    """The difference of the samples that both sides scored; None if they cannot be paired."""
    a, b = samples
    if a is None or b is None or set(a.index) != set(b.index):
        return None
    for values, value in zip((a, b), figures, strict=True):
        if not math.isclose(float(values.mean()), value, rel_tol=1e-6, abs_tol=1e-6):
            return None  # the figure is not the mean of its samples
    both = pd.DataFrame({"a": a, "b": b.reindex(a.index)}).dropna()
    if both.empty:
        return Pairs(Interval.none("no sample is scored on both sides"), math.nan, 0)
    steps = (both["b"] - both["a"]).to_numpy(dtype=np.float64)
    known = np.concatenate([a.dropna().to_numpy(), b.dropna().to_numpy()])
    numbers = np.arange(len(steps))
    if np.isin(known, (0.0, 1.0)).all():
        interval = change_interval(steps, numbers)
    else:
        unit = bool(known.min() >= 0 and known.max() <= 1)
        interval = mean_interval(steps, numbers, bounds=(-1.0, 1.0) if unit else None)
    without = set().union(*(one.attrs.get("without", ()) for one in (a, b)))
    missing = a.index.difference(both.index).difference(list(without))
    in_neither = int((a.loc[missing].isna() & b.loc[missing].isna()).sum())
    note = "paired"
    if interval.reason is None and not steps.any():
        note = "paired, no sample differs; the interval says what further samples may show"
    if lost := len(missing) - in_neither:
        whole = " and ".join(figure(value, digits=3) for value in figures)
        note = f"{note}; {lost} left out because one run did not score them; with them {whole}"
    if in_neither:
        note = f"{note}; {in_neither} scored by neither run"
    return Pairs(interval, float(steps.mean()), len(steps), (float(both["a"].mean()), float(both["b"].mean())), note)


def _unpaired(a: RunScore | None, b: RunScore | None, middle: float) -> Pairs:
    errors = [None if one is None else one.stderr for one in (a, b)]
    if a is None or b is None or None in errors:
        return Pairs(Interval.none("no details and no standard errors"), middle)
    half = _Z * math.hypot(*(error for error in errors if error is not None))
    if not half:
        return Pairs(Interval.none("not paired, and both standard errors are 0: no interval"), middle)
    note = "not paired, so the interval is wider than a paired one"
    return Pairs(Interval(middle - half, middle + half), middle, note=note)


def _title(a: Run, b: Run) -> str:
    return f"{a.id} ({a.pack}, {a.model}) -> {b.id} ({b.pack}, {b.model})"


def _cells(table: pd.DataFrame) -> list[dict[str, str]]:
    """The rows as strings; where samples are paired, both means are those of the pairs."""
    return [
        {
            "task": str(row["task"]), "metric": str(row["metric"]),
            "before": figure(row["before"] if pd.isna(row["paired_before"]) else row["paired_before"], digits=3),
            "after": figure(row["after"] if pd.isna(row["paired_after"]) else row["paired_after"], digits=3),
            "difference": figure(row["difference"], row["low"], row["high"], digits=3),
            "pairs": "NA" if pd.isna(row["n_pairs"]) else str(row["n_pairs"]),
            "scored": " / ".join("NA" if pd.isna(row[f"coverage_{side}"]) else f"{row[f'coverage_{side}']:.0%}"
                                 for side in ("before", "after")),
            "notes": "; ".join(filter(None, [row["differs"] and f"differs: {row['differs']}", row["notes"]])),
        }
        for row in table.to_dict("records")
    ]  # fmt: skip
