"""The names of the root, in the order of the work: `lazy_loader` and type checkers read this list."""

# isort: skip_file

from . import core as core
from . import engine as engine
from . import errors as errors
from . import evaluation as evaluation
from . import gate as gate
from . import lighteval as lighteval
from . import notebook as notebook
from . import plots as plots
from . import readers as readers
from . import rubrics as rubrics
from . import runs as runs
from . import stats as stats
from . import tables as tables

# what is judged, and by whom
from .evaluation import load_example as load_example
from .tables import load_items as load_items
from .rubrics import extract_labels as extract_labels
from .rubrics import load_labels as load_labels
from .rubrics import explode_criteria as explode_criteria
from .rubrics import load_rubric as load_rubric
from .rubrics import load_profile as load_profile
from .rubrics import Rubric as Rubric
from .rubrics import Criterion as Criterion
from .rubrics import Scale as Scale
from .core import Judge as Judge

# ask
from .rubrics import build_prompt as build_prompt
from .rubrics import parse_reply as parse_reply
from .engine import plan as plan
from .engine import judge as judge
from .engine import ajudge as ajudge
from .engine import judge_files as judge_files
from .engine import submit as submit
from .engine import collect as collect
from .engine import record as record
from .engine import import_judgments as import_judgments
from .engine import explain as explain
from .engine import memory as memory

# from judgments to scores
from .stats import vote as vote
from .stats import aggregate as aggregate
from .stats import combine as combine
from .stats import points as points
from .stats import summarize as summarize
from .stats import rank as rank

# how far they can be trusted
from .stats import disagreement as disagreement
from .stats import reliability as reliability
from .stats import align as align
from .stats import split_labels as split_labels
from .stats import next_labels as next_labels
from .stats import corpus_estimate as corpus_estimate
from .evaluation import calibrate as calibrate
from .stats import compare as compare

# all at once, and what follows
from .evaluation import evaluate as evaluate
from .evaluation import Evaluation as Evaluation
from .evaluation import history as history
from .evaluation import show as show
from .evaluation import report as report
from .evaluation import freeze as freeze
from .evaluation import suggest_edits as suggest_edits
from .notebook import start as start
from .notebook import RubricTuner as RubricTuner

from ._version import __version__ as __version__

__all__: list[str]
