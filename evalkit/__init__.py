"""evalkit: tune LLM judges and juries, and trust their scores.

``import evalkit as ek`` is cheap: everything below is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evalkit._version import __version__

if TYPE_CHECKING:
    from evalkit.aggregation import aggregate as aggregate
    from evalkit.aggregation import combine as combine
    from evalkit.aggregation import jury_value as jury_value
    from evalkit.aggregation import summarize as summarize
    from evalkit.aggregation.wins import win_rates as win_rates
    from evalkit.agreement import disagreement as disagreement
    from evalkit.agreement import judge_agreement as judge_agreement
    from evalkit.agreement import phi_grid as phi_grid
    from evalkit.agreement import reliability as reliability
    from evalkit.caching import ReplyStore as ReplyStore
    from evalkit.caching.memory import ReplyMemory as ReplyMemory
    from evalkit.calling import check_server as check_server
    from evalkit.changes import compare as compare
    from evalkit.changes import noise_floor as noise_floor
    from evalkit.changes import plan_again as plan_again
    from evalkit.changes import sample_again as sample_again
    from evalkit.changes.orders import position_inconsistency as position_inconsistency
    from evalkit.curves import k_curve as k_curve
    from evalkit.errors import CacheError as CacheError
    from evalkit.errors import CacheMiss as CacheMiss
    from evalkit.errors import ConfigError as ConfigError
    from evalkit.errors import EvalkitError as EvalkitError
    from evalkit.errors import EvalkitWarning as EvalkitWarning
    from evalkit.errors import InputError as InputError
    from evalkit.errors import JudgeError as JudgeError
    from evalkit.errors import LightevalError as LightevalError
    from evalkit.errors import MissingExtraError as MissingExtraError
    from evalkit.errors import RegistryError as RegistryError
    from evalkit.errors import RubricError as RubricError
    from evalkit.evaluation import Evaluation as Evaluation
    from evalkit.evaluation import cache_stats as cache_stats
    from evalkit.evaluation import evaluate as evaluate
    from evalkit.evaluation import freeze as freeze
    from evalkit.evaluation import load_example as load_example
    from evalkit.evaluation import show as show
    from evalkit.gate import from_traces as from_traces
    from evalkit.gate import run_gate as run_gate
    from evalkit.gate import to_traces as to_traces
    from evalkit.judges import Judge as Judge
    from evalkit.judging import Plan as Plan
    from evalkit.judging import ajudge as ajudge
    from evalkit.judging import explain as explain
    from evalkit.judging import import_judgments as import_judgments
    from evalkit.judging import judge as judge
    from evalkit.judging import judge_chunk as judge_chunk
    from evalkit.judging import plan as plan
    from evalkit.judging import readings as readings
    from evalkit.judging import record as record
    from evalkit.judging import replies as replies
    from evalkit.lighteval.runs import LightevalRun as LightevalRun
    from evalkit.lighteval.runs import run_lighteval as run_lighteval
    from evalkit.parsing import parse_reply as parse_reply
    from evalkit.plots import plot_agreement as plot_agreement
    from evalkit.plots import plot_confusion as plot_confusion
    from evalkit.plots import plot_cost as plot_cost
    from evalkit.plots import plot_disagreement as plot_disagreement
    from evalkit.plots import plot_k_curve as plot_k_curve
    from evalkit.plots import plot_phi_grid as plot_phi_grid
    from evalkit.plots import plot_scores as plot_scores
    from evalkit.plots import plot_versions as plot_versions
    from evalkit.probes import Attack as Attack
    from evalkit.probes import Padding as Padding
    from evalkit.probes import Probe as Probe
    from evalkit.probes import load_attacks as load_attacks
    from evalkit.probes import load_paddings as load_paddings
    from evalkit.probes import probe_injection as probe_injection
    from evalkit.probes import probe_position as probe_position
    from evalkit.probes import probe_verbosity as probe_verbosity
    from evalkit.prompts import build_prompt as build_prompt
    from evalkit.prompts import lint as lint
    from evalkit.prompts import list_templates as list_templates
    from evalkit.providers.local import release_models as release_models
    from evalkit.records import Prompt as Prompt
    from evalkit.records import Reply as Reply
    from evalkit.registry import Registry as Registry
    from evalkit.reports import report as report
    from evalkit.rubrics import Criterion as Criterion
    from evalkit.rubrics import Profile as Profile
    from evalkit.rubrics import Rubric as Rubric
    from evalkit.rubrics import Scale as Scale
    from evalkit.rubrics import diff as diff
    from evalkit.rubrics import list_rubrics as list_rubrics
    from evalkit.rubrics import load_pollux as load_pollux
    from evalkit.rubrics import load_profile as load_profile
    from evalkit.rubrics import load_rubric as load_rubric
    from evalkit.rubrics import save as save
    from evalkit.running import Run as Run
    from evalkit.running import Runner as Runner
    from evalkit.running import Worker as Worker
    from evalkit.running import compare_runs as compare_runs
    from evalkit.running import leaderboard as leaderboard
    from evalkit.suggesting import Edit as Edit
    from evalkit.suggesting import Suggestions as Suggestions
    from evalkit.suggesting import measure_edit as measure_edit
    from evalkit.suggesting import suggest_edits as suggest_edits
    from evalkit.tables import labels as labels
    from evalkit.tables import load_items as load_items
    from evalkit.validity import align as align
    from evalkit.validity import alt_test as alt_test
    from evalkit.validity import confusion as confusion
    from evalkit.validity import corrected_mean as corrected_mean
    from evalkit.validity import held_out_looks as held_out_looks
    from evalkit.validity import pass_threshold as pass_threshold
    from evalkit.validity import split_labels as split_labels
    from evalkit.voting import vote as vote
    from evalkit.widgets import JudgmentBrowser as JudgmentBrowser
    from evalkit.widgets import RubricTuner as RubricTuner
    from evalkit.widgets.run_views import RunView as RunView
    from evalkit.widgets.wizard import RunWizard as RunWizard

_PLACES = {
    "evalkit.aggregation": ("aggregate", "combine", "jury_value", "summarize"),
    "evalkit.aggregation.wins": ("win_rates",),
    "evalkit.agreement": ("disagreement", "judge_agreement", "phi_grid", "reliability"),
    "evalkit.caching": ("ReplyStore",),
    "evalkit.caching.memory": ("ReplyMemory",),
    "evalkit.calling": ("check_server",),
    "evalkit.changes": ("compare", "noise_floor", "plan_again", "sample_again"),
    "evalkit.changes.orders": ("position_inconsistency",),
    "evalkit.curves": ("k_curve",),
    "evalkit.errors": (
        "CacheError",
        "CacheMiss",
        "ConfigError",
        "EvalkitError",
        "EvalkitWarning",
        "InputError",
        "JudgeError",
        "LightevalError",
        "MissingExtraError",
        "RegistryError",
        "RubricError",
    ),
    "evalkit.evaluation": ("Evaluation", "cache_stats", "evaluate", "freeze", "load_example", "show"),
    "evalkit.gate": ("from_traces", "run_gate", "to_traces"),
    "evalkit.judges": ("Judge",),
    "evalkit.judging": (
        "Plan",
        "ajudge",
        "explain",
        "import_judgments",
        "judge",
        "judge_chunk",
        "plan",
        "readings",
        "record",
        "replies",
    ),
    "evalkit.lighteval.runs": ("LightevalRun", "run_lighteval"),
    "evalkit.parsing": ("parse_reply",),
    "evalkit.probes": (
        "Attack",
        "Padding",
        "Probe",
        "load_attacks",
        "load_paddings",
        "probe_injection",
        "probe_position",
        "probe_verbosity",
    ),
    "evalkit.plots": (
        "plot_agreement",
        "plot_confusion",
        "plot_cost",
        "plot_disagreement",
        "plot_k_curve",
        "plot_phi_grid",
        "plot_scores",
        "plot_versions",
    ),
    "evalkit.prompts": ("build_prompt", "lint", "list_templates"),
    "evalkit.providers.local": ("release_models",),
    "evalkit.records": ("Prompt", "Reply"),
    "evalkit.registry": ("Registry",),
    "evalkit.reports": ("report",),
    "evalkit.rubrics": (
        "Criterion",
        "Profile",
        "Rubric",
        "Scale",
        "diff",
        "list_rubrics",
        "load_pollux",
        "load_profile",
        "load_rubric",
        "save",
    ),
    "evalkit.suggesting": ("Edit", "Suggestions", "measure_edit", "suggest_edits"),
    "evalkit.running": ("Run", "Runner", "Worker", "compare_runs", "leaderboard"),
    "evalkit.tables": ("labels", "load_items"),
    "evalkit.validity": (
        "align",
        "alt_test",
        "confusion",
        "corrected_mean",
        "held_out_looks",
        "pass_threshold",
        "split_labels",
    ),
    "evalkit.voting": ("vote",),
    "evalkit.widgets": ("JudgmentBrowser", "RubricTuner"),
    "evalkit.widgets.run_views": ("RunView",),
    "evalkit.widgets.wizard": ("RunWizard",),
}
_HOME = {name: module for module, names in _PLACES.items() for name in names}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'evalkit' has no attribute {name!r}")
    from evalkit.errors import MissingExtraError

    try:
        value = globals()[name] = getattr(import_module(_HOME[name]), name)
    except MissingExtraError as problem:  # help, hasattr and `import *` must work with what is installed
        from evalkit.absences import Absent

        return Absent(name, str(problem))  # kept nowhere: found at the next use if the extra was installed since
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
