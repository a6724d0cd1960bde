"""Verdicts by side: what each judge said of each item as it is and as the probe changed it, and how sure it was."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from evalkit.changes.floors import Passes, fit, flip_chance
from evalkit.rubrics.measures import measures
from evalkit.tables.grouping import Flags, Floats, Ints, group

__all__ = ["KEYS", "Sides", "fit_counts", "flip_chances", "sides_of"]

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
        return np.where(self.rule, self._passes().verdict, -1)

    def chances(self, fitted: Sides) -> Floats:
        """Per row, the chance that a fresh vote has another verdict; the distribution is fitted to `fitted`."""
        if not len(self.n) or fitted.n.max(initial=0) < 2 or not self.rule.all():
            return np.full(len(self.n), np.nan)
        if self.names == _WINNERS:
            return flip_chances(self.counts, fit_counts(fitted.counts))
        mine = fitted._passes()
        return flip_chance(self._passes(), *_fitted(mine.x.tobytes(), mine.n.tobytes()))

    def _passes(self) -> Passes:
        return Passes(self.frame, self.counts[:, 1], self.n, self.k, self.rule)


@lru_cache(maxsize=1024)
def _fitted(x: bytes, n: bytes) -> tuple[float, float]:
    """`fit`, once for all attacks on the same items."""
    return fit(np.frombuffer(x, dtype=np.int64), np.frombuffer(n, dtype=np.int64))


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


def fit_counts(counts: Ints) -> Floats:
    """The Dirichlet-multinomial of maximum likelihood for counts per item and category; one α per category.

    It is to winners (A, B, tie) what the Beta-binomial of `noise_floor` is to passes, and is the same for two
    categories. Searched over mean and precision, the precision in the same finite range.
    """
    from scipy.optimize import minimize
    from scipy.special import gammaln, softmax

    cells, weight = np.unique(counts[counts.sum(axis=1) > 0], axis=0, return_counts=True)
    seen = np.flatnonzero(cells.sum(axis=0) > 0)
    alpha = np.zeros(counts.shape[1])
    if len(seen) < 2:
        alpha[seen] = 1.0
        return alpha
    cells, n = cells[:, seen], cells.sum(axis=1)

    def loss(place: Floats) -> float:
        # the first category is the baseline of the mean
        own = softmax(np.concatenate([[0.0], place[1:]])) * np.exp(place[0])
        whole = gammaln(own.sum()) - gammaln(own.sum() + n)
        return -float(weight @ (whole + (gammaln(own + cells) - gammaln(own)).sum(axis=1)))

    share = np.log(weight @ cells)
    starts = [np.concatenate([[start], share[1:] - share[0]]) for start in np.linspace(-4, 6, 11)]
    bounds = [(-7.0, 9.0), *[(-12.0, 12.0)] * (len(seen) - 1)]
    made = minimize(loss, min(starts, key=loss), method="L-BFGS-B", bounds=bounds)
    alpha[seen] = softmax(np.concatenate([[0.0], made.x[1:]])) * np.exp(made.x[0])
    return alpha


def flip_chances(counts: Ints, alpha: Floats) -> Floats:
    """Per row, the chance that a fresh vote of as many samples has another winner, of those that have one.

    After counts x the shares are Dirichlet(α + x); every outcome of a fresh vote is gone through. NaN where no
    winner was seen.
    """
    from scipy.special import gammaln

    cells, where = np.unique(counts, axis=0, return_inverse=True)
    seen, observed = np.flatnonzero(alpha > 0), _winners(cells)
    found = np.full(len(cells), np.nan)
    for at, cell in enumerate(cells):
        if observed[at] < 0:
            continue
        fresh = _compositions(int(cell.sum()), len(seen))
        after = alpha[seen] + cell[seen]
        ways = gammaln(fresh.sum(axis=1) + 1) - gammaln(fresh + 1).sum(axis=1)
        whole = gammaln(after.sum()) - gammaln(after.sum() + cell.sum())
        chance = np.exp(ways + whole + (gammaln(after + fresh) - gammaln(after)).sum(axis=1))
        winner = _winners(fresh)
        decided = chance[winner >= 0].sum()
        found[at] = 1 - chance[winner == int(np.flatnonzero(seen == observed[at])[0])].sum() / decided
    return np.asarray(np.clip(found, 0.0, 1.0)[where.reshape(-1)], dtype=np.float64)


def _compositions(n: int, parts: int) -> Ints:
    """All ways to write n as an ordered sum of `parts` counts."""
    chosen = list(combinations(range(n + parts - 1), parts - 1))
    bars = np.array(chosen, dtype=np.int64).reshape(len(chosen), parts - 1)
    edges = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), n + parts - 1)])
    return np.diff(edges, axis=1) - 1
