"""Touched tables: rows whose columns contradict each other, and `rescore`, which recomputes what follows from `score`.

Which rows no function of evalkit can have made was derived and simulated for every rule: a verdict comes from a vote of
verdicts, so in votes and scores it may differ from what the mean score would pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalkit import tables
from evalkit.errors import InputError, counted
from evalkit.rubrics.row_scales import (
    PAIR_SCORES,
    Measures,
    halfway_labels,
    label_norms,
    measures,
    nearest_labels,
    off_scale,
)
from evalkit.rubrics.scales import Scale, code_text, number
from evalkit.stats.result_tables import CRITERION_KEY, verdict_codes
from evalkit.tables.grouping import Flags, Floats, Ints, Objects
from evalkit.tables.ties import labels_among, tied_text

_OF_MAJORITY = "votes=majority"  # in `options` of scores: a majority's score may be missing beside a clear verdict
_UNSCORED = re.compile(r"unscored=\S+")
_SCALED = ["level", "scale"]
_SHOWN = [*tables.JUDGMENT_KEY[2:], "score", "score_norm", "label", "passed", "error"]
_NEAR, _SAME = 0.01, 1e-6  # of the scale's width
_ROWS = 1_000_000  # checked at a time, which bounds the memory


def check_rows(frame: Any, name: str, *, need: Iterable[str] | None = None) -> pd.DataFrame:
    """As `tables.check`, with codes in `label` spelled as on the row's scale ("1.0" for 1 is "1").

    Raises
    ------
    InputError
        Also for rows that contradict themselves, and for two scales of one rubric, version and criterion.
    """
    frame = tables.check(frame, name, need=need)
    if not {*_SCALED} <= {*frame.columns} or frame[_SCALED].isna().any(axis=None):
        return frame
    frame = _spelled(frame)
    _refuse_two_scales(frame, name)
    reasons, rows = dict[str, None](), list[int]()
    for start in range(0, len(frame), _ROWS):
        for reason, wrong in _faults(_Rows.of(frame.iloc[start : start + _ROWS]), name).items():
            if wrong.any():
                reasons[reason] = None
                rows += (np.flatnonzero(wrong) + start).tolist()
    if rows:
        rows = sorted(set(rows))
        numbers = ", ".join(map(str, rows[:5])) + (f" and {len(rows) - 5} more" if len(rows) > 5 else "")
        raise InputError(
            f"{counted(len(rows), 'row')} of {len(frame)} of the {name} table cannot be right, because "
            f"{'; '.join(reasons)} (rows {numbers}, from 0; the first: {_shown(frame, rows[0])}). Restore what was "
            "changed or, if `score` is right, pass ek.rescore(table)"
        )
    return frame


def rescore(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose `score` was changed, with the columns that follow from it computed again.

    Only rows that contradict themselves are changed: in votes and scores all others keep their verdicts, which come
    from a vote of verdicts. To give rows a verdict of your own, set `passed` after this call.

    Parameters
    ----------
    table
        Judgments, votes, scores or rubric scores, of which `score` (on nominal scales: `label`) is right.

    Returns
    -------
    DataFrame
        The table with `score_norm`, `label` (the nearest code; NA for an exact half) and `passed` (by the pass rule)
        of such rows, and what says whether they are scored or tied. A judgment with both an `error` and a score loses
        its `error` if it has neither label nor `score_norm`, which were there before the error; else its answer.

    Raises
    ------
    InputError
        When it is none of these tables, or a score is not on its scale.

    Examples
    --------
    >>> judgments = tables.table("judgments", {
    ...     "rubric": ["r"] * 2, "rubric_version": ["v1"] * 2, "item_id": ["x", "y"], "criterion": ["c"] * 2,
    ...     "judge": ["j"] * 2, "sample": [0] * 2, "score": [0.0, 2.0], "score_norm": [1.0, 1.0], "label": ["2", "2"],
    ...     "passed": [True, True], "level": ["ordinal"] * 2,
    ...     "scale": ['{"codes":[0,1,2],"better":"high","pass_at":2}'] * 2})
    >>> rescore(judgments)[["score", "score_norm", "label", "passed"]].values.tolist()
    [[0.0, 0.0, '0', False], [2.0, 1.0, '2', True]]
    """
    columns = {*getattr(table, "columns", ())}
    of_scores = "scores" if "criterion" in columns else "rubric_scores"
    name = "judgments" if "sample" in columns else "votes" if "judge" in columns else of_scores
    frame = _spelled(tables.check(table, name, need=["score", *_SCALED]))
    _refuse_two_scales(frame, name)
    wrong = np.logical_or.reduce([np.zeros(len(frame), bool), *_faults(_Rows.of(frame), name, strict=False).values()])
    if not wrong.any():
        return frame
    rows = _Rows.of(frame.loc[wrong])
    old, score, label, nominal = rows.frame, rows.score.copy(), rows.texts[rows.codes], rows.measured.nominal
    if "error" in old:
        lost = old["error"].notna().to_numpy() & ((rows.codes >= 0) | ~np.isnan(rows.norm))
        score[lost], label[lost] = np.nan, None
    nearest, half = nearest_labels(score, rows.measured)
    of_pair = pd.Series(score).map({value: text for text, value in PAIR_SCORES.items()}).to_numpy(dtype=object)
    label = np.where(nominal, np.where(np.isnan(score), label, of_pair), np.where(rows.expected, label, nearest))
    place = _places(old, score, label, rows.measured)
    off = np.abs(place - 0.5) > 0.5 + _SAME
    if off.any():
        raise InputError(
            f"rescore: {counted(int(off.sum()), 'score')} of the {name} table {'is' if off.sum() == 1 else 'are'} not "
            f"on the scale, the first: {_shown(old, int(off.argmax()))}; correct the column `score`"
        )
    there = ~np.isnan(score) | ~pd.isna(label)
    verdict = [None if code < 0 else code == 1 for code in _rule(score, label, rows.measured)]
    made: dict[str, Any] = {"score": score, "score_norm": np.clip(place, 0, 1), "label": label, "tied": half}
    made |= {"passed": np.array(verdict, dtype=object), "tied_labels": halfway_labels(score, rows.measured, half)}
    made |= {"n_scored": np.maximum(old.get("n_scored", 0), there)}
    if name == "rubric_scores":  # a verdict on all criteria does not follow from their mean
        del made["passed"]
    for key in ("error", "reason", "status"):
        before = old[key].astype(object).to_numpy() if key in old else None
        made[key] = np.where(there, np.where(half, "tied", None), before)
    if "status" in old:
        made["status"] = np.where(there, old["status"].astype(object).replace("unscored", "ok"), "unscored")
    made["error"] = np.where(there, None, made["error"])
    for key in [key for key in made if key in frame]:
        cells = frame[key].astype(object).to_numpy(copy=True)
        cells[wrong] = made[key]
        frame = frame.assign(**{key: pd.Series(cells, index=frame.index).where(pd.notna(cells), None)})
    return check_rows(frame, name, need=["score"])


def votes_options(votes: pd.DataFrame) -> dict[str, Flags]:
    """What of their own rules bears on scores made of votes, imputed scores and majorities: text -> the votes."""
    if not {"options", "method"} <= {*votes.columns}:
        return {}
    majority = votes["method"].eq("majority") & votes["level"].ne("nominal").astype(bool)
    found = {_OF_MAJORITY: majority.to_numpy(dtype=bool)}
    codes = votes["options"].cat.codes.to_numpy()
    for at, cell in enumerate(votes["options"].cat.categories):
        for text in _UNSCORED.findall(cell):
            found[text] = found.get(text, False) | (codes == at)
    return found


def _shown(frame: pd.DataFrame, row: int) -> str:
    cells = frame[[name for name in _SHOWN if name in frame]].iloc[row].dropna()
    return ", ".join(f"{name} {str(value)!r}" for name, value in cells.items())


def _refuse_two_scales(frame: pd.DataFrame, name: str) -> None:
    scales: dict[tuple[Any, ...], dict[Scale, str]] = {}
    keys = [key for key in CRITERION_KEY if key in frame]
    for *head, level, text in frame[[*keys, *_SCALED]].drop_duplicates().itertuples(index=False, name=None):
        found = scales.setdefault(tuple(head), {})
        found[Scale.from_json(level, text)] = f"{level} {text}"
        if len(found) > 1:
            raise InputError(
                f"the {name} table has two scales for {', '.join(map(str, head))}: {' and '.join(found.values())}; "
                "give the rows of one of them another rubric_version, or pass the rows of each scale separately"
            )


def _spelled(frame: pd.DataFrame) -> pd.DataFrame:
    measured, changed = measures(frame), dict[str, Any]()
    for column, spell in (("label", _spell), ("tied_labels", _spell_all)):
        if column in frame and len(frame):
            texts = list(frame[column].cat.categories)
            meant = [[spell(text, scale) for text in texts] for scale in measured.scales]
            if any(row != texts for row in meant):
                cells = np.array([[*row, None] for row in meant], dtype=object)
                changed[column] = tables.categorical(cells[measured.codes, frame[column].cat.codes])
    return frame.assign(**changed) if changed else frame


def _spell(text: str, scale: Scale) -> str:
    code = scale.by_value(text)
    return text if code is None else code_text(code)


def _spell_all(cell: str, scale: Scale) -> str:
    return tied_text([_spell(text, scale) for text in labels_among(cell)])


@dataclass(frozen=True, slots=True)
class _Rows:
    """The columns of some rows as arrays; what the table lacks is missing in every row."""

    frame: pd.DataFrame
    measured: Measures
    score: Floats
    norm: Floats
    texts: Objects  # of labels; the last entry is None, which the code −1 finds
    codes: Ints
    verdict: Ints

    @classmethod
    def of(cls, frame: pd.DataFrame) -> _Rows:
        none, labels = np.full(len(frame), np.nan), frame["label"].cat if "label" in frame else None
        score, norm = (frame[key].to_numpy(np.float64) if key in frame else none for key in ("score", "score_norm"))
        texts = np.array([*(() if labels is None else labels.categories), None], dtype=object)
        codes = np.full(len(frame), -1) if labels is None else labels.codes.to_numpy().astype(np.int64)
        verdict = verdict_codes(frame["passed"]) if "passed" in frame else np.full(len(frame), -1)
        return cls(frame, measures(frame), score, norm, texts, codes, verdict)

    @property
    def expected(self) -> Flags:
        """Is the score the mean of a distribution?"""
        return (
            self.frame["score_sd"].notna().to_numpy() if "score_sd" in self.frame else np.zeros(len(self.score), bool)
        )

    @property
    def apart(self) -> Flags:
        """Has the row a label and a score that is not this label's?"""
        values = [np.nan if text is None else PAIR_SCORES.get(text, number(text)) for text in self.texts]
        gap = np.abs(np.array(values, dtype=float)[self.codes] - self.score)
        return (self.codes >= 0) & ~(gap <= _SAME * np.maximum(1, np.abs(self.score)))


def _places(frame: pd.DataFrame, score: Floats, label: Objects, measured: Measures) -> Floats:
    """What `score_norm` follows from: the place on the scale, cut to 0-1 only where scores off it were imputed."""
    texts = [*(frame["options"].cat.categories if "options" in frame else ()), ""]
    given = [[float(text.partition("=")[2]) for text in _UNSCORED.findall(cell)] or [np.nan] for cell in texts]
    at = frame["options"].cat.codes.to_numpy() if "options" in frame else np.full(len(frame), -1)
    least, most = (np.array([pick(one) for one in given])[at] for pick in (min, max))
    made = np.where(np.isnan(score), label_norms(label, measured), score)  # of nominal scales
    for scale, rows in measured.parts():
        if scale.level != "nominal":
            share = (score - scale.lowest) / (scale.highest - scale.lowest)
            cut = (score >= np.fmin(least, scale.lowest)) & (score <= np.fmax(most, scale.highest))
            share = np.where(cut, np.clip(share, 0, 1), share)
            made[rows] = (1 - share if scale.better == "low" else share)[rows]
    return made


def _rule(score: Floats, label: Objects, measured: Measures) -> Ints:
    """The pass rule's verdict on each answer, 1 or 0; −1 without answer or rule."""
    made = np.full(len(score), -1, dtype=np.int64)
    for scale, rows in measured.parts():
        if scale.pass_if is not None:
            at, texts = pd.factorize(label[rows])
            codes = [scale.by_value(text) for text in texts]
            made[rows] = np.array([*(-1 if code is None else code in scale.pass_if for code in codes), -1])[at]
        elif scale.pass_at is not None:
            gap = (score[rows] - scale.pass_at) * (1 if scale.better == "high" else -1)
            made[rows] = np.where(np.isnan(gap), -1, gap >= -_SAME)
    return made


def _faults(rows: _Rows, name: str, *, strict: bool = True) -> dict[str, Flags]:
    """Reason -> the rows that it holds for; `strict`: a judgment without an answer is an error at once."""
    found = {}
    nominal, frame = rows.measured.nominal, rows.frame
    if name == "judgments" and {"score", "label", "error"} <= {*frame.columns}:
        found |= _faults_of_judgments(rows, strict=strict)
    elif name in ("votes", "scores"):
        found |= _faults_of_votes(rows)
    if "score" in frame and not np.isnan(rows.norm).all():
        place = _places(frame, rows.score, rows.texts[rows.codes], rows.measured)
        right = (np.abs(rows.norm - place) <= _NEAR) | (np.isnan(rows.norm) & np.isnan(place))
        # a pair that failed a critical criterion has the norm 0
        found["score_norm does not follow from score"] = ~right & ~(nominal & (name == "rubric_scores"))
    return found


def _faults_of_judgments(rows: _Rows, *, strict: bool) -> dict[str, Flags]:
    scored, nominal = rows.frame["error"].isna().to_numpy(), rows.measured.nominal
    empty = np.where(nominal, rows.codes < 0, ~np.isfinite(rows.score))
    between = rows.expected & scored
    wrong = scored & (empty | off_scale(rows.score, rows.frame["label"], rows.measured, between=between))
    if strict and wrong.any():
        raise InputError(
            f"{counted(int(wrong.sum()), 'judgment has', 'judgments have')} neither an error nor a score on the "
            f"scale (for nominal criteria: a label); the first: {_shown(rows.frame, int(wrong.argmax()))}. Restore the "
            "judge's answer, or store in `error` why there is none"
        )
    read, answer = scored & ~rows.expected, ~np.isnan(rows.score) | ~np.isnan(rows.norm) | (rows.codes >= 0)
    found = {"an error stands beside an answer": ~scored & answer}
    found["label is not the code of score"] = read & rows.apart & (~nominal | ~np.isnan(rows.score))
    if (rows.verdict >= 0).any():  # else the table has no verdicts
        wrong = rows.verdict != _rule(rows.score, rows.texts[rows.codes], rows.measured)
        found["passed is not what the pass rule gives"] = read & answer & wrong
    return found


def _faults_of_votes(rows: _Rows) -> dict[str, Flags]:
    """What no rule of voting gives, where no score can be a majority's or stand for unscored samples."""
    frame, score = rows.frame, rows.score
    none = pd.Series([None] * len(frame), dtype=object)
    method, options = (frame[key].astype(object) if key in frame else none for key in ("method", "options"))
    loose = {cell: bool(re.search(f"unscored=|{_OF_MAJORITY}", str(cell))) for cell in options.unique()}
    strict = (method.notna() & method.ne("majority")).to_numpy(bool) & ~options.map(loose).to_numpy(bool)
    averaged, has_label = method.ne("dawid_skene").to_numpy(bool), rows.codes >= 0
    found = {"there is a verdict and no pass rule": (rows.verdict >= 0) & ~rows.measured.has_rule}
    if "n_scored" in frame:
        found["there is a score and n_scored is 0"] = strict & ~np.isnan(score) & frame["n_scored"].eq(0).to_numpy()
    strange, ends = np.zeros(len(frame), dtype=bool), np.zeros(len(frame), dtype=bool)
    for scale, own in rows.measured.parts():
        known = np.array([*(scale.by_value(text) is not None for text in rows.texts[:-1]), True])[rows.codes]
        if scale.level == "nominal":
            strange |= own & (~known | (averaged & rows.apart & ~np.isnan(score)))
            continue
        codes = np.array(scale.codes, dtype=float)
        at = np.clip(np.searchsorted(codes, score), 1, len(codes) - 1)
        nearest = np.minimum(np.abs(score - codes[at - 1]), np.abs(score - codes[at]))
        values = np.array([*map(number, rows.texts[:-1]), None], dtype=float)[rows.codes]
        far = averaged & (np.abs(values - score) > nearest + _SAME * (codes[-1] - codes[0]))
        strange |= own & strict & has_label & (~known | far)
        passes = [bool(scale.passed(code)) for code in scale.codes[:: 1 if scale.better == "high" else -1]]
        if scale.has_rule and passes == sorted(passes):  # else the best vote may fail where another passes
            for end in (codes[0], codes[-1]):
                other = rows.verdict == (0 if scale.passed(end) else 1)
                ends |= own & strict & other & (np.abs(score - end) <= _SAME * (codes[-1] - codes[0]))
    found["label is not the code of score"] = strange
    found["passed contradicts a score at the end of the scale"] = ends
    return found
