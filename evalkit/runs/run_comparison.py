"""`compare_runs`: two runs task by task, sample by sample where both kept their details."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.formatting import figure, html_page, html_table, text_table
from evalkit.core.terminal_text import printable
from evalkit.errors import InputError, MissingExtraError
from evalkit.runs.contract.lighteval_output import LightevalArtifacts
from evalkit.runs.contract.metric_names import is_count, is_of
from evalkit.runs.run_record import Run, RunScore
from evalkit.runs.run_results import has_samples, sample_values
from evalkit.stats.intervals import Interval, change_interval, mean_interval

__all__ = ["RunComparison", "compare_runs"]

COLUMNS = (
    "task",
    "metric",
    "before",
    "after",
    "difference",
    "low",
    "high",
    "n_pairs",
    "coverage_before",
    "coverage_after",
    "comparable",
    "notes",
)
_Z = 1.959964  # normal, two-sided 95 %


@dataclass(frozen=True, slots=True)
class RunComparison:
    """What `compare_runs` found; ``print`` shows it.

    Attributes
    ----------
    before, after
        The runs: differences are after − before.
    table
        One row per task and metric that either run has (counts of samples left out), columns `task`, `metric`,
        `before`, `after`, `difference` (after − before), `low`, `high` (95 %), `n_pairs` (samples that both scored;
        NA where it is not paired), `coverage_before`, `coverage_after` (shares, 0-1), `comparable` (scored in the
        same way), `notes` (why there is no interval, or how it was made).
    reasons
        Why the runs as wholes are not comparable; empty where they are.
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
        lines = [_title(self.before, self.after), text_table(_cells(self.table), left=("metric", "notes"))]
        lines += [f"not comparable: {reason}" for reason in self.reasons]
        return printable("\n".join(lines))

    def _repr_html_(self) -> str:
        said = "".join(f"<p>not comparable: {html.escape(reason)}</p>" for reason in self.reasons)
        table = html_table(_cells(self.table), texts=("metric", "notes"), caption=_title(self.before, self.after))
        return html_page([table, said])


def compare_runs(before: Run, after: Run) -> RunComparison:
    """The differences between two runs, after − before.

    Where both kept their details on this machine, samples are paired by document and the interval is that of the
    mean of their differences (t, one cluster per sample; of verdicts by Agresti and Min 2005; samples that one side did
    not score are left out and counted). Else it is made from both standard errors, as if the samples were not the
    same, which is too wide.

    Parameters
    ----------
    before, after
        Runs that succeeded.

    Raises
    ------
    InputError
        When one did not succeed.
    """
    for run in (before, after):
        if run.status != "succeeded":
            raise InputError(f"run {run.id} is {run.status}; only runs that succeeded can be compared")
    first, second = _scores(before), _scores(after)
    alike = {
        task: before.identities.get(task) == after.identities.get(task)
        for task in {**before.identities, **after.identities}
    }
    details = (_Samples(before), _Samples(after))
    rows = [
        _row(
            key,
            first.get(key),
            second.get(key),
            details,
            _unlike(before, after, *key),
            _aside(before, after, *key),
        )
        for key in dict.fromkeys([*first, *second])
    ]
    table = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"n_pairs": "Int64", "comparable": "bool"})
    return RunComparison(before, after, table, tuple(_reasons(before, after, alike)))


class _Samples:
    """Details of a run, read once a task; None where they are not here."""

    def __init__(self, run: Run) -> None:
        self._frames: dict[str, pd.DataFrame | None] = {}
        try:
            self._artifacts: LightevalArtifacts | None = LightevalArtifacts.at(run.output)
        except InputError:
            self._artifacts = None

    def values(self, task: str, metric: str) -> pd.Series | None:
        """Sample values by document; None without details, or where documents cannot be told apart."""
        if task not in self._frames:
            self._frames[task] = self._read(task)
        frame = self._frames[task]
        # a pass rate is the mean of its samples' verdicts
        metric = f"{metric.removesuffix('_pass_rate')}_passed" if metric.endswith("_pass_rate") else metric
        if frame is None or not has_samples(frame, metric):
            return None
        names = [_document(doc) for doc in frame["doc"]]
        values = sample_values(frame, metric)
        values.index = pd.Index(names, dtype=object)
        return values if values.index.is_unique else None

    def _read(self, task: str) -> pd.DataFrame | None:
        if self._artifacts is None:
            return None
        try:
            return self._artifacts.details(task)
        except (InputError, MissingExtraError):
            return None


def _document(doc: Any) -> str:
    """A document's place and question: places alone would pair what is not the same."""
    return f"{doc.get('id')}\x00{doc.get('query')}" if isinstance(doc, dict) else str(doc)


def _row(
    key: tuple[str, str],
    a: RunScore | None,
    b: RunScore | None,
    details: tuple[_Samples, _Samples],
    unlike: str,
    aside: str,
) -> dict[str, Any]:
    task, metric = key
    values = [math.nan if one is None or one.value is None else one.value for one in (a, b)]
    row: dict[str, Any] = {
        "task": task, "metric": metric, "before": values[0], "after": values[1], "difference": values[1] - values[0],
        "low": math.nan, "high": math.nan, "n_pairs": None, "coverage_before": _share(a), "coverage_after": _share(b),
        "comparable": not unlike, "notes": "; ".join(filter(None, [unlike, aside])),
    }  # fmt: skip
    if math.isnan(row["difference"]):
        return {
            **row,
            "notes": "one run has no such figure" if a is None or b is None else "one run has nothing scored",
        }
    paired = _paired(details[0].values(task, metric), details[1].values(task, metric), row["difference"])
    interval, n_pairs, note = paired or _unpaired(a, b)
    notes = [row["notes"], note if interval.reason is None else interval.reason]
    return {
        **row,
        "low": interval.low,
        "high": interval.high,
        "n_pairs": n_pairs,
        "notes": "; ".join(filter(None, notes)),
    }


def _unlike(a: Run, b: Run, task: str, metric: str) -> str:
    """How a figure was made otherwise in two runs, by what touches it; blank: in the same way."""
    return "; ".join(
        said
        for said, differs in (
            ("other numbers of samples", a.options.get("max_samples") != b.options.get("max_samples")),
            ("other flags", _options(a)[1] != _options(b)[1]),
            ("other versions of LightEval", a.lighteval != b.lighteval),
            ("scored in another way", a.figure_identity(task, metric) != b.figure_identity(task, metric)),
        )
        if differs
    )


def _aside(a: Run, b: Run, task: str, metric: str) -> str:
    """What two figures that are scored in one way may still differ by: who nobody knows, and who scored nothing."""
    found = [run.scored_by_unknown(task, metric) for run in (a, b)]
    notes = ["it is not known what scores it"] if True in found else []
    for run in (a, b):
        down = [judge.name for one in run.receipts_of(task) if is_of(metric, [one.metric])
                for judge in one.judges if judge.is_down]  # fmt: skip
        notes += [f"{', '.join(down)} scored nothing in {run.id}"] if down else []
    return "; ".join(notes)


def _share(score: RunScore | None) -> float:
    return math.nan if score is None or score.coverage is None else score.coverage


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
        return None  # the figure is no mean of its samples: their difference says nothing of it
    left = len(a) - len(steps)
    return interval, len(steps), f"paired, {left} left out: not scored on both sides" if left else "paired"


def _unpaired(a: RunScore | None, b: RunScore | None) -> tuple[Interval, None, str]:
    errors = [None if one is None else one.stderr for one in (a, b)]
    if a is None or b is None or None in errors:
        return Interval.none("no details and no standard errors"), None, ""
    half = _Z * math.hypot(*(error for error in errors if error is not None))
    if not half:
        return Interval.none("not paired, and both standard errors are 0: no interval"), None, ""
    middle = float(b.value or 0.0) - float(a.value or 0.0)
    return Interval(middle - half, middle + half), None, "not paired: too wide"


def _scores(run: Run) -> dict[tuple[str, str], RunScore]:
    """Figures by task and metric; counts of samples are no scores, and stand in the coverage."""
    names: dict[str, set[str]] = {}
    for one in run.scores:
        names.setdefault(one.task, set()).add(one.metric)
    return {(one.task, one.metric): one for one in run.scores if not is_count(one.metric, names[one.task])}


def _options(run: Run) -> tuple[Any, Any]:
    return run.options.get("max_samples"), run.options.get("flags") or {}


def _reasons(a: Run, b: Run, alike: dict[str, bool]) -> Iterator[str]:
    if a.scoring_mode != b.scoring_mode:
        yield f"scoring modes {a.scoring_mode} and {b.scoring_mode}"
    if a.options.get("max_samples") != b.options.get("max_samples"):
        yield f"numbers of samples {a.options.get('max_samples')} and {b.options.get('max_samples')}"
    if _options(a)[1] != _options(b)[1]:
        yield "flags of LightEval differ"
    if a.lighteval != b.lighteval:
        yield f"LightEval {a.lighteval or 'of no known version'} and {b.lighteval or 'of no known version'}"
    for task, same in alike.items():
        if not same and task not in b.identities:
            yield f"{task} is only in {a.id}"
        elif not same and task not in a.identities:
            yield f"{task} is only in {b.id}"
        elif not same and a.scoring_mode == b.scoring_mode:
            yield f"{task}: other judges, rubric, template, plugin or rules"


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
