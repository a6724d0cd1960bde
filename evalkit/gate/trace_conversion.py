"""Items and judgments to a trace file, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd

from evalkit.core.files import write_whole
from evalkit.core.rules import Rules
from evalkit.errors import InputError, counted
from evalkit.evaluation import Evaluation
from evalkit.gate.judging import rationale_of, sum_of
from evalkit.gate.judgments import Judgment, agreement_of, rubric_hash, rules_hash, verdict_key
from evalkit.gate.traces import read_traces
from evalkit.rubrics import Rubric, load_rubric
from evalkit.rubrics.prompts import input_hash, item_inputs
from evalkit.stats.aggregation import aggregate, combine
from evalkit.stats.voting import vote
from evalkit.tables import as_items, check

__all__ = ["from_traces", "to_traces"]

_OWN = ("item_id", "question", "answer", "context")
_CARRIED = {"model": str, "provider": str, "attempt": int, "meta": Mapping}
_RECORDED = (
    "item_id", "rubric", "rubric_version", "passed", "score", "agreement", "samples", "n_samples", "n_scored", "judge",
    "rationale", "cost_usd",
)  # fmt: skip
_NEED = ["rubric", "rubric_version", "item_id", "criterion", "judge", "sample", "score", "passed", "error", "key"]


def to_traces(items: Any, judgments: Any, path: str | Path) -> int:
    """Write items and what judges said of them as a trace file: one line an item, for `evalkit ci`.

    Parameters
    ----------
    items
        As for `judge`; `question` becomes the prompt, `answer` the response, `context` the context, `item_id` the
        ``request_id``; columns `model`, `provider`, `attempt` and `meta` (a mapping) go where `from_traces` found them,
        other columns to ``meta.item``.
    judgments
        The table of `judge` (votes and scores are then taken by the default rules), an `Evaluation` (by its own), or
        None: traces without judgments. What has no score for want of a reply (a time-out, a cache miss) is left out.
    path
        The file; replaced whole, at the end.

    Returns
    -------
    int
        The number of lines.

    Raises
    ------
    InputError
        When an item has no `question` or `answer`, or a judgment is of an item that is not there.

    Examples
    --------
    >>> import tempfile
    >>> import evalkit as ek
    >>> items = [{"item_id": "a", "question": "2 + 2?", "answer": "4", "context": ["2 + 2 is 4."]}]
    >>> table = ek.judge(items, "faithfulness", "fake:strict", samples=3, progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     n = to_traces(items, table, f"{folder}/traces.jsonl")
    ...     back, recorded = from_traces(f"{folder}/traces.jsonl")
    >>> n, back.loc[0, "answer"], recorded[["rubric", "n_samples"]].values.tolist()
    (1, '4', [['faithfulness', 3]])
    """
    frame = as_items(items)
    missing = [name for name in ("question", "answer") if name not in frame.columns]
    if missing:
        raise InputError(f"items have no column {' and '.join(map(repr, missing))}; a trace needs prompt and response")
    found = {} if judgments is None else _judged(judgments, frame)
    stray = set(found) - set(frame["item_id"])
    if stray:
        raise InputError(
            f"{counted(len(stray), 'judged item is', 'judged items are')} not among the items, first {min(stray)!r}"
        )
    rows: list[dict[Any, Any]] = frame.to_dict("records")
    lines = [_line(row, found.get(row["item_id"], {})) for row in rows]
    write_whole(path, lines)
    return len(lines)


def from_traces(path: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The items of a trace file, and the judgments that are recorded in it.

    Returns
    -------
    items : DataFrame
        One row a trace: `item_id` (the ``request_id``, else ``line N``; repeats end with their attempt), `question`,
        `answer`, `context` (a list) and, where any trace has them, `model`, `provider`, `attempt`, `meta` (a mapping of
        what is not evalkit's in it) and the columns of ``meta.item``.
    recorded : DataFrame
        One row a trace and rubric: `item_id`, `rubric`, `rubric_version`, `passed`, `score` (0-1), `agreement`,
        `samples` (True, False or None each), `n_samples`, `n_scored`, `judge`, `rationale`, `cost_usd`.

    Raises
    ------
    InputError
        For a line that is no trace, with its number.
    """
    rows, recorded = [], []
    for trace in read_traces(path):
        name = trace.name
        carried = {"model": trace.model, "provider": trace.provider, "attempt": trace.attempt, "meta": trace.own}
        carried = {field: value for field, value in carried.items() if value is not None}
        rows.append({"item_id": name, **trace.item, **carried})
        for rubric, raw in (trace.recorded or {}).items():
            samples = raw.get("samples") if isinstance(raw, Mapping) else None
            if not isinstance(samples, list):
                raise InputError(
                    f"{path}, line {trace.line}: meta.verdict.judge.{rubric}: expected a mapping with samples; "
                    "record the trace again"
                )
            counts = {"n_samples": len(samples), "n_scored": len([one for one in samples if one is not None])}
            recorded.append({"item_id": name, "rubric": rubric, **dict(raw), **counts})
    items = pd.DataFrame(rows)
    doubled = items.loc[items["item_id"].duplicated(), "item_id"]
    if len(doubled):
        raise InputError(f"{path}: request_id {doubled.iloc[0]!r} stands in several lines; repeats carry an attempt")
    return items, pd.DataFrame(recorded, columns=list(_RECORDED))


def _judged(judgments: Any, items: pd.DataFrame) -> dict[str, dict[str, Judgment]]:
    """item_id -> rubric id -> judgment; of an evaluation those of the items that it judged."""
    if isinstance(judgments, Evaluation):
        items = judgments.items
        parts = [(judgments.judgments, judgments.rubric, judgments.rules)]
    else:
        table = check(judgments, "judgments", need=_NEED)
        if table.duplicated(["rubric", "item_id", "criterion", "judge", "order", "sample"]).any():
            raise InputError("the judgments table has a row twice, or two versions of a rubric; give one at a time")
        names = table[["rubric", "rubric_version"]].drop_duplicates().astype(str)
        parts = [
            (table[(table["rubric"] == one).to_numpy()], load_rubric(f"{one}@{version}"), Rules())
            for one, version in names.itertuples(index=False)
        ]
    found: dict[str, dict[str, Judgment]] = {}
    for table, rubric, rules in parts:
        if rubric.mode == "pairwise":
            raise InputError(f"rubric {rubric.id} compares pairs; a trace holds one answer")
        for item, judgment in _of_rubric(table, rubric, rules, _input_hashes(rubric, items)):
            if judgment.is_final:
                found.setdefault(item, {})[rubric.id] = judgment
    return found


def _input_hashes(rubric: Rubric, items: pd.DataFrame) -> dict[str, str]:
    """item_id -> hash of what the rubric reads of it."""
    columns = {name: items[name].tolist() for name in rubric.input_names if name in items.columns}
    inputs = item_inputs(rubric, columns, len(items))
    return dict(zip(items["item_id"].tolist(), map(input_hash, inputs), strict=True))


def _of_rubric(
    table: pd.DataFrame, rubric: Rubric, rules: Rules, hashes: Mapping[str, str]
) -> Iterator[tuple[str, Judgment]]:
    if not len(table):
        return
    parts = {"rubric": rubric.id, "rubric_version": rubric.version, "rubric_hash": rubric_hash(rubric)}
    whole = combine(aggregate(vote(table, **rules.vote_options), **rules.aggregate_options), rubric)
    score_of = dict(zip(whole["item_id"].tolist(), whole["score_norm"].tolist(), strict=True))
    passed_of = dict(zip(whole["item_id"].tolist(), whole["passed"].tolist(), strict=True))
    ruled = [criterion.name for criterion in rubric.criteria if criterion.scale.has_rule]
    counted = ruled or [criterion.name for criterion in rubric.criteria]
    names = ("criterion", "judge", "sample", "passed", "error", "explanation", "key")
    costs = ("prompt_tokens", "completion_tokens", "cost_usd")
    for item, own in table.groupby("item_id", observed=True, sort=False):
        rows = {
            name: own[name].astype(object).where(own[name].notna(), None).tolist()
            for name in (*names, *costs)
            if name in own
        }
        score, passed = score_of[str(item)], passed_of[str(item)]
        verdict: bool | None = None if pd.isna(passed) else bool(passed)
        samples, judges = _samples(rows, counted), list(dict.fromkeys(map(str, rows["judge"])))
        weights = own.drop_duplicates("judge")["weight"].tolist() if "weight" in own else [1.0] * len(judges)
        reasons = pd.Series(rows["error"], dtype=object).dropna().value_counts()
        own_rules = rules_hash(rubric, rules, weights)
        yield (
            str(item),
            Judgment(
                rubric=rubric.id,
                rubric_version=rubric.version,
                passed=verdict,
                score=None if pd.isna(score) else float(score),
                source="live" if "live" in set(own["source"].dropna()) else "cache",
                samples=samples,
                agreement=agreement_of(samples),
                rationale=rationale_of(rows, verdict),
                judge=judges[0] if len(judges) == 1 else tuple(judges),
                keys=tuple(map(str, rows["key"])),
                verdict_key=verdict_key(
                    tuple(map(str, rows["key"])),
                    len(samples) // max(1, len(judges)),
                    own_rules,
                ),
                parts=parts | {"input_hash": hashes.get(str(item)), "rules_hash": own_rules},
                **{name: sum_of(rows[name]) for name in costs if name in rows},
                reasons={str(why): int(count) for why, count in reasons.items()} or None,
            ),
        )


def _samples(rows: Mapping[str, list[Any]], counted: list[str]) -> tuple[bool | None, ...]:
    """Judge by judge each sample over all criteria that count: it passes when all of them do."""
    found: dict[tuple[Any, Any], list[bool | None]] = {}
    for criterion, judge, sample, passed, error in zip(
        *(rows[name] for name in ("criterion", "judge", "sample", "passed", "error")), strict=True
    ):
        if criterion in counted:
            found.setdefault((judge, sample), []).append(None if error is not None else bool(passed))
    return tuple(None if None in said else all(said) for said in found.values())


def _line(row: Mapping[str, Any], judged: Mapping[str, Judgment]) -> bytes:
    context = row.get("context")
    if isinstance(context, float) or context is None:
        context = None
    elif isinstance(context, str):
        context = [context]
    carried = _carried(row)
    extra = {str(name): _plain(value) for name, value in row.items() if name not in (*_OWN, *carried)}
    meta: dict[str, Any] = carried.pop("meta", {})
    extra = {name: value for name, value in extra.items() if value is not None}
    if extra:
        meta["item"] = extra
    if judged:
        meta["verdict"] = meta.get("verdict", {}) | {"judge": {name: one.to_dict() for name, one in judged.items()}}
    line: dict[str, Any] = {"schema_version": 1, "type": "verdict.trace", "request_id": _request(row, carried)}
    line |= {"prompt": _text(row, "question")} | ({} if context is None else {"context": list(context)})
    line |= {"response": _text(row, "answer")} | carried | ({"meta": meta} if meta else {})
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def _carried(row: Mapping[str, Any]) -> dict[str, Any]:
    """What `from_traces` reads beside the item, where it is of the kind that a trace holds."""
    values = {name: _plain(row[name]) for name in _CARRIED if name in row}
    if isinstance(values.get("attempt"), float) and values["attempt"].is_integer():  # pandas, beside rows without
        values["attempt"] = int(values["attempt"])
    return {name: value for name, value in values.items() if isinstance(value, _CARRIED[name])}


def _request(row: Mapping[str, Any], carried: Mapping[str, Any]) -> str:
    """The item's id; that of a repeat without its number."""
    return str(row["item_id"]).removesuffix(f" #{carried['attempt']}" if "attempt" in carried else "")


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row[name]
    if not isinstance(value, str):
        raise InputError(f"item {row['item_id']!r}: {name} is {type(value).__name__}; a trace holds text")
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if value is None or (isinstance(value, float) and np.isnan(value)) or value is pd.NA or value is pd.NaT:
        return None
    return value if isinstance(value, (str, int, float, bool)) else str(value)
