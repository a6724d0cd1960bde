"""Widgets: tune a rubric interactively, browse judgments, plan and follow runs."""

from evalkit.core.missing_extras import attach_names

__getattr__, __dir__, __all__ = attach_names(__name__, __file__, sqlalchemy="registry")
