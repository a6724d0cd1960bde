"""Judges among themselves: disagreement per item, reliability over the corpus, pairs of judges, judges by samples."""

from evalkit.agreement.grids import phi_grid
from evalkit.agreement.pairs import judge_agreement
from evalkit.agreement.reliabilities import reliability
from evalkit.agreement.splits import disagreement, item_disagreement

__all__ = ["disagreement", "item_disagreement", "judge_agreement", "phi_grid", "reliability"]
