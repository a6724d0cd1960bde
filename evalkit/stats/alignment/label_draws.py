"""Which items to label next and which to show as examples; the weights that drawn labels have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from evalkit.core.settings import check_choice
from evalkit.errors import ConfigError, InputError, counted, listed
from evalkit.rubrics.human_labels import LabelsLike, as_labels
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.agreement.disagreements import disagreement
from evalkit.stats.alignment.label_splits import DEV, place, split_labels
from evalkit.stats.alignment.label_values import HasVotes, labels_for, of_items
from evalkit.stats.plain_tables import take_rows
from evalkit.stats.result_tables import check_whole_numbers, result_table
from evalkit.tables.grouping import ClustersLike, Floats, clusters_of
from evalkit.tables.items import ItemsLike, as_items
from evalkit.tables.schemas import VOTE_KEY, empty

DrawStrategy = Literal["random", "uncertainty", "disagreement", "balanced", "examples"]

FLOOR = 0.3
"""This share of a draw is spread evenly over all items, so that none has a probability near 0."""

_COLUMNS = ("text: item_id criterion; count: round; number: probability",)


def next_labels(
    judged: HasVotes | ItemsLike,
    n: int = 20,
    *,
    labels: LabelsLike | None = None,
    strategy: DrawStrategy = "random",
    clusters: ClustersLike | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """About `n` items to label next for each criterion, with their probabilities; or labelled ones to show as examples.

    Each item is drawn independently (Poisson sampling) with π = min(1, n (.3/N + .7 size/Σ size)) of the N items
    without a label. Join `probability` and `round` to the labels: `corpus_estimate` weights by them, so that its
    figures stay unbiased however the items were drawn. Expect little: with up to 100 labels, drawing by uncertainty
    made the error of a mean between 6 % larger and 16 % smaller (``benchmarks/few_labels.py``).

    Parameters
    ----------
    judged
        Votes (a plain table needs `item_id`, `judge`, and `score` or `label`), or an evaluation. For ``examples`` the
        items, with the inputs to show, or an evaluation, whose items these are.
    n
        Number of items to expect for each criterion; of ``examples``, the most.
    labels
        The labels that exist, as in `align`, with `probability` and `round` if this function drew them; their items are
        not drawn again. Those without `round` are round 0.
    strategy
        The size of an item: ``random`` (all equal); ``uncertainty`` (√(1 − `self_agreement` + 1/(k + 1)) with k
        samples, mean over judges: needs two samples); ``disagreement`` (√(`disagreement` + 1/(J + 1)) with J judges:
        needs two); ``balanced`` (1 / number of items with the same label: rare labels are drawn as often as others).

        ``examples`` picks labelled items for the prompt (`Rubric.with_examples`), never one that is held out: labels
        without a column `part` are split first (`split_labels`). The levels take turns. An item counts with the label
        that most annotators gave; a tie is left out.
    clusters
        item_id -> cluster: the draw is spread over the clusters, with the same probabilities. For criteria that belong
        to items: ``rows.set_index("item_id")["of_item"]`` of the rows of `explode_criteria`.
    seed
        Another seed draws other items; the same call always draws the same.

    Returns
    -------
    DataFrame
        `item_id`, `criterion`, `round` (one more than the highest in the labels), `probability` (above 0, at most 1),
        in random order: whoever stops early has labelled a smaller draw of the same kind, and its figures hold. Of
        ``examples``: `criterion`, `label`, and the columns of the items.

    Raises
    ------
    InputError
        When all items are labelled, or the labels are not on the items' criteria; for ``examples``, when no label is
        of the part ``dev``, or a labelled item is not among the items.
    ConfigError
        For an unknown strategy, or one that the votes give no size for.

    Examples
    --------
    >>> votes = pd.DataFrame({"item_id": range(40), "judge": "j", "score": [int(item < 4) for item in range(40)],
    ...                       "level": "ordinal", "scale": '{"codes":[0,1],"better":"high"}'})
    >>> sorted(next_labels(votes, 10, strategy="balanced")["probability"].round(3).unique().tolist())
    [0.172, 0.95]
    """
    check_choice("strategy", strategy, get_args(DrawStrategy))
    check_whole_numbers("n", n)
    if strategy == "examples":
        return _examples(judged, labels, n, seed, clusters)
    votes: Any = judged if isinstance(judged, pd.DataFrame) else getattr(judged, "votes", judged)
    frame, keys = take_rows(votes, "votes", need=[*VOTE_KEY, "label", "level", "scale"], function="next_labels")
    criteria = list(map(str, frame["criterion"].unique()))
    people = empty("labels") if labels is None else labels_for(judged, labels, criteria)
    people = of_items(people, frame)
    rows = []
    for criterion in frame["criterion"].unique():
        of_criterion = frame.loc[(frame["criterion"] == criterion).to_numpy()]
        before = people.loc[((people["criterion"] == criterion) & people["label"].notna()).to_numpy()]
        number = 1 if before.empty else int(before.get("round", pd.Series([0])).fillna(0).max()) + 1
        sizes = _sizes(of_criterion, strategy).drop(before["item_id"].astype(str).unique(), errors="ignore")
        if sizes.empty:
            raise InputError(f"every item of criterion {criterion!r} is labelled; nothing is left to draw")
        by_item, head = dict(zip(map(str, sizes.index), sizes, strict=True)), {"criterion": criterion, "round": number}
        chances = poisson_draw(by_item, n, f"next label {seed} {number}", clusters)
        rows += [head | {"item_id": item, "probability": chance} for item, chance in chances.items()]
    return keys.restore(result_table(rows, *_COLUMNS).astype({"item_id": "str"}))


def _sizes(votes: pd.DataFrame, strategy: DrawStrategy) -> pd.Series:
    """The size of each item of one criterion, 0 or more."""
    items = pd.Index(votes["item_id"].astype(str).unique())
    if strategy == "random":
        return pd.Series(1.0, index=items)
    if strategy == "balanced":
        label = aggregate(votes).set_index("item_id")["label"].astype(object)
        if label.isna().all():
            raise ConfigError(
                "strategy='balanced' needs items with a label, and there are none; a table with its own `level` "
                "and `scale` has labels, or use 'random'"
            )
        label = label.fillna("no label")
        return (1 / label.map(label.value_counts())).reindex(items)
    if strategy == "uncertainty":
        if "self_agreement" not in votes or "n_scored" not in votes:
            raise ConfigError(
                "strategy='uncertainty' needs votes of several samples, and the table has no `self_agreement`; "
                "pass ek.vote(judgments) of a table with a column `sample`, or use 'random'"
            )
        per_item = votes.astype({"item_id": str}).groupby("item_id")[["self_agreement", "n_scored"]].mean()
        contradiction = 1 - per_item["self_agreement"]
    else:
        per_item = disagreement(votes).set_index("item_id")
        contradiction = per_item["disagreement"]
    if not contradiction.gt(0).any():
        condition = "two samples of a judge differ" if strategy == "uncertainty" else "two judges differ"
        raise ConfigError(f"strategy={strategy!r} needs items on which {condition}, and there are none; use 'random'")
    return (contradiction.fillna(0.5) + 1 / (per_item["n_scored"] + 1)).pow(0.5).reindex(items)


def poisson_draw(
    sizes: Mapping[str, float], n: float, name: str, clusters: ClustersLike | None = None
) -> dict[str, float]:
    """Items drawn independently of each other, and the probability with which each was drawn, in random order.

    With `clusters`, at equal steps along the items, which are in random order within clusters in random order.

    Parameters
    ----------
    sizes
        item -> size, 0 or more; where all are 0 they count as equal.
    n
        The number of items to expect; fewer where items are drawn for certain.
    name
        Of the draw, which is always the same; another name draws other items.

    Examples
    --------
    >>> poisson_draw({"a": 1.0, "b": 1.0}, 2, "first")
    {'b': 1.0, 'a': 1.0}
    """
    total = sum(sizes.values())
    if not total:
        sizes, total = dict.fromkeys(sizes, 1.0), float(len(sizes))
    shares = {item: FLOOR / len(sizes) + (1 - FLOOR) * size / total for item, size in sizes.items()}
    chances = {item: min(1.0, n * share) for item, share in shares.items()}
    places = {item: place(f"{name} {item}") / chance for item, chance in chances.items()}
    if clusters is None:
        return {item: chances[item] for item in sorted(places, key=places.__getitem__) if places[item] < 1}
    units = dict(zip(chances, clusters_of(pd.Series([*chances], dtype="str"), clusters), strict=True))
    line = sorted(chances, key=lambda item: (place(f"{name} cluster {units[item]}"), place(f"{name} {item}")))
    ends = np.cumsum([chances[item] for item in line]) + place(f"{name} start")
    starts = np.concatenate([[place(f"{name} start")], ends[:-1]])
    picked = [item for item, start, end in zip(line, starts, ends, strict=True) if math.floor(start) < math.floor(end)]
    return {item: chances[item] for item in sorted(picked, key=lambda item: place(f"{name} order {item}"))}


def _examples(judged: Any, labels: LabelsLike | None, n: int, seed: int, clusters: ClustersLike | None) -> pd.DataFrame:
    """Labelled items of the part ``dev``, the levels by turns."""
    is_evaluation = hasattr(judged, "votes") and not isinstance(judged, pd.DataFrame)
    frame = as_items(judged.items if is_evaluation else judged)
    labels = judged.labels if labels is None and is_evaluation else labels
    people = empty("labels") if labels is None else as_labels(labels, frame)
    people = people if "part" in people.columns else split_labels(people, clusters)
    people = people.loc[people["part"].eq(DEV).to_numpy() & people["label"].notna().to_numpy()]
    if people.empty:
        raise InputError(
            "no labels to pick examples from: there are none, or all are held out; pass labels of part 'dev'"
        )
    counts = people[["criterion", "item_id", "label"]].astype(str).value_counts().rename("n").reset_index()
    modes = counts.loc[counts["n"] == counts.groupby(["criterion", "item_id"])["n"].transform("max")]
    modes = modes.drop(columns="n").drop_duplicates(["criterion", "item_id"], keep=False)  # a tie has several
    if lost := {*modes["item_id"].astype(str)} - {*frame["item_id"].astype(str)}:
        raise InputError(f"{counted(len(lost), 'labelled item')} not found among the items: {listed(sorted(lost))}")
    modes = modes.assign(_place=[place(f"example {seed} {item}") for item in modes["item_id"]]).sort_values("_place")
    modes["_turn"] = modes.groupby(["criterion", "label"]).cumcount()
    chosen = modes.sort_values(["criterion", "_turn", "_place"]).groupby("criterion").head(n)
    return chosen.drop(columns=["_place", "_turn"]).merge(frame, on="item_id", how="left").reset_index(drop=True)


def label_weights(said: pd.DataFrame, criterion: str, items: pd.Index, *, dev: pd.DataFrame | None = None) -> Floats:
    """The weights of the labelled items of a criterion, 0 for the others; they add up to 1.

    In each round, items drawn with probability π have weights in proportion to 1/π, which add up to the share of the
    items that had no label before; those labelled before share the rest. Rounds are averaged by their numbers of
    labels. Items with labels in `dev` count as labelled before; those that are held out stand for them.

    Raises
    ------
    InputError
        When a probability is not above 0 and at most 1, is missing for some items of a round, or an item has several.
    """
    draws = _drawn_items(said, criterion)
    _check_probabilities(draws, criterion)
    of_items = draws.set_index("item_id").reindex(items.astype(str))
    has_label = np.asarray(items.astype(str).isin(draws["item_id"]))
    number = of_items["round"].fillna(0).to_numpy(dtype=np.float64)
    inverse = 1 / of_items["probability"].fillna(1).to_numpy(dtype=np.float64)
    dev_draws = _drawn_items(said.iloc[:0] if dev is None else dev, criterion)
    rounds = dev_draws.loc[dev_draws["item_id"].isin(items.astype(str)), "round"].astype("float64").fillna(0).to_numpy()
    weights, before = np.zeros(len(items)), np.zeros(len(items), dtype=bool)
    for draw_round in np.unique(number[has_label]):
        now = has_label & (number == draw_round)
        raw = np.where(now, inverse, 0.0)
        n_before = before.sum() + (rounds < draw_round).sum() if before.any() else 0
        weight = raw / raw.sum() * (len(items) - n_before) / len(items)
        weight = np.where(before, n_before / max(before.sum(), 1) / len(items), weight)
        weights += weight * now.sum() / has_label.sum()
        before |= now
    return weights


def _drawn_items(said: pd.DataFrame, criterion: str) -> pd.DataFrame:
    """The labelled items of a criterion, with the round and the probability of their draw."""
    draws = said.loc[(said["criterion"] == criterion).to_numpy() & said["label"].notna().to_numpy()]
    draws = draws.assign(**{name: draws.get(name, np.nan) for name in ("round", "probability")})
    for name in ("round", "probability"):  # may be texts, as from a file
        numbers = pd.to_numeric(draws[name].astype(object), errors="coerce").astype("float64")
        if (wrong := numbers.isna() & draws[name].notna()).any():
            item, cell = draws.loc[wrong, ["item_id", name]].iloc[0]
            raise InputError(
                f"item {str(item)!r}, criterion {criterion!r}: the {name!r} is {cell!r}; it must be a number, as "
                "next_labels gave it"
            )
        draws = draws.assign(**{name: numbers})
    return draws[["item_id", "round", "probability"]].astype({"item_id": str}).drop_duplicates()


def _check_probabilities(own: pd.DataFrame, criterion: str) -> None:
    if (double := own["item_id"].duplicated()).any():
        raise InputError(
            f"the labels of item {own.loc[double, 'item_id'].iloc[0]!r}, criterion {criterion!r}, differ in "
            "probability or round; an item is drawn once"
        )
    chance = own["probability"].astype("float64")
    wrong = chance.notna() & ~((chance > 0) & (chance <= 1))
    partly = chance.isna().groupby(own["round"].fillna(0)).transform("nunique") > 1
    if wrong.any() or partly.any():
        item = own.loc[wrong if wrong.any() else partly & chance.isna(), "item_id"].iloc[0]
        why = f"is {chance[wrong].iloc[0]:g}" if wrong.any() else "is missing, and others of its round have one"
        raise InputError(
            f"item {item!r}, criterion {criterion!r}: the 'probability' {why}; it must be above 0 and at most 1. "
            "Leave out labels of items chosen by hand, because such items do not represent others"
        )
