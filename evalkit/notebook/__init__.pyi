from .browser import JudgmentBrowser as JudgmentBrowser
from .run_view import RunView as RunView
from .session import Session as Session
from .tuner import RubricTuner as RubricTuner
from .wizard import RunWizard as RunWizard
