"""Runs of LightEval: a registry of plugins and packs, a runner, comparisons of runs.

This room calls no judge and imports neither LightEval nor the engine. Judging can change without a change here.
"""

from evalkit.core.missing_extras import attach_names

__getattr__, __dir__, __all__ = attach_names(__name__, __file__, sqlalchemy="registry")
