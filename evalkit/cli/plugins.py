"""`evalkit plugin new | check | register | list | show`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from evalkit.cli.arguments import Commands, add_command, add_group, add_output, moments_as_text, opened, seconds
from evalkit.cli.reading_and_printing import in_words, put, put_document, put_either, put_shown
from evalkit.cli.stderr_messages import note, tell
from evalkit.core.lists_of_choices import PLUGIN_TYPES
from evalkit.errors import ConfigError, RegistryError

if TYPE_CHECKING:
    from evalkit.runs import Registry
    from evalkit.runs.registry import PluginReport

_ERROR = 2
_FLAGS = ("registry", "json", "quiet")
_NOT_SHOWN = ["path", "dataset", "rubrics"]


def add(commands: Commands) -> None:
    """Their parsers."""
    parts = add_group(commands, "plugin", "judge plugins: tasks, metrics, profiles and templates as code")

    end = "  evalkit plugin new support-tone\n  evalkit plugin new support-tone --folder plugins/tone"
    parser = add_command(parts, "new", _new, "write a working plugin project, to be edited", end, flags=("quiet",))
    parser.add_argument("name", metavar="NAME", help="its name, as in support-tone")
    parser.add_argument("--folder", metavar="DIR", help="the project's folder, new or empty (default: NAME)")

    end = "  evalkit plugin check support-tone@0.1.0\n  evalkit plugin check ./support-tone --json"
    text = "import a plugin in a separate process and list its tasks, profiles, templates and needs; exit code 2 if "
    parser = add_command(parts, "check", _check, f"{text}anything is wrong", end, flags=_FLAGS)
    parser.add_argument("plugin", metavar="NAME[@VERSION]|PATH", help="a registered plugin, or the path of one")
    parser.add_argument("--timeout", metavar="S", type=seconds, default=120.0, help="seconds allowed (default 120)")

    end = (
        "  evalkit plugin register support-tone 0.1.0 ./support-tone --type bundle\n"
        "  evalkit plugin register support-tone 0.1.0 git+https://example.org/support-tone.git@v0.1.0"
    )
    text = "register a plugin for packs, with a hash of its files"
    parser = add_command(parts, "register", _register, text, end, flags=_FLAGS)
    parser.add_argument("name", metavar="NAME", help="its name")
    parser.add_argument("version", metavar="VERSION", help="its version; changed content needs a new one")
    parser.add_argument("uri", metavar="URI", help="dotted package path, file, folder, wheel, or URL that pip takes")
    parser.add_argument("--type", choices=PLUGIN_TYPES, default="task", help="what the plugin contains (default: task)")

    add_output(add_command(parts, "list", _list, "all registered plugins", flags=("registry",)), rows=50)

    text = "one registered plugin, and whether its files changed since"
    parser = add_command(parts, "show", _show, text, flags=_FLAGS)
    parser.add_argument("plugin", metavar="NAME[@VERSION]", help="default version: the one registered last")


def _new(args: argparse.Namespace) -> None:
    from evalkit.runs.plugin_template import new_plugin

    path = new_plugin(args.name, args.folder)
    print(path)
    note(args, f"edit it, then check it: evalkit plugin check {args.folder or args.name}")


def _check(args: argparse.Namespace) -> int | None:
    with opened(args) as registry:
        report = _report(args, registry)
    if args.json:
        put_document(report.to_dict())
    else:
        _put_report(report)
    for problem in report.problems:
        tell(f"error: {problem}")
    if report.problems:
        return _ERROR
    note(args, f"nothing to fix in {report.layout.root}")
    return None


def _report(args: argparse.Namespace, registry: Registry) -> PluginReport:
    """The report on the plugin registered under the name, else on the one at that path."""
    from evalkit.runs.registry.plugin_report import inspect_plugin
    from evalkit.runs.registry.plugin_sources import locate

    name, _, version = args.plugin.partition("@")
    if "/" not in args.plugin and name in set(registry.plugins()["name"]):
        report = registry.inspect_plugin(name, version or None, timeout_s=args.timeout)
        label = registry.plugin(name, version or None).label
        own = f"{report.name or name}@{report.version or label.partition('@')[2]}"
        if own != label:
            tell(f"warning: the plugin is registered as {label}, but its code names it {own}")
        return report
    try:
        place = locate(args.plugin, registry.folder)
    except ConfigError as problem:
        raise ConfigError(f"{problem}, and no plugin is registered under that name") from None
    return inspect_plugin(place.path, timeout_s=args.timeout)


def _put_report(report: PluginReport) -> None:
    import pandas as pd

    print(f"{report.name or report.layout.module} {report.version or '(no version)'}: {report.layout.root}")
    values = report.to_dict()
    for task in values["tasks"]:
        task["fields"] = task["fields"] or "not known"
    for part in ("tasks", "parts", "needs"):
        rows = [{name: in_words(value) for name, value in row.items()} for row in values[part]]
        if rows:
            print(f"\n{part}")
            put_shown(pd.DataFrame(rows).drop(columns=_NOT_SHOWN, errors="ignore"), rows=200, fit=False)


def _register(args: argparse.Namespace) -> None:
    with opened(args) as registry:
        plugin = registry.register_plugin(args.name, args.version, args.uri, args.type)
    if args.json:
        put_document(plugin.model_dump())
    else:
        note(args, f"registered {plugin.label} ({plugin.storage_uri}, hash {plugin.content_hash[:12]})")
        note(args, f"list its tasks and parts: evalkit plugin check {plugin.label}")


def _list(args: argparse.Namespace) -> None:
    with opened(args) as registry:
        plugins = moments_as_text(registry.plugins())
    put(args, plugins, columns=("name", "version", "plugin_type", "storage_uri", "created_at"))


def _show(args: argparse.Namespace) -> None:
    with opened(args) as registry:
        plugin = registry.plugin(args.plugin)
        try:
            state, path = "as registered", str(registry.check_plugin(plugin.name, plugin.version).root)
        except RegistryError as problem:
            state, path = str(problem), None
    values = plugin.model_dump() | {"path": path, "state": state}
    put_either(args, values, "\n".join(f"{name}: {in_words(value)}" for name, value in values.items()))
