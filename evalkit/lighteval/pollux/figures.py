"""The figures of a task that the POLLUX metric scored."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["pollux_corpus"]


def pollux_corpus(samples: Sequence[Mapping[str, Any]], *, name: str = "pollux") -> dict[str, float]:
    """The figures of a task: LightEval's corpus-level function for `PolluxLLMJudgeMetric`.

    Parameters
    ----------
    samples
        What `compute` returned, one a document.
    name
        Beginning of the figures' names. Two POLLUX metrics of one task need two, else the second takes the place of
        the first: ``functools.partial(pollux_corpus, name="clarity")``.

    Returns
    -------
    dict
        ``pollux_score`` (mean over the scored, in units of the scale; NaN without any), ``pollux_score_stderr`` (its
        standard error, sd / √n; NaN below two), ``pollux_coverage`` (share scored, 0-1; NaN without samples) and
        ``pollux_n_unscored``, all floats. A 0.0 by ``on_unparsed="zero"`` counts in the mean, and as unscored.

    Examples
    --------
    >>> rows = [{"pollux_score": 2.0, "pollux_error": ""}, {"pollux_score": 1.0, "pollux_error": ""},
    ...         {"pollux_score": float("nan"), "pollux_error": "timeout"}]
    >>> pollux_corpus(rows)["pollux_score"], round(pollux_corpus(rows)["pollux_coverage"], 3)
    (1.5, 0.667)
    """
    scores = [float(sample["pollux_score"]) for sample in samples]
    scores = [score for score in scores if not math.isnan(score)]
    n_unscored = sum(1 for sample in samples if sample["pollux_error"])
    n, total = len(scores), len(samples)
    mean = math.fsum(scores) / n if n else math.nan
    variance = math.fsum((score - mean) ** 2 for score in scores) / (n - 1) if n > 1 else math.nan
    return {
        f"{name}_score": mean,
        f"{name}_score_stderr": math.sqrt(variance / n) if n > 1 else math.nan,
        f"{name}_coverage": (total - n_unscored) / total if total else math.nan,
        f"{name}_n_unscored": float(n_unscored),
    }
