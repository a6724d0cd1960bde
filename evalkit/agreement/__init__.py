"""Judges among themselves: disagreement per item, reliability over the corpus."""

from evalkit.agreement.reliabilities import reliability
from evalkit.agreement.splits import disagreement, item_disagreement

__all__ = ["disagreement", "item_disagreement", "reliability"]
