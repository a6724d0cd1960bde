"""`RubricTuner`: tune a rubric on screen or from Python."""

from __future__ import annotations

import html
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack

import pandas as pd

from evalkit.core.formatting import html_page, html_table, html_tiles, wrapped
from evalkit.core.judges import JudgeLike, JudgesLike
from evalkit.core.lists_of_choices import OnMissing
from evalkit.core.settings import JudgeOptions
from evalkit.engine import Plan
from evalkit.errors import ConfigError, EvalkitWarning, counted
from evalkit.evaluation import Evaluation
from evalkit.evaluation.suggestions.edits import Edit
from evalkit.notebook.judgments.item_table import Query, Row, page_of
from evalkit.notebook.labelling.label_log import labels_on_scales
from evalkit.notebook.tuner.code_snippets import session_code
from evalkit.notebook.tuner.tuner_controller import TunerController
from evalkit.notebook.tuner.tuning_session import Session
from evalkit.notebook.widget_base import NotebookWidget, new_widget
from evalkit.rubrics import Rubric
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.profiles import RubricLike
from evalkit.stats.alignment.label_splits import DEV
from evalkit.tables.items import ItemsLike
from evalkit.tables.schemas import LABEL_KEY

_TABLES = {"judgments", "votes", "scores", "rubric_scores", "summary", "disagreement", "reliability", "cost"}
_TABLES |= {"alignment", "wide"}


class RubricTuner(NotebookWidget):
    """Tune a rubric interactively: edit it, run, see what changed, look at items, label them, save a version.

    As the last line of a notebook cell it draws itself. Everything on screen is available as a table too (`judgments`,
    `votes`, `scores` …), and everything done there as a call. Runs, labels and the draft are kept in two files (see
    `folder`): after a restart the same cell continues where it was.

    Parameters
    ----------
    items, rubric, judges, samples, template, criteria_per_call, item_id, inputs, on_missing
        As for `judge`; `items` may also be the path of a file.
    labels
        Human labels: a long labels table, or a mapping criterion -> item columns. From 50 labelled items of a criterion
        on, 60 % of the items are shown (``dev``) and the others held out.
    aggregate
        How votes become scores (see `aggregate`).
    folder, name
        Folder and name of ``<name>.tuner.json`` and ``<name>.labels.jsonl``; by default next to the file of items (else
        in the working directory), named after that file and the rubric's id.
    annotator
        The name of the person who labels; one chosen on screen comes back after a restart, unless the cell names
        another than before. A new annotator counts in the figures when you say so on screen.
    **options
        Other options of `judge`: ``cache``, ``budget_usd`` (here, the limit of the whole session), ``concurrency`` …
        The tuner sets `adopt`, `progress` and `on_progress` itself.

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
    >>> items, labels = load_example("facts")
    >>> tuner = RubricTuner(items, "correctness", ["fake:strict", "fake:lenient"], labels, folder=tempfile.mkdtemp())
    >>> tuner.run()
    >>> tuner.edit("correctness", scale={1: "mostly right"})
    >>> tuner.run()
    >>> len(tuner.versions), tuner.rubric.edited, len(tuner.scores)
    (2, True, 20)
    """

    def __init__(
        self,
        items: ItemsLike | str | Path,
        rubric: RubricLike | None = None,
        judges: JudgesLike | None = None,
        labels: LabelsLike | None = None,
        *,
        samples: int | None = None,
        template: str | None = None,
        criteria_per_call: int | Literal["all"] | None = None,
        item_id: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        on_missing: OnMissing = "raise",
        aggregate: str | None = None,
        folder: str | Path | None = None,
        name: str | None = None,
        annotator: str = "me",
        **options: Unpack[JudgeOptions],
    ) -> None:
        if rubric is None:
            raise ConfigError("no rubric is named; pass one such as 'helpfulness', or choose one in ek.start(items)")
        session = Session(
            items, rubric, judges, labels, samples=samples, template=template, criteria_per_call=criteria_per_call,
            item_id=item_id, inputs=inputs, on_missing=on_missing, aggregate=aggregate, folder=folder, name=name,
            annotator=annotator, **options,
        )  # fmt: skip
        for text in session.labels.remarks:
            warnings.warn(text, EvalkitWarning, stacklevel=2)
        self._open(session, new_widget("TunerWidget", "RubricTuner", "evaluate and compare give the same figures"))

    @classmethod
    def of(cls, session: Session, widget: Any) -> RubricTuner:
        """The tuner of a session, drawn in a widget that is on screen already."""
        tuner = cls.__new__(cls)
        tuner._open(session, widget)
        return tuner

    def _open(self, session: Session, widget: Any) -> None:
        self.session, self._is_drawn = session, False
        super().__init__(widget)  # from now on, messages come
        self._screen, self._is_drawn = TunerController(session, widget, self._jobs), True

    def _actions(self) -> dict[str, Callable[[Any], object]]:
        return super()._actions() | self._screen.actions()

    def receive(self, message: Any) -> None:
        """Do what a message from the screen asks for; a second click on what is paid does not pay twice."""
        if self._is_drawn and self._screen.takes(message):
            super().receive(message)

    @property
    def rubric(self) -> Rubric:
        """The draft: the rubric as edited so far."""
        return self.session.drafts.draft

    @property
    def evaluation(self) -> Evaluation | None:
        """The evaluation on screen, with the dev labels that figures use; None before the first run.

        A label of a level that the version shown does not have is none of these.
        """
        evaluation, _ = self.session.evaluation, self.session.label_log  # which reads what others wrote
        labels = None if evaluation is None else self.session.labels.for_rubric(evaluation.rubric, of_all=True)
        return self._with_labels(labels)

    def _with_labels(self, labels: pd.DataFrame | None) -> Evaluation | None:
        shown = self.session.evaluation
        if shown is None:
            return None
        given = None if labels is None else labels.loc[labels["item_id"].isin(shown.items["item_id"])]
        return replace(shown, labels=None if given is None or given.empty else given[[*LABEL_KEY, "label"]])

    @property
    def versions(self) -> pd.DataFrame:
        """One row per version that was run, with its `name` and `note`; `label` is its rubric's version in tables.

        The other columns: `key`, `judges`, `samples`, `aggregate`, `at` (UTC).
        """
        rows = []
        for key, version in self.session.history.versions.items():
            judges = ", ".join(judge.name for judge in version.judges)
            rows.append(version.to_dict() | {"key": key, "label": version.label, "judges": judges})
        return pd.DataFrame(rows, columns=["key", "name", "note", "label", "judges", "samples", "aggregate", "at"])

    @property
    def labels(self) -> pd.DataFrame:
        """All labels, including those entered in the tuner, that are on the scales of the version shown.

        A warning counts the others: no figure uses them, and the file of labels keeps them.

        Beside the columns of a labels table: `part` (``dev`` or ``held-out``), and how each label was drawn: `source`
        (``given``, ``random``, ``disputed``, ``changed``, ``low certainty``, ``picked``, ``adjudicated``),
        `probability`, `blind`, `round`. Figures use given and random ones, and these stay what they are; figures with
        weights also use disputed ones (see `corpus_estimate`), `compare` changed ones. Those that other processes wrote
        to the same file are among them.
        """
        table, shown = self.session.label_log.standing, self.session.evaluation
        labels = table if shown is None else labels_on_scales(table, shown.rubric)
        if n_off := len(table) - len(labels):
            fact = f"{counted(n_off, 'label is', 'labels are')} not on the scale of the version shown"
            warnings.warn(f"{fact}: left out, as in its figures", EvalkitWarning, stacklevel=2)
        return labels.reset_index(drop=True)

    def __getattr__(self, name: str) -> Any:
        if name not in _TABLES:
            return super().__getattr__(name)
        evaluation = self.session.evaluation
        if name == "wide":  # with all labels
            labels = self.session.labels.log.table
            evaluation = self._with_labels(labels[(labels["part"] == DEV).to_numpy()])
        if evaluation is None:
            raise AttributeError(f"nothing is judged yet; {name!r} is available after a run")
        if name == "alignment":  # of the annotators that the tiles count
            evaluation = self._with_labels(self.session.labels.for_rubric(evaluation.rubric))
        return getattr(evaluation, name)

    def plan(self) -> Plan:
        """The calls and cost of a run now (see `plan`)."""
        return self.session.drafts.plan()

    def edit(self, criterion: str | None = None, **changes: Any) -> None:
        """Change the draft as `Rubric.edit` does; RubricError if the result is not a valid rubric."""
        edited = self.session.drafts.draft.edit(criterion, **changes)
        self.session.drafts.edit(lambda _base, _draft: edited)
        self._screen.redraw_draft()

    def run(self) -> None:
        """Judge what the draft changed, and wait for it; raises what `judge` raises.

        ConfigError, before anything is asked, if the run is expected to pass the spending limit of the session.
        """
        self._screen.show_run(lambda: self.session.run(self._screen.show_progress))

    def label(self, item_id: str, label: str | float | None, *, criterion: str | None = None) -> None:
        """Set the annotator's label of an item; None removes it."""
        self.session.label(item_id, None if label is None else str(label), criterion=criterion)
        self._screen.draw("figures", "page", "item")

    def suggest(self, judge: JudgeLike) -> list[Edit]:
        """Edits of the shown version, from dev items where jury and people disagree (see `suggest_edits`).

        A second call for the same version requests another reply.
        """
        self.session.suggestions.suggest(judge, self.session.shown_criterion)
        self._screen.draw("suggestions")
        self._screen.plan_tries()
        return [row.edit for row in self.session.suggestions.edits.rows]

    def try_edit(self, number: int = 0) -> None:
        """Run a suggested edit (0: the first) as a version, and measure its effect.

        The effect is measured on held-out labels too, if there are any; each look at them is counted.
        """
        progress, suggestions = self._screen.show_progress, self.session.suggestions
        self._screen.show_run(lambda: suggestions.try_edit(number, progress), "suggestions")

    def save(self, rubrics_folder: str | Path | None = None) -> Rubric:
        """Save the draft as the next version of its id (see `Rubric.save`), and report it on screen."""
        return self._screen.save(rubrics_folder)

    def code(self, items: str = "items") -> str:
        """Python code that computes the same figures without the tuner."""
        return session_code(self.session, items)

    def __repr__(self) -> str:
        return page_text(self.session)

    def _repr_html_(self) -> str:
        return page_html(self.session)


_ROWS = 10


def page_text(session: Session) -> str:
    """The session as text for a terminal."""
    tiles = [f"{one.title}: {one.value} ({'; '.join(filter(None, [one.note, one.moved]))})" for one in session.tiles()]
    return wrapped("\n".join([_head(session), *tiles]))


def page_html(session: Session) -> str:
    """The session as HTML: tiles, confusion matrix, and the items that need review first."""
    tiles = [(tile.value, tile.title, " · ".join(filter(None, [tile.note, tile.moved]))) for tile in session.tiles()]
    parts = [f"<p>{html.escape(_head(session))}</p>", html_tiles(tiles)]
    if matrix := _matrix(session):
        caption = "People's dev labels (rows) and the jury's labels (columns)"
        parts.append(html_table(matrix, texts=["people"], caption=caption))
    if rows := session.rows():
        shown = [_cells(row) for row in page_of(rows, Query(), _ROWS).rows]
        parts.append(html_table(shown, texts=list(shown[0]), caption=_caption(len(shown), rows)))
    return html_page([*parts, "<p class='note'>Run this cell to tune the rubric; the widget needs a kernel.</p>"])


def _caption(n_shown: int, rows: list[Row]) -> str:
    n_urgent = sum(row.urgency > 0 for row in rows)
    shown = "" if n_shown == len(rows) else f"the first {n_shown} of "
    need = f"{n_urgent or 'none'} {'needs' if n_urgent == 1 else 'need'} review"
    why = "(jury against people, newly broken, not fully scored, judges disagree)"
    return f"{shown}{counted(len(rows), 'item')}; {need} {why}{', shown first' if n_urgent else ''}"


def _head(session: Session) -> str:
    judges = ", ".join(judge.name for judge in session.drafts.pool if judge.name in session.drafts.active)
    what = f"{session.drafts.draft.id} {session.drafts.next_name}, criterion {session.shown_criterion}"
    head = f"{what}: {counted(len(session.items), 'item')}, judged by {judges}"
    if session.evaluation is None:
        return f"{head}; not judged yet"
    return f"{head}; showing {session.history.versions[session.runs.current].name}"


def _matrix(session: Session) -> list[dict[str, str]]:
    rows: dict[str, dict[str, str]] = {}
    for cell in session.cells():
        column = " ".join(filter(None, [cell.jury or "no label", cell.verdict]))
        rows.setdefault(cell.human, {"people": cell.human})[column] = str(cell.n)
    return list(rows.values())


def _cells(row: Any) -> dict[str, str]:
    judges = (" ".join(filter(None, [label or "–", row.conflicts.get(who)])) for who, label, _ in row.votes)
    return {
        "item": row.item_id,
        "people": "held out" if row.held else ", ".join(row.people.values()),
        "jury": " ".join(filter(None, [row.jury or row.status, row.conflicts.get("")])),
        "judges": ", ".join(judges),
        "change": row.change,
        "text": row.text[:160],
    }
