"""What is in one column of a table: few values or texts, an id, labels on a scale, words of a verdict."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from evalkit.errors import InputError
from evalkit.rubrics import Scale
from evalkit.rubrics.human_labels import label_text
from evalkit.rubrics.item_criteria import OWN_FORM, CriteriaForm, criteria_in
from evalkit.rubrics.scales import number
from evalkit.tables.items import is_missing
from evalkit.tables.messages import holds_chats, messages_of, turns

MOST_LABELS = 12
"""A column with more different values holds no labels."""

_LONGEST_ID, _SHORTEST_TEXT = 64, 20
_CODE = re.compile(r"(?=\S*\d)(?!\d{4}-\d\d)[\w#./:-]*[^\W\d_][\w#./:-]*")
_NUMBERS, _SCALARS = (bool, int, float, np.generic), (str, bool, int, float, np.generic)


class Column:
    """What is in one column."""

    def __init__(self, name: str, cells: Iterable[Any], form: CriteriaForm = OWN_FORM) -> None:
        cells = list(cells)
        self.name, self.form = name, form
        self.present = [cell for cell in cells if not is_missing(cell)]
        is_whole = [isinstance(cell, float) and cell.is_integer() for cell in self.present]
        self.texts = [str(int(cell) if is_int else cell) for cell, is_int in zip(self.present, is_whole, strict=True)]
        self.n_missing = len(cells) - len(self.present)
        self.n_empty = sum(not text.strip() for text in self.texts)
        self.longest = max(map(len, self.texts), default=0)
        self.distinct = dict(zip(self.texts, self.present, strict=True))
        self.is_number = all(number(cell) is not None for text, cell in self.distinct.items() if text.strip())
        self.is_scalar = all(isinstance(cell, _SCALARS) for cell in self.present)
        self.is_short = self.is_scalar and self.longest <= _LONGEST_ID
        is_label = self.is_short and len(set(map(plain_value, self.distinct))) <= MOST_LABELS
        self.values = [cell for text, cell in self.distinct.items() if text.strip()] if is_label else []
        self.is_unique = not self.n_missing + self.n_empty and len(self.distinct) == len(cells)
        n_values = len({plain_value(text) for text in self.distinct if text.strip()})
        self.is_repeated = self.is_short and 1 < n_values < len(self.texts) - self.n_empty

    @property
    def is_text(self) -> bool:
        """Whether it may be an input: texts, or lists and mappings of them."""
        return self.longest > 0 and all(not isinstance(cell, _NUMBERS) for cell in self.present) and not self.is_number

    @cached_property
    def is_chat(self) -> bool:
        """Whether each cell is a list of chat messages."""
        return holds_chats(self.present)

    @cached_property
    def criteria_problem(self) -> str:
        """Why its cells are no criteria of the form, as `explode_criteria` reads them, or none holds several."""
        try:
            counts = [len(criteria_in(cell, self.form)) for cell in self.present]
        except InputError as problem:
            return str(problem)
        return "" if max(counts, default=0) > 1 else "no cell holds several criteria"

    @property
    def holds_criteria(self) -> bool:
        """Whether its cells are criteria."""
        return not self.criteria_problem

    @property
    def examples(self) -> list[str]:
        """Two of its values; of chats what was said."""
        chats = [messages_of(cell) for cell in list(self.distinct.values())[:2]] if self.is_chat else []
        return [" / ".join(text for _, _, text in turns(chat)) for chat in chats] or list(self.distinct)[:2]

    @property
    def has_few_values(self) -> bool:
        """Whether it holds a few short values, or one, again and again."""
        is_few = self.is_repeated or len(self.values) == 1 < len(self.texts) - self.n_empty
        return bool(self.values) and is_few and self.longest < _SHORTEST_TEXT

    @property
    def looks_like_labels(self) -> bool:
        """Whether it holds a few short values, again and again, and not one alone."""
        return len(self.values) > 1 and self.has_few_values

    @property
    def looks_like_id(self) -> bool:
        """Whether it holds whole numbers or codes such as C-2000, each of them once."""
        is_key = self.is_unique and self.is_short and bool(self.texts)
        return is_key and all(text.isdecimal() or _CODE.fullmatch(text) for text in self.texts)

    @cached_property
    def code_form(self) -> str:
        """The form of its values if they are codes of one form, such as H-0 of H-001 and H-002; else empty.

        Codes such as 3f2a-91bc have one form if their letters and digits stand at the same places.
        """
        if not self.is_short or len(self.distinct) < 2 or not all(map(_CODE.fullmatch, self.distinct)):
            return ""
        forms = [{re.sub(pattern, "0", text) for text in self.distinct} for pattern in (r"\d+", r"[^\W_]")]
        return next((form.pop() for form in forms if len(form) == 1), "")

    @property
    def numbers_blocks(self) -> bool:
        """Whether it holds whole numbers of three or more digits, as many in each, and rows of one are neighbours."""
        if not all(text.isdecimal() and len(text) == self.longest > 2 for text in self.texts):
            return False
        n_blocks = 1 + sum(text != last for text, last in pairwise(self.texts))
        return n_blocks == len(self.distinct)

    def fits(self, scale: Scale, most_off: float = 0.0) -> bool:
        """Whether its values are labels on a scale, but for this share."""
        n_off, n_given = self.off_scale(scale).total() if self.values else 0, len(self.texts) - self.n_empty
        return any(label_text(value, scale) for value in self.values) and n_off <= most_off * n_given

    def off_scale(self, scale: Scale) -> Counter[str]:
        """Its labels that are not on a scale, without blanks around them, and how often they stand there."""
        off = {text for text, cell in self.distinct.items() if text.strip() and label_text(cell, scale) is None}
        return Counter(text.strip() for text in self.texts if text in off)


def plain_value(text: str) -> str | float:
    """A value without what people write in several ways: the form of a number, capitals, blanks around it."""
    value = number(text.strip())
    return text.strip().casefold() if value is None else value
