"""Plugins for tests: written to disk, put under Git, built."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

# A stand-in for LightEval's task config, so that these tests do not wait for LightEval; the tests of the project that
# `plugin new` writes use the real one.
STAND_IN = """\
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).parent


def prompt(row, task):
    specific = {"context": [row["context"]], "reference_answer": row["reference"]}
    return SimpleNamespace(query=row["question"], specific=specific)


@dataclass
class Config:
    name: str
    hf_repo: str = str(HERE / "data")
    hf_subset: str = "default"
    evaluation_splits: tuple = ("test",)
    metrics: tuple = (SimpleNamespace(metric_name="tone"),)
    version: int = 0
    prompt_function: object = prompt


TASKS_TABLE = [Config("tone"), Config("tone:far", hf_repo="somebody/far-away")]
EVALKIT_PLUGIN = {"name": "mine", "version": "1.0", "scoring_modes": {"tone": ["judge", "jury"]}}
"""
PROFILE = "profile: strict-tone\nversion: '1'\njudges: ['fake:strict']\nsamples: 3\n"
TEMPLATE = "{# evalkit\nform: number #}\nRate {{ fence('answer') }} for {{ criterion.name }}."
RUBRIC = """\
id: tone
version: v1
description: Is the answer kind?
inputs: [question, answer]
template: default@v1
criteria:
  - name: tone
    level: ordinal
    scale: {0: rude, 1: kind}
    pass_at: 1
"""
ROW = {"question": "How long?", "context": "30 days.", "reference": "30 days"}


def write_plugin(folder: Path, module: str = STAND_IN) -> Path:
    """A package with everything that a plugin may have."""
    for name, text in {
        "__init__.py": module,
        "data/test.jsonl": json.dumps(ROW) + "\n",
        "profiles/strict-tone.yaml": PROFILE,
        "templates/tone/v1.jinja": TEMPLATE,
        "templates/tone/v10.jinja": TEMPLATE + " ",
        "templates/tone/v2.j2": TEMPLATE,
        "rubrics/tone/v1.yaml": RUBRIC,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def write_project(folder: Path, package: str = "tone_plugin", module: str = STAND_IN) -> Path:
    """A project with that package under src/, and an entry point."""
    write_plugin(folder / "src" / package, module)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "tone-plugin"\nversion = "1.0"\ndependencies = ["evalkit-jury", "no-such-thing>=2"]\n'
        f'[project.entry-points."evalkit.plugins"]\ntone = "{package}"\n',
        encoding="utf-8",
    )
    return folder


def build_wheel(project: Path, out: Path) -> Path:
    """The wheel of a project, by its own back end, offline."""
    code = "import os, sys, hatchling.build as b; os.chdir(sys.argv[1]); print(b.build_wheel(sys.argv[2]))"
    out.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", code, str(project), str(out)],
        capture_output=True, text=True, check=True, timeout=300, env=os.environ | {"PYTHONPATH": ""},
    )  # fmt: skip
    return out / done.stdout.split()[-1]
