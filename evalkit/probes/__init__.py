"""Probes: does a judge follow the position, the length or the instructions of an answer, beyond chance?"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
