"""Touched tables: rows whose columns contradict each other are refused; what follows from `score` may be left out.

Which rows no function of evalkit can have made was derived and simulated for every rule: a verdict comes from a vote of
verdicts, so in votes and scores it may differ from what the mean score would pass.
Long, but one thing: what the columns of a row say of each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES
from evalkit.errors import InputError, counted
from evalkit.rubrics import Rubric, row_scales
from evalkit.rubrics.scales import Scale, code_text, number
from evalkit.stats.plain_tables import (
    OF_OWN,
    OTHERS_LABEL,
    Keys,
    cells_where,
    complete,
    key_text,
    names_in,
    own_rows,
    refuse_alike,
    refuse_twice,
    with_index,
)
from evalkit.stats.result_tables import CRITERION_KEY, JURY, verdict_codes
from evalkit.tables import schemas
from evalkit.tables.grouping import Flags, Floats, Ints, Objects, group, refuse_doubles
from evalkit.tables.ties import labels_among, tied_text

_OF_MAJORITY = "votes=majority"  # in `options` of scores: a majority's score may be missing beside a clear verdict
_UNSCORED = re.compile(r"unscored=\S+")
_CUT = re.compile(r"pass_prob_at=\S+")  # then a verdict follows from P(pass), not from the score
_FITTED = [name for name, rule in AGGREGATE_RULES.items() if rule.all_items]  # score and label need not agree
_SCALED = ["level", "scale"]
_KEYS = [*schemas.JUDGMENT_KEY, "system_id", "annotator"]
_SHOWN = [*schemas.JUDGMENT_KEY[2:], "score", "score_norm", "label", "passed", "error"]
_TAKEN = [*_SCALED, "score", "score_norm", "label", "passed", "error"]
_NUMBERS = ["score", "score_norm", "score_sd"]
_NEAR, _SAME = 0.01, 1e-6  # of the scale's width
_BESIDE_ERROR, _OTHER_LABEL = "an error stands beside an answer", "label is not the code of score"
_UNREAD = "there is a score and n_scored is 0"
_FOLLOWING = {  # what a table without it gets from the answer; that labels are tied does not follow from one
    "score": ["label", "passed", "score_norm", "tied", "tied_labels", "status"],
    "label": ["score", "passed", "score_norm", "status"],
}
_ROWS = 1_000_000  # checked at a time, which bounds the memory


def check_rows(frame: Any, name: str, *, need: Iterable[str] | None = None) -> pd.DataFrame:
    """As `schemas.check`, with codes in `label` spelled as on the row's scale ("1.0" for 1 is "1").

    Raises
    ------
    InputError
        Also for rows that contradict themselves, and for two scales of one rubric, version and criterion.
    """
    table: pd.DataFrame = schemas.check(frame, name, need=need)
    if not {*_SCALED} <= {*table.columns} or any(table[key].isna().any() for key in _SCALED):
        return table
    (table, measured), faults = _spelled(table, name), dict[str, list[int]]()
    for checked in (slice(start, start + _ROWS) for start in range(0, len(table), _ROWS)):
        for reason, wrong in _faults(_Rows.of(table.iloc[checked], measured.take(checked)), name).items():
            faults.setdefault(reason, []).extend((np.flatnonzero(wrong) + checked.start).tolist())
    if rows := sorted({row for several in faults.values() for row in several}):
        numbers = ", ".join(map(str, rows[:5])) + (f" and {len(rows) - 5} more" if len(rows) > 5 else "")
        fact = f"{counted(len(rows), 'row')} of {len(table)} of the {name} table cannot be right"
        why = "; ".join(reason for reason in faults if faults[reason])
        fact = f"{fact}, because {why} (rows {numbers}, from 0; the first: {_cells(table, rows[0])})"
        of_labels = measured.nominal  # where the label is the answer, and the score follows from it
        answer, sign = ("label", "==") if of_labels[rows].all() else ("score", "!=")
        unread = ["n_scored"] * bool(faults.get(_UNREAD))
        of_function = ["passed"] * bool(own_rows(table, name).any())
        gone = [key for key in (*_FOLLOWING[answer], *unread) if key in table and key not in of_function]
        some = f"[table['level'] {sign} 'nominal']" if 0 < of_labels.mean() < 1 else ""
        advice = "Restore what was changed"
        is_of_distribution = "score_sd" in table and table["score_sd"].notna().any()  # its label follows from that
        is_voted = name != "judgments" and answer == "score"  # then the verdict follows from what was voted on
        if not is_of_distribution and not is_voted:
            advice += f" or, if `{answer}` is right, drop what follows from it, which is then computed again"
            advice += f": table{some}.drop(columns={gone})"
        if faults.get(_BESIDE_ERROR):
            advice += "; of a row with an answer and an `error`, clear the one that is wrong"
        raise InputError(f"{fact}. {advice}{f'; {OTHERS_LABEL}' if faults.get(_OTHER_LABEL) else ''}")
    return table


def take_rows(
    source: Any, name: str, *, need: Iterable[str], function: str, scale: Any = None, fallback: Rubric | None = None
) -> tuple[pd.DataFrame, Keys]:
    """A table of evalkit's own or a plain one (`complete`), checked (`check_rows`); and the keys as its user has them.

    Raises
    ------
    InputError
        As these two.
    """
    needed_columns = list(need)
    frame, keys = complete(source, name, need=needed_columns, function=function, scale=scale, fallback=fallback)
    return check_rows(frame, name, need=needed_columns), keys


def take_rows_by(
    source: Any, name: str, by: Sequence[str], *, need: Iterable[str], function: str, scale: Any = None
) -> tuple[pd.DataFrame, Keys]:
    """As `take_rows`, for a table in which an item has a row for each value of the columns `by`, such as systems."""
    options: dict[str, Any] = {"need": list(need), "function": function, "scale": scale}
    source = with_index(source)
    by = [column for column in by if column != "judge" and isinstance(source, pd.DataFrame) and column in source]
    if not by or "item_id" not in source:
        return take_rows(source, name, **options)
    refuse_twice(source, name, *by)
    refuse_alike(source["item_id"], "item_id")
    ids = source["item_id"].map(key_text, na_action="ignore").astype("str")
    apart = ids
    for column in by:
        apart = apart + f" ({column} " + source[column].map(key_text).astype("str") + ")"
    frame, keys = take_rows(source.assign(item_id=apart), name, **options)
    ids_of_user = Keys.of_items(source).values
    values = {key: cells for key, cells in keys.values.items() if key != "item_id"} | ids_of_user
    own_columns = {column: source[column].array for column in by if column not in _KEYS}
    return frame.assign(item_id=ids.array, **own_columns), replace(keys, values=values, of_item={})


def check_by(function: str, by: Iterable[Any], source: Any) -> None:
    """InputError for groups by a column of the user's whose name means something else in evalkit's tables."""
    is_own = {*_SCALED} <= names_in(source)
    if clashes := [name for name in by if name in (_SCALED if is_own else _TAKEN)]:
        raise InputError(
            f"{function}: by= names the column {clashes[0]!r}, which means something else in evalkit's tables; rename "
            f"yours, as in table.rename(columns={{{clashes[0]!r}: 'my_{clashes[0]}'}})"
        )


def check_points(table: Any) -> None:
    """InputError for a table of `points` whose `score` is not the share of the points in its own row."""
    if not {"points", "possible", "renormalised", "score"} <= names_in(table):
        return
    score = table["score"].to_numpy(dtype=np.float64)
    of_points, near = [table["points"] / table["possible"], table["renormalised"]], np.isnan(score)
    for share in (column.to_numpy(dtype=np.float64) for column in of_points):
        for way in (share, np.clip(share, 0, 1)):
            near |= np.abs(way - score) <= _SAME * np.maximum(1, np.abs(score))
    if (wrong := ~near).any():
        row = int(wrong.argmax())
        fact = (
            f"{counted(int(wrong.sum()), 'row')} of {len(table)} of the points table cannot be right, because score is"
        )
        cells = ", ".join(f"{name} {table[name].iloc[row]}" for name in ("item_id", "score", "points", "possible"))
        raise InputError(
            f"{fact} not points / possible (the first, row {row} from 0: {cells}); pass what ek.points made"
        )


def take_votes(
    source: Any, *, need: Iterable[str], function: str, scale: Any = None, by: Sequence[str] = ()
) -> tuple[pd.DataFrame, Keys]:
    """As `take_rows_by`, for votes, or scores without judges, which are then those of the ``jury``; also for points.

    Raises
    ------
    InputError
        Also for two rows with one key.
    """
    columns_there = names_in(source)
    name, key = ("votes", schemas.VOTE_KEY) if "judge" in columns_there else ("scores", schemas.SCORE_KEY)
    check_points(source)
    kind_of_part = next(iter({"axis", "parent"} & columns_there), None)
    # points by axis: each axis is compared as a criterion is
    if kind_of_part and {"possible", "renormalised"} <= columns_there:
        names = source[kind_of_part].astype(object)
        source = source.assign(criterion=names.where(names.notna(), f"no {kind_of_part}"))
    frame, keys = take_rows_by(source, name, by, need=[*key, *need], function=function, scale=scale)
    refuse_doubles(frame, [*key, *by], name)
    return (frame if name == "votes" else frame.assign(judge=pd.Categorical([JURY] * len(frame)))), keys


def votes_options(votes: pd.DataFrame) -> dict[str, Flags]:
    """What of their own rules bears on scores made of votes, as imputed scores and majorities: text -> the votes."""
    if not {"options", "method"} <= {*votes.columns}:
        return {OF_OWN: own_rows(votes, "votes")}
    majority = cells_where(votes, "method", "majority".__eq__) & ~cells_where(votes, "level", "nominal".__eq__)
    options, codes = {_OF_MAJORITY: majority}, votes["options"].cat.codes.to_numpy()
    options[OF_OWN] = own_rows(votes, "votes")
    for code, cell in enumerate(votes["options"].cat.categories):
        texts = [*_UNSCORED.findall(cell), *_CUT.findall(cell)]
        options |= {text: options.get(text, False) | (codes == code) for text in texts}
    return options


def _cells(frame: pd.DataFrame, row: int) -> str:
    cells = frame[[name for name in _SHOWN if name in frame]].iloc[row].dropna()
    return ", ".join(f"{name} {str(value)!r}" for name, value in cells.items())


def _spelled(frame: pd.DataFrame, name: str) -> tuple[pd.DataFrame, row_scales.Measures]:
    """With the scale's spelling of codes, and the scales; InputError for two of one rubric, version and criterion."""
    measured, changed = row_scales.measures(frame), dict[str, Any]()  # an error for a cell that is no scale
    scales: dict[tuple[Any, ...], dict[Scale, str]] = {}
    keys = [key for key in CRITERION_KEY if key in frame]
    rows = group(frame, [*keys, *_SCALED], may_miss=keys).first
    for *head, level, text in zip(*(frame[key].array.take(rows) for key in (*keys, *_SCALED)), strict=True):
        by_scale = scales.setdefault(tuple(head), {})
        by_scale.setdefault(replace(Scale.from_json(level, text), texts=()), f"{level} {text}")
        if len(by_scale) > 1:
            raise InputError(
                f"the {name} table has two scales for {', '.join(map(str, head))}: "
                f"{' and '.join(by_scale.values())}; give the rows of one of them another rubric_version, or pass "
                "the rows of each scale separately"
            )
    for column, spell in (("label", _spell), ("tied_labels", _spell_all)):
        texts = list(frame[column].cat.categories) if column in frame else []
        spelled = [[spell(text, scale) for text in texts] for scale in measured.scales]
        if any(row != texts for row in spelled):
            cells = np.array([[*row, None] for row in spelled], dtype=object)
            changed[column] = schemas.categorical(cells[measured.codes, frame[column].cat.codes])
    return (frame.assign(**changed) if changed else frame), measured


def _spell(text: str, scale: Scale) -> str:
    code = scale.by_value(text)
    return text if code is None else code_text(code)


def _spell_all(cell: str, scale: Scale) -> str:
    return tied_text([_spell(text, scale) for text in labels_among(cell)])


@dataclass(frozen=True, slots=True)
class _Rows:
    """The columns of some rows as arrays; what the table lacks is missing in every row."""

    frame: pd.DataFrame
    measured: row_scales.Measures
    score: Floats
    norm: Floats
    label: Objects
    value: Floats  # what the label stands for
    known: Flags  # is the label a code of the scale, or missing?
    verdict: Ints
    expected: Flags  # is the score the mean of a distribution?

    @classmethod
    def of(cls, frame: pd.DataFrame, measured: row_scales.Measures) -> _Rows:
        none = np.full(len(frame), np.nan)
        score, norm, spread = (frame[key].to_numpy(np.float64) if key in frame else none for key in _NUMBERS)
        texts = [*(frame["label"].cat.categories if "label" in frame else ())]
        codes = frame["label"].cat.codes.to_numpy().astype(np.int64) if "label" in frame else np.full(len(frame), -1)
        on_scale = [[*(scale.by_value(text) is not None for text in texts), True] for scale in measured.scales]
        values = [*(row_scales.PAIR_SCORES.get(text, number(text)) for text in texts), None]
        value = np.array(values, dtype=float)[codes]
        verdict = verdict_codes(frame["passed"]) if "passed" in frame else np.full(len(frame), -1)
        of_scale = np.array(on_scale, dtype=bool).reshape(-1, len(texts) + 1)[measured.codes, codes]
        label = np.array([*texts, None], dtype=object)[codes]
        return cls(frame, measured, score, norm, label, value, of_scale, verdict, ~np.isnan(spread))

    @property
    def apart(self) -> Flags:
        """Has the row a label and a score that is not this label's?"""
        return ~pd.isna(self.label) & ~(np.abs(self.value - self.score) <= _SAME * np.maximum(1, np.abs(self.score)))


def _places(frame: pd.DataFrame, score: Floats, label: Objects, measured: row_scales.Measures) -> Floats:
    """What `score_norm` follows from: the place on the scale, cut to 0-1 only where scores off it were imputed."""
    texts = [*(frame["options"].cat.categories if "options" in frame else ()), ""]
    imputed = [[float(text.partition("=")[2]) for text in _UNSCORED.findall(cell)] or [np.nan] for cell in texts]
    codes = frame["options"].cat.codes.to_numpy() if "options" in frame else np.full(len(frame), -1)
    least, greatest = (np.array([pick(values) for values in imputed])[codes] for pick in (min, max))
    norm = np.where(np.isnan(score), row_scales.label_norms(label, measured), score)  # of nominal scales
    for scale, rows in measured.parts():
        if scale.level != "nominal":
            share = (score - scale.lowest) / (scale.highest - scale.lowest)
            cut = (score >= np.fmin(least, scale.lowest)) & (score <= np.fmax(greatest, scale.highest))
            share = np.where(cut, np.clip(share, 0, 1), share)
            norm[rows] = (1 - share if scale.better == "low" else share)[rows]
    return norm


def _faults(rows: _Rows, name: str) -> dict[str, Flags]:
    """Reason -> the rows that it holds for."""
    frame, faults = rows.frame, dict[str, Flags]()
    if name == "judgments" and {"score", "label", "error"} <= {*frame.columns}:
        faults = _faults_of_judgments(rows)
    elif name in ("votes", "scores"):
        faults = _faults_of_votes(rows, name)
    if "score" in frame and not np.isnan(rows.norm).all():
        norm = _places(frame, rows.score, rows.label, rows.measured)
        right = (np.abs(rows.norm - norm) <= _NEAR) | (np.isnan(rows.norm) & np.isnan(norm))
        # a pair that failed a critical criterion has the norm 0
        faults["score_norm does not follow from score"] = ~right & ~(rows.measured.nominal & (name == "rubric_scores"))
    return faults


def _faults_of_judgments(rows: _Rows) -> dict[str, Flags]:
    scored, nominal, labelled = rows.frame["error"].isna().to_numpy(), rows.measured.nominal, ~pd.isna(rows.label)
    off = row_scales.off_scale(rows.score, rows.frame["label"], rows.measured, between=rows.expected & scored)
    if (lost := scored & (np.where(nominal, ~labelled, ~np.isfinite(rows.score)) | off)).any():
        many = counted(int(lost.sum()), "judgment has", "judgments have")
        raise InputError(
            f"{many} neither an error nor a score on the scale (for nominal criteria: a label); the first: "
            f"{_cells(rows.frame, int(lost.argmax()))}. Restore the judge's answer, or store in `error` why there "
            "is none"
        )
    answer = ~np.isnan(rows.score) | ~np.isnan(rows.norm) | labelled
    faults = {_BESIDE_ERROR: ~scored & answer}
    exact = scored & ~rows.expected
    faults[_OTHER_LABEL] = exact & rows.apart & (~nominal | ~np.isnan(rows.score))
    if (rows.verdict >= 0).any():  # else the table has no verdicts
        by_rule = row_scales.rule_verdicts(rows.score, rows.label, rows.measured)
        faults["passed is not what the pass rule gives"] = exact & (rows.verdict != by_rule)
    return faults


def _faults_of_votes(rows: _Rows, name: str) -> dict[str, Flags]:
    """What no rule of voting gives, where no score can be a majority's or stand for unscored samples."""
    frame, score = rows.frame, rows.score
    loose = cells_where(frame, "options", re.compile(f"unscored=|{_OF_MAJORITY}").search)
    strict = ~loose & ~cells_where(frame, "method", "majority".__eq__)
    by_rule = strict & cells_where(frame, "method", bool)  # elsewhere a verdict may be the user's
    bound = ~own_rows(frame, name)
    by_score = bound & ~cells_where(frame, "options", lambda cell: _CUT.search(str(cell)))
    averaged, has_score = ~cells_where(frame, "method", _FITTED.__contains__), ~np.isnan(score)
    strange, ends = ~rows.known & (rows.measured.nominal | strict), np.zeros(len(frame), dtype=bool)
    strange |= rows.measured.nominal & averaged & has_score & rows.apart
    lost = ~rows.measured.nominal & by_rule & averaged & bound & ~has_score
    for scale, on_scale in rows.measured.parts():
        if scale.level == "nominal" or scale.is_open:
            continue
        codes, certain = np.array(scale.codes, dtype=float), on_scale & strict
        index, near = np.clip(np.searchsorted(codes, score), 1, len(codes) - 1), _SAME * (codes[-1] - codes[0])
        nearest = np.minimum(np.abs(score - codes[index - 1]), np.abs(score - codes[index]))
        strange |= certain & averaged & (np.abs(rows.value - score) > nearest + near)
        passes = [bool(scale.passed(code)) for code in scale.codes[:: 1 if scale.better == "high" else -1]]
        if scale.has_rule and passes == sorted(passes):  # else the best vote may fail where another passes
            for end in (codes[0], codes[-1]):
                ends |= (
                    on_scale
                    & by_rule
                    & by_score
                    & (np.abs(score - end) <= near)
                    & (rows.verdict == int(not scale.passed(end)))
                )
    unread = frame["n_scored"].eq(0).to_numpy() if "n_scored" in frame else False
    return {
        "there is a verdict and no pass rule": bound & (rows.verdict >= 0) & ~rows.measured.has_rule,
        _UNREAD: by_rule & has_score & unread,
        "there is a label or a verdict, and no score": lost & (~pd.isna(rows.label) | (rows.verdict >= 0)),
        _OTHER_LABEL: strange,
        "passed contradicts a score at the end of the scale": ends,
    }
