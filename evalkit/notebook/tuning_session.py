"""A tuning session without its widget: draft, jury, versions, figures, labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from evalkit.core.allowed_choices import OnMissing
from evalkit.core.formatting import figure
from evalkit.core.judges import JudgeLike, JudgesLike
from evalkit.core.settings import JudgeOptions
from evalkit.engine import Spec, Worklist
from evalkit.errors import InputError, JudgeError, RubricError, counted
from evalkit.evaluation import Evaluation, promote
from evalkit.evaluation.suggestions.cases import groups_of
from evalkit.notebook.drafts_and_judging import Stopped, TuningState
from evalkit.notebook.figure_tiles import Cell, Tile, confusion_cells, jury_alignment, make_tiles
from evalkit.notebook.item_details import item_detail
from evalkit.notebook.item_table import Page, Query, Row, page_of, rows_of
from evalkit.notebook.label_log import LabelEdit, LabelLog, drop_new_annotators, labels_on_scale
from evalkit.notebook.label_queue import LabelQueue, Turn
from evalkit.notebook.suggested_edits import SuggestedEdits
from evalkit.rubrics import LabelsLike, Rubric, RubricLike
from evalkit.rubrics.human_labels import as_labels
from evalkit.stats.alignment.judge_alignment import align
from evalkit.stats.alignment.label_splits import DEV
from evalkit.tables import LABEL_KEY, ItemsLike


class Session(TuningState):
    """A rubric being tuned on items: draft, jury, versions, results, labels; kept in files, without any widget.

    Two files are stored in `folder`: ``<name>.tuner.json`` (versions and state) and ``<name>.labels.jsonl`` (label
    edits). Replies are stored in the cache. A new session of the same name continues where the last one ended.

    Parameters and errors are those of `RubricTuner`, which draws a session.
    """

    def __init__(
        self,
        items: ItemsLike | str | Path,
        rubric: RubricLike,
        judges: JudgesLike | None = None,
        labels: LabelsLike | None = None,
        *,
        samples: int | None = None,
        template: str | None = None,
        item_id: str | None = None,
        inputs: Mapping[str, str] | None = None,
        on_missing: OnMissing = "raise",
        aggregate: str | None = None,
        folder: str | Path | None = None,
        name: str | None = None,
        annotator: str = "me",
        **options: Unpack[JudgeOptions],
    ) -> None:
        spec = Spec.of(
            rubric, judges, samples, template, {"aggregate": aggregate}, inputs=inputs, on_missing=on_missing
        )
        super().__init__(items, spec, item_id, folder, name, options)
        self.annotator = annotator
        self.query, self.selected = Query(), ""
        self.held_out: dict[str, str] = {}
        self.suggested = SuggestedEdits()
        self._rows: tuple[Any, list[Row]] = (None, [])
        self._agreements: dict[str, tuple[Evaluation | None, Any, pd.Series | None]] = {}
        worklist = Worklist.of(spec, self.items)
        texts = {item: of_item[0][:16] for item, of_item in zip(self.items["item_id"], worklist.hashes, strict=True)}
        labels = None if labels is None else as_labels(labels, self.items, self.base)
        log = self.folder / f"{self.name}.labels.jsonl"
        self.label_log = LabelLog(log, texts, labels, self.base, groups_of(self.items))
        self.label_queue = LabelQueue(
            self.label_log, (item for at, item in enumerate(self.items["item_id"]) if at not in worklist.skipped)
        )
        self.restore()

    def restore(self) -> None:
        """Restore what the last session left."""
        super().restore()
        for version in self.history.versions.values():
            self.label_log.add_scales(version.rubric)
        self.label_log.read()
        self.annotator = self.history.state.get("annotator", self.annotator)
        self.suggested = SuggestedEdits.from_dict(self.history.state.get("suggested"), self.history.versions)

    def state(self) -> dict[str, Any]:
        """What a restart restores, as plain values."""
        return super().state() | {"annotator": self.annotator, "suggested": asdict(self.suggested)}

    def invalidate(self) -> None:
        """Drop what was computed for the version shown so far."""
        super().invalidate()
        self.held_out = {}
        if self.evaluation is not None:
            self.label_log.add_scales(self.evaluation.rubric)

    # -- figures and items
    @property
    def shown_criterion(self) -> str:
        """The chosen criterion, or the first one where the version shown has no such criterion."""
        names = self.draft.names if self.evaluation is None else self.evaluation.rubric.names
        return self.criterion if self.criterion in names else names[0]

    def tiles(self) -> list[Tile]:
        """The headline figures; empty before the first run."""
        if self.evaluation is None:
            return []
        name = self.history.versions[self.against].label if self.compared is not None else ""
        rows = self._alignment(self.current), self._alignment(self.against)
        not_counted = self.label_log.not_counted(self.shown_criterion)
        return make_tiles(
            self.evaluation, self.label_log.counted, self.shown_criterion, self.compared, name, rows, not_counted
        )

    def _alignment(self, key: str) -> pd.Series | None:
        """Agreement of a version's jury with people; computed once per version and state of the labels."""
        evaluation, about = self._evaluations.get(key), (self.shown_criterion, self.label_log.n_edits)
        known = self._agreements.get(key)
        if known is None or known[0] is not evaluation or known[1] != about:
            known = evaluation, about, jury_alignment(evaluation, self.label_log.counted, self.shown_criterion)
            self._agreements[key] = known
        return known[2]

    def labels_of(self, criterion: str, *, counted: bool = False) -> pd.DataFrame:
        """The labels of a criterion on its scale in the version shown; `counted`: only those that figures use."""
        rubrics = [] if self.evaluation is None else [self.evaluation.rubric]
        return labels_on_scale(self.label_log.counted if counted else self.label_log.table, criterion, *rubrics)

    def labels_for(self, rubric: Rubric) -> pd.DataFrame | None:
        """The dev labels that the tiles count for a version of the rubric (see `drop_new_annotators`), or None."""
        counted = self.label_log.counted
        parts = [drop_new_annotators(labels_on_scale(counted, name, rubric))[0] for name in rubric.names]
        labels = pd.concat(parts, ignore_index=True)
        labels = labels.loc[(labels["part"] == DEV).to_numpy(), [*LABEL_KEY, "label"]]
        return None if labels.empty else labels

    @property
    def n_off_scale(self) -> int:
        """Number of labels of the criterion shown that are not on its scale in the version shown."""
        n_labels = (self.label_log.table["criterion"] == self.shown_criterion).sum()
        return int(n_labels) - len(self.labels_of(self.shown_criterion))

    def cells(self) -> list[Cell]:
        """The cells of the confusion matrix, on dev labels."""
        if self.evaluation is None:
            return []
        return confusion_cells(self.rows(), self.evaluation.rubric.criterion(self.shown_criterion).scale)

    def rows(self) -> list[Row]:
        """One row per item; empty before the first run."""
        if self.evaluation is None:
            return []
        mark = (self.current, self.against, self.shown_criterion, self._revision)
        if self._rows[0] != mark:
            self._rows = mark, rows_of(self.evaluation, self.label_log.table, self.shown_criterion, self.compared)
        return self._rows[1]

    def page(self) -> Page:
        """The page of rows that the query asks for."""
        return page_of(self.rows(), self.query)

    def detail(self, item_id: str) -> dict[str, Any]:
        """One item in full, with its labels; of a held-out item only the annotator's own labels."""
        if self.evaluation is None or item_id not in set(self.items["item_id"]):
            return {}
        detail = item_detail(self.evaluation, item_id, self.shown_criterion, self.cache)
        labels = self.label_log.of(item_id, self.shown_criterion)
        held = any(row.held for row in self.rows() if row.item_id == item_id)
        shown = {who: label for who, label in labels.items() if not held or who == self.annotator}
        scale = self.evaluation.rubric.criterion(self.shown_criterion).scale
        return detail | {"labels": shown, "held": held, "codes": list(scale.labels)}

    # -- labels and versions
    def label(self, item_id: str, label: str | None, *, criterion: str | None = None, source: str = "given") -> None:
        """Set the annotator's label of an item, or remove it with None; it is written to disk at once.

        `source` says how the item was chosen (see `LabelEdit`).
        """
        with self.lock:
            edit = LabelEdit(label, source)
            self.label_log.add(item_id, criterion or self.shown_criterion, self.annotator, edit)
            self._revision += 1

    def turn(self) -> Turn:
        """What the annotator labels next in the label queue."""
        disagreements = {row.item_id: row.split or 0.0 for row in self.rows()}
        return self.label_queue.turn(self.shown_criterion, self.annotator, disagreements, self.current)

    def is_blind(self, turn: Turn) -> bool:
        """Whether the jury stays hidden in this turn: also where nothing is judged, or the item was labelled before."""
        return self.label_queue.blind or self.evaluation is None or turn.labelled_before

    def label_next(self, item_id: str, criterion: str, label: str) -> None:
        """Label the next item of the queue; any other item is ignored, because its text was not on screen."""
        with self.lock:
            turn = self.turn()
            if (turn.item_id, self.shown_criterion) == (item_id, criterion):
                edit = LabelEdit(label, self.label_queue.source, turn.probability, self.is_blind(turn))
                self.label_log.add(item_id, criterion, self.annotator, edit)
                self._revision += 1

    def skip_item(self, item_id: str, criterion: str) -> None:
        """Leave the next item of the queue unlabelled; it comes again at the end."""
        with self.lock:
            if (self.turn().item_id, self.shown_criterion) == (item_id, criterion):
                self.label_queue.skip(item_id, criterion, self.annotator)

    def undo_label(self) -> None:
        """Take back the last label of the queue; its item is the next one again."""
        with self.lock:
            if last := self.turn().undo:
                self.label_log.undo(last[0], self.shown_criterion, self.annotator)
                self._revision += 1

    def count_labels(self, annotator: str, *, counts: bool = True) -> None:
        """Include the labels of a new annotator in the figures, or leave them out."""
        with self.lock:
            self.label_log.set_counting(annotator, counts=counts)
            self._revision += 1

    def look_held_out(self) -> dict[str, str]:
        """Agreement of the jury with the held-out labels; each look is counted, and makes this figure less reliable.

        Raises
        ------
        InputError
            When nothing is judged yet, or nothing is held out.
        """
        if self.evaluation is None:
            raise InputError("nothing is judged yet; run first")
        scores = self.evaluation.scores
        scores = scores[scores["criterion"] == self.shown_criterion]
        table, _ = drop_new_annotators(self.labels_of(self.shown_criterion, counted=True))
        made = align(scores, table, clusters=self.evaluation.clusters, part="held-out", cache=self.cache)
        row = made.iloc[0]
        self.held_out = {
            "agreement": figure(row["accuracy"], row["accuracy_low"], row["accuracy_high"]),
            "kappa": figure(row["kappa"], row["kappa_low"], row["kappa_high"]),
            "compared": f"{row['n_verdicts']} of {counted(row['n_labelled'], 'labelled item')}",
            "looks": f"look {row['n_looks']}, at {counted(row['n_versions'], 'version')}",
        }
        return self.held_out

    def save(self, rubrics_folder: str | Path | None = None) -> Rubric:
        """Save the draft as the next version of its id; its replies count for that version too.

        Raises
        ------
        RubricError
            When the draft is invalid, or the folder cannot be written.
        """
        with self.lock:
            key = self.next_version().key
            saved = self.draft.save(rubrics_folder)
            with suppress(RubricError):  # saved in a folder that is not searched: the tuner adopts the replies anyway
                promote(f"{saved.id}@{saved.version}", cache=self.cache)
            self.base = self.draft = saved
            if key in self.history.versions:
                self.history.versions[key] = replace(self.history.versions[key], base=saved, rubric=saved)
                if self._evaluations.pop(key, None) is not None:
                    self.replay(key)
            self.save_state()
            return saved

    # -- suggestions
    def suggest(self, judge: JudgeLike) -> None:
        """Request edits of the version shown from a judge (the name of one of the pool, or as `Judge.of` takes it).

        A second call for the same version requests another reply.

        Raises
        ------
        InputError, ConfigError, JudgeError, CacheError
            As `suggest_edits`; InputError also when nothing is judged yet.
        """
        if self.evaluation is None:
            raise InputError("nothing is judged yet; run first")
        known = next((one for one in self.pool if one.name == judge), judge)
        labels = self.labels_of(self.shown_criterion)
        options = {name: self.options[name] for name in ("retries", "offline") if name in self.options}
        self.begin_run()
        try:
            suggested = self.suggested.ask(
                self.evaluation, self.current, known, self.shown_criterion, labels,
                cache=self.cache, budget_usd=self.budget_usd, on_progress=self.check_stop, **options,
            )  # fmt: skip
        except Stopped:
            raise JudgeError("stopped before the judge replied; if a reply still arrives, evalkit stores it") from None
        finally:
            self.end_run()
        with self.lock:
            self.suggested = suggested
            self.save_state()

    def try_edit(self, number: int, on_progress: Callable[[Any], object] | None = None) -> str:
        """Run a suggested edit as a version, compare it with the one that it edits, and measure its effect.

        The effect is measured on held-out labels too, if there are any; the look is counted. The draft does not change.

        Raises
        ------
        InputError
            When there is no suggestion with this number.
        JudgeError, CacheError, ConfigError, RubricError
            As `run`.
        """
        suggested = self.suggested
        version = suggested.version(number, self.history.versions)
        text = self.run(on_progress, self.history.versions.get(version.key, version))
        if self.current == version.key and not text.startswith("stopped"):
            self.show_versions(version.key, suggested.base)
            before, after = self.replay(suggested.base), self.replay(version.key)
            labels = self.labels_of(suggested.criterion, counted=True)
            effects = suggested.measure(before, after, labels, self.cache)
            with self.lock:
                self.suggested = suggested.tried(number, version.key, effects)
                self.save_state()
        return text
