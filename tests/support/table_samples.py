"""A small table of each kind, and when two tables are the same."""

from __future__ import annotations

import numpy as np
import pandas as pd

from evalkit.tables.schemas import TABLES, table

# three values of each kind: plain, one that readers like to change, and missing where that is possible
VALUES = {
    "text": ["007", "1e5", None],
    "category": ["1", "да", None],
    "float64": [1.0, 0.25, np.nan],
    "boolean": [True, False, None],
    "bool": [True, False, False],
    "int64": [0, 1, 2],
    "Int64": [5, 7, None],
}


def sample(name: str) -> pd.DataFrame:
    """A table of three rows, the last with everything missing that may be."""
    columns = {column: list(VALUES[kind]) for column, kind in TABLES[name].items()}
    if "item_id" in columns:
        columns["item_id"] = ["007", "1", "x"]
    return table(name, columns)


def assert_same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    # the order of categories is that of appearance, which a sorted file may change; the storage of texts too
    pd.testing.assert_frame_equal(found, expected, check_categorical=False, check_dtype=False)
    for column, kind in expected.dtypes.items():
        assert found[column].dtype.name.split("[")[0] == kind.name.split("[")[0], column
