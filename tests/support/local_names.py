"""Refuses local names that say nothing about their value, in new code: a part of `make check`.

``python tests/support/local_names.py [--list]``. It counts the names that functions bind, once per function;
parameters, fields and columns do not count. No package may have more of these words than `MOST` allows; where the
number has fallen, lower it there.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[2] / "evalkit"
EMPTY = {
    *("asked", "at", "both", "drawn", "each", "enough", "found", "given", "had", "held", "here", "how", "kept"),
    *("known", "left", "made", "meant", "mine", "most", "named", "one", "other", "others", "own", "part", "place"),
    *("read", "said", "same", "seen", "shown", "such", "taken", "that", "there", "this", "told", "wanted", "what"),
    "whole",
}
MOST = {
    "cli": 32,
    "core": 32,
    "engine": 8,
    "errors": 4,
    "evaluation": 137,
    "gate": 127,
    "inspect": 12,
    "lighteval": 219,
    "notebook": 127,
    "plots": 48,
    "rubrics": 176,
    "runs": 138,
    "stats": 14,
    "tables": 102,
}


def empty_names() -> tuple[dict[str, list[str]], Counter[str]]:
    """For each package the places of such names, and how many local names it has in all."""
    places: dict[str, list[str]] = defaultdict(list)
    totals: Counter[str] = Counter()
    for path in sorted(HOUSE.rglob("*.py")):
        package = path.relative_to(HOUSE).parts[0]
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            bound = {
                node.id: node.lineno
                for node in ast.walk(function)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
            totals[package] += len(bound)
            places[package] += [
                f"{path.relative_to(HOUSE.parent)}:{line} {name}" for name, line in bound.items() if name in EMPTY
            ]
    return places, totals


def main() -> int:
    """Print the packages that have more than they may; 1 if there is one."""
    exit_code = 0
    places, totals = empty_names()
    for package, total in sorted(totals.items()):
        is_over = len(places[package]) > MOST.get(package, 0)
        if is_over or "--list" in sys.argv:
            print(
                f"{package}: {len(places[package])} of {total} local names say nothing (at most {MOST.get(package, 0)})"
            )
            print("\n".join(f"    {place}" for place in places[package]))
        exit_code |= is_over
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
