"""The work list of a call of `judge`: items × criteria × judges × orders × samples, and the key of each row."""

from __future__ import annotations

import gc
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import pandas as pd

from evalkit.core.prompts_and_replies import Request
from evalkit.core.reply_keys import KeyMaker, KeyParts, recorded_hash
from evalkit.engine.specification import Spec
from evalkit.errors import EvalkitWarning, InputError, counted, listed
from evalkit.rubrics.prompts import input_hash, item_inputs, swapped
from evalkit.tables import ItemsLike, as_items
from evalkit.tables.items import column_names

_LONG = 1_000_000


@dataclass(frozen=True)
class Worklist:
    """All rows that a call of `judge` returns, in order, with their keys.

    A row's number is ``((item · criteria + criterion) · judges + judge) · orders + order) · samples + sample``.
    `ids` are the ids under which replies were recorded for the items.
    """

    spec: Spec
    items: pd.DataFrame
    inputs: list[dict[str, Any]]
    ids: Sequence[str]

    @classmethod
    def of(
        cls, spec: Spec, items: ItemsLike, item_id: str | None = None, *, ids: Sequence[str] | None = None
    ) -> Worklist:
        """The work list of these items; `ids` are those of their recorded replies, where they differ from `item_id`.

        Raises
        ------
        InputError
            When a column or a value that the rubric needs is missing.
        """
        rubric = spec.rubric
        frame = as_items(items, item_id=item_id, columns=rubric.input_names)
        missing = [name for name in rubric.required_inputs if name not in frame.columns]
        if missing and len(frame):
            columns_there = [name for name in column_names(items) if name != (item_id or "item_id")]
            raise InputError(
                f"rubric {rubric.id!r} needs {counted(len(missing), 'column')} that the items do not have: "
                f"{listed(missing)}; the items have {listed(columns_there, most=30)}; rename yours to "
                f"match, for example with items.rename(columns={{'text': {missing[0]!r}}})"
            )
        columns = {name: frame[name].tolist() for name in frame.columns if name != "item_id"}
        with gc_paused():
            inputs = item_inputs(rubric, columns, len(frame))
        _check_inputs(frame["item_id"].tolist(), inputs, rubric.required_inputs, rubric.id)
        return cls(spec, frame, inputs, frame["item_id"].tolist() if ids is None else ids)

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Number of items, criteria, judges, orders and samples."""
        spec = self.spec
        return len(self.inputs), len(spec.rubric.criteria), len(spec.judges), len(spec.orders), spec.samples

    def with_samples(self, samples: int) -> Worklist:
        """The same work list with another number of samples."""
        other = replace(self, spec=replace(self.spec, samples=samples))
        other.__dict__.update({name: self.__dict__[name] for name in ("hashes", "parts") if name in self.__dict__})
        return other

    @property
    def n_rows(self) -> int:
        """Number of judgments."""
        return math.prod(self.shape)

    @cached_property
    def hashes(self) -> list[list[str]]:
        """Input hash of each item in each order."""
        if self.spec.rubric.mode != "pairwise":
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

    @cached_property
    def parts(self) -> list[list[KeyParts]]:
        """The key parts that all rows of a criterion and judge have in common, by criterion and judge."""
        rubric = self.spec.rubric
        return [
            [
                KeyParts(
                    provider=judge.provider,
                    service=judge.service,
                    model=judge.model,
                    rubric=rubric.id,
                    rubric_version=rubric.version,
                    rubric_hash=builder.rubric.prompt_hashes[criterion.name],
                    template_hash=builder.template.hash,
                    temperature=judge.temperature,
                    max_tokens=judge.max_tokens,
                    params=judge.params,
                )
                for judge, builder in zip(self.spec.judges, self.spec.prompt_builders, strict=True)
            ]
            for criterion in rubric.criteria
        ]

    def keys(self, *, content: bool = False, recorded: bool = False) -> Iterator[bytes]:
        """The key (32 bytes) of each row, in order; with `content` its content key.

        With `recorded` the keys of the replies that were recorded for each item alone.
        """
        makers = [KeyMaker(parts.as_dict(), content=content) for row in self.parts for parts in row]
        orders, samples = self.spec.orders, range(self.spec.samples)
        if not recorded:  # "BA" of (x, y) is the same draw as "AB" of (y, x), swapped before the key
            orders = orders[:1] * len(orders)
        for item, hashes in enumerate(self.hashes):
            own = self.recorded_hashes(item) if recorded else hashes
            for maker in makers:
                for shown, order in zip(own, orders, strict=True):
                    yield from maker(shown, order, samples)

    def recorded_hashes(self, item: int) -> list[str]:
        """Input hash of an item's recorded replies in each order."""
        return [recorded_hash(shown, self.ids[item]) for shown in self.hashes[item]]

    def place(self, row: int) -> tuple[int, int, int, int, int]:
        """Item, criterion, judge, order and sample of a row."""
        _, n_criteria, n_judges, n_orders, n_samples = self.shape
        row, sample = divmod(row, n_samples)
        row, order = divmod(row, n_orders)
        row, judge = divmod(row, n_judges)
        item, criterion = divmod(row, n_criteria)
        return item, criterion, judge, order, sample

    def parts_of(self, row: int, *, recorded: bool = False) -> KeyParts:
        """The full key parts of a row; with `recorded` those of the reply recorded for the item alone."""
        item, criterion, judge, order, sample = self.place(row)
        hashes = self.recorded_hashes(item) if recorded else self.hashes[item]
        key_order = self.spec.orders[order if recorded else 0]
        return self.parts[criterion][judge].of(hashes[order], key_order, sample)

    def requests(self, rows: list[int]) -> list[Request]:
        """The requests for these rows; their prompts are rendered when they are sent.

        Samples of one prompt are one request; a prompt that several items share is asked once.
        """
        samples_of: dict[tuple[int, int, str], set[int]] = {}
        first: dict[tuple[int, int, str], tuple[int, int]] = {}
        for row in rows:
            item, criterion, judge, order, sample = self.place(row)
            group = criterion, judge, self.hashes[item][order]
            samples_of.setdefault(group, set()).add(sample)
            first.setdefault(group, (item, order))
        makers = [[KeyMaker(parts.as_dict()) for parts in row] for row in self.parts]
        key_order = self.spec.orders[0]
        requests: list[Request] = []
        for (criterion, judge, input_hash_), numbers in samples_of.items():
            item, order = first[criterion, judge, input_hash_]
            inputs = swapped(self.inputs[item]) if order else self.inputs[item]
            prompt = partial(self.spec.prompt_builders[judge].prompt, self.spec.rubric.criteria[criterion], inputs)
            parts = self.parts[criterion][judge].of(input_hash_, key_order, 0)
            samples = tuple(sorted(numbers))
            keys = tuple(makers[criterion][judge](input_hash_, key_order, samples))
            requests.append(Request(self.spec.judges[judge], prompt, parts, samples, keys))
        return requests


def _check_inputs(ids: list[str], inputs: list[dict[str, Any]], needed: tuple[str, ...], rubric: str) -> None:
    """Raise for inputs that are missing, warn of very long and of empty ones."""
    for name in needed:
        missing = [item for item, values in zip(ids, inputs, strict=True) if name not in values]
        if missing:
            n_items = counted(len(ids), "item has", "items have")
            raise InputError(
                f"{len(missing)} of {n_items} no {name!r}, which rubric {rubric!r} needs: item {listed(missing)}; "
                "fill it or leave these items out (an empty text counts as a value)"
            )
        long, empty = [], []
        for item, values in zip(ids, inputs, strict=True):
            value = values[name]
            if value in ("", []) or (isinstance(value, str) and value.isspace()):
                empty.append(item)
            elif isinstance(value, str) and len(value) > _LONG:
                long.append(item)
        for items, have, then in (
            (long, "more than a million characters in",
             "few judges read that much, and you pay for all of it; plan shows the cost"),
            (empty, "an empty", "it is judged as an empty text"),
        ):  # fmt: skip
            if items:
                n_items = counted(len(ids), "item has", "items have")
                warnings.warn(
                    f"{len(items)} of {n_items} {have} {name!r} (item {listed(items)}); {then}",
                    EvalkitWarning,
                    stacklevel=4,
                )


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
