"""The form of a run: checked by the rules of `evalkit.runs.contract`, exported as config and command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from evalkit.core.judge_field_checks import NOT_SENT_IF_NULL
from evalkit.core.judge_settings import NOT_SENT
from evalkit.core.validation_errors import problems
from evalkit.errors import ConfigError
from evalkit.rubrics.files import dump_yaml
from evalkit.runs.contract.scoring_config import Scoring, ScoringConfig
from evalkit.runs.processes.lighteval_command import model_facts

_NUMBERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("weight", "temperature"), float),
    **dict.fromkeys(("max_tokens", "samples", "criteria_per_call"), int),
}
_RULES = ("aggregation", "samples", "criteria_per_call", "profile")
_FLAGS = ("report_disagreement", "force_aggregation")

Typed = Annotated[str, BeforeValidator(lambda value: "" if value is None else str(value).strip())]


class RunForm(BaseModel):
    """A run as it is filled in: strings as typed, empty if nothing was typed.

    Attributes
    ----------
    pack, model, backend
        The pack and the model that it tests.
    scoring_mode
        One of `SCORING_MODES`.
    judges
        One mapping per judge, with the fields of `JudgeConfig`.
    aggregation, samples, profile
        Rules; if empty, those of the profile, else the defaults.
    report_disagreement, force_aggregation, criteria_per_call
        As in `ScoringConfig`.
    max_samples
        The most samples to take of each task.

    Examples
    --------
    >>> form = RunForm(pack="suite@1", model="m", scoring_mode="judge", judges=({"judge_backend": "tgi"},))
    >>> form.errors()
    {'judges.0.judge_model_name': 'this is missing'}
    """

    model_config = ConfigDict(frozen=True)

    pack: Typed = ""
    model: Typed = ""
    backend: Typed = "accelerate"
    scoring_mode: Typed = "deterministic"
    judges: tuple[dict[str, Typed], ...] = ()
    aggregation: Typed = ""
    report_disagreement: bool = False
    force_aggregation: bool = False
    criteria_per_call: Typed = ""
    samples: Typed = ""
    profile: Typed = ""
    max_samples: Typed = ""

    def filled(self, config: Any = None, **changes: Any) -> RunForm:
        """The same with this scoring config and these fields.

        Raises
        ------
        ConfigError
            For an invalid config, and unknown fields.
        """
        values = self.model_dump()
        unknown = sorted(changes.keys() - values.keys())
        if unknown:
            raise ConfigError(f"unknown field {', '.join(unknown)}; allowed: {', '.join(values)}")
        if config is not None:
            written = ScoringConfig.of(config).to_dict()
            judges = [{name: NOT_SENT if value is None else value for name, value in judge.items()}
                      for judge in written.get("judges", ())]  # fmt: skip
            values |= RunForm().model_dump(include=set(ScoringConfig.model_fields)) | written | {"judges": judges}
        return RunForm.model_validate(values | changes)

    @property
    def config(self) -> dict[str, Any] | None:
        """The scoring config without empty fields; None in deterministic mode."""
        if self.scoring_mode == "deterministic":
            return None
        values: dict[str, Any] = {"judges": [_typed(judge) for judge in self.judges]} if self.judges else {}
        values |= _typed({name: getattr(self, name) for name in _RULES})
        return values | {name: True for name in _FLAGS if getattr(self, name)}

    @property
    def limit(self) -> int | None:
        """`max_samples` as a number; None if it is empty.

        Raises
        ------
        ConfigError
            When it is not a whole number ≥ 1.
        """
        if not self.max_samples:
            return None
        if not self.max_samples.isdecimal() or int(self.max_samples) < 1:
            raise ConfigError(f"max_samples must be a whole number ≥ 1, got {self.max_samples}")
        return int(self.max_samples)

    @property
    def settings(self) -> dict[str, Any]:
        """Mode, config and limit, as `Runner.start` and `plan_run` take them."""
        return {"scoring_mode": self.scoring_mode, "scoring_config": self.config, "max_samples": self.limit}

    def errors(self) -> dict[str, str]:
        """Errors by field (``judges.0.weight``), with the messages of the contract."""
        errors: dict[str, str] = {}

        def check(field: str, job: Callable[[], object]) -> None:
            try:
                job()
            except ConfigError as problem:
                errors[field] = str(problem)

        check("max_samples", lambda: self.limit)
        if self.model:
            check("model", lambda: model_facts(self.backend, self.model))
        if (config := self.config) is not None:
            try:
                checked = ScoringConfig.model_validate(config)
            except ValidationError as problem:
                for invalid in problems(problem, ScoringConfig):
                    field = ".".join(map(str, invalid.place)) or "judges"
                    errors[field] = "this is missing" if invalid.kind == "missing" else invalid.text
                return errors
            check("scoring_mode", lambda: Scoring.of(self.scoring_mode, checked))
        return errors

    def command(self, registry: str | None = None) -> str:
        """The command line that starts the same run, config included; `registry` as ``--registry`` takes it."""
        words = ["evalkit", "run", "start", self.pack or "PACK", "--model", self.model or "MODEL"]
        words += ["--backend", self.backend] if self.backend != "accelerate" else []
        if self.scoring_mode != "deterministic":
            words += ["--scoring-mode", self.scoring_mode]
            words += ["--scoring-config", json.dumps(self.config, ensure_ascii=False)]
        words += ["--max-samples", self.max_samples] if self.max_samples else []
        words += ["--registry", registry] if registry else []
        return shlex.join(words)

    def export(self, form: str) -> str:
        """The scoring config as ``yaml`` or ``json`` text; a remark in deterministic mode, which has no config."""
        config = self.config
        if config is None:
            return "(deterministic mode has no scoring config)"
        return json.dumps(config, ensure_ascii=False, indent=2) if form == "json" else dump_yaml(config)


def _typed(values: Mapping[str, str]) -> dict[str, Any]:
    """The values that are not empty, numbers as numbers; an invalid number stays a string that the contract rejects."""
    typed: dict[str, Any] = {name: value for name, value in values.items() if value}
    typed |= {name: None for name in NOT_SENT_IF_NULL if typed.get(name) == NOT_SENT}
    for name in typed.keys() & _NUMBERS:
        with suppress(ValueError, TypeError):  # None stays
            typed[name] = _NUMBERS[name](typed[name])
    return typed
