"""`Comparison`: its table, which criteria got worse, how it is printed, and the sentence that decides.

The sentence, to keep a version, not to keep it, or to label more, is a pure function of a row of the table.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from evalkit.core.formatting import WIDTH, Bill, figure, html_page, html_table, noted, p_value, text_table, wrapped
from evalkit.errors import counted
from evalkit.stats.intervals import FEWEST_OTHERS
from evalkit.stats.result_tables import JURY, first_that_holds, row_notes
from evalkit.stats.significance import ALPHA, alpha_of, evidence

SAME = "same replies"
APART = "not asked twice"
BY_LABELS = (
    "labels",
    "changed",
)  # verdicts, or labels, against people's: of those drawn at random, or of all that changed
_NOTE = (
    "tests: permuted samples (p by chance), McNemar mid-p (p), sign flips (its p); p-values are corrected over these "
    "rows (Holm), the 95 % intervals are not"
)


def chance_words(row: Any) -> str:
    """How many verdicts chance alone changes, from a row of `compare`, and the p of the permuted samples (see `_p`).

    Examples
    --------
    >>> chance_words({"floor_source": "measured", "chance_up_to": 11.0, "change_p": 0.03})
    'by chance up to 11, p 0.030'
    """
    if row["floor_source"] == SAME:
        return SAME
    return "cannot tell change from noise" if np.isnan(_p(row)) else f"by chance {_limit(row)}, p {p_value(_p(row))}"


def _limit(row: Any) -> str:
    limit = "unknown" if np.isnan(row["chance_up_to"]) else f"up to {row['chance_up_to']:.0f}"
    return f"{limit} (not measured)" if row["floor_source"] == "range" else limit


def _p(row: Any) -> float:
    """The p of the permuted samples: corrected over the rows of the comparison (Holm), if the row has it."""
    return float(row["change_p_holm"] if "change_p_holm" in row else row["change_p"])


def chance_sentences(row: Any) -> str:
    """What chance alone changes, and whether the replies changed more than that, from a row of `compare`.

    The range is about the number of changed verdicts. p is about all replies: it can be small though few verdicts
    changed.

    Examples
    --------
    >>> counts = {"n_common": 40, "n_clusters": 40}
    >>> chance_sentences({"floor_source": "measured", "chance_up_to": 11.0, "change_p": 0.03} | counts)
    'Asking the same prompt again changes 0 to 11 (measured). The replies changed more than by chance, p 0.030.'
    """
    if row["floor_source"] == SAME:
        return SAME
    if np.isnan(_p(row)):
        return "cannot tell change from noise"
    limit = "How many change when the same prompt is asked again: not measured"
    if not np.isnan(row["chance_up_to"]):
        source = "not measured: all that the samples allow"
        if row["floor_source"] == "measured":
            has_floor = "floor" in row and not np.isnan(row["floor"])
            floor = figure(row["floor"], row["floor_low"], row["floor_high"]) if has_floor else ""
            n_items = row.get("n_floor")  # not in tables of before
            items = "items" if n_items is None or pd.isna(n_items) else counted(int(n_items), "item")
            source = f"measured: {floor} of {items}" if has_floor else "measured"
        if row["n_clusters"] < row["n_common"]:
            source += f"; {row['n_clusters']} different texts or groups"
        limit = f"Asking the same prompt again changes 0 to {row['chance_up_to']:.0f} ({source})"
    than = "more than by chance" if _p(row) <= ALPHA else "no more than by chance"
    return f"{limit}. The replies changed {than}, p {p_value(_p(row))}."


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed between two evaluations.

    Attributes
    ----------
    before, after
        The sides' names: rubric version, mode and judges.
    table
        One row per rubric, criterion and judge (see `compare`).
    bill_before, bill_after
        What the replies of each side cost when they were bought.
    n_only_before, n_only_after
        Items that only one side has; they are left out.
    decisions
        Criterion -> one sentence that decides, by the labels (see `compare`); criteria without labels have none.
    """

    before: str
    after: str
    table: pd.DataFrame
    bill_before: Bill
    bill_after: Bill
    n_only_before: int
    n_only_after: int
    decisions: Mapping[str, str] = field(default_factory=dict)

    @property
    def worse(self) -> list[str]:
        """The criteria on which the second side is worse than chance explains (p by Holm ≤ .05).

        Measured against labels by what broke; without labels a fall of the mean counts too. Where
        there is a jury, its row decides.
        """
        table = self._deciding()
        broke = (table["effect"] < 0) & (table["mcnemar_p_holm"] <= ALPHA)
        difference = table["mean_difference"]
        if "score_difference" in table:  # all there is of a scale without ends
            difference = difference.fillna(table["score_difference"])
        fell = (difference < 0) & (table["sign_flip_p_holm"] <= ALPHA)
        # a lower score may well be right: if there are labels, they decide
        failing = table[broke | (fell & ~table["against"].isin([*BY_LABELS, "distances"]))]
        return list(dict.fromkeys(failing["criterion"].astype(str)))

    @property
    def undecided(self) -> list[str]:
        """Why it cannot be said whether the second side is worse, of each row of `worse` that compares too little.

        Half of the row's items or more have no verdict and no score on one side, or so few are left that their p could
        not reach .05.
        """
        return [f"{row['criterion']}, {row['judge']}: {why}" for _, row in self._deciding().iterrows()
                if (why := _too_little(row, len(self.table)))]  # fmt: skip

    def _deciding(self) -> pd.DataFrame:
        """The rows that decide: where there is a jury, its row."""
        juries = set(self.table.loc[self.table["judge"].eq(JURY), "criterion"].astype(str))
        return self.table[self.table["judge"].eq(JURY) | ~self.table["criterion"].astype(str).isin(juries)]

    def text(self, width: int | None = WIDTH) -> str:
        """As `print` shows it, for a terminal of `width` columns; None: as wide as the table is."""
        table = text_table(self._rows(), width=width, left=("judge",))
        return wrapped("\n".join([*self._heads(), "", table, *self._notes()]), width)

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_page([self.html()])

    def html(self, caption: str = "") -> str:
        """As a notebook shows it, without style sheet; `caption` names the table."""
        heads = "<br>".join(html.escape(line) for line in self._heads())
        notes = "<br>".join(html.escape(line) for line in self._notes())
        return f"<p>{heads}</p>{html_table(self._rows(), caption=caption)}<p class='note'>{notes}</p>"

    def _heads(self) -> list[str]:
        heads = [f"before: {self.before} ({self.bill_before})", f"after: {self.after} ({self.bill_after})"]
        several = self.table["criterion"].nunique() > 1
        return [*heads, *(f"{name}: {text}" if several else text for name, text in self.decisions.items())]

    def _rows(self) -> list[dict[str, str]]:
        several = self.table["criterion"].nunique() > 1
        return [_cells(row, several) for _, row in self.table.iterrows()]

    def _notes(self) -> list[str]:
        lines = [_NOTE]
        if self.n_only_before or self.n_only_after:
            lines.append(f"left out: {counted(self.n_only_before, 'item')} only before, {self.n_only_after} only after")
        return [*lines, *noted(row_notes(self.table, "criterion", "judge"), len(self.table))]


def _too_little(row: pd.Series, n_rows: int) -> str:
    """Why a row compares too little to find that something is worse; empty if it does not."""
    n_known, n_common = int(max(row["n_verdicts"], row["n_scored"])), int(row["n_common"])
    if 2 * n_known <= n_common:
        fact = f"{n_known} of {counted(n_common, 'item')} could be compared"
        return f"{fact}; more than half must have a verdict or a score on both sides"
    is_by_verdicts = bool(row["n_paired"]) or row["against"] in (*BY_LABELS, "distances")
    n = int(min(row["n_paired"] if is_by_verdicts else row["n_scored"], row["n_clusters"]))
    least = 0.5 ** (n if is_by_verdicts else n - 1)  # of McNemar's mid-p, and of sign flips
    if least * n_rows <= ALPHA:
        return ""
    of_labels = " with a label" if row["against"] in (*BY_LABELS, "distances") else ""
    return f"{counted(n, 'item')}{of_labels}, too few for a p of {ALPHA}, whatever they show"


def _cells(row: pd.Series, several: bool) -> dict[str, str]:
    """A row of the table as it is shown."""
    good, bad = ("now pass", "now fail") if row["against"] == "verdicts" else ("fixed", "broke")
    cells = {name: str(row[name]) for name in (["criterion", "judge"] if several else ["judge"])}
    cells["changed"] = f"{row['changed']} of {row['n_verdicts']}" if row["n_verdicts"] else "–"
    cells["by chance"] = SAME if row["floor_source"] == SAME else _limit(row)
    cells["p by chance"] = "–" if row["floor_source"] == SAME else p_value(row["change_p_holm"])
    if isinstance(row["against"], str):
        # without an effect nothing could be fixed: 0 would suggest that nothing was
        texts = [str(row["fixed"]), str(row["broke"]), p_value(row["mcnemar_p_holm"])]
        cells |= dict(zip((good, bad, "p"), ["–"] * 3 if np.isnan(row["effect"]) else texts, strict=True))
    title, names = "mean difference (0-1)", ["mean_difference", "difference_low", "difference_high"]
    if np.isnan(row["mean_difference"]) and not np.isnan(row.get("score_difference", np.nan)):
        title, names = "mean difference", ["score_difference", "score_difference_low", "score_difference_high"]
    cells[title] = figure(*row[names], digits=3)
    if row["n_scored"] not in (0, row["n_verdicts"]):
        cells[title] += f", {counted(row['n_scored'], 'item')}"
    cells["its p"] = p_value(row["sign_flip_p_holm"])
    return cells


MATTERS = 0.03
"""A difference in agreement within ± this share of items does not matter."""
_POWER = 0.8
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
        ratio = self._quantile(alpha) / self._quantile(ALPHA)
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
    return ALPHA / max(1, n_versions * (n_versions - 1) // 2)


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
    if hidden is not None and wide.low <= 0:  # held-out labels decide
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
    again = f"; asking again changes 0 to {limit:.0f}"
    endings = {
        "; the replies are the same, so none of that is chance": row["floor_source"] == SAME,
        "; no judge gave new replies to both, so the interval alone allows for chance": row["floor_source"] == APART,
        "": math.isnan(limit),
        f"{again}, fixed and broken alike": row["n_verdicts"] and row["changed"] <= limit,
        again: True,
    }
    return f"{_changed(row)}{first_that_holds(endings)}"


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
