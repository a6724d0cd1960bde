"""The columns of a table to import: the values of each argument, checked; errors name row and column."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.judges import Judge
from evalkit.core.settings import WEIGHT, is_weight
from evalkit.errors import ConfigError, EvalkitWarning, InputError, counted, guess, listed
from evalkit.rubrics import Rubric
from evalkit.tables.items import id_texts, is_missing

Column = str | pd.Series | Mapping[Any, Any]
"""A column of the table by name, a Series on its index, or a mapping from item to value."""


@dataclass(frozen=True)
class Values:
    """The values of one argument, one per score or reply.

    `name` is the argument, `column` its column in messages, `rows` are the rows of the table that the values are in.
    """

    name: str
    column: str
    values: list[Any]
    rows: np.ndarray[Any, Any]
    index: pd.Index[Any]

    def error(self, at: int, message: str) -> InputError:
        """An error about a value, with its row and column."""
        row = int(self.rows[at])
        index = self.index[row]
        text = f"row {row}{'' if index == row else f' (index {index!r})'}, column {self.column!r}: {message}"
        return InputError(text)

    def required(self) -> list[str]:
        """The values as strings; a missing one is an error."""
        for index, value in enumerate(self.values):
            if is_missing(value) or not str(value).strip():
                raise self.error(index, f"the {self.name} is missing; fill it in or drop the row")
        return [str(text) for text in self.texts()]

    def texts(self) -> list[str | None]:
        """The values as strings; a whole number has no decimals."""
        return [
            None
            if is_missing(value)
            else str(int(value))
            if isinstance(value, float) and value.is_integer()
            else str(value)
            for value in self.values
        ]

    def numbers(self, least: float = -np.inf) -> pd.Series:
        """The values as finite numbers or NaN."""
        numbers = pd.to_numeric(pd.Series(self.values, dtype=object), errors="coerce").astype("float64")
        for index, value in enumerate(self.values):
            if not is_missing(value) and not (np.isfinite(numbers[index]) and numbers[index] >= least):
                limit = "" if least == -np.inf else f" ≥ {least:g}"
                raise self.error(index, f"{self.name} {value!r} is not a finite number{limit}")
        return numbers

    def times(self) -> pd.Series:
        """The values as times in UTC; texts are in ISO 8601, and without a time zone in UTC."""
        times = list[Any]()
        for index, value in enumerate(self.values):
            try:
                if isinstance(value, (int, float, np.number)) and not is_missing(value):
                    raise ValueError(value)
                times.append(pd.to_datetime(value, format="ISO8601", utc=True))
            except (ValueError, TypeError, OverflowError):
                fact = f"{value!r} is not a date, nor a text in ISO 8601 such as '2026-01-31 09:30'"
                advice = (
                    f"convert the column, as in pd.to_datetime(table[{self.column!r}], unit='s') or (…, dayfirst=True)"
                )
                raise self.error(index, f"{fact}; {advice}") from None
        return pd.Series(pd.DatetimeIndex(times, tz="UTC"))

    def same_for(self, owner: str, owners: Sequence[str], values: Iterable[Any]) -> None:
        """Raise if an item or a judge has two of these values."""
        first: dict[str, Any] = {}
        for index, (name, value) in enumerate(zip(owners, values, strict=True)):
            if first.setdefault(name, value) != value:
                fact = f"{owner} {name!r} has two values of {self.name}: {value!r} here and {first[name]!r} before"
                message = f"{fact}; keep one"
                raise self.error(index, message)


@dataclass(frozen=True)
class Rows:
    """The entries of a table: one per score or reply. `at` is the row of each, `given` has their values."""

    frame: pd.DataFrame
    ids: list[str]
    at: np.ndarray[Any, Any]
    given: Values
    is_text: bool
    has_lists: bool

    @classmethod
    def of(cls, frame: pd.DataFrame, item: Column | None, score: Column | None, text: Column | None) -> Rows:
        """The entries of a table; a cell that is a list has one entry per element."""
        if (score is None) == (text is None):
            message = "import_judgments takes either score= (scores) or text= (raw replies); pass exactly one of them"
            raise ConfigError(message)
        if item is None and "item_id" not in frame.columns:
            ids = id_texts(frame.index, None)
        else:
            item = "item_id" if item is None else item
            ids = id_texts(_column(frame, "item", item, None), item if isinstance(item, str) else "item")
        name, chosen = ("score", score) if text is None else ("text", text)
        cells = _column(frame, name, chosen, ids).tolist()
        is_list = [isinstance(cell, (list, tuple, np.ndarray)) for cell in cells]
        # an empty list is a missing answer: its item would vanish
        lists = [(list(cell) or [None]) if several else [cell] for cell, several in zip(cells, is_list, strict=True)]
        rows = np.repeat(np.arange(len(lists)), [len(several) for several in lists])
        column = chosen if isinstance(chosen, str) else name
        values = Values(name, column, [value for several in lists for value in several], rows, frame.index)
        return cls(frame, ids, rows, values, text is not None, any(is_list))

    def __len__(self) -> int:
        return len(self.at)

    @property
    def items(self) -> list[str]:
        """Item of each entry."""
        return [self.ids[row] for row in self.at]

    def values(self, name: str, given: Column) -> Values:
        """The values of an argument."""
        cells = _column(self.frame, name, given, self.ids).tolist()
        column = given if isinstance(given, str) else name
        return Values(name, column, [cells[row] for row in self.at], self.at, self.frame.index)

    def judges(self, judge: Column | Judge | None, annotator: Column | None) -> tuple[list[str], list[float] | None]:
        """The judge of each entry, and its weight if one Judge is given for all."""
        if annotator is not None:
            if judge is not None:
                text = "judge= and annotator= both set the column judge of the result; pass only one of them"
                raise ConfigError(text)
            return self.values("annotator", annotator).required(), None
        if judge is None:
            if "judge" not in self.frame.columns:
                fact = "judge= is missing; pass the column that names the judge"
                raise ConfigError(f"{fact}, or one judge such as 'openai:gpt-4o-mini'")
            judge = "judge"
        if isinstance(judge, str) and judge not in self.frame.columns and ":" in judge:
            judge = Judge.of(judge)
        if isinstance(judge, Judge):
            return [judge.name] * len(self), [judge.weight] * len(self)
        return self.values("judge", judge).required(), None

    def criteria(self, given: Column | None, rubric: Rubric) -> list[str]:
        """Criterion of each entry."""
        # the only criterion may have another name than in a table that holds no other
        several = "criterion" in self.frame.columns and self.frame["criterion"].nunique() > 1
        if given is None and (several or (len(rubric.names) > 1 and "criterion" in self.frame.columns)):
            given = "criterion"
        if given is None or (isinstance(given, str) and given in rubric.names and given not in self.frame.columns):
            return [rubric.criterion(given).name] * len(self)
        values = self.values("criterion", given)
        names = values.required()
        for index, name in enumerate(names):
            if name not in rubric.names:
                message = f"rubric {rubric.id!r} has no criterion {name!r}; {guess(name, rubric.names)}"
                raise values.error(index, f"{message}allowed: {listed(rubric.names)}")
        return names

    def orders(self, given: Column | None, *, pairwise: bool) -> list[str | None]:
        """Order of each entry; None if single answers are judged."""
        given = "order" if given is None and pairwise and "order" in self.frame.columns else given
        if given is None:
            return [None] * len(self)
        if not pairwise:
            raise ConfigError("order= is only for pairwise rubrics, but this rubric judges single answers; omit order=")
        orders = self.values("order", given)
        for index, value in enumerate(orders.values):
            if value not in ("AB", "BA"):
                raise orders.error(index, f"invalid order {value!r}; map it to 'AB' or 'BA'")
        return orders.values

    def samples(self, given: Column | None, key: Mapping[str, list[Any]], times: pd.Series | None) -> list[int]:
        """Sample of each entry: as given, or numbered in the order of `times` or of the rows."""
        given = "sample" if given is None and "sample" in self.frame.columns and not self.has_lists else given
        keys = list(zip(key["item_id"], key["criterion"], key["judge"], key["order"], strict=True))
        if given is None:
            self._warn_of_copies(keys)
            numbers = pd.Series(range(len(self))) if times is None else times.reset_index(drop=True)
            ordered = pd.Series(keys, dtype=object).loc[numbers.sort_values(kind="stable").index]
            return [int(number) for number in ordered.groupby(ordered).cumcount().sort_index()]
        if self.has_lists:
            fact = f"column {self.given.column!r} has a list of samples in each row, so sample= cannot be used"
            raise ConfigError(f"{fact}; omit sample=")
        values = self.values("sample", given)
        first: dict[Any, int] = {}
        for index, cell in enumerate(values.values):
            number = None if is_missing(cell) or isinstance(cell, bool) else pd.to_numeric(cell, errors="coerce")
            if number is None or not number >= 0 or number % 1:
                raise values.error(
                    index, f"sample {cell!r} is not a whole number ≥ 0; to number the rows in their order, omit sample="
                )
            if (before := first.setdefault((*keys[index], int(number)), index)) != index:
                fact = f"the same item, criterion, judge, order and sample as row {self.at[before]}"
                raise values.error(index, f"{fact}; drop one of the two rows, or give them different sample numbers")
        return [key[-1] for key in first]

    def _warn_of_copies(self, keys: list[Any]) -> None:
        """Warn where every row is there twice or more, as after a concat, and its copies would be further samples."""
        firsts = np.unique(self.at, return_index=True)[1]
        texts = self.frame.astype(str).set_axis(range(self.frame.shape[1]), axis=1).iloc[self.at[firsts]]
        rows = texts.assign(key=[str((keys[first], self.given.values[first])) for first in firsts])
        if len(rows) and rows.duplicated(keep=False).all():
            fact = f"each of the {len(rows)} rows is in the table twice or more, the same in all columns"
            advice = "equal rows are samples of one judge; remove copies with table.drop_duplicates()"
            warnings.warn(f"{fact}: {advice}", EvalkitWarning, stacklevel=4)

    def refuse_several_systems(self, system: Column | None, inputs: Iterable[str]) -> None:
        """InputError where one item has the answers of several systems, which would be averaged as one."""
        names = [*(("system", "system_id") if system is None else ()), *inputs]
        for name in [name for name in names if self.frame.columns.tolist().count(name) == 1]:
            values = pd.Series([str(cell) for cell in self.frame[name]], dtype=object).groupby(self.ids).unique()
            several = values[values.map(len) > 1]
            if len(several):
                texts = listed([text[:40] for text in several.iloc[0]], most=3)
                fact = f"item {several.index[0]!r} has {len(several.iloc[0])} values in column {name!r}: {texts}"
                advice = "give each answer an id of its own as item=, and its system as system="
                raise InputError(f"{fact}. Scores of several answers would be averaged as one item's: {advice}")

    def of_items(self, name: str, given: Column) -> list[str | None]:
        """A string per item, the same in all of its rows."""
        values = self.values(name, given)
        texts = values.texts()
        values.same_for("item", self.items, texts)
        return texts

    def weights(self, given: Column, judges: list[str]) -> list[float]:
        """Weight of each entry, the same for all of a judge."""
        values = self.values("weight", given)
        weights = values.numbers(least=0)
        if weights.isna().any():
            raise values.error(int(weights.isna().argmax()), "the weight is missing; fill it in or drop the row")
        for index, weight in enumerate(weights):
            if not is_weight(weight):
                raise values.error(index, f"the weight {weight:g} must be {WEIGHT}")
        values.same_for("judge", judges, weights)
        return weights.tolist()


def _column(frame: pd.DataFrame, name: str, given: Any, ids: list[str] | None) -> pd.Series:
    """The values of an argument, as a column of the table."""
    if isinstance(given, str):
        if given not in frame.columns:
            fact = f"{name}={given!r}: the table has no such column"
            raise InputError(f"{fact}; {guess(given, frame.columns)}it has {listed(frame.columns, most=30)}")
        column = frame[given]
        if isinstance(column, pd.DataFrame):
            raise InputError(f"{name}={given!r}: the table has this column twice")
        return column
    if isinstance(given, pd.Series):
        missing = frame.index.difference(given.index)
        if len(missing) or given.index.has_duplicates:
            why = "has a value twice" if given.index.has_duplicates else f"lacks {listed(missing)}"
            raise InputError(f"{name}= is a Series whose index {why}; it needs one value for each row of the table")
        return given.reindex(frame.index)
    if isinstance(given, Mapping) and ids is not None:
        by_id = dict(zip(id_texts(pd.Series(list(given), dtype=object), name), given.values(), strict=True))
        if unknown := by_id.keys() - set(ids) if name in ("score", "text") else set():
            fact = f"{name}= has {counted(len(unknown), 'item id')} that the table does not have"
            raise InputError(f"{fact}: {listed(sorted(unknown))}")
        return pd.Series([by_id.get(item) for item in ids], index=frame.index, dtype=object)
    text = f"{name}= must be a column's name, a Series or a mapping from item id to value, got {type(given).__name__}"
    raise ConfigError(text)
