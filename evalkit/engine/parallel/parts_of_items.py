"""The parts of a source of items: rows of files, batches of data sets, partitions of Dask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.errors import InputError, listed
from evalkit.tables.files import FilePart, parts_of_file
from evalkit.tables.items import as_frame


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a Dask DataFrame, computed where it is judged."""

    frame: Any

    def read(self) -> pd.DataFrame:
        """The rows. Dask's cluster is not asked: its workers may all be busy with parts, of which this is one."""
        try:
            return pd.DataFrame(self.frame.compute(scheduler="synchronous"))
        except ValueError as problem:
            if "Missing dependency" not in str(problem):
                raise
            text = "the partition is in the memory of Dask's workers; pass the DataFrame as it was before persist()"
            raise InputError(text) from None


ItemPart = FilePart | Partition | pd.DataFrame


def prepare(source: Any, item_id: str | None) -> Any:
    """A source that can be split again with the same rows in each part.

    A Ray data set is computed now, in order: later, joblib's workers may occupy the CPUs that its tasks wait for.

    Raises
    ------
    InputError
        If a Dask DataFrame has no column of ids: its partitions may repeat the numbers of their rows.
    """
    if _is_dask(source) and (item_id or "item_id") not in source.columns:
        fact = f"the Dask DataFrame has no column {item_id or 'item_id'!r} for the ids"
        raise InputError(f"{fact}; available: {listed(source.columns, most=30)}; pass the column as item_id")
    if _library(source) != "ray":
        return source
    options = source.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        return source.materialize()
    finally:
        options.preserve_order = before


def split(source: Any, rows: int) -> Iterator[ItemPart]:
    """The source in parts of so many rows; a Dask DataFrame in its partitions.

    Raises
    ------
    InputError
        If a file is missing or broken, or the source is none of items.
    """
    paths = [source] if isinstance(source, (str, Path)) else source
    if isinstance(paths, Sequence) and paths and all(isinstance(path, (str, Path)) for path in paths):
        for path in paths:
            files = sorted(glob(str(path), recursive=True)) if has_magic(str(path)) else [str(path)]  # noqa: PTH207
            if not files:
                raise InputError(f"no file matches {str(path)!r}")
            for file in files:
                yield from parts_of_file(file, rows)
    elif _is_dask(source):
        yield from (Partition(source.partitions[number]) for number in range(source.npartitions))
    elif _library(source) == "ray":
        yield from _numbered(source.iter_batches(batch_size=rows, batch_format="pandas"))
    elif type(source).__name__ == "IterableDataset":  # of datasets, which may not be installed
        yield from _numbered(map(pd.DataFrame, source.iter(batch_size=rows)))
    else:
        for frame in source if isinstance(source, Iterator) else [as_frame(source)]:
            yield from (frame.iloc[first : first + rows] for first in range(0, len(frame), rows))


def _library(source: Any) -> str:
    return type(source).__module__.split(".")[0]


def _is_dask(source: Any) -> bool:
    return _library(source) == "dask" and hasattr(source, "partitions") and hasattr(source, "columns")


def _numbered(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The frames with their rows numbered through."""
    first = 0
    for frame in frames:
        yield frame.set_axis(range(first, first + len(frame)))
        first += len(frame)
