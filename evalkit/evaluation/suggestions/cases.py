"""The cases: dev items on which jury and people disagree, as they are shown to a judge that suggests edits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

import numpy as np
import pandas as pd

from evalkit.errors import InputError
from evalkit.evaluation.evaluation import Evaluation
from evalkit.rubrics.scales import Scale
from evalkit.stats.alignment.label_splits import DEV, split_labels, take_part
from evalkit.stats.alignment.label_values import annotators_of, with_codes
from evalkit.tables import LABEL_KEY, check, input_text, is_missing
from evalkit.tables.grouping import Ints

__all__ = ["Case", "Cases", "cases_of", "dev_labels", "groups_of", "kinds_of"]

Kind = Literal["false pass", "false fail", "differs"]
_LONGEST = 1_500
_REASONS = 2


@dataclass(frozen=True, slots=True)
class Case:
    """One item: its texts, what people and jury say, and judges' reasons (judge, label, text)."""

    item_id: str
    kind: Kind
    inputs: dict[str, Any]
    people: tuple[str, ...]
    jury: str
    reasons: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases that are shown, and of how many.

    Attributes
    ----------
    shown
        False passes and false fails by turns, each by `item_id`: the same whatever the order of the rows.
    n_differ, n_compared
        Items where jury and people differ, of those where both have a verdict (without pass rule: a label).
    n_false_pass, n_false_fail
        Of those that differ.
    """

    shown: tuple[Case, ...]
    n_differ: int
    n_compared: int
    n_false_pass: int
    n_false_fail: int


def groups_of(items: pd.DataFrame) -> pd.Series | None:
    """item_id -> `group_id`, by which labels are split into parts; None where an item has none."""
    if "group_id" not in items.columns or items["group_id"].isna().any():
        return None
    return pd.Series(items["group_id"].astype("str").to_numpy(), index=items["item_id"].tolist())


def dev_labels(evaluation: Evaluation, labels: pd.DataFrame | None, criterion: str) -> pd.DataFrame:
    """The dev labels of a criterion: of `labels`, else of the evaluation; split here if they carry no part.

    Raises
    ------
    InputError
        When there are none.
    """
    given = evaluation.labels if labels is None else labels
    if given is None:
        raise InputError("suggestions come from where jury and people disagree: give labels, here or to evaluate")
    said = with_codes(check(given, "labels", need=[*LABEL_KEY, "label"]), evaluation.rubric)
    said = said[said["item_id"].isin(evaluation.items["item_id"])]
    if "part" not in said.columns:
        said = split_labels(said, groups_of(evaluation.items))
    dev = take_part(said, DEV)[0]
    dev = dev[(dev["criterion"] == criterion).to_numpy()]
    if dev.empty:
        raise InputError(f"no dev label is for criterion {criterion!r}; label some items first")
    return dev


def kinds_of(scores: pd.DataFrame, scale: Scale, kinds: dict[str, int]) -> Ints:
    """Verdicts (0, 1) where there is a pass rule, else numbers of labels, by those of `kinds`; −1 for none."""
    if scale.has_rule:
        passed = scores["passed"].astype(object).tolist()
        return np.array([-1 if pd.isna(one) else int(one) for one in passed], dtype=np.int64)
    labels = scores["label"].astype(object).tolist()
    return np.array([-1 if pd.isna(one) else kinds.setdefault(str(one), len(kinds)) for one in labels], dtype=np.int64)


def cases_of(evaluation: Evaluation, labels: pd.DataFrame, criterion: str, n_cases: int) -> Cases:
    """Up to `n_cases` items of the labels on which the jury is not where the majority of people is.

    Parameters
    ----------
    evaluation
        What was judged.
    labels
        The dev labels of the criterion.
    criterion
        Which criterion.
    n_cases
        How many to show at most.
    """
    scale = evaluation.rubric.criterion(criterion).scale
    ids = pd.Index(sorted(evaluation.items["item_id"]), dtype=object)
    scores = evaluation.scores
    scores = scores[scores["criterion"] == criterion].set_index("item_id").reindex(ids)
    kinds: dict[str, int] = {}
    truth = annotators_of(labels, ids, scale, kinds, criterion).together("majority").kind
    jury = kinds_of(scores, scale, kinds)
    both = (truth >= 0) & (jury >= 0)
    differ = np.flatnonzero(both & (truth != jury))
    named: list[tuple[int, Kind]] = [
        (int(at), "differs" if not scale.has_rule else "false pass" if jury[at] else "false fail") for at in differ
    ]
    sides = [[one for one in named if one[1] == kind] for kind in ("false pass", "false fail", "differs")]
    turns = [one for turn in zip_longest(*sides) for one in turn if one is not None]
    shown = tuple(_case(evaluation, labels, criterion, str(ids[at]), kind) for at, kind in turns[:n_cases])
    return Cases(shown, len(differ), int(both.sum()), len(sides[0]), len(sides[1]))


def _case(evaluation: Evaluation, labels: pd.DataFrame, criterion: str, item_id: str, kind: Kind) -> Case:
    items = evaluation.items
    item = items[items["item_id"] == item_id].iloc[0]
    names = [name for name in evaluation.rubric.input_names if name in items.columns and not is_missing(item[name])]
    said = labels[labels["item_id"] == item_id].sort_values("annotator")["label"].astype(str)
    scores = evaluation.scores
    score = scores[(scores["criterion"] == criterion) & (scores["item_id"] == item_id)].iloc[0]
    jury = "no label" if pd.isna(score["label"]) else str(score["label"])
    return Case(
        item_id=item_id,
        kind=kind,
        inputs={name: _cut(item[name]) for name in names},
        people=tuple(said),
        jury=jury,
        reasons=_reasons(evaluation, criterion, item_id, score),
    )


def _reasons(
    evaluation: Evaluation, criterion: str, item_id: str, score: pd.Series
) -> tuple[tuple[str, str, str], ...]:
    """What judges on the jury's side gave as their reason, one sample a judge."""
    told = evaluation.judgments
    told = told[(told["criterion"] == criterion) & (told["item_id"] == item_id)]
    by = "label" if pd.isna(score["passed"]) else "passed"
    wanted = score[by]
    if pd.isna(wanted):
        return ()
    told = told[told["explanation"].notna().to_numpy() & (told[by] == wanted).fillna(value=False).to_numpy(dtype=bool)]
    once = told.drop_duplicates("judge").sort_values("judge", key=lambda names: names.astype(str))
    rows = once[["judge", "label", "explanation"]].astype(str).head(_REASONS)
    return tuple((judge, label, str(_cut(text))) for judge, label, text in rows.itertuples(index=False))


def _cut(value: Any) -> Any:
    """A value as it is shown; long texts lose their middle."""
    shown = value if isinstance(value, str) else input_text(value)
    if isinstance(shown, list):
        return [_cut(one) if isinstance(one, str) else one for one in shown]
    if not isinstance(shown, str) or len(shown) <= _LONGEST:
        return shown
    half = _LONGEST // 2
    return f"{shown[:half]} […] {shown[-half:]}"
