"""What an edit does: agreement with people before and after, on dev and, when asked to look, on held-out labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.errors import ConfigError, InputError
from evalkit.evaluation.evaluation import Evaluation
from evalkit.evaluation.suggestions.cases import groups_of
from evalkit.stats.alignment.judge_alignment import align
from evalkit.stats.alignment.label_splits import DEV, HELD_OUT, split_labels
from evalkit.stats.alignment.label_values import with_codes
from evalkit.stats.comparison.comparisons import compare
from evalkit.tables import LABEL_KEY, categorical, check

__all__ = ["change_of", "measure_edit"]

_FIGURES = ["agreement_before", "agreement_after", "agreement_low", "agreement_high"]
_FIGURES += ["effect", "effect_low", "effect_high", "change_p", "chance_up_to"]
_COUNTS = ["n_labelled", "n_verdicts", "fixed", "broke", "changed", "n_looks"]
_TEXTS = ["rubric", "criterion", "before", "after", "part", "floor_source", "notes"]
_COLUMNS = [*_TEXTS[:5], *_FIGURES, *_COUNTS, "floor_source", "notes"]


@dataclass(frozen=True, slots=True)
class _Side:
    """What `compare` needs of one criterion."""

    judgments: pd.DataFrame
    votes: pd.DataFrame
    scores: pd.DataFrame
    rules: Any
    repeats: pd.DataFrame | None

    @classmethod
    def of(cls, evaluation: Evaluation, criterion: str, *, repeated: bool) -> _Side:
        tables = (evaluation.judgments, evaluation.votes, evaluation.scores)
        judgments, votes, scores = (table[table["criterion"] == criterion] for table in tables)
        return cls(judgments, votes, scores, evaluation.rules, evaluation.repeats if repeated else None)


def change_of(
    evaluation: Evaluation, against: Any, labels: pd.DataFrame | None, criterion: str
) -> tuple[pd.Series | None, str]:
    """The row of `compare` for the jury (or the one judge) on a criterion; or None and why.

    Parameters
    ----------
    evaluation, against
        What is shown, and what it is compared with.
    labels
        The labels to compare by; None or empty for verdicts alone.
    criterion
        Which criterion.
    """
    sides = _Side.of(against, criterion, repeated=True), _Side.of(evaluation, criterion, repeated=False)
    given = None if labels is None else labels[labels["criterion"] == criterion]
    try:
        made = compare(
            *sides, labels=given if given is not None and len(given) else None, across_modes=True,
            clusters=evaluation.clusters, rows="jury",
        )  # fmt: skip
    except (InputError, ConfigError) as problem:
        return None, str(problem)
    table = made.table[made.table["criterion"] == criterion]
    return (None, "nothing in common") if table.empty else (table.iloc[0], "")


def measure_edit(
    before: Evaluation,
    after: Evaluation,
    labels: pd.DataFrame | None = None,
    *,
    criterion: str | None = None,
    look: bool = False,
    cache: str | Path | None = None,
) -> pd.DataFrame:
    """What an edit of the rubric does to the agreement of the jury (or the one judge) with people.

    Tuning looks at dev labels. ``look=True`` looks at the held-out ones too: the look is counted for both versions
    (see `held_out_looks`), and each one lessens what the next is worth.

    Parameters
    ----------
    before, after
        What `evaluate` returned for the two versions, on the same items.
    labels
        Human labels; by default those of `before`. Labels without `part` are split here (see `split_labels`).
    criterion
        Which criterion; may be left out where there is only one.
    look
        Whether to look at the held-out labels.
    cache
        The cache folder, where looks are counted.

    Returns
    -------
    pandas.DataFrame
        One row a `part` (``dev``, with `look` also ``held-out``): `rubric`, `criterion`, `before`, `after` (versions);
        `agreement_before`, `agreement_after` with the interval `agreement_low`, `agreement_high` (shares 0-1, against
        each annotator, see `align`); `effect` = (fixed − broke)/n against the majority of people, with its cluster
        interval `effect_low`, `effect_high` (see `compare`); `n_labelled` items, `n_verdicts` of them with a verdict
        after the edit; `fixed`, `broke`; `changed` verdicts, labelled or not, with `change_p`, `chance_up_to` and
        `floor_source`: what sampling alone explains (see `compare`); `n_looks` at these held-out labels, this one
        included (0 for dev); `notes`. Judges are fixed. What cannot be computed is NA, with the reason in `notes`.

    Raises
    ------
    InputError
        Without labels; with `look`, when nothing is held out (under 50 labelled items).
    CacheError
        When the look cannot be counted; then it is not shown.

    Examples
    --------
    >>> from evalkit import evaluate, load_example, load_rubric
    >>> items, labels = load_example("support")
    >>> first = load_rubric("faithfulness")
    >>> edited = first.edit("faithfulness", scale={2: "Supported in the main; minor additions are acceptable."})
    >>> one, two = (evaluate(items, rubric, "fake:strict", labels=labels) for rubric in (first, edited))
    >>> measure_edit(one, two)[["part", "n_labelled", "n_looks"]].values.tolist()
    [['dev', 24, 0]]
    """
    given = before.labels if labels is None else labels
    if given is None:
        raise InputError("an edit is measured by people's labels: give labels, here or to evaluate")
    name = after.rubric.criterion(criterion).name
    said = with_codes(check(given, "labels", need=[*LABEL_KEY, "label"]), after.rubric)
    said = said[((said["criterion"] == name) & said["item_id"].isin(after.items["item_id"])).to_numpy()]
    if "part" not in said.columns:
        said = split_labels(said, groups_of(after.items))
    rows = [_row(before, after, said, name, DEV, cache)]
    if look:
        rows.append(_row(before, after, said, name, HELD_OUT, cache))
    made = pd.DataFrame(rows, columns=_COLUMNS)
    made = made.astype(dict.fromkeys(_FIGURES, "float64") | dict.fromkeys(_COUNTS, "int64"))
    for column in _TEXTS:
        made[column] = categorical(made[column])
    return made


def _row(
    before: Evaluation, after: Evaluation, said: pd.DataFrame, criterion: str, part: Any, cache: Any
) -> dict[str, Any]:
    options: dict[str, Any] = {"part": part, "clusters": after.clusters}
    if part == HELD_OUT:
        options["cache"] = cache
    old, new = (
        align(one.scores[one.scores["criterion"] == criterion], said, **options).iloc[0] for one in (before, after)
    )
    mine = said.loc[(said["part"] == part).to_numpy()].drop(columns="part")
    change, why = change_of(after, before, mine, criterion)
    row: dict[str, Any] = {
        "rubric": after.rubric.id,
        "criterion": criterion,
        "before": before.rubric.label,
        "after": after.rubric.label,
        "part": part,
        "agreement_before": old["accuracy"],
        "agreement_after": new["accuracy"],
        "agreement_low": new["accuracy_low"],
        "agreement_high": new["accuracy_high"],
        "n_labelled": new["n_labelled"],
        "n_verdicts": new["n_verdicts"],
        "n_looks": new.get("n_looks", 0) if part == HELD_OUT else 0,
        "notes": why or None,
        "fixed": 0,
        "broke": 0,
        "changed": 0,
    }
    if change is None:
        return row
    names = ["effect", "effect_low", "effect_high", "change_p", "chance_up_to", "floor_source"]
    names += ["fixed", "broke", "changed"]
    return (
        row | {name: change[name] for name in names} | {"notes": None if pd.isna(change["notes"]) else change["notes"]}
    )
