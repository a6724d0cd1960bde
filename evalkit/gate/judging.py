"""Judgments that the traces lack: from the cache, else by live calls, with the engine of `judge`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from evalkit.core.formatting import Bill
from evalkit.engine.cache import ReplyStore
from evalkit.engine.calls.budget import Budget
from evalkit.engine.judging.judge import judge_worklist
from evalkit.engine.judging.reply_lookup import nearest
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.engine.providers import check_ready
from evalkit.engine.providers.prices import price_of
from evalkit.errors import ConfigError, JudgeError, counted
from evalkit.gate.judgment import Judgment, judgments_of
from evalkit.gate.precedence import GateOptions, Resolved
from evalkit.gate.traces import REDACTED, Trace
from evalkit.gate.verdict_keys import verdict_key, verdict_parts

_MOST_NEAREST = 20


def work_of(spec: Spec, traces: Sequence[Trace]) -> Worklist:
    """The worklist for these traces: the same inputs as for `judge`, so the same keys."""
    dropped = {"scale"}.difference(spec.rubric.input_names)  # a trace's own, and not that of its criteria
    cells = [{name: cell for name, cell in trace.item.items() if name not in dropped} for trace in traces]
    items = [{**item, "item_id": str(at)} for at, item in enumerate(cells)]
    return Worklist.of(spec, items, ids=[trace.name for trace in traces])


def keys_of(
    work: Worklist, held: Sequence[Collection[str]], *, repair: bool = True
) -> Iterator[tuple[str, dict[str, Any]]]:
    """For each trace the verdict key, and its parts.

    A recorded reply has a key of its own, which replaces the shared one if it is among the reply keys `held`. What is
    held besides are the keys of repairs, which depend on the text of the replies; without `repair`, they do not count.
    """
    ways = [work.keys(), work.keys(recorded=True)]
    if work.spec.per_item:  # a criterion that a reply on several left out was asked alone
        ways.append(replace(work, spec=replace(work.spec, criteria_per_call=1)).keys())
    rows = zip(*(map(bytes.hex, keys) for keys in ways), strict=True)
    size = work.n_rows // max(1, len(work.inputs))
    for hashes, mine in zip(work.hashes, held, strict=True):
        ways_of_rows = list(islice(rows, size))
        own = [next((key for key in choices if key in mine), shared) for shared, *choices in ways_of_rows]
        own += sorted({*mine}.difference(*ways_of_rows)) if repair else []
        parts = verdict_parts(work.spec, hashes[0])
        yield verdict_key(own, work.spec.samples, parts["rules_hash"]), parts


def check_callable(work: Worklist, resolved: Resolved, options: GateOptions) -> None:
    """Check that each judge whose replies are not all cached can be called; makes no calls.

    Raises
    ------
    ConfigError
        When a judge has no key, or a budget is given and its price is unknown.
    """
    if not resolved.live:
        return
    keys = list(work.keys())
    there = {} if options.refresh else ReplyStore.open(options.cache).get_many(set(keys), recorded=False)
    for at in sorted({work.place(row)[2] for row, key in enumerate(keys) if key not in there}):
        judge = work.spec.judges[at]
        try:
            check_ready(judge)
        except JudgeError as problem:
            variable = f"name another variable with {options.flag('judge-api-key-env')}"
            way = f"use recorded and cached judgments with {options.flag('judge')} none"
            raise ConfigError(f"{problem.fact}; set it, {variable}, or {way}") from None
        if options.budget_usd is not None and price_of(judge) is None:
            fact = f"the price of judge '{judge.name}' is unknown, so {options.flag('budget-usd')} cannot be enforced"
            form = "price: [US$ per million prompt tokens, per million completion tokens]"
            raise ConfigError(f"{fact}; give it in a profile ({form}) or omit the budget")


def judged(
    work: Worklist, resolved: Resolved, options: GateOptions, budget: Budget | None
) -> tuple[list[Judgment], float | None]:
    """One judgment per trace (`error`: there is none), and the US$ paid now (None: unknown).

    Call `check_callable` first: it reports configuration errors before anything is paid.
    """
    rubric = work.spec.rubric
    try:
        chosen = replace(options, drift=False)  # which options of judge's own answers cannot have
        chosen = chosen if resolved.live else replace(chosen, offline=True, refresh=False)
        table = judge_worklist(work, chosen, budget=budget)
    except JudgeError as problem:
        text = f"no judge answered and nothing was scored ({REDACTED})" if options.redact else str(problem)
        return [Judgment(rubric.id, rubric.version, error=f"could not be judged: {text}")] * len(work.inputs), 0.0
    parts = {str(at): verdict_parts(work.spec, hashes[0]) for at, hashes in enumerate(work.hashes)}
    judgments = list(judgments_of(table, rubric, work.spec.rules, parts).values())
    judgments = _with_misses(work, judgments, options, table["error"].tolist())
    if options.no_promoted:
        judgments = _refuse_promoted(judgments, options)
    paid = Bill.of(table, "live")
    return judgments, None if paid.n_unpriced else paid.known_usd


def _with_misses(work: Worklist, judgments: list[Judgment], options: GateOptions, errors: list[Any]) -> list[Judgment]:
    """The judgments; if samples are not cached and no judge may be called, an error describes the nearest entry."""
    store, n_looked_up, checked = ReplyStore.open(options.cache), 0, list[Judgment]()
    size = work.n_rows // max(1, len(work.inputs))
    for at, judgment in enumerate(judgments):
        if not (n_misses := (judgment.reasons or {}).get("cache_miss", 0)):
            checked.append(judgment)
            continue
        n_looked_up += 1
        row = next(row for row in range(at * size, (at + 1) * size) if errors[row] == "cache_miss")
        near = nearest(work, store, row) if n_looked_up <= _MOST_NEAREST else None
        differs = "; ".join(f"{name}: {old} cached, {new} needed" for name, (old, new) in (near or {}).items())
        rubric, judges = work.spec.rubric, " and ".join(judge.name for judge in work.spec.judges)
        fact = f"cache miss: {n_misses} of {counted(size, 'sample')} of {rubric.id}@{rubric.version} by {judges}"
        why = differs or "nothing is cached for this input"
        checked.append(replace(judgment, error=f"{fact} are not cached ({why})"))
    return checked


def promoted_keys(judgments: Iterable[Judgment], options: GateOptions) -> set[str]:
    """The reply keys of these judgments whose replies were promoted from another rubric version."""
    store = ReplyStore.open(options.cache)
    keys = {bytes.fromhex(key) for judgment in judgments for key in judgment.keys}
    return {key.hex() for key in store.get_many(keys).keys() - store.get_many(keys, promoted=False).keys()}


def _refuse_promoted(judgments: list[Judgment], options: GateOptions) -> list[Judgment]:
    refused, checked = promoted_keys(judgments, options), list[Judgment]()
    for judgment in judgments:
        count = sum(key in refused for key in judgment.keys)
        fact = f"the judgment uses {counted(count, 'promoted reply', 'promoted replies')}, which --no-promoted rejects"
        checked.append(replace(judgment, error=f"{fact}; judge again with --judge-refresh") if count else judgment)
    return checked
