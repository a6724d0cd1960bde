"""`Comparison`: its table, which criteria got worse, and how it is printed."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.formatting import WIDTH, Bill, figure, html_page, html_table, noted, p_value, text_table, wrapped
from evalkit.errors import counted
from evalkit.stats.notes import row_notes

JURY = "jury"
SAME = "same replies"
APART = "not asked twice"
BY_LABELS = (
    "labels",
    "changed",
)  # verdicts, or labels, against people's: of those drawn at random, or of all that changed
_LEVEL = 0.05
_NOTE = (
    "tests: permuted samples (p by chance), McNemar mid-p (p), sign flips (its p); p-values are corrected over these "
    "rows (Holm), the 95 % intervals are not"
)


def chance_words(row: Any) -> str:
    """How many verdicts chance alone changes, from a row of `compare`, and the p of the permuted samples (see `_p`).

    Examples
    --------
    >>> chance_words({"floor_source": "measured", "chance_up_to": 11.0, "change_p": 0.03})
    'by chance up to 11, p 0.030'
    """
    if row["floor_source"] == SAME:
        return SAME
    return "cannot tell change from noise" if np.isnan(_p(row)) else f"by chance {_limit(row)}, p {p_value(_p(row))}"


def _limit(row: Any) -> str:
    limit = "unknown" if np.isnan(row["chance_up_to"]) else f"up to {row['chance_up_to']:.0f}"
    return f"{limit} (not measured)" if row["floor_source"] == "range" else limit


def _p(row: Any) -> float:
    """The p of the permuted samples: corrected over the rows of the comparison (Holm), if the row has it."""
    return float(row["change_p_holm"] if "change_p_holm" in row else row["change_p"])


def chance_sentences(row: Any) -> str:
    """What chance alone changes, and whether the replies changed more than that, from a row of `compare`.

    The range is about the number of changed verdicts. p is about all replies: it can be small though few verdicts
    changed.

    Examples
    --------
    >>> counts = {"n_common": 40, "n_clusters": 40}
    >>> chance_sentences({"floor_source": "measured", "chance_up_to": 11.0, "change_p": 0.03} | counts)
    'Asking the same prompt again changes 0 to 11 (measured). The replies changed more than by chance, p 0.030.'
    """
    if row["floor_source"] == SAME:
        return SAME
    if np.isnan(_p(row)):
        return "cannot tell change from noise"
    limit = "How many change when the same prompt is asked again: not measured"
    if not np.isnan(row["chance_up_to"]):
        source = "not measured: all that the samples allow"
        if row["floor_source"] == "measured":
            has_floor = "floor" in row and not np.isnan(row["floor"])
            floor = figure(row["floor"], row["floor_low"], row["floor_high"]) if has_floor else ""
            n_items = row.get("n_floor")  # not in tables of before
            items = "items" if n_items is None or pd.isna(n_items) else counted(int(n_items), "item")
            source = f"measured: {floor} of {items}" if has_floor else "measured"
        if row["n_clusters"] < row["n_common"]:
            source += f"; {row['n_clusters']} different texts or groups"
        limit = f"Asking the same prompt again changes 0 to {row['chance_up_to']:.0f} ({source})"
    than = "more than by chance" if _p(row) <= _LEVEL else "no more than by chance"
    return f"{limit}. The replies changed {than}, p {p_value(_p(row))}."


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed between two evaluations.

    Attributes
    ----------
    before, after
        The sides' names: rubric version, mode and judges.
    table
        One row per rubric, criterion and judge (see `compare`).
    bill_before, bill_after
        What the replies of each side cost when they were bought.
    n_only_before, n_only_after
        Items that only one side has; they are left out.
    decisions
        Criterion -> one sentence that decides, by the labels (see `compare`); criteria without labels have none.
    """

    before: str
    after: str
    table: pd.DataFrame
    bill_before: Bill
    bill_after: Bill
    n_only_before: int
    n_only_after: int
    decisions: Mapping[str, str] = field(default_factory=dict)

    @property
    def worse(self) -> list[str]:
        """The criteria on which the second side is worse than chance explains (p by Holm ≤ .05).

        Measured against labels by what broke; without labels a fall of the mean counts too. Where
        there is a jury, its row decides.
        """
        table = self._deciding()
        broke = (table["effect"] < 0) & (table["mcnemar_p_holm"] <= _LEVEL)
        difference = table["mean_difference"]
        if "score_difference" in table:  # all there is of a scale without ends
            difference = difference.fillna(table["score_difference"])
        fell = (difference < 0) & (table["sign_flip_p_holm"] <= _LEVEL)
        # a lower score may well be right: if there are labels, they decide
        failing = table[broke | (fell & ~table["against"].isin([*BY_LABELS, "distances"]))]
        return list(dict.fromkeys(failing["criterion"].astype(str)))

    @property
    def undecided(self) -> list[str]:
        """Why it cannot be said whether the second side is worse, of each row of `worse` that compares too little.

        Half of the row's items or more have no verdict and no score on one side, or so few are left that their p could
        not reach .05.
        """
        return [f"{row['criterion']}, {row['judge']}: {why}" for _, row in self._deciding().iterrows()
                if (why := _too_little(row, len(self.table)))]  # fmt: skip

    def _deciding(self) -> pd.DataFrame:
        """The rows that decide: where there is a jury, its row."""
        juries = set(self.table.loc[self.table["judge"].eq(JURY), "criterion"].astype(str))
        return self.table[self.table["judge"].eq(JURY) | ~self.table["criterion"].astype(str).isin(juries)]

    def text(self, width: int | None = WIDTH) -> str:
        """As `print` shows it, for a terminal of `width` columns; None: as wide as the table is."""
        table = text_table(self._rows(), width=width, left=("judge",))
        return wrapped("\n".join([*self._heads(), "", table, *self._notes()]), width)

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_page([self.html()])

    def html(self, caption: str = "") -> str:
        """As a notebook shows it, without style sheet; `caption` names the table."""
        heads = "<br>".join(html.escape(line) for line in self._heads())
        notes = "<br>".join(html.escape(line) for line in self._notes())
        return f"<p>{heads}</p>{html_table(self._rows(), caption=caption)}<p class='note'>{notes}</p>"

    def _heads(self) -> list[str]:
        heads = [f"before: {self.before} ({self.bill_before})", f"after: {self.after} ({self.bill_after})"]
        several = self.table["criterion"].nunique() > 1
        return [*heads, *(f"{name}: {text}" if several else text for name, text in self.decisions.items())]

    def _rows(self) -> list[dict[str, str]]:
        several = self.table["criterion"].nunique() > 1
        return [_cells(row, several) for _, row in self.table.iterrows()]

    def _notes(self) -> list[str]:
        lines = [_NOTE]
        if self.n_only_before or self.n_only_after:
            lines.append(f"left out: {counted(self.n_only_before, 'item')} only before, {self.n_only_after} only after")
        return [*lines, *noted(row_notes(self.table, "criterion", "judge"), len(self.table))]


def _too_little(row: pd.Series, n_rows: int) -> str:
    """Why a row compares too little to find that something is worse; empty if it does not."""
    n_known, n_common = int(max(row["n_verdicts"], row["n_scored"])), int(row["n_common"])
    if 2 * n_known <= n_common:
        fact = f"{n_known} of {counted(n_common, 'item')} could be compared"
        return f"{fact}; more than half must have a verdict or a score on both sides"
    is_by_verdicts = bool(row["n_paired"]) or row["against"] in (*BY_LABELS, "distances")
    n = int(min(row["n_paired"] if is_by_verdicts else row["n_scored"], row["n_clusters"]))
    least = 0.5 ** (n if is_by_verdicts else n - 1)  # of McNemar's mid-p, and of sign flips
    if least * n_rows <= _LEVEL:
        return ""
    of_labels = " with a label" if row["against"] in (*BY_LABELS, "distances") else ""
    return f"{counted(n, 'item')}{of_labels}, too few for a p of {_LEVEL}, whatever they show"


def _cells(row: pd.Series, several: bool) -> dict[str, str]:
    """A row of the table as it is shown."""
    good, bad = ("now pass", "now fail") if row["against"] == "verdicts" else ("fixed", "broke")
    cells = {name: str(row[name]) for name in (["criterion", "judge"] if several else ["judge"])}
    cells["changed"] = f"{row['changed']} of {row['n_verdicts']}" if row["n_verdicts"] else "–"
    cells["by chance"] = SAME if row["floor_source"] == SAME else _limit(row)
    cells["p by chance"] = "–" if row["floor_source"] == SAME else p_value(row["change_p_holm"])
    if isinstance(row["against"], str):
        # without an effect nothing could be fixed: 0 would suggest that nothing was
        texts = [str(row["fixed"]), str(row["broke"]), p_value(row["mcnemar_p_holm"])]
        cells |= dict(zip((good, bad, "p"), ["–"] * 3 if np.isnan(row["effect"]) else texts, strict=True))
    title, names = "mean difference (0-1)", ["mean_difference", "difference_low", "difference_high"]
    if np.isnan(row["mean_difference"]) and not np.isnan(row.get("score_difference", np.nan)):
        title, names = "mean difference", ["score_difference", "score_difference_low", "score_difference_high"]
    cells[title] = figure(*row[names], digits=3)
    if row["n_scored"] not in (0, row["n_verdicts"]):
        cells[title] += f", {counted(row['n_scored'], 'item')}"
    cells["its p"] = p_value(row["sign_flip_p_holm"])
    return cells
