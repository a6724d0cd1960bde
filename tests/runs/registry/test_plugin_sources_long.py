"""Plugins: where what is, what is registered and checked, what a process of its own finds in them."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from plugins import PROFILE, STAND_IN, build_wheel, write_plugin, write_project

from evalkit.errors import ConfigError, RegistryError
from evalkit.rubrics import load_profile
from evalkit.runs.contract.plugin_layout import PluginLayout

pytest.importorskip("sqlalchemy")

from evalkit.runs.plugin_template import new_plugin
from evalkit.runs.registry import Registry
from evalkit.runs.registry.database_tables import PluginRow
from evalkit.runs.registry.plugin_sources import content_hash, locate, requirements_of


@pytest.fixture
def registry(tmp_path: Path) -> Any:
    opened = Registry.open(tmp_path / "registry.sqlite")
    yield opened
    opened.close()


# -- where what is


def test_a_layout_is_found_in_a_package_a_project_and_a_file(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project")
    package = project / "src" / "tone_plugin"
    of_project, of_package = PluginLayout.at(project), PluginLayout.at(package)
    assert (of_project.module, of_project.file) == ("tone_plugin", package / "__init__.py")
    assert of_project.search == of_package.search == project / "src"
    assert of_project.profiles == of_package.profiles == {"strict-tone": package / "profiles/strict-tone.yaml"}
    assert list(of_project.templates) == ["tone@v1", "tone@v2", "tone@v10"], "by number, not by text"
    assert of_project.template("tone") == ("tone@v10", package / "templates/tone/v10.jinja")
    assert of_project.template("tone@v2") == ("tone@v2", package / "templates/tone/v2.j2")
    assert of_project.rubrics == {"tone@v1": package / "rubrics/tone/v1.yaml"}
    assert pickle.loads(pickle.dumps(of_project)) == of_project

    (tmp_path / "flat").mkdir()
    shutil.copy(project / "pyproject.toml", tmp_path / "flat")
    shutil.copytree(package, tmp_path / "flat" / "tone_plugin")
    (tmp_path / "flat" / "tests").mkdir()
    (tmp_path / "flat" / "tests" / "__init__.py").touch()
    assert PluginLayout.at(tmp_path / "flat").file == tmp_path / "flat/tone_plugin/__init__.py"

    file = tmp_path / "single_plugin.py"
    file.write_text(STAND_IN)
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "mild.yaml").write_text(PROFILE)
    assert PluginLayout.at(file).module == "single_plugin"
    assert list(PluginLayout.at(file).profiles) == ["mild"]


def test_a_module_inside_a_package_keeps_its_dotted_name(tmp_path: Path) -> None:
    write_plugin(tmp_path / "outer" / "inner")
    (tmp_path / "outer" / "__init__.py").touch()
    (tmp_path / "outer" / "inner" / "tasks.py").touch()
    assert PluginLayout.at(tmp_path / "outer" / "inner").module == "outer.inner"
    assert PluginLayout.at(tmp_path / "outer/inner/tasks.py").module == "outer.inner.tasks"
    assert PluginLayout.at(tmp_path / "outer/inner/tasks.py").search == tmp_path
    assert list(PluginLayout.at(tmp_path / "outer/inner/tasks.py").profiles) == ["strict-tone"]


def test_what_is_no_plugin_is_said(tmp_path: Path) -> None:
    def said(path: Path) -> str:
        with pytest.raises(ConfigError) as caught:
            PluginLayout.at(path)
        return str(caught.value)

    assert "no such file or folder" in said(tmp_path / "none")
    (tmp_path / "my-plugin.py").touch()
    assert "expected a Python module, such as my_plugin.py" in said(tmp_path / "my-plugin.py")
    (tmp_path / "empty").mkdir()
    assert "expected a package (with __init__.py), or a project" in said(tmp_path / "empty")
    (tmp_path / "empty" / "pyproject.toml").write_text("[project\n")
    assert "invalid TOML" in said(tmp_path / "empty")
    project = write_project(tmp_path / "project")
    (project / "src" / "tone_plugin").rename(project / "src" / "other")
    assert "expected the module 'tone_plugin' of its entry point" in said(project)
    (project / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert "has an entry point in the group 'evalkit.plugins'" in said(project)
    write_plugin(project / "src" / "another")
    (project / "pyproject.toml").write_text(
        "[project]\nname = 'x'\n[project.entry-points.'evalkit.plugins']\na = 'another'\nb = 'other'\n"
    )
    assert "contains 2 plugins ('another', 'other')" in said(project)
    (project / "src/other/templates/tone/v1.j2").touch()
    assert "are both version v1; remove one" in said(project / "src" / "other")
    with pytest.raises(ConfigError, match=r"has no template 'tone@v3'; available: 'tone@v1', 'tone@v2', 'tone@v10'"):
        PluginLayout.at(project / "src" / "another").template("tone@v3")


def test_reading_a_layout_runs_nothing_and_loading_takes_no_other_modules_name(tmp_path: Path) -> None:
    package = write_plugin(tmp_path / "evalkit_loud_plugin", "import sys\nsys.evalkit_was_here = 1\n")
    layout = PluginLayout.at(package)
    assert not hasattr(sys, "evalkit_was_here")
    try:
        module = layout.load()
        assert sys.evalkit_was_here == 1  # type: ignore[attr-defined]
        assert layout.load() is module
        other = PluginLayout.at(write_plugin(tmp_path / "other" / "evalkit_loud_plugin"))
        with pytest.raises(ConfigError, match="the name of its module, 'evalkit_loud_plugin', is taken by"):
            other.load()
    finally:
        del sys.evalkit_was_here  # type: ignore[attr-defined]
        del sys.modules["evalkit_loud_plugin"]
        sys.path.remove(str(tmp_path))
    (tmp_path / "json.py").touch()
    with pytest.raises(ConfigError, match="the name of its module, 'json', is taken by"):
        PluginLayout.at(tmp_path / "json.py").load()
    broken = PluginLayout.at(write_plugin(tmp_path / "evalkit_broken_plugin", "raise LookupError('no'\n 'ne')"))
    with pytest.raises(LookupError, match="none"):
        broken.load()
    assert "evalkit_broken_plugin" not in sys.modules
    sys.path.remove(str(tmp_path))


# -- what is registered


def test_what_tests_and_tools_leave_beside_a_project_is_not_of_it(registry: Registry, tmp_path: Path) -> None:
    project = write_project(tmp_path / "tone")
    first = registry.register_plugin("p", "1", str(project))
    for name in ("src/tone_plugin/__pycache__/x.pyc", ".pytest_cache/y", ".venv/z", "dist/x.whl", "build/lib/a.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    assert registry.register_plugin("p", "1", str(project)) == first, "again is no change"
    assert registry.check_plugin("p").profiles.keys() == {"strict-tone"}
    (project / "README.md").write_text("tone\n")
    assert registry.register_plugin("p", "2", str(project)).content_hash != first.content_hash


def test_repositories_are_refused_with_what_to_do_also_if_registered_before(registry: Registry, tmp_path: Path) -> None:
    uri = "git+https://example.org/tone.git@" + "c" * 40
    advice = rf"no plugin at '{re.escape(uri)}': expected a file or folder, or .* pip or uv \(pip install git\+https"
    with pytest.raises(ConfigError, match=advice):
        registry.register_plugin("tone", "1", uri)
    row = PluginRow(
        name="tone", version="1", plugin_type="task", storage_uri=uri, content_hash="d" * 64, requirements=[]
    )
    with registry.database.session() as session:
        session.add(row)
    assert registry.plugin("tone").storage_uri == uri, "a registry that names one opens"
    with pytest.raises(RegistryError, match=f"plugin tone@1 cannot be used here: {advice}"):
        registry.check_plugin("tone")


def test_archives_are_refused_with_what_to_do(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "tone.whl").write_bytes(b"PK")
    for uri in (str(tmp_path / "tone.whl"), "https://127.0.0.1:9/tone.whl", "https://127.0.0.1:9/tone.tar.gz"):
        with pytest.raises(ConfigError, match=r"no plugin at .*an archive .* with pip|is not a plugin: expected"):
            registry.register_plugin("tone", "1", uri)
    assert registry.plugins().empty


@pytest.mark.parametrize(
    "uri",
    [
        "git+https://me:sk-secret@127.0.0.1:9/r.git", "git+https://sk-secret@127.0.0.1:9/r.git",
        "https://sk-secret@127.0.0.1:9/x.whl", "hg+https://me:sk-secret@127.0.0.1:9/r", "HTTPS://sk-secret@127.0.0.1/x",
        "git+ssh://git:sk-secret@127.0.0.1:9/r.git",
    ],
    ids=range(6),
)  # fmt: skip
def test_a_url_with_a_password_or_token_is_refused_and_not_shown(registry: Registry, uri: str) -> None:
    with pytest.raises(ConfigError, match="would store the password or token") as caught:
        registry.register_plugin("tone", "1", uri)
    assert "secret" not in str(caught.value)
    assert registry.plugins().empty


def test_a_plugin_that_changed_or_went_away_is_refused(registry: Registry, tmp_path: Path) -> None:
    package = write_plugin(tmp_path / "tone_plugin")
    registry.register_plugin("tone", "1.0", str(package))
    assert registry.check_plugin("tone").folder == package
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "x.pyc").touch()
    registry.check_plugin("tone", "1.0")
    profile = package / "profiles" / "strict-tone.yaml"
    profile.write_text(PROFILE.replace("3", "5"))
    with pytest.raises(RegistryError, match=r"tone@1\.0 changed since .* has the hash \w{12}, not \w{12}; restore the"):
        registry.check_plugin("tone")
    profile.write_text(PROFILE)
    registry.check_plugin("tone")
    shutil.rmtree(package)
    with pytest.raises(RegistryError, match=r"plugin tone@1\.0 cannot be used here: no plugin at"):
        registry.check_plugin("tone")
    with pytest.raises(RegistryError, match=r"plugin tone@2 not found; available versions: 1\.0"):
        registry.check_plugin("tone", "2")
    with pytest.raises(ConfigError, match="expected a package"):
        registry.register_plugin("empty", "1", str(tmp_path))


def test_what_lies_beside_a_single_file_counts_for_its_hash(tmp_path: Path) -> None:
    file = tmp_path / "single_plugin.py"
    file.write_text(STAND_IN)
    alone = content_hash(file)
    (tmp_path / "notes.txt").write_text("not the plugin's")
    assert content_hash(file) == alone
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "mild.yaml").write_text(PROFILE)
    first = content_hash(file)
    assert first != alone
    (tmp_path / "profiles" / "mild.yaml").write_text(PROFILE + "#")
    assert content_hash(file) not in (alone, first)


def test_an_installed_package_is_found_with_what_it_needs(tmp_path: Path, monkeypatch: Any) -> None:
    wheel = build_wheel(write_project(tmp_path / "project"), tmp_path / "dist")
    site = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", site, wheel],
        check=True, timeout=300,
    )  # fmt: skip
    monkeypatch.syspath_prepend(str(site))
    place = locate("tone_plugin")
    assert (place.uri, place.path) == ("tone_plugin", site / "tone_plugin")
    assert requirements_of(PluginLayout.at(place.path)) == ["evalkit-jury", "no-such-thing>=2"]
    assert "tone_plugin" not in sys.modules


# -- a project to start from


def test_a_new_project_has_no_placeholder_left_and_is_never_written_over(tmp_path: Path) -> None:
    project = new_plugin("support-tone", tmp_path / "deep" / "tone")
    files = {path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()}
    assert files == {
        "README.md", "pyproject.toml", "src/support_tone/__init__.py", "src/support_tone/data/test.jsonl",
        "src/support_tone/profiles/strict-support-tone.yaml", "src/support_tone/rubrics/support_tone/v1.yaml",
        "src/support_tone/templates/support-tone/v1.jinja", "tests/test_support_tone.py",
    }  # fmt: skip
    for name in files:
        text = (project / name).read_text(encoding="utf-8")
        assert not {"$", "PACKAGE", "NAME"} & set(text.replace("NAME[", "").split()), name
        assert "$" not in text, name
    for path in project.rglob("*.py"):
        compile(path.read_text(encoding="utf-8"), path, "exec")
    assert PluginLayout.at(project).module == "support_tone"
    layout = PluginLayout.at(project)
    assert load_profile(layout.profiles["strict-support-tone"]).load().id == "support_tone"
    assert list(layout.templates) == ["support-tone@v1"]
    with pytest.raises(ConfigError, match="exists and is not empty"):
        new_plugin("support-tone", project)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="exists and is not empty"):
        new_plugin("support-tone", tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert new_plugin("support-tone", tmp_path / "empty") == tmp_path / "empty"
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert new_plugin("support-tone", tmp_path / "link") == tmp_path / "link"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "pyproject.toml").is_file()
    assert not list(tmp_path.glob(".*")), "no scratch is left"


@pytest.mark.parametrize("name", ["Tone", "a b", "../x", "1x", "", "x-", "class", "tone_x", "x" * 61])
def test_a_name_that_makes_no_package_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="invalid plugin name"):
        new_plugin(name, tmp_path / "p")
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("name", ["json", "pandas", "evalkit"])
def test_a_name_that_would_hide_a_library_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"would hide the package '{name}'"):
        new_plugin(name, tmp_path / "p")


def _fresh(folder: Path, wheel: Path) -> Path:
    """A virtual environment with the wheel in it; libraries come from this one, since there is no network."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=300)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text("\n".join([sysconfig.get_path("purelib"), str(ROOT)]))
    subprocess.run(
        [sys.executable, "-m", "pip", f"--python={python}", "install", "-q", "--no-deps", "--no-index", str(wheel)],
        check=True, timeout=300,
    )  # fmt: skip
    return python


def test_a_new_project_is_built_installed_in_a_fresh_environment_and_passes_its_own_tests(tmp_path: Path) -> None:
    pytest.importorskip("lighteval")
    project = new_plugin("support-tone", tmp_path / "support-tone")
    wheel = build_wheel(project, tmp_path / "dist")
    python = _fresh(tmp_path / "env", wheel)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"EVALKIT_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}

    def run(*command: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *map(str, command)],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    shutil.copytree(project / "tests", tmp_path / "tests")
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
    done = run("-m", "evalkit", "lighteval", "tasks", "inspect", "support_tone_jury")
    assert done.returncode == 0, done.stderr
    assert "I am sorry for the wait" in done.stdout, "a row of the plugin that was installed"
