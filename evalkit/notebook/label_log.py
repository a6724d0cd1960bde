"""Human labels entered in the tuner: a log file of every edit, next to the items."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pandas as pd

from evalkit.errors import CacheError, InputError
from evalkit.rubrics import Rubric, Scale
from evalkit.stats.alignment.label_splits import DEV, split_labels
from evalkit.stats.alignment.label_values import read_label, with_codes
from evalkit.tables import LABEL_KEY, categorical, table

ENOUGH_LABELS = 10
"""If an annotator has at least so many labels of a criterion, annotators with fewer do not count in the figures."""

_Key = tuple[str, str, str]
_FIELDS = ("item_id", "criterion", "annotator", "text")


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

    Parameters
    ----------
    path
        The log file (JSON lines); it may be missing.
    texts
        item_id -> hash of the text that is labelled.
    given
        A long labels table, or None.
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
        self._labels: dict[_Key, str] = {}
        self.n_other_texts = self.n_edits = 0
        self._table: pd.DataFrame | None = None
        if given is not None:
            known = given[given["item_id"].isin(list(texts)) & given["criterion"].isin(rubric.names)]
            rows = with_codes(known, rubric)[[*LABEL_KEY, "label"]].astype(str)
            self._labels = {row[:3]: row[3] for row in rows.itertuples(index=False, name=None)}

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
            if not isinstance(edit, dict) or not all(isinstance(edit.get(name), str) for name in _FIELDS):
                continue
            label = edit.get("label")
            if self._texts.get(edit["item_id"]) != edit["text"] or not self._fits(edit["criterion"], label):
                self.n_other_texts += 1
                continue
            self._put((edit["item_id"], edit["criterion"], edit["annotator"]), label)

    def _fits(self, criterion: str, label: object) -> bool:
        scales = self._scales.get(criterion, {}).values()
        if label is None:
            return bool(scales)
        return isinstance(label, str) and any(read_label(label, scale) is not None for scale in scales)

    def _put(self, key: _Key, label: str | None) -> None:
        self._table = None
        self.n_edits += 1
        if label is None:
            self._labels.pop(key, None)
        else:
            self._labels[key] = label

    def add(self, item_id: str, criterion: str, annotator: str, label: str | None) -> None:
        """Add a label, or take it back with None; it is on disk when this returns.

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
        if not self._fits(criterion, label):
            labels = [label for scale in self._scales.get(criterion, {}).values() for label in scale.labels]
            allowed = ", ".join(dict.fromkeys(labels)) or "none until a version with this criterion has run"
            raise InputError(f"label {label!r} is not on the scale of {criterion!r}; allowed: {allowed}")
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
            rows = [(*key, label) for key, label in self._labels.items()]
            columns = list(zip(*rows, strict=True)) if rows else [()] * 4
            values = {
                name: list(column) if name == "item_id" else categorical(list(column))
                for name, column in zip([*LABEL_KEY, "label"], columns, strict=True)
            }
            self._table = split_labels(table("labels", values), self._clusters)
        return self._table

    @property
    def dev(self) -> pd.DataFrame:
        """The labels to tune on."""
        labels = self.table
        return labels[labels["part"] == DEV].reset_index(drop=True)


def _append(path: Path, line: bytes) -> None:
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
