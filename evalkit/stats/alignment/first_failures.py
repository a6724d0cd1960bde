"""Agreement with people on the step at which a trajectory failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from evalkit.errors import InputError, listed
from evalkit.rubrics.given_scales import open_scale
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.stats.alignment.label_splits import PartOption
from evalkit.stats.alignment.label_values import JudgedLike, Taken, taken
from evalkit.stats.intervals import rate_interval, unit_codes
from evalkit.stats.plain_tables import with_index
from evalkit.stats.result_tables import JUDGE_KEY, Notes, figure_row, result_table, with_id_notes
from evalkit.stats.voting import vote
from evalkit.tables.grouping import ClustersLike, Floats, Ints
from evalkit.tables.items import ItemsLike, as_items
from evalkit.tables.messages import messages_of
from evalkit.tables.steps import NO_STEP, refuse_other_step, step_numbers

_NONE, _TINY = -1, 1e-9
_COLUMNS = (
    "number: exact± exact_by_chance exact_by_commonest within_one± within_one_by_chance within_one_by_commonest",
    "number: missed± false_alarm±; count: n_items n_scored n_failed n_none n_annotators n_clusters; text: notes",
)


@with_id_notes
def first_failure(
    judged: JudgedLike,
    labels: LabelsLike | None = None,
    items: ItemsLike | None = None,
    *,
    criterion: str = "first_failure",
    messages: str = "messages",
    part: PartOption | None = None,
    clusters: ClustersLike | None = None,
) -> pd.DataFrame:
    """How often judges name the step at which people say that a trajectory failed.

    Parameters
    ----------
    judged
        An evaluation of the rubric ``first_failure``, or a table of votes, judgments or scores.
    labels
        Labels of people: the number of the message, from 1, or ``none``.
    items
        The trajectories; by default those of the evaluation.
    criterion
        The criterion that asks for the step.
    messages
        The column of the items with their messages.
    part
        Which labels to use, where they are split; as in `align`.
    clusters
        item_id -> task, where tasks repeat; by default the items' `group_id`, else each trajectory.

    Returns
    -------
    pandas.DataFrame
        One row per `rubric, rubric_version, criterion, judge`. Over trajectories with a vote whose failing step people
        name: `exact` (share with the same step) and `within_one` (at most one step of an agent apart), ``none``
        counting as neither; each beside `…_by_chance` (what a random step of each log would reach) and
        `…_by_commonest` (the step that is right in most of the other logs; of equals their mean); `missed` (share in
        which the judge names none). `false_alarm`: over those in which people name none, the share in which the judge
        names a step. Intervals are Wilson's, by cluster.
        `n_items`, `n_scored`, `n_failed` and `n_none` (that people say failed, or did not), `n_annotators`,
        `n_clusters`, `notes`; of held-out labels also `n_looks` and `n_versions`.
        Several people on one log count as their mean. There is no kappa: each log has levels of
        its own.

    Raises
    ------
    InputError
        For a label that is no step of its item, and without items.

    Examples
    --------
    >>> log = [{"role": "user", "content": "Go"}, *({"role": "assistant", "content": word} for word in "abcd")]
    >>> items = [{"item_id": name, "messages": log} for name in ("t1", "t2")]
    >>> votes = pd.DataFrame({"item_id": ["t1", "t2"], "criterion": "first_failure", "judge": "j", "label": ["2", "4"]})
    >>> people = pd.DataFrame({"item_id": ["t1", "t2"], "criterion": "first_failure", "label": ["2", "5"]})
    >>> first_failure(votes, people, items)[["exact", "exact_by_chance", "within_one", "within_one_by_chance"]].values
    array([[0.5 , 0.25, 1.  , 0.5 ]])
    """
    is_table = isinstance(judged, pd.DataFrame)
    trajectories: Any = getattr(judged, "items", None) if items is None and not is_table else items
    if trajectories is None:
        raise InputError(
            "first_failure needs the items, whose messages are the steps; pass them, as in first_failure(votes, "
            "labels, items)"
        )
    logs = as_items(trajectories)
    if messages not in logs:
        raise InputError(f"the items have no column {messages!r}; name theirs, as in messages='log'")
    tables = _taken(judged, labels, criterion, clusters).of_part(part)
    steps = {item: step_numbers(messages_of(cell)) for item, cell in zip(logs["item_id"], logs[messages], strict=True)}
    if lacking := sorted({*tables.frame["item_id"]} - {*steps}):
        raise InputError(f"judged trajectories are not among the items: {listed(lacking, most=5)}; pass all of them")
    if tables.clusters is None and "group_id" in logs:
        tables = replace(tables, clusters=logs.set_index("item_id")["group_id"])
    rows = [
        dict(zip(JUDGE_KEY, head, strict=True)) | _figures(votes, tables, steps)
        for head, votes in tables.frame.groupby(JUDGE_KEY, sort=False, observed=True)
    ]
    return tables.finished(result_table(rows, JUDGE_KEY, *_COLUMNS))


def _taken(judged: Any, labels: LabelsLike | None, criterion: str, clusters: ClustersLike | None) -> Taken:
    """The votes on the criterion and its labels; of an evaluation by several judges also the jury's."""
    if isinstance(judged, pd.DataFrame):
        judged = with_index(judged)
        judged = judged.loc[judged["criterion"] == criterion] if "criterion" in judged else judged
        scale = None if {"level", "scale"} <= {*judged.columns} else open_scale("nominal")
        judged = judged if "criterion" in judged else judged.assign(criterion=criterion)
        judged = vote(judged, scale=scale) if "sample" in judged else judged
        tables = taken(judged, labels, "first_failure", clusters, scale=scale)
    else:
        tables = taken(judged, labels, "first_failure", clusters)
        if tables.frame["judge"].nunique() > 1:
            jury = taken(judged, labels, "first_failure", clusters, of="scores").frame
            tables = replace(tables, frame=pd.concat([tables.frame, jury]))
    frame, people = (table.loc[(table["criterion"] == criterion).to_numpy()] for table in (tables.frame, tables.people))
    if not len(frame):
        raise InputError(f"nothing was judged on the criterion {criterion!r}; name another, as in criterion='step'")
    return replace(tables, frame=frame, people=people)


def _figures(votes: pd.DataFrame, tables: Taken, steps: dict[str, Sequence[int]]) -> dict[str, Any]:
    """The figures of one judge; each pair of a vote and a label is a row."""
    scored = votes.loc[votes["label"].notna(), ["item_id", "label"]]
    pairs = scored.merge(tables.people[["item_id", "annotator", "label"]], on="item_id", suffixes=("", "_people"))
    guesses = _places(pairs["item_id"], pairs["label"], steps)
    labelled = _places(pairs["item_id"], pairs["label_people"], steps)
    n_steps = np.array([len(steps[item]) for item in pairs["item_id"]], dtype=np.float64)
    failed, notes, row = labelled != _NONE, Notes([tables.note or ""]), dict[str, Any]()
    ids = pairs.loc[failed, "item_id"]

    def add(name: str, hits: Any, rows: Any) -> None:
        values = pd.Series(np.asarray(hits, dtype=np.float64)).groupby(rows.to_numpy(), sort=False).mean()
        interval = rate_interval(values.to_numpy(), unit_codes(values.index, tables.clusters))
        row.update(figure_row(name, float(values.mean()), interval, notes))

    for name, gap in (("exact", 0), ("within_one", 1)):
        guess, label = guesses[failed], labelled[failed]
        add(name, (guess != _NONE) & (np.abs(guess - label) <= gap), ids)
        reached = np.minimum(n_steps[failed] - 1, label + gap) - np.maximum(0, label - gap) + 1
        by_chance, commonest = reached / n_steps[failed], _by_commonest(label, pd.factorize(ids)[0], gap)
        row[f"{name}_by_chance"] = float(pd.Series(by_chance).groupby(ids.to_numpy()).mean().mean())
        row[f"{name}_by_commonest"] = float(pd.Series(commonest).groupby(ids.to_numpy()).mean().mean())
    add("missed", guesses[failed] == _NONE, ids)
    add("false_alarm", guesses[~failed] != _NONE, pairs.loc[~failed, "item_id"])
    return row | {
        "n_items": len(votes), "n_scored": len(scored), "n_failed": ids.nunique(),
        "n_none": pairs.loc[~failed, "item_id"].nunique(), "n_annotators": pairs["annotator"].nunique(),
        "n_clusters": len(np.unique(unit_codes(pairs["item_id"], tables.clusters))), "notes": notes,
    }  # fmt: skip


def _places(items: pd.Series, labels: pd.Series, steps: dict[str, Sequence[int]]) -> Ints:
    """The place of each named step among those of its item; −1 for none."""
    places = []
    for item, label in zip(items, labels.astype(str), strict=True):
        refuse_other_step(item, label, steps[item])
        places.append(_NONE if label == NO_STEP else steps[item].index(int(label)))
    return np.array(places, dtype=np.int64)


def _by_commonest(places: Ints, items: Ints, gap: int) -> Floats:
    """For each label whether the place that is right most often in the other items is right; of equals their mean."""
    if len(np.unique(items)) < 2:
        return np.full(len(places), np.nan)
    is_right = np.abs(np.arange(places.max() + 1)[:, np.newaxis] - places) <= gap  # place × label
    weights = 1 / np.bincount(items)[items]
    total = is_right @ weights
    values = []
    for label, item in enumerate(items):
        is_own = items == item
        without = total - is_right[:, is_own] @ weights[is_own]
        values.append(is_right[without >= without.max() - _TINY, label].mean())
    return np.array(values)
