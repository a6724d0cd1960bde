"""How evalkit is built, counted from its source: frontier, circles of imports, own sentences taken apart, names.

Run in the project's root: ``python benchmarks/structure.py [--list]``. Lines are those of code (no docstrings, comments
or blank lines). A facade is an ``__init__``; its names are what it exports. Circles count every import, also those
inside functions and under ``TYPE_CHECKING``. A sentence is taken apart where a method such as ``partition``, or ``in``,
looks for words that another string of evalkit contains (candidates: read them with ``--list``). The words that say
nothing are those that ``make check`` refuses.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from local_names import empty_names  # noqa: E402

HOUSE = ROOT / "evalkit"
CUTS = {
    "partition",
    "rpartition",
    "split",
    "rsplit",
    "replace",
    "removeprefix",
    "removesuffix",
    "startswith",
    "endswith",
}
KINDS = {
    "providers": ["openai", "anthropic", "litellm", "inference-providers", "transformers", "vllm"],
    "rules": ["dawid_skene"],
    "checks": ["must_contain", "json_schema"],
    "figures": ["alpha", "phi", "icc"],
}


def modules() -> dict[str, ast.Module]:
    """Every module of evalkit by its dotted name below evalkit, with its syntax tree."""
    files = [path for path in sorted(HOUSE.rglob("*.py")) if "_data" not in path.parts]
    return {
        ".".join(path.relative_to(HOUSE).with_suffix("").parts).removesuffix("__init__").rstrip("."): ast.parse(
            path.read_text("utf-8")
        )
        for path in files
    }


def lines_of_code() -> int:
    """Lines that are not blank, a comment or part of a docstring."""
    total = 0
    for path in HOUSE.rglob("*.py"):
        text = path.read_text("utf-8")
        total += sum(bool(line.strip()) and not line.strip().startswith("#") for line in text.splitlines())
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
                first = node.body[0]
                if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
                    docstring = text.splitlines()[first.lineno - 1 : first.end_lineno]
                    total -= sum(bool(line.strip()) and not line.strip().startswith("#") for line in docstring)
    return total


def facades() -> dict[str, list[str]]:
    """The names of each facade."""
    return {
        str(stub.parent.relative_to(HOUSE)): [
            alias.asname or alias.name
            for node in ast.walk(ast.parse(stub.read_text("utf-8")))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        ]
        for stub in sorted(HOUSE.rglob("__init__.pyi"))
        if stub.parent != HOUSE
    }


def imports(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Which modules each module imports, wherever in the file."""
    packages = {name for name in trees if any(other.startswith(f"{name}.") for other in trees)} | {""}
    edges: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                here = name.split(".") if name in packages else name.split(".")[:-1]
                base = [*here[: len(here) - node.level + 1]] if node.level else []
                source = ".".join([*base, *(node.module or "").split(".")]).strip(".")
                if not node.level:
                    if not source.startswith("evalkit"):
                        continue
                    source = source.removeprefix("evalkit").lstrip(".")
                for alias in node.names:
                    target = f"{source}.{alias.name}".lstrip(".")
                    edges[name].add(target if target in trees else source)
            elif isinstance(node, ast.Import):
                edges[name] |= {a.name[8:] for a in node.names if a.name[8:] in trees and a.name.startswith("evalkit.")}
    return {name: {target for target in targets if target and target != name} for name, targets in edges.items()}


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of nodes that reach each other (strongly connected, Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(edges.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                groups.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted(groups, key=len, reverse=True)


def folders(edges: dict[str, set[str]], packages: set[str]) -> dict[str, set[str]]:
    """Imports between the folders of one package: ``stats.agreement`` and the package's loose files."""

    def folder(name: str) -> str:
        return name if name in packages else name.rpartition(".")[0]

    between: dict[str, set[str]] = defaultdict(set)
    for name, targets in edges.items():
        for target in targets:
            here, there = folder(name), folder(target)
            if here != there and target not in packages and here.split(".")[0] == there.split(".")[0]:
                between[here].add(there)
    return between


def sentences(trees: dict[str, ast.Module]) -> list[str]:
    """Places that look for words which another string of evalkit contains: ``"budget" in str(problem)``."""
    texts: dict[str, list[str]] = defaultdict(list)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
                texts[name].append(node.value)
    written = [text for name in texts for text in texts[name] if len(text) < 400 and "\n" not in text]
    found = []
    for name, tree in trees.items():
        for node in ast.walk(tree):
            word = None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CUTS:
                word = node.args[0] if node.args else None
            elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
                word = node.left
                if not (
                    isinstance(node.comparators[0], ast.Call) and ast.unparse(node.comparators[0]).startswith("str(")
                ):
                    word = word if isinstance(word, ast.Constant) and " " in str(word.value) else None
            if isinstance(word, ast.Constant) and isinstance(word.value, str):
                text = word.value
                is_own = len(re.findall(r"[a-z]", text)) >= 3 and any(
                    text in other and text != other for other in written
                )
                if is_own or text in ("; ", ": ") or ast.unparse(node).startswith("str("):
                    found.append(f"{name}:{node.lineno}  {ast.unparse(node)[:100]}")
    return found


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print what is counted")
    listed = parser.parse_args().list
    trees = modules()
    packages = {name for name in trees if any(other.startswith(f"{name}.") for other in trees)}

    def show(title: str, rows: list[str]) -> None:
        print(title)
        for row in rows if listed else []:
            print(f"    {row}")

    print(f"lines of code: {lines_of_code()}")
    names = facades()
    show(
        f"names in {len(names)} facades below the root: {sum(map(len, names.values()))}",
        [f"{facade}: {', '.join(exported)}" for facade, exported in names.items()],
    )
    edges = imports(trees)
    inner = {name: {t for t in targets if t not in packages} for name, targets in edges.items() if name not in packages}
    loops = circles(inner)
    show(f"circles of files: {len(loops)}, with {sum(map(len, loops))} files", [" ".join(loop) for loop in loops])
    between = folders(edges, packages)
    loops = circles(between)
    pairs = sorted({tuple(sorted((a, b))) for a in between for b in between[a] if a in between.get(b, ())})
    show(
        f"pairs of folders that import each other: {len(pairs)}; circles: {len(loops)}",
        [" <-> ".join(pair) for pair in pairs],
    )
    cut = sentences(trees)
    show(f"places that look for words of evalkit's own strings: {len(cut)}", cut)
    sources = {name: ast.unparse(tree) for name, tree in trees.items()}
    for kind, words in KINDS.items():
        holders = {w: [n for n, s in sources.items() if re.search(rf"['\"]{re.escape(w)}['\"]", s)] for w in words}
        for word, holding in holders.items():
            show(f"{kind}: {word!r} is written in {len(holding)} modules", holding)
    money = [f"{n}: {s.count('US$ {')}" for n, s in sources.items() if "US$ {" in s]
    show(f"sums of money are formatted in {len(money)} modules", money)
    places, totals = empty_names()
    for package, total in sorted(totals.items()):
        n = len(places[package])
        show(f"local names of {package}: {total}, of which say nothing: {n} ({n / total:.1%})", places[package])
    return 0


if __name__ == "__main__":
    sys.exit(main())
