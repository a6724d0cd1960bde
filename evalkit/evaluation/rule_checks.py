"""Rules that judges and scales cannot follow are refused before anything is paid."""

from __future__ import annotations

from typing import Any

from evalkit.engine.specification import Spec
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.voting import vote
from evalkit.tables import table


def try_rules(spec: Spec) -> None:
    """Apply its rules to one unscored judgment of each judge.

    Raises
    ------
    ConfigError
        For rules that these judges and scales cannot follow: on real judgments, it would come after they were paid.
    """
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
    votes = vote(table("judgments", columns), **spec.rules.vote_options)
    aggregate(votes, **spec.rules.aggregate_options)
