"""A tuning session without its widget: drafts, runs, labels and suggestions, and the figures of what is shown.

It is one module since every part of the screen asks the one session.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.util import hash_pandas_object

from evalkit.core.formatting import money
from evalkit.core.judges import JudgesLike
from evalkit.core.lists_of_choices import ENGINE_REASONS
from evalkit.core.settings import default_cache, shown_cache
from evalkit.engine.cache import ReplyStore
from evalkit.engine.judging.specification import Spec
from evalkit.errors import CacheError, InputError, counted
from evalkit.evaluation import Evaluation, sample_again
from evalkit.evaluation.freeze_and_calibrate import freeze, promote_to
from evalkit.evaluation.sampling_again import HALF_WIDTH, expected_half_width, plan_again
from evalkit.notebook.judgments import headline_numbers as numbers
from evalkit.notebook.judgments.item_details import item_detail, side_by_side
from evalkit.notebook.judgments.item_table import VERDICT_CHANGED, Page, Query, Row, page_of, row_detail, rows_of
from evalkit.notebook.labelling.label_log import LOG, LabelEdit, LabelLog
from evalkit.notebook.labelling.label_queue import Turn, precision
from evalkit.notebook.tuner.drafts import Drafts, Setup, over_limit, prompt_of
from evalkit.notebook.tuner.session_labels import Labels
from evalkit.notebook.tuner.suggested_edits import Suggestions
from evalkit.notebook.tuner.version_history import History, Memo
from evalkit.notebook.tuner.version_runs import Runs, Stopped
from evalkit.rubrics import Rubric
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.profiles import RubricLike
from evalkit.stats.comparison.comparison_table import SAME, is_same
from evalkit.tables.items import ItemsLike


class Session(Memo):
    """A rubric being tuned on items: draft, jury, versions, results, labels; kept in files, without any widget.

    Two files are stored in `folder`: ``<name>.tuner.json`` (versions and state) and ``<name>.labels.jsonl`` (label
    edits). Replies are stored in the cache. A new session of the same name continues where the last one ended.

    Parameters and errors are those of `RubricTuner`, which draws a session.

    Attributes
    ----------
    setup
        Items and options, as passed.
    history
        The versions that were run, and the file that holds them and the state of all parts.
    drafts, runs, repeats, labels, suggestions
        The parts: what the next run judges; what was run and is shown; what chance changes; people's labels; edits
        that a judge suggests.
    criterion, query, selected
        The criterion that was chosen, the rows that are shown, and the open item.
    last_cache
        Where the last session stored its replies, if this one reads another cache.
    items_code
        How the start card made the items, in Python.
    reads_items
        Whether the items came from a file, so that code can read them again.
    """

    def __init__(
        self,
        items: ItemsLike | str | Path,
        rubric: RubricLike,
        judges: JudgesLike | None = None,
        labels: LabelsLike | None = None,
        *,
        folder: str | Path | None = None,
        name: str | None = None,
        annotator: str = "me",
        **options: Any,
    ) -> None:
        super().__init__()
        spec_options = {key: options.pop(key, None) for key in ("samples", "template", "criteria_per_call", "inputs")}
        rules, on_missing = {"aggregate": options.pop("aggregate", None)}, options.pop("on_missing", "raise")
        spec = Spec.of(rubric, judges, rules=rules, on_missing=on_missing, **spec_options)
        self.setup = setup = Setup.of(items, rubric, spec, options.pop("item_id", None), options)  # type: ignore[arg-type]
        self.folder, self.name = setup.place(folder, name)
        where = shown_cache(setup.cache or default_cache())
        self.history = history = History(self.folder / f"{self.name}.tuner.json", spec.judges)
        history.load(spec.rubric.id)
        history.rename_saved(spec.rubric, only_edited=True)
        self.last_cache = "" if history.state.get("cache", where) == where else str(history.state["cache"])
        history.parts.append(lambda: {"cache": self.last_cache or where})
        self.drafts = drafts = Drafts(setup, history, options.get("budget_usd"))
        self.labels = Labels(setup, history, self.folder / f"{self.name}{LOG}", labels, annotator)
        self.labels.log.add_scales(drafts.draft)  # by whose words people may have labelled before its first run
        self.runs = Runs(setup, history, drafts, self.labels)
        self.repeats = RepeatedSamples(setup, history, drafts, self.runs)
        self.suggestions = Suggestions(setup, history, drafts, self.labels, self.runs)
        last = history.state.get("criterion")
        self.criterion: str = last if last in drafts.draft.names else spec.rubric.names[0]
        history.parts.append(lambda: {"criterion": self.criterion})
        self.query, self.selected = Query(), ""
        self.items_code, self.reads_items = list[str](), setup.source is not None

    @property
    def items(self) -> pd.DataFrame:
        """The items."""
        return self.setup.items

    @property
    def evaluation(self) -> Evaluation | None:
        """The evaluation shown; None before the first run."""
        return self.runs.evaluation

    @property
    def label_log(self) -> LabelLog:
        """All labels, with their edits and those of other processes."""
        with self.history.lock:
            self.labels.log.read()
        return self.labels.log

    @property
    def shown_rubric(self) -> Rubric:
        """The rubric of the version shown; before the first run, the draft."""
        return self.drafts.draft if self.evaluation is None else self.evaluation.rubric

    @property
    def shown_criterion(self) -> str:
        """The chosen criterion, or the first one where the version shown has no such criterion."""
        names = self.shown_rubric.names
        return self.criterion if self.criterion in names else names[0]

    def run(self, on_progress: Callable[[Any], object] | None = None, *more: Any, **changed: Any) -> str:
        """Judge what the draft changed, and show it (see `Runs.run`); returns the text for the status line."""
        text = self.runs.run(on_progress, *more, first=self.selected, **changed).text
        self.last_cache = ""
        return text

    def save(self, rubrics_folder: str | Path | None = None) -> Rubric:
        """Save the draft as the next version of its id; its replies count for that version too.

        Raises
        ------
        RubricError
            When the draft is invalid, or the folder cannot be written.
        CacheError
            When the version is saved, but its replies cannot be stored under it.
        """
        drafts = self.drafts
        with self.history.lock:
            drafts.next_version()  # raises for an invalid draft
            saved = drafts.draft.save(rubrics_folder)
            drafts.base = drafts.draft = saved
            try:
                promote_to(saved, self.setup.cache)
            except CacheError as problem:
                raise CacheError(
                    f"saved as {saved.id}@{saved.version}, but the replies that were paid for cannot be stored under "
                    f"this version ({problem}). The tuner finds them; elsewhere, pass adopt=True"
                ) from problem
            finally:
                for key in self.history.rename_saved(saved):
                    self.runs.reload(key)
                    self.repeats.forget()
                self.history.save()
            return saved

    def freeze(self, *, overwrite: bool = False) -> Path:
        """Write the version shown, which must be saved, as a profile beside the file of the session; asks no judge.

        With `overwrite`, an existing file is kept as ``….yaml.bak``, the next one as ``….yaml.bak1``.

        Raises
        ------
        InputError, ConfigError
            If nothing is judged, or the version is not saved; and as `freeze`.
        """
        evaluation, version = self.runs.loaded(), self.history.versions[self.runs.current]
        if version.rubric.edited:
            take = "" if self.runs.shows_draft else "'Edit the version shown' under Versions, then "
            raise InputError(f"{version.name} is not saved, so it cannot be frozen: press {take}Save version")
        path = self.folder / f"{self.name}-{version.rubric.version}.yaml"
        copies = (Path(f"{path}.bak{n or ''}") for n in count())
        old = path.rename(next(copy for copy in copies if not copy.exists())) if overwrite and path.exists() else None
        try:
            freeze(evaluation, path, cache=self.setup.cache)
        except BaseException:
            if old is not None:
                old.replace(path)
            raise
        return path

    def paid(self) -> str:
        """What this process paid for replies, and what all replies in the cache cost; empty if all are free."""
        store = ReplyStore.open(self.setup.cache)
        bills, session_usd = store.bills().values(), store.counters.as_dict()["paid_usd"]
        project_usd, n_unpriced = sum(bill.usd for bill in bills), sum(bill.n_unpriced for bill in bills)
        if not project_usd and not session_usd:
            return ""
        more = f", and {counted(n_unpriced, 'reply', 'replies')} of unknown price" if n_unpriced else ""
        return f"paid: session {money(session_usd)}, project {money(project_usd)}{more}"

    # -- figures and items
    def tiles(self) -> list[numbers.Tile]:
        """The headline figures; empty before the first run."""
        runs, criterion, log = self.runs, self.shown_criterion, self.labels.log
        if runs.evaluation is None:
            return []
        name = self.history.versions[runs.against].name if runs.compared is not None else ""
        rows = self.alignment(runs.current), self.alignment(runs.against)
        change, not_counted = self.change(), log.not_counted(criterion)
        return numbers.make_tiles(runs.evaluation, log.counted, criterion, change, name, rows, not_counted, self.rows())

    def change(self) -> tuple[pd.Series | None, str] | None:
        """The row of `compare` from the version compared with, or None and the reason; None if there is no such one."""
        now, last, criterion, log = self.evaluation, self.runs.compared, self.shown_criterion, self.labels.log
        if now is None or last is None:
            return None
        repeats = self.repeats.of(self.runs.against)
        about = (now, last, criterion, log.n_edits, repeats is None, self.repeats.measured(self.runs.against))

        def compare() -> tuple[pd.Series | None, str]:
            labels = self.labels.used_with_changed(criterion, now)
            row, why = numbers.change_from(last, now, labels, criterion, repeats, log.parts(criterion))
            if row is not None and same_replies(now, last, criterion):
                row = row.copy()
                row["floor_source"], row["chance_up_to"] = SAME, 0.0
            return row, why

        return self.once("change", about, compare)

    @property
    def floor_missing(self) -> bool:
        """Whether measuring the noise floor of the version compared with would show more than is known."""
        row, _ = self.change() or (None, "")
        is_measured = self.shown_criterion in self.repeats.measured(self.runs.against)
        if row is None or is_measured or pd.isna(row["change_p"]):
            return False
        return row["floor_source"] not in (SAME, "measured")

    def points(self) -> dict[str, numbers.Point]:
        """The large figure of each of the shown versions, by key."""
        labelled, name = self.alignment(self.runs.current) is not None, self.shown_criterion
        versions = {key: (self.runs.known(key), self.alignment(key)) for key in self.runs.shown_versions}
        return {key: numbers.point_of(*version, name, labelled=labelled) for key, version in versions.items()}

    def seconds_per_label(self) -> float | None:
        """The pace of the annotator (see `LabelLog.seconds_per_label`)."""
        log = self.labels.log
        who = self.labels.annotator
        return self.once("pace", (log.n_edits, who), lambda: log.seconds_per_label(who))

    def criterion_agreements(self) -> dict[str, numbers.Point]:
        """Agreement with people of the version shown, per criterion that has labels which count."""
        rows = {name: self.alignment(self.runs.current, name) for name in self.shown_rubric.names}
        labelled = [(name, row) for name, row in rows.items() if row is not None]
        return {name: numbers.point_of(self.evaluation, row, name, labelled=True) for name, row in labelled}

    def alignment(self, key: str, criterion: str = "") -> pd.Series | None:
        """Agreement of a version's jury with people; computed once per version and state of a criterion's labels."""
        evaluation, criterion, log = self.runs.known(key), criterion or self.shown_criterion, self.labels.log

        def labels_hash() -> int:
            labels = log.counted
            return int(hash_pandas_object(labels[(labels["criterion"] == criterion).to_numpy()], index=False).sum())

        # what else a run changed does not change the agreement of the versions before it
        by = numbers.other_rule(evaluation, criterion, self.evaluation.rubric if self.evaluation else None)
        about = (evaluation, by, self.once(f"labels {criterion}", log.n_edits, labels_hash))
        return self.once(
            f"alignment {key} {criterion}",
            about,
            lambda: numbers.jury_alignment(evaluation, log.counted, criterion, by),
        )

    def pass_prob_lines(self) -> list[str]:
        """What P(pass) of the judges of the version shown is against people, a sentence each."""
        now, criterion, log = self.evaluation, self.shown_criterion, self.labels.log
        about = (now, criterion, log.n_edits)
        return self.once("P(pass)", about, lambda: numbers.pass_prob_lines(now, log.counted, criterion))

    @property
    def n_off_scale(self) -> int:
        """Number of labels of the criterion shown that are not on its scale in the version shown."""
        criterion, labels = self.shown_criterion, self.labels
        n_labels = (labels.log.table["criterion"] == criterion).sum()
        return int(n_labels) - len(labels.on_scale(criterion, self.evaluation))

    def cells(self) -> list[numbers.Cell]:
        """The cells of the confusion matrix, on dev labels."""
        return numbers.confusion_cells(self.rows(), self.shown_rubric.criterion(self.shown_criterion).scale)

    def rows(self) -> list[Row]:
        """One row per item; empty before the first run."""
        now, last, criterion, log = self.evaluation, self.runs.compared, self.shown_criterion, self.labels.log
        if now is None:
            return []
        about, used = (now, last, criterion, log.n_edits), self.labels.used
        return self.once("rows", about, lambda: rows_of(now, log.table, criterion, last, used(criterion, now)))

    def page(self) -> Page:
        """The page of rows that the query asks for."""
        return page_of(self.rows(), self.query)

    def drop_empty_cell(self) -> None:
        """Show the rows of all cells of the matrix, if the chosen one has none in the version shown."""
        if self.query.cell and not page_of(self.rows(), Query(cell=self.query.cell)).n:
            self.query = replace(self.query, cell=None)

    def detail(self, item_id: str) -> dict[str, Any]:
        """One item in full, with its labels; of a held-out item only the annotator's own labels."""
        now, last, criterion = self.evaluation, self.runs.compared, self.shown_criterion
        if now is None or item_id not in set(self.items["item_id"]):
            return {}
        row = next(row for row in self.rows() if row.item_id == item_id)
        detail = row_detail(row, now, criterion, self.setup.cache)
        labels = self.labels.log.of(item_id, criterion)
        mine = [who for who in labels if not row.held or who == self.labels.annotator]
        shown = {who: row.people.get(who, labels[who]) for who in mine}
        if last is not None and criterion in last.rubric.names:
            before = item_detail(last, item_id, criterion, self.setup.cache)
            names = [self.history.versions[key].name for key in (self.runs.current, self.runs.against)]
            detail |= {"versions": names, **side_by_side(detail["judges"], before["judges"])}
            detail |= {"before": before["jury"], "before_passed": before["passed"]}
        return detail | {"labels": shown, "held": row.held}

    # -- labels
    def label(self, item_id: str, label: str | None, *, criterion: str | None = None, source: str = "given") -> None:
        """Set the annotator's label of an item, or remove it with None; it is written to disk at once.

        `source` says how the item was chosen (see `LabelEdit`).
        """
        self.labels.label(item_id, criterion or self.shown_criterion, LabelEdit(label, source), self.shown_rubric)

    def turn(self) -> Turn:
        """What the annotator labels next in the label queue."""
        about = self.evaluation, self.shown_criterion  # labels change nothing in it, and each label asks for it
        apart = self.once("disagreements", about, lambda: {row.item_id: row.apart or 0.0 for row in self.rows()})
        criterion, queue = self.shown_rubric.criterion(self.shown_criterion), self.labels.queue
        changed = self.changed_to_label() if queue.source == "changed" else []
        return queue.turn(criterion, self.labels.annotator, apart, self.runs.current, changed)

    @property
    def n_changed_open(self) -> int:
        """How many items whose verdict differs between the two versions shown have no label and are not held out."""
        row, _ = self.change() or (None, "")
        return 0 if row is None or pd.isna(row["n_unlabelled"]) else int(row["n_unlabelled"])

    def changed_to_label(self) -> list[str]:
        """The items to ask for of those whose verdict differs between the two versions (see `Labels.to_label`)."""
        if self.evaluation is None or self.change() is None:
            return []
        changed = [row.item_id for row in self.rows() if row.change in VERDICT_CHANGED]
        return self.labels.to_label(self.shown_criterion, changed, self.evaluation)

    def precision(self) -> str:
        """How precisely people's mean is known from the labels drawn at random, in words."""
        if self.labels.queue.source == "changed":
            return ""
        return precision(self.evaluation, self.labels.log.weighted, self.shown_criterion)

    def is_blind(self, turn: Turn) -> bool:
        """Whether the jury stays hidden in this turn: also where nothing is judged, or the item was labelled before."""
        return self.labels.queue.blind or self.evaluation is None or turn.labelled_before

    def label_next(self, item_id: str, criterion: str, label: str) -> None:
        """Label the next item of the queue, or another one on its form; the text of others was not on screen."""
        with self.history.lock:
            turn = self.turn()
            if criterion == self.shown_criterion and item_id in turn.form:
                blind = self.is_blind(turn)
                edit = LabelEdit(label, self.labels.queue.source, turn.form[item_id], blind, turn.round)
                self.labels.label(item_id, criterion, edit, self.shown_rubric)

    def skip_item(self, item_id: str, criterion: str) -> None:
        """Leave the next item of the queue, or its form, unlabelled; it comes again at the end."""
        with self.history.lock:
            turn = self.turn()
            if (turn.item_id, self.shown_criterion) == (item_id, criterion):
                self.labels.queue.skip(turn, criterion, self.labels.annotator)

    def undo_label(self) -> None:
        """Take back the last label of the queue; its item is the next one again."""
        with self.history.lock:
            if last := self.turn().undo:
                self.labels.log.undo(self.labels.annotator, [(last[0], self.shown_criterion)])

    @property
    def look(self) -> dict[str, Any]:
        """The last look at held-out labels with the two versions shown (see `Labels`); empty without one."""
        about, evaluation, against = self._looked_at, self.evaluation, self._against
        state = evaluation, against, self.labels.log.n_edits, about, self.labels.looks.get(about)
        last = self.labels.last_look
        return self.once("look", state, lambda: last(about, evaluation, self.shown_criterion, against))

    @property
    def _looked_at(self) -> str:
        """The key of the last look with the two versions shown, or with two that judge the criterion as they do."""
        name, versions = self.shown_criterion, self.history.versions

        def judged(*keys: str) -> list[Any]:
            return [self.setup.judges_by(versions[key], name) if key in versions else None for key in keys]

        judged_now = judged(self.runs.current, self.runs.against)
        looks = [(about, *about.split(" ", 2)) for about in self.labels.looks]
        alike = [about for about, *keys, of in looks if of == name and judged(*keys) == judged_now]
        return alike[-1] if alike else f"{self.runs.current} {self.runs.against} {name}"

    @property
    def is_same(self) -> bool:
        """Whether replies and verdicts of the two versions shown are the same: no look can tell one from the other."""
        row, _ = self.change() or (None, "")
        return row is not None and is_same(row)

    @property
    def _against(self) -> Evaluation | None:
        last = self.runs.compared
        return last if last is not None and self.shown_criterion in last.rubric.names else None

    def look_held_out(self) -> dict[str, str]:
        """Agreement of the jury with the held-out labels (see `Labels.look_held_out`).

        Raises
        ------
        InputError
            As that, and if the two versions shown have the same replies and verdicts: such a look is not counted.
        """
        if self.is_same:
            why = f"both versions have the same replies and verdicts on {self.shown_criterion!r}"
            raise InputError(f"{why}, so nothing was looked at; compare with another version, or with none")
        return self.labels.look_held_out(self._looked_at, self.runs.loaded(), self.shown_criterion, self._against)


_MOST_LOST = 0.1
_REPLY = ["item_id", "judge", "order", "sample", "label", "error"]


class RepeatedSamples:
    """Twice the samples of versions, by key: measured here, or known without a call.

    Attributes
    ----------
    sizes
        On how many items each criterion of a version was measured.
    prices
        What measuring it would ask and cost, in words and in US$, and how precise it is, where that was planned, by
        the two versions and the criterion.
    """

    def __init__(self, setup: Setup, history: History, drafts: Drafts, runs: Runs) -> None:
        self._setup, self._history, self._drafts, self._runs = setup, history, drafts, runs
        sizes = history.state.get("floor_sizes", {})
        self.sizes: dict[str, dict[str, int]] = {key: of for key, of in sizes.items() if isinstance(of, dict)}
        self.prices: dict[tuple[str, str, str], tuple[str, float, str]] = {}
        self._tables: dict[str, pd.DataFrame | None] = {}
        history.parts.append(lambda: {"floor_sizes": self.sizes})

    def measured(self, key: str) -> dict[str, int]:
        """On how many items each criterion of a version was measured, also as one of another that asks the same."""
        versions, sizes = self._history.versions, dict[str, int]()
        for alike in [*versions, key]:  # its own come last
            measured = self.sizes.get(alike, {}).items()
            sizes |= {name: n for name, n in measured if self._asked(key, name) == self._asked(alike, name)}
        return sizes

    def _asked(self, key: str, name: str) -> object:
        """What the judges of a version are asked about a criterion; the key where it does not have it."""
        version = self._history.versions.get(key)
        return (version and self._setup.asks(version, name)) or key

    def _criteria(self, criterion: str) -> list[str]:
        """The criterion (empty: all), if the two versions shown ask it in other ways and it is not measured."""
        now, last = self._runs.evaluation, self._runs.compared
        if now is None or last is None:
            return []
        measured = self.measured(self._runs.against)
        common = [name for name in last.rubric.names if name in now.rubric.names and name not in measured]
        return [name for name in common if criterion in ("", name) and not same_prompts(now, last, name)]

    def price(self, criterion: str = "") -> str:
        """What `measure` would ask and cost; makes no calls."""
        last, about = self._runs.compared, (self._runs.against, self._runs.current, criterion)
        if last is not None and about not in self.prices and (criteria := self._criteria(criterion)):
            plan = plan_again(last, criteria=criteria, n_items=len(self._setup.items))  # the most that it may take
            width = expected_half_width(last, plan.n_items, criteria)
            precision = f"; ends early at ± {100 * HALF_WIDTH:.0f} points"
            if width > HALF_WIDTH + 0.005:
                precision += f", all items give about ± {round(100 * width)}"
            about_usd = f"about {money(plan.usd)}" if plan.usd_at_most else "free"
            price = "price unknown" if math.isnan(plan.usd) else about_usd
            most_requests = f"at most {plan.n_requests:,} request{'s' * (plan.n_requests != 1)}"
            self.prices[about] = f"{most_requests} on {counted(plan.n_items, 'item')}, {price}", plan.usd, precision
        text, usd, precision = self.prices.get(about, ("", 0.0, ""))
        return f"{text}{over_limit(usd, self._drafts.left_usd)}{precision}"

    def measure(self, on_progress: Callable[[Any], object] | None = None, criterion: str = "") -> str:
        """Sample the version compared with again, to measure what chance changes; returns the text of the status line.

        Only for a criterion, if one is named; judges that answer several in one reply are asked for all.

        Replies are kept and never bought twice, also after a stop. The floor is that of the items of which all replies
        are there. They must be nine of ten that were drawn: fewer would not be drawn at random.

        Raises
        ------
        InputError
            When no version is compared with.
        JudgeError, CacheError, ConfigError
            As `sample_again`.
        """
        key, last, criteria = self._runs.against, self._runs.compared, self._criteria(criterion)
        if last is None or not criteria:
            raise InputError("nothing to measure; choose a version to compare with that judges asked in another way")

        def report(progress: Any) -> None:
            if on_progress is not None:
                on_progress(progress)
            self._runs.check_stop()

        try:
            with self._runs.running():
                again = self._sample(last, criteria, budget_usd=self._drafts.left_usd, on_progress=report)
        except Stopped:
            return "stopped: chance is not measured yet; measure again, and pay only for the rest"
        finally:
            self.prices.clear()
        n_lost, n_items = _items_lost(again), again["item_id"].nunique()
        errors = again.loc[again["error"].isin(ENGINE_REASONS).to_numpy(), "error"].astype(str)
        reasons = ", ".join(f"{n} {str(name).replace('_', ' ')}" for name, n in errors.value_counts().items())
        missing = f"{len(errors)} of {counted(len(again), 'judgment')} missing ({reasons})"
        if n_lost > _MOST_LOST * n_items:
            return f"chance is not measured yet: {missing}; measure again, and pay only for the rest"
        with self._history.lock:
            self.sizes[key] = self.sizes.get(key, {}) | dict.fromkeys(again["criterion"].astype(str).unique(), n_items)
            self._tables.clear()
            self._history.save()
        left_out = f" of {n_items}; {missing}" if n_lost else ""
        return f"chance measured on {counted(n_items - n_lost, 'item')}{left_out}"

    def of(self, key: str) -> pd.DataFrame | None:
        """Twice the samples of a version, if no judge is a model or it was measured (then from the cache)."""
        if key not in self._tables:
            evaluation, measured = self._runs.load(key), self.measured(key)
            tables = []
            for size in sorted(set(measured.values())):
                names = [name for name in measured if measured[name] == size]
                again = self._sample(evaluation, names, size, offline=True)
                tables.append(again[again["criterion"].isin(names).to_numpy()])  # a prompt may hold others
            if any(_items_lost(table) > _MOST_LOST * table["item_id"].nunique() for table in tables):
                for alike, sizes in self.sizes.items():  # other items, or pruned replies
                    self.sizes[alike] = {n: sizes[n] for n in sizes if self._asked(key, n) != self._asked(alike, n)}
                self._tables[key] = None
            elif tables:
                self._tables[key] = pd.concat(tables, ignore_index=True)
            elif evaluation.repeats is not None:
                self._tables[key] = evaluation.repeats
        return self._tables.get(key)

    def forget(self) -> None:
        """Read the samples again: those of a version changed, or the name of its rubric did."""
        self._tables.clear()
        self.prices.clear()

    def _sample(
        self, evaluation: Evaluation, criteria: list[str], n_items: int | None = None, **changed: Any
    ) -> pd.DataFrame:
        options = self._setup.options_with(refresh=False, **changed)
        return sample_again(evaluation, n_items=n_items, criteria=criteria, **options)


def _items_lost(again: pd.DataFrame) -> int:
    """The number of items of which a reply is missing."""
    return int(again.loc[again["error"].isin(ENGINE_REASONS).to_numpy(), "item_id"].nunique())


def same_prompts(one: Evaluation, other: Evaluation, criterion: str) -> bool:
    """Whether two versions ask the same judges the same about a criterion that both have."""
    # a session has no evaluations of tables, without spec
    specs = [side.spec for side in (one, other) if side.spec is not None]
    templates = [[builder.template.hash for builder in spec.prompt_builders] for spec in specs]
    questions = [(prompt_of(spec, criterion), spec.judges, spec.counts) for spec in specs]
    return questions[0] == questions[1] and templates[0] == templates[1]


def same_replies(one: Evaluation, other: Evaluation, criterion: str) -> bool:
    """Whether two versions have the same replies, also where those of one were copied to a saved version."""
    if criterion not in one.rubric.names or criterion not in other.rubric.names:
        return False
    rows = [side.judgments[(side.judgments["criterion"] == criterion).to_numpy()] for side in (one, other)]
    texts = [table[_REPLY].astype(str).to_numpy().tolist() for table in rows]
    return same_prompts(one, other, criterion) and texts[0] == texts[1]
