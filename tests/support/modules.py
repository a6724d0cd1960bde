"""Which test files test a module: `python tests/support/modules.py stats/voting` prints them, the best first.

Read from names alone: a file of the module's name in the mirrored folder; then the files that use what the module
defines (`ek.vote`, `from evalkit.stats.voting import vote`), by how often; for a module whose names no test uses, those
of the modules that import it; where that is none (commands are imported by their name), its folder's.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from functools import cache
from pathlib import Path

from places import ROOT, TESTS


@cache
def modules() -> dict[str, Path]:
    """Every module of evalkit by its dotted name, and its file."""
    found = {}
    for path in sorted((ROOT / "evalkit").rglob("*.py")):
        if "_data" not in path.parts:
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[name] = path.with_suffix(".pyi") if path.with_suffix(".pyi").exists() else path
    return found


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _imports(path: Path, package: str) -> dict[str, str]:
    """Names that a file imports from evalkit, and where from, as dotted names; `package` is what a dot means there."""
    names = {}
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            names |= {one.asname or one.name: f"{source}.{one.name}" for one in node.names if source[:7] == "evalkit"}
        elif isinstance(node, ast.Import):
            names |= {
                one.asname or one.name.split(".")[0]: one.name if one.asname else one.name.split(".")[0]
                for one in node.names
                if one.name.split(".")[0] == "evalkit"
            }
    return names


@cache
def home(name: str) -> str | None:
    """The module that defines a dotted name, whatever packages export it on the way."""
    if name in modules():
        return name
    package, _, last = name.rpartition(".")
    if not package:
        return None
    source = home(package)
    if source is None:
        return None
    exported = _imports(modules()[source], source).get(last) if modules()[source].stem == "__init__" else None
    return home(exported) if exported and exported != name else source


@cache
def uses() -> dict[str, Counter[str]]:
    """How often each test file uses what a module defines."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in modules()}
    for path in sorted(TESTS.rglob("test_*.py")):
        names = _imports(path, "")
        for node in ast.walk(_tree(path)):
            words, inner = [], node
            while isinstance(inner, ast.Attribute):
                words.append(inner.attr)
                inner = inner.value
            if isinstance(inner, ast.Name) and inner.id in names and isinstance(node, ast.Name | ast.Attribute):
                module = home(".".join([names[inner.id], *reversed(words)]))
                if module:
                    counts[module][str(path.relative_to(TESTS))] += 1
    return counts


@cache
def _needs(module: str) -> set[str | None]:
    """The modules that a module imports from."""
    return {home(name) for name in _imports(modules()[module], module).values()}


def tests_of(module: str) -> list[Path]:
    """The test files of a module, named as a path below evalkit/ or with dots; empty if there is no such module."""
    name = "evalkit." + module.replace("/", ".").removesuffix(".py").removeprefix("evalkit.")
    if name not in modules():
        return []
    place = Path(*name.split(".")[1:])
    mirrored = [TESTS / place.parent / f"test_{place.name}{ending}.py" for ending in ("", "_long")]
    files = [path for path in mirrored if path.exists()]
    asked, seen = [name], {name}
    while asked and not files:
        count = sum((uses()[one] for one in asked), Counter[str]())
        files += [TESTS / path for path, _ in count.most_common() if TESTS / path not in files]
        importers = [one for one in modules() if modules()[one].stem != "__init__" and one not in seen]
        asked = [one for one in importers if _needs(one) & set(asked)]
        seen |= set(asked)
    return files or sorted((TESTS / place.parent).rglob("test_*.py"))


if __name__ == "__main__":
    for file in tests_of(sys.argv[1]) or sys.exit(f"no module evalkit/{sys.argv[1]}"):
        print(file.relative_to(ROOT))
