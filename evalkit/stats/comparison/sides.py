"""The two sides of a comparison, cut into what can be laid side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.formatting import Bill
from evalkit.core.settings import Rules
from evalkit.errors import InputError, counted, listed
from evalkit.rubrics.given_scales import ScaleLike
from evalkit.rubrics.scales import Scale
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.alignment.label_values import HasJudgments
from evalkit.stats.plain_tables import Keys, check_rows, names_in, take_rows, take_votes
from evalkit.stats.result_tables import JURY, clusters_for
from evalkit.stats.voting import vote
from evalkit.tables import schemas
from evalkit.tables.grouping import ClustersLike, Floats, refuse_doubles
from evalkit.tables.schemas import JUDGMENT_KEY

ROW = ["rubric", "criterion", "judge"]
NEED = [*JUDGMENT_KEY, "score", "score_norm", "label", "passed", "error", "level", "scale"]
_ANSWERS = ["score", "score_norm", "label", "passed", "tied", "n_scored", "level", "scale"]
_MADE = ("votes", "scores")
_SETTINGS = ["rubric", "rubric_version", "criterion", "judge"]
_TO_COMPARE = "same_prompts=True needs {} on both sides; to compare sides that differ in these, leave it out"
_USED = [*NEED, "key", "weight", "score_sd", "source", "cost_usd", "model"]


Decide = Callable[[pd.DataFrame], pd.DataFrame]
"""From judgments of one criterion to the table with the verdict: votes of one judge, or scores of a jury."""

JudgmentsLike = pd.DataFrame | HasJudgments
"""A judgments table, or an object that has one."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side: its samples, votes, and scores if it has any, how they were made, and how it is named."""

    judgments: pd.DataFrame
    votes: pd.DataFrame
    scores: pd.DataFrame | None
    rules: Rules | None
    name: str
    mode: str
    bill: Bill
    keys: Keys
    clusters: ClustersLike | None


def judgments_of(source: JudgmentsLike, name: str, scale: ScaleLike | None = None) -> pd.DataFrame:
    """The judgments of a table or an evaluation; InputError if there are none."""
    return _judgments(source, name, scale)[0]


def _judgments(source: JudgmentsLike, name: str, scale: ScaleLike | None) -> tuple[pd.DataFrame, Keys]:
    judgments: Any = source if isinstance(source, (pd.DataFrame, pd.Series)) else getattr(source, "judgments", None)
    if judgments is None:
        raise InputError(
            f"{name} is not a judgments table and has no .judgments (got {schemas.kind_of(source)}); pass what "
            "judge, evaluate or sample_again returned"
        )
    frame, keys = take_rows(judgments, "judgments", need=NEED, function=name, scale=scale)
    lacking = {name: None for name in ("key", "model", "weight") if name not in frame}
    return (frame.assign(**lacking) if lacking else frame), keys


def _finished(source: Any, name: str, scale: ScaleLike | None) -> tuple[pd.DataFrame, pd.DataFrame, Keys] | None:
    """Of votes, or scores without judges: no judgments, the votes (scores: of the ``jury``); None for judgments."""
    if not isinstance(source, (pd.DataFrame, pd.Series)) or "sample" in names_in(source):
        return None
    votes, keys = take_votes(source, need=_ANSWERS, function=name, scale=scale)
    return schemas.empty("judgments"), votes, keys


def side_of(source: JudgmentsLike, name: str, scale: ScaleLike | None = None) -> Side:
    """A side from a judgments table, finished scores or an evaluation.

    Raises
    ------
    InputError
        If it has no judgments, it has a row twice, or several versions of a rubric.
    """
    if (finished := _finished(source, name, scale)) is not None:
        (judgments, votes, keys), scores = finished, None
    else:
        judgments, keys = _judgments(source, name, scale)
        tables = [None if isinstance(source, pd.DataFrame) else getattr(source, table, None) for table in _MADE]
        votes = vote(judgments) if tables[0] is None else check_rows(tables[0], "votes")
        scores = None if tables[1] is None else check_rows(tables[1], "scores")
    try:
        refuse_doubles(votes, ["rubric", "criterion", "item_id", "judge"], "votes")
    except InputError:
        versions = votes["rubric_version"].unique()
        raise InputError(
            f"{name} mixes the versions {listed(versions)} of one rubric; pass the rows of one version"
        ) from None
    judges = judges_of(votes)
    mode = "jury" if len(judges) > 1 else "judge"
    heads = votes[["rubric", "rubric_version"]].drop_duplicates().itertuples(index=False)
    rubrics = ", ".join(f"{rubric}@{version}" for rubric, version in heads)
    title = ", ".join(judges[:4]) + (f" and {len(judges) - 4} more" if len(judges) > 4 else "")
    title = ", ".join([title, *_ways_of_asking(source, judgments)])
    rules = getattr(source, "rules", None)
    used = judgments[[name for name in _USED if name in judgments]]
    bill = Bill(0.0, 1, 1) if finished is not None else Bill.of(judgments)  # of unknown price
    title_of_side = "finished scores" if finished is not None and judges == [JURY] else f"{mode} {title}"
    return Side(
        used, votes, scores, rules, f"{rubrics}, {title_of_side}", mode, bill, keys, clusters_for(votes, None, source)
    )


def _ways_of_asking(source: JudgmentsLike, judgments: pd.DataFrame) -> list[str]:
    """What differs from the rubric's own template, one criterion per call and scores read from the text."""
    spec = getattr(source, "spec", None)
    templates = [] if spec is None else [builder.template.label for builder in spec.prompt_builders]
    nothing = pd.Series(dtype=object)
    has = {name for name in ("own_key", "score_mass", "score_sd") if judgments.get(name, nothing).notna().any()}
    ways = {
        **{label: spec is not None and label != spec.rubric.template for label in templates},
        "own answer first": spec is None and "own_key" in has,
        "repaired replies": judgments.get("repaired", nothing).any(),
        "several criteria per call": judges_several_criteria(judgments),
        "expected scores": {"score_mass", "score_sd"} <= has,
        "most probable scores": "score_mass" in has and "score_sd" not in has,
    }
    return [way for way, holds in ways.items() if holds]


def judges_several_criteria(judgments: pd.DataFrame, rows: pd.DataFrame | None = None) -> bool:
    """Whether a reply judges several criteria, by the keys of the replies; of `rows`, criteria of one item."""
    if rows is not None and "key" in judgments:
        judgments = judgments.assign(criterion=judgments["item_id"].astype("str").map(rows["requirement"]))
    if "key" not in judgments or judgments["criterion"].nunique() < 2:
        return False
    return bool(judgments[["key", "criterion"]].dropna().drop_duplicates()["key"].duplicated().any())


def judges_of(votes: pd.DataFrame) -> list[str]:
    """The names of the judges, in order of first appearance."""
    return [str(name) for name in votes["judge"].unique()]


@dataclass(frozen=True, slots=True)
class Part:
    """One criterion and judge of one side, by item."""

    head: tuple[str, str, str]
    version: str
    scale: Scale
    rows: pd.DataFrame  # indexed by item_id
    judgments: pd.DataFrame  # of all judges that the verdicts come from
    decide: Decide | None  # from judgments to such rows; None if unknown

    @property
    def has_verdicts(self) -> bool:
        """Whether verdicts are what can change: by the pass rule, or by a function of the user."""
        return self.scale.has_rule or bool(self.rows["passed"].notna().any())

    def norms(self, items: pd.Index) -> Floats:
        """`score_norm` of each item; NaN for an item that has none."""
        return self.rows["score_norm"].reindex(items).to_numpy(dtype=np.float64)

    def scores(self, items: pd.Index) -> Floats:
        """`score` of each item; NaN for an item that has none."""
        return self.rows["score"].reindex(items).to_numpy(dtype=np.float64)

    def mine(self, judgments: pd.DataFrame) -> pd.DataFrame:
        """The rows of a table that are of the same prompts."""
        rubric, criterion, judge = self.head
        rows = judgments["rubric"].eq(rubric) & judgments["rubric_version"].eq(self.version)
        rows &= judgments["criterion"].eq(criterion) & (judgments["judge"].eq(judge) | (judge == JURY))
        return judgments.loc[rows.to_numpy(dtype=bool)]


def pairs(a: Side, b: Side) -> list[tuple[Part, Part]]:
    """The criteria and judges that both sides have, in the order of a."""
    of_b = parts_of(b)
    same_judge = a.scores is not None and a.mode == b.mode == "judge" and judges_of(a.votes) == judges_of(b.votes)
    shared = [part for part in parts_of(a).values() if part.head in of_b]
    return [(part, of_b[part.head]) for part in shared if part.head[2] != JURY or not same_judge]


def parts_of(side: Side) -> dict[tuple[str, str, str], Part]:
    """Every criterion and judge, and the jury if there are scores."""
    parts: dict[tuple[str, str, str], Part] = {}
    samples = {True: by_keys(side.judgments, ROW[:2]), False: by_keys(side.judgments, ROW)}
    for table, jury in ((side.votes, False), (side.scores, True)):
        if table is None:
            continue
        frame = table.assign(judge=pd.Categorical([JURY] * len(table))) if jury else table
        for (rubric, criterion, judge), rows in by_keys(frame, ROW).items():
            version, level, text = map(str, rows[["rubric_version", "level", "scale"]].iloc[0])
            scale, head = Scale.from_json(level, text), (rubric, criterion, judge)
            judgments = samples[jury].get(head[:2] if jury else head, side.judgments.iloc[:0])
            decide = _decide(side.rules, jury=jury)
            parts[head] = Part(head, version, scale, rows.set_index("item_id"), judgments, decide)
    return parts


def by_keys(frame: pd.DataFrame, keys: list[str]) -> dict[tuple[str, ...], pd.DataFrame]:
    """The rows of each combination of keys, in order of first appearance."""
    return {tuple(map(str, head)): piece for head, piece in frame.groupby(keys, observed=True, sort=False)}


def _decide(rules: Rules | None, *, jury: bool) -> Decide | None:
    """How judgments become votes, or scores; None if this is unknown, as for a jury in a bare table."""
    if rules is None:
        return None if jury else vote
    votes: Decide = partial(vote, **rules.vote_options)
    return (lambda judgments: aggregate(votes(judgments), **rules.aggregate_options)) if jury else votes


def refuse_other_prompts(before: JudgmentsLike, after: JudgmentsLike, scale: ScaleLike | None) -> str | None:
    """InputError unless common items have the same settings and prompts; a note where that cannot be known."""
    sides = judgments_of(before, "before", scale), judgments_of(after, "after", scale)
    common = set(sides[0]["item_id"]) & set(sides[1]["item_id"])
    first, second = (side.loc[side["item_id"].isin(common).to_numpy()] for side in sides)
    for names in (_SETTINGS, [*_SETTINGS, "sample"]):
        then, now = (set(side[names].astype(str).itertuples(index=False, name=None)) for side in (first, second))
        if then != now:
            unmatched = listed([" ".join(settings) for settings in sorted(then ^ now)], most=3)
            raise InputError(
                f"only one side has {', '.join(names)} {unmatched}; "
                + _TO_COMPARE.format("the same rubric version, judges and samples")
            )
    if first["key"].isna().any() or second["key"].isna().any():
        return "settings of the judges not known, because the table does not come from judge"
    if n_other := len(set(first["key"]) ^ set(second["key"])):
        raise InputError(
            f"the sides differ in {counted(n_other, 'reply key')}: the texts of an item, the rubric, the template "
            "or a setting of a judge changed; " + _TO_COMPARE.format("the same prompts")
        )
    for name in ("score_sd", "score_mass"):  # two readings of scores share their reply keys
        has = [name in side and side[name].notna().any() for side in (first, second)]
        if has[0] != has[1]:
            raise InputError(
                f"only {'before' if has[0] else 'after'} has {name}: the sides read scores in two ways (score= of a "
                "judge), or the service gave no log-probabilities on one side; read both in the same way"
            )
    return None
