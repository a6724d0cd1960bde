"""The module for --custom-tasks: which tasks it gathers, and what it refuses before anything starts."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from evalkit.errors import ConfigError
from evalkit.runs.contract.scoring_config import TaskBindings

pytest.importorskip("lighteval")

from evalkit.lighteval import plugin

TASK = """
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from evalkit.lighteval import judge_metric

TASKS_TABLE = [
    LightevalTaskConfig(name={name!r}, prompt_function=lambda line, task=None: None, hf_repo="none",
                        hf_subset="default", metrics=[judge_metric("safety")])
]
"""


def make(folder: Path, module: str, name: str) -> Path:
    package = folder / module
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(TASK.format(name=name))
    return package


def bound(**plugins: object) -> TaskBindings:
    return TaskBindings.of(plugins)


def test_evalkits_own_tasks_are_there_and_have_names_of_their_own():
    names = [task.name for task in plugin.gather(TaskBindings({}))]
    assert {
        "conversation_helpfulness", "instruction_following_judged", "safety_guardrail", "grounded_qa", "tool_use",
    } <= set(names)  # fmt: skip
    assert {"pollux:easy", "pollux:medium", "pollux:hard"} <= set(names)
    assert len(names) == len(set(names))


def test_with_bindings_exactly_the_plugins_named_are_loaded(tmp_path):
    one, other = make(tmp_path, "gathered_one", "one"), make(tmp_path, "gathered_other", "other")
    bindings = bound(one={"plugin_path": str(one)}, again={"plugin_path": str(one)}, other={"plugin_path": str(other)})
    assert [task.name for task in plugin.gather(bindings)] == ["one", "other"]


def test_bindings_without_a_plugin_leave_the_tasks_as_they_are():
    names = {task.name for task in plugin.gather(bound(grounded_qa={"judge_profile": "strict"}))}
    assert "grounded_qa" in names


def test_installed_bundles_are_gathered_by_their_entry_points(tmp_path, monkeypatch):
    make(tmp_path, "gathered_bundle", "of_the_bundle")
    monkeypatch.syspath_prepend(str(tmp_path))
    point = EntryPoint("bundle", "gathered_bundle", "evalkit.plugins")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point] if group == point.group else [])
    assert "of_the_bundle" in {task.name for task in plugin.gather(TaskBindings({}))}


def test_two_tasks_of_one_name_are_refused_with_both_places(tmp_path):
    one, other = make(tmp_path, "gathered_twice_a", "same"), make(tmp_path, "gathered_twice_b", "same")
    with pytest.raises(ConfigError) as problem:
        plugin.gather(bound(a={"plugin_path": str(one)}, b={"plugin_path": str(other)}))
    assert "the task 'same' comes from" in str(problem.value)
    assert str(one) in str(problem.value)
    assert str(other) in str(problem.value)


def test_two_versions_of_one_plugin_are_refused(tmp_path):
    old, new = make(tmp_path / "1", "versioned", "a"), make(tmp_path / "2", "versioned", "b")
    with pytest.raises(ConfigError, match=r"only one version of plugin 'tone', but its tasks use 2 \(a → 1; b → 2\)"):
        plugin.gather(
            bound(
                a={"plugin": "tone", "plugin_version": "1", "plugin_path": str(old)},
                b={"plugin": "tone", "plugin_version": "2", "plugin_path": str(new)},
            )
        )


BROKEN = {
    "raises": ("raise RuntimeError('no model here')", "cannot be loaded: RuntimeError: no model here"),
    "no table": ("tasks = []", "needs a variable TASKS_TABLE"),
    "a table of something else": (
        "TASKS_TABLE = ['safety']", "needs a variable TASKS_TABLE, a list of LightevalTaskConfig"),
    "a rubric that is not there": (
        "from evalkit.lighteval import judge_metric\nTASKS_TABLE = [judge_metric('nope')]", "nope"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_plugin_that_cannot_be_used_is_named(case, tmp_path):
    code, said = BROKEN[case]
    package = tmp_path / f"broken_{len(case)}"
    package.mkdir()
    (package / "__init__.py").write_text(code)
    with pytest.raises(ValueError, match="broken_") as problem:
        plugin.gather(bound(t={"plugin_path": str(package)}))
    assert said in str(problem.value)


def test_a_plugin_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="no such file or folder"):
        plugin.gather(bound(t={"plugin_path": str(tmp_path / "gone")}))
