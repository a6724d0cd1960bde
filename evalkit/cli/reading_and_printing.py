"""Tables from files, and to files, terminal or JSON; warnings and log lines as messages on stderr."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import evalkit as ek
from evalkit.core.printable_text import one_line
from evalkit.errors import ConfigError, EvalkitWarning, InputError, counted

if TYPE_CHECKING:
    import pandas as pd

    from evalkit.core.settings import Rules


SETTINGS = "settings.json"
"""File that `evalkit evaluate --out` writes beside its tables: rubric, judges, samples, rules."""


def read_items(args: argparse.Namespace) -> pd.DataFrame:
    """The items of a command; labels and rubric columns with them."""
    source = _with_rows(_read_stdin(), args.items) if args.items == "-" else args.items
    return _with_rows(ek.load_items(source, item_id=args.item_id, form=getattr(args, "form", None)), args.items)


def read_table(path: str, name: str, *others: str) -> pd.DataFrame:
    """One of evalkit's tables: the first of these names that fits."""
    from evalkit.tables import files

    if path != "-":
        return _with_rows(files.read_table(path, name, *others), path)
    return files.typed_table(_with_rows(_read_stdin(), path), "stdin", name, *others)


def _with_rows(table: pd.DataFrame, path: str) -> pd.DataFrame:
    """The table; InputError if it is empty, since most often the command that made it failed."""
    if not len(table):
        raise InputError(f"{'stdin' if path == '-' else path} has no rows")
    return table


def read_label_file(args: argparse.Namespace) -> pd.DataFrame:
    """Human labels of a file; ``-`` is a long table on stdin."""
    return read_table("-", "labels") if args.labels == "-" else ek.load_labels(args.labels, reader=args.reader)


def read_labels(args: argparse.Namespace) -> pd.DataFrame:
    """Human labels: a long table, an export of Label Studio or Argilla, or columns of a file of items."""
    if not args.label:
        return read_label_file(args)
    return ek.extract_labels(ek.load_items(args.labels, item_id=args.item_id), dict(args.label))


def read_groups(args: argparse.Namespace) -> pd.Series | None:
    """item_id -> group_id of a file of items; None if the command got none."""
    if args.items is None:
        return None
    items = read_items(args)
    if "group_id" not in items.columns:
        raise InputError(
            f"--items takes the groups from the column 'group_id', which {args.items} does not have; add the column, "
            "or leave out --items"
        )
    return items.set_index("item_id")["group_id"].dropna()


def read_side(path: str) -> Any:
    """One side of a comparison: judgments, or a folder of `evalkit evaluate --out`."""
    folder = Path(path)
    if not folder.is_dir():
        return read_table(path, "judgments")
    files = {name: sorted(folder.glob(f"{name}.*")) for name in ("judgments", "votes", "scores")}
    for name, paths in files.items():
        if len(paths) != 1:
            raise InputError(
                f"{folder} was not written by 'evalkit evaluate --out': expected one file of the table {name!r}, found "
                f"{len(paths)}; name another folder, or run that command again"
            )
    tables = {name: read_table(str(paths[0]), name) for name, paths in files.items()}
    return SimpleNamespace(**tables, rules=_rules(folder), clusters=_groups_of(folder))


def _groups_of(folder: Path) -> pd.Series | None:
    """item_id -> group_id of the items that `evalkit evaluate --out` wrote; None if they have no groups."""
    from evalkit.tables.files import read_frame

    frames = [read_frame(path) for path in sorted(folder.glob("items.*"))]
    return next((items.set_index("item_id")["group_id"].dropna() for items in frames if "group_id" in items), None)


def _rules(folder: Path) -> Rules | None:
    """The rules that `evalkit evaluate --out` wrote; None if the file is missing."""
    from evalkit.core.settings import Rules

    path = folder / SETTINGS
    if not path.is_file():
        return None
    try:
        return Rules(**json.loads(path.read_text(encoding="utf-8"))["rules"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: invalid rules for votes and scores ({error}); run 'evalkit evaluate --out' again"
        ) from None


def _read_stdin() -> pd.DataFrame:
    from evalkit.tables.files import read_lines

    return read_lines(sys.stdin.buffer.read(), "stdin")


def check_output(args: argparse.Namespace, out: str | Path) -> None:
    """InputError unless the output can be written and is not an input: checked before anything is paid."""
    from evalkit.tables.files import check_target

    if str(out) == "-":
        return
    check_target(out)
    target = Path(out).resolve()
    values = [value for name, value in vars(args).items() if name != "out"]
    words = [word for value in values for word in (value if isinstance(value, list) else [value])]
    if any(isinstance(word, str) and Path(word).resolve() == target for word in words):
        raise ConfigError(f"--out {out} is an input of this command; name another file")


def put(args: argparse.Namespace, frame: pd.DataFrame, *, columns: Iterable[str] = ()) -> None:
    """A table where the flags say: a file, JSONL or JSON on stdout, else readable text.

    `columns` are those shown on a terminal; the files contain all.
    """
    put_out(args, frame)
    if args.json:
        _bytes_out([b"[", b",\n ".join(_lines(frame)), b"]\n"])
    elif args.out is None:
        shown = [name for name in columns if name in frame.columns]
        put_shown(frame[shown] if shown else frame, rows=args.rows)


def put_shown(shown: Any, *, rows: int = 20, fit: bool = True) -> None:
    """A table or object of evalkit on stdout; with `fit` no wider than the terminal (100 columns if there is none)."""
    width = shutil.get_terminal_size((100, 24)).columns if fit else None
    print(ek.show(shown, rows=rows, width=width))


def put_out(args: argparse.Namespace, frame: pd.DataFrame) -> None:
    """A table into the file of ``--out``, if there is one."""
    if args.out == "-":
        _bytes_out(line + b"\n" for line in _lines(frame))
    elif args.out is not None:
        from evalkit.tables.files import write_frame

        write_frame(frame, args.out)
        note(args, f"wrote {counted(len(frame), 'row')} to {args.out}")


def in_words(value: object) -> str:
    """A plain value, a moment, or a list of texts, for a person to read."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return "none" if value is None else str(value)


def moments_as_text(table: pd.DataFrame) -> pd.DataFrame:
    """The columns `…_at` as ISO text, to the second: JSON takes it, and it fits a terminal."""
    moments = table.filter(regex="_at$")
    texts = moments.map(lambda moment: moment.isoformat(timespec="seconds"), na_action="ignore")
    return table.assign(**texts.astype(object))


def put_either(args: argparse.Namespace, document: Mapping[str, Any], text: str) -> None:
    """On stdout one JSON object with ``--json``, else text."""
    if args.json:
        put_document(document)
    else:
        print(text)


def put_document(document: Mapping[str, Any]) -> None:
    """One JSON object on stdout."""
    _bytes_out([json_bytes(document)])


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """An object as indented JSON; tables inside become lists of records, NaN becomes null."""
    import orjson

    form = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
    return orjson.dumps(document, default=_plain, option=form)


def _plain(value: object) -> Any:
    """What orjson does not know: tables, mappings of other types, paths and missing values."""
    import pandas as pd

    from evalkit.tables.files import records
    from evalkit.tables.items import is_missing

    if isinstance(value, pd.DataFrame):
        return list(records(value))
    if isinstance(value, Mapping):
        return dict(value)
    if not is_missing(value) and not isinstance(value, Path):
        raise TypeError
    return str(value) if isinstance(value, Path) else None


def _lines(frame: pd.DataFrame) -> Iterable[bytes]:
    import orjson

    from evalkit.tables.files import records

    return map(orjson.dumps, records(frame))


def _bytes_out(pieces: Iterable[bytes]) -> None:
    """UTF-8, whatever the terminal's encoding is: this is data."""
    sys.stdout.flush()
    sys.stdout.buffer.writelines(pieces)
    sys.stdout.buffer.flush()


_HIDDEN = "[REDACTED]"


def tell(text: str) -> None:
    """One line on stderr, marked as evalkit's."""
    print(f"evalkit: {one_line(text)}", file=sys.stderr)


def note(args: argparse.Namespace, text: str) -> None:
    """One line on stderr, unless ``--quiet``."""
    if not args.quiet:
        tell(text)


class _Handler(logging.Handler):
    def __init__(self, *, redact: bool) -> None:
        super().__init__(logging.WARNING)
        self._redact = redact

    def emit(self, record: logging.LogRecord) -> None:
        if self._redact and isinstance(record.args, tuple):
            record.args = tuple(_HIDDEN if isinstance(value, str) else value for value in record.args)
        _warn(record.getMessage(), redact=self._redact)


def _warn(text: str, *, redact: bool) -> None:
    """A warning; with `redact`, without what is in brackets, which quotes servers and files."""
    head, bracket, _ = text.partition(" (")
    tell(f"warning: {head} ({_HIDDEN})" if redact and bracket else f"warning: {text}")


@contextlib.contextmanager
def warnings_as_messages(*, redact: bool = False) -> Iterator[None]:
    """Inside, evalkit's warnings and log become lines on stderr, each warning once; `redact`ed, they quote nothing."""
    log, handler, shown = logging.getLogger("evalkit"), _Handler(redact=redact), set[str]()
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, EvalkitWarning):
                others(message, category, *where, **more)
            elif str(message) not in shown:
                shown.add(str(message))
                _warn(str(message), redact=redact)

        warnings.simplefilter("always", EvalkitWarning)
        warnings.showwarning = show
        propagate, log.propagate = log.propagate, False
        log.addHandler(handler)
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.propagate = propagate
