"""Suggested edits of a rubric's wording, and the suggestions that were refused."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Literal

import pandas as pd

from evalkit.core.formatting import count_of, html_page, html_table, text_table
from evalkit.errors import RubricError, counted
from evalkit.rubrics import Rubric

Part = Literal["level", "criterion", "rubric"]
PARTS: tuple[Part, ...] = ("level", "criterion", "rubric")


@dataclass(frozen=True, slots=True)
class Edit:
    """New wording for one text of a rubric.

    Attributes
    ----------
    criterion
        Which criterion was looked at.
    part
        ``level`` (the text of the level `code`), ``criterion`` (its question) or ``rubric`` (its description).
    code
        The level's code as text; None for the other parts.
    text
        The new text, in full.
    reason
        The reason that the judge gave.
    was
        The text that it replaces.

    Examples
    --------
    >>> from evalkit import load_rubric
    >>> edit = Edit("correctness", "level", "2", "The facts asked for are right.", "too strict", "…")
    >>> edit.apply(load_rubric("correctness")).criterion("correctness").scale[2]
    'The facts asked for are right.'
    """

    criterion: str
    part: Part
    code: str | None
    text: str
    reason: str
    was: str = ""

    @property
    def where(self) -> str:
        """The changed part, in words."""
        if self.part == "rubric":
            return "what is judged"
        return f"{self.criterion}: the question" if self.part == "criterion" else f"{self.criterion}: level {self.code}"

    def apply(self, rubric: Rubric) -> Rubric:
        """The rubric with this text, as an edit of it.

        Raises
        ------
        RubricError
            When the rubric lacks the criterion or the level, or has this text already.
        """
        if text_of(rubric, self.criterion, self.part, self.code).strip() == self.text.strip():
            raise RubricError(f"{self.where} already has this text")
        if self.part == "rubric":
            return rubric.edit(description=self.text)
        if self.part == "criterion":
            return rubric.edit(self.criterion, description=self.text)
        return rubric.edit(self.criterion, scale={self.code: self.text})


def text_of(rubric: Rubric, criterion: str, part: Part, code: str | None) -> str:
    """The text of a part of a rubric.

    Raises
    ------
    RubricError
        When the rubric lacks it; the message lists what there is.
    """
    if part == "rubric":
        return rubric.description
    found = rubric.criterion(criterion)
    if part == "criterion":
        return found.description
    scale = found.scale
    known = None if code is None else scale.code(code)
    if known is None or known not in scale.codes:
        raise RubricError(f"criterion {criterion!r} has no level {code!r}; its levels are {', '.join(scale.labels)}")
    return scale[known]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused suggestion: what the judge gave, and the reason."""

    given: str
    why: str


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Edits that a judge suggested; a sequence of `Edit`.

    Attributes
    ----------
    edits
        Those that can be applied.
    refused
        Those that cannot, with the reason.
    problem
        The reason if there are no edits; otherwise empty.
    rubric, criterion
        The rubric's version as in tables, and the criterion.
    judge
        The judge that suggested.
    n_differ, n_compared
        Dev items where jury and people differ, of those where both have a verdict (without pass rule: a label).
    shown
        The ids of the items in the prompt; none of them is held out.
    source
        ``live`` or ``cache``; None if no call was needed.
    cost_usd
        US$ of the reply when it was bought; None if unknown.
    key
        The reply's key in the store, in hexadecimal digits.
    """

    edits: tuple[Edit, ...]
    refused: tuple[Refusal, ...] = ()
    problem: str = ""
    rubric: str = ""
    criterion: str = ""
    judge: str = ""
    n_differ: int = 0
    n_compared: int = 0
    shown: tuple[str, ...] = ()
    source: str | None = None
    cost_usd: float | None = None
    key: str = field(default="", repr=False)

    def __len__(self) -> int:
        return len(self.edits)

    def __iter__(self) -> Iterator[Edit]:
        return iter(self.edits)

    def __getitem__(self, at: int) -> Edit:
        return self.edits[at]

    @property
    def table(self) -> pd.DataFrame:
        """One row per edit: `criterion`, `part`, `code`, `text`, `reason`, `was`."""
        return pd.DataFrame([asdict(edit) for edit in self.edits], columns=list(Edit.__slots__))

    def __str__(self) -> str:
        table = [text_table(self._rows(), left=["now", "reason"])] if self.edits else []
        return "\n".join([self.head, *table, *self._notes()])

    def _repr_html_(self) -> str:
        notes = "".join(f"<p class='note'>{html.escape(line)}</p>" for line in self._notes())
        table = html_table(self._rows(), texts=["what", "now", "reason"]) if self.edits else ""
        return html_page([f"<p>{html.escape(self.head)}</p>", table, notes])

    @property
    def head(self) -> str:
        """The suggestions in one line."""
        differ = f"jury and people differ on {count_of(self.n_differ, self.n_compared)} dev items"
        by = f", {len(self.shown)} of them shown to {self.judge}" if self.shown else ""
        return f"{self.rubric}, {self.criterion}: {counted(len(self.edits), 'edit')} suggested; {differ}{by}"

    def _rows(self) -> list[dict[str, str]]:
        return [{"what": edit.where, "now": edit.text, "reason": edit.reason} for edit in self.edits]

    def _notes(self) -> list[str]:
        return [*filter(None, [self.problem]), *(f"not taken: {one.given} ({one.why})" for one in self.refused)]
