"""What a run left open: judges that failed, judgments that are still missing, and replies without a score."""

from __future__ import annotations

from typing import Any

import pandas as pd

from evalkit.core.lists_of_choices import ENGINE_REASONS, SKIPPED
from evalkit.engine import explain
from evalkit.errors import counted
from evalkit.evaluation import Evaluation

_REFUSED = ("judge_down", "rate_limited")
_NOT_CALLED = ("cache_miss", "in_batch", "stopped", *SKIPPED, "not_asked", "budget")


def alert_lines(judgments: pd.DataFrame) -> list[str]:
    """Judges that gave no score at all, and calls that were refused: one line per judge and reason, with advice."""
    scored = set(judgments.loc[judgments["error"].isna(), "judge"].astype(str))
    reasons = explain(judgments)
    failed = ~reasons["judge"].isin(scored) & ~reasons["error"].isin(_NOT_CALLED)
    return [
        f"{row.judge}: {counted(int(str(row.n)), 'judgment')} {_words(row.error)} ({row.what_to_do})"
        for row in reasons[failed | reasons["error"].isin(_REFUSED)].itertuples()
    ]


def notices(evaluation: Evaluation, criterion: str, what_to_do: str = "") -> list[dict[str, Any]]:
    """What the screen shows in one quiet line each.

    Parameters
    ----------
    evaluation
        The version shown.
    criterion
        Skipped items and replies without a score are counted on this criterion, as in the table.
    what_to_do
        How to get the missing judgments; ``{n}`` is the number of replies to ask for.

    Returns
    -------
    list of dict
        ``text``; ``advice`` (lines); ``filter`` of the table that shows the items, or empty; ``n_items``.
    """
    judgments, lines = evaluation.judgments, []
    missing = judgments[judgments["error"].isin({*ENGINE_REASONS} - {*SKIPPED, "not_asked"})]
    if len(missing):
        counts = missing["error"].astype(str).value_counts()
        why = ", ".join(f"{n:,} {_words(name)}" for name, n in counts.items() if name not in ("cache_miss", "stopped"))
        text = f"{len(missing):,} of {len(judgments):,} judgments are missing{f' ({why})' if why else ''}."
        lines.append(notice(f"{text} {what_to_do.format(n=f'{evaluation.cost.n_missing:,}')}".strip()))
    lines += [notice(note[:1].upper() + note[1:] + ".") for note in evaluation.answer_notes]
    mine = judgments[(judgments["criterion"] == criterion).to_numpy()]
    if n_skipped := mine.loc[mine["error"] == "missing_input", "item_id"].nunique():
        lines.append(notice(f"{counted(n_skipped, 'item')} skipped: a required input is missing."))
    if n_unseen := mine.loc[mine["error"].isin(SKIPPED[1:]), "item_id"].nunique():
        lines.append(notice(f"{counted(n_unseen, 'item')} skipped: judges cannot be shown images and files."))
    unread = mine[mine["error"].notna() & ~mine["error"].isin(ENGINE_REASONS)]
    if len(unread):
        reasons = explain(unread)
        by_judge = ", ".join(f"{row.n:,} {_words(row.error)} ({row.judge})" for row in reasons.itertuples())
        text = f"{len(unread):,} of {len(mine):,} judgments ({len(unread) / len(mine):.1%}) have no score: {by_judge}."
        what_helps = dict(zip(reasons["error"], reasons["what_to_do"], strict=True))
        advice = [f"{_words(name)}: {why}" for name, why in what_helps.items()]
        lines.append(notice(text, advice, "unread", unread["item_id"].nunique()))
    return lines


def notice(text: str, advice: list[str] | None = None, filter_name: str = "", n_items: int = 0) -> dict[str, Any]:
    """One quiet line of the screen (see `notices`)."""
    return {"text": text, "advice": advice or [], "filter": filter_name, "n_items": n_items}


def _words(reason: object) -> str:
    return str(reason).replace("_", " ")
