"""Compare: two evaluations of the same items, criterion by criterion and judge by judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from evalkit.core.lists_of_choices import ENGINE_REASONS
from evalkit.core.settings import check_choice
from evalkit.errors import ConfigError, InputError, counted, listed
from evalkit.rubrics.given_scales import ScaleLike
from evalkit.rubrics.human_labels import LabelsLike, as_labels
from evalkit.rubrics.row_scales import NO_ENDS, PAIR_SCORES
from evalkit.rubrics.scales import folded
from evalkit.stats.alignment.agreement_measures import Answers
from evalkit.stats.alignment.label_splits import DEV, HELD_OUT, drop_chosen, take_part, would_be_held_out
from evalkit.stats.alignment.label_values import annotators_of, labels_for, of_items
from evalkit.stats.alignment.label_values import kinds_of as label_numbers
from evalkit.stats.comparison import noise_floors as floors
from evalkit.stats.comparison.comparison_table import APART, SAME, Circumstances, Comparison, Difference, decide
from evalkit.stats.comparison.sides import (
    ROW,
    JudgmentsLike,
    Part,
    Side,
    judgments_of,
    pairs,
    refuse_other_prompts,
    side_of,
)
from evalkit.stats.intervals import change_interval, difference_interval, unit_codes
from evalkit.stats.result_tables import (
    JURY,
    Note,
    Notes,
    cluster_counts,
    figure_row,
    joined,
    note_few_clusters,
    result_table,
    with_id_notes,
)
from evalkit.stats.significance import ALPHA, Outcomes, evidence, holm, mcnemar_midp, permuted_samples, sign_flip
from evalkit.tables import schemas
from evalkit.tables.grouping import ClustersLike, Flags, Floats, Ints, group, is_among
from evalkit.tables.schemas import LABEL_KEY

_COLUMNS = (
    "count: n_common n_clusters; number: n_clusters_effective; count: n_scored n_verdicts; Int64: changed",
    "count: n_asked_again",
    "number: change_p change_p_holm chance_up_to floor±; text: floor_source; Int64: n_floor fixed broke",
    "count: n_paired n_paired_clusters; Int64: n_clusters_fixed n_clusters_broke n_rarer",
    "number: effect_by_before_rule±; text: against",
    "Int64: n_unlabelled; number: effect_least± effect_most± evidence_least",
    "number: effect± mcnemar_p mcnemar_p_holm mean_difference difference_low difference_high",
    "number: sign_flip_p sign_flip_p_holm score_difference±",
    "text: status models_before models_after; number: scored_before scored_after; text: notes",
)

_ONE_RULE = ": people's labels count by those of after"
_OF_POINTS = ("rubric", "criterion", "possible", "renormalised")


@with_id_notes
def compare(
    before: JudgmentsLike,
    after: JudgmentsLike,
    *,
    labels: LabelsLike | None = None,
    across_modes: bool = False,
    same_prompts: bool = False,
    clusters: ClustersLike | None = None,
    rows: Literal["all", "jury"] = "all",
    floor: JudgmentsLike | None = None,
    scale: ScaleLike | None = None,
) -> Comparison:
    """What changed between two evaluations of the same items, and whether sampling alone explains it.

    Parameters
    ----------
    before, after
        Evaluations, or judgments tables (these have no row for a jury). Rubric versions may differ; items that only one
        side has are left out. Plain tables need `item_id` and `score` or `label`; without `judge` they are finished
        scores, of the ``jury``. Also two tables of `points`, paired by item, with clusters by `group_id`.
    labels
        Human labels, as in `align`; by default those of the evaluations (of `after` where they differ). Held-out ones
        are left out. An empty table: no labels. Labels with the `source` ``changed`` count once all items whose verdict
        changed have a label.
    across_modes, same_prompts
        Allow a judge against a jury. Refuse other prompts, judges or samples: `status` says if the judge changed.
    clusters, scale
        item_id -> cluster, by default `before.clusters`, else the item; what plain tables cannot say, as in `vote`.
    rows
        ``jury``: of each criterion that has one the row of the jury alone; p is adjusted over the rows that there are.
    floor
        Judgments of the prompts of `before` with twice the samples (`sample_again`), for a measured noise floor. By
        default the samples of `before` itself, if there are twice as many as in `after`.

    Returns
    -------
    Comparison
        `decisions`: per criterion whether to keep ``after``, in a sentence. `table`: one row per `rubric, criterion,
        judge` (``jury`` for the scores), with 95 % intervals by clusters in `_low` and `_high`:

        - `version_before`, `version_after`; `n_common` items in `n_clusters` (`n_clusters_effective`), `n_verdicts` of
          them with a verdict (without pass rule: a label) on both sides; `changed` of these;
        - `n_asked_again`: items with new replies; `change_p`: samples permuted between the sides (1,999 draws);
        - `floor`: share of items 0-1 whose verdict fresh samples change; `floor_source`: ``measured`` on `n_floor`
          items, ``range`` that the samples allow, ``same replies`` (none), ``not asked twice``; `chance_up_to`: the
          number of items that chance changes, up to the .975 quantile at `floor_high`;
        - `fixed`, `broke`, `against` (``labels``, ``changed`` labels, ``distances`` of scores, or ``verdicts``: from
          fail to pass and back), `effect` = (fixed − broke)/n (Agresti and Min 2005) of `n_paired` items in
          `n_paired_clusters`, `mcnemar_p` (mid-p), `n_clusters_fixed`, `n_clusters_broke`; `effect_by_before_rule`: by
          the pass rule of `before`, if it is another;
        - `status`: ``changed`` (`change_p_holm` < .05), ``no change seen``, ``cannot tell`` or ``same replies``;
          `models_before`, `models_after`, as replies name them; `scored_before`, `scored_after`: share of judgments;
        - `n_unlabelled` changed items; until they are labelled, `effect_least`, `effect_most` and `evidence_least` are
          the bounds; `n_rarer`: clusters with the rarer verdict; under 3, no decision says to keep `after`;
        - `mean_difference` of `score_norm` (after − before) on `n_scored` items, `sign_flip_p`; `score_difference` in
          the units of the score; `…_holm`: p adjusted over all rows; `notes`.

    Raises
    ------
    InputError
        When a side has no judgments or several versions of one rubric, or the sides share no criterion; when a label is
        there twice or not on its scale; when `floor`, or with ``same_prompts`` a side, is of other prompts.
    ConfigError
        For a judge against a jury without `across_modes=True`, and unknown `rows`.

    Examples
    --------
    >>> before = pd.DataFrame({"item_id": list("abcd"), "score": [0, 1, 1, 0]})
    >>> after = pd.DataFrame({"item_id": list("abcd"), "score": [1, 1, 1, 0]})
    >>> compare(before, after, scale=[0, 1]).table[["n_common", "score_difference"]].values.tolist()
    [[4.0, 0.25]]
    """
    check_choice("rows", rows, ("all", "jury"))
    before, after = _alike(before, after)
    sides = side_of(before, "before", scale), side_of(after, "after", scale)
    if sides[0].mode != sides[1].mode and not across_modes:
        raise ConfigError(
            f"before was scored by a {sides[0].mode}, after by a {sides[1].mode}: these are not comparable, because "
            "a jury's verdicts vary less than one judge's; to compare them nevertheless, pass across_modes=True "
            "(--across-modes)"
        )
    matched = pairs(*sides)
    if not matched and len(sides[0].votes) and len(sides[1].votes):
        raise InputError(
            f"before ({sides[0].name}) and after ({sides[1].name}) have no combination of rubric, criterion and judge "
            "in common; to compare different judges, pass evaluations (or folders of 'evalkit evaluate --out')"
        )
    items = [set(side.votes["item_id"].unique()) for side in sides]
    if items[0] and items[1] and not items[0] & items[1]:
        raise InputError(
            f"before and after have no item in common; before has {listed(sorted(items[0]))}, after has "
            f"{listed(sorted(items[1]))}; judge the same items, with the same item_id"
        )
    if same_prompts and any(side.judgments.empty for side in sides):
        raise InputError(
            "same_prompts=True needs judgments on both sides, not votes or scores; pass them, or leave it out"
        )
    note = refuse_other_prompts(before, after, scale) if same_prompts else None
    choices = (clusters, *(side.clusters for side in sides))
    clusters = next((choice for choice in choices if choice is not None), None)
    if rows == "jury":
        juries = {first.head[:2] for first, _ in matched if first.head[2] == JURY}
        matched = [pair for pair in matched if pair[0].head[2] == JURY or pair[0].head[:2] not in juries]
    repeats = getattr(before, "repeats", None) if floor is None else _repeats(floor, sides[0])
    options = _Options(labels_of_sides(before, after, labels, sides), clusters, repeats, note)
    compared = [_row(first, second, options) for first, second in matched]
    table = result_table(compared, [*ROW, "version_before", "version_after"], *_COLUMNS)
    for name in ("change_p", "mcnemar_p", "sign_flip_p"):
        table[f"{name}_holm"] = holm(table[name].to_numpy())
    reasons = {
        SAME: table["floor_source"].eq(SAME),
        "cannot tell": table["change_p_holm"].isna(),
        "changed": table["change_p_holm"].lt(ALPHA),
    }
    holds = [flags.to_numpy(dtype=bool) for flags in reasons.values()]
    table["status"] = schemas.categorical(np.select(holds, [*reasons], "no change seen"))
    table = sides[0].keys.restore(table)
    (a, b), (n_only_a, n_only_b) = sides, (len(items[0] - items[1]), len(items[1] - items[0]))
    return Comparison(a.name, b.name, table, a.bill, b.bill, n_only_a, n_only_b, _decisions(table))


def _alike(*sides: JudgmentsLike) -> tuple[JudgmentsLike, ...]:
    """Tables of points under one name each, although the verdicts are of two rubrics or one side was plain."""
    tables = [side for side in sides if isinstance(side, pd.DataFrame) and {*_OF_POINTS} <= {*side.columns}]
    heads = [table[["rubric", "criterion"]].astype(str).drop_duplicates() for table in tables]
    if len(tables) < len(sides) or [*map(len, heads)] != [1, 1] or heads[0].iloc[0].equals(heads[1].iloc[0]):
        return sides
    return tuple(table.assign(rubric="points", criterion="points") for table in tables)


def _decisions(table: pd.DataFrame) -> dict[str, str]:
    """Criterion -> the sentence that decides: of the jury, or of the only judge; none without labels."""
    about = Circumstances("'after'", "'before'", labels="the labels that were given")
    decisions = {}
    for criterion, rows in table.groupby("criterion", sort=False, observed=True):
        decisive = rows[rows["judge"].eq(JURY)] if rows["judge"].eq(JURY).any() else rows
        if len(decisive) == 1 and Difference.of(row := decisive.iloc[0]) is not None:
            decisions[str(criterion)] = str(decide(row, about))
    return decisions


def _repeats(floor: JudgmentsLike, side: Side) -> pd.DataFrame:
    """The judgments to measure the floor on; InputError if they are of other prompts."""
    table = judgments_of(floor, "floor")
    heads = ["rubric", "rubric_version", "criterion", "judge"]
    if table[heads].astype(object).merge(side.judgments[heads].astype(object).drop_duplicates()).empty:
        raise InputError(
            f"floor= and before= ({side.name}) have no rubric version, criterion and judge in common; judge before= "
            "again, and pass the result as floor="
        )
    return table


@dataclass(frozen=True, slots=True)
class PeopleLabels:
    """The labels of two sides, with ids spelled as those of the votes of the first side.

    Attributes
    ----------
    people
        Those that may stand for other items, without held-out ones; None if there are none.
    everyone
        All of them.
    note
        What is not used of them.
    """

    people: pd.DataFrame | None = None
    everyone: pd.DataFrame = field(default_factory=lambda: schemas.empty("labels"))
    note: str | None = None

    def of_changed(self, criterion: str) -> pd.DataFrame:
        """The labels of a criterion that count where those of all items that changed do, without held-out ones."""
        labels = self.everyone.loc[
            (self.everyone["criterion"].eq(criterion) & self.everyone["label"].notna()).to_numpy()
        ]
        labels = labels.loc[labels.get("part", pd.Series(DEV, labels.index)).ne(HELD_OUT).to_numpy()]
        stays, _ = drop_chosen(labels)
        sources = labels.get("source", pd.Series(dtype=object)).astype(object).reindex(labels.index)
        is_further = sources.eq("changed") & ~is_among(labels["item_id"], stays["item_id"])
        return pd.concat([stays, labels.loc[is_further.to_numpy()]])

    def are_held_out(self, criterion: str, items: pd.Index, clusters: ClustersLike | None) -> Flags:
        """Per item: are its labels held out, or would they be? A row without a label says it, else the cluster does."""
        labels = self.everyone.loc[(self.everyone["criterion"] == criterion).to_numpy()]
        if "part" not in labels or not labels["part"].eq(HELD_OUT).any():
            return np.zeros(len(items), dtype=bool)
        parts = items.map(dict(zip(labels["item_id"], labels["part"].astype(object), strict=True)))
        would_be = would_be_held_out(pd.Series(items, dtype="str"), clusters)
        return np.asarray((parts == HELD_OUT) | (would_be & parts.isna()), dtype=bool)


def labels_of_sides(
    before: JudgmentsLike, after: JudgmentsLike, labels: LabelsLike | None, sides: tuple[Side, Side]
) -> PeopleLabels:
    """The labels passed, else those that the sides hold."""
    votes, note = sides[0].votes, ""
    if labels is None:
        everyone, note = _labels_held(before, after)
    else:  # the side whose items hold label columns: an evaluation, `after` first
        has_items = not isinstance(after, pd.DataFrame) and hasattr(after, "items")
        criteria = list(map(str, votes["criterion"].unique()))
        versions = {str(name) for side in sides for name in side.votes["rubric_version"].unique()}
        everyone = labels_for(after if has_items else before, labels, criteria, sorted(versions))
    if everyone is None:
        return PeopleLabels()
    everyone = of_items(everyone, votes, sides[1].votes)
    people, chosen = take_part(everyone, None)
    return PeopleLabels(None if people.empty else people, everyone, joined([chosen, note]))


def _labels_held(before: JudgmentsLike, after: JudgmentsLike) -> tuple[pd.DataFrame | None, str]:
    """The labels that the sides hold, and a note if those that count differ on common items."""
    of_sides = [None if isinstance(side, pd.DataFrame) else getattr(side, "labels", None) for side in (before, after)]
    tables = [as_labels(labels) for labels in of_sides if labels is not None]
    if len(tables) < len(of_sides):
        return (tables[0] if tables else None), ""
    judged = [judgments_of(side, "a side") for side in (before, after)]
    common = {name: set(judged[0][name]) & set(judged[1][name]) for name in ("item_id", "criterion")}
    usable = (take_part(labels, None)[0] for labels in tables)
    shared = (labels[labels[[*common]].isin(common).all(axis=1)][[*LABEL_KEY, "label"]] for labels in usable)
    then, now = (set(labels.astype(str).itertuples(index=False, name=None)) for labels in shared)
    return tables[1], "" if then == now else "the labels of before and after differ: those of after count"


@dataclass(frozen=True, slots=True)
class _Options:
    labels: PeopleLabels
    clusters: ClustersLike | None
    repeats: pd.DataFrame | None  # twice the samples, for the noise floor
    note: str | None  # what is not known of the prompts


def _row(a: Part, b: Part, options: _Options) -> dict[str, Any]:
    common = pd.Index(sorted(set(a.rows.index) & set(b.rows.index)), dtype=object)
    units, people = unit_codes(common, options.clusters), options.labels.people
    kind_a, kind_b = kinds_of(a, b, common)
    has_kinds = (kind_a >= 0) & (kind_b >= 0)
    row: dict[str, Any] = {
        **dict(zip(ROW, a.head, strict=True)),
        **cluster_counts(units),
        "version_before": a.version,
        "version_after": b.version,
        "n_common": len(common),
        "n_verdicts": int(has_kinds.sum()),
        "changed": int((has_kinds & (kind_a != kind_b)).sum()) if has_kinds.any() else None,
        **{f"models_{when}": _models(part) for when, part in (("before", a), ("after", b))},
        **{f"scored_{when}": part.judgments["error"].isna().mean() for when, part in (("before", a), ("after", b))},
    }
    notes: Notes = []
    sizes = [len(set(side.rows.index)) for side in (a, b)]
    if max(sizes) > len(common):
        lost = (f"{size - len(common)} of {size} {when}" for size, when in zip(sizes, ("before", "after"), strict=True))
        notes.append(f"items of one side alone left out: {', '.join(lost)}")
    if a.scale.to_json() != b.scale.to_json():
        notes.append(f"the scales or pass rules differ{_ONE_RULE * (people is not None)}")
    if set(a.judgments["judge"].unique()) != set(b.judgments["judge"].unique()):
        notes.append("scored by other judges before and after")
    elif None not in (models := [_models(part) for part in (a, b)]) and models[0] != models[1]:
        notes.append(f"answered as {models[0]} before, as {models[1]} now")
    if silent := int((~has_kinds).sum()):
        answer = "verdict" if a.has_verdicts and b.has_verdicts else "score" if a.scale.is_open else "label"
        text = f"{silent} of {counted(len(common), 'item')} without a {answer} on one side or both: left out of changed"
        notes.append(text)
    row |= _sampling(a, b, common, has_kinds, options)
    notes += row.pop("note", None), options.labels.note or "", options.note or ""
    row |= (
        {"n_paired": 0, "n_paired_clusters": 0, "n_rarer": None}
        | _fixed(a, b, (kind_a, kind_b), common, units, people, notes)
        | _of_changed(a, b, (kind_a, kind_b), common, units, options, notes)
        | _difference(a, b, common, units, notes)
    )
    note_few_clusters(units, notes)
    return row | {"notes": notes}


def _models(part: Part) -> str | None:
    """The models that the replies name."""
    return ", ".join(sorted(map(str, part.judgments["model"].dropna().unique()))) or None


def kinds_of(a: Part, b: Part, common: pd.Index) -> tuple[Ints, Ints]:
    """Verdicts (0, 1) if both sides have them, else labels; −1 for none."""
    names = ["passed", "label", "score", "level", "tied"]
    answers = pd.concat([part.rows[names].astype(object).reindex(common) for part in (a, b)])
    codes = floors.kind_codes(answers, rule=a.has_verdicts and b.has_verdicts)
    return codes[: len(common)], codes[len(common) :]


def _sampling(a: Part, b: Part, common: pd.Index, has_kinds: Flags, options: _Options) -> dict[str, Any]:
    """What sampling alone explains: the test of all samples, and the floor of the verdicts."""
    if a.judgments.empty or b.judgments.empty:
        return {"n_asked_again": 0, "note": "no samples: cannot tell change from noise"}
    again = asked_again(a.judgments, b.judgments, common)
    row: dict[str, Any] = {"n_asked_again": len(again.items)}
    if again.same:
        return row | {"floor_source": SAME, "chance_up_to": 0.0}
    if not again.judges:
        note = "no judge has new replies on both sides: cannot tell change from noise"
        return row | {"floor_source": APART, "note": note}
    row["change_p"] = permuted_samples(again.outcomes)
    if np.isnan(row["change_p"]):
        return row | {"note": floors.NO_REPEATS}
    rule = a.has_verdicts and b.has_verdicts
    of_judges = [part.judgments.loc[part.judgments["judge"].isin(again.judges).to_numpy()] for part in (a, b)]
    k = min(int(judgments["sample"].nunique()) for judgments in of_judges)
    table = a.judgments if options.repeats is None else a.mine(options.repeats)
    floor = floors.floor_of(a, [table], k, again.judges, options.clusters, rule=rule)
    row |= figure_row("floor", floor.rate, floor.ends) | {"floor_source": floor.source, "n_floor": floor.n_items}
    n = int(has_kinds[common.get_indexer(again.items)].sum())  # only they can have another verdict
    return row | {"chance_up_to": floors.chance_limit(n, floor), "note": floor.note}


def _fixed(
    a: Part, b: Part, kinds: Sequence[Ints], common: pd.Index, units: Ints, labels: Any, notes: Notes
) -> dict[str, Any]:
    of_people = None if labels is None else _with_truth(a, b, kinds, labels, common)
    if of_people is None and (labels is not None or not (a.has_verdicts and b.has_verdicts)):
        return _nearer(a, b, common, units, labels, notes)
    kind_a, kind_b = kinds
    has_kinds = (kind_a >= 0) & (kind_b >= 0)
    row: dict[str, Any] = {"fixed": 0, "broke": 0, "against": "labels" if labels is not None else "verdicts"}
    if of_people is not None and labels is not None:
        *kinds, truth = of_people
        if _rules_differ(a, b):
            row |= _by_rule_of_before(people_of(a, labels, common).kind, kinds, units)
        kind_a, kind_b = kinds
        has_kinds = (kind_a >= 0) & (kind_b >= 0)
        is_known = truth >= 0
        silent = int((has_kinds & ~is_known).sum())
        has_kinds = has_kinds & is_known
        if silent and has_kinds.any():
            notes.append(f"{counted(silent, 'item')} without a label or with tied labels: neither fixed nor broken")
        kind_a, kind_b = ((kind == truth).astype(np.int64) for kind in kinds)
        row["n_rarer"] = _n_rarer(truth[has_kinds], kinds[1][has_kinds], units=units[has_kinds])
    if not has_kinds.any():
        notes.append(Note("no item has a verdict on both sides" + " and a label" * (labels is not None), ("effect",)))
        return row
    return row | _effect((kind_b - kind_a)[has_kinds].astype(np.float64), units[has_kinds], notes)


def _rules_differ(a: Part, b: Part) -> bool:
    return len({(scale.pass_at, scale.pass_if, scale.better) for scale in (a.scale, b.scale)}) > 1


def _with_truth(a: Part, b: Part, kinds: Sequence[Ints], labels: pd.DataFrame, common: pd.Index) -> list[Ints] | None:
    """The answers of both sides and what is right, by one numbering; None where labels cannot say what is right.

    By one pass rule: what only reads the labels in another way makes no verdict better.
    """
    if a.scale.has_rule and b.scale.has_rule:  # without one, people's labels are no verdicts
        return [*kinds, people_of(b, labels, common).kind]
    is_nominal = a.scale.level == b.scale.level == "nominal"
    return _labels_as_kinds(a, b, labels, common) if is_nominal and a.scale.codes == b.scale.codes else None


def _of_changed(
    a: Part, b: Part, kinds: Sequence[Ints], common: pd.Index, units: Ints, options: _Options, notes: Notes
) -> dict[str, Any]:
    """(fixed − broke)/n over all n items, once all whose answer changed have a label; until then, what it can be."""
    criterion = a.head[1]
    labels = options.labels.of_changed(criterion)
    if labels.empty or (of_people := _with_truth(a, b, kinds, labels, common)) is None:
        return {}
    kind_a, kind_b, truth = of_people
    is_used = (kind_a >= 0) & (kind_b >= 0) & ~options.labels.are_held_out(criterion, common, options.clusters)
    is_changed = is_used & (kind_a != kind_b)
    is_open = is_changed & ~is_among(common, labels["item_id"])
    row: dict[str, Any] = {"n_unlabelled": int(is_open.sum())}
    if not is_used.any() or "source" not in labels or not labels["source"].eq("changed").any():
        return row
    # what did not change is right, or wrong, on both sides
    right = [(kind == np.where(is_changed, truth, kind_b)).astype(np.float64) for kind in (kind_a, kind_b)]
    steps, units_used = (right[1] - right[0])[is_used], units[is_used]
    if is_open.any():
        ends = {"effect_least": steps - is_open[is_used], "effect_most": steps + is_open[is_used]}
        for name, of_end in ends.items():
            row |= figure_row(name, float(of_end.mean()), change_interval(of_end, units_used))
        counts = _cluster_signs(ends["effect_least"], units_used)
        return row | {"evidence_least": evidence(counts["n_clusters_fixed"], counts["n_clusters_broke"])}
    if _rules_differ(a, b):
        of_before = np.where(is_changed, people_of(a, labels, common).kind, kind_b)
        row |= _by_rule_of_before(of_before[is_used], [kind_a[is_used], kind_b[is_used]], units_used)
    # an edit may well change only items that all deserve one verdict: labels of these do not show how people judge
    is_random = is_used & (truth >= 0) & is_among(common, drop_chosen(labels)[0]["item_id"])
    n_rarer = _n_rarer(kind_b[is_used], units=units_used)
    if is_random.any():
        n_rarer = min(n_rarer, _n_rarer(truth[is_random], units=units[is_random]))
    return row | {"against": "changed", "n_rarer": n_rarer} | _effect(steps, units_used, notes)


def _labels_as_kinds(a: Part, b: Part, labels: pd.DataFrame, common: pd.Index) -> list[Ints]:
    """The labels of both sides and of people's majority, by one numbering: of pairs, and other nominal criteria.

    As in `rank`, a vote of a pair that is tied is a tie.
    """
    numbers: dict[str, int] = {}
    truth = people_of(b, labels, common, numbers).kind
    answers, of_pairs = [], {"A", "B"} <= set(a.scale.codes) <= set(PAIR_SCORES)
    for rows in (part.rows.reindex(common) for part in (a, b)):
        is_tie = rows["label"].isna() & rows["tied"].eq(True) & of_pairs
        answers.append(label_numbers(rows["label"].astype(object).mask(is_tie, "tie").astype("category"), numbers))
    alike = pd.factorize(pd.Index([folded(name) for name in numbers]))[0]  # case does not matter
    return [np.append(alike, -1)[codes] for codes in (*answers, truth)]


def _by_rule_of_before(truth: Ints, kinds: Sequence[Ints], units: Ints) -> dict[str, Any]:
    """The same difference where people's labels count by the other pass rule: which rule is right no label can say."""
    is_known = np.minimum(truth, np.minimum(*kinds)) >= 0
    right_a, right_b = ((kind == truth)[is_known].astype(np.float64) for kind in kinds)
    if not is_known.any():
        return {}
    ends = change_interval(right_b - right_a, units[is_known])
    return figure_row("effect_by_before_rule", float((right_b - right_a).mean()), ends)


def _n_rarer(*sides: Ints, units: Ints) -> int:
    """The fewest clusters in which one of the sides has another verdict than its most frequent one."""
    usual = [side == np.bincount(side).argmax() for side in sides if len(side)]
    return min((len(np.unique(units[~is_usual])) for is_usual in usual), default=0)


def _effect(steps: Floats, units: Ints, notes: Notes) -> dict[str, Any]:
    """What became better (steps of 1) and worse (−1), with the test of McNemar."""
    fixed, broke = int((steps > 0).sum()), int((steps < 0).sum())
    row = figure_row("effect", float(steps.mean()), change_interval(steps, units), notes)
    return (
        row
        | {"n_paired": len(steps)}
        | _cluster_signs(steps, units)
        | {"fixed": fixed, "broke": broke, "mcnemar_p": mcnemar_midp(steps, units)}
    )


def _cluster_signs(steps: Floats, units: Ints) -> dict[str, int]:
    """How many clusters there are, and of how many more was fixed than broken, and the reverse."""
    sums = np.bincount(np.unique(units, return_inverse=True)[1], weights=steps)
    counts = {"n_clusters_fixed": int((sums > 0).sum()), "n_clusters_broke": int((sums < 0).sum())}
    return {"n_paired_clusters": len(sums), **counts}


def _nearer(a: Part, b: Part, common: pd.Index, units: Ints, labels: Any, notes: Notes) -> dict[str, Any]:
    """Without a pass rule: whose score came nearer to people's; NA where scores cannot show it."""
    why = "there are no labels" if labels is None else "the scales differ" if a.scale.codes != b.scale.codes else None
    if why is not None or a.scale.level == "nominal" or labels is None:
        why = f"without a pass rule, and {why or 'a nominal scale has no distances'}"
        notes.append(Note(why, ("fixed", "broke")))
        return {"fixed": None, "broke": None, "against": None}
    people = people_of(a, labels, common).score
    far = [np.abs(part.rows["score"].reindex(common).to_numpy(dtype=np.float64) - people) for part in (a, b)]
    comparable = ~np.isnan(far[0]) & ~np.isnan(far[1])
    if not comparable.any():
        notes.append(Note("no item has a score on both sides and a label", ("fixed", "broke")))
        return {"fixed": None, "broke": None, "against": "distances"}
    if silent := int((~comparable).sum()):
        notes.append(f"{counted(silent, 'item')} without a score on one side, a label or an untied one: neither")
    steps = np.sign(np.round(far[0] - far[1], 9))[comparable]
    return {"against": "distances"} | _effect(steps, units[comparable], notes)


def people_of(part: Part, labels: pd.DataFrame, common: pd.Index, numbers: dict[str, int] | None = None) -> Answers:
    """The majority of people on each item; labels without a pass rule are numbered in `numbers`."""
    people = labels.loc[((labels["criterion"] == part.head[1]) & labels["label"].notna()).to_numpy()]
    numbers = {} if numbers is None else numbers
    return annotators_of(people, common, part.scale, numbers, part.head[1]).together("majority")


def _difference(a: Part, b: Part, common: pd.Index, units: Ints, notes: Notes) -> dict[str, float]:
    share, row = b.norms(common) - a.norms(common), dict[str, float]()
    apart = b.scores(common) - a.scores(common)
    in_units = apart if a.scale.codes == b.scale.codes else np.full(len(common), np.nan)
    width_of_scores = np.nan if "possible" in a.rows else a.scale.width  # points have no lower end
    for name, gap, width in (("score_difference", in_units, width_of_scores), ("mean_difference", share, 1.0)):
        if (scored := ~np.isnan(gap)).any():
            ends = difference_interval(gap[scored], units[scored], width)
            row |= figure_row(name, float(gap[scored].mean()), ends, notes if gap is share else Notes())
    gap = in_units if np.isnan(share).all() else share
    scored = ~np.isnan(gap)
    row["n_scored"] = int((scored if scored.any() else ~np.isnan(apart)).sum())
    if scored.any():
        row["sign_flip_p"] = sign_flip(gap[scored], units[scored])
    if gap is not share:
        why = "scores of points have no lower end (see score_difference)" if "possible" in a.rows else NO_ENDS
        notes.append(Note(why if row["n_scored"] else "no item has a score on both sides", ("mean_difference",)))
        return row
    return row | {f"difference_{end}": row[f"mean_difference_{end}"] for end in ("low", "high")}


_SLOT = ["item_id", "judge", "order", "sample"]


@dataclass(frozen=True, slots=True)
class Again:
    """The judges that were called again, and their samples.

    Attributes
    ----------
    judges
        Judges with new replies on both sides, in order of their names.
    items
        Ids of the items with new replies.
    outcomes
        Their samples: one cell per item, judge and order. Items that share a reply are one cell.
    same
        Whether every reply of one side is on the other.
    """

    judges: tuple[str, ...]
    items: pd.Index
    outcomes: Outcomes
    same: bool


def asked_again(a: pd.DataFrame, b: pd.DataFrame, items: pd.Index) -> Again:
    """Compare the judgments of one criterion on the items that both sides have.

    Samples without a reply (never asked, stopped, failed calls) say nothing about the judge and are left out; a reply
    that cannot be scored is an outcome. A sample that has the same key and outcome on both sides is one reply. Where
    any outcome of a judge differs under the same key, the judge was called again with ``refresh``, and all of its
    samples count as new.
    """
    common = [is_among(side["item_id"], items) & ~side["error"].isin(ENGINE_REASONS) for side in (a, b)]
    names = [*_SLOT, "label", "score", "error", "key"]
    types = dict.fromkeys(("judge", "order", "label"), object)
    parts = [side.loc[flags, names].astype(types) for side, flags in zip((a, b), common, strict=True)]
    frame = pd.concat(parts, ignore_index=True)
    on_b = np.arange(len(frame)) >= len(parts[0])
    answer = frame["label"].where(frame["label"].notna(), frame["score"])  # a scale without ends has no labels
    outcome, _ = pd.factorize(answer.where(frame["error"].isna().to_numpy()), use_na_sentinel=False)
    key, _ = pd.factorize(frame["key"])
    judge, judges = pd.factorize(frame["judge"], sort=True)
    new = ~_shared(group(frame, _SLOT, may_miss=["order"]).codes, on_b, key, outcome, judge)
    cells = group(frame, ["item_id", "judge", "order"], may_miss=["order"])
    renewed = (cells.count(new & on_b) > 0) & (cells.count(new & ~on_b) > 0)
    rows = np.flatnonzero(new & renewed[cells.codes])
    unit = _units(cells.codes[rows], np.where(key[rows] < 0, -1, 2 * key[rows] + on_b[rows]))
    first = _first_of_keys(unit, on_b[rows], key[rows])
    who, ids = judges[np.unique(judge[rows])], frame["item_id"].iloc[rows].unique()
    outcomes = _count(unit[first], outcome[rows][first], on_b[rows][first])
    return Again(tuple(map(str, who)), pd.Index(ids), outcomes, not new.any())


def _shared(slot: Ints, on_b: Flags, key: Ints, outcome: Ints, judge: Ints) -> Flags:
    """Rows whose reply is on the other side too."""
    n = int(slot.max(initial=-1)) + 1
    row_of = np.full((2, n), -1, dtype=np.int64)
    row_of[on_b.astype(np.int64), slot] = np.arange(len(slot))
    pair = row_of[:, (row_of >= 0).all(axis=0)]
    pair = pair[:, (key[pair[0]] == key[pair[1]]) & (key[pair[0]] >= 0)]
    refreshed = np.unique(judge[pair[0]][outcome[pair[0]] != outcome[pair[1]]])
    pair = pair[:, ~np.isin(judge[pair[0]], refreshed)]
    shared = np.zeros(len(slot), dtype=bool)
    shared[pair.reshape(-1)] = True
    return shared


def _units(cell: Ints, key: Ints) -> Ints:
    """Numbers from 0 for the cells, those that share a reply being one."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    has_key = key >= 0
    n, width = (int(codes.max(initial=-1)) + 1 for codes in (cell, key))
    pairs = np.unique(cell[has_key] * width + key[has_key])
    graph = coo_array((np.ones(len(pairs)), (pairs // width, pairs % width + n)), shape=(n + width, n + width))
    return np.unique(connected_components(graph, directed=False)[1][cell], return_inverse=True)[1].astype(np.int64)


def _first_of_keys(unit: Ints, on_b: Flags, key: Ints) -> Ints:
    """One row for each reply of a unit on each side."""
    reply = np.where(key < 0, -1 - np.arange(len(key)), key)
    width = int(reply.max(initial=-1)) + len(key) + 1
    _, first = np.unique((2 * unit + on_b) * width + reply + len(key), return_index=True)
    return np.sort(first).astype(np.int64)


def _count(unit: Ints, outcome: Ints, on_b: Flags) -> Outcomes:
    width = int(outcome.max(initial=0)) + 1
    entries, entry = np.unique(unit * width + outcome, return_inverse=True)
    a, b = (np.bincount(entry[side], minlength=len(entries)).astype(np.int64) for side in (~on_b, on_b))
    return Outcomes((entries // width).astype(np.int64), a, b)
