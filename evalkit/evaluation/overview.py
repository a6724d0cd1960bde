"""The figures of an evaluation as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evalkit.core.formatting import (
    count_of,
    figure,
    html_page,
    html_table,
    html_tiles,
    noted,
    span,
    text_table,
    wrapped,
)
from evalkit.errors import counted
from evalkit.evaluation.items_with_criteria import (
    CRITERIA_MET,
    of_criteria,
    points_in_groups,
    score_tiles,
    scores_of_items,
)
from evalkit.stats.aggregation.summaries import summarize
from evalkit.stats.alignment.agreement_measures import FIGURES, SHOWN
from evalkit.stats.alignment.pass_probabilities import pass_probabilities
from evalkit.stats.alignment.pass_thresholds import pass_threshold
from evalkit.stats.intervals import cluster_codes, mean_interval
from evalkit.stats.result_tables import notes_of
from evalkit.tables.grouping import clusters_of

if TYPE_CHECKING:
    from evalkit.evaluation.evaluation import Evaluation

Rows = list[dict[str, str]]
Section = tuple[str, Rows, list[str]]
"""Title, rows and notes of a part of an evaluation; without a title it is a sentence."""

_ALL = "all criteria"
_FAR_APART = 0.05
_MOST_AXES = 20
_APART = (
    "a mean averages scores, a pass rate counts items at the pass mark or better: they can differ, and both are right"
)
_OTHER_ITEMS = (
    "judges are measured on different items: ties and unscored answers are left out; see align(ties=, unscored=)"
)
_BY_VERDICT = {name: FIGURES[name].shown for name in SHOWN if FIGURES[name].of == "kinds"}
_BY_SCORE = {name: FIGURES[name].shown for name in SHOWN if FIGURES[name].of == "scores"}
_OF_CHANCES = {"gap": "people − P", "brier": "Brier score", "slope": "slope"}
_AMONG_JUDGES = {"alpha_single": "alpha", "percent_agreement": "percent agreement", "spread": "spread"}


def text(evaluation: Evaluation, width: int | None = 80) -> str:
    """The evaluation on a terminal of `width` columns; None: as wide as its tables are."""
    blocks = [wrapped(heading(evaluation), width)]
    for title, rows, notes in _once(sections(evaluation)):
        table = text_table(rows, width=width, left=("criterion",)) if rows else ""
        blocks.append("\n".join(filter(None, [wrapped(title, width), table, wrapped("\n".join(notes), width)])))
    return "\n\n".join(blocks)


def _once(parts: Iterable[Section]) -> Iterator[Section]:
    """The sections, with each of their notes only where it stands first."""
    said: set[str] = set()
    for title, rows, notes in parts:
        lines = [line for line in notes if line not in said]
        said.update(lines)
        yield title, rows, lines


def page(evaluation: Evaluation) -> str:
    """The evaluation in a notebook."""
    parts = [f"<p>{html.escape(line)}</p>" for line in heading(evaluation).splitlines()]
    parts.append(tiles(evaluation) if len(evaluation.items) else "")
    for title, rows, notes in _once(sections(evaluation)):
        head = f"<h4>{html.escape(title)}</h4>" if title else ""
        parts.append(f"{head}{html_table(rows) if rows else ''}")
        parts += [f"<p class='note'>{html.escape(line)}</p>" for line in notes]
    return html_page(parts)


def heading(evaluation: Evaluation) -> str:
    """One line: rubric, number of items, judges and samples."""
    rubric, spec = evaluation.rubric, evaluation.spec
    unique = "" if evaluation.n_unique == len(evaluation.items) else f" ({evaluation.n_unique} distinct)"
    number, of_item = counted(len(evaluation.items), "item"), evaluation.items.get("of_item")
    if rubric.has_requirements and of_item is not None:
        number = f"{counted(len(of_item), 'criterion', 'criteria')} of {counted(of_item.nunique(), 'item')}"
    judged = f"judged by {', '.join(evaluation.judges)}, {_samples(evaluation)} each"
    line = f"{rubric.id}@{rubric.label}: {number}{unique}, {judged}"
    names = evaluation.judges if spec is None else [judge.provider for judge in spec.judges]
    stand_in = any(name.partition(":")[0] == "fake" for name in names)
    return line + ("\n(fake judges are evalkit's embedded stand-in, not an LLM)" if stand_in else "")


def _samples(evaluation: Evaluation) -> str:
    """Samples per judge; of recorded replies, the number that exists."""
    if not evaluation.judged["source"].eq("recorded").any():
        counts = evaluation.spec.counts if evaluation.spec else [evaluation.samples]
        return f"{span(counts)} {'sample' if {*counts} == {1} else 'samples'}"
    keys = ["item_id", "criterion", "judge", "order"]
    sizes = evaluation.judgments.groupby(keys, observed=True, dropna=False, sort=False).size()
    fewest, most = int(sizes.min()), int(sizes.max())
    return counted(most, "sample") if fewest == most else f"{fewest} to {most} samples"


def sections(evaluation: Evaluation, reasons: str = "explain") -> Iterator[Section]:
    """All parts; `reasons` is what shows why judgments are unscored."""
    if evaluation.items.empty:
        yield "No items: nothing to judge, no figures", [], []
        return
    yield from _points(evaluation)
    title = f"Criteria ({CRITERIA_MET}; not a score of items)" if of_criteria(evaluation) else "Scores"
    yield title, *_scores(evaluation)
    if evaluation.answer_notes:
        yield "", [], evaluation.answer_notes
    yield "Judges among themselves", *_reliability(evaluation)
    if evaluation.noted_alignment is not None:
        yield from _alignment(evaluation, evaluation.noted_alignment)
        yield from _probabilities(evaluation)
    unscored = int(evaluation.judged["error"].notna().sum())
    hint = [f"{counted(unscored, 'judgment')} unscored; {reasons} shows why"] * (unscored > 0)
    yield "", [], [f"Cost: {cost_of(evaluation)}", *hint]


def cost_of(evaluation: Evaluation) -> str:
    """The cost in words; what a table of judgments had asked was not asked now."""
    text = str(evaluation.cost)
    return text if evaluation.spec is not None else text.replace("asked now", "asked live", 1)


def _points(evaluation: Evaluation) -> Iterator[Section]:
    """The scores of items with criteria of their own: of all criteria, then of those of each axis."""
    table, problem = scores_of_items(evaluation)
    if table is None:
        yield from [("", [], [problem])] if problem else []
        return
    by_axis = points_in_groups(evaluation, by="axis").dropna(subset="axis")
    by_axis["axis"] = by_axis["axis"].replace("all", "the axis 'all'")
    rows, notes, tables = [], [], [table.assign(axis="all"), *([by_axis] if len(by_axis) else [])]
    for row in pd.concat(map(summarize, tables)).head(_MOST_AXES).to_dict("records"):
        rows.append({
            "axis": str(row["axis"]), "mean": figure(row["mean"], row["low"], row["high"]),
            "clipped": figure(row["clipped"], row["clipped_low"], row["clipped_high"]),
            "if open were bad / good": f"{figure(row['worst'])} / {figure(row['best'])}",
            "below 0": figure(row["below_0"]), "scored": count_of(row["n_scored"], row["n_items"]),
            "criteria scored": count_of(row["n_criteria"] - row["n_open"], row["n_criteria"]),
        })  # fmt: skip
        notes += [(rows[-1]["axis"], str(row["notes"]))] * (not pd.isna(row["notes"]))
    head = f"Points of {counted(len(table), 'item')} with criteria of their own"
    n_more = by_axis["axis"].nunique() + 1 - len(rows)
    more = [f"{n_more} more axes: ek.summarize(ek.points(…, by='axis'))"] * (n_more > 0)
    yield head, rows, ["an item with an open criterion has no score", *more, *noted(notes, len(rows), ", ")]


def _summaries(evaluation: Evaluation) -> list[dict[str, Any]]:
    """The rows of the summary; if several criteria can be combined, with a last row for all together."""
    rows = evaluation.summary.to_dict("records")
    scores = evaluation.rubric_scores if len(rows) > 1 else None
    if scores is not None and (scores["n_criteria"].any() or scores["passed"].notna().any()):
        whole = summarize(scores, clusters=evaluation.clusters)
        rows += whole.assign(criterion=_ALL).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def _scores(evaluation: Evaluation) -> tuple[Rows, list[str]]:
    rows, notes, summaries = [], [], _summaries(evaluation)
    for row in summaries:
        name, on_01 = str(row["criterion"]), figure(row["mean_norm"], row["norm_low"], row["norm_high"])
        bounds = f"{figure(row['worst'])} / {figure(row['best'])}"
        cells = {"criterion": name, "mean": _mean(row), "on 0-1": on_01, "if unscored were bad / good": bounds}
        rows.append(cells | {"pass rate": _passing(row), "scored": count_of(row["n_scored"], row["n_items"])})
        notes += [(name, note) for note in (*_gaps(evaluation, row), *_flips(evaluation, name))]
    said = ["95 % intervals; unscored items are left out of means, not counted as bad"]
    said += [_APART] * any(abs(row["mean_norm"] - row["pass_rate"]) > _FAR_APART for row in summaries)
    return rows, [*said, *noted(notes, len(rows), ", ")]


def _mean(row: dict[str, Any]) -> str:
    """The mean score; with the number of its items if some are scored and have no score of their own, as ties."""
    mean = figure(row["mean"], row["low"], row["high"])
    short = not pd.isna(row["mean"]) and row["n_mean"] < row["n_scored"]
    return f"{mean} ({row['n_mean']} of {row['n_scored']})" if short else mean


def _passing(row: dict[str, Any]) -> str:
    """The pass rate; with its counts if ties or failures left fewer verdicts than items."""
    rate = figure(row["pass_rate"], row["pass_low"], row["pass_high"])
    short = not pd.isna(row["pass_rate"]) and row["n_verdicts"] < row["n_items"]
    return f"{rate} ({row['n_passed']} of {row['n_verdicts']})" if short else rate


def _gaps(evaluation: Evaluation, row: dict[str, Any]) -> Iterator[str]:
    """Notes on a row of the summary: why a figure is NA, and warnings."""
    rubric, name = evaluation.rubric, row["criterion"]
    whole = name == _ALL
    scales = [one.scale for one in rubric.criteria if whole or one.name == name]
    has_rule = any(scale.has_rule for scale in scales) or (whole and rubric.pass_at is not None)
    scores = evaluation.rubric_scores.assign(label=None) if whole else evaluation.scores.query("criterion == @name")
    bare, tied = scores["score_norm"].isna() & scores["label"].isna(), scores["status"].eq("tied")
    if row["n_scored"] < row["n_items"]:
        silent = scores[bare & ~tied]
        why = _reasons(silent)
        missed = 0 if whole else int((silent["n_scored"] > 0).sum())
        if missed and len(evaluation.judges) > 1:
            quorum = evaluation.rules.quorum
            share = "all" if quorum == 1 else f"more than {quorum:.0%}"
            why += f"; quorum missed on {counted(missed, 'item')}: {share} of the judges' weight must have scored"
        yield f"{'nothing' if not row['n_scored'] else 'not all'} scored: {why}" if why else "not all scored"
    if not row["n_scored"]:
        return
    if n_tied := row["n_tied"]:
        lack = {"verdict": has_rule & scores["passed"].isna() & tied, "score": bare & tied}
        lacks = [what if n == n_tied else f"{what} ({n})" for what, at in lack.items() if (n := int(at.sum()))]
        yield f"{counted(n_tied, 'item')} tied: counted as scored, but without {' and '.join(lacks)}"
    nominal = all(scale.level == "nominal" for scale in scales)
    if pd.isna(row["mean"]) and (nominal or whole):
        yield "no mean on a nominal scale" if nominal else "no item is scored on every criterion"
    if pd.isna(row["pass_rate"]):
        yield "no verdict" if has_rule else "no pass rule"
    elif len(undecided := scores[~bare & ~tied & scores["passed"].isna()]):
        why = _reasons(undecided) or "no reason known"
        yield f"{counted(len(undecided), 'item')} scored, but without verdict: {why}"
    if not pd.isna(row["notes"]):
        yield str(row["notes"])


def _reasons(scores: pd.DataFrame) -> str:
    """The reasons of these rows, each with its number of items."""
    return ", ".join(f"{reason} {n}" for reason, n in scores["reason"].astype(object).value_counts().items())


def _flips(evaluation: Evaluation, criterion: str) -> Iterator[str]:
    """Pairs that were judged in both orders: how often each judge's answer follows the order."""
    votes = evaluation.order_flips
    for judge, flips in votes[votes["criterion"] == criterion].groupby("judge", observed=True)["order_flip"]:
        yield f"{judge} changes its answer with the order on {flips.sum()} of {counted(len(flips), 'item')}"


def _interval(row: Any, name: str) -> str:
    """A figure of a row with its interval."""
    return figure(row[name], row[f"{name}_low"], row[f"{name}_high"])


def _reliability(evaluation: Evaluation) -> tuple[Rows, list[str]]:
    if len(evaluation.judges) < 2:
        return [], ["one judge: nothing to compare"]
    items = dict(list(evaluation.disagreement.groupby("criterion", observed=True)))
    rows, notes = [], []
    for _, row in evaluation.noted_reliability.iterrows():
        criterion = str(row["criterion"])
        compared = items.get(criterion, evaluation.disagreement[:0])
        split, compared = compared["split"], compared.dropna(subset="disagreement")
        values = compared["disagreement"].to_numpy(dtype=np.float64)
        units = cluster_codes(clusters_of(compared["item_id"], evaluation.clusters))
        spread = mean_interval(values, units, bounds=(0, 1))
        mean = figure(values.mean() if len(values) else None, spread.low, spread.high)
        cells = {"criterion": criterion, "alpha": _interval(row, "alpha_single")}
        cells |= {"percent agreement": _interval(row, "percent_agreement"), "mean disagreement": mean}
        cells |= {"items that split": count_of(split.sum(), split.count())}
        rows.append(cells | {"compared": count_of(row["n_pairable"], row["n_items"])})
        notes += [(criterion, f"variance of scores from {shares}") for shares in [_spread(row)] if shares]
        if (lacking := int(row["n_pairable"]) - len(values)) > 0:
            left_out = f"{counted(lacking, 'item')} with fewer than two votes (a tie is no vote)"
            compared_by = "alpha and percent agreement compare samples"
            notes.append((criterion, f"mean disagreement and items that split leave out {left_out}; {compared_by}"))
        notes += [(criterion, note) for note in _notes(row, _AMONG_JUDGES)]
    return rows, noted(notes, len(rows), ", ")


def _notes(row: pd.Series, titles: dict[str, str]) -> list[str]:
    """The notes of a row about the figures with a title, and about the whole row."""
    return [text for note in notes_of(row) if (text := note.about(titles)) is not None]


def _spread(row: Any) -> str:
    """The sources of the variance of scores, as shares of the whole."""
    names = {"items": "item", "judges": "judge", "items × judges": "item_judge", "samples": "sample"}
    parts = {title: row[f"spread_{name}"] for title, name in names.items()}
    known = {name: float(value) for name, value in parts.items() if not pd.isna(value)}
    whole = sum(known.values())
    return ", ".join(f"{name} {value / whole:.0%}" for name, value in known.items()) if whole else ""


def _alignment(evaluation: Evaluation, alignment: pd.DataFrame) -> Iterator[Section]:
    """Verdicts (or labels) in one table, scores in another."""
    table = alignment[alignment["n_labelled"] > 0]
    dark = [name for name in evaluation.rubric.names if name not in set(table["criterion"])]
    unlabelled = [f"no labels for {', '.join(dark)}"] if dark else []
    if table.empty:
        yield "Judges against people", [], unlabelled
        return
    by_score = table[table[list(_BY_SCORE)].notna().any(axis=1)]
    yield "Judges against people, by verdict or label", *_aligned(table, _BY_VERDICT)
    if len(by_score):
        yield "Judges against people, by score", *_aligned(by_score, _BY_SCORE)
    if unlabelled:
        yield "", [], unlabelled


def _probabilities(evaluation: Evaluation) -> Iterator[Section]:
    """What P(pass) shows against people."""
    rows, notes, chances = [], [], pass_prob_rows(evaluation.votes, evaluation.labels, evaluation.clusters)
    if not chances:
        return
    several = len({row["criterion"] for row in chances}) > 1
    for row in chances:
        shown = {"judge": str(row["judge"])} | ({"criterion": str(row["criterion"])} if several else {})
        figures = {title: _interval(row, name) for name, title in _OF_CHANCES.items()}
        rows.append(shown | {"compared": count_of(row["n_labelled"], row["n_items"])} | figures)
        notes.append((" on ".join(shown.values()), row["sentence"]))
    cut = evaluation.rules.pass_prob_at
    lines = [] if cut is None else [f"verdicts here pass from a P(pass) of {cut:g} on"]
    yield "P(pass) against people", rows, [*lines, *noted(notes, len(rows), ", ")]


def pass_prob_rows(votes: pd.DataFrame, labels: Any, clusters: Any) -> list[dict[Any, Any]]:
    """The rows of `pass_probabilities`, from 30 labels on, each with the `sentence` that says what they show."""
    if "pass_prob" not in votes:
        return []
    table = pass_probabilities(votes, labels, clusters=clusters).table.dropna(subset="gap")
    if table.empty:
        return []
    cuts = pass_threshold(votes, labels, of="pass_prob", clusters=clusters).set_index(["criterion", "judge"])
    rows = table.to_dict("records")
    for row in rows:
        cut = _cut_sentence(cuts.loc[str(row["criterion"]), str(row["judge"])])
        why = "" if pd.isna(row["notes"]) or row["notes"] in cut else f"; {row['notes']}"
        row["sentence"] = f"{_gap_sentence(row)}; {cut}{why}"
    return rows


def _gap_sentence(row: Mapping[Any, Any]) -> str:
    """Whether people pass more or fewer items than P(pass) says."""
    turned = "people pass fewer of the items with a higher P(pass); " if row["slope_high"] < 0 else ""
    if not (row["gap_low"] > 0 or row["gap_high"] < 0):  # as where there is no interval
        return f"{turned}people's pass rate is not shown to differ from the mean P(pass)"
    side = "fewer" if row["gap"] < 0 else "more"
    return f"{turned}people pass {side} items than P(pass) says, by {figure(abs(row['gap']))} of the items"


def _cut_sentence(row: Any) -> str:
    """Whether a cut agrees better with people than .5: what labels show that it was not chosen on."""
    if pd.isna(row["out_of_fold"]):
        return f"no cut is chosen: {row['notes']}"
    if pd.isna(row["n_needed"]):
        return (
            "no cut agrees better with people than 0.5 and than one verdict for all items out of fold: there is none "
            "to keep"
        )
    gain = f"a cut at {row['cut']:g} agrees with people on {figure(row['out_of_fold'])} of the items out of fold"
    look = "pass_threshold(…, of='pass_prob', part='held-out') shows whether to keep it"
    return f"{gain}, 0.5 on {figure(row['present'])}; {look}"


def _aligned(table: pd.DataFrame, titles: dict[str, str]) -> tuple[Rows, list[str]]:
    rows, notes = [], []
    several = table["criterion"].nunique() > 1
    for _, row in table.iterrows():
        shown = {"judge": str(row["judge"])} | ({"criterion": str(row["criterion"])} if several else {})
        name = " on ".join(shown.values())
        figures = {title: _interval(row, figure_name) for figure_name, title in titles.items()}
        compared = "n_verdicts" if titles is _BY_VERDICT else "n_scored"
        rows.append(shown | {"compared": count_of(row[compared], row["n_labelled"])} | figures)
        notes += [(name, note) for note in (*_notes(row, titles), *_undefined(row, titles))]
    said = [_among_people(table, titles)]
    if titles is _BY_VERDICT and not table["same_items"].all():
        said.append(_OTHER_ITEMS)
    return rows, [*filter(None, said), *noted(notes, len(rows), ", ")]


def _undefined(row: Any, titles: dict[str, str]) -> Iterator[str]:
    """Why an error rate is NA."""
    if "false_pass_rate" not in titles or pd.isna(row["accuracy"]):
        return
    no_fail, no_pass = pd.isna(row["false_pass_rate"]), pd.isna(row["false_fail_rate"])
    if no_fail and no_pass:
        yield "labels are compared, because there are no verdicts"
    elif no_fail or no_pass:
        yield f"false {'pass' if no_fail else 'fail'}: people {'failed' if no_fail else 'passed'} none of them"


def _among_people(table: pd.DataFrame, titles: dict[str, str]) -> str:
    said = []
    for _, row in table.drop_duplicates("criterion").iterrows():
        people = {title: row.get(f"{name}_people") for name, title in titles.items()}
        if known := [f"{title} {figure(value)}" for title, value in people.items() if not pd.isna(value)]:
            said.append(f"{row['criterion']}: {', '.join(known)} ({counted(row['n_annotators'], 'annotator')})")
    return f"people among themselves: {'; '.join(said)}" if said else ""


def tiles(evaluation: Evaluation) -> str:
    """The headline figures, each with interval and coverage."""
    tiles = [(value, f"item score, {name}", note) for name, value, note in score_tiles(evaluation)]
    for row in _summaries(evaluation):
        unit, names = "0-1", ("mean_norm", "norm_low", "norm_high", "n_scored")
        if of_criteria(evaluation) and not pd.isna(row["pass_rate"]):  # without ties, as in browser and tuner
            unit, names = CRITERIA_MET, ("pass_rate", "pass_low", "pass_high", "n_verdicts")
        *ends, n = (row[name] for name in names)
        tiles.append((figure(*ends), f"{row['criterion']} ({unit})", f"{count_of(n, row['n_items'])} scored"))
    if len(evaluation.judges) > 1:
        for _, alpha in evaluation.reliability.iterrows():
            note = f"{counted(alpha['n_judges'], 'judge')}, {count_of(alpha['n_pairable'], alpha['n_items'])} compared"
            tiles.append((_interval(alpha, "alpha_single"), f"alpha, {alpha['criterion']}", note))
    if evaluation.alignment is not None:
        labelled = evaluation.alignment[evaluation.alignment["n_labelled"] > 0]
        for _, first in labelled.drop_duplicates("criterion").iterrows():  # the jury's row is the first
            note = f"{first['judge']}, {count_of(first['n_verdicts'], first['n_labelled'])} compared"
            tiles.append((_interval(first, "accuracy"), f"accuracy against people, {first['criterion']}", note))
    return html_tiles(tiles)
