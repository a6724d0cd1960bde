"""One item in full: inputs, prompt, and each judge's replies, explanations and vote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.engine import replies
from evalkit.errors import CacheMiss, EvalkitError
from evalkit.evaluation import Evaluation
from evalkit.rubrics import build_prompt
from evalkit.tables import input_text


def item_detail(evaluation: Evaluation, item_id: str, criterion: str, cache: Path | None = None) -> dict[str, Any]:
    """What the tuner shows of one item, as plain values; texts are escaped where they are drawn, not here.

    Parameters
    ----------
    evaluation
        The evaluation.
    item_id, criterion
        Which item and criterion.
    cache
        The cache folder that holds the raw replies.

    Returns
    -------
    dict
        ``inputs`` (name, text), ``prompt``, ``judges`` (name, vote, samples with label, explanation, error, reply).
    """
    items = evaluation.items
    item = items[items["item_id"] == item_id].iloc[0]
    rubric = evaluation.rubric
    inputs = [(name, _text(item[name])) for name in rubric.input_names if name in items.columns]
    try:
        prompt = str(build_prompt(rubric, item, criterion)) if evaluation.spec is not None else ""
    except EvalkitError as problem:
        prompt = f"({problem})"
    judged = evaluation.judgments
    mine = judged[(judged["item_id"] == item_id) & (judged["criterion"] == criterion)]
    try:
        raw = replies(mine, cache=cache).astype(object).tolist()
    except CacheMiss:
        raw = [None] * len(mine)  # they are in another cache
    votes = evaluation.votes
    votes = votes[(votes["item_id"] == item_id) & (votes["criterion"] == criterion)]
    return {
        "item_id": item_id,
        "criterion": criterion,
        "inputs": [pair for pair in inputs if pair[1]],
        "prompt": prompt,
        "judges": [_judge(str(vote["judge"]), vote, mine, raw) for _, vote in votes.iterrows()],
    }


def _judge(name: str, vote: pd.Series, judgments: pd.DataFrame, raw: list[Any]) -> dict[str, Any]:
    at = [number for number, judge in enumerate(judgments["judge"].astype(str)) if judge == name]
    rows = judgments.iloc[at]
    samples = [
        {
            "order": _plain(row["order"]),
            "label": _plain(row["label"]),
            "passed": None if pd.isna(row["passed"]) else bool(row["passed"]),
            "explanation": _plain(row["explanation"]),
            "error": _plain(row["error"]),
            "reply": _plain(raw[place]),
            "source": _plain(row["source"]),
        }
        for place, (_, row) in zip(at, rows.iterrows(), strict=True)
    ]
    return {
        "judge": name,
        "label": _plain(vote["label"]),
        "score": None if pd.isna(vote["score"]) else round(float(vote["score"]), 2),
        "passed": None if pd.isna(vote["passed"]) else bool(vote["passed"]),
        "reason": _plain(vote["reason"]),
        "samples": samples,
    }


def _plain(value: Any) -> str | None:
    return None if value is None or pd.isna(value) else str(value)


def _text(value: Any) -> str:
    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return ""
    shown = value if isinstance(value, str) else input_text(value)
    return shown if isinstance(shown, str) else "\n\n".join(map(str, shown))
