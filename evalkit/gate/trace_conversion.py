"""Converting items and judgments to a trace file, and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from evalkit.core.files import write_whole
from evalkit.core.settings import Rules
from evalkit.errors import InputError, counted
from evalkit.evaluation import Evaluation
from evalkit.gate.judgment import Judgment, input_hashes, judgments_of, rubric_hash
from evalkit.gate.traces import read_traces
from evalkit.rubrics import load_rubric
from evalkit.tables.files import records
from evalkit.tables.items import ItemsLike, as_items
from evalkit.tables.schemas import check, id_text

_FIELDS = {"question": "prompt", "context": "context", "answer": "response"}
"""Input -> field of a trace, where it is text."""
_CARRIED = {"model": str, "provider": str, "attempt": int, "meta": Mapping}
_RECORDED = (
    "item_id", "rubric", "rubric_version", "passed", "score", "agreement", "samples", "n_samples", "n_scored", "judge",
    "rationale", "cost_usd",
)  # fmt: skip
_NEED = ["rubric", "rubric_version", "item_id", "criterion", "judge", "sample", "score", "passed", "error", "key"]


def to_traces(
    items: ItemsLike, judgments: pd.DataFrame | Evaluation | None, path: str | Path, *, item_id: str | None = None
) -> int:
    """Write items and their judgments as a trace file for `evalkit ci`: one line per item.

    Parameters
    ----------
    items
        As for `judge`; `question` becomes the prompt, `answer` the response, `context` the context, `item_id` the
        ``request_id``; columns `model`, `provider`, `attempt` and `meta` (a mapping) become those fields of the trace.
        Other inputs of the rubric are written by name to ``meta.inputs``, other columns to ``meta.item``. Without
        judgments the rubric is unknown: if there is no `question` or no `answer`, all other columns are inputs.
    judgments
        The table of `judge` (aggregated by the default rules), an `Evaluation` (aggregated by its rules), or None for
        traces without judgments. Judgments unscored because a reply is missing (timeout, cache miss) are left out.
    path
        The file; it is replaced as a whole.
    item_id
        The column that holds the ids.

    Returns
    -------
    int
        The number of lines.

    Raises
    ------
    InputError
        When an item has no inputs at all, or an `attempt` in its `meta`, or a judged item is not among the items.

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
    judgments = judgments.own if isinstance(judgments, Evaluation) else judgments
    frame = _by_input(as_items(items, item_id=item_id), judgments)
    by_item, inputs = ({}, _possible_inputs(frame)) if judgments is None else _judgments_by_item(judgments, frame)
    if isinstance(judgments, Evaluation) and "of_item" in judgments.items and "of_item" not in frame:
        by_item = _by_own_item(judgments.items, by_item)  # the items bring criteria
    if missing := sorted(set(by_item) - set(frame["item_id"])):
        raise InputError(
            f"{counted(len(missing), 'judged item')} not found among the items (the first: {missing[0]!r}); pass all "
            "items that were judged, and item_id= if their ids are in another column"
        )
    lines = [_line(row, by_item.get(row["item_id"], {}), inputs) for row in records(frame)]
    write_whole(path, lines)
    return len(lines)


def from_traces(path: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The items of a trace file, and the judgments recorded in it.

    Returns
    -------
    items : DataFrame
        One row per trace: `item_id` (the ``request_id``, else ``line N``; repeats end with their attempt) and, where
        any trace has them, `question`, `answer`, `context` (a list), the inputs of ``meta.inputs``, `model`,
        `provider`, `attempt`, `meta` (without evalkit's own keys) and the columns of ``meta.item``.
    recorded : DataFrame
        One row per trace and rubric: `item_id`, `rubric`, `rubric_version`, `passed`, `score` (0-1), `agreement`,
        `samples` (True, False or None each), `n_samples`, `n_scored`, `judge`, `rationale`, `cost_usd`.

    Raises
    ------
    InputError
        For an invalid line, with its number.
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
                    f"{path}, line {trace.line}: meta.verdict.judge.{rubric}: expected a mapping with a list of "
                    "samples; record the trace again"
                )
            counts = {"n_samples": len(samples), "n_scored": len([one for one in samples if one is not None])}
            recorded.append({"item_id": name, "rubric": rubric, **dict(raw), **counts})
    items = pd.DataFrame(rows)
    duplicates = items.loc[items["item_id"].duplicated(), "item_id"]
    if len(duplicates):
        raise InputError(
            f"{path}: several lines have request_id {duplicates.iloc[0]!r}; give each repeat of a trace a different "
            "'attempt'"
        )
    return items, pd.DataFrame(recorded, columns=list(_RECORDED))


def _by_input(items: pd.DataFrame, judgments: pd.DataFrame | Evaluation | None) -> pd.DataFrame:
    """The items with the inputs of an evaluation's rubric under their own names."""
    if not isinstance(judgments, Evaluation):
        return items
    columns = {name: column for name, column in judgments.inputs.items() if name != column and column in items.columns}
    return items.drop(columns=list(columns.values())).assign(**{name: items[one] for name, one in columns.items()})


def _by_own_item(rows: pd.DataFrame, by_row: Mapping[str, Mapping[str, Judgment]]) -> dict[str, dict[str, Judgment]]:
    """item_id -> name in a trace (``requirement#ID``) -> judgment, from those of the rows of criteria."""
    by_item: dict[str, dict[str, Judgment]] = {}
    for row, item in zip(rows["item_id"], rows["of_item"].map(id_text), strict=True):
        for rubric, judgment in by_row.get(row, {}).items():
            by_item.setdefault(item, {})[f"{rubric}{row.removeprefix(item)}"] = judgment
    return by_item


def _possible_inputs(items: pd.DataFrame) -> set[str]:
    """Which columns are inputs of an unknown rubric: if there is no question or no answer, all but ids."""
    has_both = {"question", "answer"} <= {*items.columns}
    return set() if has_both else {*items.columns} - {"item_id", "group_id", "system_id", *_CARRIED}


def _judgments_by_item(
    judgments: pd.DataFrame | Evaluation, items: pd.DataFrame
) -> tuple[dict[str, dict[str, Judgment]], set[str]]:
    """item_id -> rubric id -> judgment; and the names of the inputs of these rubrics."""
    if isinstance(judgments, Evaluation):
        items = _by_input(judgments.items, judgments)
        parts = [(judgments.judgments, judgments.rubric, judgments.rules)]
    else:
        table = check(judgments, "judgments", need=_NEED)
        if table.duplicated(["rubric", "item_id", "criterion", "judge", "order", "sample"]).any():
            raise InputError(
                "the judgments table has duplicate rows, or rows of two rubric versions; keep the rows of one version"
            )
        names = table[["rubric", "rubric_version"]].drop_duplicates().astype(str)
        parts = [
            (table[(table["rubric"] == one).to_numpy()], load_rubric(f"{one}@{version}"), Rules())
            for one, version in names.itertuples(index=False)
        ]
    by_item: dict[str, dict[str, Judgment]] = {}
    inputs = {name for _, rubric, _ in parts for name in rubric.input_names}
    for table, rubric, rules in parts:
        if rubric.mode == "pairwise":
            raise InputError(f"rubric {rubric.id} compares two answers, but a trace has one; use a pointwise rubric")
        own = {"rubric": rubric.id, "rubric_version": rubric.version, "rubric_hash": rubric_hash(rubric)}
        hashes = zip(items["item_id"].tolist(), input_hashes(rubric, items), strict=True)
        found = judgments_of(table, rubric, rules, {item: own | {"input_hash": hashed} for item, hashed in hashes})
        for item, judgment in found.items():
            if judgment.is_final:
                by_item.setdefault(item, {})[rubric.id] = judgment
    return by_item, inputs


def _line(row: Mapping[str, Any], judged: Mapping[str, Judgment], inputs: Collection[str]) -> bytes:
    fields = _fields(row)
    carried = _carried({name: value for name, value in row.items() if name not in inputs})
    # a trace without prompt or response has all its inputs by name
    is_whole = {"prompt", "response"} <= fields.keys()
    written = {"item_id", *carried, *(name for name, field in _FIELDS.items() if is_whole and field in fields)}
    values = {name: value for name, value in row.items() if name not in written and value is not None}
    by_name = {name: value for name, value in values.items() if name in inputs or name in _FIELDS}
    if not by_name and not is_whole:
        raise InputError(f"item {row['item_id']!r} has no inputs; give it those of the rubric, by their names")
    extra = {name: value for name, value in values.items() if name not in by_name}
    meta: dict[str, Any] = dict(carried.pop("meta", {}))
    if meta.get("attempt") is not None:
        raise InputError(f"item {row['item_id']!r}: meta.attempt is not read; pass it in the column attempt")
    meta |= ({"inputs": by_name} if by_name else {}) | ({"item": extra} if extra else {})
    if judged:
        meta["verdict"] = meta.get("verdict", {}) | {"judge": {name: one.to_dict() for name, one in judged.items()}}
    # the id of a repeat ends with its number
    request = str(row["item_id"]).removesuffix(f" #{carried['attempt']}" if "attempt" in carried else "")
    line: dict[str, Any] = {"schema_version": 1, "type": "verdict.trace", "request_id": request}
    line |= fields | carried | ({"meta": meta} if meta else {})
    options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    return orjson.dumps(line, default=str, option=options)


def _carried(row: Mapping[str, Any]) -> dict[str, Any]:
    """The values of `_CARRIED` that have the type of the trace's field."""
    values = {name: row[name] for name in _CARRIED if name in row}
    if isinstance(values.get("attempt"), float) and values["attempt"].is_integer():  # in pandas, beside missing values
        values["attempt"] = int(values["attempt"])
    return {name: value for name, value in values.items() if isinstance(value, _CARRIED[name])}


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Prompt, context and response of a trace: of the inputs those that are text, and a context of texts."""
    values = {field: row.get(name) for name, field in _FIELDS.items()}
    if isinstance(values["context"], str):
        values["context"] = [values["context"]]
    allowed = {field: isinstance(value, str) for field, value in values.items()}
    allowed["context"] = isinstance(values["context"], list) and all(isinstance(one, str) for one in values["context"])
    return {field: value for field, value in values.items() if allowed[field]}
