"""Replies that somebody already has: into the store under the very keys that `judge` uses."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pandas as pd

from evalkit.caching import ReplyStore
from evalkit.errors import CacheMiss, ConfigError, InputError, counted
from evalkit.judging.specs import Spec
from evalkit.judging.works import Work
from evalkit.keys import KeyParts
from evalkit.records import Reply
from evalkit.tables import check

__all__ = ["record", "replies"]


def record(
    items: Any,
    rubric: Any,
    judge: Any,
    replies: Sequence[Sequence[str | Reply | None] | str | None],
    *,
    criterion: str | None = None,
    order: str | None = None,
    template: str | None = None,
    item_id: str | None = None,
    overwrite: bool = False,
    cache: str | Path | None = None,
) -> int:
    """Store replies that somebody already has, to be replayed by ``judge(…, offline=True)``.

    A reply belongs to the item with its id: items of equal content keep replies of their own.

    Parameters
    ----------
    items, rubric, template, item_id, cache
        As for `judge`.
    judge
        Who gave the replies: one judge.
    replies
        One list of raw texts per item, in the order of the items; reply i is sample i. None is stored
        as nothing. A `Reply` carries tokens and cost too.
    criterion
        Which criterion they answer; may be left out where there is only one.
    order
        For pairwise rubrics: ``AB`` (default) or ``BA``, the order in which the answers were shown.
    overwrite
        Let other text take the place of the stored reply of an item (which stays as an older generation).

    Returns
    -------
    int
        How many replies were stored; those that were there already do not count.

    Raises
    ------
    InputError
        When there is not one list per item, or an item has another reply already.
    """
    spec = Spec.of(rubric, [judge] if not isinstance(judge, (list, tuple)) else judge, 1, template)
    if len(spec.judges) != 1:
        raise ConfigError("record takes one judge at a time")
    pairwise = spec.rubric.mode == "pairwise"
    if order not in ((None, "AB", "BA") if pairwise else (None,)):
        allowed = "'AB' or 'BA'" if pairwise else "None: this rubric is not pairwise"
        raise ConfigError(f"order {order!r} is unknown; allowed is {allowed}")
    question = spec.rubric.criterion(criterion)
    work = Work.of(spec, items, item_id)
    if len(replies) != len(work.inputs):
        raise InputError(
            f"replies has {counted(len(replies), 'entry', 'entries')} for {counted(len(work.inputs), 'item')}; "
            "give one list per item"
        )
    parts = work.parts[spec.rubric.names.index(question.name)][0]
    now = time.time()
    swapped, rows = int(order == "BA"), list[_Given]()
    for at, given in enumerate(replies):
        listed = [given] if isinstance(given, (str, Reply)) else given or []
        own = work.recorded_hashes(at)[swapped]
        for sample, reply in enumerate(listed):
            if reply is not None:
                shared = parts.of(work.hashes[at][swapped], "AB" if pairwise else None, sample)
                mine = parts.of(own, spec.orders[swapped], sample)
                rows.append(_Given(work.ids[at], mine, shared.key, _reply(reply, now)))
    return _store(ReplyStore.open(cache), rows, overwrite, now)


class _Given(NamedTuple):
    """A reply to record: whose it is, and the key under which a live one of the same content would stand."""

    item: str
    parts: KeyParts
    live: bytes
    reply: Reply


def _reply(given: str | Reply | Mapping[str, Any], now: float) -> Reply:
    if isinstance(given, Reply):
        return replace(given, source="recorded", created=given.created or now)
    if isinstance(given, str):
        return Reply(given, created=now, source="recorded")
    raise InputError(f"a reply is a text, a Reply or None, not {type(given).__name__}")


def _store(store: ReplyStore, given: list[_Given], overwrite: bool, now: float) -> int:
    own = [one.parts.key for one in given]
    recorded = store.get_many(set(own))
    live = store.get_many({one.live for one in given}, recorded=False)
    fresh: list[tuple[KeyParts, Reply]] = []
    for key, one in zip(own, given, strict=True):
        there = [orjson.loads(value) for value in (recorded.get(key), live.get(one.live)) if value is not None]
        newest = max(there, key=lambda reply: reply["created"], default=None)
        if newest is None:
            fresh.append((one.parts, one.reply))
        elif newest["text"] != one.reply.text:
            if not overwrite:
                raise InputError(_other(one, newest))
            fresh.append((one.parts, replace(one.reply, created=now)))  # what is received last counts
    store.put_many(fresh, overwrite=overwrite)
    return len(fresh)


def _other(given: _Given, stored: Mapping[str, Any]) -> str:
    parts = given.parts
    return (
        f"item {given.item!r}, sample {parts.sample}: another reply is stored already for {parts.rubric}@"
        f"{parts.rubric_version}, judge {parts.provider}:{parts.model} ({_start(stored['text'])} instead of "
        f"{_start(given.reply.text)}); pass overwrite=True to supersede it"
    )


def _start(text: str | None) -> str:
    return repr(text if text is None or len(text) <= 40 else text[:40] + "…")


def replies(judgments: pd.DataFrame, *, cache: str | Path | None = None) -> pd.Series:
    """The raw reply texts of a judgments table, fetched by `key`.

    Returns
    -------
    pandas.Series
        Text on the table's index, named `reply`; NA where there was no reply.

    Raises
    ------
    CacheMiss
        When rows that have a reply are not in this cache.
    """
    table = check(judgments, "judgments", need=["key", "error"])
    store = ReplyStore.open(cache)
    keys = [bytes.fromhex(key) if isinstance(key, str) else None for key in table["key"].tolist()]
    found = store.get_many({key for key in keys if key is not None})
    lost = [at for at, key in enumerate(keys) if key not in found and not isinstance(table["error"].iloc[at], str)]
    if lost:
        raise CacheMiss(
            f"{len(lost)} of {counted(len(keys), 'reply is', 'replies are')} not in the cache at {store.folder}; "
            "is it another folder?"
        )
    texts = {key: orjson.loads(value).get("text") for key, value in found.items()}
    return pd.Series(
        [None if key is None else texts.get(key) for key in keys], index=table.index, dtype="str", name="reply"
    )
