"""`evalkit run …`, as processes of their own where signals matter; a stand-in for LightEval."""

from __future__ import annotations

import functools
import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

pytest.importorskip("sqlalchemy")

from commandline import environment
from run_setup import FAKE, JURY, WAIT_S, bound, make_plugin, pack, processes_of, wait_for

import evalkit as ek
from evalkit.cli import main
from evalkit.runs import Runner
from evalkit.runs.registry import Registry

# the command that a runner starts is an argument in Python and no option of the command line
_DRIVER = f"""\
import functools, sys
import evalkit
from evalkit.cli import main
evalkit.runs.Runner = functools.partial(evalkit.runs.Runner, command={FAKE!r}, poll_s=0.2)
sys.exit(main())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a registry of one pack, one plugin and a jury."""
    place = tmp_path_factory.mktemp("runs")
    registry = Registry.open(place / "registry.sqlite")
    registry.register_plugin("tone", "1", str(make_plugin(place)))
    registry.apply_pack(pack({"task": "plain"}, bound("tone", judge_profile="tone-strict"), primary_metric="quality"))
    registry.close()
    (place / "driver.py").write_text(_DRIVER)
    own = "pack: own\nversion: 1\ntasks: [{task: own, overrides: {judge_profile: strict}}]\n"
    (place / "own.yaml").write_text(own)
    (place / "jury.json").write_text(json.dumps(JURY))
    return place


def variables(folder: Path) -> dict[str, str]:
    return environment(EVALKIT_REGISTRY=str(folder / "registry.sqlite"), EVALKIT_CACHE=str(folder / "cache"))


@pytest.fixture
def evalkit(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """A command in this process, which has everything loaded: what it prints, or with another code what it says."""
    monkeypatch.chdir(folder)
    for name in ("EVALKIT_REGISTRY", "EVALKIT_CACHE"):
        monkeypatch.setenv(name, variables(folder)[name])
    monkeypatch.setattr(ek.runs, "Runner", functools.partial(Runner, command=FAKE, poll_s=0.2))

    def run(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        ended = main(words)
        captured = capsys.readouterr()
        assert ended == code, captured.err
        return captured.out if code == 0 else captured.err

    return run


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Any]]:
    """Starts a command; what still runs at the end of the test is killed by its id."""
    started: list[subprocess.Popen[str]] = []

    def run(*words: str) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [sys.executable, "driver.py", *words], cwd=folder, env=variables(folder), text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
        )  # fmt: skip
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def test_from_start_to_leaderboard(evalkit: Callable[..., str]) -> None:
    jury = ("--scoring-mode", "jury", "--scoring-config", "jury.json")
    shown = evalkit("run", "start", "support", "--model", "model_name=a,details=1", *jury, "--max-samples", "8")
    assert "jury: succeeded" in shown
    assert "consumed: tone|0" in shown
    evalkit("run", "start", "support@1", "--model", "model_name=b,details=1,shift=0.125", *jury, "--max-samples", "8")
    listed = json.loads(evalkit("run", "list", "--json"))
    assert [(run["status"], run["scoring_mode"]) for run in listed] == [("succeeded", "jury")] * 2
    assert [run["scored_nothing"] for run in listed] == [None, None]
    assert "scored_nothing" not in evalkit("run", "list")
    run = json.loads(evalkit("run", "show", "last", "--json"))
    assert run["scoring_config"] == JURY
    assert run["not_known"] == []
    assert run["receipts"][0]["judges"][1]["name"] == "fake:lenient"
    # as in test_runs: four of six paired samples move by 1/8
    assert "0.083 [" in evalkit("run", "compare", listed[0]["id"], "last")
    board = json.loads(evalkit("run", "leaderboard", "support", "--json"))
    assert [(row["rank"], row["run"]) for row in board] == [(1, listed[1]["id"]), (2, listed[0]["id"])]
    assert evalkit("run", "logs", "last") == "fake: begun\n"


def test_a_run_in_which_nothing_was_scored_is_listed_as_such(
    evalkit: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    start = ["run", "start", "support", "--scoring-mode", "jury", "--scoring-config"]
    evalkit(*start, json.dumps(JURY), "--quiet", "--model", "model_name=m,unread=1")
    evalkit(*start, json.dumps(JURY), "--quiet", "--model", "model_name=m")
    lines = [line for line in evalkit("run", "list").splitlines() if "model_name=m" in line]
    assert ["tone|0 (quality)" in line for line in lines] == [True, False], lines
    listed = json.loads(evalkit("run", "list", "--status", "succeeded", "--json"))
    assert [run["scored_nothing"] for run in listed[-2:]] == ["tone|0 (quality)", None]


def test_the_page_on_runs_goes_from_a_task_file_to_a_judged_table(
    evalkit: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "runs.md").read_text(encoding="utf-8")
    section = page.partition("\n## Score my task with a jury of two\n")[2].partition("\n## ")[0]
    files = re.findall(r"```(?:yaml|python no-run)\n# (\S+)\n(.*?)```", section, re.DOTALL)
    commands = re.findall(r"```console\n(.*?)```", section, re.DOTALL)[0].splitlines()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALKIT_REGISTRY", str(tmp_path / "registry.sqlite"))
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    for name, text in files:
        Path(name).write_text(text)
    assert [name for name, _ in files] == ["my_tasks.py", "pack.yaml", "jury.yaml"]
    *_, plan, run, show, listed, _board = [evalkit(*shlex.split(command)[1:]) for command in commands]
    assert "not known yet: my_qa" in plan
    assert "jury: succeeded" in run
    assert "own_config: gsm8k|3" in show
    assert "consumed: my_qa|0" in show
    assert "my-suite@1" in listed
    [row] = json.loads(evalkit(*shlex.split(commands[-1])[1:], "--json"))
    assert (row["rank"], row["judged_by"]) == (1, "fake:strict, fake:lenient by quality@v1")


def test_what_goes_wrong_is_exit_code_2_and_one_message(evalkit: Callable[..., str]) -> None:
    evalkit("pack", "apply", "own.yaml")
    said = evalkit("run", "start", "own", "--model", "m", "--scoring-mode", "jury", code=2)
    assert "no judges in mode 'jury'" in said
    assert "pack 'none' not found; available: 'own', 'support'" in evalkit(
        "run", "start", "none", "--model", "m", code=2
    )
    said = evalkit("run", "start", "support", "--model", "model_name=m,fail=3", code=2)
    assert "RuntimeError: the model is not there" in said
    assert "Traceback" not in said
    assert "run 'nothing' not found" in evalkit("run", "show", "nothing", code=2)
    assert "there is nothing to cancel" in evalkit("run", "cancel", "last", code=2)
    wrong = ("run", "start", "support", "--model", "m", "--option", "output-dir=x")
    assert "evalkit sets LightEval's flag --output-dir for each run" in evalkit(*wrong, code=2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_ctrl_c_closes_the_run_and_ends_its_processes(
    evalkit: Callable[..., str], start: Callable[..., Any], number: signal.Signals
) -> None:
    process = start("run", "start", "support", "--model", "model_name=m,sleep=60,child=1")
    for line in process.stderr:
        if "step 1" in line:
            break
    process.send_signal(number)
    _, said = process.communicate(timeout=WAIT_S)
    assert process.returncode == 2, said
    run = json.loads(evalkit("run", "show", "last", "--json"))
    assert (run["status"], run["error"]) == ("cancelled", "stopped by Ctrl-C"), said
    assert processes_of(run["id"]) == []


def test_a_run_is_cancelled_from_elsewhere_and_its_log_followed(
    evalkit: Callable[..., str], start: Callable[..., Any]
) -> None:
    runner = start("run", "start", "support", "--model", "model_name=m,sleep=60")
    run_id = re.search(r"run (\S+) of support@1 begins", runner.stderr.readline())[1]
    follower = start("run", "logs", run_id, "--follow")
    wait_for(lambda: "step 3" in follower.stdout.readline())
    evalkit("run", "cancel", run_id)
    follower.communicate(timeout=WAIT_S)
    assert follower.returncode == 0, "the log ends with the run"
    said, _ = runner.communicate(timeout=WAIT_S)
    assert runner.returncode == 2
    assert "cancelled while it ran" in said
    assert processes_of(run_id) == []


def test_ids_of_runs_are_whole_on_a_narrow_terminal(
    evalkit: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    # more rows than are turned into columns where a table does not fit
    for number in range(7):
        evalkit("run", "start", "support", "--model", f"model_name=a-rather-long-name-{number},details=1", "--quiet")
    registry = Registry.open(folder / "registry.sqlite")
    ids = registry.runs().query("status == 'succeeded' and model.str.contains('rather-long')")["id"].tolist()
    registry.close()
    for words in (("run", "list"), ("run", "leaderboard", "support")):
        said = evalkit(*words)
        assert max(map(len, said.splitlines())) <= 80
        assert [one for one in ids if one not in said] == [], said
    assert {"score", "stderr", "coverage"} <= set(said.splitlines()[0].split()), "a score with its spread and coverage"


def test_a_plan_starts_nothing_and_says_what_a_run_takes(evalkit: Callable[..., str], folder: Path) -> None:
    words = ("run", "start", "support", "--model", "model_name=plan", "--scoring-mode", "jury", "--plan")
    planned = evalkit(*words, "--scoring-config", "jury.json", "--max-samples", "4")
    before = "not known yet: tone (its first run will show what its judges score)"
    after = "tone: 4 items × 2 judges × 3 samples × 1 criterion = 24"
    known = any(run["status"] == "succeeded" for run in json.loads(evalkit("run", "list", "--json")))
    assert (after if known else before) in planned
    assert "model_name=plan" not in evalkit("run", "list", "--json"), "nothing is queued or started"
    assert "unknown" in evalkit(*words, "--scoring-config", '{"judgse": []}', code=2)
    assert "takes two judges or more" in evalkit(
        *words, "--scoring-config", json.dumps({"judges": JURY["judges"][:1]}), code=2
    )
