"""How far the judges are apart on each item."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from pandas.arrays import BooleanArray

from evalkit.rubrics.given_scales import ScaleLike
from evalkit.rubrics.row_scales import NO_ENDS, Measures, label_norms, measures, norms
from evalkit.stats.plain_tables import take_rows
from evalkit.stats.result_tables import verdict_codes, with_numbers_as_labels
from evalkit.tables import schemas
from evalkit.tables.grouping import Flags, Floats, Groups, Ints, group, tally
from evalkit.tables.schemas import SCORE_KEY, VOTE_KEY

_NEED = [*VOTE_KEY, "score", "label", "level", "scale"]


def disagreement(votes: pd.DataFrame, *, scale: ScaleLike | None = None) -> pd.DataFrame:
    """How far the judges are apart on each item and criterion.

    Parameters
    ----------
    votes
        The table of `vote`; judges of weight 0 are left out. A plain table needs `item_id`, `judge`, and
        `score` or `label`.
    scale
        What a plain table cannot say: a Scale, a Criterion or a Rubric with its pass rule, ``(low, high)``, a list of
        codes or of words from bad to good, or a mapping from criterion to one of these. By default the rows' own.

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, item_id, criterion` in order of first appearance:

        - `disagreement` 0-1: mean absolute difference of `score_norm` over pairs of judges; nominal: the share
          of pairs with unequal labels;
        - `range` and `sd` (ddof 1) of `score_norm`; `score_range` and `score_sd` of `score`, in rubric units: they need
          no ends of the scale;
        - `entropy` 0-1: of the labels (on interval scales: the numbers, of which the label is only the nearest code),
          divided by the log of the smaller of judges and levels;
        - `split`: do two judges differ in their verdicts (without pass rule: labels)? A judge without one, as by a tie,
          counts on neither side; NA under two verdicts;
        - `dissent_rate` 0-1: share of the judges whose label is not the most frequent one;
        - `n_judges`, `n_scored`; `notes`: says where the ends of the scale are not known, which leaves only
          `score_range` and `score_sd`.

        All are NA where fewer than two judges scored (labels: have one; a tied vote has none).

    Raises
    ------
    InputError
        When columns are missing or a vote is in the table twice.

    Examples
    --------
    >>> from evalkit import tables
    >>> votes = tables.table("votes", {
    ...     "rubric": ["r"] * 3, "rubric_version": ["v1"] * 3, "item_id": ["i"] * 3, "criterion": ["c"] * 3,
    ...     "judge": ["a", "b", "c"], "score": [2.0, 2.0, 1.0], "label": ["2", "2", "1"],
    ...     "n_samples": [1] * 3, "n_scored": [1] * 3, "tied": [False] * 3,
    ...     "level": ["ordinal"] * 3, "scale": ['{"codes":[0,1,2],"better":"high"}'] * 3})
    >>> disagreement(votes)[["disagreement", "range", "dissent_rate"]].round(3).values.tolist()
    [[0.333, 0.5, 0.333]]
    """
    frame, keys = take_rows(votes, "votes", need=_NEED, function="disagreement", scale=scale)
    if "weight" in frame:
        frame = frame.loc[~(frame["weight"] <= 0).to_numpy()]
    frame = with_numbers_as_labels(frame, ends=True)
    groups, measured = group(frame, SCORE_KEY), measures(frame)
    score = frame["score"].to_numpy(dtype=np.float64)
    label = frame["label"].cat.codes.to_numpy().astype(np.int64)
    scored = np.where(measured.nominal, label >= 0, np.isfinite(score))
    texts = np.array([*frame["label"].cat.categories, None], dtype=object)[label]
    norm = np.where(measured.nominal, label_norms(texts, measured), norms(score, measured))
    without_ends = measured.without_ends[groups.first]
    (width, sd), (score_width, score_sd) = _width(groups, norm), _width(groups, score)
    columns: dict[str, Any] = {key: frame[key].iloc[groups.first].array for key in SCORE_KEY}
    columns |= {
        "disagreement": item_disagreement(groups, measured, norm, label, scored),
        "range": width,
        "sd": sd,
        **_mixture(groups, measured, label),
        "split": _split(frame, groups, measured, label),
        "n_judges": groups.count(),
        "n_scored": groups.count(scored),
        "score_range": score_width,
        "score_sd": score_sd,
        "notes": schemas.categorical(np.array([None, NO_ENDS], dtype=object)[without_ends.astype(int)]),
    }
    return keys.restore(pd.DataFrame(columns))


def item_disagreement(groups: Groups, measured: Measures, norm: Floats, label: Ints, scored: Flags) -> Floats:
    """Mean |difference| of `norm` over pairs of scored rows of a group; nominal: share of unequal labels.

    One value per group, NaN under two scored rows.
    """
    nominal = measured.nominal
    result = np.full(len(groups), np.nan)
    rows = scored & ~nominal
    n = groups.count(rows)
    pairs = n * (n - 1) / 2
    codes, values = groups.codes[rows], norm[rows]
    order = np.lexsort((values, codes))
    codes, values = codes[order], values[order]
    # With the values sorted, Σ over pairs |x_i − x_j| = Σ (2·rank − n + 1)·x.
    rank = np.arange(len(codes)) - (np.cumsum(n) - n)[codes]
    sums = np.bincount(codes, weights=(2 * rank - n[codes] + 1) * values, minlength=len(groups))
    result[n > 1] = np.clip(sums[n > 1] / pairs[n > 1], 0.0, 1.0)
    rows = scored & nominal
    n = groups.count(rows)
    counts = tally(groups.codes[rows], label[rows], len(groups))
    result[n > 1] = 1 - counts.pairs()[n > 1] / (n * (n - 1))[n > 1]
    return result


def _split(frame: pd.DataFrame, groups: Groups, measured: Measures, label: Ints) -> BooleanArray:
    verdict = verdict_codes(frame["passed"]) if "passed" in frame else label
    has_verdict = groups.count(verdict >= 0) > 0 if "passed" in frame else np.zeros(len(groups), dtype=bool)
    answer = np.where(measured.has_rule | has_verdict[groups.codes], verdict, label)  # also verdicts of an own rule
    rows = answer >= 0
    counts = tally(groups.codes[rows], answer[rows], len(groups))
    return BooleanArray(np.bincount(counts.group, minlength=len(groups)) > 1, groups.count(rows) < 2)


def _width(groups: Groups, values: Floats) -> tuple[Floats, Floats]:
    """Range and standard deviation of the values of each group."""
    spread = pd.Series(values).groupby(groups.codes).agg(["count", "min", "max", "std"]).reindex(range(len(groups)))
    width = (spread["max"] - spread["min"]).where(spread["count"] > 1)
    return width.to_numpy(dtype=np.float64), spread["std"].to_numpy(dtype=np.float64)


def _mixture(groups: Groups, measured: Measures, label: Ints) -> dict[str, Floats]:
    rows = label >= 0
    n = groups.count(rows)
    counts = tally(groups.codes[rows], label[rows], len(groups))
    share = counts.weight / np.maximum(n, 1)[counts.group]
    entropy = np.bincount(counts.group, weights=-share * np.log(share), minlength=len(groups))
    levels = [np.inf if scale.level == "interval" or scale.is_open else len(scale) for scale in measured.scales]
    q = np.array(levels, dtype=np.float64)[measured.codes[groups.first]] if len(groups) else np.zeros(0)
    some = n > 1
    widest = np.log(np.minimum(np.maximum(n, 2), q))
    dissent = np.where(some, 1 - counts.top() / np.maximum(n, 1), np.nan)
    return {"entropy": np.where(some, np.clip(entropy / widest, 0.0, 1.0), np.nan), "dissent_rate": dissent}
