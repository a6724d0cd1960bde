"""The rules by which samples become votes and votes scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from evalkit.engine.specification import Spec
from evalkit.errors import ConfigError, listed
from evalkit.rubrics import Profile
from evalkit.stats.aggregation import aggregate
from evalkit.stats.voting import vote
from evalkit.tables import empty, table

__all__ = ["Rules"]


@dataclass(frozen=True, slots=True)
class Rules:
    """How samples become votes and votes scores; see `vote` and `aggregate`."""

    vote: str = "mean"
    ties: str = "na"
    min_self_agreement: float | None = None
    aggregate: str = "mean"
    quorum: float = 0.5

    @classmethod
    def of(cls, profile: Profile | None, changes: Mapping[str, Any]) -> Rules:
        """Those of a profile, with some changed; ConfigError, before anything is paid, for what is no rule."""
        unknown = [name for name in changes if name not in cls.__slots__]
        if unknown:
            raise ConfigError(f"unknown rule {listed(unknown)}; the rules are {', '.join(cls.__slots__)}")
        given = {} if profile is None else {name: getattr(profile, name) for name in cls.__slots__}
        rules = cls(**(given | {name: value for name, value in changes.items() if value is not None}))
        rules.aggregate_votes(rules.vote_judgments(empty("judgments")))
        return rules

    @classmethod
    def recorded(cls, votes: pd.DataFrame, scores: pd.DataFrame) -> Rules:
        """Those that votes and scores say they were made by; the quorum is not written there."""
        found: dict[str, Any] = {}
        names = [] if votes.empty or "rule" not in votes else str(votes["rule"].iloc[0]).split()
        if names:
            options = dict(text.split("=", 1) for text in names[1:])
            least = options.get("min_self_agreement")
            found = {"vote": names[0], "ties": options.get("ties", "na")}
            found["min_self_agreement"] = None if least is None else float(least)
        if len(scores) and "method" in scores:
            found["aggregate"] = str(scores["method"].iloc[0]).split()[0]
        return cls(**found)

    def vote_judgments(self, judgments: pd.DataFrame) -> pd.DataFrame:
        """Samples to votes."""
        return vote(
            judgments,
            method=self.vote,  # type: ignore[arg-type]  # checked there
            ties=self.ties,  # type: ignore[arg-type]
            min_self_agreement=self.min_self_agreement,
        )

    def aggregate_votes(self, votes: pd.DataFrame) -> pd.DataFrame:
        """Votes to scores."""
        return aggregate(votes, method=self.aggregate, quorum=self.quorum)  # type: ignore[arg-type]

    def try_on(self, spec: Spec) -> None:
        """Refuse rules that these judges and scales cannot follow: on answers, they would after everything was paid."""
        each = [
            (criterion, judge, order)
            for criterion in spec.rubric.criteria
            for judge in spec.judges
            for order in spec.orders
        ]
        columns: dict[str, Any] = {
            "rubric": [spec.rubric.id] * len(each),
            "rubric_version": [spec.rubric.version] * len(each),
            "item_id": ["0"] * len(each),
            "criterion": [criterion.name for criterion, _, _ in each],
            "judge": [judge.name for _, judge, _ in each],
            "order": [order for _, _, order in each],
            "sample": [0] * len(each),
            "error": ["unreadable"] * len(each),
            "weight": [judge.weight for _, judge, _ in each],
            "level": [criterion.level for criterion, _, _ in each],
            "scale": [criterion.scale.to_json() for criterion, _, _ in each],
        }
        self.aggregate_votes(self.vote_judgments(table("judgments", columns)))
