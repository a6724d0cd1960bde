"""The label book: human labels, and every edit of them, kept in a file beside the items."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pandas as pd

from evalkit.errors import CacheError, InputError
from evalkit.rubrics import Rubric, Scale
from evalkit.stats.alignment import split_labels
from evalkit.stats.alignment.human_labels import coded, reading
from evalkit.stats.alignment.label_splits import DEV
from evalkit.tables import LABEL_KEY, categorical, table

__all__ = ["ENOUGH_LABELS", "LabelBook", "counting", "fitting"]

ENOUGH_LABELS = 10
"""Labels of a criterion from which on an annotator counts in the figures, beside one who has that many."""

_Key = tuple[str, str, str]
_FIELDS = ("item_id", "criterion", "annotator", "text")


def fitting(labels: pd.DataFrame, *scales: Scale) -> pd.DataFrame:
    """The labels that mean something on every one of the scales: those of a level that an edit took away do not."""
    known = {text: all(reading(str(text), scale) is not None for scale in scales) for text in labels["label"].unique()}
    return labels[labels["label"].map(known).to_numpy(dtype=bool)]


def counting(labels: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The labels of those who gave enough of them, and who did not yet; all, where nobody did.

    A figure against people is a mean over annotators: somebody's first label would weigh as much as all of another's.
    """
    given = labels["annotator"].astype(str).value_counts()
    few = sorted(given.index[(given > 0) & (given < ENOUGH_LABELS)])
    if len(few) == (given > 0).sum():
        return labels, []
    return labels[~labels["annotator"].astype(str).isin(few).to_numpy()], few


class LabelBook:
    """The labels that were given, with the edits made since laid over them.

    An edit is one line of a file, written and synced before it counts; lines are only ever added. Each holds a hash
    of the text that was labelled: a label given to another text under the same id is left out, and counted in `strays`.

    Parameters
    ----------
    path
        The file of edits, JSON lines; it need not exist yet.
    texts
        item_id -> hash of what the label is about.
    given
        The long labels table, or None.
    rubric
        On its scales labels are checked; `know` adds those of its versions.
    clusters
        item_id -> cluster, so that what belongs together is in one part.

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
        self.know(rubric)
        self._labels: dict[_Key, str] = {}
        self.strays = self.n_edits = 0
        self._table: pd.DataFrame | None = None
        if given is not None:
            known = given[given["item_id"].isin(list(texts)) & given["criterion"].isin(rubric.names)]
            rows = coded(known, rubric)[[*LABEL_KEY, "label"]].astype(str)
            self._labels = {
                (item, criterion, who): label for item, criterion, who, label in rows.itertuples(index=False)
            }

    def know(self, rubric: Rubric) -> None:
        """Take labels of the criteria and scales of this version too."""
        for criterion in rubric.criteria:
            scale = criterion.scale
            self._scales.setdefault(criterion.name, {})[f"{scale.level} {scale.to_json()}"] = scale

    def read(self) -> None:
        """Take in the file of edits, once the versions are known."""
        try:
            lines = self.path.read_bytes().splitlines() if self.path.exists() else []
        except OSError as problem:
            raise CacheError(f"the labels in {self.path} cannot be read: {problem.strerror}") from problem
        for line in lines:
            try:
                edit = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue  # blank, or cut short by a crash
            if not isinstance(edit, dict) or not all(isinstance(edit.get(name), str) for name in _FIELDS):
                continue
            label = edit.get("label")
            if self._texts.get(edit["item_id"]) != edit["text"] or not self._fits(edit["criterion"], label):
                self.strays += 1
                continue
            self._put((edit["item_id"], edit["criterion"], edit["annotator"]), label)

    def _fits(self, criterion: str, label: object) -> bool:
        scales = self._scales.get(criterion, {}).values()
        if label is None:
            return bool(scales)
        return isinstance(label, str) and any(reading(label, scale) is not None for scale in scales)

    def _put(self, key: _Key, label: str | None) -> None:
        self._table = None
        self.n_edits += 1
        if label is None:
            self._labels.pop(key, None)
        else:
            self._labels[key] = label

    def give(self, item_id: str, criterion: str, annotator: str, label: str | None) -> None:
        """Write a label down, or take it back with None; it is on disk when this returns.

        Raises
        ------
        InputError
            For an unknown item, an annotator without a name, or a label off the scale.
        CacheError
            When the line cannot be written; the label does not count then.
        """
        if item_id not in self._texts:
            raise InputError(f"there is no item {item_id!r} to label")
        if not annotator.strip():
            raise InputError("a label needs the name of who gives it: fill in the annotator")
        if not self._fits(criterion, label):
            known = [label for scale in self._scales.get(criterion, {}).values() for label in scale.labels]
            allowed = ", ".join(dict.fromkeys(known)) or "none before it was run"
            raise InputError(f"label {label!r} is not on the scale of {criterion!r}; allowed are {allowed}")
        key = (item_id, criterion, annotator.strip())
        now = datetime.now(UTC).isoformat(timespec="seconds")
        values = dict(zip(LABEL_KEY, key, strict=True)) | {"label": label, "text": self._texts[item_id], "at": now}
        _append(self.path, orjson.dumps(values))
        self._put(key, label)

    def of(self, item_id: str, criterion: str) -> dict[str, str]:
        """Annotator -> label of one item."""
        return {who: label for (item, what, who), label in self._labels.items() if (item, what) == (item_id, criterion)}

    @property
    def table(self) -> pd.DataFrame:
        """The long labels table, with the column `part` (``dev``, ``held-out``; see `split_labels`)."""
        if self._table is None:
            self._table = self._made()
        return self._table

    def _made(self) -> pd.DataFrame:
        rows = [(*key, label) for key, label in self._labels.items()]
        columns = list(zip(*rows, strict=True)) if rows else [()] * 4
        names = [*LABEL_KEY, "label"]
        values = {
            name: list(column) if name == "item_id" else categorical(list(column))
            for name, column in zip(names, columns, strict=True)
        }
        return split_labels(table("labels", values), self._clusters)

    @property
    def dev(self) -> pd.DataFrame:
        """The labels to tune on."""
        labels = self.table
        return labels[labels["part"] == DEV].reset_index(drop=True)


def _append(path: Path, line: bytes) -> None:
    # The line break in front sets the line apart from one that a crash cut short.
    text = b"\n" + line + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        place = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            if os.write(place, text) < len(text):
                raise OSError(errno.ENOSPC, "the disk is full")
            os.fsync(place)
        finally:
            os.close(place)
    except OSError as problem:
        raise CacheError(
            f"the label cannot be written to {path} ({problem.strerror}), and does not count; name another folder="
        ) from problem
