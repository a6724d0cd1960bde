"""Tables in and out of files: JSONL, JSON, CSV, TSV and parquet."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import orjson
import pandas as pd

from evalkit.errors import InputError, MissingExtraError
from evalkit.tables.canonical import is_missing
from evalkit.tables.contracts import check

__all__ = ["load_hub", "read_frame", "read_table", "write_frame"]

_FORMS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")


def _form(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    form = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] == ".gz" else (suffixes[-1] if suffixes else "")
    if form not in _FORMS:
        raise InputError(f"{path} is of no known form; allowed endings are {', '.join(_FORMS)} (and .gz behind)")
    return form


def read_frame(path: str | Path) -> pd.DataFrame:
    """A DataFrame from a file, values as they stand there: texts stay text, cells of a CSV file are text.

    Raises
    ------
    InputError
        When the file is missing, empty, of an unknown form, or broken; JSONL errors name the line.
    """
    path = Path(path)
    form = _form(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    if form == ".parquet":
        return _read_parquet(path)
    if form in (".csv", ".tsv"):
        return _read_csv(path, "," if form == ".csv" else "\t")
    rows = _read_json(path) if form == ".json" else list(_read_lines(path))
    if not rows:
        raise InputError(f"{path} holds no rows")
    names = dict.fromkeys(name for row in rows for name in row)
    return pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names})


def _read_bytes(path: Path) -> bytes:
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()
    except (OSError, EOFError) as problem:
        raise InputError(f"{path} cannot be read: {problem}") from None
    return raw.removeprefix(b"\xef\xbb\xbf")


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_read_bytes(path).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as problem:
            raise InputError(f"{path}, line {number}: this is no JSON ({problem})") from None
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: expected an object with fields, got {type(row).__name__}")
        yield row


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
    try:
        # the Python parser takes cells of any length; empty cells stay empty text: CSV has no missing value
        return pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (ValueError, UnicodeDecodeError, OSError) as problem:
        raise InputError(f"{path} is no readable {path.suffix[1:].upper()}: {problem}") from None


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError("reading parquet needs pyarrow: pip install 'evalkit[parquet]'") from None
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except (pa.ArrowException, OSError) as problem:
        raise InputError(f"{path} is no readable parquet file: {problem}") from None


def load_hub(name_: str, *, split: str, name: str | None) -> Any:
    """A split of a Hugging Face data set, through `datasets`."""
    try:
        import datasets
    except ImportError:
        raise MissingExtraError(
            f"{name_!r} is no file here; data sets by name need the package datasets: pip install 'evalkit[datasets]'"
        ) from None
    try:
        return datasets.load_dataset(name_, name, split=split)
    except (OSError, ValueError) as problem:
        raise InputError(f"{name_!r} is no file here and no data set that could be loaded: {problem}") from None


def read_table(path: str | Path, name: str) -> pd.DataFrame:
    """One of evalkit's tables from a file, its column types restored."""
    frame = read_frame(path)
    blank = {column: frame[column].replace("", None) for column in frame.columns if frame[column].dtype.kind == "O"}
    blank |= {
        column: frame[column].where(frame[column] != "", None)
        for column in frame.columns
        if isinstance(frame[column].dtype, pd.StringDtype) and column != "explanation"
    }
    try:
        return check(frame.assign(**blank), name)
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None


def write_frame(frame: pd.DataFrame, path: str | Path) -> Path:
    """A DataFrame as a file whose form the ending says; written beside and moved, so never half there."""
    path = Path(path)
    form = _form(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    scratch = Path(name)
    try:
        if form == ".parquet":
            _write_parquet(frame, scratch)
        elif form in (".csv", ".tsv"):
            text = frame.to_csv(index=False, sep="," if form == ".csv" else "\t", lineterminator="\n")
            scratch.write_bytes(_packed(text.encode(), path))
        else:
            lines = [orjson.dumps(row, option=orjson.OPT_NON_STR_KEYS) for row in _rows(frame)]
            whole = b"[" + b",\n".join(lines) + b"]\n" if form == ".json" else b"".join(line + b"\n" for line in lines)
            scratch.write_bytes(_packed(whole, path))
        umask = os.umask(0)
        os.umask(umask)
        scratch.chmod(0o666 & ~umask)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
    return path


def _packed(raw: bytes, path: Path) -> bytes:
    return gzip.compress(raw, mtime=0) if path.suffix.lower() == ".gz" else raw


def _write_parquet(frame: pd.DataFrame, scratch: Path) -> None:
    try:
        import pyarrow as pa  # noqa: F401  # only to say which extra is missing
    except ImportError:
        raise MissingExtraError("writing parquet needs pyarrow: pip install 'evalkit[parquet]'") from None
    frame.to_parquet(scratch, engine="pyarrow", index=False)


def _rows(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    columns = [(str(name), frame[name].astype(object).tolist()) for name in frame.columns]
    for at in range(len(frame)):
        yield {name: _plain(values[at]) for name, values in columns}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        return [_plain(element) for element in value.tolist()]
    return None if is_missing(value) else cast(Any, value)
