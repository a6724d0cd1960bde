"""One item in full: inputs, prompt, and each judge's replies, explanations and vote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.engine import replies
from evalkit.errors import CacheMiss, EvalkitError
from evalkit.evaluation import Evaluation
from evalkit.rubrics import build_prompt
from evalkit.rubrics.scales import Scale
from evalkit.tables.files import records
from evalkit.tables.messages import value_text


def item_detail(
    evaluation: Evaluation, item_id: str, criterion: str, cache: Path | str | None = None
) -> dict[str, Any]:
    """One item as the tuner shows it, as plain values; texts are escaped when they are drawn, not here.

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
    items, rubric = evaluation.items, evaluation.rubric
    item = items[items["item_id"] == item_id].iloc[0]
    try:
        prompt = "" if evaluation.spec is None else str(build_prompt(rubric, item, criterion, inputs=evaluation.inputs))
    except EvalkitError as problem:
        prompt = f"({problem})"
    judged = evaluation.judgments
    mine = judged[(judged["item_id"] == item_id) & (judged["criterion"] == criterion)]
    try:
        mine = mine.assign(reply=replies(mine, cache=cache).to_numpy(dtype=object))
    except CacheMiss:
        mine = mine.assign(reply=None)  # they are in another cache
    votes = evaluation.votes
    votes = votes[(votes["item_id"] == item_id) & (votes["criterion"] == criterion)]
    inputs = item_texts(items, evaluation.input_columns, item_id)
    judges = [_judge(vote, mine) for vote in records(votes)]
    return {"item_id": item_id, "criterion": criterion, "inputs": inputs, "prompt": prompt, "judges": judges}


def side_by_side(now: list[dict[str, Any]], before: list[dict[str, Any]]) -> dict[str, Any]:
    """The judges of an item in two versions: those of `now` with `before` and whether their replies are the `same`.

    ``gone`` has the judges that only `before` has.
    """
    old = {judge["judge"]: judge for judge in before}
    judges = []
    for judge in now:
        last = old.pop(judge["judge"], None)
        sides = [side["samples"] for side in (judge, last) if side]
        replies = [[(sample["reply"], sample["label"], sample["error"]) for sample in side] for side in sides]
        judges.append(judge | {"before": last, "same": len(replies) == 2 and replies[0] == replies[1]})
    return {"judges": judges, "gone": list(old.values())}


def item_texts(items: pd.DataFrame, columns: Mapping[str, str], item_id: str) -> list[tuple[str, str]]:
    """The inputs that an item has, as name and text; `columns` maps the inputs of the rubric to columns."""
    item = items[items["item_id"] == item_id].iloc[0]
    texts = [(name, value_text(item[column], name)) for name, column in columns.items()]
    return [pair for pair in texts if pair[1]]


def level_keys(scale: Scale) -> list[str]:
    """The keys that label an item, in the order of the levels: their codes if these are single characters, else 1-9.

    Examples
    --------
    >>> from evalkit.rubrics import load_rubric
    >>> [level_keys(load_rubric(name).criteria[0].scale) for name in ("faithfulness", "preference")]
    [['0', '1', '2'], ['1', '2', '3']]
    """
    codes = list(scale.labels)
    return codes if all(len(code) == 1 for code in codes) else list("123456789"[: len(codes)])


def _judge(vote: Mapping[str, Any], judgments: pd.DataFrame) -> dict[str, Any]:
    mine = judgments[(judgments["judge"] == vote["judge"]).to_numpy()]
    samples = list(records(mine[["order", "label", "passed", "explanation", "error", "reply", "source"]]))
    shown = {name: vote[name] for name in ("judge", "label", "score", "passed", "reason")}
    return shown | {"score": shown["score"] and round(shown["score"], 2), "samples": samples}
