"""Which files a tier of tests runs, one path per line: `python tests/support/selection.py quick|test|all|rest [PKG]`.

Files are selected by their path, so that nothing is imported that does not run:

- quick: `tests/<package>/**/test_*.py` without those named `…_long.py`;
- test: these, and the journeys (`tests/doors/journeys/`, one way through each door);
- all: every file; rest: what `all` has beyond `test`.

With PKG (`stats`, `rubrics/parsing`), only the tests of this folder, of the packages above its package (the order is
that of import-linter in pyproject.toml) and the journeys.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from places import ROOT, TESTS

# the metric POLLUX's authors test at this path
_LONG_ELSEWHERE = {TESTS / "unit" / "metrics" / "test_pollux_judge.py"}
_JOURNEYS = TESTS / "doors" / "journeys"


def layers() -> list[list[str]]:
    """The packages of evalkit from the top: those of one layer do not import each other."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(one for one in project["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def _folders(package: str | None) -> list[Path]:
    """The folders of tests that a change in this folder of evalkit concerns."""
    order = layers()
    if package is None:
        return [*(TESTS / name for layer in order for name in layer), TESTS / "unit"]
    name = package.replace(".", "/").strip("/")
    top = name.split("/")[0]
    level = next((at for at, layer in enumerate(order) if top in layer), None)
    if level is None or not (TESTS / name).is_dir():
        known = ", ".join(name for layer in order for name in layer)
        sys.exit(f"PKG={package}: no folder tests/{name}; expected a package ({known}) or a folder in one")
    above = [TESTS / name for layer in order[:level] for name in layer]
    return [TESTS / name, *above, *([TESTS / "unit"] if level else [])]


def selected(tier: str, package: str | None = None) -> list[Path]:
    """The files of a tier."""
    files = [path for folder in _folders(package) for path in sorted(folder.rglob("test_*.py"))]
    quick = [path for path in files if not path.stem.endswith("_long") and path not in _LONG_ELSEWHERE]
    journeys = sorted(_JOURNEYS.glob("test_*.py"))
    outside = [path for name in ("doors", "faults") for path in sorted((TESTS / name).rglob("test_*.py"))]
    everything = [*outside, *files]
    tiers = {"quick": quick, "test": [*journeys, *quick], "all": everything}
    tiers["rest"] = [path for path in everything if path not in set(tiers["test"])]
    return tiers[tier]


if __name__ == "__main__":
    for path in selected(sys.argv[1], *(name for name in sys.argv[2:] if name)):
        print(path.relative_to(ROOT))
