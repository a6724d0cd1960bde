"""The effect of an edit: agreement with people before and after, on dev and (on request) held-out labels."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

from evalkit.errors import ConfigError, InputError
from evalkit.evaluation.evaluation import Evaluation
from evalkit.evaluation.suggestions.cases import split_by_part
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.stats.alignment.judge_alignment import align
from evalkit.stats.alignment.label_splits import DEV, HELD_OUT, count_look, take_part
from evalkit.stats.comparison.compare_evaluations import compare
from evalkit.stats.result_tables import columns, result_table

_COUNTS = ("fixed", "broke", "changed", "n_common", "n_clusters")
_OF_CHANGE = ("effect", "effect_low", "effect_high", "change_p", "chance_up_to", *_COUNTS, "floor_source", "notes")
_COLUMNS = columns(
    "text: rubric criterion before after part; number: agreement_before agreement_after agreement_low agreement_high",
    "number: effect± change_p chance_up_to; count: n_labelled n_verdicts; Int64: fixed broke; "
    "Int64: changed; count: n_common n_clusters",
    "count: n_looks; text: floor_source notes",
)


def change_of(
    evaluation: Evaluation,
    against: Evaluation,
    labels: pd.DataFrame | None,
    criterion: str,
    repeats: pd.DataFrame | None = None,
) -> tuple[pd.Series | None, str]:
    """The row of `compare` for the jury (or the one judge) on a criterion; or None and the reason.

    Parameters
    ----------
    evaluation, against
        The evaluation, and the one to compare it with.
    labels
        The labels to compare by; None or empty for verdicts alone.
    criterion
        Which criterion.
    repeats
        Judgments of `against` with twice the samples, for a measured noise floor; by default its own.
    """
    own = None if labels is None else labels[labels["criterion"] == criterion]
    try:
        before = _side(against, criterion, against.repeats if repeats is None else repeats)
        options: dict[str, Any] = {"labels": own if own is not None and len(own) else None, "across_modes": True}
        comparison = compare(before, _side(evaluation, criterion), **options, clusters=evaluation.clusters, rows="jury")
    except (InputError, ConfigError) as problem:
        return None, str(problem)
    table = comparison.table[comparison.table["criterion"] == criterion]
    return (None, "nothing in common") if table.empty else (table.iloc[0], "")


def _side(evaluation: Evaluation, criterion: str, repeats: pd.DataFrame | None = None) -> SimpleNamespace:
    """One criterion of an evaluation, for `compare`."""
    names = ("judgments", "votes", "scores")
    tables = {
        name: table[table["criterion"] == criterion] for name in names for table in [getattr(evaluation.own, name)]
    }
    return SimpleNamespace(**tables, rules=evaluation.rules, repeats=repeats)


def measure_edit(
    before: Evaluation,
    after: Evaluation,
    labels: LabelsLike | None = None,
    *,
    criterion: str | None = None,
    look: bool = False,
    cache: str | Path | None = None,
) -> pd.DataFrame:
    """How an edit of the rubric changes the agreement of the jury (or the one judge) with people.

    Tuning uses dev labels. ``look=True`` also uses the held-out ones: this is counted as one look
    (`n_looks`), because each look makes held-out figures less reliable.

    Parameters
    ----------
    before, after
        What `evaluate` returned for the two versions, on the same items.
    labels
        Human labels, as for `evaluate`; by default those of `before`. `split_labels` splits labels without `part`.
    criterion
        Which criterion; may be left out if there is only one.
    look
        Whether to look at the held-out labels.
    cache
        The cache folder, where looks are counted.

    Returns
    -------
    pandas.DataFrame
        One row per `part` (``dev``; with `look` also ``held-out``):

        - `rubric`, `criterion`, and the versions `before` and `after`
        - `agreement_before`, `agreement_after` with its interval `agreement_low`, `agreement_high`: shares 0-1 against
          each annotator (see `align`)
        - `effect`: (fixed − broke)/n against the majority of people, with its cluster interval `effect_low`,
          `effect_high` (see `compare`)
        - `n_labelled` items; `n_verdicts`: those of them with a verdict after the edit; `fixed`; `broke`
        - `changed` verdicts, labelled or not, of `n_common` items in `n_clusters` clusters, with `change_p`,
          `chance_up_to` and `floor_source`: the change that sampling alone explains (see `compare`)
        - `n_looks` at these held-out labels, including this one (0 for dev); see `alpha_of`
        - `notes`: the reason for each NA

        The judges count as fixed, not as drawn at random.

    Raises
    ------
    InputError
        Without labels; with `look`, when nothing is held out (under 50 labelled items).
    CacheError
        When the look cannot be counted; then no figure is shown.

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
    name = after.rubric.criterion(criterion).name
    split = split_by_part(after, before.labels if labels is None else labels, name)
    parts: list[dict[str, Any]] = [{"part": DEV}, *([{"part": HELD_OUT, "cache": cache}] if look else [])]
    return result_table([_row(before.own, after.own, split, name, **of_part) for of_part in parts], _COLUMNS)


def effects_of_look(before: Evaluation, after: Evaluation, labels: Any, criterion: str, look: int) -> pd.DataFrame:
    """The rows of `measure_edit` for dev and held-out labels; the look was counted before, and has this number."""
    own = split_by_part(after, labels, criterion)
    parts: list[dict[str, Any]] = [{"part": DEV}, {"part": HELD_OUT, "look": look}]
    return result_table([_row(before, after, own, criterion, **part) for part in parts], _COLUMNS)


def _row(before: Evaluation, after: Evaluation, labels: pd.DataFrame, criterion: str, **options: Any) -> dict[str, Any]:
    part_name, look = options["part"], options.pop("look", 0)
    sides = [side.scores[side.scores["criterion"] == criterion] for side in (before, after)]
    of_part, _ = take_part(labels, part_name)
    if part_name == HELD_OUT and not look:
        heads = sides[1].iloc[:1]
        against = f"{before.rubric.id}@{before.rubric.label}"
        look = int(count_look(heads, of_part, options["cache"], against=against)["n_looks"].iloc[0])
    own = of_part.drop(columns="part")
    old, new = (align(scores, own, clusters=after.clusters).iloc[0] for scores in sides)
    change, why = change_of(after, before, own, criterion)
    row: dict[str, Any] = {
        "rubric": after.rubric.id,
        "criterion": criterion,
        "before": before.rubric.label,
        "after": after.rubric.label,
        "part": part_name,
        "agreement_before": old["accuracy"],
        "agreement_after": new["accuracy"],
        "agreement_low": new["accuracy_low"],
        "agreement_high": new["accuracy_high"],
        "n_labelled": new["n_labelled"],
        "n_verdicts": new["n_verdicts"],
        "n_looks": look,
        "notes": why or None,
    } | dict.fromkeys(_COUNTS, 0)
    return row if change is None else row | {name: change[name] for name in _OF_CHANGE}
