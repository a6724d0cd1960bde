"""`evalkit plugin new | check | register | list | show`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from evalkit.cli.arguments import (
    Commands,
    add_command,
    add_output,
    add_quiet,
    add_registry,
    moments_as_text,
    opened,
    seconds,
)
from evalkit.cli.messages import tell
from evalkit.cli.output import check_output, put, put_document, put_text
from evalkit.core.choices import PLUGIN_TYPES
from evalkit.errors import ConfigError, RegistryError

if TYPE_CHECKING:
    from evalkit.runs import Registry
    from evalkit.runs.registry import Plugin, PluginReport

__all__ = ["add"]

_FAULT = 2


def add(commands: Commands) -> None:
    """Their parsers."""
    whole = add_command(commands, "plugin", _none, "judge plugins: tasks, metrics, profiles and templates as code")
    parts = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)

    end = "  evalkit plugin new support-tone\n  evalkit plugin new support-tone --folder plugins/tone"
    parser = add_command(parts, "new", _new, "write a plugin project that works as it is, to be edited", end)
    parser.add_argument("name", metavar="NAME", help="its name, as in support-tone")
    parser.add_argument("--folder", metavar="DIR", help="the project's folder, new or empty (default: NAME)")
    add_quiet(parser)

    end = "  evalkit plugin check support-tone@0.1.0\n  evalkit plugin check ./support-tone --json"
    text = "import a plugin in a process of its own and list its tasks, profiles, templates and needs; exit code 2 if "
    parser = add_command(parts, "check", _check, f"{text}anything is wrong", end)
    parser.add_argument("plugin", metavar="NAME[@VERSION]|PATH", help="a registered plugin, or where one is")
    parser.add_argument("--timeout", metavar="S", type=seconds, default=120.0, help="seconds allowed (default 120)")
    _with_registry(parser)

    end = (
        "  evalkit plugin register support-tone 0.1.0 ./support-tone --type bundle\n"
        "  evalkit plugin register support-tone 0.1.0 git+https://example.org/support-tone.git@v0.1.0"
    )
    parser = add_command(parts, "register", _register, "let packs name a plugin; a hash of its files is kept", end)
    parser.add_argument("name", metavar="NAME", help="its name")
    parser.add_argument("version", metavar="VERSION", help="its version; other content needs another one")
    parser.add_argument("uri", metavar="URI", help="dotted package path, file, folder, wheel, or URL that pip takes")
    parser.add_argument("--type", choices=PLUGIN_TYPES, default="task", help="what it brings (default task)")
    _with_registry(parser)

    parser = add_command(parts, "list", _list, "all registered plugins")
    add_registry(parser)
    add_output(parser, rows=50)

    parser = add_command(parts, "show", _show, "one registered plugin, and whether its files are what was registered")
    parser.add_argument("plugin", metavar="NAME[@VERSION]", help="without a version the one registered last")
    _with_registry(parser)


def _with_registry(parser: argparse.ArgumentParser) -> None:
    add_registry(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_quiet(parser)


def _none(_: argparse.Namespace) -> None:
    """Never called: a command below it is required."""


def _new(args: argparse.Namespace) -> None:
    from evalkit.runs.plugin_template import new_plugin

    path = new_plugin(args.name, args.folder)
    put_text(str(path))
    if not args.quiet:
        tell(f"edit it, then check it: evalkit plugin check {args.folder or args.name}")


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
        return _FAULT
    if not args.quiet:
        tell(f"nothing to fix in {report.layout.root}")
    return None


def _report(args: argparse.Namespace, registry: Registry) -> PluginReport:
    """Of the plugin registered under the name; else of what is found there."""
    from evalkit.runs.registry.plugin_report import inspect_plugin
    from evalkit.runs.registry.plugin_sources import locate

    name, _, version = args.plugin.partition("@")
    if "/" not in args.plugin and name in set(registry.plugins()["name"]):
        report = registry.inspect_plugin(name, version or None, timeout_s=args.timeout)
        label = registry.plugin(name, version or None).label
        said = f"{report.name or name}@{report.version or label.partition('@')[2]}"
        if said != label:
            tell(f"warning: it is registered as {label} and says that it is {said}")
        return report
    try:
        place = locate(args.plugin, registry.folder)
    except ConfigError as problem:
        raise ConfigError(f"{problem}; and no plugin is registered under that name") from None
    return inspect_plugin(place.path, timeout_s=args.timeout)


def _put_report(report: PluginReport) -> None:
    import pandas as pd

    from evalkit.evaluation import show

    put_text(f"{report.name or report.layout.module} {report.version or '(no version)'}: {report.layout.root}")
    tasks = [
        {
            "task": task.name,
            "scoring modes": ", ".join(task.scoring_modes),
            "item fields": "not known" if task.fields is None else ", ".join(task.fields),
            "metrics": ", ".join(task.metrics),
        }
        for task in report.tasks
    ]
    parts = [{"kind": part.kind, "name": part.name, "usable": _yes(part.problem is None)} for part in report.parts]
    needs = [
        {"needs": need.requirement, "installed": need.installed or "none", "met": _yes(need.met)}
        for need in report.needs
    ]
    for rows in (tasks, parts, needs):
        if rows:
            put_text(f"\n{show(pd.DataFrame(rows), rows=200)}")


def _yes(true: bool) -> str:
    return "yes" if true else "NO"


def _register(args: argparse.Namespace) -> None:
    with opened(args) as registry:
        plugin = registry.register_plugin(args.name, args.version, args.uri, args.type)
    if args.json:
        put_document(_plain(plugin))
    elif not args.quiet:
        tell(f"registered {plugin.label} ({plugin.storage_uri}, hash {plugin.content_hash[:12]})")
        tell(f"see what it brings: evalkit plugin check {plugin.label}")


def _list(args: argparse.Namespace) -> None:
    check_output(args.out)
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
    values = _plain(plugin) | {"path": path, "state": state}
    if args.json:
        put_document(values)
        return
    for name, value in values.items():
        put_text(f"{name}: {', '.join(value) or 'none' if isinstance(value, (list, tuple)) else value}")


def _plain(plugin: Plugin) -> dict[str, Any]:
    return plugin.model_dump() | {"created_at": plugin.created_at.isoformat(timespec="seconds")}
