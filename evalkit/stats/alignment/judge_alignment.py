"""Align: judges against human labels, with the agreement of people among themselves.

Long, but one thing: every figure of a row is of the same items and clusters, which are chosen here once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.formatting import figure
from evalkit.core.lists_of_choices import REFERENCES, Reference, Ties, Unscored
from evalkit.core.settings import check_choice
from evalkit.errors import ConfigError, InputError, listed
from evalkit.errors import counted as counted_items
from evalkit.rubrics.given_scales import ScaleLike
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.row_scales import MEANS, NO_ENDS
from evalkit.stats.alignment import agreement_measures as agreement
from evalkit.stats.alignment.agreement_measures import Answers, KindOptions, Pair, kinds_table
from evalkit.stats.alignment.corpus_estimates import unlike_all
from evalkit.stats.alignment.label_splits import PartOption
from evalkit.stats.alignment.label_values import Annotators, JudgedLike, Panel, taken
from evalkit.stats.intervals import TOO_LITTLE, Interval, jackknife, jackknife_groups
from evalkit.stats.plain_tables import check_by
from evalkit.stats.result_tables import (
    CRITERION_KEY,
    JUDGE_KEY,
    Note,
    Notes,
    cluster_counts,
    columns,
    figure_row,
    first_that_holds,
    interval_columns,
    note_few_clusters,
    result_table,
    with_id_notes,
)
from evalkit.tables.grouping import ClustersLike, Flags, Ints, by_id
from evalkit.tables.items import ItemsLike, as_items
from evalkit.tables.ties import Counting, check_counting

Found = dict[str, tuple[float, Interval]]

_COUNTS = columns(
    "count: n_items n_scored n_verdicts n_labelled n_annotators n_clusters; number: n_clusters_effective; "
    "Int64: n_tied_references; count: n_tied n_left_out"
)
_F1 = "f1_"
_SEVERAL = 3
_WITHOUT_REPAIRS = ("accuracy", "kappa", "quadratic_kappa")


@with_id_notes
def align(
    judged: JudgedLike,
    labels: LabelsLike | None = None,
    *,
    figures: Sequence[str] | None = None,
    reference: Reference = "each",
    ties: Ties = "na",
    unscored: Unscored = "drop",
    by: str | Mapping[str, Any] | pd.Series | None = None,
    items: ItemsLike | None = None,
    clusters: ClustersLike | None = None,
    part: PartOption | None = None,
    cache: str | Path | None = None,
    scale: ScaleLike | None = None,
) -> pd.DataFrame:
    """How well each judge (or the jury) agrees with people, per criterion.

    Parameters
    ----------
    judged
        An evaluation, or votes (one row per judge comes out) or scores (the judge is then ``jury``). A plain table
        needs `item_id`, and `score` or `label` (and `judge`, `criterion` where there are several).
    labels
        `item_id, criterion, annotator, label`, or criterion -> columns of an evaluation's items; by default its labels.
        A label is a code, ``true``/``false`` if there is a pass rule, or, on ordinal scales, a number between codes.
    figures
        By default those below from `accuracy` to `bias`; also ``balanced_accuracy``, ``macro_f1``, ``f1_<label>``
        (``f1_true`` of passes): NA where people never use a class, without interval where one is in under 3 clusters.
    reference
        ``each`` (default): against each annotator, averaged by their numbers of items; ``mean``, ``majority``: against
        all combined (verdicts and labels by majority; a tie is no reference).
    ties
        A tie of the judge in figures on verdicts (labels): left out (``na``, default), 1/t where the right label is
        among t equal ones (``half``), or an error (``wrong``).
    unscored
        Items without a verdict (label) for another reason: left out (``drop``, default) or errors (``wrong``).
    by
        A further grouping: a column of `judged` or of `items`, or item_id -> group.
    items, clusters
        The items, whose `group_id` makes the clusters; or item_id -> cluster. By default those of the evaluation.
    part
        ``dev`` or ``held-out``, for labels of `split_labels`; a look at held-out ones is counted. None: all labels, or
        those of ``dev`` where labels carry parts.
    cache, scale
        The cache folder, where looks are counted; what a plain table cannot say, as in `vote`.

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion` (and `by`) and `judge`; figures with their 95 % interval in
        `_low` and `_high` (judges and annotators are fixed), NA where not defined, with the reason in `notes`:

        - of verdicts, without pass rule of labels: `accuracy`, `kappa` (Cohen 1960, eq. 1), `false_pass_rate` (of what
          people fail), `false_fail_rate`;
        - of scores: `quadratic_kappa` (Lin 1989, 2s_xy/(s_x² + s_y² + (x̄ − ȳ)²); with a rare level its intervals cover
          85-92 %), `pearson`, `spearman`, `kendall` (tau-b), `mae`, `bias` (judge − human), in rubric units;
        - `…_people`: people among themselves; `…_as_peer` (``mean``, ``majority``): the judge in each one's place;
        - `n_items`, `n_labelled`, `n_scored` of these (ties included), `coverage` = n_scored / n_labelled,
          `n_verdicts`, `n_annotators`, `n_tied_references`, `n_tied`, `n_left_out`, `n_repaired`, `n_clusters`,
          `n_clusters_effective` (n²/Σm² for clusters of m items); `same_items`: are all judges compared on the same
          items?; `ties`, `unscored` as chosen; of held-out labels `n_looks`, `n_versions`.

    Raises
    ------
    InputError, ConfigError, CacheError
        For a column that is missing, a double row, a label that is not on the scale or of no judged criterion; for an
        unknown option; when a look cannot be counted.

    Examples
    --------
    >>> votes = pd.DataFrame({"item_id": list("abcd"), "judge": "j", "score": [0, 1, 1, 1]})
    >>> labels = pd.DataFrame({"item_id": list("abcd"), "label": [0, 1, 1, 0]})
    >>> align(votes, labels, scale=[0, 1])[["judge", "accuracy", "kappa", "n_scored"]].values.tolist()
    [['j', 0.75, 0.5, 4]]
    """
    counting = check_counting("align", ties, unscored)
    _check_options(reference, figures)
    check_by("align", [by] if isinstance(by, str) else [], judged)
    if items is None and isinstance(by, str):
        items = getattr(judged, "items", None) if not isinstance(judged, pd.DataFrame) else None
    of_items = pd.DataFrame() if items is None else as_items(items).set_index("item_id")
    tables = taken(judged, labels, "align", clusters, scale=scale).of_part(part)
    frame, people = tables.frame, tables.people
    if tables.clusters is None and "group_id" in of_items:
        tables = replace(tables, clusters=of_items["group_id"])
    if isinstance(by, str) and by not in frame and by in of_items:
        if not of_items[by].map(pd.api.types.is_hashable).all():
            raise InputError(f"by={by!r} is a column of lists or mappings; pass one with a text or number per item")
        frame = frame.assign(**{by: frame["item_id"].astype("str").map(by_id(of_items[by], frame["item_id"], "items"))})
    frame, keys = _with_by(frame, by)
    options = _Options(reference, counting, tuple(agreement.FIGURES if figures is None else figures))
    rows: list[dict[str, Any]] = []
    all_panels, judged_ids = replace(tables, frame=frame).panels(keys=keys), frame["item_id"].unique()
    tables = replace(tables, frame=frame.iloc[:0].copy())
    del frame  # a large one is not needed any more once the panels are made
    for panel in all_panels:
        rows.extend(panel.head | row for row in _rows(panel, options, tables.note))
    if rows and len(people) and not any(row["n_labelled"] for row in rows):
        if len(undecided := people[people["item_id"].isin(judged_ids)]):
            raise InputError(f"no label of these items is a verdict: they say {listed(undecided['label'].unique())}")
        label, item = str(people["item_id"].iloc[0]), str(min(judged_ids))
        raise InputError(
            f"none of the labels belongs to any of these items: the labels have ids such as {label!r}, the items "
            f"have ids such as {item!r}; use the same ids in both"
        )
    return tables.finished(_framed(rows, keys, options), cache)


@dataclass(frozen=True, slots=True)
class _Options:
    reference: Reference
    counting: Counting
    figures: tuple[str, ...]

    @property
    def extra(self) -> tuple[str, ...]:
        """The figures of classes."""
        return tuple(name for name in self.figures if name in agreement.OF_CLASSES or name.startswith(_F1))


def _check_options(reference: str, figures: Sequence[str] | None) -> None:
    check_choice("reference", reference, REFERENCES)
    allowed = (*agreement.FIGURES, *agreement.OF_CLASSES)
    unknown = [name for name in figures or () if name not in allowed and not str(name).startswith(_F1)]
    if isinstance(figures, str) or unknown or len(set(figures or ())) < len(figures or ()):
        raise ConfigError(
            f"align got figures={figures!r}; it takes a list of {listed(allowed, most=20)} and f1_<label>, each once"
        )


def _with_by(frame: pd.DataFrame, by: str | Mapping[str, Any] | pd.Series | None) -> tuple[pd.DataFrame, list[str]]:
    """The table with the column to group by, and the key of a panel."""
    if by is None:
        return frame, CRITERION_KEY
    if not isinstance(by, (str, Mapping, pd.Series)):
        raise InputError(f"by={by!r} is no column and no mapping from item_id to group; pass one column at a time")
    if not isinstance(by, str):
        groups = by_id(by, frame["item_id"], "groups of by=")
        return frame.assign(by=frame["item_id"].astype("str").map(groups)), [*CRITERION_KEY, "by"]
    if by not in frame.columns:
        raise InputError(
            f"by={by!r} is not a column of the table; pass the items that have it (items=), or a mapping from "
            "item_id to group"
        )
    return frame, [*CRITERION_KEY, by]


def _rows(panel: Panel, options: _Options, chosen: str | None) -> list[dict[str, Any]]:
    annotators = panel.annotators
    of_people = KindOptions(panel.verdicts, extra=options.extra, classes=_classes(panel, options))
    kinds = replace(of_people, counting=options.counting)
    counted, valued = zip(*(_used(panel, judge, options) for judge in panel.judges), strict=True)
    of_scores = set(agreement.OF_SCORES) & set(options.figures)
    n_tied = None if options.reference == "each" else int(annotators.together("majority").tied.sum())
    row: dict[str, Any] = {
        "n_annotators": len(annotators.names),
        "ties": options.counting.ties,
        "unscored": options.counting.unscored,
        "n_tied_references": n_tied,
        "same_items": agreement.same_rows(counted) and (not of_scores or agreement.same_rows(valued)),
    }
    row |= _among_people(annotators, of_people, options, bare=panel.scale.is_open and panel.scale.level != "nominal")
    rows = {judge: row | _judge_row(panel, judge, kinds, options, chosen) for judge in panel.judges}
    _note_best(rows, panel, kinds, options)
    return [panel.head | {"judge": judge} | row for judge, row in rows.items()]


def _note_best(rows: dict[str, dict[str, Any]], panel: Panel, kinds: KindOptions, options: _Options) -> None:
    """Of three or more judges, note that the best one looks better than it is, and how far the next one is behind."""
    for name in (name for name in options.figures if name in agreement.FIGURES and agreement.FIGURES[name].ceiling):
        judges = [judge for judge in rows if judge[0] != "\x00" and not np.isnan(rows[judge].get(name, np.nan))]
        # an evaluation's jury is no judge (\x00); of equal ones the first by name
        ranked = sorted(judges, key=lambda judge: (-round(rows[judge][name], 9), judge))
        if len(ranked) < _SEVERAL:
            continue
        best, second = ranked[:2]
        note = f"best of {len(ranked)} judges on these labels, so that its {name} looks better than it is"
        note += f": {_lead(name, best, second, panel, kinds, options)} {second}, on the same items"
        rows[best]["notes"] = [rows[best]["notes"], note]
        return


def _lead(name: str, best: str, second: str, panel: Panel, kinds: KindOptions, options: _Options) -> str:
    """The paired difference of a figure between two judges, with its interval, and whether it is above or below."""
    parts = [_used(panel, judge, options)[int(name in agreement.OF_SCORES)] for judge in (best, second)]
    common = parts[0] & parts[1]
    references = [people.take(common) for people in panel.annotators.references(options.reference)]
    unit, n_units = jackknife_groups(panel.unit[common])
    values = [
        agreement.compare_each(panel.judges[judge][0].take(common), references, unit, n_units, kinds)[name]
        for judge in (best, second)
    ]
    gap = values[0] - values[1]
    ends = jackknife(float(gap[0]), gap[1:], transform="none", unit=unit)
    # on the items of both the best judge may be the worse one
    if round(gap[0], 9) < 0:
        return f"{figure(-gap[0], -ends.high, -ends.low)} below"
    return f"{figure(gap[0], ends.low, ends.high)} {'against' if np.isnan(gap[0]) else 'above'}"


def _classes(panel: Panel, options: _Options) -> dict[str, int]:
    """The classes of the scale and their codes; none on interval scales.

    Raises
    ------
    ConfigError
        When F1 is requested for a class that the scale does not have.
    """
    classes = {} if panel.scale.level == "interval" and not panel.verdicts else panel.classes()
    if unknown := [name for name in options.extra if name.startswith(_F1) and name.removeprefix(_F1) not in classes]:
        raise ConfigError(
            f"figures= names classes that criterion {panel.head['criterion']!r} does not have: {listed(unknown)}; "
            f"its classes: {listed(classes) or 'none: it has an interval scale'}"
        )
    return classes


def _used(panel: Panel, judge: str, options: _Options) -> tuple[Flags, Flags]:
    """The items that count in figures on verdicts (labels), and in figures on scores: both sides have them."""
    answers, was_asked = panel.judges[judge]
    references = panel.annotators.references(options.reference)
    counted = options.counting.counted(answers.kind >= 0, answers.tied) & agreement.have_answer(references, "kinds")
    valued = ~np.isnan(answers.score) & agreement.have_answer(references, "scores")
    return was_asked & counted, was_asked & valued & (panel.scale.level != "nominal")


def _judge_row(panel: Panel, judge: str, kinds: KindOptions, options: _Options, chosen: str | None) -> dict[str, Any]:
    annotators, (answers, was_asked) = panel.annotators, panel.judges[judge]
    labelled = annotators.labelled & was_asked
    counted, valued = _used(panel, judge, options)
    used, scored = counted | valued, labelled & ((answers.kind >= 0) | ~np.isnan(answers.score) | answers.tied)
    decided = agreement.have_answer(annotators.references(options.reference), "kinds")
    n_labelled, n_scored = int(labelled.sum()), int(scored.sum())
    row: dict[str, Any] = cluster_counts(panel.unit[used]) | {
        "n_items": int(was_asked.sum()),
        "n_labelled": n_labelled,
        "n_scored": n_scored,
        "n_tied": int((labelled & answers.tied).sum()),
        "n_left_out": int((labelled & ~counted).sum()),
        "n_verdicts": int((labelled & (answers.kind >= 0) & decided).sum()),
        "coverage": n_scored / n_labelled if n_labelled else np.nan,
    }
    notes: Notes = [chosen] if chosen else []
    if n_lost := int((labelled & panel.one_order.get(judge, False)).sum()):
        notes.append(f"{counted_items(n_lost, 'item')} left out: only one of two orders was read")
    repaired = labelled & panel.repaired.get(judge, np.zeros_like(labelled))
    row |= {"n_repaired": int(repaired.sum())} if panel.repaired else {}
    if not used.any():
        return row | {"notes": [*notes, _nothing_compared(row, means=_are_means(answers, panel))]}
    of_kinds = tuple(name for name in ("accuracy", "kappa") if name in options.figures)
    if of_kinds and 0 < (n_open := int((labelled & ~decided).sum())) < row["n_labelled"]:
        why = "people give no verdict (label) there, but a number between the codes, or tied ones"
        notes.append(Note(f"{n_open} of {counted_items(row['n_labelled'], 'labelled item')} left out: {why}", of_kinds))
    references = [people.take(used) for people in annotators.references(options.reference)]
    pairs = [(answers.take(used), people) for people in references]
    figures = _figures(pairs, panel.unit[used], kinds, panel.scale.width)
    figures = {name: value for name, value in figures.items() if name in options.figures}
    for name, (value, ends) in figures.items():
        row |= figure_row(name, value, ends)
    if options.reference != "each" and len(annotators.names) > 1:
        row |= _as_peer(answers, annotators, labelled, kinds, options)
    notes += _reasons(figures, panel, pairs, counted[used], options, means=_are_means(answers, panel))
    notes += _unequal(references, options)
    if repaired.any():
        agreement_of_rest = _agreement_of_rest(panel, answers, used & ~repaired, kinds, options)
        votes = f"{int(repaired.sum())} of {counted_items(row['n_labelled'], 'labelled item')}"
        notes.append(f"{votes} by a repaired reply ({agreement_of_rest})")
    f = answers.score if not np.isnan(answers.score).all() else np.where(answers.kind < 0, np.nan, answers.kind)
    if panel.verdicts or panel.scale.level != "nominal":
        notes += filter(None, [unlike_all(f[was_asked], labelled[was_asked].astype(np.float64), panel.unit[was_asked])])
    note_few_clusters(panel.unit[used], notes)
    return row | {"notes": notes}


def _agreement_of_rest(panel: Panel, answers: Answers, rows: Flags, kinds: KindOptions, options: _Options) -> str:
    """The agreement on the items that no repaired reply bears on, in words."""
    pairs = [(answers.take(rows), people.take(rows)) for people in panel.annotators.references(options.reference)]
    figures = _figures(pairs, panel.unit[rows], kinds, panel.scale.width) if rows.any() else {}
    texts = list[str]()
    names = [name for name in options.figures if name in figures]
    for name in [name for name in names if name in _WITHOUT_REPAIRS] or names[:1]:
        value, ends = figures[name]
        if ends is not None and not np.isnan(value):
            texts.append(f"{name} {figure(value, ends.low, ends.high)}")
    n = int(rows.sum())
    return f"on the other {counted_items(n, 'item')}: {', '.join(texts) or 'no figure'}" if n else "all of them"


def _figures(pairs: list[Pair], clusters: Ints, kinds: KindOptions, width: float) -> Found:
    """Every figure of the pairs, averaged over them, and its interval."""
    unit, n_units = jackknife_groups(clusters)
    return {
        name: (float(values[0]), agreement.figure_interval(name, values, pairs, clusters, width, unit))
        for name, values in agreement.compare_pairs(pairs, unit, n_units, kinds).items()
    }


def _nothing_compared(row: Mapping[str, Any], *, means: bool) -> str:
    reasons = {
        "no labels": not row["n_labelled"],
        "no item has both a label and a score": not row["n_scored"],
        "every labelled item is tied": row["n_tied"] == row["n_scored"],
        MEANS: means,
        "judge and people have no answers of one kind: verdicts, labels or scores": True,
    }
    return str(first_that_holds(reasons))


def _unequal(references: list[Answers], options: _Options) -> list[str]:
    """A note if one annotator is compared on less than half of the items of another."""
    sizes = [int(((people.kind >= 0) | ~np.isnan(people.score)).sum()) for people in references]
    sizes = [size for size in sizes if size]
    if options.reference != "each" or not sizes or 2 * min(sizes) >= max(sizes):
        return []
    return [f"annotators are weighted by their number of labels: {min(sizes)} to {max(sizes)}"]


def _among_people(annotators: Annotators, kinds: KindOptions, options: _Options, *, bare: bool) -> dict[str, float]:
    """The people among themselves, without intervals: pairs, or each against the others."""
    people = [annotators.answers(number) for number in range(len(annotators.names))]
    pairs = list(combinations(people, 2))
    if options.reference != "each":
        pairs = list(zip(people, _peers(annotators, options.reference), strict=True)) if len(people) > 1 else []
    return _of_people("people", pairs, kinds, options, bare=bare)


def _as_peer(
    answers: Answers, annotators: Annotators, labelled: Flags, kinds: KindOptions, options: _Options
) -> dict[str, float]:
    """The judge in the place of each annotator: against the others, on that annotator's items."""
    peers = _peers(annotators, options.reference)
    masked = [peer.where(annotators.answers(number)) for number, peer in enumerate(peers)]
    pairs = [(answers.take(labelled), peer.take(labelled)) for peer in masked]
    return _of_people("as_peer", pairs, kinds, options, bare=False)


def _peers(annotators: Annotators, how: Reference) -> list[Answers]:
    """The others of each annotator, all together."""
    return [annotators.without(number).together(how) for number in range(len(annotators.names))]


def _of_people(end: str, pairs: list[Pair], kinds: KindOptions, options: _Options, *, bare: bool) -> dict[str, float]:
    """Figures averaged over pairs, as the judge's own are; `bare`: the ends of the scale are not known."""
    if not pairs:
        return {}
    figures = agreement.compare_pairs(pairs, np.zeros(len(pairs[0][0].kind), dtype=np.int64), 0, kinds)
    names = [name for name in _with_people(options) if name in agreement.OF_SCORES or not bare]
    return {f"{name}_{end}": float(figures[name][0]) for name in names}


def _with_people(options: _Options) -> list[str]:
    return [name for name in options.figures if agreement.figure_of(name).ceiling]


def _are_means(answers: Answers, panel: Panel) -> bool:
    """Whether no answer has a verdict because the scores are means."""
    if panel.scale.level != "ordinal" or not panel.verdicts or (answers.kind >= 0).any():
        return False
    scores = answers.score[~np.isnan(answers.score)]
    return bool((~np.isin(np.round(scores, 9), np.round(np.array(panel.scale.codes, dtype=float), 9))).any())


def _reasons(found: Found, panel: Panel, pairs: list[Pair], counted: Flags, options: _Options, *, means: bool) -> Notes:
    """Why a figure, or its interval, is NA."""
    references = [people for _, people in pairs]
    missing = {name for name, (value, _) in found.items() if np.isnan(value)}
    reasons = Notes()
    of_verdicts = {
        NO_ENDS: panel.scale.is_open and panel.scale.level != "nominal",
        MEANS: means,
        "no item has a verdict (or label) of both judge and people": True,
    }
    if "accuracy" in missing:
        reasons.append(Note(str(first_that_holds(of_verdicts)), ("accuracy", "kappa")))
    elif "kappa" in missing:
        n_most = max(int(((people.kind >= 0) & counted).sum()) for people in references)
        why = "judge and people always give one and the same answer" if n_most > 1 else "fewer than two items"
        reasons.append(Note(why, ("kappa",)))
    if lost := tuple(name for name in agreement.OF_SCORES if name in missing):
        is_nominal = panel.scale.level == "nominal"
        of_nominal = "correlations, mae, bias: a nominal criterion has no scores"
        reasons.append(of_nominal if is_nominal else Note(_why_no_scores(pairs), lost))
    if extra := tuple(name for name in options.extra if name in missing):
        reasons.append(Note("people never use a class that the figure needs", extra))
    none: dict[str, list[str]] = {}
    for name, (value, ends) in found.items():
        if ends.reason is not None and not np.isnan(value):
            none.setdefault(ends.reason, []).append(name)
    if TOO_LITTLE in none and len(references) > 1:
        answers = [people.kind[(people.kind >= 0) & counted] for people in references]
        rarer = [(len(kinds) - int(np.bincount(kinds).max(initial=0)), number) for number, kinds in enumerate(answers)]
        n_rarer, number = min(rarer)
        person = panel.annotators.names[number] if len(references) == len(panel.annotators.names) else "an annotator"
        none[f"{TOO_LITTLE} ({person}: {n_rarer} of {len(answers[number])})"] = none.pop(TOO_LITTLE)
    return reasons + [Note(why, tuple(names), "interval") for why, names in none.items()]


def _why_no_scores(pairs: list[Pair]) -> str:
    """Why figures on scores are NA; of several annotators all reasons."""
    common = [~np.isnan(judge.score) & ~np.isnan(people.score) for judge, people in pairs]
    if not any(rows.any() for rows in common):
        return "no item has a score of both judge and people, and labels that are verdicts have none"
    reasons = dict[str, None]()
    for (judge, people), rows in zip(pairs, common, strict=True):
        sides = {"the judge": judge.score[rows], "people": people.score[rows]}
        equal = [name for name, scores in sides.items() if len(np.unique(np.round(scores, 6))) < 2]
        all_same = f"all scores of {' and of '.join(equal) or 'the judge or of people'} are equal"
        reasons["fewer than three items have both scores" if rows.sum() < _SEVERAL else all_same] = None
    return " or ".join(reasons)


def _framed(rows: list[dict[str, Any]], keys: list[str], options: _Options) -> pd.DataFrame:
    figures = interval_columns(options.figures)
    figures += [f"{name}_{kind}" for kind in ("people", "as_peer") for name in _with_people(options)]
    types = columns("text: judge") | _COUNTS | columns("number: coverage")
    types |= columns("count: n_repaired") if rows and "n_repaired" in rows[0] else {}
    types |= dict.fromkeys(figures, "float64") | columns("text: ties unscored; bool: same_items; text: notes")
    by = [name for name in keys if name not in CRITERION_KEY]
    if len(set(figures)) < len(figures) or not types.keys().isdisjoint(by):
        raise ConfigError(
            "the result would have two columns of the same name "
            f"(figures={list(options.figures)!r}{f', by={by[0]!r}' if by else ''}); pass the figures one at a time, "
            "or another column as by="
        )
    return result_table(rows, CRITERION_KEY, dict.fromkeys(by), types)


_CONFUSION = (JUDGE_KEY, "text: label_judge label_human; count: n; number: share; text: reason notes")


@with_id_notes
def confusion(
    judged: JudgedLike,
    labels: LabelsLike | None = None,
    *,
    ties: Ties = "na",
    unscored: Unscored = "drop",
    part: PartOption | None = None,
) -> pd.DataFrame:
    """How often each label of a judge meets each label of a person.

    Parameters
    ----------
    judged
        An evaluation, which stands for its votes and clusters, or a table:
        Votes (each judge) or scores (the judge is then ``jury``).
    labels
        A long table (`item_id, criterion, annotator, label`) or, for an evaluation, criterion -> item columns (by
        default its own labels). Every annotator's label counts once. Where people gave nothing but ``true`` and
        ``false``, verdicts are counted instead of labels.
    ties, unscored
        As in `align`: ``half`` counts a tie as 1/t in each of its t cells; left-out labels are in rows of their own,
        whose `share` is NA; ``wrong`` counts them in the shares. The shares of equal labels add up to the accuracy.
    part
        ``dev`` or ``held-out``, for labels of `split_labels`; by default all, or ``dev`` if there are parts.
        A look at held-out labels is counted, as in `align`.

    Returns
    -------
    DataFrame
        Per `rubric, rubric_version, criterion, judge` one row for each pair of `label_judge` and `label_human`, in the
        order of the scale and with pairs that never occur (interval scales: only labels that occur): `n`, the
        number of labels, and `share` 0-1 of those that count. Where the judge has no label, `label_judge` is NA and
        `reason` says ``tied`` or ``unscored``: these rows exist only if they occur. A person's number between the
        codes is no label and is left out. `notes`: which labels were not used.

    Raises
    ------
    InputError
        When columns are missing, a row is double, a label is not on the scale, the levels of the scale are not known,
        or no label is of a criterion that was judged.

    Examples
    --------
    >>> from evalkit import tables
    >>> votes = tables.table("votes", {
    ...     "rubric": ["r"] * 3, "rubric_version": ["v1"] * 3, "item_id": list("abc"), "criterion": ["c"] * 3,
    ...     "judge": ["j"] * 3, "score": [0.0, 1.0, 1.0], "label": ["0", "1", "1"],
    ...     "passed": [None] * 3, "n_samples": [1] * 3, "n_scored": [1] * 3, "tied": [False] * 3,
    ...     "level": ["ordinal"] * 3, "scale": ['{"codes":[0,1],"better":"high"}'] * 3})
    >>> labels = pd.DataFrame({"item_id": list("abc"), "criterion": "c", "annotator": "ann", "label": [0, 1, 0]})
    >>> confusion(votes, labels)[["label_judge", "label_human", "n"]].values.tolist()
    [['0', '0', 1], ['0', '1', 0], ['1', '0', 1], ['1', '1', 1]]
    """
    counting = check_counting("confusion", ties, unscored)
    tables = taken(judged, labels, "confusion").of_part(part)
    rows: list[dict[str, Any]] = []
    for panel in tables.panels("label"):
        if panel.scale.is_open and panel.scale.level != "nominal" and not panel.verdicts:
            raise InputError(
                f"confusion counts levels, and those of criterion {panel.head['criterion']!r} are not known; pass "
                "votes with a scale, as ek.vote(table, scale=[0, 1, 2]) makes them"
            )
        for judge, (answers, was_asked) in panel.judges.items():
            head = panel.head | {"judge": judge, "notes": tables.note}
            rows.extend(head | row for row in _cells_of(panel, answers, was_asked, counting))
    return tables.finished(result_table(rows, *_CONFUSION, "number: n" if ties == "half" else ""))


def _cells_of(panel: Panel, answers: Answers, there: Any, counting: Counting) -> list[dict[str, Any]]:
    """The cells of one judge's table; labels that only other panels have are not among them."""
    names, answered = {number: text for text, number in panel.classes().items()}, answers.take(there)
    annotators = panel.annotators.kind[there]
    spread = Counting("half" if counting.ties == "half" else "na")
    grids = [kinds_table(answered, kind, verdicts=panel.verdicts, counting=spread) for kind in annotators.T]
    kinds, truth, weight = (
        np.concatenate([getattr(grid, name) for grid in grids] or [np.zeros(0)]) for name in ("said", "true", "weight")
    )
    cells = {(code, true): float(weight[(kinds == code) & (truth == true)].sum()) for code in names for true in names}
    missing = answered.kind < 0
    lost = {"tied": missing & answered.tied & (counting.ties != "half"), "unscored": missing & ~answered.tied}
    counts = {"tied": counting.ties == "wrong", "unscored": counting.unscored == "wrong"}
    gone = {(why, code): int((annotators[flags] == code).sum()) for why, flags in lost.items() for code in names}
    total = sum(cells.values()) + sum(n for (why, _), n in gone.items() if counts[why])
    rows: list[dict[str, Any]] = [
        {"label_judge": names[code], "label_human": names[true], "n": n, "share": n / total if total else np.nan}
        for (code, true), n in cells.items()
    ]
    return rows + [
        {"label_judge": None, "label_human": names[true], "n": n, "reason": why}
        | {"share": n / total if counts[why] and total else np.nan}
        for (why, true), n in gone.items()
        if n
    ]
