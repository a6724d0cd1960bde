"""Plugins: where what is, what is registered and checked, what a process of its own finds in them."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import sysconfig
import time
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from plugins import PROFILE, STAND_IN, build_wheel, git, write_plugin, write_project

from evalkit._version import __version__
from evalkit.errors import ConfigError, MissingExtraError, RegistryError
from evalkit.runs.contract.plugin_layout import PluginLayout

pytest.importorskip("alembic")

from evalkit.runs.plugin_template import new_plugin
from evalkit.runs.registry import Registry, plugin_report
from evalkit.runs.registry import plugin_sources as sources
from evalkit.runs.registry.plugin_report import _parts, inspect_plugin
from evalkit.runs.registry.plugin_sources import content_hash, locate, requirements_of

HANGS = "import time\ntime.sleep(600)\n"


@pytest.fixture
def registry(tmp_path: Path) -> Any:
    opened = Registry.open(tmp_path / "registry.sqlite")
    yield opened
    opened.close()


# -- where what is


def test_a_layout_is_found_in_a_package_a_project_a_file_and_what_pip_installed(tmp_path: Path) -> None:
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
    assert "expected a package (with __init__.py), a project" in said(tmp_path / "empty")
    (tmp_path / "empty" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert "a project whose package is at src/" in said(tmp_path / "empty")
    (tmp_path / "empty" / "pyproject.toml").write_text("[project\n")
    assert "invalid TOML" in said(tmp_path / "empty")
    project = write_project(tmp_path / "project")
    (project / "src" / "tone_plugin").rename(project / "src" / "other")
    assert "expected the module 'tone_plugin' of its entry point" in said(project)
    (project / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert PluginLayout.at(project).module == "other", "the only package"
    write_plugin(project / "src" / "another")
    assert "more than one package ('another', 'other'); add an entry point" in said(project)
    (project / "pyproject.toml").write_text(
        "[project]\nname = 'x'\n[project.entry-points.'evalkit.plugins']\na = 'another'\nb = 'other'\n"
    )
    assert "contains 2 plugins ('a', 'b')" in said(project)
    (project / "src/other/templates/tone/v1.j2").touch()
    assert "are both version v1; remove one" in said(project / "src" / "other")
    with pytest.raises(ConfigError, match=r"has no profile 'mild'; available: 'strict-tone'"):
        PluginLayout.at(project / "src" / "another").profile("mild")
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


def test_a_git_reference_is_fetched_by_its_commit_once(tmp_path: Path) -> None:
    repo = write_project(tmp_path / "repo")
    git(repo, "init", "-q", "-b", "main")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "first")
    sha = git(repo, "rev-parse", "HEAD")
    git(repo, "tag", "-a", "v1", "-m", "a tag that is an object of its own")
    git(repo, "branch", "feature/tone")
    first = locate(f"git+file://{repo}@{sha}", tmp_path / "plugins")
    assert first.uri == f"git+file://{repo}@{sha}"
    assert PluginLayout.at(first.path).module == "tone_plugin"
    assert requirements_of(PluginLayout.at(first.path)) == ["evalkit-jury", "no-such-thing>=2"]

    (repo / "src/tone_plugin/__init__.py").write_text("TASKS_TABLE = []\n")
    git(repo, "commit", "-q", "-a", "-m", "second")
    for reference in ("@feature/tone", "@v1", f"@{sha}"):
        place = locate(f"git+file://{repo}{reference}", tmp_path / "plugins")
        assert place == first, "a branch and a tag are stored as the commit that they stand for"
    newest = locate(f"git+file://{repo}", tmp_path / "plugins")
    assert newest.uri.endswith("@" + git(repo, "rev-parse", "HEAD")), "without a reference the default branch"
    assert locate(f"git+file://{repo}@main", tmp_path / "plugins") == newest
    again = locate(f"git+file://{repo}@{sha}", tmp_path / "others")
    assert content_hash(again.path) == content_hash(first.path), "the same commit, the same hash, wherever it lies"

    with pytest.raises(ConfigError, match="has no branch, tag or commit 'none'"):
        locate(f"git+file://{repo}@none", tmp_path / "plugins")
    with pytest.raises(ConfigError, match=r"cannot look up 'main' in .*not"):
        locate(f"git+file://{tmp_path}/nowhere@main", tmp_path / "plugins")
    with pytest.raises(ConfigError, match="cannot be fetched"):
        locate(f"git+file://{repo}@{'0' * 40}", tmp_path / "plugins")
    with pytest.raises(ConfigError, match="the registry would store the password or token") as caught:
        locate("git+https://me:hush@example.org/x@main", tmp_path / "plugins")
    assert "hush" not in str(caught.value)
    assert len(list((tmp_path / "plugins").iterdir())) == 2, "what failed leaves nothing"


@pytest.mark.parametrize(
    ("uri", "asked", "kept"),
    [
        ("git+https://h.org/r.git@main", ("https://h.org/r.git", "main"), "git+https://h.org/r.git@C"),
        ("git+https://h.org/r.git", ("https://h.org/r.git", "HEAD"), "git+https://h.org/r.git@C"),
        ("git+ssh://git@h.org:22/r.git@a/b", ("ssh://git@h.org:22/r.git", "a/b"), "git+ssh://git@h.org:22/r.git@C"),
        ("git+https://h.org/r@v1#subdirectory=x", ("https://h.org/r", "v1"), "git+https://h.org/r@C#subdirectory=x"),
        ("git+https://h.org/r@20260131", ("https://h.org/r", "20260131"), "git+https://h.org/r@C"),
        (f"git+file:///r@{'a' * 40}#egg=x", None, f"git+file:///r@{'a' * 40}#egg=x"),
    ],
    ids=range(6),
)
def test_a_git_url_is_kept_with_a_commit(monkeypatch: Any, uri: str, asked: tuple[str, str] | None, kept: str) -> None:
    seen = []
    # hosts that are not there: what they are asked is looked at; the answers of a real repository are tested above
    monkeypatch.setattr(sources, "_commit_of", lambda *words: seen.append(words) or "C")
    assert sources._at_commit(uri) == kept
    assert seen == ([] if asked is None else [asked])


def test_a_tag_that_looks_like_a_commit_is_a_tag(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "a")
    git(tmp_path, "tag", "20260131")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert sources._at_commit(f"git+file://{tmp_path}@20260131") == f"git+file://{tmp_path}@{commit}"
    assert sources._at_commit(f"git+file://{tmp_path}@0123abc") == f"git+file://{tmp_path}@0123abc", "for pip to find"
    with pytest.raises(ConfigError, match="has no branch, tag or commit 'nosuch'"):
        sources._at_commit(f"git+file://{tmp_path}@nosuch")


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


def test_a_copy_that_was_changed_is_fetched_again_once_it_is_removed(registry: Registry, tmp_path: Path) -> None:
    wheel = build_wheel(write_project(tmp_path / "project"), tmp_path / "dist")
    registry.register_plugin("tone", "1.0", str(wheel))
    copy = registry.check_plugin("tone").root
    (copy / "tone_plugin" / "__init__.py").write_text("raise SystemExit")
    with pytest.raises(RegistryError, match=r"; remove this copy, so that it is fetched again, or register"):
        registry.check_plugin("tone")
    shutil.rmtree(copy)
    assert registry.check_plugin("tone").root == copy


def test_a_wheel_is_unpacked_and_another_of_its_name_is_another(registry: Registry, tmp_path: Path) -> None:
    project = write_project(tmp_path / "project")
    wheel = build_wheel(project, tmp_path / "dist")
    made = registry.register_plugin("tone", "1.0", str(wheel), "bundle")
    assert made.storage_uri == str(wheel)
    assert made.requirements == ("evalkit-jury", "no-such-thing>=2")
    layout = registry.check_plugin("tone")
    assert list(layout.profiles) == ["strict-tone"]
    assert (layout.folder / "data" / "test.jsonl").is_file()
    assert registry.register_plugin("tone", "1.0", wheel.as_uri(), "bundle") == made, "a file URL is that file"
    (project / "src/tone_plugin/__init__.py").write_text("TASKS_TABLE = []\n")
    build_wheel(project, tmp_path / "dist")
    with pytest.raises(RegistryError, match=r"plugin tone@1\.0 changed since it was registered"):
        registry.check_plugin("tone")


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
    place = locate("tone_plugin", tmp_path)
    assert (place.uri, place.path) == ("tone_plugin", site / "tone_plugin")
    assert requirements_of(PluginLayout.at(place.path)) == ["evalkit-jury", "no-such-thing>=2"]
    assert "tone_plugin" not in sys.modules


# -- what a process of its own finds


def test_a_plugin_is_listed_with_its_tasks_parts_and_needs(tmp_path: Path) -> None:
    report = inspect_plugin(write_project(tmp_path))
    tone, far = report.tasks
    assert (tone.name, tone.scoring_modes, tone.metrics) == ("tone", ("judge", "jury"), ("tone",))
    assert tone.fields == ("question", "answer", "context", "reference"), "as evalkit names what a Doc holds"
    assert (far.scoring_modes, far.fields) == (("deterministic", "judge", "jury"), None)
    assert [(part.kind, part.name, part.problem) for part in report.parts] == [
        ("profile", "strict-tone", None),
        ("template", "tone@v1", None),
        ("template", "tone@v2", None),
        ("template", "tone@v10", None),
        ("rubric", "tone@v1", None),
    ]
    assert [(need.requirement, need.installed, need.met) for need in report.needs] == [
        ("evalkit-jury", __version__, True),
        ("no-such-thing>=2", None, False),
    ]
    assert report.problems == ("the plugin needs no-such-thing>=2, which is not installed",)
    assert "tone_plugin" not in sys.modules


def test_the_fields_of_a_task_are_those_of_its_own_rows(tmp_path: Path) -> None:
    code = """
def pick(row, task):
    if task == "none":
        return None
    return SimpleNamespace(query="?", specific={row["only"]: 1, "empty": None} if row["only"] != "plain" else None)


def table(name, **options):
    return Config(name, prompt_function=pick, **options)


TASKS_TABLE = [table("all"), table("none"), table("some"), table("no-file", evaluation_splits=("train",))]
TASKS_TABLE[2].hf_filter = lambda row: row["only"] == "rules"
EVALKIT_PLUGIN = {}
"""
    package = write_plugin(tmp_path / "tone_plugin", STAND_IN + code)
    rows = [{"only": name} for name in ("plain", "rules", "tools", "rules")]
    (package / "data" / "test.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    report = inspect_plugin(package)
    assert {task.name: task.fields for task in report.tasks} == {
        "all": ("question", "answer", "rules", "tools"),
        "none": None,
        "some": ("question", "answer", "rules"),
        "no-file": None,
    }
    assert report.problems == ("task none: test.jsonl contains no rows for it",)


def test_each_problem_of_a_plugin_is_named(tmp_path: Path) -> None:
    package = write_plugin(tmp_path / "tone_plugin", STAND_IN + "TASKS_TABLE.append(Config('tone'))\n")
    (package / "profiles" / "strict-tone.yaml").write_text(PROFILE + "smaples: 3\n")
    (package / "templates/tone/v2.j2").write_text("no header")
    (package / "rubrics/tone/v2.yaml").write_text((package / "rubrics/tone/v1.yaml").read_text())
    with (package / "data" / "test.jsonl").open("a") as rows:
        rows.write('{"question": "?"}\n')
    with (package / "__init__.py").open("a") as module:
        module.write("EVALKIT_PLUGIN['scoring_modes'] = {'tune': ['judge']}\n")
    said = "\n".join(inspect_plugin(package).problems)
    for expected in (
        "TASKS_TABLE contains 'tone' more than once",
        "unknown tasks 'tune' in scoring_modes; its tasks: 'tone', 'tone:far', 'tone'",
        "task tone: its prompt function fails on a row after line 1 of test.jsonl: KeyError: 'context'",
        "profile strict-tone: ",
        "unknown key 'smaples'",
        "template tone@v2: template tone@v2: the header is missing",
        "rubric tone@v2: ",
        "a file at this path must contain tone@v2",
    ):
        assert expected in said


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("\nraise ValueError('no key')", r"cannot be imported: ValueError: no key \(__init__\.py, line 2\)"),
        ("import no_such_library", r"cannot be imported: ModuleNotFoundError: No module named 'no_such_library'"),
        ("TASKS_TABLE = [", r"cannot be imported: SyntaxError: '\[' was never closed"),
        ("import sys; sys.exit(3)", r"cannot be imported: it calls sys\.exit\(3\) when it is imported"),
        ("raise KeyboardInterrupt", r"cannot be imported: KeyboardInterrupt"),
        (
            "import os; print('bye', flush=True); os._exit(7)",
            "ended the importing process .* code 7; its last output: bye",
        ),
        ("import os; os.kill(os.getpid(), 9)", r"ended the importing process with exit code 137$"),
        ("TASKS_TABLE = {'a': 1}", r"TASKS_TABLE must be a list of LightevalTaskConfig, got a dict"),
        ("TASKS_TABLE = ['tone']", r"TASKS_TABLE must contain only LightevalTaskConfig, got a str"),
        ("EVALKIT_PLUGIN = {'name': object}", r"EVALKIT_PLUGIN must contain only strings"),
    ],
    ids=range(10),
)
def test_a_plugin_that_cannot_be_imported_is_one_clear_message(tmp_path: Path, code: str, said: str) -> None:
    with pytest.raises(RegistryError, match=said):
        inspect_plugin(write_plugin(tmp_path / "bad_plugin", code))


def test_a_plugin_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    start = f"import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', {HANGS!r}])\n"
    package = write_plugin(tmp_path / "bad_plugin", f"{start}open({str(note)!r}, 'w').write(str(p.pid))\n{HANGS}")
    for seconds in (3, 10, 30):  # on a busy machine it may not have come as far as the plugin
        with pytest.raises(RegistryError, match=f"was not imported within {seconds} s"):
            inspect_plugin(package, timeout_s=seconds)
        if note.exists() and note.read_text():
            break
    for _ in range(100):
        try:
            os.kill(int(note.read_text()), 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        state = Path(f"/proc/{note.read_text()}/stat").read_text().split(")")[1].split()[0]
        assert state == "Z", "the grandchild is dead, if not yet buried"


@pytest.mark.parametrize(
    "code", ["print('x' * 10**7)", "import sys; sys.stderr.buffer.write(bytes(range(256)) * 9999)"]
)
def test_garbage_on_its_output_is_no_fault(tmp_path: Path, code: str) -> None:
    report = inspect_plugin(write_plugin(tmp_path / "loud_plugin", f"{code}\n{STAND_IN}"))
    assert [task.name for task in report.tasks] == ["tone", "tone:far"]


def test_threads_that_stay_do_not_keep_the_process(tmp_path: Path) -> None:
    code = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n"
    assert inspect_plugin(write_plugin(tmp_path / "slow_plugin", code + STAND_IN), timeout_s=30).tasks


def test_no_scoring_of_the_caller_reaches_the_plugin(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("EVALUATOR_SCORING_MODE", "judge")
    monkeypatch.setenv("EVALKIT_TASK_BINDINGS", "{}")
    code = "import os\nassert not [one for one in os.environ if one.startswith(('EVALUATOR_', 'EVALKIT_TASK'))]\n"
    assert inspect_plugin(write_plugin(tmp_path / "calm_plugin", code + STAND_IN)).problems == ()


def test_a_plugin_may_say_nothing_of_itself_and_have_no_tasks(tmp_path: Path) -> None:
    (tmp_path / "bare_plugin.py").write_text("")
    assert inspect_plugin(tmp_path / "bare_plugin.py").problems == ("the plugin has no tasks: TASKS_TABLE is missing",)
    report = inspect_plugin(tmp_path / "bare_plugin.py", tasks_wanted=False)
    assert (report.problems, report.tasks, report.parts, report.needs, report.name) == ((), (), (), (), None)


def test_without_lighteval_its_tasks_need_an_extra(monkeypatch: Any) -> None:
    def version(name: str) -> str:  # a mock: LightEval is installed where the tests run
        raise PackageNotFoundError(name)

    monkeypatch.setattr(plugin_report, "version", version)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[lighteval\]'"):
        plugin_report.lighteval_tasks()


# -- a project to start from


def test_a_new_project_has_no_placeholder_left_and_is_never_written_over(tmp_path: Path) -> None:
    project = new_plugin("support-tone", tmp_path / "deep" / "tone")
    files = {path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()}
    assert files == {
        "README.md",
        "pyproject.toml",
        "src/support_tone/__init__.py",
        "src/support_tone/data/test.jsonl",
        "src/support_tone/profiles/strict-support-tone.yaml",
        "src/support_tone/rubrics/support_tone/v1.yaml",
        "src/support_tone/templates/support-tone/v1.jinja",
        "tests/test_support_tone.py",
    }
    for name in files:
        text = (project / name).read_text(encoding="utf-8")
        assert not {"$", "PACKAGE", "NAME"} & set(text.replace("NAME[", "").split()), name
        assert "$" not in text, name
    for path in project.rglob("*.py"):
        compile(path.read_text(encoding="utf-8"), path, "exec")
    assert PluginLayout.at(project).module == "support_tone"
    assert [part.problem for part in _parts(PluginLayout.at(project))] == [None] * 3
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
    assert "6 passed" in done.stdout
    done = run("-m", "evalkit", "pack", "tasks", "--refresh", "--json", "support_tone", "gsm8k")
    assert done.returncode == 0, done.stderr
    found = {row["name"]: row for row in json.loads(done.stdout)}
    assert found["gsm8k"]["source"].startswith("lighteval 0.13")
    names = ("source", "scoring_modes", "fields")
    assert [found["support_tone_jury"][name] for name in names] == [
        "bundle support-tone (support_tone)",
        "deterministic, jury",
        "question, answer, reference",
    ]
    assert found["support_tone"]["scoring_modes"] == "deterministic, judge, jury"
    assert str(tmp_path / "env") in found["support_tone"]["dataset"], "the one that was installed"
