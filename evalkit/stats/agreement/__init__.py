"""Judges among themselves: disagreement per item, reliability over the corpus, pairs of judges, judges by samples."""

from evalkit.stats.agreement.disagreements import disagreement, item_disagreement
from evalkit.stats.agreement.judge_pairs import judge_agreement
from evalkit.stats.agreement.phi_grids import phi_grid
from evalkit.stats.agreement.reliabilities import reliability

__all__ = ["disagreement", "item_disagreement", "judge_agreement", "phi_grid", "reliability"]
