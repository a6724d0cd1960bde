"""`evalkit template add | list | show`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit.cli.arguments import (
    Commands,
    add_command,
    add_output,
    add_quiet,
    add_registry,
    moments_as_text,
    opened,
)
from evalkit.cli.messages import tell
from evalkit.cli.output import check_output, put, put_document, put_text
from evalkit.errors import ConfigError, RegistryError

if TYPE_CHECKING:
    import pandas as pd

    from evalkit.runs import Registry

__all__ = ["add"]

_FILES = "rubric folders"


def add(commands: Commands) -> None:
    """Their parsers."""
    whole = add_command(commands, "template", _none, "judge templates: the prompts that judge_template_id names")
    parts = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)

    end = "  evalkit template add terse v1 terse.jinja"
    parser = add_command(parts, "add", _add, "put a template into the registry", end)
    parser.add_argument("name", metavar="NAME", help="its name")
    parser.add_argument("version", metavar="VERSION", help="v1, v2 …; another text needs another one")
    parser.add_argument("file", metavar="FILE", help="Jinja file, with a header as those of rubrics/templates/")
    parser.add_argument("--response-schema", metavar="FILE", help="JSON schema of the reply, of type object")
    add_registry(parser)
    add_quiet(parser)

    parser = add_command(parts, "list", _list, "all templates, of the registry and of the rubric folders")
    add_registry(parser)
    add_output(parser, rows=50)

    parser = add_command(parts, "show", _show, "the source of a template: the registry's, else the rubric folders'")
    parser.add_argument("template", metavar="NAME[@VERSION]", help="without a version the highest")
    parser.add_argument("--json", action="store_true", help="as JSON, with hash and form")
    add_registry(parser)


def _none(_: argparse.Namespace) -> None:
    """Never called: a command below it is required."""


def _add(args: argparse.Namespace) -> None:
    source = _text(args.file)
    schema = None if args.response_schema is None else _schema(args.response_schema)
    with opened(args) as registry:
        made = registry.add_template(args.name, args.version, source, schema)
    if not args.quiet:
        tell(f"added {made.label} (hash {made.content_hash[:12]})")


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise ConfigError(f"{file} is not UTF-8 text ({problem.reason} at byte {problem.start})") from None


def _schema(file: str) -> dict[str, Any]:
    try:
        found = json.loads(_text(file))
    except json.JSONDecodeError as problem:
        raise ConfigError(f"{file}, line {problem.lineno}: invalid JSON ({problem.msg})") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{file}: a schema is an object, not a {type(found).__name__}")
    return found


def _list(args: argparse.Namespace) -> None:
    import pandas as pd

    check_output(args.out)
    with opened(args) as registry:
        own = moments_as_text(registry.templates()).assign(source="registry")
    put(
        args,
        pd.concat([own, _of_files()], ignore_index=True) if len(own) else _of_files(),
        columns=("name", "version", "source"),
    )


def _of_files() -> pd.DataFrame:
    import pandas as pd

    from evalkit.rubrics import list_templates
    from evalkit.rubrics.prompts import load_template

    found = [load_template(label) for label in list_templates()]
    rows = [(one.name, one.version, one.hash, _FILES) for one in found]
    return pd.DataFrame(rows, columns=["name", "version", "content_hash", "source"])


def _show(args: argparse.Namespace) -> None:
    with opened(args) as registry:
        found = _found(registry, args.template)
    if args.json:
        put_document(found)
    else:
        put_text(found["prompt_template"].rstrip("\n"))


def _found(registry: Registry, name: str) -> dict[str, Any]:
    from evalkit.errors import RubricError
    from evalkit.rubrics.prompts import load_template

    try:
        own = registry.template(name)
    except RegistryError as problem:
        if problem.__cause__ is not None:  # the database itself
            raise
        try:
            one = load_template(name)
        except RubricError as other:
            raise ConfigError(f"in the registry: {problem}; in the rubric folders: {other}") from None
        return _document(one.name, one.version, one.source, None, one.hash, _FILES)
    return _document(own.name, own.version, own.prompt_template, own.response_schema, own.content_hash, "registry")


def _document(name: str, version: str, source: str, schema: Any, content_hash: str, place: str) -> dict[str, Any]:
    return {
        "name": name,
        "version": version,
        "source": place,
        "content_hash": content_hash,
        "response_schema": schema,
        "prompt_template": source,
    }
