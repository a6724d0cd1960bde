from .judgment_browser import JudgmentBrowser as JudgmentBrowser
from .run_view import RunView as RunView
from .tuner import RubricTuner as RubricTuner
from .tuning_session import Session as Session
from .wizard import RunWizard as RunWizard
