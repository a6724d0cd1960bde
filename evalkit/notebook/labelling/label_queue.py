"""The label queue: which item a person labels next, and how it was drawn."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pandas as pd

from evalkit.core.settings import check_choice
from evalkit.errors import counted
from evalkit.evaluation import Evaluation
from evalkit.notebook.labelling.label_log import LabelLog, labels_on_scale
from evalkit.rubrics import Criterion
from evalkit.stats import corpus_estimate
from evalkit.stats.alignment.corpus_estimates import FEWEST, FigureOption
from evalkit.stats.alignment.label_draws import poisson_draw
from evalkit.stats.alignment.label_splits import HELD_OUT, place

_MOST_DRAWN, _FEWEST_DRAWN = 50, 10


@dataclass(frozen=True, slots=True)
class Turn:
    """The item to label next, or None; `n_done` of the `n` items drawn are labelled; `undo` is the last label given.

    `n_skipped` items were skipped: they come again at the end.

    Attributes
    ----------
    name, form
        The item, and what of it is labelled on one form, with the probability with which a disputed one was drawn:
        itself, or where items are criteria, all criteria of one item that are drawn.
    round
        The number of the draw of disputed items.
    labelled_before
        Whether the annotator labelled the item before, outside the random order.
    """

    item_id: str | None
    name: str
    form: dict[str, float | None]
    labelled_before: bool
    n_done: int
    n: int
    undo: tuple[str, str] | None
    n_skipped: int = 0
    round: int | None = None


class LabelQueue:
    """Items to label one after another; `of_item` names the item of each criterion, where items are criteria.

    Attributes
    ----------
    source
        ``random``, ``disputed`` or ``changed``.
    blind
        Whether the jury stays hidden until the label is given; always, of items that changed.
    is_open
        Whether the queue is on screen.
    asks_criteria
        Whether items are criteria, which are asked on a form per item.
    """

    def __init__(
        self, log: LabelLog, item_ids: Iterable[str], of_item: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.source, self.blind, self.is_open = "random", True, False
        self._log, self._of_item, self.asks_criteria, ids = log, of_item, bool(of_item), [*item_ids]
        self._order = self._by_item(ids, random_order({of_item.get(item, item) for item in ids}))
        self._skipped: list[tuple[str, str, str]] = []
        self._may_draw = False

    def set(self, source: str, *, blind: bool, is_open: bool) -> None:
        """Choose the source, and whether to label blind; ConfigError for an unknown source."""
        check_choice("source", source, ("random", "disputed", "changed"))
        self.source, self.blind, self.is_open = source, blind or source == "changed", is_open
        self._may_draw = source == "disputed"

    def _by_item(self, item_ids: Iterable[str], names: Iterable[str]) -> list[str]:
        """The items in the order of these names; the criteria of one item stay together, in their order."""
        ranks = {name: rank for rank, name in enumerate(dict.fromkeys(names))}
        return sorted(item_ids, key=lambda item: ranks[self._of_item.get(item, item)])

    def skip(self, turn: Turn, criterion: str, annotator: str) -> None:
        """Ask this annotator for the item, or the form, again after all others, until the kernel restarts."""
        keys = [(item, criterion, annotator) for item in turn.form]
        self._skipped = [*(key for key in self._skipped if key not in keys), *keys]

    def turn(
        self, rule: Criterion, annotator: str, disagreements: Mapping[str, float], version: str,
        changed: Container[str] = (),
    ) -> Turn:  # fmt: skip
        """What this annotator labels next, given the disagreement of judges at the version shown, and what changed.

        Items whose label is not on the scale of the criterion come again.

        Disputed items are drawn in rounds, from items without a label; the next round is drawn when the source is
        chosen again and the last one is labelled.
        """
        criterion, is_disputed = rule.name, self.source == "disputed"
        done = self._log.labelled(rule, annotator, self.source)
        rounds = self._log.draws.get(criterion, [])
        drawn: Mapping[str, float | None] = dict.fromkeys(self._order)
        if self.source == "changed":
            drawn = {item: None for item in drawn if item in changed}
        if is_disputed:  # a page on other items may have noted its draw in the log
            drawn = {item: chance for item, chance in (rounds[-1][1] if rounds else {}).items() if item in drawn}
        if self._may_draw and not set(drawn) - done:
            open_ = {item: value for item, value in disagreements.items() if not self._log.of(item, criterion)}
            drawn = new = draw_disputed(open_, f"{version} {len(rounds) + 1}")
            self._log.add_draw(criterion, new)
            rounds = self._log.draws.get(criterion, [])
        self._may_draw = False
        drawn = {item: drawn[item] for item in self._by_item(drawn, [self._of_item.get(item, item) for item in drawn])}
        skipped = [one[0] for one in self._skipped if one[1:] == (criterion, annotator)]
        last = [item for item in skipped if item in drawn and item not in done]
        item_id = next((item for item in drawn if item not in done and item not in last), last[0] if last else None)
        before = item_id is not None and annotator in self._log.of(item_id, criterion)
        undo = self._log.last_queued(criterion, annotator, self.source)
        number = None
        if is_disputed:
            number = rounds[-1][0] if rounds else 0
        n_done = sum(item in done for item in drawn)
        name = self._of_item.get(item_id or "", item_id or "")
        form = {item: chance for item, chance in drawn.items() if self._of_item.get(item, item) == name}
        return Turn(item_id, name, form, before, n_done, len(drawn), undo, len(last), number)


def precision(evaluation: Evaluation | None, labels: pd.DataFrame, criterion: str) -> str:
    """How precisely people's mean over all items is known from these labels, and from ten more, in words.

    From the held-out labels where there are some, since labels that a rubric was tuned on do not count; without the
    mean itself, so this is no look at them.
    """
    if evaluation is None:
        return ""
    mine = labels_on_scale(labels, criterion, evaluation.rubric)
    held = mine[(mine["part"] == HELD_OUT).to_numpy()]
    used = (held if len(held) else mine).drop(columns="part")
    scale = evaluation.rubric.criterion(criterion).scale
    figure: FigureOption = "passed" if scale.has_rule else "score"
    what = f"people's {'pass rate' if scale.has_rule else 'mean score'} over all items"
    scores = evaluation.scores[(evaluation.scores["criterion"] == criterion).to_numpy()]
    row = corpus_estimate(scores, used, figure=figure, clusters=evaluation.clusters).iloc[0]
    n, half = int(row["n_labelled"]), (row["estimate_high"] - row["estimate_low"]) / 2
    kind = "held-out label" if len(held) else "label"
    if math.isnan(half):
        can = f". From {FEWEST} on, {what} can" if n < FEWEST else f"; from these, {what} cannot"
        return f"{counted(n, kind)} that count{'s' * (n == 1)}{can} be estimated."
    more = 10 * n / max(1, mine["item_id"].nunique())  # of ten more labels some are held out
    after = half * math.sqrt(n / (n + more))
    by_weight = ", the disputed ones by weight" * bool((used["source"] == "disputed").any())
    now = f"{counted(n, kind)}{by_weight}. {what[0].upper()}{what[1:]}: known to ± {half:.3f}"
    return f"{now}; with ten more labels, ± {after:.3f}."


def random_order(item_ids: Iterable[str]) -> list[str]:
    """The items in a random order that is the same at every start, for all annotators and criteria.

    Items that are added later fall between the others.

    Examples
    --------
    >>> random_order("abcde") == random_order("edcba")
    True
    """
    return sorted(item_ids, key=lambda item: place(f"label queue random {item}"))


def draw_disputed(disagreements: Mapping[str, float], version: str) -> dict[str, float]:
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
    if not sum(disagreements.values()):
        return {}
    n_disputed = sum(value > 0 for value in disagreements.values())
    n_expected = min(_MOST_DRAWN, max(_FEWEST_DRAWN, n_disputed), len(disagreements))
    return poisson_draw(disagreements, n_expected, f"label queue {version}")
