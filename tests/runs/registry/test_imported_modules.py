"""Which modules of a user a file imports, and that the hash of a plugin counts these and no others."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from evalkit.runs.registry.plugin_sources import imported_modules

pytest.importorskip("sqlalchemy")

from evalkit.runs.registry.plugin_sources import content_hash

FORMS = (
    "import {name}", "import {name} as other", "from {name} import x", "from {name} import *",
    "def late():\n    import {name}", "try:\n    import {name}\nexcept ImportError:\n    pass", "import json, {name}",
)  # fmt: skip
IN_PACKAGE = (
    "from .{name} import x",
    "from . import {name}",
    "from {package}.{name} import x",
    "from {package} import {name}",
)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["beside", "in a package", "in a folder"])
def test_a_plugin_changes_with_what_it_imports_and_with_nothing_else(tmp_path: Path, seed: int, kind: str) -> None:
    draw, names = random.Random(seed), [f"m{number}" for number in range(7)]
    folder, prefix = tmp_path, ""
    if kind != "beside":
        folder, prefix = tmp_path / "inner", "inner."
        folder.mkdir()
    forms = FORMS
    if kind == "in a package":
        (folder / "__init__.py").touch()
        forms = IN_PACKAGE
    edges = {name: draw.sample(names, draw.randint(0, 2)) for name in names}  # also of itself, and in circles
    for name, others in edges.items():
        lines = [
            draw.choice(forms).format(name=other if "package" in kind else prefix + other, package="inner")
            for other in others
        ]
        (folder / f"{name}.py").write_text("\n".join([*lines, "x = 1"]))
    tasks = (folder if kind == "in a package" else tmp_path) / "my_tasks.py"
    first = names[:1]
    tasks.write_text(
        "\n".join(
            [
                draw.choice(forms).format(name=first[0] if "package" in kind else prefix + first[0], package="inner"),
                "TASKS_TABLE = []",
            ]
        )
    )
    reached, left = set[str](), first
    while left:
        reached |= {left[0]}
        left = [*left[1:], *(other for other in edges[left[0]] if other not in reached)]
    was = content_hash(tasks)
    for name in names:
        before = (folder / f"{name}.py").read_text()
        (folder / f"{name}.py").write_text(f"{before}\ny = 2")
        assert (content_hash(tasks) != was) == (name in reached), name
        (folder / f"{name}.py").write_text(before)
    assert content_hash(tasks) == was


def test_a_package_changes_with_the_module_beside_it(tmp_path: Path) -> None:
    package, helper = tmp_path / "tone_plugin", tmp_path / "helper.py"
    package.mkdir()
    (package / "__init__.py").write_text("from .parts import *")
    (package / "parts.py").write_text("import helper")
    helper.write_text("x = 1")
    was = content_hash(package)
    helper.write_text("x = 2")
    assert content_hash(package) != was


def test_installed_packages_libraries_and_broken_files_are_no_neighbours(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    for place in (site / "helper.py", tmp_path / "torch.py"):
        place.parent.mkdir(exist_ok=True)
        place.touch()
    (tmp_path / "broken.py").write_text("import helper(")
    tasks = tmp_path / "tasks.py"
    tasks.write_text("import helper, torch, broken, numpy\nfrom .. import gone")
    assert imported_modules(tasks, "tasks", [tmp_path, site]) == {"broken": tmp_path / "broken.py"}
