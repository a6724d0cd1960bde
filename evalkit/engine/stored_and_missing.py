"""What is stored for a work list, and what is missing: left to calls, to open batches, or failed."""

from __future__ import annotations

import logging
import time
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import orjson

from evalkit.core.lists_of_choices import SKIPPED
from evalkit.core.settings import Options
from evalkit.engine.cache import ReplyStore
from evalkit.engine.replies_to_judgments import Columns
from evalkit.engine.reply_lookup import StoredReplies, nearest
from evalkit.engine.worklist import Worklist, gc_paused
from evalkit.errors import CacheMiss, EvalkitWarning, counted
from evalkit.rubrics.parsing.reply_cleanup import broke_off

_log = logging.getLogger("evalkit")

Bools = npt.NDArray[np.bool_]

_ATTEMPTS = 3  # so often is a reply paid that breaks off each time


@dataclass(frozen=True, slots=True)
class Lookup:
    """What `look_up` read for one call of `judge`, and what is missing.

    Attributes
    ----------
    columns
        The rows of the table that are known; calls fill in the others.
    missing
        Row -> reply key of those without a reply, in order.
    again
        Those of them that are requested again, because their stored reply has no score.
    newer_than
        Stored replies received before this Unix time may be superseded by new ones.
    n_stored
        Rows with a reply that counts.
    kept
        Which rows the table shows; None: all.
    live_answers
        Keys of the judges' own answers that this call paid for.
    """

    stored: StoredReplies
    options: Options
    columns: Columns
    missing: dict[int, bytes]
    again: frozenset[int]
    newer_than: float | None
    n_stored: int
    kept: Bools | None = None
    live_answers: frozenset[str] = frozenset()

    def fail(self, reasons: Mapping[int, str]) -> None:
        """Mark missing rows with the reason why they get no reply; one that is requested again keeps its stored one."""
        rows = [row for row in reasons if row not in self.again]
        self.columns.fail(rows, [self.missing[row] for row in rows], [reasons[row] for row in rows])

    def without(self, reasons: Mapping[int, str]) -> Lookup:
        """The same without these missing rows, which are not asked; they fail."""
        self.fail(reasons)
        return replace(self, missing={row: key for row, key in self.missing.items() if row not in reasons})


def look_up(worklist: Worklist, options: Options, store: ReplyStore, until: float | None = None) -> Lookup:
    """Read the stored replies of a work list, received until this Unix time; skipped items fail."""
    refresh, now, kept = options.refresh, time.time(), None
    since = now if refresh is True else refresh if isinstance(refresh, float) else None
    newer_than = now if refresh == "unscored" else since
    recorded = options.recorded == "use" or (options.offline and until is None)
    stored = StoredReplies(worklist, store, recorded, since, until)
    columns, missing = _read(stored, options)
    again: dict[int, bytes] = {}
    if options.offline and not worklist.spec.exact and columns.recorded.any():
        samples = max(worklist.spec.samples, stored.recorded_samples())
        stored = replace(stored, worklist=worklist.with_samples(samples))
        columns, missing = _read(stored, options)
        kept = _shown_rows(stored.worklist, columns, missing, worklist.spec.samples)
        missing = {row: key for row, key in missing.items() if kept[row]}
    elif not options.offline and (refresh == "unscored" or columns.broke_off):
        broken = _worth_asking(stored, columns.broke_off)
        newer_than = time.time() if broken else newer_than
        unscored = range(worklist.n_rows) if refresh == "unscored" else ()
        again = _rows_again(worklist, missing, broken.union(row for row in unscored if columns.error(row) is not None))
        missing = dict(sorted((missing | again).items()))
    n_stored = stored.worklist.n_rows - len(missing)
    if worklist.skipped:
        asked = stored.worklist.without_skipped(missing)
        skipped = [row for row in missing if row not in asked]
        columns.fail(skipped, None, [worklist.skipped[stored.worklist.place(row)[0]] for row in skipped])
        missing = asked
    return Lookup(stored, options, columns, missing, frozenset(again), newer_than, n_stored, kept)


def _read(stored: StoredReplies, options: Options) -> tuple[Columns, dict[int, bytes]]:
    """The rows with a stored reply, and row -> key of the others.

    With `adopt`, a reply of another rubric version with the same prompt counts.
    """
    columns, missing = Columns(stored.worklist, replies=options.replies), dict[int, bytes]()
    for first, keys, values in stored.chunks():
        hits = [(first + at, *hit) for at, hit in enumerate(values) if hit is not None]
        if hits:
            with gc_paused():
                columns.read(*zip(*hits, strict=True), source=None)
        if len(hits) < len(keys):
            missing |= {first + at: keys[at] for at, hit in enumerate(values) if hit is None}
    if missing and options.adopt and options.refresh != "unscored":
        adopted = stored.of_rows(missing, content=True)
        adopted_keys, replies = [key for key, _ in adopted.values()], [reply for _, reply in adopted.values()]
        columns.read(list(adopted), adopted_keys, replies, source=None)
        missing = {row: key for row, key in missing.items() if row not in adopted}
    return columns, missing


def _worth_asking(stored: StoredReplies, broken: set[int]) -> set[int]:
    """Those of the rows whose reply broke off that are asked again: not if it broke off each of three times."""
    keys = {row: key for row, key in enumerate(stored.worklist.keys()) if row in broken} if broken else {}
    generations = stored.store.generations(set(keys.values())) if keys else {}
    hopeless = {row for row, key in keys.items() if _n_broken(generations.get(key, ())) >= _ATTEMPTS}
    if hopeless:
        _log.warning(
            "%s broke off each of %d times and is not requested again; refresh='unscored' does",
            counted(len(hopeless), "reply", "replies"), _ATTEMPTS,
        )  # fmt: skip
    return broken - hopeless


def _n_broken(generations: Sequence[bytes]) -> int:
    """How many of the newest stored replies of a key broke off, one after the other."""
    n = 0
    for value in reversed(generations):
        if not broke_off(orjson.loads(value).get("finish_reason")):
            break
        n += 1
    return n


def _rows_again(worklist: Worklist, missing: Collection[int], unscored: Collection[int]) -> dict[int, bytes]:
    """Row -> key of those of the rows that have a stored reply; a new reply is one for all criteria of its call."""
    keys = {row: key for row, key in enumerate(worklist.keys()) if row not in missing}
    if worklist.spec.is_grouped:
        new = {keys[row] for row in unscored if row in keys}
        return {row: key for row, key in keys.items() if key in new}
    return {row: key for row, key in keys.items() if row in unscored}


def _cells(worklist: Worklist, columns: Columns, missing: Collection[int]) -> tuple[Bools, Bools]:
    """By item, criterion, judge, order and sample: whether there is a reply, and whether it was recorded."""
    has_reply = np.ones(worklist.n_rows, dtype=bool)
    has_reply[list(missing)] = False
    return has_reply.reshape(worklist.shape), columns.recorded.reshape(worklist.shape)


def _shown_rows(worklist: Worklist, columns: Columns, missing: Collection[int], samples: int) -> Bools:
    """For judges with recorded replies the samples that are stored, or one row with `cache_miss`.

    For pairs that is one row for each order in which the judge has replies to another item.
    """
    has_reply, recorded = _cells(worklist, columns, missing)
    asked = np.asarray(has_reply.any(axis=(0, -1)))
    asked[..., 0] |= ~asked.any(axis=-1)
    shown = has_reply.copy()
    shown[..., 0] |= asked & ~has_reply.any(axis=-1)
    default = np.arange(has_reply.shape[-1]) < samples
    by_judge = np.asarray(recorded.any(axis=(0, 1, 3, 4)))[:, np.newaxis, np.newaxis]
    return np.where(by_judge, shown, default).reshape(-1)


def leave_to_batches(lookup: Lookup, tickets: Mapping[bytes, str]) -> Lookup:
    """The same without the rows that open tickets (by key) ask for."""
    for ticket, n in Counter(tickets.values()).most_common():
        _log.warning("%s still in ticket %s; collect it, then judge again", counted(n, "reply", "replies"), ticket)
    return lookup.without({row: "in_batch" for row, key in lookup.missing.items() if key in tickets})


def miss_offline(lookup: Lookup) -> None:
    """Give the missing rows the error `cache_miss`, or raise."""
    worklist, store = lookup.stored.worklist, lookup.stored.store
    if lookup.options.on_miss == "raise":
        row = next(iter(lookup.missing))
        item = worklist.items["item_id"].iloc[worklist.place(row)[0]]
        near = nearest(worklist, store, row) or {}
        differences = [f"{name}: {cached!r} cached, {asked!r} needed" for name, (cached, asked) in near.items()]
        difference = "; ".join(differences) or (
            "nothing is stored for this input, and nothing recorded for this item id"
        )
        raise CacheMiss(
            f"{len(lookup.missing)} of {counted(worklist.n_rows, 'judgment is', 'judgments are')} not in the "
            f"cache at {store.where} (first: item {item!r}; {difference}); run without offline to call the "
            "judges"
        )
    if not store.database.n_bytes():
        _log.warning("the cache %s does not exist: check cache= (--cache) or EVALKIT_CACHE", store.place)
    if lookup.kept is None and lookup.columns.recorded.any():
        has_reply, recorded = _cells(worklist, lookup.columns, lookup.missing)
        n_missing = int((~has_reply & recorded.any(axis=(-1, -2), keepdims=True)).sum())
        if n_missing:
            warnings.warn(
                f"{n_missing} of {counted(worklist.n_rows, 'reply', 'replies')} are missing (cache_miss), "
                f"because fewer than {counted(worklist.spec.samples, 'sample')} were recorded; omit "
                "samples= to use all recorded samples",
                EvalkitWarning,
                stacklevel=5,
            )
    lookup.fail(dict.fromkeys(lookup.missing, "cache_miss"))


def why_none(lookup: Lookup) -> str:
    """Why no reply is missing, in words."""
    worklist, n = lookup.stored.worklist, lookup.stored.worklist.n_rows
    n_skipped = sum(lookup.columns.error(row) in SKIPPED for row in range(n))
    held = " or hold an image" if worklist.n_unseen else ""
    return (
        f"of {counted(n, 'judgment')}, {lookup.n_stored} in the cache, {n - lookup.n_stored - n_skipped} in open "
        f"tickets (`evalkit batch list`), {n_skipped} of items that lack an input{held}"
    )
