"""A check, before anything is paid, that rules fit judges and scales."""

from __future__ import annotations

from evalkit.engine.judging.specification import Spec
from evalkit.stats.aggregation.aggregating import no_weight
from evalkit.stats.aggregation.dawid_skene_scores import check_fit


def try_rules(spec: Spec, word: str = "method") -> None:
    """Raise unless the rules of a call fit its judges and scales; `word` is what the user calls a rule.

    Raises
    ------
    ConfigError
        For rules that do not fit these judges and scales; on real judgments, the error would come after payment.
    """
    n_judges = sum(judge.weight > 0 for judge in spec.judges)
    if not n_judges:
        raise no_weight("0")
    for criterion in spec.rubric.criteria:
        check_fit(spec.rules.aggregate, criterion.name, criterion.scale, n_judges, word)
