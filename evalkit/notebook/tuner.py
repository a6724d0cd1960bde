"""`RubricTuner`: the session on screen, and the same by calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.engine import Plan
from evalkit.errors import MissingExtraError, advise_extra
from evalkit.evaluation import Evaluation
from evalkit.evaluation.suggestions import Edit
from evalkit.notebook import tuner_html as stills
from evalkit.notebook.code_snippets import code_of
from evalkit.notebook.figure_tiles import counted_labels
from evalkit.notebook.session import Session
from evalkit.rubrics import Rubric

__all__ = ["RubricTuner"]

_TABLES = {"judgments", "votes", "scores", "rubric_scores", "summary", "disagreement", "reliability", "cost"}
_TABLES |= {"alignment", "wide"}


class RubricTuner:
    """Tune a rubric by hand and eye: edit it, run, see what changed, look at the items, label, save.

    In a notebook it draws itself when it is the last line of a cell. Everything that is on screen can be had as a table
    too (`judgments`, `votes`, `scores` …), and everything that is done there by a call. What was run, labelled and
    drafted is kept in two files (see `folder`), so that the same cell goes on where it was after a restart.

    Parameters
    ----------
    items, rubric, judges, samples, template, item_id
        As for `judge`; `items` may be the path of a file too.
    labels
        Human labels: the long table of `labels`, or a mapping criterion -> item columns. 60 % of the items are
        shown (``dev``), the others held out, from 50 labelled items of a criterion on.
    aggregate
        How votes become scores (see `aggregate`).
    folder, name
        Where ``<name>.tuner.json`` and ``<name>.labels.jsonl`` lie: beside a file of items, else in the working folder.
    annotator
        The name under which labels are given.
    cache, budget_usd
        As for `judge`.
    **options
        What else `judge` takes: ``concurrency``, ``retries``, ``requests_per_minute`` …

    Raises
    ------
    MissingExtraError
        Without ipywidgets and anywidget: they are in the extra ``notebook``.
    InputError, RubricError, ConfigError, CacheError
        For what cannot be judged, and files that cannot be read.

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

    def __init__(self, items: Any, rubric: Any, judges: Any = None, labels: Any = None, **options: Any) -> None:
        try:
            from evalkit.notebook.tuner_messages import Screen
        except ImportError as problem:
            raise MissingExtraError(
                f"RubricTuner needs ipywidgets and anywidget: {advise_extra('notebook')}; "
                "without it, evaluate and compare give the same figures"
            ) from problem
        self.session = Session(items, rubric, judges, labels=labels, **options)
        self._screen = Screen(self.session)

    # -- for those who type
    @property
    def rubric(self) -> Rubric:
        """The rubric as it is edited."""
        return self.session.draft

    @property
    def evaluation(self) -> Evaluation | None:
        """What is shown, with the dev labels; None before the first run."""
        shown, dev = self.session.evaluation, self.session.book.dev
        return shown if shown is None or dev.empty else replace(shown, labels=dev.drop(columns="part"))

    @property
    def versions(self) -> pd.DataFrame:
        """The versions that were run: `key`, `label`, `judges`, `samples`, `aggregate`, `at` (UTC)."""
        rows = [
            (key, one.label, ", ".join(judge.name for judge in one.judges), one.samples, one.aggregate, one.at)
            for key, one in self.session.history.versions.items()
        ]
        return pd.DataFrame(rows, columns=["key", "label", "judges", "samples", "aggregate", "at"])

    @property
    def labels(self) -> pd.DataFrame:
        """All labels, those given here included, with their `part`."""
        return self.session.book.table

    def __getattr__(self, name: str) -> Any:
        if name not in _TABLES:
            raise AttributeError(f"RubricTuner has no attribute {name!r}")
        evaluation = self.evaluation if name in ("alignment", "wide") else self.session.evaluation
        if evaluation is None:
            raise AttributeError(f"nothing was judged yet: {name!r} is there after a run")
        if name == "alignment" and evaluation.labels is not None:  # by whose labels the tiles go
            counted = counted_labels(evaluation, self.session.book.table)
            evaluation = replace(evaluation, labels=counted.drop(columns="part"))
        return getattr(evaluation, name)

    def plan(self) -> Plan:
        """What a run would take now."""
        return self.session.plan()

    def edit(self, criterion: str | None = None, **changes: Any) -> None:
        """Change the draft, as `Rubric.edit` does; RubricError for what is no rubric."""
        made = self.session.draft.edit(criterion, **changes)
        self.session.propose(lambda _base, _draft: made)
        self._screen.redraw()

    def run(self) -> None:
        """Judge what the draft changed, and wait for it; raises what `judge` raises."""
        self._screen.shown(self.session.run(self._screen.progress))

    def label(self, item_id: str, label: Any, *, criterion: str | None = None) -> None:
        """Give or correct a label in the annotator's name; None takes it back."""
        self.session.label(item_id, None if label is None else str(label), criterion=criterion)
        self._screen.show("board", "page", "item")

    def save(self, folder: str | Path | None = None) -> Rubric:
        """Save the draft as the next version of its id (see `save`)."""
        return self._screen.save(folder)

    def suggest(self, judge: Any) -> list[Edit]:
        """Edits of what is shown, from dev items where jury and people disagree (see `suggest_edits`).

        Asked once more about the same version, the judge draws again.
        """
        self.session.suggest(judge)
        self._screen.show("advice")
        return [row.edit for row in self.session.proposals.rows]

    def try_edit(self, number: int = 0) -> None:
        """Run a suggested edit (0: the first) as a version; the held-out labels are looked at, which is counted."""
        said = self.session.try_edit(number, self._screen.progress)
        self._screen.shown(said, "advice")

    def code(self, items: str = "items") -> str:
        """Python that gives what is on screen without the tuner."""
        return code_of(self.session, items)

    # -- on screen
    def __repr__(self) -> str:
        return stills.text(self.session)

    def _repr_html_(self) -> str:
        return stills.page(self.session)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        made = self._screen.view._repr_mimebundle_(**options)
        data, metadata = made if isinstance(made, tuple) else (made or {}, {})
        return {**data, "text/html": self._repr_html_(), "text/plain": repr(self)}, metadata
