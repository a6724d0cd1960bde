"""`Run`: its request, resolution, status, scores and receipts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from evalkit.core.reply_keys import digest
from evalkit.errors import listed
from evalkit.runs.contract import Receipt
from evalkit.runs.contract.figure_name_rules import group_of, is_count, is_of
from evalkit.runs.run_display import run_html, run_text


@dataclass(frozen=True, slots=True)
class RunTask:
    """One task of a run.

    Attributes
    ----------
    task
        ``name|0``, LightEval's name of it.
    weight
        Relative weight in the pack's score.
    binding
        Plugin, profile and templates; empty if LightEval runs it unchanged.
    receipt_state
        ``consumed``: a judge of evalkit scored it and wrote a receipt. ``not_consumed``: it is bound, but there is no
        receipt. ``own_config``: not bound, so LightEval scored it by its own configuration. ``deterministic``: none of
        its metrics calls a judge. None: not known yet.
    n_samples
        Samples in the details; None without details.
    """

    task: str
    weight: float
    binding: Mapping[str, Any] = field(default_factory=dict)
    receipt_state: str | None = None
    n_samples: int | None = None


@dataclass(frozen=True, slots=True)
class RunScore:
    """One figure of one task.

    Attributes
    ----------
    task, metric
        The task and the metric.
    value
        The figure; None if nothing was scored.
    stderr
        Its standard error; None if unknown.
    coverage
        Share of the samples that are scored, 0-1; None if unknown.
    """

    task: str
    metric: str
    value: float | None
    stderr: float | None = None
    coverage: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a pack with a model; ``print`` shows its scores, judges and warnings.

    Attributes
    ----------
    id
        Starts with the time of creation, so that runs sort by it.
    pack
        ``name@version``.
    model, backend
        The evaluated model, and LightEval's back end for it.
    scoring_mode, scoring_config
        The mode, and the config as it was given.
    options
        `max_samples` and the flags of LightEval.
    resolution
        The plugins, profiles and templates that were used, with their hashes.
    status
        ``queued``, ``running``, ``succeeded``, ``failed`` or ``cancelled``.
    error
        Why it did not succeed.
    exit_code
        Exit code of LightEval's process.
    artifacts
        `folder`, `log`, `attempts`, `environment`, `notes` …
    tasks, scores, receipts
        In the order of the pack's tasks.
    rerun_of
        The run that this one repeats.
    created_at, started_at, finished_at
        Times in UTC.
    primary_metric, task_aggregation
        Settings of the pack.
    """

    id: str
    pack: str
    model: str
    backend: str
    scoring_mode: str
    scoring_config: Mapping[str, Any] | None
    options: Mapping[str, Any]
    resolution: Mapping[str, Any]
    status: str
    error: str | None
    exit_code: int | None
    artifacts: Mapping[str, Any]
    tasks: tuple[RunTask, ...]
    scores: tuple[RunScore, ...]
    receipts: tuple[Receipt, ...]
    rerun_of: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    primary_metric: str | None
    task_aggregation: str

    @property
    def folder(self) -> Path:
        """The folder of its log and LightEval's output, on the machine that ran it."""
        return Path(str(self.artifacts.get("folder", "")))

    @property
    def log(self) -> Path:
        """The log of LightEval's process."""
        return self.folder / "logs" / "run.log"

    @property
    def output(self) -> Path:
        """LightEval's output folder of the last attempt."""
        return self.folder / f"attempt-{max(1, len(self.artifacts.get('attempts', ())))}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings to read before the figures: unscored judgments, missing receipts, empty answers."""
        return tuple(self.artifacts.get("notes", ()))

    @property
    def table(self) -> pd.DataFrame:
        """All figures: `task`, `metric`, `value`, `stderr`, `coverage` (share, 0-1), `n_samples`; NA where unknown."""
        counts = {one.task: one.n_samples for one in self.tasks}
        rows = [asdict(one) | {"n_samples": counts.get(one.task)} for one in self.scores]
        types = {"value": "float64", "stderr": "float64", "coverage": "float64", "n_samples": "Int64"}
        return pd.DataFrame(rows, columns=["task", "metric", *types]).astype(types)

    def is_count(self, score: RunScore) -> bool:
        """Whether a figure is a number of samples, not a score."""
        return is_count(score.metric, [one.metric for one in self.scores if one.task == score.task])

    def receipts_of(self, task: str) -> tuple[Receipt, ...]:
        """The receipts of a task (``name|0``), one per metric."""
        plain = task.split("|", 1)[0]
        return tuple(one for one in self.receipts if one.task.split("|", 1)[0] == plain)

    def judged(self, task: str) -> tuple[str, ...]:
        """The metrics of a task, or of a group of tasks, that have receipts of judges."""
        whole = group_of(task) or task
        return tuple(dict.fromkeys(one.metric for one in self.receipts if _covers(whole, one.task.partition("|")[0])))

    @property
    def irreproducible(self) -> tuple[str, ...]:
        """Why the run cannot be repeated exactly; empty if inputs, versions and judges are recorded.

        The model is recorded by its name, and by its hash if it is a file: weights on a hub or behind a server are not
        hashed. Replies of judges are in the cache.
        """
        return tuple(_gaps(self))

    @property
    def unknown(self) -> tuple[str, ...]:
        """Tasks with metrics for which it is not known what scores them: ``mt_bench|0 (judge_score)``.

        A metric is known if evalkit's judges score it, or if all of its code is known to call no model. LightEval's own
        judge, and the code of a task or plugin, may call any model.
        """
        return tuple(_unknown(self)) if self.status == "succeeded" else ()

    @property
    def reproducible(self) -> bool | None:
        """Whether everything that the run used is recorded; None if unknown. See `irreproducible` and `unknown`."""
        if self.irreproducible:
            return False
        return None if self.unknown else True

    @property
    def scored_nothing(self) -> tuple[str, ...]:
        """Task and metric of each receipt with answers of which none has a score."""
        return tuple(f"{one.task} ({one.metric})" for one in self.receipts if one.scored_nothing)

    @property
    def identity(self) -> str:
        """Hash of how the run is scored: equal for two runs that can be compared.

        It covers the mode, LightEval's version, tasks with their few-shot examples, plugins' hashes, the identities of
        the receipts (judges, rubrics, templates, samples, rules), number of samples and flags; not the model and not
        the weights of tasks.
        """
        options = {name: value for name, value in self.options.items() if value not in (None, [], {})}
        seen = {"mode": self.scoring_mode, "options": options, "lighteval": self.lighteval}
        return digest({**seen, "tasks": dict(self.identities)})

    @property
    def identities(self) -> Mapping[str, str]:
        """Task -> hash of how it is scored."""
        noted = self.artifacts.get("scorers", {})
        return {
            one.task: _identity(
                self, one, self.receipts_of(one.task), unknown="unknown" in (scorers_of(noted, one.task) or {}).values()
            )
            for one in self.tasks
        }

    def figure_identity(self, task: str, metric: str) -> str | None:
        """Hash of how one figure is scored; only the receipts of its own metric count.

        None if the run does not have the task.
        """
        group = group_of(task)
        name = task.partition("|")[0]
        whole = next((one for one in self.tasks if _covers(one.task, name if group is None else group)), None)
        if whole is None:
            return None
        mine = self.receipts_of(task) if group is None else _of_group(self.receipts, group)
        touching = [one for one in mine if is_of(metric, [one.metric])]
        return _identity(self, whole, touching, judged=bool(mine), unknown=self.scored_by_unknown(task, metric))

    def scored_by_unknown(self, task: str, metric: str) -> bool | None:
        """Whether it is not known what scores a figure (see `unknown`); None if nothing is recorded for the task."""
        scorers = scorers_of(self.artifacts.get("scorers", {}), group_of(task) or task)
        if scorers is None:
            return None
        heads = [name for name in scorers if is_of(metric, [name])]
        # a metric may have figures of any name
        return scorers[max(heads, key=len)] == "unknown" if heads else "unknown" in scorers.values()

    @property
    def lighteval(self) -> str | None:
        """LightEval's version; None if not recorded."""
        version = (self.artifacts.get("environment") or {}).get("packages", {}).get("lighteval")
        return None if version is None else str(version)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: all fields, and `identity`, `reproducible`, `unknown`, `notes` …"""
        values: dict[str, Any] = orjson.loads(orjson.dumps(self, default=Receipt.model_dump))
        names = ("identity", "reproducible", "irreproducible", "unknown", "scored_nothing", "notes")
        return values | {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        return run_text(self)

    def _repr_html_(self) -> str:
        return run_html(self)


def _of_group(receipts: Iterable[Receipt], group: str) -> tuple[Receipt, ...]:
    return tuple(one for one in receipts if one.task.startswith(f"{group}:"))


def _gaps(run: Run) -> Iterable[str]:
    if run.status != "succeeded":
        yield f"it is {run.status}"
    if not run.artifacts.get("environment"):
        yield "the versions of its packages are not recorded"
    for one in run.tasks:
        if one.receipt_state == "not_consumed":
            yield f"{one.task}: {no_receipt(run.scoring_mode)}"
        elif run.scoring_mode != "deterministic":
            scorers = scorers_of(run.artifacts.get("scorers", {}), one.task) or {}
            lost = [name for name, by in scorers.items() if by == "judge" and name not in run.judged(one.task)]
            if lost:
                yield f"{one.task}: {listed(lost)} left no receipt"


def no_receipt(mode: str) -> str:
    """The message for a bound task without a receipt."""
    if mode == "deterministic":
        return "it is bound, and its metrics may call a judge"
    return "its judge plugin left no receipt"


def scorers_of(noted: Mapping[str, Mapping[str, Any]], task: str) -> dict[str, Any] | None:
    """Metric -> what scores it, for a task or the tasks of a group; None if nothing is recorded."""
    mine = [found for other, found in noted.items() if _covers(task, other.partition("|")[0])]
    # unknown last: a metric that is unknown in one task is unknown in the group
    pairs = sorted((pair for found in mine for pair in found.items()), key=lambda pair: pair[1] == "unknown")
    return dict(pairs) if mine else None


def _unknown(run: Run) -> Iterable[str]:
    for one in run.tasks:
        scorers = scorers_of(run.artifacts.get("scorers", {}), one.task)
        if scorers is None:
            yield f"{one.task} (no metric is recorded)"
        elif lost := [metric for metric, by in scorers.items() if by == "unknown"]:
            yield f"{one.task} ({', '.join(lost)})"


def _covers(task: str, name: str) -> bool:
    """Whether a pack's task has this name, or is the group of a task with this name."""
    whole = task.partition("|")[0]
    return name == whole or name.startswith(f"{whole}:")


def _identity(
    run: Run, task: RunTask, receipts: Sequence[Receipt], *, judged: bool = False, unknown: bool | None = False
) -> str:
    seen: dict[str, Any] = {"task": task.task, "plugin": task.binding.get("plugin_hash")}
    # a plugin may have another path on another machine: only its content counts, also in receipts
    seen["receipts"] = sorted(digest(one.identity) for one in receipts)
    is_unseen = not receipts and not judged and task.receipt_state != "deterministic"
    if is_unseen and task.binding:
        seen["binding"] = {name: value for name, value in task.binding.items() if name != "plugin_path"}
    if ((is_unseen and task.binding) or unknown) and run.scoring_mode != "deterministic":
        seen["config"] = run.scoring_config  # unknown code may read it
    return digest(seen)
