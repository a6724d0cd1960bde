"""The criteria of a rubric become one score per item."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.arrays import BooleanArray

from evalkit.core.lists_of_choices import MISSING_CRITERIA, MissingCriteria, RubricMode
from evalkit.core.settings import WEIGHT, check_choice, is_weight
from evalkit.errors import EvalkitWarning, InputError, listed
from evalkit.rubrics import Criterion, Rubric, Scale
from evalkit.rubrics.given_scales import ScaleLike, same_scale
from evalkit.stats.plain_tables import OF_NO_RUBRIC, Keys, take_rows
from evalkit.stats.result_tables import verdict_codes
from evalkit.tables import schemas
from evalkit.tables.grouping import Flags, Floats, Groups, Objects, group
from evalkit.tables.schemas import SCORE_KEY

_NEED = [*SCORE_KEY, "score", "score_norm", "label", "passed", "reason", "status"]
_SCALED = ["level", "scale"]
_TINY = 1e-9
_NO_ROW = "not_judged"


def combine(
    scores: pd.DataFrame,
    rubric: Rubric | None = None,
    *,
    missing: MissingCriteria = "na",
    scale: ScaleLike | None = None,
) -> pd.DataFrame:
    """One score per item over all criteria of the rubric.

    Parameters
    ----------
    scores
        The table of `aggregate`, of this very version of the rubric. A plain table needs `item_id`, `criterion`, and
        `score` or `label`.
    rubric
        The rubric; its weights, critical criteria and `pass_at` are used. None: the criteria of the table, in order of
        first appearance, with the weights of a column `weight`, else equal ones; if it names a rubric, a warning.
    missing
        ``na`` (default): an item with an unscored criterion of weight > 0 has no score. ``renormalise``:
        the score is over the criteria that are scored, and the item is ``partial``.
    scale
        What a plain table cannot say, where there is no rubric: as in `aggregate`, such as ``{"tone": (1, 5), …}``.

    Returns
    -------
    DataFrame
        The rubric_scores table, keyed by `rubric, rubric_version, item_id` in order of first appearance:

        - `score_norm` 0-1: Σ w·score_norm / Σ w over the criteria that apply: those with weight > 0 whose
          answers can be good or bad (a nominal criterion without pass rule is reported, never averaged);
        - `score`: in the criterion's own units where the rubric has one criterion, else `score_norm`;
        - `passed`: `score_norm` at or above the rubric's own `pass_at` if it has one; else True if every
          criterion with a pass rule passed, False if one failed, NA while that is open or there is no rule;
        - a failed critical criterion makes the score 0 (the bad end of its scale) and fails the item, even
          where others are unscored; one without a verdict leaves the score open (NA);
        - `reason` of the first criterion, in the rubric's order, that leaves score or verdict open
          (``not_judged`` where the item has no row for it); of one that is tied only if all of these are;
        - `n_criteria` that apply, `n_scored` of them (ties included), `status` as in `aggregate`;
        - `level`, `scale` of `score`; `options`, of one criterion those of its score.

    Raises
    ------
    InputError
        For scores of another rubric or version, of an unknown criterion, or twice in the table; and of scales that are
        not known, which have no common unit.

    Examples
    --------
    >>> rubric = Rubric(id="r", inputs=["answer"], criteria=[
    ...     {"name": "a", "scale": {0: "no", 1: "yes"}, "pass_at": 1},
    ...     {"name": "b", "scale": {0: "no", 1: "so", 2: "yes"}, "weight": 3}])
    >>> scores = schemas.table("scores", {
    ...     "rubric": ["r"] * 2, "rubric_version": ["v1"] * 2, "item_id": ["i"] * 2, "criterion": ["a", "b"],
    ...     "score": [1.0, 1.0], "score_norm": [1.0, 0.5], "passed": [True, None], "status": ["ok"] * 2,
    ...     "n_judges": [1] * 2, "n_scored": [1] * 2, "tied": [False] * 2})
    >>> combine(scores, rubric)[["score_norm", "passed", "n_criteria"]].values.tolist()
    [[0.625, True, 2]]
    """
    check_choice("missing", missing, MISSING_CRITERIA)
    frame, keys, rubric = _taken(scores, rubric, scale)
    if not rubric.criteria:  # of no rows
        return keys.restore(schemas.empty("rubric_scores"))
    items = group(frame, ["rubric", "rubric_version", "item_id"])
    grid = _grid(frame, items, rubric)
    score, open_score = _weighted(grid, renormalise=missing == "renormalise")
    failed = np.asarray((grid.critical & grid.fails).any(axis=1))
    unsure = (grid.critical & ~grid.fails & ~grid.passes).any(axis=1)
    if missing == "na":
        open_score |= unsure
    score[open_score] = np.nan
    score[failed] = 0.0
    passed = _passed(grid, rubric, score, failed)
    pieces = frame.iloc[items.first]
    scale = rubric.criteria[0].scale if len(rubric.criteria) == 1 else Scale((0, 1), level="interval")
    columns: dict[str, Any] = {key: pieces[key].array for key in ("rubric", "rubric_version", "item_id")}
    columns |= _status(grid, score, passed, rubric) | {
        "score": _own_units(grid, rubric, score, failed),
        "score_norm": score,
        "passed": passed,
        "n_criteria": np.full(len(items), int(grid.applies.sum())),
        "n_scored": (grid.scored & grid.applies).sum(axis=1),
        "level": [scale.level] * len(items),
        "scale": [scale.to_json()] * len(items),
    }
    if len(rubric.criteria) == 1 and "options" in frame:
        columns["options"] = pieces["options"].array
    return keys.restore(schemas.table("rubric_scores", columns))


def _weights(frame: pd.DataFrame) -> dict[str, float]:
    """Criterion -> weight, from a column of a plain table."""
    if "weight" not in frame:
        return {}
    pairs = frame[["criterion", "weight"]].drop_duplicates().astype({"criterion": "str"})
    if (doubtful := pairs["criterion"].duplicated() | ~pairs["weight"].map(is_weight)).any():
        name = pairs.loc[doubtful, "criterion"].iloc[0]
        raise InputError(f"combine: criterion {name!r} has no single weight in the column 'weight', which is {WEIGHT}")
    return dict(zip(pairs["criterion"], pairs["weight"].astype(float), strict=True))


def _taken(scores: Any, rubric: Rubric | None, scale: ScaleLike | None) -> tuple[pd.DataFrame, Keys, Rubric]:
    """The scores, their keys and the rubric: the one that is passed, or one of the table's criteria."""
    if hasattr(scores, "rubric_scores") and not isinstance(scores, pd.DataFrame):
        raise InputError("combine takes a table of scores; an evaluation has its own: evaluation.rubric_scores")
    rubric = scale if rubric is None and isinstance(scale, Rubric) else rubric
    if rubric is not None:
        frame, keys = take_rows(scores, "scores", need=_NEED, function="combine", scale=scale, fallback=rubric)
        refuse_other_rubric(frame, rubric, "scores", "combine the scores of each version separately, with its rubric")
        return frame, keys, rubric
    frame, keys = take_rows(scores, "scores", need=[*_NEED, *_SCALED], function="combine", scale=scale)
    rubrics = frame[["rubric", "rubric_version"]].drop_duplicates()
    rows = frame.drop_duplicates("criterion")
    weights = _weights(frame)
    heads = rows[["criterion", *_SCALED]].astype(str).itertuples(index=False)
    scales = {name: Scale.from_json(level, text) for name, level, text in heads}
    criteria = [
        Criterion.model_construct(name=name, level=scale.level, scale=scale, weight=weights.get(name, 1.0))
        for name, scale in scales.items()
    ]
    if unknown := [item.name for item in criteria if item.scale.is_open and item.level != "nominal"]:
        raise InputError(
            f"combine: the scale of criterion {listed(unknown)} is not known, so that its scores have no common "
            "unit with others; pass the rubric, or scale={'criterion': (0, 1), …}"
        )
    if len(rubrics) > 1:
        raise InputError(
            f"combine: the scores are of {len(rubrics)} rubrics or versions; pass those of one, with its rubric"
        )
    if not weights and len(rubrics) and (name := "@".join(map(str, rubrics.iloc[0]))) != OF_NO_RUBRIC:
        warnings.warn(
            f"combine: the weights, critical criteria and pass_at of rubric {name!r} are not in the table, so that "
            "all criteria count alike; pass the rubric, as in combine(scores, rubric), or drop the columns "
            "`rubric` and `rubric_version`",
            EvalkitWarning,
            stacklevel=3,
        )
    is_pairs = bool((frame["level"].eq("nominal") & frame["score"].notna()).any())
    mode: RubricMode = "pairwise" if is_pairs else "pointwise"
    return frame, keys, Rubric.model_construct(id="table", inputs=(), criteria=tuple(criteria), mode=mode)


def refuse_other_rubric(frame: pd.DataFrame, rubric: Rubric, what: str, advice: str) -> None:
    """InputError for a table that another rubric or version than this made, or one with other scales."""
    versions = frame[["rubric", "rubric_version"]].drop_duplicates()
    labels = [f"{name}@{version}" for name, version in versions.itertuples(index=False)]
    key = f"{rubric.id}@{rubric.label}"
    if any(label != key for label in labels):
        raise InputError(
            f"the {what} were made with rubric {listed(labels)}, but the rubric passed is {key!r}; {advice}"
        )
    if unknown := [name for name in frame["criterion"].unique() if name not in rubric.names]:
        raise InputError(
            f"rubric {key!r} has no criteria {listed(unknown)}, which are in the {what}; it has {listed(rubric.names)}"
        )
    for name, level, text in frame[["criterion", *_SCALED]].drop_duplicates().astype(str).itertuples(index=False):
        if not same_scale(Scale.from_json(level, text), scale := rubric.criterion(name).scale):
            raise InputError(
                f"criterion {name!r} of the {what} has the scale {text}, and that of rubric {key!r} "
                f"{scale.to_json()}; {advice}"
            )


@dataclass(frozen=True, slots=True)
class _Grid:
    """Items × criteria, criteria in the rubric's order."""

    weight: Floats
    applies: Flags
    critical: Flags
    rule: Flags
    norm: Floats
    score: Floats
    scored: Flags
    passes: Flags
    fails: Flags
    reason: Objects
    status: Objects


def _grid(frame: pd.DataFrame, items: Groups, rubric: Rubric) -> _Grid:
    criteria = rubric.criteria
    cells = (items.codes, pd.Index(rubric.names).get_indexer(pd.Index(frame["criterion"].astype("str"))))

    def spread(values: Any, fill: Any) -> Any:
        grid: Any = np.full((len(items), len(criteria)), fill, dtype=np.asarray(values).dtype)
        grid[cells] = values
        return grid

    weight = np.array([criterion.weight for criterion in criteria])
    judged = {*frame["criterion"][frame["passed"].notna().to_numpy()]}  # also by an own rule, which needs no pass rule
    rule = np.array([criterion.scale.has_rule or criterion.name in judged for criterion in criteria])
    valued = rule | np.array([criterion.level != "nominal" for criterion in criteria]) | (rubric.mode == "pairwise")
    norm = spread(frame["score_norm"].to_numpy(dtype=np.float64), np.nan)
    labelled, tied = frame["label"].notna().to_numpy(), (frame["status"] == "tied").to_numpy(dtype=bool)
    verdicts = spread(verdict_codes(frame["passed"]), -1)
    return _Grid(
        weight,
        (weight > 0) & valued,
        np.array([criterion.critical for criterion in criteria]),
        rule,
        norm,
        spread(frame["score"].to_numpy(dtype=np.float64), np.nan),
        ~np.isnan(norm) | (spread(labelled, fill=False) & ~valued) | spread(tied, fill=False),
        verdicts == 1,
        verdicts == 0,
        spread(frame["reason"].astype(object).where(frame["reason"].notna(), None).to_numpy(), _NO_ROW),
        spread(frame["status"].astype(object).where(frame["status"].notna(), None).to_numpy(), "unscored"),
    )


def _weighted(grid: _Grid, *, renormalise: bool) -> tuple[Floats, Flags]:
    counts = grid.applies & ~np.isnan(grid.norm)
    weight = np.where(counts, grid.weight, 0.0)
    total = weight.sum(axis=1)
    sums = (weight * np.where(counts, grid.norm, 0.0)).sum(axis=1)
    score = np.divide(sums, total, out=np.full(len(total), np.nan), where=total > 0)
    open_ = total <= 0 if renormalise else (grid.applies & ~counts).any(axis=1) | (total <= 0)
    return score, np.asarray(open_)


def _passed(grid: _Grid, rubric: Rubric, score: Floats, failed: Flags) -> BooleanArray:
    if rubric.pass_at is not None:
        open_ = np.isnan(score)
        return BooleanArray(~failed & (np.nan_to_num(score) >= rubric.pass_at - _TINY), open_)
    every = (grid.passes | ~grid.rule).all(axis=1)
    some = (grid.fails & grid.rule).any(axis=1)
    return BooleanArray(np.asarray(every), np.asarray((~every & ~some) | (not grid.rule.any())))


def _own_units(grid: _Grid, rubric: Rubric, score: Floats, failed: Flags) -> Floats:
    if len(rubric.criteria) > 1:
        return score.copy()
    scale = rubric.criteria[0].scale
    values = np.where(np.isnan(score), np.nan, grid.score[:, 0])
    if failed.any() and scale.level != "nominal":
        values[failed] = scale.lowest if scale.better == "high" else scale.highest
    return values


def _status(grid: _Grid, score: Floats, passed: BooleanArray, rubric: Rubric) -> dict[str, pd.Categorical]:
    silent = np.isnan(score)
    has_rule = rubric.pass_at is not None or bool(grid.rule.any())
    open_ = silent | (np.asarray(passed.isna()) & has_rule)
    # What leaves the item open: an unscored criterion that counts, or a rule without a verdict.
    culprit = (grid.applies & np.isnan(grid.norm)) | (grid.rule & ~grid.passes & ~grid.fails)
    reason = np.full(len(score), None, dtype=object)
    worse = culprit & (grid.status != "tied") & (grid.reason != "tied")
    column = np.where(worse.any(axis=1), worse.argmax(axis=1), culprit.argmax(axis=1))
    blamed = open_ & culprit.any(axis=1)
    tied = blamed & ~worse.any(axis=1)
    reason[blamed] = grid.reason[np.flatnonzero(blamed), column[blamed]]
    missing = (grid.applies & np.isnan(grid.norm)).any(axis=1) | (grid.status == "partial").any(axis=1)
    status = np.full(len(score), "ok", dtype=object)
    status[missing | open_] = "partial"
    status[tied] = "tied"
    status[silent & ~tied] = "unscored"
    return {"reason": schemas.categorical(reason), "status": schemas.categorical(status)}
