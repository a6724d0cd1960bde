"""From plugins to a leaderboard, with real LightEval processes and from the command line alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from lighteval_parts import MODEL
from servers import judge_server

pytest.importorskip("lighteval")
pytest.importorskip("sqlalchemy")

pytestmark = [pytest.mark.network, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[1]
GOOD = '{"explanation": "says only what the text says", "score": 2}'
PACK = """
pack: support-suite
version: 1
description: four ways to be scored
tasks:
  - {task: tool_use, overrides: {judge_plugin_name: evalkit-tasks}}
  - {task: gsm8k}
  - task: grounded_qa
    overrides: {judge_plugin_name: evalkit-tasks, judge_plugin_version: "1", judge_profile: conservative}
  - task: TASK
    weight: 2
    overrides: {judge_plugin_name: tone, judge_profile: strict}
"""


def own_gsm8k(place: Path) -> None:
    """Rows of our own in the form of LightEval's task gsm8k, where `datasets` looks without a network."""
    source = place / "source" / "gsm8k"
    source.mkdir(parents=True)
    rows = [
        {"question": f"Ann has {i} pens and buys {i + 1} more. How many now?", "answer": f"She has\n#### {2 * i + 1}"}
        for i in range(4)
    ]
    for split in ("train", "test"):
        (source / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (source / "README.md").write_text(
        "---\nconfigs:\n- config_name: main\n  data_files:\n"
        "  - {split: train, path: train.jsonl}\n  - {split: test, path: test.jsonl}\n---\n"
    )
    load = f"import datasets; datasets.load_dataset({str(source)!r}, 'main')"
    subprocess.run([sys.executable, "-c", load], check=True, capture_output=True, env=environ_of(place), timeout=120)
    made = place / "hf" / "datasets" / "gsm8k"
    made.rename(made.with_name("openai___gsm8k"))


def environ_of(place: Path, **changes: str) -> dict[str, str]:
    own = {
        "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "EVALKIT_CACHE": str(place / "cache"), "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(place / "hf"), "HOME": str(place), "MODEL_CALLS": str(place / "calls.txt"), "COLUMNS": "200",
        "JUDGE_KEY": "sk-of-the-judge",
    }  # fmt: skip
    return os.environ | own | changes


class Shell:
    """`evalkit …` as a person types it, in a folder of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __call__(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "evalkit", *words], cwd=self.place, env=environ_of(self.place), capture_output=True,
            text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == code, f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout


def plugin_wheel(shell: Shell) -> str:
    """A plugin made by `plugin new`, built as a wheel and registered; the name of its first task."""
    shell("plugin", "new", "tone")
    project = next(path.parent for path in shell.place.glob("*/pyproject.toml"))
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(shell.place), str(project)]
    subprocess.run(build, check=True, capture_output=True, env=environ_of(shell.place), timeout=120)
    wheel = next(shell.place.glob("*.whl"))
    shell("plugin", "register", "tone", "0.1.0", str(wheel), "--type", "task")
    found = json.loads(shell("plugin", "check", "tone", "--json"))
    return str(found["tasks"][0]["name"])


def test_from_plugins_to_a_leaderboard(tmp_path):
    shell = Shell(tmp_path)
    own_gsm8k(tmp_path)
    shell("plugin", "register", "evalkit-tasks", "1", "evalkit.lighteval.tasks", "--type", "bundle")
    task = plugin_wheel(shell)
    (tmp_path / "pack.yaml").write_text(PACK.replace("TASK", task))
    shell("pack", "apply", "pack.yaml")
    (tmp_path / "model.py").write_text(
        MODEL.replace("\\\\n", "\\n").replace(
            'return "" if "4 plus 4" in doc.query else doc.specific["reference_answer"]',
            'return str((doc.specific or {}).get("reference_answer") or "She has 1 pen, thank you.")',
        )
    )
    with judge_server(always={"content": GOOD}) as server:
        judge = {
            "judge_model_name": "judge-1", "judge_backend": "openai", "base_url": server.url,
            "api_key_env": "JUDGE_KEY",
        }  # fmt: skip
        fake = {"judge_model_name": "strict", "judge_backend": "fake"}
        (tmp_path / "judge.json").write_text(json.dumps({"judges": [judge]}))
        (tmp_path / "jury.json").write_text(json.dumps({"judges": [judge, fake], "report_disagreement": True}))
        start = ["run", "start", "support-suite", "--model", "parrot=model.py", "--backend", "custom"]
        start += ["--max-samples", "4"]
        shell(*start)
        assert not server.seen, "deterministic: nobody was asked"
        judged = ["--scoring-mode", "judge", "--scoring-config", "judge.json"]
        shell(*start, *judged)
        assert server.seen
        shell(*start, "--scoring-mode", "jury", "--scoring-config", "jury.json")
        n_asked = len(server.seen)
        shell(*start, *judged)
        assert len(server.seen) == n_asked, "the same run again asks nobody"
    runs = json.loads(shell("run", "list", "--json"))
    rows = runs["runs"] if isinstance(runs, dict) else runs
    assert [row["status"] for row in rows] == ["succeeded"] * 4
    ids = [row["id"] for row in rows]
    shown = shell("run", "show", ids[2])
    for said in ("conservative", "strict", "judge-1", "grounded_qa", "gsm8k", "own_config", "consumed", "of 4 ("):
        assert said in shown, said
    assert "left no receipt" not in shown
    assert "sk-of-the-judge" not in shown
    report = shell("run", "compare", ids[1], ids[3])
    assert "faithfulness" in report
    board = shell("run", "leaderboard", "support-suite")
    lines = [line for line in board.splitlines() if "parrot=model.py" in line]
    assert len(lines) == 3, "of two runs that are scored in one way the newest counts; ways are never mixed"
    assert len({line.split()[0] for line in lines}) == 3
    assert sum("openai:judge-1" in line for line in lines) == 2
    assert sum("fake:strict" in line for line in lines) == 1
    log = shell("run", "logs", ids[2])
    assert "gsm8k" in log
    assert "sk-of-the-judge" not in log
