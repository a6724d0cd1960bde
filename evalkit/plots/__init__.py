"""Plots: matplotlib figures with coverage and intervals, readable in light and dark, colour never alone."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
