"""Reports on plugins and on LightEval's own tasks, made by importing them in a separate process."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from evalkit._version import __version__
from evalkit.core.lists_of_choices import SCORING_MODES, ScoringMode
from evalkit.core.validation_errors import explain
from evalkit.errors import EvalkitError, MissingExtraError, RegistryError, advise_extra, listed
from evalkit.rubrics import load_profile, load_rubric
from evalkit.rubrics.prompts import Template
from evalkit.runs.child_process import run_command
from evalkit.runs.contract import BINDINGS_VARIABLE, CONFIG_VARIABLE, MODE_VARIABLE, RECEIPT_VARIABLE
from evalkit.runs.contract.plugin_layout import PluginLayout
from evalkit.runs.registry.plugin_sources import requirements_of

_DISTRIBUTION = "evalkit-jury"
_LIGHTEVAL_WAIT_S = 600.0
_IMPORT = Path(__file__).with_name("plugin_import_process.py")


@dataclass(frozen=True, slots=True)
class PluginTask:
    """A task of a plugin.

    Attributes
    ----------
    name
        Its name in packs.
    scoring_modes
        The modes that it supports.
    fields
        Item fields that its judge gets, from the first thousand rows; None if its data are not in a folder.
    metrics
        Names of its metrics.
    dataset
        Folder or name of its data, and their subset.
    rubrics
        Ids of the rubrics of its judge metrics.
    """

    name: str
    scoring_modes: tuple[str, ...]
    fields: tuple[str, ...] | None
    metrics: tuple[str, ...]
    dataset: str
    rubrics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """A profile, template or rubric of a plugin; `problem` is why it cannot be used, or None."""

    kind: Literal["profile", "template", "rubric"]
    name: str
    path: Path
    problem: str | None


@dataclass(frozen=True, slots=True)
class Need:
    """A requirement of a plugin's package; `installed` is the version on this machine."""

    requirement: str
    installed: str | None
    met: bool


@dataclass(frozen=True, slots=True)
class PluginReport:
    """The result of `inspect_plugin`.

    Attributes
    ----------
    layout
        The plugin's files.
    name, version
        From its ``EVALKIT_PLUGIN``; None if not set there.
    tasks, parts, needs
        Tasks; profiles, templates and rubrics; requirements that apply to this machine.
    problems
        Everything that would make a run fail, as messages.
    """

    layout: PluginLayout
    name: str | None
    version: str | None
    tasks: tuple[PluginTask, ...]
    parts: tuple[Part, ...]
    needs: tuple[Need, ...]
    problems: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        values = {name: getattr(self, name) for name in ("name", "version", "problems")}
        values |= {"path": self.layout.root, "module": self.layout.module}
        return values | {name: [asdict(one) for one in getattr(self, name)] for name in ("tasks", "parts", "needs")}


class _Declared(BaseModel):
    """The constant ``EVALKIT_PLUGIN``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str | None = None
    version: str | None = None
    scoring_modes: dict[str, tuple[ScoringMode, ...]] = {}


def inspect_plugin(path: str | Path, *, timeout_s: float = 120.0, tasks_wanted: bool = True) -> PluginReport:
    """Import a plugin in a separate process, and list its tasks, parts and requirements. No judge is called.

    Parameters
    ----------
    path
        The plugin's file or folder, as `PluginLayout.at` takes it.
    timeout_s
        Seconds after which the process is ended.
    tasks_wanted
        Whether a plugin without tasks is a problem.

    Raises
    ------
    ConfigError
        When there is no plugin at the path.
    RegistryError
        When it cannot be imported, ends the process, or takes too long.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "empty_plugin.py").write_text("TASKS_TABLE = []")
    ...     inspect_plugin(f"{folder}/empty_plugin.py").problems
    ('the plugin has no tasks: TASKS_TABLE is empty',)
    """
    layout = PluginLayout.at(path)
    found = _imported("plugin", str(layout.root), f"plugin {layout.root}", timeout_s)
    problems: list[str] = []
    declared = _declared(found["declared"], problems)
    tasks = tuple(_tasks(found, declared, problems))
    if tasks_wanted and not tasks:
        problems.append(f"the plugin has no tasks: TASKS_TABLE is {'empty' if found['has_table'] else 'missing'}")
    parts = tuple(_parts(layout))
    problems += [f"{part.kind} {part.name}: {part.problem}" for part in parts if part.problem]
    needs = tuple(_needs(requirements_of(layout)))
    for need in needs:
        if not need.met:
            state = f"but {need.installed} is installed" if need.installed else "which is not installed"
            problems.append(f"the plugin needs {need.requirement}, {state}")
    return PluginReport(layout, declared.name, declared.version, tasks, parts, needs, tuple(problems))


def lighteval_tasks() -> tuple[str, list[Mapping[str, Any]], dict[str, str]]:
    """LightEval's version, its own tasks (`name`, `hf_repo`, `hf_subset`, …), and modules that failed to import.

    Raises
    ------
    MissingExtraError
        When LightEval is not installed.
    RegistryError
        When its modules cannot be listed.
    """
    try:
        version("lighteval")
    except PackageNotFoundError:
        raise MissingExtraError(f"LightEval's tasks need LightEval; {advise_extra('lighteval')}") from None
    found = _imported("lighteval", "", "LightEval's task list", _LIGHTEVAL_WAIT_S)
    return found["version"], found["tasks"], found["failed"]


def _imported(what: str, place: str, name: str, timeout_s: float) -> dict[str, Any]:
    """The result of importing a plugin, or LightEval, in a separate process (`what` is ``plugin`` or ``lighteval``).

    Raises
    ------
    RegistryError
        When the import raised, ended the process, or took more than `timeout_s` seconds; the message starts with
        `name`.
    """
    # with the caller's scoring mode, metrics would build their judges here
    scoring = {BINDINGS_VARIABLE, CONFIG_VARIABLE, MODE_VARIABLE, RECEIPT_VARIABLE}
    environment = {key: value for key, value in os.environ.items() if key not in scoring}
    if what == "lighteval":
        environment |= {"HF_HUB_OFFLINE": "1"}
    # with any other value, litellm downloads a list when it is imported
    environment.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    with tempfile.TemporaryDirectory(prefix="evalkit-plugin-") as scratch:
        out = Path(scratch, "found.json")
        command = [sys.executable, "-P", str(_IMPORT), what, place, str(out)]
        code, printed = run_command(command, timeout_s=timeout_s, environment=environment, folder=scratch)
        if code is None:
            raise RegistryError(f"{name} was not imported within {timeout_s:g} s; it hangs or needs more time")
        if not out.is_file():
            last = next((line for line in reversed([" ".join(one.split()) for one in printed]) if line), "")
            output = f"; its last output: {last[:300]}" if last else ""
            raise RegistryError(f"{name} ended the importing process with exit code {code}{output}")
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    if "error" in found:
        raise RegistryError(f"{name} cannot be imported: {found['error']}")
    return found


def _declared(given: Any, problems: list[str]) -> _Declared:
    try:
        return _Declared.model_validate(given)
    except ValidationError as problem:
        problems.append(f"EVALKIT_PLUGIN: {explain(problem, _Declared)}")
        return _Declared()


def _tasks(found: Mapping[str, Any], declared: _Declared, problems: list[str]) -> Iterator[PluginTask]:
    names = [entry["name"] for entry in found["tasks"]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        problems.append(f"TASKS_TABLE contains {listed(twice)} more than once")
    unknown = sorted(set(declared.scoring_modes) - set(names))
    if unknown:
        problems.append(f"EVALKIT_PLUGIN: unknown tasks {listed(unknown)} in scoring_modes; its tasks: {listed(names)}")
    for entry in found["tasks"]:
        if entry.get("problem"):
            problems.append(f"task {entry['name']}: {entry['problem']}")
        fields = entry["fields"]
        yield PluginTask(
            entry["name"],
            declared.scoring_modes.get(entry["name"], tuple(entry["modes"] or SCORING_MODES)),
            None if fields is None else tuple(dict.fromkeys(fields)),
            tuple(entry["metrics"]),
            dataset_of(entry),
            tuple(entry["rubrics"]),
        )


def dataset_of(entry: Mapping[str, Any]) -> str:
    """Name or folder of a task's data, and the subset."""
    return f"{entry['hf_repo']} ({entry['hf_subset']})"


def _parts(layout: PluginLayout) -> Iterator[Part]:
    kinds: tuple[tuple[Any, Mapping[str, Path], Callable[[str, Path], None]], ...] = (
        ("profile", layout.profiles, _check_profile),
        ("template", layout.templates, lambda name, path: Template.of_file(name, path).parse()),
        ("rubric", layout.rubrics, _check_rubric),
    )
    for kind, files, check in kinds:
        for name, path in files.items():
            problem = None
            try:
                check(name, path)
            except (EvalkitError, OSError, UnicodeDecodeError) as error:
                problem = str(error)
            yield Part(kind, name, path, problem)


def _check_profile(_: str, path: Path) -> None:
    profile = load_profile(path)
    if profile.rubric is not None:
        profile.load()


def _check_rubric(name: str, path: Path) -> None:
    rubric = load_rubric(path)
    if f"{rubric.id}@{rubric.version}" != name:
        raise RegistryError(
            f"{path} contains rubric {rubric.id}@{rubric.version}, but a file at this path must contain {name}; "
            "rename the file, or change id and version in it"
        )


def _needs(requirements: list[str]) -> Iterator[Need]:
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    for text in requirements:
        try:
            requirement = Requirement(text)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
                continue
            # evalkit may run from a checkout that is not installed
            is_own = canonicalize_name(requirement.name) == _DISTRIBUTION
            installed = __version__ if is_own else version(requirement.name)
        except (InvalidRequirement, PackageNotFoundError):
            yield Need(text, None, met=False)
        else:
            yield Need(text, installed, met=requirement.specifier.contains(installed, prereleases=True))
