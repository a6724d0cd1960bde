"""Verdicts by side: what each judge said of each item as it is and as the probe changed it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evalkit.rubrics.row_scales import measures
from evalkit.tables.grouping import Flags, Ints, group

__all__ = ["KEYS", "Sides", "sides_of", "verdicts"]

KEYS = ["rubric", "rubric_version", "criterion", "judge"]
_PASSED = ("fail", "pass")
_WINNERS = ("A", "B", "tie")


@dataclass(frozen=True, slots=True)
class Sides:
    """One row per criterion, judge, side and item.

    Attributes
    ----------
    frame
        `KEYS`, `side`, `item_id`, and `score`: the mean `score_norm` of the scored samples.
    counts
        How many samples reached each of the verdicts `names`.
    n, k
        Samples scored, and asked.
    names
        ``fail``, ``pass``; for pairs the winners ``A``, ``B``, ``tie``.
    rule
        Is there a verdict at all (a pass rule, or a pair)?
    """

    frame: pd.DataFrame
    counts: Ints
    n: Ints
    k: Ints
    names: tuple[str, ...]
    rule: Flags

    def take(self, rows: Any) -> Sides:
        """Some of the rows, by position or mark."""
        frame = self.frame.loc[rows] if np.asarray(rows).dtype == bool else self.frame.iloc[rows]
        return replace(
            self,
            frame=frame.reset_index(drop=True),
            counts=self.counts[rows],
            n=self.n[rows],
            k=self.k[rows],
            rule=self.rule[rows],
        )

    @property
    def verdict(self) -> Ints:
        """The place of each row's verdict in `names`; −1 for none.

        Pass or fail by more than half of all samples, as in votes; a winner by being the only most frequent one.
        """
        if self.names == _WINNERS:
            return _winners(self.counts)
        failed = np.where(2 * self.counts[:, 0] > self.k, 0, -1)
        return np.where(self.rule, np.where(2 * self.counts[:, 1] > self.k, 1, failed), -1)


def sides_of(judgments: pd.DataFrame) -> Sides:
    """Count the verdicts of a judgments table that has a column `side`."""
    pairwise = bool(judgments["order"].notna().any())
    keys = [*KEYS, "side", "item_id"]
    groups = group(judgments, keys)
    scored = judgments["error"].isna().to_numpy()
    said = verdicts(judgments)
    names = _WINNERS if pairwise else _PASSED
    counts = np.stack([groups.count(scored & (said == name)) for name in names], axis=1)
    n = groups.count(scored)
    norm = judgments["score_norm"].to_numpy(dtype=np.float64)
    known = scored & ~np.isnan(norm)
    frame = judgments[keys].iloc[groups.first].reset_index(drop=True)
    n_known = groups.count(known)
    total = groups.total(np.where(known, norm, 0.0))
    score = np.divide(total, n_known, out=np.full(len(n), np.nan), where=n_known > 0)
    rule = np.full(len(n), True) if pairwise else measures(judgments).has_rule[groups.first]
    return Sides(frame.assign(score=score), counts, n, groups.count(), names, rule)


def verdicts(judgments: pd.DataFrame) -> Any:
    """The verdict of each judgment as text, None without one."""
    if judgments["order"].notna().any():
        return judgments["label"].astype(object).to_numpy()
    passed = judgments["passed"].astype(object).map({True: "pass", False: "fail"})
    return passed.astype(object).to_numpy()


def _winners(counts: Ints) -> Ints:
    top = counts.max(axis=1, initial=0)
    single = ((counts == top[:, None]).sum(axis=1) == 1) & (top > 0)
    return np.where(single, counts.argmax(axis=1), -1).astype(np.int64)
