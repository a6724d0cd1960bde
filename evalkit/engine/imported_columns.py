"""The columns of a table to import: the values of each argument, checked; errors name row and column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply
from evalkit.errors import ConfigError, InputError, counted, guess, listed
from evalkit.rubrics import Rubric
from evalkit.tables import is_missing
from evalkit.tables.items import id_texts

__all__ = ["Column", "Rows"]

Column = str | pd.Series | Mapping[Any, Any]
"""A column of the table by name, a Series on its index, or a mapping from item to value."""


@dataclass(frozen=True)
class Rows:
    """One entry per score or reply: `at` is its row of the table, `values` are those of `column`."""

    frame: pd.DataFrame
    ids: list[str]
    at: np.ndarray[Any, Any]
    values: list[Any]
    column: str
    is_text: bool
    has_lists: bool

    @classmethod
    def of(cls, frame: pd.DataFrame, item: Column | None, score: Column | None, text: Column | None) -> Rows:
        """The rows of a table; a cell that is a list gives one entry per element."""
        if (score is None) == (text is None):
            raise ConfigError("give either score= (scores) or text= (raw replies)")
        if item is None and "item_id" not in frame.columns:
            ids = id_texts(frame.index, None)
        else:
            item = "item_id" if item is None else item
            ids = id_texts(_column(frame, "item", item, None), _name("item", item))
        name, given = ("score", score) if text is None else ("text", text)
        cells = _column(frame, name, given, ids).tolist()
        lists = [list(cell) if isinstance(cell, (list, tuple, np.ndarray)) else None for cell in cells]
        at = [row for row, several in enumerate(lists) for _ in (several if several is not None else [0])]
        values = [
            value
            for cell, several in zip(cells, lists, strict=True)
            for value in ([cell] if several is None else several)
        ]
        has_lists = any(several is not None for several in lists)
        return cls(frame, ids, np.array(at, dtype=np.int64), values, _name(name, given), text is not None, has_lists)

    def __len__(self) -> int:
        return len(self.at)

    @property
    def items(self) -> list[str]:
        """Item of each entry."""
        return [self.ids[row] for row in self.at]

    def column_of(self, name: str, given: Column | None) -> list[Any] | None:
        """The values of an argument; None where it was left out."""
        if given is None:
            return None
        cells = _column(self.frame, name, given, self.ids).tolist()
        return [cells[row] for row in self.at]

    def where(self, at: int, name: str = "", given: Any = None) -> str:
        """Where an entry is, for messages: its row, and the column of an argument (by default scores or replies)."""
        column = _name(name, given) if name else self.column
        row = int(self.at[at])
        index = self.frame.index[row]
        return f"row {row}{'' if index == row else f' (index {index!r})'}, column {column!r}"

    def judges(self, judge: Column | Judge | None, annotator: Column | None) -> tuple[list[str], list[float] | None]:
        """The judge of each entry, and its weight if one Judge is named for all."""
        if annotator is not None and judge is not None:
            raise ConfigError("give judge= or annotator=, not both: an annotator is a judge of this table")
        given, name = (judge, "judge") if annotator is None else (annotator, "annotator")
        if given is None:
            if "judge" not in self.frame.columns:
                raise ConfigError("judge= is missing: name the column, or a judge such as 'openai:gpt-4o-mini'")
            given = "judge"
        if isinstance(given, str) and given not in self.frame.columns and ":" in given:
            given = Judge.of(given)
        if isinstance(given, Judge):
            return [given.name] * len(self), [given.weight] * len(self)
        return self._named(name, given), None

    def _named(self, name: str, given: Column) -> list[str]:
        names = []
        for at, value in enumerate(self.column_of(name, given) or ()):
            if is_missing(value) or not str(value).strip():
                raise InputError(f"{self.where(at, name, given)}: no {name}; fill it or leave the row out")
            names.append(_text(value))
        return names

    def criteria(self, given: Column | None, rubric: Rubric) -> list[str]:
        """Criterion of each entry."""
        # the only criterion may have another name than in a table that holds no other
        several = "criterion" in self.frame.columns and self.frame["criterion"].nunique() > 1
        if given is None and (several or (len(rubric.names) > 1 and "criterion" in self.frame.columns)):
            given = "criterion"
        if given is None or (isinstance(given, str) and given in rubric.names and given not in self.frame.columns):
            return [rubric.criterion(given).name] * len(self)
        names = self._named("criterion", given)
        for at, name in enumerate(names):
            if name not in rubric.names:
                raise InputError(
                    f"{self.where(at, 'criterion', given)}: rubric {rubric.id!r} has no criterion {name!r}; "
                    f"{guess(name, rubric.names)}allowed are {listed(rubric.names)}"
                )
        return names

    def orders(self, given: Column | None, *, pairwise: bool) -> list[str | None]:
        """Order of each entry; None where single answers are judged."""
        given = "order" if given is None and pairwise and "order" in self.frame.columns else given
        if given is None:
            return ["AB" if pairwise else None] * len(self)
        if not pairwise:
            raise ConfigError("order= is for pairwise rubrics; this one judges single answers")
        orders = self.column_of("order", given) or []
        for at, value in enumerate(orders):
            if value not in ("AB", "BA"):
                raise InputError(f"{self.where(at, 'order', given)}: order {value!r}; map it to 'AB' or 'BA'")
        return orders

    def samples(self, given: Column | None, key: Mapping[str, list[Any]], times: pd.Series | None) -> list[int]:
        """Sample of each entry."""
        given = "sample" if given is None and "sample" in self.frame.columns and not self.has_lists else given
        keys = list(zip(key["item_id"], key["criterion"], key["judge"], key["order"], strict=True))
        if given is not None:
            return self._given_samples(given, keys)
        rank = range(len(self)) if times is None else times.reset_index(drop=True).sort_values(kind="stable").index
        counts: dict[Any, int] = {}
        samples = [0] * len(self)
        for at in rank:
            samples[at] = counts.get(keys[at], 0)
            counts[keys[at]] = samples[at] + 1
        return samples

    def _given_samples(self, given: Column, keys: list[Any]) -> list[int]:
        if self.has_lists:
            raise ConfigError(f"sample= is given, and column {self.column!r} holds lists of samples; choose one")
        first: dict[Any, int] = {}
        for at, value in enumerate(self.column_of("sample", given) or ()):
            number = None if is_missing(value) or isinstance(value, bool) else pd.to_numeric(value, errors="coerce")
            if number is None or not number >= 0 or number % 1:
                raise InputError(
                    f"{self.where(at, 'sample', given)}: sample {value!r} is not a whole number from 0; "
                    "without a column of samples rows are numbered in their order"
                )
            key = (*keys[at], int(number))
            if key in first:
                raise InputError(
                    f"{self.where(at, 'sample', given)}: the same item, criterion, judge, order and sample as row "
                    f"{self.at[first[key]]}; drop one, or number them as samples"
                )
            first[key] = at
        return [key[-1] for key in first]

    def texts(self, name: str, given: Column | None) -> list[Any] | None:
        """An argument's values as texts."""
        values = self.column_of(name, given)
        return None if values is None else [None if is_missing(value) else _text(value) for value in values]

    def of_items(self, name: str, given: Column | None) -> pd.Series | None:
        """A text per item, the same in all of its rows."""
        texts = self.texts(name, given)
        if texts is None:
            return None
        known: dict[str, Any] = {}
        for at, (item, value) in enumerate(zip(self.items, texts, strict=True)):
            if known.setdefault(item, value) != value:
                raise InputError(
                    f"{self.where(at, name, given)}: item {item!r} has {name} {value!r} "
                    f"here and {known[item]!r} before; an item has one {name}, so make it part of the item's id"
                )
        return pd.Series(texts, dtype="str")

    def numbers(self, name: str, given: Column | None) -> pd.Series | None:
        """An argument's values as finite numbers or NaN."""
        values = self.column_of(name, given)
        if values is None:
            return None
        numbers = pd.to_numeric(pd.Series(values, dtype=object), errors="coerce").astype("float64")
        for at, value in enumerate(values):
            if not is_missing(value) and not np.isfinite(numbers[at]):
                raise InputError(f"{self.where(at, name, given)}: {name} {value!r} is not a finite number")
        return numbers

    def weights(self, given: Column, judges: list[str]) -> list[float]:
        """Weight of each entry, the same for all of a judge."""
        weights = self.numbers("weight", given)
        assert weights is not None
        known: dict[str, float] = {}
        for at, (name, value) in enumerate(zip(judges, weights, strict=True)):
            if not value >= 0:
                raise InputError(f"{self.where(at, 'weight', given)}: weight {value!r} is not a number ≥ 0")
            if known.setdefault(name, value) != value:
                raise InputError(
                    f"{self.where(at, 'weight', given)}: judge {name!r} has the weight {value:g} here and "
                    f"{known[name]:g} before; a judge has one weight"
                )
        return weights.tolist()

    def times(self, given: Column | None) -> pd.Series | None:
        """An argument's values as times in UTC."""
        values = self.column_of("time", given)
        if values is None:
            return None
        times = []
        for at, value in enumerate(values):
            try:
                numeric = isinstance(value, (int, float, np.number)) and not is_missing(value)
                times.append(pd.to_datetime(value, unit="s" if numeric else None, utc=True))
            except (ValueError, TypeError, OverflowError):
                raise InputError(
                    f"{self.where(at, 'time', given)}: {value!r} is not a time; give a date, ISO text or Unix seconds"
                ) from None
        return pd.Series(pd.DatetimeIndex(times, tz="UTC"))

    def reply(self, at: int) -> dict[str, Any]:
        """A raw reply, as it is stored."""
        value = self.values[at]
        if isinstance(value, Reply):
            return value.as_dict()
        if isinstance(value, str):
            return {"text": value}
        raise InputError(
            f"{self.where(at)}: a reply is a text, got {type(value).__name__} ({value!r}); give scores by score="
        )


def _name(name: str, given: Any) -> str:
    """The name of an argument's column in messages."""
    return given if isinstance(given, str) else name


def _column(frame: pd.DataFrame, name: str, given: Any, ids: list[str] | None) -> pd.Series:
    """The values of an argument, as a column of the table."""
    if isinstance(given, str):
        if given not in frame.columns:
            raise InputError(
                f"{name}={given!r}: the table has no such column; {guess(given, frame.columns)}it has "
                f"{listed(frame.columns, most=30)}"
            )
        column = frame[given]
        if isinstance(column, pd.DataFrame):
            raise InputError(f"{name}={given!r}: the table has this column twice")
        return column
    if isinstance(given, pd.Series):
        missing = frame.index.difference(given.index)
        if len(missing) or given.index.has_duplicates:
            why = "has an index value twice" if given.index.has_duplicates else f"lacks {listed(missing)}"
            raise InputError(f"{name}= is a Series whose index {why}; it needs one value for each row of the table")
        return given.reindex(frame.index)
    if isinstance(given, Mapping) and ids is not None:
        by_id = dict(zip(id_texts(pd.Series(list(given), dtype=object), name), given.values(), strict=True))
        if unknown := by_id.keys() - set(ids) if name in ("score", "text") else set():
            raise InputError(
                f"{name}= has {counted(len(unknown), 'item')} that the table lacks: {listed(sorted(unknown))}"
            )
        return pd.Series([by_id.get(item) for item in ids], index=frame.index, dtype=object)
    raise ConfigError(f"{name}= takes a column's name, a Series or a mapping by item, not {type(given).__name__}")


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
