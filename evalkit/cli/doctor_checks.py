"""What `evalkit doctor` looks at; everything here reads only, and shows no value of a key."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

from evalkit._version import __version__
from evalkit.errors import CacheError

__all__ = ["EXTRAS", "KEYS", "check_up"]

_PACKAGES = ("pandas", "numpy", "scipy", "joblib", "pydantic", "aiohttp")
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HF_TOKEN")
"""Variables that judges read; only whether they are set is told."""
_PLACES = ("EVALKIT_CACHE", "EVALKIT_RUBRICS")
EXTRAS = {
    "notebook": ("anywidget", "ipywidgets", "jupyterlab", "matplotlib", "pyarrow"),
    "parquet": ("pyarrow",),
    "datasets": ("datasets",),
    "gate": ("jsonschema",),
    "lighteval": ("lighteval",),
    "litellm": ("litellm",),
    "inference-providers": ("huggingface_hub",),
    "transformers": ("torch", "transformers"),
    "vllm": ("vllm",),
    "registry": ("alembic", "sqlalchemy"),
    "postgres": ("psycopg",),
    "dask": ("distributed",),
    "ray": ("ray",),
}
"""Extra -> modules that it brings."""


def check_up(cache: str | None = None) -> dict[str, Any]:
    """Versions, cache, rubrics, settings, extras, and a list of problems in words."""
    problems: list[str] = []
    return {
        "versions": _versions(),
        "cache": _cache(cache, problems),
        "rubrics": _rubrics(problems),
        "settings": {name: os.environ.get(name) or "not set" for name in _PLACES}
        | {name: "set" if os.environ.get(name) else "not set" for name in KEYS},
        "extras": {name: _extra(modules) for name, modules in EXTRAS.items()},
        "problems": problems,
    }


def _versions() -> dict[str, str]:
    found = {"evalkit": __version__, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def _cache(named: str | None, problems: list[str]) -> dict[str, Any]:
    from evalkit.engine.cache import ReplyStore, default_folder

    folder = (Path(named).expanduser() if named else default_folder()).absolute()
    found: dict[str, Any] = {"folder": str(folder), "writable": None, "replies": None, "size": None, "integrity": None}
    try:
        store = ReplyStore.open(folder)
        found["writable"] = not store.read_only
        stats = store.stats()
    except CacheError as problem:
        problems.append(str(problem))
        return found
    if store.read_only:
        problems.append(f"cache folder {folder} cannot be written: live judges cannot be asked")
    found |= {"replies": stats["n_replies"], "size": f"{stats['n_bytes'] / 1e6:.1f} MB"}
    if store.path.exists():
        found["integrity"] = _integrity(store.path)
        if found["integrity"] != "ok":
            problems.append(
                f"{store.path} is damaged ({found['integrity']}): export what can be read, then start afresh"
            )
    return found


def _integrity(path: Path) -> str:
    mode = "mode=ro" if os.access(path.parent, os.W_OK) else "immutable=1"
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(os.fsencode(path))}?{mode}", uri=True)) as connection:
            return "; ".join(str(line) for (line,) in connection.execute("PRAGMA quick_check(3)"))
    except sqlite3.Error as problem:
        return str(problem)


def _rubrics(problems: list[str]) -> dict[str, Any]:
    from evalkit.rubrics import list_rubrics, list_templates, rubric_folders

    there = list_rubrics()
    broken = there[there["description"].astype(str).str.startswith("broken:")]
    problems.extend(str(text).removeprefix("broken: ") for text in broken["description"])
    return {
        "folders": [str(folder) for folder in rubric_folders()],
        "rubrics": len(there),
        "broken": broken["path"].tolist(),
        "templates": len(list_templates()),
    }


def _extra(modules: tuple[str, ...]) -> str:
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"missing ({', '.join(missing)})" if missing else "present"
