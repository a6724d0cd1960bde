"""The parts that make a project of the code: what ships, what is pinned, what an import loads."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import socket
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from places import ROOT

from evalkit._version import __version__
from evalkit.errors import ConfigError
from evalkit.rubrics import files

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
CONSTRAINTS = sorted((ROOT / "constraints").glob("*.txt"))

# Loaded by nothing that only imports evalkit. pandas itself loads pyarrow where it is installed (its text
# columns live there) and looks for bottleneck and numexpr; those are its own affair.
HEAVY = ["torch", "lighteval", "transformers", "IPython", "matplotlib", "openai", "aiohttp", "jinja2", "scipy"]
HEAVY += ["ipywidgets", "anywidget", "datasets", "sklearn", "genai_prices", "krippendorff", "json_repair", "sqlalchemy"]


def run(*command: str, **environment: str) -> str:
    """What a Python process prints that does not look into the current folder; its error text is the message."""
    keep = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", *command],
        env=keep | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pins(path: Path) -> dict[str, str]:
    lines = [line.split("#")[0].split(";")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines if line)}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Wheel, sdist, the wheel built from that sdist, and the editable wheel, each by the real back end."""
    out = tmp_path_factory.mktemp("built")
    build = "import os, sys, hatchling.build as b; os.chdir(sys.argv[1]); print(getattr(b, sys.argv[2])(sys.argv[3]))"

    def make(kind: str, source: Path, hook: str) -> Path:
        (out / kind).mkdir()
        name = run("-c", build, str(source), hook, str(out / kind)).split()[-1]
        return out / kind / name

    made = {"wheel": make("wheel", ROOT, "build_wheel"), "sdist": make("sdist", ROOT, "build_sdist")}
    with tarfile.open(made["sdist"]) as archive:
        archive.extractall(out / "source", filter="data")
    made["wheel from sdist"] = make("second", out / "source" / f"evalkit_jury-{__version__}", "build_wheel")
    made["editable"] = make("editable", ROOT, "build_editable")
    return made


def install(wheel: Path, target: Path) -> Path:
    run("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel))
    return target


def tracked(folder: str) -> set[str]:
    """Files under a folder of the checkout, as names relative to it."""
    files = (ROOT / folder).rglob("*")
    return {str(path.relative_to(ROOT / folder)) for path in files if path.is_file() and path.name[0] != "."}


@pytest.mark.parametrize("kind", ["wheel", "wheel from sdist"])
def test_wheel_holds_rubrics_examples_tasks_and_types(built: dict[str, Path], kind: str) -> None:
    names = set(zipfile.ZipFile(built[kind]).namelist())
    rubrics = {f"evalkit/_data/rubrics/{name}" for name in tracked("rubrics")}
    examples = {f"evalkit/_data/examples/{name}" for name in tracked("evalkit/_data/examples")}
    tasks = {f"evalkit/lighteval/tasks/data/{name}" for name in tracked("evalkit/lighteval/tasks/data")}
    assert len(tasks) == 7, "the rows of six tasks and the criteria of POLLUX"
    assert rubrics, "there are rubrics to ship"
    assert examples, "there are examples to ship"
    scaffolds = {
        f"evalkit/runs/plugin_template/{name}"
        for name in tracked("evalkit/runs/plugin_template")
        if name.endswith(".tmpl")
    }
    assert len(scaffolds) == 8, "what a new plugin is made of"
    assert names >= rubrics | examples | scaffolds | {"evalkit/py.typed", "evalkit/errors/__init__.py"}
    assert {name.split("/")[0] for name in names} == {"evalkit", f"evalkit_jury-{__version__}.dist-info"}


def test_both_wheels_hold_the_same_files(built: dict[str, Path]) -> None:
    first, second = (
        sorted((entry.filename, entry.CRC) for entry in zipfile.ZipFile(built[kind]).infolist())
        for kind in ("wheel", "wheel from sdist")
    )
    assert first == second


def test_installed_wheel_finds_its_own_rubrics(built: dict[str, Path], tmp_path: Path) -> None:
    target = install(built["wheel from sdist"], tmp_path / "target")
    code = "from evalkit.rubrics.files import *; [print(shipped_folder(name)) for name in ('rubrics', 'examples')]"
    rubrics, examples = run("-c", code, PYTHONPATH=str(target)).splitlines()
    assert Path(rubrics) == target / "evalkit/_data/rubrics"
    assert Path(examples) == target / "evalkit/_data/examples"
    assert {str(p.relative_to(rubrics)) for p in Path(rubrics).rglob("*") if p.is_file()} == tracked("rubrics")


def test_editable_install_reads_the_checkout(built: dict[str, Path], tmp_path: Path) -> None:
    target = install(built["editable"], tmp_path / "target")
    assert not (target / "evalkit").exists(), "nothing is copied: an edit in the checkout counts at once"
    # `-S`: neither this environment's own evalkit nor its .pth files; only the new folder's.
    code = (
        f"import site, sys; site.addsitedir({str(target)!r}); sys.path.append({sysconfig.get_path('purelib')!r}); "
        "from evalkit.rubrics.files import *; print(shipped_folder('rubrics'))"
    )
    assert Path(run("-S", "-c", code).strip()) == ROOT / "rubrics"


def test_missing_files_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(files, "_PACKAGE", tmp_path / "evalkit")
    shipped = files.shipped_folder.__wrapped__  # without its cache
    with pytest.raises(
        ConfigError, match=r"folder .*evalkit/_data/rubrics or .*rubrics, which ships with evalkit, is missing; install"
    ):
        shipped("rubrics")
    with pytest.raises(
        ConfigError, match=r"folder .*evalkit/_data/examples or .*examples, which ships with evalkit, is missing"
    ):
        shipped("examples")
    (tmp_path / "rubrics").mkdir()
    assert shipped("rubrics") == tmp_path / "rubrics"
    (tmp_path / "evalkit/_data/rubrics").mkdir(parents=True)
    assert shipped("rubrics") == tmp_path / "evalkit/_data/rubrics", "what was installed goes first"


def test_metadata_is_that_of_the_sources(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        text = wheel.read(f"evalkit_jury-{__version__}.dist-info/METADATA").decode()
        scripts = wheel.read(f"evalkit_jury-{__version__}.dist-info/entry_points.txt").decode()
    for line in (
        "Name: evalkit-jury",
        f"Version: {__version__}",
        "License-Expression: Apache-2.0",
        "Requires-Python: >=3.11",
    ):
        assert line in text.splitlines()
    assert "evalkit = evalkit.cli:main" in scripts


def test_extras_are_those_of_the_design() -> None:
    expected = "notebook label parquet lighteval inspect anthropic litellm transformers vllm registry postgres dask ray"
    # gate: jsonschema, which one deterministic check needs, and a fast parser for long configurations
    assert set(EXTRAS) == {*expected.split(), "datasets", "dev", "gate"}


@pytest.mark.parametrize("path", CONSTRAINTS, ids=lambda path: path.name)
def test_constraints_hold_names_and_versions_only(path: Path) -> None:
    line = re.compile(r'[A-Za-z0-9._-]+==[A-Za-z0-9.]+( ; python_version (>=|<) "3\.\d+")?')
    wrong = [
        text for text in path.read_text(encoding="utf-8").splitlines() if text[0] != "#" and not line.fullmatch(text)
    ]
    assert wrong == []


def test_all_constraints_are_one_consistent_set() -> None:
    assert [path.name for path in CONSTRAINTS] == ["core.txt", "dev.txt", "torch.txt"]
    core, everything, torch = map(pins, CONSTRAINTS)
    assert core.items() <= everything.items()
    assert torch.items() <= everything.items()
    assert "torch" not in core


@pytest.mark.parametrize(
    ("path", "extras"),
    [("core.txt", ["notebook"]), ("dev.txt", ["notebook", "parquet", "datasets", "lighteval", "registry", "dev"])],
)
def test_constraints_pin_every_direct_dependency_within_its_bounds(path: str, extras: list[str]) -> None:
    pinned = pins(ROOT / "constraints" / path)
    wanted = PROJECT["dependencies"] + [text for extra in extras for text in EXTRAS[extra]]
    assert len(wanted) > len(PROJECT["dependencies"])
    for requirement in map(Requirement, wanted):
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not pinned in {path}"
        assert Version(version) in requirement.specifier, f"{requirement.name} {version} in {path}"


def installed(extra: str) -> list[Requirement]:
    """The requirements of an extra; skips where that extra is not installed."""
    requirements = [Requirement(text) for text in EXTRAS[extra]]
    for requirement in requirements:
        try:
            importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"extra {extra!r} is not installed ({requirement.name} is missing)")
    return requirements


def test_lighteval_is_installed_as_pinned_and_its_doc_is_cheap() -> None:
    for requirement in installed("lighteval"):
        assert Version(importlib.metadata.version(requirement.name)) in requirement.specifier, requirement
    code = (
        "import sys; from lighteval.tasks.requests import Doc; print(Doc(query='q', choices=['a'], gold_index=0).query)"
        "; print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    assert run("-c", code).split() == ["q", "False", "False"]


def test_import_evalkit_loads_nothing_heavy() -> None:
    code = "import json, sys, evalkit; getattr(evalkit, 'judge', None); print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(run("-c", code, PYTHONPATH=str(ROOT)))
    assert "evalkit" in loaded
    assert sorted(set(HEAVY) & set(loaded)) == []


def test_tests_cannot_leave_the_machine() -> None:
    with socket.socket() as plain, pytest.raises(OSError, match="loopback only"):
        plain.connect(("192.0.2.1", 80))  # TEST-NET-1, routed nowhere
    with pytest.raises(socket.gaierror, match="loopback only"):
        socket.getaddrinfo("example.org", 80)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()


def test_readers_of_keys_find_none_of_this_machine() -> None:
    assert "OPENAI_API_KEY" not in os.environ
    assert not Path(os.environ["EVALKIT_CACHE"]).exists(), "an empty cache of this test"


_BLOCKED = """
import importlib.abc, sys
class Gone(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Gone())
"""


@pytest.mark.parametrize("gone", ["sqlalchemy", "ipywidgets,anywidget,matplotlib", "sqlalchemy,anywidget"])
def test_names_of_missing_extras_do_not_break_help_hasattr_getmembers_and_star(gone: str) -> None:
    code = """
import inspect, pydoc
import evalkit as ek
assert all(hasattr(ek, name) for name in dir(ek))
assert set(ek.__all__) <= set(dict(inspect.getmembers(ek)))
pydoc.render_doc(ek)
exec("from evalkit import *", names := {})
assert callable(names["judge"]) and set(ek.__all__) <= set(names)
for room in (ek.runs, ek.notebook):
    assert all(hasattr(room, name) for name in room.__all__)
    members = dict(inspect.getmembers(room))
    assert set(room.__all__) <= set(members)
    assert "Run" in pydoc.render_doc(room)
    for name in {"RunWizard", "Registry", "Runner"} & set(members):
        if isinstance(members[name], type):
            print(name, "there")
            continue
        for use in (lambda: members[name](), lambda: members[name].of, lambda: isinstance(1, members[name]),
                    lambda: type("Mine", (), {}) and __import__("types").new_class("Mine", (members[name],))):
            try:
                use()
            except ek.errors.MissingExtraError as problem:
                print(name, "raises:", problem)
"""
    printed = run("-c", _BLOCKED + code, gone, PYTHONPATH=str(ROOT))
    lines = printed.splitlines()
    absent = [line for line in lines if " raises: " in line]
    if "sqlalchemy" in gone:
        assert len(absent) == 12, printed
        assert all("pip install '.[registry]'" in line for line in absent)
    else:
        assert not absent, "with SQLAlchemy the classes are there; drawing them is what needs widgets"
        assert len(lines) == 3
