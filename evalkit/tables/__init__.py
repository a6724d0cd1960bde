"""Tables: items in their canonical form, the columns of every table, files in and out."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
