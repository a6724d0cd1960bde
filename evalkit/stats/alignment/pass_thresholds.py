"""Pass thresholds: where on the judge's score to draw the line between pass and fail."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit.core.lists_of_choices import Ties, Unscored
from evalkit.core.settings import check_choice
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.scales import Scale
from evalkit.stats.alignment.agreement_measures import Answers, same_rows
from evalkit.stats.alignment.judge_and_people_answers import Panel, checked_part, panels
from evalkit.stats.alignment.label_splits import HELD_OUT, PartOption, count_look
from evalkit.stats.alignment.label_values import JudgedLike, clusters_for
from evalkit.stats.notes import with_id_notes
from evalkit.stats.result_tables import JUDGE_KEY, check_whole_numbers, result_table
from evalkit.tables.grouping import ClustersLike, Flags, Floats, Ints, clusters_of
from evalkit.tables.ties import Counting, check_counting

ObjectiveOption = Literal["accuracy", "balanced_accuracy"]

_COLUMNS = (
    JUDGE_KEY,
    "text: objective; number: cut pass_at in_sample out_of_fold optimism present cut_lowest cut_highest",
    "count: n_items n_labelled n_left_out n_tied n_folds; bool: same_items; text: ties unscored notes",
)
_FEWEST = 2
_SAME = 1e-9


@with_id_notes
def pass_threshold(
    judged: JudgedLike,
    labels: LabelsLike,
    folds: int = 5,
    *,
    objective: ObjectiveOption = "accuracy",
    ties: Ties = "half",
    unscored: Unscored = "drop",
    clusters: ClustersLike | None = None,
    part: PartOption | None = None,
) -> pd.DataFrame:
    """The pass threshold on the judge's score that agrees best with people's verdicts, and what it is worth.

    The threshold that fits best on some items looks better on them than it is. So each fold of the items is judged
    by the threshold of the other folds: `out_of_fold` is what to expect, `in_sample` is what to distrust.

    Parameters
    ----------
    judged
        An evaluation, which stands for its votes and clusters, or a table:
        Votes (each judge) or scores (the judge is then ``jury``), of criteria with a pass rule.
    labels
        A long table (`item_id, criterion, annotator, label`) or, for an evaluation, criterion -> item columns; a code
        is a verdict by the rubric's pass rule.
    folds
        Number of folds, 2 or more; fewer if there are fewer clusters. Clusters go to folds by the sha256 of their
        name, in any order of rows the same.
    objective
        ``accuracy``: the share of verdicts that agree, or ``balanced_accuracy``: the mean of that share among the
        passes and among the fails of people, for rare passes or fails. Both against each annotator, averaged over
        them by their numbers of labels (balanced: those who gave both verdicts).
    ties
        How a tied verdict counts in `present`: ``half`` (default) right or ``wrong``. A threshold gives every score a
        verdict and all figures here are of the same items, so that ties cannot be left out.
    unscored
        ``drop`` (default) leaves out items without a score; with ``wrong`` no threshold is right on them.
    clusters
        item_id -> cluster; by default those of the evaluation, else the item. A cluster is in one fold.
    part
        As in `align`: by default the labels of ``dev`` if labels carry parts; a look at held-out ones is counted.

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion, judge`:

        - `cut`: the best threshold (score ≥ cut passes; ≤ where low is better), half-way between two scores that
          occur, of equally good ones the one nearest to the rubric's `pass_at`; infinite if nothing should pass;
        - `pass_at`: the nearest code on the good side of it (interval scales: the cut); NA where no code is;
        - `in_sample`, `out_of_fold` 0-1, `optimism` = their difference, `present`: the figure of the verdicts as
          they are, on the same items; a missing one is wrong, and NA if all are missing;
        - `cut_lowest`, `cut_highest` over the folds: far apart, the threshold is not known;
        - `n_items`, `n_labelled` compared, `n_left_out` with a verdict of people and without a score, `n_tied`,
          `n_folds`; `same_items`: are all judges compared on the same items? `ties` and `unscored` as chosen, `notes`.

    Raises
    ------
    InputError
        When columns are missing, a row is double, or a label is not on the scale.
    ConfigError
        For an unknown objective, or under two folds.

    References
    ----------
    Stone, M. (1974), Cross-validatory choice and assessment of statistical predictions.

    Examples
    --------
    >>> n = 40
    >>> from evalkit import tables
    >>> votes = tables.table("votes", {
    ...     "rubric": ["r"] * n, "rubric_version": ["v1"] * n, "item_id": [f"i{i}" for i in range(n)],
    ...     "criterion": ["c"] * n, "judge": ["j"] * n, "score": [float(i % 3) for i in range(n)],
    ...     "label": [str(i % 3) for i in range(n)], "passed": [i % 3 > 1 for i in range(n)],
    ...     "n_samples": [1] * n, "n_scored": [1] * n, "tied": [False] * n,
    ...     "level": ["ordinal"] * n, "scale": ['{"codes":[0,1,2],"better":"high","pass_at":2}'] * n})
    >>> labels = pd.DataFrame({"item_id": [f"i{i}" for i in range(n)], "criterion": "c", "annotator": "ann",
    ...                        "label": ["true" if i % 3 else "false" for i in range(n)]})
    >>> pass_threshold(votes, labels)[["cut", "pass_at", "out_of_fold", "present"]].round(3).values.tolist()
    [[0.5, 1.0, 1.0, 0.675]]
    """
    check_choice("objective", objective, get_args(ObjectiveOption))
    check_whole_numbers("folds", folds, least=_FEWEST)
    counting = check_counting(
        "pass_threshold", ties, unscored, but=("ties=na",), why="all its figures must be of the same items"
    )
    clusters = clusters_for(judged, clusters)
    frame, people, chosen, keys = checked_part(judged, labels, part, "pass_threshold")
    names = dict(zip(frame["item_id"].astype(str), clusters_of(frame["item_id"], clusters), strict=True))
    rows: list[dict[str, Any]] = []
    for panel in panels(frame, people, kinds="passed"):
        equal = same_rows(_compared(panel, *side, counting) for side in panel.judges.values())
        for judge in panel.judges:
            row = _row(panel, judge, names, folds, objective, counting)
            row |= {"judge": judge, "objective": objective, "same_items": equal, "notes": [chosen, row.get("notes")]}
            rows.append(panel.head | row)
    table = result_table(rows, *_COLUMNS)
    return keys.restore(count_look(table, people) if part == HELD_OUT else table)


def _row(
    panel: Panel, judge: str, names: Mapping[str, str], folds: int, objective: str, counting: Counting
) -> dict[str, Any]:
    answers, was_asked = panel.judges[judge]
    labelled = was_asked & (panel.annotators.kind >= 0).any(axis=1)
    used = _compared(panel, answers, was_asked, counting)
    row: dict[str, Any] = {"n_items": int(was_asked.sum()), "n_labelled": int(used.sum()), "n_folds": 0}
    row |= {"n_left_out": int((labelled & ~used).sum()), "n_tied": int((used & answers.tied).sum())}
    row |= {"ties": counting.ties, "unscored": counting.unscored}
    # turned round where low is better, so that high passes
    sign = -1.0 if panel.scale.better == "low" else 1.0
    score, kinds = sign * answers.score[used], panel.annotators.kind[used]
    unit = np.array([names[item] for item in panel.items[used]], dtype=object)
    fold = _folds(unit, folds)
    row["n_folds"] = int(fold.max(initial=-1)) + 1
    if (why := _why_not(panel.scale, score, kinds, row["n_folds"], objective)) is not None:
        return row | {"notes": why}
    # where the rubric's rule draws the line; the middle of the scale for a list of codes
    present_cut = panel.scale.pass_at
    start = sign * ((panel.scale.lowest + panel.scale.highest) / 2 if present_cut is None else float(present_cut))
    cut = _best(score, _weights(kinds, objective), start)
    row |= {"in_sample": _figure(_passing(score, cut), kinds, objective), "cut": sign * cut}
    cuts: list[float] = []
    passed = np.zeros(len(score))
    for number in range(row["n_folds"]):
        out = fold == number
        cuts.append(_best(score[~out], _weights(kinds[~out], objective), start))
        passed[out] = _passing(score[out], cuts[-1])
    present = np.where(answers.kind[used] < 0, np.nan, answers.kind[used])
    present[answers.tied[used] & (counting.ties == "half")] = 0.5
    missing = (answers.kind[used] < 0) & ~answers.tied[used]
    row |= {"out_of_fold": _figure(passed, kinds, objective)}
    row["present"] = np.nan if missing.all() else _figure(present, kinds, objective)
    row |= {"optimism": row["in_sample"] - row["out_of_fold"], "pass_at": _code(panel.scale, sign, cut)}
    row |= {"cut_lowest": min(sign * value for value in cuts), "cut_highest": max(sign * value for value in cuts)}
    useless = np.isinf(cut) or cut <= np.nanmin(score)
    return row | {"notes": "the best cut passes all items or none" if useless else None}


def _compared(panel: Panel, answers: Answers, there: Flags, counting: Counting) -> Flags:
    """The items with a verdict of people, and a score unless what has none is wrong."""
    valued = ~np.isnan(answers.score) | (counting.unscored == "wrong")
    return there & valued & (panel.annotators.kind >= 0).any(axis=1)


def _why_not(scale: Scale, score: Floats, said: npt.NDArray[np.int64], n_folds: int, objective: str) -> str | None:
    if scale.level == "nominal":
        return "a nominal criterion has no scores"
    if not scale.has_rule:
        return "the criterion has no pass rule, so labels are not verdicts"
    if np.isnan(score).all():
        return "no item has both a verdict of people and a score"
    if n_folds < _FEWEST:
        return "fewer than two clusters"
    if len(np.unique(said[said >= 0])) < _FEWEST or not _weights(said, objective).any():
        return "people gave only one of the two verdicts"
    return None


def _folds(unit: npt.NDArray[np.object_], folds: int) -> Ints:
    """The fold of each item: clusters in the order of their sha256, dealt out in turn."""
    order = sorted(set(unit), key=lambda name: hashlib.sha256(name.encode()).digest())
    numbers = {name: number % folds for number, name in enumerate(order)}
    return np.array([numbers[name] for name in unit], dtype=np.int64)


def _weights(said: npt.NDArray[np.int64], objective: str) -> Floats:
    """What each label is worth, below 0 for a fail: the same, or if balanced both verdicts of an annotator alike."""
    weights = np.zeros(said.shape)
    for person in range(said.shape[1]):
        column = said[:, person]
        groups = [column >= 0] if objective == "accuracy" else [column == 0, column == 1]
        if all(group.any() for group in groups):
            for group in groups:
                weights[group, person] = (column >= 0).sum() / (len(groups) * group.sum())
    total = weights.sum()
    return np.where(said == 1, weights, -weights) / total if total else weights


def _passing(score: Floats, cut: float) -> Floats:
    """1 from the cut upwards, else 0; NaN without a score."""
    return np.where(np.isnan(score), np.nan, (score >= cut).astype(np.float64))


def _figure(passed: Floats, said: npt.NDArray[np.int64], objective: str) -> float:
    """How much of the weight is right: a half is half right, NaN is wrong."""
    weights = np.abs(_weights(said, objective))
    if not weights.any():
        return np.nan
    right = np.where(said == 1, passed[:, None], 1 - passed[:, None])
    return float((weights * np.nan_to_num(right)).sum())


def _best(score: Floats, weights: Floats, start: float) -> float:
    """The best cut: half-way between scores that occur, below all of them, or infinite."""
    score, weights = score[~np.isnan(score)], weights[~np.isnan(score)]
    if not len(score):
        return float(np.inf)
    values, codes = np.unique(np.round(score, 10), return_inverse=True)
    gain = np.bincount(codes, weights=weights.sum(axis=1), minlength=len(values))
    # with the cut under value v, all from v upwards pass: Σ weight of passes − Σ weight of fails among them
    total = np.append(np.cumsum(gain[::-1])[::-1], 0.0)
    cuts = np.concatenate([[values[0] - 0.5 * _step(values)], (values[1:] + values[:-1]) / 2, [np.inf]])
    best = np.flatnonzero(total >= total.max() - _SAME)
    # between equally good ones: the rubric's own line lies between the scores on both sides of a cut
    gaps = np.where(np.isinf(cuts[best]), values[-1] + 0.5 * _step(values), cuts[best]) - start
    return float(cuts[best[int(np.abs(gaps).argmin())]])


def _step(values: Floats) -> float:
    return float(np.diff(values).min()) if len(values) > 1 else 1.0


def _code(scale: Scale, sign: float, cut: float) -> float:
    """The code to write into the rubric: the nearest one that is on the passing side; NaN if none is."""
    if scale.level == "interval":
        value = sign * cut
        return value if scale.lowest <= value <= scale.highest else np.nan
    passing = [float(code) for code in scale.codes if sign * float(code) >= cut]
    return (min if sign > 0 else max)(passing) if passing else np.nan
