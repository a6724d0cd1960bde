"""Touched tables: rows whose columns contradict each other, and `rescore`, which recomputes what follows from `score`.

Which rows no function of evalkit can have made was derived and simulated for every rule: a verdict comes from a vote of
verdicts, so in votes and scores it may differ from what the mean score would pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from evalkit import tables
from evalkit.errors import InputError, counted, listed
from evalkit.rubrics.row_scales import PAIR_SCORES, Measures, halfway_labels, label_norms, measures, nearest_labels
from evalkit.rubrics.scales import Scale, code_text, number
from evalkit.stats.result_tables import verdict_codes
from evalkit.tables.grouping import Flags, Floats, Ints, Objects
from evalkit.tables.ties import labels_among, tied_text

OF_MAJORITY = "votes=majority"
"""In the `options` of scores: some votes were a majority, whose score may be missing or tied beside a clear verdict."""

_SCALED, _HEAD = ["level", "scale"], ["rubric", "rubric_version", "criterion"]
_NEAR, _SAME = 0.01, 1e-6  # of the scale's width
_ROWS = 1_000_000  # checked at a time, which bounds the memory
_OF_KEY = ("item_id", "criterion", "judge", "order", "sample", "score", "score_norm", "label", "passed", "error")


def check_rows(frame: Any, name: str, *, need: Iterable[str] | None = None) -> pd.DataFrame:
    """As `tables.check`, with codes in `label` spelled as on the row's scale.

    Raises
    ------
    InputError
        Also for rows that contradict themselves, and two scales of one rubric, version and criterion.
    """
    frame = tables.check(frame, name, need=need)
    if not {*_SCALED} <= {*frame.columns} or not {"score", "label", "passed"} & {*frame.columns}:
        return frame
    frame = _spelled(frame)
    found: dict[str, list[int]] = {}
    heads: set[tuple[Any, ...]] = set()
    for start in range(0, len(frame), _ROWS):
        part = frame.iloc[start : start + _ROWS]
        for reason, wrong in _faults(part, name).items():
            found.setdefault(reason, []).extend((np.flatnonzero(wrong) + start).tolist())
        if {*_HEAD} <= {*frame.columns}:
            heads |= set(part[[*_HEAD, *_SCALED]].drop_duplicates().itertuples(index=False, name=None))
    _refuse_two_scales(heads, name)
    found = {reason: rows for reason, rows in found.items() if rows}
    if found:
        rows = sorted(set().union(*found.values()))
        first = frame[[key for key in _OF_KEY if key in frame]].iloc[rows[0]].dropna()
        shown = ", ".join(f"{key} {str(value)!r}" for key, value in first.items())
        raise InputError(
            f"{counted(len(rows), 'row')} of {len(frame)} of the {name} table {'was' if len(rows) == 1 else 'were'} "
            f"changed so that the columns contradict each other: {'; '.join(found)} (rows {listed(rows, most=5)}, "
            f"counted from 0; the first: {shown}). Restore the columns or, if `score` is right, pass ek.rescore(table)"
        )
    return frame


def rescore(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose `score` was changed, with the columns that follow from it computed again.

    Only rows that contradict themselves are changed; votes and scores elsewhere keep their own verdicts, which come
    from a vote of verdicts. To give rows a verdict of your own, set `passed` after this call.

    Parameters
    ----------
    table
        Judgments, votes, scores or rubric scores, of which `score` (on nominal scales: `label`) is right.

    Returns
    -------
    DataFrame
        The table with `score_norm`, `label` (the nearest code; NA for an exact half) and `passed` (by the pass rule)
        of such rows, and what says that they are scored or tied. A judgment with a score and an `error` loses the
        older of the two: its `error` where it has neither label nor `score_norm`, else its answer. A row whose score
        was removed is unscored.

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
    names = [str(column) for column in getattr(table, "columns", ())]
    name = "judgments" if "sample" in names else "votes" if "judge" in names else "scores"
    name = name if "criterion" in names or name != "scores" else "rubric_scores"
    frame = tables.check(table, name, need=["score", *_SCALED])
    frame = _spelled(frame).copy()
    wrong = np.logical_or.reduce([np.zeros(len(frame), dtype=bool), *_faults(frame, name).values()])
    if not wrong.any():
        return check_rows(frame, name, need=["score"])
    rows = frame.loc[wrong]
    measured, score = measures(rows), rows["score"].to_numpy(dtype=np.float64)
    label = rows["label"].astype(object).where(rows["label"].notna(), None).to_numpy() if "label" in rows else None
    if "error" in rows:
        older = rows["error"].notna() & (rows["label"].notna() | rows["score_norm"].notna())
        score = np.where(older, np.nan, score)
        label = None if label is None else np.where(older, None, label)
    allowed = _on_scale(rows, score, measured, between=name != "judgments" or _expected(rows))
    if not allowed.all():
        at = int(np.flatnonzero(~allowed)[0])
        raise InputError(
            f"rescore: {counted(int((~allowed).sum()), 'score')} of the {name} table are not on their scale, the first "
            f"{score[at]:g} in row {np.flatnonzero(wrong)[at]}, whose scale has the codes "
            f"{listed(measured.scales[measured.codes[at]].labels)}; correct the column `score`"
        )
    made, nominal = dict[str, Any](), measured.nominal
    nearest, half = nearest_labels(score, measured)
    if label is not None:
        of_pairs = {value: text for text, value in PAIR_SCORES.items()}
        paired = np.array([of_pairs.get(value) for value in score], dtype=object)
        paired = np.where(np.isnan(score) & (name != "judgments"), None, np.where(np.isnan(score), label, paired))
        made["label"] = np.where(nominal, np.where(_pairs(measured), paired, label), nearest)
        if name == "judgments" and _expected(rows).any():
            made["label"] = np.where(_expected(rows) & ~nominal, label, made["label"])
    texts = made.get("label", np.full(len(rows), None, dtype=object))
    made["score_norm"] = np.clip(_places(rows, score, texts, measured), 0.0, 1.0)
    if "passed" in rows and name != "rubric_scores":
        codes = _rule(np.where(np.isnan(score), np.nan, score), texts, measured)
        made["passed"] = np.array([None if code < 0 else bool(code) for code in codes], dtype=object)
    there = ~np.isnan(score) | ~pd.isna(texts)
    made["error"] = rows["error"].astype(object).where(~there, None) if "error" in rows else None
    made |= {"score": score, "tied": half, "tied_labels": halfway_labels(score, measured, half)}
    made["reason"] = np.where(there, np.where(half, "tied", None), rows["reason"]) if "reason" in rows else None
    if "n_scored" in rows:
        made["n_scored"] = np.where(there, np.maximum(rows["n_scored"], 1), rows["n_scored"])
    if "status" in rows:
        status = rows["status"].astype(object)
        made["status"] = np.where(there, status.where(status != "unscored", "ok"), "unscored")
    for column in (column for column in made if column in frame):
        whole = frame[column].astype(object)
        whole[wrong] = np.asarray(made[column], dtype=object)
        frame[column] = whole.where(whole.notna(), None)
    return check_rows(tables.check(frame, name, need=["score"]), name, need=["score"])


def votes_options(votes: pd.DataFrame) -> pd.Series:
    """Per vote, what of its rules bears on scores made of it: imputed scores, and a majority; an empty text if nothing."""
    if not {"options", "method"} <= {*votes.columns}:
        return pd.Series([""] * len(votes))
    rules, levels = votes[["options", "method"]].astype(object), votes["level"].ne("nominal")
    texts = {cell: " ".join(re.findall(r"unscored=\S+", str(cell))) for cell in rules["options"].unique()}
    most = rules["method"].eq("majority") & levels.astype(bool)
    return rules["options"].map(texts) + np.where(most, f" {OF_MAJORITY}", "")


def _refuse_two_scales(heads: Iterable[tuple[Any, ...]], name: str) -> None:
    scales: dict[tuple[Any, ...], dict[Scale, str]] = {}
    for *head, level, text in heads:
        if isinstance(text, str):
            scales.setdefault(tuple(head), {})[Scale.from_json(level, text)] = f"{level} {text}"
    for head, found in scales.items():
        if len(found) > 1:
            raise InputError(
                f"the {name} table has {len(found)} scales for criterion {head[2]!r} of rubric {head[0]}@{head[1]}: "
                f"{' and '.join(sorted(found.values()))}; give the rows of each scale another `rubric_version`, or "
                "pass them separately"
            )


def _spelled(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with labels that mean a code by its value ("1.0" for 1) spelled as on the scale."""
    if "label" not in frame or not len(frame) or frame[_SCALED].isna().any(axis=None):
        return frame
    measured, changed = measures(frame), dict[str, Any]()
    for column in ("label", "tied_labels"):
        if column not in frame:
            continue
        texts, codes = list(frame[column].cat.categories), frame[column].cat.codes.to_numpy()
        means = _meaning if column == "label" else _meanings
        meant = {(at, text): means(text, scale) for at, scale in enumerate(measured.scales) for text in texts}
        if any(text != found for (_, text), found in meant.items()):
            by_scale = [np.array([*(meant[at, text] for text in texts), None], object) for at in range(len(measured.scales))]
            changed[column] = tables.categorical(np.array(by_scale, dtype=object)[measured.codes, codes])
    return frame.assign(**changed) if changed else frame


def _meaning(text: str, scale: Scale) -> str:
    code = scale.by_value(text)
    return text if code is None else code_text(code)


def _meanings(cell: str, scale: Scale) -> str:
    return tied_text([_meaning(text, scale) for text in labels_among(cell)])


def _expected(frame: pd.DataFrame) -> Flags:
    """Per judgment: is the score the mean of a distribution?"""
    return frame["score_sd"].notna().to_numpy() if "score_sd" in frame else np.zeros(len(frame), dtype=bool)


def _pairs(measured: Measures) -> Flags:
    return measured.each([{*scale.labels} <= {*PAIR_SCORES} for scale in measured.scales])


def _texts(frame: pd.DataFrame) -> tuple[Objects, Ints]:
    labels = frame["label"].cat
    return np.array([*labels.categories, None], dtype=object), labels.codes.to_numpy().astype(np.int64)


def _imputed(frame: pd.DataFrame) -> tuple[Floats, Floats]:
    """The lowest and highest number that stands for unscored samples in each row; NaN for none."""
    if "options" not in frame:
        return (np.full(len(frame), np.nan),) * 2
    given = [[float(text) for text in re.findall(r"unscored=(\S+)", cell)] for cell in frame["options"].cat.categories]
    codes = frame["options"].cat.codes.to_numpy()
    ends = np.array([*([min(one), max(one)] if one else [np.nan] * 2 for one in given), [np.nan] * 2])
    return ends[codes, 0], ends[codes, 1]


def _places(frame: pd.DataFrame, score: Floats, label: Objects, measured: Measures) -> Floats:
    """What `score_norm` follows from: the place on the scale, cut to 0-1 only where scores off it were imputed."""
    least, most = _imputed(frame)
    made = np.where(measured.nominal, np.where(np.isnan(score), label_norms(label, measured), score), np.nan)
    for scale, rows in measured.parts():
        if scale.level != "nominal":
            low, high, own = scale.lowest, scale.highest, score[rows]
            share = (own - low) / (high - low)
            share = 1 - share if scale.better == "low" else share
            cut = (own >= np.fmin(least[rows], low)) & (own <= np.fmax(most[rows], high))
            made[rows] = np.where(cut, np.clip(share, 0, 1), share)
    return made


def _on_scale(frame: pd.DataFrame, score: Floats, measured: Measures, *, between: Any) -> Flags:
    least, most = _imputed(frame)
    good = np.ones(len(score), dtype=bool)
    for scale, rows in measured.parts():
        ends = (0.0, 1.0) if scale.level == "nominal" else (scale.lowest, scale.highest)
        off = (score < np.fmin(least, ends[0]) - _SAME) | (score > np.fmax(most, ends[1]) + _SAME)
        codes = [*PAIR_SCORES.values()] if scale.level == "nominal" else [float(code) for code in scale.codes]
        strange = ~np.isnan(score) & ~np.isin(np.round(score, 9), np.round(codes, 9)) & (scale.level != "interval")
        good[rows] = ~np.where(between, off, off | strange)[rows]
    return good


def _rule(score: Floats, label: Objects, measured: Measures) -> Ints:
    """The pass rule's verdict on each answer, 1 or 0; −1 without answer or rule."""
    made = np.full(len(score), -1, dtype=np.int64)
    for scale, rows in measured.parts():
        if scale.level == "nominal" or scale.pass_if is not None:
            texts, found = pd.factorize(label[rows])
            codes = [scale.by_value(text) for text in found]
            known = [-1 if code is None or not scale.has_rule else int(bool(scale.passed(code))) for code in codes]
            made[rows] = np.array([*known, -1], dtype=np.int64)[texts]
        elif scale.pass_at is not None:
            gap = (score[rows] - scale.pass_at) * (1 if scale.better == "high" else -1)
            made[rows] = np.where(np.isnan(gap), -1, gap >= -1e-9)
    return made


def _faults(frame: pd.DataFrame, name: str) -> dict[str, Flags]:
    """Reason -> the rows that it holds for."""
    if frame[_SCALED].isna().any(axis=None):
        return {}
    measured = measures(frame)
    none = np.full(len(frame), np.nan)
    score, norm = (frame[key].to_numpy(dtype=np.float64) if key in frame else none for key in ("score", "score_norm"))
    texts, codes = _texts(frame) if "label" in frame else (np.array([None], dtype=object), np.full(len(frame), -1))
    verdict = verdict_codes(frame["passed"]) if "passed" in frame else np.full(len(frame), -1)
    found = dict[str, Flags]()
    if not np.isnan(norm).all() and "score" in frame:
        place = _places(frame, score, texts[codes], measured)
        right = (np.abs(norm - place) <= _NEAR) | (np.isnan(norm) & np.isnan(place))
        # a pair that failed a critical criterion has the norm 0
        found["`score_norm` does not follow from `score`"] = ~right & ~(measured.nominal & (name == "rubric_scores"))
    if name == "judgments" and {"score", "error"} <= {*frame.columns}:
        found |= _faults_of_judgments(frame, score, norm, texts, codes, verdict, measured)
    elif name in ("votes", "scores"):
        found |= _faults_of_votes(frame, score, texts, codes, verdict, measured)
    return found


def _values(texts: Objects) -> Floats:
    """The number that each label stands for; NaN for none."""
    return np.array([np.nan if text is None else PAIR_SCORES.get(text, number(text)) for text in texts], dtype=float)


def _widths(measured: Measures) -> Floats:
    widths = [1.0 if one.level == "nominal" else one.highest - one.lowest for one in measured.scales]
    return np.array(widths)[measured.codes] if widths else np.zeros(0)


def _faults_of_judgments(
    frame: pd.DataFrame, score: Floats, norm: Floats, texts: Objects, codes: Ints, verdict: Ints, measured: Measures
) -> dict[str, Flags]:
    scored = frame["error"].isna().to_numpy()
    read = scored & ~_expected(frame)
    has_label, pairs = codes >= 0, ~np.isnan(score) | ~measured.nominal
    apart = ~(np.abs(_values(texts)[codes] - score) <= _SAME * _widths(measured))
    found = {
        "a judgment with an `error` has an answer": ~scored & (~np.isnan(score) | ~np.isnan(norm) | has_label),
        "`label` is not the code of `score`": read & has_label & pairs & apart,
    }
    if (verdict >= 0).any():
        wrong = verdict != _rule(score, texts[codes], measured)
        found["`passed` is not what the pass rule gives"] = read & wrong & (has_label | ~np.isnan(score))
    return found


def _faults_of_votes(
    frame: pd.DataFrame, score: Floats, texts: Objects, codes: Ints, verdict: Ints, measured: Measures
) -> dict[str, Flags]:
    rule = frame["method"].astype(object) if "method" in frame else pd.Series([None] * len(frame), dtype=object)
    options = frame["options"] if "options" in frame else pd.Series(pd.Categorical([None] * len(frame)))
    loose = np.array([*("unscored=" in cell or OF_MAJORITY in cell for cell in options.cat.categories), False])
    # what follows from a score, unless it is a majority's, of imputed samples, or of an unknown rule
    strict = ~loose[options.cat.codes.to_numpy()] & ~rule.isin(["majority"]).to_numpy() & rule.notna().to_numpy()
    fitted, values = rule.eq("dawid_skene").to_numpy(dtype=bool), _values(texts)[codes]
    has_score, label = ~np.isnan(score), codes >= 0
    found = {"a verdict without a pass rule": (verdict >= 0) & ~measured.has_rule}
    if "n_scored" in frame:
        found["a score with `n_scored` 0"] = strict & has_score & (frame["n_scored"] == 0).to_numpy()
    strange, ends = np.zeros(len(frame), dtype=bool), np.zeros(len(frame), dtype=bool)
    for scale, rows in measured.parts():
        known = np.array([*(scale.by_value(text) is not None for text in texts[:-1]), True])[codes]
        nominal = scale.level == "nominal"
        strange |= rows & ~known & (nominal | strict)
        if nominal:
            strange |= rows & label & has_score & ~fitted & (np.abs(values - score) > _SAME)
            continue
        listed_codes, width = np.array(scale.codes, dtype=float), scale.highest - scale.lowest
        at = np.clip(np.searchsorted(listed_codes, score), 1, len(listed_codes) - 1)
        nearest = np.minimum(np.abs(score - listed_codes[at - 1]), np.abs(score - listed_codes[at]))
        off = np.abs(values - score) > nearest + _SAME * width
        strange |= rows & strict & ~fitted & label & has_score & off
        for end in (scale.codes[0], scale.codes[-1]):
            passes = scale.passed(end)
            if passes is not None:
                ends |= rows & strict & (np.abs(score - float(end)) <= 1e-9 * width) & (verdict == int(not passes))
    found["`label` is not the code of `score`"] = strange
    found["`passed` contradicts a `score` at the end of the scale"] = ends
    return found
