"""`evalkit rubric list | show | lint | diff | new`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import evalkit as ek
from evalkit.cli.arguments import Commands, add_command, add_flags, add_group, add_value
from evalkit.cli.reading_and_printing import note, put, put_either, tell
from evalkit.errors import RubricError, counted

if TYPE_CHECKING:
    import pandas as pd


def add(commands: Commands) -> None:
    """Their parsers."""
    parts = add_group(commands, "rubric", "list, show, check, compare and create rubrics")
    add_command(parts, "list", _list, "all rubrics that --rubric can name, with their versions").add_output(rows=50)

    parser = add_command(parts, "show", _show, "the text of a rubric file")
    add_value(parser, "rubric", "R", "id, id@version or file")
    parser.add_argument("--json", action="store_true", help="as JSON instead of YAML")

    end = "  evalkit rubric lint rubrics/support/v2.yaml\n  evalkit rubric lint        (all of them)"
    parser = add_command(parts, "lint", _lint, "problems in rubrics; exit code 1 if there are errors", end)
    add_value(parser, "rubrics", "R", "id, id@version or file; default: all rubrics", nargs="*")
    parser.add_output(rows=100)

    parser = add_command(parts, "diff", _diff, "the differences between two rubrics, in words")
    add_value(parser, "old", "OLD", "id, id@version or file")
    add_value(parser, "new", "NEW", "id, id@version or file")

    end = "  evalkit rubric new support_tone\n  evalkit rubric new support --like faithfulness"
    parser = add_command(parts, "new", _new, "write a rubric file to edit: a first version, or the next one", end)
    add_value(parser, "id", "ID", "its id; if it exists, start as a copy of its newest version")
    add_value(parser, "--like", "R", "start as a copy of this rubric")
    add_value(parser, "--folder", "DIR", "where to save (default: the first folder of EVALKIT_RUBRICS, else rubrics/)")
    add_flags(parser, "quiet")


def _list(args: argparse.Namespace) -> None:

    put(args, ek.rubrics.list_rubrics(), columns=("id", "version", "inputs", "description"))


def _show(args: argparse.Namespace) -> None:
    from evalkit.rubrics.files import dump_yaml

    rubric = ek.load_rubric(args.rubric).to_dict()
    put_either(args, rubric, dump_yaml(rubric).rstrip())


def _lint(args: argparse.Namespace) -> int | None:
    import pandas as pd

    names = args.rubrics or ek.rubrics.list_rubrics()["path"].tolist()
    found = pd.concat([_findings(name) for name in names], ignore_index=True)
    if args.out is not None or args.json:
        put(args, found)
    else:
        for row in found.to_dict("records"):
            print(f"{row['severity']}: {row['where']}: {row['message']}")
        if found.empty:
            print(f"nothing to fix in {counted(len(names), 'rubric')}")
    return 1 if found["severity"].eq("error").any() else None


def _findings(name: str) -> pd.DataFrame:
    """The findings of lint. A file that breaks the rules of rubrics is a finding; a missing file is an error."""
    import pandas as pd

    try:
        return ek.load_rubric(name).lint()
    except RubricError as problem:
        if not Path(name).is_file() and not _is_broken(name):
            raise
        message = str(problem).removeprefix(f"{name}: ")
        return pd.DataFrame({"severity": ["error"], "where": [name], "message": [message]})


def _is_broken(name: str) -> bool:
    from evalkit.rubrics.rubrics_by_name import rubric_files

    broken = ((id_, version) for id_, version, _, rubric in rubric_files() if isinstance(rubric, RubricError))
    return any(name in (id_, f"{id_}@{version}") for id_, version in broken)


def _diff(args: argparse.Namespace) -> None:

    if changes := ek.load_rubric(args.old).diff(ek.load_rubric(args.new)):
        print(changes)
    else:
        tell(f"{args.old} and {args.new} are the same")


def _new(args: argparse.Namespace) -> None:

    path = ek.rubrics.new_rubric(args.id, like=args.like, rubrics_folder=args.folder)
    print(path)
    note(args, f"edit it, then check it: evalkit rubric lint {path}")
