"""Runs of LightEval: a registry of plugins and packs, a runner and workers, comparisons of runs.

No judge is called here, and neither LightEval nor the engine is imported: how judges work may change without a change
of what launches them.
"""

from evalkit.core.missing_extras import attach_names

__getattr__, __dir__, __all__ = attach_names(__name__, __file__, alembic="registry", sqlalchemy="registry")
