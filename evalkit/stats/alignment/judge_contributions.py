"""What a jury is worth: each judge alone, the jury without it, and how many independent judges it amounts to."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.lists_of_choices import REFERENCES, Reference, Ties, Unscored
from evalkit.core.own_rules import aggregate_rule
from evalkit.core.settings import check_choice, checked_rule
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES, AggregateRule
from evalkit.errors import ConfigError, EvalkitWarning
from evalkit.rubrics.human_labels import LabelsLike, as_labels
from evalkit.stats.aggregation.aggregating import aggregate, vote_weights
from evalkit.stats.alignment.agreement_measures import FIGURES, Answers, KindOptions, compare_each, have_answer
from evalkit.stats.alignment.independent_judges import effective_judges
from evalkit.stats.alignment.judge_and_people_answers import Panel, checked_part, panels
from evalkit.stats.alignment.label_values import JudgedLike, clusters_for
from evalkit.stats.alignment.model_families import JuryFamilies, jury_families, models_of
from evalkit.stats.intervals import jackknife_groups
from evalkit.stats.notes import Note, Notes, note_few_clusters, with_id_notes
from evalkit.stats.result_tables import CRITERION_KEY, JUDGE_KEY, jackknife_row, result_table, value_row
from evalkit.tables import schemas
from evalkit.tables.grouping import ClustersLike, Flags, Floats
from evalkit.tables.items import ItemsLike
from evalkit.tables.ties import Counting, check_counting

_COLUMNS = (
    JUDGE_KEY,
    "text: figure; number: value low high without effect± n_eff±; bool: best; count: n_judges n_items",
    "count: n_left_out; bool: same_items; text: ties unscored notes",
)
_NEED = ["rubric", "rubric_version", "item_id", "criterion", "score", "label", "passed", "tied", "level", "scale"]
_MAY = ["reason", "tied_labels"]
# Names that no judge has.
_WHOLE, _WITHOUT = "\x00jury", "\x00without "


@with_id_notes
def jury_value(
    votes: JudgedLike,
    labels: LabelsLike,
    *,
    figure: str | None = None,
    method: AggregateRule | Callable[..., Any] = "mean",
    quorum: float = 0.5,
    weights: Mapping[str, float] | None = None,
    reference: Reference = "each",
    ties: Ties = "half",
    unscored: Unscored = "drop",
    items: ItemsLike | None = None,
    models: Mapping[str, str] | pd.DataFrame | None = None,
    clusters: ClustersLike | None = None,
) -> pd.DataFrame:
    """What each judge adds to the jury, against people: a jury is not better by itself.

    Parameters
    ----------
    votes
        The table of `vote`, or an evaluation, which stands for its votes and clusters.
    labels
        A long table (`item_id, criterion, annotator, label`) or, for an evaluation or with `items`, criterion -> item
        columns. Of labels of `split_labels`, those of ``dev``.
    figure
        Which figure of `align`; by default ``accuracy`` if there are verdicts or nominal labels, else
        ``quadratic_kappa``.
    method, quorum, weights
        As in `aggregate`; weights count in the jury without a judge as well.
    reference
        As in `align`: ``each`` annotator (default, averaged by numbers of items), or their ``mean`` or ``majority``.
    ties, unscored
        As in `align`, for figures on verdicts and labels; a tie is half right by default. Figures on scores leave out
        what has no score.
    items
        Items with `system_id`, the model that wrote the answer, to find judges of their own answers.
    models
        Judge -> model, or the judgments (column `model`); by default from the judge's name.
    clusters
        item_id -> cluster, for the intervals; by default those of the evaluation, else the item.

    Returns
    -------
    DataFrame
        Per `rubric, rubric_version, criterion` one row ``jury``, then one per `judge`:

        - `figure`, `value` (of the jury, or of the judge alone), `low`, `high`: on the labelled items that count for
          the jury and all judges, so that all rows are of the same items (`same_items`). Where there are none, because
          judges were asked about different items, each row is of its own items and `same_items` is False. A judge
          that scored nothing is not waited for;
        - `without`: the jury without this judge; `effect`: how much better the jury is with it (above 0: it
          helps; for ``mae`` the sign is turned), with its interval; both on those of these items that both juries
          scored. Where these are fewer, `notes` has their number and the value of the jury on them;
        - `best`: is no other judge better alone? Compare its `value` with the jury's. The best of many on few
          labels looks better than it is;
        - `n_eff` (jury): the effective number of judges, n_eff = [mean_j Var(e_j) − σ²_h/m] / [Var(ē) − σ²_h/m],
          with e_ij = `score_norm` − the mean of m people and σ²_h the variance of people within an item; 1 where
          all judges err alike, J where they err independently. On the items that all judges scored; a lower bound
          with one annotator; NA where a part is ≤ 0. Its interval is that of its logarithm;
        - `n_judges`, `n_items` compared, `n_left_out` of the labelled ones, `same_items`, `ties`, `unscored` as chosen;
        - `notes`: why something is NA, the best single judge beside the jury, judges of one model family, and judges
          of their own family's answers.

        Intervals are 95 % jackknives over clusters; judges and annotators are fixed.

    Raises
    ------
    InputError
        When columns are missing, a row is double, or a label is not on the scale.
    ConfigError
        For an unknown option.

    Warns
    -----
    EvalkitWarning
        When judges share a model family, or judge answers of their own.

    Examples
    --------
    >>> said = {"a": "1101", "b": "1100", "c": "0111"}
    >>> votes = schemas.table("votes", {
    ...     "rubric": ["r"] * 12, "rubric_version": ["v1"] * 12, "item_id": list("wxyz") * 3, "criterion": ["c"] * 12,
    ...     "judge": [judge for judge in said for _ in range(4)], "score": [float(c) for s in said.values() for c in s],
    ...     "label": [c for s in said.values() for c in s], "passed": [c == "1" for s in said.values() for c in s],
    ...     "n_samples": [1] * 12, "n_scored": [1] * 12, "tied": [False] * 12,
    ...     "level": ["ordinal"] * 12, "scale": ['{"codes":[0,1],"better":"high","pass_at":1}'] * 12})
    >>> labels = pd.DataFrame({"item_id": list("wxyz"), "criterion": "c", "annotator": "ann", "label": [1, 1, 0, 0]})
    >>> jury_value(votes, labels)[["judge", "value", "without", "effect", "best"]].values.tolist()
    [['jury', 0.75, nan, nan, False], ['a', 0.75, 0.625, 0.125, False], ['b', 1.0, 0.5, 0.25, True],
     ['c', 0.25, 0.875, -0.125, False]]
    """
    if figure is not None:
        check_choice("figure", figure, [name for name, record in FIGURES.items() if record.better])
    check_choice("reference", reference, REFERENCES)
    rule: Any = checked_rule("method", method, AGGREGATE_RULES)
    counting = check_counting("jury_value", ties, unscored)
    if figure is not None and FIGURES[figure].of == "scores" and (ties, unscored) != ("half", "drop"):
        fact = f"figure {figure!r} uses scores, to which ties={ties!r} and unscored={unscored!r} do not apply"
        raise ConfigError(f"{fact}; omit them")
    clusters = clusters_for(votes, clusters)
    human_labels = labels if items is None else as_labels(labels, items)
    frame, people, chosen, keys = checked_part(votes, human_labels, None, "jury_value")
    frame = frame.assign(weight=vote_weights(frame, weights))
    jury = aggregate(frame, method=rule, quorum=quorum)
    frame = frame.loc[(frame["weight"] > 0).to_numpy()]
    judges = [str(name) for name in dict.fromkeys(frame["judge"].astype("str"))]
    families = jury_families(models_of(judges, models), frame, items)
    juries = [frame, jury.assign(judge=_WHOLE)]
    for judge in judges:
        rest = frame.loc[(frame["judge"] != judge).to_numpy()]
        fewest = rest.groupby(CRITERION_KEY, observed=True)["judge"].nunique().min()
        if len(rest) and fewest >= aggregate_rule(rule).fewest_judges:
            juries.append(aggregate(rest, method=rule, quorum=quorum).assign(judge=_WITHOUT + judge))
    together = pd.concat([_plain(table) for table in juries], ignore_index=True)
    together = schemas.check(together, "votes", need=[*_NEED, "judge"])
    rows = []
    for panel in panels(together, people, clusters=clusters):
        panel_rows = _rows(panel, figure, reference, families, counting)
        rows += [row | {"notes": [chosen, *row["notes"]]} for row in panel_rows]
    for sentence in families.sentences():
        warnings.warn(f"{sentence}: the mistakes of these judges do not average out", EvalkitWarning, stacklevel=2)
    return keys.restore(result_table(rows, *_COLUMNS))


def _plain(part: pd.DataFrame) -> pd.DataFrame:
    part = part[[name for name in (*_NEED, "judge", *_MAY) if name in part]]
    return part.astype(dict.fromkeys(part.select_dtypes("category").columns, object))


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A figure against people: the panel, its references, the figure's name, and how ties count."""

    panel: Panel
    people: list[Answers]
    name: str
    counting: Counting

    def known(self, judge: str) -> Flags:
        """The labelled items of a judge that count in the figure."""
        answers, was_asked = self.panel.judges[judge]
        on_kinds = self.counting.counted(answers.kind >= 0, answers.tied)
        counted = on_kinds if FIGURES[self.name].of == "kinds" else ~np.isnan(answers.score)
        return was_asked & counted & have_answer(self.people, FIGURES[self.name].of)

    def values(self, judge: str, rows: Flags) -> Floats:
        """The figure of a judge on some items: on all of them, then without each unit."""
        unit, n_units = jackknife_groups(self.panel.unit[rows])
        people, options = [side.take(rows) for side in self.people], KindOptions(self.panel.verdicts, self.counting)
        return compare_each(self.panel.judges[judge][0].take(rows), people, unit, n_units, options)[self.name]


def _rows(
    panel: Panel, figure: str | None, reference: Reference, families: JuryFamilies, counting: Counting
) -> list[dict[str, Any]]:
    name = figure or ("accuracy" if panel.verdicts or panel.scale.level == "nominal" else "quadratic_kappa")
    compared = _Comparison(panel, panel.annotators.references(reference), name, counting)
    judges = [judge for judge in panel.judges if not judge.startswith("\x00")]
    counted = {judge: compared.known(judge) for judge in (_WHOLE, *judges)}
    common = np.logical_and.reduce([flags for flags in counted.values() if flags.any()] or [counted[_WHOLE]])
    same_items = bool(common.any())
    if not same_items:
        common = panel.annotators.labelled
    rows = [{"judge": judge} | _alone(compared, judge, counted[judge] & common) for judge in (_WHOLE, *judges)]
    first = rows[0] | {"judge": "jury"} | _effective(panel, judges, rows[0]["notes"])
    for row in rows[1:]:
        row |= _left_out(compared, row["judge"], counted[_WHOLE] & common, row["notes"])
        if row["judge"] in families.own:
            row["notes"].append(families.own_sentence(row["judge"]))
    values = np.array([row["value"] * FIGURES[name].better for row in rows[1:]])
    for row, value in zip(rows[1:], values, strict=True):
        row["best"] = bool(value >= np.nanmax(values) - 1e-9) if not np.isnan(value) else False
    if best := [f"{row['judge']!r} at {row['value']:.3g}" for row in rows[1:] if row["best"]]:
        first["notes"].insert(0, f"best single judge {' and '.join(best)}")
    first["notes"] += families.sentences()
    head = panel.head | {"figure": name, "n_judges": len(judges), "same_items": same_items, "best": False}
    head |= {"ties": counting.ties, "unscored": counting.unscored}
    return [head | row for row in [first, *rows[1:]]]


def _alone(compared: _Comparison, judge: str, rows: Flags) -> dict[str, Any]:
    notes: Notes = []
    n, name, values = int(rows.sum()), compared.name, compared.values(judge, rows)
    why = f"{'not defined on' if n else 'there are no'} labelled and scored items"
    unit = compared.panel.unit[rows]
    row = value_row(name, values, FIGURES[name].transform, notes, why, unit)
    if not np.isnan(values[0]):
        note_few_clusters(unit, notes)
    return row | {"n_items": n, "n_left_out": int(compared.panel.annotators.labelled.sum()) - n, "notes": notes}


def _left_out(compared: _Comparison, judge: str, rows: Flags, notes: Notes) -> dict[str, float]:
    without = _WITHOUT + judge
    if without not in compared.panel.judges:
        notes.append("no jury is left without it")
        return {}
    n_all, rows = int(rows.sum()), rows & compared.known(without)
    n_lost = n_all - int(rows.sum())
    jury, rest = compared.values(_WHOLE, rows), compared.values(without, rows)
    effect = (rest - jury) if FIGURES[compared.name].better < 0 else (jury - rest)
    if n_lost and not np.isnan(jury[0]):
        of_all = f"without it the jury has no answer on {n_lost} of {n_all} items"
        notes.append(f"{of_all}: without and effect are of the others, on which the jury has {jury[0]:.3g}")
    why = "not defined on the items that the jury scores with and without it"
    return {"without": float(rest[0])} | jackknife_row("effect", effect, "none", notes, why, compared.panel.unit[rows])


def _effective(panel: Panel, judges: list[str], notes: Notes) -> dict[str, float]:
    answers = [panel.judges[judge][0] for judge in judges]
    annotators, scale = panel.annotators, panel.scale
    if scale.level != "nominal" and not np.isnan(annotators.score).all():
        width = scale.highest - scale.lowest
        scores, people = np.stack([of_judge.score for of_judge in answers], axis=1) / width, annotators.score / width
    elif panel.verdicts:
        kinds = np.stack([of_judge.kind for of_judge in answers], axis=1)
        scores, people = (np.where(kind < 0, np.nan, kind) for kind in (kinds, annotators.kind))
    else:
        notes.append(
            Note("errors cannot be measured, because the labels have neither an order nor a pass rule", ("n_eff",))
        )
        return {}
    values, why = effective_judges(scores, people, panel.unit)
    if why:
        notes.append(Note(why, ("n_eff",)))
    if np.isnan(values[0]):
        return {}
    with np.errstate(invalid="ignore", divide="ignore"):
        logarithm = jackknife_row("n_eff", np.log(values), "none", notes, "", panel.unit[annotators.labelled])
    return {name: float(np.exp(value)) for name, value in logarithm.items()}
