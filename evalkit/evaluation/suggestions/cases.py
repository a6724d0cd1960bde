"""Cases: dev items on which jury and people disagree, as a judge that suggests edits sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

import numpy as np
import pandas as pd

from evalkit.errors import InputError
from evalkit.evaluation.evaluation import Evaluation, labels_of
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.row_scales import Measures, counted_labels
from evalkit.rubrics.scales import Scale
from evalkit.stats.alignment.label_splits import DEV, place, split_labels, take_part
from evalkit.stats.alignment.label_values import annotators_of
from evalkit.stats.alignment.label_values import kinds_of as label_kinds
from evalkit.stats.result_tables import verdict_codes
from evalkit.tables import schemas
from evalkit.tables.grouping import Ints
from evalkit.tables.items import input_text, is_missing
from evalkit.tables.message_forms import shown_value

Kind = Literal["false pass", "false fail", "differs"]
_LONGEST = 1_500
_REASONS = 2
_MOST_JOINED = 0.1  # of the items: larger parts make the split all or nothing


@dataclass(frozen=True, slots=True)
class Case:
    """One item: its texts, the labels of people and jury, and judges' reasons (judge, label, text)."""

    item_id: str
    kind: Kind
    inputs: dict[str, Any]
    people: tuple[str, ...]
    jury: str
    reasons: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases that are shown, and how many there are.

    Attributes
    ----------
    shown
        False passes and false fails alternate, each sorted by `item_id`: the same for any order of the rows.
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


def groups_of(items: pd.DataFrame, content: Iterable[str]) -> pd.Series:
    """item_id -> the name by which its labels are split into parts: that of its group, if all items have one.

    Items of equal content are in one part, with all of their groups: the first of their names counts. If these would
    be over a tenth of all items, as groups with one frequent answer are, the equal items leave their groups, and go
    with the first of these; a text of a twentieth of all items with the first that is ``dev``.
    """
    has_groups = "group_id" in items.columns and items["group_id"].notna().all()
    names = items["group_id" if has_groups else "item_id"].astype("str").tolist()
    order = sorted({*names})
    rank_of = {name: rank for rank, name in enumerate(order)}
    sizes, first, groups_with, apart = Counter(names), [*range(len(order))], dict[str, list[int]](), dict[str, int]()
    joined = [sizes[name] for name in order]

    def first_of(rank: int) -> int:
        while first[rank] != rank:
            rank = first[rank] = first[first[rank]]
        return rank

    texts, n_at_most = [*content], _MOST_JOINED * len(items)
    for name, text in zip(names, texts, strict=True):
        groups_with.setdefault(text, []).append(rank_of[name])
    for text, ranks in sorted(groups_with.items(), key=lambda entry: (len(entry[1]), sorted(entry[1]))):
        roots = {first_of(rank) for rank in ranks}
        n_items, least = sum(joined[root] for root in roots), min(roots)
        if len(roots) > 1 and n_items > n_at_most:
            apart[text] = min(ranks, key=(lambda rank: place(order[rank])) if len(ranks) >= n_at_most / 2 else None)
            continue
        joined[least] = n_items
        for root in roots:
            first[root] = least
    firsts = [apart.get(text, first_of(rank_of[name])) for name, text in zip(names, texts, strict=True)]
    return pd.Series([order[rank] for rank in firsts], index=items["item_id"].tolist(), dtype="str")


def split_by_part(evaluation: Evaluation, labels: LabelsLike | None, criterion: str) -> pd.DataFrame:
    """The labels of a criterion of these items, with their `part`; split here if they have none.

    Raises
    ------
    InputError
        When there are no labels.
    """
    if labels is None:
        raise InputError(
            "the jury cannot be compared with people, because labels are missing; pass labels= to this function or "
            "to evaluate"
        )
    own = labels_of(labels, evaluation.own.items, evaluation.rubric, evaluation.inputs)
    own = own[(own["criterion"] == criterion).to_numpy()]
    return own if "part" in own.columns else split_labels(own, groups_of(evaluation.own.items, evaluation.content))


def dev_labels(evaluation: Evaluation, labels: LabelsLike | None, criterion: str) -> pd.DataFrame:
    """The dev labels of a criterion: of `labels`, else of the evaluation.

    Raises
    ------
    InputError
        When there are none.
    """
    given = evaluation.labels if labels is None else labels
    own = split_by_part(evaluation, given, criterion).drop(columns="source", errors="ignore")  # any item is an example
    if (dev := take_part(own, DEV)[0]).empty:
        raise InputError(f"criterion {criterion!r} has no labels in the part 'dev'; label some items first")
    return dev


def kinds_of(scores: pd.DataFrame, scale: Scale, kinds: dict[str, int]) -> Ints:
    """Verdicts (0, 1) if there is a pass rule, else numbers of labels from `kinds`; −1 if missing."""
    if scale.has_rule:
        return verdict_codes(scores["passed"])
    measured = Measures(np.zeros(len(scores), dtype=np.int64), (scale,))
    labels = counted_labels(
        scores["score"].to_numpy(dtype=np.float64), scores["label"].to_numpy(dtype=object), measured
    )
    return label_kinds(pd.Series(schemas.categorical(labels)), kinds)


def cases_of(evaluation: Evaluation, labels: pd.DataFrame, criterion: str, n_cases: int) -> Cases:
    """Up to `n_cases` labelled items on which the jury and the majority of people differ.

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
    evaluation = evaluation.own
    ids = pd.Index(sorted(evaluation.items["item_id"]), dtype=object)
    scores = evaluation.scores
    scores = scores[scores["criterion"] == criterion].set_index("item_id").reindex(ids)
    kinds: dict[str, int] = {}
    truth = annotators_of(labels, ids, scale, kinds, criterion).together("majority").kind
    jury = kinds_of(scores, scale, kinds)
    both = (truth >= 0) & (jury >= 0)
    differ = np.flatnonzero(both & (truth != jury))
    kind_of: dict[int, Kind] = {0: "false fail", 1: "false pass"} if scale.has_rule else {}
    named = [(int(at), kind_of.get(int(jury[at]), "differs")) for at in differ]
    sides = [[entry for entry in named if entry[1] == kind] for kind in ("false pass", "false fail", "differs")]
    turns = [entry for turn in zip_longest(*sides) for entry in turn if entry is not None]
    chosen, judgments = turns[:n_cases], evaluation.judgments
    judgments = judgments[judgments["item_id"].isin([ids[at] for at, _ in chosen]).to_numpy()]
    judgments = judgments[(judgments["criterion"] == criterion).to_numpy()]
    shown = tuple(_case(evaluation, labels, scores.iloc[at], judgments, kind) for at, kind in chosen)
    return Cases(shown, len(differ), int(both.sum()), len(sides[0]), len(sides[1]))


def _case(evaluation: Evaluation, labels: pd.DataFrame, score: pd.Series, judgments: pd.DataFrame, kind: Kind) -> Case:
    item_id = str(score.name)
    item = evaluation.items[evaluation.items["item_id"] == item_id]
    values = {name: item[column].iloc[0] for name, column in evaluation.input_columns.items()}
    people = labels[labels["item_id"] == item_id].sort_values("annotator")["label"].astype(str)
    return Case(
        item_id=item_id,
        kind=kind,
        inputs={name: _cut(value) for name, value in values.items() if not is_missing(value)},
        people=tuple(people),
        jury="no label" if pd.isna(score["label"]) else str(score["label"]),
        reasons=_reasons(judgments[judgments["item_id"] == item_id], score),
    )


def _reasons(judgments: pd.DataFrame, score: pd.Series) -> tuple[tuple[str, str, str], ...]:
    """The reasons of judges on the jury's side, one sample per judge."""
    by = "label" if pd.isna(score["passed"]) else "passed"
    if pd.isna(score[by]):
        return ()
    on_side = (judgments[by] == score[by]).fillna(value=False).to_numpy(dtype=bool)
    rows = judgments[judgments["explanation"].notna().to_numpy() & on_side].drop_duplicates("judge")
    rows = rows.sort_values("judge", key=lambda names: names.astype(str)).head(_REASONS)
    texts = rows[["judge", "label", "explanation"]].astype(str).itertuples(index=False)
    return tuple((judge, label, str(_cut(text))) for judge, label, text in texts)


def _cut(value: Any) -> Any:
    """A value as it is shown; the middle of a long text is left out."""
    shown = shown_value(input_text(value))
    if isinstance(shown, list):
        return [_cut(one) if isinstance(one, str) else one for one in shown]
    if not isinstance(shown, str) or len(shown) <= _LONGEST:
        return shown
    half = _LONGEST // 2
    return f"{shown[:half]} […] {shown[-half:]}"
