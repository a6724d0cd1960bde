"""The notebook's workbench: tune a rubric by hand and eye."""

from evalkit.widgets.browsing import JudgmentBrowser
from evalkit.widgets.sessions import Session
from evalkit.widgets.tuner import RubricTuner

__all__ = ["JudgmentBrowser", "RubricTuner", "Session"]
