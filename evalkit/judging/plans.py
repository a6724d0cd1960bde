"""`plan`: what a call of `judge` would take, before it is made."""

from __future__ import annotations

import html
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evalkit.caching import ReplyStore
from evalkit.judging.specs import Spec
from evalkit.judging.works import Work

__all__ = ["Plan", "plan"]

_BYTES_PER_TOKEN = 4
_GUESSED_REPLY_TOKENS = 120


@dataclass(frozen=True, slots=True)
class Plan:
    """What judging would take.

    Attributes
    ----------
    table
        One row a judge: `judge`, `n_judgments`, `n_cached`, `n_recorded` (recorded by somebody, not
        used for a live judge unless ``recorded="use"``), `n_to_call`, `usd` (expected: four bytes a token,
        replies as long as those stored) and `usd_at_most` (every byte a token, replies of max_tokens);
        both NA where the price is unknown.
    n_items, n_unique
        Items, and items that differ in content.
    cache
        The cache folder.
    """

    table: pd.DataFrame
    n_items: int
    n_unique: int
    cache: Path

    @property
    def n_to_call(self) -> int:
        """Replies that would have to be paid."""
        return int(self.table["n_to_call"].sum())

    @property
    def usd(self) -> float:
        """Expected cost in US$; NaN if a price is unknown and calls are needed."""
        return _total(self.table, "usd")

    @property
    def usd_at_most(self) -> float:
        """Upper bound of the cost in US$; NaN if a price is unknown and calls are needed."""
        return _total(self.table, "usd_at_most")

    def __str__(self) -> str:
        return f"{self._head()}\n{_rounded(self.table).to_string(index=False, na_rep='unknown')}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        shown = _rounded(self.table).to_html(index=False, na_rep="unknown", border=0)
        return f"<p>{html.escape(self._head())}</p>{shown}"

    def _head(self) -> str:
        n = int(self.table["n_judgments"].sum())
        cached = int(self.table["n_cached"].sum())
        share = f"{cached / n:.0%}" if n else "all"
        cost = "nothing to pay" if not self.n_to_call else _money(self.usd, self.usd_at_most)
        unique = "" if self.n_unique == self.n_items else f" ({self.n_unique} that differ)"
        return (
            f"{self.n_items} items{unique}, {n} judgments: {cached} cached ({share}), {self.n_to_call} to ask; {cost}"
        )


def _money(usd: float, most: float) -> str:
    if np.isnan(usd):
        return "price unknown"
    return f"about US$ {usd:.4f}, at most {most:.4f}" if most else "free"


def _total(table: pd.DataFrame, column: str) -> float:
    wanted = table.loc[table["n_to_call"] > 0, column]
    return float(wanted.sum(skipna=False)) if len(wanted) else 0.0


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(usd=table["usd"].round(4), usd_at_most=table["usd_at_most"].round(4))


def plan(
    items: Any,
    rubric: Any,
    judges: Any = None,
    *,
    samples: int | None = None,
    template: str | None = None,
    item_id: str | None = None,
    recorded: str = "miss",
    cache: str | Path | None = None,
) -> Plan:
    """What `judge` would take: calls, cached share, US$. Nothing is called.

    Takes the arguments of `judge`, raises the same errors, and returns a `Plan`.

    Examples
    --------
    >>> made = plan([{"question": "2 + 2?", "answer": "4"}], "relevancy", "fake:strict", samples=2)
    >>> made.n_items, int(made.table["n_judgments"].sum())
    (1, 2)
    """
    work = Work.of(Spec.of(rubric, judges, samples, template), items, item_id)
    store = ReplyStore.open(None if cache is None else Path(cache))
    n_judges = len(work.spec.judges)
    counts = np.zeros((n_judges, 3), dtype=np.int64)
    missing: list[list[int]] = [[] for _ in range(n_judges)]
    seen: set[bytes] = set()
    keys, row = work.keys(), 0
    by_judge = len(work.spec.orders) * work.spec.samples
    while chunk := list(islice(keys, 20_000)):
        stored = store.get_many(set(chunk))
        live = store.get_many(set(chunk), recorded=False) if recorded != "use" else stored
        for key in chunk:
            judge = row // by_judge % n_judges
            counts[judge, 0] += 1
            if key in live:
                counts[judge, 1] += 1
            else:
                counts[judge, 2] += key in stored
                if key not in seen:
                    missing[judge].append(row)
                    seen.add(key)
            row += 1
    rows = [_row(work, judge, counts[judge], missing[judge]) for judge in range(n_judges)]
    names = ["judge", "n_judgments", "n_cached", "n_recorded", "n_to_call", "usd", "usd_at_most"]
    return Plan(pd.DataFrame(rows, columns=names), work.shape[0], work.n_unique, store.folder)


def _row(work: Work, at: int, counts: Any, missing: list[int]) -> tuple[Any, ...]:
    judge = work.spec.judges[at]
    usd = most = 0.0 if not missing else np.nan
    if missing:
        from evalkit.calling import price_of

        price = price_of(judge)
        if price is not None:
            requests = work.requests(missing)
            sent = np.array([request.prompt.n_bytes * len(request.samples) for request in requests], dtype=float).sum()
            longest = judge.max_tokens or _GUESSED_REPLY_TOKENS * 10
            expected = min(longest, _GUESSED_REPLY_TOKENS)
            usd = (sent / _BYTES_PER_TOKEN * price[0] + len(missing) * expected * price[1]) / 1e6
            most = (sent * price[0] + len(missing) * longest * price[1]) / 1e6
    return judge.name, *(int(count) for count in counts), len(missing), usd, most
