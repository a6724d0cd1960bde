"""`evalkit plugin new | register | list | show`."""

from __future__ import annotations

import argparse

from evalkit.cli.arguments import Commands, add_command, add_group, add_value, opened
from evalkit.cli.reading_and_printing import in_words, moments_as_text, note, put, put_document, put_either
from evalkit.core.lists_of_choices import PLUGIN_TYPES
from evalkit.errors import RegistryError

_FLAGS = ("registry", "json", "quiet")


def add(commands: Commands) -> None:
    """Their parsers."""
    parts = add_group(commands, "plugin", "judge plugins: tasks, metrics, profiles and templates as code")

    end = "  evalkit plugin new support-tone\n  evalkit plugin new support-tone --folder plugins/tone"
    parser = add_command(parts, "new", _new, "write a working plugin project, to be edited", end, flags=("quiet",))
    add_value(parser, "name", "NAME", "its name, as in support-tone")
    add_value(parser, "--folder", "DIR", "the project's folder, new or empty (default: NAME)")

    end = (
        "  evalkit plugin register support-tone 0.1.0 ./support-tone --type bundle\n"
        "  pip install git+https://example.org/support-tone.git@v0.1.0\n"
        "  evalkit plugin register support-tone 0.1.0 support_tone"
    )
    text = "register a plugin for packs, with a hash of its files"
    parser = add_command(parts, "register", _register, text, end, flags=_FLAGS)
    add_value(parser, "name", "NAME", "its name")
    add_value(parser, "version", "VERSION", "its version; changed content needs a new one")
    add_value(parser, "uri", "URI", "dotted path of an installed package, file, or folder")
    parser.add_argument("--type", choices=PLUGIN_TYPES, default="task", help="what the plugin contains (default: task)")

    add_command(parts, "list", _list, "all registered plugins", flags=("registry",)).add_output(rows=50)

    text = "one registered plugin, and whether its files changed since"
    parser = add_command(parts, "show", _show, text, flags=_FLAGS)
    add_value(parser, "plugin", "NAME[@VERSION]", "default version: the one registered last")


def _new(args: argparse.Namespace) -> None:
    from evalkit.runs.plugin_template import new_plugin

    print(new_plugin(args.name, args.folder))
    note(args, f"edit it, then test it: python -m pytest {args.folder or args.name}")


def _register(args: argparse.Namespace) -> None:
    with opened(args) as registry:
        plugin = registry.register_plugin(args.name, args.version, args.uri, args.type)
    if args.json:
        put_document(plugin.model_dump())
    else:
        note(args, f"registered {plugin.label} ({plugin.storage_uri}, hash {plugin.content_hash[:12]})")


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
