"""The tuner as static HTML and text, for exported notebooks and terminals."""

from __future__ import annotations

import html
from typing import Any

from evalkit.core.formatting import html_page, html_table, html_tiles, wrapped
from evalkit.errors import counted
from evalkit.notebook.judgments.item_table import Query, Row, page_of
from evalkit.notebook.tuner.tuning_session import Session

_ROWS = 10


def page_text(session: Session) -> str:
    """The session as text for a terminal."""
    tiles = [f"{one.title}: {one.value} ({'; '.join(filter(None, [one.note, one.moved]))})" for one in session.tiles()]
    return wrapped("\n".join([_head(session), *tiles]))


def page_html(session: Session) -> str:
    """The session as HTML: tiles, confusion matrix, and the items that need review first."""
    tiles = [(tile.value, tile.title, " · ".join(filter(None, [tile.note, tile.moved]))) for tile in session.tiles()]
    parts = [f"<p>{html.escape(_head(session))}</p>", html_tiles(tiles)]
    if matrix := _matrix(session):
        caption = "People's dev labels (rows) and the jury's labels (columns)"
        parts.append(html_table(matrix, texts=["people"], caption=caption))
    if rows := session.rows():
        shown = [_cells(row) for row in page_of(rows, Query(), _ROWS).rows]
        parts.append(html_table(shown, texts=list(shown[0]), caption=_caption(len(shown), rows)))
    return html_page([*parts, "<p class='note'>Run this cell to tune the rubric; the widget needs a kernel.</p>"])


def _caption(n_shown: int, rows: list[Row]) -> str:
    n_urgent = sum(row.urgency > 0 for row in rows)
    shown = "" if n_shown == len(rows) else f"the first {n_shown} of "
    need = f"{n_urgent or 'none'} {'needs' if n_urgent == 1 else 'need'} review"
    why = "(jury against people, newly broken, not fully scored, judges disagree)"
    return f"{shown}{counted(len(rows), 'item')}; {need} {why}{', shown first' if n_urgent else ''}"


def _head(session: Session) -> str:
    judges = ", ".join(judge.name for judge in session.drafts.pool if judge.name in session.drafts.active)
    what = f"{session.drafts.draft.id} {session.drafts.next_name}, criterion {session.shown_criterion}"
    head = f"{what}: {counted(len(session.items), 'item')}, judged by {judges}"
    if session.evaluation is None:
        return f"{head}; not judged yet"
    return f"{head}; showing {session.history.versions[session.runs.current].name}"


def _matrix(session: Session) -> list[dict[str, str]]:
    rows: dict[str, dict[str, str]] = {}
    for cell in session.cells():
        column = " ".join(filter(None, [cell.jury or "no label", cell.verdict]))
        rows.setdefault(cell.human, {"people": cell.human})[column] = str(cell.n)
    return list(rows.values())


def _cells(row: Any) -> dict[str, str]:
    judges = (" ".join(filter(None, [label or "–", row.conflicts.get(who)])) for who, label, _ in row.votes)
    return {
        "item": row.item_id,
        "people": "held out" if row.held else ", ".join(row.people.values()),
        "jury": " ".join(filter(None, [row.jury or row.status, row.conflicts.get("")])),
        "judges": ", ".join(judges),
        "change": row.change,
        "text": row.text[:160],
    }
