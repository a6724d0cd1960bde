"""The label queue: which item a person labels next, and how it was drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evalkit.core.settings import check_choice
from evalkit.notebook.label_log import LabelLog

_MOST_DRAWN, _FEWEST_DRAWN = 50, 10
_FLOOR = 0.3


@dataclass(frozen=True, slots=True)
class Turn:
    """The item to label next, or None; `n_done` of the `n` items drawn are labelled; `undo` is the last label given.

    `n_skipped` items were skipped: they come again at the end.

    Attributes
    ----------
    probability
        With which a disputed item was drawn.
    labelled_before
        Whether the annotator labelled the item before, outside the random order.
    """

    item_id: str | None
    probability: float | None
    labelled_before: bool
    n_done: int
    n: int
    undo: tuple[str, str] | None
    n_skipped: int = 0


class LabelQueue:
    """Items to label one after another.

    Attributes
    ----------
    source
        ``random`` or ``disputed``.
    blind
        Whether the jury stays hidden until the label is given.
    is_open
        Whether the queue is on screen.
    """

    def __init__(self, log: LabelLog, item_ids: Iterable[str]) -> None:
        self.source, self.blind, self.is_open = "random", True, False
        self._log, self._order = log, random_order(item_ids)
        self._skipped: list[tuple[str, str, str]] = []

    def set(self, source: str, *, blind: bool, is_open: bool) -> None:
        """Choose the source, and whether to label blind; ConfigError for an unknown source."""
        check_choice("source", source, ("random", "disputed"))
        self.source, self.blind, self.is_open = source, blind, is_open

    def skip(self, item_id: str, criterion: str, annotator: str) -> None:
        """Ask this annotator for the item again after all others, until the kernel restarts."""
        key = item_id, criterion, annotator
        self._skipped = [*(one for one in self._skipped if one != key), key]

    def turn(self, criterion: str, annotator: str, disagreements: Mapping[str, float], version: str) -> Turn:
        """What this annotator labels next, given the disagreement of judges at the version shown."""
        drawn = dict.fromkeys(self._order) if self.source == "random" else draw_disputed(disagreements, version)
        done = self._log.labelled(criterion, annotator, self.source)
        skipped = [one[0] for one in self._skipped if one[1:] == (criterion, annotator)]
        last = [item for item in skipped if item in drawn and item not in done]
        item_id = next((item for item in drawn if item not in done and item not in last), last[0] if last else None)
        return Turn(
            item_id,
            drawn.get(item_id or ""),
            item_id is not None and annotator in self._log.of(item_id, criterion),
            sum(item in done for item in drawn),
            len(drawn),
            self._log.last_queued(criterion, annotator, self.source),
            len(last),
        )


def random_order(item_ids: Iterable[str]) -> list[str]:
    """The items in a random order that is the same at every start, for all annotators and criteria.

    Items that are added later fall between the others.

    Examples
    --------
    >>> random_order("abcde") == random_order("edcba")
    True
    """
    return sorted(item_ids, key=lambda item: _place("random", item))


def draw_disputed(disagreements: Mapping[str, float], version: str) -> dict[str, float | None]:
    """Items drawn by the disagreement of judges, and the probability with which each was drawn.

    Each item is drawn independently (Poisson sampling), with a probability that grows with its disagreement. No item
    has probability 0, so that a figure could weight the labels by its inverse.

    Parameters
    ----------
    disagreements
        item_id -> disagreement, 0-1.
    version
        Every version has a draw of its own, which is always the same.

    Returns
    -------
    dict
        item_id -> probability, in random order: whoever stops early has labelled a random part of the draw. Empty
        where judges never disagree.

    Examples
    --------
    >>> sorted(draw_disputed({"a": 1.0, "b": 1.0}, "v1").items()), draw_disputed({"a": 0.0}, "v1")
    ([('a', 1.0), ('b', 1.0)], {})
    """
    total = sum(disagreements.values())
    if not total:
        return {}
    n_disputed = sum(value > 0 for value in disagreements.values())
    n_expected = min(_MOST_DRAWN, max(_FEWEST_DRAWN, n_disputed), len(disagreements))
    shares = {item: _FLOOR / len(disagreements) + (1 - _FLOOR) * value / total for item, value in disagreements.items()}
    probabilities = {item: min(1.0, n_expected * share) for item, share in shares.items()}
    places = {item: _place(version, item) / probability for item, probability in probabilities.items()}
    return {item: probabilities[item] for item in sorted(places, key=places.__getitem__) if places[item] < 1}


def _place(kind: str, item: str) -> float:
    """A number from 0 to 1 that looks random, and is always the same."""
    return int.from_bytes(hashlib.sha256(f"label queue {kind} {item}".encode()).digest()[:8], "big") / 2**64
