"""Probabilities of passing, as decision models state them, against people: calibration, cuts and certainty."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.settings import check_share
from evalkit.errors import ConfigError, InputError
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.stats.alignment.label_splits import DEV, HELD_OUT, PartOption, count_look
from evalkit.stats.alignment.label_values import JudgedLike, Panel, Taken, taken
from evalkit.stats.intervals import (
    intraclass_correlation,
    jackknife_groups,
    mean_interval,
    rate_interval,
    ratio,
    sums_without_each,
)
from evalkit.stats.plain_tables import Keys
from evalkit.stats.result_tables import (
    JUDGE_KEY,
    Note,
    Notes,
    figure_row,
    jackknife_row,
    note_few_clusters,
    result_table,
    with_id_notes,
)
from evalkit.stats.voting import passes_at
from evalkit.tables.grouping import ClustersLike, Flags, Floats, Ints

FEWEST, FEWEST_FOR_SLOPE = 30, 100
_FEWEST_IN_BIN, _FEWEST_REFUSED = 10, 5
_SURE = 0.99
_STARTS = np.array([-np.inf, np.nextafter(0.01, 1), 0.1, 0.3, 0.5, 0.7, 0.9, _SURE])
"""Where a bin of P begins; .01 itself is in the first one."""
CERTAINTIES = np.array([*np.arange(50, 100, 5), 99]) / 100
_ROUNDED, _ALPHA = 9, 0.05  # means of samples differ in the last digit
NO_LOOK = {"n_looks": 0, "n_versions": 0}
NO_CHANCE = "the judge states no probability of passing"
_TABLE = (
    JUDGE_KEY,
    "count: n_items n_scored n_labelled n_clusters; number: gap± brier± slope± ece ece_if_calibrated",
    "number: sure_pass sure_fail; count: n_refused n_refused_pass n_refused_fail",
    "number: refused_pass± refused_fail±; text: notes",
)
_BIN = "number: lowest highest score people±; count: n_labelled"
_DECIDED = "number: threshold decided agreement±; count: n_items n_decided n_labelled"


@dataclass(frozen=True, slots=True)
class PassProbabilities:
    """P(pass) of judges against people.

    Attributes
    ----------
    table
        One row per `rubric, rubric_version, criterion, judge`.
    points
        One row per bin of P.
    certainty
        One row per threshold on max(P, 1 − P).
    """

    table: pd.DataFrame
    points: pd.DataFrame
    certainty: pd.DataFrame


@dataclass(frozen=True, slots=True)
class Chances:
    """P(pass) of one judge on one criterion, and what people say.

    Attributes
    ----------
    head
        The key of the row: rubric, rubric_version, criterion, judge.
    items, unit
        The items that the judge was asked about, and their clusters.
    prob
        P(pass), 0-1; NaN for none.
    people
        The share of an item's annotators who pass it; NaN without a verdict.
    refused
        Whether the judge refused to answer.
    is_choice
        Whether verdicts follow the most probable of three or more labels, not P(pass).
    """

    head: dict[str, Any]
    items: pd.Index
    unit: Ints
    prob: Floats
    people: Floats
    refused: Flags
    is_choice: bool = False

    @property
    def labelled(self) -> Flags:
        """The items with P and a verdict of people."""
        return ~np.isnan(self.prob + self.people)

    @property
    def right(self) -> Floats:
        """How right the verdict at .5 is on each item."""
        return agreement(passes_at(self.prob, 0.5), self.people)

    def decided(self, threshold: float) -> Flags:
        """The items on which max(P, 1 − P) is at least so large."""
        return np.round(np.fmax(self.prob, 1 - self.prob), _ROUNDED) >= threshold


@with_id_notes
def pass_probabilities(
    judged: JudgedLike,
    labels: LabelsLike | None = None,
    *,
    clusters: ClustersLike | None = None,
    part: PartOption | None = None,
) -> PassProbabilities:
    """Whether P(pass), as a judge states it, is the share of items that people pass.

    Parameters
    ----------
    judged
        An evaluation, or votes with the column `pass_prob`: of decision models, and of judges with ``score=``.
    labels
        As for `align`, of criteria with a pass rule. The label of an item is the share of its annotators who pass it.
    clusters
        item_id -> cluster; by default those of the evaluation, else the item.
    part
        As in `align`: by default the labels of ``dev`` if labels carry parts; a look at held-out ones is counted.

    Returns
    -------
    PassProbabilities
        `table`, one row per judge and criterion:

        - `gap`: mean of people − P, and `brier`: mean of (people − P)², from 30 labelled items; `slope` of people on
          P, from 100 (1 is right; below 1, P is too sure);
        - `ece`: the mean distance of people's rate from P over the bins, and `ece_if_calibrated`: about what a
          calibrated judge would show on as many labels. No interval of it holds what it promises, so it has none;
        - `sure_pass`, `sure_fail`: share of the items with P ≥ .99 and ≤ .01;
        - `n_items`, `n_scored` with P, `n_labelled` of them, `n_clusters`; `n_refused` and, of these, how many people
          pass and fail; from five refusals on, the share of what people pass (fail) that is refused; `notes`.

        `points`: people's rate (`people`) in each bin of P with its mean P (`score`); bins are merged until they have
        ten labels. `certainty`: for thresholds on max(P, 1 − P) the share of all items that is `decided`, and the
        agreement with people there; P = .5 is half right.

    Raises
    ------
    InputError
        As `align`, and when the table has no column `pass_prob`.

    References
    ----------
    Dimitriadis, T., Gneiting, T. and Jordan, A. I. (2021), Stable reliability diagrams for probabilistic classifiers.

    Examples
    --------
    >>> n = 40
    >>> from evalkit import tables
    >>> votes = tables.table("votes", {
    ...     "rubric": ["r"] * n, "rubric_version": ["v1"] * n, "item_id": [f"i{i}" for i in range(n)],
    ...     "criterion": ["c"] * n, "judge": ["j"] * n, "score": [0.9, 0.2] * 20, "label": ["1", "0"] * 20,
    ...     "passed": [True, False] * 20, "n_samples": [1] * n, "n_scored": [1] * n, "tied": [False] * n,
    ...     "level": ["ordinal"] * n, "scale": ['{"codes":[0,1],"better":"high","pass_at":1}'] * n,
    ...     "pass_prob": [0.9, 0.2] * 20})
    >>> labels = pd.DataFrame({"item_id": votes["item_id"], "criterion": "c", "annotator": "ann",
    ...                        "label": ["1", "0"] * 12 + ["0", "0"] * 4 + ["0", "1"] * 4})
    >>> made = pass_probabilities(votes, labels)
    >>> made.table[["gap", "brier", "ece", "n_labelled"]].round(3).values.tolist()
    [[-0.15, 0.245, 0.15, 40.0]]
    >>> made.points[["score", "people", "n_labelled"]].round(2).values.tolist()
    [[0.2, 0.2, 20.0], [0.9, 0.6, 20.0]]
    """
    tables = taken(judged, labels, "pass_probabilities", clusters).of_part(part)
    rows, points, certainty = [], list[dict[str, Any]](), list[dict[str, Any]]()
    for chances in chances_of(tables):
        bins = _bins(chances)
        rows.append(chances.head | _figures(chances, bins, tables.note))
        points += [chances.head | _point(chances, bins, number) for number in np.unique(bins[bins >= 0])]
        certainty += [
            chances.head | _decided(chances, threshold) for threshold in CERTAINTIES if chances.labelled.any()
        ]
    further = (result_table(points, JUDGE_KEY, _BIN), result_table(certainty, JUDGE_KEY, _DECIDED))
    return PassProbabilities(tables.finished(result_table(rows, *_TABLE)), *map(tables.keys.restore, further))


@with_id_notes
def certainty_threshold(
    judged: JudgedLike,
    labels: LabelsLike | None = None,
    at_least: float = 0.9,
    *,
    clusters: ClustersLike | None = None,
    part: PartOption | None = None,
) -> pd.DataFrame:
    """From which certainty on a judge agrees with people at least so often.

    The threshold on max(P, 1 − P) is chosen on labels of ``dev``: from strict to loose, as long as the lower end of the
    agreement is at least `at_least`. What was chosen there looks better there than it is: only held-out labels show
    whether it holds.

    Parameters
    ----------
    judged, labels, clusters
        As for `pass_probabilities`.
    at_least
        The agreement to reach, above 0 and under 1. It takes ln .05/ln a labels at least, all right: 29 for .9.
    part
        ``held-out`` shows the threshold on labels that it was not chosen on. Each look is counted; there is none
        where no threshold was found.

    Returns
    -------
    DataFrame
        One row per judge and criterion: `threshold` (NA if none is found), the share of all items that is `decided`,
        `agreement` with people on these, with its interval, on the part chosen; `n_items`, `n_decided`, `n_labelled`
        of these; `holds`: is the lower end on held-out labels at least `at_least`? NA without a look; `notes`.

    Raises
    ------
    InputError
        As `pass_probabilities`.
    ConfigError
        For a share out of range.
    """
    check_share("at_least", at_least)
    if at_least in (0, 1):
        raise ConfigError(f"at_least must be above 0 and under 1, got {at_least!r}; as in at_least=0.9")
    two, rows = TwoParts.of(judged, labels, "certainty_threshold", clusters, part), []
    for chances, hidden in two.chances:
        threshold = _sure_from(chances, at_least)
        row: dict[str, Any] = (
            chances.head | {"at_least": at_least, "notes": two.notes} | NO_LOOK | _decided(chances, threshold)
        )
        if math.isnan(threshold):
            why = NO_CHANCE if np.isnan(chances.prob).all() else "no threshold reaches it on these labels"
            row |= {"notes": [why, *two.notes]}
        elif hidden is not None:
            row |= two.look(chances.head, f"{chances.head['judge']} from {threshold:g}") | _decided(hidden, threshold)
            row["holds"] = bool(row["n_labelled"] >= _fewest(at_least) and row["agreement_low"] >= at_least)
        rows.append(row)
    declared = ("number: at_least", _DECIDED, "count: n_looks n_versions; boolean: holds; text: notes")
    return two.keys.restore(result_table(rows, JUDGE_KEY, *declared))


@dataclass(frozen=True, slots=True)
class TwoParts:
    """Dev labels, on which something is chosen, and held-out ones, on which it is shown.

    Attributes
    ----------
    chances
        For each judge and criterion those with dev labels; and with held-out ones, or None without ``part="held-out"``.
    hidden
        The held-out labels, empty without.
    notes
        A note on the labels.
    keys
        The keys as the user has them.
    """

    chances: list[tuple[Chances, Chances | None]]
    hidden: pd.DataFrame
    notes: list[str | None]
    keys: Keys

    @classmethod
    def of(
        cls,
        judged: JudgedLike,
        labels: LabelsLike | None,
        function: str,
        clusters: ClustersLike | None,
        part: str | None,
    ) -> TwoParts:
        """The two parts of checked labels."""
        tables, is_look = taken(judged, labels, function, clusters), part == HELD_OUT
        dev = tables.of_part(DEV if is_look else part)
        hidden = tables.of_part(part) if is_look else replace(tables, people=tables.people[:0])
        pairs = list(zip_longest(chances_of(dev), chances_of(hidden) if is_look else ()))
        return cls(pairs, hidden.people, [dev.note], tables.keys)

    def look(self, head: Mapping[str, Any], against: str) -> dict[str, Any]:
        """Count a look at the held-out labels: its number, and a note."""
        looked = count_look(pd.DataFrame([head]), self.hidden, against=against).iloc[0]
        counts = {name: int(looked[name]) for name in NO_LOOK}
        return counts | {"notes": f"held-out labels, look {counts['n_looks']}"}


def chances_of(tables: Taken) -> Iterator[Chances]:
    """P(pass) of each judge on each criterion.

    Raises
    ------
    InputError
        When the votes have no column `pass_prob`.
    """
    frame = tables.frame
    if "pass_prob" not in frame:
        raise InputError(
            "the table has no column 'pass_prob'; pass an evaluation or votes of a decision model, or of a judge "
            "with score='expected'"
        )
    if (wrong := ((frame["pass_prob"] < 0) | (frame["pass_prob"] > 1)).to_numpy()).any():
        item, cell = frame.loc[wrong, ["item_id", "pass_prob"]].iloc[0]
        raise InputError(f"'pass_prob' of item {str(item)!r} is {cell:g}; it must be from 0 to 1")
    for panel in tables.panels("passed"):
        kind, is_choice = panel.annotators.kind, panel.scale.level == "nominal" and len(panel.scale) > 2
        share = ratio((kind == 1).sum(axis=1).astype(np.float64), (kind >= 0).sum(axis=1).astype(np.float64))
        for judge, (_, was_asked) in panel.judges.items():
            votes = _rows_of(frame, panel, judge)
            refused = (
                votes["reason"].eq("refused").fillna(value=False).to_numpy(dtype=bool) if "reason" in votes else False
            )
            prob = votes["pass_prob"].to_numpy(dtype=np.float64)
            yield Chances(
                panel.head | {"judge": judge}, panel.items[was_asked], panel.unit[was_asked], prob, share[was_asked],
                np.broadcast_to(refused, prob.shape), is_choice,
            )  # fmt: skip


def _rows_of(frame: pd.DataFrame, panel: Panel, judge: str) -> pd.DataFrame:
    """The rows of a judge, in the order of the panel's items."""
    keys = panel.head | {"judge": judge}
    of_judge = np.logical_and.reduce([(frame[key] == value).to_numpy() for key, value in keys.items()])
    rows = frame.loc[of_judge]
    return rows.iloc[np.argsort(panel.items.get_indexer(pd.Index(rows["item_id"])))]


def agreement(passed: Floats, people: Floats) -> Floats:
    """How right verdicts are (1 passes, 0 fails, .5 is tied), by the share of people who pass."""
    return np.asarray(passed * people + (1 - passed) * (1 - people))


def _bins(chances: Chances) -> Ints:
    """The bin of each labelled item, neighbours merged until each has ten; −1 for none, and under 30 labels."""
    rows = chances.labelled
    bins = np.full(len(rows), -1, dtype=np.int64)
    if rows.sum() < FEWEST:
        return bins
    fixed = np.searchsorted(_STARTS, np.round(chances.prob[rows], _ROUNDED), side="right") - 1
    merged, number, size = np.zeros(len(_STARTS), dtype=np.int64), 0, 0
    for start, n in enumerate(np.bincount(fixed, minlength=len(_STARTS))):
        merged[start] = number
        size += n
        if size >= _FEWEST_IN_BIN:
            number, size = number + 1, 0
    bins[rows] = np.minimum(merged, number - 1)[fixed]  # what is left over at the end joins the last one
    return bins


def _figures(chances: Chances, bins: Ints, chosen: str | None) -> dict[str, Any]:
    rows, is_scored = chances.labelled, ~np.isnan(chances.prob)
    prob, people, unit = chances.prob[rows], chances.people[rows], chances.unit[rows]
    row: dict[str, Any] = (
        {"n_items": len(chances.items), "n_scored": int(is_scored.sum()), "n_labelled": int(rows.sum())}
        | {"n_clusters": len(np.unique(unit))}
        | _refusals(chances)
    )
    if not is_scored.any():
        return row | {"notes": [NO_CHANCE, chosen]}
    scored = np.round(chances.prob[is_scored], _ROUNDED)
    row |= {"sure_pass": (scored >= _SURE).mean(), "sure_fail": (scored < _STARTS[1]).mean()}
    notes: Notes = [] if chosen is None else [chosen]
    if len(prob) < FEWEST:
        notes.append(Note(f"under {FEWEST} labelled items", ("gap", "brier", "slope", "ece")))
        return row | {"notes": notes}
    gaps = people - prob
    row |= figure_row("gap", float(gaps.mean()), mean_interval(gaps, unit), notes)
    brier = mean_interval(gaps**2, unit, bounds=(0.0, 1.0))
    row |= figure_row("brier", float(np.mean(gaps**2)), brier, notes) | _slope(prob, people, unit, notes)
    note_few_clusters(unit, notes)
    return row | _errors(prob, people, unit, bins[rows]) | {"notes": notes}


def _slope(prob: Floats, people: Floats, unit: Ints, notes: Notes) -> dict[str, float]:
    """Cov(P, people)/Var(P), with a jackknife by cluster."""
    if len(prob) < FEWEST_FOR_SLOPE:
        notes.append(Note(f"under {FEWEST_FOR_SLOPE} labelled items", ("slope",)))
        return {}
    groups, n_groups = jackknife_groups(unit)
    x, y = prob - prob.mean(), people - people.mean()
    n, sx, sy, sxy, sxx = (
        sums_without_each(values, groups, n_groups) for values in (np.ones(len(x)), x, y, x * y, x * x)
    )
    slopes = ratio(n * sxy - sx * sy, n * sxx - sx**2)
    return jackknife_row("slope", slopes, "none", notes, "P is the same everywhere", unit)


def _errors(prob: Floats, people: Floats, unit: Ints, bins: Ints) -> dict[str, float]:
    """ECE, and about that of a calibrated judge: E|mean of a bin| = √(2/π) · SE, of labels drawn with chance P.

    Labels of one cluster vary together: n labels of a bin, m of them of one cluster, have the variance of independent
    ones times 1 + (Σm²/n − 1)ρ.
    """
    gaps, n = people - prob, np.bincount(bins)
    ece = np.abs(np.bincount(bins, weights=gaps)).sum() / len(gaps)
    cells, sizes = np.unique(np.column_stack([bins, unit]), axis=0, return_counts=True)
    rho = intraclass_correlation(gaps, np.unique(unit, return_inverse=True)[1]) if len(np.unique(unit)) > 1 else 0.0
    effect = 1 + (np.bincount(cells[:, 0], weights=sizes**2) / n - 1) * rho
    spread = np.sqrt(np.bincount(bins, weights=prob * (1 - prob)) * effect).sum() / len(gaps)
    return {"ece": ece, "ece_if_calibrated": math.sqrt(2 / math.pi) * spread}


def _refusals(chances: Chances) -> dict[str, Any]:
    """Refused items by people's verdict (those on which they are divided are of neither), with rates from five on."""
    row: dict[str, Any] = {"n_refused": int(chances.refused.sum())}
    for name, of_verdict in (("pass", chances.people > 0.5), ("fail", chances.people < 0.5)):
        row[f"n_refused_{name}"] = int((chances.refused & of_verdict).sum())
        if row["n_refused"] >= _FEWEST_REFUSED and of_verdict.any():
            refused = chances.refused[of_verdict].astype(np.float64)
            row |= figure_row(f"refused_{name}", refused.mean(), rate_interval(refused, chances.unit[of_verdict]))
    return row


def _point(chances: Chances, bins: Ints, number: int) -> dict[str, Any]:
    rows = bins == number
    prob, people = chances.prob[rows], chances.people[rows]
    row = {"lowest": prob.min(), "highest": prob.max(), "score": prob.mean(), "n_labelled": int(rows.sum())}
    return row | figure_row("people", people.mean(), rate_interval(people, chances.unit[rows]))


def _decided(chances: Chances, threshold: float) -> dict[str, Any]:
    """What is decided from a threshold on, and the agreement there."""
    rows = chances.decided(threshold)
    labelled = rows & chances.labelled
    row = {"threshold": threshold, "decided": rows.mean(), "n_items": len(rows), "n_decided": int(rows.sum())}
    right = chances.right[labelled]
    mean = float(right.mean()) if len(right) else math.nan
    return (
        row | {"n_labelled": len(right)} | figure_row("agreement", mean, rate_interval(right, chances.unit[labelled]))
    )


def _fewest(at_least: float) -> float:
    """How many decided labels, all right, it takes to say so: a judge with this agreement has them all right in 5 %."""
    return math.log(_ALPHA) / math.log(at_least)


def _sure_from(chances: Chances, at_least: float) -> float:
    """The least threshold down to which the lower end of the agreement is as large; NaN for none."""
    threshold = math.nan
    for certainty in CERTAINTIES[::-1]:
        row = _decided(chances, certainty)
        if row["n_labelled"] >= _fewest(at_least) and row["agreement_low"] < at_least:
            break
        threshold = float(certainty) if row["n_labelled"] >= _fewest(at_least) else threshold
    return threshold
