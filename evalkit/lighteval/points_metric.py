"""A LightEval metric of documents that bring their own criteria: one answer becomes a request per criterion."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import orjson
import pandas as pd

from evalkit.errors import InputError
from evalkit.evaluation.lighteval_rows import EMPTY_ANSWER, coverage_row, mean_row
from evalkit.lighteval.items import Fields, fields_text, items_of
from evalkit.lighteval.metric_settings import Declared, MetricSettings
from evalkit.lighteval.metrics import ProgressLog, RubricScore, judge_rows
from evalkit.rubrics import Scale
from evalkit.rubrics.item_criteria import (
    CriteriaForm,
    criteria_in,
    exploded,
    refuse_numbers_beside,
    refuse_other_scales,
)
from evalkit.rubrics.rubric import OWN_CRITERIA, REQUIREMENT
from evalkit.stats.aggregation.item_points import points

_FIGURES, _COUNTS = ("points", "possible", "low", "high", "renormalised"), ("n_criteria", "n_open")


class PointsScore(RubricScore):
    """The sample-level function of `judge_metric` for a rubric that asks for a requirement."""

    def __init__(self, declared: Declared, name: str, fields: Fields, options: Mapping[str, Any]) -> None:
        place = fields.get(OWN_CRITERIA)
        self._form = CriteriaForm.of(None if callable(place) else place)
        places = {**fields, REQUIREMENT: place if callable(place) else partial(_cell_of, self._form.column)}
        places.pop(OWN_CRITERIA, None)
        super().__init__(declared, name, places, options)
        self._arguments = fields_text(fields)

    def __repr__(self) -> str:
        return f"PointsScore({self.declared.rubric.id}@{self.declared.rubric.version}, name={self.name!r})"

    def check(self, task: str | None = None, docs: Sequence[Any] = ()) -> MetricSettings | None:
        """Raise what prevents judging a task; also for documents whose criteria cannot be judged."""
        settings = super().check(task, docs)
        scales = [] if settings is None else [criterion.scale for criterion in settings.spec.rubric.criteria]
        counts = list[int]()
        for doc in docs if settings is not None else ():
            try:
                criteria = criteria_in(self._fields[REQUIREMENT](doc), self._form)
                refuse_other_scales([(criterion.id, criterion.scale) for criterion in criteria], scales)
            except InputError as problem:
                raise InputError(f"task {doc.task_name!r}, document {doc.id!r}: {problem}") from None
            counts.append(len(criteria))
        beside = pd.DataFrame([doc.specific or {} for doc in docs[: len(counts)]], dtype=object)
        refuse_numbers_beside(beside.items(), counts, self._form)
        return settings

    def _figures(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        name, ends = self.name, ["", *(f"_{figure}" for figure in (*_FIGURES, *_COUNTS))]
        columns = pd.DataFrame(list(rows), columns=[f"{name}{end}" for end in ends], dtype=float)
        scores = columns[name].dropna()
        figures = mean_row(name, columns[name].tolist()) | coverage_row(name, rows)
        figures[f"{name}_clipped"] = float(np.clip(figures[name], 0, 1))
        figures[f"{name}_below_0"] = float((scores < 0).mean()) if len(scores) else math.nan
        for stem, figure in {"worst": "low", "best": "high", "renormalised": "renormalised"}.items():
            figures[f"{name}_{stem}"] = float(columns[f"{name}_{figure}"].mean())
        return figures | {f"{name}_{count}": float(columns[f"{name}_{count}"].sum()) for count in _COUNTS}

    def _judge(
        self, settings: MetricSettings, docs: Sequence[Any], responses: Sequence[Any], filled: Sequence[int]
    ) -> tuple[list[dict[str, Any]], list[pd.DataFrame], int]:
        items = items_of(docs, responses, settings.spec.rubric, self._fields).rename(
            columns={REQUIREMENT: self._form.column}
        )
        every, report = exploded(items, self._form, read=items.columns), settings.report_disagreement
        criteria = every[every["of_item"].isin([str(number) for number in filled])].reset_index(drop=True)
        judged, tables = list[dict[str, Any]](), list[pd.DataFrame]()
        if filled:
            options = {"on_progress": ProgressLog(self.name), **settings.calling(self._options)}
            judged, tables = judge_rows("x", settings.spec, criteria, options, self.name, report_disagreement=report)
        scores = pd.DataFrame({"item_id": criteria["item_id"], "score": [row["x"] for row in judged]})
        scores["passed"] = pd.array([row["x_passed"] for row in judged], dtype="boolean")
        by_item: dict[str, list[tuple[Any, Any]]] = {}
        for criterion, row in zip(criteria.to_dict("records"), judged, strict=True):
            by_item.setdefault(criterion["of_item"], []).append((criterion, row))
        of_items = points(scores, every, scale=Scale.of({0: "", 1: ""}, pass_at=1)).to_dict("records")
        rows = [self._row(score, by_item.get(score["item_id"], []), report=report) for score in of_items]
        return rows, tables, len(criteria)

    def _row(self, score: Mapping[Any, Any], judged: Sequence[tuple[Any, Any]], *, report: bool) -> dict[str, Any]:
        """The row of an answer: its points, its criteria, and all of their judgments."""
        name, parts, judgments, lines = self.name, {}, [], []
        for criterion, row in judged:
            key, weight, text = criterion["item_id"].partition("#")[2], criterion["points"], row["x_explanation"]
            parts[key] = {"axis": criterion["axis"] or "", "points": weight, "score_norm": row["x"],
                          "error": row["x_error"], "explanation": text}  # fmt: skip
            judgments += [judgment | {"criterion_id": key} for judgment in orjson.loads(row["x_judgments"])]
            if text and row["x_passed"] is not (weight > 0):
                lines.append(f"{key} ({weight:g} points): {text}")
        error = ""
        if pd.isna(score["score"]):
            reasons = Counter(row["x_error"] for _, row in judged if row["x_error"])
            of_criteria = "; ".join(f"{why} × {n}" if n > 1 else why for why, n in reasons.items())
            error = f"{score['reason']} ({of_criteria})" if of_criteria else str(score["reason"])
        values = {"": score["score"], **{f"_{figure}": score[figure] for figure in (*_FIGURES, *_COUNTS)}}
        values["_coverage"] = sum(row["x_coverage"] for _, row in judged) / score["n_criteria"]
        for figure in ("agreement", *(["disagreement"] if report else [])):
            values[f"_{figure}"] = mean_row("x", [row[f"x_{figure}"] for _, row in judged])["x"]
        return {
            **{f"{name}{end}": float(value) for end, value in values.items()},
            f"{name}_error": error if judged else EMPTY_ANSWER, f"{name}_explanation": "\n".join(lines),
            f"{name}_criteria": orjson.dumps(parts).decode(), f"{name}_judgments": orjson.dumps(judgments).decode(),
        }  # fmt: skip


def _cell_of(key: str, doc: Any) -> Any:
    return (doc.specific or {}).get(key)
