"""Packs as files: overrides of the whole pack, one task under several profiles, weights."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import ConfigError
from evalkit.rubrics.files import dump_yaml
from evalkit.runs.registry.pack_files import PackFile, read_pack


def pack(*tasks: dict[str, Any], **more: Any) -> PackFile:
    return read_pack({"pack": "p", "version": 1, "tasks": list(tasks), **more})


def test_overrides_of_the_pack_hold_for_what_a_task_leaves_open() -> None:
    keys = ("judge_plugin_name", "judge_plugin_version", "judge_profile", "judge_template_id")
    whole = dict(zip(keys, ("plug", "1", "strict", "tagged@v1"), strict=True))
    for own in itertools.product((None, "own", ...), repeat=4):  # null, a value, not there
        given = {key: value for key, value in zip(keys, own, strict=True) if value is not ...}
        expected = {key: value for key, value in (whole | given).items() if value is not None}
        if "judge_plugin_name" in given and "judge_plugin_version" not in given:
            expected.pop("judge_plugin_version")  # it is the version of the pack's plugin
        if "judge_plugin_version" in expected and "judge_plugin_name" not in expected:
            with pytest.raises(ConfigError, match="judge_plugin_version needs judge_plugin_name"):
                pack({"task": "a", "overrides": given}, overrides=whole)
            continue
        if given.get("judge_plugin_version") and "judge_plugin_name" not in given:
            with pytest.raises(ConfigError, match="judge_plugin_version needs judge_plugin_name"):
                pack({"task": "a", "overrides": given}, overrides=whole)
            continue
        assert pack({"task": "a", "overrides": given}, overrides=whole).tasks[0].overrides.values == expected
    assert pack({"task": "a"}, overrides=whole).tasks[0].overrides.values == whole
    assert pack({"task": "a"}).tasks[0].overrides.values == {}
    with pytest.raises(ConfigError, match=r"unknown key 'overrides.judge_profil'; did you mean 'judge_profile'"):
        pack({"task": "a"}, overrides={"judge_profil": "strict"})


@pytest.mark.parametrize("wide", [False, True])
def test_a_task_under_several_profiles_gets_several_names(wide: bool, tmp_path: Path) -> None:
    first = {"task": "qa:x"} if wide else {"task": "qa:x", "overrides": {"judge_profile": "strict"}}
    more = {"overrides": {"judge_profile": "strict"}} if wide else {}
    others = [{"task": "qa:x", "overrides": {"judge_profile": name}} for name in ("conservative", "p/my own.yaml")]
    made = pack(first, *others, {"task": "b"}, **more)
    assert [task.task for task in made.tasks] == ["qa:x", "qa:x+conservative", "qa:x+my-own", "b"]
    assert [task.copy_of for task in made.tasks] == [None, "qa:x", "qa:x", None]
    assert [task.overrides.judge_profile for task in made.tasks[:3]] == ["strict", "conservative", "p/my own.yaml"]
    path = tmp_path / "pack.yaml"
    path.write_text(dump_yaml(made.model_dump(mode="json", by_alias=True)), encoding="utf-8")
    assert read_pack(path) == made, "what is written reads back as the same pack"
    for twice in (others[:1] * 2, [{"task": "c"}, {"task": "c"}]):
        with pytest.raises(ConfigError, match=r"listed more than once; .* give each another judge_profile"):
            pack(first, *others[:1], *twice)


@pytest.mark.parametrize("weight", [1e308, 1e-300, -1, float("nan"), float("inf"), True, "2", 10**400])
def test_a_weight_that_cannot_be_summed_is_refused(weight: Any) -> None:
    with pytest.raises(ConfigError, match=r"tasks\[0\]\.weight: must be 0, or a number from 1e-9 to 1e9, got"):
        pack({"task": "a", "weight": weight})
