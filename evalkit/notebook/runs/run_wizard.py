"""`RunWizard`: set up a run, see its cost, start and follow it; or copy its config and command."""

from __future__ import annotations

import html
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from evalkit.core.formatting import html_page, html_table
from evalkit.errors import ConfigError
from evalkit.lighteval.run_cost_forecast import RunPlan, plan_run
from evalkit.notebook.runs.run_form import RunForm
from evalkit.notebook.runs.run_wizard_controller import WizardController, refuse
from evalkit.runs import Run, Runner
from evalkit.runs.contract.scoring_config import ScoringConfig
from evalkit.runs.registry import Registry

ScoringConfigLike = ScoringConfig | Mapping[str, Any] | str | Path


class RunWizard(WizardController):
    """Set up a run of a pack, see errors and cost, start it, and view its results.

    As the last line of a notebook cell it draws itself. The run is a process of its own: it continues when the
    kernel ends, and the same cell finds it again in the registry. Everything done on screen is available as a call too.

    Parameters
    ----------
    registry
        The registry, or its URL or file; by default that of `Registry.open`.
    runner
        Executes runs; by default ``Runner(registry)``. With a runner, its registry is used.
    scoring_config
        Initial scoring config: a mapping, JSON text, or a JSON or YAML file.
    **fields
        Initial `pack`, `model`, `backend`, `scoring_mode`, `max_samples`; the others are those of the registry's newest
        run.

    Raises
    ------
    MissingExtraError
        Without ipywidgets and anywidget (extra ``notebook``).
    ConfigError
        For an invalid scoring config, and unknown fields.
    RegistryError
        When the registry cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     registry = Registry.open(f"{folder}/registry.sqlite")
    ...     pack = registry.apply_pack({"pack": "smoke", "version": 1, "tasks": [{"task": "tool_use"}]})
    ...     wizard = RunWizard(registry, pack="smoke@1", model="gpt2")
    ...     print(wizard.errors, wizard.command().split(" --registry")[0])
    ...     wizard.close()
    ...     registry.close()
    {} evalkit run start smoke@1 --model gpt2
    """

    def __init__(
        self,
        registry: Registry | str | Path | None = None,
        *,
        runner: Runner | None = None,
        scoring_config: ScoringConfigLike | None = None,
        **fields: Any,
    ) -> None:
        if runner is None:
            runner = Runner(registry if isinstance(registry, Registry) else Registry.open(registry))
        super().__init__(runner, _initial_form(runner, scoring_config).filled(scoring_config, **fields))

    @property
    def run(self) -> Run | None:
        """The run that is followed or shown, as it is now; None before there is one."""
        run_id = self.widget.progress.get("id") or self.widget.run.get("id")
        return self.runner.run(str(run_id)) if run_id else None

    def set(self, scoring_config: ScoringConfigLike | None = None, **fields: Any) -> None:
        """Fill in fields; the others stay.

        Raises
        ------
        ConfigError
            For an invalid scoring config, and unknown fields.
        """
        self._fill(self.form.filled(scoring_config, **fields))

    def plan(self) -> RunPlan:
        """The most judge calls that the run makes, and their price (see `plan_run`).

        Raises
        ------
        ConfigError
            When the run could not start: with everything that is wrong.
        """
        refuse(self.errors)
        return plan_run(self.registry, self.form.pack, **self.form.settings)

    def export(self, form: str = "yaml", file: str | Path | None = None) -> str:
        """The scoring config as ``yaml`` or ``json``; with `file`, also written there, in the format of its suffix.

        Raises
        ------
        ConfigError
            With `file`: in deterministic mode, which has no config; when the config is invalid; when the file exists.
        """
        if file is not None:
            self._save(Path(file))
        return self.form.export(form)

    def wait(self, timeout_s: float = 600.0) -> Run:
        """Wait for the end of the run that is followed; the run at its end, or after so many seconds.

        Raises
        ------
        InputError
            When no run is selected.
        """
        followed = self.followed
        followed.wait(timeout_s)
        return self.runner.run(followed.run_id)

    def __repr__(self) -> str:
        run = self.run
        return "\n".join(filter(None, [self.command(), "" if run is None else str(run)]))

    def _repr_html_(self) -> str:
        rows = [dict(row) for row in self.widget.runs.get("rows", [])]
        parts = [f"<p>The same run from the command line:</p><pre>{html.escape(self.command())}</pre>"]
        if rows:
            parts.append(html_table(rows, texts=list(rows[0]), caption="Runs of this registry"))
        parts.append("<p class='note'>Run this cell to set up a run; the widget needs a kernel.</p>")
        return html_page(parts) + self._run_html()


def _initial_form(runner: Runner, config: ScoringConfigLike | None) -> RunForm:
    """The form of the registry's newest run; with its scoring config only if none is passed."""
    table = runner.registry.runs()
    if table.empty:
        return RunForm()
    newest = runner.run(str(table["id"].iloc[-1]))
    named = {name: getattr(newest, name) for name in ("pack", "model", "backend", "scoring_mode")}
    form = RunForm().filled(**named, max_samples=newest.options.get("max_samples"))
    if newest.scoring_config and config is None:
        with suppress(ConfigError):  # a deterministic run does not check its config
            return form.filled(newest.scoring_config)
    return form
