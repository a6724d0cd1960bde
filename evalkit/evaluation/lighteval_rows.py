"""An evaluation in LightEval's form: a flat row with constant types per sample, and floats per task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pandas as pd

from evalkit.engine.judging.replies_to_judgments import COLUMNS
from evalkit.errors import RubricError, listed
from evalkit.evaluation import Evaluation
from evalkit.evaluation.wide_table import explanations
from evalkit.rubrics import Rubric
from evalkit.stats.agreement.reliabilities import reliability
from evalkit.tables import files, schemas

EMPTY_ANSWER = "empty_answer"
"""`_error` of a sample whose answer is empty: it is not judged, because failed calls leave empty answers, too."""

TIED = "tied"
"""`_error` of a sample whose judges tie and whose rule gives no number for a tie; it counts as scored."""

_KEPT = [
    "rubric", "rubric_version", "criterion", "judge", "order", "sample", "score", "score_norm", "label", "passed",
    "explanation", "error", "source", "model", "prompt_tokens", "completion_tokens", "cost_usd", "weight", "key",
    "level", "scale",
]  # fmt: skip
_FURTHER = ("fingerprint", *COLUMNS)
"""Columns that only some judgments have."""
_TAKEN = frozenset({
    "passed", "coverage", "agreement", "explanation", "error", "judgments", "disagreement",
    "raw", "stderr", "n", "pass_rate", "n_verdicts", "n_unscored", "n_empty", "alpha",
})  # fmt: skip
_VERDICTS = {True: "passed", False: "failed"}


def check_rubric(rubric: Rubric) -> None:
    """Raise if the rubric does not judge what a model wrote, or LightEval cannot store its scores.

    Raises
    ------
    RubricError
        When no input holds the model's output, a criterion has the name of another figure, or no criterion has a
        score from 0 to 1 (a nominal scale without a pass rule has none).
    """
    if rubric.mode == "pointwise" and not {"answer", "conversation"} & {*rubric.input_names}:
        raise RubricError(
            f"rubric {rubric.id!r} has neither 'answer' nor 'conversation' among its inputs "
            f"({listed(rubric.input_names)}), so the judges would not be shown what the model wrote; name the input "
            "that holds it 'answer'"
        )
    taken = [name for name in rubric.names if name in _TAKEN]
    if taken and len(rubric.criteria) > 1:
        raise RubricError(
            f"rubric {rubric.id!r}: criterion {listed(taken)} has the name of a figure of LightEval; rename the "
            "criterion"
        )
    scales = [criterion.scale for criterion in rubric.criteria]
    if all(math.isnan(scale.norm(code)) for scale in scales for code in scale.codes):
        raise RubricError(
            f"rubric {rubric.id!r} gives no answer a score, because its scales are nominal and have no pass rule; "
            "set pass_if to the levels that pass"
        )


def sample_rows(name: str, evaluation: Evaluation, *, report_disagreement: bool) -> dict[str, dict[str, Any]]:
    """For each item the row that LightEval stores, with the keys and types of `unjudged_row`."""
    rubric = evaluation.rubric
    scores = evaluation.rubric_scores.set_index("item_id")
    judgments = {str(item): rows for item, rows in evaluation.judgments.groupby("item_id", observed=True, sort=False)}
    said = _explained(evaluation)
    apart: dict[Any, float] = {}
    if report_disagreement:
        apart = evaluation.disagreement.groupby("item_id", observed=True)["disagreement"].mean().to_dict()
    several = len(rubric.criteria) > 1  # the rubric's own score of one that is critical and failed is the worst
    values = "score_norm" if several else "score"
    parts = evaluation.scores.pivot(index="item_id", columns="criterion", values=values)
    kept = [name for name in (*_KEPT, *_FURTHER) if name in evaluation.judgments]
    found: dict[str, dict[str, Any]] = {}
    for item in evaluation.items["item_id"]:
        mine, score = judgments[item], scores.loc[item]
        row = unjudged_row(name, rubric, "", report_disagreement=report_disagreement)
        row[name] = float(score["score_norm"])
        row[f"{name}_passed"] = None if pd.isna(score["passed"]) else bool(score["passed"])
        row[f"{name}_coverage"] = float(mine["error"].isna().mean())
        row[f"{name}_agreement"] = _agreement(mine)
        row[f"{name}_explanation"] = said.get(item, "")
        row[f"{name}_error"] = _error(score, mine)
        row[f"{name}_judgments"] = orjson.dumps(list(files.records(mine[kept]))).decode()
        row |= {f"{name}_{part if several else 'raw'}": float(parts.loc[item, part]) for part in rubric.names}
        if report_disagreement:
            row[f"{name}_disagreement"] = float(apart.get(item, math.nan))
        found[item] = row
    return found


def unjudged_row(name: str, rubric: Rubric, error: str, *, report_disagreement: bool) -> dict[str, Any]:
    """The row of a sample that has no judgments, with the reason."""
    cells = {"passed": None, "coverage": 0.0, "agreement": math.nan, "explanation": "", "error": error}
    row: dict[str, Any] = {name: math.nan, **{f"{name}_{cell}": value for cell, value in cells.items()}}
    row[f"{name}_judgments"] = "[]"
    several = len(rubric.criteria) > 1
    row |= {f"{name}_{part}": math.nan for part in rubric.names} if several else {f"{name}_raw": math.nan}
    return row | ({f"{name}_disagreement": math.nan} if report_disagreement else {})


def corpus_row(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The figures of a task.

    `<name>`: mean of the samples that have a number, `_stderr`: its standard error (sd with ddof 1 over √n; NaN under
    two), `_n`: their number, `_coverage`: share of the samples that are scored (including ties without a number),
    `_pass_rate` of the `_n_verdicts` samples with a verdict (a tie has none), `_n_unscored`, `_n_empty` (empty answers,
    among the unscored).
    """
    verdicts = [row[f"{name}_passed"] for row in rows if row[f"{name}_passed"] is not None]
    rate = float(np.mean(verdicts)) if verdicts else math.nan
    figures = {f"{name}_pass_rate": rate, f"{name}_n_verdicts": float(len(verdicts))}
    return mean_row(name, [row[name] for row in rows]) | figures | coverage_row(name, rows)


def coverage_row(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The share of a task's samples that are scored, and how many are unscored and empty."""
    n_scored = sum(is_scored(name, row) for row in rows)
    n_empty = sum(row[f"{name}_error"] == EMPTY_ANSWER for row in rows)
    counts = {f"{name}_n_unscored": float(len(rows) - n_scored), f"{name}_n_empty": float(n_empty)}
    return {f"{name}_coverage": n_scored / len(rows) if rows else math.nan, **counts}


def is_scored(name: str, row: Mapping[str, Any]) -> bool:
    """Whether a sample is scored: it has a number, or its judges tie."""
    return not math.isnan(row[name]) or is_tied(row[f"{name}_error"])


def is_tied(error: str) -> bool:
    """Whether the reason of a sample or criterion without a number is a tie, whatever is in brackets after it."""
    return error.split(" ", 1)[0] == TIED


def mean_row(name: str, values: Sequence[float]) -> dict[str, float]:
    """Mean, standard error and number of the values that are not NaN.

    Examples
    --------
    >>> mean_row("x", [1.0, 0.0, float("nan")])  # √(½ / 2)
    {'x': 0.5, 'x_stderr': 0.5, 'x_n': 2.0}
    """
    known = np.array([value for value in values if not math.isnan(value)], dtype=float)
    n = len(known)
    stderr = math.sqrt(float(known.var(ddof=1)) / n) if n > 1 else math.nan
    return {name: float(known.mean()) if n else math.nan, f"{name}_stderr": stderr, f"{name}_n": float(n)}


def disagreement_row(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean disagreement of the samples that have one, if the run reports it: see `mean_row`.

    Examples
    --------
    >>> disagreement_row("x", [{"x_disagreement": 0.5}, {"x_disagreement": 0.0}, {"x_disagreement": float("nan")}])
    {'x_disagreement': 0.25, 'x_disagreement_stderr': 0.25, 'x_disagreement_n': 2.0}
    """
    key = f"{name}_disagreement"
    return mean_row(key, [row[key] for row in rows]) if rows and key in rows[0] else {}


def judgments_of(name: str, rows: Sequence[Mapping[str, Any]], ids: Sequence[str] | None = None) -> pd.DataFrame:
    """The judgments table of a task, read from its stored samples."""
    lists = [orjson.loads(row[f"{name}_judgments"] or "[]") for row in rows]
    names = ids if ids is not None else [str(number) for number in range(len(rows))]
    packed = [
        {"item_id": f"{item}#{one['criterion_id']}" if "criterion_id" in one else item, **one}  # of an item's own
        for item, judgments in zip(names, lists, strict=False) for one in judgments
    ]  # fmt: skip
    if not packed:
        return schemas.empty("judgments")
    more = [column for column in _FURTHER if any(column in one for one in packed)]
    return schemas.table("judgments", {key: [one.get(key) for one in packed] for key in ["item_id", *_KEPT, *more]})


def alpha_of(name: str, rows: Sequence[Mapping[str, Any]]) -> float:
    """Krippendorff's alpha among the judges on single samples, the mean over the criteria that have one."""
    judgments = judgments_of(name, rows)
    if judgments.empty:
        return math.nan
    values = reliability(judgments)["alpha_single"].dropna()
    return float(values.mean()) if len(values) else math.nan


def _agreement(rows: pd.DataFrame) -> float:
    """Largest share of one verdict (without a pass rule: of one label) among all samples, the mean over criteria."""
    shares = []
    for _, mine in rows.groupby("criterion", observed=True):
        if len(mine) < 2:
            continue
        given = mine["passed"].map(_VERDICTS) if mine["passed"].notna().any() else mine["label"].astype(object)
        counts = given.dropna().value_counts()
        shares.append(int(counts.iloc[0]) / len(mine) if len(counts) else 0.0)
    return round(float(np.mean(shares)), 4) if shares else math.nan


def _error(score: pd.Series, rows: pd.DataFrame) -> str:
    """Why a sample has no score: the reason of the rule, and those of its judgments."""
    if not pd.isna(score["score_norm"]):
        return ""
    reasons = rows["error"].dropna().astype(str).value_counts()
    counted = ", ".join(f"{why} × {count}" if count > 1 else str(why) for why, count in reasons.items())
    reason = TIED if score["status"] == TIED else "unscored" if pd.isna(score["reason"]) else str(score["reason"])
    if len(reasons) == 1 and reason == reasons.index[0]:
        return reason
    return f"{reason} ({counted})" if counted else reason


def _explained(evaluation: Evaluation) -> dict[str, str]:
    """Item -> the first explanation that agrees with its score; one line per criterion if there are several."""
    said = explanations(evaluation.judgments, evaluation.votes)
    if said.empty:
        return {}
    key = ["item_id", "criterion"]
    votes = evaluation.votes[[*key, "judge", "passed", "score_norm"]]
    scores = evaluation.scores[[*key, "passed", "score_norm"]]
    both = votes.merge(scores, on=key, suffixes=("", "_jury")).merge(said, on=[*key, "judge"])
    side = both["passed"].ne(both["passed_jury"]).fillna(value=False).astype(bool)
    distance = (both["score_norm"] - both["score_norm_jury"]).abs().fillna(0.0).round(9)
    order = both.assign(side=side, distance=distance).sort_values(["side", "distance"], kind="stable")
    first = order.drop_duplicates(key)
    several = len(evaluation.rubric.criteria) > 1
    ranks = {name: rank for rank, name in enumerate(evaluation.rubric.names)}
    texts: dict[str, list[tuple[int, str]]] = {}
    for item, criterion, text in zip(first["item_id"], first["criterion"], first["explanation"], strict=True):
        line = f"{criterion}: {text}" if several else str(text)
        texts.setdefault(str(item), []).append((ranks[criterion], line))
    return {item: "\n".join(line for _, line in sorted(lines)) for item, lines in texts.items()}
