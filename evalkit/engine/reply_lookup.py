"""Which stored reply answers for a row: the live one of its content, or the one recorded for its item."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import orjson

from evalkit.engine.cache import ReplyStore
from evalkit.engine.specification import Spec
from evalkit.engine.worklist import Worklist
from evalkit.errors import EvalkitWarning, RubricError, counted
from evalkit.rubrics import load_rubric

__all__ = ["Hit", "Stored", "is_recorded", "nearest", "warn_changed_text"]

_CHUNK = 20_000

Hit = tuple[bytes, bytes]
"""Key and JSON of a stored reply."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored replies of a work.

    A live reply counts for all items of equal content. A recorded one counts for its item alone and only with
    `recorded`; of the two, the one received last. A reply that an older evalkit recorded, without an item, counts
    where one row of the work has its key, not where several do: nobody can say whose it is.

    Attributes
    ----------
    recorded
        Whether recorded replies count.
    since
        Unix time; replies received before it do not count.
    """

    work: Worklist
    store: ReplyStore
    recorded: bool
    since: float | None = None
    _shared: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        if self.recorded:
            counts = Counter(shown for hashes in self.work.hashes for shown in hashes)
            object.__setattr__(self, "_shared", frozenset(shown for shown, n in counts.items() if n > 1))

    def chunks(self) -> Iterator[tuple[int, list[bytes], list[Hit | None]]]:
        """First row, keys, and the stored reply of each row, some thousand rows at a time."""
        keys, own, first = self.work.keys(), self._own_keys(), 0
        while chunk := list(islice(keys, _CHUNK)):
            rows = range(first, first + len(chunk))
            yield first, chunk, self._chosen(rows, chunk, list(islice(own, len(chunk))), self._by_key)
            first += len(chunk)

    def recorded_samples(self) -> int:
        """How many samples were recorded where most were; read on until twice as many bring no other."""
        samples = self.work.spec.samples
        while True:
            samples *= 2
            wide = replace(self, work=self.work.with_samples(samples))
            most = 0
            for first, _, hits in wide.chunks():
                places = ((first + at) % samples + 1 for at, hit in enumerate(hits) if hit and is_recorded(hit[1]))
                most = max(most, *places, 0)
            if most <= samples // 2:
                return most

    def of_content(self, rows: Collection[int]) -> dict[int, Hit]:
        """Replies of other versions of the rubric with the same prompt, for those of the rows that have one."""
        wanted = set(rows)
        both = zip(self.work.keys(content=True), self._own_keys(content=True), strict=False)
        picked = [(row, *keys) for row, keys in enumerate(both) if row in wanted] if wanted else []
        if not picked:
            return {}
        places, keys, own = zip(*picked, strict=True)
        chosen = self._chosen(places, keys, own, self._by_content)
        return {row: hit for row, hit in zip(places, chosen, strict=True) if hit is not None}

    def _own_keys(self, *, content: bool = False) -> Iterator[bytes]:
        return self.work.recorded_keys(content=content) if self.recorded else iter(lambda: b"", None)

    def _chosen(
        self,
        rows: Iterable[int],
        keys: Sequence[bytes],
        own: Sequence[bytes],
        get: Callable[[set[bytes]], Mapping[bytes, Hit]],
    ) -> list[Hit | None]:
        found = get({*keys, *own} if self.recorded else set(keys))
        if not self.recorded:
            return [found.get(key) for key in keys]
        pairs = zip(rows, map(found.get, keys), map(found.get, own), strict=True)
        return [
            shared if mine is None and not self._shared else self._of(row, shared, mine) for row, shared, mine in pairs
        ]

    def _of(self, row: int, shared: Hit | None, mine: Hit | None) -> Hit | None:
        if shared is None:
            return mine
        if mine is None:
            item, _, _, order, _ = self.work.place(row)
            unclear = self.work.hashes[item][order] in self._shared and is_recorded(shared[1])
            return None if unclear else shared
        if is_recorded(shared[1]) or _received(mine) > _received(shared):
            return mine
        return shared

    def _by_key(self, keys: set[bytes]) -> dict[bytes, Hit]:
        found = self.store.get_many(keys, since=self.since, recorded=self.recorded)
        return {key: (key, value) for key, value in found.items()}

    def _by_content(self, keys: set[bytes]) -> dict[bytes, Hit]:
        return self.store.get_by_content(keys, since=self.since, recorded=self.recorded)


def is_recorded(value: bytes) -> bool:
    """Whether a stored reply was recorded."""
    return bool(orjson.loads(value).get("source") == "recorded")


def _received(hit: Hit) -> float:
    return float(orjson.loads(hit[1])["created"])


def nearest(work: Worklist, store: ReplyStore, row: int) -> dict[str, tuple[object, object]] | None:
    """In which parts of the key the most similar stored reply differs: ``{part: (stored, asked)}``, or None."""
    found = [store.nearest(work.recorded_parts_of(row)), store.nearest(work.parts_of(row))]
    return min((near for near in found if near), key=len, default=None)


def warn_changed_text(spec: Spec, store: ReplyStore) -> None:
    """Warn if a rubric's file was changed after replies were stored for its version.

    The store knows versions, not files: replies to an edit that was never saved lie there under the version that was
    edited. So it is told only of a rubric that is found by its id and version as it is, and of a text for which nothing
    is stored yet while there are replies for another.
    """
    rubric = spec.rubric
    if rubric.edited:
        return
    known = store.texts_of(rubric.id, rubric.version)
    own = {(asking.template.hash, text) for asking in spec.prompt_builders for text in asking.rubric_hashes.values()}
    templates = {template for template, _ in own}
    others = [pair for pair in known if pair[0] in templates and pair not in own]
    if not others or own <= set(known) or not _is_file(spec):
        return
    n = sum(store.texts_of(rubric.id, rubric.version, count=True)[pair] for pair in others)
    name = f"{rubric.id}@{rubric.version}"
    warnings.warn(
        f"{name} is not the text that {counted(n, 'cached reply was', 'cached replies were')} given for: its file was "
        f"changed, or they are of an edit that was not saved; restore the file and save the change as the next version "
        f"(ek.rubrics.save, or evalkit rubric new), so that {name} goes on naming one text",
        EvalkitWarning,
        stacklevel=4,
    )


def _is_file(spec: Spec) -> bool:
    """Whether the rubric is what its id and version load: not one that was made by hand or by a program."""
    try:
        return load_rubric(f"{spec.rubric.id}@{spec.rubric.version}").content_hash == spec.rubric.content_hash
    except RubricError:
        return False
