"""Tables in and out of files: JSONL, JSON, CSV, TSV and parquet."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import orjson
import pandas as pd

from evalkit.core.files import BOM, check_writable, whole
from evalkit.core.reply_keys import canonical_json
from evalkit.errors import ConfigError, InputError, MissingExtraError, advise_extra, error_at, listed
from evalkit.readers.finding import find
from evalkit.readers.records import TRACES, Reader, read_by
from evalkit.tables.items import LIST_INPUTS, ItemsLike, as_frame, as_items, canonical, is_missing, refuse_columns
from evalkit.tables.lists_in_texts import list_in
from evalkit.tables.message_files import with_images
from evalkit.tables.message_forms import with_fields
from evalkit.tables.schemas import TABLES, check, empty

_SEPARATOR = re.compile(rb'"?sep=([,;\t|])"?\r?\n', re.IGNORECASE)
_FORMS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")


def _form(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    form = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] == ".gz" else (suffixes[-1] if suffixes else "")
    if form not in _FORMS:
        raise InputError(
            f"unknown file format: {path}; allowed endings: {', '.join(_FORMS)}, each optionally followed by .gz; JSON "
            "under another ending is read by passing json.load(open(path)), a log of Inspect by form='inspect'"
        )
    return form


def read_frame(path: str | Path) -> pd.DataFrame:
    """A DataFrame from a file, values as in the file: text stays text, cells of a CSV file are text.

    The name of a data set on the Hugging Face hub gives its split ``train``, as in `load_items`.

    An empty cell of a CSV file is a missing value, quoted or not, and only the columns `context` and `conversation` are
    read as lists, as JSON or as pandas writes them (``"['a', 'b']"``). Use JSONL or parquet for empty texts, and for
    other lists and mappings.

    Raises
    ------
    InputError
        When the file is missing, empty, of an unknown format, or broken; JSONL errors name the line.
    MissingExtraError
        When parquet or a hub data set needs a package that is not installed.
    """
    frame = _read(Path(path)) if _is_file(path) else as_frame(_load_hub(str(path), split="train", name=None))
    if not len(frame.columns):
        raise InputError(f"{path} has no rows")
    return frame


def _read(path: Path) -> pd.DataFrame:
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file")
    form = _form(path)
    if not path.is_file():
        raise InputError(f"file not found: {path}")
    if form == ".parquet":
        return _read_parquet(path)
    if form in (".csv", ".tsv"):
        return _read_csv(path, "," if form == ".csv" else "\t")
    raw = _read_bytes(path)
    return as_frame(_objects(path, form, [raw] if form == ".json" else raw.split(b"\n")))


def _read_bytes(path: Path) -> bytes:
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as problem:
        raise InputError(f"{path} cannot be read: {problem}") from None
    return raw.removeprefix(BOM)


def read_lines(content: bytes, name: str) -> pd.DataFrame:
    """JSONL in memory as a DataFrame; `name` is its name in errors."""
    return as_frame(_objects(name, ".jsonl", content.split(b"\n")))


def _objects(path: str | Path, form: str, lines: Iterable[bytes], first_line: int = 1) -> list[dict[str, Any]]:
    """The objects of a JSON list, or of the lines of a JSONL file."""
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, first_line):
        where = path if form == ".json" else f"{path}, line {number}"
        line = line.removeprefix(BOM)  # of each file that was joined to this one
        if not line.strip():
            continue
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as problem:
            hint = "; JSON has no NaN or Infinity: write null" if b"NaN" in line or b"Infinity" in line else ""
            raise InputError(f"{where}: invalid JSON ({problem}){hint}") from None
        values = value if isinstance(value, list) and form == ".json" else [value]
        if wrong := next((type(row).__name__ for row in values if not isinstance(row, dict)), None):
            raise InputError(f"{where}: expected an object with fields, got {wrong}")
        if values is not value and form == ".json":
            refuse_columns(values[0], f"{where} is")
        rows += values
    return rows


def _read_csv(path: Path, separator: str) -> pd.DataFrame:
    raw = _read_bytes(path)
    if excel := _SEPARATOR.match(raw):  # which Excel reads and does not show
        raw, separator = raw[excel.end() :], excel[1].decode()
    head = re.sub(rb'"[^"]*"', b"", raw.split(b"\n", 1)[0])  # its bare names
    if separator == "," and head.count(b"\t") > head.count(b","):
        separator = "\t"
    elif separator == "," and b"," not in head and b";" in head:
        separator = ";"  # as spreadsheets write it in countries with a decimal comma
    try:
        raw.decode()
        # pandas would take texts such as "None" for missing, and without header=None rename columns of the same name
        cells = pd.read_csv(BytesIO(raw), sep=separator, dtype=str, keep_default_na=False, header=None)
    except UnicodeDecodeError as problem:
        raise InputError(f"{path} is not in UTF-8 (byte {problem.start}): save it as UTF-8") from None
    except ValueError as problem:
        raise InputError(f"{path}: invalid CSV or TSV ({problem})") from None
    names = cells.iloc[0]
    if names.duplicated().any():
        raise InputError(f"{path} has duplicate columns: {listed(names[names.duplicated()])}")
    frame = cells.iloc[1:].reset_index(drop=True).set_axis(list(names), axis=1).replace("", None)
    for name in LIST_INPUTS:
        if name in frame.columns and (lists := _lists(frame[name].tolist())) is not None:
            frame[name] = pd.Series(lists, dtype=object)
    return frame


def _lists(cells: list[Any]) -> list[Any] | None:
    """The cells as lists if every cell with content is one; else None."""
    values = []
    for cell in cells:
        value = list_in(cell) if isinstance(cell, str) and cell.strip() else None
        if value is None and isinstance(cell, str) and cell.strip():
            return None
        values.append(value)
    return values if any(value is not None for value in values) else None


def _read_parquet(path: Path) -> pd.DataFrame:
    with _parquet(path), path.open("rb") as stream:
        return pd.read_parquet(stream, engine="pyarrow")


@contextlib.contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    """Arrow's module for parquet, to read a file opened by Python: Arrow itself opens no path that is not UTF-8."""
    pyarrow = _pyarrow("reading")
    try:
        yield import_module("pyarrow.parquet")
    except (pyarrow.ArrowException, OSError) as problem:
        raise InputError(f"{path}: invalid parquet ({problem})") from None


@dataclass(frozen=True, slots=True)
class FilePart:
    """Some rows of a JSONL or parquet file.

    `first` is the number of the first row in the file, from 0; `start` the byte and `line` the line where it is in a
    JSONL file.
    """

    path: str
    first: int
    n_rows: int
    start: int = 0
    line: int = 1

    def read(self) -> pd.DataFrame:
        """The rows, with their numbers as index."""
        path = Path(self.path)
        if path.suffix == ".parquet":
            frame = self._read_parquet(path)
        else:
            with path.open("rb") as file:
                file.seek(self.start)
                rows = _objects(path, ".jsonl", _some(file, self.n_rows), self.line)
            frame = as_frame(rows)
        return frame.set_axis(range(self.first, self.first + len(frame)))

    def _read_parquet(self, path: Path) -> pd.DataFrame:
        with _parquet(path) as parquet, path.open("rb") as stream:
            file = parquet.ParquetFile(stream)
            ends = np.cumsum([file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)])
            first, last = np.searchsorted(ends, [self.first, self.first + self.n_rows - 1], side="right")
            table = file.read_row_groups([*range(first, last + 1)])
            before = int(ends[first - 1]) if first else 0
            return pd.DataFrame(table.slice(self.first - before, self.n_rows).to_pandas())


def _some(lines: Iterable[bytes], n: int) -> Iterator[bytes]:
    """Lines with `n` that are not blank."""
    for line in lines:
        n -= bool(line.removeprefix(BOM).strip())
        yield line
        if n == 0:
            return


def parts_of_file(path: str | Path, n_rows: int) -> Iterator[FilePart]:
    """A JSONL or parquet file in parts of so many rows; the rows themselves are read by the parts.

    Raises
    ------
    InputError
        When the file is missing, broken or of another format.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"file not found: {path}")
    if path.suffix == ".parquet":
        with _parquet(path) as parquet:
            total = parquet.read_metadata(path).num_rows
        for first in range(0, total, n_rows):
            yield FilePart(str(path), first, min(n_rows, total - first))
        return
    if path.suffix not in (".jsonl", ".ndjson"):
        raise InputError(f"{path} cannot be read in parts; allowed endings: .jsonl, .ndjson, .parquet")
    first = n = begin = start = 0
    line = 1
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            n += bool(text.removeprefix(BOM).strip())
            start += len(text)
            if n == n_rows:
                yield FilePart(str(path), first, n, begin, line)
                first, n, begin, line = first + n, 0, start, number + 1
    if n:
        yield FilePart(str(path), first, n, begin, line)


def load_items(
    source: str | Path | ItemsLike,
    *,
    item_id: str | None = None,
    split: str = "train",
    name: str | None = None,
    form: str | None = None,
    show: Collection[str] = (),
    ignore: Collection[str] = (),
    images: str | Path | None = None,
) -> pd.DataFrame:
    """Items from a file, a Hugging Face data set or a table; ids and texts stay text.

    Parameters
    ----------
    source
        A path ending in ``.jsonl``, ``.json`` (a list of objects), ``.csv``, ``.tsv`` or ``.parquet``
        (text formats may end in ``.gz``), or the name of a data set on the Hugging Face hub. Or whatever `as_items`
        takes: a DataFrame, a `datasets.Dataset`, a list of dicts.
    item_id
        The column that holds the ids; by default ``item_id``, else the row number.
    split, name
        Split and configuration of a hub data set.
    form
        The reader of traces that another program wrote: ``openai_responses``, ``anthropic``, ``inspect``, ``otel``,
        ``openinference``, ``atif``, or that of an installed package. It makes one item per trace, with the columns
        ``task`` and ``messages``.
    show, ignore
        Fields of messages that evalkit does not know: those that judges are shown, as JSON below the text, and those
        that are left out without a warning. For all columns of messages.
    images
        The folder of the image files that the column ``image`` and the image parts of messages name.

    Returns
    -------
    pandas.DataFrame
        As returned by `as_items`.

    Raises
    ------
    ConfigError
        For an unknown `form`, and `images` that is no path.
    InputError
        When no message has a field of `show` or `ignore`, or an image is not in the folder; when the file is missing,
        a line is invalid (the message has its number) or ids are not unique.
    MissingExtraError
        When parquet or a hub data set needs a package that is not installed.

    Examples
    --------
    >>> load_items([{"item_id": "a", "question": "When?", "answer": "In May."}])["answer"].tolist()
    ['In May.']
    """
    reader = None if form is None else find(form, TRACES)

    def given() -> Any:
        if not isinstance(source, (str, Path)):
            return source
        return read_frame(source) if _is_file(source) else _load_hub(str(source), split=split, name=name)

    rows = given() if reader is None else _items_by(reader, source, given)
    items = as_items(rows, item_id=item_id)
    if images is not None:
        if not isinstance(images, (str, Path)):
            raise ConfigError(f"images is {images!r:.60}; expected the path of a folder, as in images='pictures'")
        items = with_images(items, Path(images))
    return with_fields(items, show, ignore) if show or ignore else items


def _items_by(reader: Reader, source: Any, given: Callable[[], Any]) -> Any:
    """The items that a reader makes of a source."""
    advice = "name the form of these logs, or write their messages in OpenAI's form"
    opened = None
    if reader.opens is not None and isinstance(source, (str, Path)) and Path(source).is_file():
        opened = read_by(replace(reader, read=reader.opens), str(source), advice)
    rows = given() if opened is None else opened
    rows = rows if isinstance(rows, list) else [*records(as_frame(rows))]
    values = []
    for number, row in enumerate(rows, 1):
        with error_at(f"record {number}", InputError):
            values.append(canonical(row))
    return read_by(reader, values, advice)


def _is_file(source: str | Path) -> bool:
    """Whether this names a file, and not a data set on the hub, whose name may end in v1.5."""
    path = Path(source)
    return path.exists() or isinstance(source, Path) or bool(path.suffix and not path.suffix[1:2].isdigit())


def _load_hub(source: str, *, split: str, name: str | None) -> Any:
    """A split of a Hugging Face data set, through `datasets`."""
    try:
        import datasets
    except ImportError:
        raise MissingExtraError(
            f"{source!r} is not a file; loading it as a Hugging Face data set needs the package datasets: "
            f"{advise_extra('datasets')}"
        ) from None
    try:
        return datasets.load_dataset(source, name, split=split)
    except (OSError, ValueError) as problem:
        raise InputError(
            f"{source!r} is not a file, and loading it as a Hugging Face data set failed: {problem}"
        ) from None


def read_table(path: str | Path, name: str, *others: str) -> pd.DataFrame:
    """One of evalkit's tables from a file, its column types restored.

    Parameters
    ----------
    path
        The file.
    name, *others
        The kind of table; of several the first whose columns all exist.

    Notes
    -----
    Empty cells, and empty texts other than explanations, are missing. A JSONL file without a line is an empty table.
    """
    return typed_table(_read(Path(path)), path, name, *others)


def typed_table(frame: pd.DataFrame, source: str | Path, name: str, *others: str) -> pd.DataFrame:
    """A table as `read_table` returns it, from a DataFrame of cells that was read from `source`."""
    if not len(frame.columns):
        return empty(name)
    complete = (kind for kind in (name, *others) if {*TABLES[kind]} <= set(frame.columns))
    name = next(complete, name)
    texts = [column for column in TABLES[name] if column in frame.columns and column != "explanation"]
    blank = {
        column: frame[column].mask(frame[column] == "", None)
        for column in texts
        if frame[column].dtype == object or isinstance(frame[column].dtype, pd.StringDtype)
    }
    with error_at(str(source), InputError):
        return check(frame.assign(**blank), name)


def check_target(path: str | Path) -> None:
    """Check that `write_frame` can write to a path, before any call.

    Raises
    ------
    InputError
        When the ending is unknown, the path is a folder, or its folder cannot be written.
    MissingExtraError
        When parquet needs a package that is not installed.
    """
    path = Path(path)
    if _form(path) == ".parquet":
        _pyarrow("writing")
    if path.is_dir():
        raise InputError(f"{path} is a folder; expected a file")
    check_writable(path)


def write_frame(frame: pd.DataFrame, path: str | Path) -> Path:
    """Write a DataFrame atomically to a file; the ending determines the format.

    In CSV and TSV, lists and mappings are written as JSON, booleans as ``true`` and ``false``, and missing values
    as empty cells.

    Raises
    ------
    InputError
        When the ending is unknown, a value does not fit the format, or the disk is full; an existing file stays.
    MissingExtraError
        When parquet needs a package that is not installed.
    """
    path = Path(path)
    form = _form(path)
    try:
        Path(os.path.realpath(path)).parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as out:
            if form == ".parquet":
                _pyarrow("writing")
                frame.to_parquet(out, engine="pyarrow", index=False)
            else:
                text = _csv(frame, "," if form == ".csv" else "\t") if form in (".csv", ".tsv") else _json(frame, form)
                out.write(gzip.compress(text, mtime=0) if path.suffix.lower() == ".gz" else text)
    except OSError as problem:
        raise InputError(f"{path} cannot be written: {(problem.strerror or str(problem)).lower()}") from None
    except (TypeError, ValueError) as problem:  # orjson's and pyarrow's errors are such
        raise InputError(f"{path} cannot be written: {problem}") from None
    return path


def _json(frame: pd.DataFrame, form: str) -> bytes:
    lines = [orjson.dumps(row, default=canonical, option=orjson.OPT_NON_STR_KEYS) for row in records(frame)]
    return b"[" + b",\n".join(lines) + b"]\n" if form == ".json" else b"".join(line + b"\n" for line in lines)


def _csv(frame: pd.DataFrame, separator: str) -> bytes:
    cells = {
        # made by hand: map would turn whole numbers with gaps into floats
        name: pd.Series([_cell(value) for value in frame[name].tolist()], dtype=object, index=frame.index)
        for name in frame.columns
        if frame[name].dtype.kind in "bfO" and not isinstance(frame[name].dtype, pd.CategoricalDtype)
    }
    made = pd.DataFrame({name: cells.get(name, frame[name]) for name in frame.columns}, index=frame.index)
    text = made.to_csv(index=False, sep=separator, lineterminator="\n")
    if "\r" in text:  # Python quotes a cell for its line ends only if they are the file's own
        text = made.to_csv(index=False, sep=separator, lineterminator="\r\n")
    return text.encode()


def _cell(value: Any) -> Any:
    if isinstance(value, str) or is_missing(value):
        return value
    value = canonical(value)
    bare = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return value if bare else canonical_json(value).decode()


def _pyarrow(what: str) -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError(f"{what} parquet needs pyarrow: {advise_extra('parquet')}") from None
    return pa


def records(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows as JSON values; missing values of any type are None.

    Examples
    --------
    >>> list(records(pd.DataFrame({"a": [1.0, float("nan")], "b": pd.Categorical(["x", None])})))
    [{'a': 1.0, 'b': 'x'}, {'a': None, 'b': None}]
    """
    columns = [(str(name), frame[name].astype(object).tolist()) for name in frame.columns]
    for at in range(len(frame)):
        yield {name: _plain(values[at]) for name, values in columns}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        return [_plain(element) for element in value.tolist()]
    return None if is_missing(value) else cast(Any, value)
