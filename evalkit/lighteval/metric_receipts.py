"""The receipt of a judged metric: judges, rubric, rules, counts and costs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from evalkit._version import __version__
from evalkit.engine.judging.specification import Spec
from evalkit.errors import ConfigError
from evalkit.evaluation.cost import Cost
from evalkit.lighteval.metric_settings import MetricSettings
from evalkit.runs.contract.receipts import JudgeUsed, Receipt, write_receipt

_log = logging.getLogger("evalkit")
_OF_JUDGE = ("name", "provider", "service", "model", "weight", "temperature", "max_tokens", "base_url", "score")


def receipt_of(
    settings: MetricSettings, task: str, metric: str, tables: Sequence[pd.DataFrame], n_wanted: int, **counts: Any
) -> Receipt:
    """The receipt of a task.

    Parameters
    ----------
    settings
        The settings of the metric.
    task, metric
        Their names.
    tables
        The judgments tables.
    n_wanted
        The number of judgments that were needed; those in no table were lost because no judge could be called.
    **counts
        `n_items`, `n_scored`, `n_empty`; and the metric's `arguments`.
    """
    spec, profile = settings.spec, settings.profile
    judges = list(_judges_used(spec, tables, (n_wanted - sum(map(len, tables))) // len(spec.judges)))
    costs = [Cost.of(table) for table in tables]
    rules = asdict(spec.rules)
    return Receipt(
        task=task, metric=metric, scoring_mode=settings.mode,  # type: ignore[arg-type]  # pydantic checks it
        **settings.binding.model_dump(include={"plugin", "plugin_version", "plugin_hash"}),
        rubric=spec.rubric.id, rubric_version=spec.rubric.version, rubric_hash=spec.rubric.content_hash,
        profile=None if profile is None else profile.profile,
        profile_version=None if profile is None else profile.version,
        samples=spec.samples, criteria_per_call=spec.criteria_per_call if spec.is_grouped else None,
        aggregation=rules.pop("aggregate"), **rules, report_disagreement=settings.report_disagreement,
        origins=dict(settings.origins), evalkit_version=__version__, judges=judges, n_judgments=n_wanted,
        n_unscored=n_wanted - sum(judge.n_scored or 0 for judge in judges),
        n_live=sum(cost.n_live for cost in costs),
        n_cached=sum(cost.n_cached + cost.n_recorded for cost in costs), cost_usd=_paid(costs), **counts,
    )  # fmt: skip


def leave_receipt(receipt: Receipt) -> None:
    """Write a receipt if the run wants receipts, and log how much each judge left unscored.

    Scores are kept even if the receipt cannot be written.
    """
    for warning in receipt.warnings:
        _log.warning("%s", warning)
    try:
        write_receipt(receipt)
    except ConfigError as problem:
        _log.error("%s, %s: no receipt was written: %s", receipt.task, receipt.metric, problem)


def _paid(costs: Sequence[Cost]) -> float | None:
    """US$ for the live replies; None if the price of a reply is unknown, or there is none to know a price of."""
    parts = [None if cost.reused_usd is None else cost.paid_usd for cost in costs]
    return None if None in parts or not parts else float(sum(usd for usd in parts if usd is not None))


def _judges_used(spec: Spec, tables: Sequence[pd.DataFrame], n_down: int) -> Iterator[JudgeUsed]:
    """Each judge with its counts; `n_down` judgments of each judge are in no table."""
    names = ["judge", "error", "model", "fingerprint"]
    parts = [table.reindex(columns=names).astype(object) for table in tables if len(table)]
    rows = pd.concat(parts) if parts else pd.DataFrame(columns=names)
    for judge, builder in zip(spec.judges, spec.prompt_builders, strict=True):
        mine = rows[rows["judge"] == judge.name]
        templates = spec.templates_of(builder)
        reasons = {str(name): int(n) for name, n in mine["error"].value_counts().items()}
        if n_down:
            reasons["judge_down"] = reasons.get("judge_down", 0) + n_down
        own: dict[str, Any] = {name: getattr(judge, name) for name in _OF_JUDGE}
        yield JudgeUsed(
            **own, params=dict(judge.params), template=", ".join(template.label for template in templates),
            template_hash=", ".join(template.hash for template in templates), n_judgments=len(mine) + n_down,
            n_scored=int(mine["error"].isna().sum()), reasons=reasons,
            served={str(name): int(n) for name, n in mine["model"].value_counts().items()},
            fingerprints={str(name): int(n) for name, n in mine["fingerprint"].value_counts().items()},
        )  # fmt: skip
