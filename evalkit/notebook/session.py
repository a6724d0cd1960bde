"""The session: everything that tuning a rubric needs but the widget. What is on screen follows from it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit import tables
from evalkit.core.formatting import figure
from evalkit.engine import Worklist
from evalkit.errors import InputError, JudgeError, RubricError, counted
from evalkit.evaluation import Evaluation, promote
from evalkit.evaluation.suggestions import groups_of
from evalkit.notebook.figure_tiles import Cell, Tile, aligned, cells_of, tiles_of
from evalkit.notebook.item_details import detail_of
from evalkit.notebook.item_table import Page, Query, Row, page_of, rows_of
from evalkit.notebook.label_log import LabelBook, counting, fitting
from evalkit.notebook.suggested_edits import Proposals
from evalkit.notebook.tuning_state import Bench, Stopped
from evalkit.rubrics import Rubric, save
from evalkit.stats.alignment import align
from evalkit.tables import extract_labels

__all__ = ["Session"]


class Session(Bench):
    """A rubric being tuned on items: draft, jury, versions, results, labels; kept in files, without any widget.

    Two files lie in `folder`: ``<name>.tuner.json`` (versions and where the work stands) and ``<name>.labels.jsonl``
    (label edits); replies lie in the cache. A new session of the same name goes on where the last one was.

    Parameters
    ----------
    items
        As for `judge`, or the path of a file that `load_items` reads.
    rubric, judges, samples, template, item_id
        As for `judge`.
    labels
        Human labels: the long table of `labels`, or a mapping criterion -> item columns.
    aggregate
        How votes become scores (see `aggregate`).
    folder, name
        Where the files lie (beside a file of items, else the working folder), and what they are called (the items'
        file and the rubric's id).
    annotator
        Who labels.
    cache, budget_usd
        As for `judge`.
    **options
        What else `judge` takes: ``concurrency``, ``retries``, ``requests_per_minute`` …

    Raises
    ------
    InputError, RubricError, ConfigError, CacheError
        For what cannot be judged, and files that cannot be read.
    """

    def __init__(
        self, items: Any, rubric: Any, judges: Any = None, *, labels: Any = None, annotator: str = "me", **options: Any
    ) -> None:
        super().__init__(items, rubric, judges, **options)
        self.annotator = annotator
        self.query, self.selected = Query(), ""
        self.held_out: dict[str, str] = {}
        self.proposals = Proposals()
        self._rows: tuple[Any, list[Row]] = (None, [])
        self._agreements: dict[str, tuple[Evaluation | None, Any, pd.Series | None]] = {}
        self.book = LabelBook(
            self.place / f"{self.stem}.labels.jsonl",
            self._texts(),
            self._long(labels),
            self.base,
            groups_of(self.items),
        )
        self.restore()

    def _texts(self) -> dict[str, str]:
        work = Worklist.of(self.spec, self.items)
        return dict(zip(self.items["item_id"], (hashes[0][:16] for hashes in work.hashes), strict=True))

    def _long(self, labels: Any) -> pd.DataFrame | None:
        if labels is None or isinstance(labels, pd.DataFrame):
            return None if labels is None else tables.check(labels, "labels", need=[*tables.LABEL_KEY, "label"])
        return extract_labels(self.items, labels, rubric=self.base)

    def restore(self) -> None:
        """Go on where the last session was."""
        super().restore()
        for version in self.history.versions.values():
            self.book.know(version.rubric)
        self.book.read()
        self.annotator = self.history.place.get("annotator", self.annotator)
        self.proposals = Proposals.from_dict(self.history.place.get("proposals"), self.history.versions)

    def standing(self) -> dict[str, Any]:
        """Where the work stands, as plain values."""
        return super().standing() | {"annotator": self.annotator, "proposals": self.proposals.to_dict()}

    def changed(self) -> None:
        """What is shown is another: what was worked out for it is out of date."""
        super().changed()
        self.held_out = {}
        if self.evaluation is not None:
            self.book.know(self.evaluation.rubric)

    # -- what is seen
    @property
    def shown_criterion(self) -> str:
        """The criterion that is looked at: the chosen one, if what is shown has it."""
        names = self.draft.names if self.evaluation is None else self.evaluation.rubric.names
        return self.criterion if self.criterion in names else names[0]

    def tiles(self) -> list[Tile]:
        """The headline figures; empty before the first run."""
        if self.evaluation is None:
            return []
        name = self.history.versions[self.against].label if self.other is not None else ""
        rows = self._aligned(self.current), self._aligned(self.against)
        return tiles_of(self.evaluation, self.book.table, self.shown_criterion, self.other, name, rows)

    def _aligned(self, key: str) -> pd.Series | None:
        """Agreement with people; that of the last version is known from when it was shown."""
        evaluation, about = self._evaluations.get(key), (self.shown_criterion, self.book.n_edits)
        known = self._agreements.get(key)
        if known is None or known[0] is not evaluation or known[1] != about:
            known = evaluation, about, aligned(evaluation, self.book.table, self.shown_criterion)
            self._agreements[key] = known
        return known[2]

    def labels_of(self, criterion: str) -> pd.DataFrame:
        """The labels of a criterion, with their parts, that mean something on its scale as it is shown."""
        table = self.book.table
        mine = table[(table["criterion"] == criterion).to_numpy()]
        return mine if self.evaluation is None else fitting(mine, self.evaluation.rubric.criterion(criterion).scale)

    @property
    def n_off_scale(self) -> int:
        """Labels of the criterion that is looked at which mean nothing on its scale as it is shown."""
        all_of_it = (self.book.table["criterion"] == self.shown_criterion).sum()
        return int(all_of_it) - len(self.labels_of(self.shown_criterion))

    def cells(self) -> list[Cell]:
        """The confusion matrix on dev labels."""
        return [] if self.evaluation is None else cells_of(self.evaluation, self.book.table, self.shown_criterion)

    def rows(self) -> list[Row]:
        """One row an item; empty before the first run."""
        if self.evaluation is None:
            return []
        mark = (self.current, self.against, self.shown_criterion, self._revision)
        if self._rows[0] != mark:
            self._rows = mark, rows_of(self.evaluation, self.book.table, self.shown_criterion, self.other)
        return self._rows[1]

    def page(self) -> Page:
        """The rows that the query asks for."""
        return page_of(self.rows(), self.query)

    def detail(self, item_id: str) -> dict[str, Any]:
        """One item in full, with its labels; those of a held-out item are not shown, but for the annotator's own."""
        if self.evaluation is None or item_id not in set(self.items["item_id"]):
            return {}
        made = detail_of(self.evaluation, item_id, self.shown_criterion, self.cache)
        labels = self.book.of(item_id, self.shown_criterion)
        held = any(row.held for row in self.rows() if row.item_id == item_id)
        shown = {who: label for who, label in labels.items() if not held or who == self.annotator}
        scale = self.evaluation.rubric.criterion(self.shown_criterion).scale
        return made | {"labels": shown, "held": held, "codes": list(scale.labels)}

    # -- labels and versions
    def label(self, item_id: str, label: str | None, *, criterion: str | None = None) -> None:
        """Give, correct or (None) take back the annotator's label of an item; kept on disk at once."""
        with self.lock:
            self.book.give(item_id, criterion or self.shown_criterion, self.annotator, label)
            self._revision += 1

    def look_held_out(self) -> dict[str, str]:
        """The jury on the held-out labels; each look is counted and lessens what the next one is worth.

        Raises
        ------
        InputError
            When nothing was judged yet or nothing is held out.
        """
        if self.evaluation is None:
            raise InputError("nothing was judged yet: run first")
        scores = self.evaluation.scores
        scores = scores[scores["criterion"] == self.shown_criterion]
        table, _ = counting(self.labels_of(self.shown_criterion))
        made = align(scores, table, clusters=self.evaluation.clusters, part="held-out", folder=self.cache)
        row = made.iloc[0]
        self.held_out = {
            "agreement": figure(row["accuracy"], row["accuracy_low"], row["accuracy_high"]),
            "kappa": figure(row["kappa"], row["kappa_low"], row["kappa_high"]),
            "compared": f"{row['n_verdicts']} of {counted(row['n_labelled'], 'labelled item')}",
            "looks": f"look {row['n_looks']}, at {counted(row['n_versions'], 'version')}",
        }
        return self.held_out

    def save(self, folder: str | Path | None = None) -> Rubric:
        """Write the draft as the next version of its id; its replies count for that version too.

        Raises
        ------
        RubricError
            When the draft has a fault, or the folder cannot be written.
        """
        with self.lock:
            key = self.proposal().key
            saved = save(self.draft, folder)
            with suppress(RubricError):  # saved where no rubric is looked up: the tuner adopts the replies all the same
                promote(f"{saved.id}@{saved.version}", cache=self.cache)
            self.base = self.draft = saved
            if key in self.history.versions:
                self.history.versions[key] = replace(self.history.versions[key], base=saved, rubric=saved)
                if self._evaluations.pop(key, None) is not None:
                    self.replay(key)
            self.keep()
            return saved

    # -- suggestions
    def suggest(self, judge: Any) -> None:
        """Ask a judge (one of the pool by its name, or as `Judge.of` takes it) for edits of what is shown.

        Asked once more about the same version, it draws again.

        Raises
        ------
        InputError, ConfigError, JudgeError, CacheError
            As `suggest_edits`; InputError too when nothing was judged yet.
        """
        if self.evaluation is None:
            raise InputError("nothing was judged yet: run first")
        known = next((one for one in self.pool if one.name == judge), judge)
        labels = self.labels_of(self.shown_criterion)
        options = {name: self.options[name] for name in ("retries", "offline") if name in self.options}
        self.begin()
        try:
            made = self.proposals.ask(
                self.evaluation, self.current, known, self.shown_criterion, labels,
                cache=self.cache, budget_usd=self.budget_usd, on_progress=self.heed_stop, **options,
            )  # fmt: skip
        except Stopped:
            raise JudgeError("stopped before the judge answered; if an answer was under way, it is kept") from None
        finally:
            self.end()
        with self.lock:
            self.proposals = made
            self.keep()

    def try_edit(self, number: int, on_progress: Callable[[Any], object] | None = None) -> str:
        """Run a suggested edit as a version, show it against the one that it edits, and measure its effect.

        The held-out labels, where there are any, are looked at; the look is counted. The draft stays as it is.

        Raises
        ------
        InputError
            When there is no such suggestion.
        JudgeError, CacheError, ConfigError, RubricError
            As `run`.
        """
        proposals = self.proposals
        version = proposals.version(number, self.history.versions)
        said = self.run(on_progress, self.history.versions.get(version.key, version))
        if self.current == version.key and not said.startswith("stopped"):
            self.choose(version.key, proposals.base)
            effect = proposals.measure(
                self.replay(proposals.base), self.replay(version.key), self.labels_of(proposals.criterion), self.cache
            )
            with self.lock:
                self.proposals = proposals.tried(number, version.key, effect)
                self.keep()
        return said
