"""Tests of a frozen change on labels that nobody tuned on: each look costs a part of α, over all sessions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evalkit.stats.alignment.held_out_log import ItemSet, append_log, item_hash, look_key, looks_at, read_log
from evalkit.stats.significance import sums_of_flipped
from evalkit.tables.grouping import Ints

ALPHA = 0.05
FEWEST_TESTED, FEWEST_TESTED_CLUSTERS = 40, 10
ENOUGH_EVIDENCE = 20.0
"""The least `evidence` by which a change is kept: it is reached in at most 1/20 of cases where nothing helps."""


def alpha_of(look: int) -> float:
    """The α of a look, counted from 1: .05/(ℓ(ℓ+1)). Over all looks that is .05."""
    return ALPHA / (look * (look + 1))


def flip_p(steps: Ints) -> float:
    """The one-sided p of Σ steps, where each step (a cluster's fixed − broke) could as well have the other sign.

    Exact: the distribution of the sum over all signs. With steps of ±1 it is the sign test.

    Examples
    --------
    >>> flip_p(np.array([1, 1, 1, 1, 0, -1])), flip_p(np.array([3, -1]))
    (0.1875, 0.5)
    """
    chances = sums_of_flipped(steps)
    return round(float(chances[int(steps[steps > 0].sum()) :].sum()), 12)


def power_of(n: int, alpha: float, *, fixed: float = 0.12, broke: float = 0.02) -> float:
    """The chance that the sign test keeps a change that fixes and breaks these shares of items; exact.

    Examples
    --------
    >>> [round(power_of(n, 0.05), 2) for n in (40, 80, 160)], round(power_of(160, alpha_of(1)), 2)
    ([0.32, 0.72, 0.97], 0.93)
    """
    from scipy.stats import binom

    changed = np.arange(n + 1)
    limit = binom.isf(alpha, changed, 0.5)  # as many fixed are not enough
    return float((binom.pmf(changed, n, fixed + broke) * binom.sf(limit, changed, fixed / (fixed + broke))).sum())


def evidence(fixed: int, broke: int) -> float:
    """How much more likely these counts are if the change helps than if it does not; an e-value at any time.

    The mean of (2θ)^fixed · (2(1 − θ))^broke over θ uniform on (½, 1), θ being the share of fixed among fixed and
    broke. If the change does not help, it ever exceeds 20 with a chance of at most 1/20 (Ville), however often one
    looks.

    Examples
    --------
    >>> evidence(0, 0), round(evidence(1, 0), 6), round(evidence(0, 1), 6), evidence(10, 1) > 20
    (1.0, 1.5, 0.5, True)
    """
    from scipy.special import betainc, betaln

    ends = fixed + 1, broke + 1
    return float(np.exp((sum(ends) - 1) * np.log(2) + betaln(*ends)) * betainc(*ends[::-1], 0.5))


@dataclass(frozen=True, slots=True)
class HeldOutLog:
    """What the log has about the labels of one criterion.

    Attributes
    ----------
    cache
        As for `held_out_looks`.
    criterion
        Which criterion.
    search
        The key of the search that finds a candidate: the same for the same call.
    """

    cache: str | Path | None
    criterion: str
    search: str

    def usable(self, ids: list[str]) -> tuple[list[str], int, int]:
        """The held-out items that may test what this search finds; how many are used up, how many were tuned on.

        A change that was kept used up the items that it was tested on, but for the same search once more.
        """
        sets, lines = _sets(read_log(self.cache)), self._lines()
        spent = [line["labels"] for line in lines if line.get("kept") is True and line.get("search") != self.search]
        used = {item for labels in spent for item in sets.get(labels, ())}
        tuned = {item for line in lines for item in sets.get(line.get("tuned"), ())} - used
        hashes = {name: item_hash(name) for name in ids}
        n_used, n_tuned = (sum(item in away for item in hashes.values()) for away in (used, tuned))
        return [name for name in ids if hashes[name] not in used | tuned], n_used, n_tuned

    def tune(self, ids: list[str]) -> None:
        """Note the items that a search tunes on: they are never held out again."""
        items = ItemSet.of(f"{self.criterion} dev", ids)
        if not any(line.get("tuned") == items.key for line in self._lines()):
            append_log(self.cache, [{"criterion": self.criterion, "tuned": items.key}], [items])

    def look(self, items: ItemSet, candidate: str, names: dict[str, str]) -> tuple[int, bool | None]:
        """Note a look before its figure is known: its number ℓ, and the outcome if it was taken before.

        ℓ counts, up to this look, all tests and all figures shown of labels that share an item with these.
        """
        head = {"criterion": self.criterion, "candidate": candidate, "labels": items.key}
        if not any(_matches(line, head) for line in self._lines()):
            append_log(self.cache, [names | head], [items])
        number = looks_at(read_log(self.cache), self.criterion, items)[look_key(head)]
        outcomes = [line["kept"] for line in self._lines() if _matches(line, head) and "kept" in line]
        return number, outcomes[-1] if outcomes else None

    def close(self, items: ItemSet, candidate: str, *, kept: bool) -> None:
        """Note the outcome of a look."""
        line = {"criterion": self.criterion, "candidate": candidate, "labels": items.key, "kept": kept}
        append_log(self.cache, [line | {"search": self.search}])

    def freeze(self, candidate: str, labelled: list[str]) -> set[str]:
        """Note which items had labels when the candidate was frozen, and return their hashes; the first note counts."""
        for line in self._lines():
            if line.get("frozen") == candidate:
                return set(_sets(read_log(self.cache)).get(line.get("labelled"), ()))
        items = ItemSet.of(self.criterion, labelled)
        append_log(self.cache, [{"criterion": self.criterion, "frozen": candidate, "labelled": items.key}], [items])
        return set(items.items)

    def bets(self) -> Iterator[tuple[str, tuple[str, ...], int, int]]:
        """Candidate, items, fixed and broke of each group of later labels that counts as evidence."""
        lines = read_log(self.cache)
        sets = _sets(lines)
        for line in lines:
            if line.get("criterion") == self.criterion and "bet" in line:
                yield line["candidate"], sets.get(line["bet"], ()), line["fixed"], line["broke"]

    def bet(self, candidate: str, ids: list[str], fixed: int, broke: int) -> None:
        """Note later labels as evidence; they count once."""
        items = ItemSet.of(self.criterion, ids)
        line = {"criterion": self.criterion, "candidate": candidate, "bet": items.key}
        append_log(self.cache, [line | {"fixed": fixed, "broke": broke}], [items])

    def _lines(self) -> list[dict[str, Any]]:
        return [line for line in read_log(self.cache) if line.get("criterion") == self.criterion]


def _matches(line: dict[str, Any], own: dict[str, str]) -> bool:
    return all(line.get(name) == value for name, value in own.items())


def _sets(lines: list[dict[str, Any]]) -> dict[Any, tuple[str, ...]]:
    return {line["items_of"]: tuple(line["items"]) for line in lines if "items_of" in line}
