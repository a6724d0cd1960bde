"""Types as an editor sees them: mypy and pyright accept what a user writes, and flag calls that are wrong.

pyright comes as basedpyright, which brings its own Node.js: nothing is downloaded while the test runs. Each of both
reads the two scripts in one run: most of it goes into evalkit and the libraries.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

SCRIPTS = ROOT / "tests" / "typing"
RIGHT, WRONG = SCRIPTS / "user_script.py", SCRIPTS / "wrong_calls.py"


def mypy() -> dict[str, set[int]]:
    """The lines that mypy flags, by the script's name."""
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    words = [*command, str(RIGHT), str(WRONG)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    found = [re.match(r"(\S+?):(\d+): (error|note): ", line) for line in done.stdout.splitlines()]
    assert found, "at least the wrong calls are told of"
    flagged: dict[str, set[int]] = {RIGHT.name: set(), WRONG.name: set()}
    for line in found:
        assert line is not None, done.stdout
        if line[3] == "error":
            flagged[Path(line[1]).name].add(int(line[2]))
    return flagged


def pyright(folder: Path) -> dict[str, set[int]]:
    """The lines that pyright flags in its standard mode, by the script's name."""
    config = folder / "pyrightconfig.json"
    options = {"include": [str(RIGHT), str(WRONG)], "extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    config.write_text(json.dumps(options | {"pythonVersion": "3.11"}), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([*command, "--project", str(config)], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 2
    flagged: dict[str, set[int]] = {RIGHT.name: set(), WRONG.name: set()}
    for problem in report["generalDiagnostics"]:
        if problem["severity"] == "error":
            flagged[Path(problem["file"]).name].add(problem["range"]["start"]["line"] + 1)
    return flagged


@pytest.fixture(scope="module", params=["mypy", "pyright"])
def flagged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[int]]:
    """The lines of both scripts that a type checker flags."""
    return mypy() if request.param == "mypy" else pyright(tmp_path_factory.mktemp("pyright"))


def lines(script: Path) -> dict[int, str]:
    return dict(enumerate(script.read_text(encoding="utf-8").splitlines(), 1))


def test_what_a_user_writes_is_right(flagged: dict[str, set[int]]) -> None:
    assert {at: lines(RIGHT)[at] for at in flagged[RIGHT.name]} == {}


def test_every_wrong_call_is_flagged(flagged: dict[str, set[int]]) -> None:
    wrong = {at for at, text in lines(WRONG).items() if "# wrong:" in text}
    assert len(wrong) >= 8
    assert flagged[WRONG.name] == wrong
