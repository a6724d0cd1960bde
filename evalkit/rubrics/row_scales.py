"""The scales of a table's rows: `level` and `scale` cells read once per distinct pair, applied to whole columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalkit.errors import InputError
from evalkit.rubrics.scales import Scale, code_text
from evalkit.tables.grouping import Flags, Floats, Ints, Objects, group
from evalkit.tables.ties import tied_text

_TOLERANCE, _NEAR = 1e-9, 1e-6
NO_ENDS = "the scale is not known: pass scale="
"""The reason why a score has no share of its scale, and no verdict."""
MEANS = "scores between the codes are means of several answers, which have no verdict"
"""Why rows of an ordinal scale have no verdict."""
PAIR_SCORES = {"A": 1.0, "B": 0.0, "tie": 0.5}
"""Scores of the labels of pairwise rubrics."""


@dataclass(frozen=True, slots=True)
class Measures:
    """The scale of each row.

    Attributes
    ----------
    codes
        The number of each row's scale in `scales`.
    scales
        The distinct scales.
    """

    codes: Ints
    scales: tuple[Scale, ...]

    @property
    def nominal(self) -> Flags:
        """Per row: is the scale nominal?"""
        return self.each([scale.level == "nominal" for scale in self.scales])

    @property
    def without_ends(self) -> Flags:
        """Per row: are the answers numbers of a scale whose ends are not known, so that no share can be computed?"""
        return self.each([scale.is_open and scale.level != "nominal" for scale in self.scales])

    @property
    def has_rule(self) -> Flags:
        """Per row: does the criterion have a pass rule?"""
        return self.each([scale.has_rule for scale in self.scales])

    def each(self, flags: list[bool]) -> Flags:
        """For each row, the flag of its scale."""
        return np.array(flags, dtype=bool)[self.codes] if flags else np.zeros(len(self.codes), dtype=bool)

    def parts(self) -> Iterator[tuple[Scale, Flags]]:
        """Each scale with the rows measured on it."""
        for number, scale in enumerate(self.scales):
            yield scale, self.codes == number

    def take(self, rows: Ints | slice) -> Measures:
        """The measures of some rows."""
        return Measures(self.codes[rows], self.scales)


def measures(frame: pd.DataFrame) -> Measures:
    """The scales of a table with the columns `level` and `scale`.

    Raises
    ------
    InputError
        When a cell is empty or not a scale.
    """
    groups = group(frame, ["level", "scale"])
    levels, texts = (frame[key].array.take(groups.first).astype(object) for key in ("level", "scale"))
    scales = []
    for level, text in zip(levels, texts, strict=True):
        try:
            scales.append(Scale.from_json(level, str(text)))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"columns 'level' and 'scale' contain an invalid scale (level {level!r}, scale {text!r}); keep them as "
                "`judge` wrote them"
            ) from None
    return Measures(groups.codes, tuple(scales))


def norms(scores: Floats, measured: Measures) -> Floats:
    """Scores on 0-1, 1 being good; NaN stays NaN, and on nominal scales all is NaN.

    Values off the scale (an imputed 0 on a scale from 1 to 3) count as its nearer end.
    """
    result = np.full(len(scores), np.nan)
    for scale, rows in measured.parts():
        if scale.level == "nominal":
            continue
        share = (scores[rows] - scale.lowest) / (scale.highest - scale.lowest)
        result[rows] = np.clip(1.0 - share if scale.better == "low" else share, 0.0, 1.0)
    return result


def label_norms(labels: Objects, measured: Measures) -> Floats:
    """Nominal labels as 1 or 0 by the pass rule; NaN without a rule, without a label and on other scales."""
    result = np.full(len(labels), np.nan)
    for scale, rows in measured.parts():
        if scale.level == "nominal":
            codes = scale.codes or [label for label in pd.unique(labels[rows]) if isinstance(label, str)]
            by_label = {code_text(code): scale.norm(code) for code in codes}
            result[rows] = [by_label.get(name, np.nan) for name in labels[rows]]
    return result


def answer_norms(scores: Floats, labels: Objects, measured: Measures) -> Floats:
    """Answers on 0-1: scores by their place on the scale, nominal labels by the pass rule, pairs by their score."""
    result = np.where(measured.nominal, label_norms(labels, measured), norms(scores, measured))
    # a nominal scale with scores is a pairwise one: its score is on 0-1 already
    return np.where(measured.nominal & ~np.isnan(scores), scores, result)


def off_scale(scores: Floats, labels: pd.Series[Any], measured: Measures, *, between: Flags) -> Flags:
    """Per row: whether the answer is not on the row's scale; False for rows without a score.

    Scores of the rows `between` may lie between the codes of an ordinal scale.
    """
    off = np.zeros(len(scores), dtype=bool)
    for scale, rows in measured.parts():
        if scale.is_open:
            continue
        if scale.level == "nominal":
            known = {code_text(code) for code in scale.codes}
            strange = np.array([name not in known for name in labels.cat.categories] + [False])
            off[rows] = (strange[labels.cat.codes] | (np.abs(scores - 0.5) > 0.5))[rows]
        elif scale.level == "interval":
            off[rows] = ((scores < scale.lowest - _TOLERANCE) | (scores > scale.highest + _TOLERANCE))[rows]
        else:
            codes = np.round(np.array(scale.codes, dtype=np.float64), 9)
            outside = (scores < scale.lowest - _TOLERANCE) | (scores > scale.highest + _TOLERANCE)
            strange = ~np.isnan(scores) & ~np.isin(np.round(scores, 9), codes)
            off[rows] = np.where(between, outside, strange)[rows]
    return off


def nearest_labels(scores: Floats, measured: Measures, *, low: bool = False) -> tuple[Objects, Flags]:
    """The text of the code nearest to each score, and whether two codes are equally near.

    Such a tie has no label, or with `low` that of the lower code. Nominal rows have no label.
    """
    labels = np.full(len(scores), None, dtype=object)
    tied = np.zeros(len(scores), dtype=bool)
    for scale, rows in measured.parts():
        at = np.flatnonzero(rows & ~np.isnan(scores))
        if scale.level == "nominal" or not len(at):
            continue
        values, where = np.unique(scores[at], return_inverse=True)
        found = [scale.nearest(float(value)) for value in values]
        texts = np.array(
            [
                code_text(code) if code is not None else scale.around(value)[0] if low and tie else None
                for value, (code, tie) in zip(values, found, strict=True)
            ],
            dtype=object,
        )
        labels[at] = texts[where]
        tied[at] = np.array([tie for _, tie in found], dtype=bool)[where]
    return labels, tied


def counted_labels(scores: Floats, labels: Objects, measured: Measures, *, ends: bool = False) -> Objects:
    """Labels as they are counted: on an interval scale each number is an answer, its label only the nearest code.

    With `ends` only where these are known.
    """
    numbers = measured.each([scale.level == "interval" and not (ends and scale.is_open) for scale in measured.scales])
    rows = numbers & ~np.isnan(scores)
    if not rows.any():
        return labels
    codes, values = pd.factorize(np.round(scores[rows], 12))
    result = labels.copy()
    result[rows] = np.array([code_text(float(value)) for value in values], dtype=object)[codes]
    return result


def halfway_labels(scores: Floats, measured: Measures, tied: Flags) -> Objects:
    """For a score half-way between two codes, both codes as a cell of `tied_labels`; else None."""
    cells = np.full(len(scores), None, dtype=object)
    for scale, rows in measured.parts():
        at = np.flatnonzero(rows & tied & ~np.isnan(scores))
        for value in np.unique(scores[at]) if scale.level != "nominal" else ():
            cells[at[scores[at] == value]] = tied_text(scale.around(float(value)))
    return cells


def rule_verdicts(score: Floats, label: Objects, measured: Measures) -> Ints:
    """The pass rule's verdict on each answer, 1 or 0; −1 without answer or rule."""
    verdicts = np.full(len(score), -1, dtype=np.int64)
    for scale, rows in measured.parts():
        if scale.pass_if is not None:
            index, texts = pd.factorize(label[rows])
            codes = [scale.by_value(text) for text in texts]
            verdicts[rows] = np.array([*(-1 if code is None else code in scale.pass_if for code in codes), -1])[index]
        elif scale.pass_at is not None:
            gap = (score[rows] - scale.pass_at) * (1 if scale.better == "high" else -1)
            verdicts[rows] = np.where(np.isnan(gap), -1, gap >= -_NEAR)
    return verdicts
