"""What a person fills in before a run: checked by the rules of `contract`, exported as config and command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from pydantic import ValidationError

from evalkit.core.choices import BACKENDS, SCORING_MODES
from evalkit.core.rules import AGGREGATE_RULES
from evalkit.errors import ConfigError
from evalkit.rubrics.files import dump_yaml
from evalkit.runs.contract import Scoring, ScoringConfig

__all__ = ["JUDGE_FIELDS", "RunForm", "choices"]

JUDGE_FIELDS = (
    "judge_backend", "judge_model_name", "weight", "judge_template_id", "base_url", "api_key_env", "temperature",
    "max_tokens", "name",
)  # fmt: skip
"""What a row of the judges' table holds, named as in a scoring config."""

_NUMBERS = {"weight": float, "temperature": float, "max_tokens": int, "samples": int, "max_samples": int}


@dataclass(frozen=True, slots=True)
class RunForm:
    """A run as it is filled in: texts as they were typed, blank where nothing was.

    Attributes
    ----------
    pack, model, backend
        What runs with what.
    scoring_mode
        One of `SCORING_MODES`.
    judges
        One mapping a judge, with the names of `JUDGE_FIELDS`.
    aggregation, samples, profile
        Rules; blank: the profile's, else the default.
    report_disagreement
        Whether juries report how far they are apart.
    max_samples
        At most so many samples of each task.

    Examples
    --------
    >>> form = RunForm(pack="suite@1", model="m", scoring_mode="judge", judges=({"judge_backend": "tgi"},))
    >>> for place, said in form.faults():
    ...     print(place, "|", said)
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
        """From what the view sends: everything but the judges and one flag is a text."""
        judges = tuple({name: _text(judge.get(name)) for name in JUDGE_FIELDS} for judge in given.get("judges") or ())
        names = {one.name for one in fields(cls)} - {"judges", "report_disagreement"}
        texts = {name: _text(given[name]) for name in names if name in given}
        return cls(**texts, judges=judges, report_disagreement=bool(given.get("report_disagreement")))

    def filled(self, config: Any = None, **given: Any) -> RunForm:
        """The same with a scoring config, and with fields that are named.

        Raises
        ------
        ConfigError
            For a config that breaks a rule, and fields that there are not.
        """
        values = self.to_dict()
        unknown = sorted(given.keys() - values.keys())
        if unknown:
            raise ConfigError(f"a run has no field {', '.join(unknown)}; it has {', '.join(values)}")
        if config is not None:
            values |= dict.fromkeys(ScoringConfig.model_fields) | ScoringConfig.of(config).to_dict()
        return self.of(values | given)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the view."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return values | {"judges": [dict(judge) for judge in self.judges]}

    @property
    def config(self) -> dict[str, Any] | None:
        """The scoring config, what is blank left out; None in deterministic mode."""
        if self.scoring_mode == "deterministic":
            return None
        values: dict[str, Any] = {"judges": [_typed(judge) for judge in self.judges]} if self.judges else {}
        rest = {name: getattr(self, name) for name in ("aggregation", "samples", "profile")}
        values |= _typed(rest)
        return values | ({"report_disagreement": True} if self.report_disagreement else {})

    @property
    def limit(self) -> int | None:
        """`max_samples` as a number; None where none is given.

        Raises
        ------
        ConfigError
            When it is no whole number ≥ 1.
        """
        if not self.max_samples:
            return None
        if not self.max_samples.isdecimal() or int(self.max_samples) < 1:
            raise ConfigError(f"max_samples is a number of samples ≥ 1, not {self.max_samples}")
        return int(self.max_samples)

    def faults(self) -> Iterator[tuple[str, str]]:
        """What is wrong with the config, in the contract's words: place (``judges.0.weight``) and message."""
        try:
            _ = self.limit
        except ConfigError as problem:
            yield "max_samples", str(problem)
        config = self.config
        if config is None:
            return
        try:
            made = ScoringConfig.model_validate(config)
        except ValidationError as problem:
            yield from _placed(problem)
            return
        try:
            Scoring.of(self.scoring_mode, made)
        except ConfigError as problem:
            yield "scoring_mode", str(problem)

    def scoring(self) -> Scoring:
        """Mode and config, checked.

        Raises
        ------
        ConfigError
            When they break a rule.
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
        """The scoring config as ``yaml`` or ``json``; in deterministic mode there is none, and the text says so."""
        config = self.config
        if config is None:
            return "(deterministic mode takes no scoring config)"
        return json.dumps(config, ensure_ascii=False, indent=2) if form == "json" else dump_yaml(config)


def choices() -> dict[str, list[str]]:
    """What may be chosen where the contract, or LightEval, allows few values."""
    from evalkit.runs.commands import BACKENDS as LIGHTEVAL

    return {
        "scoring_mode": list(SCORING_MODES),
        "judge_backend": list(BACKENDS),
        "aggregation": list(AGGREGATE_RULES),
        "backend": list(LIGHTEVAL),
    }


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _typed(values: Mapping[str, str]) -> dict[str, Any]:
    """What is not blank, numbers as numbers; what should be one and is not stays text, for the contract to refuse."""
    return {name: _number(name, value) for name, value in values.items() if value}


def _number(name: str, text: str) -> Any:
    kind = _NUMBERS.get(name)
    if kind is None:
        return text
    try:
        return kind(text)
    except ValueError:
        return text


def _placed(error: ValidationError) -> Iterator[tuple[str, str]]:
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        place = ".".join(str(part) for part in detail["loc"]) or "judges"
        said = detail["msg"].removeprefix("Value error, ")
        yield place, "this is missing" if detail["type"] == "missing" else f"{said[:1].lower()}{said[1:]}"
