"""Statistics over tables: votes, scores, agreement, alignment with people, comparisons, intervals.

No judge is called here.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
