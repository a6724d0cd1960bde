"""Folders of judgments: parquet files that are read part by part, and only the columns that are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeGuard, cast, runtime_checkable

import numpy as np
import orjson
import pandas as pd
from pandas.api.types import union_categoricals

from evalkit.errors import InputError, counted, listed
from evalkit.tables.files import read_parquet, release_memory
from evalkit.tables.schemas import JUDGMENT_KEY, SCORE_KEY, check

USED = [*JUDGMENT_KEY, "score", "label", "passed", "error", "level", "scale"]
"""The columns from which votes are made."""

PARTS_FILE = "_n_parts.json"
"""The file in which `judge_files` writes how many parts the items have."""


@runtime_checkable
class HasFolder(Protocol):
    """What `judge_files` returns."""

    @property
    def folder(self) -> Path:
        """The folder of the judgments."""


FolderLike = str | Path | HasFolder
"""A folder of judgments: its path, or what `judge_files` returned."""


def is_folder(source: object) -> TypeGuard[FolderLike]:
    """Whether an argument names a folder of judgments, and is no table."""
    return isinstance(source, (str, Path)) or (not isinstance(source, pd.DataFrame) and isinstance(source, HasFolder))


def parts_of(
    source: Any, of_part: Callable[[pd.DataFrame], pd.DataFrame] = lambda part: part, need: Iterable[str] = USED
) -> Iterator[Any]:
    """A table as it is; of a folder of judgments, what `of_part` makes of each part, one after the other.

    Each part has the columns `need`, and those of `read_parts` that are read where a file has them.
    """
    return map(of_part, read_parts(source, need)) if is_folder(source) else iter([source])


def read_parts(
    source: FolderLike, need: Iterable[str] = USED, wish: Iterable[str] = ("weight", "score_sd")
) -> Iterator[pd.DataFrame]:
    """The judgments of each file in turn, by the files' names: only these columns, with their types.

    Parameters
    ----------
    source
        The folder. All judgments of one item and criterion must be in one file, as `judge_files` writes them.
    need, wish
        Columns that every file must have, and columns that are read where a file has them; by default those of `vote`.

    Raises
    ------
    InputError
        When there is no such folder or no parquet file in it, a file has no judgments, parts that `judge_files` was
        to write are missing, or an item is in two files (known after the last file).
    MissingExtraError
        When pyarrow is not installed.
    """
    files = _files(Path(source) if isinstance(source, (str, Path)) else source.folder)
    need = list(dict.fromkeys([*need, *SCORE_KEY]))
    keys: list[Any] = []
    for file in files:
        frame = read_parquet(file, dict.fromkeys([*need, *wish]))
        try:
            part = check(frame, "judgments", need=need)
        except InputError as problem:
            raise InputError(f"{file}: {problem}") from None
        keys.append(pd.util.hash_pandas_object(part[SCORE_KEY], index=False).unique())
        yield part
    _refuse_split(files, keys)


def _files(folder: Path) -> list[Path]:
    """The files of a folder; InputError if `judge_files` was to write more of them."""
    if not folder.is_dir():
        read = (
            f"is a file; read it with evalkit.tables.read_table({str(folder)!r}, 'judgments'), where 'votes', 'scores'"
        )
        why = f"{read} are other kinds of tables, or pass" if folder.exists() else "was not found; pass"
        raise InputError(f"{folder} {why} a folder of judgments, such as judge_files writes")
    files = sorted(path for path in folder.glob("*.parquet") if not path.name.startswith(("_", ".")))
    tables, manifests = {path.stem for path in files}, {path.stem[1:] for path in folder.glob("_part-*.json")}
    counts = folder / PARTS_FILE
    if manifests or counts.exists():
        n_parts = _n_parts(counts) if counts.exists() else 0
        parts = {part_name(number) for number in range(n_parts)}
        if manifests - parts:
            fact = f"judge_files has not finished with {folder}"
            raise InputError(f"{fact}; wait until it has, or repeat the call: what was judged is kept")
        if missing := sorted(parts - (tables & manifests)):
            fact = f"{folder} has only {n_parts - len(missing)} of {counted(n_parts, 'part')}"
            advice = "repeat the call of judge_files: it judges what is missing"
            raise InputError(f"{fact}, without {listed(missing, most=5)}; {advice}")
    if not files:
        raise InputError(f"{folder} has no parquet files; expected a folder of judgments, such as judge_files writes")
    return files


def _n_parts(file: Path) -> int:
    try:
        return int(orjson.loads(file.read_bytes())["n_parts"])
    except (ValueError, KeyError, TypeError) as problem:
        text = f"{file} was not written by evalkit ({problem}); remove it and repeat the call of judge_files"
        raise InputError(text) from None


def part_name(number: int) -> str:
    """The name of a part's files.

    Examples
    --------
    >>> part_name(12)
    'part-000012'
    """
    return f"part-{number:06d}"


def _refuse_split(files: list[Path], keys: list[Any]) -> None:
    """InputError if an item and criterion is in two files: its votes would not be together."""
    every = np.concatenate(keys)
    order = np.argsort(every, kind="stable")
    of_file = np.repeat(np.arange(len(files)), [len(part) for part in keys])
    for at in np.flatnonzero(every[order][1:] == every[order][:-1]):
        one, other = (files[of_file[order[at + step]]] for step in (0, 1))
        ids, others = (set(read_parquet(file, ["item_id"])["item_id"].astype("str")) for file in (one, other))
        if both := ids & others:  # else two hashes are equal by chance
            fact = f"item {min(both)!r} has judgments in {one} and in {other.name}"
            advice = "write all judgments of an item and criterion into one file or"
            raise InputError(f"{fact}; {advice}, if they fit into memory, pass the table that pd.read_parquet returns")


def one_table(pieces: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Tables of the same columns as one; a category column has the categories of all pieces. The pieces are emptied."""
    frames = list(pieces)
    if len(frames) == 1:
        return frames[0]
    columns: dict[str, Any] = {}
    for name in map(str, frames[0].columns):
        parts = [frame.pop(name) for frame in frames]  # so that what is joined is freed, column by column
        if isinstance(parts[0].dtype, pd.CategoricalDtype):
            # without categories their type is another one
            parts = [part.cat.rename_categories(cast(Any, part.cat.categories.astype("str"))) for part in parts]
            columns[name] = union_categoricals(parts)
        else:
            columns[name] = pd.concat(parts, ignore_index=True)
        del parts
        release_memory()
    return pd.DataFrame(columns, copy=False)
