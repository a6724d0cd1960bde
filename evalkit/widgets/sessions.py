"""The session: everything that tuning a rubric needs but the widget. What is on screen follows from it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit import tables
from evalkit.errors import ConfigError, EvalkitError, InputError, RubricError, listed
from evalkit.evaluation import Evaluation, Rules, evaluate, promote
from evalkit.figures import count_of, figure
from evalkit.judging import Options, Plan, Spec, Work, plan
from evalkit.records import Judge
from evalkit.rubrics import Rubric, save
from evalkit.suggesting import groups_of
from evalkit.tables import as_items, load_items
from evalkit.tables import labels as long_labels
from evalkit.validity import align
from evalkit.widgets.boards import Cell, Tile, aligned, cells_of, tiles_of
from evalkit.widgets.books import LabelBook
from evalkit.widgets.details import detail_of
from evalkit.widgets.histories import History, Version, rebased
from evalkit.widgets.rows import Page, Query, Row, page_of, rows_of

__all__ = ["AGGREGATES", "Session"]

AGGREGATES = ("mean", "median", "majority", "min", "max", "dawid_skene")
_REMEMBERED = 8


class _Stopped(Exception):
    """Raised into a run to end it."""


class Session:
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
        self,
        items: Any,
        rubric: Any,
        judges: Any = None,
        *,
        labels: Any = None,
        samples: int | None = None,
        template: str | None = None,
        item_id: str | None = None,
        aggregate: str = "mean",
        folder: str | Path | None = None,
        name: str | None = None,
        annotator: str = "me",
        cache: str | Path | None = None,
        budget_usd: float | None = None,
        **options: Any,
    ) -> None:
        Options(**options)  # what is wrong shows now
        self.options = options
        spec = Spec.of(rubric, judges, samples, template)
        Rules.of(None, {"aggregate": aggregate})
        source = Path(items) if isinstance(items, (str, Path)) else None
        self.items = as_items(load_items(source) if source is not None else items, item_id=item_id)
        self.template, self.cache = template, None if cache is None else Path(cache)
        self.base = self.draft = spec.rubric
        self.problem = ""
        self.pool, self.active = list(spec.judges), {judge.name for judge in spec.judges}
        self.samples, self.aggregate, self.budget_usd = spec.samples, aggregate, budget_usd
        self.criterion, self.annotator = spec.rubric.names[0], annotator
        self.query, self.selected = Query(), ""
        self.current = self.against = ""
        self.held_out: dict[str, str] = {}
        self.lock = threading.RLock()
        self._stop, self._busy = threading.Event(), False
        self._evaluations: dict[str, Evaluation] = {}
        self._rows: tuple[Any, list[Row]] = (None, [])
        self._agreements: dict[str, tuple[Evaluation | None, Any, pd.Series | None]] = {}
        self._revision = 0
        place = Path(folder) if folder is not None else source.parent if source is not None else Path.cwd()
        stem = name or (f"{source.stem}-{spec.rubric.id}" if source is not None else spec.rubric.id)
        self.history = History(place / f"{stem}.tuner.json", spec.judges)
        self.book = LabelBook(
            place / f"{stem}.labels.jsonl", self._texts(spec), self._given(labels), spec.rubric, groups_of(self.items)
        )
        self._restore()

    def _texts(self, spec: Spec) -> dict[str, str]:
        work = Work.of(spec, self.items)
        return dict(zip(self.items["item_id"], (hashes[0][:16] for hashes in work.hashes), strict=True))

    def _given(self, labels: Any) -> pd.DataFrame | None:
        if labels is None or isinstance(labels, pd.DataFrame):
            return None if labels is None else tables.check(labels, "labels", need=[*tables.LABEL_KEY, "label"])
        return long_labels(self.items, labels, rubric=self.base)

    def _restore(self) -> None:
        self.history.load(self.base.id)
        place = self.history.place
        for key in ("current", "against"):
            if place.get(key) in self.history.versions:
                setattr(self, key, place[key])
        if place.get("base") == self.base.content_hash:
            with suppress(RubricError):  # the draft of another evalkit: the given rubric it is
                self.draft = rebased(self.base, place["draft"])
        if place.get("criterion") in self.draft.names:
            self.criterion = place["criterion"]
        self.annotator = place.get("annotator", self.annotator)

    def keep(self) -> None:
        """Write down where the work stands."""
        self.history.place = {
            "base": self.base.content_hash,
            "draft": self.draft.to_dict(),
            "current": self.current,
            "against": self.against,
            "criterion": self.criterion,
            "annotator": self.annotator,
        }
        self.history.keep()

    # -- what to judge
    def propose(self, make: Callable[[Rubric, Rubric], Rubric]) -> None:
        """Make a draft from base and draft; a fault is kept in `problem`, and the last good draft stays."""
        with self.lock:
            try:
                made = make(self.base, self.draft)
                Spec.of(made, self.judges, self.samples, self.template)
            except EvalkitError as problem:
                self.problem = str(problem)
                return
            self.draft, self.problem = made, ""
            if self.criterion not in made.names:
                self.criterion = made.names[0]
            self.keep()

    @property
    def judges(self) -> list[Judge]:
        """The judges that are switched on.

        Raises
        ------
        ConfigError
            When none is.
        """
        found = [judge for judge in self.pool if judge.name in self.active]
        if not found:
            raise ConfigError("no judge is switched on; choose one under jury")
        return found

    def add_judge(self, judge: Any) -> None:
        """Take another judge into the jury."""
        made = Judge.of(judge)
        Spec.of(self.draft, [*self.pool, made], self.samples, self.template)
        self.pool.append(made)
        self.active.add(made.name)

    def set_jury(self, active: dict[str, float], samples: int, aggregate: str) -> None:
        """Which judges are on and with which weight, how many samples, and how votes become scores.

        Raises
        ------
        ConfigError
            For a number out of range or an unknown rule; nothing is changed then.
        """
        pool = [judge.replace(weight=active.get(judge.name, judge.weight)) for judge in self.pool]
        if aggregate not in AGGREGATES:
            raise ConfigError(f"aggregate {aggregate!r} is unknown; allowed are {', '.join(AGGREGATES)}")
        if samples < 1:
            raise ConfigError(f"samples must be a whole number ≥ 1, not {samples!r}")
        with self.lock:
            self.pool, self.active = pool, set(active)
            self.samples, self.aggregate = samples, aggregate

    def plan(self) -> Plan:
        """What a run would take now."""
        return plan(
            self.items,
            self.draft,
            self.judges,
            samples=self.samples,
            template=self.template,
            adopt=True,
            cache=self.cache,
        )

    def proposal(self) -> Version:
        """The version that a run would make.

        Raises
        ------
        RubricError
            When the draft has a fault.
        """
        if self.problem:
            raise RubricError(f"mend the rubric first: {self.problem}")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        made = Version(self.base, self.draft, tuple(self.judges), self.samples, self.aggregate, now)
        return self.history.versions.get(made.key, made)

    # -- judging
    def run(self, on_progress: Callable[[Any], object] | None = None) -> str:
        """Judge what the draft changed, and show it; returns what to say at the end. For a thread of its own.

        Raises
        ------
        JudgeError, CacheError, ConfigError, RubricError
            As `judge`; what was on screen stays.
        """
        with self.lock:
            version = self.proposal()
        self.begin()
        last: list[Any] = []

        def told(progress: Any) -> None:
            last[:] = [progress]
            if on_progress is not None:
                on_progress(progress)
            if self._stop.is_set():
                raise _Stopped

        try:
            evaluation = self._evaluate(version, budget_usd=self.budget_usd, on_progress=told)
            said = "" if not last else f"asked {last[0].done} replies"
        except _Stopped:
            evaluation = _marked(self._evaluate(version, offline=True))
            said = f"stopped: {_missing(evaluation)}; run again and only the rest is paid"
        finally:
            self._busy = False
        with self.lock:
            self._take(version, evaluation)
        return said

    def begin(self) -> None:
        """A run is about to start: from here on `stop` is about that one."""
        if not self._busy:
            self._busy = True
            self._stop.clear()

    def stop(self) -> None:
        """End the run, if there is one; what is in flight is waited for a moment and kept."""
        if self._busy:
            self._stop.set()

    def _evaluate(self, version: Version, **options: Any) -> Evaluation:
        made = evaluate(
            self.items, version.rubric, list(version.judges), samples=version.samples, aggregate=version.aggregate,
            template=self.template, cache=self.cache, adopt=True, progress=False, **self.options, **options,
        )  # fmt: skip
        made.scores, made.disagreement  # noqa: B018  # worked out here, in the background
        return made

    def _take(self, version: Version, evaluation: Evaluation) -> None:
        key = version.key
        if self.current and self.current != key:
            self.against = self.current
        self.history.versions[key] = version
        self.current = key
        self._evaluations[key] = evaluation
        for old in [name for name in self._evaluations if name not in (self.current, self.against)][:-_REMEMBERED]:
            del self._evaluations[old]
        self.held_out = {}
        self._revision += 1
        self.keep()

    def replay(self, key: str) -> Evaluation:
        """The evaluation of a version that was run, from the cache alone."""
        if key not in self._evaluations:
            if key not in self.history.versions:
                raise InputError(f"there is no version {key!r}; there are {listed(self.history.versions)}")
            evaluation = self._evaluate(self.history.versions[key], offline=True)
            with self.lock:
                self._evaluations[key] = evaluation
                self._revision += 1
        return self._evaluations[key]

    def choose(self, current: str, against: str = "") -> None:
        """Show a version, compared with another one (or none)."""
        for key in filter(None, (current, against)):
            self.replay(key)
        with self.lock:
            self.current, self.against = current, against if against != current else ""
            self.held_out = {}
            self.keep()

    def take_up(self, key: str) -> None:
        """Make the rubric of a version the draft, to go on from there."""
        with self.lock:
            version = self.history.versions[key]
            self.draft, self.problem = rebased(self.base, version.rubric.to_dict()), ""
            self.keep()

    # -- what is seen
    @property
    def evaluation(self) -> Evaluation | None:
        """What is shown; None before the first run."""
        return self._evaluations.get(self.current)

    @property
    def other(self) -> Evaluation | None:
        """What it is compared with, or None."""
        return self._evaluations.get(self.against) if self.against else None

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
        table = self.book.table
        made = align(scores, table, clusters=self.evaluation.clusters, part="held-out", folder=self.cache)
        row = made.iloc[0]
        self.held_out = {
            "agreement": figure(row["accuracy"], row["accuracy_low"], row["accuracy_high"]),
            "kappa": figure(row["kappa"], row["kappa_low"], row["kappa_high"]),
            "compared": f"{count_of(row['n_verdicts'], row['n_labelled'])} labelled items",
            "looks": f"look {row['n_looks']}, at {row['n_versions']} versions",
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


def _marked(evaluation: Evaluation) -> Evaluation:
    """The evaluation of a stopped run: what was not asked says so."""
    judgments = evaluation.judgments
    why = judgments["error"].astype(object).replace("cache_miss", "stopped")
    return replace(evaluation, judgments=judgments.assign(error=tables.categorical(why)))


def _missing(evaluation: Evaluation) -> str:
    n = int((evaluation.judgments["error"].astype(object) == "stopped").sum())
    return f"{n} of {len(evaluation.judgments)} judgments were not asked"
