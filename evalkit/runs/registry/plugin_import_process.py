"""A separate process that imports a plugin, or LightEval's task modules, and writes their tasks as JSON.

It is started by its path and loads nothing of the registry.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_SHARED = {"reference_answer": "reference"}
"""Field of a LightEval Doc -> evalkit's name of it."""
_ROWS = 1000
"""Number of lines of a task's data that are read for the fields of its items."""


def main(what: str, place: str, out: str) -> None:
    """Write the tasks, or the error, to the file `out`; then exit, even if other threads still run."""
    try:
        found = _plugin(place) if what == "plugin" else _lighteval()
    except BaseException as problem:  # noqa: BLE001  # also sys.exit: every exception of the plugin is reported
        found = {"error": _said(problem, place)}
    Path(out).write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _said(problem: BaseException, place: str) -> str:
    text = " ".join(str(problem).split())
    if isinstance(problem, SystemExit):
        text = f"it calls sys.exit({problem.code!r}) when it is imported"
    elif type(problem).__module__ != "evalkit.errors":
        text = f"{type(problem).__name__}: {text}" if text else type(problem).__name__
    folder = Path(place) if Path(place).is_dir() else Path(place).parent
    lines = [
        f"{Path(frame.filename).name}, line {frame.lineno}"
        for frame in traceback.extract_tb(problem.__traceback__)
        if place and Path(frame.filename).is_relative_to(folder)
    ]
    return f"{text[:400]} ({lines[-1]})" if lines else text[:400]


def _plugin(place: str) -> dict[str, Any]:
    from evalkit.runs.contract.plugin_layout import PluginLayout

    module = PluginLayout.at(place).load()
    table = getattr(module, "TASKS_TABLE", None)
    if table is not None and not isinstance(table, (list, tuple)):
        raise TypeError(f"TASKS_TABLE must be a list of LightevalTaskConfig, got a {type(table).__name__}")
    for entry in table or ():
        if not isinstance(getattr(entry, "name", None), str):
            raise TypeError(f"TASKS_TABLE must contain only LightevalTaskConfig, got a {type(entry).__name__}")
    declared = getattr(module, "EVALKIT_PLUGIN", {})
    try:
        declared = json.loads(json.dumps(declared))
    except (TypeError, ValueError) as problem:
        raise TypeError(f"EVALKIT_PLUGIN must contain only strings, numbers, lists and mappings: {problem}") from None
    return {
        "declared": declared,
        "has_table": table is not None,
        "tasks": [_task(entry) | _fields(entry) for entry in table or ()],
    }


def _task(config: Any) -> dict[str, Any]:
    return {
        "name": str(config.name),
        "hf_repo": str(getattr(config, "hf_repo", "")),
        "hf_subset": str(getattr(config, "hf_subset", "")),
        "task_version": str(getattr(config, "version", "")),
        "metrics": [name for metric in getattr(config, "metrics", ()) or () for name in _names(metric)],
        "modes": _modes(config),
        "rubrics": _rubrics(config),
    }


def _modes(config: Any) -> list[str] | None:
    """The modes that all judge metrics of a task support; None without judge metrics."""
    modes_of = [getattr(one, "modes", getattr(one, "scoring_modes", None)) for one in _declared(config)]
    served = [modes for modes in modes_of if isinstance(modes, tuple)]
    return [mode for mode in served[0] if all(mode in modes for modes in served)] if served else None


def _rubrics(config: Any) -> list[str]:
    """The ids of the rubrics of a task's judge metrics."""
    rubrics: list[Any] = [getattr(one, "rubric", None) for one in _declared(config)]
    return list(dict.fromkeys(str(rubric.id) for rubric in rubrics if hasattr(rubric, "id")))


def _declared(config: Any) -> list[Any]:
    """The settings of a task's metrics: what evalkit's metrics declare, or the function of other metrics."""
    functions = [getattr(metric, "sample_level_fn", None) for metric in getattr(config, "metrics", ()) or ()]
    return [getattr(function, "declared", function) for function in functions]


def _names(metric: Any) -> list[str]:
    names = getattr(metric, "metric_name", metric)
    return [str(name) for name in names] if isinstance(names, (list, tuple)) else [str(names)]


def _fields(config: Any) -> dict[str, Any]:
    """The item fields that a judge gets, from the first rows, if the task's data are in a folder."""
    folder = Path(str(getattr(config, "hf_repo", "")))
    files = [folder / f"{split}.jsonl" for split in getattr(config, "evaluation_splits", ())]
    file = next((one for one in files if one.is_file()), None) if folder.is_dir() else None
    if file is None:
        return {"fields": None}
    number, fields = 0, ["question", "answer"]
    try:
        for number, doc in _docs(config, file):  # noqa: B007  # the message below needs the last number
            specific = getattr(doc, "specific", None) or {}
            fields += [_SHARED.get(str(name), str(name)) for name, value in specific.items() if value is not None]
    except Exception as problem:  # noqa: BLE001  # of the plugin's function; reported
        error = _said(problem, str(folder))
        return {
            "fields": None,
            "problem": f"its prompt function fails on a row after line {number} of {file.name}: {error}",
        }
    if not number:
        return {"fields": None, "problem": f"{file.name} contains no rows for it"}
    return {"fields": fields}


def _docs(config: Any, file: Path) -> Iterator[tuple[int, Any]]:
    """Line number and document of the first rows, without rows that the task filters out."""
    is_included = getattr(config, "hf_filter", None)
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(islice(lines, _ROWS), 1):
            row = json.loads(line) if line.strip() else None
            if row is None or (is_included is not None and not is_included(row)):
                continue
            made = config.prompt_function(row, config.name)
            for doc in made if isinstance(made, list) else [made]:
                if doc is not None:
                    yield number, doc


def _lighteval() -> dict[str, Any]:
    """LightEval's own tasks, module by module, so that one failing import does not affect the others."""
    from importlib.metadata import version
    from unittest import mock

    import_module = importlib.import_module
    folder = Path(import_module("lighteval.tasks").__path__[0], "tasks")
    names = [f"lighteval.tasks.tasks.{one.stem}" for one in sorted(folder.glob("*.py")) if one.stem != "__init__"]
    names += [f"lighteval.tasks.tasks.{one.parent.name}.main" for one in sorted(folder.glob("*/main.py"))]
    tasks: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    # one module downloads a file when it is imported, and accepts any answer
    with mock.patch("requests.get", return_value=SimpleNamespace(status_code=404)):
        for name in names:
            try:
                module = import_module(name)
            except Exception as problem:  # noqa: BLE001  # other people's code; reported
                failed[name] = _said(problem, "")
            else:
                tasks |= {entry["name"]: entry for entry in map(_task, getattr(module, "TASKS_TABLE", ()))}
    return {"version": version("lighteval"), "tasks": list(tasks.values()), "failed": failed}


if __name__ == "__main__":
    if importlib.util.find_spec("evalkit") is None:  # the parent may have found it in its working directory
        sys.path.append(str(Path(__file__).resolve().parents[3]))
    main(*sys.argv[1:])
