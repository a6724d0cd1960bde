"""The items to review first: lowest scores, furthest from people, judges furthest apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pandas as pd

from evalkit.core.formatting import count_of, figure
from evalkit.errors import counted
from evalkit.evaluation import Evaluation
from evalkit.evaluation.wide_table import explanations
from evalkit.plots.judge_agreement import errors_of
from evalkit.rubrics.scales import Scale
from evalkit.tables import is_missing

_MOST = 5
_LONG = 2000

Pair = tuple[str, str]  # item_id, criterion


def items_to_review(evaluation: Evaluation) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """Title, note and up to five items of each kind. An item is shown in full once; later it is a link."""
    anchors: dict[Pair, str] = {}
    known = _Known(evaluation)
    kinds = []
    for title, note, pairs in _kinds(evaluation):
        cases = []
        for pair, why in pairs:
            is_new, anchor = pair not in anchors, anchors.setdefault(pair, f"item-{len(anchors) + 1}")
            head = {"anchor": anchor, "head": f"{' · '.join(pair)}: {why}", "about": " on ".join(pair)}
            cases.append(head | (known.facts(pair) if is_new else {}))
        if cases:
            kinds.append((title, note, cases))
    return kinds


def _kinds(evaluation: Evaluation) -> Iterator[tuple[str, str, list[tuple[Pair, str]]]]:
    scores = evaluation.scores
    pairs = list(zip(scores["item_id"].astype("str"), scores["criterion"].astype("str"), strict=True))
    norm = scores["score_norm"].to_numpy(dtype=np.float64)
    told = f"{count_of((~np.isnan(norm)).sum(), len(norm))} items and criteria are scored"
    yield "Lowest scores", told, _top(pairs, 1 - norm, "score {:.2f} on 0-1", lambda value: 1 - value)
    if evaluation.labels is not None:
        error = errors_of(scores, evaluation.labels)
        told = f"error 0-1 of the jury's score, {count_of((~np.isnan(error)).sum(), len(error))} have label and score"
        if len(evaluation.judges) < 2:
            told = told.replace("jury", "judge")
        yield "Furthest from people", told, _top(pairs, error, "error {:.2f}")
    apart = evaluation.disagreement
    values = apart["disagreement"].to_numpy(dtype=np.float64)
    if (~np.isnan(values)).any():
        pairs = list(zip(apart["item_id"].astype("str"), apart["criterion"].astype("str"), strict=True))
        told = f"disagreement 0-1, {count_of((~np.isnan(values)).sum(), len(values))} have two judges that scored"
        yield "Judges furthest apart", told, _top(pairs, values, "disagreement {:.2f}")


def _top(pairs: list[Pair], values: Any, text: str, shown: Any = lambda value: value) -> list[tuple[Pair, str]]:
    """The pairs with the largest values above 0, first rows first among equals."""
    order = np.argsort(-np.nan_to_num(values, nan=-1.0), kind="stable")
    return [(pairs[at], text.format(shown(values[at]))) for at in order[:_MOST] if values[at] > 0]


class _Known:
    """What is known of each item and criterion."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.inputs = evaluation.rubric.inputs
        self.items = evaluation.items.set_index("item_id")
        said = explanations(evaluation.judgments, evaluation.votes)
        votes = evaluation.votes.merge(said, on=["item_id", "criterion", "judge"], how="left")
        self.votes = self._by_pair(votes)
        self.labels = {} if evaluation.labels is None else self._by_pair(evaluation.labels)

    @staticmethod
    def _by_pair(table: pd.DataFrame) -> dict[Pair, list[dict[Any, Any]]]:
        rows: dict[Pair, list[dict[Any, Any]]] = {}
        for row in table.astype(object).to_dict("records"):
            rows.setdefault((str(row["item_id"]), str(row["criterion"])), []).append(row)
        return rows

    def facts(self, pair: Pair) -> dict[str, Any]:
        """Inputs, votes and labels."""
        item = self.items.loc[pair[0]]
        names = [name for name in self.inputs if name in item.index and not is_missing(item[name])]
        return {
            "inputs": [(name, _cut(_text(item[name]))) for name in names],
            "votes": [_vote(vote) for vote in self.votes.get(pair, [])],
            "people": ", ".join(f"{row['annotator']}: {row['label']}" for row in self.labels.get(pair, [])),
        }


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


def _text(value: Any) -> str:
    """An input as people read it: lists one below the other, messages with who speaks."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        if {"role", "content"} <= set(value):
            return f"{value['role']}: {_text(value['content'])}"
        return orjson.dumps(value, default=str).decode()
    if isinstance(value, (list, tuple, np.ndarray)):
        return "\n\n".join(_text(one) for one in value)
    return str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]}… ({counted(len(text) - _LONG, 'more character')})"
