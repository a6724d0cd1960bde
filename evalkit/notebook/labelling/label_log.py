"""Human labels entered on screen: a log file of every edit, next to the items, which any number of processes share.

It is one module since what a line means, who counts and what the tables hold follow from the same edits.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from errno import ENOSPC
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median
from threading import RLock
from typing import Any

import numpy as np
import orjson
import pandas as pd

from evalkit.core.files import held
from evalkit.errors import CacheError, InputError, counted
from evalkit.rubrics import Criterion, Rubric, Scale
from evalkit.rubrics.human_labels import COUNTED, LEVELS, SOURCES, asked_of, is_moved, question_hash, wording_notes
from evalkit.rubrics.labels_of_tools import cut_lines, log_lines
from evalkit.stats.alignment.label_splits import DEV, HELD_OUT, split_labels, would_be_held_out
from evalkit.stats.alignment.label_values import read_label, with_codes
from evalkit.tables.files import records
from evalkit.tables.schemas import LABEL_KEY, categorical, table

ENOUGH_LABELS = 10
"""If an annotator has at least so many labels of a criterion, annotators with fewer do not count in the figures."""

LOG = ".labels.jsonl"
"""How the names of logs end."""

_BREAK_S, _FEWEST_STEPS = 600, 5
_ASKED_BLIND = {"given": COUNTED, "random": COUNTED, "changed": (*COUNTED, "changed")}
_Key = tuple[str, str, str]
_Question = tuple[str, str]
_FIELDS = ("item_id", "criterion", "annotator", "text")
_KINDS = {"probability": (int, float), "blind": (bool,), "round": (int,)}  # the other fields are texts
_SKIPPED = ""  # stands for the criterion in the line of an item that was skipped


@dataclass(frozen=True, slots=True)
class LabelEdit:
    """A label, or None where it was taken back.

    Attributes
    ----------
    source
        One of `SOURCES`. Figures use those in `COUNTED`.
    probability
        With which the item was drawn, if it was ``disputed``; None for ``random``, which is the same for all items.
    blind
        Whether the jury was hidden until the label was given; None if that is not known.
    round
        The number of the draw, from 1, if it was ``disputed``.
    comment
        What the annotator wrote beside it.
    question_hash, levels
        What was asked (see `asked_of`); empty if that is not known.
    """

    label: str | None
    source: str = "given"
    probability: float | None = None
    blind: bool | None = None
    round: int | None = None
    comment: str = ""
    question_hash: str = ""
    levels: str = ""


class _OffScale(LabelEdit):
    """A label on no scale that is known here: it is none in this process, and undo takes it back, as in all others."""

    __slots__ = ()


def labels_on_scale(labels: pd.DataFrame, criterion: str, *rubrics: Rubric) -> pd.DataFrame:
    """The labels of a criterion that are on its scale in each rubric; an edit may have removed or moved their level."""
    mine = labels[(labels["criterion"] == criterion).to_numpy()]
    scales = [rubric.criterion(criterion).scale for rubric in rubrics]
    pairs = [*zip(mine["label"].astype(str), mine.get(LEVELS, [""] * len(mine)), strict=True)]
    fits = {pair: all(_is_on(*pair, scale) for scale in scales) for pair in {*pairs}}
    return mine[np.array([fits[pair] for pair in pairs], dtype=bool)]


def labels_on_scales(labels: pd.DataFrame, rubric: Rubric) -> pd.DataFrame:
    """The labels without those of a level that their criterion does not have in the rubric."""
    for name in rubric.names:
        is_on = labels.index.isin(labels_on_scale(labels, name, rubric).index)
        labels = labels[(labels["criterion"] != name).to_numpy() | is_on]
    return labels


def labels_of(labels: pd.DataFrame, rubric: Rubric, *, of_all: bool = False) -> pd.DataFrame:
    """The labels of a rubric's criteria on their scales; of each criterion, `drop_new_annotators` unless `of_all`."""
    tables = [labels_on_scale(labels, name, rubric) for name in rubric.names]
    return pd.concat(tables if of_all else [drop_new_annotators(table)[0] for table in tables])


def drop_new_annotators(labels: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The labels of annotators who gave enough of them, and the names of the others; all labels if no annotator did.

    Agreement on a handful of labels is mostly noise.
    """
    counts = labels["annotator"].astype(str).value_counts()
    few = sorted(counts.index[(counts > 0) & (counts < ENOUGH_LABELS)])
    if len(few) == (counts > 0).sum():
        return labels, []
    return labels[~labels["annotator"].astype(str).isin(few).to_numpy()], few


class LabelLog:
    """The labels passed in, with all later edits applied.

    An edit is one line of a file, written and synced before it counts; lines are only added, by one write under a lock,
    so that any number of processes may share the file. `read` applies what others added; after a write it applies the
    lines in the order of the file, so that all processes have the same labels. Each line contains a hash of the text
    that was labelled. If the item's text has changed since, the label is left out and counted in `n_other_texts`.

    Figures use the labels in `counted`: a label of an item that was not drawn at random neither counts nor replaces the
    annotator's label that does. Annotators count if they gave labels that were passed in, if they were the first in
    a log without any, or from `set_counting` on; for one criterion also if they were the first to label that.

    Parameters
    ----------
    path
        The log file (JSON lines); it may be missing.
    texts
        item_id -> hash of the text that is labelled.
    given
        A long labels table, or None. It may have the columns `source`, `probability` and `blind` of `table`.
    rubric
        Labels are checked against its scales; `add_scales` adds those of other versions.
    clusters
        item_id -> cluster; the items of one cluster are in the same part.

    Raises
    ------
    InputError
        For labels off the scale.
    CacheError
        When the file cannot be read.
    """

    def __init__(
        self, path: Path, texts: Mapping[str, str], given: pd.DataFrame | None, rubric: Rubric,
        clusters: pd.Series | None = None,
    ) -> None:  # fmt: skip
        self.path, self._texts, self._clusters = path, texts, clusters
        self._scales: dict[str, dict[str, Scale]] = {}
        self._asked = {criterion.name: question_hash(criterion) for criterion in rubric.criteria}
        self.add_scales(rubric)
        self._given: list[tuple[_Key, LabelEdit]] = []
        if given is not None:
            known = given[given["item_id"].isin(list(texts)) & given["criterion"].isin(rubric.names)]
            for row in records(with_codes(known, rubric)):
                self._given.append(((str(row["item_id"]), str(row["criterion"]), str(row["annotator"])), _edit_of(row)))
        self.n_edits, self._lock = 0, RLock()  # a thread may draw what another one labels
        self._forget()

    def _forget(self) -> None:
        """Go back to the labels passed in, before the first line of the file."""
        self._edits: dict[_Key, list[LabelEdit]] = {key: [edit] for key, edit in self._given}
        self.counting = {key[2] for key in self._edits}
        self._left_out: set[str] = set()
        self._first: dict[str, str] = {}  # criterion -> whose labels were its first that count
        self._people: dict[tuple[str, str], dict[str, None]] = {}  # question -> who answered it
        for key in self._edits:
            self._first.setdefault(key[1], key[2])
            self._people.setdefault(key[:2], {})[key[2]] = None
        self._acts: list[_Key] = []
        self.times: dict[str, list[datetime]] = {}
        self._applied, self._cut = b"", list[int]()
        self._others: dict[tuple[*_Key, str], list[object]] = {}  # labels of other texts
        self._then: dict[tuple[_Key, int], dict[str, str]] = {}  # what people said when a lead decided
        self.draws: dict[str, list[tuple[int, dict[str, float]]]] = {}  # the number of each round, and what it drew
        self._changed()

    def add_scales(self, rubric: Rubric) -> None:
        """Accept labels on the scales of this version too, also those that were read before."""
        n_known = sum(map(len, self._scales.values()))
        for criterion in rubric.criteria:
            scale = criterion.scale
            self._scales.setdefault(criterion.name, {})[f"{scale.level} {scale.texts} {scale.to_json()}"] = scale
        if n_known and self._applied and sum(map(len, self._scales.values())) > n_known:
            with self._lock:
                self._forget()
                self.read()

    def read(self) -> bool:
        """Apply the lines that were added to the file since the last call, by any process; False if there are none.

        Call it first when the scales of all versions are added.
        """
        with self._lock:
            try:
                text = self.path.read_bytes()
            except FileNotFoundError:
                return False
            except OSError as problem:
                raise CacheError(f"{self.path} cannot be read: {problem.strerror}") from problem
            if not text.startswith(self._applied):  # the file was replaced, edited or cut
                self._forget()
            new, first = text[len(self._applied) :], self._applied.count(b"\n") + 1
            lines, cut = log_lines(new, self.path, first)
            if first + new.count(b"\n") in cut:  # being written now, or cut by a crash: it ends where the next starts
                new = new[: new.rfind(b"\n") + 1]
            self._applied += new
            self._cut = [number for number in self._cut if number < first] + cut
            for values in lines:
                self._apply(values)
            return bool(new)

    def _apply(self, values: dict[str, Any]) -> None:
        """One line of the file; one that cannot be understood is left out."""
        fields: list[Any] = [values.get(name) for name in _FIELDS]
        item_id, criterion, annotator, text = fields
        if isinstance(annotator, str) and isinstance(values.get("counts"), bool):
            self._count(annotator, counts=values["counts"])
        elif isinstance(values.get("drawn"), dict) and isinstance(criterion, str):
            draws, number = self.draws.setdefault(criterion, []), values.get("round")
            if not isinstance(number, int):
                number = max((earlier for earlier, _ in draws), default=0) + 1
                number = next((earlier for earlier, chances in draws if chances == values["drawn"]), number)
            if (number, values["drawn"]) not in draws:  # two processes may draw the same
                draws.append((number, values["drawn"]))
        elif not all(isinstance(value, str) for value in fields):
            return
        elif self._texts.get(item_id) != text or not self._fits(criterion, None):
            labels = self._others.setdefault((item_id, criterion, annotator, text), [])
            labels[-1:] = [] if values.get("undo") is True else [*labels[-1:], values.get("label")]
        elif values.get("undo") is True:
            self._remove_last((item_id, criterion, annotator))
        elif not self._fits(criterion, values.get("label"), values.get(LEVELS)):
            if isinstance(values["label"], str):
                self._edits.setdefault((item_id, criterion, annotator), []).append(_OffScale(values["label"]))
                self._acts.append((item_id, criterion, annotator))
        else:
            self._put((item_id, criterion, annotator), _edit_of(values))
            if "source" not in values:  # as given: who gave it counts
                self.counting.add(annotator)
            with suppress(KeyError, TypeError, ValueError):
                if values.get("label") is not None or criterion == _SKIPPED:
                    self.times.setdefault(annotator, []).append(datetime.fromisoformat(values["at"]))

    @property
    def n_other_texts(self) -> int:
        """How many labels cannot be used here; not those that their annotators gave again."""
        off_scale = {key for key, edits in self._edits.items() if edits and isinstance(edits[-1], _OffScale)}
        of_texts = {key[:3] for key, labels in self._others.items() if labels and labels[-1] is not None}
        return len((off_scale | of_texts) - {*self.last()})

    @property
    def not_used(self) -> str:
        """The labels that are left out and the lines that cannot be read, in words; empty if there are none."""
        labels = f"{counted(self.n_other_texts, 'label')} of texts, levels or items that changed or are gone left out."
        return " ".join(filter(None, [labels * bool(self.n_other_texts), self.reworded, cut_lines(self._cut)]))

    @property
    def reworded(self) -> str:
        """The labels that were given to another wording than that of the rubric, in words; empty if there are none."""
        hashes = ((key[1], edit.question_hash, self._asked.get(key[1])) for key, edit in self.last().items())
        notes = wording_notes(Counter((name, True) for name, then, now in hashes if then and now and then != now))
        return f"{notes}." * bool(notes)

    def seconds_per_label(self, annotator: str) -> float | None:
        """How long a label of this annotator takes: the median time between two; None with fewer than five of them.

        Labels of one form have the same time. Ten minutes and more between two labels are a break.
        """
        steps = [(later - earlier).total_seconds() for earlier, later in pairwise(self.times.get(annotator, []))]
        usual = [step for step in steps if 0 < step < _BREAK_S]
        return median(usual) if len(usual) >= _FEWEST_STEPS else None

    def _fits(self, criterion: str, label: object, levels: object = "") -> bool:
        scales = self._scales.get(criterion, {}).values()
        if label is None:
            return bool(scales) or criterion == _SKIPPED
        return isinstance(label, str) and any(_is_on(label, levels, scale) for scale in scales)

    def _put(self, key: _Key, edit: LabelEdit) -> None:
        self._edits.setdefault(key, []).append(edit)
        self._people.setdefault(key[:2], {})[key[2]] = None
        if edit.source == "adjudicated":
            self._then[key, len(self._edits[key])] = self.of(*key[:2], *SOURCES[:-1])
        self._acts.append(key)
        if edit.source in COUNTED and edit.label is not None and self.counts(key[2], key[1]):
            self._first.setdefault(key[1], key[2])
            if not self.counting:
                self.counting.add(key[2])
        self._changed()

    def _remove_last(self, key: _Key) -> None:
        if self._edits.get(key):
            self._edits[key].pop()
        if key in self._acts:
            del self._acts[len(self._acts) - 1 - self._acts[::-1].index(key)]
        self._changed()

    def _count(self, annotator: str, *, counts: bool) -> None:
        (self.counting.add if counts else self.counting.discard)(annotator)
        (self._left_out.discard if counts else self._left_out.add)(annotator)
        self._changed()

    def counts(self, annotator: str, criterion: str) -> bool:
        """Whether the next label of this annotator for a criterion counts."""
        is_first = self._first.get(criterion, annotator) == annotator and annotator not in self._left_out
        return annotator in self.counting or is_first

    def _is_counted(self, key: _Key) -> bool:
        """Whether figures use the labels of this annotator for this criterion."""
        return key[2] in self.counting or (self._first.get(key[1]) == key[2] and key[2] not in self._left_out)

    def _changed(self) -> None:
        self.__dict__.pop("_tables", None)
        self.n_edits += 1

    def add(self, item_id: str, criterion: str, annotator: str, edit: LabelEdit, rubric: Rubric | None = None) -> None:
        """Add a label, or take back all labels of this annotator for the item; it is on disk when this returns.

        `rubric` is the one that was on screen.

        Raises
        ------
        InputError
            For an unknown item, an annotator without a name, or a label off the scale.
        CacheError
            When the line cannot be written; the label does not count then.
        """
        self.add_form(annotator, {(item_id, criterion): edit}, rubric)

    def add_form(self, annotator: str, edits: Mapping[_Question, LabelEdit], rubric: Rubric | None = None) -> None:
        """As `add`, for several items and criteria, by one write."""
        if rubric is not None:  # of a draft, which no version has yet
            self.add_scales(rubric)
        for (item_id, criterion), edit in edits.items():
            if item_id not in self._texts:
                raise InputError(f"item {item_id!r} not found; only items of this session can be labelled")
            if not annotator.strip():
                raise InputError("a label needs an annotator; enter a name under 'Label as'")
            if not self._fits(criterion, edit.label):
                labels = [label for scale in self._scales.get(criterion, {}).values() for label in scale.labels]
                allowed = ", ".join(dict.fromkeys(labels)) or "none until a version with this criterion has run"
                raise InputError(f"label {edit.label!r} is not on the scale of {criterion!r}; allowed: {allowed}")
        self._write(
            self._line((item_id, name, annotator.strip())) | asdict(edit) | asked_of(rubric, name, edit.label)
            for (item_id, name), edit in edits.items()
        )

    def skip(self, item_ids: Iterable[str], annotator: str, reason: str) -> None:
        """Note that an annotator does not label these items, and why."""
        edit = LabelEdit(None, "picked", comment=reason)
        self.add_form(annotator, {(item_id, _SKIPPED): edit for item_id in item_ids})

    def why_skipped(self, item_id: str, annotator: str) -> str | None:
        """Why an annotator skipped an item, which may be labelled since; None if it was not skipped."""
        edits = self._edits.get((item_id, _SKIPPED, annotator))
        return edits[-1].comment if edits else None

    def undo(self, annotator: str, keys: Iterable[tuple[str, str]]) -> None:
        """Remove the annotator's last label of each of these `acts`; the one before it is valid again."""
        self._write(self._line((*key, annotator)) | {"label": None, "undo": True} for key in keys)

    def set_counting(self, annotator: str, *, counts: bool) -> None:
        """Include an annotator's labels in the figures, or leave them out."""
        self._write([{"annotator": annotator, "counts": counts}])

    def add_draw(self, criterion: str, drawn: Mapping[str, float], number: int | None = None) -> None:
        """Note the items drawn for this criterion in this round or the next, with the probability of each."""
        if drawn:
            turn = {} if number is None else {"round": number}
            self._write([{"criterion": criterion, "drawn": dict(drawn), **turn}])

    def _line(self, key: _Key) -> dict[str, Any]:
        return dict(zip(_FIELDS, (*key, self._texts[key[0]]), strict=True))

    def _write(self, lines: Iterable[Mapping[str, Any]]) -> None:
        _append(self.path, lines)
        self.read()

    def check_writable(self) -> None:
        """Raise the `CacheError` of a label that cannot be saved, before anybody gives one."""
        _append(self.path, [])

    def acts(self, annotator: str) -> Iterator[tuple[str, str]]:
        """Items and criteria that an annotator labelled, the last first; an item that was skipped has no criterion."""
        for key in self._acts[::-1]:
            if key[2] == annotator and (key[1] == _SKIPPED or any(map(_is_label, self._edits[key][-1:]))):
                yield key[:2]

    def of(self, item_id: str, criterion: str, *sources: str) -> dict[str, str]:
        """Annotator -> label of one item, from these sources (default: all)."""
        with self._lock:
            keys: list[_Key] = [(item_id, criterion, who) for who in self._people.get((item_id, criterion), ())]
            edits = _newest({key: self._edits[key] for key in keys}, sources or SOURCES)
        return {key[2]: str(edit.label) for key, edit in edits.items()}

    def given_by(self, annotator: str, source: str) -> dict[tuple[str, str], LabelEdit]:
        """Item and criterion -> label that this annotator need not be asked for again.

        For ``random`` and ``given``, labels that count; for ``changed`` also those that were given blind for that.
        """
        sources = _ASKED_BLIND.get(source, SOURCES)
        with self._lock:
            labels = _newest(self._edits, sources)
        return {key[:2]: edit for key, edit in labels.items() if key[2] == annotator}

    def labelled(self, rule: Criterion, annotator: str, source: str) -> set[str]:
        """The items of `given_by` whose label of a criterion is on its scale."""
        edits = [(item, edit) for (item, name), edit in self.given_by(annotator, source).items() if name == rule.name]
        return {item for item, edit in edits if _is_on(str(edit.label), edit.levels, rule.scale)}

    def last_queued(self, criterion: str, annotator: str, source: str) -> tuple[str, str] | None:
        """The last item labelled from this source of the label queue, and its label."""
        for item_id, name in self.acts(annotator):
            if name == criterion and (edit := self._edits[item_id, name, annotator][-1]).source == source:
                return item_id, str(edit.label)
        return None

    def last(self) -> dict[_Key, LabelEdit]:
        """Item, criterion and annotator -> last label."""
        with self._lock:
            return _newest(self._edits, SOURCES)

    def decided(self) -> dict[tuple[str, str], tuple[str, str, list[str]]]:
        """Item and criterion -> who decided last, what, and which people have said something else since."""
        last, decided = self.last(), dict[tuple[str, str], tuple[str, str, list[str]]]()
        for key in (key for key in self._acts if key in last and last[key].source == "adjudicated"):
            then, now = self._then.get((key, len(self._edits[key])), {}), self.of(*key[:2], *SOURCES[:-1])
            changed = [who for who, label in then.items() if now.get(who) != label]
            decided[key[:2]] = key[2], str(last[key].label), changed
        return decided

    def _that_count(self) -> dict[_Key, LabelEdit]:
        """The last label that counts of each item, criterion and annotator, unless labels were taken back since."""
        with self._lock:
            return _newest(self._edits, COUNTED)

    @property
    def standing(self) -> pd.DataFrame:
        """As `table`, but a label of an item that was drawn at random stands, whatever was said outside that order."""
        with self._lock:
            return self._tables_of(self.last() | self._that_count())[0]

    @property
    def table(self) -> pd.DataFrame:
        """The last labels as a long table, with the columns of `LabelEdit` and `part` (see `split_labels`).

        Only labels that count decide whether a criterion has held-out labels.
        """
        with self._lock:
            return self._tables[0]

    @property
    def counted(self) -> pd.DataFrame:
        """The labels that figures use, with the columns of `table`."""
        with self._lock:
            return self._tables[1]

    @property
    def weighted(self) -> pd.DataFrame:
        """The labels that figures with weights use: `counted`, and disputed ones of other items with their `round`."""
        last = self.table
        return self._with_others(last[(last["source"].eq("disputed") & last["round"].notna()).to_numpy()])

    @property
    def with_changed(self) -> pd.DataFrame:
        """The labels that the figure of changed items uses: `counted`, and those of other items that changed."""
        with self._lock:
            last = _newest(self._edits, ("changed",))
            return self._with_others(self._tables_of(last)[0]) if last else self.counted

    def _with_others(self, drawn: pd.DataFrame) -> pd.DataFrame:
        """`counted`, and of these labels those of other items by annotators who count."""
        if drawn.empty:  # each key press in the label queue asks for this
            return self.counted
        keys = ["item_id", "criterion"]
        known = pd.MultiIndex.from_frame(self.counted[keys].astype(str))
        others = ~pd.MultiIndex.from_frame(drawn[keys].astype(str)).isin(known)
        pairs = zip(drawn["annotator"].astype(str), drawn["criterion"].astype(str), strict=True)
        counts = np.array([self.counts(*pair) for pair in pairs], dtype=bool)
        both: pd.DataFrame = pd.concat([self.counted, drawn[others & counts]], ignore_index=True)
        return both

    @cached_property
    def _tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """`table` and `counted`, until the labels change."""
        return self._tables_of(self.last())

    def _tables_of(self, last: Mapping[_Key, LabelEdit]) -> tuple[pd.DataFrame, pd.DataFrame]:
        """These labels and `counted`; the latter alone decide whether a criterion has held-out labels."""
        that_count = {key: edit for key, edit in self._that_count().items() if self._is_counted(key)}
        rows = [*last.items(), *that_count.items()]
        keys = list(zip(*(key for key, _ in rows), strict=True)) if rows else [()] * 3
        item_ids, *names = map(list, keys)
        values = dict(zip(LABEL_KEY, [item_ids, *map(categorical, names)], strict=True))
        counts = categorical([None] * len(last) + [edit.label for edit in that_count.values()])
        both = split_labels(table("labels", values | {"label": counts}), self._clusters).assign(
            label=categorical([edit.label for _, edit in rows]),
            source=pd.Categorical([edit.source for _, edit in rows], SOURCES),
            probability=pd.array([edit.probability for _, edit in rows], dtype="Float64"),
            blind=pd.array([edit.blind for _, edit in rows], dtype="boolean"),
            round=pd.array([edit.round for _, edit in rows], dtype="Int64"),
            levels=categorical([edit.levels for _, edit in rows]),
        )
        return both.iloc[: len(last)], both.iloc[len(last) :].reset_index(drop=True)

    def parts(self, criterion: str) -> pd.DataFrame:
        """A row without a label for each item, with the part in which its labels of a criterion are, or would be."""
        ids = pd.Series([*self._texts], dtype="str")
        labels = self.counted
        is_split = (labels["criterion"].eq(criterion) & labels["part"].eq(HELD_OUT)).any()
        parts = np.where(would_be_held_out(ids, self._clusters) & is_split, HELD_OUT, DEV)
        return pd.DataFrame(
            {"item_id": ids, "criterion": criterion, "annotator": "nobody", "label": None, "part": parts}
        )

    def newcomers(self) -> dict[str, int]:
        """Annotator -> number of labels that would count if the annotator did."""
        return dict(Counter(key[2] for key in self._that_count() if not self._is_counted(key)))

    def not_counted(self, criterion: str) -> str:
        """The labels of a criterion that figures do not use, in words; empty if they use all."""
        sources = Counter(edit.source for key, edit in self.last().items() if key[1] == criterion)
        words = ", ".join(f"{sources[name]} {name}" for name in SOURCES if name not in COUNTED and sources[name])
        own_keys = [key for key in self._that_count() if key[1] == criterion]
        left_out = sorted({key[2] for key in own_keys if not self._is_counted(key)})
        parts = [f"{words} not counted"] * bool(words)
        parts += [f"without {', '.join(left_out)} (not in the figures yet)"] * bool(left_out)
        return " · ".join(parts)


def _is_on(label: str, levels: object, scale: Scale) -> bool:
    """Whether a label means on this scale what it meant to the person who gave it."""
    return read_label(label, scale) is not None and not is_moved(label, levels, scale)


def _is_label(edit: LabelEdit) -> bool:
    return edit.label is not None and not isinstance(edit, _OffScale)


def _newest(edits: Mapping[_Key, list[LabelEdit]], sources: Container[str]) -> dict[_Key, LabelEdit]:
    """The last label from one of these sources, unless labels were taken back since."""
    last = dict[_Key, LabelEdit]()
    for key, history in edits.items():
        ends = (old for old in reversed(history) if old.label is None or (_is_label(old) and old.source in sources))
        if (edit := next(ends, None)) is not None and edit.label is not None:
            last[key] = edit
    return last


def _edit_of(values: Mapping[str, Any]) -> LabelEdit:
    """The edit in a line of the log, or in a row of a labels table; what has no source was given."""
    label, source = values.get("label"), values.get("source")
    source = "given" if source is None else source if source in SOURCES else "picked"
    more = (name for name in LabelEdit.__slots__[2:] if type(values.get(name)) in _KINDS.get(name, (str,)))
    return LabelEdit(None if label is None else str(label), source, **{name: values[name] for name in more})


def _append(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    text = b"".join(orjson.dumps({**line, "at": now}) + b"\n" for line in lines)
    text = text and b"\n" + text  # the line break separates the lines from one that a crash truncated
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        with held(path), path.open("ab", buffering=0) as log:
            size = os.fstat(log.fileno()).st_size
            try:
                if log.write(text) < len(text):
                    raise OSError(ENOSPC, os.strerror(ENOSPC))
                os.fsync(log.fileno())
            except OSError:  # half a form is none
                log.truncate(size)
                raise
    except OSError as problem:
        raise CacheError(
            f"labels cannot be saved: {path} cannot be written ({problem.strerror}); all saved before is kept. Save "
            "again when that is put right, or name another file (labels=) or folder (folder=)"
        ) from problem
