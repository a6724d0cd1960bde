"""Tables: items in their canonical form, the columns of every table, files in and out."""

from evalkit.tables.files import check_target, read_frame, read_table, records, write_frame
from evalkit.tables.items import ItemsLike, as_items, load_items
from evalkit.tables.schemas import (
    JUDGMENT_KEY,
    LABEL_KEY,
    SCORE_KEY,
    TABLES,
    VOTE_KEY,
    categorical,
    check,
    columns_of,
    empty,
    required_columns,
    table,
)
from evalkit.tables.values import canonical, canonical_text, input_text, is_missing

__all__ = [
    "ItemsLike",
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
    "check_target",
    "columns_of",
    "empty",
    "input_text",
    "is_missing",
    "load_items",
    "read_frame",
    "read_table",
    "records",
    "required_columns",
    "table",
    "write_frame",
]
