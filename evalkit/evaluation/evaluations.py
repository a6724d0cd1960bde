"""`evaluate`: judge, vote, aggregate, combine and all figures at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evalkit import tables
from evalkit.core.rules import Rules
from evalkit.engine.judging import judge_worklist
from evalkit.engine.options import Options
from evalkit.engine.specification import Spec, is_none
from evalkit.engine.worklist import Worklist
from evalkit.errors import InputError
from evalkit.evaluation import overview
from evalkit.evaluation.costs import Cost
from evalkit.evaluation.repeated_samples import sample_again
from evalkit.evaluation.rules import try_rules
from evalkit.evaluation.wide_table import joined
from evalkit.rubrics import Rubric, extract_labels
from evalkit.stats.aggregation import aggregate, combine, summarize
from evalkit.stats.agreement import disagreement, reliability
from evalkit.stats.alignment import align
from evalkit.stats.alignment.human_labels import coded
from evalkit.stats.voting import vote
from evalkit.tables import LABEL_KEY, as_items, check

__all__ = ["Evaluation", "evaluate", "evaluate_spec"]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Judgments with everything that follows from them.

    ``print`` shows the figures with coverage and spread; in a notebook it draws them as HTML.

    Attributes
    ----------
    items, labels
        What was judged; human labels (long table) or None.
    rubric, spec, rules
        By what, by whom, and how samples became scores.
    judgments
        One row a sample (see `judge`).
    clusters
        Item -> unit of the intervals: its group, else its content.
    n_unique
        Number of items that differ in content.
    options
        How it was judged: cache, offline and the like.
    """

    items: pd.DataFrame
    spec: Spec
    rules: Rules
    judgments: pd.DataFrame
    labels: pd.DataFrame | None = None
    clusters: pd.Series | None = None
    n_unique: int = 0
    options: Options = field(default_factory=Options)

    @property
    def rubric(self) -> Rubric:
        """The rubric."""
        return self.spec.rubric

    @cached_property
    def votes(self) -> pd.DataFrame:
        """One row an item, criterion and judge (see `vote`)."""
        return vote(self.judgments, **self.rules.vote_options)

    @cached_property
    def scores(self) -> pd.DataFrame:
        """One row an item and criterion (see `aggregate`)."""
        return aggregate(self.votes, **self.rules.aggregate_options)

    @cached_property
    def rubric_scores(self) -> pd.DataFrame:
        """One row an item: the criteria combined (see `combine`)."""
        return combine(self.scores, self.rubric)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row a criterion: mean with interval, pass rate, coverage (see `summarize`)."""
        return summarize(self.scores, clusters=self.clusters)

    @cached_property
    def disagreement(self) -> pd.DataFrame:
        """One row an item and criterion: how far the judges are apart (see `disagreement`)."""
        return disagreement(self.votes)

    @cached_property
    def reliability(self) -> pd.DataFrame:
        """How far the judges agree among themselves (see `reliability`)."""
        return reliability(self.judgments, clusters=self.clusters)

    @cached_property
    def alignment(self) -> pd.DataFrame | None:
        """Each judge, and the jury, against the human labels (see `align`); None without labels."""
        if self.labels is None:
            return None
        if len(self.spec.judges) < 2:
            return align(self.votes, self.labels, clusters=self.clusters)
        # in one call, so that `same_items` is of the jury and its judges; no judge has this name
        jury = "\x00jury"
        shared = [name for name in self.scores if name in self.votes]
        both = pd.concat([self.scores[shared].assign(judge=jury), self.votes[[*shared, "judge"]]], ignore_index=True)
        made = align(both, self.labels, clusters=self.clusters)
        judges = made["judge"].astype(object)
        made = made.assign(judge=tables.categorical(judges.where(judges != jury, "jury").to_numpy()))
        order = (judges != jury).to_numpy().argsort(kind="stable")
        return made.iloc[order].reset_index(drop=True)

    @cached_property
    def repeats(self) -> pd.DataFrame | None:
        """Twice the samples on items drawn at random, where no judge is a model (see `sample_again`); else None."""
        if any(judge.is_llm for judge in self.spec.judges) or self.judgments["source"].eq("recorded").any():
            return None
        return sample_again(self, half_width=0.02, progress=False)

    @cached_property
    def cost(self) -> Cost:
        """What it cost."""
        return Cost.of(self.judgments)

    def wide(self) -> pd.DataFrame:
        """One row an item: its columns, then for each criterion the score and verdict, and each judge's.

        Returns
        -------
        pandas.DataFrame
            The item columns; for each criterion `<criterion>` (rubric units; nominal: the label),
            `<criterion>_passed`, `<criterion>_status`; for each of its judges `<criterion>_<judge>`,
            `<criterion>_<judge>_label` and `<criterion>_<judge>_explanation` (of the first sample on the
            vote's side: of its verdict, else of its label, else the nearest); for each annotator
            `<criterion>_<annotator>`. Where a name is taken, by an item column say, the later one gets
            ``_2`` behind it.
        """
        return joined(self)

    def __str__(self) -> str:
        return overview.text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return overview.page(self)


def evaluate(
    items: Any,
    rubric: Any,
    judges: Any = None,
    *,
    samples: int | None = None,
    labels: Any = None,
    vote: str | None = None,
    ties: str | None = None,
    min_self_agreement: float | None = None,
    aggregate: str | None = None,
    quorum: float | None = None,
    template: str | None = None,
    item_id: str | None = None,
    **options: Any,
) -> Evaluation:
    """Judge items and compute every figure.

    Parameters
    ----------
    items, rubric, judges, samples, template, item_id
        As for `judge`. A `group_id` column makes the groups the unit of intervals.
    labels
        Human labels: the long table of `labels`, or a mapping criterion -> item columns. Those of other
        items are left out.
    vote, ties, min_self_agreement, aggregate, quorum
        Rules of `vote` and `aggregate` (defaults: the profile's, else mean, mean, over half).
    **options
        What else `judge` takes: ``offline``, ``refresh``, ``adopt``, ``budget_usd``, ``cache`` …

    Returns
    -------
    Evaluation
        With `.judgments .votes .scores .rubric_scores .summary .disagreement .reliability .alignment
        .cost` and `.wide()`.

    Raises
    ------
    InputError, RubricError, ConfigError, JudgeError, CacheError
        As `judge` does; for rules that are unknown or that these judges and scales cannot follow, and for labels off
        the scale too, before anything is paid.

    Examples
    --------
    >>> items = [{"question": "2 + 2?", "answer": "4", "reference": "4"}] * 2
    >>> evaluation = evaluate(items, "correctness", ["fake:strict", "fake:lenient"])
    >>> len(evaluation.judgments), len(evaluation.votes), len(evaluation.scores)
    (12, 4, 2)
    """
    spec = Spec.of(rubric, judges, samples, template)
    changes = {"vote": vote, "ties": ties, "min_self_agreement": min_self_agreement}
    rules = Rules.of(spec.profile, changes | {"aggregate": aggregate, "quorum": quorum})
    frame = as_items(items, item_id=item_id)
    given = None if labels is None else _labels(labels, frame, spec.rubric)
    if options.get("cache") is not None:
        options["cache"] = Path(options["cache"])
    chosen = _options(options | {"offline": True} if is_none(judges) else options)
    return evaluate_spec(spec, frame, rules, chosen, given)


def evaluate_spec(
    spec: Spec, items: pd.DataFrame, rules: Rules, options: Options, labels: pd.DataFrame | None = None
) -> Evaluation:
    """`evaluate` for what was resolved already: items with an `item_id`, labels in the long table."""
    try_rules(rules, spec)
    work = Worklist.of(spec, items)
    judgments = judge_worklist(work, options)
    if not spec.exact and len(judgments):
        spec = replace(spec, samples=int(judgments["sample"].max()) + 1)  # recorded ones are taken as they are
    return Evaluation(items, spec, rules, judgments, labels, _clusters(items, work), work.n_unique, _lasting(options))


def _options(given: Mapping[str, Any]) -> Options:
    unknown = [name for name in given if name not in Options.__slots__]
    if unknown:
        raise TypeError(f"evaluate() got unexpected {', '.join(unknown)}; judge() takes {', '.join(Options.__slots__)}")
    return Options(**given)


def _lasting(options: Options) -> Options:
    """What of the options holds for later calls: neither budgets nor who watches."""
    return Options(offline=options.offline, recorded=options.recorded, cache=options.cache, progress=False)


def _labels(given: Any, items: pd.DataFrame, rubric: Rubric) -> pd.DataFrame:
    if isinstance(given, Mapping):
        return extract_labels(items, given, rubric=rubric)
    said = check(given, "labels", need=[*LABEL_KEY, "label"])
    mine = said[said["criterion"].isin(rubric.names)]
    if mine.empty and len(said):
        there = ", ".join(map(str, said["criterion"].unique()))
        raise InputError(
            f"no label is for a criterion of rubric {rubric.id!r} ({', '.join(rubric.names)}); labels are for {there}"
        )
    known = mine["item_id"].isin(items["item_id"])
    if not known.any() and len(mine) and len(items):
        raise InputError(
            f"no label belongs to one of these items: label ids such as {mine['item_id'].iloc[0]!r}, "
            f"item ids such as {items['item_id'].iloc[0]!r}"
        )
    return coded(mine[known], rubric)


def _clusters(items: pd.DataFrame, work: Worklist) -> pd.Series:
    """Item -> unit of the intervals: its group where there is one, else its content."""
    units = np.asarray(work.clusters, dtype=object)
    if "group_id" in items.columns:
        group = items["group_id"]
        has = group.notna().to_numpy()
        units[has] = [f"group {name}" for name in group[has]]
    return pd.Series(units, index=items["item_id"].tolist(), dtype="str")
