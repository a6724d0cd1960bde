"""The result of a probe: its table, the items that show it most, and their display."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np
import pandas as pd

from evalkit.core.formatting import Bill, count_of, figure, html_page, html_table, text_table, wrapped
from evalkit.errors import counted
from evalkit.probes.effects import ALL

_SHOWN, _WORST, _LONG = 8, 3, 160


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """The result of a probe.

    Attributes
    ----------
    kind
        ``position``, ``verbosity`` or ``injection``.
    name
        Rubric, judges and samples in words.
    table
        One row per criterion, judge and variant (see the probe's own description).
    worst
        Every item that flipped, those in the probe's direction first, then those that flip least by chance:
        `criterion, judge, variant, item_id, before, after`, `expected` (how often sampling alone flips it) and the
        judge's explanations of both (for positions they name the answers by their places).
    judgments
        All judgments, with the column `side` (``plain``, the variant; for positions the order).
    repeats
        Judgments of the items as they are with twice the samples, which measure the flips by chance.
    cost_usd
        What the replies cost when they were bought; NaN if unknown.
    toward
        The name of the column `toward` in words.
    stand_ins
        Judges that are not an LLM.
    """

    kind: str
    name: str
    table: pd.DataFrame
    worst: pd.DataFrame
    judgments: pd.DataFrame
    repeats: pd.DataFrame
    cost_usd: float
    toward: str
    stand_ins: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows, left_out = self._rows()
        lines = [*self._heads(), "", text_table(rows, left=("variant", "criterion")), *self._notes(left_out)]
        lines += ["", *self._examples()] if len(self.worst) else []
        return wrapped("\n".join(lines))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows, left_out = self._rows()
        parts = [f"<p>{'<br>'.join(map(html.escape, self._heads()))}</p>", html_table(rows, texts=("variant",))]
        parts.append(f"<p class='note'>{'<br>'.join(map(html.escape, self._notes(left_out)))}</p>")
        if len(self.worst):
            parts.append("<p>" + "<br>".join(map(html.escape, self._examples())) + "</p>")
        return html_page(parts)

    def _heads(self) -> list[str]:
        lines = [f"{self.kind}: {self.name} ({Bill.of(pd.concat([self.judgments, self.repeats], ignore_index=True))})"]
        if self.stand_ins:
            lines.append("fake judges are evalkit's built-in stand-in, not an LLM: this says nothing about real judges")
        return lines

    def _rows(self) -> tuple[list[dict[str, str]], int]:
        """The rows to show (``all`` and the variants with the most excess), and how many are left out."""
        shown = self.table
        if shown["variant"].nunique() > _SHOWN:
            whole = shown["variant"].eq(ALL)
            ranked = shown.loc[~whole].sort_values(["excess", "shift"], ascending=False, kind="stable")
            keep = ranked.groupby(["criterion", "judge"], observed=True, sort=False).head(_SHOWN - 3).index
            shown = shown.loc[whole | shown.index.isin(keep)]
        drop = [name for name in ("criterion", "variant") if shown[name].nunique() < 2]
        rows = [self._cells(row) for _, row in shown.iterrows()]
        cells = [{name: cell for name, cell in row.items() if name not in drop} for row in rows]
        return cells, len(self.table) - len(shown)

    def _cells(self, row: pd.Series) -> dict[str, str]:
        chance = row["expected_by_chance"]
        return {
            "judge": str(row["judge"]), "criterion": str(row["criterion"]), "variant": str(row["variant"]),
            "flips": count_of(row["flips"], row["n"]),
            "by chance": "unknown" if np.isnan(chance) else f"{chance:.{0 if chance >= 9.5 else 1}f}",
            "excess rate": figure(row["excess"], row["excess_low"], row["excess_high"]),
            self.toward: str(row["toward"]), "shift (0-1)": figure(row["shift"], row["shift_low"], row["shift_high"]),
            "no verdict": str(row["n_items"] - row["n"]),
        }  # fmt: skip

    def _notes(self, left_out: int) -> list[str]:
        lines = [
            "by chance: flips in a second set of samples; excess: flips beyond these, per item",
            "95 % intervals by clusters, not corrected for multiple tests",
        ]
        if left_out:
            lines.append(f"{counted(left_out, 'row with less excess is', 'rows with less excess are')} in .table")
        counts = self.table["notes"].dropna().astype(str).value_counts()
        for note, n in zip(counts.index.astype(str), counts, strict=True):
            lines.append(note if n == len(self.table) else f"{counted(n, 'row')}: {note}")
        return lines

    def _examples(self) -> list[str]:
        lines = []
        for row in self.worst.head(_WORST).itertuples(index=False):
            lines.append(f"{row.item_id} ({row.judge}, {row.variant}): {row.before} -> {row.after}")
            for explanation in (row.explanation_before, row.explanation_after):
                if isinstance(explanation, str):
                    text = " ".join(explanation.split())
                    lines.append("  " + (text if len(text) <= _LONG else text[: _LONG - 1] + "…"))
        if len(self.worst) > _WORST:
            lines.append(f"{len(self.worst) - _WORST} more in .worst")
        return lines
