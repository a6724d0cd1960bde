"""Changes one operator or constant of a package at a time, and counts the changes that its tests do not notice.

    .venv-test/bin/python benchmarks/mutants.py evalkit/gate tests/gate --number 250 --seed 1

A drawn mutant changes a comparison, `and`/`or`, `not`, an arithmetic operator, a number, or True/False; nothing in
messages (raise, warn, f-strings) and annotations. Its tests run in a fork of a process that has loaded the libraries,
those of the changed module first; a run that takes longer than the limit counts as noticed. Prints each mutant that
lives.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import importlib.machinery
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMPARED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
COMPARED |= {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}
COMPUTED |= {ast.Mod: ast.Mult, ast.Pow: ast.Mult}
NOT_LOADED = 77
SILENT = (ast.Raise, ast.JoinedStr, ast.Assert)


def places(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that may change, in the order of the source."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, SILENT) or name in ("annotation", "returns"):
                continue
            if isinstance(child, ast.Call) and getattr(child.func, "attr", "") in ("warn", "field_validator"):
                continue
            changes = isinstance(child, ast.BoolOp) or (
                isinstance(child, ast.UnaryOp) and isinstance(child.op, ast.Not)
            )
            changes |= isinstance(child, ast.Compare) and type(child.ops[0]) in COMPARED
            changes |= isinstance(child, ast.BinOp) and type(child.op) in COMPUTED
            changes |= isinstance(child, ast.Constant) and isinstance(child.value, bool | int | float)
            if changes:
                yield child
            yield from places(child)


def change(node: ast.AST) -> None:
    match node:
        case ast.Compare():
            node.ops[0] = COMPARED[type(node.ops[0])]()
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.BinOp():
            node.op = COMPUTED[type(node.op)]()
        case ast.UnaryOp():  # `not x` becomes `not not x`
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant(value=int() | float() as number):
            node.value = number + 1


def mutant(path: Path, index: int) -> tuple[ast.Module, str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    node = list(places(tree))[index]
    before = ast.unparse(copy.deepcopy(node))
    change(node)
    ast.fix_missing_locations(tree)
    return tree, f"{path.relative_to(ROOT)}:{node.lineno}  {before}  ->  {ast.unparse(node)}"  # type: ignore[attr-defined]


def noticed(path: Path, tree: ast.Module, tests: list[str], limit_s: int, *options: str) -> bool:
    """Whether the tests fail with this tree in place of the file, or take more processor time than the limit."""
    child = os.fork()
    if not child:
        loaded: list[str] = []
        load = importlib.machinery.SourceFileLoader.get_code

        def get_code(loader: importlib.machinery.SourceFileLoader, name: str) -> object:
            if Path(loader.path) != path:
                return load(loader, name)
            loaded.append(name)
            return compile(tree, str(path), "exec")

        importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
        null = os.open(os.environ.get("MUTANT_LOG", os.devnull), os.O_WRONLY | os.O_CREAT)
        os.dup2(null, 1)
        os.dup2(null, 2)
        import pytest

        # pytest would load the modules of an editable plugin by itself, without the change, to rewrite their assertions
        always = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:nbval", "--assert=plain"]
        failed = int(pytest.main([*always, *options, *tests])) != 0
        os._exit(1 if failed else 0 if loaded else NOT_LOADED)
    end = time.monotonic() + 8 * limit_s
    while time.monotonic() < end:
        process, status = os.waitpid(child, os.WNOHANG)
        if process:
            if os.waitstatus_to_exitcode(status) == NOT_LOADED:
                print(f"no test loads {path.relative_to(ROOT)}", flush=True)
                return False
            return status != 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("code", help="a file or folder under evalkit/, or several with commas")
    words.add_argument("tests", nargs="+")
    words.add_argument("--number", type=int, default=250)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument(
        "--limit", type=int, default=45, help="seconds of processor time for the quick tests of a mutant"
    )
    words.add_argument("--only", help="FILE:LINE, as printed: those mutants alone")
    given = words.parse_args()
    for library in ("pandas", "scipy.stats", "pyarrow", "jinja2.sandbox"):
        importlib.import_module(library)

    sys.path.insert(0, str(ROOT))
    os.chdir(ROOT)
    named = [ROOT / name for name in given.code.split(",")]
    files = [file for path in named for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    every = [(file, at) for file in files for at in range(len(list(places(ast.parse(file.read_text("utf-8"))))))]
    drawn = random.Random(given.seed).sample(every, min(given.number, len(every)))
    folders = [path.rglob("test_*.py") if path.is_dir() else [path] for path in map(Path, given.tests)]
    tests = sorted({str(test) for folder in folders for test in folder})
    quick = [name for name in tests if not name.endswith("_long.py")]
    clean = ast.parse(files[0].read_text("utf-8"))
    broken = ast.parse("1 / 0")
    assert not noticed(files[0], clean, tests, 900), "the tests fail without a change"
    assert any(noticed(file, broken, quick, 900) for file in files[::-1]), "a change does not reach the tests"
    alive = n_tried = 0
    for file, index in drawn:
        tree, words_of_it = mutant(file, index)
        if given.only and not words_of_it.startswith(given.only):
            continue
        n_tried += 1
        own_first = sorted(quick, key=lambda name: file.stem not in name)
        # the long tests only where the quick ones notice nothing
        quick_notice = noticed(file, tree, own_first, given.limit, "-m", "not long")
        if not quick_notice and not noticed(file, tree, tests, 8 * given.limit):
            alive += 1
            print("lives:", words_of_it, flush=True)
    print(f"{n_tried} of {len(every)} possible mutants tried (seed {given.seed}): {alive} live", flush=True)


if __name__ == "__main__":
    main()
