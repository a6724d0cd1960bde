"""Ties and unscored answers: how a comparison counts them, and which labels are tied.

A tie is a scored answer without a single label: a judge of pairs prefers whichever answer is shown first, or its
samples are split evenly. The choices apply to every function that compares judges with people or with each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from evalkit.core.lists_of_choices import TIES, UNSCORED, Ties, Unscored
from evalkit.errors import ConfigError, InputError, listed
from evalkit.tables.grouping import Flags, Ints, Objects


@dataclass(frozen=True, slots=True)
class Counting:
    """How ties and unscored answers count in one comparison."""

    ties: Ties = "na"
    unscored: Unscored = "drop"

    def counted(self, known: Flags, tied: Flags) -> Flags:
        """The answers that count: known ones, and of the others ties and unscored ones as chosen."""
        return known | (~known & np.where(tied, self.ties != "na", self.unscored == "wrong"))


LEFT_OUT = Counting()
"""Ties and unscored answers left out, which rewards a judge that abstains."""


def check_counting(
    function: str, ties: Ties, unscored: Unscored = "drop", *, but: Sequence[str] = (), why: str = ""
) -> Counting:
    """Check both choices; ConfigError for an unknown one, and for one of `but` (``ties=half``) with the reason `why`.

    Examples
    --------
    >>> check_counting("align", "half", "wrong")
    Counting(ties='half', unscored='wrong')
    """
    for name, given, choices in (("ties", ties, TIES), ("unscored", unscored, UNSCORED)):
        allowed = [choice for choice in choices if f"{name}={choice}" not in but]
        if given not in allowed:
            reason = f", because {why}" if why and given in choices else ""
            raise ConfigError(f"{function} got {name}={given!r}; allowed: {listed(allowed)}{reason}")
    return Counting(ties, unscored)


def unknown_ties(n: int) -> InputError:
    """The error for ``ties="half"`` on a table that does not store which labels are tied."""
    return InputError(
        f"ties='half' needs to know which labels are tied, but {n} tied answers have no value in the column "
        "tied_labels; make the table again with vote or aggregate, or choose ties='na' or 'wrong'"
    )


def tied_text(labels: Sequence[str]) -> str:
    """The labels of one tie as a cell of `tied_labels`: a JSON list, in order.

    Examples
    --------
    >>> tied_text(["B", "A"]), tied_text(["10", "2"])
    ('["A","B"]', '["2","10"]')
    """
    return orjson.dumps(sorted(labels, key=_place)).decode()


def _place(label: str) -> tuple[float, str]:
    try:
        return float(label), label
    except ValueError:
        return np.inf, label


def labels_among(cell: object) -> tuple[str, ...]:
    """The labels in one cell of `tied_labels`; empty for an empty cell.

    Examples
    --------
    >>> labels_among('["A","B"]'), labels_among(None)
    (('A', 'B'), ())
    """
    return tuple(str(label) for label in orjson.loads(cell)) if isinstance(cell, str) else ()


def tied_cells(groups: Ints, labels: Objects, n_groups: int) -> Objects:
    """Cells of `tied_labels` from one entry per group and tied label; None for a group without entries."""
    cells = np.full(n_groups, None, dtype=object)
    order = np.argsort(groups, kind="stable")
    owners, starts = np.unique(groups[order], return_index=True)
    texts: dict[tuple[str, ...], str] = {}
    for owner, own in zip(owners, np.split(labels[order], starts[1:]), strict=False):
        if (among := tuple(own)) not in texts:
            texts[among] = tied_text(among)
        cells[owner] = texts[among]
    return cells
