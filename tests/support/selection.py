"""What a tier of tests runs, as arguments of pytest: `python tests/support/selection.py quick|test|all|rest [PKG]`.

Files are selected by their path, so that nothing is imported that does not run:

- quick: `tests/<package>/**/test_*.py` without those named `…_long.py`;
- test: these, and `JOURNEYS`, one way through each door;
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
JOURNEYS = (
    "doors/browser/lab/test_journey.py", "doors/test_lighteval.py::test_three_ways_in_three_modes[jury-custom]",
    "doors/test_inspect.py::test_figures_are_those_of_evaluate_and_replies_are_shared",
    "doors/test_inspect_conversations.py::test_targets_are_alternatives_and_choices_are_all_right",
    "doors/test_gate.py::test_record_then_replay_offline", "doors/test_gate.py::test_a_server_that_is_down",
    "doors/test_command_line.py::test_exit_codes", "doors/test_pages.py",
    "doors/test_packaging.py::test_import_evalkit_loads_nothing_heavy",
    "faults/test_calls_processes.py::test_a_killed_process_loses_what_was_in_flight_and_pays_nothing_twice",
    "faults/test_calls_processes.py::test_a_fork_in_the_middle_of_a_run_harms_neither_side",
    "faults/test_calls_to_failing_servers.py::test_no_verdict_is_wrong_and_no_answer_is_asked_twice_under_faults",
    "faults/test_cache_processes.py::test_a_killed_writer_keeps_every_acknowledged_reply",
    "engine/cache/test_in_flight_long.py",
    "engine/cache/test_server_store_long.py::test_processes_that_write_the_same_keys_agree",
    "engine/cache/test_server_store_long.py::test_another_process_sees_a_claim_until_it_is_killed",
    "engine/judging/test_submit_and_collect_long.py::test_a_batch_brings_what_live_calls_would",
)  # fmt: skip
"""One way through each door, and the worst that may happen on it: files, or tests in them."""


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


def selected(tier: str, package: str | None = None) -> list[str]:
    """The arguments of pytest for a tier."""
    files = [path for folder in _folders(package) for path in sorted(folder.rglob("test_*.py"))]
    quick = [path for path in files if not path.stem.endswith("_long") and path not in _LONG_ELSEWHERE]
    outside = [path for name in ("doors", "faults") for path in sorted((TESTS / name).rglob("test_*.py"))]
    every = [str(path.relative_to(ROOT)) for path in [*outside, *files]]
    journeys = [f"tests/{name}" for name in JOURNEYS]
    chosen = [*journeys, *(str(path.relative_to(ROOT)) for path in quick)]
    if tier == "rest":
        return [*sorted(set(every) - set(chosen)), *(f"--deselect={name}" for name in journeys if "::" in name)]
    return {"quick": chosen[len(journeys) :], "test": chosen, "all": every}[tier]


if __name__ == "__main__":
    print("\n".join(selected(sys.argv[1], *(name for name in sys.argv[2:] if name))))
