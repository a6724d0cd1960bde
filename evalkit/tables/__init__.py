"""Tables: column contracts, every accepted input made canonical, labels."""

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

__all__ = [
    "JUDGMENT_KEY",
    "LABEL_KEY",
    "SCORE_KEY",
    "TABLES",
    "VOTE_KEY",
    "categorical",
    "check",
    "columns_of",
    "empty",
    "table",
]
