"""The labels of a session: who labels, what comes next in the queue, and the looks at held-out labels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.core.formatting import figure
from evalkit.core.reply_keys import digest
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import counted
from evalkit.evaluation import Evaluation
from evalkit.evaluation.evaluation import columns_of
from evalkit.evaluation.suggestions.cases import groups_of
from evalkit.evaluation.suggestions.edit_effects import change_of
from evalkit.notebook.judgments.headline_numbers import without_interval
from evalkit.notebook.labelling.label_log import LabelEdit, LabelLog, drop_new_annotators, labels_of, labels_on_scale
from evalkit.notebook.labelling.label_queue import LabelQueue
from evalkit.notebook.tuner.drafts import Setup
from evalkit.notebook.tuner.version_history import History
from evalkit.rubrics import Rubric
from evalkit.rubrics.human_labels import LabelsLike, as_labels, text_hashes
from evalkit.rubrics.rubric import REQUIREMENT
from evalkit.stats.alignment.judge_alignment import align
from evalkit.stats.alignment.label_splits import (
    DEV,
    HELD_OUT,
    ItemSet,
    append_log,
    look_key,
    looks_at,
    read_log,
    take_part,
)
from evalkit.stats.comparison.comparison_table import Difference
from evalkit.stats.result_tables import with_facts
from evalkit.tables.grouping import is_among
from evalkit.tables.schemas import LABEL_KEY


class Labels:
    """People's labels, and the label queue.

    Attributes
    ----------
    annotator
        The name of the person who labels.
    log, queue
        The labels, and which item comes next.
    remarks
        What may not be meant in the inputs of the items.
    looks
        The last looks at held-out labels, as plain values: the keys of the version shown and of the one compared with,
        and the criterion -> the figures in words, the difference of the two, the number of the look, when it was and
        of how many labels, and a digest of labels and verdicts.
    """

    def __init__(self, setup: Setup, history: History, path: Path, labels: LabelsLike | None, annotator: str) -> None:
        self._history, self._cache = history, setup.cache
        is_same_cell = history.state.get("initial_annotator", "me") == annotator  # else the cell names another person
        self.annotator: str = history.state.get("annotator", annotator) if is_same_cell else annotator
        looks = history.state.get("looks", {})
        whole = {about: look for about, look in looks.items() if {"figures", "n_labels", "at"} <= {*look}}
        self.looks: dict[str, dict[str, Any]] = {about: look for about, look in whole.items() if "items" not in look}
        self._shown: dict[str, object] = history.state.get("shown", {})
        items, rubric, worklist = setup.items, setup.spec.rubric, Worklist.of(setup.spec, setup.items, quiet=True)
        texts = text_hashes(rubric, items, setup.spec.inputs)
        table = None if labels is None else as_labels(labels, items, rubric, inputs=setup.spec.inputs)
        self._given = _counts(table, texts)
        self._last_given: dict[str, dict[str, int]] = history.state.get("given_labels", {})
        self._missing = _missing(self._last_given, self._given)
        history.notes.extend(self._missing)
        self.log = LabelLog(path, texts, table, rubric, groups_of(items, worklist.clusters))
        to_judge = (item for index, item in enumerate(items["item_id"]) if index not in worklist.skipped)
        is_exploded = "of_item" in items and REQUIREMENT in columns_of(rubric, setup.spec.inputs, items)
        of_item = dict(items[["item_id", "of_item"]].astype(str).to_numpy().tolist()) if is_exploded else {}
        self.queue, self.remarks = LabelQueue(self.log, to_judge, of_item), worklist.remarks
        for version in history.versions.values():
            self.log.add_scales(version.rubric)
        self.log.read()
        names = {"initial_annotator": annotator}
        history.parts.append(lambda: {"annotator": self.annotator, "looks": self.looks} | names)
        history.parts.append(lambda: {"given_labels": self._given_labels(), "shown": self._shown})

    def _given_labels(self) -> dict[str, dict[str, int]]:
        """How many labels were passed in; those of the last session as long as it says that they are missing."""
        return self._last_given if set(self._missing) & set(self._history.notes) else self._given

    # -- giving labels
    def label(self, item_id: str, criterion: str, edit: LabelEdit, rubric: Rubric) -> None:
        """Set the annotator's label of an item by the words of this rubric, or remove it; it is on disk at once."""
        with self._history.lock:
            self.log.add(item_id, criterion, self.annotator, edit, rubric)

    def count_annotator(self, annotator: str, *, counts: bool = True) -> None:
        """Include the labels of a new annotator in the figures, or leave them out."""
        with self._history.lock:
            self.log.set_counting(annotator, counts=counts)

    # -- labels that figures use
    def on_scale(self, criterion: str, evaluation: Evaluation | None) -> pd.DataFrame:
        """All labels of a criterion on its scale in an evaluation, also those that no figure uses."""
        return labels_on_scale(self.log.table, criterion, *([] if evaluation is None else [evaluation.rubric]))

    def for_rubric(self, rubric: Rubric, *, of_all: bool = False) -> pd.DataFrame | None:
        """The dev labels that the tiles count for a version of the rubric, or None; `of_all`: of new annotators too."""
        labels = labels_of(self.log.counted, rubric, of_all=of_all)
        labels = labels.loc[(labels["part"] == DEV).to_numpy(), [*LABEL_KEY, "label"]]
        return None if labels.empty else labels

    def used(self, criterion: str, evaluation: Evaluation) -> pd.DataFrame:
        """The labels of judged items that all figures of a version use: dev and held-out."""
        labels, _ = drop_new_annotators(labels_on_scale(self.log.counted, criterion, evaluation.rubric))
        return labels.loc[is_among(labels["item_id"], evaluation.scores["item_id"])]

    def used_with_changed(self, criterion: str, evaluation: Evaluation) -> pd.DataFrame:
        """As `used`, and the labels of further items, whose verdict changed."""
        everyone = self.log.with_changed
        further, _ = drop_new_annotators(everyone[everyone["source"].eq("changed").to_numpy()])
        further = labels_on_scale(further, criterion, evaluation.rubric)
        here = further.loc[is_among(further["item_id"], evaluation.scores["item_id"])]
        return pd.concat([self.used(criterion, evaluation), here], ignore_index=True)

    def to_label(self, criterion: str, changed: Iterable[str], evaluation: Evaluation) -> list[str]:
        """Of items whose verdict changed those to ask for: dev items without a label, and those labelled for that."""
        parts = self.log.parts(criterion)
        is_dev = {*parts.loc[parts["part"].eq(DEV).to_numpy(), "item_id"]}
        is_known = {*self.used(criterion, evaluation)["item_id"]}
        return [item for item in changed if item in is_dev - is_known]

    def is_later(self, versions: Iterable[str], criterion: str) -> bool:
        """Whether dev labels were added or changed since this was first called about these two versions."""
        labels = self.log.counted
        of_criterion = labels[(labels["criterion"].eq(criterion) & labels["part"].eq(DEV)).to_numpy()]
        state, about = _digest(of_criterion[[*LABEL_KEY, "label"]]), " ".join([*sorted(versions), criterion])
        if about not in self._shown:
            with self._history.lock:
                self._shown[about] = state
                self._history.save()
        return state != self._shown[about]

    def last_look(
        self, about: str, evaluation: Evaluation | None, criterion: str, against: Evaluation | None
    ) -> dict[str, Any]:
        """A look at held-out labels; `since` says when it was, if labels or verdicts are others now; empty without."""
        look = self.looks.get(about, {})
        if not look or evaluation is None:
            return {}
        hidden, figures = self._held_out(evaluation, criterion, against)
        if look["figures"] == figures:
            return look
        n_new = len(hidden) - look["n_labels"]
        n_changed = f"{counted(abs(n_new), 'label')} {'were' if abs(n_new) > 1 else 'was'}"
        change = f"{n_changed} {'added' if n_new > 0 else 'taken away'}" if n_new else "labels or verdicts changed"
        since = f", made on {look['at'][:10]} before {change}: look again to count them"
        return look | {"since": since, "words": {**look["words"], "looks": look["words"]["looks"] + since}}

    def _held_out(self, evaluation: Evaluation, criterion: str, against: Evaluation | None) -> tuple[pd.DataFrame, str]:
        """The held-out labels, and a digest of them and of what the versions say of their items."""
        labels = self.used(criterion, evaluation)
        hidden = labels.loc[(labels["part"] == HELD_OUT).to_numpy(), [*LABEL_KEY, "label"]]
        judged = []
        for side in (evaluation, against):
            # with the pass rule, which decides what people's labels mean
            if side is not None and criterion in side.rubric.names:
                scale = side.rubric.criterion(criterion).scale
                table = side.scores[["item_id", "criterion", "score", "passed"]]
                judged.append(table.assign(rule=str((scale.pass_at, scale.pass_if, scale.better))))
        is_here = [table["item_id"].isin(hidden["item_id"]) & (table["criterion"] == criterion) for table in judged]
        return hidden, _digest(hidden, *[table[rows] for table, rows in zip(judged, is_here, strict=True)])

    def look_held_out(
        self, about: str, evaluation: Evaluation, criterion: str, against: Evaluation | None = None
    ) -> dict[str, str]:
        """Agreement of the jury with the held-out labels; each look is counted, and makes this figure less reliable.

        The same look shows the difference from the version compared with; `about` is its key in `looks`. The same
        figures again, in another session too, are the same look: they tell nothing new.

        Raises
        ------
        InputError
            When nothing is held out.
        """
        take_part(self.used(criterion, evaluation), HELD_OUT)  # raises where nothing is held out
        if (last := self.last_look(about, evaluation, criterion, against)) and "since" not in last:
            words: dict[str, str] = last["words"]
            return words
        scores = evaluation.scores[evaluation.scores["criterion"] == criterion]
        hidden, figures = self._held_out(evaluation, criterion, against)
        items = ItemSet.of(criterion, hidden["item_id"])
        names = {"rubric": evaluation.rubric.id, "rubric_version": evaluation.rubric.label, "criterion": criterion}
        look = {**names, "labels": items.key, "figures": figures}
        if look_key(look) not in looks_at(read_log(self._cache), criterion, items):
            append_log(self._cache, [look], [items])
        number = looks_at(read_log(self._cache), criterion, items)[look_key(look)]
        row = with_facts(align)(scores, hidden, clusters=evaluation.clusters).iloc[0]
        change = None
        if against is not None and criterion in against.rubric.names:
            on_both = labels_on_scale(self.used(criterion, evaluation), criterion, against.rubric)
            change, _ = change_of(evaluation, against, hidden[hidden.index.isin(on_both.index)], criterion)
        difference = None if change is None else Difference.of(change)
        words = {
            "agreement": figure(row["accuracy"], row["accuracy_low"], row["accuracy_high"]),
            "kappa": figure(row["kappa"], row["kappa_low"], row["kappa_high"]),
            "compared": f"{row['n_verdicts']} of {counted(row['n_labelled'], 'labelled item')}"
            f"{without_interval(row, 'accuracy') or without_interval(row, 'kappa')}",
            "looks": f"look {number}",
        }
        values: dict[str, Any] = {"difference": None if difference is None else asdict(difference)}
        values |= {"n_labels": len(hidden), "at": datetime.now(UTC).isoformat(timespec="seconds")}
        with self._history.lock:
            self.looks.pop(about, None)  # the last one comes last
            self.looks[about] = {"words": words, **values, "number": number, "figures": figures}
            self._history.save()
        return words


def _digest(*tables: pd.DataFrame) -> str:
    return digest([table.astype(str).sort_values([*table]).to_numpy().tolist() for table in tables])[:12]


def _counts(given: pd.DataFrame | None, texts: Collection[str]) -> dict[str, dict[str, int]]:
    """Criterion -> annotator -> number of labels of these items."""
    counts: dict[str, dict[str, int]] = {}
    if given is not None:
        labels_here = given[given["item_id"].isin(list(texts)) & given["label"].notna()]
        for criterion, who in labels_here[["criterion", "annotator"]].astype(str).to_numpy().tolist():
            people = counts.setdefault(criterion, {})
            people[who] = people.get(who, 0) + 1
    return counts


def _missing(last: Mapping[str, Mapping[str, int]], now: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Labels that were passed to the last session and not to this one, a sentence per criterion."""
    notes = []
    for criterion, people in last.items():
        gone = {who: n for who, n in people.items() if not now.get(criterion, {}).get(who)}
        if gone and sum(people.values()) > sum(now.get(criterion, {}).values()):  # else under another name
            words = f"{counted(sum(gone.values()), 'label')} of {', '.join(gone)} for {criterion!r}"
            fact = f"{words} were in the last session and are missing now, so they count in no figure"
            notes.append(f"{fact}: pass their columns as labels again (on the card: the role 'label: …').")
    return notes
