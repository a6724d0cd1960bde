"""Verdicts by side: of each unchanged item, and of the item as the probe changed it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalkit.rubrics.row_scales import measures
from evalkit.tables.grouping import group

KEYS = ["rubric", "rubric_version", "criterion", "judge"]
_PASSED = ("fail", "pass")
_WINNERS = ("A", "B", "tie")


def verdict_table(judgments: pd.DataFrame) -> pd.DataFrame:
    """One row per criterion, judge, side and item of a judgments table that has a column `side`.

    Columns: `KEYS`, `side`, `item_id`; `score`, the mean `score_norm` of the scored samples; `verdict`: fail or pass
    by more than half of all samples, as in votes, or the only most frequent winner of a pair, None without one;
    `rule`: whether there can be a verdict (a pass rule, or a pair).
    """
    pairwise = bool(judgments["order"].notna().any())
    keys = [*KEYS, "side", "item_id"]
    groups = group(judgments, keys)
    scored = judgments["error"].isna().to_numpy()
    texts = verdict_texts(judgments)
    names = _WINNERS if pairwise else _PASSED
    counts = np.stack([groups.count(scored & (texts == name)) for name in names], axis=1)
    norm = judgments["score_norm"].to_numpy(dtype=np.float64)
    known = scored & ~np.isnan(norm)
    n_known = groups.count(known)
    total = groups.total(np.where(known, norm, 0.0))
    if pairwise:
        rule = np.full(len(counts), True)
        top = (counts == counts.max(axis=1, initial=1)[:, None]) & (counts > 0)
        reached = top & (top.sum(axis=1) == 1)[:, None]
    else:
        rule = measures(judgments).has_rule[groups.first]
        reached = (2 * counts > groups.count()[:, None]) & rule[:, None]
    verdict = np.where(reached.any(axis=1), np.array(names, dtype=object)[reached.argmax(axis=1)], None)
    score = np.divide(total, n_known, out=np.full(len(total), np.nan), where=n_known > 0)
    frame = judgments[keys].iloc[groups.first].astype(str).reset_index(drop=True)
    return frame.assign(score=score, verdict=pd.array(verdict, dtype=object), rule=rule)


def verdict_texts(judgments: pd.DataFrame) -> Any:
    """The verdict of each judgment as text, None without one."""
    if judgments["order"].notna().any():
        return judgments["label"].astype(object).to_numpy()
    return judgments["passed"].astype(object).map({True: "pass", False: "fail"}).astype(object).to_numpy()
