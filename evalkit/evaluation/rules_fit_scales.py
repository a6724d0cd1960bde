"""A check, before anything is paid, that rules fit judges and scales."""

from __future__ import annotations

from typing import Any

import pandas as pd

from evalkit.engine.specification import Spec
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.voting import vote
from evalkit.tables import table


def try_rules(spec: Spec) -> None:
    """Apply its rules to one unscored judgment of each judge.

    Raises
    ------
    ConfigError
        For rules that do not fit these judges and scales; on real judgments, the error would come after payment.
    """
    rows = [
        {
            "criterion": criterion.name,
            "judge": judge.name,
            "order": order,
            "weight": judge.weight,
            "level": criterion.level,
            "scale": criterion.scale.to_json(),
        }
        for criterion in spec.rubric.criteria
        for judge in spec.judges
        for order in spec.orders
    ]
    same: dict[str, Any] = {"rubric": spec.rubric.id, "rubric_version": spec.rubric.version, "item_id": "0"}
    judgments = pd.DataFrame(rows).assign(**same, sample=0, error="unreadable")
    votes = vote(
        table("judgments", {str(name): values for name, values in judgments.items()}), **spec.rules.vote_options
    )
    aggregate(votes, **spec.rules.aggregate_options)
