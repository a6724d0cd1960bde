"""What other programs write, read into evalkit's own forms: a file per foreign form, named by the user."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
