"""The fixture `verdict` in real pytest processes: passes, fails with the judge's words, errors, xdist, options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from itertools import product
from pathlib import Path

import pytest
from places import ROOT
from servers import judge_server

from evalkit.errors import EvalkitError
from evalkit.gate import GateConfig, GateOptions, Trace, run_gate
from evalkit.gate.precedence import PytestOptions

# heavy plugins of other packages
_WITHOUT = ("-p", "no:cacheprovider", "-p", "no:nbval", "-p", "no:hypothesispytest", "-p", "no:anyio")
ITEM = '{"question": "How long?", "answer": ANSWER, "context": ["Returns are taken back within 30 days."]}'
GOOD = ITEM.replace("ANSWER", '"Returns are taken back within 30 days."')
BAD = ITEM.replace("ANSWER", '"Never, and shipping costs 900 euro."')


def ran(folder: Path, test: str, *options: str, **variables: str) -> tuple[int, str]:
    (folder / "test_it.py").write_text(test)
    root = str(ROOT)
    environment = os.environ | {"PYTHONPATH": root, "EVALKIT_CACHE": str(folder / "cache")} | variables
    # pytest loads it by its entry point; where evalkit is not installed but on the path, it is named
    installed = entry_points(group="pytest11", name="evalkit")
    plugin = [] if installed else ["-p", "evalkit.gate.pytest_plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *_WITHOUT, *plugin, *options, "test_it.py"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_a_check_passes_and_fails_with_what_the_judge_said(tmp_path: Path) -> None:
    test = f"""
def test_good(verdict):
    judgment = verdict.check({GOOD}, "faithfulness", min_score=0.85)
    assert judgment.score >= 0.85 and len(judgment.samples) == 3

def test_bad(verdict):
    verdict.check({BAD}, "faithfulness", min_score=0.85)

def test_bad_by_verdict(verdict):
    verdict.check({BAD}, "faithfulness")
"""
    code, said = ran(tmp_path, test, "--verdict-judge", "fake")
    assert code == 1, said
    assert "2 failed, 1 passed" in said
    assert "fail: faithfulness: score 0" in said
    assert "samples: 3 of 3 scored, 0 passed; agreement 1.0; from live, by fake:strict" in said
    assert "\nfaithfulness, fake:strict (0): " in said.replace("E       ", "")
    assert "verdict: 3 checks, 3 judged, " in said
    assert "(US$ 0.0000)" in said
    code, said = ran(tmp_path, test)
    assert code == 1, said
    assert "could not be judged" in said or "no judgment" in said
    code, said = ran(tmp_path, test, "--verdict-judge", "fake")
    assert "0 of them live" in said, "all is in the cache"


def test_messages_name_the_options_of_pytest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    config = GateConfig(tests=[{"id": "t", "expected": {"type": "faithfulness"}}])
    trace = Trace(1, "t", "How long?", ("30 days",), "30 days")
    profile = tmp_path / "jury.yaml"
    profile.write_text("rubric: faithfulness@v1\njudges: [fake:strict, openai:gpt-4o-mini]\n")
    messages = set()
    for judge, model, samples, more in product(
        (None, "none", "profile", "openai", "fake", "opnai", "openai:gpt-4o-mini", "openai:unpriced"),
        (None, "gpt-4o-mini"),
        (None, 0),
        ({}, {"refresh": True}, {"budget_usd": 1.0}, {"profile": str(profile)}),
    ):
        given = {"judge": judge, "model": model, "samples": samples, "cache": str(tmp_path / "cache"), **more}
        of_gate, of_pytest = (_message(config, trace, options(**given)) for options in (GateOptions, PytestOptions))
        named = r"--(?:judge-)?(judge|model|samples|api|refresh|budget|profile)"
        # a test of pytest has an item and no trace
        assert of_pytest == re.sub(named, r"--verdict-\1", of_gate).replace("the trace (line 1)", "the item")
        messages.add(of_pytest)
    assert len({message for message in messages if "--verdict-" in message}) == 11


def _message(config: GateConfig, trace: Trace, options: GateOptions) -> str:
    """The error of a gate, or the message of its test if it says why nothing was judged."""
    try:
        test = run_gate(config, [trace], options, environment={}).tests[0]
    except EvalkitError as problem:
        return str(problem)
    return test.message if test.status == "error" else ""


def test_what_could_not_be_judged_fails_and_says_so(tmp_path: Path) -> None:
    test = f"""
def test_a(verdict):
    verdict.check({GOOD}, "faithfulnes")

def test_b(verdict):
    verdict.check({{"question": "q"}}, "faithfulness")

def test_c(verdict):
    verdict.check({GOOD}, "faithfulness", min_score=3)
"""
    code, said = ran(tmp_path, test, "--verdict-judge", "fake")
    assert code == 1
    assert "3 failed" in said
    assert "rubric 'faithfulnes' not found" in said
    assert "the item has no answer, context, which rubric 'faithfulness' needs" in said
    assert "min_score" in said


def test_arguments_that_are_none_are_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "desk.yaml").write_text("profile: desk\njudges: [{provider: fake, model: strict}]\n")
    test = f"""
import evalkit as ek
import pandas as pd
import pytest

RUBRICS = [ek.load_profile("desk.yaml"), ek.load_rubric("faithfulness"), None, "regex"]
ITEMS = [["q"], None, {GOOD} | {{"context": 5}}, {GOOD} | {{"context": ["a", 5]}}]

@pytest.mark.parametrize("rubric", RUBRICS, ids=[*"abcd"])
def test_rubric(verdict, rubric):
    verdict.check({GOOD}, rubric)

@pytest.mark.parametrize("wrong", [{{"min_score": "high"}}, {{"samples": 0}}, {{"rubric_version": 3}}], ids=[*"abc"])
def test_option(verdict, wrong):
    verdict.check({GOOD}, "faithfulness", **wrong)

@pytest.mark.parametrize("item", ITEMS, ids=[*"abcd"])
def test_item(verdict, item):
    verdict.check(item, "faithfulness")

def test_row_of_a_table(verdict):
    verdict.check(pd.Series({GOOD}), "faithfulness")
"""
    code, said = ran(tmp_path, test, "--verdict-judge", "fake")
    assert (code, "11 failed, 1 passed" in said) == (1, True), said
    assert "ValidationError" not in said
    assert "Traceback" not in said
    for line in (
        "got a Profile; to use a profile, pass --verdict-profile",
        "such as 'faithfulness', got a Rubric; pass its id",
        "got a NoneType; pass its id",
        "'regex' is a check without a judge",
        "verdict.check: min_score: must be a valid number, got 'high'",
        "verdict.check: samples: must be a whole number from 1 to 1000, got 0",
        "verdict.check: rubric_version: must be a valid string, got 3",
        "or a Trace; got list",
        "or a Trace; got NoneType",
        "must be a valid string, got 5",
        "the item: context[1]: must be a valid string, got 5",
    ):
        assert line in said, line


def test_a_profile_goes_by_option(tmp_path: Path) -> None:
    judges = "judges: [{provider: fake, model: strict}, {provider: fake, model: lenient}]"
    (tmp_path / "desk.yaml").write_text(f"profile: desk\n{judges}\n")
    test = f"""
def test_a(verdict):
    assert verdict.check({GOOD}, "faithfulness").judge == ("fake:strict", "fake:lenient")
"""
    code, said = ran(tmp_path, test, "--verdict-profile", "desk.yaml", "--verdict-judge", "profile")
    assert code == 0, said
    (tmp_path / "desk.yaml").write_text(f"profile: desk\n{judges[:-1]}, {{provider: openai, model: m}}]\n")
    code, said = ran(tmp_path, test, "--verdict-profile", "desk.yaml", "--verdict-judge", "fake")
    assert code == 1
    assert "pass --verdict-judge profile; to call none of them, pass --verdict-judge fake:strict" in said


def test_a_rubric_with_a_reference_and_options_by_variable(tmp_path: Path) -> None:
    test = """
def test_a(verdict):
    item = {"question": "2 + 2?", "answer": "4", "reference": "4"}
    judgment = verdict.check(item, "correctness", min_score=0.5, samples=4)
    assert len(judgment.samples) == 5, "the variable goes before the call"
"""
    code, said = ran(tmp_path, test, VERDICT_JUDGE="fake:strict", VERDICT_JUDGE_SAMPLES="5")
    assert code == 0, said
    code, said = ran(tmp_path, test, "--verdict-samples", "2", VERDICT_JUDGE="fake:strict", VERDICT_JUDGE_SAMPLES="5")
    assert "assert 2 == 5" in said, "and the option before the variable"


def test_workers_pay_for_one_item_once(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    test = f"""
import pytest

@pytest.mark.parametrize("n", range(8))
def test_same(verdict, n):
    verdict.check({GOOD}, "faithfulness", min_score=0.1)
"""
    reply = {"content": '{"explanation": "so", "score": 2}', "delay": 0.2}
    with judge_server(always=reply) as server:
        options = ("-n", "2", "--verdict-judge", "openai", "--verdict-model", "m", "--verdict-base-url", server.url)
        code, said = ran(tmp_path, test, *options)
        assert code == 0, said
        assert sum(seen.body.get("n", 1) for seen in server.seen) == 3, "three samples in all, over both workers"
    assert "verdict: 8 checks, 8 judged" in said
    assert "price unknown" in said


def test_nothing_heavy_is_loaded_before_a_test_asks(tmp_path: Path) -> None:
    test = """
import sys

def test_light():
    assert "pandas" not in sys.modules and "evalkit.gate.runner" not in sys.modules
"""
    code, said = ran(tmp_path, test)
    assert code == 0, said
    assert "verdict:" not in said
