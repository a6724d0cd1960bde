"""The settings of who judges, and how, that flags, variables and files set alike: the table that all doors read."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from evalkit.core.judge_field_checks import FIELDS
from evalkit.core.lists_of_choices import SCORE_READINGS
from evalkit.core.settings import MOST_SAMPLES, Place, check_limit, check_samples, check_switch
from evalkit.errors import ConfigError, EvalkitWarning, guess, listed

NOT_SENT = "none"
"""The value that sends no temperature, or no limit of tokens, with a request; in files also ``null``."""


def _check_field(name: str) -> Callable[[Any, str], Any]:
    """The check of a field of `Judge`."""
    allowed, fits = FIELDS[name]

    def check(value: Any, where: str) -> Any:
        if not fits(None if value == NOT_SENT else value):
            raise ConfigError(f"{where} must be {allowed.replace('None', repr(NOT_SENT))}, got {value!r:.60}")
        return value

    return check


def _or_none(number: Callable[[str], float]) -> Callable[[str], Any]:
    return lambda text: text if text == NOT_SENT else number(text)


class JudgeSetting(NamedTuple):
    """One setting: `flag` of the command line without dashes, `metavar` and `text` of its help; readers of a text.

    `field` is the field of `Judge` that it changes; None: it chooses the judges, or how many replies, or a limit.
    """

    flag: str
    metavar: str
    text: str
    read: Callable[[str], Any] = str
    expected: str = "a text"
    check: Callable[[Any, str], Any] = lambda value, _: value
    field: str | None = None

    @property
    def variable(self) -> str:
        """The environment variable: ``VERDICT_`` and the flag in capital letters."""
        return f"VERDICT_{self.flag.upper().replace('-', '_')}"

    def of_text(self, text: str, where: str) -> Any:
        """The value of a text; ConfigError, which begins with `where`, for an invalid one."""
        try:
            return self.check(self.read(text), where)
        except ValueError:
            raise ConfigError(f"{where} must be {self.expected}, got {text!r:.60}") from None

    def of_flag(self, text: str) -> Any:
        """The value of a flag's text, with the error that argparse shows for an invalid one."""
        try:
            return self.of_text(text, "the value")
        except ConfigError as problem:
            raise argparse.ArgumentTypeError(str(problem)) from None


_JUDGE = "provider:model, as in openai:gpt-4o-mini; 'fake' needs no model and no network"
_NUMBER, _WHOLE = f"a number ≥ 0, or {NOT_SENT!r}", f"a whole number ≥ 1, or {NOT_SENT!r}"
JUDGE_SETTINGS: Mapping[str, JudgeSetting] = {
    "judge": JudgeSetting("judge", "J", _JUDGE),
    "model": JudgeSetting("judge-model", "MODEL", "model for a judge that names only its provider"),
    "samples": JudgeSetting(
        "judge-samples", "K", "samples per judge, item and criterion (default 3)", int,
        f"a whole number from 1 to {MOST_SAMPLES}", check_samples),
    "temperature": JudgeSetting(
        "judge-temperature", "T", "default 1.0; 'none' sends no temperature", _or_none(float), _NUMBER,
        _check_field("temperature"), "temperature"),
    "max_tokens": JudgeSetting(
        "judge-max-tokens", "N", "default 512; 'none' sends no limit", _or_none(int), _WHOLE,
        _check_field("max_tokens"), "max_tokens"),
    "score": JudgeSetting(
        "judge-score", "|".join(SCORE_READINGS),
        "read the score from log-probabilities: their mean over the codes, or the most probable code",
        str, "'expected' or 'mode'", _check_field("score"), "score"),
    "base_url": JudgeSetting(
        "judge-base-url", "URL", "OpenAI-compatible server, as in http://localhost:8000/v1", field="base_url"),
    "api_key_env": JudgeSetting(
        "judge-api-key-env", "NAME", "environment variable that holds the key", field="api_key_env"),
    "timeout_seconds": JudgeSetting(
        "judge-timeout-seconds", "S", "seconds that one call may take (default 60)", float, "a number of seconds > 0",
        _check_field("timeout_s"), "timeout_s"),
    "max_seconds": JudgeSetting(
        "max-seconds", "S", "judge for at most this long; the rest stays unscored", float, "a number > 0",
        lambda value, where: check_limit("max_seconds", value, where)),
    "repair": JudgeSetting(
        "repair", "true|false", "ask a judge once what a reply means that could not be read (default true)",
        lambda text: {"true": True, "false": False}.get(text, text), "true or false",
        lambda value, where: check_switch(where, value)),
}  # fmt: skip
"""Name in files -> the setting."""

FLAGS = tuple(setting.flag for setting in JUDGE_SETTINGS.values())
OF_CALLS = ("max_seconds", "repair")
"""The settings of making calls, not of judges and samples: commands that make none lack their flags."""
CALL_FLAGS = tuple(JUDGE_SETTINGS[name].flag for name in OF_CALLS)


def set_by(name: str, value: object) -> str:
    """`` (from variable VERDICT_…)`` for messages, if the variable of a setting has this value, or an address of it."""
    variable = JUDGE_SETTINGS[name].variable
    address = os.environ.get(variable, "").strip()
    return f" (from variable {variable})" if value and f"{address}/".startswith(f"{value}/") else ""


def flag_place(values: Mapping[str, Any], shown: Callable[[str], str] = lambda flag: f"--{flag}") -> Place:
    """Values of flags, checked, as a place of settings; `shown` writes a flag as its command does."""

    def source(name: str) -> str:
        return f"flag {shown(JUDGE_SETTINGS[name].flag)}"

    for name, value in values.items():
        if value is not None:
            JUDGE_SETTINGS[name].check(value, source(name))
    return source, values


def variable_place(environ: Mapping[str, str] | None = None, *, without: Mapping[str, Any] | None = None) -> Place:
    """The variables ``VERDICT_…`` as a place of settings; those that `without` sets are not read.

    Raises
    ------
    ConfigError
        For an invalid value, with the name of the variable.

    Warns
    -----
    EvalkitWarning
        For a variable ``VERDICT_JUDGE_…`` that is none of these, such as a misspelt one.

    Examples
    --------
    >>> variable_place({"VERDICT_JUDGE_SAMPLES": "5", "VERDICT_JUDGE_TEMPERATURE": "none"})[1]
    {'samples': 5, 'temperature': 'none'}
    """
    environ, values = os.environ if environ is None else environ, dict[str, Any]()
    variables_read = [setting.variable for setting in JUDGE_SETTINGS.values()]
    for variable in sorted({name for name in environ if name.startswith("VERDICT_JUDGE_")} - {*variables_read}):
        warnings.warn(
            f"variable {variable} is not read: evalkit has no such setting. {guess(variable, variables_read)}It reads "
            f"{listed(variables_read, most=20)}",
            EvalkitWarning,
            stacklevel=3,
        )
    for name, setting in JUDGE_SETTINGS.items():
        text = environ.get(setting.variable, "").strip()
        if text and (name == "judge" or (without or {}).get(name) is None):  # a flag 'none' leaves the judge open
            values[name] = setting.of_text(text, f"variable {setting.variable}")
    return lambda name: f"variable {JUDGE_SETTINGS[name].variable}", values


def fields_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `Judge` that settings change."""
    fields = {setting.field: settings[name] for name, setting in JUDGE_SETTINGS.items() if name in settings}
    return {field: None if value == NOT_SENT else value for field, value in fields.items() if field is not None}
