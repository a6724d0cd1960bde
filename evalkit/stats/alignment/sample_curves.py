"""How many samples: a judge's agreement with people on fewer samples than recorded, its dependability on more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit.core.lists_of_choices import Ties, Unscored
from evalkit.core.settings import check_choice
from evalkit.errors import ConfigError, InputError, listed
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.row_scales import Measures, counted_labels, nearest_labels
from evalkit.stats.alignment.agreement_measures import FIGURES, Answers, KindOptions, compare_each, have_answer
from evalkit.stats.alignment.judge_and_people_answers import Panel, checked_part, panels
from evalkit.stats.alignment.label_values import HasJudgments, clusters_for, labels_for
from evalkit.stats.intervals import jackknife_groups
from evalkit.stats.notes import Notes, note_few_clusters, with_id_notes
from evalkit.stats.result_tables import JUDGE_KEY, check_whole_numbers, result_table, value_row, verdict_codes
from evalkit.stats.touched_tables import take_rows
from evalkit.stats.voting import vote
from evalkit.tables import schemas
from evalkit.tables.grouping import ClustersLike, Flags, Floats, Ints
from evalkit.tables.ties import LEFT_OUT, Counting, check_counting

CurveMethod = Literal["mean", "median"]
_COLUMNS = (
    JUDGE_KEY,
    "text: figure; count: k; number: value low high sd_subsets prefix exact phi; bool: extrapolated",
    "count: n_items n_samples n_draws; text: notes",
)
_KS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50)
_SHARES = ("accuracy", "false_pass_rate", "false_fail_rate")
_BAND_DRAWS = 20
_NO_PHI = "phi: needs two items whose samples are all scored, two or more samples per item, and scores that vary"


@with_id_notes
def k_curve(
    judgments: pd.DataFrame | HasJudgments,
    labels: LabelsLike | None = None,
    *,
    figures: Sequence[str] | None = None,
    ks: Sequence[int] | None = None,
    method: CurveMethod = "mean",
    ties: Ties = "na",
    unscored: Unscored = "drop",
    draws: int = 200,
    clusters: ClustersLike | None = None,
) -> pd.DataFrame:
    """How well each judge would agree with people on k of its K recorded samples.

    Parameters
    ----------
    judgments
        The table of `judge`, or an evaluation, with repeated samples; no pairs.
    labels
        A long table (`item_id, criterion, annotator, label`) or, for an evaluation, criterion -> item columns. Of
        labels of `split_labels`, those of ``dev``. Without labels there is `phi` alone.
    figures
        Of those of `align`, against each annotator, averaged by numbers of items; by default ``accuracy`` where there
        are verdicts or nominal labels, else ``spearman``.
    ks
        Numbers of samples; those above K get `phi` alone. By default 1, 2, 3, 5, … up to K, and 2K.
    method
        How samples become a score, as in `vote`: ``mean`` or ``median``; nominal labels by majority.
    ties, unscored
        As in `align`. With ``na`` an even k looks better than it is: its ties are left out.
    draws
        How often k of K are drawn, from a fixed seed.
    clusters
        item_id -> cluster, for the intervals; by default those of the evaluation, else the item.

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion`, `judge`, `figure` and `k`:

        - `value`: the mean over `n_draws` of k of K without replacement, drawn independently per item; items
          with fewer than k samples are left out. At k = K it is the figure itself;
        - `low`, `high`: 95 % jackknife over clusters of that mean (taken from 20 of the draws); the judge is fixed;
        - `sd_subsets`: standard deviation over the draws: what the luck of k samples moves. NA for k > K/2, where
          the subsets overlap too much;
        - `prefix`: the figure on the first k samples;
        - `exact`: for shares of verdicts (`accuracy`, `false_pass_rate`, `false_fail_rate`) what the draws estimate, by
          the hypergeometric law: expected hits / expected verdicts; NA unless ties and unscored are left out;
        - `phi` 0-1: Φ(k) = σ²_i / (σ²_i + σ²_e/k) of this judge by itself, from items × samples (Brennan 2001; the
          Spearman-Brown formula), on the items with K scored samples. Beyond K it is all there is: `extrapolated`;
        - `n_items` (with a label that the figure compares, and k samples or more), `n_samples` (K), `n_draws`;
          `notes`: why something is NA.

        Unscored samples are drawn like the others, as they would be met.

    Raises
    ------
    InputError
        When columns are missing, a row is double, a label is not on its scale, or the judgments are of pairs.
    ConfigError
        For an unknown figure or method, or a k or number of draws under 1.

    Examples
    --------
    >>> said = {"a": "110", "b": "111", "c": "001", "d": "000"}
    >>> judgments = schemas.table("judgments", {
    ...     "rubric": ["r"] * 12, "rubric_version": ["v1"] * 12, "item_id": [i for i in said for _ in range(3)],
    ...     "criterion": ["c"] * 12, "judge": ["j"] * 12, "sample": [0, 1, 2] * 4,
    ...     "score": [float(c) for s in said.values() for c in s], "label": [c for s in said.values() for c in s],
    ...     "passed": [c == "1" for s in said.values() for c in s],
    ...     "level": ["ordinal"] * 12, "scale": ['{"codes":[0,1],"better":"high","pass_at":1}'] * 12})
    >>> labels = pd.DataFrame({"item_id": list("abcd"), "criterion": "c", "annotator": "ann", "label": [1, 1, 0, 0]})
    >>> k_curve(judgments, labels)[["k", "prefix", "exact", "extrapolated"]].round(3).values.tolist()
    [[1, 1.0, 0.833, False], [2, 1.0, 1.0, False], [3, 1.0, 1.0, False], [6, nan, nan, True]]
    """
    _check_options(figures, ks, method, draws)
    counting = check_counting("k_curve", ties, unscored)
    clusters = clusters_for(judgments, clusters)
    people = schemas.empty("labels") if labels is None else labels
    people = labels_for(judgments, people) if isinstance(labels, Mapping) or hasattr(judgments, "labels") else people
    judgments = getattr(judgments, "judgments", judgments)  # of an evaluation
    need = [*JUDGE_KEY, "order", "sample", "score", "label", "passed", "error", "level", "scale"]
    frame, keys = take_rows(judgments, "judgments", need=need, function="k_curve")
    if frame["order"].notna().any():
        raise InputError("k_curve takes no judgments of pairs (column `order`); pass those of single answers")
    frame = frame.loc[~(frame["weight"] <= 0).to_numpy()] if "weight" in frame else frame
    votes, people, chosen, _ = checked_part(vote(frame, method=method), people, None, "k_curve")
    samples = dict(iter(frame.groupby(JUDGE_KEY, observed=True, sort=False)))
    rows: list[dict[str, Any]] = []
    for panel in panels(votes, people, clusters=clusters):
        for judge in panel.judges:
            judge_rows, head = samples[*panel.head.values(), judge], panel.head | {"judge": judge}
            curve = _rows(judge_rows, panel, figures, ks, method, draws, counting)
            rows += [head | row | {"notes": [chosen, *row["notes"]]} for row in curve]
    return keys.restore(result_table(rows, *_COLUMNS))


def _check_options(figures: Sequence[str] | None, ks: Sequence[int] | None, method: str, draws: int) -> None:
    unknown = [name for name in figures or () if name not in FIGURES]
    if isinstance(figures, str) or unknown:
        raise ConfigError(f"k_curve got figures={figures!r}; it takes a list of {listed(FIGURES, most=12)}")
    check_choice("method", method, get_args(CurveMethod))
    check_whole_numbers("ks", ks if ks is not None else (1,))
    check_whole_numbers("draws", draws)


@dataclass(frozen=True, slots=True)
class _Cube:
    """Items × samples of one judge, earlier samples first; columns beyond an item's own are not `there`."""

    score: Floats
    kind: npt.NDArray[np.int64]  # verdict or label of the sample; −1 for none
    there: Flags

    def take(self, order: npt.NDArray[np.int64]) -> _Cube:
        rows = np.arange(len(order))[:, None]
        return _Cube(self.score[rows, order], self.kind[rows, order], self.there[rows, order])


def _cube(own: pd.DataFrame, panel: Panel) -> _Cube:
    own = own.sort_values("sample", kind="stable")
    item = panel.items.get_indexer(pd.Index(own["item_id"]))
    sample = own.groupby("item_id", observed=True).cumcount().to_numpy()
    shape = (len(panel.items), int(sample.max()) + 1)
    score, kind, has_sample = np.full(shape, np.nan), np.full(shape, -1, dtype=np.int64), np.zeros(shape, dtype=bool)
    scored = own["error"].isna().to_numpy()
    codes: Ints
    if panel.verdicts:
        codes = verdict_codes(own["passed"])
    else:
        labels = own["label"].astype(object)
        for name in labels.dropna().unique():  # a label of samples alone is an answer, too
            panel.kinds.setdefault(name, len(panel.kinds))
        codes = labels.map(panel.kinds).fillna(-1).to_numpy().astype(np.int64)
    score[item, sample] = np.where(scored, own["score"].to_numpy(dtype=np.float64), np.nan)
    kind[item, sample] = np.where(scored, codes, -1)
    has_sample[item, sample] = True
    return _Cube(score, kind, has_sample)


def _voted(cube: _Cube, k: int, panel: Panel, method: str) -> Answers:
    """The vote of the first k samples; none if there are fewer."""
    has_k = cube.there[:, :k].sum(axis=1) == k
    score, kind = cube.score[:, :k], cube.kind[:, :k]
    some = ~np.isnan(score).all(axis=1) & has_k
    middle = np.full(len(score), np.nan)
    sets: list[tuple[int, ...]]
    middle[some] = (np.nanmean if method == "mean" else np.nanmedian)(score[some], axis=1)
    if panel.verdicts:
        yes, no = (kind == 1).sum(axis=1), (kind == 0).sum(axis=1)
        kinds = np.where(2 * yes > k, 1, np.where(2 * no > k, 0, -1))
        tied, sets = has_k & (yes == no) & (yes > 0), []
    elif panel.scale.level == "nominal":
        counts = np.stack([(kind == code).sum(axis=1) for code in range(max(panel.kinds.values(), default=0) + 1)])
        top = counts.max(axis=0)
        tied = has_k & ((counts == top).sum(axis=0) > 1) & (top > 0)
        kinds = np.where(tied | (top == 0), -1, counts.argmax(axis=0))
        sets = [tuple(np.flatnonzero(counts[:, item] == top[item]).tolist()) for item in np.flatnonzero(tied)]
    else:
        measured = Measures(np.zeros(len(middle), dtype=np.int64), (panel.scale,))
        labels, tied = nearest_labels(middle, measured)
        labels, tied = counted_labels(middle, labels, measured), tied & (panel.scale.level != "interval")
        kinds = np.array([-1 if name is None else panel.kinds.setdefault(name, len(panel.kinds)) for name in labels])
        between = [panel.scale.around(float(value)) for value in middle[tied]]
        sets = [tuple(panel.kinds.setdefault(name, len(panel.kinds)) for name in names) for names in between]
    among = np.full(len(middle), -1, dtype=np.int64)
    if not panel.verdicts:
        among[tied] = np.arange(len(sets))
    return Answers(np.where(has_k, kinds, -1).astype(np.int64), middle, tied, among, tuple(sets))


def _rows(
    own: pd.DataFrame, panel: Panel, figures: Sequence[str] | None, ks: Sequence[int] | None, method: str, draws: int,
    counting: Counting,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    cube = _cube(own, panel)
    n_max = cube.there.shape[1]
    all_ks = sorted(set(ks if ks is not None else [*(k for k in _KS if k < n_max), n_max, 2 * n_max]))
    default = "accuracy" if panel.verdicts or panel.scale.level == "nominal" else "spearman"
    labelled = bool(panel.annotators.labelled.any())
    by_k = {k: _draw_samples(cube, k, panel, method, draws, counting) for k in all_ks if k <= n_max and labelled}
    phis = _phi(own, n_max)
    exact = panel.verdicts and counting == LEFT_OUT
    for name in figures or [default]:
        for k in all_ks:
            row = {"figure": name, "k": k, "extrapolated": k > n_max, "n_samples": n_max, "n_items": 0, "n_draws": 0}
            notes: Notes = []
            row["phi"] = phis[0] / (phis[0] + phis[1] / k) if phis is not None else np.nan
            if k > n_max:
                notes.append("extrapolated: phi alone")
            elif not labelled:
                notes.append("no labels: phi alone")
            else:
                row |= _figure(name, k, by_k[k], notes, n_max)
                has_label = have_answer(panel.annotators.references("each"), FIGURES[name].of)
                row |= {"n_items": int((has_label & (cube.there.sum(axis=1) >= k)).sum())}
                row["exact"] = _exact(name, k, cube, panel) if exact and name in _SHARES else np.nan
            if phis is None:
                notes.append(_NO_PHI)
            yield row | {"notes": notes}


@dataclass(frozen=True, slots=True)
class _Drawn:
    """All figures at one k: of the first k samples, and of each draw, followed in some by those without each unit."""

    prefix: dict[str, Floats]
    each: list[dict[str, Floats]]
    unit: Ints


def _draw_samples(cube: _Cube, k: int, panel: Panel, method: str, draws: int, counting: Counting) -> _Drawn:
    n_items, n_max = cube.there.shape
    # At k = K every draw is the same set, unless some item has fewer samples.
    rounds = 1 if k == n_max else draws
    draw = np.random.default_rng(0)
    rows = panel.annotators.labelled & (cube.there.sum(axis=1) >= k)
    unit, n_units = jackknife_groups(panel.unit[rows])
    people = [person.take(rows) for person in panel.annotators.references("each")]

    def figures(one: _Cube, units: int) -> dict[str, Floats]:
        answers = _voted(one, k, panel, method).take(rows)
        return compare_each(answers, people, unit, units, KindOptions(panel.verdicts, counting))

    result = _Drawn(figures(cube, 0), [], unit)
    for number in range(rounds):
        order = np.argsort(np.where(cube.there, draw.random((n_items, n_max)), 2.0), axis=1, kind="stable")
        result.each.append(figures(cube.take(order.astype(np.int64)), n_units if number < _BAND_DRAWS else 0))
    return result


def _figure(name: str, k: int, drawn: _Drawn, notes: Notes, most: int) -> dict[str, Any]:
    values = np.array([figures[name][0] for figures in drawn.each])
    left_out = np.mean([figures[name][1:] for figures in drawn.each[:_BAND_DRAWS]], axis=0)
    finite = values[~np.isnan(values)]
    defined = bool(len(finite)) and len(finite) >= 0.95 * len(values)
    means = np.append(finite.mean() if defined else np.nan, left_out)
    row = value_row(name, means, FIGURES[name].transform, notes, "not defined in over 5 % of the draws", drawn.unit)
    if defined:
        note_few_clusters(drawn.unit, notes)
        if len(finite) > 1 and 2 * k <= most:
            row["sd_subsets"] = float(finite.std(ddof=1))
    return row | {"prefix": float(drawn.prefix[name][0]), "n_draws": len(values)}


def _exact(name: str, k: int, cube: _Cube, panel: Panel) -> float:
    """Expected hits over expected verdicts, of all people together."""
    from scipy.stats import hypergeom

    size = cube.there.sum(axis=1)
    has_k = size >= k
    yes, no = ((cube.kind == code).sum(axis=1) for code in (1, 0))
    passes, fails = (np.where(has_k, hypergeom.sf(k // 2, np.maximum(size, k), n, k), 0.0) for n in (yes, no))
    right = verdicts = 0.0
    for truth in panel.annotators.kind.T:
        rows = truth >= 0 if name == "accuracy" else truth == (0 if name == "false_pass_rate" else 1)
        hits = np.where(truth == 1, passes, fails) if name == "accuracy" else passes if "pass" in name else fails
        right, verdicts = right + hits[rows].sum(), verdicts + (passes + fails)[rows].sum()
    return float(right / verdicts) if verdicts > 1e-9 else np.nan


def _phi(own: pd.DataFrame, most: int) -> tuple[float, float] | None:
    """σ²_i and σ²_e of one judge: items with all `most` samples scored, one way."""
    scores = own.loc[own["error"].isna().to_numpy() & own["score"].notna().to_numpy()]
    by_item = scores.groupby("item_id", observed=True)["score"].agg(["size", "mean", "var"])
    complete = by_item.loc[(by_item["size"] == most).to_numpy()]
    if most < 2 or len(complete) < 2:
        return None
    error = float(complete["var"].mean())
    item = max(float(complete["mean"].var()) - error / most, 0.0)
    return (item, error) if item + error > 1e-15 else None
