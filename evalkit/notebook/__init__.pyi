from .judgments.judgment_browser import JudgmentBrowser as JudgmentBrowser
from .runs.run_view import RunView as RunView
from .runs.run_wizard import RunWizard as RunWizard
from .start.start_card import start as start
from .together.label_page import LabelPage as LabelPage
from .tuner.rubric_tuner import RubricTuner as RubricTuner
