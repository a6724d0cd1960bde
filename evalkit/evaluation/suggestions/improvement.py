"""`Improvement`: the edits that were tried, the one candidate, and what its test on held-out labels says."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from evalkit.core.formatting import figure, html_page, html_table, money, text_table, wrapped
from evalkit.errors import InputError, counted
from evalkit.rubrics import Rubric
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.stats.alignment.held_out_tests import ENOUGH_EVIDENCE, alpha_of
from evalkit.tables.files import records

Outcome = Literal["kept", "not kept", "nothing better", "not tested", "unfinished"]


@dataclass(frozen=True, slots=True)
class Improvement:
    """What `improve` found. ``print`` shows the path and the outcome; in a notebook it draws them as HTML.

    Attributes
    ----------
    outcome
        - ``kept``: labels that nobody tuned on show that the candidate agrees with people better than the start.
        - ``not kept``: these labels do not show it.
        - ``nothing better``: no edit was clearly better on the dev labels; nothing was tested.
        - ``not tested``: so with ``look=False``.
        - ``unfinished``: replies are missing, so the labels were not looked at; the same call again goes on.
    start, candidate
        The rubric at the start, and the one that the dev labels chose; None if there is none.
    criterion
        The criterion that was improved.
    table
        The path, one row per edit that was tried (see `improve`).
    cost_usd
        US$ for the replies that this call bought; None if a price is unknown.
    look, n_tested, n_clusters
        The number ℓ of the look at these held-out labels (0 without one), and how many items in how many clusters
        were tested.
    figures
        If the candidate was kept by held-out labels, the rows of `measure_edit` for dev and held-out labels; else
        None: figures of a failed look are not shown, because they would make the next look worthless.
    evidence
        After `check`: the e-value of the labels given since the candidate was frozen.
    notes
        What else is to be known.
    """

    outcome: Outcome
    start: Rubric
    candidate: Rubric | None
    criterion: str
    table: pd.DataFrame
    cost_usd: float | None = 0.0
    look: int = 0
    n_tested: int = 0
    n_clusters: int = 0
    figures: pd.DataFrame | None = None
    evidence: float | None = None
    notes: tuple[str, ...] = ()
    _check: Callable[[Improvement, LabelsLike, float | None], Improvement] | None = field(default=None, repr=False)

    @property
    def rubric(self) -> Rubric:
        """The candidate if it was kept, else the rubric at the start."""
        return self.candidate if self.outcome == "kept" and self.candidate is not None else self.start

    def check(self, labels: LabelsLike, *, budget_usd: float | None = None) -> Improvement:
        """Test the candidate on labels of items that had none when it was frozen; call it whenever there are more.

        Each such item counts once, and only if no item of its cluster had a label before. The items must be drawn at
        random. For each cluster it is noted whether the candidate fixed or broke more; the candidate is kept when the
        evidence E reaches 20 (see docs/improving.md). That holds however often you check, and whenever you stop.

        Parameters
        ----------
        labels
            All labels, the new ones among them.
        budget_usd
            As for `judge`.

        Returns
        -------
        Improvement
            The same with `outcome`, `evidence` and `notes` of this check. Counts are shown once it is kept.

        Raises
        ------
        InputError
            Without a candidate.
        """
        if self._check is None or self.candidate is None:
            raise InputError("there is no candidate to check: no edit was clearly better on the dev labels")
        return self._check(self, labels, budget_usd)

    def __str__(self) -> str:
        rows = self._rows()
        return wrapped("\n".join([*self.heads(), *([text_table(rows, left=["now"])] if rows else []), *self.notes]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        heads = "".join(f"<p>{html.escape(line)}</p>" for line in self.heads())
        table = html_table(self._rows(), texts=["what", "now"]) if len(self.table) else ""
        return html_page([heads, table, *(f"<p class='note'>{html.escape(line)}</p>" for line in self.notes)])

    def heads(self) -> list[str]:
        """What was tried, and what the held-out labels say."""
        tried = f"{counted(len(self.table), 'edit')} tried, {int(self.table['taken'].sum())} taken"
        paid = f"paid now: {money(self.cost_usd)}"
        return [f"{self.start.id}, {self.criterion}: {self.outcome}; {tried}; {paid}", self._outcome()]

    def _outcome(self) -> str:
        if self.evidence is not None:
            held = f"evidence E = {figure(self.evidence)} from {counted(self.n_tested, 'item')} labelled since"
            return f"{held}; the change is kept when E reaches {ENOUGH_EVIDENCE:.0f}"
        if not self.look:
            return {
                "nothing better": "No edit agrees clearly better with people on the dev labels; nothing was tested.",
                "unfinished": "Replies are missing; the held-out labels were not looked at. Improve again to go on: "
                "replies that are stored are not asked for again.",
            }.get(self.outcome, "The held-out labels were not looked at.")
        test = f"the test on {counted(self.n_tested, 'held-out item')} (look {self.look}, α {alpha_of(self.look):.2g})"
        why = (
            f"Each look at these labels, also by a tried edit or a figure, makes the next test stricter (the first: α "
            f"{alpha_of(1):.2g}), so that luck keeps a change at most one time in twenty, however often you look."
        )
        if self.figures is None:
            return (
                f"No gain is shown by {test}. The figures of these labels stay hidden, so that the next look is "
                f"still valid (α {alpha_of(self.look + 1):.2g}). {why}"
            )
        row = self.figures.iloc[-1]
        gain = figure(row["effect"], row["effect_low"], row["effect_high"])
        of = f" (of {row['n_verdicts']} with a verdict)" * bool(row["n_verdicts"] != self.n_tested)
        stricter = f" {why}" if self.look > 1 else ""
        return (
            f"Kept by {test}: {row['fixed']} fixed, {row['broke']} broke; gain {gain}, agreement "
            f"{figure(row['agreement_before'])} → {figure(row['agreement_after'])}{of}. The gain of a kept change is "
            f"overestimated. These labels are used up: the next change needs new ones.{stricter}"
        )

    def _rows(self) -> list[dict[str, str]]:
        titles = {"where": "what", "text": "now", "fixed": "dev: fixed", "n_labelled": "of"}
        table = self.table.assign(taken=self.table["taken"].map({True: "yes", False: ""})).rename(columns=titles)
        return list(records(table[["round", "what", "now", "dev: fixed", "broke", "of", "taken"]].astype("str")))
