"""`LabelPage`: label items with others, and see how far people agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from evalkit.notebook.widget_base import NotebookWidget, new_widget
from evalkit.rubrics.profiles import RubricLike
from evalkit.tables.items import ItemsLike


class LabelPage(NotebookWidget):
    """A page on which one person labels items: all criteria of an item on one form, each level in full.

    It has no Run and no editor. The labels of other people and of judges are not sent to the screen. Any number of
    pages, of any number of processes, write to one log, and so does a tuner that is open beside.

    Parameters
    ----------
    items, rubric, item_id, inputs
        As for `judge`; `items` may also be the path of a file.
    annotator
        The name of the person who labels, or of the lead.
    labels
        The log of labels; by default the file that `RubricTuner` has for the same items and rubric.
    order
        ``random`` (all items, in the same random order for everyone and after a restart), ``given`` (as in the file),
        ``disputed`` (the last draw of the tuner), or a table of `next_labels`.
    view
        ``label``, or ``lead``: how far people agree, on which items they differ, and a decision on each.
    show_others
        Whether the other people's labels of an item are shown; labels are then not blind.
    """

    def __init__(
        self,
        items: ItemsLike | str | Path,
        rubric: RubricLike,
        *,
        annotator: str,
        labels: str | Path | None = None,
        order: Literal["random", "given", "disputed"] | pd.DataFrame = "random",
        view: Literal["label", "lead"] = "label",
        show_others: bool = False,
        item_id: str | None = None,
        inputs: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(new_widget("LabelWidget", "LabelPage", "ek.RubricTuner needs the same"))
        self.annotator = annotator
        self.widget.form = {"annotator": annotator}

    def _actions(self) -> dict[str, Callable[[Any], object]]:
        return super()._actions()

    def __repr__(self) -> str:
        return f"LabelPage of {self.annotator}"

    def _repr_html_(self) -> str:
        return f"<p>{self!r}</p>"
