"""What those who launch runs and those who score them agree on: scoring config, task bindings, receipts.

Neither LightEval nor judging is imported here, so that both sides may.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
