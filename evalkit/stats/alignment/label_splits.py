"""Splits of labels: one part to tune on, one held out, and a count of the looks at held-out labels.

The log of looks is a file of JSON lines beside the reply store; lines are only added.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
import pandas as pd
from pandas.api.types import is_numeric_dtype

from evalkit.core.settings import check_choice, folder_of
from evalkit.errors import CacheError, InputError, counted, listed
from evalkit.rubrics.human_labels import COUNTED, SOURCES, LabelsLike, as_labels, of_people
from evalkit.stats.result_tables import joined
from evalkit.tables.grouping import ClustersLike, Flags, by_value, clusters_of, refuse_doubles
from evalkit.tables.schemas import LABEL_KEY

PartOption = Literal["dev", "held-out"]
DEV, HELD_OUT = "dev", "held-out"
FEWEST = 50
"""Under this number of labelled items of a criterion nothing is held out."""

TUNED = "tuned on these labels"
HELD_OUT_SHARE = 0.4
_LOOK = ["rubric", "rubric_version", "criterion", "labels"]


def split_labels(labels: LabelsLike, clusters: ClustersLike | None = None) -> pd.DataFrame:
    """Labels with a column `part`: ``dev`` (60 %) to tune on, ``held-out`` (40 %) to look at last.

    The part follows from the sha256 of the cluster's name, else of the `item_id`: it is the same at every call, in
    every order and for every annotator, and stays when labels are added. Split before you tune: what you have
    looked at is no longer held out.

    Parameters
    ----------
    labels
        Long table: `item_id, criterion, annotator, label` (without `criterion` and `annotator`: of one).
    clusters
        item_id -> cluster (`group_id`), so that items that belong together are in one part.

    Returns
    -------
    DataFrame
        The labels and `part`. A criterion with under 50 labelled items is not split: all of it is ``dev``, and
        views of it read "tuned on these labels". Items that were not drawn at random (`source`) do not make it 50.

    Raises
    ------
    InputError
        When columns are missing, or an annotator labelled an item twice, as with ids 1 and 1.0.

    Examples
    --------
    >>> labels = pd.DataFrame({"item_id": [f"i{n}" for n in range(200)], "criterion": "c",
    ...                        "annotator": "ann", "label": "1"})
    >>> split_labels(labels)["part"].value_counts().to_dict()
    {'dev': 125, 'held-out': 75}
    """
    labels = of_people(labels) if isinstance(labels, pd.DataFrame) else labels
    people = as_labels(labels, criteria=())
    ids = by_value(people["item_id"].astype("str"))
    refuse_doubles(people.assign(item_id=ids)[people["label"].notna()], LABEL_KEY, "labels")
    stays, _ = drop_chosen(people.loc[people["label"].notna().to_numpy()])
    counts = stays.groupby("criterion", observed=True)["item_id"].nunique()
    is_split = people["criterion"].astype("str").map(counts.to_dict()).fillna(0).to_numpy() >= FEWEST
    part_names = np.where(would_be_held_out(ids, clusters) & is_split, HELD_OUT, DEV)
    people = people.assign(part=pd.Categorical(part_names, categories=[DEV, HELD_OUT]))
    if not isinstance(labels, pd.DataFrame) or "item_id" not in labels:
        return people
    if is_numeric_dtype(labels["item_id"]):
        people = people.assign(item_id=labels["item_id"].array)
    return people if "criterion" in labels else people.drop(columns="criterion")  # of whichever criterion is judged


def would_be_held_out(item_ids: pd.Series, clusters: ClustersLike | None) -> Flags:
    """Per item: are its labels held out where a criterion is split?"""
    names = by_value(item_ids)
    if clusters is not None:
        names = clusters_of(names, clusters).str.removeprefix("cluster ")
    places = {name: place(name) for name in names.unique()}
    return np.asarray(names.map(places) >= 1 - HELD_OUT_SHARE, dtype=bool)


def place(name: str) -> float:
    """A number from 0 to 1 that looks random, and is always the same."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64


def drop_chosen(said: pd.DataFrame, *, weighted: bool = False) -> tuple[pd.DataFrame, str | None]:
    """The labels that may stand for other items, and a note that counts the others by how their items were chosen.

    With `weighted`, disputed items that have `round` and `probability` may stand for others too, by their weight.
    """
    if "source" not in said.columns:
        return said, None
    sources = said["source"].astype(object)
    is_chosen = sources.isin(SOURCES[len(COUNTED) :]).to_numpy()
    if weighted and "round" in said.columns:
        is_chosen = is_chosen & ~(sources.eq("disputed") & said["round"].notna()).to_numpy()
    if not is_chosen.any():
        return said, None
    counts = sources[is_chosen].value_counts()
    which = ", ".join(f"{counts[name]} {name}" for name in SOURCES if name in counts)
    note = f"{counted(int(is_chosen.sum()), 'label')} of items that were not drawn at random not used ({which})"
    return said.loc[~is_chosen], note


def take_part(said: pd.DataFrame, part: str | None, *, weighted: bool = False) -> tuple[pd.DataFrame, str | None]:
    """The labels of a part that may stand for other items (`drop_chosen`), and a note on them.

    Without `part`, labels that are split are those of ``dev``, so that held-out labels are not used by mistake.

    Raises
    ------
    ConfigError
        For an unknown part.
    InputError
        When the labels carry no part, or none of them is held out.
    """
    if part is not None:
        check_choice("part", part, (DEV, HELD_OUT))
    said, chosen = drop_chosen(said, weighted=weighted)
    if "part" not in said.columns:
        if part is not None:
            raise InputError(f"part={part!r} needs labels with a column 'part'; split_labels(labels) adds it")
        return said, chosen
    wrong = set(said["part"].dropna().astype(str)) - {DEV, HELD_OUT}
    if wrong or said["part"].isna().any():
        raise InputError(
            f"column 'part' of the labels contains {listed(sorted(wrong) or ['NA'])}; allowed: dev, held-out"
        )
    if part == HELD_OUT:
        said = said.loc[(said["part"] == HELD_OUT).to_numpy()]
        if not len(said):
            raise InputError(
                f"no labels are held out, because a criterion needs {FEWEST} labelled items to be split; label more "
                "items, or use the figures on all labels and treat them as optimistic"
            )
        return said, joined(["held-out labels", chosen])
    return said.loc[(said["part"] == DEV).to_numpy()], joined([TUNED, chosen])


def count_look(
    made: pd.DataFrame, said: pd.DataFrame, cache: str | Path | None = None, *, against: str = ""
) -> pd.DataFrame:
    """Record a look at these figures, and add the counts of looks to the table.

    Parameters
    ----------
    made
        A table with `rubric`, `rubric_version`, `criterion`.
    said
        The held-out labels.
    cache
        Where the file ``held-out-looks.jsonl`` is; by default the folder of the reply store.
    against
        The rubric and version that the figures compare with, if they do.

    Returns
    -------
    DataFrame
        `made` with `n_looks` at labels of the criterion on these items, this one included
        (the same figures again are one look), and `n_versions` of the rubric.

    Raises
    ------
    CacheError
        When the look cannot be written: one that is not counted is not shown.
    """
    keys = made[_LOOK[:3]].astype(str).drop_duplicates()
    by_criterion = said.groupby("criterion", observed=True)["item_id"]
    sets = {str(name): ItemSet.of(str(name), item_ids) for name, item_ids in by_criterion}
    looks = [dict(zip(_LOOK, (*row, sets[row[2]].key), strict=True)) for row in keys.values.tolist() if row[2] in sets]
    looks = [
        look | ({"figures": f"{look[_LOOK[0]]}@{look[_LOOK[1]]} against {against}"} if against else {})
        for look in looks
    ]
    append_log(cache, looks, sets.values())
    log = held_out_looks(cache)
    log = log.loc[log["labels"].isin([items.key for items in sets.values()])]
    versions = log.groupby(["rubric", "criterion"])["rubric_version"].nunique()
    index = pd.MultiIndex.from_frame(made[["rubric", "criterion"]].astype(str))
    lines = read_log(cache)
    numbers = {name: len(looks_at(lines, name, items)) for name, items in sets.items()}
    n_looks = made["criterion"].astype(str).map(numbers).fillna(0).astype("int64")
    n_versions = versions.reindex(index).fillna(0).astype("int64")
    return made.assign(n_looks=n_looks.to_numpy(), n_versions=n_versions.to_numpy())


def held_out_looks(cache: str | Path | None = None) -> pd.DataFrame:
    """How often held-out labels were looked at: a row per `rubric, rubric_version, criterion, labels`, by first look.

    Each look takes something from them: the best of many versions on one set of labels looks better than it is.
    `labels` marks the set of held-out items; when labels are added, a new set begins.
    """
    looks = [line for line in read_log(cache) if all(isinstance(line.get(name), str) for name in (*_LOOK, "at"))]
    frame = pd.DataFrame(looks, columns=[*_LOOK, "at"], dtype="str")
    return frame.groupby(_LOOK, sort=False)["at"].agg(n_looks="size", first="min", last="max").reset_index()


_FILE = "held-out-looks.jsonl"


@dataclass(frozen=True, slots=True)
class ItemSet:
    """The labelled items of a criterion: a key, and a short hash of each `item_id`, in the order of the hashes."""

    key: str
    items: tuple[str, ...]

    @classmethod
    def of(cls, criterion: str, ids: Iterable[Any]) -> ItemSet:
        """The set of these items; an `item_id` may be there twice."""
        names = sorted(set(map(str, ids)))
        key = hashlib.sha256("\n".join([criterion, *names]).encode()).hexdigest()[:12]
        return cls(key, tuple(sorted(map(item_hash, names))))


def item_hash(item_id: str) -> str:
    """How the log names an item."""
    return hashlib.sha256(item_id.encode()).hexdigest()[:12]


def read_log(cache: str | Path | None) -> list[dict[str, Any]]:
    """All lines in order, without blank ones and ones that a crash cut short.

    Raises
    ------
    CacheError
        When the file cannot be read.
    """
    path = folder_of(cache) / _FILE
    try:
        lines = path.read_bytes().splitlines() if path.exists() else []
    except OSError as problem:
        raise CacheError(
            f"{path}, which lists the uses of held-out labels, cannot be read: {problem.strerror}"
        ) from problem
    return [line for text in lines if (line := _line(text)) is not None]


def _line(text: bytes) -> dict[str, Any] | None:
    try:
        line = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return line if isinstance(line, dict) else None


def append_log(cache: str | Path | None, lines: Iterable[dict[str, Any]], sets: Iterable[ItemSet] = ()) -> None:
    """Add lines with the time, and the items of `sets` that the log does not have; they are on disk when this returns.

    Raises
    ------
    CacheError
        When they cannot be written.
    """
    path, now = folder_of(cache) / _FILE, datetime.now(UTC).isoformat(timespec="seconds")
    logged = {line.get("items_of") for line in read_log(cache)}
    new = [{"items_of": item_set.key, "items": item_set.items} for item_set in sets if item_set.key not in logged]
    # One write to a file opened for appending is never mixed with another's; the line break in front sets the
    # lines apart from a line that a crash cut short.
    text = b"".join(b"\n" + orjson.dumps(line | {"at": now}) + b"\n" for line in [*new, *lines])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:
            if (file.write(text) or 0) < len(text):
                raise OSError(errno.ENOSPC, "the disk is full")
            os.fsync(file.fileno())
    except OSError as problem:
        raise CacheError(
            "the figures on held-out labels are not shown: evalkit counts how often they are viewed, and cannot "
            f"write the count to {path} ({problem.strerror}); name another folder with EVALKIT_CACHE or cache="
        ) from problem


def looks_at(lines: Iterable[dict[str, Any]], criterion: str, items: ItemSet) -> dict[tuple[Any, ...], int]:
    """All looks at labels of a criterion that share an item with these, by what was seen -> number, from 1.

    Whoever looked, and with whichever rubric: a figure on screen or of a function. The same figures of the same labels
    are one look, also under another name of the version (*Save version*).
    """
    item_keys, sets, numbers = set(items.items), dict[str, tuple[str, ...]](), dict[tuple[Any, ...], int]()
    for line in lines:
        if "items_of" in line:
            sets[line["items_of"]] = line["items"]
        elif line.get("criterion") != criterion or "labels" not in line or "kept" in line:
            continue
        elif not item_keys.isdisjoint(sets.get(line["labels"], item_keys)):
            numbers.setdefault(look_key(line), len(numbers) + 1)
    return numbers


def look_key(line: dict[str, Any]) -> tuple[Any, ...]:
    """What a line of the log looked at: labels, and figures or a version."""
    if "figures" in line:
        return line["labels"], "figures", line["figures"]
    return line["labels"], line.get("rubric"), line.get("rubric_version")
