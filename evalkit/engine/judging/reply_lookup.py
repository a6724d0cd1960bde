"""What is stored for a work list, and what is missing.

The reply that counts for a row is the live one of its content, or the one recorded for its item. Rows without one are
left to calls or to open batches, or fail.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from evalkit.core.settings import Options
from evalkit.engine.cache import ReplyStore
from evalkit.engine.cache.writer import decoded
from evalkit.engine.judging.further_requests import Repairs
from evalkit.engine.judging.replies_to_judgments import Columns
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist, gc_paused
from evalkit.errors import CacheMiss, EvalkitWarning, counted
from evalkit.rubrics.parsing.reply_cleanup import broke_off
from evalkit.rubrics.rubrics_by_name import is_found

_log = logging.getLogger("evalkit")

_CHUNK, _PARSED = 100_000, 20_000
_LEFT_OUT = ("unreadable", "truncated", "ambiguous", "off_scale", "empty", "refused")
_ATTEMPTS = 3  # so often is a reply paid that breaks off each time

Bools = npt.NDArray[np.bool_]
Hit = tuple[bytes, bytes]
"""Key and JSON of a stored reply."""


@dataclass(frozen=True)
class StoredReplies:
    """The stored replies of a work list.

    A live reply counts for all items of equal content. A recorded one counts for its item alone and only with
    `recorded`; of the two, the one received last.

    Attributes
    ----------
    recorded
        Whether recorded replies count.
    since
        Unix time; replies received before it do not count.
    until
        Unix time; replies received after it do not count.
    is_plan
        Whether nothing is to be written.
    """

    worklist: Worklist
    store: ReplyStore
    recorded: bool
    since: float | None = None
    until: float | None = None
    is_plan: bool = False

    def chunks(self) -> Iterator[tuple[int, list[bytes], list[Hit | None]]]:
        """First row, keys, and the stored reply of each row, some thousand rows at a time."""
        keys, recorded_keys, first = self.worklist.keys(), self.worklist.keys(recorded=True), 0
        while chunk := list(islice(keys, _CHUNK)):
            recorded_chunk = list(islice(recorded_keys, len(chunk))) if self.recorded else None
            yield first, chunk, self._hits(chunk, recorded_chunk)
            first += len(chunk)

    def recorded_samples(self) -> int:
        """The maximum number of samples recorded for any item, searched for by doubling."""
        samples = max(self.worklist.spec.counts)
        while True:
            samples *= 2
            wide = replace(self, worklist=self.worklist.with_samples(samples))
            n_recorded = 0
            for first, _, hits in wide.chunks():
                places = (row % samples + 1 for row, hit in enumerate(hits, first) if hit and is_recorded(hit[1]))
                n_recorded = max(n_recorded, *places, 0)
            if n_recorded <= samples // 2:
                return n_recorded

    def of_rows(self, rows: Collection[int], *, content: bool = False) -> dict[int, Hit]:
        """The stored replies of those of the rows that have one.

        With `content`, the replies of other versions of the rubric with the same prompt.
        """
        if not rows:
            return {}
        ordered, chosen = sorted(rows), frozenset(rows)
        keys = list(self.worklist.keys(content=content, rows=chosen))
        recorded_keys = list(self.worklist.keys(content=content, recorded=True, rows=chosen)) if self.recorded else None
        hits = self._hits(keys, recorded_keys, content=content)
        return {row: hit for row, hit in zip(ordered, hits, strict=True) if hit is not None}

    def adopted(self, rows: Collection[int]) -> dict[int, Hit]:
        """The replies of other rubrics and versions with the same prompts, of those of the rows that have one.

        They are stored under the rows' own keys, so that each later call finds them, whether it adopts or not; not for
        a plan, for a call of the past, and in a store that is read-only.
        """
        hits = self.of_rows(rows, content=True)
        if not hits or self.is_plan or self.until is not None or self.store.read_only:
            return hits
        parts = {row: self.worklist.parts_of(row, recorded=is_recorded(value)) for row, (_, value) in hits.items()}
        copies = ((parts[row], decoded(value), key) for row, (key, value) in hits.items())
        self.store.put_many(copies, newer_than=self.since)
        return {row: (parts[row].key, value) for row, (_, value) in hits.items()}

    def _hits(self, keys: Sequence[bytes], own: Sequence[bytes] | None, *, content: bool = False) -> list[Hit | None]:
        """The reply of each row: that of its content or, if recorded replies count, the one of its item (`own`)."""
        requested, stored = {*keys, *(own or ())}, dict[bytes, Hit]()
        limits: Any = {"since": self.since, "until": self.until, "recorded": self.recorded}
        values = {} if content else self.store.get_many(requested, **limits)
        if content:
            stored = self.store.get_by_content(requested, **limits)
        with gc_paused():
            stored |= {key: (key, value) for key, value in values.items()}
            if own is None:
                return [stored.get(key) for key in keys]
            return list(map(_received_last, map(stored.get, keys), map(stored.get, own)))


def is_recorded(value: bytes) -> bool:
    """Whether a stored reply was recorded."""
    return bool(orjson.loads(value).get("source") == "recorded")


def _received_last(shared: Hit | None, by_id: Hit | None) -> Hit | None:
    if shared is None or by_id is None:
        return shared or by_id
    return by_id if _received(by_id) > _received(shared) else shared


def _received(hit: Hit) -> float:
    return float(orjson.loads(hit[1])["created"])


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
    to_repair
        Rows with an unread reply of an earlier call that a repair is to be asked for.
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
    to_repair: frozenset[int] = frozenset()

    def fail(self, reasons: Mapping[int, str]) -> None:
        """Mark missing rows with the reason why they get no reply; one that is requested again keeps its stored one."""
        rows = [row for row in reasons if row not in self.again]
        self.columns.fail(rows, [self.missing[row] for row in rows], [reasons[row] for row in rows])

    def without(self, reasons: Mapping[int, str]) -> Lookup:
        """The same without these missing rows, which are not asked; they fail."""
        self.fail(reasons)
        return replace(self, missing={row: key for row, key in self.missing.items() if row not in reasons})


def look_up(
    worklist: Worklist, options: Options, store: ReplyStore, until: float | None = None, *, is_plan: bool = False,
    repairs: bool = True,
) -> Lookup:  # fmt: skip
    """Read the stored replies of a work list, received until this Unix time; skipped items fail.

    Without `repairs`, as for a batch, no repair can be asked for: what is unread is requested again.
    """
    refresh, now, shown_rows = options.refresh, time.time(), None
    since = now if refresh is True else refresh if isinstance(refresh, float) else None
    newer_than = now if refresh == "unscored" else since
    recorded = options.recorded == "use" or (options.offline and until is None)
    stored = StoredReplies(worklist, store, recorded, since, until, is_plan)
    columns, missing = _read(stored, options)
    again, to_repair = dict[int, bytes](), set[int]()
    if worklist.spec.per_item:
        missing |= (again := _asked_alone(stored, options, columns, missing))
        missing = {row: key for row, key in sorted(missing.items()) if not (options.offline and row in again)}
    if options.offline and not worklist.spec.exact and columns.recorded.any():
        samples = max(*worklist.spec.counts, stored.recorded_samples())
        stored = replace(stored, worklist=worklist.with_samples(samples))
        columns, missing = _read(stored, options)
        shown_rows = _shown_rows(stored.worklist, columns, missing, worklist.spec.counts)
        missing = {row: key for row, key in missing.items() if shown_rows[row]}
    elif not options.offline and (refresh == "unscored" or columns.broke_off):
        broken = _worth_asking(stored, columns.broke_off, logging.DEBUG if is_plan else logging.WARNING)
        newer_than = time.time() if broken else newer_than
        unscored = range(worklist.n_rows) if refresh == "unscored" else ()
        asks_repairs = repairs and options.repair is not False and unscored
        to_repair = Repairs.of(worklist, columns, columns.unread).rows if asks_repairs else set()
        again |= _rows_again(
            worklist, missing, broken.union(row for row in unscored if columns.error(row) and row not in to_repair)
        )
        missing = dict(sorted((missing | again).items()))
    n_stored = stored.worklist.n_rows - len(missing)
    if worklist.skipped or worklist.with_images:
        reasons = {row: reason for row in missing if (reason := stored.worklist.reason_of(row)) is not None}
        columns.fail(list(reasons), None, list(reasons.values()))
        missing = {row: key for row, key in missing.items() if row not in reasons}
    return Lookup(stored, options, columns, missing, frozenset(again), newer_than, n_stored, shown_rows,
                  to_repair=frozenset(to_repair))  # fmt: skip


def _read(stored: StoredReplies, options: Options) -> tuple[Columns, dict[int, bytes]]:
    """The rows with a stored reply, and row -> key of the others.

    With `adopt`, a reply of another rubric or version with the same prompt counts.
    """
    columns, missing = Columns(stored.worklist, replies=options.replies), dict[int, bytes]()
    for first, keys, values in stored.chunks():
        with gc_paused():
            hits = [(first + index, *hit) for index, hit in enumerate(values) if hit is not None]
            for start in range(0, len(hits), _PARSED):
                columns.read(*zip(*hits[start : start + _PARSED], strict=True), source=None)
        if len(hits) < len(keys):
            missing |= {first + index: keys[index] for index, hit in enumerate(values) if hit is None}
    if options.adopt and (adopted := stored.adopted(missing)):
        columns.read(list(adopted), *zip(*adopted.values(), strict=True), source=None)
        missing = {row: key for row, key in missing.items() if row not in adopted}
    if options.repair is not False and columns.unread:
        repairs = Repairs.of(stored.worklist, columns, columns.unread)
        repairs.take_stored(columns, stored.store, stored.since, stored.until)
    return columns, missing


def _asked_alone(
    stored: StoredReplies, options: Options, columns: Columns, missing: Collection[int]
) -> dict[int, bytes]:
    """Row -> key of what a stored reply on several of an item's criteria left out, and no reply of its own says."""
    worklist = stored.worklist
    lost = {
        row
        for row in range(worklist.n_rows)
        if row not in missing
        and columns.error(row) in _LEFT_OUT
        and len(worklist.bundle_of(row)) > 1
        and not worklist.spec.judges[worklist.place(row)[2]].decides  # an answer is that question's alone
    }
    worklist.alone.update(lost)
    stored_alone = stored.of_rows(lost)
    stored_alone |= stored.adopted(lost - stored_alone.keys()) if options.adopt else {}
    columns.read(list(stored_alone), *zip(*stored_alone.values(), strict=True), source=None) if stored_alone else None
    rows = sorted(lost - stored_alone.keys())
    return dict(zip(rows, worklist.keys(rows=frozenset(rows)), strict=True))


def _worth_asking(stored: StoredReplies, broken: set[int], level: int) -> set[int]:
    """Those of the rows whose reply broke off that are asked again: not if it broke off each of three times."""
    keys = {row: key for row, key in enumerate(stored.worklist.keys()) if row in broken} if broken else {}
    generations = stored.store.generations(set(keys.values())) if keys else {}
    hopeless = {row for row, key in keys.items() if _n_broken(generations.get(key, ())) >= _ATTEMPTS}
    if hopeless:
        _log.log(
            level,
            "%s broke off each of %d times and is not requested again; refresh='unscored' (--refresh unscored) does",
            counted(len(hopeless), "reply", "replies"), _ATTEMPTS,
        )  # fmt: skip
    return broken - hopeless


def _n_broken(generations: Sequence[bytes]) -> int:
    """How many of the newest stored replies of a key broke off, one after the other."""
    ends = (broke_off(orjson.loads(value).get("finish_reason")) for value in reversed(generations))
    return sum(takewhile(bool, ends))


def _rows_again(worklist: Worklist, missing: Collection[int], unscored: Collection[int]) -> dict[int, bytes]:
    """Row -> key of those of the rows that have a stored reply; a new reply is one for all criteria of its call."""
    keys = {row: key for row, key in enumerate(worklist.keys()) if row not in missing}
    if worklist.spec.is_grouped:
        new = {keys[row] for row in unscored if row in keys}
        return {row: key for row, key in keys.items() if key in new}
    return {row: key for row, key in keys.items() if row in unscored}


def _shown_rows(worklist: Worklist, columns: Columns, missing: Collection[int], counts: Sequence[int]) -> Bools:
    """For judges with recorded replies the samples that are stored, or one row with `cache_miss`.

    For pairs that is one row for each order in which the judge has replies to another item. `counts` are the samples of
    the other judges; the work list has the same number of each.
    """
    spec = worklist.spec
    shape = len(worklist.inputs), len(spec.rubric.criteria), len(counts), len(spec.orders), spec.samples
    has_reply = np.ones(worklist.n_rows, dtype=bool)
    has_reply[list(missing)] = False
    has_reply, recorded = has_reply.reshape(shape), columns.recorded.reshape(shape)
    is_sampled = np.asarray(has_reply.any(axis=(0, -1)))
    is_sampled[..., 0] |= ~is_sampled.any(axis=-1)
    is_shown = has_reply.copy()
    is_shown[..., 0] |= is_sampled & ~has_reply.any(axis=-1)
    default = np.arange(spec.samples) < np.array(counts)[:, np.newaxis, np.newaxis]
    by_judge = np.asarray(recorded.any(axis=(0, 1, 3, 4)))[:, np.newaxis, np.newaxis]
    return np.where(by_judge, is_shown, default).reshape(-1)


def miss_offline(lookup: Lookup) -> None:
    """Give the missing rows the error `cache_miss`, or raise."""
    worklist, store = lookup.stored.worklist, lookup.stored.store
    if lookup.options.on_miss == "raise":
        row = next(iter(lookup.missing))
        item = worklist.items["item_id"].iloc[worklist.place(row)[0]]
        near = nearest(worklist, store, row) or {}
        difference = "; ".join(f"{name}: {cached!r} cached, {new!r} needed" for name, (cached, new) in near.items())
        difference = difference or "nothing is stored for this input, and nothing recorded for this item id"
        raise CacheMiss(
            f"{len(lookup.missing)} of {counted(worklist.n_rows, 'judgment is', 'judgments are')} not in the cache at "
            f"{store.where} (first: item {item!r}; {difference}); run without offline to call the judges"
        )
    if not store.database.n_bytes():
        _log.warning("the cache %s does not exist: check cache= (--cache) or EVALKIT_CACHE", store.place)
    if lookup.kept is None and lookup.columns.recorded.any():
        recorded = {worklist.place(int(row))[:3] for row in np.flatnonzero(lookup.columns.recorded)}
        n_missing = sum(worklist.place(row)[:3] in recorded for row in lookup.missing)
        if n_missing:
            warnings.warn(
                f"{n_missing} of {counted(worklist.n_rows, 'reply', 'replies')} are missing (cache_miss), because "
                f"fewer than {counted(worklist.spec.samples, 'sample')} were recorded; omit samples= to use all "
                "recorded samples",
                EvalkitWarning,
                stacklevel=5,
            )
    lookup.fail(dict.fromkeys(lookup.missing, "cache_miss"))


def nearest(worklist: Worklist, store: ReplyStore, row: int) -> dict[str, tuple[object, object]] | None:
    """In which parts of the key the most similar stored reply differs: ``{part: (stored, asked)}``, or None."""
    differences = [store.nearest(worklist.parts_of(row, recorded=recorded)) for recorded in (True, False)]
    return min((difference for difference in differences if difference), key=len, default=None)


def warn_changed_text(spec: Spec, store: ReplyStore) -> None:
    """Warn if a rubric's file was changed after replies were stored for its version.

    The store knows versions, not files: replies to an unsaved edit are stored under the version that was edited. So the
    warning is limited to rubrics that are loaded unchanged by id and version, and to texts without any stored reply
    while there are replies for another text.
    """
    rubric = spec.rubric
    if rubric.edited:
        return
    stored = store.texts_of(rubric.id, rubric.version)
    current = {
        (asking.template.hash, text) for asking in spec.prompt_builders for text in asking.rubric.prompt_hashes.values()
    }
    templates = {template for template, _ in current}
    stale = [pair for pair in stored if pair[0] in templates and pair not in current]
    if not stale or current <= set(stored) or not is_found(spec.rubric):
        return
    n = sum(store.texts_of(rubric.id, rubric.version, count=True)[pair] for pair in stale)
    warnings.warn(
        f"{counted(n, 'cached reply', 'cached replies')} for {rubric.id}@{rubric.version} were made with another text "
        "of this version. If you changed the rubric's file, restore it, and save your change as the next version "
        "('evalkit rubric new', or Rubric.save)",
        EvalkitWarning,
        stacklevel=4,
    )
