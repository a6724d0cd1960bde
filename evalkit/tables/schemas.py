"""Names and types of every table's columns; creating, checking and converting tables.

The long tables are plain DataFrames. `table(name, columns)` creates one. `check(frame, name)` checks a table from
outside: it reports missing columns and restores the types that a CSV file or a `concat` changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit.errors import InputError, listed

SCORE_KEY = ["rubric", "rubric_version", "item_id", "criterion"]
VOTE_KEY = [*SCORE_KEY, "judge"]
JUDGMENT_KEY = [*VOTE_KEY, "order", "sample"]
LABEL_KEY = ["item_id", "criterion", "annotator"]

# "text" is pandas' own str dtype (on pyarrow where it is installed); "category" holds texts.
_COLUMNS_OF_TYPE = {
    "text": ["item_id", "explanation", "key"],
    "category": [
        *("rubric", "rubric_version", "criterion", "judge", "annotator", "order", "label", "error", "source", "model"),
        *("level", "scale", "reason", "method", "options", "tied_labels", "status"),
    ],
    "boolean": ["passed", "order_flip"],
    "bool": ["tied"],
    "Int64": ["prompt_tokens", "completion_tokens"],
    "int64": ["sample", "n_samples", "n_scored", "n_judges", "n_criteria", "n_items", "n_partial"],
    "float64": [
        *("score", "score_norm", "agreement", "self_agreement", "disagreement", "first_rate", "weight", "cost_usd"),
        *("latency_s", "mean", "mean_norm", "low", "high", "worst", "best", "pass_rate"),
    ],
}
_TYPES = {column: kind for kind, columns in _COLUMNS_OF_TYPE.items() for column in columns}
_SCORE = ["score", "score_norm", "label", "passed"]
_MEASURE = ["level", "scale"]
_COLUMNS = {
    "labels": [*LABEL_KEY, "label"],
    "judgments": [
        *(*JUDGMENT_KEY, *_SCORE, "explanation", "error", "source", "model", "prompt_tokens", "completion_tokens"),
        *("cost_usd", "latency_s", "weight", "key", *_MEASURE),
    ],
    "votes": [
        *(*VOTE_KEY, *_SCORE, "reason", "agreement", "self_agreement", "n_samples", "n_scored", "tied", "weight"),
        *(*_MEASURE, "order_flip", "method", "options", "tied_labels", "first_rate"),
    ],
    "scores": [
        *(*SCORE_KEY, *_SCORE, "reason", "n_judges", "n_scored", "tied", "disagreement", "status", *_MEASURE),
        *("method", "options", "tied_labels"),
    ],
    "rubric_scores": [
        *("rubric", "rubric_version", "item_id", "score", "score_norm", "passed", "reason", "n_criteria", "n_scored"),
        "status",
        *(*_MEASURE, "options"),
    ],
    "summary": [
        *("rubric", "rubric_version", "criterion", "mean", "mean_norm", "low", "high", "worst", "best", "pass_rate"),
        *("n_items", "n_scored", "n_partial"),
    ],
}

TABLES = {name: {column: _TYPES[column] for column in columns} for name, columns in _COLUMNS.items()}
"""Table name -> column -> type."""

_OF_REPLIES = {
    "remark": "category", "fingerprint": "category", "repaired": "boolean", "repair_key": "text",
    "repair_source": "category", "repair_usd": "float64",
}  # fmt: skip
_OF_SCORES = {"repaired": "boolean"} | dict.fromkeys(
    ("score_sd", "score_mass", "score_low", "score_high", "pass_prob", "score_ab", "score_ba"), "float64"
)
_OF_SOME = (
    _OF_REPLIES | {"cut_chars": "Int64", "own_key": "text", "own_source": "category", "own_usd": "float64"} | _OF_SCORES
)
"""Columns that only some tables have -> their types; those of `_OF_REPLIES` depend on the replies."""
_MORE_COLUMNS = {"judgments": _OF_SOME, "votes": _OF_SCORES, "scores": _OF_SCORES, "rubric_scores": _OF_SCORES}
_BITS_OF_A_FRACTION = 16  # means of 512 samples have such numbers
_MAY_BE_EMPTY = ("item_id", "explanation")  # an empty text is itself there, and no missing value


def columns_of(name: str) -> list[str]:
    """The columns of a table, in order."""
    return list(TABLES[name])


def categorical(values: Iterable[Any]) -> pd.Categorical:
    """Strings as a categorical, its categories in order of first appearance; any other value is missing."""
    if not (isinstance(values, np.ndarray) and values.dtype == object):
        values = np.array([*(value if isinstance(value, str) else None for value in values)], object)
    codes, seen = pd.factorize(values)
    text = np.array([isinstance(value, str) for value in seen], dtype=bool)
    codes = np.append(np.where(text, np.cumsum(text) - 1, -1), -1)[codes]
    return pd.Categorical.from_codes(codes, pd.Index(seen[text], dtype=None if text.any() else object))


def _coerced(column: Any, kind: str) -> Any:
    if kind == "category":
        if isinstance(column, pd.Categorical) or (isinstance(column, pd.Series) and _fits(column.dtype, "category")):
            return column
        series = column if isinstance(column, pd.Series) else pd.Series(list(column), dtype=object)
        if series.dtype == object and pd.api.types.infer_dtype(series, skipna=True) != "string":
            series = series.map(id_text, na_action="ignore")  # cell by cell: to pandas, 1 and True are one value
        if series.dtype.kind == "f":
            series = pd.Series(as_decimals(series.to_numpy(dtype=np.float64, na_value=np.nan)), index=series.index)
        codes, seen = pd.factorize(series)
        text_codes, names = pd.factorize(np.array([id_text(name) for name in seen], dtype=object))
        values = pd.Categorical.from_codes(np.append(text_codes, -1)[codes], categories=pd.Index(names, dtype="str"))
        return pd.Series(values, index=series.index)
    if kind == "text":
        if not isinstance(column, pd.Series):
            return pd.Series(column, dtype="str")
        return (column.map(id_text, na_action="ignore") if column.dtype.kind in "fO" else column).astype("str")
    if not isinstance(column, pd.Series):
        return pd.Series(column, dtype=cast(Any, kind))
    if column.dtype == object or isinstance(column.dtype, pd.StringDtype):
        # astype alone takes the text "False" for true, and "3.0" for no whole number
        cells = column.astype(object)
        is_boolean = kind in ("bool", "boolean")
        # whole numbers with gaps stay exact
        column = as_booleans(cells) if is_boolean else pd.to_numeric(cells, dtype_backend="numpy_nullable")
    if kind in ("int64", "Int64") and column.dtype.kind == "f" and (column.dropna() % 1 != 0).any():
        raise ValueError("it contains a number that is not an integer")  # astype would cut it
    return column if column.dtype == kind else column.astype(cast(Any, kind))


def id_text(value: Any) -> str:
    """A cell as text: codes and ids that a CSV reader turned into numbers get their old form back."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        if abs(value) >= 2**53:
            raise ValueError(f"{value!r} was rounded when it was read; store such ids as strings")
        return str(int(value))
    return str(value)


def as_booleans(column: pd.Series) -> pd.Series:
    """Verdicts as pandas' boolean; their texts are read, too."""
    words = {"true": True, "false": False}
    values = column.astype(object).map(
        lambda value: words.get(value.lower(), value) if isinstance(value, str) else value
    )
    if wrong := [value for value in values.dropna().unique() if value not in (0, 1)]:
        raise InputError(f"{wrong[0]!r} is neither true nor false")
    return values.where(values.notna(), None).astype("boolean")


def as_decimals(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Numbers that were stored in 32 bits as the decimals that these stand for: .3, not .30000001192.

    A number of 64 bits is almost never one of 32 bits by chance, so a column that was converted, or joined to one of 64
    bits, is recognised, too. Whole numbers stay.
    """
    with np.errstate(over="ignore"):
        short = numbers.astype(np.float32)
    is_short = (short == numbers) & (np.floor(numbers) != numbers)
    # halves, quarters … are themselves; a decimal that was rounded to 24 bits uses nearly all of them
    if not (np.ldexp(np.frexp(numbers[is_short])[0], _BITS_OF_A_FRACTION) % 1).any():
        return numbers
    values, codes = np.unique(short[is_short], return_inverse=True)
    decimals = numbers.copy()
    decimals[is_short] = values.astype(str).astype(np.float64)[codes]
    return numbers if np.array_equal(decimals, numbers, equal_nan=True) else decimals


def _without_blanks(column: pd.Series) -> pd.Series:
    """Empty texts as missing values: a CSV file that is read with `keep_default_na=False` has them for these."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        blank = [text for text in column.dtype.categories if isinstance(text, str) and not text.strip()]
        return column.cat.remove_categories(blank) if blank else column
    if column.dtype == object:
        is_blank = column.map(lambda value: isinstance(value, str) and not value.strip()).astype(bool)
    else:
        is_blank = column.eq("") if isinstance(column.dtype, pd.StringDtype) else pd.Series(data=False)
    return column.mask(is_blank.fillna(value=False)) if is_blank.any() else column


def repaired_rows(frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Which rows of a checked table rest on a repaired reply; none where the column is missing."""
    repaired = frame.get("repaired", pd.Series(data=False, index=frame.index))
    return repaired.fillna(value=False).to_numpy(dtype=bool)


def table(name: str, columns: Mapping[str, Any]) -> pd.DataFrame:
    """A table with all its columns in order and of their types; columns not given are all-NA.

    Parameters
    ----------
    name
        One of `TABLES`.
    columns
        Lists, arrays or Series without meaningful index, all of one length.
    """
    kinds = TABLES[name]
    n_rows = len(next(iter(columns.values()))) if columns else 0
    made: dict[str, Any] = {}
    for column, kind in kinds.items():
        if (values := columns.get(column)) is None:
            values = pd.Categorical([None] * n_rows) if kind == "category" else [None] * n_rows
            if kind in ("int64", "bool") and n_rows:
                raise KeyError(f"column {column} of the {name} table cannot be missing")
        made[column] = _coerced(values, kind)
        if isinstance(made[column], pd.Series):
            made[column] = made[column].array
    made |= {column: values for column, values in columns.items() if column not in kinds}
    return pd.DataFrame(made, copy=False)


def with_columns_of_replies(judgments: pd.DataFrame) -> pd.DataFrame:
    """Judgments with every column that only some replies bring, so that all parts of a table have the same."""
    nothing = dict.fromkeys(_OF_REPLIES) | {"repaired": False}
    values: dict[str, Any] = {
        column: judgments[column]
        if column in judgments.columns
        else _coerced(pd.Series([nothing[column]] * len(judgments), dtype=object), kind)
        for column, kind in _OF_REPLIES.items()
    }
    others = [column for column in judgments.columns if column not in _OF_REPLIES]
    return judgments[others].assign(**{name: column.array for name, column in values.items()})


def empty(name: str) -> pd.DataFrame:
    """A table without rows, every column of its type."""
    return table(name, {column: [] for column in TABLES[name]})


def kind_of(source: Any) -> str:
    """The type of what stands in place of a DataFrame and, if pandas can make one of it, how.

    Examples
    --------
    >>> kind_of([{"item_id": "a"}]), kind_of(3)
    ('list; pass pd.DataFrame(table)', 'int')
    """
    kind = type(source)
    if callable(getattr(source, "to_pandas", None)):
        return f"{kind.__module__.split('.')[0]}.{kind.__name__}; pass table.to_pandas()"
    is_rows = isinstance(source, (list, tuple, Mapping, Iterator, np.recarray))
    return f"{kind.__name__}; pass pd.DataFrame(table)" if is_rows else kind.__name__


def check(frame: Any, name: str, *, need: Iterable[str] | None = None) -> pd.DataFrame:
    """A table from outside with its types restored; the argument is never changed.

    Parameters
    ----------
    frame
        A DataFrame with (at least) the needed columns; further columns are kept as they are.
    name
        One of `TABLES`.
    need
        Required columns; by default all of the table.

    Raises
    ------
    InputError
        When it is not a DataFrame, or columns are missing (the message lists missing and available ones) or have
        invalid values.
    """
    kinds = TABLES[name]
    hint = "; extract_labels makes one from columns of the items" if name == "labels" else ""
    if not isinstance(frame, pd.DataFrame):
        hint = _way_to_read(frame, name) or hint
        raise InputError(f"expected a {name} table (a DataFrame), got {kind_of(frame)}{hint}")
    if name == "votes" and "sample" in frame.columns and "n_samples" not in frame.columns:
        raise InputError("this is a judgments table, not votes: call vote(judgments) first")
    if name == "scores" and "judge" in frame.columns and "n_judges" not in frame.columns:
        raise InputError("this is a table of single judges, not scores: call aggregate(vote(judgments)) first")
    missing = [column for column in (kinds if need is None else need) if column not in frame.columns]
    if missing:
        raise InputError(
            f"not a {name} table: column {listed(missing)} missing (it has {listed(frame.columns, most=30)}){hint}"
        )
    if not frame.columns.is_unique and (twice := {*frame.columns[frame.columns.duplicated()]} & {*kinds}):
        raise InputError(f"the {name} table has column {listed(sorted(twice))} twice; keep one, or rename the other")
    # pandas would not know whether an index or a column of one name is meant
    plain: pd.DataFrame = frame.reset_index(drop=True) if {*frame.index.names} & {*frame.columns} else frame
    restored, dtypes = dict[str, Any](), dict(zip(plain.columns, plain.dtypes, strict=True))
    for column, kind in (kinds | _MORE_COLUMNS.get(name, {})).items():
        if column not in dtypes or (dtypes[column].kind in "biuf" and _fits(dtypes[column], kind)):
            continue
        given = plain[column]
        cells = given if column in _MAY_BE_EMPTY or given.dtype.kind in "biuf" else _without_blanks(given)
        if cells is given and _fits(given.dtype, kind):
            continue
        try:
            restored[column] = cells if _fits(cells.dtype, kind) else _coerced(cells, kind)
        except (TypeError, ValueError) as problem:
            raise InputError(f"column {column!r} of the {name} table is not {kind}: {problem}") from None
    for column in [name for name in ("score", "score_norm") if name in plain]:
        numbers = restored.get(column, plain[column]).to_numpy(dtype=np.float64)
        if (decimals := as_decimals(numbers)) is not numbers:
            restored[column] = decimals
    return plain.assign(**restored) if restored else plain


def _way_to_read(source: object, name: str) -> str:
    """How a path, an evaluation, or the folder that `judge_files` returns, becomes a table; empty for other things."""
    if isinstance(getattr(source, name, None), pd.DataFrame):
        return f"; pass its table, as in evaluation.{name}"
    if not isinstance(source, (str, PurePath)) and not hasattr(source, "folder"):
        return ""
    if name == "labels":
        return "; ek.load_labels reads a file"
    return "; read a file with ek.tables.read_table, and a folder of judge_files part by part"


def _fits(dtype: Any, kind: str) -> bool:
    if kind == "category":
        return isinstance(dtype, pd.CategoricalDtype) and dtype.categories.inferred_type in ("string", "empty")
    return isinstance(dtype, pd.StringDtype) if kind == "text" else bool(dtype == kind)
