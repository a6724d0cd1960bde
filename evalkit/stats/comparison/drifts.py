"""Drift: whether the same judge, asked again about the same items, answers differently than before."""

from __future__ import annotations

from typing import Any

import pandas as pd

from evalkit.errors import InputError, counted, listed
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.stats.comparison.compare_evaluations import compare
from evalkit.stats.comparison.comparison_table import BY_LABELS, SAME
from evalkit.stats.comparison.sides import ROW, JudgmentsLike, judgments_of
from evalkit.stats.result_tables import JURY, result_table
from evalkit.stats.significance import ALPHA
from evalkit.tables import schemas
from evalkit.tables.grouping import ClustersLike

_COLUMNS = (
    ROW,
    "text: status; count: n_common n_clusters; Int64: changed; number: chance_up_to change_p change_p_holm passes±",
    "number: mean_difference difference_low difference_high agreement± scored_before scored_after",
    "text: models_before models_after notes",
)
_SETTINGS = ["rubric", "rubric_version", "criterion", "judge"]


def drift(
    before: JudgmentsLike,
    after: JudgmentsLike,
    *,
    labels: LabelsLike | None = None,
    clusters: ClustersLike | None = None,
) -> pd.DataFrame:
    """Whether a judge changed: fixed control items, judged by the same profile, then and now.

    A served model may change under an unchanged name. Keep the judgments of some control items (or a profile and its
    cache), judge the same items again with ``refresh=True``, and compare. Two samples of each judge or more are needed
    to tell change from noise. Whether a calibration still holds: ``calibration.check(after, labels)``.

    Parameters
    ----------
    before, after
        Evaluations or judgments tables with the same rubric version, judges, templates and samples: the replies differ,
        their keys do not. For anything else there is `compare`.
    labels
        Human labels of the control items, as for `compare`: then `agreement` says whether the judge is right more or
        less often than before.
    clusters
        item_id -> cluster, as for `compare`.

    Returns
    -------
    DataFrame
        One row per `rubric, criterion, judge` (and ``jury``):

        - `status`: ``changed`` (`change_p_holm` < .05), ``no change seen``, ``cannot tell`` (one sample) or
          ``same replies`` (it was not asked again);
        - `n_common` items in `n_clusters` clusters; `changed`: items with another verdict, of which chance alone
          explains `chance_up_to`; `change_p` and `change_p_holm`: as in `compare`;
        - `passes`: change of the share of items that pass; `mean_difference`: of the mean `score_norm` (after −
          before); each with its 95 % interval by clusters: the direction, and how large a change may have been missed;
        - `agreement`: change of the share of items on which the verdict is people's, with its interval; NA without
          labels;
        - `scored_before`, `scored_after`: share of the judgments that are scored (0-1);
        - `models_before`, `models_after`: the models that the replies name; `notes` say so if they differ.

    Raises
    ------
    InputError
        When the two sides were not judged with the same settings, have no item in common, or as `compare`.

    Examples
    --------
    >>> import evalkit as ek
    >>> items, _ = ek.load_example("support")
    >>> then = ek.evaluate(items, "faithfulness", "fake:noisy", samples=2)
    >>> drift(then, then)["status"].tolist()
    ['same replies']
    """
    sides = judgments_of(before, "before"), judgments_of(after, "after")
    notes = _check_same(*sides)
    plain = compare(before, after, labels=schemas.empty("labels"), clusters=clusters).table
    aligned = None if labels is None else compare(before, after, labels=labels, clusters=clusters).table
    rows: list[dict[str, Any]] = []
    for number, row in enumerate(plain.to_dict("records")):
        figures: dict[Any, Any] = row | _effect("passes", row)
        if aligned is not None and aligned["against"].iloc[number] in BY_LABELS:
            figures |= _effect("agreement", aligned.iloc[number])
        for name, side in zip(("before", "after"), sides, strict=True):
            flags = side["criterion"].eq(row["criterion"]) & (side["judge"].eq(row["judge"]) | (row["judge"] == JURY))
            judged = side.loc[flags.to_numpy(dtype=bool)]
            figures[f"scored_{name}"] = float(judged["error"].isna().mean())
            figures[f"models_{name}"] = ", ".join(sorted(map(str, judged["model"].dropna().unique()))) or None
        names = [figures["models_before"], figures["models_after"]]
        changed = None if None in names or names[0] == names[1] else f"answered as {names[0]} before, as {names[1]} now"
        rows.append(figures | {"status": _status(row), "notes": [notes, changed, row["notes"]]})
    return result_table(rows, *_COLUMNS)


def _effect(name: str, row: Any) -> dict[str, float]:
    """The effect in a row of `compare`, with its interval, under another name."""
    return {f"{name}{end}": row[f"effect{end}"] for end in ("", "_low", "_high")}


def _status(row: dict[Any, Any]) -> str:
    if row["floor_source"] == SAME:
        return "same replies"
    if pd.isna(row["change_p_holm"]):
        return "cannot tell"
    return "changed" if row["change_p_holm"] < ALPHA else "no change seen"


def _check_same(before: pd.DataFrame, after: pd.DataFrame) -> str | None:
    """InputError unless both sides have the same settings; a note where that cannot be known."""
    if not (common := set(before["item_id"]) & set(after["item_id"])):
        raise InputError("before and after have no item in common; judge the same control items again")
    first, second = (side.loc[side["item_id"].isin(common).to_numpy()] for side in (before, after))
    for names in (_SETTINGS, [*_SETTINGS, "sample"]):
        then, now = (set(side[names].astype(str).itertuples(index=False, name=None)) for side in (first, second))
        if then != now:
            unmatched = listed([" ".join(settings) for settings in sorted(then ^ now)], most=3)
            raise InputError(
                f"only one side has {', '.join(names)} {unmatched}; drift needs the same rubric version, judges and "
                "samples on both sides; to compare sides that differ in these, use compare"
            )
    if first["key"].isna().any() or second["key"].isna().any():
        return "settings of the judges not known, because the table does not come from judge"
    if n_other := len(set(first["key"]) ^ set(second["key"])):
        raise InputError(
            f"the sides differ in {counted(n_other, 'reply key')}: the texts of an item, the rubric, the template "
            "or a setting of a judge changed; drift needs the same prompts on both sides; to compare sides that "
            "differ, use compare"
        )
    for name in ("score_sd", "score_mass"):  # two readings of scores share their reply keys
        has = [name in side and side[name].notna().any() for side in (first, second)]
        if has[0] != has[1]:
            raise InputError(
                f"only {'before' if has[0] else 'after'} has {name}: the sides read scores in two ways (score= of a "
                "judge), or the service gave no log-probabilities on one side; read both in the same way"
            )
    return None
