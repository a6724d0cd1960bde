"""Which judges have new replies between two sides, on which items, and with which outcomes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from evalkit.core.lists_of_choices import ENGINE_REASONS
from evalkit.stats.significance import Outcomes
from evalkit.tables.grouping import Flags, Ints, group

_NO_REPLY = ENGINE_REASONS
_SLOT = ["item_id", "judge", "order", "sample"]


@dataclass(frozen=True, slots=True)
class Again:
    """The judges that were called again, and their samples.

    Attributes
    ----------
    judges
        Judges with new replies on both sides, in order of their names.
    items
        Ids of the items with new replies.
    outcomes
        Their samples: one cell per item, judge and order. Items that share a reply are one cell.
    same
        Whether every reply of one side is on the other.
    """

    judges: tuple[str, ...]
    items: pd.Index
    outcomes: Outcomes
    same: bool


def asked_again(a: pd.DataFrame, b: pd.DataFrame, items: pd.Index) -> Again:
    """Compare the judgments of one criterion on the items that both sides have.

    Samples without a reply (never asked, stopped, failed calls) say nothing about the judge and are left out; a reply
    that cannot be scored is an outcome. A sample that has the same key and outcome on both sides is one reply. Where
    any outcome of a judge differs under the same key, the judge was called again with ``refresh``, and all of its
    samples count as new.
    """
    # not `isin`, which makes a scalar of each id
    common = [(items.get_indexer(pd.Index(side["item_id"])) >= 0) & ~side["error"].isin(_NO_REPLY) for side in (a, b)]
    names = [*_SLOT, "label", "score", "error", "key"]
    types = dict.fromkeys(("judge", "order", "label"), object)
    parts = [side.loc[flags, names].astype(types) for side, flags in zip((a, b), common, strict=True)]
    frame = pd.concat(parts, ignore_index=True)
    on_b = np.arange(len(frame)) >= len(parts[0])
    answer = frame["label"].where(frame["label"].notna(), frame["score"])  # a scale without ends has no labels
    outcome, _ = pd.factorize(answer.where(frame["error"].isna().to_numpy()), use_na_sentinel=False)
    key, _ = pd.factorize(frame["key"])
    judge, judges = pd.factorize(frame["judge"], sort=True)
    new = ~_shared(group(frame, _SLOT, may_miss=["order"]).codes, on_b, key, outcome, judge)
    cells = group(frame, ["item_id", "judge", "order"], may_miss=["order"])
    renewed = (cells.count(new & on_b) > 0) & (cells.count(new & ~on_b) > 0)
    rows = np.flatnonzero(new & renewed[cells.codes])
    unit = _units(cells.codes[rows], np.where(key[rows] < 0, -1, 2 * key[rows] + on_b[rows]))
    first = _first_of_keys(unit, on_b[rows], key[rows])
    who, ids = judges[np.unique(judge[rows])], frame["item_id"].iloc[rows].unique()
    outcomes = _count(unit[first], outcome[rows][first], on_b[rows][first])
    return Again(tuple(map(str, who)), pd.Index(ids), outcomes, not new.any())


def _shared(slot: Ints, on_b: Flags, key: Ints, outcome: Ints, judge: Ints) -> Flags:
    """Rows whose reply is on the other side too."""
    n = int(slot.max(initial=-1)) + 1
    row_of = np.full((2, n), -1, dtype=np.int64)
    row_of[on_b.astype(np.int64), slot] = np.arange(len(slot))
    pair = row_of[:, (row_of >= 0).all(axis=0)]
    pair = pair[:, (key[pair[0]] == key[pair[1]]) & (key[pair[0]] >= 0)]
    refreshed = np.unique(judge[pair[0]][outcome[pair[0]] != outcome[pair[1]]])
    pair = pair[:, ~np.isin(judge[pair[0]], refreshed)]
    shared = np.zeros(len(slot), dtype=bool)
    shared[pair.reshape(-1)] = True
    return shared


def _units(cell: Ints, key: Ints) -> Ints:
    """Numbers from 0 for the cells, those that share a reply being one."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    has_key = key >= 0
    pairs = np.unique(np.stack([cell[has_key], key[has_key]], axis=1), axis=0)
    n = int(cell.max(initial=-1)) + 1
    size = n + int(key.max(initial=-1)) + 1
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1] + n)), shape=(size, size))
    return np.unique(connected_components(graph, directed=False)[1][cell], return_inverse=True)[1].astype(np.int64)


def _first_of_keys(unit: Ints, on_b: Flags, key: Ints) -> Ints:
    """One row for each reply of a unit on each side."""
    reply = np.where(key < 0, -1 - np.arange(len(key)), key)
    _, first = np.unique(np.stack([unit, on_b.astype(np.int64), reply], axis=1), axis=0, return_index=True)
    return np.sort(first).astype(np.int64)


def _count(unit: Ints, outcome: Ints, on_b: Flags) -> Outcomes:
    width = int(outcome.max(initial=0)) + 1
    entries, entry = np.unique(unit * width + outcome, return_inverse=True)
    a, b = (np.bincount(entry[side], minlength=len(entries)).astype(np.int64) for side in (~on_b, on_b))
    return Outcomes((entries // width).astype(np.int64), a, b)
