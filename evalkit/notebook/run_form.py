"""The form of a run: checked by the rules of `evalkit.runs.contract`, exported as config and command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from pydantic import ValidationError

from evalkit.core.choices import BACKENDS, SCORING_MODES
from evalkit.core.validation_errors import problems
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES
from evalkit.errors import ConfigError
from evalkit.rubrics.yaml_files import dump_yaml
from evalkit.runs.contract import Scoring, ScoringConfig

__all__ = ["JUDGE_FIELDS", "RunForm", "choices"]

JUDGE_FIELDS = (
    "judge_backend", "judge_model_name", "weight", "judge_template_id", "base_url", "api_key_env", "temperature",
    "max_tokens", "name",
)  # fmt: skip
"""The fields of a judge, named as in a scoring config."""

_NUMBERS: dict[str, Callable[[str], Any]] = {
    "weight": float,
    "temperature": float,
    "max_tokens": int,
    "samples": int,
    "max_samples": int,
}


@dataclass(frozen=True, slots=True)
class RunForm:
    """A run as it is filled in: texts as typed, blank where nothing was typed.

    Attributes
    ----------
    pack, model, backend
        The pack and the model that it tests.
    scoring_mode
        One of `SCORING_MODES`.
    judges
        One mapping per judge, with the names of `JUDGE_FIELDS`.
    aggregation, samples, profile
        Rules; where blank, those of the profile, else the defaults.
    report_disagreement
        Whether juries report their disagreement.
    max_samples
        The most samples to take of each task.

    Examples
    --------
    >>> form = RunForm(pack="suite@1", model="m", scoring_mode="judge", judges=({"judge_backend": "tgi"},))
    >>> for field, text in form.errors():
    ...     print(field, "|", text)
    judges.0.judge_model_name | this is missing
    """

    pack: str = ""
    model: str = ""
    backend: str = "accelerate"
    scoring_mode: str = "deterministic"
    judges: tuple[Mapping[str, str], ...] = ()
    aggregation: str = ""
    report_disagreement: bool = False
    samples: str = ""
    profile: str = ""
    max_samples: str = ""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> RunForm:
        """The form that the screen sends: everything is text except the judges and one flag."""
        judges = tuple({name: _text(judge.get(name)) for name in JUDGE_FIELDS} for judge in given.get("judges") or ())
        names = {one.name for one in fields(cls)} - {"judges", "report_disagreement"}
        texts = {name: _text(given[name]) for name in names if name in given}
        return cls(**texts, judges=judges, report_disagreement=bool(given.get("report_disagreement")))

    def filled(self, config: Any = None, **given: Any) -> RunForm:
        """The same with this scoring config and these fields.

        Raises
        ------
        ConfigError
            For an invalid config, and unknown fields.
        """
        values = self.to_dict()
        unknown = sorted(given.keys() - values.keys())
        if unknown:
            raise ConfigError(f"unknown field {', '.join(unknown)}; a run has {', '.join(values)}")
        if config is not None:
            values |= dict.fromkeys(ScoringConfig.model_fields) | ScoringConfig.of(config).to_dict()
        return self.of(values | given)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the screen."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return values | {"judges": [dict(judge) for judge in self.judges]}

    @property
    def config(self) -> dict[str, Any] | None:
        """The scoring config without blank fields; None in deterministic mode."""
        if self.scoring_mode == "deterministic":
            return None
        values: dict[str, Any] = {"judges": [_typed(judge) for judge in self.judges]} if self.judges else {}
        rest = {name: getattr(self, name) for name in ("aggregation", "samples", "profile")}
        values |= _typed(rest)
        return values | ({"report_disagreement": True} if self.report_disagreement else {})

    @property
    def limit(self) -> int | None:
        """`max_samples` as a number; None where it is blank.

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

    def errors(self) -> Iterator[tuple[str, str]]:
        """What is invalid, in the contract's words: field (``judges.0.weight``) and message."""
        try:
            _ = self.limit
        except ConfigError as problem:
            yield "max_samples", str(problem)
        config = self.config
        if config is None:
            return
        try:
            checked = ScoringConfig.model_validate(config)
        except ValidationError as problem:
            for invalid in problems(problem, ScoringConfig):
                field = ".".join(map(str, invalid.place)) or "judges"
                yield field, "this is missing" if invalid.kind == "missing" else invalid.text
            return
        try:
            Scoring.of(self.scoring_mode, checked)
        except ConfigError as problem:
            yield "scoring_mode", str(problem)

    def scoring(self) -> Scoring:
        """Mode and config, checked.

        Raises
        ------
        ConfigError
            When they are invalid.
        """
        return Scoring.of(self.scoring_mode, self.config)

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
        """The scoring config as ``yaml`` or ``json``; a remark in deterministic mode, which has none."""
        config = self.config
        if config is None:
            return "(deterministic mode has no scoring config)"
        return json.dumps(config, ensure_ascii=False, indent=2) if form == "json" else dump_yaml(config)


def choices() -> dict[str, list[str]]:
    """The values of the fields that allow only some."""
    from evalkit.runs.lighteval_command import BACKENDS as MODEL_BACKENDS

    return {
        "scoring_mode": list(SCORING_MODES),
        "judge_backend": list(BACKENDS),
        "aggregation": list(AGGREGATE_RULES),
        "backend": list(MODEL_BACKENDS),
    }


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _typed(values: Mapping[str, str]) -> dict[str, Any]:
    """The values that are not blank, numbers as numbers; an invalid number stays text, for the contract to reject."""
    typed: dict[str, Any] = {name: value for name, value in values.items() if value}
    for name in typed.keys() & _NUMBERS:
        with suppress(ValueError):
            typed[name] = _NUMBERS[name](typed[name])
    return typed
