"""The two sides of a comparison, cut into what can be laid side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from evalkit import tables
from evalkit.changes.floors import Passes, passes
from evalkit.changes.results import JURY
from evalkit.errors import InputError, listed
from evalkit.figures import Bill
from evalkit.rubrics.scales import Scale
from evalkit.tables.grouping import group, refuse_doubles
from evalkit.voting import vote

__all__ = ["ROW", "Part", "Side", "pairs", "side_of"]

ROW = ["rubric", "criterion", "judge"]


@dataclass(frozen=True, slots=True)
class Side:
    """One side: its votes, its scores if it has any, its samples, and how it is named."""

    votes: pd.DataFrame
    scores: pd.DataFrame | None
    passes: Passes
    name: str
    mode: str
    bill: Bill


def side_of(given: Any, name: str) -> Side:
    """A side from a judgments table or an evaluation; InputError says what is wrong with it."""
    judgments = given if isinstance(given, pd.DataFrame) else getattr(given, "judgments", None)
    if judgments is None or "sample" not in judgments.columns:
        raise InputError(
            f"side {name} is no judgments table and has no .judgments; pass what judge or evaluate returned"
        )
    votes = getattr(given, "votes", None) if not isinstance(given, pd.DataFrame) else None
    votes = vote(judgments) if votes is None else tables.check(votes, "votes")
    scores = getattr(given, "scores", None) if not isinstance(given, pd.DataFrame) else None
    scores = None if scores is None else tables.check(scores, "scores")
    try:
        refuse_doubles(votes, ["rubric", "criterion", "item_id", "judge"], "votes")
    except InputError:
        versions = votes["rubric_version"].unique()
        raise InputError(f"side {name} holds the versions {listed(versions)} of one rubric; pass one of them") from None
    judges = judges_of(votes)
    mode = "jury" if len(judges) > 1 else "judge"
    heads = votes[["rubric", "rubric_version"]].drop_duplicates().itertuples(index=False)
    rubrics = ", ".join(f"{rubric}@{version}" for rubric, version in heads)
    shown = ", ".join(judges[:4]) + (f" and {len(judges) - 4} more" if len(judges) > 4 else "")
    return Side(votes, scores, passes(judgments), f"{rubrics}, {mode} {shown}", mode, Bill.of(judgments))


def judges_of(votes: pd.DataFrame) -> list[str]:
    return [str(name) for name in votes["judge"].unique()]


@dataclass(frozen=True, slots=True)
class Part:
    """One criterion and judge of one side, by item."""

    head: tuple[str, str, str]
    version: str
    scale: Scale
    rows: pd.DataFrame  # indexed by item_id
    passes: tuple[Passes, ...]  # one per judge
    weights: dict[str, float]
    method: str


def pairs(a: Side, b: Side) -> list[tuple[Part, Part]]:
    """The criteria and judges that both sides have, in the order of a."""
    found = []
    parts_a, parts_b = _parts(a), _parts(b)
    same = judges_of(a.votes) == judges_of(b.votes)
    for head, part in parts_a.items():
        if head not in parts_b or (head[2] == JURY and a.mode == b.mode == "judge" and same):
            continue
        found.append((part, parts_b[head]))
    return found


def _parts(side: Side) -> dict[tuple[str, str, str], Part]:
    parts: dict[tuple[str, str, str], Part] = {}
    samples = group(side.passes.frame, ["rubric", "criterion", "judge"])
    by_judge: dict[tuple[str, str], dict[str, Passes]] = {}
    weights: dict[tuple[str, str], dict[str, float]] = {}
    for number, first in enumerate(samples.first):
        rubric, criterion, judge = (str(side.passes.frame[key].iloc[first]) for key in ROW)
        by_judge.setdefault((rubric, criterion), {})[judge] = side.passes.take(samples.codes == number)
    for table, jury in ((side.votes, False), (side.scores, True)):
        if table is None:
            continue
        frame = table.assign(judge=pd.Categorical([JURY] * len(table))) if jury else table
        groups = group(frame, ROW)
        for number in range(len(groups)):
            rows = frame.loc[groups.codes == number]
            rubric, criterion, judge = (str(rows[key].iloc[0]) for key in ROW)
            own = by_judge.get((rubric, criterion), {})
            if (rubric, criterion) not in weights:
                weights[rubric, criterion] = _weights(side.votes, rubric, criterion)
            parts[rubric, criterion, judge] = Part(
                (rubric, criterion, judge),
                str(rows["rubric_version"].iloc[0]),
                Scale.from_json(str(rows["level"].iloc[0]), str(rows["scale"].iloc[0])),
                rows.set_index("item_id"),
                tuple(own.values()) if jury else (own[judge],),
                weights[rubric, criterion],
                str(rows["method"].iloc[0]) if jury and "method" in rows else "mean",
            )
    return parts


def _weights(votes: pd.DataFrame, rubric: str, criterion: str) -> dict[str, float]:
    rows = votes.loc[((votes["rubric"] == rubric) & (votes["criterion"] == criterion)).to_numpy()]
    if "weight" not in rows:
        return {}
    rows = rows[["judge", "weight"]].drop_duplicates("judge")
    return dict(zip(rows["judge"].astype("str"), rows["weight"].fillna(1.0), strict=True))
