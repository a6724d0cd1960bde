"""Agreement beyond chance on labels: Fleiss' kappa and Gwet's AC1 and AC2, with one cluster left out at a time.

Each judge gives an item one label (its vote), never one per sample. All figures are (p_a − p_e) / (1 − p_e) and
differ in what is taken as chance, and in which items count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalkit.stats.jackknife_sums import ratio, unit_sums, without_each
from evalkit.tables.grouping import Flags, Floats, Ints


@dataclass(frozen=True, slots=True)
class Labels:
    """How many judges gave each item each label.

    Attributes
    ----------
    counts
        items × levels of the scale.
    n_judges
        Judges asked: an item is complete with this number of labels.
    unit
        The group that each item is left out with, 0 … n_units − 1.
    n_units
        Number of such groups.
    """

    counts: Floats
    n_judges: int
    unit: Ints
    n_units: int

    @property
    def complete(self) -> Flags:
        """Per item: did every judge give a label?"""
        return np.asarray(self.counts.sum(axis=1) == self.n_judges)

    def left_out(self, values: Floats) -> Floats:
        """Sums over items of `values` (items × …): first over all, then without each unit."""
        return without_each(unit_sums(values, self.unit, self.n_units))


def fleiss_kappa(labels: Labels) -> Floats:
    """Fleiss' kappa on the complete items: on all, then without each unit; NaN where nothing varies.

    P_i = Σ_c n_ic(n_ic − 1) / (J(J − 1)), p_c = share of label c, κ = (P̄ − Σ p_c²) / (1 − Σ p_c²).
    Fleiss (1971), "Measuring nominal scale agreement among many raters", Psychological Bulletin 76.
    """
    counts = labels.counts * labels.complete[:, None]
    pairs = (counts * (counts - 1)).sum(axis=1) / max(labels.n_judges * (labels.n_judges - 1), 1)
    rows = labels.left_out(np.column_stack([labels.complete, pairs, counts]))
    agreed = ratio(rows[:, 1], rows[:, 0])
    shares = ratio(rows[:, 2:], rows[:, :1] * labels.n_judges)
    return _beyond(agreed, (shares**2).sum(axis=1))


def gwet_ac(labels: Labels, weights: Floats) -> Floats:
    """Gwet's AC1 (`weights` the identity) or AC2: on all, then without each unit; NaN where nothing is pairable.

    p_a is the mean over items with two labels or more of Σ_k r_ik(r*_ik − 1) / (r_i(r_i − 1)), with
    r*_ik = Σ_l w_kl r_il; π_k the mean over items with any label of r_ik / r_i;
    p_e = T_w / (q(q − 1)) · Σ π_k(1 − π_k), T_w the sum of all weights, q the levels of the scale, used or not.
    Gwet (2008), "Computing inter-rater reliability and its variance in the presence of high agreement", British
    Journal of Mathematical and Statistical Psychology 61; weighted: Gwet (2014), Handbook of Inter-Rater
    Reliability, 4th ed., ch. 5.
    """
    n_levels = labels.counts.shape[1]
    judged = labels.counts.sum(axis=1)
    paired = judged > 1.5
    near = labels.counts @ weights.T
    agreeing = (labels.counts * (near - 1)).sum(axis=1) / np.maximum(judged * (judged - 1), 1) * paired
    shares = labels.counts / np.maximum(judged, 1)[:, None]
    rows = labels.left_out(np.column_stack([paired, agreeing, judged > 0, shares]))
    agreed = ratio(rows[:, 1], rows[:, 0])
    prevalence = ratio(rows[:, 3:], rows[:, 2:3])
    chance = weights.sum() / (n_levels * (n_levels - 1)) * (prevalence * (1 - prevalence)).sum(axis=1)
    return _beyond(agreed, chance)


def quadratic_weights(codes: Floats) -> Floats:
    """w_kl = 1 − (x_k − x_l)² / (x_max − x_min)² between the codes of a scale."""
    gaps = np.subtract.outer(codes, codes)
    return np.asarray(1 - gaps**2 / np.ptp(codes) ** 2)


def _beyond(agreed: Floats, chance: Floats) -> Floats:
    return ratio(agreed - chance, np.nan_to_num(1 - chance))
