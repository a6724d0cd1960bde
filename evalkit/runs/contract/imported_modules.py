"""The modules of a user that a Python file imports, found without importing anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_LIBRARIES = {"evalkit", "lighteval", "torch", "transformers", "vllm", "sglang", "datasets", "peft", "litellm"}
"""Not searched for, even where they are run from their sources, which would take minutes."""
_PACKAGES = {"site-packages", "dist-packages"}


def imported_modules(file: Path, module: str, places: Sequence[str | Path]) -> dict[str, Path]:
    """Dotted name -> file of what a module imports from folders, anywhere in it and in each other; no installed ones.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "helper.py").write_text("")
    ...     tasks = Path(folder, "tasks.py")
    ...     _ = tasks.write_text("import json, helper")
    ...     print(list(imported_modules(tasks, "tasks", [folder])))
    ['helper']
    """
    folders = [Path(folder) for folder in places if not is_installed(folder)]
    modules, pending = dict[str, Path](), [(module, file)]
    while pending:
        importer, path = pending.pop()
        parts = importer.split(".")
        for target in (parts, *_targets(path, parts if path.name == "__init__.py" else parts[:-1])):
            for end in range(1, len(target) + 1) if target[0] not in _LIBRARIES else ():
                name = ".".join(target[:end])
                if name not in (module, *modules) and (source := _file_of(target[:end], folders)) is not None:
                    modules[name] = source
                    pending.append((name, source))
    return modules


def is_installed(place: str | Path) -> bool:
    """Whether a path is in a folder of installed packages."""
    return bool(_PACKAGES & {*Path(place).parts})


def _targets(file: Path, package: list[str]) -> Iterator[list[str]]:
    """The names that a file's import statements may stand for, in parts; `package` is where relative ones begin."""
    with suppress(OSError, ValueError, SyntaxError):  # whoever imports the file hears of it
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                yield from (alias.name.split(".") for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                base = [*base, *(node.module.split(".") if node.module else [])]
                yield from ([*base, alias.name] for alias in node.names)


def _file_of(parts: list[str], folders: Sequence[Path]) -> Path | None:
    bases = [folder.joinpath(*parts) for folder in folders]
    files = [file for base in bases for file in (base / "__init__.py", base.with_suffix(".py"))]
    return next((file for file in files if file.is_file()), None)
