"""Headline figures (tiles) and confusion matrix of an evaluation, from the tables of the public functions.

It is one module since all of them are read together, and are of the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd

from evalkit.core.formatting import count_of, figure
from evalkit.errors import counted
from evalkit.evaluation import Evaluation
from evalkit.evaluation.items_with_criteria import CRITERIA_MET, of_criteria, score_tiles
from evalkit.evaluation.overview import pass_prob_rows
from evalkit.evaluation.suggestions.edit_effects import change_of
from evalkit.notebook.judgments.item_table import Row, implied_verdict
from evalkit.notebook.labelling.label_log import ENOUGH_LABELS, drop_new_annotators, labels_on_scale
from evalkit.rubrics import Rubric
from evalkit.rubrics.scales import Scale
from evalkit.stats.alignment.judge_alignment import align
from evalkit.stats.alignment.label_values import read_label
from evalkit.stats.comparison.comparison_table import BY_LABELS, chance_sentences
from evalkit.stats.result_tables import notes_of, with_facts
from evalkit.tables.grouping import is_among

_VERDICTS = {True: "pass", False: "fail", None: None}
_SAID = {"pass": True, "fail": False}
Mark = Literal["", "better", "worse"]
Place = Literal["head", "people", "change", "fact"]
Kind = Literal["same", "near", "false pass", "false fail", "differs", "none"]
RIGHT, WRONG = ("same", "near"), ("false pass", "false fail", "differs")
"""In which cells of the matrix jury and person agree, and in which they do not."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure: title, value, note, its change from the version compared with, and its place in the strip."""

    title: str
    value: str
    note: str
    moved: str = ""
    mark: Mark = ""
    place: Place = "fact"


@dataclass(frozen=True, slots=True)
class Point:
    """The large figure of a version (None: not known), and in words with its interval and coverage."""

    value: float | None = None
    text: str = "not known"


@dataclass(frozen=True, slots=True)
class Cell:
    """Number of human labels `human` of items with the jury's label `jury` (None: no label).

    `kind` compares verdicts if the criterion has a pass rule. `verdict` is the jury's if it differs from what its label
    implies. `human_passed` and `jury_passed` are the verdicts of the row and of the column.
    """

    human: str
    jury: str | None
    n: int
    kind: Kind
    verdict: str = ""
    human_passed: bool | None = None
    jury_passed: bool | None = None


def make_tiles(
    evaluation: Evaluation,
    labels: pd.DataFrame,
    criterion: str,
    change: tuple[pd.Series | None, str] | None = None,
    name: str = "",
    rows: tuple[pd.Series | None, pd.Series | None] = (None, None),
    not_counted: str = "",
    items: Sequence[Row] = (),
) -> list[Tile]:
    """The tiles of one criterion.

    Parameters
    ----------
    evaluation
        The version shown.
    labels
        The human labels that figures use, with their parts and how they were drawn (`LabelLog.counted`): only
        ``dev`` labels are used.
    criterion
        The criterion.
    change, name
        `change_from` the version compared with, and the name of that version.
    rows
        `jury_alignment` of the two.
    not_counted
        The labels that figures do not use, in words.
    items
        The rows of the items, for those that got or lost their verdict.
    """
    people = _people(*rows, name, *_counted(evaluation, labels, criterion), not_counted)
    split, *others = jury_tiles(evaluation, criterion, "head" if rows[0] is None else "fact")
    return [*people, split, _changed(change, name, items), *others]


def jury_tiles(evaluation: Evaluation, criterion: str, place: Place = "head") -> list[Tile]:
    """The tiles that need neither labels nor a second version; `place` is that of the pass rate or mean."""
    split, first, *others = _split(evaluation, criterion), *_scored(evaluation, criterion)
    if of_criteria(evaluation):  # these tiles are about criteria; before them, the score of items
        titles = ["Judges disagree", CRITERIA_MET.capitalize(), "Criteria scored"]
        names = zip(titles, [split, first, *others], strict=False)
        split, *met = (replace(one, title=name, note=one.note.replace("item", "row")) for name, one in names)
        scores = [Tile("Item score", value, note) for name, value, note in score_tiles(evaluation) if name == criterion]
        first, *others = [*scores, *met]
    return [split, replace(first, place=place), *others, _cost(evaluation)]


def point_of(evaluation: Evaluation | None, row: pd.Series | None, criterion: str, *, labelled: bool) -> Point:
    """The agreement of a version with people (`row` of `jury_alignment`); not `labelled`: its pass rate or mean."""
    if evaluation is None or criterion not in evaluation.rubric.names or (labelled and row is None):
        return Point()
    if row is not None and labelled:
        ends = row["accuracy_low"], row["accuracy_high"]
        return _point("agreement", row["accuracy"], *ends, row["n_verdicts"], row["n_labelled"], "labelled item")
    rows = evaluation.summary
    one = rows[rows["criterion"] == criterion].iloc[0]
    if pd.isna(one["pass_rate"]):
        return _point("mean (0-1)", one["mean_norm"], one["norm_low"], one["norm_high"], one["n_mean"], one["n_items"])
    ends = one["pass_low"], one["pass_high"]
    met = f"{CRITERIA_MET} (of those with a verdict)", "row"
    name, row_name = met if of_criteria(evaluation) else ("pass rate", "item")
    return _point(name, one["pass_rate"], *ends, one["n_verdicts"], one["n_items"], row_name)


def _point(name: str, value: Any, low: Any, high: Any, n: Any, whole: Any, items: str = "item") -> Point:
    known = None if pd.isna(value) else round(float(value), 4)
    return Point(known, f"{name} {figure(value, low, high)}, {n} of {counted(whole, items)}")


def change_from(
    against: Evaluation,
    evaluation: Evaluation,
    labels: pd.DataFrame,
    criterion: str,
    repeats: pd.DataFrame | None,
    parts: pd.DataFrame,
) -> tuple[pd.Series | None, str]:
    """`change_of` a version from `against`, on the dev labels that are on the scales of both.

    `parts` has a row without a label for each item, with the part in which its labels are, or would be.
    """
    rubrics = [shown.rubric for shown in (evaluation, against) if criterion in shown.rubric.names]
    both = labels_on_scale(labels, criterion, *rubrics)
    with_parts = both if both.empty else pd.concat([parts, both], ignore_index=True)
    return change_of(evaluation, against, with_parts, criterion, repeats)


def jury_alignment(
    evaluation: Evaluation | None, labels: pd.DataFrame, criterion: str, by: Rubric | None = None
) -> pd.Series | None:
    """The row of `align` for the jury, on the dev labels that count; None without labels on its scale.

    Labels count by the pass rule of `by`, the version shown, as in `compare` with it.
    """
    if evaluation is None or criterion not in evaluation.rubric.names:
        return None
    dev, _ = _counted(evaluation, labels, criterion)
    if (by := other_rule(evaluation, criterion, by)) is not None:
        dev = labels_on_scale(dev, criterion, by)
        readings = {label: read_label(label, by.criterion(criterion).scale) for label in dev["label"].unique()}
        passed = {label: reading.passed for label, reading in readings.items() if reading is not None}
        verdicts = {label: str(verdict).lower() for label, verdict in passed.items() if verdict is not None}
        dev = dev.assign(label=[verdicts.get(label, label) for label in dev["label"]])  # a mean has no verdict
    scores = evaluation.scores[evaluation.scores["criterion"] == criterion]
    dev = dev.loc[is_among(dev["item_id"], scores["item_id"])]
    if scores.empty or dev.empty:
        return None
    return with_facts(align)(scores, dev, clusters=evaluation.clusters).iloc[0]


def other_rule(evaluation: Evaluation | None, criterion: str, by: Rubric | None) -> Rubric | None:
    """The rubric `by` if the criterion passes by another rule in it than in the evaluation; else None."""
    if evaluation is None or by is None or not all(criterion in rubric.names for rubric in (evaluation.rubric, by)):
        return None
    scales = [rubric.criterion(criterion).scale for rubric in (evaluation.rubric, by)]
    rules = {(scale.pass_at, scale.pass_if, scale.better) for scale in scales}
    return by if all(scale.has_rule for scale in scales) and len(rules) > 1 else None


def pass_prob_lines(evaluation: Evaluation | None, labels: pd.DataFrame, criterion: str) -> list[str]:
    """What each judge's P(pass) shows against people, as the report says it, on the dev labels that count."""
    if evaluation is None or criterion not in evaluation.rubric.names:
        return []
    votes = evaluation.votes[(evaluation.votes["criterion"] == criterion).to_numpy()]
    dev, _ = _counted(evaluation, labels, criterion)
    dev = dev.loc[is_among(dev["item_id"], votes["item_id"])]
    if dev.empty:
        return []
    return [f"P(pass) of {row['judge']}: {row['sentence']}." for row in pass_prob_rows(votes, dev, evaluation.clusters)]


def _counted(evaluation: Evaluation, labels: pd.DataFrame, criterion: str) -> tuple[pd.DataFrame, list[str]]:
    """The dev labels that count, and the annotators who have not given enough labels."""
    mine, few = drop_new_annotators(labels_on_scale(labels, criterion, evaluation.rubric))
    return mine[(mine["part"] == "dev").to_numpy()], few


def _people(
    row: pd.Series | None, last: pd.Series | None, name: str, labels: pd.DataFrame, few: list[str], not_counted: str
) -> list[Tile]:
    if row is None:
        note = " · ".join(filter(None, ["no labels that count: press Label next", not_counted]))
        return [Tile("Agreement with people", "NA", note), Tile("Kappa", "NA", note)]
    compared = f"{row['n_verdicts']} of {counted(row['n_labelled'], 'labelled item')}, dev"
    if few:
        compared += f"; without {', '.join(few)} (under {ENOUGH_LABELS} labels)"
    who_and_how = "".join(f" · {words}" for words in [*_who_and_how(labels), not_counted] if words)
    tiles = []
    figures: list[tuple[str, str, Place]] = [("Agreement with people", "accuracy", "head"), ("Kappa", "kappa", "fact")]
    for title, one, place in figures:
        value = figure(row[one], row[f"{one}_low"], row[f"{one}_high"])
        moved, mark = _moved(row, last, one, name)
        tiles.append(Tile(title, value, compared + without_interval(row, one) + who_and_how, moved, mark, place))
        who_and_how = ""  # the first tile shows it for both
    if pd.isna(row["accuracy_people"]):
        tiles.append(Tile("People among themselves", "NA", "only one annotator", place="people"))
    else:
        n_both = int((labels.groupby("item_id", observed=True)["annotator"].nunique() > 1).sum())
        value = f"{figure(row['accuracy_people'])}, κ {figure(row['kappa_people'])} on {counted(n_both, 'item')}"
        note = counted(row["n_annotators"], "annotator")
        tiles.append(Tile("People among themselves", value, note, place="people"))
    return tiles


def _who_and_how(labels: pd.DataFrame) -> list[str]:
    """Per source of labels, how many there are, whose they are, and how many were given blind."""
    words = []
    for source, rows in labels.groupby("source", observed=True):
        counts = rows["annotator"].astype(str).value_counts().sort_index()
        people = list(counts.index)
        if counts.nunique() > 1:
            people = [f"{who} {n}" for who, n in counts.items()]
        words.append(f"{counted(len(rows), f'{source} label')}, {', '.join(people)}")
        if source != "given":
            n_blind = int(rows["blind"].sum())
            words[-1] += ", blind" if n_blind == len(rows) else f", {n_blind} blind" if n_blind else ", not blind"
    return words


def without_interval(row: pd.Series, one: str) -> str:
    """Why a figure has no interval, from the notes of `align`."""
    if pd.isna(row[one]) or not pd.isna(row[f"{one}_low"]):
        return ""
    notes = [note for note in notes_of(row) if note.kind == "interval" and one in note.figures]
    return f"; no interval: {notes[0].reason}" if notes else "; no interval"


def _moved(now: pd.Series, last: pd.Series | None, one: str, name: str) -> tuple[str, Mark]:
    if last is None or pd.isna(last[one]) or pd.isna(now[one]):
        return "", ""
    step = float(now[one]) - float(last[one])
    # A tie has no verdict: if the numbers of verdicts differ, the two figures are about different items.
    same = int(now["n_verdicts"]) == int(last["n_verdicts"])
    other_items = "" if same else f", which has {counted(last['n_verdicts'], 'verdict')}"
    if abs(step) < 0.005:
        return f"same as {name}{other_items}", ""
    mark: Mark = "better" if step > 0 else "worse"
    return f"{'▲' if step > 0 else '▼'} {abs(step):.2f} from {name}{other_items}", mark if same else ""


def _split(evaluation: Evaluation, criterion: str) -> Tile:
    if len(evaluation.judges) < 2:
        return Tile("Judges disagree", "NA", "one judge: nothing to compare")
    apart = evaluation.disagreement
    split = apart.loc[apart["criterion"] == criterion, "split"]
    known = evaluation.reliability
    row = known[known["criterion"] == criterion].iloc[0]
    alpha = figure(row["alpha_single"], row["alpha_single_low"], row["alpha_single_high"])
    note = f"items that two judges decided; alpha {alpha}"
    return Tile("Judges disagree", count_of(split.sum(), split.count()), note)


def _changed(change: tuple[pd.Series | None, str] | None, name: str, items: Sequence[Row]) -> Tile:
    if change is None:
        return Tile("Changed", "–", "first version: nothing to compare with", place="change")
    row, why = change
    if row is None:
        return Tile("Changed", "NA", why, place="change")
    value = count_of(row["changed"], row["n_verdicts"]) if row["n_verdicts"] else "NA"
    unit = "verdict" if row["against"] in (*BY_LABELS, "verdicts") else "label"
    moves = Counter(item.change for item in items)
    steps = [("got", moves[f"{unit} appeared"]), ("lost", moves[f"{unit} lost"])]
    moved = ", ".join(f"{counted(n, 'item')} {step} a {unit}" for step, n in steps if n)
    note = " · ".join(filter(None, [f"{unit}s, from {name}", moved, chance_sentences(row)]))
    if pd.isna(row["fixed"]):
        return Tile("Changed", value, note, place="change")
    up, down = ("now pass", "now fail") if row["against"] == "verdicts" else ("fixed", "broke")
    mark: Mark = ""
    counts = f"▲ {row['fixed']} {up} ▼ {row['broke']} {down}"
    if row["against"] != "verdicts":
        counts += " on dev labels"
        mark = "better" if row["fixed"] > row["broke"] else "worse" if row["broke"] > row["fixed"] else ""
    return Tile("Changed", value, note, counts, mark, "change")


def _scored(evaluation: Evaluation, criterion: str) -> list[Tile]:
    summary = evaluation.summary
    rows = summary[summary["criterion"] == criterion]
    if rows.empty:
        return [Tile("Scored", "NA", "no items")]
    row = rows.iloc[0]
    # the notices count the judgments without a score
    note = "items" if evaluation.judgments["error"].notna().any() else "items; all judgments scored"
    noun, n_whole = ("verdict", row["n_verdicts"]) if pd.notna(row["pass_rate"]) else ("score", row["n_mean"])
    if n_lost := row["n_scored"] - n_whole:
        of_criterion = evaluation.scores["criterion"] == criterion
        is_lost = evaluation.scores["passed" if noun == "verdict" else "score_norm"].isna()
        n_tied = (of_criterion & is_lost & evaluation.scores["tied"]).sum()
        note += f"; {n_lost} without a {noun}, {n_tied} of them tied"
    scored = Tile("Scored", count_of(row["n_scored"], row["n_items"]), note)
    if pd.isna(row["pass_rate"]):
        value = figure(row["mean_norm"], row["norm_low"], row["norm_high"])
        return [Tile("Mean (0-1)", value, f"{row['n_mean']} of {counted(row['n_items'], 'item')}"), scored]
    value = figure(row["pass_rate"], row["pass_low"], row["pass_high"])
    of_items = f"{row['n_passed']} of {counted(row['n_verdicts'], 'item')} with a verdict"
    return [Tile("Pass rate", value, of_items), scored]


def _cost(evaluation: Evaluation) -> Tile:
    cost = evaluation.cost
    reused = cost.n_cached + cost.n_recorded
    n = cost.n_live + reused + cost.n_missing
    paid, unpriced = cost.paid.words
    share = f"{cost.n_live} live replies, {reused / n:.0%} from the cache" if n else "no replies"
    return Tile("Cost of this run", paid, "; ".join(filter(None, [share, unpriced])))


def confusion_cells(rows: Sequence[Row], scale: Scale) -> list[Cell]:
    """The confusion matrix of the dev labels in these rows; empty without labels.

    What fails comes before what passes, and what has no verdict last. A jury's label has two columns if its verdict
    sometimes differs from what the label implies. Verdicts of people have rows of their own only if they gave nothing
    else, or if several levels have that verdict (see `in_one_notation`).
    """
    people = {label for row in rows for label in row.counted.values()}
    verdicts = {label for label in people if scale.has_rule and _is_verdict(label, scale)}
    by_verdict = people == verdicts  # people gave verdicts only, so verdicts are counted
    counts: Counter[tuple[str, str | None, str]] = Counter()
    for row in rows:
        jury, verdict = (_VERDICTS[row.passed], "") if by_verdict else (row.jury, row.conflicts.get("", ""))
        counts.update((human, jury, verdict) for human in row.counted.values())
    names = ["fail", "pass"] if by_verdict else list(scale.labels)
    if scale.level == "interval":
        names = sorted({name for human, jury, _ in counts for name in (human, jury) if name is not None}, key=float)
    columns = {(name, "") for name in names} | {(jury, verdict) for _, jury, verdict in counts}
    ranks: dict[str | None, int] = {name: rank for rank, name in enumerate([*names, None])}
    groups = {False: 0, True: 1, None: 2}
    humans = names if by_verdict else [*names, *sorted(verdicts - {*names})]

    def place(label: str | None, passed: bool | None) -> tuple[bool, int, int]:
        return label is None, groups[passed], ranks.get(label, len(ranks))

    passes = [(jury, verdict, _column_verdict(jury, verdict, scale)) for jury, verdict in columns]
    across = [(place(jury, passed), verdict, jury, passed) for jury, verdict, passed in passes]
    down = sorted((place(human, passed), human, passed) for human in humans for passed in [_passes(human, scale)])
    return [
        Cell(human, jury, counts[human, jury, verdict], _kind(human, jury, verdict, scale), verdict, accepted, passed)
        for _, verdict, jury, passed in sorted(across, key=lambda column: column[:2])
        for _, human, accepted in down
        if people
    ]


def _column_verdict(jury: str | None, verdict: str, scale: Scale) -> bool | None:
    """The jury's verdict in a column of the matrix."""
    if not scale.has_rule:
        return None
    return {"pass": True, "fail": False}.get(verdict) if verdict or jury is None else _passes(jury, scale)


def _kind(human: str, jury: str | None, verdict: str, scale: Scale) -> Kind:
    """Compares verdicts if the criterion has a pass rule, else labels."""
    if not scale.has_rule:
        return "none" if jury is None else "same" if human == jury else "differs"
    passed = _column_verdict(jury, verdict, scale)
    if passed is None:
        return "none"
    if passed == _passes(human, scale):
        return "same" if human == jury or _is_verdict(human, scale) else "near"
    return "false pass" if passed else "false fail"


def _passes(label: str, scale: Scale) -> bool | None:
    if not scale.has_rule:
        return None
    return _SAID[label] if _is_verdict(label, scale) else implied_verdict(label, scale)


def _is_verdict(label: str, scale: Scale) -> bool:
    return label in _SAID and label not in scale.labels
