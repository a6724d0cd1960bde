"""evalkit in LightEval: judge and jury metrics, tasks, the POLLUX metric, LightEval's command line with checks.

Modules are imported at first use, because LightEval takes seconds to load.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
