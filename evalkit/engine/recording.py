"""Replies that somebody already has: into the store under the very keys that `judge` uses."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pandas as pd

from evalkit.core.keys import KeyParts
from evalkit.core.records import Reply
from evalkit.engine.cache import ReplyStore
from evalkit.engine.specification import Spec
from evalkit.engine.worklist import Worklist
from evalkit.errors import CacheMiss, ConfigError, InputError, counted, listed
from evalkit.tables import check, is_missing
from evalkit.tables.items import id_texts

__all__ = ["readings", "record", "replies"]

Replies = Sequence[Any] | Mapping[Any, Any] | pd.Series | pd.DataFrame
"""Texts by item: in the items' order, by id, by index, or as a table."""


def record(
    items: Any,
    rubric: Any,
    judge: Any,
    replies: Replies,
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
        The raw texts: a text or a list of texts per item, in the order of the items, as a Series on the items' index,
        or as a mapping from item id (or the index of a Series is that of the ids); reply i is sample i. Or a table with
        the columns `item_id` and `reply` (and `sample`), as `import_judgments` gives it. None is stored as nothing. A
        `Reply` carries tokens and cost too.
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
    work = Worklist.of(spec, items, item_id)
    by_item = _by_item(replies, items, work)
    parts = work.parts[spec.rubric.names.index(question.name)][0]
    now = time.time()
    swapped, rows = int(order == "BA"), list[_Given]()
    for at, texts in enumerate(by_item):
        own = work.recorded_hashes(at)[swapped]
        for sample, reply in enumerate(texts):
            if reply is not None:
                shared = parts.of(work.hashes[at][swapped], "AB" if pairwise else None, sample)
                mine = parts.of(own, spec.orders[swapped], sample)
                rows.append(_Given(work.ids[at], mine, shared.key, _reply(reply, now, work.ids[at])))
    return _store(ReplyStore.open(cache), rows, overwrite, now)


class _Given(NamedTuple):
    """A reply to record: whose it is, and the key under which a live one of the same content would stand."""

    item: str
    parts: KeyParts
    live: bytes
    reply: Reply


def _by_item(replies: Any, items: Any, work: Worklist) -> list[list[Any]]:
    """The replies of each item, sample by sample."""
    if isinstance(replies, pd.DataFrame):
        replies = _of_table(replies)
    elif isinstance(replies, pd.Series):
        replies = _of_series(replies, items, work)
    if isinstance(replies, Mapping):
        replies = _of_mapping(replies, work)
    if isinstance(replies, str) or not isinstance(replies, (Sequence, np.ndarray)):
        raise InputError(
            f"replies are one list per item, a Series, a mapping by item or a table, not {type(replies).__name__}"
        )
    if len(replies) != len(work.ids):
        raise InputError(
            f"replies has {counted(len(replies), 'entry', 'entries')} for {counted(len(work.ids), 'item')}; "
            "give one list per item"
        )
    return [_samples(given, item) for given, item in zip(replies, work.ids, strict=True)]


def _of_series(given: pd.Series, items: Any, work: Worklist) -> dict[str, Any]:
    """Replies by item: the index is that of the items, or holds their ids; values of one item are its samples."""
    own = id_texts(given.index, None)
    index = items.index if isinstance(items, pd.DataFrame) else None
    if index is not None and given.index.isin(index).all():
        places = dict(zip(index, work.ids, strict=True))
        by_index = [places[key] for key in given.index]
        if by_index != own and set(own) <= set(work.ids):
            raise InputError(
                "the index of replies fits both the items' index and their ids, which differ; give a mapping by item id"
            )
        own = by_index
    found: dict[str, list[Any]] = {}
    for item, value in zip(own, given.tolist(), strict=True):
        found.setdefault(item, []).append(value)
    return {item: values if len(values) > 1 else values[0] for item, values in found.items()}


def _of_mapping(given: Mapping[Any, Any], work: Worklist) -> list[Any]:
    ids, known = id_texts(pd.Series(list(given), dtype=object), "replies"), set(work.ids)
    if strays := [item for item in ids if item not in known]:
        raise InputError(
            f"replies has {counted(len(strays), 'item')} that the items lack: {listed(strays)}; "
            "record replies for the items that they belong to"
        )
    by_id = dict(zip(ids, given.values(), strict=True))
    if len(by_id) < len(ids):
        raise InputError(f"replies names an item twice among {listed(ids)}")
    return [by_id.get(item) for item in work.ids]


def _of_table(given: pd.DataFrame) -> dict[Any, list[Any]]:
    lacking = [name for name in ("item_id", "reply") if name not in given.columns]
    if lacking:
        raise InputError(
            f"replies is a table without the column {listed(lacking)}; it has {listed(given.columns, most=30)}"
        )
    for name in ("criterion", "judge", "order"):
        if name in given.columns and given[name].nunique() > 1:
            raise InputError(
                f"replies has several values in column {name!r}: {listed(given[name].unique())}; record one at a time"
            )
    found: dict[Any, list[Any]] = {}
    ids = id_texts(given["item_id"], "item_id")
    samples = given["sample"].tolist() if "sample" in given.columns else [None] * len(given)
    for item, sample, reply in zip(ids, samples, given["reply"].tolist(), strict=True):
        own = found.setdefault(item, [])
        at = len(own) if sample is None else int(sample)
        own += [None] * (at + 1 - len(own))
        if own[at] is not None:
            raise InputError(f"replies has item {item!r}, sample {at} twice; drop one of the rows")
        own[at] = reply
    return found


def _samples(given: Any, item: str) -> list[Any]:
    if isinstance(given, (str, Reply)):
        return [given]
    if is_missing(given):
        return []
    if isinstance(given, (list, tuple, np.ndarray, pd.Series)):
        return [None if is_missing(reply) else reply for reply in given]
    raise InputError(_not_a_reply(given, item))


def _reply(given: Any, now: float, item: str) -> Reply:
    if isinstance(given, Reply):
        return replace(given, source="recorded", created=given.created or now)
    if isinstance(given, str):
        return Reply(given, created=now, source="recorded")
    raise InputError(_not_a_reply(given, item))


def _not_a_reply(given: Any, item: str) -> str:
    return (
        f"item {item!r}: a reply is a text, a Reply, None, or a list of these, not {type(given).__name__} ({given!r}); "
        "scores that are read already go through import_judgments(…, score=…)"
    )


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
    """The raw reply texts of a judgments table, fetched by `key`; rows without a key keep their column `reply`.

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
    errors = table["error"].tolist()
    lost = [
        at for at, key in enumerate(keys) if key not in found and key is not None and not isinstance(errors[at], str)
    ]
    if lost:
        raise CacheMiss(
            f"{len(lost)} of {counted(len(keys), 'reply is', 'replies are')} not in the cache at {store.folder}; "
            "is it another folder?"
        )
    texts = {key: orjson.loads(value).get("text") for key, value in found.items()}
    there = table["reply"].tolist() if "reply" in table.columns else [None] * len(keys)
    rows = [own if key is None else texts.get(key) for key, own in zip(keys, there, strict=True)]
    return pd.Series(rows, index=table.index, dtype="str", name="reply")


_ONE_REPLY = ["item_id", "criterion", "judge", "order", "sample"]


def readings(judgments: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    r"""Two readings of the same replies, side by side.

    Parameters
    ----------
    judgments, other
        Judgments tables of the same replies: another template's form, another evalkit, the scores that somebody else
        read. Rows are matched by item, criterion, judge, order and sample.

    Returns
    -------
    pandas.DataFrame
        One row per reply of `judgments`, in its order: `item_id`, `criterion`, `judge`, `order`, `sample`; `reading`
        and `other` (the label, or the reason why there is none; NA where `other` lacks the row); `same`: both labels
        are equal, or neither reading has one (NA where `other` lacks the row); `reply`, where one table has it. So
        ``same.mean()`` is their agreement (0-1), ``table[~table["same"]]`` shows where they differ, and
        ``table.value_counts(["reading", "other"])`` counts how.

    Raises
    ------
    InputError
        When columns are missing, a reply is in a table twice, or the tables have no reply in common.

    Examples
    --------
    >>> from evalkit import Rubric, import_judgments
    >>> rubric = Rubric(id="r", inputs=["answer"], criteria=[{"name": "good", "scale": {0: "no", 1: "yes"}}])
    >>> replies = [{"item_id": "a", "text": "1"}, {"item_id": "b", "text": "I would say no."}]
    >>> options = {"judge": "openai:m", "text": "text"}
    >>> table = readings(import_judgments(replies, rubric, read="number", **options),
    ...                  import_judgments(replies, rubric, read={r"0|\bno\b": 0, "1": 1}, **options))
    >>> table[["item_id", "reading", "other", "same"]].values.tolist()
    [['a', '1', '1', True], ['b', 'unreadable', '0', False]]
    """
    tables = [_read_as(table, name) for table, name in ((judgments, "reading"), (other, "other"))]
    both = tables[0].merge(tables[1], on=_ONE_REPLY, how="left", suffixes=("", " of other"))
    known = both["scored of other"].notna().to_numpy()
    if len(both) and not known.any():
        raise InputError("the two tables have no item, criterion, judge, order and sample in common")
    scored = both["scored of other"].where(known, other=False).astype(bool)
    same = np.where(both["scored"] & scored, both["reading"] == both["other"], ~both["scored"] & ~scored)
    both["same"] = pd.arrays.BooleanArray(np.asarray(same, dtype=bool), ~known)
    if "reply of other" in both.columns:
        both["reply"] = both["reply"].where(both["reply"].notna(), both["reply of other"])
    return both[[*_ONE_REPLY, "reading", "other", "same", *(["reply"] if "reply" in both.columns else [])]]


def _read_as(judgments: pd.DataFrame, name: str) -> pd.DataFrame:
    table = check(judgments, "judgments", need=[*_ONE_REPLY, "label", "score", "error"])
    plain = table[_ONE_REPLY].astype({"criterion": "str", "judge": "str", "order": object})
    plain["order"] = plain["order"].where(plain["order"].notna(), None)
    if plain.duplicated().any():
        row = plain[plain.duplicated()].iloc[0]
        raise InputError(f"a reply is in the table of {name} twice: {listed(row.dropna().tolist())}")
    label, error = table["label"].astype(object), table["error"].astype(object)
    label = label.where(label.notna(), table["score"].map(lambda score: None if pd.isna(score) else f"{score:g}"))
    plain[name] = label.where(table["error"].isna().to_numpy(), error)
    plain["scored"] = table["error"].isna().to_numpy()
    if "reply" in table.columns:
        plain["reply"] = table["reply"]
    return plain
