"""`run_lighteval`: a LightEval run from Python or a notebook, in a separate process, read as DataFrames."""

from __future__ import annotations

import html
import logging
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.core.formatting import html_page, html_table, text_table
from evalkit.core.settings import default_folder
from evalkit.errors import ConfigError, LightevalError
from evalkit.lighteval.metric_checks import NOTHING
from evalkit.lighteval.result_tables import details_table, judgments_table, results_cells, results_table
from evalkit.rubrics import Profile, load_profile
from evalkit.runs.contract.lighteval_output import LightevalArtifacts
from evalkit.runs.contract.receipts import RECEIPTS_FILE, Receipt, read_receipts
from evalkit.runs.contract.scoring_config import Scoring, ScoringConfig, TaskBindings
from evalkit.runs.processes.child_process import Child
from evalkit.runs.processes.lighteval_command import LIGHTEVAL, lighteval_words, model_facts, run_variables
from evalkit.tables import schemas

_log = logging.getLogger("evalkit")
_SHOWN = ("evalkit: ", "--- ", "judged")
"""Log lines that contain one of these are shown as progress."""
_GRACE_S = 20.0  # judge calls in flight are waited for, so that nothing is paid twice


@dataclass(frozen=True, eq=False)
class LightevalRun:
    """The files of a LightEval run, each read at first use.

    Attributes
    ----------
    folder
        Results, details, `run.log` and `receipts.json`.
    scoring
        Mode and config of the run.
    """

    folder: Path
    scoring: Scoring

    @cached_property
    def artifacts(self) -> LightevalArtifacts:
        """LightEval's own files."""
        return LightevalArtifacts.at(self.folder)

    @cached_property
    def receipts(self) -> tuple[Receipt, ...]:
        """The receipts of the judged tasks; empty in deterministic mode."""
        place = self.folder / RECEIPTS_FILE
        return tuple(read_receipts(place)) if place.exists() else ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What each judge left unscored, and why; tasks without any score come first. What the config replaces."""
        receipts = sorted(self.receipts, key=lambda one: not one.scored_nothing)
        return (*(said for receipt in receipts for said in receipt.warnings), *self.scoring.warnings)

    @cached_property
    def results(self) -> pd.DataFrame:
        """One row per task and metric, judged ones first: `value`, `stderr`, `n` (samples behind it).

        Judged metrics also have `coverage` (share of the samples with a score, 0-1), `pass_rate` and `n_verdicts` (the
        number of samples behind the pass rate; a tie is scored but has no verdict), `alpha` (juries), `n_unscored` and
        `n_empty`. What a metric lacks is NA.
        """
        return results_table(self.artifacts.results)

    @cached_property
    def details(self) -> pd.DataFrame:
        """One row per task and sample, in the shape of `Evaluation.wide`: item, scores, judges and explanations.

        Columns `task`, `item_id`, `question`, `answer` (and `context`, `reference`, if there are any); for each
        metric the figures that LightEval stored, for a judged one `<name>_norm` (0-1: its mean is in `results`),
        `<name>_raw` (rubric units; one criterion), `<name>_verdict`, `_coverage`, `_agreement`, `_explanation`,
        `_error`; for each criterion of a judged metric `<criterion>` (**rubric units**, also where metric and criterion
        have one name), `<criterion>_passed`, `<criterion>_status`, and for each judge `<criterion>_<judge>`, its
        `_label` and `_explanation`. What a task lacks is NA; a name that is taken gets the suffix ``_2``.
        """
        parts = [details_table(task, self.artifacts.details(task), self.receipts) for task in self._tasks]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["task", "item_id"])

    @cached_property
    def judgments(self) -> pd.DataFrame:
        """The judgments tables of all judged tasks; `item_id` is ``task/id``."""
        parts = [judgments_table(task, self.artifacts.details(task), self.receipts) for task in self._tasks]
        found = [part for part in parts if len(part)]
        return pd.concat(found, ignore_index=True) if found else schemas.empty("judgments")

    @property
    def _tasks(self) -> list[str]:
        return [task for task in self.artifacts.results if "_average|" not in task]

    def __str__(self) -> str:
        rows, rest = results_cells(self.results)
        head = f"LightEval run in {self.folder}, scoring mode {self.scoring.mode}"
        notes = [f"note: {one}" for one in self.notes]
        return "\n".join(filter(None, [head, *notes, text_table(rows, left=["metric"]), rest]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows, rest = results_cells(self.results)
        table = html_table(rows, texts=["task", "metric"], caption=f"LightEval run, scoring mode {self.scoring.mode}")
        notes = [f"<p class='note'>note: {html.escape(one)}</p>" for one in self.notes]
        return html_page([*notes, table, f"<p class='note'>{html.escape(rest)}</p>" if rest else ""])


def run_lighteval(
    tasks: str | Sequence[str],
    model: str | Path,
    *,
    backend: str | None = None,
    scoring_mode: str | None = None,
    scoring_config: ScoringConfig | Mapping[str, Any] | str | Path | None = None,
    profile: Profile | str | Path | None = None,
    bindings: TaskBindings | Mapping[str, Any] | None = None,
    custom_tasks: str | Path | None = None,
    max_samples: int | None = None,
    folder: str | Path | None = None,
    args: Sequence[str] = (),
    progress: bool = True,
) -> LightevalRun:
    """Run LightEval in a separate process and read its results.

    Parameters
    ----------
    tasks
        ``"safety_guardrail|0"``, several by commas or as a list; evalkit's own and LightEval's.
    model
        The model to evaluate: a Python file (``custom``), a folder or ``model_name=…`` (``accelerate``), or any value
        that the back end takes.
    backend
        ``custom``, ``accelerate``, ``vllm``, ``sglang``, ``endpoint-litellm`` …; by default ``custom`` for a Python
        file and ``accelerate`` for everything else.
    scoring_mode
        ``deterministic``, ``judge`` or ``jury``; by default inferred from the number of judges;
        ``deterministic`` if no judge is named.
    scoring_config
        Judges, aggregation …: a mapping, JSON text, or file.
    profile
        A profile that names the judges, instead of or in addition to the config.
    bindings
        Settings of single tasks: task → ``judge_profile``, ``judge_template_id``, ``plugin_path``.
    custom_tasks
        A module or file of tasks instead of evalkit's.
    max_samples
        Maximum number of documents per task.
    folder
        The folder for results; by default a new one under ``lighteval-runs`` in the cache folder.
    args
        Further arguments for LightEval's command line; ``["--reuse-answers"]`` takes the model's stored answers of
        earlier runs.
    progress
        Print the stages as they come.

    Returns
    -------
    LightevalRun
        With `.results`, `.details`, `.judgments`, `.receipts`.

    Raises
    ------
    ConfigError
        Before anything starts: for an invalid scoring config or model.
    LightevalError
        When the run fails; the message contains the end of its log and the log's path.
    KeyboardInterrupt
        At Ctrl-C or a kernel's interrupt: the run and its processes are ended, and replies received by then are
        stored. Restarting or killing the kernel ends the run, too.
    """
    if max_samples is not None and max_samples < 1:
        # LightEval takes 0 for no limit
        raise ConfigError(
            f"max_samples must be a whole number ≥ 1, not {max_samples!r}; leave it out for all documents"
        )
    place = _place(folder)
    scoring = _scoring(scoring_mode, scoring_config, profile, place)
    bound = bindings if bindings is None or isinstance(bindings, TaskBindings) else TaskBindings.of(bindings)
    name = backend or ("custom" if str(model).endswith(".py") else "accelerate")
    if name == "custom":
        model_facts(name, str(model))  # an error where there is no such file
    spec = [tasks] if isinstance(tasks, str) else list(tasks)
    if not "".join(spec).strip(" ,"):
        raise ConfigError("tasks= is empty; name a task, as in tasks='safety_guardrail|0'")
    words = lighteval_words(name, str(model), spec, place, {"max_samples": max_samples}, custom_tasks)
    config = None if scoring.config is None else scoring.config.to_dict()
    for old in place.glob("receipts*.json"):  # of an earlier run in this folder
        old.unlink()
    environment = run_variables(scoring.mode, config, bound, place)
    if custom_tasks is not None:  # a module of the working folder is found too
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), str(Path.cwd())]))
    with Child([*LIGHTEVAL, *words, *map(str, args)], environment, place / "run.log", grace_s=_GRACE_S) as child:
        for line in (line for lines in child.follow() for line in lines):
            if NOTHING in line or (progress and any(mark in line for mark in _SHOWN)):
                sys.stderr.write(f"{line}\n")
    if child.code:
        raise LightevalError(f"LightEval {child.failure}")
    run = LightevalRun(place, scoring)
    if not progress:  # else its log has told
        for said in run.notes:
            _log.warning("%s", said)
    return run


def _place(folder: str | Path | None) -> Path:
    name = f"{datetime.now(UTC):%Y-%m-%d-%H%M%S}-{secrets.token_hex(3)}"
    place = Path(default_folder() / "lighteval-runs" / name if folder is None else folder).resolve()
    place.mkdir(parents=True, exist_ok=True)
    return place


def _scoring(mode: str | None, config: Any, profile: Any, folder: Path) -> Scoring:
    config = None if config is None else ScoringConfig.of(config)
    if profile is not None:
        if config is not None and config.profile is not None:
            raise ConfigError("the scoring config and profile= both name a profile; keep only one of them")
        if isinstance(profile, Profile):  # the child process reads it from a file
            path = folder / f"{profile.profile}.yaml"
            path.write_text(str(profile), encoding="utf-8")
            profile = path
        name = str(Path(profile).resolve() if Path(profile).is_file() else profile)
        config = ScoringConfig.of(({} if config is None else config.to_dict()) | {"profile": name})
    if mode is None and config is not None:
        judges = config.judges or (load_profile(config.profile).judges if config.profile else [])
        mode = "jury" if len(judges) > 1 else "judge"
    return Scoring.of(mode, config)
