"""Everything at once: judge, vote, aggregate, all figures; frozen into profiles, reported, improved by suggestions."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
