"""Whether the judge itself changed: earlier replies to the same prompts against later ones."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.formatting import figure, p_value
from evalkit.engine.judging.judge import judge_worklist, missing_requests
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import counted
from evalkit.gate.precedence import GateOptions
from evalkit.gate.results_and_exit_code import Status, SuiteResult
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.comparison.compare_evaluations import compare
from evalkit.stats.result_tables import JURY
from evalkit.stats.significance import Outcomes, holm, permuted_samples
from evalkit.stats.voting import vote

LEVEL = 0.05
_STATUSES: dict[str, Status] = {"changed": "fail", "no change seen": "pass"}


def measure_drift(works: Iterable[Worklist], options: GateOptions) -> list[SuiteResult]:
    """The stored replies from before `options.refresh` against those since, for each criterion, judge and jury.

    ``fail``: the samples differ more than sampling explains (p ≤ .05, by Holm over all rows). ``error``: there are no
    earlier replies, or one sample of each judge, from which chance cannot be told.
    """
    found, tables = list[SuiteResult](), list[pd.DataFrame]()
    for work in works:
        rubric, since = work.spec.rubric, float(options.refresh)  # type: ignore[arg-type]  # a date was asked for
        stored = replace(options, offline=True, refresh=False, drift=False)
        before, after = (judge_worklist(work, stored, until=until) for until in (since, None))
        asked, *_ = missing_requests(work, replace(options, drift=False))  # a failed call leaves the earlier reply
        late = {key.hex() for request in asked for key in request.keys}
        lost = before["source"].isna(), after["source"].isna() | after["key"].isin(late)
        missing = [set(before.loc[rows.to_numpy(), "item_id"]) for rows in lost]
        there = ~before["item_id"].isin(missing[0] | missing[1])
        if not there.any():
            text = "the judge gave no replies since the date"
            if len(missing[0]) == len(work.inputs):
                text = (
                    "no test has replies on both sides of the date; record them now without --drift, and test again "
                    "later"
                )
            found.append(SuiteResult("drift", rubric.id, "error", text))
            continue
        clusters = pd.Series(list(work.clusters), index=[str(at) for at in range(len(work.inputs))])
        sides = [_side(table[there.to_numpy()], work) for table in (before, after)]
        table = compare(*sides, clusters=clusters, same_prompts=True).table
        tables.append(table.assign(left_out=len(missing[0] | missing[1]), n_tests=len(work.inputs)))
    rows = pd.concat(tables).to_dict("records") if tables else []
    adjusted = holm(np.array([row["change_p"] for row in rows], dtype=np.float64))
    return [*map(_row, rows, adjusted), *found]


def _side(table: pd.DataFrame, work: Worklist) -> SimpleNamespace:
    rules = work.spec.rules
    votes = vote(table, **rules.vote_options)
    scores = aggregate(votes, **rules.aggregate_options)
    return SimpleNamespace(judgments=table, votes=votes, scores=scores, rules=rules)


def _row(row: dict[Any, Any], p: float) -> SuiteResult:
    status = "cannot tell" if math.isnan(p) else "changed" if p <= LEVEL else "no change seen"
    if row["status"] == "same replies":  # asked again, with the same answer each time
        status, p = "no change seen", 1.0
    named = "the jury" if row["judge"] == JURY else row["judge"]
    limit = "" if np.isnan(row["chance_up_to"]) else f" (by chance up to {row['chance_up_to']:.0f})"
    changed = "NA" if pd.isna(row["changed"]) else row["changed"]
    text = f"{named}: {status}: {changed} of {counted(row['n_common'], 'test')} with another verdict{limit}"
    text += f", p {p_value(p)} by all samples"
    if not np.isnan(row["effect"]):
        text += f"; share that passes {figure(row['effect'], row['effect_low'], row['effect_high'])} higher"
    models = [row[f"models_{side}"] for side in ("before", "after")]
    if models[0] != models[1]:
        text += f"; model {models[0]} → {models[1]}"
    if row["left_out"]:
        text += f"; {row['left_out']} of {counted(row['n_tests'], 'test')} without replies on one side"
    return SuiteResult("drift", f"{row['rubric']}: {row['criterion']}", _STATUSES.get(status, "error"), text)


def judge_changed(pairs: Iterable[tuple[list[bool | None], list[bool | None]]]) -> str:
    """For tests whose prompts and settings are the same as in the baseline: whether the judge answers otherwise.

    `pairs` has the samples of both runs. Empty if all samples are the same.
    """
    before, after = [list(side) for side in zip(*pairs, strict=True)] or [[], []]
    if not (n_other := sum(old != now for old, now in zip(before, after, strict=True))):
        return ""
    counts = [
        (at, verdict, old.count(verdict), now.count(verdict))
        for at, (old, now) in enumerate(zip(before, after, strict=True))
        for verdict in (True, False)
    ]
    cell, _, a, b = (np.array(column, dtype=np.int64) for column in zip(*counts, strict=True))
    p = permuted_samples(Outcomes(cell, a, b))
    than = "one sample each, so the part of chance is unknown" if math.isnan(p) else f"p {p_value(p)}"
    what = f"{n_other} of {counted(len(before), 'test')} with the same prompt and settings have other samples ({than})"
    return f"{what}: the judge itself changed" if p <= LEVEL else what
