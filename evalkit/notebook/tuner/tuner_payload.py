"""The session as plain JSON values, as they are sent to the screen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from evalkit.core.settings import default_cache, shown_cache
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES
from evalkit.errors import EvalkitError, counted
from evalkit.evaluation.checked_arguments import columns_of
from evalkit.notebook.judgments.headline_numbers import Point
from evalkit.notebook.judgments.item_details import item_texts, level_keys
from evalkit.notebook.judgments.item_table import page_texts
from evalkit.notebook.judgments.run_notices import notice, notices
from evalkit.notebook.tuner.decision_sentence import before_run, decision_payload
from evalkit.notebook.tuner.judge_addresses import OWN, server_of
from evalkit.notebook.tuner.rubric_form import form_of
from evalkit.notebook.tuner.tuning_session import Session
from evalkit.notebook.tuner.version_history import changes_of
from evalkit.rubrics.prompt_builder import list_templates
from evalkit.rubrics.scales import number


def draft_payload(session: Session, revision: int, message: Mapping[str, Any]) -> dict[str, Any]:
    """The draft; the screen redraws its fields when `revision` changes.

    `message` is the last one about the draft. If it was invalid, other views show what was typed.
    """
    drafts, draft, problem = session.drafts, session.drafts.draft, session.drafts.problem
    name, findings = drafts.next_name, None if problem else draft.lint()
    return {
        "revision": revision,
        "answers": str(message.get("id", "")),
        "typed": {key: message[key] for key in ("form", "text") if key in message} if problem else {},
        "id": draft.id,
        "name": name,
        "ran": name in {version.name for version in session.history.versions.values()},
        "differs": _draft_differs(session),
        "edited": draft.edited,
        "undo": bool(drafts.edits or problem),
        "redo": bool(drafts.undone),
        "form": form_of(draft),
        "yaml": str(draft),
        "problem": problem,
        "warnings": [] if findings is None else [f"{row.where}: {row.message}" for row in findings.itertuples()],
        "templates": list_templates(),
    }


def _draft_differs(session: Session) -> str:
    """In what the draft differs from the version shown, in words; empty if in nothing, or if nothing was run."""
    shown = session.history.versions.get(session.runs.current)
    with suppress(EvalkitError):  # an invalid draft
        places = [] if shown is None else [change.where for change in changes_of(shown, session.drafts.next_version())]
        kind_of = {place: "question" if place.endswith(": description") else "setting" for place in places}
        kinds = Counter("level" if ": level " in place else kind_of[place] for place in places)
        if shown is not None and kinds:
            words = " and ".join(counted(n, kind) for kind, n in kinds.items())
            return f"{words} {'differs' if len(places) == 1 else 'differ'} from {shown.name}"
    return ""


def jury_payload(session: Session, message_id: str = "") -> dict[str, Any]:
    """Judges, samples, rule and budget; `message_id` is of the last message about them, accepted or refused."""
    drafts = session.drafts
    servers = sorted({*map(server_of, drafts.pool)} - {""})
    return {
        "answers": message_id,
        "judges": [
            {"name": judge.name, "on": judge.name in drafts.active, "weight": judge.weight, "server": server_of(judge)}
            for judge in drafts.pool
        ],
        "servers": servers and [*servers, OWN],
        "samples": drafts.samples,
        "aggregate": str(drafts.aggregate),
        "aggregates": list(dict.fromkeys([*AGGREGATE_RULES, str(drafts.aggregate)])),
        "budget_usd": drafts.budget_usd,
        "n_items": len(session.items),
        "cache": shown_cache(session.setup.cache or default_cache()),
    }


def figures_payload(session: Session) -> dict[str, Any]:
    """Tiles, confusion matrix, versions, and which labels do not count."""
    labels, points = session.labels, session.points()
    versions, criterion = session.history.versions, session.shown_criterion
    current, against = session.runs.current, session.runs.against
    changes = changes_of(versions[against], versions[current]) if against and current else []
    cells, labels_in_use = session.cells(), [label for row in session.rows() for label in row.counted.values()]
    beside = Counter(labels_in_use) - Counter({label: len(labels_in_use) for label in {cell.human for cell in cells}})
    return {
        "criteria": list(session.shown_rubric.names),
        "criterion": criterion,
        "agreements": {name: asdict(point) for name, point in session.criterion_agreements().items()},
        "decision": decision_payload(session),
        "tiles": [asdict(tile) for tile in session.tiles()],
        "cells": [asdict(cell) for cell in cells],
        "between": sum(n for label, n in beside.items() if number(label) is not None),  # means of people
        "undecided": {label: n for label, n in beside.items() if number(label) is None},  # as "?"
        "split": bool(labels.log.table.loc[labels.log.table["criterion"] == criterion, "part"].eq("held-out").any()),
        "held_out": session.look.get("words", {}),
        "same": session.is_same,
        "other_texts": labels.log.n_other_texts,
        "off_scale": session.n_off_scale,
        "other_criteria": _other_criteria(session),
        "annotator": labels.annotator,
        "newcomers": labels.log.newcomers(),
        "versions": [
            {name: getattr(version, name) for name in ("name", "note", "label", "at")}
            | {"key": key, "jury": f"{len(version.judges)} × {version.samples}, {version.aggregate}"}
            | {"point": asdict(points[key]) if key in points else None}
            for key, version in versions.items()
        ],
        "people": session.people_agreement,
        "axis": _axis([*points.values(), Point(session.people_agreement)]),
        "current": current,
        "against": against,
        "diff": [asdict(change) for change in changes],
        "measure": session.floor_missing,
    }


def _axis(points: list[Point]) -> list[float]:
    """The ends of the axis of these points: tenths, around all intervals."""
    ends = [number for point in points for number in (point.value, point.low, point.high) if number is not None]
    low, high = (math.floor(min(ends) * 10) / 10, math.ceil(max(ends) * 10) / 10) if ends else (0.0, 1.0)
    return [low, high] if high > low else [max(0.0, low - 0.1), min(1.0, high + 0.1)]


def _other_criteria(session: Session) -> dict[str, int]:
    """Number of labels per criterion that the version shown does not have, for example because it was renamed."""
    if session.evaluation is None:
        return {}
    names = session.labels.log.table["criterion"].astype(str)
    counts = names[~names.isin(session.evaluation.rubric.names)].value_counts(sort=False)
    return {str(name): int(n) for name, n in counts.items()}


def page_payload(session: Session) -> dict[str, Any]:
    """One page of rows, and the query that it answers."""
    shown = session.evaluation
    about = {"n_items": len(session.items), "query": asdict(session.query), "judged": shown is not None}
    return asdict(session.page()) | about | ({} if shown is None else page_texts(shown, session.shown_criterion))


def notices_payload(session: Session) -> list[dict[str, Any]]:
    """What the version shown left open (see `notices`)."""
    restored = [notice(text) for text in session.history.notes]
    if session.evaluation is None:
        return restored
    before = before_run(session)
    what_to_do = f"{before[:1].upper()}{before[1:]}." if before else "Press Run to request the remaining {n}."
    problems = session.runs.problems.get(session.runs.current, {})
    lines = notices(session.evaluation, session.shown_criterion, what_to_do, problems)
    return restored + [line | ({"again": session.runs.again} if line["filter"] else {}) for line in lines]


def queue_payload(session: Session, message_id: str = "") -> dict[str, Any]:
    """The item to label next; while labelling is blind, nothing of the jury or of other people is sent."""
    queue = session.labels.queue
    if not queue.is_open:
        return {"open": False}
    turn, rubric = session.turn(), session.shown_rubric
    criterion = rubric.criterion(session.shown_criterion)
    columns = columns_of(rubric, session.setup.data_options(rubric)["inputs"], session.items)
    blind, scale = session.is_blind(turn), criterion.scale
    judges = [] if blind or turn.item_id is None else session.detail(turn.item_id)["judges"]
    return asdict(turn) | {
        "open": True,
        "answers": message_id,
        "source": queue.source,
        "blind": queue.blind,
        "annotator": session.labels.annotator,
        "counts": session.labels.log.counts(session.labels.annotator, criterion.name),
        "criterion": criterion.name,
        "question": criterion.description,
        **({} if turn.item_id is None else item_texts(session.items, columns, turn.item_id, rubric, criterion.name)),
        "levels": list(zip_longest(scale.labels, scale.values(), level_keys(scale), fillvalue="")),
        "judges": judges,
        "precision": session.precision(),
    }


def suggestions_payload(session: Session) -> dict[str, Any]:
    """The suggested edits, and the judges that can suggest more."""
    suggested = session.suggestions.edits
    base = session.history.versions.get(suggested.base)
    return {
        "judges": [judge.name for judge in session.drafts.pool],
        "judge": suggested.judge or session.drafts.pool[0].name,
        "prices": session.suggestions.prices,
        "base": suggested.base,
        "of": "" if base is None else base.name,
        "head": suggested.head,
        "notes": list(suggested.notes),
        "rows": [
            asdict(row.edit)
            | {"where": row.edit.where, "key": row.key, "effects": list(row.effects)}
            | {"base": row.base or suggested.base, "price": session.suggestions.price(number)}
            for number, row in enumerate(suggested.rows)
        ],
    }


PAYLOADS: dict[str, Callable[..., Any]] = {
    "draft": draft_payload,
    "jury": jury_payload,
    "figures": figures_payload,
    "page": page_payload,
    "notices": notices_payload,
    "item": lambda session: session.detail(session.selected),
    "suggestions": suggestions_payload,
    "queue": queue_payload,
}
"""Part of the screen -> its content; the draft, the jury and the queue also take their last message."""
