"""What the view is sent: the session's state as plain JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from evalkit.core.rules import AGGREGATE_RULES
from evalkit.engine import explain
from evalkit.errors import counted
from evalkit.notebook.item_table import FILTERS, Page, Row
from evalkit.notebook.rubric_form import form_of
from evalkit.notebook.session import Session
from evalkit.rubrics import diff
from evalkit.rubrics.prompts import lint, list_templates

__all__ = ["advice_of", "board_of", "draft_of", "item_of", "jury_of", "page_payload", "rows_payload", "unscored_of"]


def draft_of(session: Session, revision: int, said: Mapping[str, Any]) -> dict[str, Any]:
    """The rubric as it is edited; the view redraws its fields when `revision` changes.

    `said` is the last message about it; where that has a fault, another view shows it as it was typed.
    """
    draft = session.draft
    findings = lint(draft) if not session.problem else None
    return {
        "revision": revision,
        "said": str(said.get("said", "")),
        "typed": {key: said[key] for key in ("form", "text") if key in said} if session.problem else {},
        "id": draft.id,
        "label": draft.label,
        "edited": draft.edited,
        "form": form_of(draft),
        "yaml": str(draft),
        "problem": session.problem,
        "warnings": [] if findings is None else [f"{row.where}: {row.message}" for row in findings.itertuples()],
        "templates": list_templates(),
    }


def jury_of(session: Session, said: str = "") -> dict[str, Any]:
    """Judges, samples, rule and budget; `said` marks the last message about them, taken in or refused."""
    return {
        "said": said,
        "judges": [
            {"name": judge.name, "on": judge.name in session.active, "weight": judge.weight} for judge in session.pool
        ],
        "samples": session.samples,
        "aggregate": session.aggregate,
        "aggregates": list(AGGREGATE_RULES),
        "budget_usd": session.budget_usd,
        "n_items": len(session.items),
    }


def board_of(session: Session) -> dict[str, Any]:
    """Tiles, matrix and versions."""
    evaluation = session.evaluation
    names = session.draft.names if evaluation is None else evaluation.rubric.names
    return {
        "criteria": list(names),
        "criterion": session.shown_criterion,
        "tiles": [tile.to_dict() for tile in session.tiles()],
        "cells": [asdict(cell) for cell in session.cells()],
        "split": bool((session.book.table["part"] == "held-out").any()),
        "held_out": session.held_out,
        "strays": session.book.strays,
        "off_scale": session.n_off_scale,
        "elsewhere": _elsewhere(session),
        "annotator": session.annotator,
        "versions": [
            {
                "key": key,
                "label": version.label,
                "at": version.at,
                "jury": f"{len(version.judges)} × {version.samples}, {version.aggregate}",
            }
            for key, version in session.history.versions.items()
        ],
        "current": session.current,
        "against": session.against,
        "diff": _diff_of(session),
    }


def _elsewhere(session: Session) -> dict[str, int]:
    """Labels of criteria that the shown version has not, by criterion: one was renamed, say."""
    if session.evaluation is None:
        return {}
    names = session.book.table["criterion"].astype(str)
    known = names[~names.isin(session.evaluation.rubric.names)].value_counts(sort=False)
    return {str(name): int(n) for name, n in known.items()}


def _diff_of(session: Session) -> list[str]:
    """In words, what the version that is shown has otherwise than the one that it is compared with."""
    versions = session.history.versions
    now, last = versions.get(session.current), versions.get(session.against)
    if now is None or last is None:
        return []
    lines = diff(last.rubric, now.rubric).splitlines()
    for what, one, other in (
        ("judges", *(", ".join(judge.name for judge in version.judges) for version in (now, last))),
        ("samples", now.samples, last.samples),
        ("aggregate", now.aggregate, last.aggregate),
    ):
        if one != other:
            lines.append(f"{what}: {one} instead of {other}")
    return lines or ["the rubric is worded the same; weights or settings of judges differ"]


def page_payload(session: Session) -> dict[str, Any]:
    """One page of rows, and the query that it answers."""
    made = rows_payload(session.page(), len(session.items))
    return made | {"query": asdict(session.query), "judged": session.evaluation is not None}


def rows_payload(page: Page, n_items: int) -> dict[str, Any]:
    """One page of rows."""
    return {
        "rows": [_row(row) for row in page.rows],
        "n": page.n,
        "page": page.page,
        "n_pages": page.n_pages,
        "n_items": n_items,
        "filters": [[name, title, page.counts.get(name, 0)] for name, (title, _) in FILTERS.items()],
    }


def _row(row: Row) -> dict[str, Any]:
    values = asdict(row)
    values["split"] = None if math.isnan(row.split) else round(row.split, 2)
    return values


def item_of(session: Session) -> dict[str, Any]:
    """The selected item, or nothing."""
    return session.detail(session.selected) if session.selected else {}


def advice_of(session: Session) -> dict[str, Any]:
    """The suggested edits, and whom one can ask for some."""
    proposals = session.proposals
    base = session.history.versions.get(proposals.base)
    return {
        "judges": [judge.name for judge in session.pool],
        "judge": proposals.judge or session.pool[0].name,
        "base": proposals.base,
        "of": "" if base is None else base.label,
        "head": proposals.head,
        "notes": list(proposals.notes),
        "rows": [
            {
                "where": row.edit.where,
                "was": row.edit.was,
                "text": row.edit.text,
                "reason": row.edit.reason,
                "key": row.key,
                "effects": [asdict(effect) for effect in row.effects],
            }
            for row in proposals.rows
        ],
        "held": bool((session.book.table["part"] == "held-out").any()),
    }


def unscored_of(judgments: pd.DataFrame) -> list[str]:
    """What went unscored and what to do, one line a reason."""
    return [
        f"{row.judge}: {counted(int(str(row.n)), 'judgment')} {str(row.error).replace('_', ' ')} ({row.what_to_do})"
        for row in explain(judgments).itertuples()
    ]
