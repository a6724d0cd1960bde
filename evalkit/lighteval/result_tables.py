"""The files of a LightEval run as tables: results, details in the shape of `Evaluation.wide`, judgments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from evalkit.core.formatting import figure
from evalkit.evaluation.lighteval_rows import judgments_of
from evalkit.evaluation.wide_table import wide_table
from evalkit.runs.contract.figure_name_rules import is_count, is_of, no_values
from evalkit.runs.contract.receipts import Receipt
from evalkit.runs.run.run_results import sample_figures
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.voting import vote
from evalkit.tables import schemas

_BESIDE = ("stderr", "n", "coverage", "pass_rate", "n_verdicts", "alpha", "n_unscored", "n_empty")
_WHOLE = ("n", "n_verdicts", "n_unscored", "n_empty")
_COLUMNS = ["task", "metric", "value", *_BESIDE]
_ITEM = {"context": "context", "reference": "reference_answer", "conversation": "conversation"}


def results_table(results: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """One row per task and metric, judged ones first; figures that a metric lacks are NA.

    Counts of samples are whole numbers, except in LightEval's means over a group of tasks.
    """
    rows = []
    for task, figures in results.items():
        judged = [name.removesuffix("_coverage") for name in figures if name.endswith("_coverage")]
        # a figure `x` has its coverage in `x_coverage`; that of POLLUX's own metric, `x_score`, there as well
        stems = {name: [name, name.removesuffix("_score")] for name in figures}
        beside = {f"{one}_{part}" for name in figures for one in stems[name] for part in _BESIDE} & figures.keys()
        alone = _orphans(figures, beside)
        heads = [one for one in figures if one not in beside and one.removesuffix("_coverage") not in alone] + alone
        for name in sorted(dict.fromkeys(heads), key=lambda one: not is_of(one, judged)):
            row = {"task": task, "metric": name, "value": figures.get(name, math.nan)}
            for part in _BESIDE:
                names = [f"{one}_{part}" for one in stems.get(name, [name])]
                row[part] = next((figures[at] for at in names if at in figures), math.nan)
            rows.append(row)
    table = pd.DataFrame(rows, columns=_COLUMNS)
    return table.astype({name: "Int64" for name in _WHOLE if (table[name].dropna() % 1 == 0).all()})


def results_cells(table: pd.DataFrame) -> tuple[list[dict[str, str]], str]:
    """The results as strings, without empty columns; and a sentence on the metrics that have no value."""
    absent = table["value"].isna() & table["coverage"].isna()
    names = set(table["metric"])
    counts = table["metric"].map(lambda name: is_count(name, names))
    shown = table[~absent & ~(counts & table["value"].eq(0))]
    shown = shown.loc[:, [name in _COLUMNS[:3] or bool(shown[name].notna().any()) for name in shown.columns]]
    cells = [{str(name): _cell(value, "NA" if name == "value" else "", name in _WHOLE or is_count(row["metric"], names))
              for name, value in row.items()} for row in shown.to_dict("records")]  # fmt: skip
    return cells, no_values(zip(table.loc[absent, "task"], table.loc[absent, "metric"], strict=True))


def _cell(value: Any, missing: str, whole: bool) -> str:
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return missing
    return f"{value:.0f}" if whole and float(value).is_integer() else figure(value, digits=3)


def _orphans(figures: Mapping[str, float], beside: set[str]) -> list[str]:
    """Metrics that were not judged: they have a coverage but no value."""
    covered = [name.removesuffix("_coverage") for name in figures if name.endswith("_coverage") and name not in beside]
    return [name for name in covered if name not in figures]


def details_table(task: str, details: pd.DataFrame, receipts: Sequence[Receipt]) -> pd.DataFrame:
    """One row per sample: item, the stored figures of each metric, and for judged metrics scores and judges."""
    items = _items(task, details)
    mine = [receipt for receipt in receipts if receipt.task == task]
    kept = [_renamed(sample_figures(metric), mine) for metric in details["metric"]]
    names = list(dict.fromkeys(name for row in kept for name in row))
    frame = pd.concat([items, pd.DataFrame(kept, columns=names, index=items.index)], axis="columns")
    for receipt in mine:
        judgments = _judgments(receipt.metric, details, items["item_id"].tolist())
        if judgments["item_id"].isin(items["item_id"]).any():  # not of criteria of items' own, which have their rows
            frame = _with_judges(frame, judgments, receipt)
    return frame


def judgments_table(task: str, details: pd.DataFrame, receipts: Sequence[Receipt]) -> pd.DataFrame:
    """The judgments of a task's metrics, each once; `item_id` is ``task/id``.

    If two metrics have the same rubric, a judgment that they share appears once. A judge with other settings in the
    second metric gets the metric's name in brackets.
    """
    ids = [f"{task}/{name}" for name in _items(task, details)["item_id"]]
    parts = [(receipt.metric, _judgments(receipt.metric, details, ids)) for receipt in receipts if receipt.task == task]
    if not (found := [part.assign(_metric=metric) for metric, part in parts if len(part)]):
        return schemas.empty("judgments")
    both = pd.concat(found, ignore_index=True)
    both = both[~both.duplicated([*schemas.JUDGMENT_KEY, "key"])]
    clash = both.duplicated(schemas.JUDGMENT_KEY)
    named = both["judge"].astype("str")
    made = both.drop(columns="_metric").assign(judge=named.where(~clash, named + " (" + both["_metric"] + ")"))
    return schemas.table("judgments", {name: made[name].array for name in made.columns})


def _judgments(metric: str, details: pd.DataFrame, ids: Sequence[str]) -> pd.DataFrame:
    rows = [row.get(metric) or {} for row in details["metric"]]
    if not rows or any(f"{metric}_judgments" not in row for row in rows):
        return schemas.empty("judgments")
    return judgments_of(metric, rows, ids)


def _with_judges(frame: pd.DataFrame, judgments: pd.DataFrame, receipt: Receipt) -> pd.DataFrame:
    given: dict[str, Any] = {"method": receipt.vote or "mean", "ties": receipt.ties or "na"}  # as it was
    given |= {"min_self_agreement": receipt.min_self_agreement, "pass_prob_at": receipt.pass_prob_at}
    votes = vote(judgments, **given)
    method: Any = receipt.aggregation or "mean"
    scores = aggregate(votes, method=method, quorum=0.5 if receipt.quorum is None else receipt.quorum)
    heads = judgments.drop_duplicates("criterion")
    criteria = list(zip(heads["criterion"].astype(str), heads["level"].astype(str), strict=True))
    return wide_table(frame, criteria, [judge.name for judge in receipt.judges], judgments, votes, scores)


def _items(task: str, details: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for doc, response in zip(details["doc"], details["model_response"], strict=True):
        texts = response.get("text_post_processed")
        texts = response.get("text") if texts is None else texts
        row = {"task": task, "item_id": str(doc["id"]), "question": doc["query"]}
        row["answer"] = "" if texts is None or len(texts) == 0 else texts[0]
        specific = doc.get("specific") or {}
        row |= {name: specific[key] for name, key in _ITEM.items() if specific.get(key) is not None}
        rows.append(row)
    named = ["task", "item_id", "question", "answer", *_ITEM]
    there = [name for name in named if any(name in row for row in rows)]
    return pd.DataFrame(rows, columns=there or named[:4])


def _renamed(row: dict[str, Any], receipts: Sequence[Receipt]) -> dict[str, Any]:
    """Rename the figures of judged metrics, because the columns of their criteria are in the rubric's units.

    `<metric>_norm` is the 0-1 score, whose mean is the result; `<metric>_raw` that in the rubric's units.
    """
    for receipt in receipts:
        name = receipt.metric
        row.pop(f"{name}_judgments", None)
        if name in row:
            row[f"{name}_norm"] = row.pop(name)
            row[f"{name}_verdict"] = row.pop(f"{name}_passed", None)
    return row
