"""Human labels entered in the tuner: a log file of every edit, next to the items."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import orjson
import pandas as pd

from evalkit.errors import CacheError, InputError
from evalkit.rubrics import Rubric, Scale
from evalkit.stats.alignment.label_splits import DEV, split_labels
from evalkit.stats.alignment.label_values import read_label, with_codes
from evalkit.tables.files import records
from evalkit.tables.schemas import LABEL_KEY, categorical, table

ENOUGH_LABELS = 10
"""If an annotator has at least so many labels of a criterion, annotators with fewer do not count in the figures."""

SOURCES = ("given", "random", "disputed", "picked")
"""How the item of a label was chosen: passed in, drawn by the label queue from all items or from those on which judges
disagree, or picked on screen."""

_COUNTED = ("given", "random")
_QUEUED = ("random", "disputed")
_BREAK_S, _FEWEST_STEPS = 600, 5
_Key = tuple[str, str, str]
_FIELDS = ("item_id", "criterion", "annotator", "text")


@dataclass(frozen=True, slots=True)
class LabelEdit:
    """A label, or None where it was taken back.

    Attributes
    ----------
    source
        One of `SOURCES`. Figures use ``given`` and ``random``.
    probability
        With which the item was drawn, if it was ``disputed``; None for ``random``, which is the same for all items.
    blind
        Whether the jury was hidden until the label was given; None if that is not known.
    round
        The number of the draw, from 1, if it was ``disputed``.
    """

    label: str | None
    source: str = "given"
    probability: float | None = None
    blind: bool | None = None
    round: int | None = None


def labels_on_scale(labels: pd.DataFrame, criterion: str, *rubrics: Rubric) -> pd.DataFrame:
    """The labels of a criterion that are on its scale in each rubric; an edit may have removed the level of a label."""
    mine = labels[(labels["criterion"] == criterion).to_numpy()]
    scales = [rubric.criterion(criterion).scale for rubric in rubrics]
    known = {text: all(read_label(str(text), scale) is not None for scale in scales) for text in mine["label"].unique()}
    return mine[mine["label"].map(known).to_numpy(dtype=bool)]


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

    An edit is one line of a file, written and synced before it counts; lines are only added. Each contains a hash of
    the text that was labelled. If the item's text has changed since, the label is left out and counted in
    `n_other_texts`.

    Figures use the labels in `counted`: a label of a ``disputed`` or ``picked`` item neither counts nor replaces the
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
        self,
        path: Path,
        texts: Mapping[str, str],
        given: pd.DataFrame | None,
        rubric: Rubric,
        clusters: pd.Series | None = None,
    ) -> None:
        self.path, self._texts, self._clusters = path, texts, clusters
        self._scales: dict[str, dict[str, Scale]] = {}
        self.add_scales(rubric)
        self._edits: dict[_Key, list[LabelEdit]] = {}
        self._queued: list[_Key] = []
        self.counting: set[str] = set()
        self._left_out: set[str] = set()
        self._first: dict[str, str] = {}  # criterion -> whose labels were its first that count
        self.n_other_texts = self.n_edits = 0
        self.draws: dict[str, list[dict[str, float]]] = {}
        if given is not None:
            known = given[given["item_id"].isin(list(texts)) & given["criterion"].isin(rubric.names)]
            for row in records(with_codes(known, rubric)):
                key = str(row["item_id"]), str(row["criterion"]), str(row["annotator"])
                self._edits[key] = [_edit_of(row)]
                self.counting.add(key[2])
                self._first.setdefault(key[1], key[2])

    def add_scales(self, rubric: Rubric) -> None:
        """Accept labels on the scales of this version too."""
        for criterion in rubric.criteria:
            scale = criterion.scale
            self._scales.setdefault(criterion.name, {})[f"{scale.level} {scale.to_json()}"] = scale

    def read(self) -> None:
        """Apply the edits of the log file; call it when the scales of all versions are added."""
        try:
            lines = self.path.read_bytes().splitlines() if self.path.exists() else []
        except OSError as problem:
            raise CacheError(f"{self.path} cannot be read: {problem.strerror}") from problem
        for line in lines:
            try:
                edit = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue  # blank, or truncated by a crash
            if not isinstance(edit, dict):
                continue
            if isinstance(edit.get("annotator"), str) and isinstance(edit.get("counts"), bool):
                self._count(edit["annotator"], counts=edit["counts"])
                continue
            if isinstance(edit.get("drawn"), dict) and isinstance(edit.get("criterion"), str):
                self.draws.setdefault(edit["criterion"], []).append(edit["drawn"])
                continue
            if not all(isinstance(edit.get(name), str) for name in _FIELDS):
                continue
            label, key = edit.get("label"), (edit["item_id"], edit["criterion"], edit["annotator"])
            if self._texts.get(key[0]) != edit["text"] or not self._fits(key[1], label):
                self.n_other_texts += 1
            elif edit.get("undo") is True:
                self._remove_last(key)
            else:
                self._put(key, _edit_of(edit))
                if "source" not in edit:  # written by an earlier version, when every annotator counted
                    self.counting.add(key[2])

    def seconds_per_label(self, annotator: str) -> float | None:
        """How long a label of this annotator takes: the median time between two; None with fewer than five of them.

        Ten minutes and more between two labels are a break.
        """
        lines = self.path.read_bytes().splitlines() if self.path.exists() else []
        times = []
        for line in lines:
            with suppress(orjson.JSONDecodeError, KeyError, TypeError, ValueError):
                edit = orjson.loads(line)
                if edit["annotator"] == annotator and edit.get("label") is not None:
                    times.append(datetime.fromisoformat(edit["at"]))
        steps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
        usual = [step for step in steps if 0 < step < _BREAK_S]
        return median(usual) if len(usual) >= _FEWEST_STEPS else None

    def _fits(self, criterion: str, label: object) -> bool:
        scales = self._scales.get(criterion, {}).values()
        if label is None:
            return bool(scales)
        return isinstance(label, str) and any(read_label(label, scale) is not None for scale in scales)

    def _put(self, key: _Key, edit: LabelEdit) -> None:
        self._edits.setdefault(key, []).append(edit)
        if edit.source in _QUEUED:
            self._queued.append(key)
        if edit.source in _COUNTED and edit.label is not None and self.counts(key[2], key[1]):
            self._first.setdefault(key[1], key[2])
            if not self.counting:
                self.counting.add(key[2])
        self._changed()

    def _remove_last(self, key: _Key) -> None:
        if self._edits.get(key):
            self._edits[key].pop()
        if key in self._queued:
            del self._queued[len(self._queued) - 1 - self._queued[::-1].index(key)]
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

    def add(self, item_id: str, criterion: str, annotator: str, edit: LabelEdit) -> None:
        """Add a label, or take back all labels of this annotator for the item; it is on disk when this returns.

        Raises
        ------
        InputError
            For an unknown item, an annotator without a name, or a label off the scale.
        CacheError
            When the line cannot be written; the label does not count then.
        """
        if item_id not in self._texts:
            raise InputError(f"item {item_id!r} not found; only items of this session can be labelled")
        if not annotator.strip():
            raise InputError("a label needs an annotator; enter a name under 'Label as'")
        if not self._fits(criterion, edit.label):
            labels = [label for scale in self._scales.get(criterion, {}).values() for label in scale.labels]
            allowed = ", ".join(dict.fromkeys(labels)) or "none until a version with this criterion has run"
            raise InputError(f"label {edit.label!r} is not on the scale of {criterion!r}; allowed: {allowed}")
        key = (item_id, criterion, annotator.strip())
        self._write(key, asdict(edit))
        self._put(key, edit)

    def undo(self, item_id: str, criterion: str, annotator: str) -> None:
        """Remove the annotator's last label of an item; the one before it is valid again."""
        key = (item_id, criterion, annotator)
        self._write(key, {"label": None, "undo": True})
        self._remove_last(key)

    def set_counting(self, annotator: str, *, counts: bool) -> None:
        """Include an annotator's labels in the figures, or leave them out."""
        _append(self.path, {"annotator": annotator, "counts": counts})
        self._count(annotator, counts=counts)

    def _write(self, key: _Key, values: Mapping[str, Any]) -> None:
        _append(self.path, dict(zip(LABEL_KEY, key, strict=True)) | {"text": self._texts[key[0]]} | dict(values))

    def add_draw(self, criterion: str, drawn: Mapping[str, float]) -> None:
        """Note the items drawn for this criterion in the next round, with the probability of each."""
        if drawn:
            _append(self.path, {"criterion": criterion, "drawn": dict(drawn)})
            self.draws.setdefault(criterion, []).append(dict(drawn))

    def of(self, item_id: str, criterion: str) -> dict[str, str]:
        """Annotator -> label of one item."""
        edits = {key[2]: edits[-1] for key, edits in self._edits.items() if key[:2] == (item_id, criterion) and edits}
        return {who: edit.label for who, edit in edits.items() if edit.label is not None}

    def labelled(self, criterion: str, annotator: str, source: str) -> set[str]:
        """The items that this annotator need not be asked again: for ``random``, those with a label that counts."""
        labels = self._that_count() if source == "random" else self._last()
        return {item for item, what, who in labels if (what, who) == (criterion, annotator)}

    def last_queued(self, criterion: str, annotator: str, source: str) -> tuple[str, str] | None:
        """The last item labelled from this source of the label queue, and its label."""
        for key in reversed(self._queued):
            edit = self._edits[key][-1]
            if key[1:] == (criterion, annotator) and edit.source == source and edit.label is not None:
                return key[0], edit.label
        return None

    def _last(self) -> dict[_Key, LabelEdit]:
        last = {key: edits[-1] for key, edits in self._edits.items() if edits}
        return {key: edit for key, edit in last.items() if edit.label is not None}

    def _that_count(self) -> dict[_Key, LabelEdit]:
        """The last label that counts of each item, criterion and annotator, unless labels were taken back since."""
        last = {
            key: next((edit for edit in reversed(edits) if edit.label is None or edit.source in _COUNTED), None)
            for key, edits in self._edits.items()
        }
        return {key: edit for key, edit in last.items() if edit is not None and edit.label is not None}

    @property
    def table(self) -> pd.DataFrame:
        """The last labels as a long table, with the columns of `LabelEdit` and `part` (see `split_labels`).

        Only labels that count decide whether a criterion has held-out labels.
        """
        return self._tables[0]

    @property
    def counted(self) -> pd.DataFrame:
        """The labels that figures use, with the columns of `table`."""
        return self._tables[1]

    @property
    def weighted(self) -> pd.DataFrame:
        """The labels that figures with weights use: `counted`, and disputed ones of other items with their `round`."""
        last, keys = self.table, ["item_id", "criterion"]
        drawn = last[(last["source"].eq("disputed") & last["round"].notna()).to_numpy()]
        known = pd.MultiIndex.from_frame(self.counted[keys].astype(str))
        others = ~pd.MultiIndex.from_frame(drawn[keys].astype(str)).isin(known)
        pairs = zip(drawn["annotator"].astype(str), drawn["criterion"].astype(str), strict=True)
        counts = np.array([self.counts(*pair) for pair in pairs], dtype=bool)
        both: pd.DataFrame = pd.concat([self.counted, drawn[others & counts]], ignore_index=True)
        return both

    @cached_property
    def _tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """`table` and `counted`, until the labels change."""
        that_count = {key: edit for key, edit in self._that_count().items() if self._is_counted(key)}
        last = self._last()
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
        )
        return both.iloc[: len(last)], both.iloc[len(last) :].reset_index(drop=True)

    @property
    def dev(self) -> pd.DataFrame:
        """The labels to tune on that figures use."""
        labels = self.counted
        return labels[labels["part"] == DEV].reset_index(drop=True)

    def newcomers(self) -> dict[str, int]:
        """Annotator -> number of labels that would count if the annotator did."""
        return dict(Counter(key[2] for key in self._that_count() if not self._is_counted(key)))

    def not_counted(self, criterion: str) -> str:
        """The labels of a criterion that figures do not use, in words; empty if they use all."""
        sources = Counter(edit.source for key, edit in self._last().items() if key[1] == criterion)
        words = ", ".join(f"{sources[name]} {name}" for name in SOURCES if name not in _COUNTED and sources[name])
        own_keys = [key for key in self._that_count() if key[1] == criterion]
        left_out = sorted({key[2] for key in own_keys if not self._is_counted(key)})
        parts = [f"{words} not counted"] * bool(words)
        parts += [f"without {', '.join(left_out)} (not in the figures yet)"] * bool(left_out)
        return " · ".join(parts)


def _edit_of(values: Mapping[str, Any]) -> LabelEdit:
    """The edit in a line of the log, or in a row of a labels table; lines of earlier versions have no source."""
    names = ("label", "source", "probability", "blind", "round")
    label, source, probability, blind, number = (values.get(name) for name in names)
    return LabelEdit(
        label if label is None else str(label),
        "given" if source is None else source if source in SOURCES else "picked",
        float(probability) if isinstance(probability, (int, float)) else None,
        blind if isinstance(blind, bool) else None,
        number if isinstance(number, int) and not isinstance(number, bool) else None,
    )


def _append(path: Path, values: dict[str, Any]) -> None:
    line = orjson.dumps(values | {"at": datetime.now(UTC).isoformat(timespec="seconds")})
    # The line break in front separates the line from one that a crash truncated.
    text = b"\n" + line + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as log:
            log.write(text)
            log.flush()
            os.fsync(log.fileno())
    except OSError as problem:
        raise CacheError(
            f"the label was not saved: {path} cannot be written ({problem.strerror}); pass another folder="
        ) from problem
