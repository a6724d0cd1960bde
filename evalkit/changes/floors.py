"""The noise floor: how many verdicts would change if the same prompt were sampled again.

A Beta-binomial is fitted by maximum likelihood to the passes per item, per judge, both sides of a comparison
pooled. With x of an item's n scored samples passed, p ~ Beta(α + x, β + n − x); the floor is the sum over
items of the chance that a fresh vote of as many samples differs from the one observed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit import tables
from evalkit.rubrics.measures import measures
from evalkit.tables import JUDGMENT_KEY
from evalkit.tables.grouping import Floats, Ints, group, refuse_doubles

__all__ = ["NO_REPEATS", "NO_RULE", "Passes", "chances", "fit", "flip_chance", "noise_floor", "passes"]

NO_REPEATS = "no repeated samples: cannot tell change from noise"
NO_RULE = "no pass rule: cannot tell change from noise"
_KEYS = ["rubric", "rubric_version", "criterion", "judge"]
_ITEM = [*_KEYS, "item_id"]


def noise_floor(judgments: pd.DataFrame) -> pd.DataFrame:
    """How many verdicts of each judge would change if every item were sampled afresh, with the same prompt.

    Parameters
    ----------
    judgments
        The table of `judge`, with two or more samples each.

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion, judge`:

        - `expected`: number of items whose verdict would differ; `rate` 0-1: their share of `n_items`, the items
          with a verdict; both NA without repeated samples or without a pass rule (`notes` says so);
        - `alpha`, `beta`: the fitted distribution of the chance to pass;
        - `n_samples`: k, the largest.

    Raises
    ------
    InputError
        When columns are missing or a judgment is in the table twice.

    Examples
    --------
    >>> judgments = tables.table("judgments", {
    ...     "rubric": ["r"] * 6, "rubric_version": ["v1"] * 6, "item_id": list("aaabbb"), "criterion": ["c"] * 6,
    ...     "judge": ["j"] * 6, "sample": [0, 1, 2] * 2, "score": [1.0] * 6, "label": ["1"] * 6, "passed": [True] * 6,
    ...     "level": ["ordinal"] * 6, "scale": ['{"codes":[0,1],"better":"high","pass_at":1}'] * 6})
    >>> noise_floor(judgments)[["judge", "n_items", "n_samples", "expected"]].round(2).values.tolist()
    [['j', 2, 3, 0.0]]
    """
    found = passes(judgments)
    groups = group(found.frame, _KEYS)
    rows = []
    for number, first in enumerate(groups.first):
        own = found.take(groups.codes == number)
        rows.append({key: found.frame[key].iloc[first] for key in _KEYS} | _floor(own))
    columns = [*_KEYS, "expected", "rate", "n_items", "n_samples", "alpha", "beta", "notes"]
    made = pd.DataFrame(rows, columns=columns)
    for name in (*_KEYS, "notes"):
        made[name] = tables.categorical(made[name])
    floats = dict.fromkeys(["expected", "rate", "alpha", "beta"], "float64")
    return made.astype(floats | dict.fromkeys(["n_items", "n_samples"], "int64"))


@dataclass(frozen=True, slots=True)
class Passes:
    """Per item and judge: how many samples passed (x), were scored (n), were asked (k).

    Attributes
    ----------
    frame
        Rubric, version, criterion, judge, item_id.
    rule
        Has the criterion a pass rule?
    """

    frame: pd.DataFrame
    x: Ints
    n: Ints
    k: Ints
    rule: npt.NDArray[np.bool_]

    def take(self, rows: Any) -> Passes:
        """Some of the rows."""
        return Passes(self.frame.loc[rows], self.x[rows], self.n[rows], self.k[rows], self.rule[rows])

    @property
    def verdict(self) -> Ints:
        """1 passed, 0 failed, −1 neither."""
        failed = np.where(2 * (self.n - self.x) > self.k, 0, -1)
        return np.where(2 * self.x > self.k, 1, failed)

    @property
    def missing(self) -> str | None:
        """Why there is no floor; None if there is one."""
        if len(self.rule) and not self.rule.all():
            return NO_RULE
        return NO_REPEATS if self.n.max(initial=0) < 2 else None


def passes(judgments: pd.DataFrame) -> Passes:
    """Count the samples that passed."""
    need = [*JUDGMENT_KEY, "passed", "error", "level", "scale"]
    frame = tables.check(judgments, "judgments", need=need)
    refuse_doubles(frame, JUDGMENT_KEY, "judgments", may_miss=["order"])
    groups = group(frame, _ITEM)
    scored = frame["error"].isna().to_numpy()
    passed = frame["passed"].fillna(value=False).to_numpy(dtype=bool)
    heads = frame[_ITEM].iloc[groups.first].reset_index(drop=True)
    rule = measures(frame).has_rule[groups.first]
    return Passes(heads, groups.count(scored & passed), groups.count(scored), groups.count(), rule)


def _floor(own: Passes) -> dict[str, Any]:
    decided = own.verdict >= 0
    row: dict[str, Any] = {"n_items": int(decided.sum()), "n_samples": int(own.k.max(initial=0)), "notes": own.missing}
    if own.missing is not None:
        return row
    alpha, beta = fit(own.x, own.n)
    expected = float(np.nansum(flip_chance(own, alpha, beta)))
    rate = expected / row["n_items"] if row["n_items"] else np.nan
    return row | {"expected": expected, "rate": rate, "alpha": alpha, "beta": beta}


def fit(x: Ints, n: Ints) -> tuple[float, float]:
    """The Beta-binomial of maximum likelihood for x passes of n: α and β.

    Searched over the mean and the precision α + β, both kept in a finite range: items that all pass, or that
    each always say the same, lie at its edge.
    """
    from scipy.optimize import minimize
    from scipy.special import betaln, expit

    cells, weight = np.unique(np.stack([x, n], axis=1)[n > 0], axis=0, return_counts=True)
    if not len(cells):
        return np.nan, np.nan
    hits, trials = cells.T

    def loss(place: Floats) -> float:
        mean, precision = expit(place[0]), np.exp(place[1])
        alpha, beta = mean * precision, (1 - mean) * precision
        return float(-(weight * (betaln(alpha + hits, beta + trials - hits) - betaln(alpha, beta))).sum())

    share = np.clip((weight * hits).sum() / (weight * trials).sum(), 1e-4, 1 - 1e-4)
    starts = [np.array([np.log(share / (1 - share)), start]) for start in np.linspace(-4, 6, 11)]
    best = min(starts, key=loss)
    # a simplex walks on where the likelihood is nearly flat, and starts no threads of a linear algebra library
    made = minimize(
        loss, best, method="Nelder-Mead", bounds=[(-12.0, 12.0), (-7.0, 9.0)], options={"xatol": 1e-7, "fatol": 1e-10}
    )
    mean, precision = float(expit(made.x[0])), float(np.exp(made.x[1]))
    return mean * precision, (1 - mean) * precision


def chances(own: Passes, alpha: float, beta: float) -> tuple[Floats, Floats]:
    """Per row, the chances that a fresh vote of as many samples passes, and that it fails."""
    from scipy.special import betaln, gammaln

    cells, where = np.unique(np.stack([own.x, own.n, own.k], axis=1), axis=0, return_inverse=True)
    passing, failing = np.zeros(len(cells)), np.zeros(len(cells))
    for at, (x, n, k) in enumerate(cells.tolist()):
        y = np.arange(n + 1)
        ways = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
        after = (alpha + x, beta + n - x)
        chance = np.exp(ways + betaln(after[0] + y, after[1] + n - y) - betaln(*after))
        passing[at], failing[at] = chance[2 * y > k].sum(), chance[2 * (n - y) > k].sum()
    return passing[where], failing[where]


def flip_chance(own: Passes, alpha: float, beta: float) -> Floats:
    """Per row, the chance that a fresh vote that has a verdict has the other one; NaN where none was observed."""
    passing, failing = chances(own, alpha, beta)
    decided = passing + failing
    other = np.where(own.verdict == 1, failing, passing)
    flips: Floats = np.divide(other, decided, out=np.full(len(other), np.nan), where=(decided > 0) & (own.verdict >= 0))
    return flips
