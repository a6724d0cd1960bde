"""`LabelPage`: label items with others, and see how far people agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from evalkit.core.formatting import html_text
from evalkit.core.settings import check_choice
from evalkit.errors import InputError
from evalkit.notebook.together.label_forms import Forms, PersonScreen
from evalkit.notebook.together.lead_view import DECIDED, LeadScreen
from evalkit.notebook.widget_base import NotebookWidget, new_widget
from evalkit.rubrics.profiles import RubricLike
from evalkit.tables.items import ItemsLike
from evalkit.tables.schemas import LABEL_KEY


class LabelPage(NotebookWidget):
    """A page on which one person labels items: all criteria of an item on one form, each level in full.

    It has no Run and no editor. The labels of other people and of judges are not sent to the screen. Any number of
    pages, of any number of processes, write to one log, and so does a tuner that is open beside.

    Parameters
    ----------
    items, rubric, item_id, inputs
        As for `judge`; `items` may also be the path of a file. Items without a required input are left out, and those
        with a recording or another file that is no image.
    annotator
        The name of the person who labels, or of the lead.
    labels
        The path of the log; by default the file that `RubricTuner` has for the same items and rubric.
    order
        ``random`` (all items, in the same random order for everyone and after a restart), ``given`` (as in the file),
        ``disputed`` (what the tuner drew last), or a table of `next_labels`, whose probabilities are kept in the log.
    view
        ``label``, or ``lead``: how far people agree, on which items they differ, and a decision on each.
    show_others
        Whether a form shows what others answered; its labels are then not blind.
    people
        Who is to label: the lead's view also lists those of them who have not begun.

    Attributes
    ----------
    path
        The log.

    Raises
    ------
    MissingExtraError
        Without ipywidgets and anywidget: they are in the extra ``notebook``.
    InputError, RubricError, ConfigError, CacheError
        When the arguments are invalid, or a file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from evalkit import load_example
    >>> items, _ = load_example("facts")
    >>> page = LabelPage(items, "correctness", annotator="ann", labels=f"{tempfile.mkdtemp()}/facts.labels.jsonl")
    >>> page.receive({"do": "save", "form": page.state["form"]["form"], "answers": ["2"]})
    >>> page.labels[["annotator", "label", "source", "blind"]].values.tolist()
    [['ann', '2', 'random', True]]
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
        people: Sequence[str] = (),
        item_id: str | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        check_choice("view", view, ("label", "lead"))
        who = self.annotator = annotator.strip()
        if not who or who.startswith(DECIDED):
            raise InputError(f"annotator={annotator!r} is no name of a person, as names beginning with {DECIDED!r}")
        if isinstance(people, str):
            raise InputError(f"people={people!r} is a text; pass a list of names, such as people=[{people!r}]")
        self._forms = forms = Forms(items, rubric, labels, order, item_id, inputs)
        self.path, self._message_id = forms.log.path, ""
        self._screen: LeadScreen | PersonScreen = PersonScreen(forms, who, show_others=show_others)
        if view == "lead":
            self._screen = LeadScreen(forms, who, people)
        else:
            forms.log.check_writable()
        super().__init__(new_widget("LabelWidget", "LabelPage", "a labels table can be read from a file"))
        self._draw()

    def _draw(self) -> None:
        self.widget.form = self._screen.payload() | {"answers": self._message_id}

    def _look(self) -> None:
        if self._forms.log.read():
            self._draw()

    def _do(self, action: Callable[[Any], None], message: Mapping[str, Any]) -> None:
        try:
            self._forms.log.read()  # what others did since
            action(message)
        finally:  # the screen takes no key until its last message is answered
            self._message_id = str(message.get("id", self._message_id))
            self._draw()

    def _actions(self) -> dict[str, Callable[[Any], object]]:
        actions = super()._actions() | {"look": lambda _: self._look()}
        return actions | {name: partial(self._do, action) for name, action in self._screen.actions.items()}

    @property
    def labels(self) -> pd.DataFrame:
        """All labels of the log, as `RubricTuner.labels`; the lead's decisions have the source ``adjudicated``."""
        self._forms.log.read()
        return self._forms.log.table

    @property
    def final_labels(self) -> pd.DataFrame:
        """Each person's labels, with the lead's decision in their place where they say what they said then."""
        labels, decisions = self.labels, self._forms.log.decided()
        decided = {key: code for key, (_, code, who) in decisions.items() if not who}
        people = labels[~labels["source"].eq("adjudicated").to_numpy()].reset_index(drop=True).drop(columns="levels")
        rows = people[[*LABEL_KEY[:2], "label"]].itertuples(index=False)
        return people.assign(label=pd.Categorical([decided.get((item, name), label) for item, name, label in rows]))

    def __repr__(self) -> str:
        form = self.widget.form
        if form["view"] == "lead":
            return " ".join(filter(None, form["sentence"]))
        done = f"{form['n_done']} of {form['n']} done, {form['n_skipped']} skipped ({self.annotator}, {self.path})"
        return " ".join(filter(None, [done, self._forms.log.not_used]))

    def _repr_html_(self) -> str:
        return html_text(repr(self))
