"""Notes on who answered: models that changed, prompts that were cut, and replies that belong to other requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.judges import Judge
from evalkit.engine.judging.repair_request import UNREAD
from evalkit.errors import counted

PROMPT_CUT, SAME_COMPLETION = "prompt_cut", "same_completion"
REMARKS = (PROMPT_CUT, SAME_COMPLETION)
"""Values of the column `remark` of judgments."""

_MOST = 5
_SHORTEST_ID, _POSITIVE, _SHARE = 6, 2**62 - 1, 0.2
_DRAWN = re.compile(r"chatcmpl-\d{1,3}")
_WORDS = {
    PROMPT_CUT: "to prompts that the server probably cut: it counted far fewer tokens than their text can make; raise "
    "its context window (num_ctx of Ollama), or shorten the items, then judge again with refresh=True (--refresh)",
    SAME_COMPLETION: "with the id of the reply to another request: a cache between evalkit and the model may have "
    "answered; switch it off, then judge again with refresh=True (--refresh)",
}


def id_number(name: str | None) -> int:
    """A number for a completion's id; 0 for none, negative for an id of those that Ollama draws from a thousand."""
    if name is None or len(name) < _SHORTEST_ID:
        return 0
    number = (hash(name) & _POSITIVE) or 1
    return -number if _DRAWN.fullmatch(name) else number


def remarks_on(
    is_cut: np.ndarray[Any, Any], ids: np.ndarray[Any, Any], created: np.ndarray[Any, Any]
) -> pd.Categorical:
    """The remark on each judgment, or none.

    Parameters
    ----------
    is_cut
        Whether its prompt was cut.
    ids
        The `id_number` of its completion. Ids that are drawn from a thousand count only if a fifth of the answers share
        one.
    created
        Unix time at which the answer came. Replies that came together belong to one request.
    """
    codes = np.where(is_cut, 0, -1).astype(np.int8)
    rows = np.flatnonzero(ids)
    if len(np.unique(ids[rows])) < len(rows):  # else each has an id of its own, as most of the time
        answers = pd.DataFrame({"id": ids[rows], "created": created[rows]}).drop_duplicates()
        counts = answers["id"].value_counts()
        least = np.where(counts.index < 0, max(3.0, _SHARE * len(answers)), 2.0)
        codes[rows[np.isin(ids[rows], counts.index[counts >= least])]] = 1
    return pd.Categorical.from_codes(codes, pd.Index(REMARKS, dtype="str"))


def answer_notes(judgments: pd.DataFrame, judges: Sequence[Judge] = ()) -> list[str]:
    """What figures of these judgments hide about who answered: one sentence each, most of the time none.

    Parameters
    ----------
    judgments
        The columns `judge`, `model` and, if there are, `remark`, and `repaired` with `error`.
    judges
        The judges, if they are known: two that are meant to be the same model bring no note.
    """
    return [*_of_models(judgments, judges), *remark_notes(judgments), *_of_repairs(judgments)]


def remark_notes(judgments: pd.DataFrame) -> list[str]:
    """The sentences on the column `remark`, by judge."""
    if "remark" not in judgments:
        return []
    rows = judgments.loc[judgments["remark"].notna().to_numpy(), ["judge", "remark"]]
    totals = judgments["judge"].astype(str).value_counts()
    counts = _pairs(rows)
    return [
        f"judge '{judge}': {n:,} of {counted(int(totals[judge]), 'judgment')} are replies {_WORDS[remark]}"
        for (judge, remark), n in counts.items()
        if remark in _WORDS
    ]


def _of_models(judgments: pd.DataFrame, judges: Sequence[Judge]) -> list[str]:
    if "model" not in judgments:
        return []
    answered = judgments.loc[judgments["model"].notna().to_numpy(), ["judge", "model"]]
    served: dict[str, dict[str, int]] = {}
    for (judge, model), n in _pairs(answered).items():
        served.setdefault(judge, {})[model] = n
    notes = []
    for judge, models in served.items():
        if len({_plain(model) for model in models}) > 1:
            parts = [f"{n:,} by {model}" for model, n in sorted(models.items(), key=lambda pair: -pair[1])]
            notes.append(
                f"judge '{judge}' was answered by different models, which its figures mix: {', '.join(parts[:_MOST])}"
            )
    requested = {judge.name: (judge.service, judge.model) for judge in judges}
    for first, second in combinations(served, 2):
        if requested and requested.get(first) == requested.get(second):
            continue
        names = {_plain(model): model for model in served[first]}
        shared = [names[_plain(model)] for model in served[second] if _plain(model) in names]
        if shared:
            notes.append(
                f"judges '{first}' and '{second}' were both answered by {', '.join(shared[:_MOST])}: their agreement "
                "is that of one model with itself"
            )
    return notes


def _of_repairs(judgments: pd.DataFrame) -> Iterator[str]:
    """Of each judge with repaired replies, how many there are, and how many replies are still not read."""
    for judge, rows in judgments.groupby("judge", observed=True, sort=False) if "repaired" in judgments else ():
        if n := int(rows["repaired"].fillna(value=False).sum()):
            unread = ", ".join(f"{int(rows['error'].eq(reason).sum())} {reason}" for reason in UNREAD)
            share = f"{n:,} of {counted(len(rows), 'judgment')} ({n / len(rows):.0%})"
            yield f"judge '{judge}': {share} by a repaired reply, whose verdict the judge named when asked; {unread}"


def _pairs(table: pd.DataFrame) -> dict[tuple[str, str], int]:
    """How often each pair of texts occurs."""
    counts = table.groupby(list(table.columns), observed=True, sort=False).size()
    return {(str(first), str(second)): int(n) for (first, second), n in zip(counts.index, counts, strict=True)}


def _plain(model: str) -> str:
    """A model's name without the organisation before it, which not all servers write."""
    return model.casefold().rpartition("/")[2]
