"""Evaluations: judge, vote, aggregate and compute all figures at once; freeze and report the result."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
