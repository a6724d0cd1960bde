"""Pass thresholds: where on the judge's score, or its P(pass), to draw the line between pass and fail."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit.core.lists_of_choices import Ties, Unscored
from evalkit.core.settings import PASS_CUTS, check_choice
from evalkit.errors import ConfigError
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.row_scales import NO_ENDS
from evalkit.rubrics.scales import Scale
from evalkit.stats.alignment.agreement_measures import Answers, same_rows
from evalkit.stats.alignment.label_splits import FEWEST, PartOption
from evalkit.stats.alignment.label_values import JudgedLike, Panel, taken
from evalkit.stats.alignment.pass_probabilities import NO_CHANCE, NO_LOOK, Chances, TwoParts, agreement
from evalkit.stats.intervals import change_interval, few_others
from evalkit.stats.result_tables import (
    JUDGE_KEY,
    check_whole_numbers,
    figure_row,
    first_that_holds,
    result_table,
    with_id_notes,
)
from evalkit.stats.significance import alpha_of
from evalkit.stats.voting import passes_at
from evalkit.tables.grouping import ClustersLike, Flags, Floats, Ints, clusters_of
from evalkit.tables.ties import Counting, check_counting

ThresholdOf = Literal["score", "pass_prob"]

_COLUMNS = (
    JUDGE_KEY,
    "number: cut pass_at in_sample out_of_fold optimism present cut_lowest cut_highest",
    "count: n_items n_labelled n_left_out n_tied n_folds; bool: same_items; text: ties unscored notes",
)
_OF_CHANCES = (
    JUDGE_KEY,
    "number: cut in_sample out_of_fold optimism present cut_lowest cut_highest changed n_needed gain±",
    "count: n_items n_labelled n_folds n_held_out n_looks n_versions; boolean: kept; text: notes",
)
_FEWEST = 2
_SAME = 1e-9
_CUTS = np.array(PASS_CUTS)
_DECIDES = 7.84  # (1.96 + .84)²: 95 % confidence, a power of .8


@with_id_notes
def pass_threshold(
    judged: JudgedLike,
    labels: LabelsLike | None = None,
    folds: int = 5,
    *,
    of: ThresholdOf = "score",
    ties: Ties = "half",
    unscored: Unscored = "drop",
    clusters: ClustersLike | None = None,
    part: PartOption | None = None,
) -> pd.DataFrame:
    """The pass threshold on a judge's score, or P(pass), that agrees best with people's verdicts, and what it is worth.

    The threshold that fits best on some items looks better on them than it is. So each fold of the items is judged
    by the threshold of the others (Stone 1974): `out_of_fold` is what to expect, `in_sample` is what to distrust.

    Parameters
    ----------
    judged, labels
        As in `align`, of criteria with a pass rule; a code is a verdict by this rule.
    folds
        Number of folds, 2 or more; fewer if there are fewer clusters, which go to folds by the sha256 of their name.
    of
        ``pass_prob``: a cut on the probability of passing, in the place of .5, chosen on the labels of ``dev`` and with
        ``part="held-out"`` shown on held-out ones. `ties` and `unscored` then keep their defaults.
    ties, unscored
        A tied verdict in `present`: ``half`` (default) right, or ``wrong``. Items without a score: ``drop`` (default)
        or ``wrong`` at every threshold.
    clusters, part
        As in `align`. A cluster is in one fold.

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion, judge`:

        - `cut`: the best threshold (score ≥ cut passes; ≤ where low is better), half-way between two scores that
          occur, of equally good ones the one nearest to the rubric's `pass_at`; infinite if nothing should pass;
        - `pass_at`: the nearest code on the good side of it (interval scales: the cut); NA where no code is;
        - `in_sample`, `out_of_fold` 0-1 (accuracy against each annotator, averaged by their numbers of labels),
          `optimism` = their difference, `present`: the verdicts as they are, on the same items; a missing one is wrong,
          and NA if all are missing;
        - `cut_lowest`, `cut_highest` over the folds: far apart, the threshold is not known;
        - `n_items`, `n_labelled` compared, `n_left_out` with a verdict of people and without a score, `n_tied`,
          `n_folds`; `same_items`: are all judges compared on the same items? `ties` and `unscored` as chosen, `notes`.

        Of ``pass_prob``, from 50 labelled items on; `cut` is .5 or a half hundredth, `present` is of .5, and:

        - `changed`: share of labelled verdicts that the cut changes, out of fold or held out;
        - `n_needed`: about how many held-out labels show the gain; NA where there is none;
        - `gain` on held-out labels against .5 with its interval, `n_held_out`; only where `out_of_fold` is above
          `present` and above that of one verdict for all items, by a look; `n_looks`, `n_versions` as in `align`;
        - `kept`: is the lower end above 0 at the level of this look (`alpha_of`), and would one verdict for all items
          agree less?

    Raises
    ------
    InputError, ConfigError
        As in `align`; for under two folds.

    Examples
    --------
    >>> votes = pd.DataFrame({"item_id": range(40), "judge": "j", "score": [item % 3 for item in range(40)],
    ...                       "level": "ordinal", "scale": '{"codes":[0,1,2],"better":"high","pass_at":2}'})
    >>> labels = pd.DataFrame({"item_id": range(40), "label": [str(item % 3 > 0).lower() for item in range(40)]})
    >>> pass_threshold(votes, labels)[["cut", "pass_at", "out_of_fold", "present"]].round(3).values.tolist()
    [[0.5, 1.0, 1.0, 0.675]]
    """
    check_whole_numbers("folds", folds, least=_FEWEST)
    counting = check_counting(
        "pass_threshold", ties, unscored, but=("ties=na",), why="all its figures must be of the same items"
    )
    check_choice("of", of, get_args(ThresholdOf))
    if of == "pass_prob":
        if (ties, unscored) != ("half", "drop"):
            raise ConfigError(
                "pass_threshold with of='pass_prob' has no other ties= or unscored= than the default; omit them, or "
                "use of='score'"
            )
        return _of_chances(TwoParts.of(judged, labels, "pass_threshold", clusters, part), folds)
    tables = taken(judged, labels, "pass_threshold", clusters).of_part(part)
    ids = tables.frame["item_id"]
    names = dict(zip(ids.astype(str), clusters_of(ids, tables.clusters), strict=True))
    rows: list[dict[str, Any]] = []
    for panel in tables.panels("passed"):
        equal = same_rows(_compared(panel, *side, counting) for side in panel.judges.values())
        for judge in panel.judges:
            row = _row(panel, judge, names, folds, counting)
            rows.append(panel.head | row | {"same_items": equal, "notes": [tables.note, row["notes"]]})
    return tables.finished(result_table(rows, *_COLUMNS))


def _of_chances(two: TwoParts, folds: int) -> pd.DataFrame:
    """The cuts on P(pass): chosen on dev, and shown on held-out labels where they gain something out of fold."""
    rows = []
    for chances, hidden in two.chances:
        row = chances.head | NO_LOOK | {"n_held_out": 0} | _chosen_cut(chances, folds)
        if hidden is not None and "notes" not in row:
            row |= two.look(chances.head, f"{chances.head['judge']} cut at {row['cut']:g}")
            row |= _shown_cut(hidden, row["cut"], row["n_looks"])
        else:
            row["notes"] = [row.get("notes"), *two.notes]
        rows.append(row)
    return two.keys.restore(result_table(rows, *_OF_CHANCES))


def _chosen_cut(chances: Chances, folds: int) -> dict[str, Any]:
    """The cut that agrees best with people, and what to expect of it; or why there is none to look at."""
    rows = chances.labelled
    prob, people = chances.prob[rows], chances.people[rows]
    fold = _folds(chances.unit[rows].astype(str).astype(object), folds)
    n_folds = int(fold.max(initial=-1)) + 1
    row: dict[str, Any] = {"n_items": len(chances.items), "n_labelled": len(prob), "n_folds": n_folds}
    reasons = {
        NO_CHANCE: np.isnan(chances.prob).all(),
        "verdicts follow the most probable label, not P(pass)": chances.is_choice,
        f"under {FEWEST} labelled items": len(prob) < FEWEST,
        "fewer than two clusters": n_folds < _FEWEST,
    }
    if why := next((reason for reason, holds in reasons.items() if holds), None):
        return row | {"notes": why}
    # items × cuts
    passed = np.column_stack([passes_at(prob, cut) for cut in _CUTS])
    right = agreement(passed, people[:, None])
    best = _best_column(right)
    by_fold = [_best_column(right[fold != number]) for number in range(n_folds)]
    middle, column, items = int(_CUTS.searchsorted(0.5)), np.array(by_fold)[fold], np.arange(len(prob))
    in_sample, out_of_fold = right[:, best].mean(), right[items, column].mean()
    gain = out_of_fold - right[:, middle].mean()
    row |= {
        "cut": _CUTS[best],
        "cut_lowest": _CUTS[min(by_fold)],
        "cut_highest": _CUTS[max(by_fold)],
        "in_sample": in_sample,
        "out_of_fold": out_of_fold,
        "optimism": in_sample - out_of_fold,
        "present": right[:, middle].mean(),
    }
    is_better = gain > _SAME and out_of_fold > _of_one_verdict(people) + _SAME
    row |= (
        {} if is_better else {"notes": "out of fold, no cut agrees better than .5 and than one verdict for all items"}
    )
    return row | _needed(np.abs(passed[items, column] - passed[:, middle]).mean(), gain if is_better else 0.0)


def _of_one_verdict(people: Floats) -> float:
    """How far people agree with the better of two judges, one that passes all items and one that passes none."""
    return float(max(people.mean(), 1 - people.mean()))


def _best_column(right: Floats) -> int:
    """The cut with the most agreement; of equally good ones the one nearest to .5."""
    means = right.mean(axis=0)
    best = np.flatnonzero(means >= means.max() - _SAME)
    return int(best[np.abs(_CUTS[best] - 0.5).argmin()])


def _needed(changed: float, gain: float) -> dict[str, float]:
    """The share of verdicts that change, and how many held-out labels would show a gain."""
    return {"changed": changed, "n_needed": math.ceil(_DECIDES * changed / gain**2) if gain > _SAME else math.nan}


def _shown_cut(chances: Chances, cut: float, look: int) -> dict[str, Any]:
    """What a cut gains on held-out labels, and whether to keep it: by the rule of edits (`decide`)."""
    rows = chances.labelled
    people, unit = chances.people[rows], chances.unit[rows]
    now, then = (passes_at(chances.prob[rows], value) for value in (cut, 0.5))
    steps = agreement(now, people) - agreement(then, people)
    gain = float(steps.mean()) if len(steps) else math.nan
    ends, strict = change_interval(steps, unit), change_interval(steps, unit, 1 - alpha_of(look))
    row: dict[str, Any] = {"n_held_out": len(steps), "kept": strict.low > 0} | figure_row("gain", gain, ends)
    is_constant = agreement(now, people).mean() <= _of_one_verdict(people) + _SAME if len(steps) else False
    if strict.low > 0 and (is_constant or any(few_others(side, unit) for side in (people > 0.5, now))):
        row |= {
            "kept": False,
            "notes": f"held-out labels, look {look}; one verdict for all items would agree about as well",
        }
    return row | _needed(float(np.abs(now - then).mean()) if len(steps) else math.nan, gain)


def _row(panel: Panel, judge: str, names: Mapping[str, str], folds: int, counting: Counting) -> dict[str, Any]:
    answers, was_asked = panel.judges[judge]
    labelled = was_asked & (panel.annotators.kind >= 0).any(axis=1)
    used = _compared(panel, answers, was_asked, counting)
    unit = np.array([names[item] for item in panel.items[used]], dtype=object)
    fold = _folds(unit, folds)
    n_folds = int(fold.max(initial=-1)) + 1
    row: dict[str, Any] = {
        "judge": judge,
        "n_items": int(was_asked.sum()),
        "n_labelled": int(used.sum()),
        "n_folds": n_folds,
        "n_left_out": int((labelled & ~used).sum()),
        "n_tied": int((used & answers.tied).sum()),
        "ties": counting.ties,
        "unscored": counting.unscored,
    }
    # turned round where low is better, so that high passes
    sign = -1.0 if panel.scale.better == "low" else 1.0
    score, kinds = sign * answers.score[used], panel.annotators.kind[used]
    if (why := _why_not(panel.scale, score, kinds, n_folds)) is not None:
        return row | {"notes": why}
    # where the rubric's rule draws the line; the middle of the scale for a list of codes
    present_cut = panel.scale.pass_at
    start = sign * ((panel.scale.lowest + panel.scale.highest) / 2 if present_cut is None else float(present_cut))
    cut = _best(score, _weights(kinds), start)
    cuts: list[float] = []
    passed = np.zeros(len(score))
    for number in range(n_folds):
        out = fold == number
        cuts.append(_best(score[~out], _weights(kinds[~out]), start))
        passed[out] = _passing(score[out], cuts[-1])
    present = np.where(answers.kind[used] < 0, np.nan, answers.kind[used])
    present[answers.tied[used] & (counting.ties == "half")] = 0.5
    missing = (answers.kind[used] < 0) & ~answers.tied[used]
    in_sample, out_of_fold = (_figure(flags, kinds) for flags in (_passing(score, cut), passed))
    useless = np.isinf(cut) or cut <= np.nanmin(score)
    return row | {
        "cut": sign * cut,
        "pass_at": _code(panel.scale, sign, cut),
        "in_sample": in_sample,
        "out_of_fold": out_of_fold,
        "optimism": in_sample - out_of_fold,
        "present": np.nan if missing.all() else _figure(present, kinds),
        "cut_lowest": min(sign * value for value in cuts),
        "cut_highest": max(sign * value for value in cuts),
        "notes": "the best cut passes all items or none" if useless else None,
    }


def _compared(panel: Panel, answers: Answers, there: Flags, counting: Counting) -> Flags:
    """The items with a verdict of people, and a score unless what has none is wrong."""
    valued = ~np.isnan(answers.score) | (counting.unscored == "wrong")
    return there & valued & (panel.annotators.kind >= 0).any(axis=1)


def _why_not(scale: Scale, score: Floats, said: npt.NDArray[np.int64], n_folds: int) -> str | None:
    reasons = {
        "a nominal criterion has no scores": scale.level == "nominal",
        NO_ENDS: scale.is_open,
        "the criterion has no pass rule, so labels are not verdicts": not scale.has_rule,
        "no item has both a verdict of people and a score": np.isnan(score).all(),
        "fewer than two clusters": n_folds < _FEWEST,
        "people gave only one of the two verdicts": len(np.unique(said[said >= 0])) < _FEWEST,
    }
    return first_that_holds(reasons)


def _folds(unit: npt.NDArray[np.object_], folds: int) -> Ints:
    """The fold of each item: clusters in the order of their sha256, dealt out in turn."""
    order = sorted(set(unit), key=lambda name: hashlib.sha256(name.encode()).digest())
    numbers = {name: number % folds for number, name in enumerate(order)}
    return np.array([numbers[name] for name in unit], dtype=np.int64)


def _weights(said: npt.NDArray[np.int64]) -> Floats:
    """What each label is worth, below 0 for a fail."""
    return np.select([said == 1, said == 0], [1.0, -1.0]) / max(1, int((said >= 0).sum()))


def _passing(score: Floats, cut: float) -> Floats:
    """1 from the cut upwards, else 0; NaN without a score."""
    return np.where(np.isnan(score), np.nan, (score >= cut).astype(np.float64))


def _figure(passed: Floats, said: npt.NDArray[np.int64]) -> float:
    """How much of the weight is right: a half is half right, NaN is wrong."""
    weights = np.abs(_weights(said))
    if not weights.any():
        return np.nan
    right = np.where(said == 1, passed[:, None], 1 - passed[:, None])
    return float((weights * np.nan_to_num(right)).sum())


def _best(score: Floats, weights: Floats, start: float) -> float:
    """The best cut: half-way between scores that occur, below all of them, or infinite."""
    score, weights = score[~np.isnan(score)], weights[~np.isnan(score)]
    if not len(score):
        return float(np.inf)
    values, codes = np.unique(np.round(score, 10), return_inverse=True)
    gain = np.bincount(codes, weights=weights.sum(axis=1), minlength=len(values))
    # with the cut under value v, all from v upwards pass: Σ weight of passes − Σ weight of fails among them
    total = np.append(np.cumsum(gain[::-1])[::-1], 0.0)
    cuts = np.concatenate([[values[0] - 0.5 * _step(values)], (values[1:] + values[:-1]) / 2, [np.inf]])
    best = np.flatnonzero(total >= total.max() - _SAME)
    # between equally good ones: the rubric's own line lies between the scores on both sides of a cut
    gaps = np.where(np.isinf(cuts[best]), values[-1] + 0.5 * _step(values), cuts[best]) - start
    return float(cuts[best[int(np.abs(gaps).argmin())]])


def _step(values: Floats) -> float:
    return float(np.diff(values).min()) if len(values) > 1 else 1.0


def _code(scale: Scale, sign: float, cut: float) -> float:
    """The code to write into the rubric: the nearest one that is on the passing side; NaN if none is."""
    if scale.level == "interval":
        value = sign * cut
        return value if scale.lowest <= value <= scale.highest else np.nan
    passing = [float(code) for code in scale.codes if sign * float(code) >= cut]
    return (min if sign > 0 else max)(passing) if passing else np.nan
