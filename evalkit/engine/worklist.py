"""The rows of a call of `judge`: items × criteria × judges × orders × samples, and the key of each."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.keys import KeyParts, recorded_hash, sample_keys
from evalkit.core.records import Prompt, Request
from evalkit.engine.specification import Spec
from evalkit.errors import EvalkitWarning, InputError, counted, listed
from evalkit.rubrics import Criterion
from evalkit.rubrics.prompts import input_hash, swapped
from evalkit.tables import as_items
from evalkit.tables.items import column_names

__all__ = ["Worklist", "gc_paused"]

_LONG = 1_000_000


@dataclass(frozen=True)
class Worklist:
    """All rows that a call of `judge` will return, in order, with their keys.

    A row's number is ``((item · criteria + criterion) · judges + judge) · orders + order) · samples + sample``.
    `ids` are the ids under which replies were recorded for the items.
    """

    spec: Spec
    items: pd.DataFrame
    inputs: list[dict[str, Any]]
    ids: Sequence[str]

    @classmethod
    def of(cls, spec: Spec, items: Any, item_id: str | None = None, *, ids: Sequence[str] | None = None) -> Worklist:
        """The work for these items; `ids` names them for recorded replies where `item_id` is another name.

        Raises
        ------
        InputError
            When a column or a value that the rubric needs is missing.
        """
        rubric = spec.rubric
        frame = as_items(items, item_id=item_id, columns=rubric.input_names)
        lacking = [name for name in rubric.required_inputs if name not in frame.columns]
        if lacking and len(frame):
            there = [name for name in column_names(items) if name != (item_id or "item_id")]
            raise InputError(
                f"rubric {rubric.id!r} needs the column {listed(lacking)}, which the items lack; "
                f"they have {listed(there, most=30)}"
            )
        columns = {name: frame[name].tolist() for name in frame.columns if name != "item_id"}
        with gc_paused():
            inputs = spec.prompt_builders[0].inputs_of(columns, len(frame))
        _check_inputs(frame["item_id"].tolist(), inputs, rubric.required_inputs, rubric.id)
        return cls(spec, frame, inputs, frame["item_id"].tolist() if ids is None else ids)

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Number of items, criteria, judges, orders and samples."""
        spec = self.spec
        return len(self.inputs), len(spec.rubric.criteria), len(spec.judges), len(spec.orders), spec.samples

    def with_samples(self, samples: int) -> Worklist:
        """The same work with another number of samples."""
        made = replace(self, spec=replace(self.spec, samples=samples))
        made.__dict__.update({name: self.__dict__[name] for name in ("hashes", "parts") if name in self.__dict__})
        return made

    @property
    def n_rows(self) -> int:
        """Number of judgments."""
        return int(np.prod(self.shape))

    @cached_property
    def hashes(self) -> list[list[str]]:
        """Input hash of each item in each order."""
        if self.spec.orders == (None,):
            return [[input_hash(inputs)] for inputs in self.inputs]
        return [[input_hash(inputs), input_hash(swapped(inputs))] for inputs in self.inputs]

    @property
    def n_unique(self) -> int:
        """Number of items that differ in content."""
        return len({tuple(hashes) for hashes in self.hashes})

    @cached_property
    def clusters(self) -> list[str]:
        """For each item a text that items of equal content share."""
        return [min(hashes) for hashes in self.hashes]

    def shared_parts(self, criterion: Criterion, judge: int) -> KeyParts:
        """The key parts that all rows of a criterion and judge have in common."""
        spec, one, builder = self.spec, self.spec.judges[judge], self.spec.prompt_builders[judge]
        return KeyParts(
            provider=one.provider,
            service=one.service,
            model=one.model,
            rubric=spec.rubric.id,
            rubric_version=spec.rubric.version,
            rubric_hash=builder.rubric_hashes[criterion.name],
            template_hash=builder.template.hash,
            temperature=one.temperature,
            max_tokens=one.max_tokens,
            params=one.params,
        )

    @cached_property
    def parts(self) -> list[list[KeyParts]]:
        """Shared key parts by criterion and judge."""
        return [
            [self.shared_parts(criterion, judge) for judge in range(len(self.spec.judges))]
            for criterion in self.spec.rubric.criteria
        ]

    def keys(self, *, content: bool = False) -> Iterator[bytes]:
        """The key (32 bytes) of each row, in order; `content` asks for content keys."""
        # "BA" of (x, y) is the same draw as "AB" of (y, x): the swap happens before the key
        orders = (None,) if self.spec.orders == (None,) else ("AB", "AB")
        return self._keys(self.hashes, orders, content)

    def recorded_keys(self, *, content: bool = False) -> Iterator[bytes]:
        """As `keys`, of the replies that were recorded for each item alone."""
        return self._keys((self.recorded_hashes(at) for at in range(len(self.ids))), self.spec.orders, content)

    def recorded_hashes(self, item: int) -> list[str]:
        """Input hash of an item's recorded replies in each order."""
        return [recorded_hash(shown, self.ids[item]) for shown in self.hashes[item]]

    def _keys(self, hashes: Iterable[list[str]], orders: Sequence[str | None], content: bool) -> Iterator[bytes]:
        makers = [sample_keys(parts, content=content) for row in self.parts for parts in row]
        samples = range(self.spec.samples)
        for item in hashes:
            for maker in makers:
                for shown, order in zip(item, orders, strict=True):
                    yield from maker(shown, order, samples)

    def place(self, row: int) -> tuple[int, int, int, int, int]:
        """Item, criterion, judge, order and sample of a row."""
        _, n_criteria, n_judges, n_orders, n_samples = self.shape
        row, sample = divmod(row, n_samples)
        row, order = divmod(row, n_orders)
        row, judge = divmod(row, n_judges)
        item, criterion = divmod(row, n_criteria)
        return item, criterion, judge, order, sample

    def parts_of(self, row: int) -> KeyParts:
        """The full key parts of a row."""
        item, criterion, judge, order, sample = self.place(row)
        shown = None if self.spec.orders == (None,) else "AB"
        return self.parts[criterion][judge].of(self.hashes[item][order], shown, sample)

    def recorded_parts_of(self, row: int) -> KeyParts:
        """As `parts_of`, of the reply that was recorded for the item alone."""
        item, criterion, judge, order, sample = self.place(row)
        return self.parts[criterion][judge].of(self.recorded_hashes(item)[order], self.spec.orders[order], sample)

    def requests(self, rows: list[int]) -> list[Request]:
        """The requests for these rows; their prompts are rendered when they are sent.

        Samples of one prompt are one request; a prompt that several items share is asked once.
        """
        grouped: dict[tuple[int, int, str], set[int]] = {}
        first: dict[tuple[int, int, str], tuple[int, int]] = {}
        for row in rows:
            item, criterion, judge, order, sample = self.place(row)
            group = criterion, judge, self.hashes[item][order]
            grouped.setdefault(group, set()).add(sample)
            first.setdefault(group, (item, order))
        makers = [[sample_keys(parts) for parts in row] for row in self.parts]
        shown = None if self.spec.orders == (None,) else "AB"
        requests: list[Request] = []
        for (criterion, judge, hashed), wanted in grouped.items():
            item, order = first[criterion, judge, hashed]
            prompt = partial(self._prompt, criterion, judge, item, bool(order))
            parts = self.parts[criterion][judge].of(hashed, shown, 0)
            samples = tuple(sorted(wanted))
            keys = tuple(makers[criterion][judge](hashed, shown, samples))
            requests.append(Request(self.spec.judges[judge], prompt, parts, samples, keys))
        return requests

    def _prompt(self, criterion: int, judge: int, item: int, swap: bool) -> Prompt:
        inputs = swapped(self.inputs[item]) if swap else self.inputs[item]
        return self.spec.prompt_builders[judge].prompt(self.spec.rubric.criteria[criterion], inputs)


def _check_inputs(ids: list[str], inputs: list[dict[str, Any]], needed: tuple[str, ...], rubric: str) -> None:
    for name in needed:
        missing = [key for key, values in zip(ids, inputs, strict=True) if name not in values]
        if missing:
            raise InputError(
                f"{len(missing)} of {counted(len(ids), 'item has', 'items have')} no {name!r}, which "
                f"rubric {rubric!r} needs: item {listed(missing)}; fill it or leave these items out "
                "(an empty text is judged as empty)"
            )
        long = [key for key, values in zip(ids, inputs, strict=True) if _is_long(values[name])]
        if long:
            warnings.warn(
                f"{len(long)} of {counted(len(ids), 'item has', 'items have')} a {name!r} of more than a million signs "
                f"(item {listed(long)}): "
                "few judges read that much, and all of it is paid; see what it costs with plan",
                EvalkitWarning,
                stacklevel=5,
            )
        blank = [
            key for key, values in zip(ids, inputs, strict=True) if values[name] in ("", []) or _blank(values[name])
        ]
        if blank:
            warnings.warn(
                f"{len(blank)} of {counted(len(ids), 'item has', 'items have')} an empty {name!r} "
                f"(item {listed(blank)}): judged as empty",
                EvalkitWarning,
                stacklevel=5,
            )


def _is_long(value: Any) -> bool:
    return isinstance(value, str) and len(value) > _LONG


def _blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


@contextmanager
def gc_paused() -> Iterator[None]:
    """Switch the garbage collector off inside: building a million small objects would start it over and over."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
