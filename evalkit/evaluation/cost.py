"""The cost of an evaluation, now and when its replies were bought."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from evalkit.core.formatting import Bill, money
from evalkit.core.lists_of_choices import SKIPPED


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an evaluation.

    Attributes
    ----------
    paid_usd
        US$ for the replies bought in this call; None if a price is unknown.
    reused_usd
        US$ that replies from the cache cost when they were bought; None if unknown.
    n_live, n_cached, n_recorded, n_missing
        Replies by source, and missing replies. A reply that several judgments share counts once.
    known_usd, n_unpriced
        US$ for replies bought in this call with a known price; number of those with an unknown price.
    """

    paid_usd: float | None
    reused_usd: float | None
    n_live: int
    n_cached: int
    n_recorded: int
    n_missing: int
    known_usd: float = 0.0
    n_unpriced: int = 0

    @classmethod
    def of(cls, judgments: pd.DataFrame) -> Cost:
        """The cost of a judgments table; a reply that several rows share counts once."""
        bills = [Bill.of(judgments, kind) for kind in ("live", "cache", "recorded")]
        lost = judgments.loc[judgments["source"].isna().to_numpy()]
        if "error" in lost:  # a skipped item has no reply to wait for
            lost = lost.loc[~lost["error"].astype(object).isin(SKIPPED).to_numpy()]
        paid_usd, reused_usd = (None if bill.n_unpriced else bill.known_usd for bill in bills[:2])
        n_live, n_cached, n_recorded = (bill.n_replies for bill in bills)
        n_missing, paid = int(lost["key"].nunique(dropna=False)), bills[0]
        counts = (n_live, n_cached, n_recorded, n_missing)
        return cls(paid_usd, reused_usd, *counts, paid.known_usd, paid.n_unpriced)

    @property
    def paid(self) -> Bill:
        """The cost of the replies bought in this call."""
        return Bill(self.known_usd, self.n_live, self.n_unpriced)

    def __str__(self) -> str:
        reused, recorded = money(self.reused_usd), f", {self.n_recorded} recorded" if self.n_recorded else ""
        text = f"{self.n_live} asked now ({self.paid}), {self.n_cached} from the cache ({reused} when bought)"
        return text + recorded + (f", {self.n_missing} without a reply" if self.n_missing else "")
