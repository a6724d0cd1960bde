"""Items: every accepted source as one DataFrame with text ids and values in one canonical form."""

from __future__ import annotations

import datetime as dt
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from types import NoneType
from typing import Any, Protocol

import numpy as np
import pandas as pd

from evalkit.core.images import Image, image_in
from evalkit.core.reply_keys import canonical_json
from evalkit.errors import InputError, listed
from evalkit.tables.message_files import cut_files
from evalkit.tables.schemas import kind_of

LIST_INPUTS = ("context", "conversation")
"""Inputs that may be lists; in a CSV file they are text."""
_SCALARS = (str, int, float, bool, np.generic)
_MOST_LEVELS = 400  # Python itself stops at about 500 mappings in one another


class _HubDataset(Protocol):
    """A `datasets.Dataset`."""

    def to_pandas(self) -> Any:
        """Its rows as a DataFrame."""


ItemsLike = pd.DataFrame | pd.Series | Sequence[Mapping[str, Any]] | Mapping[str, Any] | _HubDataset
"""Items: a DataFrame, a Series (one row), a list of mappings, one mapping or a `datasets.Dataset`."""


def as_items(source: ItemsLike, *, item_id: str | None = None, columns: Iterable[str] | None = None) -> pd.DataFrame:
    """Items in their canonical form.

    Parameters
    ----------
    source
        A DataFrame, a Series (one row), a `datasets.Dataset`, a list of mappings or one mapping.
    item_id
        The column that holds the ids; by default ``item_id``, else the (unique) index as text.
    columns
        Keep only these columns, if present; by default all.

    Returns
    -------
    pandas.DataFrame
        `item_id` (text, unique) first, then the columns as they came, values canonical (see
        `canonical`), missing values None (NaN in text columns); the index counts from 0.

    Raises
    ------
    InputError
        For repeated or missing ids, a source that is not a table, or values that are not JSON.

    Notes
    -----
    An item has the same form, and the same reply key, whatever it was read from, unless the source itself lost
    something: CSV cells are text, so lists, mappings and ``3.0`` come back as text, and empty texts as missing
    values; 32-bit floats are not the decimals that were rounded to them; integers beyond 2**53 in a float column
    are rounded.

    Examples
    --------
    >>> as_items([{"answer": "yes"}, {"answer": "no"}]).to_dict("list")
    {'item_id': ['0', '1'], 'answer': ['yes', 'no']}
    """
    frame = as_frame(source)
    names = pd.Index([str(column) for column in frame.columns])
    if names.has_duplicates:
        raise InputError(f"the items have duplicate columns: {listed(names[names.duplicated()])}")
    name = item_id or ("item_id" if "item_id" in frame.columns else None)
    if name is not None and name not in frame.columns:
        raise InputError(f"the items have no column {name!r} for the ids; available: {listed(frame.columns, most=30)}")
    lost = {"group_id", "system_id"} & {*frame.index.names} - {*frame.columns}
    if name is not None and lost:
        raise InputError(f"the items' index has {listed(lost)}, which is no column; pass df.reset_index()")
    ids = id_texts(frame.index if name is None else frame[name], name)
    if len(set(ids)) < len(ids):
        where = "the index" if name is None else f"column {name!r}"
        doubled = pd.Index(ids)[pd.Index(ids).duplicated()]
        raise InputError(
            f"ids must be unique; repeated in {where}: {listed(doubled.unique())}; pass another column as item_id, or "
            "number the rows with reset_index"
        )
    wanted = None if columns is None else set(columns)
    made: dict[str, Any] = {"item_id": pd.array(ids, dtype="str")}
    for column in frame.columns:
        if column not in (name, "item_id") and (wanted is None or column in wanted):
            made[str(column)] = _values(frame[column], str(column), ids)
    return pd.DataFrame(made)


def as_frame(source: Any) -> pd.DataFrame:
    """A source of items as a DataFrame, with its columns unchanged and unchecked."""
    if isinstance(source, pd.DataFrame):
        return source
    if isinstance(source, pd.Series):
        return as_frame([dict(source)]).set_axis([0 if source.name is None else source.name])
    if type(source).__module__.split(".")[0] == "datasets" and hasattr(source, "column_names"):
        return _from_hub(source)
    if isinstance(source, Mapping):
        refuse_columns(source)
        return as_frame([source])
    if isinstance(source, Sequence) and not isinstance(source, (str, bytes)):
        if not all(issubclass(kind, Mapping) for kind in {*map(type, source)}):
            wrong = next(at for at, row in enumerate(source) if not isinstance(row, Mapping))
            raise InputError(
                f"item {wrong} of the list: expected a mapping of fields, got {type(source[wrong]).__name__}"
            )
        # built column by column: the constructor would turn whole numbers with gaps into floats
        names = dict.fromkeys(name for row in source for name in row)
        return pd.DataFrame({name: pd.Series([row.get(name) for row in source], dtype=object) for name in names})
    raise InputError(
        f"expected items as a DataFrame, a datasets.Dataset, a list of dicts or one dict, got {kind_of(source)}; for a "
        "file or the name of a data set, call load_items first (tables.read_frame: any table)"
    )


def with_typed_ids(source: ItemsLike, item_id: str | None = None) -> pd.DataFrame:
    """Items as a DataFrame, their ids with the type that pandas gives them; rows without ids are numbered in texts."""
    if isinstance(source, pd.DataFrame):
        return source
    frame, name = as_frame(source), item_id or "item_id"
    frame = frame.set_axis(frame.index.astype("str"))
    return frame.assign(**{name: frame[name].infer_objects()}) if name in frame else frame


def refuse_columns(source: Mapping[Any, Any], where: str = "this is") -> None:
    """InputError for columns with their cells, as pandas' `to_dict` and `to_json` make: they are no item.

    One item may have a list in each field too, as turns and criteria, but hardly texts in two of them.
    """
    columns: dict[str, list[Any]] = {}
    for name, cells in source.items():
        if isinstance(cells, Mapping) and [*map(str, cells)] == [*map(str, range(len(cells)))]:
            columns[name] = [*cells.values()]
        elif isinstance(cells, (list, tuple, pd.Series)) or (isinstance(cells, np.ndarray) and cells.ndim):
            columns[name] = [*cells]
        else:
            return
    if len(columns) < 2 or len({*map(len, columns.values())}) > 1 or not any(columns.values()):
        return
    kinds = {name: {*map(type, cells)} for name, cells in columns.items()}
    has_objects = any(issubclass(kind, Mapping) for found in kinds.values() for kind in found)
    of_texts = [
        name for name, found in kinds.items() if name not in LIST_INPUTS and not found & {list, dict, np.ndarray}
    ]
    if len(of_texts) > has_objects:
        raise InputError(
            f"{where} a mapping with a list in each field ({listed(columns)}), as the columns of a table are; for one "
            "item per row pass pd.DataFrame(…) of it (write a file with to_json(path, orient='records')), for one item "
            "a list that holds it"
        )


def _from_hub(source: Any) -> pd.DataFrame:
    """A `datasets.Dataset` with the names of its classes, whose numbers are no codes of a scale."""
    if isinstance(source.column_names, Mapping):
        raise InputError(
            f"this is a {type(source).__name__} with the splits {listed(source.column_names)}; choose one of them, as "
            f"in data[{next(iter(source.column_names), 'train')!r}]"
        )
    form = getattr(source, "format", {"type": None})  # a stream has none
    is_changed = form["type"] == "custom"  # by a transform, which decides what a row is
    if is_changed or source.features is None:  # of a stream whose types are not known
        frame = as_frame(list(source if is_changed else source.with_format(None)))
    else:
        hides_columns = not form.get("output_all_columns", True)
        frame = pd.DataFrame(source.to_pandas(), columns=form["columns"] if hides_columns else None)
    for name, feature in (source.features or {}).items():
        is_class = type(feature).__name__ == "ClassLabel" and name in frame
        # a transform may give values of its own, which are no numbers of classes
        if is_class and not (is_changed and frame[name].tolist() != list(source.with_format(None)[name])):
            codes = [-1 if is_missing(code) else int(code) for code in frame[name]]
            frame[name] = pd.Series([feature.names[code] if code >= 0 else None for code in codes], dtype=object)
    return frame


def id_texts(source: Any, name: str | None) -> list[str]:
    """The ids of a column (or of the index, without a name) as texts; they may repeat.

    Raises
    ------
    InputError
        For a value that cannot be an id, with its row.
    """
    values = source.tolist()
    where = "the index" if name is None else f"column {name!r}"
    ids: list[str] = list(map(str, values)) if source.dtype.kind in "iu" else []
    for at, value in enumerate(values if not ids else ()):
        if isinstance(value, int) and not isinstance(value, bool):
            ids.append(str(value))  # also beyond 64 bits
            continue
        text = canonical(value) if isinstance(value, _SCALARS) or value is None else None
        if text is None or isinstance(text, bool) or text == "":
            if isinstance(value, tuple):
                if name is not None:
                    raise InputError(
                        f"row {at} has an invalid id in {where}: {value!r}; make one text of them, as in "
                        f"items[{name!r}].map(lambda id: '/'.join(map(str, id)))"
                    )
                levels = f" ({listed(source.names)})" if any(source.names) else ""
                raise InputError(
                    f"the items' index has several levels{levels}, so it is no id of a row; pass df.reset_index(): "
                    "then the levels are columns"
                )
            raise InputError(f"row {at} has an invalid id in {where}: {value!r}; ids must be strings or numbers")
        if isinstance(value, (float, np.floating)) and abs(float(value)) >= 2**53:
            raise InputError(
                f"row {at} has the id {value!r} in {where}, which was rounded when it was read, so that ids may be "
                "confused; store ids of so many digits as strings"
            )
        ids.append(str(text))
    return ids


def _values(column: pd.Series, name: str, ids: list[str]) -> pd.Series:
    if column.dtype.kind in "iub" and not column.hasnans:
        return pd.Series(column.tolist(), dtype=column.dtype)
    values: list[Any] = []
    cells = column.tolist()
    if name == "image":  # a column of texts would copy each image
        cells = [cut_files(cell) if isinstance(cell, str) else cell for cell in cells]
    try:
        # most cells are such texts
        values.extend(c if type(c) is str and c.isascii() and "\r" not in c else canonical(c) for c in cells)
    except InputError as problem:
        raise InputError(f"item {ids[len(values)]!r}, column {name!r}: {problem}") from None
    return pd.Series(values, dtype="str" if set(map(type, values)) <= {str, NoneType} else object)


def canonical_text(text: str) -> str:
    """NFC with LF line ends, so that equal characters give equal texts."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() or unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def is_missing(value: object) -> bool:
    """True for None, NaN, NaT and pandas' NA."""
    if value is None:
        return True
    if isinstance(value, (float, np.floating)):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


def canonical(value: Any, level: int = 0) -> Any:
    r"""A value as plain Python: arrays to lists, numpy to Python, integral floats to int, times to ISO text.

    Missing values become None; missing fields of mappings are dropped; text is NFC with LF. `level` counts the values
    that hold this one.

    Raises
    ------
    InputError
        For values that are not JSON: bytes, sets, functions, infinities, integers beyond 64 bits, and
        invalid text; and for what is nested more than 400 levels deep.

    Examples
    --------
    >>> canonical({"n": 3.0, "when": None, "lines": "a\r\nb"})
    {'n': 3, 'lines': 'a\nb'}
    """
    if isinstance(value, str):
        if value.isascii() and "\r" not in value:
            return value if type(value) is str else str(value)
        text = canonical_text(str(value))
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError("the text has half a surrogate pair, so it cannot be sent or stored; remove it") from None
        return text
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, (list, tuple)):
        _check_level(level)
        return list(map(canonical, value, repeat(level + 1)))
    if (image := value if isinstance(value, Image) else image_in(value)) is not None:
        return image
    if isinstance(value, Mapping):
        _check_level(level)
        return _mapping(value, level + 1)
    if isinstance(value, (np.ndarray, np.generic)):
        return canonical(_unboxed(value), level)
    if is_missing(value):
        return None
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    text = (
        f"a field of an item cannot have the type {type(value).__name__}; use strings, numbers, lists or dicts, and "
        "for an image a PNG, JPEG or WebP"
    )
    raise InputError(text)


def _unboxed(value: Any) -> Any:
    """A numpy value as a Python value; times stay exact (`item` and `tolist` turn nanoseconds into plain numbers)."""
    if value.dtype.kind != "M":
        return value.tolist()
    return pd.Timestamp(value[()]) if value.ndim == 0 else list(value)


def _number(value: float) -> float | int | None:
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise InputError("an integer in an item must fit in 64 bits; pass a larger one as a string")
        return int(value)
    if math.isnan(value):
        return None
    if math.isinf(value):
        raise InputError("a number in an item must not be infinite")
    return int(value) if value.is_integer() and abs(value) < 2**63 else float(value)


def _check_level(level: int) -> None:
    if level >= _MOST_LEVELS:
        raise InputError(f"it is nested more than {_MOST_LEVELS} levels deep; write what is inside as a text")


def _mapping(value: Mapping[Any, Any], level: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for given, field in value.items():
        if (name := canonical(str(given))) in fields:
            raise InputError(f"two keys of a mapping become the same text, {name!r} (as 1 and '1' do); rename one")
        fields[name] = canonical(field, level)
    return {name: field for name, field in fields.items() if field is not None}


def input_text(value: Any) -> Any:
    """A canonical value as it is hashed and shown: scalars as text, so that a CSV and a JSON file agree.

    Lists and mappings stay, with their scalars in canonical form.
    """
    return canonical_json(value).decode() if isinstance(value, (bool, int, float)) else value
