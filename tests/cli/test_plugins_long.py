"""`evalkit plugin | template | pack` as people run them: in processes of their own, and in this one for the faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commandline import evalkit
from page_blocks import blocks_of
from places import ROOT
from plugins import TEMPLATE, write_plugin

pytest.importorskip("sqlalchemy")

from evalkit.cli import main

PACK = """\
pack: support
version: 1
primary_metric: tone
tasks:
  - task: tone
    weight: 2
    overrides: {judge_plugin_name: tone, judge_profile: strict-tone}
  - {task: gsm8k, fewshot: 3}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: Any) -> Path:
    monkeypatch.setenv("EVALKIT_REGISTRY", str(tmp_path / "registry.sqlite"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pack.yaml").write_text(PACK)
    write_plugin(tmp_path / "tone_plugin")
    return tmp_path


def test_from_a_new_plugin_to_a_pack_that_uses_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = evalkit("plugin", "new", "support-tone", "--folder", "new", folder=here, cold=True)
    assert (done.returncode, done.stdout) == (0, f"{here / 'new'}\n")
    assert done.stderr == "evalkit: edit it, then test it: python -m pytest new\n"
    done = evalkit("plugin", "register", "tone", "1.0", "tone_plugin", "--type", "bundle", folder=here)
    assert done.returncode == 0
    assert done.stderr.startswith(f"evalkit: registered tone@1.0 ({here / 'tone_plugin'}, hash ")
    done = evalkit("pack", "apply", "pack.yaml", folder=here)
    assert (done.returncode, done.stderr) == (0, "evalkit: support@1: 2 tasks\n")

    assert main(["pack", "show", "support", "--json"]) == 0
    bound = {"judge_plugin_name": "tone", "judge_profile": "strict-tone"}
    assert json.loads(capsys.readouterr().out)["tasks"] == [
        {"task": "tone", "fewshot": 0, "weight": 2.0, "overrides": bound},
        {"task": "gsm8k", "fewshot": 3, "weight": 1.0, "overrides": {}},
    ]
    assert main(["pack", "export", "support", "-o", "again.yaml"]) == 0
    assert main(["pack", "apply", "again.yaml"]) == 0, "what is exported is the same pack"


def test_the_files_of_the_readme_make_its_commands_work(
    tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVALKIT_REGISTRY", str(tmp_path / "registry.sqlite"))
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of((ROOT / "README.md").read_text(encoding="utf-8"))
    for block in blocks:
        if block.words == ("yaml",):
            (tmp_path / block.body.split()[1]).write_text(block.body, encoding="utf-8")
    [commands] = [block.body for block in blocks if "evalkit plugin new" in block.body]
    run = [line.split("  #")[0].split()[1:] for line in commands.replace("\\\n", "").splitlines()]
    assert [words[:2] for words in run[-3:]] == [["run", "start"], ["run", "show"], ["run", "leaderboard"]]
    for words in run[:-2]:
        assert main([*words, *(["--plan"] if words[0] == "run" else [])]) == 0, words
    assert "support_tone_jury" in capsys.readouterr().out  # the plan; a run needs the model and a key


# -- in this process


def said(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 2) -> str:
    assert main([str(one) for one in arguments]) == code
    return capsys.readouterr().err.strip()


def test_each_fault_of_plugins_is_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "available: none" in said(capsys, "plugin", "show", "tone")
    assert "no plugin at 'nowhere'" in said(capsys, "plugin", "register", "tone", "1.0", "nowhere")
    assert main(["plugin", "register", "tone", "1.0", "tone_plugin", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert "available versions: 1.0" in said(capsys, "plugin", "show", "tone@2")
    assert "plugin tone@ not found; available versions: 1.0" in said(capsys, "plugin", "show", "tone@")
    assert "invalid choice: 'tasks'" in said(capsys, "plugin", "register", "x", "1", "tone_plugin", "--type", "tasks")
    assert "invalid plugin name" in said(capsys, "plugin", "register", "a b", "1", "tone_plugin")
    assert "invalid plugin name" in said(capsys, "plugin", "new", "A b")
    (here / "tone_plugin" / "__init__.py").write_text("x = 1\n")
    assert "with another content_hash" in said(capsys, "plugin", "register", "tone", "1.0", "tone_plugin")
    assert main(["plugin", "show", "tone"]) == 0
    assert "state: plugin tone@1.0 changed since" in capsys.readouterr().out
    assert main(["plugin", "list", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["version"], row["plugin_type"]) == ("tone", "1.0", "task")
    assert row["created_at"].endswith("+00:00")


def test_each_fault_of_packs_is_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "typo.yaml").write_text(PACK.replace("weight", "wieght"))
    told = said(capsys, "pack", "apply", "pack.yaml", "typo.yaml")
    assert "typo.yaml: pack 'support': unknown key 'tasks[0].wieght'" in told
    assert "allowed: task, fewshot, weight, overrides" in told
    assert "available: none" in said(capsys, "pack", "show", "support"), "no file was taken over"
    (here / "typo.yaml").write_text(PACK.replace("judge_profile", "profile"))
    assert "allowed: judge_plugin_name, judge_plugin_version, judge_profile" in said(
        capsys, "pack", "apply", "typo.yaml"
    )
    assert "none.yaml cannot be read" in said(capsys, "pack", "apply", "none.yaml")
    assert said(capsys, "pack", "apply", "pack.yaml", code=0) == "evalkit: support@1: 2 tasks"
    (here / "other.yaml").write_text(PACK.replace("fewshot: 3", "fewshot: 4"))
    assert "versions are never overwritten" in said(capsys, "pack", "apply", "other.yaml")
    assert "pack.yaml exists already" in said(capsys, "pack", "export", "support", "-o", "pack.yaml")
    assert "available versions: 1" in said(capsys, "pack", "export", "support@7")
    assert main(["pack", "list"]) == 0
    assert main(["pack", "show", "support"]) == 0
    out = capsys.readouterr().out
    assert "strict-tone" in out
    assert "primary metric: tone; tasks are combined by: mean" in out


def test_templates_come_from_the_registry_and_the_rubric_folders(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "terse.jinja").write_text(TEMPLATE)
    for version in ("v1", "v2"):
        assert main(["template", "add", "number", version, "terse.jinja", "--quiet"]) == 0
    assert main(["template", "list", "--json"]) == 0
    rows = [(row["name"], row["version"], row["source"]) for row in json.loads(capsys.readouterr().out)]
    assert rows[:2] == [("number", "v1", "registry"), ("number", "v2", "registry")]
    assert ("default", "v1", "rubric folders") in rows
    assert main(["template", "show", "number"]) == 0
    assert capsys.readouterr().out == TEMPLATE + "\n", "the registry goes first, as it does in a run"
    assert main(["template", "show", "default@v1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["source"] == "rubric folders"
    told = said(capsys, "template", "show", "none")
    assert "template 'none' not found; searched registry: judge template 'none' not found; available: 'number'" in told
    assert "'default@v1'" in told
    (here / "wrong.jinja").write_text("no header")
    assert "the header is missing" in said(capsys, "template", "add", "x", "v1", "wrong.jinja")
    (here / "wrong.jinja").write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text" in said(capsys, "template", "add", "x", "v1", "wrong.jinja")
    (here / "other.jinja").write_text(TEMPLATE + "!")
    assert "versions are never overwritten" in said(capsys, "template", "add", "number", "v1", "other.jinja")
    (here / "schema.json").write_text("[1")
    assert "schema.json, line 1: invalid YAML" in said(
        capsys, "template", "add", "x", "v1", "terse.jinja", "--response-schema", "schema.json"
    )
    (here / "schema.json").write_text("[1]")
    assert "expected a JSON object, got a list" in said(
        capsys, "template", "add", "x", "v1", "terse.jinja", "--response-schema", "schema.json"
    )
    (here / "schema.json").write_text('{"type": "object"}')
    assert main(["template", "add", "x", "v1", "terse.jinja", "--response-schema", "schema.json", "--quiet"]) == 0
    assert main(["template", "show", "x", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["response_schema"] == {"type": "object"}


def test_a_registry_that_cannot_be_reached_is_one_line_without_its_password(capsys: pytest.CaptureFixture[str]) -> None:
    told = said(capsys, "pack", "list", "--registry", "postgresql://somebody:hush@127.0.0.1:9/none")
    assert "127.0.0.1" in told
    assert "hush" not in told
    assert len(told.splitlines()) == 1


def test_the_starter_pack_is_registered_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert said(capsys, "pack", "starter", code=0) == (
            "evalkit: starter@1: grounded_qa, tool_use; evalkit pack show starter shows it"
        )
    assert main(["pack", "list", "--json"]) == 0
    assert [(row["name"], row["n_tasks"]) for row in json.loads(capsys.readouterr().out)] == [("starter", 2)]
    assert main(["pack", "show", "starter"]) == 0
    assert "strict" in capsys.readouterr().out
