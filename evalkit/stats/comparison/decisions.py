"""One sentence that decides: keep a version, do not keep it, or label more; a pure function of a row of `compare`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd

from evalkit.core.formatting import figure
from evalkit.errors import counted
from evalkit.stats.comparison.comparison_table import APART, BY_LABELS, SAME
from evalkit.stats.intervals import FEWEST_OTHERS
from evalkit.stats.significance import alpha_of, evidence

MATTERS = 0.03
"""A difference in agreement within ± this share of items does not matter."""
_ALPHA, _POWER = 0.05, 0.8
_FEWEST_MORE, _MOST = 10, 1_000_000
_Early = Literal["running", "stopped", "no answer", "no labels", "one version", "held-out", "chance"]
Kind = _Early | Literal["early", "rule", "one verdict", "keep", "drop", "same", "open"]
Action = Literal["", "run", "measure", "queue", "changed"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a version: the verdict (at most eight words), the figure behind it, and the reason in one line.

    Attributes
    ----------
    kind
        Which case of the table in docs/tuner.md holds.
    action
        What a press of one button does next: ``run``, ``measure`` (chance), ``queue`` (label the next
        item), ``changed`` (label the items that changed), or nothing.
    """

    kind: Kind
    verdict: str
    then: str = ""
    reason: str = ""
    action: Action = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.verdict, self.then, self.reason)))


@dataclass(frozen=True, slots=True)
class Difference:
    """A paired difference in agreement with people: (fixed − broke)/n, with its 95 % interval on n items."""

    d: float
    low: float
    high: float
    n: int
    n_clusters: int

    @classmethod
    def of(cls, row: Any) -> Difference | None:
        """That of a row of `compare`; None if there are no labels, or no interval."""
        d, low, high = (float(row[name]) for name in ("effect", "effect_low", "effect_high"))
        if row["against"] not in (*BY_LABELS, "distances") or any(map(math.isnan, (d, low, high))):
            return None
        return cls(d, low, high, int(row["n_paired"]), int(row["n_paired_clusters"]))

    @classmethod
    def ends_of(cls, row: Any) -> tuple[Difference, Difference] | None:
        """All items that changed and have no label against the change, and all for it; None if that is not known."""
        if math.isnan(row.get("effect_least_low", math.nan)):
            return None
        sizes = int(row["n_verdicts"]), int(row["n_clusters"])
        names = [(f"effect_{end}", f"effect_{end}_low", f"effect_{end}_high") for end in ("least", "most")]
        lowest, highest = (cls(float(row[d]), float(row[low]), float(row[high]), *sizes) for d, low, high in names)
        return lowest, highest

    def at(self, alpha: float) -> Difference:
        """The same with an interval at another level than .05: the half width is that of t."""
        ratio = self._quantile(alpha) / self._quantile(_ALPHA)
        middle, half = (self.low + self.high) / 2, ratio * (self.high - self.low) / 2
        return replace(self, low=middle - half, high=middle + half)

    def n_needed(self, alpha: float) -> float:
        """How many labels decide in four of five cases if the difference stays as it is.

        n·((q + z)·SE/d)², with q the quantile of the interval and z that of a power of .8; at 95 % that is
        n·(1.43·half width/d)².
        """
        from scipy.special import ndtri

        if not self.d:
            return math.inf
        q = self._quantile(alpha)
        return float(self.n * ((q + ndtri(_POWER)) / q * (self.high - self.low) / 2 / self.d) ** 2)

    def _quantile(self, alpha: float) -> float:
        from scipy.special import stdtrit

        return float(stdtrit(max(1, min(self.n, self.n_clusters) - 1), 1 - alpha / 2))

    @property
    def text(self) -> str:
        """In words, with as many digits as show on which side of 0 the interval ends."""
        low, high = max(-1.0, self.low), min(1.0, self.high)
        is_hidden = any(end and abs(end) < 0.005 for end in (low, high))
        words = figure(self.d, low, high, digits=3 if is_hidden else 2).replace("-", "−")
        return f"+{words}" if self.d > 0 else words


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the sentence says beside the difference.

    Attributes
    ----------
    now, last
        The names of the version and of the one that it is compared with.
    n_versions
        How many versions were tried on these labels: the interval is widened for all their pairs (see `alpha_for`).
    labels, unseen
        Which labels these are, and what is known of held-out ones.
    is_later
        Were labels added since a decision on these two was first shown? Looking after each label, an interval would
        keep a version that is no better in up to 15 % of cases: then it takes `evidence`, too.
    n_items, dev_share, seconds
        How many items there are to label (None: those that both versions judged), the share of new labels that are not
        held out, and how long a label takes (None: unknown).
    held_out
        The difference on the held-out labels, if they were looked at, and which look at them it was.
    looked, on
        When the look was, if labels or verdicts have changed since; on which criterion, if the rubric has several.
    pairs
        Which items the two are compared on, if they have verdicts on others too.
    worst, best, leaner
        In which cell most of the broken items are; which version is the best so far; which of the two is shorter or
        cheaper, and by how much.
    """

    now: str = "after"
    last: str = "before"
    n_versions: int = 2
    labels: str = "the labels that were given"
    unseen: str = ""
    is_later: bool = False
    n_items: int | None = None
    dev_share: float = 1.0
    seconds: float | None = None
    held_out: tuple[Difference, int] | None = None
    looked: str = ""
    on: str = ""
    pairs: str = ""
    worst: str = ""
    best: str = ""
    leaner: str = ""


_NONE = Circumstances()


def alpha_for(n_versions: int) -> float:
    """The α of one comparison among so many versions: .05 over all their pairs (Bonferroni).

    Examples
    --------
    >>> [round(alpha_for(n), 4) for n in (1, 2, 3, 10)]
    [0.05, 0.05, 0.0167, 0.0011]
    """
    return _ALPHA / max(1, n_versions * (n_versions - 1) // 2)


def decide(row: Any, about: Circumstances = _NONE) -> Decision:
    """The decision from a row of `compare`: the first case that holds.

    Parameters
    ----------
    row
        A row of `compare`.
    about
        The names of the versions, how many were tried, and what else the sentence says.

    Returns
    -------
    Decision
        ``no labels`` where the row has no difference in agreement with an interval.

    Examples
    --------
    >>> row = {"effect": 0.13, "effect_low": 0.06, "effect_high": 0.21, "n_paired": 100, "n_paired_clusters": 100}
    >>> row |= {"against": "labels", "changed": 15, "n_verdicts": 100, "n_common": 100, "fixed": 14, "broke": 1}
    >>> row |= {"chance_up_to": 9.0, "floor_source": "measured", "change_p": 0.001}
    >>> decision = decide(row, Circumstances("v5", "v4", labels="the labels that you tune on"))
    >>> decision.verdict, decision.then
    ('Keep v5.', 'It agrees with people on 13 more of 100 items than v4 (+0.13 [0.06, 0.21]).')
    >>> decision.reason
    '15 verdicts changed (14 fixed, 1 broke); asking again changes 0 to 9. On the labels that you tune on.'
    """
    plain, alpha = Difference.of(row), alpha_for(about.n_versions)
    if decision := _by_ends(row, plain, alpha, about):
        return decision
    if plain is None:
        return _without_difference(row, about)
    about = _of_changed(about) if row["against"] == "changed" else about
    wide, hidden = plain.at(alpha), None if about.held_out is None else _at_look(*about.held_out)
    if is_same(row):  # whatever was looked at
        noun = "scores" if row["against"] == "distances" else "verdicts"
        then = f"{about.now} and {about.last} have the same replies, and the same {noun}{about.on}."
        reason = " ".join(filter(None, (about.leaner, _sentences(about.pairs))))
        return Decision("same", "No difference that matters.", then, reason)
    if about.held_out is not None and hidden is not None and hidden.low <= 0:
        return _not_confirmed(about.held_out, wide, about)
    if (hidden is not None or not wide.low <= 0 <= wide.high) and (by_rules := _by_rules(row, wide, alpha, about)):
        return by_rules
    is_one_sided = row["against"] in BY_LABELS and row.get("n_rarer", FEWEST_OTHERS) < FEWEST_OTHERS
    if is_one_sided and (wide.low > 0 or hidden is not None):
        return _one_sided(row, wide, about)
    if hidden is not None and wide.low <= 0:  # what nobody tuned on decides
        on_hidden = _of_100(row["against"], hidden, about.last)
        then = f"On the held-out labels of {counted(hidden.n, 'item')}, {on_hidden[:1].lower()}{on_hidden[1:]}"
        reason = _sentences(_moved(row), f"on {about.labels}: {wide.text}{_seen(about)}")
        return Decision("keep", f"Keep {about.now}.", then, reason)
    if hidden is None and (doubt := _doubt(row, wide, alpha, about)):
        return doubt
    then = _of_100(row["against"], wide, about.last)
    if wide.low > 0:
        return Decision("keep", f"Keep {about.now}.", then, _sentences(_moved(row), f"on {about.labels}{_seen(about)}"))
    if wide.high < 0:
        reason = _sentences(f"{row['fixed']} fixed, {row['broke']} broke{about.worst}", about.best, _tried(about))
        return Decision("drop", f"Do not keep {about.now}.", then, reason)
    if max(-wide.low, wide.high) <= MATTERS:
        then = f"{about.now} and {about.last} are within 3 of 100 items of each other ({wide.text})."
        reason = " ".join(filter(None, (about.leaner, _sentences(_tried(about)))))
        return Decision("same", "No difference that matters.", then, reason)
    return _open(row, wide, alpha, about)


def _of_changed(about: Circumstances) -> Circumstances:
    """Such labels are asked for after a decision was shown."""
    return replace(about, labels="the labels of all items that changed", is_later=True)


def _without_difference(row: Any, about: Circumstances) -> Decision:
    noun = {"labels": "verdict", "distances": "score"}.get(row["against"])
    then = f"{about.now} and {about.last} need labelled items, and the same scale or a pass rule each."
    if noun:
        then = f"Too few labelled items have a {noun} in both {about.now} and {about.last}."
    return Decision("no labels", "Cannot tell: no difference can be computed.", then)


def _by_ends(row: Any, plain: Difference | None, alpha: float, about: Circumstances) -> Decision | None:
    """What follows from some labels of the items that changed."""
    ends = Difference.ends_of(row)
    if ends is None or about.held_out is not None:
        return None
    decision = _kept_by_least(row, ends[0].at(alpha), alpha, about)
    return decision or (_changed_first(row, ends, about) if plain is None else None)


def is_same(row: Any) -> bool:
    """Whether the replies are the same, and what follows from them."""
    moved = [row[name] for name in ("fixed", "broke", "changed")]  # NA where nothing could be
    return bool(row["floor_source"] == SAME) and not any(pd.notna(n) and n > 0 for n in moved)


def _by_rules(row: Any, wide: Difference, alpha: float, about: Circumstances) -> Decision | None:
    """Of two pass rules: labels cannot say which is right, so a difference counts if it is there by both."""
    d, low, high = (float(row.get(f"effect_by_before_rule{end}", math.nan)) for end in ("", "_low", "_high"))
    by_last = replace(wide, d=d, low=low, high=high).at(alpha)
    if math.isnan(low) or (by_last.low > 0 and wide.low > 0) or (by_last.high < 0 and wide.high < 0):
        return None
    then = f"People's labels by the rule of {about.now}: {wide.text} against {about.last}; by that of {about.last}: "
    reason = "labels cannot say which rule is right: choose it by what passing is to mean"
    advice = "to compare wordings, give both versions one rule"
    sentences = _sentences(_moved(row), reason, advice, _tried(about))
    return Decision("rule", "Cannot tell: it depends on the pass rule.", f"{then}{by_last.text}.", sentences)


def _one_sided(row: Any, wide: Difference, about: Circumstances) -> Decision:
    """People, or the jury, have one verdict for nearly all: what always says it would agree as well."""
    noun = "item" if wide.n_clusters == wide.n else "group"
    few = f"{row['n_rarer']} of {counted(wide.n_clusters, noun)}"
    if row["against"] == "changed":  # people gave no verdict on most of them
        few = counted(row["n_rarer"], noun)
    reason = f"people, or {about.now}, have another verdict on {few} only"
    advice = "a judge that always gives one verdict would agree as well: label items that should get the other"
    verdict, words = "Cannot tell: one verdict for nearly all items.", _sentences(reason, advice, _tried(about))
    return Decision("one verdict", verdict, f"{wide.text} against {about.last}.", words, "queue")


def _at_look(difference: Difference, look: int) -> Difference:
    """A difference on held-out labels, at the level that the number of looks at them leaves (see `alpha_of`)."""
    return difference.at(2 * alpha_of(look))  # of a one-sided test


def _not_confirmed(held_out: tuple[Difference, int], wide: Difference, about: Circumstances) -> Decision:
    hidden = _at_look(*held_out)
    word = "is worse" if hidden.high < 0 else "is not shown to be better"
    then = f"On the held-out labels of {counted(hidden.n, 'item')} it {word} than {about.last} ({hidden.text})."
    looks = f"this was look {held_out[1]} at the held-out labels{about.on}{about.looked}"
    looks += ", and each look makes the test stricter" * (not about.looked)
    reason = _sentences(f"on {about.labels}: {wide.text}", looks, _tried(about))
    return Decision("held-out", f"Do not keep {about.now}.", then, reason)


def _doubt(row: Any, wide: Difference, alpha: float, about: Circumstances) -> Decision | None:
    """Why an interval on one side of 0 does not decide: chance may explain it, or labels were added after a look."""
    if wide.low > 0 and _may_be_chance(row):
        return _chance(row, wide, about)  # not measured, and it may explain all changed verdicts
    if not about.is_later or wide.low <= 0 <= wide.high:
        return None
    counts = [int(row[name]) for name in ("n_clusters_fixed", "n_clusters_broke")]
    strength, needed = evidence(*counts[:: 1 if wide.low > 0 else -1]), 1 / alpha
    if strength >= needed:
        return None
    why = "labels were added after a decision was shown, and an interval that is looked at again and again misleads"
    reason = _sentences(f"{why}: the evidence is {strength:.1f} of {needed:.0f}", _tried(about))
    then = f"{wide.text} against {about.last}."
    if row["against"] == "changed":
        more = _sentences("all items that changed are labelled, so only further items can tell")
        return Decision("early", "Cannot tell, and labels will not decide it.", then, f"{reason} {more}")
    return Decision("early", "Cannot tell yet: label more items.", then, reason, "queue")


def _kept_by_least(row: Any, least: Difference, alpha: float, about: Circumstances) -> Decision | None:
    """*Keep* where a version is better even with all changed items that have no label counted against it."""
    if least.low <= 0 or row["evidence_least"] < 1 / alpha or _may_be_chance(row):
        return None
    if pd.notna(row["effect_by_before_rule"]) or pd.isna(row["n_rarer"]) or row["n_rarer"] < FEWEST_OTHERS:
        return None
    then = _of_100("labels", least, about.last)
    without = f"with {_open_labels(row)} counted against it"
    return Decision("keep", f"Keep {about.now}.", then, _sentences(without, _moved(row), _tried(about)))


def _changed_first(row: Any, ends: tuple[Difference, Difference], about: Circumstances) -> Decision:
    """What the difference can be until all items that changed are labelled."""
    then = f"Against {about.last} the difference is from {ends[0].low:+.2f} to {ends[1].high:+.2f}.".replace("-", "−")
    reason = _sentences(f"{_open_labels(row)} may all count against {about.now}, or all for it", _tried(about))
    return Decision("open", _label_changed(row), then, reason, "changed")


def _open_labels(row: Any) -> str:
    return f"{counted(int(row['n_unlabelled']), 'missing label')} of items that changed"


def _label_changed(row: Any) -> str:
    return f"Cannot tell: label the {counted(int(row['n_unlabelled']), 'item')} that changed."


def _may_be_chance(row: Any) -> bool:
    """Whether chance is not measured, and may explain all changed verdicts."""
    is_beyond = row["n_verdicts"] and row["changed"] > row["chance_up_to"]
    return not is_beyond and row["floor_source"] not in ("measured", SAME, APART)


def _chance(row: Any, wide: Difference, about: Circumstances) -> Decision:
    moved = f"{_changed(row)}; how many change when the same prompt is asked again is unknown"
    can_measure = not math.isnan(row["change_p"])
    advice = "with one sample per judge it cannot be measured: run both versions with two samples or more"
    if row.get("n_asked_again") == 0:
        advice = "finished scores do not show it: compare judgments, with two samples or more"
    advice = "measure chance" if can_measure else advice
    verdict, then = "Cannot tell yet: chance is not measured.", f"{wide.text} against {about.last}."
    return Decision("chance", verdict, then, _sentences(moved, advice, _tried(about)), "measure" if can_measure else "")


def _open(row: Any, wide: Difference, alpha: float, about: Circumstances) -> Decision:
    """Neither better, nor worse, nor alike: how many labels would decide."""
    n_common, ends = int(row["n_common"]), Difference.ends_of(row)
    word = "better" if wide.d > 0 else "worse"
    then = f"{about.now} may be {word} than {about.last} ({wide.text})."
    if not wide.d:
        then = f"{about.now} and {about.last} agree with people equally often ({wide.text})."
    needed, n_items = wide.n_needed(alpha), n_common if about.n_items is None else about.n_items
    n_more = max(_FEWEST_MORE, math.ceil((needed - wide.n) / about.dev_share / 10) * 10) if needed < _MOST else _MOST
    if wide.n / about.dev_share + n_more > n_items:
        in_all = f"about {wide.n + n_more:,} labels in all would be needed if the difference stays as it is"
        reason = f"{in_all}; there are {counted(n_items, 'item')}"
        if n_more == _MOST:
            reason = f"if the difference stays as it is, labels for all {counted(n_items, 'item')} would not decide it"
        return Decision("open", "Cannot tell, and labels will not decide it.", then, _sentences(reason, _tried(about)))
    time = "" if about.seconds is None else f" (about {counted(math.ceil(n_more * about.seconds / 60), 'minute')})"
    reason = f"that many{time} decide in four cases of five if the difference stays as it is"
    if pd.notna(n_open := row.get("n_unlabelled")) and 0 < n_open < n_more:
        so_far = f"so far from {ends[0].low:+.2f} to {ends[1].high:+.2f}".replace("-", "−") if ends else ""
        reason = f"they tell the difference over all items, as about {n_more:,} more random labels would"
        return Decision("open", _label_changed(row), then, _sentences(reason, so_far, _tried(about)), "changed")
    verdict = f"Cannot tell: label about {n_more:,} more items."
    return Decision("open", verdict, then, _sentences(reason, _tried(about)), "queue")


def _of_100(against: str, wide: Difference, last: str) -> str:
    n = round(100 * abs(wide.d))
    many = f"{n or 'less than 1'} {'more' if wide.d > 0 else 'fewer'} of 100 items"
    if against == "distances":
        return f"Its scores are nearer to people's on {many} than {last}'s ({wide.text})."
    return f"It agrees with people on {many} than {last} ({wide.text})."


def _changed(row: Any) -> str:
    noun = "score" if row["against"] == "distances" else "verdict"
    good, bad = ("nearer to people's", "farther") if noun == "score" else ("fixed", "broke")
    moves = f"{row['fixed']} {good}, {row['broke']} {bad}"
    return f"{counted(int(row['changed']), noun)} changed ({moves})" if noun == "verdict" else f"scores: {moves}"


def _moved(row: Any) -> str:
    """What changed, beside what asking the same prompt again changes."""
    limit = row["chance_up_to"]
    if row["floor_source"] == SAME:
        return f"{_changed(row)}; the replies are the same, so none of that is chance"
    if row["floor_source"] == APART:
        return f"{_changed(row)}; no judge gave new replies to both, so the interval alone allows for chance"
    if math.isnan(limit):
        return _changed(row)
    again = f"asking again changes 0 to {limit:.0f}"
    alike = ", fixed and broken alike" if row["n_verdicts"] and row["changed"] <= limit else ""
    return f"{_changed(row)}; {again}{alike}"


def _seen(about: Circumstances) -> str:
    """What held-out labels say, and for how many versions the interval is widened."""
    held_out = about.unseen
    if about.held_out is not None:
        hidden, look = _at_look(*about.held_out), about.held_out[1]
        held_out = f"the held-out labels confirm it ({hidden.text}, look {look}{about.looked})"
    return "".join(f"; {words}" for words in (held_out, _tried(about)) if words)


def _tried(about: Circumstances) -> str:
    widened = f"interval widened for {about.n_versions} versions (Bonferroni)" * (about.n_versions > 2)
    return "; ".join(filter(None, (about.pairs, widened)))


def _sentences(*texts: str) -> str:
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in texts if text)
