"""Which stored reply counts for a row: the live one of its content, or the one recorded for its item."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import orjson

from evalkit.engine.cache import ReplyStore
from evalkit.engine.specification import Spec
from evalkit.engine.worklist import Worklist
from evalkit.errors import EvalkitWarning, counted
from evalkit.rubrics.rubrics_by_name import is_found

_CHUNK = 20_000

Hit = tuple[bytes, bytes]
"""Key and JSON of a stored reply."""


@dataclass(frozen=True)
class StoredReplies:
    """The stored replies of a work list.

    A live reply counts for all items of equal content. A recorded one counts for its item alone and only with
    `recorded`; of the two, the one received last. A reply that an older evalkit recorded, without an item, counts
    if exactly one row of the work list has its key; with several, its item is unknown.

    Attributes
    ----------
    recorded
        Whether recorded replies count.
    since
        Unix time; replies received before it do not count.
    until
        Unix time; replies received after it do not count.
    """

    worklist: Worklist
    store: ReplyStore
    recorded: bool
    since: float | None = None
    until: float | None = None

    @cached_property
    def _shared(self) -> frozenset[str]:
        """Input hashes that several items have."""
        counts = Counter(shown for hashes in self.worklist.hashes for shown in hashes)
        return frozenset(shown for shown, n in counts.items() if n > 1)

    def chunks(self) -> Iterator[tuple[int, list[bytes], list[Hit | None]]]:
        """First row, keys, and the stored reply of each row, some thousand rows at a time."""
        keys, own, first = self.worklist.keys(), self.worklist.keys(recorded=True), 0
        while chunk := list(islice(keys, _CHUNK)):
            own_chunk = list(islice(own, len(chunk))) if self.recorded else None
            yield first, chunk, self._hits(range(first, first + len(chunk)), chunk, own_chunk)
            first += len(chunk)

    def recorded_samples(self) -> int:
        """The maximum number of samples recorded for any item, searched for by doubling."""
        samples = self.worklist.spec.samples
        while True:
            samples *= 2
            wide = replace(self, worklist=self.worklist.with_samples(samples))
            most = 0
            for first, _, hits in wide.chunks():
                places = ((first + at) % samples + 1 for at, hit in enumerate(hits) if hit and is_recorded(hit[1]))
                most = max(most, *places, 0)
            if most <= samples // 2:
                return most

    def of_rows(self, rows: Collection[int], *, content: bool = False) -> dict[int, Hit]:
        """The stored replies of those of the rows that have one.

        With `content`, the replies of other versions of the rubric with the same prompt.
        """
        if not rows:
            return {}
        ordered, wanted = sorted(rows), frozenset(rows)
        keys = list(self.worklist.keys(content=content, rows=wanted))
        own = list(self.worklist.keys(content=content, recorded=True, rows=wanted)) if self.recorded else None
        hits = self._hits(ordered, keys, own, content=content)
        return {row: hit for row, hit in zip(ordered, hits, strict=True) if hit is not None}

    def _hits(
        self, rows: Iterable[int], keys: Sequence[bytes], own: Sequence[bytes] | None, *, content: bool = False
    ) -> list[Hit | None]:
        """The reply of each row: that of its content or, if recorded replies count, the one of its item (`own`)."""
        requested, stored = {*keys, *(own or ())}, dict[bytes, Hit]()
        if content:
            stored = self.store.get_by_content(requested, since=self.since, until=self.until, recorded=self.recorded)
        else:
            values = self.store.get_many(requested, since=self.since, until=self.until, recorded=self.recorded)
            stored = {key: (key, value) for key, value in values.items()}
        if own is None:
            return [stored.get(key) for key in keys]
        pairs = zip(rows, map(stored.get, keys), map(stored.get, own), strict=True)
        return [
            shared if mine is None and not self._shared else self._of(row, shared, mine) for row, shared, mine in pairs
        ]

    def _of(self, row: int, shared: Hit | None, mine: Hit | None) -> Hit | None:
        if shared is None:
            return mine
        if mine is None:
            item, _, _, order, _ = self.worklist.place(row)
            unclear = self.worklist.hashes[item][order] in self._shared and is_recorded(shared[1])
            return None if unclear else shared
        if is_recorded(shared[1]) or _received(mine) > _received(shared):
            return mine
        return shared


def is_recorded(value: bytes) -> bool:
    """Whether a stored reply was recorded."""
    return bool(orjson.loads(value).get("source") == "recorded")


def _received(hit: Hit) -> float:
    return float(orjson.loads(hit[1])["created"])


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
    known = store.texts_of(rubric.id, rubric.version)
    own = {
        (asking.template.hash, text) for asking in spec.prompt_builders for text in asking.rubric.prompt_hashes.values()
    }
    templates = {template for template, _ in own}
    others = [pair for pair in known if pair[0] in templates and pair not in own]
    if not others or own <= set(known) or not is_found(spec.rubric):
        return
    n = sum(store.texts_of(rubric.id, rubric.version, count=True)[pair] for pair in others)
    name = f"{rubric.id}@{rubric.version}"
    warnings.warn(
        f"{counted(n, 'cached reply', 'cached replies')} for {name} were made with another text of this version. If "
        "you changed the rubric's file, restore it, and save your change as the next version ('evalkit rubric new', "
        "or Rubric.save)",
        EvalkitWarning,
        stacklevel=4,
    )
