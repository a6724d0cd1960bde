"""Plots: matplotlib figures with coverage and intervals, for light and dark pages, readable without colour."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
