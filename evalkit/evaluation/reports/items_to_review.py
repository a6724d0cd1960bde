"""The items to review first: lowest scores, furthest from people, judges furthest apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.formatting import count_of, figure
from evalkit.errors import counted
from evalkit.evaluation import Evaluation
from evalkit.evaluation.items_with_criteria import criteria_of, got_words, number, of_criteria, scores_of_items
from evalkit.evaluation.wide_table import explanations
from evalkit.plots.judge_agreement import errors_of
from evalkit.rubrics.scales import Scale
from evalkit.stats.alignment.label_splits import take_part
from evalkit.stats.plain_tables import key_text
from evalkit.tables.files import records
from evalkit.tables.items import is_missing
from evalkit.tables.messages import value_text
from evalkit.tables.schemas import empty

_MOST = 5
_MOST_CRITERIA = 40
_LONG = 2000

Pair = tuple[str, str]  # item_id, criterion


def items_to_review(evaluation: Evaluation) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """Title, note and up to five items of each kind. An item is shown in full once; later it is a link."""
    anchors: dict[Pair, str] = {}
    known = _Known(evaluation)
    kinds = _lowest_items(evaluation, known)
    for title, note, pairs in _kinds(evaluation, known):
        cases = []
        for pair, why in pairs:
            is_new, anchor = pair not in anchors, anchors.setdefault(pair, f"item-{len(anchors) + 1}")
            head = {"anchor": anchor, "head": f"{' · '.join(pair)}: {why}", "about": " on ".join(pair)}
            cases.append(head | (known.facts(pair) if is_new else {}))
        if cases:
            kinds.append((title, note, cases))
    return kinds


def _kinds(evaluation: Evaluation, known: _Known) -> Iterator[tuple[str, str, list[tuple[Pair, str]]]]:
    scores, apart = evaluation.scores, evaluation.disagreement
    norm = scores["score_norm"].to_numpy(dtype=np.float64)
    note = f"{_share(norm)} pairs of item and criterion are scored"
    if not of_criteria(evaluation):
        yield "Lowest scores", note, _top(scores, 1 - norm, "score {:.2f} on 0-1", 1)
    if evaluation.labels is not None:
        errors, who = errors_of(scores, known.labels), "judge" if len(evaluation.judges) < 2 else "jury"
        note = f"error 0-1 of the {who}'s score; {_share(errors)} have label and score"
        yield "Furthest from people", note, _top(scores, errors, "error {:.2f}")
    values = apart["disagreement"].to_numpy(dtype=np.float64)
    note = f"disagreement 0-1; {_share(values)} were scored by two judges or more"
    yield "Judges furthest apart", note, _top(apart, values, "disagreement {:.2f}")


def _lowest_items(evaluation: Evaluation, known: _Known) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """The items with the lowest scores, each with its criteria: first those that cost most, or are open."""
    table, _ = scores_of_items(evaluation)
    cases: list[dict[str, Any]] = []
    middle = pd.Series() if table is None else table["score"].fillna((table["low"] + table["high"]) / 2).dropna()
    for row in [] if table is None else records(table.loc[middle.sort_values(kind="stable").index[:_MOST]]):
        item, (points, share) = key_text(row["item_id"]), got_words(row)
        criteria = criteria_of(evaluation, item, row["criterion"])
        criteria.sort(key=_lost)
        cases.append({
            "anchor": f"of-item-{len(cases) + 1}", "about": item, "people": [],
            "head": f"{item}: {points} points, score {share}; {row['n_open']} of {len(criteria)} criteria open",
            "inputs": [text for text in known.texts(criteria[0]["row"]) if text[0] != "requirement"],
            "votes": [{
                "criterion": _cut(f"{entry['id']} {entry['text']}") + f" ({entry['needs']})" * bool(entry["needs"]),
                "axis": entry["axis"] or "", "points": number(entry["worth"], "+"), "jury": entry["met"] or "open",
                "counts": number(entry["earned"], "+"),
                "explanation": _reasons(entry),
            } for entry in criteria[:_MOST_CRITERIA]]})  # fmt: skip
    note = f"an open item stands at the middle of its range; at most {_MOST_CRITERIA} criteria, those that cost most"
    return [("Lowest item scores", note, cases)] if cases else []


def _lost(entry: dict[str, Any]) -> float:
    """What a criterion takes from its item, below 0; one that is open, what it may take."""
    worth, earned = entry["worth"], entry["earned"]
    return float(-abs(worth) if earned is None else earned - max(0.0, worth))


def _reasons(entry: dict[str, Any]) -> str:
    """What the judges wrote about a criterion, each with its verdict."""
    verdicts = {judge: f" ({str(passed).lower()})" for judge, _, passed in entry["votes"] if passed is not None}
    return " · ".join(f"{who}{verdicts.get(who, '')}: {error or _cut(why)}" for who, why, error in entry["reasons"])


def _share(values: Any) -> str:
    return count_of((~np.isnan(values)).sum(), len(values))


def _top(table: pd.DataFrame, values: Any, text: str, most: float | None = None) -> list[tuple[Pair, str]]:
    """The rows with the largest values above 0, the first row first if equal; shown as `most` - value, if given."""
    pairs = list(zip(table["item_id"].astype("str"), table["criterion"].astype("str"), strict=True))
    order = np.argsort(-np.nan_to_num(values, nan=-1.0), kind="stable")[:_MOST]
    shown = values if most is None else most - values
    return [(pairs[at], text.format(shown[at])) for at in order if values[at] > 0]


class _Known:
    """The facts about each item and criterion; of labels that are split, the dev ones."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.inputs = evaluation.input_columns
        self.items = evaluation.items.set_index("item_id")
        reasons = explanations(evaluation.judgments, evaluation.votes)
        self.votes = evaluation.votes.merge(reasons, on=["item_id", "criterion", "judge"], how="left")
        self.labels, _ = take_part(empty("labels") if evaluation.labels is None else evaluation.labels, None)

    def facts(self, pair: Pair) -> dict[str, Any]:
        """Inputs, votes and labels."""
        return {
            "inputs": self.texts(pair[0]),
            "votes": [_vote(vote) for vote in _rows_of(self.votes, pair)],
            "people": [f"{row['annotator']}: {row['label']}" for row in _rows_of(self.labels, pair)],
        }

    def texts(self, item_id: str) -> list[tuple[str, str]]:
        """Its inputs."""
        item = self.items.loc[item_id]
        inputs = {name: item[column] for name, column in self.inputs.items() if not is_missing(item[column])}
        return [(name, _cut(value_text(value, name))) for name, value in inputs.items()]


def _rows_of(table: pd.DataFrame, pair: Pair) -> list[dict[Any, Any]]:
    mine = (table["item_id"] == pair[0]) & (table["criterion"] == pair[1])
    return table[mine.to_numpy(dtype=bool)].astype(object).to_dict("records")


def _vote(vote: dict[Any, Any]) -> dict[str, str]:
    scale = Scale.from_json(str(vote["level"]), str(vote["scale"]))
    score = "score" if scale.level == "nominal" else f"score, {scale.lowest:g} to {scale.highest:g}"
    unscored = is_missing(vote["score"]) and is_missing(vote["label"])
    explanation = f"unscored: {vote['reason']}" if unscored else vote["explanation"]
    return {
        "judge": str(vote["judge"]),
        score: figure(vote["score"]),
        "label": "" if is_missing(vote["label"]) else str(vote["label"]),
        "verdict": "" if is_missing(vote["passed"]) else "pass" if vote["passed"] else "fail",
        "samples scored": count_of(vote["n_scored"], vote["n_samples"]),
        "explanation": "" if is_missing(explanation) else explanation,
    }


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]}… ({counted(len(text) - _LONG, 'more character')})"
