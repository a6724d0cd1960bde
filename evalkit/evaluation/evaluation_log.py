"""The log of evaluations in the reply store: what `evaluate` writes there, without texts of items."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import orjson
import pandas as pd

from evalkit.core.reply_keys import canonical_json, digest
from evalkit.core.settings import Options
from evalkit.engine.cache import ReplyStore
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors.secrets import without_keys
from evalkit.evaluation.cost import Cost
from evalkit.evaluation.evaluation import Evaluation
from evalkit.evaluation.items_with_criteria import of_criteria, scores_of_items
from evalkit.rubrics.profiles import judge_dict
from evalkit.stats.aggregation.summaries import summarize

SUMMARY = ("mean", "low", "high", "pass_rate", "pass_low", "pass_high", "n_verdicts", "n_scored", "n_items")
AGREEMENT = ("accuracy", "accuracy_low", "accuracy_high", "kappa", "kappa_low", "kappa_high")
_OF_ITEMS = ["mean", "low", "high", "n_scored", "n_items"]
_LABEL_COLUMNS = ["item_id", "criterion", "annotator", "label"]
_log = logging.getLogger("evalkit")


def log_evaluation(evaluation: Evaluation, work: Worklist, options: Options) -> None:
    """Write an evaluation into the log of its store, after its replies, unless the same one is there.

    It is not written if the store is read-only or no item got a reply. An error is only logged.
    """
    try:
        store = ReplyStore.open(options.cache)
        if evaluation.spec is None or store.read_only or evaluation.judgments["source"].isna().all():
            return
        unrepaired = {"repair": False} if options.repair is False else {}
        settings = _plain(_settings(evaluation.spec) | unrepaired)
        items, replies = items_hash(work), replies_hash(evaluation.judgments)
        labels: Any = [] if evaluation.labels is None else evaluation.labels[_LABEL_COLUMNS].astype(object).to_numpy()
        evaluation_id = digest([settings, items, replies, _hash_of_rows(labels)])
        if store.evaluations(evaluation_id):
            return
        spec, n_missing = evaluation.spec, int(evaluation.judgments["source"].isna().sum())
        of_spec = {"exact": spec.exact, "inputs": spec.inputs, "on_missing": spec.on_missing}
        of_options = {"offline": options.offline, "recorded": options.recorded, "adopt": options.adopt}
        replay = {**of_spec, **of_options, "replies": replies, "n_missing": n_missing}
        texts = [canonical_json(_plain(value)).decode() for value in (_summary(evaluation, items), settings | replay)]
        store.log_evaluation(evaluation_id, time.time(), *texts)
    except Exception:  # noqa: BLE001  # what was paid for is returned, whether it can be logged or not
        _log.info("the evaluation could not be written into the log of the cache", exc_info=True)


def log_payment(what: str, options: Options, spec: Spec, criteria: Iterable[str], paid_usd: float) -> None:
    """Write into the log of a store what a job that is no evaluation paid: `history` shows it as a row of that name."""
    if not paid_usd:
        return
    about = {"what": what, "rubric": spec.rubric.id, "rubric_version": spec.rubric.label, "samples": spec.samples}
    about |= {"judges": ", ".join(judge.name for judge in spec.judges), "paid_usd": paid_usd, "cost_usd": paid_usd}
    about |= {"criteria": [{"criterion": ", ".join(dict.fromkeys(criteria))}]}
    now = time.time()
    ReplyStore.open(options.cache).log_evaluation(digest([about, now]), now, canonical_json(about).decode(), "{}")


def items_hash(work: Worklist) -> str:
    """A hash of the items' contents, in any order."""
    return digest(sorted(work.clusters))


def replies_hash(judgments: pd.DataFrame) -> str:
    """A hash of the reply keys with what was read from each reply, in any order."""
    return _hash_of_rows(zip(*(judgments[name].astype(object) for name in ("key", "score", "label")), strict=True))


def _hash_of_rows(rows: Iterable[Iterable[object]]) -> str:
    return digest(sorted("\t".join(map(str, row)) for row in rows))


def _settings(spec: Spec) -> dict[str, Any]:
    """All that decides the scores, but for the items and replies."""
    unnamed = {"ask": "__main__:"}  # a function that cannot be imported: offline it is not called
    asked = [(judge, builder.template) for judge, builder in zip(spec.judges, spec.prompt_builders, strict=True)]
    return {
        "rubric": spec.rubric.to_dict(),
        "rubric_version": spec.rubric.label,
        "judges": [
            (unnamed if judge.provider == "function" else {})
            | judge_dict(judge)
            | {"service": judge.service}
            | ({"template": template.label} if judge.template else {})
            for judge, template in asked
        ],
        "template": next((template.label for judge, template in asked if not judge.template), None),
        "templates": {template.label: template.source for _, template in asked},
        "samples": spec.samples,
        "rules": spec.rules.to_dict(),
    } | ({} if spec.criteria_per_call == 1 else {"criteria_per_call": spec.criteria_per_call})


def _plain(value: Any) -> Any:
    """JSON values without keys and passwords; names of entries stay, as a level may be called ``pass``."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return without_keys(value)


def _summary(evaluation: Evaluation, items: str) -> dict[str, Any]:
    """What `history` shows."""
    spec = evaluation.spec
    assert spec is not None
    named = [(judge.name, f"{judge.provider}:{judge.model}") for judge in spec.judges]
    rules = spec.rules.to_dict() | ({"criteria_per_call": spec.criteria_per_call} if spec.is_grouped else {})
    templates = [template.label for builder in spec.prompt_builders for template in spec.templates_of(builder)]
    return {
        "rubric": spec.rubric.id,
        "rubric_version": spec.rubric.label,
        "judges": ", ".join(name if name == model else f"{name} ({model})" for name, model in named),
        "samples": spec.samples,
        "template": ", ".join(dict.fromkeys(templates)),
        "rules": ", ".join(f"{name} {value}" for name, value in rules.items() if value is not None),
        "items": items[:10],
        "criteria": _figures(evaluation),
    }


def _figures(evaluation: Evaluation) -> Any:
    """For each criterion its mean, pass rate, disagreement and, with labels, agreement of the jury.

    If the rows are criteria of items, the mean is that of the items' scores.
    """
    spread = evaluation.disagreement.groupby("criterion", observed=True)["disagreement"].mean()
    table = evaluation.summary.set_index("criterion")[[*SUMMARY]].join(spread)
    if of_criteria(evaluation):
        of_items, _ = scores_of_items(evaluation)
        table[_OF_ITEMS] = np.nan if of_items is None else summarize(of_items).set_index("criterion")[_OF_ITEMS]
    if evaluation.alignment is not None:
        jury = evaluation.alignment.drop_duplicates("criterion").set_index("criterion")  # its row is the first
        table = table.join(jury.assign(n_compared=jury["n_verdicts"])[[*AGREEMENT, "n_compared"]])
    table = table.join(_costs(evaluation.judgments))
    return orjson.loads(table.reset_index().to_json(orient="records", double_precision=15))


def _costs(judgments: pd.DataFrame) -> pd.DataFrame:
    """What the replies to each criterion cost; one that several criteria share is that of the first."""
    once = judgments.loc[(judgments["key"].isna() | ~judgments["key"].duplicated()).to_numpy()]
    for name in {"own_key", "repair_key"} & {*once}:
        once = once.assign(**{name: once[name].mask(once[name].duplicated().to_numpy())})
    costs = {str(name): Cost.of(rows) for name, rows in once.groupby("criterion", observed=False)}
    sums = {name: (cost.paid_usd, _sum(cost)) for name, cost in costs.items()}
    return pd.DataFrame.from_dict(sums, orient="index", columns=["paid_usd", "cost_usd"], dtype="float64")


def _sum(cost: Cost) -> float | None:
    return None if cost.paid_usd is None or cost.reused_usd is None else cost.paid_usd + cost.reused_usd
