"""Tables in from files and out to files, terminal or JSON."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from evalkit.cli.messages import tell
from evalkit.errors import ConfigError, InputError, counted

if TYPE_CHECKING:
    import pandas as pd

    from evalkit.core.vote_aggregate_rules import Rules

__all__ = [
    "SETTINGS",
    "check_output",
    "json_bytes",
    "put",
    "put_document",
    "put_out",
    "put_text",
    "read_groups",
    "read_items",
    "read_labels",
    "read_side",
    "read_table",
    "terminal_width",
]

SETTINGS = "settings.json"
"""File that `evalkit evaluate --out` writes beside its tables: rubric, judges, samples, rules."""


def read_items(args: argparse.Namespace) -> pd.DataFrame:
    """The items of a command; labels and rubric columns with them."""
    from evalkit import load_items

    if args.items == "-":
        return _from_stdin(lambda path: load_items(path, item_id=args.item_id))
    return load_items(args.items, item_id=args.item_id)


def read_table(path: str, name: str, *others: str) -> pd.DataFrame:
    """One of evalkit's tables; of several names the first that fits."""
    from evalkit import tables

    if path == "-":
        return _from_stdin(lambda place: tables.read_table(place, name, *others))
    return tables.read_table(path, name, *others)


def read_labels(path: str, columns: Iterable[tuple[str, list[str]]], item_id: str | None = None) -> pd.DataFrame:
    """Human labels: a long table, or columns of a file of items."""
    from evalkit import extract_labels, load_items

    wanted = dict(columns)
    return extract_labels(load_items(path, item_id=item_id), wanted) if wanted else read_table(path, "labels")


def read_groups(path: str, item_id: str | None = None) -> pd.Series:
    """item_id -> group_id of a file of items."""
    from evalkit import load_items

    items = load_items(path, item_id=item_id)
    if "group_id" not in items.columns:
        raise InputError(f"{path} has no column 'group_id', so there are no groups to make units of; leave out --items")
    return items.set_index("item_id")["group_id"].dropna()


def read_side(path: str) -> Any:
    """One side of a comparison: judgments, or what `evalkit evaluate --out` wrote into a folder."""
    folder = Path(path)
    if not folder.is_dir():
        return read_table(path, "judgments")
    names = ("judgments", "votes", "scores")
    there = {name: sorted(folder.glob(f"{name}.*")) for name in names}
    wrong = [name for name, files in there.items() if len(files) != 1]
    if wrong:
        raise InputError(
            f"{folder} is no folder of 'evalkit evaluate --out': it has "
            f"{counted(len(there[wrong[0]]), 'table')} {wrong[0]!r}, not one"
        )
    found = {name: read_table(str(files[0]), name) for name, files in there.items()}
    return SimpleNamespace(**found, rules=_rules(folder))


def _rules(folder: Path) -> Rules | None:
    """The rules that `evalkit evaluate --out` wrote down; None where the file is missing."""
    from evalkit.core.vote_aggregate_rules import Rules

    path = folder / SETTINGS
    if not path.is_file():
        return None
    try:
        return Rules(**json.loads(path.read_text(encoding="utf-8"))["rules"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: invalid rules ({error}); run evalkit evaluate --out again") from None


def _from_stdin(read: Callable[[Path], pd.DataFrame]) -> pd.DataFrame:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stdin.jsonl"
        with path.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        try:
            return read(path)
        except InputError as problem:
            raise InputError(str(problem).replace(str(path), "stdin")) from None


def check_output(out: str | Path | None, *inputs: str | None) -> None:
    """InputError unless the output can be written and is none of the inputs: asked before anything is paid."""
    from evalkit.tables import check_target

    if out is None or str(out) == "-":
        return
    check_target(out)
    target = Path(out).resolve()
    if any(name not in (None, "-") and Path(str(name)).resolve() == target for name in inputs):
        raise ConfigError(f"--out {out} is an input of this command; name another file")


def put(args: argparse.Namespace, frame: pd.DataFrame, *, columns: Iterable[str] = ()) -> None:
    """A table where the flags say: a file, JSONL or JSON on stdout, else readable text.

    `columns` are those worth a look on a terminal; the files hold all.
    """
    put_out(args, frame)
    if args.json:
        _put_json(frame)
    elif args.out is None:
        from evalkit.evaluation import show

        shown = [name for name in columns if name in frame.columns]
        put_text(str(show(frame[shown] if shown else frame, rows=args.rows, width=terminal_width())))


def terminal_width() -> int:
    """Columns of the terminal (or of COLUMNS); 100 where there is none."""
    return shutil.get_terminal_size((100, 24)).columns


def put_out(args: argparse.Namespace, frame: pd.DataFrame) -> None:
    """A table into the file of ``--out``, if there is one."""
    if args.out == "-":
        _put_lines(frame)
    elif args.out is not None:
        from evalkit.tables import write_frame

        write_frame(frame, args.out)
        if not args.quiet:
            tell(f"wrote {counted(len(frame), 'row')} to {args.out}")


def put_text(text: str) -> None:
    """Text on stdout."""
    print(text)


def put_document(document: Mapping[str, Any]) -> None:
    """One JSON object on stdout."""
    _bytes_out([json_bytes(document)])


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """An object as indented JSON; tables inside become lists of records, NaN becomes null."""
    import orjson

    return orjson.dumps(_plain(document), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _plain(value: Any) -> Any:
    import pandas as pd

    from evalkit.tables import is_missing, records

    if isinstance(value, pd.DataFrame):
        return list(records(value))
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, Path):
        return str(value)
    return None if is_missing(value) else value


def _put_lines(frame: pd.DataFrame) -> None:
    import orjson

    from evalkit.tables import records

    _bytes_out(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in records(frame))


def _put_json(frame: pd.DataFrame) -> None:
    import orjson

    from evalkit.tables import records

    rows = [orjson.dumps(row) for row in records(frame)]
    _bytes_out([b"[", b",\n ".join(rows), b"]\n"])


def _bytes_out(pieces: Iterable[bytes]) -> None:
    """UTF-8, whatever the terminal's encoding is: this is data."""
    sys.stdout.flush()
    for piece in pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
