"""`Run`: its request, resolution, status, scores and receipts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from evalkit.core.validation_errors import validated
from evalkit.errors import RegistryError
from evalkit.runs.contract.figure_name_rules import is_count
from evalkit.runs.contract.receipts import Receipt, RunFacts
from evalkit.runs.run.run_display import run_html, run_text
from evalkit.runs.run.run_facts import About, covers, facts_of, not_known

OTHER_VERSION = "; use the evalkit version that wrote them"
_MORE = ("not_known", "scored_nothing", "notes")


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


@dataclass(frozen=True)
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
        ``running``, ``succeeded``, ``failed`` or ``cancelled``.
    error
        Why it did not succeed.
    exit_code
        Exit code of LightEval's process.
    artifacts
        `folder`, `environment`, `notes` …
    tasks, scores, receipts
        In the order of the pack's tasks.
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
        """LightEval's output folder."""
        return self.folder / "output"

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
        """The receipts of a task (``name|0``) or of the tasks of a group, one per metric and task."""
        return tuple(one for one in self.receipts if covers(task, one.task))

    def judged(self, task: str) -> tuple[str, ...]:
        """The metrics of a task, or of a group of tasks, that have receipts of judges."""
        return tuple(dict.fromkeys(one.metric for one in self.receipts_of(task)))

    @cached_property
    def recorded(self) -> RunFacts:
        """What LightEval's process recorded: model, documents and metrics; without tasks if nothing is recorded."""
        facts, where = self.artifacts.get("facts", {}), f"run {self.id}: invalid facts"
        return validated(RunFacts, facts, where, RegistryError, advice=OTHER_VERSION)

    @cached_property
    def facts(self) -> Mapping[About, Mapping[str, Any]]:
        """What was evaluated, on what, by whom and by which rules: subject -> name -> value; None: not known."""
        return facts_of(self)

    @property
    def not_known(self) -> tuple[str, ...]:
        """The facts that are not recorded or cannot be known; empty unless the run succeeded."""
        return tuple(map(str, not_known(self))) if self.status == "succeeded" else ()

    @property
    def scored_nothing(self) -> tuple[str, ...]:
        """Task and metric of each receipt with answers of which none has a score."""
        return tuple(f"{one.task} ({one.metric})" for one in self.receipts if one.scored_nothing)

    @property
    def lighteval(self) -> str | None:
        """LightEval's version; None if not recorded."""
        version = (self.artifacts.get("environment") or {}).get("packages", {}).get("lighteval")
        return None if version is None else str(version)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: all fields, and `facts`, `not_known`, `scored_nothing`, `notes`."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        values: dict[str, Any] = orjson.loads(orjson.dumps(plain, default=Receipt.model_dump))
        facts = [{"what": f"{about.what} {about.judge}".rstrip(), "task": about.task, "metric": about.metric,
                  "values": of_it} for about, of_it in self.facts.items()]  # fmt: skip
        return values | {"facts": facts, **{name: getattr(self, name) for name in _MORE}}

    def __str__(self) -> str:
        return run_text(self)

    def _repr_html_(self) -> str:
        return run_html(self)
