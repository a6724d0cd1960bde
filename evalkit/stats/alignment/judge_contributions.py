"""What a jury is worth: each judge alone, and the jury without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.lists_of_choices import REFERENCES, Reference, Ties, Unscored
from evalkit.core.own_rules import aggregate_rule
from evalkit.core.settings import check_choice, checked_rule
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES, AggregateRule
from evalkit.errors import ConfigError
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.row_scales import NO_ENDS
from evalkit.stats.aggregation.aggregating import aggregate, vote_weights
from evalkit.stats.alignment.agreement_measures import (
    FIGURES,
    Answers,
    KindOptions,
    compare_each,
    figure_interval,
    have_answer,
)
from evalkit.stats.alignment.label_values import JudgedLike, Panel, taken
from evalkit.stats.intervals import jackknife_groups
from evalkit.stats.result_tables import (
    CRITERION_KEY,
    JUDGE_KEY,
    Note,
    Notes,
    jackknife_row,
    note_few_clusters,
    result_table,
    with_id_notes,
)
from evalkit.tables import schemas
from evalkit.tables.grouping import ClustersLike, Flags, Floats
from evalkit.tables.ties import Counting, check_counting

_COLUMNS = (
    JUDGE_KEY,
    "text: figure; number: value low high without effect±; bool: best; count: n_judges n_items",
    "count: n_left_out; bool: same_items; text: ties unscored notes",
)
_NEED = ["rubric", "rubric_version", "item_id", "criterion", "score", "label", "passed", "tied", "level", "scale"]
_MAY = ["reason", "tied_labels"]
# Names that no judge has.
_WHOLE, _WITHOUT = "\x00jury", "\x00without "


@with_id_notes
def jury_value(
    votes: JudgedLike,
    labels: LabelsLike | None = None,
    *,
    figure: str | None = None,
    method: AggregateRule | Callable[..., Any] = "mean",
    quorum: float = 0.5,
    weights: Mapping[str, float] | None = None,
    reference: Reference = "each",
    ties: Ties = "half",
    unscored: Unscored = "drop",
    clusters: ClustersLike | None = None,
) -> pd.DataFrame:
    """What each judge adds to the jury, against people: a jury is not better by itself.

    Parameters
    ----------
    votes, labels
        The table of `vote`, or an evaluation; labels as in `align`, those of ``dev`` where they carry parts.
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
    clusters
        As in `align`.

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
        - `n_judges`, `n_items` compared, `n_left_out` of the labelled ones, `same_items`, `ties`, `unscored` as chosen;
        - `notes`: why something is NA, and the best single judge beside the jury.

        Intervals are 95 % jackknives over clusters; judges and annotators are fixed.

    Raises
    ------
    InputError
        When columns are missing, a row is double, or a label is not on the scale.
    ConfigError
        For an unknown option.

    Examples
    --------
    >>> votes = pd.DataFrame([(item, judge, int(code)) for judge, codes in (("a", "1101"), ("b", "1100"), ("c", "0111"))
    ...                       for item, code in zip("wxyz", codes)], columns=["item_id", "judge", "score"])
    >>> votes = votes.assign(level="ordinal", scale='{"codes":[0,1],"better":"high","pass_at":1}')
    >>> labels = pd.DataFrame({"item_id": list("wxyz"), "label": [1, 1, 0, 0]})
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
        raise ConfigError(
            f"figure {figure!r} uses scores, to which ties={ties!r} and unscored={unscored!r} do not apply; omit them"
        )
    tables = taken(votes, labels, "jury_value", clusters).of_part(None)
    frame = tables.frame.assign(weight=vote_weights(tables.frame, weights))
    jury = aggregate(frame, method=rule, quorum=quorum)
    frame = frame.loc[(frame["weight"] > 0).to_numpy()]
    judges = [str(name) for name in dict.fromkeys(frame["judge"].astype("str"))]
    juries = [frame, jury.assign(judge=_WHOLE)]
    for judge in judges:
        rest = frame.loc[(frame["judge"] != judge).to_numpy()]
        fewest = rest.groupby(CRITERION_KEY, observed=True)["judge"].nunique().min()
        if len(rest) and fewest >= aggregate_rule(rule).fewest_judges:
            juries.append(aggregate(rest, method=rule, quorum=quorum).assign(judge=_WITHOUT + judge))
    columns_used = [[name for name in (*_NEED, "judge", *_MAY) if name in table] for table in juries]
    together = pd.concat([table[names] for table, names in zip(juries, columns_used, strict=True)], ignore_index=True)
    together = schemas.check(together, "votes", need=[*_NEED, "judge"])
    rows = []
    for panel in replace(tables, frame=together).panels():
        rows += [row | {"notes": [tables.note, *row["notes"]]} for row in _rows(panel, figure, reference, counting)]
    return tables.keys.restore(result_table(rows, *_COLUMNS))


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A figure against people: the panel, its references, the figure's name, and how ties count."""

    panel: Panel
    people: list[Answers]
    name: str
    counting: Counting

    @property
    def needs_scale(self) -> bool:
        """Are levels compared of a scale that is not known?"""
        return FIGURES[self.name].of == "kinds" and self.panel.scale.is_open and self.panel.scale.level != "nominal"

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


def _rows(panel: Panel, figure: str | None, reference: Reference, counting: Counting) -> list[dict[str, Any]]:
    name = figure or ("accuracy" if panel.verdicts or panel.scale.level == "nominal" else "quadratic_kappa")
    compared = _Comparison(panel, panel.annotators.references(reference), name, counting)
    judges = [judge for judge in panel.judges if not judge.startswith("\x00")]
    counted = {judge: compared.known(judge) for judge in (_WHOLE, *judges)}
    common = np.logical_and.reduce([flags for flags in counted.values() if flags.any()] or [counted[_WHOLE]])
    same_items = bool(common.any())
    if not same_items:
        common = panel.annotators.labelled
    rows = [{"judge": judge} | _alone(compared, judge, counted[judge] & common) for judge in (_WHOLE, *judges)]
    first = rows[0] | {"judge": "jury"}
    for row in rows[1:]:
        row |= _left_out(compared, row["judge"], counted[_WHOLE] & common, row["notes"])
    values = np.array([row["value"] * FIGURES[name].better for row in rows[1:]])
    for row, value in zip(rows[1:], values, strict=True):
        row["best"] = bool(value >= np.nanmax(values) - 1e-9) if not np.isnan(value) else False
    if best := [f"{row['judge']!r} at {row['value']:.3g}" for row in rows[1:] if row["best"]]:
        first["notes"].insert(0, f"best single judge {' and '.join(best)}")
    head = (
        panel.head
        | {"figure": name, "n_judges": len(judges), "same_items": same_items, "best": False}
        | {"ties": counting.ties, "unscored": counting.unscored}
    )
    return [head | row for row in [first, *rows[1:]]]


def _alone(compared: _Comparison, judge: str, rows: Flags) -> dict[str, Any]:
    notes: Notes = []
    n, name, values = int(rows.sum()), compared.name, compared.values(judge, rows)
    row: dict[str, Any] = {"value": float(values[0])}
    if np.isnan(values[0]):
        why = f"{'not defined on' if n else 'there are no'} labelled and scored items"
        notes.append(Note(NO_ENDS if compared.needs_scale else why, (name,)))
    else:
        answers, unit = compared.panel.judges[judge][0].take(rows), compared.panel.unit[rows]
        pairs = [(answers, side.take(rows)) for side in compared.people]
        ends = figure_interval(name, values, pairs, unit, compared.panel.scale.width, unit)
        row |= {"low": ends.low, "high": ends.high}
        notes += [] if ends.reason is None else [Note(ends.reason, (name,), "interval")]
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
    why = NO_ENDS if compared.needs_scale else "not defined on the items that the jury scores with and without it"
    return {"without": float(rest[0])} | jackknife_row("effect", effect, "none", notes, why, compared.panel.unit[rows])
