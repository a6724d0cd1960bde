"""Precedence at every door: flag, variable, file, profile, default, for each setting of the table.

A setting that joins the table, or a flag that joins a command, must get a row in `VALUES` here.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from _pytest.config.argparsing import Parser as PytestParser
from pydantic import ValidationError

from evalkit.cli import arguments, ci
from evalkit.cli.main_command import parse_arguments, parser_of_commands
from evalkit.core.judge_settings import CALL_FLAGS, JUDGE_SETTINGS, OF_CALLS, set_by, variable_place
from evalkit.core.judges import Judge
from evalkit.core.settings import Options
from evalkit.engine.judging.specification import Spec
from evalkit.engine.providers.judge_checks import check_key
from evalkit.errors import ConfigError, EvalkitWarning, JudgeError
from evalkit.gate import GateConfig, GateOptions
from evalkit.gate.config import JudgeFields
from evalkit.gate.config import Settings as GateSettings
from evalkit.gate.precedence import Resolver
from evalkit.gate.pytest_plugin import _TALLY, Verdict, pytest_addoption

# values by flag, variable, test, settings and profile; what is asked if none of them names it
VALUES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "judge": (("openai:a", "litellm:b", "anthropic:c", "openai:d", "litellm:e"), None),
    "model": (("a", "b", "c", "d", "m"), "m"),
    "samples": ((9, 8, 7, 6, 5), 3),
    "temperature": ((0.9, 0.8, "none", 0.6, 0.5), 1.0),
    "max_tokens": ((19, "none", 17, 16, 15), 512),
    "score": (("mode", "expected", None, "mode", "expected"), None),
    "base_url": (("http://a/v1", "http://b/v1", None, "http://d/v1", "http://e/v1"), None),
    "api_key_env": (("KEY_A", "KEY_B", None, "KEY_D", "KEY_E"), "OPENAI_API_KEY"),
    "timeout_seconds": ((9.0, 8.0, None, 6.0, 5.0), 60.0),
    "max_seconds": ((900.0, 800.0, None, 600.0, None), None),
    "repair": ((False, True, None, False, None), None),
}
PLACES = ("flag", "variable", "test", "settings", "profile")
COMMANDS = {
    "judge": ("items.jsonl",), "evaluate": ("items.jsonl",), "plan": ("items.jsonl",),
    "report": ("items.jsonl", "--out", "x.html"), "freeze": ("new.yaml",),
    "batch submit": ("items.jsonl",), "batch export": ("items.jsonl", "--to", "x.jsonl"),
}  # fmt: skip
GATES = ("ci", "judge --trace-file", "pytest", "run_gate")
Found = tuple[Judge, int, Mapping[str, Any]]
"""The judge, the samples and the settings of calls that a door came to."""


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _words(flags: Mapping[str, Any]) -> list[str]:
    pairs = ((f"--{JUDGE_SETTINGS[name].flag}", _text(value)) for name, value in flags.items())
    return list(itertools.chain.from_iterable(pairs))


def _profile(named: Mapping[str, Any], judge: Mapping[str, Any]) -> Path:
    fields = {JUDGE_SETTINGS[name].field or name: None if value == "none" else value for name, value in named.items()}
    text = str(named.get("judge", "openai:m"))
    provider, _, model = text.partition(":")
    samples = fields.pop("samples", None)
    one = judge | {"provider": provider, "model": fields.pop("model", model)} | fields
    one.pop("judge", None)
    path = Path("mine.yaml")
    lines = [f"profile: mine\nrubric: faithfulness@v1\njudges: [{Judge.of(one) and one!r}]".replace("None", "null")]
    path.write_text("\n".join([*lines, *([] if samples is None else [f"samples: {samples}"])]), encoding="utf-8")
    return path


def _command(name: str, named: Mapping[str, Mapping[str, Any]], base: Mapping[str, Any]) -> Found:
    """What a command of the table passes on."""
    what = ["--rubric", "faithfulness"]
    flags = dict(base) if "profile" not in named else {}
    if "profile" in named:
        what += ["--profile", str(_profile(named["profile"], {}))]
    args = parse_arguments([*name.split(), *COMMANDS[name], *what, *_words(flags | named.get("flag", {}))])
    spec = Spec.of(**arguments.spec_arguments(args), source=arguments.source_of(args))
    options: Options = Options(**arguments.options_of(args)) if hasattr(args, "max_seconds") else Options()
    return spec.judges[0], spec.samples, {name: getattr(options, name) for name in OF_CALLS}


def _gate(name: str, named: Mapping[str, Mapping[str, Any]], base: Mapping[str, Any]) -> Found:
    """What a gate resolves for its test."""
    files = ["--config", "eval.yaml", "--trace-file", "traces.jsonl"]
    asked = named.get("flag", {})
    in_file = (base if "profile" not in named else {}) | named.get("settings", {})
    if name == "run_gate":
        options = GateOptions(**asked)
    elif name == "pytest":
        parser = PytestParser(_ispytest=True)
        pytest_addoption(parser)
        words = [word.replace("--judge-", "--").replace("--", "--verdict-") for word in _words(asked)]
        given = parser.parse_known_args(words)
        look = SimpleNamespace(getoption=lambda option: vars(given)[option.removeprefix("--").replace("-", "_")])
        options = Verdict(SimpleNamespace(**vars(look), stash={_TALLY: {"cost_usd": 0.0}}), "t")._options()
    else:
        words = [*name.split()[:1], *files, *_words(asked)]
        options = ci._options(parse_arguments(words))
    config = GateConfig(
        tests=[{"id": "t", "expected": {"type": "faithfulness", **named.get("test", {})}}], settings=in_file,
        profile=str(_profile(named["profile"], {})) if "profile" in named else None,
    )  # fmt: skip
    resolver = Resolver(config, options)
    resolved = resolver.of("t", config.tests[0].expected[0])
    return resolved.spec.judges[0], resolved.spec.samples, {name: resolver.of_all.get(name) for name in OF_CALLS}


DOORS: dict[str, Callable[[Mapping[str, Mapping[str, Any]], Mapping[str, Any]], Found]] = {
    **{name: lambda named, base, name=name: _command(name, named, base) for name in COMMANDS},
    **{name: lambda named, base, name=name: _gate(name, named, base) for name in GATES},
}


def _found(door: str, named: Mapping[str, Mapping[str, Any]], base: Mapping[str, Any]) -> Found:
    """What a door comes to, with the variables in the environment."""
    variables = {JUDGE_SETTINGS[name].variable: _text(value) for name, value in named.get("variable", {}).items()}
    with mock.patch.dict(os.environ, variables):
        return DOORS[door](named, base)


def _places(door: str, setting: str) -> list[str]:
    """The places that can set this, first the one that counts first."""
    places = ["flag", "variable"]
    if JUDGE_SETTINGS[setting].field in ("base_url", "api_key_env"):
        return ["flag", "profile", "variable", *(["settings"] if door in GATES else [])]  # a profile keeps its servers
    if door in GATES:
        places += [*(["test"] if setting in JudgeFields.model_fields else []), "settings"]
    places += [] if setting in OF_CALLS else ["profile"]
    if door in COMMANDS and setting in ("judge", "model"):
        return ["flag", "profile", "variable"]  # `--profile` is a flag
    return places


def _value(found: Found, setting: str) -> Any:
    judge, samples, of_calls = found
    if setting in ("samples", *OF_CALLS):
        return {"samples": samples, **of_calls}[setting]
    if setting == "judge":
        return f"{judge.provider}:{judge.model}"
    return getattr(judge, JUDGE_SETTINGS[setting].field or "model")


def _cases(door: str, setting: str) -> Iterator[tuple[str, ...]]:
    places = _places(door, setting)
    subsets = [one for size in range(len(places) + 1) for one in itertools.combinations(places, size)]
    yield from subsets if len(subsets) <= 8 else random.Random(f"{door} {setting}").sample(subsets, 8)


def test_the_table_has_a_case_for_each_setting() -> None:
    assert VALUES.keys() == JUDGE_SETTINGS.keys(), "a new setting needs values in this test"
    assert GateSettings.model_fields.keys() - {"rubric_version"} == JUDGE_SETTINGS.keys()
    assert JUDGE_SETTINGS.keys() <= {name for kind in GateOptions.__mro__ for name in getattr(kind, "__slots__", ())}


def test_every_flag_that_changes_a_judge_is_in_the_table() -> None:
    known = {f"--{setting.flag}" for setting in JUDGE_SETTINGS.values()}
    own = {"--judge-refresh", "--judgments"}

    def flags(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for part in action.choices.values():
                    yield from flags(part)
            else:
                yield from ((parser.prog, option) for option in action.option_strings)

    found = [*flags(parser_of_commands()), *flags(ci.record_parser())]
    assert {flag for _, flag in found if flag.startswith("--judge")} <= known | own
    for command in [f"evalkit {name}" for name in (*COMMANDS, "ci", "judge --trace-file TRACES")]:
        mine = {flag for prog, flag in found if prog == command}
        of_calls = {f"--{flag}" for flag in CALL_FLAGS}
        asked = set() if command.split()[1] in ("plan", "freeze", "batch") else of_calls
        assert known - of_calls | asked <= mine, command
    parser = PytestParser(_ispytest=True)
    pytest_addoption(parser)
    options = {name for group in parser._groups for option in group.options for name in option.names()}
    assert {f"--verdict-{flag.removeprefix('--').removeprefix('judge-')}" for flag in known} <= options


def test_the_page_names_each_flag_and_variable() -> None:
    page = (Path(__file__).parents[2] / "docs" / "gate.md").read_text(encoding="utf-8")
    for setting in JUDGE_SETTINGS.values():
        assert f"`--{setting.flag}`" in page
        assert f"`{setting.variable}`" in page


@pytest.mark.long
@pytest.mark.parametrize("door", DOORS)
def test_the_first_place_that_sets_a_value_counts(door: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    n_cases = 0
    for setting, (values, default) in VALUES.items():
        if setting in OF_CALLS and door in ("plan", "freeze", "batch submit", "batch export"):
            continue
        order = _places(door, setting)
        base = {} if setting == "judge" else {"judge": "openai" if setting == "model" else "openai:m"}
        for places in _cases(door, setting):
            named = {place: {setting: values[PLACES.index(place)]} for place in places}
            if setting == "model" and not named and door in GATES:
                continue  # a judge without a model
            if setting in ("judge", "model") and not named:
                continue
            found = _found(door, named, base)
            first = next((place for place in order if place in places), None)
            expected = default if first is None else values[PLACES.index(first)]
            case = (door, setting, places)
            assert _value(found, setting) == (None if expected == "none" else expected), case
            n_cases += 1
    assert n_cases > 40


MODELS = [("openai:a", "b", "openai:b"), ("openai", "b", "openai:b"), ("fake:lenient", "strict", "fake:strict")]


@pytest.mark.parametrize("door", ["judge", "plan", "ci", "run_gate", "pytest"])
@pytest.mark.parametrize(("judge", "model", "asked"), MODELS)
def test_the_model_of_an_earlier_place_replaces_that_of_a_judge(
    door: str, judge: str, model: str, asked: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    order = ["flag", "variable", *(["test", "settings"] if door in GATES else [])]
    for earlier, later in itertools.combinations(order, 2):
        named: dict[str, dict[str, Any]] = {earlier: {"model": model}, later: {"judge": judge}}
        assert _value(_found(door, named, {}), "judge") == asked, (earlier, later)
        if ":" in judge:
            named = {later: {"model": model}, earlier: {"judge": judge}}
            assert _value(_found(door, named, {}), "judge") == judge, "a later model changes no judge"


BAD: dict[str, tuple[str, ...]] = {
    "samples": ("0", "-1", "1001", "1.5", "nan", "true", "1e3", ""),
    "temperature": ("-1", "nan", "inf", "1e999", "warm", "true"),
    "max_tokens": ("0", "-1", "1.5", "nan", "1e3"),
    "score": ("mean", "true"),
    "timeout_seconds": ("0", "-1", "nan", "inf", "soon"),
    "max_seconds": ("0", "-1", "nan", "inf", "soon"),
    "repair": ("0", "1", "no", "off", "False", "TRUE", "none"),
}


@pytest.mark.parametrize("setting", BAD)
def test_an_invalid_value_is_named_with_its_source(setting: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = JUDGE_SETTINGS[setting]
    for text in filter(None, BAD[setting]):
        with pytest.raises(ConfigError, match=f"^variable {row.variable} must be .*, (got|not) "):
            variable_place({row.variable: text})
        assert variable_place({row.variable: text}, without={setting: 1})[1] == {}, "a flag comes first"
        with pytest.raises(SystemExit):
            parse_arguments(["judge", "x.jsonl", f"--{row.flag}={text}"])
        assert f"--{row.flag}" in capsys.readouterr().err
    for value in (True, "1", "x", -1, float("nan"), float("inf"), 10**400, [1]):
        if (setting, value) in (("temperature", True), ("repair", True)):
            continue
        with pytest.raises(ValidationError, match="must be"):
            GateSettings(**{setting: value})
        config = GateConfig(tests=[{"id": "t", "expected": {"type": "faithfulness"}}])
        with pytest.raises(ConfigError, match=rf"^flag --{row.flag} must be|^{setting} must be"):
            Resolver(config, GateOptions(**{setting: value}), {})
    assert variable_place({row.variable: "  "})[1] == {}, "a blank variable is not set"


def test_a_provider_without_a_model_is_completed_or_refused_however_it_is_written() -> None:
    texts = [["openai"], ["openai:"], [" openai: "], ["openai:a", "openai:"], ["fake:", "openai:"], ["fake", "openai"]]
    for named in texts:
        words = ["judge", "items.jsonl", "--rubric", "faithfulness", *(f"--judge={text}" for text in named)]
        with pytest.raises(ConfigError, match="flag --judge: the judge 'openai' has no model; name openai:MODEL"):
            arguments.spec_arguments(parse_arguments(words))
        if len(named) == 1:
            judges = arguments.spec_arguments(parse_arguments([*words, "--judge-model", "m"]))["judges"]
            assert [judge.name for judge in judges] == ["openai:m"]
            variable = mock.patch.dict(os.environ, {"VERDICT_JUDGE": named[0]})
            with variable, pytest.raises(ConfigError, match="variable VERDICT_JUDGE: the judge 'openai' has no model"):
                arguments.spec_arguments(parse_arguments(words[:4]))


def test_variables_that_nothing_reads_are_named(monkeypatch):
    for setting in JUDGE_SETTINGS.values():
        variable = setting.variable
        if variable.count("_") > 1 and variable.startswith("VERDICT_JUDGE_"):
            misspelt = variable[:-2] + variable[-1]
            with pytest.warns(EvalkitWarning, match=f"{misspelt} is not read.*did you mean '{variable}'"):
                variable_place({misspelt: "1"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        variable_place({"VERDICT_OTHER": "1", "VERDICT_JUDGE_SAMPLES": "2"})
    monkeypatch.setenv("VERDICT_JUDGE_API_KEY_ENV", "NO_KEY_HERE")
    with pytest.raises(JudgeError, match=r"NO_KEY_HERE \(from variable VERDICT_JUDGE_API_KEY_ENV\) is not set"):
        check_key(Judge("openai", "m", api_key_env="NO_KEY_HERE"))
    monkeypatch.setenv("VERDICT_JUDGE_BASE_URL", "http://127.0.0.1:1/v1")
    assert set_by("base_url", "http://127.0.0.1:1") == " (from variable VERDICT_JUDGE_BASE_URL)"
    assert set_by("base_url", "http://127.0.0.1:11") == set_by("base_url", None) == ""
