"""The POLLUX score of an answer from its judged criteria, and the figures of a task."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import orjson

from evalkit.evaluation.lighteval_rows import EMPTY_ANSWER, TIED, coverage_row, is_tied, mean_row
from evalkit.rubrics import Criterion

Missing = Literal["na", "renormalise"]
PolluxPart = dict[str, Any]
"""The result of one criterion for one answer: `score` (rubric units), `share` (score / maximum of the scale; None
for critical criteria and those without a number), `score_norm` (0-1), `passed`, `coverage`, `critical`, `error` (why
there is no number; ``tied``: scored all the same), `explanation`."""


RESERVED = frozenset({
    "stderr", "n", "coverage", "n_unscored", "n_empty", "n_skipped", "critical_rate", "plain", "plain_stderr",
    "plain_n", "grand_mean", "alpha",
})  # fmt: skip
"""Suffixes of a task's figures; no criterion may have one of these as its id."""


def part_of(criterion: Criterion, row: Mapping[str, Any]) -> PolluxPart:
    """The result of a criterion, from its row of `judge_criteria`."""
    scored = not math.isnan(row["x"])
    counted = scored and not criterion.critical
    return {
        "score": row["x_raw"] if scored else None,
        "share": row["x_raw"] / max(float(code) for code in criterion.scale.codes) if counted else None,
        "score_norm": row["x"] if scored else None, "passed": row["x_passed"], "coverage": row["x_coverage"],
        "critical": criterion.critical, "error": row["x_error"], "explanation": row["x_explanation"],
    }  # fmt: skip


def is_violated(part: PolluxPart) -> bool | None:
    """Whether a critical criterion is violated, by the majority of the judgments; None: not scored, or undecided."""
    return None if part["error"] or part["passed"] is None else not part["passed"]


def is_unscored(part: PolluxPart) -> bool:
    """Whether a criterion has no outcome: neither a number nor a tie of its judgments."""
    return bool(part["error"]) and not is_tied(part["error"])


def score_answer(parts: Mapping[str, PolluxPart], missing: Missing = "na") -> tuple[float, float, list[str]]:
    """Published score and plain mean of one answer, and the critical criteria that it violates.

    Parameters
    ----------
    parts
        Criterion -> its result, for the criteria that apply.
    missing
        ``na``: an answer with an unscored criterion has no score, unless a violated critical one decides it;
        ``renormalise``: the mean of those that are scored.

    Returns
    -------
    tuple
        The mean over the criteria that are not critical of score / maximum, 0.0 if a critical criterion is violated;
        the mean of `score_norm` over all; ids of the critical criteria violated. NaN if there is none.

    Examples
    --------
    >>> clear = {"share": 0.5, "score_norm": 0.5, "passed": None, "critical": False, "error": ""}
    >>> gate = {"share": None, "score_norm": 1.0, "passed": True, "critical": True, "error": ""}
    >>> score_answer({"clear": clear, "gate": gate})
    (0.5, 0.75, [])
    >>> score_answer({"clear": clear, "gate": gate | {"score_norm": 0.0, "passed": False}})
    (0.0, 0.25, ['gate'])
    """
    critical = {key: is_violated(part) for key, part in parts.items() if part["critical"]}
    violated = [key for key, verdict in critical.items() if verdict]
    published = _mean([part["share"] for part in parts.values() if not part["critical"]], missing)
    if violated or (missing == "na" and None in critical.values()):
        published = 0.0 if violated else math.nan
    return published, _mean([part["score_norm"] for part in parts.values()], missing), violated


def _mean(values: Sequence[float | None], missing: Missing) -> float:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return math.nan if missing == "na" and len(known) < len(values) else _plain_mean(known)


def _plain_mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def sample_row(
    name: str, applying: Mapping[str, Criterion], judged: Mapping[str, Mapping[str, Any]], missing: Missing
) -> dict[str, Any]:
    """The row of a sample; if nothing was judged, its answer was empty."""
    parts = {key: part_of(applying[key], row) for key, row in judged.items()}
    published, plain, violated = score_answer(parts, missing)
    decided = [part for part in parts.values() if part["critical"] and is_violated(part) is not None]
    said = [f"{key}: {part['explanation']}" for key, part in parts.items() if part["explanation"]]
    n_scored = sum(not is_unscored(part) for part in parts.values())
    judgments = [one for row in judged.values() for one in orjson.loads(row["x_judgments"])]
    return {
        name: published, f"{name}_plain": plain, f"{name}_violated": float(bool(violated)) if decided else math.nan,
        f"{name}_critical": ", ".join(violated),
        f"{name}_coverage": sum(part["coverage"] for part in parts.values()) / len(applying),
        f"{name}_n_criteria": float(len(applying)), f"{name}_n_unscored": float(len(applying) - n_scored),
        f"{name}_error": "" if not math.isnan(published) else _why(parts), f"{name}_explanation": "\n".join(said),
        f"{name}_criteria": orjson.dumps(parts).decode(), f"{name}_judgments": orjson.dumps(judgments).decode(),
    }  # fmt: skip


def _why(parts: Mapping[str, PolluxPart]) -> str:
    """Why an answer has no number: the reasons of its criteria, after ``tied`` if there are only ties."""
    if not parts:
        return EMPTY_ANSWER
    open_ones = [key for key, part in parts.items() if part["critical"] and is_violated(part) is None]
    said = [f"{key}: {part['error']}" for key, part in parts.items() if part["error"]]
    said += [f"{key}: undecided" for key in open_ones if not parts[key]["error"]]
    if said and not any(map(is_unscored, parts.values())):
        return f"{TIED} ({'; '.join(said)})"
    return "; ".join(said) or "only critical criteria apply"


def corpus_of(name: str, rows: Sequence[Mapping[str, Any]], shown: Iterable[str]) -> dict[str, float]:
    """The figures of a task; see `pollux_metric`."""
    parts = [(orjson.loads(row[f"{name}_criteria"]), bool(row[f"{name}_critical"])) for row in rows]
    figures = mean_row(name, [row[name] for row in rows]) | coverage_row(name, rows)
    figures |= {
        f"{name}_n_skipped": float(sum(row[f"{name}_n_skipped"] for row in rows)),
        f"{name}_critical_rate": mean_row("x", [row[f"{name}_violated"] for row in rows])["x"],
    }
    figures |= mean_row(f"{name}_plain", [row[f"{name}_plain"] for row in rows])
    figures[f"{name}_grand_mean"] = _plain_mean([
        0.0 if zeroed else part["share"] for found, zeroed in parts for part in found.values()
        if part["share"] is not None
    ])  # fmt: skip
    for key in shown:
        mine = [found[key] for found, _ in parts if key in found]
        values = [math.nan if part["score_norm"] is None else part["score_norm"] for part in mine]
        n_scored = sum(not is_unscored(part) for part in mine)
        figures |= mean_row(f"{name}_{key}", values)
        figures[f"{name}_{key}_coverage"] = n_scored / len(mine) if mine else math.nan
    return figures


def pollux_corpus(samples: Sequence[Mapping[str, Any]], *, name: str = "pollux") -> dict[str, float]:
    """The figures of a task: LightEval's corpus-level function for `PolluxLLMJudgeMetric`.

    Parameters
    ----------
    samples
        The rows of `compute`, one per document.
    name
        Prefix of the figures' names. Two POLLUX metrics in one task need two prefixes, else the second overwrites the
        first: ``functools.partial(pollux_corpus, name="clarity")``.

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
    n_unscored = sum(bool(sample["pollux_error"]) for sample in samples)
    means = mean_row(f"{name}_score", [float(sample["pollux_score"]) for sample in samples])
    means.pop(f"{name}_score_n")
    coverage = (len(samples) - n_unscored) / len(samples) if samples else math.nan
    return means | {f"{name}_coverage": coverage, f"{name}_n_unscored": float(n_unscored)}
