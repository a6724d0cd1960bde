"""The answers of a user's function, which is called with the scores of each cell."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from pandas.arrays import BooleanArray

from evalkit.core.own_rules import OwnRule
from evalkit.errors import ConfigError
from evalkit.rubrics.row_scales import PAIR_SCORES, Measures, halfway_labels, nearest_labels
from evalkit.rubrics.scales import Scale, code_text
from evalkit.stats.result_tables import GAVE_NONE, verdict_codes
from evalkit.tables.grouping import Flags, Floats, Groups, Ints, Objects

_KEPT = -2  # the verdict stays the vote of the samples or judges
_TINY = 1e-9


class _Cell(pd.Series):
    """A Series in which ``2 in scores`` looks for the score 2, and ``scores[-1]`` is the last."""

    def __contains__(self, value: object) -> bool:  # type: ignore[misc]  # of pandas: whether it is in the index
        return value in self.tolist()

    def __getitem__(self, key: Any) -> Any:
        return self.iloc[key] if isinstance(key, int) and not isinstance(key, bool) else super().__getitem__(key)

    @property
    def _constructor(self) -> type[pd.Series]:
        return pd.Series


@dataclass(frozen=True, slots=True)
class OwnAnswers:
    """One entry per group: what the function gave; NaN and None where it was not called."""

    score: Floats
    label: Objects
    tied: Flags
    among: Objects
    given: Ints  # its verdict: 1 or 0; −1 for NA, −2 if it gave none
    silent: Flags  # gave NA

    def verdict(self, passed: BooleanArray, reason: Objects) -> tuple[BooleanArray, Objects]:
        """The verdicts and the reasons of those that are missing, with the function's own."""
        is_own = self.given != _KEPT
        codes = np.where(is_own, self.given, verdict_codes(pd.Series(passed)))
        own_reason = np.array([None, GAVE_NONE], dtype=object)[(self.given < 0).astype(int)]
        reason = np.where(is_own, own_reason, reason)
        return BooleanArray(codes == 1, codes < 0), np.where(pd.isna(reason) & self.silent, GAVE_NONE, reason)


def own_answers(
    rule: OwnRule, groups: Groups, rows: Flags, values: tuple[Floats, Objects], weight: Floats, measured: Measures,
    of_pairs: Flags, heads: pd.DataFrame, *, imputed: float | None = None, low: bool = False,
) -> OwnAnswers:  # fmt: skip
    """Call the function once for each group that has some of these rows.

    Parameters
    ----------
    rule
        The function.
    groups, rows
        The group of each row; the rows that count.
    values
        Score and label of each row; on nominal scales the function gets the labels.
    weight
        Of each row, for a function that has a parameter `weights`.
    measured, of_pairs
        Of each group, the scale; and whether it compares pairs, so that labels have scores.
    heads
        A row of each group, whose keys messages name.
    imputed
        What unscored samples count as: the score may lie between the scale and this number.
    low
        Whether a score half-way between two codes has the lower label.

    Raises
    ------
    ConfigError
        When the function raises an exception, or gives anything that is no answer on the scale.
    """
    n_groups, nominal = len(groups), measured.nominal
    score, label = np.full(n_groups, np.nan), np.full(n_groups, None, dtype=object)
    verdicts, silent = np.full(n_groups, _KEPT), np.zeros(n_groups, dtype=bool)
    counted, takes_weights = np.flatnonzero(rows), rule.takes_weights
    for cell in Groups(groups.codes[counted], groups.first).rows():
        if not len(cell):
            continue
        index = counted[cell]
        number = int(groups.codes[index[0]])
        scale = measured.scales[measured.codes[number]]
        answers = (values[1] if nominal[number] else values[0])[index]
        weights = {"weights": pd.Series(weight[index])} if takes_weights else {}
        try:
            answer, verdicts[number] = _read(rule.function(_Cell(answers.copy()), **weights), scale, imputed)
        except Exception as problem:
            is_answer = isinstance(problem, _WrongAnswerError)
            fault = str(problem) if is_answer else f"raised {type(problem).__name__}: {problem}".removesuffix(": ")
            raise ConfigError(
                f"the rule {rule.where} {fault}, for {_name(heads, number)} with the "
                f"{'labels' if nominal[number] else 'scores'} {answers.tolist()}; allowed: {_allowed(scale)}, NA, "
                "or (score, passed)"
            ) from problem
        if answer is None:
            silent[number] = True
        elif isinstance(answer, str):
            label[number] = answer
            score[number] = PAIR_SCORES.get(answer, np.nan) if of_pairs[number] else np.nan
        else:
            score[number] = answer
    nearest, half = nearest_labels(score, measured, low=low)
    label, among = np.where(nominal, label, nearest), halfway_labels(score, measured, half)
    return OwnAnswers(score, label, half & ~nominal, among, verdicts, silent)


class _WrongAnswerError(Exception):
    """The function gave something that is no answer; the text says what."""


def _name(heads: pd.DataFrame, group: int) -> str:
    keys = [(name.removesuffix("_id"), name) for name in ("item_id", "criterion", "judge") if name in heads]
    return ", ".join(f"{word} {heads[name].iloc[group]!r}" for word, name in keys)


def _allowed(scale: Scale) -> str:
    if scale.level == "nominal":
        return "a label" + (f" ({', '.join(scale.labels)})" if scale.labels else "")
    return "a number" + ("" if scale.is_open else f" from {code_text(scale.lowest)} to {code_text(scale.highest)}")


def _read(returned: Any, scale: Scale, imputed: float | None) -> tuple[float | str | None, int]:
    """A score, the label of a nominal scale, or None for NA; and the code of the verdict."""
    if not isinstance(returned, tuple):
        return _answer(returned, scale, imputed), _KEPT
    if len(returned) != 2:
        raise _WrongAnswerError(f"returned {len(returned)} values")
    answer, passed = _answer(returned[0], scale, imputed), _plain(returned[1])
    if passed is not None and not isinstance(passed, bool):
        raise _WrongAnswerError(f"returned {passed!r} as the verdict, which is True, False or NA")
    return answer, -1 if passed is None else int(passed)


def _plain(value: Any) -> Any:
    """A value as Python's own; None for NA."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    return None if pd.api.types.is_scalar(value) and pd.isna(value) else value


def _answer(returned: Any, scale: Scale, imputed: float | None) -> float | str | None:
    if (value := _plain(returned)) is None:
        return None
    if scale.level == "nominal" or isinstance(value, str):
        code = scale.by_value(value) if isinstance(value, (str, int, float)) else None
        code = scale.named(value) if code is None and isinstance(value, str) else code
        if code is None:
            raise _WrongAnswerError(f"returned {value!r}")
        return code_text(code) if scale.level == "nominal" else float(code)
    if isinstance(value, bool) and scale.codes != (0, 1):
        raise _WrongAnswerError(f"returned {value!r}, which is no score")
    if not isinstance(value, (Real, Decimal)):
        raise _WrongAnswerError(f"returned a {'Series' if isinstance(value, pd.Series) else type(value).__name__}")
    number = float(value)
    if scale.is_open and np.isfinite(number):
        return number
    ends = [scale.lowest, scale.highest, *([] if imputed is None else [imputed])]
    low, high = min(ends), max(ends)
    slack = _TINY * max(1.0, abs(low), abs(high))
    if not low - slack <= number <= high + slack:
        raise _WrongAnswerError(f"returned {number:g}, which is not on the scale")
    return min(max(number, low), high)
