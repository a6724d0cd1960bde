"""Group codes of long tables, from which votes, scores and figures are computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit.errors import InputError, counted, listed
from evalkit.tables.schemas import id_text

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Objects = npt.NDArray[np.object_]
_MOST = 2**62
_WHOLE = r"^(-?\d+)\.0+$"  # a whole number as a float
ClustersLike = Mapping[str, Any] | pd.Series
"""item_id -> cluster."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of each row; groups are numbered in order of their first row.

    Attributes
    ----------
    codes
        The group of each row.
    first
        The first row of each group.
    """

    codes: Ints
    first: Ints

    def __len__(self) -> int:
        return len(self.first)

    def count(self, rows: Flags | None = None) -> Ints:
        """Rows per group, of those marked in `rows`."""
        return np.bincount(self.codes if rows is None else self.codes[rows], minlength=len(self)).astype(np.int64)

    def rows(self) -> list[Ints]:
        """The rows of each group."""
        return np.split(np.argsort(self.codes, kind="stable"), np.cumsum(self.count())[:-1]) if len(self) else []

    def total(self, values: Floats, rows: Flags | None = None) -> Floats:
        """Sum of `values` (one per row) per group, over the rows marked in `rows`."""
        codes = self.codes if rows is None else self.codes[rows]
        chosen = values if rows is None else values[rows]
        return np.bincount(codes, weights=chosen, minlength=len(self)).astype(np.float64)

    def mean(self, values: Floats, rows: Flags, weights: Floats | None = None) -> Floats:
        """Mean of `values` per group over the rows marked in `rows`, NaN for none; `weights` has one of each row."""
        weights = np.ones(len(values)) if weights is None else weights
        top, bottom = self.total(np.where(rows, values, 0.0) * weights), self.total(weights, rows)
        return np.asarray(np.divide(top, bottom, out=np.full(len(self), np.nan), where=bottom > 0))


def group(frame: pd.DataFrame, keys: Sequence[str], *, may_miss: Sequence[str] = ()) -> Groups:
    """Groups of equal `keys`, numbered in order of first appearance.

    Parameters
    ----------
    frame
        Any table that has the columns `keys`.
    may_miss
        Keys that may be NA; NA is then a value of its own.

    Raises
    ------
    InputError
        When a key is NA.

    Examples
    --------
    >>> frame = pd.DataFrame({"item_id": ["b", "a", "b"], "judge": ["x", "x", "x"]})
    >>> group(frame, ["item_id", "judge"]).codes.tolist()
    [0, 1, 0]
    """
    codes = pd.factorize(_key_numbers(frame, keys, may_miss))[0].astype(np.int64, copy=False)
    n_groups = int(codes.max()) + 1 if len(codes) else 0
    first = np.full(n_groups, len(codes), dtype=np.int64)
    np.minimum.at(first, codes, np.arange(len(codes)))
    return Groups(codes, first)


def factorized(column: pd.Series, key: str) -> tuple[Ints, Any]:
    """As `pandas.factorize`; InputError for cells that are lists or objects, and so are no keys."""
    try:
        return pd.factorize(column)
    except TypeError as problem:  # unhashable type: 'list'
        kind = str(problem).rpartition(" ")[2].strip("'")
        raise InputError(f"column {key!r} has a {kind} in a cell; keep one text or number in each") from None


def _key_numbers(frame: pd.DataFrame, keys: Sequence[str], may_miss: Sequence[str]) -> Ints:
    """A number of each row, equal where all keys are."""
    numbers, n_numbers = np.zeros(len(frame), dtype=np.int64), 1
    for key in keys:
        column: Any = frame[key]
        if isinstance(column.dtype, pd.CategoricalDtype):
            found, n_values = column.array.codes, len(column.dtype.categories)
        else:
            found, seen = factorized(column, key)
            n_values = len(seen)
            alike = (
                pd.Index(map(str, seen)).duplicated() if key in may_miss and seen.dtype == object else np.zeros(0, bool)
            )
            if alike.any():
                raise InputError(
                    f"column {key!r} has two kinds of {str(seen[alike][0])!r}, as a number and a text are; store them "
                    f"alike, as in table[{key!r}].astype(str)"
                )
        missing = found < 0
        if missing.any():
            if key not in may_miss:
                raise InputError(
                    f"column {key!r} has missing values in {int(missing.sum())} of {counted(len(frame), 'row')}"
                )
            found = np.where(missing, np.int64(n_values), found)
        if n_numbers * (n_values + 1) > _MOST:
            numbers = pd.factorize(numbers)[0].astype(np.int64)
            n_numbers = int(numbers.max()) + 1
        numbers *= n_values + 1
        numbers += found
        n_numbers *= n_values + 1
    return numbers


def refuse_doubles(frame: pd.DataFrame, keys: Sequence[str], what: str, *, may_miss: Sequence[str] = ()) -> None:
    """Raise InputError if two rows have the same key (a table concatenated with itself)."""
    numbers = _key_numbers(frame, keys, may_miss)
    numbers.sort()
    if doubled := int((numbers[1:] == numbers[:-1]).sum()):
        rows = frame.loc[frame.duplicated(list(keys)).to_numpy(), list(keys)].iloc[0]
        several = " or, if the rows come from several runs, give the judges of each run different names"
        raise InputError(
            f"{doubled} of {len(frame)} rows of the {what} table have the same key as another row (the first: "
            f"{listed(rows.tolist())}); remove the duplicates{several if 'judge' in keys else ''}"
        )


def small(codes: Ints) -> Ints:
    """The same numbers in as few bytes as they need: there may be tens of millions."""
    return codes.astype(np.min_scalar_type(-1 - int(codes.max(initial=0))))


def used_categories(column: pd.Series) -> pd.Series:
    """A category column without the categories that are not in it; the column itself if all are."""
    return column if column.nunique() == len(column.cat.categories) else column.cat.remove_unused_categories()


def clusters_of(item_ids: pd.Series, clusters: ClustersLike | None) -> pd.Series:
    """The cluster of each item: from a mapping or a Series indexed by `item_id`, else the item itself.

    An item without an entry (or with NA) is a cluster of its own.
    """
    if isinstance(item_ids.dtype, pd.CategoricalDtype):  # each id once
        codes, units = pd.factorize(clusters_of(pd.Series(item_ids.cat.categories), clusters))
        own = codes.astype(np.int32)[item_ids.cat.codes]
        return pd.Series(pd.Categorical.from_codes(own, units), index=item_ids.index)
    ids = item_ids.astype("str")
    if clusters is None:
        return ids
    if isinstance(clusters, str):
        raise InputError(f"clusters={clusters!r} is no mapping; pass items.set_index('item_id')[{clusters!r}]")
    # The prefix keeps an item's own name apart from a cluster of that name.
    found = ids.map("cluster " + by_id(clusters, ids, "clusters").dropna().astype("str"))
    return found.where(found.notna(), ids)


def by_id(values: Mapping[Any, Any] | pd.Series, item_ids: pd.Series, what: str) -> pd.Series:
    """A mapping or Series from items to values, its ids spelled as those of the table (`match_ids`).

    Raises
    ------
    InputError
        When an item is in it twice, or as `match_ids`.
    """
    try:
        series = values if isinstance(values, pd.Series) else pd.Series(dict(values), dtype=object)
    except (TypeError, ValueError):  # a list of values, without the items
        raise InputError(
            f"{what} is a {type(values).__name__}, no mapping from item_id; pass a column by item, as in "
            "items.set_index('item_id')['group_id']"
        ) from None
    series = series.set_axis(
        match_ids(series.index, pd.Index(item_ids.unique(), dtype="str"), what, "item", many=False)
    )
    # not has_duplicates, which keeps a hash table of the index for as long as there is the index
    if (twice := series.index.duplicated()).any():
        raise InputError(f"{what} of item {series.index[twice][0]!r} twice; expected one value per item_id")
    return series


ID_NOTES: ContextVar[dict[str, None] | None] = ContextVar("ID_NOTES", default=None)
"""Where `match_ids` notes what it could not match, while a function runs whose table has `notes`."""


@contextmanager
def collected_notes() -> Iterator[dict[str, None]]:
    """The notes on ids made meanwhile."""
    notes = dict[str, None]()
    token = ID_NOTES.set(notes)
    try:
        yield notes
    finally:
        ID_NOTES.reset(token)


def by_value(ids: Any) -> Any:
    """Ids as texts, equal where `match_ids` takes them for equal: 1.0 is 1."""
    return ids.str.replace(_WHOLE, r"\1", regex=True)


def is_among(ids: pd.Series | pd.Index, items: pd.Series | pd.Index) -> Flags:
    """Which of the ids are among those of the items; pandas' own `isin` makes a scalar of each, which is slow."""
    return np.asarray(pd.Index(items, dtype=object).unique().get_indexer(pd.Index(ids, dtype=object)) >= 0)


def match_ids(given: pd.Index, items: pd.Index, what: str, where: str, *, many: bool = True) -> pd.Index:
    """Ids as texts, spelled as those of the items that they equal by value: 1 and 1.0 are "1", "01" and "1 " are not.

    Raises
    ------
    InputError
        When under half of them are ids of `items`, and under half of the items are among them.
    """
    texts = pd.Index([id_text(value) for value in given], dtype="str")
    if texts.equals(items):  # as of a whole table, which is read many times
        return texts
    known = is_among(texts, items)
    if not known.all():
        plain = pd.Series(items, index=by_value(items))
        plain = plain[~plain.index.duplicated(keep=False)]
        found = pd.Series(by_value(texts)).map(plain)
        texts = texts.where(known | found.isna().to_numpy(), pd.Index(found, dtype="str"))
        known = is_among(texts, items)
    covered = is_among(items, texts)
    if len(texts) and len(items) and not known.all():
        lost = f"{int((~known).sum())} of {len(texts)} {what} are of no {where}, such as {texts[~known][0]!r}"
        if known.mean() < 0.5 and covered.mean() < 0.5:
            none = f"the {what} and the {where}s have no item_id in common"
            raise InputError(
                f"{lost if known.any() else none}: the {what} have ids such as {texts[~known][0]!r}, the {where}s "
                f"such as {str(items[0])!r}; use the same ids in both, and pass only {what} of these {where}s"
            )
        if (notes := ID_NOTES.get()) is not None and (many or not covered.all()):
            notes[lost] = None
    return texts


def cluster_names(items: pd.DataFrame, content: Sequence[str]) -> pd.Series:
    """Item -> unit of the intervals: its group if it has one, else its content.

    The content of a row that is a criterion of an item is that of all rows of this item.
    """
    units = np.asarray(content, dtype=object)
    if "group_id" in items.columns:
        has = items["group_id"].notna().to_numpy()
        if "of_item" in items.columns:
            has = has & (items["group_id"].astype(str) != items["of_item"].astype(str)).to_numpy()
            rows = pd.Series(units).groupby(items["of_item"].astype(str).to_numpy())
            units = np.array(rows.transform(lambda hashes: " ".join(sorted(hashes))), dtype=object)
        units[has] = [f"group {name}" for name in items["group_id"][has]]
    return pd.Series(units, index=items["item_id"].tolist(), dtype="str")


@dataclass(frozen=True, slots=True)
class Tally:
    """How often (or with which weight) each value occurs in each group; one entry per pair that occurs.

    Attributes
    ----------
    group, value
        The pair, sorted by group and then by value.
    weight
        Number of rows with this pair, or the sum of their weights.
    entry
        The entry of each row that was counted.
    n_groups
        Number of groups, those without rows included.
    """

    group: Ints
    value: Ints
    weight: Floats
    entry: Ints
    n_groups: int

    def top(self) -> Floats:
        """The largest weight in each group; 0 if the group has no rows."""
        most = np.zeros(self.n_groups)
        np.maximum.at(most, self.group, self.weight)
        return most

    def modal(self) -> Flags:
        """Per entry: does no other value of its group weigh more? (1e-9 of the group's weight is equal.)"""
        total = np.bincount(self.group, weights=self.weight, minlength=self.n_groups)
        return np.asarray(self.weight >= (self.top() - 1e-9 * total)[self.group])

    def single(self) -> tuple[Ints, Flags]:
        """The most frequent value of each group, −1 for none or a tie; and whether it was a tie."""
        top = self.modal()
        tied = np.bincount(self.group[top], minlength=self.n_groups) > 1
        values = np.full(self.n_groups, -1, dtype=np.int64)
        values[self.group[top]] = self.value[top]
        values[tied] = -1
        return values, tied

    def pairs(self) -> Floats:
        """Per group, how many ordered pairs of rows share a value: Σ n(n − 1), for counts."""
        return np.bincount(self.group, weights=self.weight * (self.weight - 1), minlength=self.n_groups).astype(float)


def tally(groups: Ints, values: Ints, n_groups: int, weights: Floats | None = None) -> Tally:
    """Count values per group; `groups` and `values` are codes, one per row."""
    width = int(values.max()) + 1 if len(values) else 1
    cells, entry = occurring(groups * width + values, n_groups * width)
    weight = np.bincount(entry, weights=weights, minlength=len(cells)).astype(np.float64)
    return Tally(cells // width, cells % width, weight, entry, n_groups)


def occurring(codes: Ints, n: int) -> tuple[Ints, Ints]:
    """Those of the codes 0 … n − 1 that occur, in order, and the place of each entry among them.

    Examples
    --------
    >>> [part.tolist() for part in occurring(np.array([3, 0, 3]), 4)]
    [[0, 3], [1, 0, 1]]
    """
    if n > 8 * len(codes):  # so few of them that sorting takes less room
        seen, place = np.unique(codes, return_inverse=True)
        return seen.astype(np.int64), place.astype(np.int64)
    there = np.zeros(n, dtype=bool)
    there[codes] = True
    place = np.cumsum(there)[codes]
    place -= 1
    return np.flatnonzero(there), place


def most_frequent(groups: Groups, texts: pd.Series) -> Objects:
    """The most frequent text of each group (the first in the alphabet if several are); None without texts."""
    names = texts.astype("category")
    names = names.cat.reorder_categories(sorted(names.cat.categories))
    codes = names.cat.codes.to_numpy().astype(np.int64)
    rows = codes >= 0
    counts = tally(groups.codes[rows], codes[rows], len(groups))
    modal = counts.modal()
    found = np.full(len(groups), None, dtype=object)
    found[counts.group[modal][::-1]] = np.array(names.cat.categories, dtype=object)[counts.value[modal][::-1]]
    return found
