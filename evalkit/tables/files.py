"""Tables in and out of files: JSONL, JSON, CSV, TSV and parquet."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import orjson
import pandas as pd

from evalkit.core.files import whole
from evalkit.core.reply_keys import canonical_json
from evalkit.errors import InputError, MissingExtraError, advise_extra, listed
from evalkit.tables.schemas import TABLES, check, empty, required_columns
from evalkit.tables.values import canonical, is_missing

_LISTS = ("context", "conversation")  # inputs that are lists; a CSV file holds them as JSON
_FORMS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")


def _form(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    form = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] == ".gz" else (suffixes[-1] if suffixes else "")
    if form not in _FORMS:
        raise InputError(f"{path} is of no known form; allowed endings are {', '.join(_FORMS)} (and .gz behind)")
    return form


def read_frame(path: str | Path) -> pd.DataFrame:
    """A DataFrame from a file, values as they stand there: texts stay text, cells of a CSV file are text.

    CSV knows neither missing values nor lists and mappings: an empty cell is empty text, and a list comes
    back as the text that stands for it. Take JSONL or parquet for contexts and conversations.

    Raises
    ------
    InputError
        When the file is missing, empty, of an unknown form, or broken; JSONL errors name the line.
    """
    frame = _read(Path(path))
    if not len(frame.columns):
        raise InputError(f"{path} holds no rows")
    return frame


def _read(path: Path) -> pd.DataFrame:
    form = _form(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    if form == ".parquet":
        return _read_parquet(path)
    if form in (".csv", ".tsv"):
        return _read_csv(path, "," if form == ".csv" else "\t")
    rows = _read_json(path) if form == ".json" else list(_read_lines(path))
    names = dict.fromkeys(name for row in rows for name in row)
    return pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names})


def _read_bytes(path: Path) -> bytes:
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as problem:
        raise InputError(f"{path} cannot be read: {problem}") from None
    return raw.removeprefix(b"\xef\xbb\xbf")


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_read_bytes(path).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as problem:
            raise InputError(f"{path}, line {number}: this is no JSON ({problem}){_hint(line)}") from None
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: expected an object with fields, got {type(row).__name__}")
        yield row


def _hint(line: bytes) -> str:
    return "; JSON has no NaN or Infinity: write null" if b"NaN" in line or b"Infinity" in line else ""


def _read_json(path: Path) -> list[dict[str, Any]]:
    try:
        rows = orjson.loads(_read_bytes(path))
    except orjson.JSONDecodeError as problem:
        raise InputError(f"{path}: this is no JSON ({problem})") from None
    rows = [rows] if isinstance(rows, dict) else rows
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: expected a list of objects with fields")
    return rows


def _read_csv(path: Path, separator: str) -> pd.DataFrame:
    raw = _read_bytes(path)
    try:
        raw.decode()
    except UnicodeDecodeError as problem:
        raise InputError(f"{path} is not in UTF-8 (byte {problem.start}): save it as UTF-8") from None
    head = raw.split(b"\n", 1)[0]
    if separator == "," and b"," not in head and b";" in head:
        separator = ";"  # as spreadsheets write it where the comma stands in numbers
    try:
        # empty cells stay empty text: CSV has no missing value; pandas would number columns of one name
        given = pd.read_csv(BytesIO(raw), sep=separator, dtype=str, keep_default_na=False, header=None, nrows=1)
        frame = pd.read_csv(BytesIO(raw), sep=separator, dtype=str, keep_default_na=False)
    except (ValueError, UnicodeDecodeError) as problem:
        raise InputError(f"{path} is no readable {'CSV' if separator == ',' else 'TSV'} file: {problem}") from None
    names = given.iloc[0]
    if names.duplicated().any():
        raise InputError(f"{path} has the column {listed(names[names.duplicated()])} twice")
    if not isinstance(frame.index, pd.RangeIndex):
        raise InputError(f"{path}: its rows have more cells than its first line names columns ({len(names)})")
    for name in _LISTS:
        if name in frame.columns and (cells := _json_lists(frame[name].tolist())) is not None:
            frame[name] = pd.Series(cells, dtype=object)
    return frame


def _json_lists(cells: list[str]) -> list[Any] | None:
    """The cells as lists, where every one that holds something is a list in JSON; else None."""
    made: list[Any] = []
    for cell in cells:
        if not cell.strip():
            made.append(cell)
            continue
        if not cell.lstrip().startswith("["):
            return None
        try:
            made.append(orjson.loads(cell))
        except orjson.JSONDecodeError:
            return None
    return made if any(isinstance(cell, list) for cell in made) else None


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError(f"reading parquet needs pyarrow: {advise_extra('parquet')}") from None
    try:
        with path.open("rb") as stream:  # by itself Arrow opens no path that is no UTF-8
            return pd.read_parquet(stream, engine="pyarrow")
    except (pa.ArrowException, OSError) as problem:
        raise InputError(f"{path} is no readable parquet file: {problem}") from None


def load_hub(source: str, *, split: str, name: str | None) -> Any:
    """A split of a Hugging Face data set, through `datasets`."""
    try:
        import datasets
    except ImportError:
        raise MissingExtraError(
            f"{source!r} is no file here; data sets by name need the package datasets: {advise_extra('datasets')}"
        ) from None
    try:
        return datasets.load_dataset(source, name, split=split)
    except (OSError, ValueError) as problem:
        raise InputError(f"{source!r} is no file here and no data set that could be loaded: {problem}") from None


def read_table(path: str | Path, name: str, *others: str) -> pd.DataFrame:
    """One of evalkit's tables from a file, its column types restored.

    Parameters
    ----------
    path
        The file.
    name, *others
        Which table it is; of several the first whose columns are all there.

    Notes
    -----
    Empty cells are missing; a JSONL file without a line is an empty table. An explanation that is an empty
    text stays one, except from CSV, where nothing tells it from a missing one.
    """
    path = Path(path)
    frame = _read(path)
    if not len(frame.columns):
        return empty(name)
    fits = (one for one in (name, *others) if set(required_columns(one)) <= set(frame.columns))
    name = next(fits, name)
    kept = () if _form(path) in (".csv", ".tsv") else ("explanation",)
    texts = [column for column in TABLES[name] if column in frame.columns and column not in kept]
    blank = {
        column: frame[column].mask(frame[column] == "", None)
        for column in texts
        if frame[column].dtype == object or isinstance(frame[column].dtype, pd.StringDtype)
    }
    try:
        return check(frame.assign(**blank), name)
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None


def check_target(path: str | Path) -> None:
    """Whether `write_frame` could write there: to be asked before anything is paid.

    Raises
    ------
    InputError
        When the ending is unknown, or a folder is in the way or cannot be written.
    MissingExtraError
        When parquet needs a package that is not installed.
    """
    path = Path(path)
    if _form(path) == ".parquet":
        _need_pyarrow("writing")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file")
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise InputError(f"{path} cannot be written: {there} is {'read-only' if there.is_dir() else 'no folder'}")


def write_frame(frame: pd.DataFrame, path: str | Path) -> Path:
    """A DataFrame as a file whose form the ending says; written beside and moved, so never half there.

    In CSV and TSV, lists and mappings are written as JSON, booleans as ``true`` and ``false``, and what is
    missing as an empty cell.

    Raises
    ------
    InputError
        When the ending is unknown, a value cannot be written in that form, or the disk is full: what was there stays.
    MissingExtraError
        When parquet needs a package that is not installed.
    """
    path = Path(path)
    form = _form(path)
    try:
        Path(os.path.realpath(path)).parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as out:
            if form == ".parquet":
                _need_pyarrow("writing")
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


def _need_pyarrow(what: str) -> None:
    try:
        import pyarrow as pa  # noqa: F401  # only to say which extra is missing
    except ImportError:
        raise MissingExtraError(f"{what} parquet needs pyarrow: {advise_extra('parquet')}") from None


def records(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows as JSON values: what is missing is None, whatever its type was.

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
