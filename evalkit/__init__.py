"""evalkit: tune LLM judges and juries, and trust their scores.

``import evalkit as ek`` is cheap: everything is imported when it is first used. The functions of a usual day are here;
the rest is one step further: ``ek.stats``, ``ek.plots``, ``ek.probes``, ``ek.rubrics``, ``ek.engine``,
``ek.evaluation``, ``ek.notebook``, ``ek.gate``, ``ek.lighteval``, ``ek.runs`` and ``ek.errors``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evalkit._version import __version__

if TYPE_CHECKING:
    from evalkit import core as core
    from evalkit import engine as engine
    from evalkit import errors as errors
    from evalkit import evaluation as evaluation
    from evalkit import gate as gate
    from evalkit import lighteval as lighteval
    from evalkit import notebook as notebook
    from evalkit import plots as plots
    from evalkit import probes as probes
    from evalkit import rubrics as rubrics
    from evalkit import runs as runs
    from evalkit import stats as stats
    from evalkit import tables as tables
    from evalkit.core import Judge
    from evalkit.engine import (
        ajudge,
        collect,
        explain,
        import_judgments,
        judge,
        judge_files,
        plan,
        record,
        submit,
    )
    from evalkit.evaluation import (
        Evaluation,
        calibrate,
        evaluate,
        freeze,
        history,
        improve,
        load_example,
        report,
        show,
        suggest_edits,
    )
    from evalkit.notebook import RubricTuner, start
    from evalkit.rubrics import (
        Criterion,
        Rubric,
        Scale,
        build_prompt,
        extract_labels,
        load_profile,
        load_rubric,
        parse_reply,
    )
    from evalkit.stats import (
        aggregate,
        align,
        combine,
        compare,
        corpus_estimate,
        disagreement,
        drift,
        next_labels,
        pick_examples,
        rank,
        reliability,
        rescore,
        split_labels,
        summarize,
        vote,
    )
    from evalkit.tables import load_items

__all__ = [
    # what is judged, and by whom
    "load_example",
    "load_items",
    "extract_labels",
    "load_rubric",
    "load_profile",
    "Rubric",
    "Criterion",
    "Scale",
    "Judge",
    # ask
    "build_prompt",
    "parse_reply",
    "plan",
    "judge",
    "ajudge",
    "judge_files",
    "submit",
    "collect",
    "record",
    "import_judgments",
    "explain",
    # from judgments to scores
    "vote",
    "rescore",
    "aggregate",
    "combine",
    "summarize",
    "rank",
    # how far they can be trusted
    "disagreement",
    "reliability",
    "align",
    "split_labels",
    "next_labels",
    "pick_examples",
    "corpus_estimate",
    "calibrate",
    "compare",
    "drift",
    # all at once, and what follows
    "evaluate",
    "Evaluation",
    "history",
    "show",
    "report",
    "freeze",
    "suggest_edits",
    "improve",
    "start",
    "RubricTuner",
    "__version__",
]

_HOMES = ("core", "tables", "rubrics", "engine", "stats", "evaluation", "notebook")
_MODULES = (
    *("core", "engine", "errors", "evaluation", "gate", "lighteval", "notebook"),
    *("plots", "probes", "rubrics", "runs", "stats", "tables"),
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"evalkit.{name}")
    if name in __all__:
        for home in _HOMES:
            module = import_module(f"evalkit.{home}")
            if name in module.__all__:
                value = globals()[name] = getattr(module, name)
                return value
    raise AttributeError(f"module 'evalkit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
