"""Tables: column contracts, every accepted input made canonical, labels."""

from evalkit.tables.canonical import canonical, canonical_text, input_text, is_missing
from evalkit.tables.contracts import (
    JUDGMENT_KEY,
    LABEL_KEY,
    SCORE_KEY,
    TABLES,
    VOTE_KEY,
    categorical,
    check,
    columns_of,
    empty,
    table,
)
from evalkit.tables.files import read_frame, read_table, write_frame
from evalkit.tables.items import as_items, load_items
from evalkit.tables.labels import labels

__all__ = [
    "JUDGMENT_KEY",
    "LABEL_KEY",
    "SCORE_KEY",
    "TABLES",
    "VOTE_KEY",
    "as_items",
    "canonical",
    "canonical_text",
    "categorical",
    "check",
    "columns_of",
    "empty",
    "input_text",
    "is_missing",
    "labels",
    "load_items",
    "read_frame",
    "read_table",
    "table",
    "write_frame",
]
