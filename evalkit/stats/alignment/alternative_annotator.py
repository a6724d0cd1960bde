"""The alternative annotator test: may the judge replace one of the people?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit.core.formatting import count_of, figure, html_page, html_table, noted, text_table, wrapped
from evalkit.core.lists_of_choices import Ties, Unscored
from evalkit.core.settings import check_choice
from evalkit.errors import ConfigError, counted
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.scales import number
from evalkit.stats.alignment.agreement_measures import Answers, same_rows, tie_sets
from evalkit.stats.alignment.label_splits import PartOption
from evalkit.stats.alignment.label_values import Annotators, JudgedLike, Panel, taken
from evalkit.stats.intervals import cluster_variance
from evalkit.stats.result_tables import (
    JUDGE_KEY,
    Notes,
    first_that_holds,
    note_few_clusters,
    result_table,
    with_id_notes,
)
from evalkit.stats.significance import flip_p
from evalkit.tables.grouping import ClustersLike, Flags, Floats, Ints
from evalkit.tables.ties import Counting, check_counting

ScoringOption = Literal["accuracy", "rmse"]

_FALSE_DISCOVERIES = 0.05
_FEW_ITEMS = 30
_ALL_SIGNS = 13
_FEW_PEOPLE = 3
_PAIR = 2
_TOO_LENIENT = (
    f"under {_FEW_ITEMS} items the published test is of the median: where the two mostly agree, a judge that "
    "is worse by epsilon passes it too often (simulated: 6-94 %)"
)
_EACH = (
    JUDGE_KEY,
    "text: annotator; count: n_items; number: judge_rate annotator_rate difference; text: test; number: p",
    "number: p_adjusted; boolean: wins; text: notes",
)
_WHOLE = (
    JUDGE_KEY,
    "text: scoring; number: epsilon; count: n_annotators n_tested; number: winning_rate advantage_probability",
    "boolean: passes; count: n_items n_tied n_unscored n_left_out; bool: same_items; text: ties unscored notes",
)


@dataclass(frozen=True, slots=True)
class AltTest:
    """The result of `alt_test`.

    Attributes
    ----------
    summary
        One row per rubric, criterion and judge (see `alt_test`).
    annotators
        One row per annotator of these.
    """

    summary: pd.DataFrame
    annotators: pd.DataFrame

    def __str__(self) -> str:
        rows = self._rows()
        pairs = [(f"{row['criterion']}, {row['judge']}", row.pop("notes")) for row in rows]
        notes = noted([pair for pair in pairs if pair[1]], len(rows))
        return wrapped("\n".join([text_table(rows), *notes, *self._apart()]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_page([html_table(self._rows()), *(f"<p class='note'>{note}</p>" for note in self._apart())])

    def _apart(self) -> list[str]:
        return [] if self.summary["same_items"].all() else ["the judges are compared on different items"]

    def _rows(self) -> list[dict[str, str]]:
        return [
            {
                "judge": str(row["judge"]),
                "criterion": str(row["criterion"]),
                "epsilon": f"{row['epsilon']:g}",
                "winning rate": figure(row["winning_rate"]),
                "advantage probability": figure(row["advantage_probability"]),
                "annotators": f"{row['n_tested']} of {row['n_annotators']}",
                "items": count_of(row["n_items"], row["n_items"] + row["n_left_out"]),
                "may replace": "NA" if pd.isna(row["passes"]) else "yes" if row["passes"] else "no",
                "notes": "" if pd.isna(row["notes"]) else str(row["notes"]),
            }
            for _, row in self.summary.iterrows()
        ]


@with_id_notes
def alt_test(
    judged: JudgedLike,
    labels: LabelsLike | None = None,
    epsilon: float | None = None,
    *,
    scoring: ScoringOption | None = None,
    ties: Ties = "na",
    unscored: Unscored = "drop",
    part: PartOption | None = None,
    clusters: ClustersLike | None = None,
) -> AltTest:
    """The alternative annotator test: is the judge as good as the people it would replace?

    Each annotator in turn is left out. On every item that they and at least one other labelled, the judge and they are
    scored by their closeness S to the others: W^f = 1 where the judge is at least as close, W^h = 1 where the
    annotator is. The judge wins against them where mean(W^h − W^f) is below epsilon by a one-sided t-test, after
    Benjamini-Yekutieli over the annotators at .05. Where items share clusters, the variance is that between clusters.

    Parameters
    ----------
    judged
        As in `align`. A vote counts by its `label`, not by its mean (interval scales: by its score).
    labels
        As in `align`; two annotators at least, three recommended.
    epsilon
        What a judge may be worse by, for being cheaper than the annotator: .2 against experts, .15 against skilled
        annotators, .1 against crowd workers.
    scoring
        ``accuracy``: the share of the others with the same label; ``rmse``: minus the root mean square difference to
        them. By default accuracy on nominal scales and for true/false labels, else rmse.
    ties, unscored
        Items on which the judge is tied, or has no score: left out (``na``, ``drop``; defaults), or the annotator is
        closer (``wrong``). With ``half`` (accuracy alone) closeness is the mean over the tied labels.
    clusters, part
        As in `align`. With ``clusters={}`` each item is one, as in the published test.

    Returns
    -------
    AltTest
        `annotators`: per `rubric, rubric_version, criterion, judge, annotator`: `n_items`, `judge_rate` = mean W^f (the
        advantage probability against this one), `annotator_rate` = mean W^h, `difference` = mean(W^h − W^f), `test`
        (``t``; ``wilcoxon`` under 30 items, where it passes judges too often, see `notes`; ``cluster t``, with G − 1
        degrees of freedom, where several items are of one of the G clusters; ``sign`` where the difference is the same
        on all items, decided by its side of epsilon), `p`, `p_adjusted`, `wins`, `notes`. An annotator with under two
        items, or with items of one cluster, is not tested.

        `summary`: per judge `scoring`, `epsilon`, `n_annotators`, `n_tested`, `winning_rate` = share of the tested
        annotators against whom the judge wins, `advantage_probability` = mean of `judge_rate` (annotators
        unweighted, as published), `passes` (winning rate ≥ .5), `n_items` compared at all; of the items with two
        annotators or more `n_tied`, `n_unscored` and `n_left_out`; `same_items`: are all judges compared on the same
        items? `notes`.

    Raises
    ------
    InputError, ConfigError
        As in `align`; for an epsilon outside 0-1; rmse needs scores.

    References
    ----------
    Calderon, Reichart, Dror (2025), The alternative annotator test for LLM-as-a-judge, section 3. Benjamini, Yekutieli
    (2001), theorem 1.3.

    Examples
    --------
    >>> votes = pd.DataFrame({"item_id": range(40), "judge": "j", "score": [n % 2 for n in range(40)],
    ...                       "level": "ordinal", "scale": '{"codes":[0,1],"better":"high"}'})
    >>> labels = pd.DataFrame([(n, name, n % 2 if n % 7 else 0) for n in range(40) for name in ("ann", "bob", "cid")],
    ...                       columns=["item_id", "annotator", "label"])
    >>> alt_test(votes, labels, epsilon=0.2).summary[["winning_rate", "advantage_probability"]].round(3).values.tolist()
    [[1.0, 0.925]]
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float)) or not 0 <= epsilon < 1:
        raise ConfigError(
            f"epsilon of alt_test must be from 0 to below 1, got {epsilon!r}; usual values: 0.2 against experts, "
            "0.15 against skilled annotators, 0.1 against crowd workers"
        )
    if scoring is not None:
        check_choice("scoring", scoring, get_args(ScoringOption))
    counting = check_counting("alt_test", ties, unscored)
    tables = taken(judged, labels, "alt_test", clusters).of_part(part)
    by_annotator: list[dict[str, Any]] = []
    by_judge: list[dict[str, Any]] = []
    for panel in tables.panels("label"):
        way = scoring or ("accuracy" if panel.verdicts or panel.scale.level == "nominal" else "rmse")
        if way == "rmse" and (panel.verdicts or panel.scale.level == "nominal"):
            raise ConfigError(
                f"scoring='rmse' needs numeric scores, which criterion {panel.head['criterion']!r} does not have; "
                "use scoring='accuracy'"
            )
        if way == "rmse" and ties == "half":
            raise ConfigError(
                "alt_test got ties='half' with scoring='rmse', which compares scores; use 'na' or 'wrong'"
            )
        several, judges = _has_answer(panel.annotators, way).sum(axis=1) >= _PAIR, panel.judges.items()
        sides = {name: _Side(_as_label(votes, panel), used & several, way, counting) for name, (votes, used) in judges}
        same_items = same_rows(side.counted for side in sides.values())
        for judge, side in sides.items():
            head = panel.head | {"judge": judge}
            rows, row = _test(panel, side, float(epsilon))
            options = {"same_items": same_items, "ties": ties, "unscored": unscored}
            by_annotator.extend(head | test for test in rows)
            by_judge.append(head | row | options | {"notes": [tables.note, row["notes"]]})
    summary = tables.finished(result_table(by_judge, *_WHOLE))
    return AltTest(summary, tables.keys.restore(result_table(by_annotator, *_EACH)))


def _as_label(answers: Answers, panel: Panel) -> Answers:
    """The judge's answers with the number of its label for a score."""
    if panel.verdicts or panel.scale.level != "ordinal":
        return answers
    values = np.array([*map(number, panel.kinds), None], dtype=np.float64)  # None becomes NaN
    return replace(answers, score=values[answers.kind])


def _has_answer(answers: Answers | Annotators, way: str) -> npt.NDArray[np.bool_]:
    """Which of the answers can be compared."""
    return np.asarray(answers.kind >= 0 if way == "accuracy" else ~np.isnan(answers.score))


@dataclass(frozen=True, slots=True)
class _Side:
    """A judge's answers on the `usable` items (asked, two annotators or more), and how they count."""

    answers: Answers
    usable: Flags
    way: str
    counting: Counting

    @property
    def known(self) -> Flags:
        """Has the judge an answer to compare?"""
        return _has_answer(self.answers, self.way)

    @property
    def counted(self) -> Flags:
        """The items that are compared."""
        return self.usable & self.counting.counted(self.known, self.answers.tied)

    def closeness(self, at: Flags, others: Annotators, *, verdicts: bool) -> Floats:
        """S on some items: for a tie the mean over its labels, or below everybody's if it counts as wrong."""
        answers, has_answer = self.answers.take(at), self.known[at]
        close = np.where(has_answer, _closeness(answers, others, self.way), -np.inf)
        spread: Flags = ~has_answer & answers.tied & (self.counting.ties == "half")
        tied = np.flatnonzero(spread).astype(np.int64)
        for row, codes in zip(tied, tie_sets(answers, tied, verdicts=verdicts), strict=True):
            kinds = others.kind[row][others.kind[row] >= 0]
            close[row] = np.isin(kinds, codes).mean() / len(codes)
        return close


def _test(panel: Panel, side: _Side, epsilon: float) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    annotators, way = panel.annotators, side.way
    labelled, counted_items = _has_answer(annotators, way), side.counted
    rows = []
    for index, name in enumerate(annotators.names):
        shared = counted_items & labelled[:, index]
        people = annotators.without(index)
        rest = Annotators(people.names, people.kind[shared], people.score[shared])
        judge_close = side.closeness(shared, rest, verdicts=panel.verdicts)
        own_close = _closeness(annotators.answers(index).take(shared), rest, way)
        # equal on paper may differ in the sixteenth digit
        won, lost = judge_close >= own_close - 1e-12, own_close >= judge_close - 1e-12
        row_of_annotator = {"annotator": name, "n_items": int(shared.sum())}
        rows.append(row_of_annotator | _against(won, lost, panel.unit[shared], epsilon))
    _adjust(rows)
    tied = side.usable & ~side.known & side.answers.tied
    row = {
        "scoring": way,
        "epsilon": epsilon,
        "n_annotators": len(annotators.names),
        "n_items": int(counted_items.sum()),
        "n_left_out": int((side.usable & ~counted_items).sum()),
        "n_tied": int(tied.sum()),
        "n_unscored": int((side.usable & ~side.known & ~tied).sum()),
    }
    return rows, row | _summed(rows, _why_untested(panel, side, labelled))


def _why_untested(panel: Panel, side: _Side, labelled: Flags) -> str:
    """What is missing where no annotator can be tested."""
    names, scale, level = panel.annotators.names, panel.scale, "level" if side.way == "accuracy" else "score"
    unknown = level == "level" and scale.is_open and scale.level != "nominal"
    way_out = "pass votes with a scale, or use scoring='rmse'"
    reasons = {
        "no labels": not names,
        "one annotator": len(names) == 1,
        f"accuracy compares levels, and those of the scale are not known: {way_out}": unknown,
        f"no label is a {level} of the scale": not labelled.any(),
        "annotators who share no item": not (labelled.sum(axis=1) >= _PAIR).any(),
        "the judge was not asked about an item that two annotators labelled": not side.usable.any(),
        f"the judge has no {level} on an item that two annotators labelled": not side.counted.any(),
        "all items are of one cluster": len(np.unique(panel.unit[side.counted])) == 1 < side.counted.sum(),
        "annotators who share under two items with the judge and others": True,
    }
    return str(first_that_holds(reasons))


def _closeness(one: Answers, others: Annotators, way: str) -> Floats:
    """S of one against the others on each item: the share with the same label, or −RMSE."""
    has_label = _has_answer(others, way)
    if way == "accuracy":
        hits = has_label & (others.kind == one.kind[:, None])
        return np.asarray(hits.sum(axis=1) / has_label.sum(axis=1))
    squares = np.where(has_label, (others.score - one.score[:, None]) ** 2, 0.0)
    return np.asarray(-np.sqrt(squares.sum(axis=1) / has_label.sum(axis=1)))


def _against(won: Flags, lost: Flags, unit: Ints, epsilon: float) -> dict[str, Any]:
    """The test against one annotator: is mean(W^h − W^f) below epsilon?"""
    from scipy.special import stdtr
    from scipy.stats import rankdata, ttest_1samp, wilcoxon

    if len(won) > 1 and np.ptp(unit) == 0:
        return {"test": None, "p": np.nan, "notes": "not tested: all items are of one cluster"}
    if len(won) < 2:
        return {"test": None, "p": np.nan, "notes": "not tested: shares under two items with the judge and others"}
    gaps: Ints = lost.astype(np.int64) - won.astype(np.int64)
    row: dict[str, Any] = {"judge_rate": won.mean(), "annotator_rate": lost.mean(), "difference": gaps.mean()}
    notes: Notes = [] if len(gaps) >= _FEW_ITEMS else [f"only {counted(len(gaps), 'item')}"]
    if np.ptp(gaps) == 0:
        notes.append("the difference is the same on every item, so its sign decides")
        row |= {"test": "sign", "p": 0.0 if gaps[0] < epsilon else 1.0}
    elif len(np.unique(unit)) < len(unit):
        variance, n_clusters = cluster_variance(gaps.astype(np.float64), unit)
        note_few_clusters(unit, notes)
        row |= {"test": "cluster t", "p": float(stdtr(n_clusters - 1, (gaps.mean() - epsilon) / np.sqrt(variance)))}
    elif len(gaps) < _FEW_ITEMS:
        # the gaps vary, so that at least one of them is not epsilon: the test has a side to see
        if len(gaps) <= _ALL_SIGNS:  # as scipy's exact p, which takes a second, because it loops over all signs
            below = epsilon - gaps[gaps != epsilon]
            p = flip_p(np.round(2 * np.sign(below) * rankdata(np.abs(below))).astype(np.int64))
        else:
            p = float(wilcoxon(gaps - epsilon, alternative="less").pvalue)
        row |= {"test": "wilcoxon", "p": p}
    else:
        row |= {"test": "t", "p": float(ttest_1samp(gaps, epsilon, alternative="less").pvalue)}
    return row | {"notes": notes}


def _adjust(rows: list[dict[str, Any]]) -> None:
    """Benjamini-Yekutieli over the annotators that were tested."""
    from scipy.stats import false_discovery_control

    if tested := [row for row in rows if not np.isnan(row["p"])]:
        adjusted = false_discovery_control([row["p"] for row in tested], method="by")
        for row, p in zip(tested, adjusted, strict=True):
            row |= {"p_adjusted": float(p), "wins": bool(p <= _FALSE_DISCOVERIES)}


def _summed(rows: list[dict[str, Any]], why: str) -> dict[str, Any]:
    """The winning rate, or `why` no annotator was tested."""
    if not (tested := [row for row in rows if "wins" in row]):
        return {"n_tested": 0, "notes": f"no test: {why}"}
    rate = float(np.mean([row["wins"] for row in tested]))
    advantage = float(np.mean([row["judge_rate"] for row in tested]))
    n_few, n_untested = sum(row["n_items"] < _FEW_ITEMS for row in tested), len(rows) - len(tested)
    tests = [row["test"] for row in tested]
    by_sign = f"{counted(tests.count('sign'), 'annotator')} decided by the sign of the difference"
    notes = {
        f"only {counted(len(tested), 'annotator')}, so the test is less reliable": len(tested) < _FEW_PEOPLE,
        f"{counted(n_untested, 'annotator')} not tested": n_untested > 0,
        f"{counted(n_few, 'annotator')} with under {_FEW_ITEMS} items": n_few > 0,
        _TOO_LENIENT: "wilcoxon" in tests,
        f"{by_sign}, which is the same on every item": "sign" in tests,
    }
    summary = {"n_tested": len(tested), "winning_rate": rate, "advantage_probability": advantage}
    return summary | {"passes": rate >= 0.5, "notes": [note for note, holds in notes.items() if holds]}
