"""A LightEval metric of documents that bring their own criteria: one answer becomes a request per criterion."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pandas as pd

from evalkit.errors import InputError
from evalkit.evaluation.lighteval_rows import EMPTY_ANSWER, coverage_row, mean_row
from evalkit.lighteval.items import Fields, items_of
from evalkit.lighteval.metric_settings import Declared, MetricSettings
from evalkit.lighteval.metrics import ProgressLog, RubricScore, judge_rows
from evalkit.rubrics import Scale
from evalkit.rubrics.item_criteria import COLUMNS, criteria_in, explode_criteria
from evalkit.rubrics.rubric import REQUIREMENT
from evalkit.stats.aggregation.item_points import points

OWN = "criteria"
_FIGURES = ("points", "possible", "low", "high", "renormalised", "n_criteria", "n_open")


class PointsScore(RubricScore):
    """The sample-level function of `judge_metric` for a rubric that asks for a requirement."""

    def __init__(self, declared: Declared, name: str, fields: Fields, options: Mapping[str, Any]) -> None:
        place = fields.get(OWN)
        others = {key: where for key, where in fields.items() if key != OWN}
        super().__init__(declared, name, {**others, REQUIREMENT: _CellOf(place)}, options)

    def __repr__(self) -> str:
        return f"PointsScore({self.declared.rubric.id}@{self.declared.rubric.version}, name={self.name!r})"

    def check(self, task: str | None = None, docs: Sequence[Any] = ()) -> MetricSettings | None:
        """Raise what prevents judging a task; also for documents whose criteria cannot be judged."""
        settings = super().check(task, docs)
        for doc in docs if settings is not None else ():
            try:
                criteria_in(self._fields[REQUIREMENT](doc))  # type: ignore[operator]
            except InputError as problem:
                raise InputError(f"task {doc.task_name!r}, document {doc.id!r}: {problem}") from None
        return settings

    def _figures(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        name, scores = self.name, np.array([row[self.name] for row in rows], dtype=float)
        figures = mean_row(name, scores.tolist()) | coverage_row(name, rows)
        known = scores[~np.isnan(scores)]
        figures[f"{name}_clipped"] = float(np.clip(figures[name], 0, 1))
        figures[f"{name}_below_0"] = float((known < 0).mean()) if len(known) else math.nan
        for stem, figure in {"worst": "low", "best": "high", "renormalised": "renormalised"}.items():
            figures[f"{name}_{stem}"] = mean_row("x", [row[f"{name}_{figure}"] for row in rows])["x"]
        return figures | {
            f"{name}_{part}": float(sum(row[f"{name}_{part}"] for row in rows)) for part in ("n_criteria", "n_open")
        }

    def _judge(
        self, settings: MetricSettings, docs: Sequence[Any], responses: Sequence[Any], filled: Sequence[int]
    ) -> tuple[list[dict[str, Any]], list[pd.DataFrame], int]:
        items = items_of(docs, responses, settings.spec.rubric, self._fields).rename(columns={REQUIREMENT: OWN})
        exploded, report = explode_criteria(items), settings.report_disagreement
        asked = exploded[exploded["of_item"].isin([str(at) for at in filled])].reset_index(drop=True)
        judged, tables = list[dict[str, Any]](), list[pd.DataFrame]()
        if filled:
            options = {"on_progress": ProgressLog(self.name), **self._options}
            judged, tables = judge_rows("x", settings.spec, asked, options, self.name, report_disagreement=report)
        scores = pd.DataFrame({"item_id": asked["item_id"], "score": [row["x"] for row in judged]})
        scores["passed"] = pd.array([row["x_passed"] for row in judged], dtype="boolean")
        found = points(scores, exploded, scale=Scale.of({0: "", 1: ""}, pass_at=1)).to_dict("records")
        by_item: dict[str, list[tuple[Any, dict[str, Any]]]] = {str(at): [] for at in range(len(docs))}
        for (_, criterion), row in zip(asked.iterrows(), judged, strict=True):
            by_item[criterion["of_item"]].append((criterion, row))
        rows = [self._row(one, by_item[str(one["item_id"])], report=report) for one in found]
        return rows, tables, len(asked)

    def _row(self, found: Mapping[Any, Any], judged: Sequence[tuple[Any, Any]], *, report: bool) -> dict[str, Any]:
        """The row of an answer: its points, its criteria, and all of their judgments."""
        parts, judgments, lines = {}, [], []
        for criterion, row in judged:
            key = criterion["item_id"].partition("#")[2]
            axis, weight = criterion["axis"] or "", criterion["points"]
            part = {"axis": axis, "points": weight, "score_norm": row["x"], "error": row["x_error"]}
            parts[key] = part | {"explanation": row["x_explanation"]}
            judgments += [one | {"criterion_id": key} for one in orjson.loads(row["x_judgments"])]
            if row["x_explanation"] and row["x_passed"] is not (weight > 0):
                lines.append(f"{key} ({weight:g} points): {row['x_explanation']}")
        reasons = pd.Series([row["x_error"] for _, row in judged if row["x_error"]], dtype=object).value_counts()
        error = "; ".join(f"{why} × {n}" if n > 1 else str(why) for why, n in reasons.items())
        if pd.isna(found["score"]):
            error = EMPTY_ANSWER if not judged else error or str(found["reason"])
        score = {"": found["score"], **{f"_{name}": found[name] for name in _FIGURES}}
        row = {f"{self.name}{end}": float(value) for end, value in score.items()}
        row[f"{self.name}_coverage"] = sum(row["x_coverage"] for _, row in judged) / found["n_criteria"]
        row |= {f"{self.name}_error": "" if not pd.isna(found["score"]) else error}
        texts = {"criteria": orjson.dumps(parts).decode(), "judgments": orjson.dumps(judgments).decode()}
        row |= {f"{self.name}_{name}": text for name, text in {"explanation": "\n".join(lines), **texts}.items()}
        means = ["agreement", *(["disagreement"] if report else [])]
        return row | {f"{self.name}_{one}": mean_row("x", [row[f"x_{one}"] for _, row in judged])["x"] for one in means}


class _CellOf:
    """A document's criteria: the key of `doc.specific` or the function that `fields` names, else the usual keys."""

    def __init__(self, place: str | Callable[[Any], Any] | None) -> None:
        self._place = place

    def __call__(self, doc: Any) -> Any:
        if callable(self._place):
            return self._place(doc)
        names = COLUMNS if self._place is None else (self._place,)
        return next((cell for name in names if (cell := (doc.specific or {}).get(name)) is not None), None)
