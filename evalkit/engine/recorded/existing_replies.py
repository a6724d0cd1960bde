"""Existing replies: store them under the keys that `judge` uses, and fetch them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pandas as pd

from evalkit.core.judges import JudgesLike
from evalkit.core.lists_of_choices import OnMissing
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import KeyParts
from evalkit.engine.cache import ReplyStore
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import CacheMiss, ConfigError, InputError, counted, listed
from evalkit.rubrics.profiles import RubricLike
from evalkit.tables.items import ItemsLike, id_texts, is_missing
from evalkit.tables.schemas import check

Replies = Sequence[Any] | Mapping[Any, Any] | pd.DataFrame
"""Texts by item: in the items' order, by id, or as a table."""


def record(
    items: ItemsLike,
    rubric: RubricLike,
    judge: JudgesLike,
    replies: Replies,
    *,
    criterion: str | None = None,
    order: str | None = None,
    template: str | None = None,
    item_id: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    on_missing: OnMissing = "raise",
    overwrite: bool = False,
    cache: str | Path | None = None,
) -> int:
    """Store existing replies, to be replayed by ``judge(…, offline=True)``.

    A reply belongs to one item, by its id: items of equal content keep their own replies.

    Parameters
    ----------
    items, rubric, template, item_id, inputs, on_missing, cache
        As for `judge`. The replies of skipped items are not stored.
    judge
        The judge that gave the replies: one.
    replies
        The raw texts, one or a list per item: in the order of the items, or as a mapping from item id; reply i is
        sample i. Or a table with the columns `item_id` and `reply` (and `sample`), as `import_judgments` returns it.
        None is skipped. A `Reply` may have tokens and a cost.
    criterion
        The criterion that the replies are about; optional if there is only one.
    order
        For pairwise rubrics: ``AB`` (default) or ``BA``, the order in which the answers were shown.
    overwrite
        Replace an item's stored reply by a different one; the old one stays as an older generation.

    Returns
    -------
    int
        How many replies were stored, without those that were stored already.

    Raises
    ------
    InputError
        When there is not one list per item, or another reply is stored for an item.

    Examples
    --------
    >>> import tempfile
    >>> items = [{"item_id": "a", "question": "When?", "answer": "In May.", "context": "It opens in May."}]
    >>> reply = '{"explanation": "so it says", "score": 2}'
    >>> record(items, "faithfulness", "openai:gpt-4o-mini", {"a": reply}, cache=tempfile.mkdtemp())
    1
    """
    # a recorded reply judges one criterion, whatever the profile sets for calls
    spec = Spec.of(rubric, judge, 1, template, inputs=inputs, on_missing=on_missing, criteria_per_call=1)
    if len(spec.judges) != 1:
        raise ConfigError(f"record takes one judge at a time, got {len(spec.judges)} judges")
    pairwise = spec.rubric.mode == "pairwise"
    if order not in ((None, "AB", "BA") if pairwise else (None,)):
        allowed = "'AB' or 'BA'" if pairwise else "None: this rubric is not pairwise"
        raise ConfigError(f"unknown order {order!r}; allowed: {allowed}")
    worklist = Worklist.of(spec, items, item_id)
    parts = worklist.parts[spec.rubric.names.index(spec.rubric.criterion(criterion).name)][0]
    now, swapped = time.time(), int(order == "BA")
    recordings: list[_Recording] = []
    for number, item_replies in enumerate(_by_item(replies, worklist)):
        item, own_hash = worklist.ids[number], worklist.recorded_hashes(number)[swapped]
        is_list = isinstance(item_replies, (list, tuple, np.ndarray, pd.Series))
        for sample, value in enumerate(item_replies if is_list else [item_replies]):
            if is_missing(value) or worklist.skipped.get(number) == "missing_input":
                continue
            if not isinstance(value, (str, Reply)):
                raise InputError(
                    f"item {item!r}: expected a string, a Reply, None, or a list of these, got "
                    f"{type(value).__name__} ({value!r}); import scores with import_judgments(…, score=…)"
                )
            reply = Reply(value) if isinstance(value, str) else value
            reply = replace(reply, source="recorded", created=reply.created or now)
            recorded_parts = replace(parts, input_hash=own_hash, order=spec.orders[swapped], sample=sample)
            live_hash = worklist.hashes[number][swapped]
            live = replace(parts, input_hash=live_hash, order="AB" if pairwise else None).of_sample(sample)
            recordings.append(_Recording(item, recorded_parts, live.key, reply))
    store = ReplyStore.open(cache)
    fresh = _new_ones(store, recordings, overwrite, now)
    store.put_many(fresh, overwrite=overwrite)
    return len(fresh)


class _Recording(NamedTuple):
    """A reply to record, its item and key, and the key that a live reply to the same content has."""

    item: str
    parts: KeyParts
    live: bytes
    reply: Reply


def _by_item(replies: Any, worklist: Worklist) -> Sequence[Any]:
    """The replies of each item: one, or a list of samples."""
    n_items = len(worklist.ids)
    if isinstance(replies, pd.DataFrame):
        replies = _of_table(replies)
    if isinstance(replies, Mapping):
        ids = id_texts(pd.Series(list(replies), dtype=object), "replies")
        if unknown := sorted(set(ids) - set(worklist.ids)):
            raise InputError(
                f"replies= has {counted(len(unknown), 'item id')} that the items do not have: {listed(unknown)}; pass "
                "the items that these replies belong to"
            )
        by_id = dict(zip(ids, replies.values(), strict=True))
        if len(by_id) < len(ids):
            raise InputError(
                f"replies= has two keys with the same text (such as 1 and '1') among {listed(ids)}; keep one of the two"
            )
        return [by_id.get(item) for item in worklist.ids]
    if isinstance(replies, str) or not isinstance(replies, (Sequence, np.ndarray)) or len(replies) != n_items:
        n = f" of {len(replies)}" if isinstance(replies, (list, tuple)) else ""
        raise InputError(
            f"replies= must be a list with one entry per item ({n_items} items), a mapping from item id to replies, or "
            f"a table with item_id and reply, got {type(replies).__name__}{n}"
        )
    return list(replies)


def _of_table(replies: pd.DataFrame) -> dict[str, list[Any]]:
    if missing := [name for name in ("item_id", "reply") if name not in replies.columns]:
        raise InputError(
            f"replies= is a table without the column {listed(missing)}; it has {listed(replies.columns, most=30)}"
        )
    for name in ("criterion", "judge", "order"):
        if name in replies.columns and replies[name].nunique() > 1:
            raise InputError(
                f"record takes one {name} at a time, but replies= has several in column {name!r}: "
                f"{listed(replies[name].unique())}"
            )
    ids = pd.Series(id_texts(replies["item_id"], "item_id"), dtype=object)
    samples = replies["sample"].astype(int).tolist() if "sample" in replies.columns else ids.groupby(ids).cumcount()
    by_item: dict[str, dict[int, Any]] = {}
    for item, sample, reply in zip(ids, samples, replies["reply"].tolist(), strict=True):
        if sample in by_item.setdefault(item, {}):
            raise InputError(f"replies= has item {item!r}, sample {sample} twice; drop one of the rows")
        by_item[item][sample] = reply
    return {item: [entries.get(sample) for sample in range(max(entries) + 1)] for item, entries in by_item.items()}


def _new_ones(
    store: ReplyStore, recordings: list[_Recording], overwrite: bool, now: float
) -> list[tuple[KeyParts, Reply]]:
    """The replies that are not stored already; another reply in an item's place is an error unless `overwrite`."""
    keys = [recording.parts.key for recording in recordings]
    recorded = store.get_many(set(keys))
    live = store.get_many({recording.live for recording in recordings}, recorded=False)
    fresh: list[tuple[KeyParts, Reply]] = []
    for key, (item, parts, live_key, reply) in zip(keys, recordings, strict=True):
        values = [orjson.loads(value) for value in (recorded.get(key), live.get(live_key)) if value is not None]
        if (newest := max(values, key=lambda stored: stored["created"], default=None)) is None:
            fresh.append((parts, reply))
        elif newest["text"] != reply.text:
            if not overwrite:
                texts = [
                    repr(text[:40] + "…" if text and len(text) > 40 else text) for text in (newest["text"], reply.text)
                ]
                fact = f"item {item!r}, sample {parts.sample}: another reply of judge {parts.provider}:{parts.model}"
                fact = f"{fact} for rubric {parts.rubric}@{parts.rubric_version} is already stored"
                raise InputError(
                    f"{fact} (stored: {texts[0]}, new: {texts[1]}); pass overwrite=True to use the new one"
                )
            fresh.append((parts, replace(reply, created=now)))  # what is received last counts
    return fresh


def replies(judgments: pd.DataFrame, *, cache: str | Path | None = None) -> pd.Series:
    """The raw reply texts of a judgments table, looked up by `key`; rows without a key keep their column `reply`.

    Returns
    -------
    pandas.Series
        Strings on the table's index, named `reply`; NA if there was no reply.

    Raises
    ------
    CacheMiss
        When rows that have a reply are not in this cache.
    """
    table = check(judgments, "judgments", need=["key", "error"])
    store = ReplyStore.open(cache)
    keys = [bytes.fromhex(key) if isinstance(key, str) else None for key in table["key"].tolist()]
    stored = store.get_many({key for key in keys if key is not None})
    scored = table["error"].isna().tolist()
    if n_missing := sum(key is not None and key not in stored and scored[row] for row, key in enumerate(keys)):
        raise CacheMiss(
            f"{n_missing} of {counted(len(keys), 'reply is', 'replies are')} not in the cache at {store.where}; check "
            "cache="
        )
    texts = {key: orjson.loads(value).get("text") for key, value in stored.items()}
    imported = table["reply"].tolist() if "reply" in table.columns else [None] * len(keys)
    rows = [text if key is None else texts.get(key) for key, text in zip(keys, imported, strict=True)]
    return pd.Series(rows, index=table.index, dtype="str", name="reply")
