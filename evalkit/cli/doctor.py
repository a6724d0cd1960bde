"""`evalkit doctor`: checks that only read, and show no key's value."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import evalkit as ek
from evalkit._version import __version__
from evalkit.cli.arguments import Commands, add_command, add_flags, add_value, judge_settings
from evalkit.cli.reading_and_printing import in_words, put_document
from evalkit.core.judge_settings import CALL_FLAGS, FLAGS, JUDGE_SETTINGS
from evalkit.core.providers import PROVIDERS
from evalkit.errors import CacheError, ConfigError, RubricError

if TYPE_CHECKING:
    from evalkit.engine.calls.server_check import ServerReport

_PACKAGES = ("pandas", "numpy", "scipy", "joblib", "pydantic", "aiohttp")
_KEYS = tuple(name for known in PROVIDERS.values() for name in (known.key_variable, known.url_variable) if name)
"""Variables that judges read; only whether they are set is shown."""
_PLACES = ("EVALKIT_CACHE", "EVALKIT_RUBRICS")
EXTRAS = {
    "notebook": ("anywidget", "ipywidgets", "jupyterlab", "matplotlib", "pyarrow"), "parquet": ("pyarrow",),
    "label": ("anywidget", "ipywidgets", "marimo", "zmq"),
    "datasets": ("datasets",), "gate": ("jsonschema",), "lighteval": ("lighteval",), "inspect": ("inspect_ai",),
    **{name: provider.packages for name, provider in PROVIDERS.items() if provider.packages},
    "registry": ("sqlalchemy",), "postgres": ("psycopg",), "dask": ("distributed",), "ray": ("ray",),
}  # fmt: skip
"""Extra -> modules that it installs."""


def add(commands: Commands) -> None:
    """Its parser."""
    text = "check versions, cache, rubrics, keys and extras of this machine; exit code 1 if there are problems"
    parser = add_command(commands, "doctor", _doctor, text)
    add_flags(parser, "cache", "json")
    server = parser.add_argument_group("also check a judge's server, with at most two tiny calls")
    add_value(server, "--judge", "JUDGE", "provider:model, as in openai:gpt-4o-mini")
    add_flags(server, *(flag for flag in FLAGS if flag not in ("judge", "judge-samples", *CALL_FLAGS)))


def _doctor(args: argparse.Namespace) -> int:
    checks = _check_machine(args.cache)
    server = _server(args) if args.judge else None
    problems = checks.pop("problems") + ([] if server is None else list(server.problems))
    if args.json:
        found = {} if server is None else {"server": dataclasses.asdict(server)}
        put_document(checks | found | {"problems": problems})
        return bool(problems)
    for title, values in checks.items():
        print(title)
        for name, value in values.items():
            print(f"  {name:<22} {in_words(value)}")
    if server is not None:
        print("server\n  " + str(server).replace("\n", "\n  "))
    print("\n  ".join(["problems", *problems]) if problems else "no problems found")
    return bool(problems)


def _server(args: argparse.Namespace) -> ServerReport:
    from evalkit.engine.calls.server_check import check_server
    from evalkit.engine.judging.specification import named_judges

    settings, places = judge_settings(args)
    if not (judges := named_judges(places).changed(settings)):
        raise ConfigError(f"--judge {args.judge} has no model; pass --judge PROVIDER:MODEL, or --judge-model MODEL")
    return check_server(judges[0])


def _check_machine(cache: str | None = None) -> dict[str, Any]:
    """Versions, cache, rubrics, settings, extras, and a list of problems in words."""
    import sqlite3

    from evalkit.core.settings import shown_cache

    problems: list[str] = []
    places = {name: shown_cache(os.environ.get(name)) or "not set" for name in _PLACES}
    variables = [row.variable for row in JUDGE_SETTINGS.values() if os.environ.get(row.variable)]
    return {
        "versions": {"evalkit": __version__, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
        | {name: _installed_version(name) or "missing" for name in _PACKAGES},
        "cache": _cache(cache, problems),
        "rubrics": _rubrics(problems),
        "settings": places | {name: "set" if os.environ.get(name) else "not set" for name in (*_KEYS, *variables)},
        "extras": {name: _extra(modules) for name, modules in EXTRAS.items()},
        "problems": problems,
    }


def _installed_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cache(named: str | None, problems: list[str]) -> dict[str, Any]:
    from evalkit.core.settings import default_cache, folder_of, is_address, shown_cache
    from evalkit.engine.cache import ReplyStore

    cache = named or default_cache()
    folder = folder_of(cache)
    where = shown_cache(cache) if is_address(cache) else str(folder)
    facts: dict[str, Any] = {"folder": where, "writable": None, "replies": None, "size": None, "integrity": None}
    try:
        store = ReplyStore.open(cache if is_address(cache) else folder)
        facts["writable"] = not store.read_only
        stats = store.stats()
    except CacheError as problem:
        problems.append(str(problem))
        return facts
    if store.read_only:
        problems.append(f"cache folder {folder} cannot be written, so live judges cannot be called")
    facts |= {"replies": stats["n_replies"], "size": f"{stats['n_bytes'] / 1e6:.1f} MB"}
    if not is_address(store.cache) and store.path.exists():
        facts["integrity"] = _integrity(store.path)
        if facts["integrity"] != "ok":
            problems.append(
                f"{store.path} is damaged ({facts['integrity']}): export the replies that can be read, then start a "
                "new cache"
            )
    return facts


def _integrity(path: Path) -> str:
    import sqlite3

    mode = "mode=ro" if os.access(path.parent, os.W_OK) else "immutable=1"
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(os.fsencode(path))}?{mode}", uri=True)) as connection:
            return "; ".join(str(line) for (line,) in connection.execute("PRAGMA quick_check(3)"))
    except sqlite3.Error as problem:
        return str(problem)


def _rubrics(problems: list[str]) -> dict[str, Any]:
    from evalkit.rubrics.files import rubric_folders
    from evalkit.rubrics.rubrics_by_name import rubric_files

    files = list(rubric_files())
    broken = {str(path): rubric for _, _, path, rubric in files if isinstance(rubric, RubricError)}
    problems.extend(map(str, broken.values()))
    return {
        "folders": [str(folder) for folder in rubric_folders()],
        "rubrics": len(files),
        "broken": list(broken),
        "templates": len(ek.rubrics.list_templates()),
    }


def _extra(modules: tuple[str, ...]) -> str:
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"missing ({', '.join(missing)})" if missing else "present"
