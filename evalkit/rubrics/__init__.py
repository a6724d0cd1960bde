"""Rubrics, criteria, scales and profiles; building prompts from them, and parsing replies."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
