"""A tuning session without its widget: draft, jury, versions, figures, labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar, Unpack

import pandas as pd

from evalkit.core.formatting import figure
from evalkit.core.judges import JudgeLike, JudgesLike
from evalkit.core.lists_of_choices import OnMissing
from evalkit.core.settings import JudgeOptions
from evalkit.engine import Spec, Worklist
from evalkit.errors import InputError, JudgeError, RubricError, counted
from evalkit.evaluation import Evaluation, improve, promote, sample_again
from evalkit.evaluation.sampling_again import plan_again
from evalkit.evaluation.suggestions.cases import groups_of
from evalkit.notebook.drafts_and_judging import Stopped, TuningState
from evalkit.notebook.headline_numbers import (
    Cell,
    Point,
    Tile,
    change_from,
    confusion_cells,
    jury_alignment,
    make_tiles,
    point_of,
)
from evalkit.notebook.item_details import item_detail, level_keys, side_by_side
from evalkit.notebook.item_table import Page, Query, Row, page_of, rows_of
from evalkit.notebook.label_log import LabelEdit, LabelLog, drop_new_annotators, labels_on_scale
from evalkit.notebook.label_queue import LabelQueue, Turn, precision
from evalkit.notebook.suggested_edits import MAX_EDITS, ROUNDS, SuggestedEdits
from evalkit.notebook.version_history import rebase
from evalkit.rubrics import LabelsLike, Rubric, RubricLike
from evalkit.rubrics.human_labels import as_labels
from evalkit.stats.alignment.judge_alignment import align
from evalkit.stats.alignment.label_splits import DEV
from evalkit.stats.comparison.comparison_table import SAME
from evalkit.stats.comparison.measured_floors import NOT_ASKED
from evalkit.tables import LABEL_KEY, ItemsLike

T = TypeVar("T")


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
        self._computed: dict[str, tuple[object, Any]] = {}
        self.floor_sizes: dict[str, int] = {}
        self.items_code: list[str] = []  # how the start card made the items, in Python
        self._floors: dict[str, pd.DataFrame] = {}
        self.prices: dict[str, str] = {}
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
        self.floor_sizes = dict(self.history.state.get("floor_sizes", {}))

    def state(self) -> dict[str, Any]:
        """What a restart restores, as plain values."""
        more = {"annotator": self.annotator, "suggested": asdict(self.suggested), "floor_sizes": self.floor_sizes}
        return super().state() | more

    def invalidate(self) -> None:
        """Drop what was computed for the version shown so far."""
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
        name = self.history.versions[self.against].name if self.compared is not None else ""
        rows = self._alignment(self.current), self._alignment(self.against)
        not_counted = self.label_log.not_counted(self.shown_criterion)
        return make_tiles(
            self.evaluation, self.label_log.counted, self.shown_criterion, self.change(), name, rows, not_counted,
            self.rows(),
        )  # fmt: skip

    def change(self) -> tuple[pd.Series | None, str] | None:
        """The row of `compare` from the version compared with, or None and the reason; None if there is no such one."""
        now, last, criterion = self.evaluation, self.compared, self.shown_criterion
        if now is None or last is None:
            return None
        repeats, log = self._repeats(self.against), self.label_log
        about = (now, last, criterion, log.n_edits, repeats is None)
        return self._once("change", about, lambda: change_from(last, now, log.counted, criterion, repeats))

    def _once(self, name: str, about: object, compute: Callable[[], T]) -> T:
        """What `compute` returns; computed again only if what it is about has changed."""
        if name not in self._computed or self._computed[name][0] != about:
            self._computed[name] = about, compute()
        value: T = self._computed[name][1]
        return value

    def points(self) -> dict[str, Point]:
        """The large figure of each of the `shown_versions`, by key."""
        labelled, name = self._alignment(self.current) is not None, self.shown_criterion
        return {
            key: point_of(self._evaluations.get(key), self._alignment(key), name, labelled=labelled)
            for key in self.shown_versions
        }

    @property
    def people_agreement(self) -> float | None:
        """Agreement of people among themselves, 0-1, on the labels that the version shown is compared with."""
        row = self._alignment(self.current)
        return None if row is None or pd.isna(row["accuracy_people"]) else float(row["accuracy_people"])

    # -- chance
    @property
    def floor_missing(self) -> bool:
        """Whether measuring the noise floor of the version compared with would show more than is known."""
        row, _ = self.change() or (None, "")
        return row is not None and not pd.isna(row["change_p"]) and row["floor_source"] not in (SAME, "measured")

    def floor_price(self) -> str:
        """What `measure_floor` would ask and cost; makes no calls."""
        key, last = self.against, self.compared
        if last is not None and key not in self.prices:
            plan = plan_again(last)
            size = counted(plan.n_items, "item")
            size = f"all {size} again" if plan.n_items == len(self.items) else f"{size} again for ± 3 points"
            self.prices[key] = f"{size}: {counted(plan.n_to_call, 'call')}, {str(plan).splitlines()[0].split('; ')[-1]}"
        return self.prices.get(key, "")

    def measure_floor(self, on_progress: Callable[[Any], object] | None = None) -> str:
        """Sample the version compared with again, to measure what chance changes; returns the text of the status line.

        Replies are kept and never bought twice, also after a stop. The floor counts as measured only if all of its
        judgments were made: the items of a part would not be drawn at random.

        Raises
        ------
        InputError
            When no version is compared with.
        JudgeError, CacheError, ConfigError
            As `sample_again`.
        """
        key, last = self.against, self.compared
        if last is None:
            raise InputError("nothing to measure; choose a version to compare with")

        def report(progress: Any) -> None:
            if on_progress is not None:
                on_progress(progress)
            self.check_stop()

        self.begin_run()
        try:
            again = self._sample_again(last, budget_usd=self.budget_usd, on_progress=report)
        except Stopped:
            return "stopped: chance is not measured yet; measure again, and pay only for the rest"
        finally:
            self.prices.pop(key, None)
            self.end_run()
        if n_missing := int(again["error"].isin(NOT_ASKED).sum()):
            missing = f"{n_missing} of {counted(len(again), 'judgment')} missing"
            return f"chance is not measured yet: {missing}; measure again, and pay only for the rest"
        with self.lock:
            self._floors[key], self.floor_sizes[key] = again, again["item_id"].nunique()
            self.save_state()
        return f"chance measured on {counted(self.floor_sizes[key], 'item')}"

    def _repeats(self, key: str) -> pd.DataFrame | None:
        """Twice the samples of a version, if no judge is a model or its floor was measured (then from the cache)."""
        if key not in self._floors:
            evaluation, size = self.load(key), self.floor_sizes.get(key)
            again = self._sample_again(evaluation, n_items=size, offline=True) if size else evaluation.repeats
            if again is not None:
                self._floors[key] = again
        return self._floors.get(key)

    def _sample_again(self, evaluation: Evaluation, n_items: int | None = None, **changed: Any) -> pd.DataFrame:
        options = {**self.options, "cache": self.cache, "adopt": True, "progress": False, "refresh": False, **changed}
        return sample_again(evaluation, n_items=n_items, **options)

    def _alignment(self, key: str) -> pd.Series | None:
        """Agreement of a version's jury with people; computed once per version and state of the labels."""
        evaluation, criterion, log = self._evaluations.get(key), self.shown_criterion, self.label_log
        about = (evaluation, criterion, log.n_edits)
        return self._once(f"alignment {key}", about, lambda: jury_alignment(evaluation, log.counted, criterion))

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
        now, last, criterion, log = self.evaluation, self.compared, self.shown_criterion, self.label_log
        if now is None:
            return []
        about = (now, last, criterion, log.n_edits)
        return self._once("rows", about, lambda: rows_of(now, log.table, criterion, last))

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
        if self.compared is not None and self.shown_criterion in self.compared.rubric.names:
            before = item_detail(self.compared, item_id, self.shown_criterion, self.cache)["judges"]
            names = [self.history.versions[key].name for key in (self.current, self.against)]
            detail |= {"versions": names, **side_by_side(detail["judges"], before)}
        return detail | {"labels": shown, "held": held, "codes": list(scale.labels), "keys": level_keys(scale)}

    # -- labels and versions
    def label(self, item_id: str, label: str | None, *, criterion: str | None = None, source: str = "given") -> None:
        """Set the annotator's label of an item, or remove it with None; it is written to disk at once.

        `source` says how the item was chosen (see `LabelEdit`).
        """
        with self.lock:
            edit = LabelEdit(label, source)
            self.label_log.add(item_id, criterion or self.shown_criterion, self.annotator, edit)

    def turn(self) -> Turn:
        """What the annotator labels next in the label queue."""
        disagreements = {row.item_id: row.apart or 0.0 for row in self.rows()}
        return self.label_queue.turn(self.shown_criterion, self.annotator, disagreements, self.current)

    def precision(self) -> str:
        """How precisely people's mean is known from the labels drawn at random, in words."""
        return precision(self.evaluation, self.label_log.weighted, self.shown_criterion)

    def is_blind(self, turn: Turn) -> bool:
        """Whether the jury stays hidden in this turn: also where nothing is judged, or the item was labelled before."""
        return self.label_queue.blind or self.evaluation is None or turn.labelled_before

    def label_next(self, item_id: str, criterion: str, label: str) -> None:
        """Label the next item of the queue; any other item is ignored, because its text was not on screen."""
        with self.lock:
            turn = self.turn()
            if (turn.item_id, self.shown_criterion) == (item_id, criterion):
                edit = LabelEdit(label, self.label_queue.source, turn.probability, self.is_blind(turn), turn.round)
                self.label_log.add(item_id, criterion, self.annotator, edit)

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

    def count_labels(self, annotator: str, *, counts: bool = True) -> None:
        """Include the labels of a new annotator in the figures, or leave them out."""
        with self.lock:
            self.label_log.set_counting(annotator, counts=counts)

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
        table = table.loc[table["item_id"].isin(scores["item_id"])]
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
                old, others = self.history.versions[key], {k: v for k, v in self.history.versions.items() if k != key}
                name = old.name if saved.version in {other.name for other in others.values()} else saved.version
                self.history.versions[key] = replace(old, base=saved, rubric=saved, name=name)
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

        def ask(evaluation: Evaluation, known: Any, **options: Any) -> SuggestedEdits:
            labels = self.labels_of(self.shown_criterion)
            return self.suggested.ask(evaluation, self.current, known, self.shown_criterion, labels, **options)

        self._suggested_by(judge, ask)

    def improve(self, judge: JudgeLike) -> None:
        """Let a judge improve the version shown, and test the outcome once on held-out labels (see `improve`).

        A wording that is kept goes into the draft.

        Raises
        ------
        InputError, ConfigError, JudgeError, CacheError
            As `improve`; InputError also when nothing is judged yet.
        """
        kept: list[Rubric] = []

        def ask(evaluation: Evaluation, known: Any, **options: Any) -> SuggestedEdits:
            found = improve(
                evaluation, self.labels_of(self.shown_criterion, counted=True), known, rounds=ROUNDS,
                max_edits=MAX_EDITS, criterion=self.shown_criterion, progress=False, **options,
            )  # fmt: skip
            kept.extend([found.rubric] * (found.outcome == "kept"))
            return SuggestedEdits.of_improvement(found, self.current, known)

        self._suggested_by(judge, ask)
        if kept:
            self.edit_draft(lambda base, _: rebase(base, kept[0].to_dict()))

    def _suggested_by(self, judge: JudgeLike, ask: Callable[..., SuggestedEdits]) -> None:
        if self.evaluation is None:
            raise InputError("nothing is judged yet; run first")
        known = next((one for one in self.pool if one.name == judge), judge)
        options: dict[str, Any] = {n: self.options[n] for n in ("retries", "offline") if n in self.options}
        options |= {"cache": self.cache, "budget_usd": self.budget_usd, "on_progress": self.check_stop}
        self.begin_run()
        try:
            suggested = ask(self.evaluation, known, **options)
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
