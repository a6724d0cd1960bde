"""`evalkit template add | list | show`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evalkit as ek
from evalkit.cli.arguments import Commands, add_command, add_group, add_value, opened
from evalkit.cli.reading_and_printing import moments_as_text, note, put, put_either
from evalkit.errors import ConfigError
from evalkit.rubrics.files import read_text, read_yaml

if TYPE_CHECKING:
    import pandas as pd

_FILES = "rubric folders"


def add(commands: Commands) -> None:
    """Their parsers."""
    parts = add_group(commands, "template", "judge templates: the prompts that judge_template_id names")

    end = "  evalkit template add terse v1 terse.jinja"
    parser = add_command(parts, "add", _add, "put a template into the registry", end, flags=("registry", "quiet"))
    add_value(parser, "name", "NAME", "its name")
    add_value(parser, "version", "VERSION", "v1, v2 …; a changed template needs a new one")
    add_value(parser, "file", "FILE", "Jinja file, with a header as in rubrics/templates/")
    add_value(parser, "--response-schema", "FILE", "JSON schema of the reply, of type object")

    text = "all templates in the registry and the rubric folders"
    add_command(parts, "list", _list, text, flags=("registry",)).add_output(rows=50)

    text = "the source of a template, from the registry or else the rubric folders"
    parser = add_command(parts, "show", _show, text, flags=("registry",))
    add_value(parser, "template", "NAME[@VERSION]", "default version: the highest")
    parser.add_argument("--json", action="store_true", help="print one JSON document, with hash and schema")


def _add(args: argparse.Namespace) -> None:
    source = read_text(Path(args.file))
    schema = None if args.response_schema is None else read_yaml(Path(args.response_schema))
    if schema is not None and not isinstance(schema, dict):
        raise ConfigError(f"{args.response_schema}: expected a JSON object, got a {type(schema).__name__}")
    with opened(args) as registry:
        template = registry.add_template(args.name, args.version, source, schema)
    note(args, f"added {template.label} (hash {template.content_hash[:12]})")


def _list(args: argparse.Namespace) -> None:
    import pandas as pd

    with opened(args) as registry:
        own = moments_as_text(registry.templates()).assign(source="registry")
    table = pd.concat([own, _of_files()], ignore_index=True) if len(own) else _of_files()
    put(args, table, columns=("name", "version", "source"))


def _of_files() -> pd.DataFrame:
    import pandas as pd

    from evalkit.rubrics.prompt_builder import load_template

    templates = [load_template(label) for label in ek.rubrics.list_templates()]
    rows = [(template.name, template.version, template.hash, _FILES) for template in templates]
    return pd.DataFrame(rows, columns=["name", "version", "content_hash", "source"])


def _show(args: argparse.Namespace) -> None:
    from evalkit.runs.run.binding_tasks import find_template

    with opened(args) as registry:
        template, place = find_template(registry, args.template)
        if place == "registry":
            document: dict[str, Any] = {"source": place} | registry.template(args.template).model_dump()
        else:
            document = {"source": _FILES, "name": template.name, "version": template.version, "response_schema": None}
            document |= {"content_hash": template.hash, "prompt_template": template.source}
    put_either(args, document, document["prompt_template"].rstrip("\n"))
