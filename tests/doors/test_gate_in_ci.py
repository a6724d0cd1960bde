"""The examples of docs/gate-in-ci.md: the shell lines are run, the workflow is read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT
from ruamel.yaml import YAML

import evalkit as ek

PAGE = (ROOT / "docs" / "gate-in-ci.md").read_text(encoding="utf-8")
# the first block writes files of its own
SHELL = [block for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) if "cat >" not in block]
WORKFLOWS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
ITEM = {"item_id": "a", "question": "How long?", "answer": "30 days.", "context": ["Goods are taken back for 30 days."]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "evalkit").write_text(f'#!/bin/sh\nexec {sys.executable} -m evalkit "$@"\n')
    (commands / "evalkit").chmod(0o755)
    table = ek.judge([ITEM], "faithfulness", "fake:lenient", samples=3, progress=False)
    ek.gate.to_traces([ITEM], table, tmp_path / "traces.jsonl")
    return tmp_path


def ran(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "EVALKIT_CACHE": str(folder / "no-cache"),
    }
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize(
    ("least", "code", "said"), [(0.0, 0, "the gate is open"), (1.1, 2, "could not be judged"), (None, 2, "see above")]
)
def test_the_shell_example_ends_with_the_gates_code(folder: Path, least: float | None, code: int, said: str) -> None:
    expected = "nosuchrubric" if least is None else "faithfulness"
    bound = "" if least is None else f", min_score: {least}"
    (folder / "eval.yaml").write_text(
        f"tests:\n  - id: a\n    expected: {{type: {expected}, samples: 3{bound}}}\n", encoding="utf-8"
    )
    (script,) = SHELL
    done = ran(folder, script)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout
    if code == 0:
        assert {path.name for path in (folder / "results").iterdir()} == {
            "junit.xml", "report.md", "result.json", "traces.jsonl",
        }  # fmt: skip


def test_a_failed_test_ends_with_1(folder: Path) -> None:
    (folder / "eval.yaml").write_text("tests:\n  - id: a\n    expected: {type: must_contain, value: nowhere}\n")
    done = ran(folder, SHELL[0])
    assert done.returncode == 1, done.stdout + done.stderr
    assert "a test failed: see results/report.md" in done.stdout
    assert "nowhere" in (folder / "results" / "report.md").read_text()


def test_the_workflow_runs_the_command_that_there_is() -> None:
    workflow = YAML(typ="safe").load(WORKFLOWS[0])
    steps = [step.get("run", "") for step in workflow["jobs"]["gate"]["steps"]]
    (command,) = [step for step in steps if step.startswith("evalkit")]
    assert command in SHELL[0], "the same line as in the shell example, which is run"
    assert "secrets" not in WORKFLOWS[0]


def test_no_line_installs_the_other_project_of_that_name() -> None:
    """On the public index `evalkit` is another project: only `evalkit-jury` and paths,
    as './evalkit[gate]' or '.[gate]', are right."""
    bare = re.compile(r"pip install\s+(?:-\S+\s+)*[\"'`(\\]*evalkit(?![\w/-])")
    assert bare.search("pip install 'evalkit[parquet]'")
    assert bare.search("pip install -q evalkit")
    assert not bare.search("pip install './evalkit[gate]'")
    kinds = ("docs/**/*.md", "evalkit/**/*.py", "evalkit/**/*.tmpl", "notebooks/*.ipynb", "*.md")
    files = sorted({path for kind in kinds for path in ROOT.glob(kind)})
    assert len(files) > 100
    assert [path.name for path in files if bare.search(path.read_text(encoding="utf-8"))] == []
