"""The rows of the tuner's table as a CSV file: own columns, texts, labels, verdicts of both versions, reasons."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pandas as pd

from evalkit.core.files import whole
from evalkit.notebook.judgments.item_table import page_of
from evalkit.notebook.tuner.tuning_session import Session
from evalkit.tables.schemas import LABEL_KEY

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def export(session: Session) -> str:
    """Write the rows of the present filter beside the session's file, and say where."""
    table = exported(session)
    path = session.folder / f"{session.name}-{session.history.versions[session.runs.current].name}.export.csv"
    with whole(path) as out:
        cells = table.astype(object).where(table.notna(), "").map(_cell)
        out.write(cells.to_csv(index=False).encode("utf-8-sig"))  # spreadsheets know UTF-8 by its mark
    return f"exported {len(table):,} of {len(session.items):,} items as {path}"


def exported(session: Session) -> pd.DataFrame:
    """The rows of the present filter in their order, as `Evaluation.wide` has them; of held-out labels, none.

    The columns of the version compared with end with its name.
    """
    shown, last, labels = session.runs.loaded(), session.runs.compared, session.label_log.table
    dev = labels.loc[(labels["part"] == "dev").to_numpy(), [*LABEL_KEY, "label"]]
    people = shown.items.columns.intersection(labels["annotator"].astype(str).tolist())  # with held-out labels
    table = replace(shown, labels=dev).wide().drop(columns=people).set_index("item_id")
    if last is not None:
        before = replace(last, labels=None).wide().set_index("item_id")
        judged = before[before.columns.difference(last.items.columns, sort=False)]
        table = table.join(judged.add_suffix(f" {session.history.versions[session.runs.against].name}"))
    rows = page_of(session.rows(), session.query, len(session.items)).rows
    return table.loc[[row.item_id for row in rows]].assign(change=[row.change for row in rows]).reset_index()


def _cell(value: Any) -> str:
    """A cell that a spreadsheet would compute gets a quote before it."""
    text = str(value)
    with suppress(ValueError):
        float(text)
        return text
    return f"'{text}" if text.startswith(_FORMULAS) else text
