"""Instructions that LightEval's IFEval checks without a judge: words, lists, required and forbidden texts, form."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.utils.metric_utils import SampleLevelMetricGrouping
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import Doc, SamplingMethod

from evalkit.errors import ConfigError

_FIGURES = ("prompt_level_strict_acc", "prompt_level_loose_acc")
_PROBES = ("a b.", "A B.")


def instructions_metric() -> SampleLevelMetricGrouping:
    """The figures that LightEval's `ifeval` has with Inspect: the share of answers that follow all instructions."""
    return SampleLevelMetricGrouping(
        metric_name=list(_FIGURES),
        higher_is_better=dict.fromkeys(_FIGURES, True),  # type: ignore[arg-type]
        category=SamplingMethod.GENERATIVE,
        sample_level_fn=FollowedInstructions(),
        corpus_level_fn=np.mean,  # type: ignore[arg-type]  # LightEval takes one for all, too
    )


class FollowedInstructions(SampleLevelComputation):  # type: ignore[misc,unused-ignore]  # Any without LightEval
    """LightEval's `IFEvalMetrics`, imported when it is first used."""

    def compute(self, doc: Doc, model_response: ModelResponse, **_: Any) -> dict[str, Any]:
        """1 or 0: whether the answer follows all instructions of the document (strict), or would if cleaned (loose)."""
        found = _ifeval().compute(doc, model_response)
        return {name: found[name] for name in _FIGURES}

    def check(self, _task: str, docs: Sequence[Doc]) -> None:
        """Raise, before a model is loaded, if instructions cannot be checked here.

        Raises
        ------
        ConfigError
            For an unknown instruction, and for one that needs a package or data that are missing.
        """
        for doc in docs:
            try:
                for text in _PROBES:
                    self.compute(doc, ModelResponse(text=[text]))
            except Exception as problem:  # noqa: BLE001  # the checkers raise anything
                said, ids = " ".join(str(problem).split()), (doc.specific or {})["instructions_id_list"]
                fact = f"document {doc.id!r}: IFEval cannot check {ids} here ({type(problem).__name__}: {said})"
                advice = "instructions on languages and letter case need the package langdetect, those on sentences"
                more = "and words in capitals need `python -m nltk.downloader punkt punkt_tab`"
                raise ConfigError(f"{fact}; {advice} {more}") from None


@cache
def _ifeval() -> Any:
    import nltk  # type: ignore[import-untyped]

    download, nltk.download = nltk.download, lambda *_, **__: False  # the import would fetch data
    try:
        from lighteval.tasks.tasks.ifeval.main import IFEvalMetrics
    finally:
        nltk.download = download
    return IFEvalMetrics()
