"""Types as an editor sees them: mypy and pyright accept what a user writes, and flag calls that are wrong.

pyright comes as basedpyright, which brings its own Node.js: nothing is downloaded while the test runs.
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


def mypy(script: Path) -> set[int]:
    """The lines that mypy flags."""
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    done = subprocess.run([*command, str(script)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    found = {int(line) for line in re.findall(rf"^\S*{script.name}:(\d+): error", done.stdout, re.MULTILINE)}
    assert found or not done.stdout.strip(), done.stdout
    return found


def pyright(script: Path, folder: Path) -> set[int]:
    """The lines that pyright flags in its standard mode."""
    config = folder / "pyrightconfig.json"
    options = {"include": [str(script)], "extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    config.write_text(json.dumps(options | {"pythonVersion": "3.11"}), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([*command, "--project", str(config)], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    return {
        problem["range"]["start"]["line"] + 1
        for problem in report["generalDiagnostics"]
        if problem["severity"] == "error"
    }


@pytest.fixture(params=[pytest.param("mypy"), "pyright"])
def flagged(request: pytest.FixtureRequest, tmp_path: Path):
    """The lines of a script that a type checker flags."""
    return mypy if request.param == "mypy" else lambda script: pyright(script, tmp_path)


def lines(script: Path) -> dict[int, str]:
    return dict(enumerate(script.read_text(encoding="utf-8").splitlines(), 1))


def test_what_a_user_writes_is_right(flagged) -> None:
    script = SCRIPTS / "user_script.py"
    assert {at: lines(script)[at] for at in flagged(script)} == {}


def test_every_wrong_call_is_flagged(flagged) -> None:
    script = SCRIPTS / "wrong_calls.py"
    wrong = {at for at, text in lines(script).items() if "# wrong:" in text}
    assert len(wrong) >= 8
    assert flagged(script) == wrong
