"""`RunWizard`: fill in a run, see what it takes, start it, watch it; or take config and command away."""

from __future__ import annotations

import html
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from evalkit.core.formatting import html_page, html_table
from evalkit.errors import ConfigError
from evalkit.notebook.run_estimates import Estimate
from evalkit.notebook.run_form import RunForm
from evalkit.notebook.run_view import with_still
from evalkit.notebook.wizard_messages import WizardScreen
from evalkit.runs import Run, Runner
from evalkit.runs.contract import ScoringConfig
from evalkit.runs.registry import Registry

__all__ = ["RunWizard"]


class RunWizard:
    """Fill in a run of a pack, see what is wrong with it and what it takes, start it, and look at what came of it.

    In a notebook it draws itself when it is the last line of a cell. The run is carried out by a process of its own: it
    goes on when the kernel ends, and the same cell finds it again in the registry. All that is done on screen can be
    done by a call too.

    Parameters
    ----------
    registry
        The registry, or its URL or file; by default that of `Registry.open`.
    runner
        Carries out; by default ``Runner(registry)``. It brings its registry along.
    scoring_config
        To begin with: a mapping, JSON text, or JSON or YAML file.
    **fields
        To begin with: `pack`, `model`, `backend`, `scoring_mode`, `max_samples`. What is not given is as in the
        registry's newest run.

    Raises
    ------
    MissingExtraError
        Without ipywidgets and anywidget (extra ``notebook``).
    ConfigError
        For a scoring config that breaks a rule, and fields that there are not.
    RegistryError
        When the registry cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     registry = Registry.open(f"{folder}/registry.sqlite")
    ...     pack = registry.apply_pack({"pack": "smoke", "version": 1, "tasks": [{"task": "tool_use"}]})
    ...     wizard = RunWizard(registry, pack="smoke@1", model="gpt2")
    ...     print(wizard.faults, wizard.command().split(" --registry")[0])
    ...     wizard.close()
    ...     registry.close()
    {} evalkit run start smoke@1 --model gpt2
    """

    def __init__(
        self,
        registry: Registry | str | Path | None = None,
        *,
        runner: Runner | None = None,
        scoring_config: ScoringConfig | Mapping[str, Any] | str | Path | None = None,
        **fields: Any,
    ) -> None:
        opened = registry if isinstance(registry, Registry) or runner is not None else Registry.open(registry)
        self.runner = runner or Runner(opened)  # type: ignore[arg-type]
        form = _begun(self.runner, scoring_config).filled(scoring_config, **fields)
        self._screen = WizardScreen(self.runner, form)

    @property
    def form(self) -> RunForm:
        """What is filled in."""
        return self._screen.form

    @property
    def faults(self) -> dict[str, str]:
        """What is wrong with what is filled in, or missing, by field; what the pack's names lack is found by `plan`.

        Raises
        ------
        RegistryError
            When the registry is away.
        """
        return {**self._screen.gaps, **self._screen.faults}

    @property
    def run(self) -> Run | None:
        """The run that is followed or shown, as it is now; None before there is one."""
        return self.runner.run(self._screen.shown) if self._screen.shown else None

    def set(self, scoring_config: Any = None, **fields: Any) -> None:
        """Fill in fields; those that are not named stay.

        Raises
        ------
        ConfigError
            For a config that breaks a rule, and fields that there are not.
        """
        self._screen.fill(self.form.filled(scoring_config, **fields))

    def plan(self, *, look: bool = False) -> Estimate:
        """What the run takes at most; with `look`, tasks are imported for what is not known (see `estimate`).

        Raises
        ------
        ConfigError
            When the run could not start: with all that is wrong.
        """
        return self._screen.plan(look=look)

    def command(self) -> str:
        """The command line that starts the same run."""
        return self._screen.command()

    def export(self, form: str = "yaml", file: str | Path | None = None) -> str:
        """The scoring config as ``yaml`` or ``json``; with `file`, written there too, by the name's ending.

        Raises
        ------
        ConfigError
            With `file`: in deterministic mode, where there is no config; for what is wrong with it; for a file that
            is there.
        """
        return self._screen.export(form, None if file is None else Path(file))

    def start(self) -> Run:
        """Start the run, and follow it: returns when its row is written; `wait` waits for its end.

        Raises
        ------
        ConfigError
            When it cannot start: with all that is wrong.
        RegistryError
            When the registry is away.
        """
        return self.runner.run(self._screen.start())

    def stop(self) -> None:
        """Cancel the run that is followed; RegistryError when it is over, InputError when there is none."""
        self._screen.stop()

    def wait(self, timeout_s: float = 600.0) -> Run:
        """Wait for the end of the run that is followed; as it is then, or after so many seconds.

        Raises
        ------
        InputError
            When no run is followed.
        """
        followed = self._screen.followed
        followed.wait(timeout_s)
        return self.runner.run(followed.run_id)

    def close(self) -> None:
        """Follow no run any more, and wait for what is being looked up; a run that goes on is not touched."""
        self._screen.close()

    def __repr__(self) -> str:
        shown = self.run
        return "\n".join(filter(None, [self.command(), "" if shown is None else str(shown)]))

    def _repr_html_(self) -> str:
        rows = [dict(row) for row in self._screen.view.runs.get("rows", [])]
        parts = [f"<p>The same on the command line:</p><pre>{html.escape(self.command())}</pre>"]
        if rows:
            parts.append(html_table(rows, texts=list(rows[0]), caption="Runs of this registry"))
        parts.append("<p class='note'>Run the cell to fill in a run: the widget needs a kernel.</p>")
        return html_page(parts) + self._screen.pages.still()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return with_still(self._screen.view, self, options)


def _begun(runner: Runner, config: Any) -> RunForm:
    """As the registry's newest run was; its scoring config only where none is given."""
    table = runner.registry.runs()
    if table.empty:
        return RunForm()
    newest = runner.run(str(table["id"].iloc[-1]))
    limit = newest.options.get("max_samples")
    form = RunForm(
        newest.pack, newest.model, newest.backend, newest.scoring_mode, max_samples="" if limit is None else str(limit)
    )
    if newest.scoring_config and config is None:
        with suppress(ConfigError):  # of a deterministic run nobody looked at it
            return form.filled(newest.scoring_config)
    return form
