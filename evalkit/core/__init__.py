"""What every room uses: judges, reply keys, prompts and replies, atomic files, numbers as text."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
