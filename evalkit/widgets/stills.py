"""The tuner without a script: what an exported notebook and a terminal show."""

from __future__ import annotations

import html
from typing import Any

from evalkit.errors import counted
from evalkit.figures import html_page, html_table, text_table
from evalkit.widgets.rows import Query, page_of
from evalkit.widgets.sessions import Session

__all__ = ["page", "text"]

_ROWS = 10


def text(session: Session) -> str:
    """The session on a terminal."""
    lines = [_head(session)]
    if tiles := session.tiles():
        lines.append(
            text_table([{"figure": t.title, "value": t.value, "note": t.note, "moved": t.moved} for t in tiles])
        )
    return "\n".join(lines)


def page(session: Session) -> str:
    """The session as HTML: tiles, matrix and the rows that need eyes first."""
    cells = "".join(
        f"<div class='tile'><b>{html.escape(tile.value)}</b><span>{html.escape(tile.title)}<br>"
        f"{html.escape(' · '.join(filter(None, [tile.note, tile.moved])))}</span></div>"
        for tile in session.tiles()
    )
    parts = [f"<p>{html.escape(_head(session))}</p>", f"<div class='tiles'>{cells}</div>" if cells else ""]
    if matrix := _matrix(session):
        parts.append(html_table(matrix, texts=["people"], caption="People's labels (rows) and the jury's, dev labels"))
    rows = page_of(session.rows(), Query(), _ROWS).rows
    if rows:
        shown = [_cells(row) for row in rows]
        parts.append(
            html_table(
                shown,
                texts=list(shown[0]),
                caption=f"What needs eyes: {len(shown)} of {counted(len(session.items), 'item')}",
            )
        )
    return html_page([*parts, "<p class='note'>Run the cell to tune: the widget needs a kernel.</p>"])


def _head(session: Session) -> str:
    rubric = session.draft
    judges = ", ".join(judge.name for judge in session.pool if judge.name in session.active)
    what = f"{rubric.id}@{rubric.label}, criterion {session.shown_criterion}"
    head = f"{what}: {counted(len(session.items), 'item')}, judged by {judges}"
    if session.evaluation is None:
        return f"{head}; not judged yet"
    return f"{head}; shown is {session.history.versions[session.current].label}"


def _matrix(session: Session) -> list[dict[str, str]]:
    rows: dict[str, dict[str, str]] = {}
    for cell in session.cells():
        rows.setdefault(cell.human, {"people": cell.human})[cell.jury or "no label"] = str(cell.n)
    return list(rows.values())


def _cells(row: Any) -> dict[str, str]:
    return {
        "item": row.item_id,
        "people": "held out" if row.held else ", ".join(row.people.values()),
        "jury": row.jury or row.status,
        "judges": ", ".join(label or "–" for _, label, _ in row.votes),
        "change": row.change,
        "text": row.text[:160],
    }
