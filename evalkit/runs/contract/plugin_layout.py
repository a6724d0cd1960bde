"""The files of a plugin: its module, profiles, templates and rubrics, found by their names alone."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from evalkit.errors import ConfigError, listed

ENTRY_POINTS = "evalkit.plugins"
"""Group of entry points by which installed bundles name their modules."""

_VERSIONED = re.compile(r"v([1-9][0-9]*)\.\w+")


@dataclass(frozen=True, slots=True)
class PluginLayout:
    """A plugin on disk. `PluginLayout.at` finds it without running its code.

    `root` is its path: a file, a package, or a project folder. `module` is the dotted name of the module that holds
    ``TASKS_TABLE``, `file` its file, and `search` the folder from which it can be imported. `profiles` are by name,
    `templates` and `rubrics` by ``name@vN``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     package = Path(folder, "tone_plugin")
    ...     (package / "profiles").mkdir(parents=True)
    ...     _ = (package / "__init__.py").write_text("TASKS_TABLE = []")
    ...     _ = (package / "profiles" / "strict-tone.yaml").write_text("profile: strict-tone")
    ...     layout = PluginLayout.at(package)
    ...     print(layout.module, list(layout.profiles), list(layout.templates))
    tone_plugin ['strict-tone'] []
    """

    root: Path
    module: str
    file: Path
    search: Path
    profiles: Mapping[str, Path]
    templates: Mapping[str, Path]
    rubrics: Mapping[str, Path]

    @classmethod
    def at(cls, path: str | Path) -> PluginLayout:
        """The plugin at a path: a Python file, a package, or a project.

        A project's entry point in the group ``evalkit.plugins`` names the module, at ``src/NAME`` or ``NAME``.

        Raises
        ------
        ConfigError
            When there is no plugin, more than one, or two files for one version of a template or rubric.
        """
        root = Path(path).expanduser().resolve()
        file = _module_file(root)
        search, module = _import_name(file)
        return cls(
            root, module, file, search, {one.stem: one for one in sorted((file.parent / "profiles").glob("*.yaml"))},
            _versioned(file.parent / "templates", (".jinja", ".j2", ".jinja2")),
            _versioned(file.parent / "rubrics", (".yaml",)),
        )  # fmt: skip

    @property
    def folder(self) -> Path:
        """The folder with the module's file, profiles, templates and rubrics."""
        return self.file.parent

    def template(self, name: str) -> tuple[str, Path]:
        """``name@vN`` and file of a template; a name alone means its newest version."""
        if (label := newest(name, self.templates)) is None:
            raise ConfigError(f"plugin {self.root} has no template {name!r}; available: {listed(self.templates)}")
        return label, self.templates[label]

    def parts(self) -> Iterator[Path]:
        """All files of profiles, templates and rubrics."""
        for part in (self.profiles, self.templates, self.rubrics):
            yield from part.values()

    def load(self) -> ModuleType:
        """Import the module. Only this runs the plugin's code; its exceptions are not caught.

        Raises
        ------
        ConfigError
            When another module of this name is already imported.
        """
        import importlib.util

        known = sys.modules.get(self.module)
        if known is not None or self.module.partition(".")[0] in sys.stdlib_module_names:
            if known is not None and _is_file(known, self.file):
                return known
            raise ConfigError(
                f"plugin {self.root}: the name of its module, {self.module!r}, is taken by "
                f"{getattr(known, '__file__', None) or 'Python itself'}; rename the module"
            )
        if str(self.search) not in sys.path:
            sys.path.append(str(self.search))  # last, so that the plugin's folder hides no library
        if "." in self.module:
            module = importlib.import_module(self.module)
            if not _is_file(module, self.file):
                raise ConfigError(
                    f"plugin {self.root}: its module {self.module!r} is imported from another copy, {module.__file__}; "
                    "remove that copy"
                )
            return module
        inside = [str(self.folder)] if self.file.name == "__init__.py" else None
        spec = importlib.util.spec_from_file_location(self.module, self.file, submodule_search_locations=inside)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[self.module] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[self.module]
            raise
        return module


def newest(name: str, labels: Iterable[str]) -> str | None:
    """The label ``name@version`` that a name means, or a name alone: its highest version; None if there is none.

    Examples
    --------
    >>> newest("tone", ["tone@v9", "tone@v10", "other@v11"]), newest("tone@v9", ["tone@v9", "tone@v10"])
    ('tone@v10', 'tone@v9')
    """
    mine = [label for label in labels if name in (label, label.rpartition("@")[0])]
    return max(mine, key=lambda one: [int(part) for part in re.findall(r"\d+", one.rpartition("@")[2])], default=None)


def _is_file(module: ModuleType, file: Path) -> bool:
    path = getattr(module, "__file__", None)
    return path is not None and Path(path).resolve() == file


def _module_file(root: Path) -> Path:
    if not root.exists():
        raise ConfigError(f"no plugin at {root}: no such file or folder")
    if root.is_file():
        if root.suffix != ".py" or not root.stem.isidentifier():
            raise ConfigError(f"{root} is not a plugin: expected a Python module, such as my_plugin.py")
        return root
    if (root / "__init__.py").is_file():
        return root / "__init__.py"
    if (named := _entry_module(root)) is None:
        raise ConfigError(
            f"{root} is not a plugin: expected a package (with __init__.py), or a project whose pyproject.toml has an "
            f"entry point in the group {ENTRY_POINTS!r}"
        )
    if (found := file_of(named.split("."), [root / "src", root])) is None:
        raise ConfigError(f"{root} is not a plugin: expected the module {named!r} of its entry point")
    return found


def _entry_module(root: Path) -> str | None:
    """The module in the entry point of the project in a folder."""
    project = root / "pyproject.toml"
    named = read_project(project).get("entry-points", {}).get(ENTRY_POINTS, {}) if project.is_file() else {}
    if len(named) > 1:
        names = listed(named.values())
        raise ConfigError(f"{root} contains {len(named)} plugins ({names}); register each package folder separately")
    return next(iter(named.values())).partition(":")[0].strip() if named else None


def read_project(path: Path) -> Mapping[str, Any]:
    """The table ``project`` of a pyproject.toml; ConfigError if the file is not valid TOML."""
    import tomllib

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig")).get("project", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{path}: invalid TOML ({problem})") from None
    return content if isinstance(content, Mapping) else {}


def file_of(parts: Sequence[str], folders: Iterable[Path]) -> Path | None:
    """The file of a module or package of this dotted name, in the first of the folders that has it."""
    bases = [folder.joinpath(*parts) for folder in folders]
    files = [file for base in bases for file in (base / "__init__.py", base.with_suffix(".py"))]
    return next((file for file in files if file.is_file()), None)


def _import_name(file: Path) -> tuple[Path, str]:
    """The folder to import from, and the module's dotted name."""
    parts = [] if file.name == "__init__.py" else [file.stem]
    folder = file.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def _versioned(folder: Path, suffixes: tuple[str, ...]) -> dict[str, Path]:
    """``name@vN`` -> file, by name and number."""
    found: dict[tuple[str, int], Path] = {}
    for path in sorted(folder.glob("*/v*")):
        if not (match := _VERSIONED.fullmatch(path.name)) or path.suffix not in suffixes:
            continue
        key = (path.parent.name, int(match[1]))
        if key in found:
            raise ConfigError(f"{path} and {found[key].name} in the same folder are both version v{key[1]}; remove one")
        found[key] = path
    return {f"{name}@v{number}": found[name, number] for name, number in sorted(found)}
