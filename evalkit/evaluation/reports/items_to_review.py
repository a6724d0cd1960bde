"""The items that need eyes: lowest scores, furthest from people, judges furthest apart."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pandas as pd

from evalkit.core.formatting import count_of, figure, html_table
from evalkit.errors import counted
from evalkit.evaluation import Evaluation
from evalkit.evaluation.wide_table import explanations
from evalkit.plots.judge_agreement import errors_of
from evalkit.rubrics.scales import Scale
from evalkit.tables import is_missing

__all__ = ["cases"]

_MOST = 5
_LONG = 2000

Pair = tuple[str, str]  # item_id, criterion


def cases(evaluation: Evaluation) -> str:
    """Up to five items of each kind, with inputs, votes, explanations and labels; an item is shown in full once."""
    shown: dict[Pair, str] = {}
    known = _Known(evaluation)
    parts = []
    for title, note, chosen in _kinds(evaluation):
        if not chosen:
            continue
        parts.append(f"<h3>{html.escape(title)}</h3><p class='note'>{html.escape(note)}</p>")
        for pair, why in chosen:
            parts.append(_case(known, pair, why, shown))
    return "".join(parts)


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
        self.rubric = evaluation.rubric
        self.items = evaluation.items.set_index("item_id")
        self.votes = self._by_pair(evaluation.votes)
        self.scores = self._by_pair(evaluation.scores)
        said = explanations(evaluation.judgments, evaluation.votes)
        self.said = {
            (str(item), str(criterion), str(judge)): str(text)
            for item, criterion, judge, text in said[["item_id", "criterion", "judge", "explanation"]].itertuples(
                index=False
            )
        }
        self.labels = {} if evaluation.labels is None else self._by_pair(evaluation.labels)

    @staticmethod
    def _by_pair(table: pd.DataFrame) -> dict[Pair, list[dict[Any, Any]]]:
        found: dict[Pair, list[dict[Any, Any]]] = {}
        for row in table.astype(object).to_dict("records"):
            found.setdefault((str(row["item_id"]), str(row["criterion"])), []).append(row)
        return found


def _case(known: _Known, pair: Pair, why: str, shown: dict[Pair, str]) -> str:
    item, criterion = pair
    head = f"{item} · {criterion}: {why}"
    if pair in shown:
        return f"<p><a href='#{shown[pair]}'>{html.escape(head)}</a> (shown above)</p>"
    anchor = shown[pair] = f"item-{len(shown) + 1}"
    rows = [_vote(known, pair, vote) for vote in known.votes.get(pair, [])]
    people = ", ".join(f"{row['annotator']}: {row['label']}" for row in known.labels.get(pair, []))
    foot = f"<p>people say {html.escape(people)}</p>" if people else ""
    table = html_table(rows, caption=f"What the judges say of {item} on {criterion}", texts=("label", "explanation"))
    return f"<article id='{anchor}'><h4>{html.escape(head)}</h4>{_inputs(known, item)}{table}{foot}</article>"


def _vote(known: _Known, pair: Pair, vote: dict[Any, Any]) -> dict[str, str]:
    missing = is_missing(vote["score"]) and is_missing(vote["label"])
    passed = "" if is_missing(vote["passed"]) else "pass" if vote["passed"] else "fail"
    return {
        "judge": str(vote["judge"]),
        _score_of(vote): figure(vote["score"]),
        "label": "" if is_missing(vote["label"]) else str(vote["label"]),
        "verdict": passed,
        "samples scored": count_of(vote["n_scored"], vote["n_samples"]),
        "explanation": f"unscored: {vote['reason']}" if missing else known.said.get((*pair, str(vote["judge"])), ""),
    }


def _score_of(vote: dict[Any, Any]) -> str:
    scale = Scale.from_json(str(vote["level"]), str(vote["scale"]))
    return "score" if scale.level == "nominal" else f"score, {scale.lowest:g} to {scale.highest:g}"


def _inputs(known: _Known, item: str) -> str:
    row = known.items.loc[item]
    pairs = [(name, row[name]) for name in known.rubric.inputs if name in row.index and not is_missing(row[name])]
    texts = "".join(
        f"<dt>{html.escape(name)}</dt><dd class='text'>{html.escape(_cut(_text(value)))}</dd>" for name, value in pairs
    )
    return f"<dl>{texts}</dl>"


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
