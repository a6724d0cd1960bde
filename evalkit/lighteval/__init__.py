"""evalkit in LightEval: judge and jury metrics, tasks, the POLLUX metric, and LightEval's command line started right.

Nothing here is imported before it is used: LightEval takes seconds to load.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
