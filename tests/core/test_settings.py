"""One precedence at every door: what a caller names, then variables and files, then the profile, then the default."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evalkit as ek
from evalkit.cli import main
from evalkit.core.settings import Settings
from evalkit.engine.judging.specification import Spec
from evalkit.errors import ConfigError

ITEMS = [{"question": "How long?", "answer": "30 days.", "context": ["Goods are taken back for 30 days."]}]
PROFILE = """\
profile: mine
rubric: faithfulness
judges: [{provider: fake, model: lenient}]
samples: 5
vote: median
aggregate: min
"""
NAMED = {"judges": "fake:first", "samples": 2, "vote": "majority", "aggregate": "max"}
OF_PROFILE = {"judges": "fake:lenient", "samples": 5, "vote": "median", "aggregate": "min"}
DEFAULT = {"samples": 3, "vote": "mean", "aggregate": "mean"}

Door = Callable[[dict[str, Any], bool], dict[str, Any]]
"""From what a caller names, and whether there is a profile, to the values and sources that it gets."""


def _of(spec: Spec) -> dict[str, Any]:
    values = {"judges": spec.judges[0].name, "samples": spec.samples}
    values |= {"vote": spec.rules.vote, "aggregate": spec.rules.aggregate}
    return {name: (value, spec.settings.source(name)) for name, value in values.items()}


def _call(named: dict[str, Any]) -> dict[str, Any]:
    return {"judges": "fake:strict", **named} if "judges" not in named else named


def evaluate(named: dict[str, Any], profile: bool) -> dict[str, Any]:
    given = named if profile else _call(named)
    return _of(ek.evaluate(ITEMS, "mine.yaml" if profile else "faithfulness", progress=False, **given).spec)


def frozen(named: dict[str, Any], profile: bool) -> dict[str, Any]:
    given = dict(named if profile else _call(named))
    spec = Spec.of(
        "mine.yaml" if profile else "faithfulness", given.pop("judges", None), given.pop("samples", None), rules=given
    )
    return _of(spec)


def tuner(named: dict[str, Any], profile: bool) -> dict[str, Any]:
    from evalkit import RubricTuner

    given = {name: value for name, value in (named if profile else _call(named)).items() if name != "vote"}
    bench = RubricTuner(ITEMS, "mine.yaml" if profile else "faithfulness", **given).session
    made = _of(bench.setup.spec)
    assert (bench.drafts.samples, bench.drafts.aggregate) == (made["samples"][0], made["aggregate"][0])
    return made


def command_line(named: dict[str, Any], profile: bool, capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    given = named if profile else _call(named)
    flags = {"judges": "--judge"} | {name: f"--{name}" for name in ("samples", "vote", "aggregate")}
    Path("items.jsonl").write_text(json.dumps(ITEMS[0]) + "\n", encoding="utf-8")
    what = ("--profile", "mine.yaml") if profile else ("--rubric", "faithfulness")
    more = [text for name, value in given.items() for text in (flags[name], str(value))]
    assert main(["plan", "items.jsonl", *what, *more, "--json"]) == 0
    settings = json.loads(capfd.readouterr().out)["settings"]
    names = ("judges", "samples", "vote", "aggregate")
    values = {name: settings[name]["value"] for name in names}
    values["judges"] = values["judges"][0]
    return {name: (values[name], settings[name]["source"]) for name in names}


def lighteval(named: dict[str, Any], profile: bool) -> dict[str, Any]:
    from evalkit.lighteval.metric_settings import Declared, resolve
    from evalkit.runs.contract.scoring_config import Scoring, TaskBindings

    given = dict(named if profile else _call(named))
    config: dict[str, Any] = {name: given.pop(name) for name in ("samples",) if name in given}
    if "aggregate" in given:
        config["aggregation"] = given.pop("aggregate")
    if "judges" in given:
        model = given.pop("judges").removeprefix("fake:")
        config["judges"] = [{"judge_model_name": model, "judge_backend": "fake"}]
    # the scoring config has no vote: that is the metric's, after the run's profile
    declared = Declared.of("faithfulness", "mine.yaml" if profile else None, **given)
    return _of(resolve(declared, None, Scoring.of("judge", config), TaskBindings.of({})).spec)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    Path("mine.yaml").write_text(PROFILE, encoding="utf-8")


@pytest.fixture(params=[evaluate, frozen, tuner, command_line, lighteval], ids=lambda door: door.__name__)
def door(request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]) -> Door:
    given: Any = request.param
    return (lambda named, profile: given(named, profile, capfd)) if given is command_line else given


@pytest.mark.long
def test_what_the_caller_names_comes_before_the_profile_and_that_before_the_default(door: Door) -> None:
    named = door(NAMED, True)
    for name in ("judges", "samples", "aggregate"):
        assert named[name][0] == NAMED[name]
        assert named[name][1] in (
            "argument",
            f"flag --{name.removesuffix('s') if name == 'judges' else name}",
            "config",
        ) or (named[name][1] == "flag --judge-samples")
    assert named["vote"][0] in (NAMED["vote"], OF_PROFILE["vote"]), "the tuner has no vote of its own"
    for name, (value, source) in door({}, True).items():
        assert value == OF_PROFILE[name]
        assert source.startswith("profile")
    for name, value in DEFAULT.items():
        assert door({}, False)[name] == (value, "default")


def test_settings_show_each_value_with_its_source() -> None:
    made = Spec.of("mine.yaml", ["fake:strict", "fake:first"], 2)
    shown = str(made.settings).splitlines()
    assert [line.split() for line in shown[:2]] == [
        ["judges", "fake:strict,", "fake:first", "argument"],
        ["samples", "2", "argument"],
    ]
    assert made.settings.to_dict()["vote"] == {"value": "median", "source": "profile mine@1"}
    assert made.settings.source("template") == "rubric"
    assert Settings().source("quorum") == "default"


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown rule 'votes'; allowed: vote, ties, "):
        Spec.of("faithfulness", "fake", rules={"votes": "mean"})
