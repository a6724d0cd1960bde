"""What a run left open: judges that failed, judgments that are still missing, and replies without a score."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pandas as pd

from evalkit.core.lists_of_choices import ENGINE_REASONS, SKIPPED
from evalkit.engine import explain
from evalkit.errors import counted
from evalkit.evaluation import Evaluation

_REFUSED = ("judge_down", "rate_limited")
_TO_COME = ("cache_miss", "stopped")
_NOT_CALLED = ("cache_miss", "in_batch", "stopped", *SKIPPED, "not_asked", "budget")

Problems = Mapping[tuple[str, str], str]


def alert_lines(judgments: pd.DataFrame, problems: Problems = MappingProxyType({})) -> list[str]:
    """Judges that gave no score at all, and calls that were refused: one line per judge and reason, with advice.

    `problems` has what the server said, by judge and reason. `notices` gives the number of these judgments.
    """
    reasons = explain(judgments)
    rows = reasons[_is_alert(reasons, judgments)].itertuples()
    return [f"{row.judge}: {reason_words(row, problems)} ({row.what_to_do})" for row in rows]


def _is_alert(reasons: pd.DataFrame, judgments: pd.DataFrame) -> pd.Series:
    """Which of the reasons `alert_lines` shows."""
    scored = set(judgments.loc[judgments["error"].isna(), "judge"].astype(str))
    failed = ~reasons["judge"].isin(scored) & ~reasons["error"].isin(_NOT_CALLED)
    return failed | reasons["error"].isin(_REFUSED)


def notices(
    evaluation: Evaluation, criterion: str, what_to_do: str = "", problems: Problems = MappingProxyType({})
) -> list[dict[str, Any]]:
    """What the screen shows in one quiet line each: the judgments without a score first, all in one line.

    Parameters
    ----------
    evaluation
        The version shown.
    criterion
        Skipped items are counted on this criterion, as in the table, and so are the items that `filter` shows.
    what_to_do
        How to get the missing judgments; ``{n}`` is the number of replies to ask for.
    problems
        What the server said, by judge and reason; it stands once on screen, so not here if `alert_lines` shows it.

    Returns
    -------
    list of dict
        ``text``; ``advice`` (lines); ``filter`` of the table that shows the items, or empty; ``n_items``; ``name``,
        the text in two or three words, or empty.
    """
    judgments, lines = evaluation.judgments, []
    without = judgments[judgments["error"].notna() & ~judgments["error"].isin((*SKIPPED, "not_asked"))]
    if len(without):
        lines.append(_without_score(evaluation, without, criterion, what_to_do, problems))
    lines += [notice(note[:1].upper() + note[1:] + ".") for note in evaluation.answer_notes]
    mine = judgments[(judgments["criterion"] == criterion).to_numpy()]
    if n_skipped := mine.loc[mine["error"] == "missing_input", "item_id"].nunique():
        lines.append(notice(f"{counted(n_skipped, 'item')} skipped: a required input is missing."))
    if n_unseen := mine.loc[mine["error"].isin(SKIPPED[1:]), "item_id"].nunique():
        lines.append(notice(f"{counted(n_unseen, 'item')} skipped: judges cannot be shown images and files."))
    return lines


def _without_score(
    evaluation: Evaluation, without: pd.DataFrame, criterion: str, what_to_do: str, problems: Problems
) -> dict[str, Any]:
    """The one count of judgments without a score, with the reasons, and what the servers said."""
    n = int((~evaluation.judgments["error"].isin((*SKIPPED, "not_asked"))).sum())
    is_missing = without["error"].isin(ENGINE_REASONS)
    not_asked = without["error"].isin(_TO_COME)
    reasons = explain(without[~not_asked])
    parts = [f"{int(not_asked.sum()):,} without a reply"] if not_asked.any() else []
    for row, is_alert in zip(reasons.itertuples(), _is_alert(reasons, evaluation.judgments), strict=True):
        words = "" if is_alert else problems.get((str(row.judge), str(row.error)))
        parts.append(f"{row.n:,} {_words(row.error)} ({row.judge}{f': {words}' if words else ''})")
    text = f"{len(without):,} of {n:,} judgments ({len(without) / n:.1%}) have no score: {', '.join(parts)}."
    if is_missing.any():
        text = f"{text} {what_to_do.replace('{n}', f'{evaluation.cost.n_missing:,}')}".strip()
    is_unread = ~is_missing & (without["criterion"] == criterion)
    unread = without.loc[is_unread.to_numpy(), ["error", "item_id"]].astype(str)
    what_helps = dict(zip(reasons["error"], reasons["what_to_do"], strict=True))
    advice = [f"{_words(name)}: {why}" for name, why in what_helps.items() if name not in ENGINE_REASONS]
    name = f"{len(without):,} without a score"
    return notice(text, advice, "unread" if len(unread) else "", unread["item_id"].nunique(), name)


def notice(
    text: str, advice: list[str] | None = None, filter_name: str = "", n_items: int = 0, name: str = ""
) -> dict[str, Any]:
    """One quiet line of the screen (see `notices`)."""
    return {"text": text, "advice": advice or [], "filter": filter_name, "n_items": n_items, "name": name}


def reason_words(row: Any, problems: Problems) -> str:
    """What the server said to a judge, of a row of `explain`; else the reason."""
    return problems.get((str(row.judge), str(row.error))) or _words(row.error)


def _words(reason: object) -> str:
    return str(reason).replace("_", " ")
