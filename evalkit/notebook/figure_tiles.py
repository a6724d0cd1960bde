"""The board: tiles and confusion matrix of an evaluation, taken from the tables of the public functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pandas as pd

from evalkit.core.formatting import count_of, figure
from evalkit.errors import counted
from evalkit.evaluation import Evaluation
from evalkit.evaluation.suggestions import change_of
from evalkit.notebook.item_table import verdict_beside
from evalkit.notebook.label_log import ENOUGH_LABELS, counting, fitting
from evalkit.rubrics.scales import Scale
from evalkit.stats.alignment import align, confusion
from evalkit.stats.comparison.comparison_table import chance_words

__all__ = ["Cell", "Tile", "aligned", "cells_of", "counted_labels", "tiles_of"]

Mark = Literal["", "better", "worse"]
Kind = Literal["same", "near", "false pass", "false fail", "differs", "none"]


@dataclass(frozen=True, slots=True)
class Tile:
    """One headline figure: title, value, what stands below it, and how it moved against the last version."""

    title: str
    value: str
    note: str
    moved: str = ""
    mark: Mark = ""

    def to_dict(self) -> dict[str, str]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Cell:
    """How many human labels `human` stand against the label `jury` (None: no label).

    `kind` goes by verdicts where the criterion has a pass rule; `verdict` is the jury's where its label says another.
    """

    human: str
    jury: str | None
    n: int
    kind: Kind
    verdict: str = ""


def tiles_of(
    evaluation: Evaluation,
    labels: pd.DataFrame,
    criterion: str,
    against: Evaluation | None,
    name: str = "",
    rows: tuple[pd.Series | None, pd.Series | None] = (None, None),
) -> list[Tile]:
    """The tiles of one criterion.

    Parameters
    ----------
    evaluation
        What is shown.
    labels
        Human labels with their parts: only those of ``dev`` are looked at.
    criterion
        Of which criterion.
    against, name
        The version compared with, and what it is called.
    rows
        What `aligned` says of the two.
    """
    dev = _dev(evaluation, labels, criterion)
    if against is not None and criterion in against.rubric.names:
        dev = fitting(dev, against.rubric.criterion(criterion).scale)
    found = [*_people(*rows, name, _counted(evaluation, labels, criterion)[1]), _split(evaluation, criterion)]
    found.append(_changed(evaluation, dev, criterion, against, name))
    return [*found, *_scored(evaluation, criterion), _cost(evaluation)]


def aligned(evaluation: Evaluation | None, labels: pd.DataFrame, criterion: str) -> pd.Series | None:
    """The row of `align` for the jury on dev labels of those who gave enough; None without labels on its scale."""
    if evaluation is None or criterion not in evaluation.rubric.names:
        return None
    dev, _ = _counted(evaluation, labels, criterion)
    scores = evaluation.scores[evaluation.scores["criterion"] == criterion]
    if scores.empty or dev.empty:
        return None
    return align(scores, dev, clusters=evaluation.clusters).iloc[0]


def _fitting(evaluation: Evaluation, labels: pd.DataFrame, criterion: str) -> pd.DataFrame:
    mine = labels[(labels["criterion"] == criterion).to_numpy()]
    return fitting(mine, evaluation.rubric.criterion(criterion).scale)


def _dev(evaluation: Evaluation, labels: pd.DataFrame, criterion: str) -> pd.DataFrame:
    """The dev labels of a criterion that mean something on its scale."""
    return _fitting(evaluation, labels[(labels["part"] == "dev").to_numpy()], criterion)


def _counted(evaluation: Evaluation, labels: pd.DataFrame, criterion: str) -> tuple[pd.DataFrame, list[str]]:
    """The dev labels of those who gave enough, and who did not yet."""
    mine, few = counting(_fitting(evaluation, labels, criterion))
    return mine[(mine["part"] == "dev").to_numpy()], few


def _people(row: pd.Series | None, last: pd.Series | None, name: str, few: list[str]) -> list[Tile]:
    if row is None:
        note = "no labels yet: open an item and label it"
        return [Tile("Agreement with people", "NA", note), Tile("Kappa", "NA", note)]
    compared = f"{row['n_verdicts']} of {counted(row['n_labelled'], 'labelled item')}, dev"
    if few:
        compared += f"; without {', '.join(few)}, under {ENOUGH_LABELS} labels"
    tiles = []
    for title, one in (("Agreement with people", "accuracy"), ("Kappa", "kappa")):
        value = figure(row[one], row[f"{one}_low"], row[f"{one}_high"])
        moved, mark = _moved(row, last, one, name)
        tiles.append(Tile(title, value, compared + _without_interval(row, one), moved, mark))
    if pd.isna(row["accuracy_ceiling"]):
        tiles.append(Tile("People among themselves", "NA", "one annotator: no ceiling"))
    else:
        value = f"{figure(row['accuracy_ceiling'])}, κ {figure(row['kappa_ceiling'])}"
        tiles.append(
            Tile("People among themselves", value, f"the ceiling; {counted(row['n_annotators'], 'annotator')}")
        )
    return tiles


def _without_interval(row: pd.Series, one: str) -> str:
    """Why a figure stands without its interval, from the notes of `align`."""
    if pd.isna(row[one]) or not pd.isna(row[f"{one}_low"]):
        return ""
    for note in str(row["notes"]).split("; "):
        names, _, why = note.removeprefix("no interval of ").partition(": ")
        if names != note and one in names.split(", "):
            return f"; no interval: {why}"
    return "; no interval"


def _moved(now: pd.Series, last: pd.Series | None, one: str, name: str) -> tuple[str, Mark]:
    if last is None or pd.isna(last[one]) or pd.isna(now[one]):
        return "", ""
    step = float(now[one]) - float(last[one])
    # A tie is no verdict: with another number of them the two figures are of other items.
    same = int(now["n_verdicts"]) == int(last["n_verdicts"])
    there = "" if same else f", which has {counted(last['n_verdicts'], 'verdict')}"
    if abs(step) < 0.005:
        return f"as {name}{there}", ""
    mark: Mark = "better" if step > 0 else "worse"
    return f"{'▲' if step > 0 else '▼'} {abs(step):.2f} against {name}{there}", mark if same else ""


def _split(evaluation: Evaluation, criterion: str) -> Tile:
    if len(evaluation.spec.judges) < 2:
        return Tile("Judges split", "NA", "one judge: nothing to compare")
    apart = evaluation.disagreement
    values = apart.loc[apart["criterion"] == criterion, "disagreement"].dropna()
    known = evaluation.reliability
    row = known[known["criterion"] == criterion].iloc[0]
    alpha = figure(row["alpha_single"], row["alpha_single_low"], row["alpha_single_high"])
    return Tile("Judges split", count_of((values > 0).sum(), len(values)), f"items; alpha {alpha}")


def _changed(evaluation: Evaluation, dev: pd.DataFrame, criterion: str, against: Evaluation | None, name: str) -> Tile:
    if against is None:
        return Tile("Changed", "–", "first version: nothing to compare with")
    row, why = change_of(evaluation, against, dev, criterion)
    if row is None:
        return Tile("Changed", "NA", why)
    value = f"{count_of(row['changed'], row['n_verdicts'])}"
    note = chance_words(row)
    up, down = ("fixed", "broke") if row["against"] == "labels" else ("now pass", "now fail")
    if pd.isna(row["against"]):
        return Tile("Changed", value, f"{note}, against {name}")
    mark: Mark = ""
    counts = f"▲ {row['fixed']} {up} ▼ {row['broke']} {down}"
    if row["against"] == "labels":
        counts += " on dev labels"
        mark = "better" if row["fixed"] > row["broke"] else "worse" if row["broke"] > row["fixed"] else ""
    return Tile("Changed", value, f"{note}, against {name}", counts, mark)


def _scored(evaluation: Evaluation, criterion: str) -> list[Tile]:
    summary = evaluation.summary
    rows = summary[summary["criterion"] == criterion]
    if rows.empty:
        return [Tile("Scored", "NA", "no items")]
    row = rows.iloc[0]
    missing = int(evaluation.judgments["error"].notna().sum())
    note = f"items; {counted(missing, 'judgment')} unscored" if missing else "items, no judgment unscored"
    scored = Tile("Scored", count_of(row["n_scored"], row["n_items"]), note)
    if pd.isna(row["pass_rate"]):
        value = figure(row["mean_norm"], row["norm_low"], row["norm_high"])
        return [Tile("Mean (0-1)", value, f"{row['n_mean']} of {counted(row['n_items'], 'item')}"), scored]
    value = figure(row["pass_rate"], row["pass_low"], row["pass_high"])
    return [Tile("Pass rate", value, f"{row['n_passed']} of {counted(row['n_verdicts'], 'verdict')}"), scored]


def _cost(evaluation: Evaluation) -> Tile:
    cost = evaluation.cost
    n = cost.n_live + cost.n_cached + cost.n_recorded + cost.n_missing
    paid, _, unpriced = str(cost.paid).partition("; ")
    share = (
        f"{cost.n_live} asked now, {(cost.n_cached + cost.n_recorded) / n:.0%} from the cache" if n else "no replies"
    )
    return Tile("Cost of this run", paid, "; ".join(filter(None, [share, unpriced])))


def counted_labels(evaluation: Evaluation, labels: pd.DataFrame) -> pd.DataFrame:
    """The dev labels of all criteria that count in the tiles: of each, of those who gave enough."""
    parts = [_counted(evaluation, labels, name)[0] for name in evaluation.rubric.names]
    return pd.concat(parts, ignore_index=True)


def cells_of(evaluation: Evaluation, labels: pd.DataFrame, criterion: str) -> list[Cell]:
    """The confusion matrix of one criterion on the dev labels; empty without labels.

    A jury's label stands in two columns where its verdict is not always what the label says by itself.
    """
    dev = _dev(evaluation, labels, criterion)
    scores = evaluation.scores[evaluation.scores["criterion"] == criterion]
    if dev.empty or scores.empty:
        return []
    scale = evaluation.rubric.criterion(criterion).scale
    answers = zip(scores["label"].astype(object), scores["passed"].astype(object), strict=True)
    beside = pd.Series([verdict_beside(label, passed, scale) for label, passed in answers], index=scores.index)
    if set(dev["label"].astype(str)) <= {"true", "false"}:
        beside[:] = ""  # people gave verdicts, and verdicts are what is counted
    made: list[Cell] = []
    for verdict in ("", "pass", "fail", "no verdict"):
        part = scores[(beside == verdict).to_numpy()]
        if len(part):
            table = confusion(part, dev).astype({"label_judge": object, "label_human": object})
            # one cell for what has no label, tied or unscored
            counts = table.groupby(["label_judge", "label_human"], dropna=False, sort=False)["n"].sum()
            found = counts.reset_index().to_dict("records")
            shown = {str(row["label_judge"]) for row in found if row["n"] or not verdict}
            made += [_cell(row, verdict, scale) for row in found if str(row["label_judge"]) in shown]
    order = {label: at for at, label in enumerate(dict.fromkeys([*scale.labels, *(cell.jury for cell in made)]))}
    return sorted(made, key=lambda cell: (cell.jury is None, order[cell.jury]))


def _cell(row: Mapping[Any, Any], verdict: str, scale: Scale) -> Cell:
    human, jury = str(row["label_human"]), None if pd.isna(row["label_judge"]) else str(row["label_judge"])
    return Cell(human, jury, int(row["n"]), _kind(human, jury, verdict, scale), verdict)


def _kind(human: str, jury: str | None, verdict: str, scale: Scale) -> Kind:
    """By verdicts where the criterion has a pass rule, else by labels."""
    if not scale.has_rule:
        return "none" if jury is None else "same" if human == jury else "differs"
    meant = _passes(human, scale)
    said = {"pass": True, "fail": False}.get(verdict) if verdict or jury is None else _passes(jury, scale)
    if said is None:
        return "none"
    if said == meant:
        return "same" if human == jury else "near"
    return "false pass" if said else "false fail"


def _passes(label: str, scale: Scale) -> bool | None:
    if label in ("true", "false"):
        return label == "true"
    code = scale.code(label)
    return None if code is None else scale.passed(code)
